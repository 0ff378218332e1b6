//! `modgate audit` over files.
//!
//! Update the expectations with `SNAPSHOTS=overwrite cargo test -p modgate --test all audit`.

use std::{fs, process::Command};

use modgate_value::Value;
use snapbox::{assert_data_eq, str};
use tempfile::TempDir;

const POLICIES: &str = r#"apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: requiredlabels}
spec:
  crd:
    spec:
      names: {kind: RequiredLabels}
      validation:
        openAPIV3Schema: {type: object, properties: {labels: {type: array, items: {type: string}}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package requiredlabels
      violation[{"msg": msg, "details": {"missing": missing}}] {
        missing := {l | l := input.parameters.labels[_]} - {l | input.review.object.metadata.labels[l]}
        count(missing) > 0
        msg := sprintf("add the labels %v", [missing])
      }
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
metadata: {name: team}
spec:
  enforcementAction: warn
  match: {kinds: [{apiGroups: ["", apps], kinds: [Namespace, Deployment]}]}
  parameters: {labels: [team]}
---
apiVersion: expansion.gatekeeper.sh/v1beta1
kind: ExpansionTemplate
metadata: {name: pods}
spec:
  applyTo: [{groups: [apps], versions: [v1], kinds: [Deployment]}]
  templateSource: spec.template
  generatedGVK: {group: "", version: v1, kind: Pod}
---
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: replicas, namespace: shop}
spec:
  type: Patch
  match: [{select: $.kind, matchValue: Deployment}]
  patch: [{op: replace, path: /spec/replicas, value: "3"}]
"#;

const OBJECTS: &str = r#"apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
---
apiVersion: v1
kind: Pod
metadata: {name: good, namespace: shop, labels: {owner: me}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: api, namespace: shop, labels: {team: a}}
spec: {replicas: 1, template: {metadata: {labels: {app: api}}, spec: {}}}
"#;

struct Run {
    stdout: String,
    stderr: String,
    code: Option<i32>,
}

fn audit(objects: &str, arguments: &[&str]) -> Run {
    audit_with(POLICIES, objects, arguments)
}

/// `modgate test`, by this name of the program.
fn test_with(policies: &str, objects: &str, program: &str) -> Run {
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("policies.yaml"), policies).expect("written");
    fs::write(folder.path().join("objects.yaml"), objects).expect("written");
    let binary = folder.path().join(program);
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_modgate"), &binary).expect("a link");
    let output = Command::new(binary)
        .args(["test", "-f", "policies.yaml", "-f", "objects.yaml"])
        .current_dir(folder.path())
        .output()
        .expect("run");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Run { stdout: text(output.stdout), stderr: text(output.stderr), code: output.status.code() }
}

fn audit_with(policies: &str, objects: &str, arguments: &[&str]) -> Run {
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("policies.yaml"), policies).expect("written");
    fs::write(folder.path().join("objects.yaml"), objects).expect("written");
    let output = Command::new(env!("CARGO_BIN_EXE_modgate"))
        .args(["audit", "-f", "policies.yaml", "objects.yaml"])
        .args(arguments)
        .current_dir(folder.path())
        .output()
        .expect("run");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Run { stdout: text(output.stdout), stderr: text(output.stderr), code: output.status.code() }
}

