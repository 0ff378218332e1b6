//! Gatekeeper's own metrics (spec `gatekeeper-validation`, 9.7): names, labels and buckets are its.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use modgate_engine::{
    PolicyId, Snapshot,
    api::{
        constraints::{self, EnforcementAction},
        expansion, externaldata, mutations, templates,
    },
    gatekeeper::{MutationStatus, Outcome},
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
    pub(super) const MUTATION_REQUESTS: &str = "gatekeeper_mutation_request_count";
    pub(super) const MUTATION_DURATION: &str = "gatekeeper_mutation_request_duration_seconds";
    pub(super) const ITERATIONS: &str = "gatekeeper_mutation_system_iterations";
    pub(super) const MUTATORS: &str = "gatekeeper_mutators";
    pub(super) const CONFLICTING: &str = "gatekeeper_mutator_conflicting_count";
    pub(super) const EXPANSION_TEMPLATES: &str = "gatekeeper_expansion_templates";
    pub(super) const PROVIDERS: &str = "gatekeeper_providers";
    pub(super) const PROVIDER_ERRORS: &str = "gatekeeper_provider_error_count";
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

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MutationLabel {
    mutation_status: Fixed,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SuccessLabel {
    success: Fixed,
}

const ACTIVE: &str = "active";
const ERROR: &str = "error";
/// What constraints are counted under whose action nobody knows.
const UNRECOGNIZED: &str = "unrecognized";

/// The metrics of `/v1/admit` and `/v1/mutate`, and of the policies they ask.
#[derive(Debug)]
pub(super) struct GatekeeperMetrics {
    requests: Family<RequestLabels, Counter>,
    durations: Family<DurationLabel, Histogram, fn() -> Histogram>,
    constraints: Family<ConstraintLabels, Gauge>,
    templates: Family<StatusLabel, Gauge>,
    mutation_requests: Family<MutationLabel, Counter>,
    mutation_durations: Family<MutationLabel, Histogram, fn() -> Histogram>,
    iterations: Family<SuccessLabel, Histogram, fn() -> Histogram>,
    mutators: Family<StatusLabel, Gauge>,
    conflicting: Gauge,
    expansion_templates: Family<StatusLabel, Gauge>,
    providers: Family<StatusLabel, Gauge>,
    provider_errors: Counter,
    /// As they were last time, to count those that broke since.
    broken_providers: Mutex<BTreeSet<PolicyId>>,
}

/// Passes until nothing changed any more.
const ITERATIONS: [f64; 8] = [1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 50.0, 100.0];

impl GatekeeperMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            requests: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(buckets())),
            constraints: Family::default(),
            templates: Family::default(),
            mutation_requests: Family::default(),
            mutation_durations: Family::new_with_constructor(|| Histogram::new(buckets())),
            iterations: Family::new_with_constructor(|| Histogram::new(ITERATIONS)),
            mutators: Family::default(),
            conflicting: Gauge::default(),
            expansion_templates: Family::default(),
            providers: Family::default(),
            provider_errors: Counter::default(),
            broken_providers: Mutex::default(),
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
        registry.register(
            name::MUTATION_REQUESTS,
            "Requests to the mutating webhook by what they came to",
            metrics.mutation_requests.clone(),
        );
        registry.register(
            name::MUTATION_DURATION,
            "Time to answer requests to the mutating webhook",
            metrics.mutation_durations.clone(),
        );
        registry.register(
            name::ITERATIONS,
            "Passes over the mutators until nothing changed any more",
            metrics.iterations.clone(),
        );
        registry.register(name::MUTATORS, "Mutators by status", metrics.mutators.clone());
        registry.register(
            name::CONFLICTING,
            "Mutators that contradict others, and are not applied",
            metrics.conflicting.clone(),
        );
        registry.register(
            name::EXPANSION_TEMPLATES,
            "ExpansionTemplates by status",
            metrics.expansion_templates.clone(),
        );
        registry.register(name::PROVIDERS, "Providers by status", metrics.providers.clone());
        registry.register(
            name::PROVIDER_ERRORS,
            "Versions of Providers that could not be loaded",
            metrics.provider_errors.clone(),
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

    /// `iterations` is told where mutators were asked and came to an end.
    pub(super) fn mutated(
        &self,
        status: MutationStatus,
        iterations: Option<usize>,
        took: Duration,
    ) {
        let Some(status) = status.as_str() else { return };
        let label = MutationLabel { mutation_status: Fixed(status) };
        self.mutation_requests.get_or_create(&label).inc();
        self.mutation_durations.get_or_create(&label).observe(took.as_secs_f64());
        if let Some(iterations) = iterations {
            let iterations = u32::try_from(iterations).unwrap_or(u32::MAX);
            let label = SuccessLabel { success: Fixed("true") };
            self.iterations.get_or_create(&label).observe(f64::from(iterations));
        }
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
        let conflicting = snapshot.mutators().conflicts().len();
        let mutators = snapshot.mutators().mutators().len();
        let cyclic = snapshot.expansions().cyclic().len();
        let expansions = snapshot.expansions().templates().len();
        set(&self.conflicting, conflicting);
        for (family, active, failed) in [
            (&self.templates, store.templates().count(), broken_templates),
            (
                &self.mutators,
                mutators.saturating_sub(conflicting),
                broken_in(mutations::GROUP) + conflicting,
            ),
            (
                &self.expansion_templates,
                expansions.saturating_sub(cyclic),
                broken_in(expansion::GROUP) + cyclic,
            ),
            (&self.providers, snapshot.providers().len(), broken_in(externaldata::GROUP)),
        ] {
            for (status, count) in [(ACTIVE, active), (ERROR, failed)] {
                set(&family.get_or_create(&StatusLabel { status: Fixed(status) }), count);
            }
        }
        let is_provider = |id: &&PolicyId| id.group == externaldata::GROUP;
        let broken_providers: BTreeSet<PolicyId> =
            broken.iter().filter(is_provider).cloned().collect();
        let mut before = self.broken_providers.lock().unwrap_or_else(PoisonError::into_inner);
        self.provider_errors.inc_by(broken_providers.difference(&before).count() as u64);
        *before = broken_providers;
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
