//! The objects of a run stand in for a cluster, and every verb says the same of them.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::program::{errors, modgate, out};

const INVENTORY: &str = r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: uniqueowner}
spec:
  crd: {spec: {names: {kind: UniqueOwner}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package uniqueowner
      same(a, b) { a.metadata.namespace == b.metadata.namespace; a.metadata.name == b.metadata.name }
      violation[{"msg": msg}] {
        object := input.review.object
        other := data.inventory.namespace[namespace]["v1"]["Service"][name]
        other.metadata.labels.owner == object.metadata.labels.owner
        not same(other, object)
        msg := sprintf("%v has the owner of %v/%v", [input.review.object.metadata.labels.name, namespace, name])
      }
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: UniqueOwner
metadata: {name: owner}
spec: {}
"#;

const SERVICES: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: a, namespace: shop, labels: {owner: x, name: a}}
---
apiVersion: v1
kind: Service
metadata: {name: b, namespace: bank, labels: {owner: x, name: b}}
---
apiVersion: v1
kind: Service
metadata: {generateName: c-, namespace: bank, labels: {owner: z, name: c}}
---
apiVersion: v1
kind: Service
metadata: {name: d, namespace: bank, labels: {owner: z, name: d}}
---
apiVersion: v1
kind: Service
metadata: {name: e, namespace: bank, labels: {owner: own, name: e}}
"#;

const PARAMS: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: replicas}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]}
  validations:
  - expression: object.spec.replicas <= int(params.data.most)
    messageExpression: "'at most ' + params.data.most + ' replicas'"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: replicas}
spec:
  policyName: replicas
  validationActions: [Deny]
  paramRef: {name: limits, namespace: shop, parameterNotFoundAction: Deny}
"#;

const DEPLOYMENT: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: limits, namespace: shop}
data: {most: "3"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 5
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: x}]}}
"#;

fn folder(policies: &str, objects: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in [
        ("policies.yaml", policies),
        ("objects.yaml", objects),
        ("modgate.yaml", "policies: [policies.yaml]\nobjects: [objects.yaml]\noutputs: [jsonl]\n"),
    ] {
        fs::write(folder.path().join(name), text).expect("written");
    }
    folder
}

/// The messages of violations that a verb prints as findings, one per line, sorted.
fn messages(folder: &TempDir, line: &str) -> Vec<String> {
    let words: Vec<&str> = line.split(' ').collect();
    let output = modgate(folder.path(), &words);
    let shown = out(&output) + &errors(&output);
    let mut found: Vec<String> = out(&output)
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter_map(|it| Some(it.get("message").or(it.get("msg"))?.as_str()?.to_owned()))
        .collect();
    found.sort();
    assert!(output.status.code().is_some_and(|code| code < 2), "{line}: {shown}");
    found
}

/// Verbs with findings as lines of JSON.
const VERBS: [&str; 4] = [
    "review -o jsonl -f policies.yaml objects.yaml",
    "check",
    "audit -o jsonl -f policies.yaml objects.yaml",
    "test -o jsonl -f policies.yaml -f objects.yaml",
];

#[test]
fn every_verb_sees_the_objects_of_the_run() {
    // An object without a name cannot tell itself from others.
    let expected_owners = [
        "a has the owner of bank/b",
        "b has the owner of shop/a",
        "c has the owner of bank/",
        "c has the owner of bank/d",
        "d has the owner of bank/",
    ];
    for (policies, objects, expected) in [
        (INVENTORY, SERVICES, &expected_owners[..]),
        (PARAMS, DEPLOYMENT, &["at most 3 replicas"][..]),
    ] {
        let folder = folder(policies, objects);
        for line in VERBS {
            let found = messages(&folder, line);
            for expected in expected {
                assert!(
                    found.iter().any(|it| it.contains(expected)),
                    "{line}: {expected}: {found:?}"
                );
            }
            assert_eq!(found.len(), expected.len(), "{line}: {found:?}");
        }
        for verb in ["explain", "review"] {
            let output = modgate(folder.path(), &[verb, "-f", "policies.yaml", "objects.yaml"]);
            for expected in expected {
                assert!(out(&output).contains(expected), "{verb}: {}", out(&output));
            }
        }
    }
}

/// An object that a Config excludes is not synced, hence not in `data.inventory`.
#[test]
fn a_config_excludes_objects_of_the_run() {
    let config = "---\napiVersion: config.gatekeeper.sh/v1alpha1\nkind: Config\n\
                  metadata: {name: config, namespace: gatekeeper-system}\n\
                  spec: {match: [{processes: [sync], excludedNamespaces: [bank]}]}\n";
    let folder = folder(&format!("{INVENTORY}{config}"), SERVICES);
    for line in VERBS.iter().filter(|line| !line.starts_with("test")) {
        assert_eq!(messages(&folder, line).len(), 1, "{line}");
    }
}

/// `--defaulting` means the same to `review` and `audit`.
#[test]
fn defaults_of_the_api_server() {
    let policy = PARAMS
        .replace(
            "object.spec.replicas <= int(params.data.most)",
            "object.spec.strategy.type == 'Recreate'",
        )
        .replace(
            "'at most ' + params.data.most + ' replicas'",
            "'not ' + object.spec.strategy.type",
        );
    let folder = folder(&policy, DEPLOYMENT);
    for verb in ["review", "audit"] {
        let line = format!("{verb} --defaulting -o jsonl -f policies.yaml objects.yaml");
        let found = messages(&folder, &line);
        assert!(found.len() == 1 && found[0].contains("not RollingUpdate"), "{verb}: {found:?}");
    }
    let output =
        modgate(folder.path(), &["audit", "--defaulting", "--cluster", "-f", "policies.yaml"]);
    assert_eq!(output.status.code(), Some(2), "{}", errors(&output));
}

/// All verbs print the same about an object that no API server stores.
#[test]
fn impossible_objects() {
    let objects = SERVICES.replacen("kind: Service", "kind: service", 1);
    let folder = folder(INVENTORY, &objects);
    for line in VERBS.iter().chain(["explain -f policies.yaml objects.yaml"].iter()) {
        let words: Vec<&str> = line.split(' ').collect();
        let shown = errors(&modgate(folder.path(), &words));
        assert!(
            shown.contains("warning[impossible-object]: no kind of `v1` is called `service`"),
            "{line}: {shown}"
        );
        assert!(
            shown.contains("objects.yaml:3:7") && shown.contains("did you mean `Service`?"),
            "{line}: {shown}"
        );
    }
    for verb in ["review", "audit", "explain"] {
        let output =
            modgate(folder.path(), &[verb, "--strict", "-f", "policies.yaml", "objects.yaml"]);
        assert_eq!(output.status.code(), Some(2), "{verb}: {}", errors(&output));
    }
}
