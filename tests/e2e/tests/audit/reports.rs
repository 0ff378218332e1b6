//! Policy reports and the file of violations, of a real cluster.

use std::{collections::BTreeSet, fmt::Write as _, fs, time::Duration};

use modgate_cluster::{PolicyReportConfig, PolicyReportFormat};
use modgate_e2e::{eventually, kubectl, step, succeeds};
use modgate_export::ViolationsFileConfig;
use modgate_testkit::cluster::Cluster;
use modgate_value::Value;

use super::{KIND, another_audit, auditing, constraint, found, text};

/// As much of the kinds as reports have of them.
fn definitions() -> String {
    let mut out = String::new();
    for (group, version, kind, scope, source) in [
        ("wgpolicyk8s.io", "v1alpha2", "PolicyReport", "Namespaced", ""),
        ("wgpolicyk8s.io", "v1alpha2", "ClusterPolicyReport", "Cluster", ""),
        ("openreports.io", "v1alpha1", "Report", "Namespaced", "source: {type: string}, "),
        ("openreports.io", "v1alpha1", "ClusterReport", "Cluster", "source: {type: string}, "),
    ] {
        let lower = kind.to_lowercase();
        let reference = "{type: object, properties: {apiVersion: {type: string}, kind: {type: string}, \
             namespace: {type: string}, name: {type: string}, uid: {type: string}}}";
        let outcome = "{type: string, enum: [pass, fail, warn, error, skip]}";
        let _ = write!(
            out,
            "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
             metadata: {{name: {lower}s.{group}}}\nspec:\n  group: {group}\n  scope: {scope}\n  \
             names: {{kind: {kind}, plural: {lower}s, singular: {lower}}}\n  versions:\n  \
             - name: {version}\n    served: true\n    storage: true\n    schema:\n      \
             openAPIV3Schema:\n        type: object\n        properties: {{{source}\
             scope: {reference}, summary: {{type: object, properties: {{fail: {{type: integer}}, \
             warn: {{type: integer}}}}}}, results: {{type: array, items: {{type: object, \
             required: [policy], properties: {{source: {{type: string}}, policy: {{type: string}}, \
             rule: {{type: string}}, result: {outcome}, scored: {{type: boolean}}, \
             message: {{type: string}}, resources: {{type: array, items: {reference}}}, \
             properties: {{type: object, additionalProperties: {{type: string}}}}}}}}}}}}\n"
        );
    }
    out
}

fn get(cluster: &Cluster, what: &str) -> Option<Value> {
    let outcome = kubectl(cluster, &format!("get {what} -o json"), "");
    outcome.success.then(|| Value::from_json(outcome.stdout.as_bytes()).expect("JSON"))
}

fn report(cluster: &Cluster, kind: &str, namespace: &str) -> Option<Value> {
    get(cluster, &format!("{kind} modgate-audit -n {namespace}"))
}

fn summary(report: &Value) -> String {
    report.get("summary").map(Value::to_json).unwrap_or_default()
}

fn results(report: &Value) -> Vec<Value> {
    report.get("results").and_then(Value::as_array).expect("results").to_vec()
}

/// Names of the objects that a report lists.
fn listed(report: &Value) -> Vec<String> {
    let object = |result: &Value| result.get("resources")?.at(0).cloned();
    results(report)
        .iter()
        .map(|result| text(&object(result).expect("an object"), "name").to_owned())
        .collect()
}

