//! `review`, `explain`, `plan` and `audit` answer as the webhooks do: each request by every verb that
//! can answer it. That the webhooks answer as the engine decides is held by
//! `modgate-server/tests/decisions.rs`.

use std::{fs, process::Command};

use modgate_value::Value;
use tempfile::TempDir;

const DENY_ALL: &str = "
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: denyall}
spec:
  crd: {spec: {names: {kind: DenyAll}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package denyall
      violation[{\"msg\": \"no\"}] { true }
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: DenyAll
metadata: {name: c}
";

const LABEL: &str = "
apiVersion: mutations.gatekeeper.sh/v1
kind: AssignMetadata
metadata: {name: m}
spec:
  location: metadata.labels.x
  parameters: {assign: {value: seen}}
";

const RULE: &str = "
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: r, namespace: default}
spec:
  type: Patch
  match: [{select: '$.kind'}]
  patch: [{op: add, path: /metadata/labels, value: '{a: b}'}]
";

const CONFIG: &str = "
apiVersion: config.gatekeeper.sh/v1alpha1
kind: Config
metadata: {name: config, namespace: gatekeeper-system}
spec: {match: [{excludedNamespaces: [left-alone], processes: ['*']}]}
";

/// What every verb has to say about a request.
struct Expected {
    allowed: bool,
    code: i64,
    /// The text of the answer begins with it.
    reason: &'static str,
    patched: bool,
    /// The stages that are not evaluated.
    skipped: &'static [&'static str],
}

const ALLOWED: Expected =
    Expected { allowed: true, code: 200, reason: "", patched: false, skipped: &[] };

struct Folder(TempDir);

impl Folder {
    fn new(policies: &str, subject: &str) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(dir.path().join("policies.yaml"), policies).expect("policies");
        fs::write(dir.path().join("subject.yaml"), subject).expect("a subject");
        Self(dir)
    }

    fn run(&self, args: &[&str]) -> (i32, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_modgate"));
        command.args(args).args(["-f", "policies.yaml", "subject.yaml"]).current_dir(self.0.path());
        let output = command.env_remove("POD_NAMESPACE").output().expect("modgate");
        let text = String::from_utf8(output.stdout).expect("text");
        (output.status.code().expect("a code"), text)
    }

    /// The last of the results as JSON.
    fn ask(&self, verb: &str) -> (i32, Value) {
        let (code, text) = self.run(&[verb, "-o", "json"]);
        let results = Value::from_json(text.as_bytes()).expect(&text);
        (code, results.as_array().and_then(|all| all.last()).expect("a result").clone())
    }
}

fn check(name: &str, policies: &[&str], subject: &str, expected: &Expected) {
    let folder = Folder::new(&policies.join("\n---\n"), subject);
    for verb in ["review", "explain"] {
        let (exit, got) = folder.ask(verb);
        let what = format!("{name}: {verb}: {}", got.to_json());
        assert_eq!(exit, i32::from(!expected.allowed), "{what}");
        assert_eq!(got.get("allowed"), Some(&Value::from(expected.allowed)), "{what}");
        assert_eq!(got.get("code"), Some(&Value::from(expected.code)), "{what}");
        let reason = got.get("reason").and_then(Value::as_str).expect("a reason");
        assert!(reason.starts_with(expected.reason), "{what}");
        let patch = got.get("patch").and_then(Value::as_array).expect("a patch");
        assert_eq!(!patch.is_empty(), expected.patched, "{what}");
        let skipped = got.get("notEvaluated").and_then(Value::as_array).expect("a list");
        let skipped: Vec<_> =
            skipped.iter().filter_map(|stage| stage.get("stage")?.as_str()).collect();
        assert_eq!(skipped, expected.skipped, "{what}");
    }
    let (exit, plan) = folder.ask("plan");
    let what = format!("{name}: plan: {}", plan.to_json());
    assert_eq!(exit, i32::from(!expected.allowed), "{what}");
    let stages = ["mutators", "modrules", "resultants", "constraints"];
    let fails = |stage: &&str| plan.path(&[stage, "fails"]) == Some(&Value::from(true));
    assert_eq!(stages.iter().any(fails), !expected.allowed, "{what}");
    for stage in expected.skipped {
        assert!(plan.path(&[stage, "stopped"]).is_some(), "{what}");
        let steps = plan.path(&[stage, "steps"]).and_then(Value::as_array).expect("steps");
        assert!(steps.is_empty(), "{what}");
    }
    let (_, text) = folder.run(&["review"]);
    for stage in expected.skipped {
        assert!(text.contains(&format!("{stage} not evaluated: ")), "{name}: {text}");
    }
}

#[test]
fn members_that_only_the_api_server_sends() {
    let policy =
        DENY_ALL.replace("{ true }", "{ input.review.requestKind.version == \"v1beta1\" }");
    let review = |version: &str| {
        format!(
            r#"{{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {{
            "uid": "1", "kind": {{"group": "apps", "version": "v1", "kind": "Deployment"}},
            "requestKind": {{"group": "apps", "version": "{version}", "kind": "Deployment"}},
            "name": "p", "namespace": "default", "operation": "CREATE", "object":
            {{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {{"name": "p"}}}}}}}}"#
        )
    };
    let denied = Expected { allowed: false, code: 403, reason: "[c] no", ..ALLOWED };
    check("an old version", &[&policy], &review("v1beta1"), &denied);
    check("the same version", &[&policy], &review("v1"), &ALLOWED);
}

