//! Gatekeeper's webhooks through the router, without a socket: the acceptance scenarios, and what
//! only HTTP has.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    http::{Request, StatusCode, header},
};
use http_body_util::BodyExt as _;
use modgate_cluster::events::Events;
use modgate_engine::{
    Change, EngineConfig, OnError, PolicySource, Snapshot, constraint::Inventory,
};
use modgate_export::{AdmissionQueue, ExportConfig, Exporter};
use modgate_policies::{Objects, PolicySet};
use modgate_server::{
    AdmissionEvents, App, Evaluators, GatekeeperConfig, OnFailure, RequestLimits, Routes, router,
};
use modgate_telemetry::metrics::Metrics;
use modgate_testkit::{
    Verdict,
    corpus::{self, Roots},
    gatekeeper::validation::{Answer, Settings, Subject, run_with, specified},
};
use modgate_value::{Limits, Value, yaml};
use tower::ServiceExt as _;
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    layer::{Context, Layer, SubscriberExt as _},
    registry,
};

/// The webhooks, and the policies behind them.
struct Server {
    app: Arc<App>,
    router: Router,
    snapshot: Snapshot,
    objects: Objects,
    inventory: Inventory,
}

impl Server {
    fn new(engine: EngineConfig, gatekeeper: GatekeeperConfig) -> Self {
        Self::with(engine, gatekeeper, Evaluators::new(1), RequestLimits::default())
    }

    fn with(
        engine: EngineConfig,
        gatekeeper: GatekeeperConfig,
        evaluators: Evaluators,
        limits: RequestLimits,
    ) -> Self {
        let app = Arc::new(App { evaluators, limits, gatekeeper, ..App::default() });
        let mut server = Self {
            router: router(Arc::clone(&app), Routes::All),
            app,
            snapshot: Snapshot::new(engine),
            objects: Objects::default(),
            inventory: Inventory::default(),
        };
        server.load(&[]);
        server
    }

    fn load(&mut self, resources: &[Value]) -> Vec<String> {
        let sources = resources.iter().cloned().map(PolicySource::of_object);
        let update = self.snapshot.apply(sources.map(Change::Upsert).collect(), OnError::Unload);
        self.snapshot = update.snapshot;
        self.app.current.store(Arc::new(PolicySet {
            snapshot: self.snapshot.clone(),
            objects: self.objects.clone(),
            inventory: self.inventory.clone(),
        }));
        specified(update.problems)
    }

    async fn send(&self, request: Request<Body>) -> (StatusCode, String) {
        let response = self.router.clone().oneshot(request).await.expect("infallible");
        let status = response.status();
        let body = response.into_body().collect().await.expect("body").to_bytes();
        (status, String::from_utf8(body.to_vec()).expect("text"))
    }

    async fn post(&self, path: &str, body: impl Into<Body>) -> (StatusCode, String) {
        let request = Request::post(path).header(header::CONTENT_TYPE, "application/json");
        self.send(request.body(body.into()).expect("request")).await
    }

    /// The `response` to a request.
    async fn ask(&self, path: &str, request: &Value) -> Value {
        let (status, body) = self.post(path, review("v1", request)).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        let answer = Value::from_json(body.as_bytes()).expect("JSON");
        assert_eq!(answer.get("apiVersion"), Some(&Value::from("admission.k8s.io/v1")));
        assert_eq!(answer.path(&["response", "uid"]), Some(&Value::from("u-1")));
        answer.get("response").expect("a response").clone()
    }

    /// The counter of requests by its labels.
    async fn counted(&self) -> BTreeMap<String, u64> {
        let request = Request::get("/metrics").body(Body::empty()).expect("request");
        let (_, text) = self.send(request).await;
        let prefix = "gatekeeper_validation_request_count_total";
        let lines = text.lines().filter_map(|line| line.strip_prefix(prefix)?.split_once(' '));
        lines.map(|(labels, n)| (labels.to_owned(), n.parse().expect("a number"))).collect()
    }
}

fn review(version: &str, request: &Value) -> String {
    let mut request = request.as_object().cloned().expect("an object");
    request.insert("uid", "u-1".into());
    format!(
        r#"{{"apiVersion": "admission.k8s.io/{version}", "kind": "AdmissionReview", "request": {}}}"#,
        Value::from(request).to_json()
    )
}

