//! Gatekeeper's own metrics (spec `gatekeeper-validation`, 9.7): names, labels and buckets are its.

use std::{collections::BTreeSet, time::Duration};

use modgate_engine::{
    PolicyId, Snapshot,
    api::{
        constraints::{self, EnforcementAction},
        templates,
    },
    gatekeeper::Outcome,
};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use super::Fixed;

/// The names, in one place. The text format appends `_total` to counters.
mod name {
    pub(super) const REQUESTS: &str = "gatekeeper_validation_request_count";
    pub(super) const DURATION: &str = "gatekeeper_validation_request_duration_seconds";
    pub(super) const CONSTRAINTS: &str = "gatekeeper_constraints";
    pub(super) const TEMPLATES: &str = "gatekeeper_constraint_templates";
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    admission_status: Fixed,
    admission_dryrun: Fixed,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DurationLabel {
    admission_status: Fixed,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ConstraintLabels {
    enforcement_action: Fixed,
    status: Fixed,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusLabel {
    status: Fixed,
}

const ACTIVE: &str = "active";
const ERROR: &str = "error";
/// What constraints are counted under whose action nobody knows.
const UNRECOGNIZED: &str = "unrecognized";

/// The metrics of `/v1/admit`, and of the policies it asks.
#[derive(Debug)]
pub(super) struct GatekeeperMetrics {
    requests: Family<RequestLabels, Counter>,
    durations: Family<DurationLabel, Histogram, fn() -> Histogram>,
    constraints: Family<ConstraintLabels, Gauge>,
    templates: Family<StatusLabel, Gauge>,
}

impl GatekeeperMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            requests: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(buckets())),
            constraints: Family::default(),
            templates: Family::default(),
        };
        registry.register(
            name::REQUESTS,
            "Requests to the validating webhook by what they came to",
            metrics.requests.clone(),
        );
        registry.register(
            name::DURATION,
            "Time to answer requests to the validating webhook",
            metrics.durations.clone(),
        );
        registry.register(
            name::CONSTRAINTS,
            "Constraints by enforcement action and status",
            metrics.constraints.clone(),
        );
        registry.register(
            name::TEMPLATES,
            "ConstraintTemplates by status",
            metrics.templates.clone(),
        );
        metrics
    }

    pub(super) fn validated(&self, outcome: Outcome, dry_run: bool, took: Duration) {
        let status = match outcome {
            Outcome::Uncounted => return,
            Outcome::Allow => "allow",
            Outcome::Deny => "deny",
            Outcome::Error => "error",
        };
        let labels = RequestLabels {
            admission_status: Fixed(status),
            admission_dryrun: Fixed(if dry_run { "true" } else { "false" }),
        };
        self.requests.get_or_create(&labels).inc();
        let label = DurationLabel { admission_status: Fixed(status) };
        self.durations.get_or_create(&label).observe(took.as_secs_f64());
    }

    /// Counts the policies in force and those whose newest version does not load; what there is
    /// none of is counted as well.
    pub(super) fn loaded(&self, snapshot: &Snapshot, broken: &BTreeSet<PolicyId>) {
        let store = snapshot.constraints();
        let broken_in = |group: &str| broken.iter().filter(|id| id.group == group).count();
        let broken_templates = broken_in(templates::GROUP);
        let broken_constraints = broken_in(constraints::GROUP);
        let set = |gauge: &Gauge, count: usize| {
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        };
        for (status, count) in [(ACTIVE, store.templates().count()), (ERROR, broken_templates)] {
            set(&self.templates.get_or_create(&StatusLabel { status: Fixed(status) }), count);
        }
        let known = EnforcementAction::ALL.map(EnforcementAction::as_str);
        for action in known.into_iter().chain([UNRECOGNIZED]) {
            let active = store.constraints().filter(|constraint| {
                let name = constraint.enforcement().name().as_str();
                if action == UNRECOGNIZED { !known.contains(&name) } else { name == action }
            });
            // A constraint that does not load has no action yet.
            let failed = if action == UNRECOGNIZED { broken_constraints } else { 0 };
            for (status, count) in [(ACTIVE, active.count()), (ERROR, failed)] {
                let labels =
                    ConstraintLabels { enforcement_action: Fixed(action), status: Fixed(status) };
                set(&self.constraints.get_or_create(&labels), count);
            }
        }
    }
}

/// Seconds: 1 to 9 ms, 10 to 90 ms, 0.1 to 0.9 s, and 1 to 10 s by halves.
fn buckets() -> impl Iterator<Item = f64> {
    let tenths = |unit: f64| (1..10).map(move |count| f64::from(count) / unit);
    let halves = (2..=20).map(|count| f64::from(count) / 2.0);
    tenths(1000.0).chain(tenths(100.0)).chain(tenths(10.0)).chain(halves)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buckets_ascend() {
        let all: Vec<f64> = buckets().collect();
        assert!(all.is_sorted() && all.len() == 46, "{all:?}");
        assert_eq!((all[0], all[9], all[18], all[27], all[45]), (0.001, 0.01, 0.1, 1.0, 10.0));
    }
}
