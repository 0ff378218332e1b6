//! Real AdmissionReviews through the router, without a socket.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

use std::{path::Path, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    http::{Request, StatusCode, header},
};
use http_body_util::BodyExt as _;
use modgate_cluster::ClusterConfig;
use modgate_engine::EngineConfig;
use modgate_policies::{PolicyFiles, PolicyStore};
use modgate_server::{
    App, CertificateSource, Evaluators, GatekeeperConfig, OnFailure, PolicyOrigin, RequestLimits,
    Routes, ServeConfig, router,
};
use modgate_value::Value;
use tower::ServiceExt as _;

const RULES: &str = r#"
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: patch, namespace: ns}
spec:
  type: Patch
  match: [{select: '$.kind', matchValue: Pod}]
  patch: [{op: add, path: /metadata/labels/seen, value: '{{ .Namespace }}'}]
---
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: reject, namespace: ns}
spec:
  type: Reject
  rejectMessage: 'not {{ .Target.metadata.name }}'
  match: [{select: '$.metadata.labels.bad'}]
"#;

struct Server {
    app: Arc<App>,
    router: Router,
}

impl Server {
    fn with(evaluators: Evaluators, limits: RequestLimits) -> Self {
        Self::configured(evaluators, limits, GatekeeperConfig::default())
    }

    fn configured(
        evaluators: Evaluators,
        limits: RequestLimits,
        gatekeeper: GatekeeperConfig,
    ) -> Self {
        let app = Arc::new(App { evaluators, limits, gatekeeper, ..App::default() });
        Self { router: router(Arc::clone(&app), Routes::All), app }
    }

    fn empty() -> Self {
        Self::with(Evaluators::new(1), RequestLimits::default())
    }

    fn load(self, policies: &Path) -> Self {
        self.load_with(policies, EngineConfig::default())
    }

    fn load_with(self, policies: &Path, config: EngineConfig) -> Self {
        let files = PolicyFiles { policies: vec![policies.to_owned()], objects: Vec::new() };
        let mut store = PolicyStore::new(files, config);
        let findings = store.refresh().findings;
        assert!(findings.is_empty(), "{findings:?}");
        self.app.current.store(Arc::clone(store.policies()));
        self
    }

    fn loaded() -> Self {
        let dir = tempfile::tempdir().expect("dir");
        std::fs::write(dir.path().join("rules.yaml"), RULES).expect("rules");
        Self::empty().load(dir.path())
    }

    async fn send(&self, request: Request<Body>) -> (StatusCode, String) {
        let response = self.router.clone().oneshot(request).await.expect("infallible");
        let status = response.status();
        let body = response.into_body().collect().await.expect("body").to_bytes();
        (status, String::from_utf8(body.to_vec()).expect("text"))
    }

    async fn get(&self, path: &str) -> (StatusCode, String) {
        self.send(Request::get(path).body(Body::empty()).expect("request")).await
    }

    async fn post(&self, path: &str, body: impl Into<Body>) -> (StatusCode, String) {
        self.send(json(Request::post(path), body)).await
    }

    /// The `response` of the review answered to `body`.
    async fn review(&self, path: &str, body: impl Into<Body>) -> Value {
        let (status, body) = self.post(path, body).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        Value::from_json(body.as_bytes()).expect("json").get("response").expect("response").clone()
    }
}

fn json(request: axum::http::request::Builder, body: impl Into<Body>) -> Request<Body> {
    request.header(header::CONTENT_TYPE, "application/json").body(body.into()).expect("request")
}

fn review(version: &str, labels: &str) -> String {
    format!(
        r#"{{"apiVersion": "admission.k8s.io/{version}", "kind": "AdmissionReview", "request": {{
            "uid": "u-1", "kind": {{"group": "", "version": "v1", "kind": "Pod"}},
            "resource": {{"group": "", "version": "v1", "resource": "pods"}},
            "name": "p", "namespace": "ns", "operation": "CREATE",
            "object": {{"apiVersion": "v1", "kind": "Pod",
                        "metadata": {{"name": "p", "namespace": "ns", "labels": {labels}}}}}}}}}"#
    )
}

fn text<'a>(response: &'a Value, path: &[&str]) -> &'a str {
    response.path(path).and_then(Value::as_str).unwrap_or_default()
}

/// The patch of a response, decoded.
fn patch(response: &Value) -> String {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    assert_eq!(text(response, &["patchType"]), "JSONPatch");
    let bytes = STANDARD.decode(text(response, &["patch"])).expect("base64");
    String::from_utf8(bytes).expect("text")
}

#[tokio::test]
async fn dragnet_patches_in_the_version_it_was_asked_in() {
    let server = Server::loaded();
    for version in ["v1", "v1beta1"] {
        let (status, body) = server.post("/dragnet-webhook", review(version, "{}")).await;
        assert_eq!(status, StatusCode::OK);
        let answer = Value::from_json(body.as_bytes()).expect("json");
        assert_eq!(text(&answer, &["apiVersion"]), format!("admission.k8s.io/{version}"));
        assert_eq!(text(&answer, &["kind"]), "AdmissionReview");
        let response = answer.get("response").expect("response");
        assert_eq!(text(response, &["uid"]), "u-1");
        assert_eq!(response.get("allowed"), Some(&Value::from(true)));
        assert_eq!(text(response, &["status", "reason"]), "patched ok");
        assert_eq!(
            patch(response),
            r#"[{"op":"add","path":"/metadata/labels/seen","value":"ns"}]"#
        );
    }
}