/// The violations that are logged.
#[derive(Clone, Default)]
struct Denials(Arc<Mutex<Vec<String>>>);

impl<S: Subscriber> Layer<S> for Denials {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        event.record(&mut Message(self));
    }
}

struct Message<'d>(&'d Denials);

impl Visit for Message<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        if field.name() == "message"
            && let Some(message) = text.strip_prefix("denied admission: ")
        {
            self.0.0.lock().expect("denials").push(message.to_owned());
        }
    }
}

/// A server whose client runs outside of any runtime.
struct OverHttp(Server);

impl OverHttp {
    fn boxed(settings: &Settings, objects: &[Value]) -> Option<Box<dyn Subject>> {
        if !settings.absent_namespaces.is_empty() {
            // Without a cluster every Namespace is taken to exist.
            return None;
        }
        let config = GatekeeperConfig { log_denies: true, ..GatekeeperConfig::default() };
        let mut server = Server::new(settings.engine(), config);
        for object in objects {
            server.inventory.insert(object.clone()).expect("an object");
            server.objects.references_mut().take(object);
        }
        Some(Box::new(Self(server)))
    }

    fn ask(&self, path: &str, request: &Value) -> Answer {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let denials = Denials::default();
        let subscriber = registry().with(denials.clone());
        tracing::subscriber::with_default(subscriber, || {
            runtime.expect("a runtime").block_on(async {
                let before = self.0.counted().await;
                let response = self.0.ask(path, request).await;
                let after = self.0.counted().await;
                let grown =
                    after.iter().find(|(labels, count)| before.get(*labels) != Some(*count));
                let counted = grown.map(|(labels, _)| {
                    let has = |text: &str| labels.contains(text);
                    let status = ["allow", "deny", "error"]
                        .into_iter()
                        .find(|status| has(&format!("admission_status=\"{status}\"")));
                    let dry_run = has("admission_dryrun=\"true\"");
                    [status.expect("a status"), if dry_run { "true" } else { "false" }]
                });
                let logged = denials.0.lock().expect("denials").clone();
                Answer { response, logged, counted }
            })
        })
    }
}

impl Subject for OverHttp {
    fn load(&mut self, resources: &[Value]) -> Vec<String> {
        self.0.load(resources)
    }

    fn admit(&mut self, request: &Value) -> anyhow::Result<Answer> {
        Ok(self.ask("/v1/admit", request))
    }

    fn label(&mut self, request: &Value) -> anyhow::Result<Answer> {
        Ok(self.ask("/v1/admitlabel", request))
    }

    fn audit(&mut self, _: &Value) -> Option<Vec<[String; 3]>> {
        None
    }
}

#[test]
fn the_acceptance_scenarios_over_http() {
    let files = corpus::files(&Roots::discover()).expect("corpora");
    let file = files.iter().find(|file| file.name == "validation.json").expect("validation.json");
    let mut cases = Vec::new();
    run_with(file, &OverHttp::boxed, &mut cases).expect("scenarios");
    let ids = |wanted: fn(&Verdict) -> bool| -> Vec<&str> {
        cases.iter().filter(|case| wanted(&case.verdict)).map(|case| case.id.as_str()).collect()
    };
    let failed: Vec<_> =
        cases.iter().filter(|case| matches!(case.verdict, Verdict::Failed { .. })).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert_eq!(ids(|verdict| *verdict == Verdict::Skipped), ["64 (here)"]);
    assert_eq!(ids(|verdict| *verdict == Verdict::Passed).len(), 71);
}

