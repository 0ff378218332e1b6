//! `PUT /v1/dryrun`: KubeMod's dry-run API (spec `kubemod.md`, 7.9).

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::StatusCode,
    response::Response,
};
use modgate_engine::dry_run;
use modgate_value::{
    Object, Str, Value,
    json::{self, Escape},
};

use super::{
    App,
    admission::{NO_ROOM, too_large},
    body::{Missing, too_many},
    evaluators::Flow,
    is_json, respond,
    schedule::DRY_RUN,
};

pub(super) async fn answer(State(app): State<Arc<App>>, request: Request) -> Response {
    let Some(policies) = app.current.load() else {
        return error(StatusCode::SERVICE_UNAVAILABLE, "policies are not loaded yet");
    };
    // With another content type KubeMod parses the body as a form, which never has the required
    // members.
    let json = is_json(&request);
    let limits = &app.limits;
    let deadline = tokio::time::Instant::now() + limits.time;
    let received =
        app.bodies.receive_counted(request.into_body(), limits.body_bytes, deadline).await;
    let body = match received {
        Ok(body) => body,
        Err(missing) => {
            let (status, message) = match missing.why {
                Missing::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, too_large(limits)),
                Missing::TooMany => (StatusCode::PAYLOAD_TOO_LARGE, too_many()),
                Missing::Broken => {
                    (StatusCode::BAD_REQUEST, "request body ended before it was complete".into())
                }
                Missing::Late => {
                    (StatusCode::REQUEST_TIMEOUT, "request body not received in time".into())
                }
                Missing::Overload => (StatusCode::SERVICE_UNAVAILABLE, NO_ROOM.into()),
            };
            return error(status, &message);
        }
    };
    let body = body.bytes();
    let flow = Flow { route: DRY_RUN, namespace: Str::default() };
    let answered = app
        .evaluators
        .run(flow, limits.time, |slot| {
            let request = if json {
                Value::from_json(body).map_err(|error| error.to_string())?
            } else {
                Value::from(Object::default())
            };
            let objects = policies.objects.yielding(slot, deadline);
            dry_run(&request, policies.snapshot.config(), &objects)
                .map_err(|error| error.to_string())
        })
        .await;
    match answered {
        Ok(Ok(answer)) => json_response(StatusCode::OK, &answer),
        Ok(Err(message)) => error(StatusCode::BAD_REQUEST, &message),
        Err(failure) => {
            tracing::error!(target: "webapp", route = "/v1/dryrun", error = %failure, "request failed");
            error(StatusCode::INTERNAL_SERVER_ERROR, &failure.to_string())
        }
    }
}

fn error(status: StatusCode, message: &str) -> Response {
    let body: Object = [("error", Value::from(message))].into_iter().collect();
    json_response(status, &body.into())
}

fn json_response(status: StatusCode, body: &Value) -> Response {
    let mut text = String::new();
    json::write(body, &mut text, Escape::Html);
    respond(status, "application/json; charset=utf-8", text)
}