#[tokio::test]
async fn dragnet_rejects_with_kubemods_sentence() {
    let response =
        Server::loaded().review("/dragnet-webhook", review("v1", r#"{"bad": "x"}"#)).await;
    assert_eq!(
        response.to_json(),
        r#"{"allowed":false,"status":{"code":403,"metadata":{},"reason":"operation rejected by the following ModRule(s): ns/reject: \"not p\""},"uid":"u-1"}"#
    );
}

/// A ModRule and a constraint with an owner and a remedy. Without annotations the texts are those of
/// the tests around this one.
const OWNED: &str = r#"
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata:
  name: reject
  namespace: ns
  annotations: {modgate.sh/owner: team store, modgate.sh/remediation: remove the label bad}
spec:
  type: Reject
  rejectMessage: 'not {{ .Target.metadata.name }}'
  match: [{select: '$.metadata.labels.bad'}]
---
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: denyall}
spec:
  crd: {spec: {names: {kind: DenyAll}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package denyall
      violation[{"msg": "no"}] { true }
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: DenyAll
metadata:
  name: owned
  annotations:
    modgate.sh/owner: team platform
    modgate.sh/remediation: "ask\nfirst"
    modgate.sh/docs-url: https://example.com/denyall
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: DenyAll
metadata: {name: warns, annotations: {modgate.sh/owner: team warn}}
spec: {enforcementAction: warn}
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: DenyAll
metadata: {name: plain}
"#;

#[tokio::test]
async fn denials_end_with_who_owns_the_policy_and_what_to_do() {
    let dir = tempfile::tempdir().expect("dir");
    std::fs::write(dir.path().join("policies.yaml"), OWNED).expect("policies");
    let server = Server::empty().load(dir.path());
    let response = server.review("/dragnet-webhook", review("v1", r#"{"bad": "x"}"#)).await;
    assert_eq!(
        text(&response, &["status", "reason"]),
        "operation rejected by the following ModRule(s): ns/reject: \"not p\" (owner: team store; \
         fix: remove the label bad)"
    );
    let response = server.review("/v1/admit", review("v1", "{}")).await;
    assert_eq!(
        text(&response, &["status", "message"]),
        "[owned] no (owner: team platform; fix: ask first; see https://example.com/denyall)\n\
         [plain] no"
    );
    let warnings = response.get("warnings").map(Value::to_json);
    assert_eq!(warnings.as_deref(), Some(r#"["[warns] no (owner: team warn)"]"#));
}

/// A privileged Pod that names a Node of no cluster in an annotation of its own (Q-36).
#[tokio::test]
async fn an_annotation_switches_no_rule_off() {
    use modgate_engine::MissingReference::{Allow, Deny, Empty};
    let rules = tempfile::tempdir().expect("dir");
    let reject = "apiVersion: api.kubemod.io/v1beta1\nkind: ModRule\n\
        metadata: {name: no-privileged, namespace: kubemod-system}\n\
        spec: {type: Reject, targetNamespaceRegex: '.*', match: \
        [{select: '$.spec.containers[*].securityContext.privileged', matchValue: 'true'}]}";
    std::fs::write(rules.path().join("rule.yaml"), reject).expect("rule");
    let pod = |privileged: bool, node: &str| {
        format!(
            r#"{{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {{
                "uid": "u-1", "kind": {{"group": "", "version": "v1", "kind": "Pod"}},
                "resource": {{"group": "", "version": "v1", "resource": "pods"}},
                "name": "p", "namespace": "ns", "operation": "CREATE",
                "object": {{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "p",
                    "namespace": "ns", "annotations": {{"ref.kubemod.io/nodename": "{node}"}}}},
                    "spec": {{"containers": [{{"name": "c",
                        "securityContext": {{"privileged": {privileged}}}}}]}}}}}}}}"#
        )
    };
    for (mode, privileged, node, allowed) in [
        (Empty, true, "", false),
        (Empty, true, "nope", false),
        (Empty, false, "nope", true),
        (Allow, true, "", false),
        (Allow, true, "nope", true),
        // No file describes the Namespace.
        (Deny, false, "", false),
        (Deny, false, "nope", false),
    ] {
        let config = EngineConfig { missing_reference: mode, ..EngineConfig::default() };
        let server = Server::empty().load_with(rules.path(), config);
        for path in ["/dragnet-webhook", "/mutate"] {
            let response = server.review(path, pod(privileged, node)).await;
            let case = format!("{mode:?} privileged {privileged} node `{node}` {path}");
            assert_eq!(response.get("allowed"), Some(&allowed.into()), "{case}: {response}");
            let warned = response.to_json().contains("names Node `nope`, which does not exist");
            assert_eq!(warned, mode == Empty && node == "nope", "{case}: {response}");
        }
    }
}

/// KM-5.4: an object that a later webhook brought back.
#[tokio::test]
async fn rejections_of_the_validating_phase() {
    use modgate_server::LateRejections::{Deny, Off, Warn};
    let dir = tempfile::tempdir().expect("dir");
    std::fs::write(dir.path().join("rules.yaml"), RULES).expect("rules");
    for (mode, allowed, warnings, counted) in [
        // No rule is evaluated, so none is counted.
        (Off, true, None, None),
        (
            Warn,
            true,
            Some(
                r#"["ModRule ns/reject: \"not p\" rejects the object as it will be stored; it is admitted"]"#,
            ),
            Some("warned"),
        ),
        (Deny, false, None, Some("rejected")),
    ] {
        let gatekeeper = GatekeeperConfig { late_rejections: mode, ..GatekeeperConfig::default() };
        let server = Server::configured(Evaluators::new(1), RequestLimits::default(), gatekeeper)
            .load(dir.path());
        let response = server.review("/validate", review("v1", r#"{"bad": "yes"}"#)).await;
        assert_eq!(response.get("allowed"), Some(&allowed.into()), "{mode:?} {response}");
        let found = response.get("warnings").map(Value::to_json);
        assert_eq!(found.as_deref(), warnings, "{mode:?}");
        let (_, metrics) = server.get("/metrics").await;
        let counts = "modgate_decisions_total{webhook=\"/validate\"";
        let line = counted
            .map(|decision| format!("{counts},kind=\"ModRule\",decision=\"{decision}\"}} 1"));
        let mut lines = metrics.lines().filter(|line| !line.ends_with(" 0"));
        let found = lines.find(|line| line.starts_with(counts));
        assert_eq!(found, line.as_deref(), "{mode:?}");
        // Nothing to say about the same Pod without the label.
        let good = server.review("/validate", review("v1", "{}")).await;
        assert_eq!(good.get("allowed"), Some(&true.into()));
        assert_eq!(good.get("warnings"), None);
    }
}

/// KM-7.1 label
#[tokio::test]
async fn kubemods_ignore_label_is_guarded() {
    let server = Server::loaded();
    for (name, value, allowed) in [
        ("shop", "true", false),
        ("shop", "false", true),
        ("kube-system", "true", true),
        ("kubemod-system", "true", true),
    ] {
        let request = format!(
            r#"{{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {{
                "uid": "u-1", "kind": {{"group": "", "version": "v1", "kind": "Namespace"}},
                "resource": {{"group": "", "version": "v1", "resource": "namespaces"}},
                "name": "{name}", "namespace": "{name}", "operation": "CREATE",
                "object": {{"apiVersion": "v1", "kind": "Namespace", "metadata": {{"name": "{name}",
                    "labels": {{"admission.kubemod.io/ignore": "{value}"}}}}}}}}}}"#
        );
        let response = server.review("/v1/admitlabel", request).await;
        assert_eq!(response.get("allowed"), Some(&allowed.into()), "{name} {value}: {response}");
    }
}