#[test]
fn for_people() {
    let run = audit(OBJECTS, &[]);
    assert_data_eq!(
        run.stdout,
        str![[r#"
ModRule shop/replicas: 1 violation
  patch Deployment shop/api: would change /spec/replicas (objects.yaml:13:1)

RequiredLabels owner: 2 violations
  deny Pod shop/web: add the labels {"owner"} (objects.yaml:5:1)
  deny Deployment shop/api: [Implied by pods] add the labels {"owner"} (objects.yaml:13:1)

RequiredLabels team: 1 violation
  warn Namespace shop: add the labels {"team"} (objects.yaml:1:1)

4 objects audited, 4 violations: 2 deny, 1 warn, 1 of ModRules and mutators

"#]]
    );
    assert_eq!((run.stderr.as_str(), run.code), ("", Some(1)));
}

/// The data of a page.
fn data(html: &str) -> Value {
    let (_, rest) = html.split_once("id=\"data\">").expect("a page with data");
    let (data, _) = rest.split_once("</script>").expect("the end of the data");
    Value::from_json(data.as_bytes()).expect("JSON")
}

/// A page has the document of `-o json`, the objects with violations, and the policies, but no data of
/// a Secret.
#[test]
fn for_browsers() {
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: shop, annotations: {a: <b>}}\n\
                  data: {password: aHVudGVyMg==}\nstringData: {pin: '4711'}\n";
    let policies = POLICIES.replace("kinds: [Pod]", "kinds: [Pod, Secret]");
    let objects = format!("{OBJECTS}---\n{secret}");
    let run = audit_with(&policies, &objects, &["-o", "html"]);
    assert_eq!((run.stderr.as_str(), run.code), ("", Some(1)));
    for hidden in ["aHVudGVyMg", "4711", "<b>"] {
        assert!(!run.stdout.contains(hidden), "{hidden}");
    }
    let page = data(&run.stdout);
    let json = audit_with(&policies, &objects, &["-o", "json"]).stdout;
    assert_eq!(page.get("document"), Some(&Value::from_json(json.as_bytes()).expect("JSON")));
    let names = |list: &str| -> Vec<String> {
        let list = page.get(list).and_then(Value::as_array).expect("a list");
        let name = |member: &str, it: &Value| {
            it.get(member).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        list.iter().map(|it| format!("{} {}", name("kind", it), name("name", it))).collect()
    };
    assert_eq!(names("subjects"), ["Namespace shop", "Pod web", "Secret s", "Deployment api"]);
    let policies = names("policies");
    assert!(policies.contains(&"RequiredLabels owner".to_owned()), "{policies:?}");
    let explained = page.get("subjects").and_then(Value::as_array).expect("a list");
    let explained: Vec<_> = explained.iter().map(|it| it.get("explanation").is_some()).collect();
    assert_eq!(explained, [true, true, false, true], "a Secret is not explained");
}

/// A page says how many objects it has no room for.
#[test]
fn more_objects_than_a_page_holds() {
    let namespace = |number: usize| {
        format!("---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: n{number}}}\n")
    };
    let objects: String = (0..5_012).map(namespace).collect();
    let run = audit_with(POLICIES, &objects, &["-o", "html"]);
    assert_eq!((run.stderr.as_str(), run.code), ("", Some(0)));
    let page = data(&run.stdout);
    assert_eq!(page.get("subjects").and_then(Value::as_array).map(|all| all.len()), Some(5_000));
    let omitted = page.get("omitted").and_then(Value::as_array).expect("a list");
    let first = omitted.first().and_then(Value::as_str);
    assert_eq!(first, Some("The page does not contain 12 of the objects."));
}

#[test]
fn by_namespace_with_a_limit() {
    let run = audit(OBJECTS, &["--by", "namespace", "--limit", "1"]);
    assert_data_eq!(
        run.stdout,
        str![[r#"
cluster-scoped objects: 1 violation
  warn Namespace shop: [RequiredLabels team] add the labels {"team"} (objects.yaml:1:1)

namespace shop: 3 violations
  patch Deployment shop/api: [ModRule shop/replicas] would change /spec/replicas (objects.yaml:13:1)
  and 2 more

4 objects audited, 4 violations: 2 deny, 1 warn, 1 of ModRules and mutators

"#]]
    );
}

#[test]
fn exit_codes() {
    let labelled = OBJECTS.replace("{name: shop}", "{name: shop, labels: {team: a}}");
    let only_namespace = "{apiVersion: v1, kind: Namespace, metadata: {name: a}}";
    let nothing = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: b}}";
    for (objects, arguments, expected) in [
        (OBJECTS, &[][..], 1),
        (&labelled, &[], 1),
        (only_namespace, &[], 0),
        (only_namespace, &["--fail-on", "warn"], 1),
        (only_namespace, &["--fail-on", "dryrun"], 1),
        (OBJECTS, &["--fail-on", "none"], 0),
        (nothing, &["--fail-on", "dryrun"], 0),
        ("", &[], 2),
        ("{metadata: {name: a}}", &[], 2),
        // As `review` and `test` take it.
        ("{apiVersion: v1, kind: Pod}", &[], 1),
    ] {
        let run = audit(objects, arguments);
        assert_eq!(run.code, Some(expected), "{objects} {arguments:?}: {}", run.stderr);
    }
}

#[test]
fn sarif() {
    let run = audit(OBJECTS, &["-o", "sarif"]);
    let log = Value::from_json(run.stdout.as_bytes()).expect("JSON");
    assert_eq!(log.get("version").and_then(Value::as_str), Some("2.1.0"));
    let run = &log.get("runs").and_then(Value::as_array).expect("runs")[0];
    let rules = run.path(&["tool", "driver", "rules"]).and_then(Value::as_array).expect("rules");
    let ids: Vec<_> = rules.iter().filter_map(|rule| rule.get("id")?.as_str()).collect();
    assert_eq!(ids, ["ModRule/shop/replicas", "RequiredLabels/owner", "RequiredLabels/team"]);
    let results = run.get("results").and_then(Value::as_array).expect("results");
    let lines: Vec<String> = results
        .iter()
        .map(|result| {
            let location = &result.get("locations").and_then(Value::as_array).expect("places")[0];
            let physical = location.get("physicalLocation").expect("a place");
            format!(
                "{} {} {} {} {}",
                result.get("ruleId").and_then(Value::as_str).expect("a rule"),
                result.get("level").and_then(Value::as_str).expect("a level"),
                physical
                    .path(&["artifactLocation", "uri"])
                    .and_then(Value::as_str)
                    .expect("a file"),
                physical.path(&["region", "startLine"]).expect("a line"),
                result.path(&["message", "text"]).and_then(Value::as_str).expect("a message"),
            )
        })
        .collect();
    assert_eq!(
        lines,
        [
            "ModRule/shop/replicas warning objects.yaml 16 Deployment shop/api: would change \
             /spec/replicas",
            "RequiredLabels/owner error objects.yaml 7 Pod shop/web: add the labels {\"owner\"}",
            "RequiredLabels/owner error objects.yaml 15 Deployment shop/api: [Implied by pods] add \
             the labels {\"owner\"}",
            "RequiredLabels/team warning objects.yaml 3 Namespace shop: add the labels {\"team\"}",
        ]
    );
}

#[test]
fn lines() {
    let run = || audit(OBJECTS, &["-o", "jsonl"]);
    let lines: Vec<Value> = run()
        .stdout
        .lines()
        .map(|line| Value::from_json(line.as_bytes()).expect("a JSON object on each line"))
        .collect();
    let text = |line: &Value, key: &str| {
        line.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let told: Vec<String> = lines
        .iter()
        .map(|line| ["kind", "name", "resourceKind", "resourceName"].map(|key| text(line, key)))
        .map(|words| words.join(" "))
        .collect();
    assert_eq!(
        told,
        [
            "ModRule replicas Deployment api",
            "RequiredLabels owner Pod web",
            "RequiredLabels owner Deployment api",
            "RequiredLabels team Namespace shop",
        ]
    );
    assert_eq!(text(&lines[1], "eventType"), "violation_audited");
    assert_eq!(text(&lines[1], "message"), r#"add the labels {"owner"}"#);
    let ids: std::collections::BTreeSet<String> =
        lines.iter().map(|line| text(line, "violationId")).collect();
    assert_eq!(ids.len(), 4, "{ids:?}");
    assert_eq!(run().stdout, run().stdout, "the same from run to run");
    assert_eq!(audit(OBJECTS, &["-o", "jsonl", "--limit", "1"]).stdout.lines().count(), 3);
}

#[test]
fn documents() {
    let only_namespace = "{apiVersion: v1, kind: Namespace, metadata: {name: a}}";
    assert_data_eq!(
        audit(only_namespace, &["-o", "yaml"]).stdout,
        str![[r#"
errors: []
excluded: 0
groups:
- title: RequiredLabels owner
  total: 0
  violations: []
- title: RequiredLabels team
  total: 1
  violations:
  - details:
      missing:
      - team
    enforcementAction: warn
    message: add the labels {"team"}
    object:
      group: ""
      kind: Namespace
      name: a
      place: objects.yaml:1:1
      version: v1
    policy:
      group: constraints.gatekeeper.sh
      kind: RequiredLabels
      name: team
      version: v1beta1
objects: 1
totals:
  admissionPolicies: 0
  deny: 0
  dryrun: 0
  rules: 0
  scoped: 0
  unrecognized: 0
  warn: 1

"#]]
    );
    let json = audit(OBJECTS, &["-o", "json"]).stdout;
    let json = Value::from_json(json.as_bytes()).expect("JSON");
    assert_eq!(json.path(&["totals", "deny"]).and_then(Value::as_i64), Some(2));
    assert_data_eq!(
        audit(only_namespace, &["-o", "junit"]).stdout,
        str![[r#"
<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="modgate" tests="2" failures="0" errors="0">
  <testsuite name="RequiredLabels/owner" tests="1" failures="0" errors="0" skipped="0">
    <testcase name="no violations" classname="RequiredLabels/owner"/>
  </testsuite>
  <testsuite name="RequiredLabels/team" tests="1" failures="0" errors="0" skipped="1">
    <testcase name="Namespace a" classname="RequiredLabels/team">
      <skipped message="add the labels {&quot;team&quot;}" type="warn">objects.yaml:1:35&#10;add the labels {&quot;team&quot;}</skipped>
    </testcase>
  </testsuite>
</testsuites>

"#]]
    );
}

/// Exit code, standard output and standard error in a folder with policies and one that is empty.
fn modgate(arguments: &[&str]) -> Run {
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("policies.yaml"), POLICIES).expect("written");
    fs::write(folder.path().join("objects.yaml"), OBJECTS).expect("written");
    fs::create_dir(folder.path().join("none")).expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_modgate"))
        .args(arguments)
        .current_dir(folder.path())
        .env_remove("KUBERNETES_SERVICE_HOST")
        .env("HOME", folder.path())
        .env("KUBECONFIG", if arguments.contains(&"nowhere") { "" } else { "missing" })
        .output()
        .expect("run");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Run { stdout: text(output.stdout), stderr: text(output.stderr), code: output.status.code() }
}

#[test]
fn nothing_is_reported_of_nothing() {
    for (arguments, expected) in [
        (&["-f", "none", "objects.yaml"][..], "error: there is no policy in `none`\n"),
        (&["-f", "policies.yaml", "none"], "error: there is no object in `none`\n"),
        (&["-f", "policies.yaml", "gone"], "error: cannot read `gone`: "),
        (
            &["-f", "policies.yaml"],
            "error: give objects to audit, or `--cluster` to audit those of the cluster that kubectl",
        ),
        (&["-f", "policies.yaml", "--cluster"], "error: cannot use the kubeconfig `missing`: "),
        (
            &["-f", "policies.yaml", "--cluster", "-n", "nowhere"],
            "error: no cluster is configured; give objects to audit, or a kubeconfig: ",
        ),
        (
            &["-f", "policies.yaml", "objects.yaml", "--kubeconfig", "a"],
            "error: the argument '[OBJECT]...' cannot be used with '--kubeconfig <FILE>'",
        ),
    ] {
        let arguments: Vec<&str> = ["audit"].iter().chain(arguments).copied().collect();
        let run = modgate(&arguments);
        assert!(run.stderr.starts_with(expected), "{arguments:?}: {}", run.stderr);
        assert_eq!((run.stdout.as_str(), run.code), ("", Some(2)), "{arguments:?}");
    }
    // What was read is reported, whatever else could not be.
    let run = modgate(&["audit", "-f", "policies.yaml", "gone", "objects.yaml"]);
    assert!(run.stdout.contains("4 objects audited") && run.code == Some(2), "{}", run.stdout);
}

const ADMISSION_POLICIES: &str = r#"apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: replicas}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]
  validations:
  - expression: object.spec.replicas <= int(params.data.most)
    messageExpression: "'at most ' + params.data.most"
    reason: Forbidden
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: few}
spec:
  policyName: replicas
  validationActions: [Deny, Audit]
  paramRef: {name: limits, parameterNotFoundAction: Deny}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: none}
spec:
  policyName: replicas
  validationActions: [Warn]
  matchResources: {namespaceSelector: {matchLabels: {strict: 'yes'}}}
  paramRef: {selector: {matchLabels: {strict: 'yes'}}, parameterNotFoundAction: Allow}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: changes}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [UPDATE], resources: [pods]}]
  matchConditions: [{name: users, expression: "!('admins' in request.userInfo.groups)"}]
  validations: [{expression: "oldObject.metadata.name != 'web' && request.resource.resource == 'pods'"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: changes}
spec: {policyName: changes, validationActions: [Audit]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: deletions}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: ['*'], apiVersions: ['*'], operations: [DELETE], resources: ['*']}]
  validations: [{expression: 'false'}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: deletions}
spec: {policyName: deletions, validationActions: [Deny]}
"#;

/// The parameters are among the objects.
const WORKLOADS: &str = r#"apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {strict: 'yes'}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: limits, namespace: shop}
data: {most: '3'}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: least, namespace: shop, labels: {strict: 'yes'}}
data: {most: '1'}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: api, namespace: shop}
spec: {replicas: 5}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: cache, namespace: shop}
spec: {replicas: 2}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: elsewhere, namespace: other}
spec: {replicas: 1}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
"#;

