//! One decision: what the webhooks answer one after the other, as the API server calls them, is what
//! the engine decides in one run, watched or not, for every recorded review, scenario and suite.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use axum::{
    Router,
    body::Body,
    http::{Request, StatusCode, header},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http_body_util::BodyExt as _;
use modgate_engine::{
    Change, Decision, EngineConfig, Evaluation, NoopObserver, OnError, Plan, PolicySource, Review,
    Scope, ServedPolicies, Skipped, Snapshot, Stages, Trace,
    api::{meta::Operation, modrule},
    constraint::{Arena, Inventory},
    jsonpatch::{self, Op, PatchOperation, Tree},
};
use modgate_policies::{Objects, PolicySet};
use modgate_server::{App, Evaluators, GatekeeperConfig, OnFailure, Routes, router};
use modgate_testkit::{
    corpus::{self, Roots},
    gatekeeper::validation::{Answer, Settings, Subject, run_with},
};
use modgate_value::{Budget, Value, yaml};
use tower::ServiceExt as _;

/// The webhook that checks ModRules.
const VALIDATE_MODRULE: &str = "/validate-api-kubemod-io-v1beta1-modrule";

/// The namespace of objects and ModRules that name none.
const NAMESPACE: &str = "my-namespace";

/// The webhooks, and the policies behind them.
struct Server {
    app: Arc<App>,
    router: Router,
    policies: PolicySet,
}

impl Server {
    fn new(engine: EngineConfig) -> Self {
        let app = Arc::new(App {
            evaluators: Evaluators::new(1),
            // So that a failure of ours has the text that the engine gives it.
            gatekeeper: GatekeeperConfig {
                on_failure: OnFailure::Deny,
                ..GatekeeperConfig::default()
            },
            ..App::default()
        });
        let (objects, inventory) = (Objects::default(), Inventory::default());
        let policies = PolicySet { snapshot: Snapshot::new(engine), objects, inventory };
        let router = router(Arc::clone(&app), Routes::All);
        let mut server = Self { app, router, policies };
        server.load(&[]);
        server
    }

    fn with(policies: &[Value], objects: &[Value]) -> Self {
        let engine =
            EngineConfig { default_namespace: NAMESPACE.into(), ..EngineConfig::default() };
        let mut server = Self::new(engine);
        for object in objects {
            // What cannot be kept is for the tests of inventories.
            let _ = server.policies.inventory.insert(object.clone());
            server.policies.objects.references_mut().take(object);
        }
        server.load(policies);
        server
    }

    fn load(&mut self, policies: &[Value]) -> Vec<String> {
        let sources = policies.iter().cloned().map(PolicySource::of_object);
        let changes = sources.map(Change::Upsert).collect();
        let update = self.policies.snapshot.apply(changes, OnError::Unload);
        self.policies.snapshot = update.snapshot;
        self.app.current.store(Arc::new(self.policies.clone()));
        update.problems.into_iter().map(|problem| problem.message).collect()
    }

