//! The page's service without a socket: its documents, and who sees them.

use std::{
    convert::Infallible,
    sync::atomic::{AtomicUsize, Ordering},
};

use axum::http::request::Builder;
use http_body_util::BodyExt as _;
use hyper::body::{Frame, SizeHint};
use modgate_cluster::{Controllers, Events, Shared};
use modgate_engine::EngineConfig;
use modgate_policies::{PolicyFiles, PolicyStore};
use modgate_value::Value;
use tower::ServiceExt as _;

use super::*;
use crate::{
    CertificateSource, PolicyOrigin, Routes, ServeConfig,
    listen::Peer,
    webhook::{Evaluators, router},
};

/// Denies objects whose label `bad` is set, and quotes its value; and Secrets, quoting what they hold.
const POLICIES: &str = r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: nobad, annotations: {metadata.gatekeeper.sh/title: No bad objects, description: Denies them.}}
spec:
  crd: {spec: {names: {kind: NoBad}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package nobad
      violation[{"msg": msg}] {
        bad := input.review.object.metadata.labels.bad
        msg := sprintf("bad is %v", [bad])
      }
      violation[{"msg": msg}] {
        value := input.review.object.stringData.password
        msg := sprintf("password is %v", [value])
      }
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: NoBad
metadata: {name: everywhere}
"#;

/// A policy that does not load.
const BROKEN: &str = r#"
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: broken, namespace: shop}
spec: {type: Reject, match: [{select: '$.kind['}]}
"#;

struct Served {
    app: Arc<App>,
    page: Router,
    webhooks: Router,
    store: PolicyStore,
    folder: tempfile::TempDir,
}

impl Served {
    fn files(policies: &str) -> Self {
        Self::with(policies, |standings| Origin::Files(Arc::new(standings.into())))
    }

    fn with(
        policies: &str,
        origin: impl FnOnce(Arc<Vec<modgate_policies::Standing>>) -> Origin,
    ) -> Self {
        Self::configured(policies, "", EngineConfig::default(), origin)
    }

    /// With objects that policies can refer to.
    fn beside(policies: &str, objects: &str) -> Self {
        let origin = |standings: Arc<Vec<modgate_policies::Standing>>| {
            Origin::Files(Arc::new(standings.into()))
        };
        Self::configured(policies, objects, EngineConfig::default(), origin)
    }

    fn configured(
        policies: &str,
        objects: &str,
        config: EngineConfig,
        origin: impl FnOnce(Arc<Vec<modgate_policies::Standing>>) -> Origin,
    ) -> Self {
        let folder = tempfile::tempdir().expect("folder");
        std::fs::write(folder.path().join("policies.yaml"), policies).expect("written");
        let others = tempfile::tempdir().expect("folder");
        std::fs::write(others.path().join("objects.yaml"), objects).expect("written");
        let objects = if objects.is_empty() { Vec::new() } else { vec![others.path().to_owned()] };
        let files = PolicyFiles { policies: vec![folder.path().to_owned()], objects };
        let mut store = PolicyStore::new(files, config);
        let findings = store.refresh().findings;
        assert!(policies.contains(BROKEN) || findings.is_empty(), "{findings:?}");
        let decisions = Some(Arc::default());
        let app = Arc::new(App { evaluators: Evaluators::new(1), decisions, ..App::default() });
        app.current.store(Arc::clone(store.policies()));
        let source = CertificateSource::SelfSigned { names: vec!["localhost".to_owned()] };
        let certificates = Certificates::load(&source).expect("certificate");
        let origin = origin(Arc::new(store.standings()));
        let page = routes(Ui::new(Arc::clone(&app), origin, certificates, Some("pod-1".into())));
        let webhooks = router(Arc::clone(&app), Routes::All);
        Self { app, page, webhooks, store, folder }
    }

    /// Other policies from now on.
    fn replace(&mut self, policies: &str) {
        let fresh = self.folder.path().join("fresh");
        std::fs::write(&fresh, policies).expect("written");
        std::fs::rename(fresh, self.folder.path().join("policies.yaml")).expect("renamed");
        assert!(self.store.refresh().changed);
        self.app.current.store(Arc::clone(self.store.policies()));
    }

    async fn send(&self, request: Request) -> (StatusCode, String) {
        let path = request.uri().path().to_owned();
        let response = self.page.clone().oneshot(request).await.expect("infallible");
        let headers = response.headers();
        assert_eq!(headers.get(header::X_CONTENT_TYPE_OPTIONS).expect("header"), "nosniff");
        assert_eq!(headers.get(header::CACHE_CONTROL).expect("header"), "no-store");
        assert!(headers.get(header::SET_COOKIE).is_none());
        assert!(headers.get(header::ACCESS_CONTROL_ALLOW_ORIGIN).is_none());
        let policy = headers.get(header::CONTENT_SECURITY_POLICY).expect("a content policy");
        assert!(policy.to_str().expect("text").starts_with("default-src 'none'"));
        let status = response.status();
        let documented = documented(&path);
        let is_documented = documented.is_empty() || documented.contains(&status.as_u16());
        assert!(is_documented, "{path} answers {status}, and `openapi.json` has {documented:?}");
        let body = response.into_body().collect().await.expect("body").to_bytes();
        (status, String::from_utf8(body.to_vec()).expect("text"))
    }

    async fn get(&self, path: &str) -> (StatusCode, String) {
        self.send(of_machine(Request::get(path)).body(Body::empty()).expect("request")).await
    }

    async fn json(&self, path: &str) -> Value {
        let (status, body) = self.get(path).await;
        assert_eq!(status, StatusCode::OK, "{path}: {body}");
        Value::from_json(body.as_bytes()).expect("JSON")
    }

    async fn tries(&self, path: &str, body: &str) -> (StatusCode, String) {
        let request =
            of_machine(Request::post(path)).header(header::CONTENT_TYPE, "application/json");
        self.send(request.body(body.to_owned().into()).expect("request")).await
    }

    /// An API server creates this object.
    async fn admit(&self, object: &str) {
        let (status, _) = self.review(object, UID).await;
        assert_eq!(status, StatusCode::OK);
    }

    async fn review(&self, object: &str, uid: &str) -> (StatusCode, String) {
        self.asked("/v1/admit", object, uid).await
    }

    /// The answer of a webhook.
    async fn asked(&self, route: &str, object: &str, uid: &str) -> (StatusCode, String) {
        let value = Value::from_json(object.as_bytes()).expect("JSON");
        let text =
            |path: &[&str]| value.path(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (kind, name) = (text(&["kind"]), text(&["metadata", "name"]));
        let namespace = text(&["metadata", "namespace"]);
        let plural = format!("{}s", kind.to_lowercase());
        let name = Value::from(name.as_str());
        let review = format!(
            r#"{{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {{"uid": "{uid}",
                "kind": {{"group": "", "version": "v1", "kind": "{kind}"}},
                "resource": {{"group": "", "version": "v1", "resource": "{plural}"}},
                "name": {name}, "namespace": "{namespace}", "operation": "CREATE",
                "userInfo": {{"username": "ann"}}, "object": {object}}}}}"#
        );
        let request = Request::post(route).header(header::CONTENT_TYPE, "application/json");
        let request = request.body(Body::from(review)).expect("request");
        let response = self.webhooks.clone().oneshot(request).await.expect("infallible");
        let status = response.status();
        let body = response.into_body().collect().await.expect("body").to_bytes();
        (status, String::from_utf8_lossy(&body).into_owned())
    }
}

