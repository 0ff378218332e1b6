//! Bindings of Pods, through the router. Any client that reaches the webhook can send one.

#![allow(clippy::expect_used, reason = "test code, helpers included")]

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    body::Body,
    http::{Request, Response},
};
use kube::{Client, client::Body as KubeBody};
use modgate_cluster::{ApiLookup, Operations};
use modgate_engine::{Snapshot, constraint::Inventory};
use modgate_policies::{Objects, PolicySet};
use modgate_server::{
    App, Bodies, Evaluators, GatekeeperConfig, Readiness, RequestLimits, Routes, router,
};
use modgate_telemetry::metrics::Metrics;
use tokio::runtime::Handle;
use tower::{ServiceExt as _, service_fn};

const POD: &str = r#"{"metadata": {"name": "p", "namespace": "n", "uid": "u-p", "annotations":
    {"ref.kubemod.io/inject-node-ref": "true"}}, "spec": {}}"#;
const NOT_FOUND: &str = r#"{"kind": "Status", "code": 404, "reason": "NotFound",
    "status": "Failure", "message": "nodes not found"}"#;

/// An API server with one Node and one Pod, and the requests it receives.
fn api_server() -> (Client, Arc<Mutex<Vec<String>>>) {
    let received = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&received);
    let service = service_fn(move |request: Request<KubeBody>| {
        let log = Arc::clone(&log);
        async move {
            let path = request.uri().path();
            log.lock().expect("no panic").push(format!("{} {path}", request.method()));
            let (status, body) = match path.split_once("/nodes/") {
                None => (200, POD),
                Some((_, "node-7")) => (200, r#"{"metadata": {"name": "node-7"}}"#),
                Some(_) => (404, NOT_FOUND),
            };
            let body = KubeBody::from(body.as_bytes().to_vec());
            Ok::<_, Infallible>(Response::builder().status(status).body(body).expect("response"))
        }
    });
    (Client::new(service, "gatekeeper-system"), received)
}

/// Sends a binding to the webhook of a process in this cluster.
async fn send(client: Client, node: &str, uid: &str) {
    let app = App {
        current: Arc::default(),
        metrics: Arc::new(Metrics::new()),
        evaluators: Evaluators::new(1),
        bodies: Bodies::default(),
        limits: RequestLimits::default(),
        gatekeeper: GatekeeperConfig::default(),
        operations: Operations::default(),
        readiness: Readiness::default(),
    };
    let lookup = ApiLookup::new(client, Handle::current(), Duration::from_secs(60));
    app.current.store(Arc::new(PolicySet {
        snapshot: Snapshot::default(),
        objects: Objects::of_cluster(Arc::new(lookup)),
        inventory: Inventory::default(),
    }));
    let review = format!(
        r#"{{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {{
            "uid": "u-1", "operation": "CREATE", "namespace": "n", "subResource": "binding",
            "resource": {{"group": "", "version": "v1", "resource": "pods"}},
            "object": {{"kind": "Binding",
                        "metadata": {{"name": "p", "namespace": "n", "uid": "{uid}"}},
                        "target": {{"kind": "Node", "name": "{node}"}}}}}}}}"#
    );
    let request = Request::post("/podbinding-webhook")
        .header("content-type", "application/json")
        .body(Body::from(review))
        .expect("request");
    let response = router(Arc::new(app), Routes::All).oneshot(request).await;
    assert_eq!(response.expect("infallible").status(), 200);
}

#[tokio::test]
async fn a_forged_binding_writes_nothing() {
    for (node, uid, writes) in [
        ("node-7", "u-p", true),
        ("node-8", "u-p", false),
        ("whatever the attacker likes", "u-p", false),
        ("node-7", "another", false),
    ] {
        let (client, received) = api_server();
        send(client, node, uid).await;
        let received = received.lock().expect("no panic").clone();
        let wrote = received.iter().any(|line| line.starts_with("PATCH"));
        assert_eq!(wrote, writes, "{node} {uid}: {received:?}");
    }
}
