//! `modgate render` as people run it.
//!
//! Update the expectations with `SNAPSHOTS=overwrite cargo test -p modgate --test all render`.

use std::{
    fs,
    io::Write as _,
    process::{Command, Stdio},
};

use modgate_value::{Value, yaml};
use snapbox::{assert_data_eq, str};

const LABELS: &str = "\
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata:
  name: k8srequiredlabels
  labels: {team: platform}
spec:
  crd:
    spec:
      names: {kind: K8sRequiredLabels}
      validation:
        openAPIV3Schema:
          type: object
          properties:
            labels: {type: array, items: {type: string}}
  targets:
    - target: admission.k8s.gatekeeper.sh
      rego: |
        package labels
        violation[{\"msg\": \"no\"}] { false }
";

const REPLICAS: &str = "\
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata:
  name: maxreplicas
spec:
  crd:
    spec:
      names: {kind: MaxReplicas}
      validation:
        openAPIV3Schema:
          type: object
          properties:
            max: {type: integer}
  targets:
    - target: admission.k8s.gatekeeper.sh
      operations: [CREATE, DELETE]
      code:
        - engine: K8sNativeValidation
          source:
            failurePolicy: Ignore
            variables:
              - {name: replicas, expression: object.spec.replicas}
            validations:
              - expression: variables.replicas <= variables.params.max
                message: too many replicas
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: MaxReplicas
metadata:
  name: at-most-ten
spec:
  enforcementAction: warn
  match:
    scope: Namespaced
    labelSelector: {matchLabels: {tier: web}}
  parameters: {max: 10}
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: MaxReplicas
metadata:
  name: audited
spec:
  enforcementAction: scoped
  scopedEnforcementActions:
    - action: deny
      enforcementPoints: [{name: audit.gatekeeper.sh}]
  parameters: {max: 3}
";

const INSTALLATION: &str = "\
apiVersion: config.gatekeeper.sh/v1alpha1
kind: Config
metadata: {name: config, namespace: gatekeeper-system}
spec:
  match:
    - {processes: ['*'], excludedNamespaces: [kube-*]}
    - {processes: [audit], excludedNamespaces: [elsewhere]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: gatekeeper-validating-webhook-configuration}
webhooks:
  - name: validation.gatekeeper.sh
    matchPolicy: Exact
    rules:
      - {operations: [CREATE, UPDATE], apiGroups: ['*'], apiVersions: ['*'], resources: ['*']}
";

/// Exit code, standard output and standard error, in a folder with these files.
fn run(files: &[(&str, &str)], args: &[&str], stdin: &str) -> (i32, String, String) {
    let dir = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        fs::write(dir.path().join(name), text).expect("write");
    }
    let mut child = Command::new(env!("CARGO_BIN_EXE_modgate"))
        .arg("render")
        .args(args)
        .current_dir(dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("modgate");
    child.stdin.take().expect("stdin").write_all(stdin.as_bytes()).expect("stdin");
    let output = child.wait_with_output().expect("modgate");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code().expect("a code"), text(output.stdout), text(output.stderr))
}

fn documents(text: &str) -> Vec<Value> {
    yaml::load(text).expect("YAML").into_iter().map(|document| document.value).collect()
}

fn name(object: &Value) -> &str {
    object.path(&["metadata", "name"]).and_then(Value::as_str).expect("a name")
}

#[test]
fn crds_come_in_the_order_of_their_names() {
    let files = [("b.yaml", LABELS), ("a.yaml", REPLICAS)];
    let (code, out, err) = run(&files, &["crds", "b.yaml", "a.yaml"], "");
    assert_eq!((code, err.as_str()), (0, ""));
    let crds = documents(&out);
    let names: Vec<&str> = crds.iter().map(name).collect();
    let expected =
        ["k8srequiredlabels.constraints.gatekeeper.sh", "maxreplicas.constraints.gatekeeper.sh"];
    assert_eq!(names, expected);
    let labels = crds[0].path(&["metadata", "labels"]).expect("labels").to_json();
    assert_eq!(labels, r#"{"gatekeeper.sh/constraint":"yes","team":"platform"}"#);
    let parameters = crds[0]
        .pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/parameters");
    assert_eq!(
        parameters.expect("parameters").to_json(),
        r#"{"properties":{"labels":{"items":{"type":"string"},"type":"array"}},"type":"object"}"#
    );
    // As a list, and from standard input, they are the same.
    let (code, list, _) = run(&[], &["crds", "-o", "json", "-"], LABELS);
    assert_eq!(code, 0);
    let list = Value::from_json(list.as_bytes()).expect("JSON");
    assert_eq!(list.pointer("/items/0"), crds.first());
}

#[test]
fn what_is_wrong_with_a_schema_is_underlined() {
    let broken = LABELS.replace("labels: {type: array, items: {type: string}}", "labels: {}");
    let (code, out, err) = run(&[("t.yaml", &broken)], &["crds", "t.yaml"], "");
    assert_eq!((code, out.as_str()), (2, ""));
    assert_data_eq!(
        err,
        str![[r#"
error: ConstraintTemplate k8srequiredlabels: spec.crd.spec.validation.openAPIV3Schema.properties.labels.type: Required value: must not be empty for specified object fields
  --> t.yaml:14:13
   |
14 |             labels: {}
   |             ^^^^^^^^^^

"#]]
    );
}

#[test]
fn nothing_to_render_is_an_error() {
    let (code, _, err) = run(&[("c.yaml", "kind: Pod\napiVersion: v1\n")], &["crds", "c.yaml"], "");
    assert_eq!(code, 2);
    assert!(err.contains("there is no ConstraintTemplate in `c.yaml`"), "{err}");
    let twice = format!("{LABELS}---\n{LABELS}");
    let (code, _, err) = run(&[("t.yaml", &twice)], &["crds", "t.yaml"], "");
    assert_eq!(code, 2);
    assert!(err.contains("given twice"), "{err}");
}

#[test]
fn policies_and_bindings() {
    let files = [("labels.yaml", LABELS), ("replicas.yaml", REPLICAS)];
    let (code, out, err) = run(&files, &["vap", "."], "");
    assert_eq!(code, 0);
    assert!(err.contains("`scope` has no counterpart"), "{err}");
    let objects = documents(&out);
    let names: Vec<&str> = objects.iter().map(name).collect();
    assert_eq!(names, ["gatekeeper-maxreplicas", "gatekeeper-maxreplicas-at-most-ten"]);
    let binding = yaml::write(&objects[1]);
    assert_data_eq!(
        binding,
        str![[r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: gatekeeper-maxreplicas-at-most-ten
spec:
  matchResources:
    objectSelector:
      matchLabels:
        tier: web
  paramRef:
    name: at-most-ten
    parameterNotFoundAction: Allow
  policyName: gatekeeper-maxreplicas
  validationActions:
  - Warn

"#]]
    );
    let policy = &objects[0];
    assert_eq!(policy.pointer("/spec/failurePolicy"), Some(&"Ignore".into()));
    assert_eq!(
        policy.pointer("/spec/paramKind").expect("a kind").to_json(),
        r#"{"apiVersion":"constraints.gatekeeper.sh/v1beta1","kind":"MaxReplicas"}"#
    );
    assert_eq!(
        policy.pointer("/spec/matchConstraints/resourceRules/0/operations").map(Value::to_json),
        Some(r#"["CREATE","UPDATE"]"#.to_owned())
    );
}

#[test]
fn the_installation_says_what_policies_are_about() {
    let files = [("replicas.yaml", REPLICAS), ("installation.yaml", INSTALLATION)];
    let args = ["vap", ".", "--exempt-namespace-prefix", "sys-", "--api-version=v1beta1"];
    let (code, out, err) = run(&files, &args, "");
    assert_eq!(code, 0);
    assert!(err.contains("operations mismatch"), "{err}");
    let policy = &documents(&out)[0];
    assert_eq!(
        policy.pointer("/spec/matchConstraints").expect("constraints").to_json(),
        r#"{"matchPolicy":"Exact","resourceRules":[{"apiGroups":["*"],"apiVersions":["*"],"operations":["CREATE"],"resources":["*"]}]}"#
    );
    let conditions = policy.pointer("/spec/matchConditions").and_then(Value::as_array);
    let conditions = conditions.expect("conditions");
    let text = |name: &str| {
        let found = conditions.iter().find(|condition| condition.get("name") == Some(&name.into()));
        found.and_then(|condition| condition.get("expression")?.as_str()).expect(name)
    };
    let excluded = text("gatekeeper_internal_match_global_excluded_namespaces");
    assert!(excluded.contains("\"kube-*\"") && !excluded.contains("elsewhere"), "{excluded}");
    assert!(text("gatekeeper_internal_match_global_exempted_namespaces").contains("\"sys-*\""));

    let (_, out, _) = run(&files, &["vap", ".", "--sync-vap-enforcement-scope=false"], "");
    let policy = &documents(&out)[0];
    assert_eq!(
        policy.pointer("/spec/matchConditions").expect("list").as_array().map(|l| l.len()),
        Some(4)
    );
}

#[test]
fn constraints_are_held_against_their_templates() {
    let check = |constraint: &str, expected: &str| {
        let text =
            format!("{REPLICAS}---\napiVersion: constraints.gatekeeper.sh/v1beta1\n{constraint}");
        let (code, _, err) = run(&[("t.yaml", &text)], &["vap", "t.yaml"], "");
        assert!(code == 2 && err.contains(expected), "{code} {err}");
    };
    check(
        "kind: Other\nmetadata: {name: x}\n",
        "missing ConstraintTemplate: template \"other\" not found",
    );
    check(
        "kind: MaxReplicas\nmetadata: {name: x}\nspec: {parameters: {max: many}}\n",
        "spec.parameters.max in body must be of type integer: \"string\"",
    );
    check(
        "kind: MaxReplicas\nmetadata: {name: x}\nspec: {enforcementAction: foo}\n",
        "unrecognized enforcement action foo",
    );
    check(
        "kind: MaxReplicas\nmetadata: {name: x}\nspec: {enforcementAction: scoped, \
         scopedEnforcementActions: [{action: deny, enforcementPoints: [{name: '*'}]}, {action: \
         warn, enforcementPoints: [{name: vap.k8s.io}]}]}\n",
        "deny and warn cannot stand in one",
    );
}