#[tokio::test]
async fn our_own_webhooks_speak_kubernetes() {
    let dir = tempfile::tempdir().expect("dir");
    std::fs::write(dir.path().join("rules.yaml"), RULES).expect("rules");
    let server = Server::empty().load(dir.path());
    let bad = r#"{"bad": "x"}"#;
    for path in ["/mutate", "/validate"] {
        let response = server.review(path, review("v1", bad)).await;
        assert_eq!(response.get("allowed"), Some(&Value::from(false)), "{path}");
        assert_eq!(text(&response, &["status", "reason"]), "Forbidden");
        assert!(text(&response, &["status", "message"]).ends_with("ns/reject: \"not p\""));
    }
    assert!(server.review("/mutate", review("v1", "{}")).await.get("patch").is_some());
    assert!(server.review("/validate", review("v1", "{}")).await.get("patch").is_none());
}

#[tokio::test]
async fn malformed_requests_are_answered() {
    let server = Server::loaded();
    for (body, code, message) in [
        ("{", 400, "request body is not JSON: "),
        (r#"{"kind": "Pod"}"#, 400, "expected an AdmissionReview, got `Pod`"),
        (
            r#"{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v2", "request": {"uid": "u"}}"#,
            400,
            "AdmissionReview has apiVersion `admission.k8s.io/v2`",
        ),
    ] {
        let response = server.review("/dragnet-webhook", body).await;
        assert_eq!(response.get("allowed"), Some(&Value::from(false)), "{body}");
        assert_eq!(response.path(&["status", "code"]), Some(&Value::from(code)));
        let found = text(&response, &["status", "message"]);
        assert!(found.starts_with(message), "{found}");
    }
    let plain = Request::post("/dragnet-webhook")
        .header(header::CONTENT_TYPE, "text/plain")
        .body(Body::from(review("v1", "{}")))
        .expect("request");
    let (status, body) = server.send(plain).await;
    assert_eq!(status, StatusCode::OK);
    assert!(body.contains("contentType=text/plain, expected application/json"), "{body}");
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused() {
    let limits = RequestLimits { body_bytes: 100, ..RequestLimits::default() };
    let dir = tempfile::tempdir().expect("dir");
    let server = Server::with(Evaluators::new(1), limits).load(dir.path());
    let response = server.review("/dragnet-webhook", review("v1", "{}")).await;
    assert_eq!(response.get("allowed"), Some(&Value::from(false)));
    assert_eq!(response.path(&["status", "code"]), Some(&Value::from(413)));
}

#[tokio::test]
async fn failures_of_ours_are_answered_as_the_operator_wants_on_every_route() {
    // Without slots, every waiting request times out.
    let limits = RequestLimits { time: Duration::from_millis(5), ..RequestLimits::default() };
    let dir = tempfile::tempdir().expect("dir");
    let server = |gatekeeper| {
        Server::configured(Evaluators::new(0), limits.clone(), gatekeeper).load(dir.path())
    };
    let default = GatekeeperConfig::default().on_failure;
    assert_eq!(default, OnFailure::FailurePolicy);
    for on_failure in [OnFailure::FailurePolicy, OnFailure::Deny, OnFailure::Allow] {
        let server = server(GatekeeperConfig { on_failure, ..GatekeeperConfig::default() });
        for path in [
            "/dragnet-webhook",
            "/mutate",
            "/validate",
            "/mutate-api-kubemod-io-v1beta1-modrule",
            "/validate-api-kubemod-io-v1beta1-modrule",
            "/v1/admit",
            "/v1/admitlabel",
            "/v1/mutate",
            "/v1/policies/mutate",
            "/v1/policies/validate",
        ] {
            if on_failure == OnFailure::FailurePolicy {
                let (status, _) = server.post(path, review("v1", "{}")).await;
                assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR, "{path}");
                continue;
            }
            let allows = on_failure == OnFailure::Allow;
            let response = server.review(path, review("v1", "{}")).await;
            assert_eq!(response.get("allowed"), Some(&Value::from(allows)), "{path}");
            assert_eq!(response.get("warnings").is_some(), allows, "{path}");
        }
        // Takes no slot, as what it writes is a request of its own.
        let response = server.review("/podbinding-webhook", review("v1", "{}")).await;
        assert_eq!(response.get("allowed"), Some(&Value::from(true)));
        assert!(response.get("warnings").is_none());
    }
}

fn modrule(spec: &str) -> String {
    format!(
        r#"{{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": {{
            "uid": "u-2", "operation": "CREATE", "namespace": "ns", "name": "r",
            "object": {{"apiVersion": "api.kubemod.io/v1beta1", "kind": "ModRule",
                        "metadata": {{"name": "r", "namespace": "ns"}}, "spec": {spec}}}}}}}"#
    )
}

