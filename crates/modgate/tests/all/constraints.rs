//! Templates and constraints on the command line: what they decide, why, and what is wrong with
//! them.
//!
//! Update the expectations with `SNAPSHOTS=overwrite cargo test -p modgate --test all constraints`.

use std::{
    fs,
    process::{Command, Stdio},
};

use snapbox::{assert_data_eq, str};
use tempfile::TempDir;

const LABELS: &str = r#"apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: requiredlabels}
spec:
  crd:
    spec:
      names: {kind: RequiredLabels}
      validation:
        openAPIV3Schema:
          type: object
          properties:
            labels: {type: array, items: {type: string}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package requiredlabels

      violation[{"msg": msg}] {
        missing := {label | label := input.parameters.labels[_]; not has(label)}
        count(missing) > 0
        msg := sprintf("add the labels %v", [missing])
      }

      has(label) { input.review.object.metadata.labels[label] }
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: RequiredLabels
metadata: {name: owner}
spec:
  match: {kinds: [{apiGroups: [""], kinds: [Pod]}]}
  parameters: {labels: [owner]}
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: RequiredLabels
metadata: {name: of-namespaces}
spec:
  match: {kinds: [{apiGroups: [""], kinds: [Namespace]}]}
  parameters: {labels: [team]}
"#;

const REPLICAS: &str = r#"apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: maxreplicas}
spec:
  crd:
    spec:
      names: {kind: MaxReplicas}
      validation:
        openAPIV3Schema: {type: object, properties: {max: {type: integer}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    code:
    - engine: K8sNativeValidation
      source:
        variables:
        - name: replicas
          expression: "has(object.spec.replicas) ? object.spec.replicas : 1"
        validations:
        - expression: variables.replicas <= variables.params.max
          messageExpression: '"at most " + string(variables.params.max) + " replicas"'
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: MaxReplicas
metadata: {name: five}
spec:
  enforcementAction: warn
  match: {kinds: [{apiGroups: [apps], kinds: [Deployment]}]}
  parameters: {max: 5}
"#;

const POD: &str = "{apiVersion: v1, kind: Pod, metadata: {name: p, labels: {app: x}}}";
const DEPLOYMENT: &str =
    "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 7}}";

struct Workspace(TempDir);

impl Workspace {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("dir"))
            .with("labels.yaml", LABELS)
            .with("replicas.yaml", REPLICAS)
            .with("pod.yaml", POD)
            .with("deployment.yaml", DEPLOYMENT)
    }

    fn with(self, name: &str, text: &str) -> Self {
        fs::write(self.0.path().join(name), text).expect("write");
        self
    }

    /// Exit code, standard output and standard error of a run; arguments are separated by blanks.
    fn run(&self, args: &str) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_modgate"))
            .args(args.split(' '))
            .current_dir(self.0.path())
            .env_remove("NO_COLOR")
            .stdin(Stdio::null())
            .output()
            .expect("modgate");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        let (out, err) = (text(output.stdout), text(output.stderr));
        let code = output.status.code().expect("code");
        let err = if err.is_empty() { err } else { format!("--- stderr\n{err}") };
        format!("exit {code}\n{out}{err}")
    }
}