const UID: &str = "c81ac6ec-7b5c-4a4c-9e6f-1c2d3e4f5a6b";

/// The answers that `openapi.json` has for a path; none if it is no path of the API.
fn documented(path: &str) -> Vec<u16> {
    let path = match path.starts_with("/api/v1/decisions/") {
        true => "/api/v1/decisions/{id}",
        false => path,
    };
    let document = Value::from_json(DOCUMENT.as_bytes()).expect("JSON");
    let operations = document.path(&["paths", path]).and_then(Value::as_object);
    let operations = operations.into_iter().flat_map(|it| it.iter());
    let responses = operations.filter_map(|(_, it)| it.get("responses")?.as_object());
    responses.flat_map(|it| it.iter()).filter_map(|(code, _)| code.parse().ok()).collect()
}

fn of_machine(request: Builder) -> Builder {
    request.header(header::HOST, "127.0.0.1:8088")
}

fn pod(name: &str, bad: &str) -> String {
    let labels =
        if bad.is_empty() { String::new() } else { format!(r#""bad": {}"#, Value::from(bad)) };
    format!(
        r#"{{"apiVersion": "v1", "kind": "Pod",
            "metadata": {{"name": {}, "namespace": "shop", "labels": {{{labels}}}}}}}"#,
        Value::from(name)
    )
}

fn text(value: &Value, path: &[&str]) -> String {
    value.path(path).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn items<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value.get(name).and_then(Value::as_array).map(|it| &**it).unwrap_or_default()
}

/// Fails where a document is not as `openapi.json` says.
fn check(document: &Value, schema: &Value, whole: &Value, place: &str) {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let name = reference.rsplit('/').next().unwrap_or_default();
        let target = whole.path(&["components", "schemas", name]).expect("a schema");
        return check(document, target, whole, place);
    }
    if let Some(choices) = schema.get("anyOf").and_then(Value::as_array) {
        if !document.is_null() {
            check(document, choices.first().expect("a choice"), whole, place);
        }
        return;
    }
    let types: Vec<&str> = match schema.get("type") {
        Some(Value::Array(types)) => types.iter().filter_map(Value::as_str).collect(),
        Some(one) => one.as_str().into_iter().collect(),
        None => return,
    };
    let found = match document {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        _ => "integer",
    };
    let is_number = found == "integer" && types.contains(&"number");
    assert!(types.contains(&found) || is_number, "{place} is {found}, not {types:?}");
    if let Some(members) = document.as_object().filter(|_| schema.get("required").is_some()) {
        let properties = schema.get("properties").and_then(Value::as_object).expect("properties");
        for required in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
            let name = required.as_str().expect("a name");
            assert!(members.get(name).is_some(), "{place} lacks {name}");
        }
        for (name, value) in members {
            let of =
                properties.get(name).unwrap_or_else(|| panic!("{place}.{name} is not described"));
            check(value, of, whole, &format!("{place}.{name}"));
        }
    }
    for item in document.as_array().into_iter().flatten() {
        if let Some(of) = schema.get("items") {
            check(item, of, whole, &format!("{place}[]"));
        }
    }
}