    /// The `response` of a webhook.
    fn post(&self, path: &str, request: &Value) -> Value {
        let body = format!(
            r#"{{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {}}}"#,
            request.to_json()
        );
        let request = Request::post(path).header(header::CONTENT_TYPE, "application/json");
        let request = request.body(Body::from(body)).expect("a request");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let response = self.router.clone().oneshot(request).await.expect("infallible");
            assert_eq!(response.status(), StatusCode::OK);
            let body = response.into_body().collect().await.expect("a body").to_bytes();
            let review = Value::from_json(&body).expect("JSON");
            review.get("response").expect("a response").clone()
        })
    }

    fn decide(&self, review: &Review, stages: Stages) -> Decision {
        let PolicySet { snapshot, objects, inventory } = &self.policies;
        let mut arena = Arena::new();
        let mut evaluation = Evaluation::new(objects, inventory, &mut arena);
        let decision = snapshot.decide(review, stages, &mut evaluation, &mut NoopObserver);
        let mut trace = Trace::default();
        let watched = snapshot.decide(review, stages, &mut evaluation, &mut trace);
        assert_eq!(decision, watched, "`explain` decides as `review` does");
        let plan = Plan::of(&decision, &trace, snapshot.config());
        let stages = [
            (&plan.mutators.stopped, plan.mutators.fails),
            (&plan.modrules.stopped, plan.modrules.fails),
            (&plan.resultants.stopped, plan.resultants.fails),
            (&plan.constraints.stopped, plan.constraints.fails),
        ];
        let failing: Vec<_> = stages.into_iter().filter(|(_, fails)| *fails).collect();
        assert_eq!(failing.is_empty(), decision.allowed, "`plan` decides as `review` does");
        for (stopped, _) in failing {
            assert_eq!(stopped.as_ref(), Some(&decision.reason), "and says the same");
        }
        decision
    }

    /// Every webhook that the API server would call, in its order: whether the request is allowed,
    /// the text of the last answer that has any, warnings, and the object.
    fn called_in_turn(&self, request: &Value) -> Called {
        let review = Review::from_request(request).expect("a request");
        let scope = Scope::of(&review, self.policies.snapshot.config(), &self.policies.objects);
        let mut called = Called {
            allowed: true,
            text: String::new(),
            warnings: Vec::new(),
            object: review.object().cloned().unwrap_or_default(),
        };
        let mut request = request.clone();
        let kind = &review.request().kind;
        let is_write = matches!(review.request().operation, Operation::Create | Operation::Update)
            && review.request().sub_resource.is_empty();
        let checks_label = kind.is_namespace() && scope.gatekeeper != Err(Skipped::OwnNamespace);
        let webhooks = [
            ("/v1/mutate", scope.gatekeeper.is_ok()),
            ("/dragnet-webhook", scope.modrules.is_ok()),
            (VALIDATE_MODRULE, is_write && kind.api_version() == modrule::API_VERSION),
            ("/v1/admitlabel", is_write && checks_label),
            ("/v1/admit", scope.gatekeeper.is_ok()),
        ];
        for (path, is_called) in webhooks {
            if !is_called || !called.allowed {
                continue;
            }
            let response = self.post(path, &request);
            called.allowed = response.get("allowed") == Some(&Value::from(true));
            let text = |key| response.path(&["status", key]).and_then(Value::as_str);
            let is_kubemods = path == "/dragnet-webhook" || path == VALIDATE_MODRULE;
            let text = text(if is_kubemods { "reason" } else { "message" }).unwrap_or_default();
            // An admission by the webhook for labels says nothing about the request.
            let is_said = path != "/v1/admitlabel" || !called.allowed;
            if !text.is_empty() && is_said {
                called.text = text.to_owned();
            }
            let warnings = texts(&response, "warnings").map(str::to_owned);
            called.warnings.extend(warnings);
            if let Some(patch) = response.get("patch").and_then(Value::as_str) {
                called.object = patched(&called.object, patch);
                let mut members = request.as_object().cloned().expect("an object");
                members.insert("object", called.object.clone());
                request = members.into();
            }
        }
        called
    }

    /// Holds the webhooks to the engine.
    fn check(&self, request: &Value, what: &str) {
        let Ok(review) = Review::from_request(request) else { return };
        let decision = self.decide(&review, Stages::ALL);
        let called = self.called_in_turn(request);
        let what = format!("{what}: {}", request.to_json());
        assert_eq!(
            called.allowed, decision.allowed,
            "{what}\n{}\n{}",
            called.text, decision.reason
        );
        assert_eq!(called.warnings, decision.warnings, "{what}");
        if decision.allowed {
            assert_eq!(called.object.to_json(), decision.object.to_json(), "{what}");
            let says_patched = |text: &str| text == "patched ok" || text == "non-patched ok";
            if says_patched(&decision.reason) || decision.reason == "Resource was not mutated" {
                // KubeMod's webhook does not know what the mutators changed before.
                return;
            }
        }
        assert_eq!(called.text, decision.reason, "{what}");
    }
}

/// The items of a member that is a list.
fn list<'v>(of: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    of.get(key).and_then(Value::as_array).into_iter().flat_map(|items| items.iter())
}

fn texts<'v>(of: &'v Value, key: &str) -> impl Iterator<Item = &'v str> {
    list(of, key).filter_map(Value::as_str)
}

struct Called {
    allowed: bool,
    text: String,
    warnings: Vec<String>,
    object: Value,
}

fn patched(object: &Value, patch: &str) -> Value {
    let patch = STANDARD.decode(patch).expect("base64");
    let patch = Value::from_json(&patch).expect("JSON");
    let mut tree = Tree::from(object.clone());
    for operation in patch.as_array().expect("a patch") {
        let text = |key| operation.get(key).and_then(Value::as_str).unwrap_or_default();
        let op = Op::ALL.into_iter().find(|op| op.as_str() == text("op")).expect("an operation");
        let value = operation.get("value").cloned();
        let operation = PatchOperation { op, path: text("path").to_owned(), value };
        jsonpatch::apply(&mut tree, &operation, &Budget::unlimited()).expect("it applies");
    }
    tree.into_value()
}

