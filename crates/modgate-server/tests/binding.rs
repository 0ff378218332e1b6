//! Bindings of Pods, through the router. Any client that reaches the webhook can send one.

#![allow(clippy::expect_used, reason = "test code, helpers included")]

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    http::{Request, Response},
};
use http_body_util::BodyExt as _;
use kube::{Client, client::Body as KubeBody};
use modgate_cluster::ApiLookup;
use modgate_engine::{
    Change, EngineConfig, OnError, PolicySource, Snapshot, constraint::Inventory,
};
use modgate_policies::{Objects, PolicySet};
use modgate_server::{App, Evaluators, Routes, router};
use modgate_value::{Value, yaml};
use tokio::runtime::Handle;
use tower::{ServiceExt as _, service_fn};

const POD: &str = r#"{"metadata": {"name": "p", "namespace": "n", "uid": "u-p", "annotations":
    {"ref.kubemod.io/inject-node-ref": "true"}}, "spec": {}}"#;
/// It asks for no annotation.
const PLAIN_POD: &str =
    r#"{"metadata": {"name": "p", "namespace": "n", "uid": "u-p"}, "spec": {}}"#;
const BOUND_POD: &str = r#"{"metadata": {"name": "p", "namespace": "n", "uid": "u-p", "annotations":
    {"ref.kubemod.io/inject-node-ref": "true"}}, "spec": {"nodeName": "node-1"}}"#;
const NOT_FOUND: &str = r#"{"kind": "Status", "code": 404, "reason": "NotFound",
    "status": "Failure", "message": "nodes not found"}"#;

/// An API server with one Node, this Pod and no Namespace, and the requests it receives.
fn api_server(pod: &'static str) -> (Client, Arc<Mutex<Vec<String>>>) {
    let received = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&received);
    let service = service_fn(move |request: Request<KubeBody>| {
        let log = Arc::clone(&log);
        async move {
            let path = request.uri().path();
            log.lock().expect("no panic").push(format!("{} {path}", request.method()));
            let (status, body) = match path.split_once("/nodes/") {
                None if path.ends_with("/nowhere") => (404, NOT_FOUND),
                None => (200, pod),
                Some((_, "node-7")) => (200, r#"{"metadata": {"name": "node-7"}}"#),
                Some(_) => (404, NOT_FOUND),
            };
            let body = KubeBody::from(body.as_bytes().to_vec());
            Ok::<_, Infallible>(Response::builder().status(status).body(body).expect("response"))
        }
    });
    (Client::new(service, "gatekeeper-system"), received)
}

/// As an API server makes one for each call of a webhook.
const UID: &str = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";

/// A process in this cluster.
fn process(client: Client) -> Router {
    process_with(client, Snapshot::default())
}

fn process_with(client: Client, snapshot: Snapshot) -> Router {
    let app = App { evaluators: Evaluators::new(1), ..App::default() };
    let lookup = ApiLookup::new(client, Handle::current(), Duration::from_secs(60));
    app.current.store(Arc::new(PolicySet {
        snapshot,
        objects: Objects::of_cluster(Arc::new(lookup)),
        inventory: Inventory::default(),
    }));
    router(Arc::new(app), Routes::All)
}

async fn post(router: Router, path: &str, review: String) -> Value {
    let request = Request::post(path)
        .header("content-type", "application/json")
        .body(Body::from(review))
        .expect("request");
    let response = router.oneshot(request).await.expect("infallible");
    assert_eq!(response.status(), 200);
    let body = response.into_body().collect().await.expect("body").to_bytes();
    Value::from_json(&body).expect("JSON")
}

