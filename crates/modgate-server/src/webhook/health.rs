//! `/healthz` and `/readyz`, with the originals' check names and `?verbose` (spec `kubemod.md`, 7.7;
//! `gatekeeper-validation`, 9.3).

use std::{
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use arc_swap::ArcSwapOption;
use axum::{
    Router,
    extract::{Request, State},
    http::StatusCode,
    response::Response,
    routing::get,
};

use super::{App, respond};
use crate::tls::LoopbackCheck;

/// Readiness, apart from that of policies.
#[derive(Debug, Default)]
pub struct Readiness {
    stopping: AtomicBool,
    /// Whether the API server can reach the webhooks, or why not: no certificate, or an untrusted
    /// one. `None` if modgate does not check this.
    reachable: ArcSwapOption<Result<(), String>>,
    /// The check of the certificate that the webhooks' listener presents, if it is on.
    loopback: ArcSwapOption<LoopbackCheck>,
}

impl Readiness {
    /// Reports unready from now on.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Sets whether the API server can reach the webhooks, or why not.
    pub(crate) fn set_reachable(&self, reachable: Result<(), String>) {
        self.reachable.store(Some(Arc::new(reachable)));
    }

    /// Adds `tls-check` to `/healthz` (HE-1).
    pub(crate) fn check_loopback(&self, check: LoopbackCheck) {
        self.loopback.store(Some(Arc::new(check)));
    }
}

/// A check: its name, and its error if it fails.
pub(crate) type Check = (&'static str, Result<(), String>);

/// Adds the probes. KubeMod redirects `/healthz` to `/healthz/`; here both answer.
pub(super) fn routes(router: Router<Arc<App>>) -> Router<Arc<App>> {
    router
        .route("/healthz", get(healthy))
        .route("/healthz/", get(healthy))
        .route("/healthz/default", get(alive))
        .route("/healthz/tls-check", get(healthy))
        .route("/readyz", get(ready))
        .route("/readyz/", get(ready))
        .route("/readyz/tracker", get(tracked))
        .route("/readyz/tls-check", get(reachable))
}

/// A process that answers is alive.
async fn alive(request: Request) -> Response {
    report(&request, "healthz", &[("default", Ok(()))])
}

async fn healthy(State(app): State<Arc<App>>, request: Request) -> Response {
    let mut checks = vec![("default", Ok(()))];
    let loopback = app.readiness.loopback.load_full();
    if let Some(loopback) = loopback {
        checks.push(("tls-check", loopback.run().await));
    }
    report(&request, "healthz", &checks)
}

/// Ready once every policy has been read and the webhooks are reachable. From then on modgate
/// enforces the last good policies, even if their source fails.
async fn ready(State(app): State<Arc<App>>, request: Request) -> Response {
    report(&request, "readyz", &checks(&app))
}

/// The checks of readiness.
pub(crate) fn checks(app: &App) -> Vec<Check> {
    [Some(tracker(app)), tls(app), shutdown(app)].into_iter().flatten().collect()
}

async fn tracked(State(app): State<Arc<App>>, request: Request) -> Response {
    report(&request, "readyz", &[tracker(&app)])
}

async fn reachable(State(app): State<Arc<App>>, request: Request) -> Response {
    let checks: Vec<_> = tls(&app).into_iter().collect();
    report(&request, "readyz", &checks)
}

fn tracker(app: &App) -> Check {
    ("tracker", app.current.not_ready().map_or(Ok(()), Err))
}

fn tls(app: &App) -> Option<Check> {
    let reachable = app.readiness.reachable.load_full()?;
    Some(("tls-check", reachable.as_ref().clone()))
}

fn shutdown(app: &App) -> Option<Check> {
    let stopping = app.readiness.stopping.load(Ordering::Relaxed);
    stopping.then(|| ("shutdown", Err("process is stopping".to_owned())))
}

fn report(request: &Request, probe: &str, checks: &[Check]) -> Response {
    let good = checks.iter().all(|(_, outcome)| outcome.is_ok());
    let status = if good { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
    let query = request.uri().query().unwrap_or_default();
    let verbose = query.split('&').any(|pair| pair.split('=').next() == Some("verbose"));
    if good && !verbose {
        return respond(status, "text/plain", "ok");
    }
    let mut body = String::new();
    for (check, outcome) in checks {
        let _ = match outcome {
            Ok(()) => writeln!(body, "[+]{check} ok"),
            Err(reason) => writeln!(body, "[-]{check} failed: {reason}"),
        };
    }
    let _ = writeln!(body, "{probe} check {}", if good { "passed" } else { "failed" });
    respond(status, "text/plain", body)
}
