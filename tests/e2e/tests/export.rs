//! Exports of a whole installation: a Connection, and the violations that its audits and its
//! webhook export.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

use std::{
    fs,
    io::ErrorKind,
    net::TcpListener,
    path::Path,
    time::{Duration, Instant},
};

use modgate_e2e::{Running, eventually, kubectl, namespace, step, succeeds};
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

/// The lines of all files of requests, or of all complete ones of audits.
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
    let texts: Result<Vec<String>, _> = paths.iter().map(fs::read_to_string).collect();
    let texts = match texts {
        Ok(texts) => texts,
        // One was renamed or removed meanwhile.
        Err(error) if error.kind() == ErrorKind::NotFound => return lines(folder, is_of_requests),
        Err(error) => panic!("{error}"),
    };
    let lines = texts.iter().flat_map(|text| text.lines());
    lines.filter_map(|line| Value::from_json(line.as_bytes()).ok()).collect()
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[test]
fn what_is_found_is_exported() {
    let Some(cluster) = Cluster::shared() else { return };
    succeeds(cluster, "create -f -", &modgate_e2e::our_definitions());
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
    eventually("constraints can be created", || kubectl(cluster, "apply -f -", CONSTRAINT).success);
    succeeds(cluster, "create -f -", &server.webhook("export", "/v1/admit"));
    eventually("the webhook denies", || {
        let denied = kubectl(cluster, "create configmap bad-two -n guarded --dry-run=server", "");
        denied.stderr.contains("not here")
    });

    eventually("the webhook's violation is there", || !lines(folder.path(), true).is_empty());
    let line = lines(folder.path(), true).swap_remove(0);
    for (key, expected) in [
        ("eventType", "violation_admission"),
        ("kind", "Forbidden"),
        ("name", "first"),
        ("message", "not here"),
        ("resourceName", "bad-two"),
        ("resourceNamespace", "guarded"),
        ("operation", "CREATE"),
    ] {
        assert_eq!(text(&line, key), expected, "{line}");
    }
    assert_eq!(line.get("dryRun").and_then(Value::as_bool), Some(true));

    let found = |all: &[Value]| -> Option<Value> {
        let is_it = |line: &&Value| {
            text(line, "eventType") == "violation_audited" && text(line, "name") == "first"
        };
        all.iter().find(is_it).cloned()
    };
    step("old files of audits are deleted when there are newer ones");
    let mut all = Vec::new();
    eventually("what the audit found is there", || {
        all = lines(folder.path(), false);
        found(&all).is_some()
    });
    let line = found(&all).expect("it is there");
    assert_eq!(text(&line, "resourceName"), "bad-one", "{line}");
    assert_eq!(
        line.get("constraintAnnotations").map(Value::to_json).as_deref(),
        Some(r#"{"severity":"high"}"#)
    );
    assert_eq!(text(&line, "violationId").len(), 32);
    let run = text(&line, "id");
    let frames: Vec<&str> = all
        .iter()
        .filter(|line| text(line, "id") == run && line.get("eventType").is_none())
        .map(|line| text(line, "message"))
        .collect();
    assert_eq!(frames, ["audit is started", "audit is completed"]);

    connections_report(cluster);
    eventually("there are more audits than are kept", || {
        server.plain_metric("gatekeeper_audit_duration_seconds_count") > 3
    });
    step("the oldest file is deleted once the newest is complete");
    eventually("no more are kept than the Connection allows", || {
        let files = fs::read_dir(folder.path().join("audit-channel")).expect("folder").flatten();
        let kept = files.filter(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            name.ends_with(".log") && !name.starts_with("admission-")
        });
        kept.count() <= 2
    });

    what_waits_is_exported_at_the_end(cluster, server, folder.path());
    a_sidecar_that_does_not_answer_holds_up_nothing(cluster);
}

