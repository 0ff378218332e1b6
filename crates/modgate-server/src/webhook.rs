//! The webhooks and everything else that is served over HTTP.

mod admission;
mod body;
mod bounds;
pub(crate) mod demoted;
mod dry_run;
mod evaluators;
mod events;
mod front;
mod gatekeeper;
mod health;
mod modrule;
mod permit;
mod record;
mod routes;
mod schedule;
mod templates;
mod trace;
mod violation;

pub(crate) use admission::meter;
pub use body::Bodies;
pub(crate) use body::Missing;
pub(crate) use evaluators::EvaluationSlot;
pub use evaluators::Evaluators;
pub(crate) use evaluators::{EvaluationError, Flow, processors};
pub use events::AdmissionEvents;
pub use gatekeeper::{GatekeeperConfig, LateRejections, OnFailure};
pub use health::Readiness;
pub(crate) use health::checks;
pub(crate) use schedule::DRY_RUN;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header},
    response::Response,
    routing::{any, get, post, put},
};
use modgate_cluster::Operations;
use modgate_policies::PolicyHandle;
use modgate_telemetry::metrics::{Format, Metrics, Webhook};
use modgate_traffic::Traffic;
use modgate_value::MAX_JSON_DEPTH;

use self::routes::is_served;
use crate::decisions::Decisions;

/// Limits for one request.
#[derive(Debug, Clone)]
pub struct RequestLimits {
    /// Maximum size of a request body in bytes; not more than that of all bodies ([`Bodies`]).
    pub body_bytes: usize,
    /// Maximum nesting depth of a review.
    pub max_depth: usize,
    /// Maximum bytes of all bodies that are being received or evaluated.
    pub all_bodies_bytes: usize,
    /// Time to receive the body and wait for a slot, unless the API server's `?timeout=` is
    /// shorter. KubeMod configures 10 s for its webhooks (spec `kubemod.md`, 7.1).
    pub time: Duration,
    /// How long a constraint waits for its template to load, at most until shortly before
    /// [`time`](Self::time) ends. Gatekeeper's webhook has 3 s in total.
    pub template: Duration,
    /// Timeout for reading an object from the API server during a request. A webhook has 10 s in
    /// total, or 3 s if it is configured as Gatekeeper's.
    pub object: Duration,
}

impl RequestLimits {
    /// The largest review that an API server sends, in bytes. It accepts objects of 3 MiB, sends
    /// the object and the old object, and writes `<`, `>` and `&` as six bytes each; 1 MiB is for
    /// the rest.
    pub const LARGEST_REVIEW: usize = (2 * 6 * 3 + 1) << 20;
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            body_bytes: Self::LARGEST_REVIEW,
            max_depth: MAX_JSON_DEPTH,
            all_bodies_bytes: Bodies::DEFAULT_BYTES,
            time: Duration::from_secs(10),
            template: Duration::from_secs(2),
            object: Duration::from_secs(1),
        }
    }
}

/// State that all handlers share. The default has no policies and counts nothing that others read.
#[derive(Debug, Default)]
pub struct App {
    /// The policies in force.
    pub current: Arc<PolicyHandle>,
    /// The metrics of the process.
    pub metrics: Arc<Metrics>,
    /// Turns for evaluation.
    pub evaluators: Evaluators,
    /// The budget of all request bodies.
    pub bodies: Bodies,
    /// Bounds on requests.
    pub limits: RequestLimits,
    /// Settings of Gatekeeper's webhooks.
    pub gatekeeper: GatekeeperConfig,
    /// The operations assigned to this process (`--operation`).
    pub operations: Operations,
    /// Readiness, apart from that of policies.
    pub readiness: Readiness,
    /// Records and second decisions.
    pub traffic: Traffic,
    /// The last decisions, if the live page shows them.
    pub decisions: Option<Arc<Decisions>>,
}

/// Which routes a listener serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Routes {
    /// All of them.
    All,
    /// All but `/v1/dryrun`, which has no authentication.
    AllButDryRun,
    /// `/healthz` and `/readyz`.
    Health,
    /// `/metrics`, and `/shadow` if there is one.
    Metrics,
    /// `/v1/dryrun`.
    DryRun,
}

/// The service for a listener.
pub fn router(app: Arc<App>, routes: Routes) -> Router {
    let mut router = Router::new();
    let is_main = matches!(routes, Routes::All | Routes::AllButDryRun);
    if is_main {
        for webhook in Webhook::ALL.into_iter().filter(|it| is_served(*it, &app.operations)) {
            let handler = move |State(app): State<Arc<App>>, request: Request| async move {
                admission::answer(&app, webhook, request).await
            };
            router = router.route(webhook.path(), post(handler).fallback(not_allowed));
        }
    }
    if is_main || routes == Routes::Health {
        router = health::routes(router);
    }
    if is_main || routes == Routes::Metrics {
        router = router.route("/metrics", get(scrape));
    }
    if routes == Routes::Metrics && app.traffic.shadow.is_some() {
        router = router.route("/shadow", get(shadow));
    }
    if matches!(routes, Routes::All | Routes::DryRun) {
        router = router.route("/v1/dryrun", put(dry_run::answer).fallback(not_found));
    }
    router.fallback(any(not_found)).with_state(app)
}

async fn scrape(State(app): State<Arc<App>>, request: Request) -> Response {
    let accept = request.headers().get_all(header::ACCEPT).iter();
    let format = Format::accepted(accept.filter_map(|header| header.to_str().ok()));
    respond(StatusCode::OK, format.content_type(), app.metrics.encode_as(format))
}

async fn shadow(State(app): State<Arc<App>>) -> Response {
    match &app.traffic.shadow {
        Some(shadow) => {
            respond(StatusCode::OK, "application/json", shadow.report().to_json() + "\n")
        }
        None => not_found().await,
    }
}

/// The answer of Go's HTTP servers.
async fn not_found() -> Response {
    respond(StatusCode::NOT_FOUND, "text/plain", "404 page not found")
}

async fn not_allowed() -> Response {
    let mut response =
        respond(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "post an AdmissionReview here\n");
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
    response
}

fn respond(status: StatusCode, content_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Whether the content type is JSON, with or without parameters.
pub(crate) fn is_json(request: &Request) -> bool {
    content_type(request)
        .split(';')
        .next()
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

fn content_type(request: &Request) -> &str {
    let value = request.headers().get(header::CONTENT_TYPE);
    value.and_then(|value| value.to_str().ok()).unwrap_or_default()
}