#[tokio::test]
async fn modrules_are_defaulted_and_validated() {
    let server = Server::loaded();
    let good = r#"{"type": "Reject", "match": [{"select": "$.a"}]}"#;
    let defaulted = server.review("/mutate-api-kubemod-io-v1beta1-modrule", modrule(good)).await;
    assert_eq!(defaulted.get("allowed"), Some(&Value::from(true)));
    assert!(patch(&defaulted).contains("admissionOperations"), "{}", patch(&defaulted));

    let path = "/validate-api-kubemod-io-v1beta1-modrule";
    assert_eq!(server.review(path, modrule(good)).await.get("allowed"), Some(&Value::from(true)));
    let bad = r#"{"type": "Patch", "match": [{"select": "$.a", "matchFor": "Any"}]}"#;
    let denied = server.review(path, modrule(bad)).await;
    assert_eq!(denied.path(&["status", "code"]), Some(&Value::from(403)));
    assert_eq!(
        text(&denied, &["status", "reason"]),
        "ModRule.api.kubemod.io \"r\" is invalid: spec.patch: Required value: field 'patch' cannot \
         be empty for ModRules of type Patch"
    );
    let wrong_type = r#"{"type": "Patch", "match": [{"select": 3}]}"#;
    let denied = server.review("/mutate-api-kubemod-io-v1beta1-modrule", modrule(wrong_type)).await;
    assert_eq!(denied.path(&["status", "code"]), Some(&Value::from(400)));
    assert!(text(&denied, &["status", "message"]).contains("spec.match[0].select"));
}

#[tokio::test]
async fn a_binding_is_never_held_up() {
    let binding = r#"{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u-3", "operation": "CREATE", "namespace": "ns", "subResource": "binding",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "object": {"kind": "Binding", "metadata": {"name": "p", "namespace": "ns"},
                   "target": {"kind": "Node", "name": "n"}}}}"#;
    let response = Server::loaded().review("/podbinding-webhook", binding).await;
    assert_eq!(response.get("allowed"), Some(&Value::from(true)));
    assert_eq!(text(&response, &["status", "reason"]), "failed to obtain pod");
}

