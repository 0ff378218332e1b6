//! Failures of modgate itself: each is answered as `--internal-errors` says, and names its cause in the
//! log and in a metric.

#![allow(clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::{
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    body::Body,
    http::{Request, StatusCode},
};
use futures_util::future::BoxFuture;
use http_body_util::BodyExt as _;
use modgate_engine::{
    EngineConfig, HostError, Snapshot,
    admissionpolicy::{Access, Action},
    constraint::Inventory,
    modrule::PodBinding,
};
use modgate_policies::{ClusterLookup, NotBound, Objects, PolicySet};
use modgate_server::{
    App, Bodies, Evaluators, GatekeeperConfig, OnFailure, RequestLimits, Routes, router,
};
use modgate_value::Value;
use tower::ServiceExt as _;
use tracing::{Event, Subscriber, field::Visit};
use tracing_subscriber::{Layer, layer::Context, layer::SubscriberExt as _, registry};

/// As an API server makes one for each call of a webhook.
const UID: &str = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";

fn review() -> String {
    format!(
        r#"{{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {{
            "uid": "{UID}", "operation": "CREATE", "namespace": "shop", "name": "p",
            "kind": {{"group": "", "version": "v1", "kind": "Pod"}},
            "resource": {{"group": "", "version": "v1", "resource": "pods"}},
            "userInfo": {{"username": "someone"}},
            "object": {{"apiVersion": "v1", "kind": "Pod",
                        "metadata": {{"name": "p", "namespace": "shop"}}}}}}}}"#
    )
}

/// The logged failures, as `cause: error`.
#[derive(Clone, Default)]
struct Failures(Arc<Mutex<Vec<String>>>);

#[derive(Default)]
struct Fields {
    message: String,
    uid: String,
    cause: String,
    error: String,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        match field.name() {
            "message" => self.message = text,
            "request uid" => self.uid = text,
            "cause" => self.cause = text.trim_matches('"').to_owned(),
            "error" => self.error = text,
            _ => {}
        }
    }
}

impl<S: Subscriber> Layer<S> for Failures {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        if fields.message == "review failed" {
            assert_eq!(fields.uid, UID);
            let line = format!("{}: {}", fields.cause, fields.error);
            self.0.lock().expect("no panic").push(line);
        }
    }
}

/// A cluster that does not answer.
#[derive(Debug)]
struct Gone;

impl ClusterLookup for Gone {
    fn get(&self, _: &str, _: &str) -> Result<Option<Value>, HostError> {
        Err(HostError::Unread("the API server does not answer".to_owned()))
    }

    fn access(&self, _: &Action<'_>) -> Result<Access, HostError> {
        Err(HostError::Unread("the API server does not answer".to_owned()))
    }

    fn bind<'a>(&'a self, _: &'a PodBinding) -> BoxFuture<'a, Result<(), NotBound>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

fn policies(objects: Objects) -> Arc<PolicySet> {
    let snapshot = Snapshot::new(EngineConfig::default());
    Arc::new(PolicySet { snapshot, objects, inventory: Inventory::default() })
}

/// A server without slots, to which reviews come that all have to wait.
fn without_slots(milliseconds: u64) -> App {
    let limits =
        RequestLimits { time: Duration::from_millis(milliseconds), ..RequestLimits::default() };
    App { evaluators: Evaluators::new(0), limits, ..App::default() }
}

/// Cause, webhook, a server that fails for it, reviews that come before, and a part of the log line.
type Case = (&'static str, &'static str, fn() -> App, usize, &'static str);

const CASES: [Case; 5] = [
    ("no_slot", "/v1/admit", || without_slots(5), 0, "no evaluation slot was free within 5 ms"),
    ("no_slot", "/mutate", || without_slots(5), 0, "no evaluation slot was free within 5 ms"),
    ("queue_full", "/dragnet-webhook", || without_slots(60_000), 4096, "4096 requests wait"),
    (
        "body_memory",
        "/validate",
        || App { bodies: Bodies::new(10, Default::default()), ..App::default() },
        0,
        "request bodies take all the memory",
    ),
    ("lookup", "/v1/admit", App::default, 0, "the API server does not answer"),
];

#[test]
fn each_failure_of_ours_names_its_cause() {
    for (cause, path, app, before, error) in CASES {
        for (on_failure, status) in [
            (OnFailure::FailurePolicy, StatusCode::INTERNAL_SERVER_ERROR),
            (OnFailure::Deny, StatusCode::OK),
            (OnFailure::Allow, StatusCode::OK),
        ] {
            let failures = Failures::default();
            let subscriber = registry().with(failures.clone());
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let (code, body, metrics) = tracing::subscriber::with_default(subscriber, || {
                runtime.expect("a runtime").block_on(async {
                    let mut app = app();
                    app.gatekeeper = GatekeeperConfig { on_failure, ..GatekeeperConfig::default() };
                    app.current.store(policies(Objects::of_cluster(Arc::new(Gone))));
                    fails(Arc::new(app), path, before).await
                })
            });
            assert_eq!(code, status, "{cause}: {body}");
            let logged = failures.0.lock().expect("no panic").clone();
            assert_eq!(logged.len(), 1, "{cause}: {logged:?}");
            assert!(logged[0].starts_with(&format!("{cause}: ")), "{logged:?}");
            assert!(logged[0].contains(error), "{logged:?}");
            let line = format!(
                "modgate_undecided_reviews_total{{webhook=\"{path}\",cause=\"{cause}\"}} 1\n"
            );
            assert!(metrics.contains(&line), "{cause}\n{metrics}");
            let allowed = format!(r#""allowed":{}"#, on_failure == OnFailure::Allow);
            assert_eq!(body.contains(&allowed), status == StatusCode::OK, "{body}");
        }
    }
}

/// A server that has no policies yet says so, with a status on which the failure policy decides.
#[tokio::test]
async fn a_server_without_policies_counts_reviews() {
    let (code, body, metrics) = fails(Arc::new(App::default()), "/mutate", 0).await;
    assert_eq!(
        (code, body.as_str()),
        (StatusCode::SERVICE_UNAVAILABLE, "policies are not loaded yet")
    );
    let line = r#"modgate_undecided_reviews_total{webhook="/mutate",cause="no_policies"} 1"#;
    assert!(metrics.contains(line), "{metrics}");
}

/// Status, body and metrics of a review that comes after others which wait.
async fn fails(app: Arc<App>, path: &str, before: usize) -> (StatusCode, String, String) {
    let routes = router(Arc::clone(&app), Routes::All);
    let ask = |path: &str| {
        let request = Request::post(path).header("content-type", "application/json");
        routes.clone().oneshot(request.body(Body::from(review())).expect("a request"))
    };
    let mut waiting = Vec::new();
    for _ in 0..before {
        let mut request = Box::pin(ask(path));
        assert!(futures_util::poll!(request.as_mut()).is_pending());
        waiting.push(request);
    }
    let answer = ask(path).await.expect("infallible");
    let status = answer.status();
    let body = answer.into_body().collect().await.expect("a body").to_bytes();
    let body = String::from_utf8(body.to_vec()).expect("text");
    (status, body, app.metrics.encode())
}