/// The scenarios of the validating webhook, asked at every door.
struct EveryDoor(Server);

impl Subject for EveryDoor {
    fn load(&mut self, resources: &[Value]) -> Vec<String> {
        self.0.load(resources)
    }

    fn admit(&mut self, request: &Value) -> anyhow::Result<Answer> {
        let mut request = request.as_object().cloned().expect("an object");
        request.insert("uid", "u-1".into());
        let request = Value::from(request);
        self.0.check(&request, "a scenario");
        let review = Review::from_request(&request)?;
        let decision = self.0.decide(&review, Stages::CONSTRAINTS);
        let response = self.0.post("/v1/admit", &request);
        let message = response.path(&["status", "message"]).and_then(Value::as_str);
        assert_eq!(message.unwrap_or_default(), decision.reason);
        let code = response.path(&["status", "code"]).and_then(Value::as_i64);
        assert_eq!(code, Some(i64::from(decision.code)));
        Ok(Answer { response, logged: Vec::new(), counted: None })
    }

    fn label(&mut self, _: &Value) -> anyhow::Result<Answer> {
        anyhow::bail!("the label is no decision of the engine's stages")
    }

    fn audit(&mut self, _: &Value) -> Option<Vec<[String; 3]>> {
        None
    }
}

#[test]
fn every_scenario_of_the_validating_webhook() {
    let files = corpus::files(&Roots::discover()).expect("corpora");
    let file = files.iter().find(|file| file.name == "validation.json").expect("validation.json");
    let make = |settings: &Settings, objects: &[Value]| -> Option<Box<dyn Subject>> {
        if !settings.absent_namespaces.is_empty() {
            return None;
        }
        let mut server = Server::new(settings.engine());
        for object in objects {
            server.policies.inventory.insert(object.clone()).expect("an object");
            server.policies.objects.references_mut().take(object);
        }
        server.load(&[]);
        Some(Box::new(EveryDoor(server)))
    };
    // Other tests check that answers are right; this one, that they are the same.
    let mut cases = Vec::new();
    let _ = run_with(file, &make, &mut cases);
}

/// The folders of upstream's corpora that are here.
fn corpora() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let named = std::env::var_os("MODGATE_CONFORMANCE").map(PathBuf::from);
    let beside = root.join("../shared/conformance");
    [named, Some(beside)].into_iter().flatten().filter(|path| path.is_dir()).take(1).collect()
}

fn documents(path: &Path) -> Vec<Value> {
    let Ok(text) = fs::read_to_string(path) else { return Vec::new() };
    yaml::documents(&text).filter_map(Result::ok).map(|document| document.value).collect()
}

/// Objects as requests to create them; AdmissionReviews as they are.
fn request_of(document: &Value) -> Option<Value> {
    match document.get("request") {
        Some(request) => Some(request.clone()),
        None if document.get("kind").is_none() => None,
        None => {
            let review = Review::of_object(document.clone(), Operation::Create, NAMESPACE);
            Some(review.sent().clone())
        }
    }
}

/// Suites: their templates and constraints together with a mutator and a ModRule, and every object of
/// their cases.
#[test]
fn every_case_of_the_library() {
    let companions = [
        "{apiVersion: mutations.gatekeeper.sh/v1, kind: AssignMetadata, metadata: {name: m}, \
         spec: {location: metadata.labels.seen, parameters: {assign: {value: 'yes'}}}}",
        "{apiVersion: api.kubemod.io/v1beta1, kind: ModRule, metadata: {name: r}, \
         spec: {type: Patch, match: [{select: '$.metadata.labels.seen'}], \
         patch: [{op: add, path: /metadata/annotations/seen, value: 'too'}]}}",
    ];
    let companions = companions.map(|text| yaml::value(text).expect(text));
    let mut asked = 0;
    for library in corpora().iter().map(|root| root.join("gatekeeper-library/library")) {
        let mut suites = Vec::new();
        find(&library, "suite.yaml", &mut suites);
        for suite in &suites {
            let folder = suite.parent().expect("a folder");
            let document = documents(suite).into_iter().next().unwrap_or_default();
            for test in list(&document, "tests") {
                let read = |of: &Value, key: &str| match of.get(key).and_then(Value::as_str) {
                    Some(file) => documents(&folder.join(file)),
                    None => Vec::new(),
                };
                let mut policies = read(test, "template");
                policies.extend(read(test, "constraint"));
                policies.extend(companions.iter().cloned());
                for case in list(test, "cases") {
                    let inventory = texts(case, "inventory");
                    let objects: Vec<Value> =
                        inventory.flat_map(|file| documents(&folder.join(file))).collect();
                    let server = Server::with(&policies, &objects);
                    for request in read(case, "object").iter().filter_map(request_of) {
                        server.check(&request, &suite.display().to_string());
                        asked += 1;
                    }
                }
            }
        }
    }
    assert!(asked > 200 || corpora().is_empty(), "{asked} objects were asked about");
}

