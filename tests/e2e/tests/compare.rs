//! `modgate compare` beside a real API server: over its audit log, its policies and its objects.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, and their output says why"
)]

use std::{fs, path::Path, process::Command};

use modgate_e2e::{Running, definition, kubectl, namespace, succeeds};
use modgate_testkit::cluster::{Cluster, Options};
use modgate_value::Value;

const AUDIT: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: RequestResponse
  namespaces: [logged]
  resources: [{group: '', resources: [configmaps, secrets]}]
- level: None
";

const POLICIES: &str = r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: k8sforbidden}
spec:
  crd: {spec: {names: {kind: K8sForbidden}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package forbidden
      violation[{"msg": msg}] {
        startswith(input.review.object.data.value, "bad")
        msg := sprintf("%v is forbidden in %v", [input.review.object.data.value, input.review.operation])
      }
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: K8sForbidden
metadata: {name: values}
spec: {match: {kinds: [{apiGroups: [''], kinds: [ConfigMap]}]}}
"#;

fn compare(folder: &Path, arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_modgate-e2e"))
        .args(["compare", "-o", "json"])
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("modgate");
    let errors = String::from_utf8_lossy(&output.stderr);
    Value::from_json(&output.stdout).unwrap_or_else(|_| panic!("{errors}"))
}

fn number(report: &Value, path: &[&str]) -> i64 {
    report.path(path).and_then(Value::as_i64).expect("a number")
}

fn config_map(name: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: logged}}\n\
         data: {{value: {value}}}\n"
    )
}

#[test]
fn an_audit_log_is_replayed_to_its_own_answers() {
    let folder = tempfile::tempdir().expect("folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    fs::write(file("audit.yaml"), AUDIT).expect("written");
    fs::create_dir(file("policies")).expect("a folder");
    fs::write(file("policies/policies.yaml"), POLICIES).expect("written");
    let flags = vec![
        format!("--audit-policy-file={}", file("audit.yaml")),
        format!("--audit-log-path={}", file("audit.log")),
    ];
    let Some(cluster) = Cluster::start(&Options { flags }).expect("a cluster") else { return };
    namespace(&cluster, "logged", "logged");
    let server = Running::of_files(&folder.path().join("policies"));
    let webhook = server.webhook("logged", "/v1/admit");
    let webhook = webhook.replace("operations: [CREATE]", "operations: [CREATE, UPDATE]");
    succeeds(&cluster, "create -f -", &webhook);
    modgate_e2e::until("the webhook is called", || {
        let outcome = kubectl(&cluster, "create -f -", &config_map("first", "bad"));
        if outcome.success {
            succeeds(&cluster, "delete configmap first -n logged", "");
        }
        if outcome.success { Err("it is not yet".to_owned()) } else { Ok(()) }
    });
    // From here on, the log has what the webhook answered.
    let begin = fs::read_to_string(file("audit.log")).expect("a log").len();
    for number in 0..10 {
        let name = format!("map-{number}");
        succeeds(&cluster, "create -f -", &config_map(&name, "good"));
        succeeds(&cluster, "replace -f -", &config_map(&name, "better"));
        let denied = kubectl(&cluster, "replace -f -", &config_map(&name, "bad"));
        assert!(
            !denied.success && denied.stderr.contains("bad is forbidden in UPDATE"),
            "{denied:?}"
        );
        let denied = kubectl(&cluster, "create -f -", &config_map(&format!("x-{name}"), "bad"));
        assert!(!denied.success, "{denied:?}");
        succeeds(
            &cluster,
            &format!("patch configmap {name} -n logged -p {{\"data\":{{\"more\":\"1\"}}}}"),
            "",
        );
        succeeds(&cluster, &format!("delete configmap {name} -n logged"), "");
    }
    let log = fs::read_to_string(file("audit.log")).expect("a log");
    fs::write(file("replayed.log"), log.get(begin..).expect("whole lines")).expect("written");
    let report = compare(folder.path(), &["policies", "policies", "replayed.log"]);
    assert!(number(&report, &["answers", "known"]) >= 50, "{report}");
    assert_eq!(
        number(&report, &["answers", "known"]),
        number(&report, &["answers", "same"]),
        "{report}"
    );
    assert_eq!(number(&report, &["requests"]), number(&report, &["same"]), "{report}");

    // The policies and the objects of a cluster.
    let rules = definition("api.kubemod.io", "ModRule", "modrules", "Namespaced", "v1beta1");
    succeeds(&cluster, "create -f -", &rules);
    succeeds(&cluster, "wait --for=condition=Established crd/modrules.api.kubemod.io", "");
    let rule = |message: &str| {
        format!(
            "apiVersion: api.kubemod.io/v1beta1\nkind: ModRule\nmetadata: {{name: refuse, namespace: logged}}\n\
             spec:\n  type: Reject\n  rejectMessage: '{message}'\n  \
             match: [{{select: '$.kind', matchValue: ConfigMap}}]\n"
        )
    };
    succeeds(&cluster, "create -f -", &rule("as it is"));
    succeeds(&cluster, "create -f -", &config_map("kept", "good"));
    fs::create_dir(file("candidate")).expect("a folder");
    fs::write(file("candidate/rule.yaml"), rule("as it would be")).expect("written");
    let kubeconfig = cluster.kubeconfig().display().to_string();
    let arguments = ["cluster:", "candidate", "--cluster", "--kubeconfig", &kubeconfig];
    let report = compare(folder.path(), &arguments);
    assert!(number(&report, &["differences", "messages"]) >= 1, "{report}");
    assert_eq!(number(&report, &["differences", "deny-to-allow"]), 0, "{report}");
    let report =
        compare(folder.path(), &["cluster:", "cluster:", "--cluster", "--kubeconfig", &kubeconfig]);
    assert_eq!(number(&report, &["requests"]), number(&report, &["same"]), "{report}");
}
