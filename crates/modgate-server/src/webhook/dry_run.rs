//! `PUT /v1/dryrun`: KubeMod's dry-run API (spec `kubemod.md`, 7.9).

use std::sync::Arc;

use axum::{
    body::to_bytes,
    extract::{Request, State},
    http::StatusCode,
    response::Response,
};
use modgate_engine::modrule::dry_run;
use modgate_value::{
    Object, Value,
    json::{self, Escape},
};

use super::{App, is_json, respond};

pub(super) async fn answer(State(app): State<Arc<App>>, request: Request) -> Response {
    let Some(world) = app.current.load() else {
        return error(StatusCode::SERVICE_UNAVAILABLE, "policies are not loaded yet");
    };
    // Without this type KubeMod reads the body as a form, which never has the members it needs.
    let json = is_json(&request);
    let limits = &app.limits;
    let deadline = tokio::time::Instant::now() + limits.time;
    let body = to_bytes(request.into_body(), limits.body_bytes);
    let body = match tokio::time::timeout(limits.time, body).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => {
            let message = format!(
                "request body cannot be read or is larger than {} bytes",
                limits.body_bytes
            );
            return error(StatusCode::PAYLOAD_TOO_LARGE, &message);
        }
        Err(_) => return error(StatusCode::REQUEST_TIMEOUT, "request body not received in time"),
    };
    let answered = app
        .evaluators
        .run(limits.time, |turn| {
            let request = if json {
                Value::from_json(&body).map_err(|error| error.to_string())?
            } else {
                Value::from(Object::default())
            };
            let objects = world.objects.pausing(turn, deadline);
            dry_run(&request, world.snapshot.config(), &objects).map_err(|error| error.to_string())
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