#[test]
fn review() {
    let workspace = Workspace::new();
    assert_data_eq!(
        workspace.run("review -f labels.yaml -f replicas.yaml pod.yaml deployment.yaml"),
        str![[r#"
exit 1
Pod default/p: denied (pod.yaml:1:1)
  denied by RequiredLabels owner: add the labels {"owner"} (labels.yaml:26:1)
Deployment default/d: allowed (deployment.yaml:1:1)
  warning of MaxReplicas five: at most 5 replicas (replicas.yaml:22:1)
--- stderr
2 objects: 1 denied, 0 patched, 1 allowed; 5 policies

"#]]
    );
    assert_data_eq!(
        workspace.run("review -f replicas.yaml -o json deployment.yaml"),
        str![[r#"
exit 0
[
  {
    "allowed": true,
    "auditAnnotations": {},
    "code": 299,
    "failures": [],
    "kind": "Deployment",
    "name": "d",
    "namespace": "default",
    "notEvaluated": [],
    "object": {
      "apiVersion": "apps/v1",
      "kind": "Deployment",
      "metadata": {
        "name": "d"
      },
      "spec": {
        "replicas": 7
      }
    },
    "operation": "CREATE",
    "patch": [],
    "policies": [],
    "reason": "non-patched ok",
    "rejections": [],
    "source": "deployment.yaml:1:1",
    "violations": [
      {
        "actions": [
          "warn"
        ],
        "constraint": "five",
        "details": {},
        "enforcementAction": "warn",
        "kind": "MaxReplicas",
        "message": "at most 5 replicas"
      }
    ],
    "warnings": [
      "[five] at most 5 replicas"
    ]
  }
]

"#]]
    );
    assert_data_eq!(
        workspace.run("review -f labels.yaml -o yaml pod.yaml"),
        str![[r#"
exit 1
--- stderr
denied: Pod default/p: [owner] add the labels {"owner"}

"#]]
    );
}

#[test]
fn explain() {
    let workspace = Workspace::new();
    assert_data_eq!(
        workspace.run("explain -f labels.yaml -f replicas.yaml --all pod.yaml"),
        str![[r#"
exit 1
Pod default/p: denied (pod.yaml:1:1)

  RequiredLabels owner violated (deny, Rego, labels.yaml:26:1)
    violation: add the labels {"owner"}
    parameters {"labels":["owner"]}
    violation
      yes missing := {label | label := input.parameters.labels[_]; not has(label)} (labels.yaml:19:9)
          label = "owner"
          missing = {"owner"}
          input.parameters.labels = ["owner"]
      yes label := input.parameters.labels[_] (labels.yaml:19:29)
          label = "owner"
          input.parameters.labels = ["owner"]
      yes not has(label) (labels.yaml:19:66)
          label = "owner"
      yes count(missing) > 0 (labels.yaml:20:9)
          missing = {"owner"}
      yes msg := sprintf("add the labels %v", [missing]) (labels.yaml:21:9)
          missing = {"owner"}
          msg = "add the labels {/"owner/"}"
    has
      no  input.review.object.metadata.labels[label] (labels.yaml:24:20)
          label = "owner"
          input.review.object.metadata.labels = {"app":"x"}

  MaxReplicas five no match: the object is a v1 Pod (warn, K8sNativeValidation, replicas.yaml:22:1)
    no  spec.match.kinds [{"apiGroups":["apps"],"kinds":["Deployment"]}] (replicas.yaml:27:18)

  RequiredLabels of-namespaces no match: the object is a v1 Pod (deny, Rego, labels.yaml:33:1)
    no  spec.match.kinds [{"apiGroups":[""],"kinds":["Namespace"]}] (labels.yaml:37:18)

"#]]
    );
    assert_data_eq!(
        workspace.run("explain -f replicas.yaml --rule five deployment.yaml"),
        str![[r#"
exit 0
Deployment default/d: allowed (deployment.yaml:1:1)

  MaxReplicas five violated (warn, K8sNativeValidation, replicas.yaml:22:1)
    violation: at most 5 replicas
    parameters {"max":5}
    validations[0]
      no  variables.replicas <= variables.params.max (replicas.yaml:19:23)
          variables.replicas = 7
          variables.params.max = 5
      =   "at most " + string(variables.params.max) + " replicas" (replicas.yaml:20:30)
          "at most 5 replicas"
          variables.params.max = 5

"#]]
    );
}

#[test]
fn what_does_not_load() {
    let rego = LABELS.replace("not has(label)", "not hass(label)");
    let cel = REPLICAS.replace("variables.replicas <=", "variables.replica <=");
    let constraint = LABELS.replace("parameters: {labels: [owner]}", "parameters: {labels: owner}");
    let alone =
        "{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: Nothing, metadata: {name: x}}";
    let workspace = Workspace::new()
        .with("rego.yaml", &rego)
        .with("cel.yaml", &cel)
        .with("constraint.yaml", &constraint)
        .with("alone.yaml", alone);
    assert_data_eq!(
        workspace.run("review -f rego.yaml pod.yaml"),
        str![[r#"
exit 2
--- stderr
error: ConstraintTemplate requiredlabels: spec.targets[0].rego: rego_type_error: undefined function hass
  --> rego.yaml:19:70
   |
19 |         missing := {label | label := input.parameters.labels[_]; not hass(label)}
   |                                                                      ^^^^^^^^^^^
   |
   = help: did you mean `has`?

"#]]
    );
    assert_data_eq!(
        workspace.run("review -f cel.yaml pod.yaml"),
        str![[r#"
exit 2
--- stderr
error: ConstraintTemplate maxreplicas: spec.targets[0].code[0].source.validations[0].expression: undefined field 'replica'
  --> cel.yaml:19:33
   |
19 |         - expression: variables.replica <= variables.params.max
   |                                 ^^^^^^^
   |
   = help: did you mean `replicas`?

"#]]
    );
    assert_data_eq!(
        workspace.run("review -f constraint.yaml pod.yaml"),
        str![[r#"
exit 2
--- stderr
error: RequiredLabels owner: spec.parameters.labels: schema validation failed: [].spec.parameters.labels: Invalid value: "string": spec.parameters.labels in body must be of type array: "string"
  --> constraint.yaml:31:24
   |
31 |   parameters: {labels: owner}
   |                        ^^^^^
   |
   = help: write `[owner]`

"#]]
    );
    assert_data_eq!(
        workspace.run("review -f alone.yaml pod.yaml"),
        str![[r#"
exit 2
--- stderr
error: Nothing x: kind: missing ConstraintTemplate: template "nothing" not found
 --> alone.yaml:1:55
  |
1 | {apiVersion: constraints.gatekeeper.sh/v1beta1, kind: Nothing, metadata: {name: x}}
  |                                                       ^^^^^^^
  |
  = help: it takes effect when a template of its kind is loaded

"#]]
    );
}

/// Features that the language has and templates may not use.
#[test]
fn what_templates_may_not_say() {
    let with = |line: &str| {
        LABELS.replace(
            "      package requiredlabels\n",
            &format!("      package requiredlabels\n{line}"),
        )
    };
    let workspace = Workspace::new()
        .with("import.yaml", &with("      import data.foo\n"))
        .with("data.yaml", &with("      x { data.foo.bar }\n"))
        .with("builtin.yaml", &with("      x { http.send({}) }\n"));
    let first = |args: &str| {
        let shown = workspace.run(args);
        shown.split("error: RequiredLabels").next().unwrap_or_default().to_owned()
    };
    assert_data_eq!(
        first("review -f import.yaml pod.yaml"),
        str![[r#"
exit 2
--- stderr
error: ConstraintTemplate requiredlabels: spec.targets[0].rego: invalid ConstraintTemplate: invalid import: bad import: "data.foo"
  --> import.yaml:17:7
   |
17 |       import data.foo
   |       ^^^^^^^^^^^^^^^
   |
   = help: a template imports `data.lib.NAME` and `future.keywords`

"#]]
    );
    assert_data_eq!(
        first("review -f data.yaml pod.yaml"),
        str![[r#"
exit 2
--- stderr
error: ConstraintTemplate requiredlabels: spec.targets[0].rego: invalid ConstraintTemplate: invalid data references: check refs failed on module {template}: disallowed ref data.foo.bar
  --> data.yaml:17:11
   |
17 |       x { data.foo.bar }
   |           ^^^^^^^^^^^^
   |
   = help: of `data` a template sees: inventory, lib

"#]]
    );
    assert_data_eq!(
        first("review -f builtin.yaml pod.yaml"),
        str![[r#"
exit 2
--- stderr
error: ConstraintTemplate requiredlabels: spec.targets[0].rego: rego_type_error: undefined function http.send: it is switched off (REGO-8)
  --> builtin.yaml:17:11
   |
17 |       x { http.send({}) }
   |           ^^^^^^^^^
   |
   = help: use `external_data`

"#]]
    );
}

/// Policies see the objects of `--objects` as `data.inventory`.
#[test]
fn inventory() {
    let template = r#"apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: uniquename}
spec:
  crd: {spec: {names: {kind: UniqueName}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package uniquename
      violation[{"msg": msg}] {
        name := input.review.object.metadata.name
        data.inventory.namespace[namespace]["v1"]["Pod"][name]
        msg := sprintf("%v is taken in namespace %v", [name, namespace])
      }
---
{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: UniqueName, metadata: {name: pods}}
"#;
    let taken =
        "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: other, managedFields: []}}";
    let workspace = Workspace::new().with("unique.yaml", template).with("taken.yaml", taken);
    assert_data_eq!(
        workspace.run("review -f unique.yaml --objects taken.yaml pod.yaml"),
        str![[r#"
exit 1
Pod default/p: denied (pod.yaml:1:1)
  denied by UniqueName pods: p is taken in namespace other (unique.yaml:16:1)

"#]]
    );
    assert_data_eq!(
        workspace.run("review -f unique.yaml pod.yaml"),
        str![[r#"
exit 0
Pod default/p: allowed (pod.yaml:1:1)

"#]]
    );
}