#[tokio::test]
async fn dry_run() {
    let server = Server::loaded();
    let body = r#"{"resourceManifest": {"kind": "Pod", "metadata": {"name": "<p>"}},
        "modRules": [{"metadata": {"name": "r"}, "spec": {"type": "Patch",
            "match": [{"select": "$.kind", "matchValue": "Pod"}],
            "patch": [{"op": "add", "path": "/metadata/labels/x", "value": "z&"}]}}]}"#;
    let (status, answer) = server.send(json(Request::put("/v1/dryrun"), body)).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert!(answer.contains(r#""value":{"x":"z\u0026"}"#), "{answer}");
    assert!(answer.contains(r#""rejections":[]"#), "{answer}");

    let missing = server.send(json(Request::put("/v1/dryrun"), r#"{"modRules": []}"#)).await;
    assert_eq!(missing.0, StatusCode::BAD_REQUEST);
    assert!(missing.1.contains("Field validation for 'ResourceManifest'"), "{}", missing.1);
    let form = Request::put("/v1/dryrun").body(Body::from(body)).expect("request");
    assert_eq!(server.send(form).await.0, StatusCode::BAD_REQUEST);
    assert_eq!(
        server.get("/v1/dryrun").await,
        (StatusCode::NOT_FOUND, "404 page not found".to_owned())
    );
}

#[tokio::test]
async fn not_ready_until_policies_are_loaded() {
    let server = Server::empty();
    assert_eq!(server.get("/healthz").await, (StatusCode::OK, "ok".to_owned()));
    assert_eq!(
        server.get("/readyz").await,
        (
            StatusCode::INTERNAL_SERVER_ERROR,
            "[-]tracker failed: policies not loaded yet\nreadyz check failed\n".to_owned()
        )
    );
    let (status, _) = server.post("/dragnet-webhook", review("v1", "{}")).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);

    let server = Server::loaded();
    assert_eq!(server.get("/readyz/").await, (StatusCode::OK, "ok".to_owned()));
    assert_eq!(
        server.get("/readyz?verbose").await,
        (StatusCode::OK, "[+]tracker ok\nreadyz check passed\n".to_owned())
    );
}

#[tokio::test]
async fn everything_is_counted() {
    let server = Server::loaded();
    server.review("/dragnet-webhook", review("v1", "{}")).await;
    server.review("/dragnet-webhook", review("v1", r#"{"bad": "x"}"#)).await;
    let (status, text) = server.get("/metrics").await;
    assert_eq!(status, StatusCode::OK);
    for line in [
        r#"controller_runtime_webhook_requests_total{webhook="/dragnet-webhook",code="200"} 2"#,
        r#"modgate_decisions_total{webhook="/dragnet-webhook",kind="ModRule",decision="patched"} 1"#,
        r#"modgate_decisions_total{webhook="/dragnet-webhook",kind="ModRule",decision="rejected"} 1"#,
        r#"modgate_evaluation_seconds_count{webhook="/dragnet-webhook"} 2"#,
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

#[tokio::test]
async fn metrics_come_as_they_are_asked_for() {
    const OPEN: &str = "application/openmetrics-text;version=1.0.0";
    let server = Server::loaded();
    for (accept, kind, family) in [
        (None, "text/plain; version=0.0.4; charset=utf-8", "modgate_decisions_total counter"),
        (
            Some("text/plain;version=0.0.4"),
            "text/plain; version=0.0.4; charset=utf-8",
            "target_info gauge",
        ),
        (Some(OPEN), "application/openmetrics-text; version=1.0.0; charset=utf-8", "target info"),
    ] {
        let mut request = Request::get("/metrics");
        if let Some(accept) = accept {
            request = request.header(header::ACCEPT, accept);
        }
        let request = request.body(Body::empty()).expect("request");
        let response = router(Arc::clone(&server.app), Routes::Metrics).oneshot(request).await;
        let response = response.expect("infallible");
        assert_eq!(response.headers()[header::CONTENT_TYPE], kind, "{accept:?}");
        let body = response.into_body().collect().await.expect("body").to_bytes();
        let text = String::from_utf8(body.to_vec()).expect("text");
        assert!(text.contains(&format!("# TYPE {family}\n")), "{accept:?}\n{text}");
        assert_eq!(text.ends_with("# EOF\n"), accept == Some(OPEN), "{accept:?}");
    }
}

#[tokio::test]
async fn unknown_paths_and_methods() {
    let server = Server::loaded();
    assert_eq!(server.get("/").await.0, StatusCode::NOT_FOUND);
    assert_eq!(server.get("/dragnet-webhook").await.0, StatusCode::METHOD_NOT_ALLOWED);
}

/// The API server takes only an answer with its uid for one, and admits the object where the
/// webhook's failure policy is `Ignore`.
#[tokio::test]
async fn what_cannot_be_decoded_is_denied_with_its_uid_on_every_route() {
    let limits = RequestLimits {
        body_bytes: 300_000,
        max_depth: 100,
        time: Duration::from_millis(300),
        ..RequestLimits::default()
    };
    let dir = tempfile::tempdir().expect("dir");
    let server = Server::with(Evaluators::new(1), limits).load(dir.path());
    let whole = review("v1", "{}");
    let (front, _) = whole.split_once(r#""labels""#).expect("labels");
    let large = format!(r#"{front}"a": "{}"}}}}}}}}"#, "x".repeat(300_000));
    let deep = format!(r#"{front}"a": {}{}}}}}}}}}"#, "[".repeat(200), "]".repeat(200));
    let late = || {
        use futures_util::StreamExt as _;
        let beginning = futures_util::stream::iter([Ok::<_, std::io::Error>(front.to_owned())]);
        Body::from_stream(beginning.chain(futures_util::stream::pending()))
    };
    let cut = || {
        let parts = [Ok(front.to_owned()), Err(std::io::Error::other("gone"))];
        Body::from_stream(futures_util::stream::iter(parts))
    };
    for path in [
        "/dragnet-webhook",
        "/podbinding-webhook",
        "/mutate-api-kubemod-io-v1beta1-modrule",
        "/validate-api-kubemod-io-v1beta1-modrule",
        "/mutate",
        "/validate",
        "/v1/admit",
        "/v1/admitlabel",
        "/v1/mutate",
        "/v1/policies/mutate",
        "/v1/policies/validate",
    ] {
        for (what, body, code) in [
            ("too large", Body::from(large.clone()), 413),
            (
                "too large, of unknown length",
                Body::from_stream(futures_util::stream::iter(
                    large
                        .as_bytes()
                        .chunks(1000)
                        .map(|part| Ok::<_, std::io::Error>(part.to_vec()))
                        .collect::<Vec<_>>(),
                )),
                413,
            ),
            ("too deep", Body::from(deep.clone()), 400),
            ("broken", Body::from(front.to_owned()), 400),
            ("cut off", cut(), 400),
            ("late", late(), 408),
        ] {
            let response = server.review(path, body).await;
            assert_eq!(text(&response, &["uid"]), "u-1", "{path}: {what}");
            assert_eq!(response.get("allowed"), Some(&Value::from(false)), "{path}: {what}");
            let found = response.path(&["status", "code"]);
            assert_eq!(found, Some(&Value::from(code)), "{path}: {what}");
        }
    }
}

#[tokio::test]
async fn the_largest_and_deepest_reviews_of_an_api_server_are_decided() {
    let server = Server::loaded();
    let escaped = "\\u003c".repeat(3 << 20);
    let large = review("v1", &format!(r#"{{"bad": "{escaped}"}}"#));
    assert!(large.len() > 18 << 20);
    let response = server.review("/dragnet-webhook", large).await;
    assert_eq!(response.path(&["status", "code"]), Some(&Value::from(403)));
    let deep = format!(r#"{{"bad": "x", "deep": {}{}}}"#, "[".repeat(9_990), "]".repeat(9_990));
    let response = server.review("/dragnet-webhook", review("v1", &deep)).await;
    assert_eq!(response.path(&["status", "code"]), Some(&Value::from(403)), "{response}");
}

/// On every route alike: those with many values are decided one after the other, those with too many not at all.
#[tokio::test]
async fn reviews_of_many_values_are_decided_and_of_too_many_refused() {
    let server = Server::loaded();
    let of =
        |values| review("v1", &format!(r#"{{"bad": "x", "many": [{}0]}}"#, "0,".repeat(values)));
    let (many, too_many) = (of(300_000), of(3_600_000));
    for path in ["/dragnet-webhook", "/podbinding-webhook"] {
        let few = server.review(path, of(3)).await;
        let both =
            tokio::join!(server.review(path, many.clone()), server.review(path, many.clone()));
        assert_eq!(both, (few.clone(), few), "{path}");
        let refused = server.review(path, too_many.clone()).await;
        assert_eq!(refused.path(&["status", "code"]), Some(&Value::from(413)), "{path}");
        assert_eq!(text(&refused, &["uid"]), "u-1", "{path}");
        let message = text(&refused, &["status", "message"]);
        assert!(message.contains("more than 3600000 values"), "{path}: {message}");
    }
}

/// Policies that look at whole objects.
const LOOK_AT_EVERYTHING: &str = r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: inrego}
spec:
  crd: {spec: {names: {kind: InRego}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package inrego
      violation[{"msg": "printed"}] { sprintf("%v", [input.review.object]) != "" }
      violation[{"msg": "encoded"}] { json.marshal(input.review.object) != "" }
      violation[{"msg": "equal"}] { input.review.object == input.review.oldObject }
      violation[{"msg": "in a set"}] { {input.review.object}[input.review.oldObject] }
      violation[{"msg": "walked"}] { walk(input.review.object, [_, "nothing"]) }
      violation[{"msg": "united"}] { object.union(input.review.object, {"a": 1}).a == 1 }
      violation[{"msg": "of its own", "details": input.review.object}] { input.review.object.bad }
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: InRego
metadata: {name: rego}
---
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: incel}
spec:
  crd: {spec: {names: {kind: InCel}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    code:
    - engine: K8sNativeValidation
      source:
        validations:
        - expression: object != oldObject
        - expression: '!(object in [oldObject])'
        - expression: '!sets.contains([object], [oldObject])'
        - expression: '[object, oldObject].distinct().size() == 2'
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: InCel
metadata: {name: cel}
---
apiVersion: mutations.gatekeeper.sh/v1
kind: Assign
metadata: {name: assign}
spec:
  applyTo: [{groups: [""], versions: ["v1"], kinds: [Pod]}]
  location: "spec.host"
  parameters: {assign: {value: true}}
---
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: look, namespace: ns}
spec:
  type: Patch
  match: [{select: '$..a'}, {select: '$.deep == $.deep'}]
  patch: [{op: add, path: /metadata/labels/seen, value: '{{ printf "%d" (len (toJson .Target)) }}'}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: look}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [UPDATE], resources: [pods]}]
  validations:
  - {expression: 'object != oldObject || !(object in [oldObject])', messageExpression: 'string(dyn(object).bad)'}
  auditAnnotations: [{key: deep, valueExpression: 'type(object.deep) == type([]) ? "a list" : "a map"'}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: look}
spec: {policyName: look.modgate.sh, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: look}
spec:
  failurePolicy: Ignore
  reinvocationPolicy: IfNeeded
  matchConstraints:
    resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [UPDATE], resources: [pods]}]
  mutations:
  - patchType: JSONPatch
    jsonPatch: {expression: '[JSONPatch{op: "add", path: "/spec/again", value: object.deep}]'}
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: {"a": "b"}}}'}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: look}
spec: {policyName: look.modgate.sh}
"#;

/// A template in Rego with a constraint of it for everything.
fn in_rego(kind: &str, rego: &str) -> String {
    let name = kind.to_lowercase();
    let rego = rego.replace('\n', "\n      ");
    format!(
        "
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {{name: {name}}}
spec:
  crd: {{spec: {{names: {{kind: {kind}}}}}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package {name}
      {rego}
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: {kind}
metadata: {{name: all}}
"
    )
}

/// Policies that apply to ConfigMaps, one of each kind, and what they read of them.
fn of_config_maps() -> [String; 8] {
    [
        // Nothing.
        RULES.to_owned(),
        // The name alone.
        in_rego(
            "Names",
            r#"violation[{"msg": msg}] { o := input.review.object; o.metadata.name == "bad"; msg := sprintf("%v", [o.metadata]) }
violation[{"msg": "spec"}] { input.review.kind.kind == "Service"; count(input.review.object.spec) > 0 }"#,
        ),
        // A member of the contents.
        in_rego(
            "Members",
            r#"violation[{"msg": "x"}] { input.review.object.data.x }
violation[{"msg": "old"}] { contents(input.review.oldObject).y == "1" }
contents(object) = object.data"#,
        ),
        // Whatever there is.
        in_rego(
            "Whole",
            r#"violation[{"msg": msg}] { walk(input, [path, "1"]); msg := sprintf("%v", [path]) }"#,
        ),
        r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: incel}
spec:
  crd: {spec: {names: {kind: InCel}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    code:
    - engine: K8sNativeValidation
      source: {validations: [{expression: '!has(object.data) || !("x" in object.data)'}]}
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: InCel
metadata: {name: all}
"#
        .to_owned(),
        r#"
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: look, namespace: ns}
spec:
  type: Patch
  match: [{select: '$.data.x'}]
  patch: [{op: add, path: /metadata/labels/seen, value: '{{ .Target.data.y }}'}]
"#
        .to_owned(),
        r#"
apiVersion: mutations.gatekeeper.sh/v1
kind: Assign
metadata: {name: assign}
spec:
  applyTo: [{groups: [""], versions: ["v1"], kinds: [ConfigMap]}]
  location: "data.x"
  parameters: {assign: {value: "1"}}
"#
        .to_owned(),
        r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: look}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [configmaps]}]
  validations: [{expression: '!has(object.data) || !has(object.data.x)'}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: look}
spec: {policyName: look, validationActions: [Deny]}
"#
        .to_owned(),
    ]
}

/// Large bodies about ConfigMaps and Secrets, and those that no API server sends.
fn large_bodies() -> Vec<String> {
    let review = |operation: &str, kind: &str, own: &str, name: &str, object: &str, old: &str| {
        let resource = format!("{}s", kind.to_lowercase());
        let of = |contents: &str| match contents {
            "null" => "null".to_owned(),
            contents => format!(
                r#"{{"apiVersion":"v1","kind":"{own}","metadata":{{"name":"{name}","namespace":"ns"}},{contents}}}"#
            ),
        };
        format!(
            r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"0b4f0d60-0000-4000-8000-000000000001","kind":{{"group":"","version":"v1","kind":"{kind}"}},"resource":{{"group":"","version":"v1","resource":"{resource}"}},"name":"{name}","namespace":"ns","operation":"{operation}","userInfo":{{"username":"jane"}},"object":{},"oldObject":{}}}}}"#,
            of(object),
            of(old)
        )
    };
    let long = "line\\nof text ".repeat(6_000);
    let contents = [
        format!(r#""data":{{"x":"{long}","y":"1"}}"#),
        format!(r#""data":{{"y":"{long}"}},"binaryData":{{"x":"1"}}"#),
        format!(r#""data":{{"x":"1"}},"spec":"{long}","data":{{"y":"1"}}"#),
        format!(r#""d\u0061ta":{{"x":"1"}},"other":"{long}""#),
        format!(r#""stringData":["{long}"],"data":null"#),
    ];
    let broken = [
        format!(r#""data":{{"x":"{long}"#),
        format!(r#""data":{{"x":"{long}\q"}}"#),
        format!(r#""data":{{"x":"{long}{}"}}"#, '\u{1}'),
        format!(r#""data":[{}{},"{long}"]"#, "[".repeat(10_001), "]".repeat(10_001)),
        format!(r#""data":{{"x":01,"y":"{long}"}}"#),
        format!(r#""data":{{"x":"1",}},"z":"{long}""#),
    ];
    let mut all = Vec::new();
    for (contents, name) in contents.iter().flat_map(|it| [(it, "good"), (it, "bad")]) {
        all.push(review("CREATE", "ConfigMap", "ConfigMap", name, contents, "null"));
        all.push(review("UPDATE", "ConfigMap", "ConfigMap", name, r#""data":{}"#, contents));
        all.push(review("DELETE", "Secret", "Secret", name, "null", contents));
    }
    for contents in &broken {
        all.push(review("CREATE", "ConfigMap", "ConfigMap", "good", contents, "null"));
    }
    all.push(review("CREATE", "Secret", "ConfigMap", "good", &contents[0], "null"));
    all.push(review("CREATE", "ConfigMap", "Pod", "bad", &contents[0], "null"));
    all.push(all[0].replace(r#""resource":"configmaps""#, r#""resource":"pods""#));
    all.push(all[0].replace("admission.k8s.io/v1", "admission.k8s.io/v9"));
    all.push(all[0].replace(r#""uid":"#, r#""uids":"#));
    all.push(all[0].replace(r#""userInfo":{"#, r#""userInfo":[{"#));
    all
}

/// An answer without the id of a run of mutators, which is another one each time.
fn without_run((status, body): (StatusCode, String)) -> (StatusCode, String) {
    match body.split_once("mutation ").zip(body.split_once(" for mutator")) {
        Some(((before, _), (_, after))) => (status, format!("{before}{after}")),
        None => (status, body),
    }
}

/// The contents of large ConfigMaps are not built where no policy reads them. Where decisions are kept they are.
#[tokio::test]
async fn contents_that_are_not_built_change_no_answer() {
    for policies in of_config_maps() {
        let dir = tempfile::tempdir().expect("dir");
        std::fs::write(dir.path().join("policies.yaml"), policies).expect("policies");
        let some = Server::empty().load(dir.path());
        let app = App {
            current: Arc::clone(&some.app.current),
            evaluators: Evaluators::new(1),
            decisions: Some(Arc::default()),
            ..App::default()
        };
        let app = Arc::new(app);
        let whole = Server { router: router(Arc::clone(&app), Routes::All), app };
        let mut denied = 0;
        for body in large_bodies() {
            for route in
                ["/v1/admit", "/v1/mutate", "/dragnet-webhook", "/mutate", "/v1/policies/validate"]
            {
                let of_whole = without_run(whole.post(route, body.clone()).await);
                let of_some = without_run(some.post(route, body.clone()).await);
                denied += usize::from(of_whole.1.contains("\"allowed\":false"));
                assert_eq!(of_some, of_whole, "{route} {}", &body[..600]);
            }
        }
        assert!(denied >= 30, "{denied}");
    }
}

/// Nothing a policy does with an object as deep as an API server sends takes the process down, and
/// no answer is missing.
#[test]
fn policies_survive_the_deepest_objects() {
    let dir = tempfile::tempdir().expect("dir");
    std::fs::write(dir.path().join("policies.yaml"), LOOK_AT_EVERYTHING).expect("policies");
    let test = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let server = Server::empty().load(dir.path());
            for (open, close) in [("[", "]"), (r#"{"a":"#, "}"), (r#"[{"a":"#, "}]")] {
                let levels = 9_990 / open.matches(['[', '{']).count();
                let deep = format!("{}1{}", open.repeat(levels), close.repeat(levels));
                let object = format!(
                    r#"{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "p",
                        "namespace": "ns"}}, "spec": {{}}, "bad": true, "deep": {deep}}}"#
                );
                let body = format!(
                    r#"{{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {{
                        "uid": "u-1", "kind": {{"group": "", "version": "v1", "kind": "Pod"}},
                        "resource": {{"group": "", "version": "v1", "resource": "pods"}},
                        "name": "p", "namespace": "ns", "operation": "UPDATE",
                        "object": {object}, "oldObject": {object}}}}}"#
                );
                for path in [
                    "/v1/admit",
                    "/v1/mutate",
                    "/dragnet-webhook",
                    "/mutate",
                    "/validate",
                    "/v1/policies/mutate",
                    "/v1/policies/validate",
                ] {
                    let response = server.review(path, body.clone()).await;
                    assert_eq!(text(&response, &["uid"]), "u-1", "{path}");
                }
                let response = server.review("/v1/admit", body.clone()).await;
                let message = text(&response, &["status", "message"]);
                assert!(message.contains("[rego] ") || message.contains("deep"), "{message}");
            }
        });
    };
    // As much stack as the threads that evaluate have.
    let thread = std::thread::Builder::new().stack_size(8 << 20).spawn(test);
    thread.expect("a thread").join().expect("every review was answered");
}

#[tokio::test]
async fn answers_are_bounded() {
    let dir = tempfile::tempdir().expect("dir");
    let rule = "apiVersion: api.kubemod.io/v1beta1\nkind: ModRule\n\
                metadata: {name: r, namespace: ns}\nspec:\n  type: Reject\n  \
                rejectMessage: '{{ repeat 200000 \"x\" }}'\n  match: [{select: '$.kind'}]\n";
    std::fs::write(dir.path().join("rule.yaml"), rule).expect("written");
    let server = Server::empty().load(dir.path());
    for (path, member) in [("/dragnet-webhook", "reason"), ("/validate", "message")] {
        let response = server.review(path, review("v1", "{}")).await;
        let message = text(&response, &["status", member]);
        assert!(message.contains("ns/r: "), "{path}");
        assert!(message.ends_with(" more bytes") && message.len() < 66_000, "{}", message.len());
    }
}

/// The dry-run API is left out of a listener, and nothing else is.
#[tokio::test]
async fn a_listener_without_the_dry_run() {
    let server = Server::empty();
    let status = async |routes, method: &str, path: &str| {
        let request = Request::builder().method(method).uri(path).body(Body::empty());
        let request = request.expect("request");
        let app = Arc::clone(&server.app);
        router(app, routes).oneshot(request).await.expect("infallible").status().as_u16()
    };
    for (method, path) in [
        ("POST", "/v1/admit"),
        ("POST", "/dragnet-webhook"),
        ("GET", "/healthz"),
        ("GET", "/metrics"),
    ] {
        let expected = status(Routes::All, method, path).await;
        assert_eq!(status(Routes::AllButDryRun, method, path).await, expected, "{path}");
        assert_ne!(expected, 404, "{path}");
    }
    assert_ne!(status(Routes::All, "PUT", "/v1/dryrun").await, 404);
    assert_eq!(status(Routes::AllButDryRun, "PUT", "/v1/dryrun").await, 404);
}

/// In a cluster nothing but an address of its own brings the dry-run API.
#[test]
fn the_dry_run_is_asked_for() {
    let files = PolicyFiles { policies: Vec::new(), objects: Vec::new() };
    let certificate = CertificateSource::SelfSigned { names: Vec::new() };
    let mut config = ServeConfig::new(files, certificate);
    assert_eq!(config.main_routes(), Routes::All);
    config.policies = PolicyOrigin::Cluster(ClusterConfig { kubeconfig: None, context: None });
    assert_eq!(config.main_routes(), Routes::AllButDryRun);
    config.addresses.dry_run = Some(":8081".to_owned());
    assert_eq!(config.main_routes(), Routes::All);
}
