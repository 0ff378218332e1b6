//! An object is reviewed as the request that would create or change it.

use modgate_value::Value;

use crate::{
    program::{errors, modgate, out},
    served::Folder,
};

/// Policies in every language deny where a member of the request is not what an API server sends.
const POLICIES: &str = "apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: inrego}
spec:
  crd: {spec: {names: {kind: InRego}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package inrego
      good {
        r := input.review
        r.resource == {\"group\": \"apps\", \"version\": \"v1\", \"resource\": \"deployments\"}
        r.requestResource == r.resource
        r.requestKind == r.kind
        r.userInfo.username == \"ann\"
        r.userInfo.groups[_] == \"team\"
      }
      violation[{\"msg\": \"in Rego\"}] { not good }
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: InRego
metadata: {name: c}
---
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: incel}
spec:
  crd: {spec: {names: {kind: InCel}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    code:
    - engine: K8sNativeValidation
      source:
        validations:
        - expression: >-
            request.resource.resource == 'deployments' && request.requestResource == request.resource &&
            request.userInfo.username == 'ann' && 'team' in request.userInfo.groups
          message: in CEL
        - expression: request.operation != 'UPDATE' || object.spec == oldObject.spec
          message: in CEL, changed
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: InCel
metadata: {name: c}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: vap}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: ['*'], resources: [deployments]}]
  validations:
  - expression: >-
      request.resource.resource == 'deployments' && request.requestKind.kind == 'Deployment' &&
      request.userInfo.username == 'ann' && 'team' in request.userInfo.groups
    message: in a VAP
  - expression: request.operation != 'UPDATE' || object.spec == oldObject.spec
    message: in a VAP, changed
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: vap}
spec: {policyName: vap, validationActions: [Deny]}
";

const DEPLOYMENT: &str = r#"{"apiVersion": "apps/v1", "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "shop"}, "spec": {"replicas": 2}}"#;

/// The request of `DEPLOYMENT` as an API server sends it.
fn admission_review(operation: &str) -> String {
    let old = if operation == "UPDATE" { DEPLOYMENT } else { "null" };
    format!(
        r#"{{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {{
            "uid": "u", "operation": "{operation}", "name": "web", "namespace": "shop",
            "kind": {{"group": "apps", "version": "v1", "kind": "Deployment"}},
            "resource": {{"group": "apps", "version": "v1", "resource": "deployments"}},
            "requestKind": {{"group": "apps", "version": "v1", "kind": "Deployment"}},
            "requestResource": {{"group": "apps", "version": "v1", "resource": "deployments"}},
            "userInfo": {{"username": "ann", "groups": ["team"]}},
            "object": {DEPLOYMENT}, "oldObject": {old}}}}}"#
    )
}

#[test]
fn an_object_and_its_request_are_decided_alike() {
    for operation in ["CREATE", "UPDATE"] {
        let folder = Folder::new(&[
            ("policies.yaml", POLICIES),
            ("object.json", DEPLOYMENT),
            ("review.json", &admission_review(operation)),
        ]);
        let by_object = ["--operation", operation, "--as", "ann", "--as-group", "team"];
        for (file, more) in [("object.json", &by_object[..]), ("review.json", &[][..])] {
            for verb in ["review", "explain", "plan"] {
                let mut args = vec![verb, "-f", "policies.yaml", file, "-o", "json"];
                args.extend(more);
                let output = folder.run(&args);
                assert!(output.status.success(), "{args:?} {}{}", out(&output), errors(&output));
            }
        }
        let output = folder.run(&["review", "-f", "policies.yaml", "object.json"]);
        assert_eq!(output.status.code(), Some(1), "without a user: {}", out(&output));
    }
}