#[test]
fn namespaces_that_are_left_alone() {
    let map = |namespace: &str| {
        format!(
            "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: q, namespace: {namespace}}}}}"
        )
    };
    let denied = Expected { allowed: false, code: 403, reason: "[c] no", ..ALLOWED };
    check("a usual one", &[DENY_ALL, CONFIG], &map("other"), &denied);
    let left_alone = "Namespace is set to be ignored by Gatekeeper config";
    let excluded = Expected { reason: left_alone, skipped: &["constraints"], ..ALLOWED };
    check("one the Config excludes", &[DENY_ALL, CONFIG], &map("left-alone"), &excluded);
    let patched = Expected { patched: true, ..ALLOWED };
    check("mutators", &[LABEL, CONFIG], &map("other"), &patched);
    let skipped = Expected { skipped: &["mutators"], ..ALLOWED };
    check("mutators and the Config", &[LABEL, CONFIG], &map("left-alone"), &skipped);
    check("our own namespace", &[LABEL], &map("gatekeeper-system"), &skipped);
    let both = Expected { skipped: &["mutators", "constraints"], ..ALLOWED };
    let own = map("gatekeeper-system");
    check("our own namespace, with constraints", &[LABEL, DENY_ALL], &own, &both);
    let ignored = "{apiVersion: v1, kind: Namespace, metadata: {name: ign, labels: \
                   {admission.gatekeeper.sh/ignore: 'yes'}}}";
    let labelled = format!("{ignored}\n---\n{}", map("ign"));
    check("a label", &[LABEL, DENY_ALL], &labelled, &both);
}

#[test]
fn kinds_that_modrules_are_not_sent() {
    let object = |kind: &str| {
        format!("{{apiVersion: v1, kind: {kind}, metadata: {{name: q, namespace: default}}}}")
    };
    let patched = Expected { patched: true, ..ALLOWED };
    check("a kind of KubeMod's webhook", &[RULE], &object("ConfigMap"), &patched);
    let skipped = Expected { skipped: &["modrules"], ..ALLOWED };
    check("another kind", &[RULE], &object("ResourceQuota"), &skipped);
}

#[test]
fn policies_are_checked_as_the_webhook_checks_them() {
    let constraint = "{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: DenyAll, \
                      metadata: {name: other}, spec: {enforcementAction: nonsense}}";
    let refused = Expected { allowed: false, code: 500, ..ALLOWED };
    check("an action nobody knows", &[DENY_ALL], constraint, &refused);
}

#[test]
fn kinds_without_a_namespace() {
    let objects = "{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: d}}";
    let (_, text) = Folder::new(DENY_ALL, objects).run(&["review"]);
    assert!(text.starts_with("DeviceClass d: "), "{text}");
}

#[test]
fn audits_know_the_namespace_we_run_in() {
    let object = "{apiVersion: v1, kind: ConfigMap, metadata: {name: q, namespace: policies}}";
    let folder = Folder::new(LABEL, object);
    let violations = |args: &[&str]| {
        let all: Vec<&str> =
            ["audit", "--mutators", "-o", "json"].iter().chain(args).copied().collect();
        let (_, text) = folder.run(&all);
        text.matches("would change").count()
    };
    assert!(violations(&[]) > 0);
    assert_eq!(violations(&["--installation-namespace", "policies"]), 0);
    let review = |args: &[&str]| {
        let all: Vec<&str> = ["review"].iter().chain(args).copied().collect();
        folder.run(&all).1.contains("mutators not evaluated")
    };
    assert!(!review(&[]));
    assert!(review(&["--installation-namespace", "policies"]));
}