/// Sends a binding to the webhook of a process in this cluster, in a request with this uid.
async fn send(client: Client, node: &str, uid: &str, request_uid: &str) {
    let review = format!(
        r#"{{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {{
            "uid": "{request_uid}", "operation": "CREATE", "namespace": "n", "subResource": "binding",
            "kind": {{"group": "", "version": "v1", "kind": "Binding"}},
            "userInfo": {{"username": "system:kube-scheduler"}},
            "resource": {{"group": "", "version": "v1", "resource": "pods"}},
            "object": {{"kind": "Binding",
                        "metadata": {{"name": "p", "namespace": "n", "uid": "{uid}"}},
                        "target": {{"kind": "Node", "name": "{node}"}}}}}}}}"#
    );
    post(process(client), "/podbinding-webhook", review).await;
}

#[tokio::test]
async fn a_forged_binding_writes_nothing() {
    for (pod, node, uid, request_uid, writes) in [
        (POD, "node-7", "u-p", UID, true),
        (POD, "node-8", "u-p", UID, false),
        (POD, "whatever the attacker likes", "u-p", UID, false),
        (POD, "node-7", "another", UID, false),
        (POD, "node-7", "u-p", "u-1", false),
        (PLAIN_POD, "node-7", "u-p", UID, false),
        (BOUND_POD, "node-7", "u-p", UID, false),
    ] {
        let (client, received) = api_server(pod);
        send(client, node, uid, request_uid).await;
        let received = received.lock().expect("no panic").clone();
        let wrote = received.iter().any(|line| line.starts_with("PATCH"));
        assert_eq!(wrote, writes, "{pod} {node} {uid}: {received:?}");
    }
}

/// A Reject rule that reads the Namespace.
const RULE: &str = "{apiVersion: api.kubemod.io/v1beta1, kind: ModRule, \
    metadata: {name: r, namespace: kubemod-system}, spec: {type: Reject, \
    targetNamespaceRegex: '.*', match: [{select: '$.syntheticRefs.namespace.metadata.labels.a'}]}}";

/// A process with [`RULE`]. No watch has reported a Namespace.
fn process_that_reads(client: Client) -> Router {
    let source = PolicySource::of_object(yaml::value(RULE).expect(RULE));
    let snapshot = Snapshot::new(EngineConfig::default());
    process_with(client, snapshot.apply(vec![Change::Upsert(source)], OnError::Unload).snapshot)
}

/// The creation of a ConfigMap in a request with this uid.
fn config_map(uid: &str, namespace: &str) -> String {
    format!(
        r#"{{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {{
            "uid": "{uid}", "operation": "CREATE", "namespace": "{namespace}", "name": "c",
            "kind": {{"group": "", "version": "v1", "kind": "ConfigMap"}},
            "resource": {{"group": "", "version": "v1", "resource": "configmaps"}},
            "userInfo": {{"username": "me"}},
            "object": {{"apiVersion": "v1", "kind": "ConfigMap",
                        "metadata": {{"name": "c", "namespace": "{namespace}"}}}}}}}}"#
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_no_api_server_sends_reads_nothing() {
    for (uid, reads, allowed) in [(UID, true, true), ("u-1", false, false)] {
        let (client, received) = api_server(POD);
        let router = process_that_reads(client);
        let answer = post(router, "/dragnet-webhook", config_map(uid, "n")).await;
        let received = received.lock().expect("no panic").clone();
        let asked = received.iter().any(|line| line == "GET /api/v1/namespaces/n");
        assert_eq!(asked, reads, "{received:?}");
        // What could not be read is undecided, and an undecided rule rejects (Q-36).
        let found = answer.path(&["response", "allowed"]).cloned();
        assert_eq!(found, Some(Value::from(allowed)), "{}", answer.to_json());
    }
}

/// Requests that name a Namespace that does not exist cost the API server one request, not one each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_namespace_is_not_read_for_every_request() {
    let (client, received) = api_server(POD);
    let router = process_that_reads(client);
    let start = std::time::Instant::now();
    for _ in 0..20 {
        post(router.clone(), "/dragnet-webhook", config_map(UID, "nowhere")).await;
    }
    let received = received.lock().expect("no panic").len();
    // Once a second.
    let most = usize::try_from(start.elapsed().as_secs()).expect("a number") + 1;
    assert!((1..=most).contains(&received), "{received} of at most {most}");
}