fn connections_report(cluster: &Cluster) {
    step("the status of the Connection");
    let status = |name: &str| {
        let what =
            format!("get connection {name} -n gatekeeper-system -o jsonpath={{.status.byPod}}");
        succeeds(cluster, &what, "")
    };
    eventually("audit and webhook report that they export", || {
        let reported = status("audit-connection");
        let active = |source: &str| {
            let reported = Value::from_json(reported.as_bytes()).unwrap_or_default();
            let statuses = reported.at(0).and_then(|entry| entry.get("publishStatuses").cloned());
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
    eventually("the other Connection is refused", || status("other").contains(expected));
}

/// Violations of a few requests: fifty of each. Returns whether all were denied for them.
fn deny_noisy(cluster: &Cluster, count: usize) -> bool {
    let names = (0..count).map(|number| format!("noisy-{number}"));
    let maps: String = names
        .map(|name| {
            format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: guarded}}\n")
        })
        .collect();
    let said = kubectl(cluster, "create --dry-run=server -f -", &maps).stderr;
    said.matches("denied the request: [noisy] fault").count() == count
}

/// A process that stops exports what still waits.
fn what_waits_is_exported_at_the_end(cluster: &Cluster, server: Running, folder: &Path) {
    succeeds(cluster, "create -f -", &TEMPLATE.replace("forbidden", "noisy").replace("Forbidden", "Noisy")
        .replace("violation[{\"msg\": \"not here\"}] { startswith(input.review.object.metadata.name, \"bad\") }",
            "violation[{\"msg\": msg}] { startswith(input.review.object.metadata.name, \"noisy\"); msg := sprintf(\"fault %v\", [numbers.range(1, 50)[_]]) }"));
    let policy = CONSTRAINT.replace("Forbidden", "Noisy").replace("first", "noisy");
    eventually("constraints can be created", || kubectl(cluster, "apply -f -", &policy).success);
    let noisy = || {
        let all = lines(folder, true);
        all.iter().filter(|line| text(line, "kind") == "Noisy").count()
    };
    eventually("it is in force", || deny_noisy(cluster, 1));
    let queued = || server.plain_metric("gatekeeper_admission_export_queued_count_total");
    eventually("nothing waits", || lines(folder, true).len() as u64 == queued());
    let before = noisy();
    assert!(before > 0, "it is exported");
    assert!(deny_noisy(cluster, 6));
    let asked = Instant::now();
    server.stop();
    assert!(asked.elapsed() < Duration::from_secs(60), "{:?}", asked.elapsed());
    assert_eq!(noisy() - before, 300, "every violation is there");
    let entries = fs::read_dir(folder.join("audit-channel")).expect("folder").flatten();
    let open = entries.filter(|entry| entry.path().extension().is_some_and(|it| it == "open"));
    assert_eq!(open.count(), 0, "files are complete");
}

/// A sidecar that takes no messages delays the end of the process by some seconds at most.
fn a_sidecar_that_does_not_answer_holds_up_nothing(cluster: &Cluster) {
    let sidecar = TcpListener::bind("127.0.0.1:0").expect("port");
    let url = format!("http://{}", sidecar.local_addr().expect("address"));
    let connection = "apiVersion: connection.gatekeeper.sh/v1alpha1\nkind: Connection\n\
                      metadata: {name: audit-connection, namespace: gatekeeper-system}\n\
                      spec: {driver: dapr, config: {component: pubsub}}\n";
    succeeds(cluster, "delete connection audit-connection -n gatekeeper-system", "");
    succeeds(cluster, "create -f -", connection);
    let server = Running::configured(cluster, |config| {
        config.audit.interval = Duration::ZERO;
        config.export.admission = true;
        config.export.sidecar = url;
    });
    eventually("the process is ready", || server.metric("gatekeeper_constraints", "") > 0);
    succeeds(cluster, "apply -f -", &server.webhook("export", "/v1/admit"));
    let queued = || server.plain_metric("gatekeeper_admission_export_queued_count_total");
    eventually("requests are exported", || deny_noisy(cluster, 1) && queued() > 0);
    assert!(deny_noisy(cluster, 6));
    let asked = Instant::now();
    server.stop();
    let took = asked.elapsed();
    assert!((Duration::from_secs(3)..Duration::from_secs(60)).contains(&took), "{took:?}");
    drop(sidecar);
}
