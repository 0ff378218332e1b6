//! Policy reports: what the last audit found, in objects that dashboards read
//! (`wgpolicyk8s.io/v1alpha2`, `openreports.io/v1alpha1`).
//!
//! There is one report for each namespace with violations, and one for cluster-scoped objects.
//!
//! # Limits
//!
//! A report lists the first [`PolicyReportConfig::results`] of its violations, in an order that is the
//! same each time; its summary counts all of them. Namespaces beyond the first
//! [`PolicyReportConfig::reports`], by name, have none. Messages are cut as in statuses, and details are
//! left out. A report is written when what it says is not what is there, so that audits which find the
//! same write nothing; it says nothing of when it was made.

mod write;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
};

use kube::api::ApiResource;
use modgate_audit::{MUTATE, ObjectRef, PATCH, PolicyRef, SCOPED, Sink, Violation};
use modgate_engine::api::{constraints::EnforcementAction, secrets::NOT_SHOWN};
use modgate_value::Str;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

pub(super) use self::write::Reporting;

/// Which reports are written, and how many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyReportConfig {
    /// Their kinds.
    pub format: PolicyReportFormat,
    /// Violations listed in one report.
    pub results: usize,
    /// Namespaces with a report.
    pub reports: usize,
}

/// The kinds of policy reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyReportFormat {
    /// PolicyReport and ClusterPolicyReport of `wgpolicyk8s.io/v1alpha2`.
    WgPolicy,
    /// Report and ClusterReport of `openreports.io/v1alpha1`.
    OpenReports,
}

impl PolicyReportFormat {
    const ALL: [Self; 2] = [Self::WgPolicy, Self::OpenReports];

    fn namespaced(self) -> ApiResource {
        match self {
            Self::WgPolicy => resource("wgpolicyk8s.io", "v1alpha2", "PolicyReport"),
            Self::OpenReports => resource("openreports.io", "v1alpha1", "Report"),
        }
    }

    fn of_cluster(self) -> ApiResource {
        match self {
            Self::WgPolicy => resource("wgpolicyk8s.io", "v1alpha2", "ClusterPolicyReport"),
            Self::OpenReports => resource("openreports.io", "v1alpha1", "ClusterReport"),
        }
    }
}

fn resource(group: &str, version: &str, kind: &str) -> ApiResource {
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: format!("{group}/{version}"),
        kind: kind.to_owned(),
        plural: format!("{}s", kind.to_lowercase()),
    }
}

/// The name of a report.
const NAME: &str = "modgate-audit";
/// Labels of our reports; all that have them are ours.
const LABELS: [(&str, &str); 2] =
    [("app.kubernetes.io/managed-by", "modgate"), ("app.kubernetes.io/component", "audit")];
/// The annotation with a hash of the report.
const HASH: &str = "modgate/content-hash";
/// The annotation that says how many violations are counted but not listed.
const LEFT_OUT: &str = "modgate/results-left-out";
/// The source of a result.
const SOURCE: &str = "modgate";

/// Gathers what reports will say, no more than they will list.
pub(super) struct Collector {
    config: PolicyReportConfig,
    found: Mutex<Drafts>,
}

#[derive(Default)]
struct Drafts {
    /// By namespace; the empty one is that of cluster-scoped objects.
    drafts: BTreeMap<Str, Draft>,
    /// Namespaces without a report.
    left_out: BTreeSet<Str>,
}

/// A report in the making.
#[derive(Default)]
struct Draft {
    fail: u64,
    warn: u64,
    /// Sorted.
    first: Vec<Violation>,
}

/// A report as it is to be.
#[derive(Debug, PartialEq)]
pub(super) struct PolicyReport {
    /// Empty for the one about cluster-scoped objects.
    namespace: Str,
    hash: String,
    body: Value,
}

impl Collector {
    pub(super) fn new(config: PolicyReportConfig) -> Self {
        Self { config, found: Mutex::default() }
    }

    /// The kinds of its reports.
    pub(super) fn format(&self) -> PolicyReportFormat {
        self.config.format
    }

    /// Findings since the last time, and how many namespaces have no report although they
    /// should.
    pub(super) fn take(&self) -> (Vec<PolicyReport>, usize) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let Drafts { drafts, left_out } = std::mem::take(&mut *found);
        let format = self.config.format;
        let reports = drafts.into_iter().map(|(namespace, draft)| draft.report(namespace, format));
        (reports.collect(), left_out.len())
    }
}

impl Drafts {
    /// The draft of a namespace; none if there are as many as there may be. The first by name stay.
    fn draft(&mut self, namespace: &Str, most: usize) -> Option<&mut Draft> {
        if !namespace.is_empty() && !self.drafts.contains_key(namespace) {
            let of_cluster = usize::from(self.drafts.contains_key(""));
            if self.drafts.len() - of_cluster >= most {
                match self.drafts.last_key_value() {
                    Some((last, _)) if !last.is_empty() && namespace < last => {
                        let gone = self.drafts.pop_last();
                        self.left_out.extend(gone.map(|(namespace, _)| namespace));
                    }
                    _ => {
                        self.left_out.insert(namespace.clone());
                        return None;
                    }
                }
            }
        }
        Some(self.drafts.entry(namespace.clone()).or_default())
    }
}

