//! Exports of a whole installation: a Connection, what its audits and its webhook find, and what is
//! told of it.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;

use std::{fs, path::Path, time::Duration};

use common::{Running, eventually, kubectl, namespace, succeeds};
use modgate_engine::api::crds;
use modgate_testkit::cluster::Cluster;
use modgate_value::Value;

const TEMPLATE: &str = r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: forbidden}
spec:
  crd: {spec: {names: {kind: Forbidden}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package p
      violation[{"msg": "not here"}] { startswith(input.review.object.metadata.name, "bad") }
"#;

const CONSTRAINT: &str = "
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: Forbidden
metadata: {name: first, annotations: {severity: high}}
spec: {match: {kinds: [{apiGroups: [''], kinds: [ConfigMap]}]}}
";

fn connection(name: &str, path: &Path) -> String {
    format!(
        "apiVersion: connection.gatekeeper.sh/v1alpha1\nkind: Connection\n\
         metadata: {{name: {name}, namespace: gatekeeper-system}}\n\
         spec: {{driver: disk, config: {{path: {}, maxAuditResults: 2}}}}\n",
        path.display()
    )
}

/// The lines of all files whose names begin so.
fn lines(folder: &Path, is_of_requests: bool) -> Vec<Value> {
    let mut paths: Vec<_> = fs::read_dir(folder.join("audit-channel"))
        .into_iter()
        .flatten()
        .map(|entry| entry.expect("entry").path())
        .filter(|path| {
            let name = path.file_name().expect("name").to_string_lossy();
            name.starts_with("admission-") == is_of_requests
                && (is_of_requests || name.ends_with(".log"))
        })
        .collect();
    paths.sort();
    let texts = paths.iter().map(|path| fs::read_to_string(path).unwrap_or_default());
    let texts: Vec<String> = texts.collect();
    let lines = texts.iter().flat_map(|text| text.lines());
    lines.filter_map(|line| Value::from_json(line.as_bytes()).ok()).collect()
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[test]
fn what_is_found_is_exported() {
    let Some(cluster) = Cluster::shared() else { return };
    let definitions: Vec<String> =
        crds::all().expect("CRDs").iter().map(|definition| definition.to_json()).collect();
    succeeds(cluster, "create -f -", &definitions.join("\n---\n"));
    succeeds(cluster, "wait --for=condition=Established crd --all", "");
    namespace(cluster, "gatekeeper-system", "none");
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: modgate-0, namespace: gatekeeper-system}\n\
               spec: {automountServiceAccountToken: false, containers: [{name: a, image: none}]}\n";
    succeeds(cluster, "create -f -", pod);
    namespace(cluster, "guarded", "export");
    succeeds(cluster, "create configmap bad-one -n guarded", "");
    let folder = tempfile::tempdir().expect("folder");
    succeeds(cluster, "create -f -", &connection("audit-connection", folder.path()));
    succeeds(cluster, "create -f -", &connection("other", folder.path()));

    let server = Running::configured(cluster, |config| {
        config.pod = Some("modgate-0".into());
        config.audit.interval = Duration::from_secs(1);
        config.export.audit = true;
        config.export.admission = true;
    });
    succeeds(cluster, "create -f -", TEMPLATE);
    eventually("constraints are taken", || kubectl(cluster, "apply -f -", CONSTRAINT).success);
    succeeds(cluster, "create -f -", &server.webhook("export", "/v1/admit"));
    eventually("the webhook denies", || {
        !kubectl(cluster, "create configmap bad-two -n guarded --dry-run=server", "").success
    });

    eventually("the webhook's violation is there", || !lines(folder.path(), true).is_empty());
    let told = lines(folder.path(), true).swap_remove(0);
    for (key, expected) in [
        ("eventType", "violation_admission"),
        ("kind", "Forbidden"),
        ("name", "first"),
        ("message", "not here"),
        ("resourceName", "bad-two"),
        ("resourceNamespace", "guarded"),
        ("operation", "CREATE"),
    ] {
        assert_eq!(text(&told, key), expected, "{told}");
    }
    assert_eq!(told.get("dryRun").and_then(Value::as_bool), Some(true));

    let found = || -> Vec<Value> {
        let all = lines(folder.path(), false);
        let is_it = |line: &Value| {
            text(line, "eventType") == "violation_audited" && text(line, "name") == "first"
        };
        all.into_iter().filter(is_it).collect()
    };
    eventually("what the audit found is there", || !found().is_empty());
    let told = found().swap_remove(0);
    assert_eq!(text(&told, "resourceName"), "bad-one", "{told}");
    assert_eq!(
        told.get("constraintAnnotations").map(Value::to_json).as_deref(),
        Some(r#"{"severity":"high"}"#)
    );
    assert_eq!(text(&told, "violationId").len(), 32);
    let all = lines(folder.path(), false);
    let run = text(&told, "id");
    let frames: Vec<&str> = all
        .iter()
        .filter(|line| text(line, "id") == run && line.get("eventType").is_none())
        .map(|line| text(line, "message"))
        .collect();
    assert_eq!(frames, ["audit is started", "audit is completed"]);

    // What is told of it.
    let status = |name: &str| {
        let what =
            format!("get connection {name} -n gatekeeper-system -o jsonpath={{.status.byPod}}");
        succeeds(cluster, &what, "")
    };
    eventually("both say that they export", || {
        let told = status("audit-connection");
        let active = |source: &str| {
            let told = Value::from_json(told.as_bytes()).unwrap_or_default();
            let statuses = told.at(0).and_then(|entry| entry.get("publishStatuses").cloned());
            let statuses = statuses.unwrap_or_default();
            let statuses = statuses.as_array().map(|list| list.iter().cloned().collect::<Vec<_>>());
            statuses.unwrap_or_default().iter().any(|status| {
                text(status, "source") == source
                    && status.get("active").and_then(Value::as_bool) == Some(true)
                    && status.get("lastSuccessTime").is_some()
            })
        };
        active("audit") && active("webhook")
    });
    let expected = "error unsupported connection name other. Connection name should align with flag \
                    --audit-connection set or defaulted to 'audit-connection'";
    eventually("the other is refused", || status("other").contains(expected));
    let files = fs::read_dir(folder.path().join("audit-channel")).expect("folder").flatten();
    let kept = files.filter(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name.ends_with(".log") && !name.starts_with("admission-")
    });
    assert!(kept.count() <= 2, "no more than asked for");
}
