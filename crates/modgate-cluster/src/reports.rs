//! Findings of controllers about policies beside loading them, for statuses.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use modgate_engine::PolicyId;
use modgate_value::Value;
use tokio::sync::watch;

use super::{kinds::Kind, object::Key};

/// The report of one controller about one policy: a part of this Pod's entry in `status.byPod`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Report {
    /// Errors beside those of loading the policy.
    pub(crate) errors: Vec<ReportedError>,
    /// `enforcementPointsStatus` of a constraint (CE-34).
    pub(crate) points: Vec<EnforcementPoint>,
    /// `vapGenerationStatus` of a template (CE-32).
    pub(crate) generation: Option<VapGeneration>,
    /// Members of kinds that only their own controller knows, such as `connectionErrors`.
    pub(crate) members: BTreeMap<&'static str, Value>,
}

/// An entry of `errors`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReportedError {
    /// `code` of templates and constraints (TC-40), `type` of all other kinds.
    pub(crate) code: &'static str,
    /// The error.
    pub(crate) message: String,
}

/// A point besides this process that enforces a constraint, and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EnforcementPoint {
    /// Such as `vap.k8s.io`.
    pub(crate) point: &'static str,
    /// `generated`, `waiting` or `error`.
    pub(crate) state: &'static str,
    /// Empty is left out.
    pub(crate) message: String,
    /// The generation of the constraint.
    pub(crate) observed_generation: i64,
}

/// The state of the ValidatingAdmissionPolicy of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VapGeneration {
    /// `generated` or `error`.
    pub(crate) state: &'static str,
    /// The generation of the template.
    pub(crate) observed_generation: i64,
    /// Empty is left out.
    pub(crate) warning: String,
}

/// The consequence for a policy that keeps using up its time, for logs and statuses.
pub const DEMOTED: &str = "policy keeps using up its time: its evaluations get a twentieth of \
                                  it for now, and those that need more end undecided";

/// All reports: by policy, then by controller.
pub(crate) type AllReports = BTreeMap<(Kind, Key), BTreeMap<&'static str, Report>>;

/// Where controllers leave their reports. What is left for a policy that is gone is never shown, and
/// goes with the next report of its controller.
#[derive(Debug, Clone)]
pub struct Reports(Arc<watch::Sender<AllReports>>);

impl Default for Reports {
    fn default() -> Self {
        Self(Arc::new(watch::channel(AllReports::new()).0))
    }
}

impl Reports {
    /// Replaces everything that a controller has to say.
    pub(crate) fn replace(&self, controller: &'static str, reports: BTreeMap<(Kind, Key), Report>) {
        self.0.send_if_modified(|all| {
            let before = all.clone();
            all.retain(|policy, by| {
                if !reports.contains_key(policy) {
                    by.remove(controller);
                }
                !by.is_empty()
            });
            for (policy, report) in reports {
                all.entry(policy).or_default().insert(controller, report);
            }
            *all != before
        });
    }

    /// Replaces what a controller has to say about one policy.
    pub(crate) fn set(
        &self,
        controller: &'static str,
        kind: &Kind,
        key: &Key,
        report: Option<Report>,
    ) {
        self.0.send_if_modified(|all| {
            let policy = (kind.clone(), key.clone());
            match report {
                Some(report) => {
                    let by = all.entry(policy).or_default();
                    by.insert(controller, report.clone()) != Some(report)
                }
                None => {
                    let Some(by) = all.get_mut(&policy) else { return false };
                    let was_there = by.remove(controller).is_some();
                    if by.is_empty() {
                        all.remove(&policy);
                    }
                    was_there
                }
            }
        });
    }

    /// These policies keep using up their time, and no others.
    pub fn demoted(&self, policies: &BTreeSet<PolicyId>) {
        let report = |policy: &PolicyId| {
            let kind = Kind { group: policy.group.to_string(), kind: policy.kind.to_string() };
            let key = Key { namespace: policy.namespace.clone(), name: policy.name.clone() };
            let message = DEMOTED.to_owned();
            let errors = vec![ReportedError { code: "time_budget", message }];
            ((kind, key), Report { errors, ..Report::default() })
        };
        self.replace("demoted", policies.iter().map(report).collect());
    }

    /// All reports, as they change.
    pub(crate) fn subscribe(&self) -> watch::Receiver<AllReports> {
        self.0.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demoted_policy_says_so_until_it_is_not() {
        let policy = |kind: &str| PolicyId {
            group: "g".into(),
            kind: kind.into(),
            namespace: "ns".into(),
            name: "a".into(),
        };
        let reports = Reports::default();
        let seen = reports.subscribe();
        reports.demoted(&[policy("K")].into());
        let kind = Kind { group: "g".to_owned(), kind: "K".to_owned() };
        let key = Key { namespace: "ns".into(), name: "a".into() };
        let all = seen.borrow().clone();
        assert_eq!(all[&(kind, key)]["demoted"].errors[0].message, DEMOTED);
        reports.demoted(&BTreeSet::new());
        assert!(seen.borrow().is_empty());
    }

    #[test]
    fn controllers_speak_for_themselves() {
        let kind = Kind { group: "g".to_owned(), kind: "K".to_owned() };
        let key = |name: &str| Key { namespace: "".into(), name: name.into() };
        let report = |message: &str| Report {
            errors: vec![ReportedError { code: "", message: message.to_owned() }],
            ..Report::default()
        };
        let reports = Reports::default();
        let mut seen = reports.subscribe();
        let mut texts = || -> Option<Vec<String>> {
            if !seen.has_changed().expect("open") {
                return None;
            }
            let all = seen.borrow_and_update();
            let each = all.iter().flat_map(|((_, key), by)| {
                by.iter().map(|(by, it)| format!("{} {by} {}", key.name, it.errors[0].message))
            });
            Some(each.collect())
        };
        reports.set("vap", &kind, &key("a"), Some(report("1")));
        assert_eq!(texts(), Some(vec!["a vap 1".to_owned()]));
        reports.set("vap", &kind, &key("a"), Some(report("1")));
        assert_eq!(texts(), None, "nothing new");
        reports.replace("sync", [((kind.clone(), key("b")), report("2"))].into());
        assert_eq!(texts(), Some(vec!["a vap 1".to_owned(), "b sync 2".to_owned()]));
        reports.replace("vap", BTreeMap::new());
        assert_eq!(texts(), Some(vec!["b sync 2".to_owned()]));
        reports.set("sync", &kind, &key("b"), None);
        assert_eq!(texts(), Some(vec![]));
        reports.set("sync", &kind, &key("b"), None);
        assert_eq!(texts(), None, "nothing new");
    }
}