fn find(folder: &Path, name: &str, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            find(&path, name, found);
        } else if path.file_name().is_some_and(|file| file == name) {
            found.push(path);
        }
    }
}

/// KubeMod's recorded rules and resources, with the constraints' stage behind them.
#[test]
fn every_case_of_kubemod() {
    let deny = [
        "{apiVersion: templates.gatekeeper.sh/v1, kind: ConstraintTemplate, metadata: {name: foo}, \
         spec: {crd: {spec: {names: {kind: Foo}}}, targets: [{target: admission.k8s.gatekeeper.sh, \
         rego: \"package foo\\nviolation[{\\\"msg\\\": \\\"labelled\\\"}] { \
         input.review.object.metadata.labels }\"}]}}",
        "{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: Foo, metadata: {name: c}, \
         spec: {enforcementAction: warn}}",
    ];
    let deny = deny.map(|text| yaml::value(text).expect(text));
    let mut asked = 0;
    for root in corpora().iter().map(|root| root.join("kubemod")) {
        let file = fs::read(root.join("cases.json")).expect("cases.json");
        let file = Value::from_json(&file).expect("JSON");
        for case in list(&file, "cases") {
            let text = |key| case.get(key).and_then(Value::as_str).unwrap_or_default();
            let rules = texts(case, "rules");
            let mut policies: Vec<Value> =
                rules.flat_map(|file| documents(&root.join(file))).collect();
            policies.extend(deny.iter().cloned());
            let server = Server::with(&policies, &[]);
            let namespace = match text("namespace") {
                "" => NAMESPACE,
                namespace => namespace,
            };
            for object in documents(&root.join(text("resource"))) {
                let operation = text("operation").parse().unwrap_or(Operation::Create);
                let review = Review::of_object(object, operation, namespace);
                server.check(review.sent(), text("id"));
                asked += 1;
            }
        }
    }
    assert!(asked > 50 || corpora().is_empty(), "{asked} objects were asked about");
}

/// The cluster's own policies; `BINDS` stands at the end of every `policyName`.
const ADMISSION_POLICIES: &str = r#"
- apiVersion: admissionregistration.k8s.io/v1
  kind: MutatingAdmissionPolicy
  metadata: {name: team}
  spec:
    reinvocationPolicy: Never
    matchConstraints:
      resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]
    mutations:
    - patchType: JSONPatch
      jsonPatch:
        expression: "[JSONPatch{op: 'add', path: '/metadata/labels', value: {'team': request.namespace}}]"
- apiVersion: admissionregistration.k8s.io/v1
  kind: MutatingAdmissionPolicyBinding
  metadata: {name: team}
  spec: {policyName: teamBINDS}
- apiVersion: admissionregistration.k8s.io/v1
  kind: ValidatingAdmissionPolicy
  metadata: {name: replicas}
  spec:
    paramKind: {apiVersion: v1, kind: ConfigMap}
    matchConstraints:
      resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]
    validations:
    - expression: object.spec.replicas <= int(params.data.most)
      messageExpression: "'at most ' + params.data.most + ' <b>'"
      reason: Forbidden
    auditAnnotations: [{key: seen, valueExpression: string(object.spec.replicas)}]
- apiVersion: admissionregistration.k8s.io/v1
  kind: ValidatingAdmissionPolicyBinding
  metadata: {name: few}
  spec:
    policyName: replicasBINDS
    validationActions: [Deny, Audit]
    paramRef: {name: limits, parameterNotFoundAction: Deny}
