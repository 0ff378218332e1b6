//! `review`, `explain`, `plan` and `audit` answer as the webhooks do: each request by every verb that
//! can answer it. That the webhooks answer as the engine decides is held by
//! `modgate-server/tests/decisions.rs`.

use std::{fs, process::Command};

use modgate_value::{Value, yaml};
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

/// The answer of every verb to a request.
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
        let (code, out, _) = self.outputs(args);
        (code, out)
    }

    /// Exit code, standard output and standard error.
    fn outputs(&self, args: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_modgate"));
        command.args(args).args(["-f", "policies.yaml", "subject.yaml"]).current_dir(self.0.path());
        let output = command.env_remove("POD_NAMESPACE").output().expect("modgate");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (output.status.code().expect("a code"), text(output.stdout), text(output.stderr))
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
    let folder = Folder::new(&[LABEL, DENY_ALL].join("\n---\n"), &labelled);
    let (exit, text) = folder.run(&["review", "--exempt-namespace", "ign"]);
    assert_eq!((exit, text.matches("constraints not evaluated: ").count()), (0, 2), "{text}");
}

#[test]
fn webhooks_without_policies() {
    let namespace = |name: &str, label: &str| {
        format!(
            "{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}, labels: {{{label}}}}}}}"
        )
    };
    let refused = |reason| Expected { allowed: false, code: 403, reason, ..ALLOWED };
    let gatekeepers = "Only exempt namespace can have the admission.gatekeeper.sh/ignore label";
    let kubemods = "Only exempt namespace can have the admission.kubemod.io/ignore label";
    let ignored = "admission.gatekeeper.sh/ignore: x";
    let refused_label = Expected { skipped: &["mutators"], ..refused(gatekeepers) };
    check("a label", &[LABEL], &namespace("a", ignored), &refused_label);
    let own = namespace("gatekeeper-system", ignored);
    check("our own label", &[LABEL], &own, &Expected { skipped: &["mutators"], ..ALLOWED });
    let kubemods_label = "admission.kubemod.io/ignore: 'true'";
    check("KubeMod's label", &[DENY_ALL], &namespace("a", kubemods_label), &refused(kubemods));
    let folder = Folder::new(DENY_ALL, &namespace("a", kubemods_label));
    let (_, text) = folder.run(&["review", "--modrule-exempt-namespace", "a*"]);
    assert!(text.contains("denied by DenyAll c: no") && !text.contains(kubemods), "{text}");
    let labels = format!("{ignored}, {kubemods_label}");
    let folder = Folder::new(DENY_ALL, &namespace("kube-a", &labels));
    let config = "policies: [policies.yaml]\nobjects: [subject.yaml]\n";
    let check_with = |more: &str| {
        fs::write(folder.0.path().join("modgate.yaml"), format!("{config}{more}"))
            .expect("written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_modgate"));
        let output = command.arg("check").current_dir(folder.0.path()).output().expect("modgate");
        String::from_utf8(output.stdout).expect("text")
    };
    assert!(check_with("").contains(gatekeepers));
    assert!(check_with("exemptNamespaces: ['kube-*']\n").contains(kubemods));
    let both = "exemptNamespaces: ['kube-*']\nmodruleExemptNamespaces: [kube-a]\n";
    let allowed = check_with(both);
    assert!(
        allowed.contains("constraints not evaluated: the namespace has the label"),
        "{allowed}"
    );
    let modrule = |spec: &str| {
        format!(
            "{{apiVersion: api.kubemod.io/v1beta1, kind: ModRule, metadata: {{name: r, \
             namespace: a}}, spec: {{type: Reject, {spec}}}}}"
        )
    };
    let loads = Expected { skipped: &["modrules"], ..ALLOWED };
    check("a ModRule", &[RULE], &modrule("match: [{select: '$.kind'}]"), &loads);
    let reason = "ModRule.api.kubemod.io \"r\" is invalid: spec.match: ";
    let refused = Expected { skipped: &["modrules"], ..refused(reason) };
    check("a ModRule that does not load", &[RULE], &modrule("match: []"), &refused);
}

/// Groups, resources and kinds.
const KINDS: [[&str; 3]; 7] = [
    ["", "pods", "Pod"],
    ["", "configmaps", "ConfigMap"],
    ["", "resourcequotas", "ResourceQuota"],
    ["apps", "deployments", "Deployment"],
    ["coordination.k8s.io", "leases", "Lease"],
    [
        "admissionregistration.k8s.io",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
    ],
    ["admissionregistration.k8s.io", "mutatingadmissionpolicies", "MutatingAdmissionPolicy"],
];

fn request(
    [group, resource, kind]: [&str; 3],
    namespace: &str,
    operation: &str,
    part: &str,
) -> Value {
    let version = if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") };
    let text = format!(
        r#"{{"uid": "1", "kind": {{"group": "{group}", "version": "v1", "kind": "{kind}"}},
        "resource": {{"group": "{group}", "version": "v1", "resource": "{resource}"}},
        "subResource": "{part}", "name": "n", "namespace": "{namespace}", "operation": "{operation}",
        "object": {{"apiVersion": "{version}", "kind": "{kind}",
        "metadata": {{"name": "n", "namespace": "{namespace}"}}}},
        "oldObject": {{"apiVersion": "{version}", "kind": "{kind}",
        "metadata": {{"name": "n", "namespace": "{namespace}"}}}}}}"#
    );
    Value::from_json(text.as_bytes()).expect(&text)
}