impl Sink for Collector {
    fn started(&self, _: &str) {
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Drafts::default();
    }

    fn violation(&self, _: &str, violation: &Violation) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let namespace = &violation.subject.namespace;
        if let Some(draft) = found.draft(namespace, self.config.reports) {
            draft.add(violation, self.config.results);
        }
    }
}

impl Draft {
    fn add(&mut self, violation: &Violation, most: usize) {
        let count = if is_scored(violation) { &mut self.fail } else { &mut self.warn };
        *count += 1;
        if self.first.len() >= most {
            if self.first.last().is_none_or(|last| place(last) <= place(violation)) {
                return;
            }
            self.first.pop();
        }
        let at = self.first.partition_point(|known| place(known) <= place(violation));
        self.first.insert(at, violation.clone());
    }

    fn report(self, namespace: Str, format: PolicyReportFormat) -> PolicyReport {
        let Self { fail, warn, first } = self;
        let left_out = (fail + warn).saturating_sub(first.len() as u64);
        let kind = if namespace.is_empty() { format.of_cluster() } else { format.namespaced() };
        let mut body = json!({
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "summary": {"fail": fail, "warn": warn},
            "results": first.iter().map(result).collect::<Vec<_>>(),
        });
        if format == PolicyReportFormat::OpenReports {
            put(&mut body, "source", SOURCE.into());
        }
        if !namespace.is_empty() {
            let scope =
                json!({"apiVersion": "v1", "kind": "Namespace", "name": namespace.as_str()});
            put(&mut body, "scope", scope);
        }
        let hash = hash(&body);
        let labels: BTreeMap<_, _> = LABELS.into();
        let mut metadata = json!({
            "name": NAME,
            "labels": labels,
            "annotations": {HASH: hash, LEFT_OUT: left_out.to_string()},
        });
        if !namespace.is_empty() {
            put(&mut metadata, "namespace", namespace.as_str().into());
        }
        put(&mut body, "metadata", metadata);
        PolicyReport { namespace, hash, body }
    }
}

fn put(object: &mut Value, key: &str, value: Value) {
    if let Some(members) = object.as_object_mut() {
        members.insert(key.to_owned(), value);
    }
}

fn hash(body: &Value) -> String {
    let digest = Sha256::digest(body.to_string());
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// The order of results.
fn place(violation: &Violation) -> impl Ord + '_ {
    let Violation { policy, subject, action, message, ordinal, .. } = violation;
    let object = (&subject.kind.group, &subject.kind.kind, &subject.name, &subject.kind.version);
    (object, (&policy.kind.kind, &policy.namespace, &policy.name), ordinal, message, action)
}

/// Whether a violation counts as failed: requests like it are refused.
fn is_scored(violation: &Violation) -> bool {
    match violation.action.as_str() {
        SCOPED => violation.actions.contains(&EnforcementAction::Deny),
        "warn" | "dryrun" | PATCH | MUTATE => false,
        _ => true,
    }
}

fn result(violation: &Violation) -> Value {
    let (policy, subject) = (&violation.policy, &violation.subject);
    let is_scored = is_scored(violation);
    let message = if subject.kind.is_secret() { NOT_SHOWN } else { violation.message.as_str() };
    json!({
        "source": SOURCE,
        "policy": policy.kind.kind.as_str(),
        "rule": rule(policy),
        "result": if is_scored { "fail" } else { "warn" },
        "scored": is_scored,
        "message": message,
        "resources": [reference(subject)],
        "properties": {"enforcementAction": violation.action.as_str()},
    })
}

fn rule(policy: &PolicyRef) -> String {
    match policy.namespace.as_str() {
        "" => policy.name.to_string(),
        namespace => format!("{namespace}/{}", policy.name),
    }
}

