//! The result of an audit: totals, and for each policy the first of its violations (AU-20 to AU-33).

use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use modgate_engine::{
    Position,
    api::{
        admissionregistration,
        constraints::{self, EnforcementAction},
    },
};
use modgate_value::{Str, Value};

use crate::{
    policies::Policies,
    reference::{ObjectRef, PolicyRef},
    violation::{SCOPED, Violation},
};

/// The findings of an audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The audit's name: when it began, RFC 3339 with seconds, UTC (AU-2).
    pub audit: Str,
    /// Every constraint in force, and the other policies that have violations, by kind, then
    /// namespace and name.
    pub by_policy: Vec<PolicySummary>,
    /// How many violations lead to what.
    pub totals: Totals,
    /// How many violations the objects of each namespace have; `""` stands for cluster-scoped objects.
    pub by_namespace: BTreeMap<Str, u64>,
    /// How many objects of each namespace were audited, and how many of them have violations.
    pub audited: BTreeMap<Str, Audited>,
    /// How much was looked at.
    pub counts: Counts,
    /// Why objects, or parts of them, could not be evaluated: the first of them.
    pub errors: Vec<ObjectError>,
}

/// The result of an audit for one policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicySummary {
    /// Which policy.
    pub policy: Arc<PolicyRef>,
    /// Its `enforcementAction`; what it would do for ModRules and mutators.
    pub action: Str,
    /// Its actions in audits.
    pub actions: Vec<EnforcementAction>,
    /// How many violations there are.
    pub total: u64,
    /// The first of them, as [`Violation::cmp_listed`] orders them; listed in the opposite order
    /// (Q-27).
    pub first: Vec<Violation>,
}

/// Violations of constraints by their `enforcementAction` (AU-22).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// `deny`
    pub deny: u64,
    /// `dryrun`
    pub dryrun: u64,
    /// `warn`
    pub warn: u64,
    /// `scoped`, whatever that leads to.
    pub scoped: u64,
    /// Anything else.
    pub unrecognized: u64,
    /// Those of ModRules and mutators, which have no such action.
    pub rules: u64,
    /// Those of ValidatingAdmissionPolicies, whatever the actions of the binding.
    pub admission_policies: u64,
}

/// How much was looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Objects that were audited.
    pub objects: u64,
    /// Of those, the ones in namespaces that the Config excludes.
    pub excluded: u64,
    /// Of those, the ones that were evaluated, wholly or in part, for this report; what is known of
    /// the others from before still holds.
    pub evaluated: u64,
    /// Questions asked: a constraint about an object or a resultant.
    pub asked: u64,
    /// Errors; [`Report::errors`] has the first of them.
    pub errors: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: Self) {
        self.objects += other.objects;
        self.excluded += other.excluded;
        self.evaluated += other.evaluated;
        self.asked += other.asked;
        self.errors += other.errors;
    }
}

/// The audited objects of a namespace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Audited {
    /// All of them.
    pub objects: u64,
    /// Those with at least one violation.
    pub violating: u64,
}

/// An object that could not be evaluated completely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectError {
    /// Which object.
    pub subject: Arc<ObjectRef>,
    /// Why.
    pub message: String,
}

/// The number of errors whose text a report contains.
pub const MAX_ERRORS: usize = 100;

impl Totals {
    /// By label, in the order of the labels: what `gatekeeper_violations` shows.
    pub fn by_action(&self) -> [(&'static str, u64); 5] {
        [
            ("deny", self.deny),
            ("dryrun", self.dryrun),
            (SCOPED, self.scoped),
            ("unrecognized", self.unrecognized),
            ("warn", self.warn),
        ]
    }

    /// All of them.
    pub fn sum(&self) -> u64 {
        self.by_action().iter().map(|(_, count)| count).sum::<u64>()
            + self.rules
            + self.admission_policies
    }

    fn count(&mut self, policy: &PolicyRef, action: &str, count: u64) {
        let total = match action {
            _ if policy.kind.group == admissionregistration::GROUP => &mut self.admission_policies,
            _ if policy.kind.group != constraints::GROUP => &mut self.rules,
            "deny" => &mut self.deny,
            "dryrun" => &mut self.dryrun,
            "warn" => &mut self.warn,
            SCOPED => &mut self.scoped,
            _ => &mut self.unrecognized,
        };
        *total += count;
    }
}

impl Violation {
    /// The order that decides which violations of a policy are listed (AU-21).
    pub fn cmp_listed(&self, other: &Self) -> Ordering {
        fn key(it: &Violation) -> (&Str, &Str, &Str, &Str, &Str, &Str, &Str) {
            let ObjectRef { kind, namespace, name, .. } = &*it.subject;
            (&kind.group, &kind.version, &kind.kind, namespace, name, &it.message, &it.action)
        }
        key(self).cmp(&key(other))
    }

