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

/// The items of a list of one kind, as `kubectl get --raw` prints it, have neither `kind` nor `apiVersion`.
#[test]
fn lists_of_one_kind() {
    for (policies, objects, kind, version) in
        [(INVENTORY, SERVICES, "Service", "v1"), (PARAMS, DEPLOYMENT, "Deployment", "apps/v1")]
    {
        let header = format!("apiVersion: {version}\nkind: {kind}\n");
        let documents = objects.split("---\n").map(str::trim_start);
        let (items, others): (Vec<&str>, Vec<&str>) =
            documents.partition(|document| document.starts_with(&header));
        let items = items.iter().map(|document| {
            let rest = document.trim_start_matches(&header).trim_end();
            format!("- {}\n", rest.replace('\n', "\n  "))
        });
        let list = format!("apiVersion: {version}\nkind: {kind}List\nitems:\n");
        let listed = list + &items.collect::<String>();
        let listed = [others, vec![&listed]].concat().join("\n---\n");
        let (one_by_one, folder) = (folder(policies, objects), folder(policies, &listed));
        for line in VERBS {
            let expected = messages(&one_by_one, line);
            assert!(!expected.is_empty(), "{line}");
            assert_eq!(messages(&folder, line), expected, "{line}: {listed}");
        }
        let explained = |folder: &TempDir| {
            let line = ["explain", "-f", "policies.yaml", "objects.yaml"];
            let shown = out(&modgate(folder.path(), &line));
            shown.replace(|it: char| it.is_ascii_digit(), "")
        };
        assert_eq!(explained(&folder), explained(&one_by_one), "{listed}");
    }
}

/// Items of which a part of their type is known have no other type, and a `List` has items of any kind.
#[test]
fn items_without_a_kind() {
    for (kind, item) in [
        ("ServiceList", "{apiVersion: v1, metadata: {name: a}}"),
        ("List", "{metadata: {name: a}}"),
        ("ServiceList", "{metadata: {name: a}, apiVersion: v2, kind: ''}"),
    ] {
        let folder =
            folder(INVENTORY, &format!("apiVersion: v1\nkind: {kind}\nitems:\n- {item}\n"));
        for verb in ["review", "audit", "explain"] {
            let output = modgate(folder.path(), &[verb, "-f", "policies.yaml", "objects.yaml"]);
            let shown = errors(&output);
            assert!(shown.contains("the object has no `kind`"), "{verb}: {item}: {shown}");
            assert!(shown.contains("objects.yaml:4:3"), "{verb}: {item}: {shown}");
            assert_eq!(output.status.code(), Some(2), "{verb}: {item}: {shown}");
        }
    }
}

/// By the name of gator, a list is one object, as for gator.
#[test]
fn a_list_is_one_object_for_gator() {
    let list = "apiVersion: v1\nkind: ServiceList\nitems:\n\
                - metadata: {name: a, namespace: shop, labels: {owner: x}}\n\
                - metadata: {name: b, namespace: shop, labels: {owner: x}}\n";
    let folder = folder(INVENTORY, list);
    let line = ["test", "-f", "policies.yaml", "-f", "objects.yaml"];
    let output = modgate(folder.path(), &line);
    assert_eq!(output.status.code(), Some(0), "{}", out(&output));
    let owned = list.replacen("shop", "bank", 1).replace("owner: x}", "owner: x, name: own}");
    fs::write(folder.path().join("objects.yaml"), owned).expect("written");
    let found = out(&modgate(folder.path(), &line));
    assert!(found.contains("own has the owner of bank/a"), "{found}");
    let gator = folder.path().join("gator");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_modgate"), &gator).expect("a link");
    let output = std::process::Command::new(gator)
        .args(line)
        .current_dir(folder.path())
        .output()
        .expect("run");
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(0), ""), "{}", errors(&output));
}

/// All verbs name an object alike for people, also one whose name the API server makes, or that has none.
#[test]
fn names_that_the_api_server_makes() {
    for (metadata, title) in [
        ("{name: c, namespace: bank", "Service bank/c"),
        ("{name: c, generateName: d-, namespace: bank", "Service bank/c"),
        ("{generateName: c-, namespace: bank", "Service bank/c-"),
        ("{generateName: c-", "Service default/c-"),
        ("{namespace: bank", "Service bank/(unnamed)"),
    ] {
        let other =
            "apiVersion: v1\nkind: Service\nmetadata: {name: z, namespace: z, labels: {owner: z}}";
        let object = format!(
            "apiVersion: v1\nkind: Service\nmetadata: {metadata}, labels: {{owner: z, name: c}}}}"
        );
        let folder = folder(INVENTORY, &format!("{object}\n---\n{other}\n"));
        for verb in ["review", "audit", "explain"] {
            for format in ["text", "sarif", "github"] {
                if verb == "explain" && format != "text" {
                    continue;
                }
                let line = [verb, "-o", format, "-f", "policies.yaml", "objects.yaml"];
                let output = modgate(folder.path(), &line);
                let shown = out(&output);
                assert!(shown.contains(&format!("{title}:")), "{line:?}: {title}: {shown}");
            }
        }
    }
}