const TEMPLATE: &str = "
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: foo}
spec:
  crd: {spec: {names: {kind: Foo}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package foo
      violation[{\"msg\": \"no\"}] { true }
";

fn policies() -> Vec<Value> {
    let constraint =
        "{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: Foo, metadata: {name: c}}";
    [TEMPLATE, constraint].map(|text| yaml::value(text).expect(text)).to_vec()
}

fn pod() -> Value {
    yaml::value(
        "{operation: CREATE, namespace: ns, name: p, kind: {group: '', version: v1, kind: Pod}, \
         object: {apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns}}}",
    )
    .expect("a request")
}

#[tokio::test]
async fn the_version_is_that_of_the_request() {
    let mut server = Server::new(EngineConfig::default(), GatekeeperConfig::default());
    server.load(&policies());
    let (status, body) = server.post("/v1/admit", review("v1beta1", &pod())).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(
        body,
        r#"{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","response":{"uid":"u-1","allowed":false,"status":{"metadata":{},"code":403,"message":"[c] no","reason":"Forbidden"}}}"#
    );
}

/// The texts of refusals are Gatekeeper's; what to do about them comes as a warning.
#[tokio::test]
async fn refusals_of_policies_come_with_advice() {
    let server = Server::new(EngineConfig::default(), GatekeeperConfig::default());
    let request = yaml::value(
        "{operation: CREATE, name: m, kind: {group: mutations.gatekeeper.sh, version: v1, kind: ModifySet}, \
         object: {apiVersion: mutations.gatekeeper.sh/v1, kind: ModifySet, metadata: {name: m}, spec: \
         {applyTo: [{groups: [''], versions: [v1], kinds: [Pod]}], location: 'spec.containers[name: *].args', \
         parameters: {operation: merg, values: {fromList: [a]}}}}}",
    )
    .expect("a request");
    let response = server.ask("/v1/admit", &request).await;
    assert_eq!(response.get("allowed"), Some(&Value::from(false)));
    assert_eq!(
        response.get("warnings").map(Value::to_json).as_deref(),
        Some(r#"["help: spec.parameters.operation: did you mean `merge`?"]"#)
    );
}

#[tokio::test]
async fn what_is_not_a_review_is_answered() {
    let limits = RequestLimits { body_bytes: 7 << 20, ..RequestLimits::default() };
    let server = Server::with(
        EngineConfig::default(),
        GatekeeperConfig::default(),
        Evaluators::new(1),
        limits,
    );
    let large = " ".repeat((7 << 20) + 1);
    for path in ["/v1/admit", "/v1/admitlabel"] {
        for (body, code) in [("", 400), ("{", 400), ("{}", 400), (large.as_str(), 413)] {
            let (status, answer) = server.post(path, body.to_owned()).await;
            assert_eq!(status, StatusCode::OK, "SV-2: {path}");
            let answer = Value::from_json(answer.as_bytes()).expect("JSON");
            let response = answer.get("response").expect("a response");
            assert_eq!(response.get("allowed"), Some(&Value::from(false)));
            assert_eq!(response.path(&["status", "code"]), Some(&Value::from(code)));
        }
        let plain = Request::post(path).body(Body::from(review("v1", &pod()))).expect("request");
        let (status, answer) = server.send(plain).await;
        assert_eq!(status, StatusCode::OK);
        assert!(answer.contains("contentType=, expected application/json"), "{answer}");
    }
    assert!(server.counted().await.is_empty());
}

#[tokio::test]
async fn a_failure_denies_or_leaves_it_to_the_failure_policy() {
    let limits = RequestLimits { time: Duration::from_millis(5), ..RequestLimits::default() };
    let without_turns = |on_failure| {
        let config = GatekeeperConfig { on_failure, ..GatekeeperConfig::default() };
        Server::with(EngineConfig::default(), config, Evaluators::new(0), limits.clone())
    };
    let server = without_turns(OnFailure::Deny);
    let response = server.ask("/v1/admit", &pod()).await;
    assert_eq!(
        response.get("status").map(Value::to_json).as_deref(),
        Some(
            r#"{"code":500,"message":"serving context canceled, aborting request","metadata":{}}"#
        ),
        "GR-4, GR-8"
    );
    assert_eq!(response.get("allowed"), Some(&Value::from(false)));
    let counted = server.counted().await;
    assert_eq!(
        counted.keys().map(String::as_str).collect::<Vec<_>>(),
        [r#"{admission_status="error",admission_dryrun="false"}"#]
    );
    let (status, body) =
        without_turns(OnFailure::FailurePolicy).post("/v1/admit", review("v1", &pod())).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR, "Q-19");
    assert_eq!(body, "serving context canceled, aborting request");

    let response = without_turns(OnFailure::Allow).ask("/v1/admit", &pod()).await;
    assert_eq!(response.get("allowed"), Some(&Value::from(true)));

    // What the request itself fails is denied, whatever the operator says of failures of ours.
    let deletion = yaml::value("{operation: DELETE, namespace: ns, name: p}").expect("a request");
    let message = "error reviewing resource p: admission.k8s.gatekeeper.sh: target.HandleReview \
                   failed for target \"admission.k8s.gatekeeper.sh\": oldObject cannot be nil for \
                   DELETE operations\n";
    for on_failure in [OnFailure::FailurePolicy, OnFailure::Deny, OnFailure::Allow] {
        let config = GatekeeperConfig { on_failure, ..GatekeeperConfig::default() };
        let server = Server::new(EngineConfig::default(), config);
        let response = server.ask("/v1/admit", &deletion).await;
        assert_eq!(response.path(&["status", "message"]), Some(&Value::from(message)), "EV-5");
        assert_eq!(response.path(&["status", "code"]), Some(&Value::from(500)));
    }
}

#[tokio::test]
async fn a_spent_budget_is_a_violation() {
    let engine = EngineConfig {
        constraint_limits: Limits { steps: 1000, ..Limits::UNLIMITED },
        ..EngineConfig::default()
    };
    let mut server = Server::new(engine, GatekeeperConfig::default());
    let long = TEMPLATE.replace("true", "numbers.range(1, 100000)[_] == 100000");
    let mut resources = policies();
    resources[0] = yaml::value(&long).expect("a template");
    server.load(&resources);
    let response = server.ask("/v1/admit", &pod()).await;
    let message = response.path(&["status", "message"]).and_then(Value::as_str).expect("a message");
    assert!(message.starts_with("[c] ") && message.contains("eval_cancel_error"), "{message}");
    assert_eq!(response.path(&["status", "code"]), Some(&Value::from(403)));
}

#[tokio::test]
async fn an_evaluation_ends_before_the_api_server_stops_waiting() {
    let endless = TEMPLATE.replace("true", "endless(0)").replace(
        "package foo\n",
        "package foo\n      endless(x) { numbers.range(1, 100000)[i]; numbers.range(1, 100000)[j]; i \
         + j < x }\n",
    );
    let engine = EngineConfig {
        constraint_limits: Limits::UNLIMITED,
        review_limits: Limits { time: Duration::from_secs(60), ..Limits::UNLIMITED },
        ..EngineConfig::default()
    };
    let mut server = Server::new(engine, GatekeeperConfig::default());
    let mut resources = policies();
    resources[0] = yaml::value(&endless).expect("a template");
    let problems = server.load(&resources);
    assert!(problems.is_empty(), "{problems:?}");
    let started = std::time::Instant::now();
    let response = server.ask("/v1/admit?timeout=1s", &pod()).await;
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    let message = response.path(&["status", "message"]).and_then(Value::as_str).expect("a message");
    assert!(message.contains("eval_cancel_error"), "EV-50: {message}");
}

#[tokio::test]
async fn deletions_of_policies_are_never_refused() {
    let mut server = Server::new(EngineConfig::default(), GatekeeperConfig::default());
    let broken = "{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: Gone, metadata: {name: c}}";
    let config = "{apiVersion: config.gatekeeper.sh/v1alpha1, kind: Config, metadata: {name: x}}";
    server.load(&[]);
    for (group, kind, object) in
        [("constraints.gatekeeper.sh", "Gone", broken), ("config.gatekeeper.sh", "Config", config)]
    {
        for (operation, member, allowed) in [
            ("CREATE", "object", false),
            ("UPDATE", "object", false),
            ("DELETE", "oldObject", true),
        ] {
            let request = format!(
                "{{operation: {operation}, name: c, kind: {{group: {group}, version: v1, kind: \
                 {kind}}}, {member}: {object}}}"
            );
            let response =
                server.ask("/v1/admit", &yaml::value(&request).expect("a request")).await;
            assert_eq!(response.get("allowed"), Some(&Value::from(allowed)), "Q-22: {request}");
        }
    }
    assert_eq!(server.counted().await.values().sum::<u64>(), 2, "GR-2 failures are not counted");
}

#[tokio::test]
async fn policies_are_counted() {
    let mut server = Server::new(EngineConfig::default(), GatekeeperConfig::default());
    server.load(&policies());
    server.ask("/v1/admit", &pod()).await;
    let request = Request::get("/metrics").body(Body::empty()).expect("request");
    let (_, text) = server.send(request).await;
    for line in [
        r#"gatekeeper_validation_request_count_total{admission_status="deny",admission_dryrun="false"} 1"#,
        r#"gatekeeper_validation_request_duration_seconds_count{admission_status="deny"} 1"#,
        r#"controller_runtime_webhook_requests_total{webhook="/v1/admit",code="200"} 1"#,
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

/// Mutators and a ModRule that all want to act on Pods.
fn mutating() -> Vec<Value> {
    [
        "{apiVersion: mutations.gatekeeper.sh/v1, kind: AssignMetadata, metadata: {name: owner}, \
         spec: {location: metadata.labels.owner, parameters: {assign: {value: shop}}}}",
        "{apiVersion: mutations.gatekeeper.sh/v1, kind: Assign, metadata: {name: bad}, spec: \
         {applyTo: [{groups: [''], versions: [v1], kinds: [Secret]}], location: 'spec.list[name: \
         a].x', parameters: {assign: {value: 1}}}}",
        "{apiVersion: config.gatekeeper.sh/v1alpha1, kind: Config, metadata: {name: config}, spec: \
         {match: [{processes: [mutation-webhook], excludedNamespaces: [kube-*]}]}}",
        "{apiVersion: api.kubemod.io/v1beta1, kind: ModRule, metadata: {name: seen, namespace: ns}, \
         spec: {type: Patch, match: [{select: $.metadata.labels.owner, matchValue: shop}], patch: \
         [{op: add, path: /metadata/labels/seen, value: '{{ .Target.metadata.labels.owner }}'}]}}",
    ]
    .map(|text| yaml::value(text).expect(text))
    .to_vec()
}

/// The operations of a response's patch.
fn patch(response: &Value) -> String {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let Some(patch) = response.get("patch").and_then(Value::as_str) else { return String::new() };
    assert_eq!(response.get("patchType"), Some(&Value::from("JSONPatch")));
    String::from_utf8(STANDARD.decode(patch).expect("base64")).expect("text")
}

#[tokio::test]
async fn mutators_answer_with_a_patch() {
    let mut server = Server::new(EngineConfig::default(), GatekeeperConfig::default());
    let problems = server.load(&mutating());
    assert!(problems.is_empty(), "{problems:?}");
    let response = server.ask("/v1/mutate", &pod()).await;
    assert_eq!(response.get("allowed"), Some(&Value::from(true)));
    assert_eq!(response.path(&["status", "code"]), Some(&Value::from(200)));
    assert_eq!(
        patch(&response),
        r#"[{"op":"add","path":"/metadata/labels","value":{"owner":"shop"}}]"#
    );
    let member = |key: &str, value: &str| {
        let mut request = pod().as_object().cloned().expect("an object");
        request.insert(key, value.into());
        Value::from(request)
    };
    for (request, code, message) in [
        (member("operation", "CONNECT"), 200, "Mutating only on create or update"),
        (
            member("namespace", "kube-system"),
            200,
            "Namespace is set to be ignored by Gatekeeper config",
        ),
    ] {
        let response = server.ask("/v1/mutate", &request).await;
        let status = |key: &str| response.path(&["status", key]).cloned();
        assert_eq!(status("message"), Some(message.into()));
        assert_eq!(status("code"), Some(code.into()));
        assert_eq!(patch(&response), "");
    }
    // A location that does not fit the object denies, whatever `failurePolicy` says.
    let secret = yaml::value(
        "{operation: CREATE, namespace: ns, name: s, kind: {group: '', version: v1, kind: Secret}, \
         object: {apiVersion: v1, kind: Secret, spec: {list: {}}}}",
    )
    .expect("a request");
    let response = server.ask("/v1/mutate", &secret).await;
    assert_eq!(response.get("allowed"), Some(&Value::from(false)));
    assert_eq!(response.path(&["status", "code"]), Some(&Value::from(500)));

    let request = Request::get("/metrics").body(Body::empty()).expect("request");
    let (_, text) = server.send(request).await;
    for line in [
        r#"gatekeeper_mutation_request_count_total{mutation_status="success"} 1"#,
        r#"gatekeeper_mutation_request_count_total{mutation_status="skip"} 1"#,
        r#"gatekeeper_mutation_request_count_total{mutation_status="error"} 1"#,
        r#"gatekeeper_mutation_system_iterations_count{success="true"} 1"#,
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

#[tokio::test]
async fn one_route_for_both_originals() {
    let rule = r#"{"op":"add","path":"/metadata/labels/seen","value":"shop"}"#;
    let mutator = r#"{"op":"add","path":"/metadata/labels","value":{"owner":"shop"}}"#;
    for (unified_mutate, path, expected) in [
        (true, "/mutate", format!("[{mutator},{rule}]")),
        (false, "/mutate", String::new()),
        // Each original by itself stays as it is.
        (true, "/dragnet-webhook", String::new()),
        (true, "/v1/mutate", format!("[{mutator}]")),
    ] {
        let config = GatekeeperConfig { unified_mutate, ..GatekeeperConfig::default() };
        let mut server = Server::new(EngineConfig::default(), config);
        server.load(&mutating());
        let response = server.ask(path, &pod()).await;
        assert_eq!(response.get("allowed"), Some(&Value::from(true)), "{path}");
        assert_eq!(patch(&response), expected, "{path}");
    }
}

/// A policy that tells what it sees as `input.review`.
const ECHO: &str = "
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: foo}
spec:
  crd: {spec: {names: {kind: Foo}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package foo
      violation[{\"msg\": json.marshal(object.remove(input.review, hidden))}] {
        hidden := {\"object\", \"oldObject\", \"namespaceObject\", \"uid\"}
      }
";

#[tokio::test]
async fn policies_see_every_member_of_the_request_as_it_was_sent() {
    let mut server = Server::new(EngineConfig::default(), GatekeeperConfig::default());
    let mut resources = policies();
    resources[0] = yaml::value(ECHO).expect("a template");
    server.load(&resources);
    // As the API server sends an update of `deployments/scale` of a version it converts.
    let request = r#"{
        "dryRun": true,
        "kind": {"group": "autoscaling", "kind": "Scale", "version": "v1"},
        "name": "web",
        "namespace": "shop",
        "operation": "UPDATE",
        "options": {"apiVersion": "meta.k8s.io/v1", "fieldManager": "kubectl", "kind": "UpdateOptions"},
        "requestKind": {"group": "extensions", "kind": "Scale", "version": "v1beta1"},
        "requestResource": {"group": "apps", "resource": "deployments", "version": "v1beta1"},
        "requestSubResource": "scale",
        "resource": {"group": "apps", "resource": "deployments", "version": "v1"},
        "subResource": "scale",
        "userInfo": {"extra": {"k": ["v"]}, "groups": ["g"], "uid": "u", "username": "me"}
    }"#;
    let sent = Value::from_json(request.as_bytes()).expect(request);
    let object =
        "{apiVersion: autoscaling/v1, kind: Scale, metadata: {name: web, namespace: shop}}";
    let object = yaml::value(object).expect(object);
    let ask = |absent: Option<&str>| {
        let mut members = sent.as_object().cloned().expect("an object");
        members.insert("object", object.clone());
        members.insert("oldObject", object.clone());
        let mut expected = sent.as_object().cloned().expect("an object");
        if let Some(key) = absent {
            members.remove(key);
            expected.remove(key);
        }
        (Value::from(members), Value::from(expected))
    };
    let optional =
        ["requestKind", "requestResource", "requestSubResource", "dryRun", "subResource", "name"];
    for absent in [None].into_iter().chain(optional.map(Some)) {
        let (request, expected) = ask(absent);
        let response = server.ask("/v1/admit", &request).await;
        let message = response.path(&["status", "message"]).and_then(Value::as_str);
        let seen = message.and_then(|message| message.strip_prefix("[c] ")).expect("a denial");
        let seen = Value::from_json(seen.as_bytes()).expect(seen);
        assert_eq!(seen.to_json(), expected.to_json(), "EV-2, without {absent:?}");
    }
}

/// No API server sends a CREATE or UPDATE without an object. Gatekeeper denies it where it reads the object,
/// KubeMod admits it unchecked; modgate denies it wherever policies apply (KM-5.5).
#[tokio::test]
async fn a_write_without_an_object_is_denied_on_every_route() {
    let rule = "{apiVersion: api.kubemod.io/v1beta1, kind: ModRule, \
        metadata: {name: r, namespace: kubemod-system}, spec: {type: Reject, \
        targetNamespaceRegex: '.*', match: [{select: '$.kind', matchValue: Pod}]}}";
    let match_everything = "{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: Foo, \
        metadata: {name: m}, spec: {match: {scope: '*'}}}";
    let mut resources = policies();
    resources.extend([rule, match_everything].map(|text| yaml::value(text).expect(text)));
    resources.extend(mutating());
    let missing = "the request has no object";
    let undefined = "[c] no\n[m] unable to match constraints: invalid request object: neither object nor \
                     old object are defined";
    let undecodable = "failed to decode the object of the request";
    for (unified_mutate, operation, object) in [
        (false, "CREATE", None),
        (false, "CREATE", Some(Value::Null)),
        (false, "UPDATE", None),
        (true, "CREATE", None),
        (true, "UPDATE", Some(Value::Null)),
    ] {
        let config = GatekeeperConfig { unified_mutate, ..GatekeeperConfig::default() };
        let mut server = Server::new(EngineConfig::default(), config);
        server.load(&resources);
        let unified = if unified_mutate { (500, undecodable) } else { (403, missing) };
        for (path, kind, (code, words)) in [
            ("/dragnet-webhook", "Pod", (403, missing)),
            ("/mutate", "Pod", unified),
            ("/validate", "Pod", (403, missing)),
            ("/v1/admit", "Pod", (403, undefined)),
            ("/v1/mutate", "Pod", (500, undecodable)),
            ("/v1/admitlabel", "Namespace", (500, "while deserializing resource")),
            ("/mutate-api-kubemod-io-v1beta1-modrule", "ModRule", (400, missing)),
            ("/validate-api-kubemod-io-v1beta1-modrule", "ModRule", (400, missing)),
            // It denies nothing that has no label.
            ("/v1/admitlabel", "Pod", (200, "Not a namespace")),
            // It never denies (Q-37).
            ("/podbinding-webhook", "Binding", (200, "ok")),
            // No policy is loaded that could see the null.
            ("/v1/policies/mutate", "Pod", (200, "")),
            ("/v1/policies/validate", "Pod", (200, "")),
        ] {
            let mut request = pod().as_object().cloned().expect("an object");
            let kind_of = format!("{{group: '', version: v1, kind: {kind}}}");
            request.insert("kind", yaml::value(&kind_of).expect("a kind"));
            request.insert("operation", operation.into());
            request.remove("object");
            if let Some(object) = &object {
                request.insert("object", object.clone());
            }
            let response = server.ask(path, &request.into()).await;
            let shown =
                format!("{path} {kind} {operation} {unified_mutate}: {}", response.to_json());
            assert_eq!(response.get("allowed"), Some(&Value::from(code == 200)), "{shown}");
            assert_eq!(response.path(&["status", "code"]), Some(&Value::from(code)), "{shown}");
            assert!(shown.contains(&Value::from(words).to_json().replace('"', "")), "{shown}");
        }
    }
}

/// An object with many faults gets an answer of bounded length, which says how many violations it leaves out.
#[tokio::test]
async fn messages_of_many_violations_are_bounded() {
    let template = "{apiVersion: templates.gatekeeper.sh/v1, kind: ConstraintTemplate, \
        metadata: {name: each}, spec: {crd: {spec: {names: {kind: Each}}}, targets: [{target: \
        admission.k8s.gatekeeper.sh, rego: 'package each\n\nviolation[{\"msg\": msg}] { \
        c := input.review.object.spec.containers[_]; msg := sprintf(\"container <%s> is bad\", [c.name]) }'}]}}";
    let constraint =
        "{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: Each, metadata: {name: each}}";
    let mut server = Server::new(EngineConfig::default(), GatekeeperConfig::default());
    let problems = server.load(&[template, constraint].map(|text| yaml::value(text).expect(text)));
    assert!(problems.is_empty(), "{problems:?}");
    for (count, cut) in [(3, false), (3_000, true)] {
        let mut request = pod().as_object().cloned().expect("an object");
        let containers: Vec<String> =
            (0..count).map(|index| format!("{{name: container-{index:06}}}")).collect();
        let object = format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: p, namespace: ns}}, spec: {{containers: [{}]}}}}",
            containers.join(", ")
        );
        request.insert("object", yaml::value(&object).expect("an object"));
        let response = server.ask("/v1/admit", &request.into()).await;
        let message = response.path(&["status", "message"]).and_then(Value::as_str).expect("text");
        assert_eq!(response.get("allowed"), Some(&Value::from(false)));
        assert!(message.len() < 66_000, "{} bytes", message.len());
        assert!(
            message.starts_with("[each] container <container-000000> is bad\n"),
            "{message:.80}"
        );
        let last = message.lines().last().unwrap_or_default();
        let more = last
            .strip_prefix("and ")
            .and_then(|rest| rest.strip_suffix(" more violations of each"));
        let more: usize = more.map_or(0, |more| more.parse().expect("a number"));
        let shown = message.lines().filter(|line| line.starts_with("[each] ")).count();
        assert_eq!((shown + more, more > 0), (count, cut), "{last}");
    }
}

/// An API server sends the oldObject with every DELETE, also with those of the objects of a collection,
/// which have no name. Without it no rule could veto the deletion (KM-5.5).
#[tokio::test]
async fn a_deletion_without_an_old_object_is_denied_where_modrules_apply() {
    let rule = "{apiVersion: api.kubemod.io/v1beta1, kind: ModRule, \
        metadata: {name: keep, namespace: ns}, spec: {type: Reject, rejectMessage: keep it, \
        admissionOperations: [DELETE], match: [{select: '$.metadata.labels.keep'}]}}";
    let mut server = Server::new(EngineConfig::default(), GatekeeperConfig::default());
    let problems = server.load(&[yaml::value(rule).expect(rule)]);
    assert!(problems.is_empty(), "{problems:?}");
    let object = |labels: &str| {
        let text = format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: p, namespace: ns, labels: {labels}}}}}"
        );
        yaml::value(&text).expect("an object")
    };
    for (old, name, allowed, words) in [
        (Some(object("{}")), "p", true, ""),
        (Some(object("{}")), "", true, ""),
        (Some(object("{keep: 'yes'}")), "p", false, "keep it"),
        (Some(object("{keep: 'yes'}")), "", false, "keep it"),
        (Some(Value::Null), "p", false, "the request has no object"),
        (None, "p", false, "the request has no object"),
        (None, "", false, "the request has no object"),
    ] {
        for path in ["/dragnet-webhook", "/mutate", "/validate"] {
            let mut request = pod().as_object().cloned().expect("an object");
            request.insert("operation", "DELETE".into());
            request.insert("name", name.into());
            request.remove("object");
            if let Some(old) = &old {
                request.insert("oldObject", old.clone());
            }
            let response = server.ask(path, &request.into()).await;
            let shown = format!("{path} {name:?} {old:?}: {}", response.to_json());
            assert_eq!(response.get("allowed"), Some(&Value::from(allowed)), "{shown}");
            assert!(shown.contains(words), "{shown}");
        }
    }
}

/// Events and exports reach others, so they need a request that an API server can have sent. The decision
/// does not.
#[tokio::test]
async fn only_plausible_requests_cause_events_and_exports() {
    let metrics = Metrics::new();
    let exporter = Exporter::new(ExportConfig::default(), metrics.export().clone());
    let queue = AdmissionQueue::start(Arc::new(exporter), metrics.export().clone());
    let (events, waiting) = Events::channel(metrics.events().clone());
    let config = GatekeeperConfig {
        export: Some(queue.expect("a thread")),
        events: AdmissionEvents { emit: true, in_object_namespace: false, to: Some(events) },
        ..GatekeeperConfig::default()
    };
    let mut server = Server::new(EngineConfig::default(), config);
    server.load(&policies());
    let queued = || {
        let name = "gatekeeper_admission_export_queued_count_total ";
        let text = metrics.encode();
        let line = text.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        line.expect("the metric").parse::<usize>().expect("a number")
    };
    let old = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns}}";
    let uid = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
    for (what, uid, change, expected) in [
        ("no UUID", "u-1", None, 0),
        ("no user", uid, Some(("userInfo", "{username: ''}")), 0),
        ("no resource", uid, Some(("resource", "{resource: ''}")), 0),
        ("a CREATE of what exists", uid, Some(("oldObject", old)), 0),
        ("as an API server sends it", uid, None, 1),
    ] {
        let mut request = pod().as_object().cloned().expect("an object");
        let members = [("userInfo", "{username: me}"), ("resource", "{resource: pods}")];
        for (key, text) in members.into_iter().chain(change) {
            request.insert(key, yaml::value(text).expect(text));
        }
        let body = review("v1", &request.into()).replace("u-1", uid);
        let (status, answer) = server.post("/v1/admit", body).await;
        assert_eq!(status, StatusCode::OK);
        assert!(answer.contains("[c] no"), "{what}: {answer}");
        assert_eq!((queued(), waiting.waiting()), (expected, expected), "{what}");
    }
}