    /// The entry of `status.violations` (AU-30).
    pub fn to_status(&self) -> Value {
        let ObjectRef { kind, namespace, name, .. } = &*self.subject;
        let mut members = vec![
            ("group", Value::from(kind.group.clone())),
            ("version", kind.version.clone().into()),
            ("kind", kind.kind.clone().into()),
            ("name", name.clone().into()),
            ("message", self.message.clone().into()),
            ("enforcementAction", self.action.clone().into()),
        ];
        if !namespace.is_empty() {
            members.push(("namespace", namespace.clone().into()));
        }
        if self.action == SCOPED {
            let actions = self.actions.iter().map(|action| Value::from(action.as_str()));
            members.push(("enforcementActions", actions.collect()));
        }
        members.into_iter().collect()
    }
}

impl PolicySummary {
    /// Lists a violation if it is one of the first.
    fn list(&mut self, violation: &Violation, limit: usize) {
        let first = &mut self.first;
        if first.len() >= limit {
            let is_later =
                first.last().is_none_or(|last| violation.cmp_listed(last) != Ordering::Less);
            if is_later {
                return;
            }
            first.pop();
        }
        let at = first.partition_point(|known| known.cmp_listed(violation) != Ordering::Greater);
        first.insert(at, violation.clone());
    }

    /// The audit's members of the constraint's status: `auditTimestamp`, `totalViolations`, and
    /// `violations` unless there are none. The last in order stand first (Q-27).
    pub fn status(&self, audit: &str) -> Value {
        let total = i64::try_from(self.total).unwrap_or(i64::MAX);
        let mut members =
            vec![("auditTimestamp", Value::from(audit)), ("totalViolations", total.into())];
        if !self.first.is_empty() {
            let listed = self.first.iter().rev().map(Violation::to_status);
            members.push(("violations", listed.collect()));
        }
        members.into_iter().collect()
    }
}

impl Report {
    /// The report of a constraint.
    pub fn of_constraint(&self, kind: &str, name: &str) -> Option<&PolicySummary> {
        self.by_policy.iter().find(|report| {
            let PolicyRef { kind: of, name: called, .. } = &*report.policy;
            of.group == constraints::GROUP && of.kind == kind && called == name
        })
    }
}

/// A report in the making; holds as many violations as the report will list, whatever there are.
#[derive(Debug)]
pub(crate) struct Tally {
    limit: usize,
    summaries: Vec<PolicySummary>,
    /// Where the summary of a policy is.
    by_policy: BTreeMap<PolicyKey, usize>,
    /// The same by the address of the reference to the policy, which its summary keeps.
    by_address: HashMap<usize, usize>,
    totals: Totals,
    by_namespace: BTreeMap<Str, u64>,
    audited: BTreeMap<Str, Audited>,
    counts: Counts,
    errors: Vec<ObjectError>,
}

/// Group, kind, namespace and name.
type PolicyKey = (Str, Str, Str, Str);

fn key_of(policy: &PolicyRef) -> PolicyKey {
    let PolicyRef { kind, namespace, name, .. } = policy;
    (kind.group.clone(), kind.kind.clone(), namespace.clone(), name.clone())
}

impl Tally {
    /// Nothing found yet; `limit` violations are listed for each policy.
    pub(crate) fn new(policies: &Policies, limit: usize) -> Self {
        let mut tally = Self {
            limit,
            summaries: Vec::new(),
            by_policy: BTreeMap::new(),
            by_address: HashMap::new(),
            totals: Totals::default(),
            by_namespace: BTreeMap::new(),
            audited: BTreeMap::new(),
            counts: Counts::default(),
            errors: Vec::new(),
        };
        for (policy, action, actions) in policies.audited() {
            tally.of_policy(policy, action, actions);
        }
        tally
    }

    pub(crate) fn count(&mut self, counts: Counts) {
        self.counts.add(counts);
    }

    pub(crate) fn violation(&mut self, violation: &Violation) {
        let Violation { policy, action, actions, subject, .. } = violation;
        self.totals.count(policy, action, 1);
        self.count_namespace(&subject.namespace, 1);
        let limit = self.limit;
        if let Some(summary) = self.of_policy(policy, action, actions) {
            summary.total += 1;
            summary.list(violation, limit);
        }
    }