/// The resource of a request, as webhook configurations spell it.
fn resource_of(request: &Value) -> String {
    let text = |path: &[&str]| request.path(path).and_then(Value::as_str).unwrap_or_default();
    match text(&["subResource"]) {
        "" => text(&["resource", "resource"]).to_owned(),
        part => format!("{}/{part}", text(&["resource", "resource"])),
    }
}

/// Whether the API server sends a request to an entry of a webhook configuration.
fn is_sent(entry: &Value, request: &Value) -> bool {
    let text = |path: &[&str]| request.path(path).and_then(Value::as_str).unwrap_or_default();
    let lists = |rule: &Value, key: &str, wanted: &str| {
        let items = rule.get(key).and_then(Value::as_array).into_iter().flat_map(|it| it.iter());
        items.filter_map(Value::as_str).any(|it| it == wanted || it == "*")
    };
    let resource = resource_of(request);
    let takes = |rule: &Value| {
        let names = rule.get("resources").and_then(Value::as_array).expect("resources");
        let is_named = names.iter().filter_map(Value::as_str).any(|it| it == resource);
        lists(rule, "operations", text(&["operation"]))
            && lists(rule, "apiGroups", text(&["resource", "group"]))
            && (is_named || !resource.contains('/') && lists(rule, "resources", &resource))
    };
    let rules = entry.get("rules").and_then(Value::as_array).expect("rules");
    let expressions = entry.path(&["namespaceSelector", "matchExpressions"]);
    let mut expressions = expressions.and_then(Value::as_array).expect("expressions").iter();
    let namespace = text(&["namespace"]);
    let is_out = |it: &Value| {
        it.get("key").and_then(Value::as_str) == Some("kubernetes.io/metadata.name")
            && lists(it, "values", namespace)
    };
    let is_configuration = text(&["resource", "group"]) == "admissionregistration.k8s.io";
    rules.iter().any(takes) && !is_configuration && !expressions.any(is_out)
}

#[test]
fn requests_that_the_chart_does_not_send() {
    let chart =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/modgate.yaml"));
    let chart = chart.expect("deploy/modgate.yaml");
    let entries: Vec<Value> = yaml::documents(&chart)
        .filter_map(|document| document.expect("YAML").value.get("webhooks").cloned())
        .flat_map(|list| list.as_array().expect("a list").iter().cloned().collect::<Vec<_>>())
        .collect();
    let entry = |name: &str| {
        let found = entries.iter().find(|it| it.get("name").and_then(Value::as_str) == Some(name));
        found.expect(name)
    };
    let stages = [
        ("mutators", entry("mutation.gatekeeper.sh")),
        ("modrules", entry("dragnet.kubemod.io")),
        ("constraints", entry("validation.gatekeeper.sh")),
    ];
    let policies = [
        LABEL,
        &DENY_ALL.replace(
            "metadata: {name: c}",
            "metadata: {name: c}\nspec: {enforcementAction: dryrun}",
        ),
        &RULE
            .replace("namespace: default", "namespace: kubemod-system")
            .replace("type: Patch", "type: Patch\n  targetNamespaceRegex: '.*'"),
    ];
    let policies = policies.join("\n---\n");
    for (operation, part) in [
        ("CREATE", ""),
        ("UPDATE", ""),
        ("UPDATE", "status"),
        ("UPDATE", "scale"),
        ("UPDATE", "ephemeralcontainers"),
        ("CREATE", "binding"),
        ("DELETE", ""),
        ("CONNECT", "exec"),
    ] {
        let requests: Vec<Value> = ["default", "gatekeeper-system"]
            .iter()
            .flat_map(|namespace| KINDS.map(|kind| request(kind, namespace, operation, part)))
            .collect();
        let reviews = requests.iter().map(|request| {
            let request = request.to_json();
            format!(
                r#"{{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {request}}}"#
            )
        });
        let folder = Folder::new(&policies, &reviews.collect::<Vec<_>>().join("\n---\n"));
        let (_, text, notes) = folder.outputs(&["review", "-o", "json"]);
        let results = Value::from_json(text.as_bytes()).expect(&text);
        let results = results.as_array().expect("a list");
        assert_eq!(results.len(), requests.len());
        for (request, got) in requests.iter().zip(results.iter()) {
            let skipped = got.get("notEvaluated").and_then(Value::as_array).expect("a list");
            let noted = match (operation, part) {
                ("DELETE" | "CONNECT", _) => {
                    format!("note: the API server sends {operation} requests")
                }
                _ => format!("requests for `{}`", resource_of(request)),
            };
            for (stage, entry) in &stages {
                let what = format!("{stage}: {}\n{}\n{notes}", request.to_json(), got.to_json());
                let is = |it: &Value| it.get("stage").and_then(Value::as_str) == Some(*stage);
                let is_skipped = skipped.iter().any(is);
                // Installations differ in the requests that Gatekeeper's webhooks receive.
                let is_noted = *stage != "modrules" && notes.contains(&noted);
                assert_ne!(is_sent(entry, request), is_skipped || is_noted, "{what}");
            }
        }
    }
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
    let own = RULE.replace("namespace: default", "namespace: gatekeeper-system");
    let map = object("ConfigMap").replace("default", "gatekeeper-system");
    check("a kind of the webhook in our own namespace", &[&own], &map, &skipped);
}

#[test]
fn policies_are_checked_as_the_webhook_checks_them() {
    let constraint = "{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: DenyAll, \
                      metadata: {name: other}, spec: {enforcementAction: nonsense}}";
    let refused = Expected { allowed: false, code: 500, ..ALLOWED };
    check("an unknown action", &[DENY_ALL], constraint, &refused);
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