fn annotation(report: &Value, key: &str) -> String {
    let found = report.path(&["metadata", "annotations", key]);
    found.and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn version(report: &Value) -> String {
    let found = report.path(&["metadata", "resourceVersion"]);
    found.and_then(Value::as_str).unwrap_or_default().to_owned()
}

const WG: &str = "policyreports.wgpolicyk8s.io";
const OPEN: &str = "reports.openreports.io";

/// Creates objects in three namespaces, and constraints that they violate.
fn create_violations(cluster: &Cluster) {
    succeeds(cluster, &format!("delete {KIND} --all"), "");
    for (namespace, count) in [("r-a", 2), ("r-b", 12), ("r-c", 1)] {
        succeeds(cluster, &format!("create namespace {namespace}"), "");
        // Of no interest to other scenarios.
        succeeds(cluster, &format!("label namespace {namespace} gatekeeper=1"), "");
        let mut all = String::new();
        for number in 0..count {
            let _ = write!(
                all,
                "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{number:02}, namespace: {namespace}}}\n"
            );
        }
        succeeds(cluster, "create -f -", &all);
    }
    succeeds(cluster, "create secret generic hidden -n r-a --from-literal=password=s3cret", "");
    let only = "namespaces: [r-a, r-b, r-c], name: 'c*'";
    let of_maps = constraint("of-maps", "ConfigMap", "owner", "").replacen(
        "match: {kinds: [{apiGroups: [''], kinds: [ConfigMap]}]}",
        &format!("match: {{kinds: [{{apiGroups: [''], kinds: [ConfigMap]}}], {only}}}"),
        1,
    );
    let of_secrets = constraint("of-secrets", "Secret", "s3cret", "  enforcementAction: warn\n");
    let of_secrets =
        of_secrets.replacen("kinds: [Secret]}]", "kinds: [Secret]}], namespaces: [r-a]", 1);
    let of_namespaces = constraint("of-namespaces", "Namespace", "team", "").replacen(
        "kinds: [Namespace]}]",
        "kinds: [Namespace]}], name: 'r-*'",
        1,
    );
    succeeds(cluster, "apply -f -", &(of_maps + &of_secrets + &of_namespaces));
}

/// Policy reports are written, are bounded, and are deleted when they are stale.
pub(super) fn policy_reports_and_file(cluster: &Cluster) {
    create_violations(cluster);
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("violations.jsonl");
    let reports = |format| PolicyReportConfig { format, results: 5, reports: 2 };
    // Reports are written one after another, and given up once those of the next audit are.
    let interval = Duration::from_secs(1);
    let server = auditing(cluster, |config| {
        config.audit.interval = interval;
        config.audit.policy_reports = Some(reports(PolicyReportFormat::WgPolicy));
        let path = file.clone();
        config.audit.violations_file = Some(ViolationsFileConfig { path, max_bytes: 1 << 20 });
    });
    step("the kinds of policy reports are absent");
    found(cluster, "of-maps", 15);
    another_audit(cluster, "of-maps");
    the_file(&file);

    succeeds(cluster, "apply -f -", &definitions());
    eventually("there are reports", || {
        report(cluster, WG, "r-a").is_some() && report(cluster, WG, "r-b").is_some()
    });
    let of_b = report(cluster, WG, "r-b").expect("a report");
    assert_eq!(summary(&of_b), r#"{"fail":12,"warn":0}"#);
    assert_eq!(listed(&of_b), ["c00", "c01", "c02", "c03", "c04"]);
    assert_eq!(annotation(&of_b, "modgate/results-left-out"), "7");
    let of_a = report(cluster, WG, "r-a").expect("a report");
    assert_eq!(summary(&of_a), r#"{"fail":2,"warn":1}"#);
    let shown = of_a.to_json();
    assert!(shown.contains("not shown for a Secret") && !shown.contains("s3cret"), "{shown}");
    let first = &results(&of_a)[0];
    for (key, expected) in [
        ("policy", "FooSystemRequiredLabels"),
        ("rule", "of-maps"),
        ("result", "fail"),
        ("source", "modgate"),
        ("message", r#"you must provide labels: {"owner"}"#),
    ] {
        assert_eq!(text(first, key), expected, "{first}");
    }
    eventually("there is one about the cluster", || {
        get(cluster, "clusterpolicyreport modgate-audit").is_some()
    });
    let of_cluster = get(cluster, "clusterpolicyreport modgate-audit").expect("a report");
    assert_eq!(listed(&of_cluster), ["r-a", "r-b", "r-c"]);
    assert!(report(cluster, WG, "r-c").is_none(), "no more than asked for");

    step("audits with the same result write nothing");
    let versions = || ["r-a", "r-b"].map(|of| version(&report(cluster, WG, of).expect("a report")));
    let before = versions();
    another_audit(cluster, "of-maps");
    another_audit(cluster, "of-maps");
    assert_eq!(versions(), before);

    step("violations are gone, and with them the report; another program's report stays");
    let theirs = "apiVersion: wgpolicyk8s.io/v1alpha2\nkind: PolicyReport\n\
                  metadata: {name: theirs, namespace: r-b}\n";
    succeeds(cluster, "create -f -", theirs);
    succeeds(cluster, "label configmap -n r-b --all owner=me", "");
    eventually("the report is gone, and there is room for another", || {
        report(cluster, WG, "r-b").is_none() && report(cluster, WG, "r-c").is_some()
    });
    assert!(get(cluster, &format!("{WG} theirs -n r-b")).is_some());
    server.stop();

    step("the other format replaces the first");
    let server = auditing(cluster, |config| {
        config.audit.interval = interval;
        config.audit.policy_reports = Some(reports(PolicyReportFormat::OpenReports));
    });
    eventually("reports of OpenReports are written, those of the other format are gone", || {
        report(cluster, OPEN, "r-a").is_some() && report(cluster, WG, "r-a").is_none()
    });
    let of_a = report(cluster, OPEN, "r-a").expect("a report");
    assert_eq!(
        (text(&of_a, "source"), summary(&of_a).as_str()),
        ("modgate", r#"{"fail":2,"warn":1}"#)
    );
    assert!(get(cluster, &format!("{WG} theirs -n r-b")).is_some());
    server.stop();
    succeeds(cluster, &format!("delete {KIND} --all"), "");
}

/// The last complete audit, however often it is read while others follow.
fn the_file(path: &std::path::Path) {
    let mut runs = BTreeSet::new();
    eventually("there are several audits", || {
        let text = fs::read_to_string(path).expect("there is a file");
        let lines: Vec<Value> =
            text.lines().map(|line| Value::from_json(line.as_bytes()).expect(line)).collect();
        let (last, violations) = lines.split_last().expect("a last line");
        let count = i64::try_from(violations.len()).expect("few");
        assert_eq!(last.get("violations").and_then(Value::as_i64), Some(count), "{last}");
        assert_eq!(last.get("leftOut").and_then(Value::as_i64), Some(0), "{last}");
        let run = last.get("id").and_then(Value::as_str).expect("a name");
        let ids: BTreeSet<_> = violations
            .iter()
            .inspect(|line| assert_eq!(line.get("id").and_then(Value::as_str), Some(run)))
            .map(|line| line.get("violationId").expect("an id").to_json())
            .collect();
        assert_eq!((ids.len(), ids.len()), (violations.len(), 19), "{text}");
        assert!(!text.contains("s3cret"), "{text}");
        runs.insert(run.to_owned());
        runs.len() == 3
    });
}