    /// Counts so many objects of a namespace, of which some have violations.
    pub(crate) fn count_audited(&mut self, namespace: &Str, more: Audited) {
        if more.objects == 0 {
            return;
        }
        match self.audited.get_mut(namespace) {
            Some(known) => {
                known.objects += more.objects;
                known.violating += more.violating;
            }
            None => drop(self.audited.insert(namespace.clone(), more)),
        }
    }

    /// Counts so many violations of the objects of a namespace.
    pub(crate) fn count_namespace(&mut self, namespace: &Str, count: u64) {
        if count == 0 {
            return;
        }
        match self.by_namespace.get_mut(namespace) {
            Some(total) => *total += count,
            None => drop(self.by_namespace.insert(namespace.clone(), count)),
        }
    }

    /// Counts so many violations of a policy.
    pub(crate) fn count_violations(
        &mut self,
        policy: &Arc<PolicyRef>,
        action: &Str,
        actions: &[EnforcementAction],
        count: u64,
    ) {
        if count > 0 {
            self.totals.count(policy, action, count);
            if let Some(summary) = self.of_policy(policy, action, actions) {
                summary.total += count;
            }
        }
    }

    /// Lists a violation if it is one of the first of its policy; does not count it.
    pub(crate) fn list(&mut self, violation: &Violation) {
        let limit = self.limit;
        let Violation { policy, action, actions, .. } = violation;
        if let Some(summary) = self.of_policy(policy, action, actions) {
            summary.list(violation, limit);
        }
    }

    /// Whether fewer violations of a policy are listed than may be.
    pub(crate) fn is_short(&self, policy: &PolicyRef) -> bool {
        let known = self.by_policy.get(&key_of(policy)).and_then(|at| self.summaries.get(*at));
        known.is_none_or(|summary| summary.first.len() < self.limit)
    }

    /// The summary of a policy, which there is from then on.
    fn of_policy(
        &mut self,
        policy: &Arc<PolicyRef>,
        action: &Str,
        actions: &[EnforcementAction],
    ) -> Option<&mut PolicySummary> {
        let summaries = &mut self.summaries;
        let address = Arc::as_ptr(policy).addr();
        let at = self.by_address.get(&address).copied().unwrap_or_else(|| {
            *self.by_policy.entry(key_of(policy)).or_insert_with(|| {
                let summary = PolicySummary {
                    policy: Arc::clone(policy),
                    action: action.clone(),
                    actions: actions.to_vec(),
                    total: 0,
                    first: Vec::new(),
                };
                summaries.push(summary);
                self.by_address.insert(address, summaries.len() - 1);
                summaries.len() - 1
            })
        });
        summaries.get_mut(at)
    }

    /// Counts an error; the smallest are listed, so that the order of arrival does not matter.
    pub(crate) fn error(&mut self, subject: &Arc<ObjectRef>, message: &str) {
        self.counts.errors += 1;
        fn key(error: &ObjectError) -> (&str, &Str, &Str, &str) {
            let ObjectRef { kind, namespace, name, .. } = &*error.subject;
            (&kind.kind, namespace, name, &error.message)
        }
        let error = ObjectError { subject: Arc::clone(subject), message: message.to_owned() };
        let at = self.errors.partition_point(|known| key(known) <= key(&error));
        if at < MAX_ERRORS {
            self.errors.insert(at, error);
            self.errors.truncate(MAX_ERRORS);
        }
    }

