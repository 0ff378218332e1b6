//! `/healthz` and `/readyz`, with KubeMod's check names and `?verbose` (spec `kubemod.md`, 7.7).

use std::{fmt::Write as _, sync::Arc};

use axum::{
    Router,
    extract::{Request, State},
    http::StatusCode,
    response::Response,
    routing::get,
};

use super::{App, respond};

/// Adds the probes. KubeMod redirects `/healthz` to `/healthz/`; here both answer.
pub(super) fn routes(router: Router<Arc<App>>) -> Router<Arc<App>> {
    router
        .route("/healthz", get(healthy))
        .route("/healthz/", get(healthy))
        .route("/healthz/default", get(healthy))
        .route("/readyz", get(ready))
        .route("/readyz/", get(ready))
        .route("/readyz/tracker", get(ready))
}

/// Whoever can answer is alive.
async fn healthy(request: Request) -> Response {
    report(&request, "healthz", "default", true)
}

/// Ready as soon as every policy file was read once; from then on the last good policies are
/// enforced whatever becomes of the files.
async fn ready(State(app): State<Arc<App>>, request: Request) -> Response {
    report(&request, "readyz", "tracker", app.current.load().is_some())
}

fn report(request: &Request, probe: &str, check: &str, good: bool) -> Response {
    let status = if good { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
    let query = request.uri().query().unwrap_or_default();
    let verbose = query.split('&').any(|pair| pair.split('=').next() == Some("verbose"));
    if good && !verbose {
        return respond(status, "text/plain", "ok");
    }
    let mut body = String::new();
    let (mark, outcome) = if good { ('+', "ok") } else { ('-', "failed: policies not loaded yet") };
    let _ = writeln!(body, "[{mark}]{check} {outcome}");
    let _ = writeln!(body, "{probe} check {}", if good { "passed" } else { "failed" });
    respond(status, "text/plain", body)
}
