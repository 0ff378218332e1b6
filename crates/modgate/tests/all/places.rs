//! The places of violations in reports: the field that a message names, else the one that its policy read.

use std::fs;

use modgate_value::Value;
use tempfile::TempDir;

use crate::program::{modgate, out};

/// Messages that name no field.
const OBJECT: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: cart
  namespace: store
spec:
  hostNetwork: true
  priority: 7
  volumes:
  - name: host
    hostPath: {path: /}
  containers:
  - name: main
    image: us/cart
    securityContext:
      privileged: false
  - name: side
    image: us/log
    securityContext:
      privileged: true
";

/// A template of this kind in Rego, and its constraint.
fn rego(kind: &str, rules: &str) -> String {
    let rules = rules.replace('\n', "\n      ");
    format!(
        "apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {{name: {name}}}
spec:
  crd: {{spec: {{names: {{kind: {kind}}}}}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package {name}
      {rules}
---
{constraint}",
        name = kind.to_lowercase(),
        constraint = constraint(kind),
    )
}

/// The same in CEL.
fn cel(kind: &str, variables: &str, expression: &str) -> String {
    format!(
        "apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {{name: {name}}}
spec:
  crd: {{spec: {{names: {{kind: {kind}}}}}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    code:
    - engine: K8sNativeValidation
      source:
        variables: {variables}
        validations: [{{expression: '{expression}', message: 'this must not be'}}]
---
{constraint}",
        name = kind.to_lowercase(),
        constraint = constraint(kind),
    )
}

fn constraint(kind: &str) -> String {
    format!(
        "apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: {kind}\nmetadata: {{name: all}}\n\
         spec: {{match: {{kinds: [{{apiGroups: [''], kinds: [Pod]}}]}}}}\n"
    )
}

fn modrule(criteria: &str) -> String {
    format!(
        "apiVersion: api.kubemod.io/v1beta1\nkind: ModRule\nmetadata: {{name: r, namespace: store}}\n\
         spec:\n  type: Reject\n  rejectMessage: this must not be\n  match:\n  - {{select: $.kind, \
         matchValue: Pod}}\n{criteria}"
    )
}

fn admission_policy(expression: &str) -> String {
    format!(
        "apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: p}}
spec:
  matchConstraints:
    resourceRules: [{{apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [pods]}}]
  validations: [{{expression: '{expression}', message: 'this must not be'}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: p}}
spec: {{policyName: p, validationActions: [Deny]}}
"
    )
}

/// `line:column field` of each result of a SARIF log.
fn found(log: &str) -> Vec<String> {
    let log = Value::from_json(log.as_bytes()).expect(log);
    let results = log.pointer("/runs/0/results").and_then(Value::as_array).expect("results");
    let of = |result: &Value| {
        let region = result.pointer("/locations/0/physicalLocation/region").expect("a region");
        let number = |name: &str| region.get(name).and_then(Value::as_i64).unwrap_or_default();
        let field = result.pointer("/properties/field").and_then(Value::as_str);
        let field = field.unwrap_or("-");
        format!("{}:{} {field}", number("startLine"), number("startColumn"))
    };
    results.iter().map(of).collect()
}

fn reported(folder: &TempDir, policy: &str, line: &[&str]) -> Vec<String> {
    fs::write(folder.path().join("policy.yaml"), policy).expect("a file");
    found(&out(&modgate(folder.path(), line)))
}

#[test]
fn violations_stand_at_the_field_that_was_read() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("pod.yaml"), OBJECT).expect("a file");
    let plain = "{\"msg\": \"this must not be\"}";
    for (policy, expected) in [
        (
            rego(
                "Hosts",
                &format!("violation[{plain}] {{ input.review.object.spec.hostNetwork }}"),
            ),
            "7:3 spec.hostNetwork",
        ),
        (
            rego(
                "Elements",
                &format!(
                    "violation[{plain}] {{\n  input.review.kind.kind == \"Pod\"\n  c := \
                     input.review.object.spec.containers[_]\n  c.securityContext.privileged\n}}"
                ),
            ),
            "20:7 spec.containers[1].securityContext.privileged",
        ),
        (
            rego(
                "Functions",
                "violation[{\"msg\": msg}] {\n  c := all[_]\n  is_bad(c)\n  msg := sprintf(\"%v is \
                 wrong\", [c.name])\n}\nall[c] { c := input.review.object.spec.containers[_] \
                 }\nis_bad(c) { c.securityContext.privileged }",
            ),
            "20:7 spec.containers[1].securityContext.privileged",
        ),
        (
            rego(
                "Missing",
                &format!(
                    "violation[{plain}] {{ not input.review.object.spec.securityContext.runAsUser }}"
                ),
            ),
            "6:1 spec",
        ),
        (
            rego(
                "Ways",
                "violation[{\"msg\": msg}] {\n  v := input.review.object.spec.volumes[_]\n  \
                 v.hostPath\n  msg := \"this must not be\"\n}\nviolation[{\"msg\": msg}] {\n  \
                 input.review.object.spec.priority > 9\n  msg := \"this neither\"\n}",
            ),
            "11:5 spec.volumes[0].hostPath",
        ),
        (cel("Numbers", "[]", "object.spec.priority < 5"), "8:3 spec.priority"),
        (
            cel("All", "[]", "object.spec.containers.all(c, !c.securityContext.privileged)"),
            "20:7 spec.containers[1].securityContext.privileged",
        ),
        (
            cel(
                "Variables",
                "[{name: bad, expression: 'object.spec.containers.filter(c, \
                 c.securityContext.privileged)'}]",
                "size(variables.bad) == 0",
            ),
            "20:7 spec.containers[1].securityContext.privileged",
        ),
        (modrule("  - {select: $.spec.hostNetwork, matchValue: 'true'}\n"), "7:3 spec.hostNetwork"),
        (
            modrule("  - {select: '$.spec.containers[*].image', matchRegex: 'log$'}\n"),
            "18:5 spec.containers[1].image",
        ),
        (
            modrule("  - {select: '$.spec.containers[?@.securityContext.privileged == true]'}\n"),
            "17:5 spec.containers[1]",
        ),
        (admission_policy("!has(object.spec.hostNetwork)"), "7:3 spec.hostNetwork"),
    ] {
        for line in [
            ["review", "-f", "policy.yaml", "-o", "sarif", "pod.yaml"],
            ["audit", "-f", "policy.yaml", "-o", "sarif", "pod.yaml"],
        ] {
            assert_eq!(reported(&folder, &policy, &line), [expected], "{line:?}\n{policy}");
        }
        // `test` evaluates no ModRules.
        if !policy.contains("ModRule") {
            let line = ["test", "-f", "policy.yaml", "-f", "pod.yaml", "-o", "sarif"];
            assert_eq!(reported(&folder, &policy, &line), [expected], "{line:?}\n{policy}");
        }
    }
}

/// A container that the message names counts more than what was read of another one.
#[test]
fn names_in_messages_count_more() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("pod.yaml"), OBJECT).expect("a file");
    let policy = rego(
        "Named",
        "violation[{\"msg\": msg}] {\n  input.review.object.spec.containers[1].securityContext.privileged\n  \
         msg := \"container <main> has a bad neighbour\"\n}",
    );
    let line = ["review", "-f", "policy.yaml", "-o", "sarif", "pod.yaml"];
    assert_eq!(reported(&folder, &policy, &line), ["13:5 spec.containers[0]"]);
}
