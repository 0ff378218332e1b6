//! `modgate plan`, as people run it.
//!
//! Update the expectations with `SNAPSHOTS=overwrite cargo test -p modgate --test all plan`.

use std::{fs, process::Command};

use snapbox::{assert_data_eq, str};
use tempfile::TempDir;

const POLICIES: &str = r#"
apiVersion: mutations.gatekeeper.sh/v1
kind: Assign
metadata: {name: pull-always}
spec:
  applyTo: [{groups: [""], versions: [v1], kinds: [Pod]}]
  location: "spec.containers[name: *].imagePullPolicy"
  parameters:
    assign: {value: Always}
    pathTests:
    - {subPath: "spec.containers[name: *].imagePullPolicy", condition: MustNotExist}
---
apiVersion: mutations.gatekeeper.sh/v1
kind: Assign
metadata: {name: not-root}
spec:
  applyTo: [{groups: [""], versions: [v1], kinds: [Pod]}]
  location: spec.securityContext.runAsUser
  parameters:
    assign: {value: 1000}
    assignIf: {in: [0]}
---
apiVersion: mutations.gatekeeper.sh/v1
kind: AssignMetadata
metadata: {name: owner}
spec:
  match: {kinds: [{apiGroups: [apps], kinds: [Deployment]}]}
  location: metadata.labels.owner
  parameters: {assign: {value: nobody}}
---
apiVersion: mutations.gatekeeper.sh/v1
kind: AssignMetadata
metadata: {name: elsewhere}
spec:
  match: {namespaces: [elsewhere]}
  location: metadata.labels.x
  parameters: {assign: {value: here}}
---
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: replicas, namespace: shop}
spec:
  type: Patch
  match: [{select: $.kind, matchValue: Deployment}]
  patch: [{op: add, path: /spec/replicas, value: "2"}]
---
apiVersion: expansion.gatekeeper.sh/v1beta1
kind: ExpansionTemplate
metadata: {name: pods}
spec:
  applyTo: [{groups: [apps], versions: [v1], kinds: [Deployment]}]
  templateSource: spec.template
  generatedGVK: {group: "", version: v1, kind: Pod}
  enforcementAction: warn