fn reference(subject: &ObjectRef) -> Value {
    let ObjectRef { kind, namespace, name, uid, .. } = subject;
    let api_version = match kind.group.as_str() {
        "" => kind.version.to_string(),
        group => format!("{group}/{}", kind.version),
    };
    let mut reference =
        json!({"apiVersion": api_version, "kind": kind.kind.as_str(), "name": name.as_str()});
    for (key, value) in [("namespace", namespace), ("uid", uid)] {
        if !value.is_empty() {
            put(&mut reference, key, value.as_str().into());
        }
    }
    reference
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn violation(object: &str, action: &str, message: &str) -> Violation {
        let value = |json: &str| modgate_value::Value::from_json(json.as_bytes()).expect("JSON");
        let (namespace, name) = object.split_once('/').unwrap_or(("", object));
        let policy = value(
            r#"{"apiVersion": "constraints.gatekeeper.sh/v1beta1", "kind": "K", "metadata": {"name": "c"}}"#,
        );
        let kind = if name.starts_with("secret") { "Secret" } else { "Pod" };
        let object = value(&format!(
            r#"{{"apiVersion": "v1", "kind": "{kind}",
            "metadata": {{"name": "{name}", "namespace": "{namespace}", "uid": "u"}}}}"#
        ));
        Violation {
            policy: Arc::new(PolicyRef::of_policy(&policy)),
            subject: Arc::new(ObjectRef::of_object(&object)),
            action: action.into(),
            actions: vec![EnforcementAction::Deny],
            message: message.into(),
            details: modgate_value::Value::Null,
            ordinal: 0,
        }
    }

    fn collected(
        format: PolicyReportFormat,
        results: usize,
        reports: usize,
        violations: &[Violation],
    ) -> (Vec<PolicyReport>, usize) {
        let collector = Collector::new(PolicyReportConfig { format, results, reports });
        collector.started("run");
        violations.iter().for_each(|violation| collector.violation("run", violation));
        collector.take()
    }

    fn names(report: &PolicyReport) -> Vec<&str> {
        let results = report.body["results"].as_array().expect("results").iter();
        results.filter_map(|result| result["resources"][0]["name"].as_str()).collect()
    }

    #[test]
    fn reports_are_bounded_and_their_summaries_true() {
        let all: Vec<_> = (0..30)
            .flat_map(|number| {
                let object = format!("n/p{:02}", (number * 7) % 30);
                [violation(&object, "deny", "m"), violation(&object, "dryrun", "m")]
            })
            .chain([violation("node", "warn", "m")])
            .collect();
        let (reports, left_out) = collected(PolicyReportFormat::WgPolicy, 4, 10, &all);
        let [of_cluster, of_namespace] = reports.as_slice() else { panic!("{reports:?}") };
        assert_eq!(left_out, 0);
        assert_eq!(names(of_namespace), ["p00", "p00", "p01", "p01"]);
        assert_eq!(of_namespace.body["summary"], json!({"fail": 30, "warn": 30}));
        assert_eq!(of_namespace.body["metadata"]["annotations"][LEFT_OUT], "56");
        assert_eq!(of_namespace.body["scope"]["name"], "n");
        assert_eq!(of_namespace.body["kind"], "PolicyReport");
        assert_eq!(of_cluster.body["summary"], json!({"fail": 0, "warn": 1}));
        assert_eq!(of_cluster.body["kind"], "ClusterPolicyReport");
        assert_eq!(of_cluster.body["metadata"].get("namespace"), None);
        // In whatever order they come.
        let reversed: Vec<_> = all.into_iter().rev().collect();
        assert_eq!(collected(PolicyReportFormat::WgPolicy, 4, 10, &reversed).0, reports);
    }

    #[test]
    fn no_more_reports_than_asked_for() {
        let all: Vec<_> = ["d", "b", "node", "e", "a", "c", "e", "d"]
            .iter()
            .map(|namespace| match *namespace {
                "node" => violation("node", "deny", "m"),
                namespace => violation(&format!("{namespace}/p"), "deny", "m"),
            })
            .collect();
        let (reports, left_out) = collected(PolicyReportFormat::OpenReports, 4, 2, &all);
        let namespaces: Vec<_> = reports.iter().map(|report| report.namespace.as_str()).collect();
        assert_eq!((namespaces.as_slice(), left_out), (["", "a", "b"].as_slice(), 3));
        assert_eq!(reports[1].body["kind"], "Report");
        assert_eq!(reports[1].body["source"], "modgate");
        let (reports, left_out) = collected(PolicyReportFormat::OpenReports, 4, 0, &all);
        assert_eq!((reports.len(), left_out), (1, 5), "that of the cluster is not counted");
    }

    #[test]
    fn what_a_result_says() {
        let found = [violation("n/p", "deny", "m"), violation("n/secret", "warn", "s3cret")];
        let (reports, _) = collected(PolicyReportFormat::WgPolicy, 4, 4, &found);
        let expected = json!([
            {
                "source": "modgate", "policy": "K", "rule": "c", "result": "fail", "scored": true,
                "message": "m", "properties": {"enforcementAction": "deny"},
                "resources": [{"apiVersion": "v1", "kind": "Pod", "namespace": "n", "name": "p",
                    "uid": "u"}],
            },
            {
                "source": "modgate", "policy": "K", "rule": "c", "result": "warn", "scored": false,
                "message": "not shown for a Secret", "properties": {"enforcementAction": "warn"},
                "resources": [{"apiVersion": "v1", "kind": "Secret", "namespace": "n",
                    "name": "secret", "uid": "u"}],
            },
        ]);
        assert_eq!(reports[0].body["results"], expected);
        let hash = |message: &str| {
            let found = [violation("n/p", "deny", message)];
            collected(PolicyReportFormat::WgPolicy, 4, 4, &found).0.swap_remove(0).hash
        };
        assert_eq!(hash("m"), hash("m"));
        assert_ne!(hash("m"), hash("other"));
    }
}