#[test]
fn admission_policies() {
    let run = audit_with(ADMISSION_POLICIES, WORKLOADS, &[]);
    assert_eq!(run.stderr, "");
    assert_data_eq!(
        run.stdout,
        str![[r#"
ValidatingAdmissionPolicy changes: 1 violation
  audit Pod shop/web: failed expression: oldObject.metadata.name != 'web' && request.resource.resource == 'pods' (objects.yaml:30:1)

ValidatingAdmissionPolicy replicas: 4 violations
  deny Deployment other/elsewhere: failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction (objects.yaml:25:1)
  warn Deployment shop/api: at most 1 (objects.yaml:15:1)
  deny Deployment shop/api: at most 3 (objects.yaml:15:1)
  warn Deployment shop/cache: at most 1 (objects.yaml:20:1)

7 objects audited, 5 violations: 5 of ValidatingAdmissionPolicies

"#]]
    );
    assert_eq!(run.code, Some(1));
    let run = audit_with(ADMISSION_POLICIES, WORKLOADS, &["-o", "json", "--limit", "1"]);
    assert_data_eq!(
        run.stdout,
        str![[r#"
{
  "errors": [],
  "excluded": 0,
  "groups": [
    {
      "title": "ValidatingAdmissionPolicy changes",
      "total": 1,
      "violations": [
        {
          "details": {
            "binding": "changes",
            "reason": "Invalid",
            "validation": 0
          },
          "enforcementAction": "audit",
          "message": "failed expression: oldObject.metadata.name != 'web' && request.resource.resource == 'pods'",
          "object": {
            "group": "",
            "kind": "Pod",
            "name": "web",
            "namespace": "shop",
            "place": "objects.yaml:30:1",
            "version": "v1"
          },
          "policy": {
            "group": "admissionregistration.k8s.io",
            "kind": "ValidatingAdmissionPolicy",
            "name": "changes",
            "version": "v1"
          }
        }
      ]
    },
    {
      "title": "ValidatingAdmissionPolicy replicas",
      "total": 4,
      "violations": [
        {
          "details": {
            "binding": "few",
            "reason": "Invalid"
          },
          "enforcementAction": "deny",
          "message": "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
          "object": {
            "group": "apps",
            "kind": "Deployment",
            "name": "elsewhere",
            "namespace": "other",
            "place": "objects.yaml:25:1",
            "version": "v1"
          },
          "policy": {
            "group": "admissionregistration.k8s.io",
            "kind": "ValidatingAdmissionPolicy",
            "name": "replicas",
            "version": "v1"
          }
        }
      ]
    }
  ],
  "objects": 7,
  "totals": {
    "admissionPolicies": 5,
    "deny": 0,
    "dryrun": 0,
    "rules": 0,
    "scoped": 0,
    "unrecognized": 0,
    "warn": 0
  }
}

"#]]
    );
    let run = test_with(ADMISSION_POLICIES, WORKLOADS, "modgate");
    assert_data_eq!(
        run.stdout,
        str![[r#"
apps/v1/Deployment shop/api: ["replicas"] Message: "at most 3"
apps/v1/Deployment other/elsewhere: ["replicas"] Message: "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
v1/Pod shop/web: ["changes"] Message: "failed expression: oldObject.metadata.name != 'web' && request.resource.resource == 'pods'"
apps/v1/Deployment shop/api: ["replicas"] Message: "at most 1"
apps/v1/Deployment shop/cache: ["replicas"] Message: "at most 1"

"#]]
    );
    assert_eq!((run.code, run.stderr.as_str()), (Some(1), ""));
    let run = test_with(ADMISSION_POLICIES, WORKLOADS, "gator");
    assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (Some(0), "", ""));
    let quiet = ADMISSION_POLICIES
        .replace("[Deny, Audit]", "[Audit]")
        .replace("Action: Deny", "Action: Allow");
    let run = audit_with(&quiet, WORKLOADS, &["--fail-on", "deny"]);
    assert_eq!(run.code, Some(0), "{}", run.stdout);
    let run = audit_with(&quiet, WORKLOADS, &["--fail-on", "warn"]);
    assert_eq!(run.code, Some(1), "{}", run.stdout);
}

/// An audit marks violations as new or fixed since an earlier audit; one that moved within its file
/// is neither.
#[test]
fn against_a_baseline() {
    let folder = TempDir::new().expect("a folder");
    let write =
        |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("written");
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_modgate"))
            .args(["audit", "-f", "policies.yaml", "objects.yaml"])
            .args(arguments)
            .current_dir(folder.path())
            .output()
            .expect("run");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        Run { stdout: text(output.stdout), stderr: text(output.stderr), code: output.status.code() }
    };
    write("policies.yaml", POLICIES);
    write("objects.yaml", OBJECTS);
    assert_eq!(run(&["-o", "json=before.json"]).code, Some(1));
    let same = run(&["--baseline", "before.json"]);
    assert!(same.stdout.ends_with("since the baseline: 0 new, 0 fixed\n"), "{}", same.stdout);
    assert!(!same.stdout.contains(" new "), "{}", same.stdout);

    // Two Pods of one name and message: one of them was there before.
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop}\n---\n";
    let later = OBJECTS.replace("labels: {team: a}", "labels: {team: a, owner: me}");
    let later = later.replace("labels: {app: api}", "labels: {app: api, owner: me}");
    write("objects.yaml", &format!("# moved\n{pod}{later}"));
    let compared = run(&["--baseline", "before.json"]);
    assert_data_eq!(
        compared.stdout,
        str![[r#"
ModRule shop/replicas: 1 violation
  patch Deployment shop/api: would change /spec/replicas (objects.yaml:18:1)

RequiredLabels owner: 2 violations, 1 new
  deny Pod shop/web: add the labels {"owner"} (objects.yaml:2:1)
  new deny Pod shop/web: add the labels {"owner"} (objects.yaml:10:1)

RequiredLabels team: 1 violation
  warn Namespace shop: add the labels {"team"} (objects.yaml:6:1)

fixed since the baseline: 1 violation
  Deployment shop/api: [RequiredLabels owner] [Implied by pods] add the labels {"owner"}

5 objects audited, 4 violations: 2 deny, 1 warn, 1 of ModRules and mutators
since the baseline: 1 new, 1 fixed

"#]]
    );
    assert_eq!((compared.stderr.as_str(), compared.code), ("", Some(1)));
    let arguments = ["--baseline", "before.json", "-o", "json", "-o", "html=page.html"];
    let document = Value::from_json(run(&arguments).stdout.as_bytes()).expect("JSON");
    let number = |name| document.path(&["baseline", name]).and_then(Value::as_i64);
    assert_eq!((number("new"), number("fixed")), (Some(1), Some(1)));
    let fixed = document.path(&["baseline", "fixedViolations"]).and_then(|it| it.at(0));
    let kind = fixed.and_then(|it| it.path(&["object", "kind"])).and_then(Value::as_str);
    assert_eq!(kind, Some("Deployment"));
    assert_eq!(document.to_json().matches(r#""new":true"#).count(), 1);
    let page = fs::read_to_string(folder.path().join("page.html")).expect("a page");
    assert!(page.contains(r#""fixedViolations":[{"#));
    let lines = run(&["--baseline", "before.json", "-o", "jsonl"]).stdout;
    assert_eq!(lines.matches(r#""new":true"#).count(), 1, "{lines}");
    assert_eq!(lines.matches(r#""new":false"#).count(), 3, "{lines}");

    run(&["-o", "json=short.json", "--limit", "1"]);
    write("text", "no JSON");
    for (baseline, expected) in [
        ("missing.json", "cannot read `missing.json`"),
        ("text", "`text` is no baseline; `modgate audit -o json=FILE` writes one"),
        ("short.json", "it lists 1 of 2 violations of a group; write it without --limit"),
    ] {
        let refused = run(&["--baseline", baseline]);
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{baseline}");
        assert!(refused.stderr.contains(expected), "{baseline}: {}", refused.stderr);
    }
}
