//! No value of a Secret that policies read stands in what commands print about these policies.

use std::fs;

use tempfile::TempDir;

use crate::program::{errors, modgate, out};

/// Rego that reads the object, the old object, the inventory and parameters; a rule with a select; a CEL
/// policy with a Secret as parameter; a mutator that writes into a Secret.
const POLICIES: &str = r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: reads}
spec:
  crd: {spec: {names: {kind: Reads}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package reads
      violation[{"msg": "denied by Rego"}] {
        other := data.inventory.namespace["shop"]["v1"]["Secret"]["kept"]
        token := other.data.token
        plain := base64.decode(token)
        tokens := [token, plain, json.marshal(other.data), input.review.object.metadata.labels.copy]
        count(tokens) > 0
      }
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: Reads
metadata: {name: reads}
spec: {}
---
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: readsobject}
spec:
  crd: {spec: {names: {kind: ReadsObject}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    code:
    - engine: K8sNativeValidation
      source:
        variables:
        - {name: data, expression: 'has(object.data) ? object.data : {}'}
        - {name: token, expression: '"token" in variables.data ? variables.data["token"] : ""'}
        validations:
        - {expression: 'variables.token == "x" || (oldObject != null && oldObject.data.token == "y")', message: denied by CEL}
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: ReadsObject
metadata: {name: readsobject}
spec: {}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: reads}
spec:
  paramKind: {apiVersion: v1, kind: Secret}
  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: ['*'], resources: [secrets, pods], operations: ['*']}]}
  variables:
  - {name: wanted, expression: 'params.data["token"]'}
  validations:
  - {expression: 'variables.wanted == "x"', message: denied by a policy}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: reads}
spec: {policyName: reads, validationActions: [Deny], paramRef: {name: given, namespace: shop, parameterNotFoundAction: Deny}}
---
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: reads, namespace: shop}
spec:
  type: Patch
  match:
  - select: '$.data.token'
  - select: '$.data.token'
    matchRegex: '.+'
  patch:
  - {op: add, path: /metadata/labels/copy, value: '"{{ .Target.data.token }}"'}
---
apiVersion: mutations.gatekeeper.sh/v1
kind: Assign
metadata: {name: writes}
spec:
  applyTo: [{groups: [""], versions: [v1], kinds: [Secret]}]
  location: data.other
  parameters: {assign: {value: "eA=="}}
"#;

const OBJECTS: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Secret
metadata: {name: kept, namespace: shop}
data: {token: aW52ZW50b3J5LXZhbHVlLW9mLWEtU2VjcmV0}
---
apiVersion: v1
kind: Secret
metadata: {name: given, namespace: shop}
data: {token: cGFyYW1ldGVyLXZhbHVlLW9mLWEtU2VjcmV0}
"#;

const SECRET: &str = r#"
apiVersion: v1
kind: Secret
metadata: {name: reviewed, namespace: shop, labels: {a: b}}
data: {token: b2JqZWN0LXZhbHVlLW9mLWEtU2VjcmV0LXdoaWNoLWlzLWxvbmc=}
"#;

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: shop, labels: {copy: c}}\n\
                   spec: {containers: []}\n";

/// Each value, as it is written and decoded.
const VALUES: [&str; 8] = [
    "aW52ZW50b3J5LXZhbHVlLW9mLWEtU2VjcmV0",
    "inventory-value-of-a-Secret",
    "cGFyYW1ldGVyLXZhbHVlLW9mLWEtU2VjcmV0",
    "parameter-value-of-a-Secret",
    "b2JqZWN0LXZhbHVlLW9mLWEtU2VjcmV0LXdoaWNoLWlzLWxvbmc=",
    "object-value-of-a-Secret-which-is-long",
    "b2xkLXZhbHVlLW9mLWEtU2VjcmV0",
    "old-value-of-a-Secret",
];

/// An update of a Secret, as the API server asks about it; `kind` is what the objects say.
fn update(kind: &str) -> String {
    let secret = |token: &str| {
        format!(
            r#"{{{kind} "metadata": {{"name": "reviewed", "namespace": "shop", "labels": {{}}}}, "data": {{"token": "{token}"}}}}"#
        )
    };
    format!(
        r#"{{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {{
            "uid": "u", "operation": "UPDATE", "namespace": "shop", "name": "reviewed",
            "kind": {{"group": "", "version": "v1", "kind": "Secret"}},
            "resource": {{"group": "", "version": "v1", "resource": "secrets"}},
            "userInfo": {{"username": "someone"}}, "object": {}, "oldObject": {}}}}}"#,
        secret(VALUES[4]),
        secret(VALUES[6])
    )
}

#[test]
fn no_value_of_a_secret_is_printed() {
    let folder = TempDir::new().expect("folder");
    for (name, text) in [
        ("policies.yaml", POLICIES),
        ("objects.yaml", OBJECTS),
        ("secret.yaml", SECRET),
        ("pod.yaml", POD),
        ("update.json", &update(r#""apiVersion": "v1", "kind": "Secret","#)),
        ("unnamed.json", &update("")),
        ("other.json", &update(r#""apiVersion": "v1", "kind": "ConfigMap","#)),
    ] {
        fs::write(folder.path().join(name), text).expect("written");
    }
    let from = ["-f", "policies.yaml", "--objects", "objects.yaml"];
    let mut printed = String::new();
    for (verb, outputs) in [
        ("explain", &["text", "json"][..]),
        ("plan", &["text", "json", "yaml"]),
        ("review", &["text", "json", "diff", "html", "sarif", "junit"]),
    ] {
        for output in outputs {
            for subject in ["secret.yaml", "pod.yaml", "update.json", "unnamed.json", "other.json"]
            {
                let mut arguments = vec![verb, "-o", output];
                arguments.extend(from);
                arguments.push(subject);
                if verb != "review" {
                    arguments.push("--all");
                }
                let run = modgate(folder.path(), &arguments);
                let (text, errors) = (out(&run), errors(&run));
                let is_silent = text.is_empty() && errors.is_empty();
                assert!(!is_silent, "{verb} -o {output} {subject}");
                for value in VALUES {
                    assert!(!text.contains(value), "{verb} -o {output} {subject}: {value}\n{text}");
                    assert!(!errors.contains(value), "{verb} -o {output} {subject}: {errors}");
                }
                printed += &text;
            }
        }
    }
    // The policies did read them.
    for text in ["denied by Rego", "denied by CEL", "denied by a policy", "(hidden)"] {
        assert!(printed.contains(text), "{text}\n{printed}");
    }
    // Audits and tests quote what policies say.
    for verb in
        [&["audit", "-f", "policies.yaml", "-o"][..], &["test", "-f", "policies.yaml", "-o"]]
    {
        for output in ["text", "json", "yaml", "sarif", "junit", "html"] {
            let mut arguments = verb.to_vec();
            arguments.push(output);
            let objects = ["objects.yaml", "secret.yaml"];
            if verb[0] == "test" {
                if output == "html" {
                    continue;
                }
                arguments.extend(["-f", objects[0], "-f", objects[1]]);
            } else {
                arguments.extend(objects);
            }
            let run = modgate(folder.path(), &arguments);
            let text = out(&run) + &errors(&run);
            for value in VALUES {
                assert!(!text.contains(value), "{arguments:?}: {value}\n{text}");
            }
        }
    }
}