#[tokio::test]
async fn documents_are_as_they_are_described() {
    let served = Served::files(&format!("{POLICIES}---{BROKEN}"));
    served.admit(&pod("good", "")).await;
    served.admit(&pod("<img src=x onerror=alert(1)>", "</script>")).await;
    let whole = served.json("/api/v1/openapi.json").await;
    let listed = served.json("/api/v1/decisions").await;
    let denied = items(&listed, "items").first().expect("a decision").clone();
    let id = denied.get("id").and_then(Value::as_i64).expect("a number");
    for (path, schema) in [
        ("/api/v1/status".to_owned(), "Status"),
        ("/api/v1/policies".to_owned(), "Policies"),
        ("/api/v1/namespaces".to_owned(), "Namespaces"),
        ("/api/v1/decisions".to_owned(), "Decisions"),
        (format!("/api/v1/decisions/{id}"), "DecisionDetails"),
    ] {
        let document = served.json(&path).await;
        let schema = whole.path(&["components", "schemas", schema]).expect("a schema");
        check(&document, schema, &whole, &path);
    }
    let body = Value::from(pod("tried", "x")).to_json();
    let (status, tried) = served.tries("/api/v1/try", &format!(r#"{{"objects": {body}}}"#)).await;
    assert_eq!(status, StatusCode::OK, "{tried}");
    let tried = Value::from_json(tried.as_bytes()).expect("JSON");
    let schema = whole.path(&["components", "schemas", "TryResult"]).expect("a schema");
    check(&tried, schema, &whole, "try");
    // Markup stays text, in a document that no browser takes for a page.
    assert_eq!(text(&denied, &["name"]), "<img src=x onerror=alert(1)>");
    assert_eq!(text(&denied, &["outcome"]), "denied");
    assert_eq!(text(&denied, &["message"]), "[everywhere] bad is </script>");
}

#[tokio::test]
async fn what_the_process_knows() {
    let served = Served::files(&format!("{POLICIES}---{BROKEN}"));
    served.admit(&pod("a", "very")).await;
    served.admit(&pod("b", "")).await;
    let status = served.json("/api/v1/status").await;
    assert_eq!(text(&status, &["source"]), "files");
    assert_eq!(text(&status, &["replica", "name"]), "pod-1");
    let number = |path: &[&str]| status.path(path).and_then(Value::as_i64);
    assert_eq!(number(&["policies", "failed"]), Some(1));
    assert_eq!(number(&["decisions", "counts", "denied"]), Some(1));
    assert_eq!(number(&["decisions", "counts", "allowed"]), Some(1));
    let policies = served.json("/api/v1/policies").await;
    let named = |name: &str| {
        let found = items(&policies, "items").iter().find(|it| text(it, &["name"]) == name);
        found.unwrap_or_else(|| panic!("{name}")).clone()
    };
    let constraint = named("everywhere");
    assert_eq!(text(&constraint, &["title"]), "No bad objects");
    assert_eq!(text(&constraint, &["action"]), "deny");
    assert_eq!(constraint.get("denials").and_then(Value::as_i64), Some(1));
    assert_eq!(text(&constraint, &["lastDenial", "message"]), "bad is very");
    let broken = named("broken");
    assert_eq!(text(&broken, &["status"]), "failed");
    assert_eq!(broken.get("inForce").and_then(Value::as_bool), Some(false));
    assert!(!items(&broken, "messages").is_empty());
    let namespaces = served.json("/api/v1/namespaces").await;
    let shop = items(&namespaces, "items").first().expect("a namespace").clone();
    assert_eq!(text(&shop, &["name"]), "shop");
    assert_eq!(shop.path(&["decisions", "denied"]).and_then(Value::as_i64), Some(1));
}

#[tokio::test]
async fn decisions_are_explained_by_the_policies_in_force() {
    let mut served = Served::files(POLICIES);
    served.admit(&pod("a", "very")).await;
    let details = served.json("/api/v1/decisions/1").await;
    assert_eq!(text(&details, &["decision", "user"]), "ann");
    let constraints = details.path(&["result", "explanation", "constraints"]).expect("some");
    assert!(constraints.to_json().contains("bad is very"), "{constraints}");
    assert_eq!(details.get("changed").and_then(Value::as_bool), Some(false));
    assert!(text(&details, &["result", "before"]).contains("bad: very"));
    served.replace("{}");
    let details = served.json("/api/v1/decisions/1").await;
    assert_eq!(details.get("changed").and_then(Value::as_bool), Some(true));
    let (status, _) = served.get("/api/v1/decisions/1?namespace=other").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert_eq!(served.get("/api/v1/decisions/77").await.0, StatusCode::NOT_FOUND);
}

/// A constraint and a ModRule that use up whatever time they are given.
const BURNING: &str = r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: burns}
spec:
  crd: {spec: {names: {kind: Burns}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package burns
      ns := numbers.range(1, 1000)
      violation[{"msg": "never"}] {
        count([1 | a := ns[_]; b := ns[_]; c := ns[_]; a + b + c == 0]) > 0
      }
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: Burns
metadata: {name: everywhere}
---
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: burns, namespace: shop}
spec:
  type: Reject
  match: [{select: '$.kind', matchValue: Pod}]
  rejectMessage: '{{ $x := repeat 1000000 "a" }}{{ $y := repeat 1000000 "a" }}{{ range until 100000 }}{{ range until 100000 }}{{ $c := eq $x $y }}{{ end }}{{ end }}'
"#;

/// Evaluations for viewers, and explanations of decisions for them, do not demote a policy: else a
/// viewer could have one demoted, by an object for which it takes long.
#[tokio::test(flavor = "multi_thread")]
async fn viewers_demote_no_policy() {
    let mut config = EngineConfig::default();
    let limits = [&mut config.rule_limits, &mut config.constraint_limits];
    for limits in limits.into_iter().chain([&mut config.request_limits, &mut config.review_limits])
    {
        limits.steps = u64::MAX;
    }
    config.rule_limits.time = Duration::from_millis(100);
    config.constraint_limits.time = Duration::from_millis(100);
    let origin = |standings: Arc<Vec<_>>| Origin::Files(Arc::new(standings.into()));
    let served = Served::configured(BURNING, "", config, origin);
    let demoted = || {
        let snapshot = &served.app.current.load().expect("policies").snapshot;
        snapshot.demoted().map(|policy| policy.name.to_string()).collect::<Vec<_>>()
    };
    // One decision by each webhook that can be explained: strikes, but too few.
    served.asked("/v1/admit", &pod("p", ""), UID).await;
    served.asked("/dragnet-webhook", &pod("p", ""), UID).await;
    // The rule rejects the first, so that constraints do not see it; the second is none of its concern.
    let objects = [pod("tried", ""), pod("tried", "").replace("shop", "bank")].join("\n---\n");
    let body = format!(r#"{{"objects": {}}}"#, Value::from(objects));
    for _ in 0..4 {
        let (status, tried) = served.tries("/api/v1/try", &body).await;
        assert_eq!(status, StatusCode::OK, "{tried}");
        assert_eq!(tried.matches(r#""allowed":false"#).count(), 2, "time is up: {tried}");
        for id in [1, 2] {
            let (status, explained) = served.get(&format!("/api/v1/decisions/{id}")).await;
            assert_eq!(status, StatusCode::OK, "{explained}");
        }
        assert_eq!(demoted(), [""; 0]);
    }
    for _ in 0..3 {
        served.asked("/v1/admit", &pod("p", ""), UID).await;
        served.asked("/dragnet-webhook", &pod("p", ""), UID).await;
    }
    assert_eq!(demoted(), ["burns", "everywhere"], "requests do");
}

/// Viewers share the answer of a moment ago, but for who asks for a new one: `modgate why` asks about what was denied
/// just now.
#[tokio::test]
async fn who_asks_for_a_new_answer_gets_one() {
    let served = Served::files(POLICIES);
    let ask = async |control: &str| {
        let request = of_machine(Request::get("/api/v1/decisions?outcome=denied"));
        let request = request.header(header::CACHE_CONTROL, control);
        let (_, body) = served.send(request.body(Body::empty()).expect("request")).await;
        items(&Value::from_json(body.as_bytes()).expect("JSON"), "items").len()
    };
    assert_eq!(ask("max-age=1").await, 0);
    served.admit(&pod("a", "very")).await;
    for control in ["no-cache", "No-Cache", "max-age=0, no-cache"] {
        assert_eq!(ask(control).await, 1, "{control}");
    }
    served.admit(&pod("b", "very")).await;
    assert_eq!(ask("no-cache").await, 2);
    assert_eq!(ask("max-age=1").await, 2, "the others see it, too");
}

#[tokio::test]
async fn secrets_stand_in_no_answer() {
    let served = Served::files(POLICIES);
    let secret = r#"{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "shop"},
        "stringData": {"password": "hunter2hunter2"}}"#;
    let (_, answer) = served.review(secret, UID).await;
    assert!(answer.contains("hunter2"), "the policy quotes it: {answer}");
    let mut all = String::new();
    for path in ["status", "policies", "namespaces", "decisions", "decisions/1"] {
        all.push_str(&served.get(&format!("/api/v1/{path}")).await.1);
    }
    assert!(all.contains(modgate_engine::api::secrets::NOT_SHOWN), "{all}");
    assert!(!all.contains("hunter2"), "{all}");
    let body = format!(r#"{{"objects": {}}}"#, Value::from(secret));
    let (status, tried) = served.tries("/api/v1/try?namespace=shop", &body).await;
    assert_eq!(status, StatusCode::OK, "{tried}");
    assert!(tried.contains("(hidden)"), "{tried}");
    assert!(!tried.contains("hunter2"), "{tried}");
}

/// Decode, split and change values of a Secret of the inventory; of a function's parameter, too.
const DERIVING: &str = r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: derives}
spec:
  crd: {spec: {names: {kind: Derives}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package derives
      first(text) = part { part := split(text, ":")[0]; part != "" }
      violation[{"msg": "found"}] {
        settings := json.unmarshal(base64.decode(data.inventory.namespace[_]["v1"]["Secret"][_].data.settings))
        user := first(settings.login)
        loud := upper(settings.password)
        trace(sprintf("%v", [loud]))
        settings.password != substring(settings.password, 0, 3)
      }
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: Derives
metadata: {name: all}
---
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: plain}
spec:
  crd: {spec: {names: {kind: Plain}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package plain
      violation[{"msg": "plain"}] { loud := upper(input.review.object.metadata.name); loud != "" }
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: Plain
metadata: {name: all}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: takes-a-secret}
spec:
  paramKind: {apiVersion: v1, kind: Secret}
  matchConstraints:
    resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]
  variables: [{name: settings, expression: "params.data.settings.substring(5)"}]
  validations: [{expression: 'variables.settings.contains("nothing")', message: it has nothing}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: takes-a-secret}
spec:
  policyName: takes-a-secret.modgate.sh
  validationActions: [Deny]
  paramRef: {name: app, namespace: other, parameterNotFoundAction: Deny}
"#;

/// A viewer of one namespace must not read a Secret of another one from an explanation, even if a policy has changed
/// its values.
#[tokio::test]
async fn nothing_that_is_made_of_a_secret_is_explained() {
    let settings = r#"{"login": "app-user:x", "password": "hunter2hunter2"}"#;
    let encoded = modgate_value::go::base64::Alphabet::Standard.encode(settings.as_bytes());
    let secret = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: app, namespace: other}}\ndata: {{settings: {encoded}}}\n"
    );
    let served = Served::beside(DERIVING, &secret);
    served.admit(&pod("p", "")).await;
    let (status, explained) = served.get("/api/v1/decisions/1").await;
    assert_eq!(status, StatusCode::OK, "{explained}");
    let body = format!(r#"{{"objects": {}}}"#, Value::from(pod("p", "")));
    let (_, tried) = served.tries("/api/v1/try?namespace=shop", &body).await;
    // A try asks the ValidatingAdmissionPolicy first, and its denial is the answer.
    for (answer, parts) in [
        (explained, ["json.unmarshal", "(hidden)", r#"\"P\""#]),
        (tried, ["variables.settings.contains", "(hidden)", "takes-a-secret"]),
    ] {
        for shown in parts {
            assert!(answer.contains(shown), "{shown} is missing: {answer}");
        }
        for secret in ["hunter2", "HUNTER2", "app-user", "APP-USER", &encoded[5..]] {
            assert!(!answer.contains(secret), "{secret} is in {answer}");
        }
    }
}

/// Quotes a Secret of the inventory in its message.
const QUOTING: &str = r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: quotes}
spec:
  crd: {spec: {names: {kind: Quotes}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package quotes
      violation[{"msg": msg}] {
        token := base64.decode(data.inventory.namespace[_]["v1"]["Secret"][_].data.token)
        msg := sprintf("%v has not the token %v", [input.review.object.metadata.name, token])
      }
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: Quotes
metadata: {name: all}
"#;

#[tokio::test]
async fn messages_that_are_kept_quote_no_secret_of_the_inventory() {
    let encoded = modgate_value::go::base64::Alphabet::Standard.encode(b"tokenABCDEFGH");
    let secret = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: app, namespace: other}}\ndata: {{token: {encoded}}}\n"
    );
    let served = Served::beside(QUOTING, &secret);
    let (_, answer) = served.review(&pod("p", ""), UID).await;
    assert!(answer.contains("tokenABCDEFGH"), "the requester reads the message: {answer}");
    for path in ["status", "policies", "namespaces", "decisions", "decisions/1"] {
        let (status, answer) = served.get(&format!("/api/v1/{path}")).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        assert!(!answer.contains("ABCDEF"), "{path}: {answer}");
        let is_shown = answer.contains("p has not the token (hidden)");
        assert_eq!(is_shown, path != "status", "{path}: {answer}");
    }
}

/// A flood of denials leaves other decisions in the list.
#[tokio::test]
async fn many_denials_hide_no_other() {
    const MANY: usize = 5_000;
    let served = Served::files(POLICIES);
    let of = |namespace: &str, name: &str| {
        pod(name, "x").replace(r#""shop""#, &format!(r#""{namespace}""#))
    };
    served.admit(&of("early", "first")).await;
    for (namespace, name) in [("amid", "second"), ("late", "third")] {
        for _ in 0..MANY {
            served.admit(&pod("flood", "x")).await;
        }
        served.admit(&of(namespace, name)).await;
    }
    for (namespace, name) in [("early", "first"), ("amid", "second"), ("late", "third")] {
        let path = format!("/api/v1/decisions?namespace={namespace}&outcome=denied&limit=1");
        let listed = served.json(&path).await;
        let denial = items(&listed, "items").first().unwrap_or_else(|| panic!("{namespace}"));
        assert_eq!(text(denial, &["name"]), name);
        let id = denial.get("id").and_then(Value::as_i64).expect("a number");
        let details = served.json(&format!("/api/v1/decisions/{id}")).await;
        let explained = details.path(&["result", "explanation", "constraints"]);
        assert!(explained.expect("an explanation").to_json().contains("bad is x"), "{details}");
    }
    let number = |value: &Value, path: &[&str]| value.path(path).and_then(Value::as_i64);
    let all = i64::try_from(2 * MANY + 3).expect("small");
    let status = served.json("/api/v1/status").await;
    assert_eq!(number(&status, &["decisions", "counts", "denied"]), Some(all));
    let policies = served.json("/api/v1/policies").await;
    let policy = items(&policies, "items").iter().find(|it| text(it, &["name"]) == "everywhere");
    assert_eq!(number(policy.expect("the constraint"), &["denials"]), Some(all));
    let namespaces = served.json("/api/v1/namespaces").await;
    for namespace in items(&namespaces, "items") {
        let name = text(namespace, &["name"]);
        let expected = if name == "shop" { all - 3 } else { 1 };
        assert_eq!(number(namespace, &["decisions", "denied"]), Some(expected), "{name}");
        let last = text(namespace, &["lastDenial", "name"]);
        assert_eq!(last == "flood", name == "shop", "{name}: {last}");
    }
}

/// Neither namespaces nor objects make the process grow.
#[tokio::test]
async fn what_is_kept_is_bounded() {
    let served = Served::files(POLICIES);
    // Each takes 800 KB as an object in memory: eight fill the ring.
    let large = pod("large", "x")
        .replace("\"Pod\",", &format!("\"Pod\", \"x\": \"{}\",", "x".repeat(200_000)));
    for _ in 0..20 {
        served.admit(&large).await;
    }
    let ids = |listed: &Value| -> Vec<i64> {
        items(listed, "items").iter().filter_map(|it| it.get("id")?.as_i64()).collect()
    };
    let listed = served.json("/api/v1/decisions?outcome=denied&name=large").await;
    assert!((1..=8).contains(&ids(&listed).len()), "{listed}");
    for number in 0..1_500 {
        let invented = format!(r#""invented-{number}""#);
        served.admit(&pod("p", "x").replace(r#""shop""#, &invented)).await;
    }
    for _ in 0..100 {
        served.admit(&pod("good", "")).await;
    }
    // No API server sends this.
    served.review(&pod("stranger", "x"), "no-uuid").await;
    let status = served.json("/api/v1/status").await;
    let count = |path: &[&str]| status.path(path).and_then(Value::as_i64).expect("a number");
    assert_eq!(count(&["decisions", "counts", "denied"]), 1_520);
    assert_eq!(count(&["decisions", "counts", "allowed"]), 100);
    let kept = count(&["decisions", "kept"]);
    assert!((201..=1_100).contains(&kept), "{kept}");
    let namespaces = served.json("/api/v1/namespaces").await;
    let denied = |it: &Value| it.path(&["decisions", "denied"]).and_then(Value::as_i64);
    assert_eq!(items(&namespaces, "items").len(), 1_001);
    assert_eq!(items(&namespaces, "items").iter().filter_map(denied).sum::<i64>(), 1_520);

    let early = served.json("/api/v1/decisions?outcome=denied&namespace=invented-700").await;
    assert_eq!(ids(&early).len(), 1, "{early}");

    // Newest first, and page by page.
    let first = ids(&served.json("/api/v1/decisions?outcome=denied&limit=3").await);
    assert!(first.is_sorted_by(|one, other| one > other) && first.len() == 3, "{first:?}");
    let before = first[1];
    let next = format!("/api/v1/decisions?outcome=denied&limit=1&before={before}");
    assert_eq!(ids(&served.json(&next).await), first[2..]);
    let by_policy =
        "/api/v1/decisions?policy=NoBad/everywhere&name=p&kind=Pod&namespace=invented-700";
    assert_eq!(ids(&served.json(by_policy).await).len(), 1);
    let none = served.json("/api/v1/decisions?policy=NoBad/other").await;
    assert_eq!(items(&none, "items").len(), 0);
}

#[tokio::test]
async fn requests_that_are_not_answered() {
    let served = Served::files(POLICIES);
    let large = format!(r#"{{"objects": "{}"}}"#, "x".repeat(MAX_BODY));
    // A request in namespace `a` whose object says `b`.
    let of_another = |member: &str| {
        let review = format!(
            r#"{{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {{"uid": "{UID}",
            "operation": "{}", "kind": {{"group": "", "version": "v1", "kind": "Pod"}},
            "resource": {{"group": "", "version": "v1", "resource": "pods"}}, "namespace": "a", "name": "p",
            "userInfo": {{"username": "ann"}},
            "{member}": {{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "p", "namespace": "b"}}}}}}}}"#,
            if member == "object" { "CREATE" } else { "DELETE" },
        );
        format!(r#"{{"objects": {}}}"#, Value::from(review))
    };
    for (path, body, expected) in [
        ("/api/v1/try", large.as_str(), StatusCode::PAYLOAD_TOO_LARGE),
        ("/api/v1/try", "{", StatusCode::BAD_REQUEST),
        ("/api/v1/try", r#"{"objects": "", "operation": "CONNECT"}"#, StatusCode::BAD_REQUEST),
        (
            "/api/v1/try?namespace=a",
            r#"{"objects": "{kind: Pod, metadata: {namespace: b}}"}"#,
            StatusCode::FORBIDDEN,
        ),
        ("/api/v1/try?namespace=a", &of_another("object"), StatusCode::FORBIDDEN),
        ("/api/v1/try?namespace=a", &of_another("oldObject"), StatusCode::FORBIDDEN),
        ("/api/v1/status", "", StatusCode::METHOD_NOT_ALLOWED),
    ] {
        let (status, answer) = served.tries(path, body).await;
        assert_eq!(status, expected, "{path} {answer}");
        let error = Value::from_json(answer.as_bytes()).expect("errors are JSON");
        assert_eq!(error.get("code").and_then(Value::as_i64), Some(expected.as_u16().into()));
    }
    for (path, expected) in [
        ("/api/v1/decisions?outcome=maybe", StatusCode::BAD_REQUEST),
        ("/api/v1/decisions?namspace=shop", StatusCode::BAD_REQUEST),
        ("/api/v1/decisions/x", StatusCode::NOT_FOUND),
        ("/api/v1/shadow", StatusCode::NOT_FOUND),
        ("/api/v1/try", StatusCode::METHOD_NOT_ALLOWED),
        ("/elsewhere", StatusCode::NOT_FOUND),
        ("/", StatusCode::OK),
    ] {
        assert_eq!(served.get(path).await.0, expected, "{path}");
    }
    let unloaded = Served::files(POLICIES);
    let busy = Ui::new(
        Arc::default(),
        Origin::Files(Arc::default()),
        Certificates::load(&CertificateSource::SelfSigned { names: Vec::new() }).expect("made"),
        None,
    );
    busy.requests.forget_permits(MAX_REQUESTS);
    let page = Router::new().merge(routes(busy));
    let busy = Served { page, ..unloaded };
    assert_eq!(busy.get("/api/v1/status").await.0, StatusCode::TOO_MANY_REQUESTS);
}

/// A body of which nothing comes, whatever its length is said to be.
struct Held(u64);

impl hyper::body::Body for Held {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        std::task::Poll::Pending
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0)
    }
}

fn post(path: &str) -> Builder {
    of_machine(Request::post(path)).header(header::CONTENT_TYPE, "application/json")
}

/// Each answer that `openapi.json` has is one that the page gives. What a request cannot bring about is left out: a
/// panic, and explanations of 8 MiB; another test has a body that is late.
#[tokio::test]
async fn documented_answers_occur() {
    let files = Served::files(POLICIES);
    files.admit(&pod("a", "very")).await;
    let with_page = |ui: Ui| Served { page: routes(ui), ..Served::files(POLICIES) };
    let empty = || {
        let names = CertificateSource::SelfSigned { names: Vec::new() };
        let certificates = Certificates::load(&names).expect("made");
        Ui::new(Arc::default(), Origin::Files(Arc::default()), certificates, None)
    };
    let unloaded = with_page(empty());
    let busy = empty();
    busy.requests.forget_permits(MAX_REQUESTS);
    let busy = with_page(busy);
    let cluster = Served::with(POLICIES, |_| cluster(Arc::default()));
    cluster.admit(&pod("a", "very")).await;
    let whole = Value::from_json(DOCUMENT.as_bytes()).expect("JSON");
    let paths = whole.get("paths").and_then(Value::as_object).expect("paths");
    let text = r#"{"objects": "{kind: Pod}"}"#;
    for (path, operations) in paths {
        let path = path.replace("{id}", "1");
        let is_post = operations.get("post").is_some();
        let request = |query: &str| {
            let address = format!("{path}{query}");
            if is_post { post(&address) } else { of_machine(Request::get(address)) }
        };
        let body = || Body::from(if is_post { text } else { "" });
        let whole_of = |builder: Builder| builder.body(body()).expect("request");
        let other = if is_post { Method::GET } else { Method::DELETE };
        let mut found = std::collections::BTreeSet::new();
        for (served, request) in [
            (&files, whole_of(request(""))),
            (&files, whole_of(request("?limit=x"))),
            (&files, whole_of(request("").method(other))),
            (&files, post(&path).body(Body::from("{")).expect("request")),
            (&files, post(&path).body(Body::from(vec![b' '; MAX_BODY + 1])).expect("request")),
            (&files, of_machine(Request::post(&path)).body(body()).expect("request")),
            (&files, whole_of(Request::get(&path).header(header::HOST, "evil.example"))),
            (&files, whole_of(request("?namespace=other"))),
            (&unloaded, whole_of(request(""))),
            (&busy, whole_of(request(""))),
            (&cluster, whole_of(request(""))),
            (&cluster, whole_of(request("").header(header::AUTHORIZATION, "Bearer dev"))),
            (&cluster, whole_of(request("").header(header::AUTHORIZATION, "Bearer broken"))),
        ] {
            found.insert(served.send(request).await.0.as_u16());
        }
        let cannot = |code: &u16| matches!(*code, 408 | 500) || (*code == 413 && !is_post);
        let missing: Vec<u16> = documented(&path)
            .into_iter()
            .filter(|code| !found.contains(code) && !cannot(code))
            .collect();
        // There is no shadow in these tests.
        let allowed: &[u16] = if path.ends_with("shadow") { &[200] } else { &[] };
        assert_eq!(missing, allowed, "{path} answers {found:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_late_is_not_waited_for() {
    let request = post("/api/v1/try").body(Body::new(Held(3))).expect("request");
    let (status, _) = Served::files(POLICIES).send(request).await;
    assert_eq!(status, StatusCode::REQUEST_TIMEOUT);
}

/// Bodies that do not come, however many, leave the places to those that do.
#[tokio::test]
async fn slow_bodies_hold_no_places() {
    let served = Served::files(POLICIES);
    let slow: Vec<_> = (0..2 * MAX_REQUESTS)
        .map(|_| {
            let request = post("/api/v1/try").body(Body::new(Held(100))).expect("request");
            tokio::spawn(served.page.clone().oneshot(request))
        })
        .collect();
    tokio::task::yield_now().await;
    let body = format!(r#"{{"objects": {}}}"#, Value::from(pod("p", "")));
    let (status, answer) = served.tries("/api/v1/try", &body).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert!(slow.iter().all(|it| !it.is_finished()));
    slow.iter().for_each(tokio::task::JoinHandle::abort);
    // A client that asks whether it may send too much gets its answer at once.
    let request = post("/api/v1/try").header(header::EXPECT, "100-continue");
    let request = request.body(Body::new(Held(100_000_000))).expect("request");
    assert_eq!(served.send(request).await.0, StatusCode::PAYLOAD_TOO_LARGE);
}

/// A flood of unknown tokens from one address keeps no viewer of another one out.
#[tokio::test]
async fn one_peer_leaves_questions_to_the_others() {
    let served = Served::with(POLICIES, |_| cluster(Arc::default()));
    let of = |peer: [u8; 4], token: &str| {
        let request = Request::get("/api/v1/status");
        let request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        let mut request = request.body(Body::empty()).expect("request");
        request.extensions_mut().insert(Peer(peer.into()));
        request
    };
    let flood: Vec<_> = (0..100)
        .map(|number| {
            let request = of([10, 0, 0, 9], &format!("invented-{number}"));
            tokio::spawn(served.page.clone().oneshot(request))
        })
        .collect();
    tokio::task::yield_now().await;
    for viewer in 1..4 {
        let (status, answer) = served.send(of([10, 0, 0, viewer], "admin")).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
    }
    let mut refused = 0;
    for answer in flood {
        let answer = answer.await.expect("no panic").expect("infallible");
        refused += usize::from(answer.status() == StatusCode::TOO_MANY_REQUESTS);
    }
    assert!(refused >= 50, "{refused}");
}

/// A page of another site whose name resolves to this machine.
#[tokio::test]
async fn names_of_other_machines_are_refused() {
    let served = Served::files(POLICIES);
    for (host, expected) in
        [("evil.example:8088", StatusCode::FORBIDDEN), ("localhost:8088", StatusCode::OK)]
    {
        for path in ["/", "/api/v1/status", "/api/v1/openapi.json"] {
            let request = Request::get(path).header(header::HOST, host);
            let request = request.body(Body::empty()).expect("request");
            assert_eq!(served.send(request).await.0, expected, "{host} {path}");
        }
    }
    let request = Request::get("/").body(Body::empty()).expect("request");
    assert_eq!(served.send(request).await.0, StatusCode::FORBIDDEN, "no host at all");
}

/// An API server that knows two tokens: `admin` may do all, `dev` what concerns namespace `shop`. About `broken` it has
/// no answer.
fn cluster(asked: Arc<AtomicUsize>) -> Origin {
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let asked = Arc::clone(&asked);
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await.expect("a body in memory");
            let body = String::from_utf8_lossy(&body).into_owned();
            let has = |part: &str| body.contains(part);
            let status = match head.uri.path().rsplit('/').next() {
                Some("tokenreviews") if has("\"token\":\"broken\"") => String::new(),
                Some("tokenreviews") => {
                    asked.fetch_add(1, Ordering::Relaxed);
                    let user =
                        ["admin", "dev"].into_iter().find(|it| has(&format!("\"token\":\"{it}\"")));
                    match user {
                        Some(user) => format!(
                            r#"{{"authenticated": true, "user": {{"username": "{user}"}}}}"#
                        ),
                        None => r#"{"authenticated": false}"#.to_owned(),
                    }
                }
                Some("subjectaccessreviews") => {
                    let is_of_group = has("\"group\":\"modgate.sh\"");
                    let is_shop =
                        has("\"namespace\":\"shop\"") && has("\"resource\":\"decisions\"");
                    let allowed = is_of_group && (has("\"user\":\"admin\"") || is_shop);
                    format!(r#"{{"allowed": {allowed}}}"#)
                }
                _ => String::new(),
            };
            let answer =
                format!(r#"{{"metadata": {{}}, "spec": {{"token": ""}}, "status": {status}}}"#);
            let (code, answer) =
                if status.is_empty() { (500, "{}".to_owned()) } else { (201, answer) };
            let response = axum::http::Response::builder().status(code);
            let body = kube::client::Body::from(answer.into_bytes());
            Ok::<_, Infallible>(response.body(body).expect("a response"))
        }
    });
    let client = kube::Client::new(service, "gatekeeper-system");
    let of = modgate_cluster::ClusterConfig { kubeconfig: None, context: None };
    let certificate = CertificateSource::SelfSigned { names: Vec::new() };
    let config = ServeConfig::new(PolicyOrigin::Cluster(of), certificate);
    let app = App::default();
    let (events, event_queue) = Events::channel(app.metrics.events().clone());
    let shared = Shared {
        current: Arc::clone(&app.current),
        metrics: Arc::clone(&app.metrics),
        report: Arc::new(|_| {}),
        events,
        event_queue,
        exporter: None,
    };
    Origin::Cluster(Box::new(Controllers::new(client, config.of_cluster(), shared).live()))
}

#[tokio::test]
async fn the_cluster_decides_who_sees_what() {
    let asked = Arc::new(AtomicUsize::new(0));
    let origin = cluster(Arc::clone(&asked));
    let served = Served::with(POLICIES, |_| origin);
    served.admit(&pod("a", "very")).await;
    let tried = |namespace: &str| {
        let object = format!("{{kind: Pod, metadata: {{name: p, namespace: {namespace}}}}}");
        format!(r#"{{"objects": "{object}"}}"#)
    };
    let no_body = String::new();
    for (token, path, body, expected) in [
        ("", "/", &no_body, 200),
        ("", "/api/v1/openapi.json", &no_body, 200),
        ("", "/api/v1/status", &no_body, 401),
        ("unknown", "/api/v1/status", &no_body, 401),
        ("admin", "/api/v1/status", &no_body, 200),
        ("admin", "/api/v1/policies", &no_body, 200),
        ("admin", "/api/v1/namespaces", &no_body, 200),
        ("admin", "/api/v1/decisions", &no_body, 200),
        ("admin", "/api/v1/decisions/1", &no_body, 200),
        ("admin", "/api/v1/shadow", &no_body, 404),
        ("admin", "/api/v1/try", &tried("other"), 200),
        ("dev", "/api/v1/status", &no_body, 403),
        ("dev", "/api/v1/policies", &no_body, 403),
        ("dev", "/api/v1/namespaces", &no_body, 403),
        ("dev", "/api/v1/shadow", &no_body, 403),
        ("dev", "/api/v1/decisions", &no_body, 403),
        ("dev", "/api/v1/decisions?namespace=other", &no_body, 403),
        ("dev", "/api/v1/decisions?namespace=shop", &no_body, 200),
        ("dev", "/api/v1/decisions/1", &no_body, 403),
        ("dev", "/api/v1/decisions/1?namespace=shop", &no_body, 200),
        ("dev", "/api/v1/try", &tried("shop"), 403),
        ("dev", "/api/v1/try?namespace=shop", &tried("shop"), 200),
        ("dev", "/api/v1/try?namespace=shop", &tried("other"), 403),
        ("dev", "/api/v1/try?namespace=other", &tried("other"), 403),
    ] {
        let mut request = match body.is_empty() {
            true => Request::get(path),
            false => Request::post(path).header(header::CONTENT_TYPE, "application/json"),
        };
        if !token.is_empty() {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(Body::from(body.clone())).expect("request");
        let (status, answer) = served.send(request).await;
        assert_eq!(status.as_u16(), expected, "{token} {path} {body}: {answer}");
    }
    assert_eq!(asked.load(Ordering::Relaxed), 3, "answers are kept for a moment");
}

/// The user of one token is not the user of another in a shared answer.
#[tokio::test]
async fn answers_that_are_shared_name_the_user_who_asks() {
    let origin = cluster(Arc::default());
    let served = Served::with(POLICIES, |_| origin);
    let request = Request::get("/api/v1/status").header(header::AUTHORIZATION, "Bearer admin");
    let (_, answer) = served.send(request.body(Body::empty()).expect("request")).await;
    let status = Value::from_json(answer.as_bytes()).expect("JSON");
    assert_eq!(text(&status, &["user"]), "admin");
    assert_eq!(text(&status, &["source"]), "cluster");
    assert!(text(&status, &["replicas", "error"]).contains("Pods"), "{answer}");
}