---
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: nolatest}
spec:
  crd: {spec: {names: {kind: NoLatest}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package nolatest
      violation[{"msg": "latest"}] { endswith(input.review.object.spec.containers[_].image, ":latest") }
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: NoLatest
metadata: {name: no-latest}
spec:
  match: {kinds: [{apiGroups: [""], kinds: [Pod]}]}
"#;

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  template:
    spec:
      securityContext: {runAsUser: 5}
      containers:
      - {name: a, image: a:latest}
      - {name: b, image: b, imagePullPolicy: Never}
";

/// Exit code, standard output and standard error of a run on the Deployment.
fn run(args: &[&str]) -> String {
    let folder: TempDir = tempfile::tempdir().expect("folder");
    fs::write(folder.path().join("policies.yaml"), POLICIES).expect("written");
    fs::write(folder.path().join("web.yaml"), DEPLOYMENT).expect("written");
    let output = Command::new(env!("CARGO_BIN_EXE_modgate"))
        .args(args)
        .args(["-f", "policies.yaml", "web.yaml"])
        .current_dir(folder.path())
        .output()
        .expect("runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    let err = if err.is_empty() { err } else { format!("--- stderr\n{err}") };
    format!("exit {}\n{out}{err}", output.status.code().unwrap_or(-1))
}

#[test]
fn for_people() {
    assert_data_eq!(
        run(&["plan"]),
        str![[r#"
exit 0
Deployment shop/web (web.yaml:2:1)
  mutators
    AssignMetadata owner matched, changed
        metadata.labels.owner becomes "nobody"
    3 other mutators not shown, `--all` shows them
  modrules
    Patch tier 0 shop/replicas matched, patched
  expands to
    Pod web-pod (by pods, violations warn)
      Assign not-root matched, does not apply
          spec.securityContext.runAsUser is 5, not in assignIf.in
      Assign pull-always matched, changed
          spec.containers[name: a].imagePullPolicy becomes "Always"
          spec.containers[name: b].imagePullPolicy is there, and it is only set where it is missing
      2 other mutators not shown, `--all` shows them
  constraints
    NoLatest no-latest (warn) on Pod web-pod

"#]]
    );
}

#[test]
fn everything() {
    assert_data_eq!(
        run(&["plan", "--all"]),
        str![[r#"
exit 0
Deployment shop/web (web.yaml:2:1)
  mutators
    Assign not-root not for this kind or operation (applyTo)
    Assign pull-always not for this kind or operation (applyTo)
    AssignMetadata elsewhere no match: match.namespaces
    AssignMetadata owner matched, changed
        metadata.labels.owner becomes "nobody"
  modrules
    Patch tier 0 shop/replicas matched, patched
  expands to
    Pod web-pod (by pods, violations warn)
      Assign not-root matched, does not apply
          spec.securityContext.runAsUser is 5, not in assignIf.in
      Assign pull-always matched, changed
          spec.containers[name: a].imagePullPolicy becomes "Always"
          spec.containers[name: b].imagePullPolicy is there, and it is only set where it is missing
      AssignMetadata elsewhere no match: match.namespaces
      AssignMetadata owner no match: match.kinds
  constraints
    NoLatest no-latest (warn) on Pod web-pod

"#]]
    );
}

#[test]
fn explain_tells_of_mutators_and_resultants() {
    let explained = run(&["explain"]);
    let plan = run(&["plan"]);
    for heading in ["  mutators\n", "  expands to\n"] {
        let from = plan.find(heading).expect("in the plan");
        let section = plan.get(from..).expect("text");
        let end = section
            .match_indices("\n  ")
            .find(|(at, _)| section.get(at + 3..).is_some_and(|rest| !rest.starts_with(' ')));
        let section = section.get(..end.expect("another section").0).expect("text");
        assert!(explained.contains(section), "{section}\n\nis not in\n\n{explained}");
    }
    // The expression that failed, under the resultant it failed on.
    let decided = "
      NoLatest no-latest violated (warn, Rego, policies.yaml:67:1)
        violation: [Implied by pods] latest
";
    let failed = "endswith(input.review.object.spec.containers[_].image, \":latest\")";
    for args in [&["explain"][..], &["explain", "--rule", "no-latest"]] {
        let explained = run(args);
        let from = explained.find("Pod web-pod (by pods, violations warn)").expect("the resultant");
        let of_resultant = explained.get(from..).expect("text");
        for part in [decided, failed] {
            assert!(of_resultant.contains(part), "{part}\n\nis not in\n\n{explained}");
        }
        assert_eq!(explained.matches("[Implied by pods]").count(), 1, "{explained}");
    }
    let explained = run(&["explain", "--rule", "replicas"]);
    assert!(!explained.contains("web-pod") && !explained.contains("latest"), "{explained}");
    let json = run(&["explain", "-o", "json"]);
    let json = json.strip_prefix("exit 0\n").expect("success");
    let explained: serde_json::Value = serde_json::from_str(json).expect("JSON");
    let trace = &explained[0]["resultants"]["steps"][0]["constraints"][0];
    assert_eq!(trace["policy"]["name"], "no-latest", "{explained:#}");
    assert_eq!(trace["action"], "warn");
    assert_eq!(trace["violations"][0], "[Implied by pods] latest");
}

/// The text shows what the data has.
#[test]
fn for_machines() {
    let json = run(&["plan", "-o", "json"]);
    let json = json.strip_prefix("exit 0\n").expect("success");
    let plans: serde_json::Value = serde_json::from_str(json).expect("JSON");
    let at = |pointer: &str| plans.pointer(pointer).and_then(serde_json::Value::as_str);
    assert_eq!(at("/0/object"), Some("Deployment shop/web"));
    assert_eq!(at("/0/place"), Some("web.yaml:2:1"));
    let mutator = "AssignMetadata.mutations.gatekeeper.sh /owner";
    let passes = plans.pointer("/0/mutators/steps/0").and_then(serde_json::Value::as_array);
    let traces = passes.expect("a pass");
    let owner = traces.iter().find(|trace| trace["mutator"] == mutator).expect("a trace");
    assert_eq!(owner["outcome"]["result"], "changed");
    assert_eq!(owner["notes"][0]["at"], "metadata.labels.owner");
    assert_eq!(plans[0]["expandsWithModrules"], false);
    assert_eq!(at("/0/resultants/steps/0/name"), Some("web-pod"));
    assert_eq!(at("/0/resultants/steps/0/enforcementAction"), Some("warn"));
    assert_eq!(at("/0/constraints/steps/0/policy/name"), Some("no-latest"));
    assert_eq!(at("/0/constraints/steps/0/action"), Some("warn"));
    let yaml = run(&["plan", "-o", "yaml"]);
    assert!(yaml.contains("name: web-pod"), "{yaml}");
}

#[test]
fn modrules_and_resultants() {
    let plan = run(&["plan", "--expand-modrules"]);
    assert!(plan.contains("  expands, patched by ModRules, to\n    Pod web-pod"), "{plan}");
    let plan = run(&["plan", "--modrule-resource", "pods"]);
    let line = "  modrules: not evaluated: `Deployment` is not among the kinds of the webhook\n";
    assert!(plan.contains(line), "{plan}");
}