    pub(crate) fn finish(self, audit: &str) -> Report {
        let mut summaries: Vec<_> = self.summaries.into_iter().map(Some).collect();
        let places = self.by_policy.into_values();
        let by_policy = places.filter_map(|at| summaries.get_mut(at)?.take()).collect();
        Report {
            audit: audit.into(),
            by_policy,
            totals: self.totals,
            by_namespace: self.by_namespace,
            audited: self.audited,
            counts: self.counts,
            errors: self.errors,
        }
    }
}

/// Where a subject stands: `file:line:column`, as far as it is known.
pub fn place(origin: &str, position: Option<Position>) -> String {
    match position {
        Some(position) => format!("{origin}:{position}"),
        None => origin.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use modgate_engine::{Snapshot, constraint::Inventory};

    use super::*;
    use crate::policies::Options;

    fn violation(object: &str, message: &str, action: &str) -> Violation {
        let (namespace, name) = object.split_once('/').unwrap_or(("", object));
        let object = format!(
            r#"{{"apiVersion": "v1", "kind": "Pod",
            "metadata": {{"name": "{name}", "namespace": "{namespace}"}}}}"#
        );
        let policy = br#"{"apiVersion": "constraints.gatekeeper.sh/v1beta1", "kind": "K",
            "metadata": {"name": "c"}}"#;
        Violation {
            policy: PolicyRef::of_policy(&Value::from_json(policy).expect("a constraint")).into(),
            subject: ObjectRef::of_object(&Value::from_json(object.as_bytes()).expect("a pod"))
                .into(),
            action: action.into(),
            actions: vec![EnforcementAction::Deny],
            message: message.into(),
            details: Value::Null,
            ordinal: 0,
        }
    }

    fn report(limit: usize, violations: &[Violation]) -> Report {
        let policies = Policies::new(Snapshot::default(), Inventory::default(), Options::default());
        let mut tally = Tally::new(&policies, limit);
        violations.iter().for_each(|violation| tally.violation(violation));
        tally.finish("2026-01-02T03:04:05Z")
    }

    fn listed(limit: usize, violations: &[Violation]) -> (i64, Vec<String>) {
        let report = report(limit, violations);
        let status = report.by_policy[0].status(&report.audit);
        let text = |entry: &Value, key: &str| {
            entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let entries = status.get("violations").and_then(Value::as_array).into_iter();
        let entries = entries.flat_map(|entries| entries.iter()).map(|entry| {
            format!(
                "{}/{} {}",
                text(entry, "namespace"),
                text(entry, "name"),
                text(entry, "message")
            )
        });
        let total = status.get("totalViolations").and_then(Value::as_i64).expect("a total");
        (total, entries.collect())
    }

    #[test]
    fn the_first_are_kept_and_the_last_of_them_stand_first() {
        let many: Vec<_> =
            (1..=30).rev().map(|n| violation(&format!("n{n:02}"), "m", "deny")).collect();
        let (total, entries) = listed(20, &many);
        assert_eq!(total, 30);
        let expected: Vec<_> = (1..=20).rev().map(|n| format!("/n{n:02} m")).collect();
        assert_eq!(entries, expected, "scenario 78");

        let check = |objects: &[(&str, &str)], limit: usize, expected: &[&str]| {
            let violations: Vec<_> = objects
                .iter()
                .map(|(object, message)| violation(object, message, "deny"))
                .collect();
            assert_eq!(listed(limit, &violations).1, expected);
        };
        check(&[("b/x", "m"), ("a/z", "m"), ("y", "m")], 2, &["a/z m", "/y m"]);
        check(&[("a", "2"), ("a", "1"), ("a", "1")], 3, &["/a 2", "/a 1", "/a 1"]);
        check(&[("a", "1")], 0, &[]);
    }

    #[test]
    fn totals() {
        let mut all: Vec<_> = ["deny", "deny", "warn", "dryrun", "scoped", "", "other"]
            .iter()
            .map(|action| violation("a", "m", action))
            .collect();
        let mut rule = violation("a", "m", "reject");
        Arc::make_mut(&mut rule.policy).kind.group = "api.kubemod.io".into();
        all.push(rule);
        let totals = report(1, &all).totals;
        let expected =
            [("deny", 2), ("dryrun", 1), ("scoped", 1), ("unrecognized", 2), ("warn", 1)];
        assert_eq!(totals.by_action(), expected);
        assert_eq!(totals.rules, 1);
        assert_eq!(totals.sum(), 8);
    }

    #[test]
    fn entries_of_statuses() {
        let entry = violation("a", "m", "deny").to_status();
        let expected = r#"{"enforcementAction":"deny","group":"","kind":"Pod","message":"m","name":"a","version":"v1"}"#;
        assert_eq!(entry.to_json(), expected);
        let entry = violation("n/a", "m", "scoped").to_status();
        let expected = r#"{"enforcementAction":"scoped","enforcementActions":["deny"],"group":"","kind":"Pod","message":"m","name":"a","namespace":"n","version":"v1"}"#;
        assert_eq!(entry.to_json(), expected);
        let status = report(20, &[violation("a", "m", "deny")]).by_policy[0].status("t");
        assert!(status.to_json().starts_with(r#"{"auditTimestamp":"t","totalViolations":1,"vi"#));
        let none = PolicySummary {
            first: Vec::new(),
            ..report(1, &[violation("a", "m", "d")]).by_policy[0].clone()
        };
        assert_eq!(none.status("t").get("violations"), None);
    }
}