/// ModRules see custom resources by the resource that is configured, for objects and requests alike.
#[test]
fn modrules_of_custom_resources() {
    let rule = "apiVersion: api.kubemod.io/v1beta1\nkind: ModRule\nmetadata: {name: r, namespace: shop}\n\
                spec:\n  type: Reject\n  match: [{select: '$.kind', matchValue: Certificate}]\n";
    let object =
        "apiVersion: cert-manager.io/v1\nkind: Certificate\nmetadata: {name: a, namespace: shop}\n";
    let folder = Folder::new(&[("policies.yaml", rule), ("object.yaml", object)]);
    let review = |more: &[&str]| {
        let args = [&["review", "-f", "policies.yaml", "object.yaml"], more].concat();
        folder.run(&args).status.code()
    };
    assert_eq!(review(&[]), Some(0), "not among the resources of KubeMod's webhook");
    assert_eq!(review(&["--modrule-resource", "certificates"]), Some(1));
    assert_eq!(review(&["--modrule-resource", "issuers"]), Some(0));
}

/// Only the Config in the namespace of the installation exempts (ST-30).
#[test]
fn configs_elsewhere_exempt_nothing() {
    let policies = |namespace: &str| {
        format!(
            "apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\nmetadata: {{name: never}}\n\
             spec:\n  crd: {{spec: {{names: {{kind: Never}}}}}}\n  targets:\n  \
             - target: admission.k8s.gatekeeper.sh\n    rego: |\n      package never\n      \
             violation[{{\"msg\": \"never\"}}] {{ true }}\n---\n\
             apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: Never\nmetadata: {{name: c}}\n---\n\
             apiVersion: config.gatekeeper.sh/v1alpha1\nkind: Config\n\
             metadata: {{name: config{namespace}}}\n\
             spec: {{match: [{{excludedNamespaces: [shop], processes: ['*']}}]}}\n"
        )
    };
    for (namespace, more, exempts) in [
        ("", &[][..], true),
        (", namespace: gatekeeper-system", &[], true),
        (", namespace: other", &[], false),
        (", namespace: other", &["--installation-namespace", "other"], true),
        (", namespace: gatekeeper-system", &["--installation-namespace", "other"], false),
    ] {
        let folder =
            Folder::new(&[("policies.yaml", &policies(namespace)), ("d.json", DEPLOYMENT)]);
        for verb in ["review", "audit"] {
            let output = folder.run(&[&[verb, "-f", "policies.yaml", "d.json"], more].concat());
            let expected = if exempts { 0 } else { 1 };
            let errors = errors(&output);
            assert_eq!(output.status.code(), Some(expected), "{verb}{namespace} {more:?} {errors}");
            assert_eq!(errors.contains("no-effect"), !exempts, "{errors}");
        }
    }
}

/// An element that is appended replaces none.
#[test]
fn appended_elements() {
    let rule = "apiVersion: api.kubemod.io/v1beta1\nkind: ModRule\nmetadata: {name: r, namespace: shop}\n\
                spec:\n  type: Patch\n  match: [{select: '$.kind', matchValue: Pod}]\n  patch:\n  \
                - {op: add, path: /spec/containers/-1, value: '{name: proxy}'}\n  \
                - {op: add, path: /spec/containers/0, value: '{name: first}'}\n  \
                - {op: add, path: /spec/hostname, value: 'h'}\n";
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop}, \
               spec: {hostname: g, containers: [{name: c}]}}";
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("policies.yaml"), rule).expect("written");
    std::fs::write(folder.path().join("pod.yaml"), pod).expect("written");
    let text = out(&modgate(folder.path(), &["explain", "-f", "policies.yaml", "pod.yaml"]));
    assert!(text.contains("value {\"name\":\"proxy\"}"), "{text}");
    assert!(text.contains("value {\"name\":\"first\"}"), "{text}");
    assert!(text.contains("\"g\" became \"h\""), "{text}");
    let json =
        out(&modgate(folder.path(), &["explain", "-f", "policies.yaml", "pod.yaml", "-o", "json"]));
    let results = Value::from_json(json.as_bytes()).expect("JSON");
    let first = &results.as_array().expect("a list")[0];
    let containers = first.path(&["object", "spec", "containers"]).and_then(Value::as_array);
    let names: Vec<_> = containers
        .expect("containers")
        .iter()
        .filter_map(|container| container.get("name")?.as_str())
        .collect();
    assert_eq!(names, ["first", "c", "proxy"], "{json}");
}