- apiVersion: admissionregistration.k8s.io/v1
  kind: ValidatingAdmissionPolicyBinding
  metadata: {name: told}
  spec:
    policyName: replicasBINDS
    validationActions: [Warn]
    paramRef: {name: limits, parameterNotFoundAction: Deny}
"#;

#[test]
fn the_clusters_own_policies_as_webhooks() {
    let limits = r#"{"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "limits", "namespace": "shop"}, "data": {"most": "3"}}"#;
    let limits = Value::from_json(limits.as_bytes()).expect("an object");
    let request = r#"{"uid": "u", "operation": "CREATE", "name": "web", "namespace": "shop",
        "kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
        "resource": {"group": "apps", "version": "v1", "resource": "deployments"},
        "userInfo": {"username": "me"},
        "object": {"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop"}, "spec": {"replicas": 5}}}"#;
    let request = Value::from_json(request.as_bytes()).expect("a request");
    let policies = |end: &str| {
        let text = ADMISSION_POLICIES.replace("BINDS", end);
        yaml::value(&text).expect("policies").as_array().expect("a list").to_vec()
    };
    let of_api_server = policies("").into_iter().map(|mut policy| {
        if let Value::Object(members) = &mut policy {
            let name = policy_name(members.get("metadata"));
            let metadata = [("name", Value::from(format!("{name}-too")))];
            let kind = members.get("kind").and_then(Value::as_str).unwrap_or_default();
            if kind.ends_with("Binding") {
                members.insert("metadata", metadata.into_iter().collect::<Value>());
            }
        }
        policy
    });
    let marked = policies(".modgate.sh");
    let both: Vec<Value> = marked.iter().cloned().chain(of_api_server).collect();
    for (served, policies, decides) in [
        (ServedPolicies::Marked, &marked, true),
        (ServedPolicies::Marked, &policies(""), false),
        (ServedPolicies::Marked, &both, false),
        (ServedPolicies::Off, &marked, false),
        (ServedPolicies::All, &policies(""), true),
    ] {
        let mut server =
            Server::new(EngineConfig { admission_policies: served, ..EngineConfig::default() });
        server.policies.objects.references_mut().keep(&limits);
        let problems = server.load(policies);
        let doubled = problems.iter().filter(|it| it.contains("is not decided twice")).count();
        assert_eq!(doubled, if policies.len() == both.len() { 3 } else { 0 }, "{problems:?}");
        let mutated = server.post("/v1/policies/mutate", &request);
        let patch = mutated.get("patch").and_then(Value::as_str).unwrap_or_default();
        let patch = STANDARD.decode(patch).expect("base64");
        let expected = r#"[{"op":"add","path":"/metadata/labels","value":{"team":"shop"}}]"#;
        let expected = if decides { expected } else { "" };
        assert_eq!(String::from_utf8_lossy(&patch), expected, "{served:?}");
        let validated = server.post("/v1/policies/validate", &request).to_json();
        let expected = if decides { DENIED } else { ALLOWED };
        assert_eq!(validated, expected, "{served:?}");
        // The other webhooks leave them out.
        for path in ["/v1/admit", "/v1/mutate", "/mutate", "/validate"] {
            let response = server.post(path, &request);
            assert_eq!(response.get("allowed"), Some(&true.into()), "{path}");
            assert_eq!(response.get("patch"), None, "{path}");
        }
    }
}

fn policy_name(metadata: Option<&Value>) -> String {
    let name = metadata.and_then(|it| it.get("name")).and_then(Value::as_str);
    name.unwrap_or_default().to_owned()
}

const ALLOWED: &str = r#"{"allowed":true,"status":{"code":200,"metadata":{}},"uid":"u"}"#;
const DENIED: &str = concat!(
    r#"{"allowed":false,"auditAnnotations":{"replicas.seen":"5","validation_failure":"#,
    r#""[{\"message\":\"at most 3 \\u003cb\\u003e\",\"policy\":\"replicas\",\"binding\":\"few\","#,
    r#"\"expressionIndex\":0,\"validationActions\":[\"Deny\",\"Audit\"]}]"},"status":{"code":403,"#,
    r#""message":"ValidatingAdmissionPolicy 'replicas' with binding 'few' denied request: at most 3 <b>","#,
    r#""metadata":{},"reason":"Forbidden"},"uid":"u","warnings":["Validation failed for "#,
    r#"ValidatingAdmissionPolicy 'replicas' with binding 'told': at most 3 <b>"]}"#,
);
