//! Gatekeeper's own metrics (spec `gatekeeper-validation`, 9.7): names, labels and buckets are its.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use modgate_engine::{
    AdmissionStatus, MutationStatus, PolicyId, Snapshot,
    api::{
        constraints::{self, EnforcementAction},
        expansion, externaldata, mutations, templates,
    },
};
use prometheus_client::metrics::{
    counter::Counter, family::Family, gauge::Gauge, histogram::Histogram,
};

use super::{
    Labels,
    catalog::{Catalog, Descriptor, Label, MetricType, Origin},
    reports::{Health, set_by_health},
    saturated,
};

/// The label of constraints with an unknown action.
pub(super) const UNRECOGNIZED: &str = "unrecognized";

pub(super) const STATUS: Label = Label { name: "status", values: "`active`, `error`" };
pub(super) const ACTIONS: Label = Label {
    name: "enforcement_action",
    values: "`deny`, `dryrun`, `warn`, `scoped`, `unrecognized`",
};
const ADMISSION_STATUS: Label =
    Label { name: "admission_status", values: "`allow`, `deny`, `error`, `unknown`" };
const MUTATION_STATUS: Label =
    Label { name: "mutation_status", values: "`success`, `skip`, `error`" };

const fn metric(
    name: &'static str,
    kind: MetricType,
    labels: &'static [Label],
    help: &'static str,
) -> Descriptor {
    Descriptor { name, kind, labels, help, origin: Origin::Gatekeeper }
}

const REQUESTS: Descriptor = metric(
    "gatekeeper_validation_request_count_total",
    MetricType::Counter,
    &[ADMISSION_STATUS, Label { name: "admission_dryrun", values: "`true`, `false`" }],
    "Requests to the validating webhook by what they came to",
);
const DURATION: Descriptor = metric(
    "gatekeeper_validation_request_duration_seconds",
    MetricType::Histogram,
    &[ADMISSION_STATUS],
    "Time to answer requests to the validating webhook",
);
const CONSTRAINTS: Descriptor = metric(
    "gatekeeper_constraints",
    MetricType::Gauge,
    &[ACTIONS, STATUS],
    "Constraints by enforcement action and status",
);
const TEMPLATES: Descriptor = metric(
    "gatekeeper_constraint_templates",
    MetricType::Gauge,
    &[STATUS],
    "ConstraintTemplates by status",
);
const TEMPLATES_WITH_CEL: Descriptor = metric(
    "gatekeeper_constraint_templates_with_cel",
    MetricType::Gauge,
    &[],
    "ConstraintTemplates in force that are written in CEL",
);
const TEMPLATE_INGESTION: Descriptor = metric(
    "gatekeeper_constraint_template_ingestion_count_total",
    MetricType::Counter,
    &[STATUS],
    "Versions of ConstraintTemplates that were compiled",
);
const TEMPLATE_INGESTION_DURATION: Descriptor = metric(
    "gatekeeper_constraint_template_ingestion_duration_seconds",
    MetricType::Histogram,
    &[STATUS],
    "Time to compile a ConstraintTemplate",
);
const MUTATION_REQUESTS: Descriptor = metric(
    "gatekeeper_mutation_request_count_total",
    MetricType::Counter,
    &[MUTATION_STATUS],
    "Requests to the mutating webhook by what they came to",
);
const MUTATION_DURATION: Descriptor = metric(
    "gatekeeper_mutation_request_duration_seconds",
    MetricType::Histogram,
    &[MUTATION_STATUS],
    "Time to answer requests to the mutating webhook",
);
const ITERATIONS: Descriptor = metric(
    "gatekeeper_mutation_system_iterations",
    MetricType::Histogram,
    &[Label { name: "success", values: "`true`, `false`" }],
    "Passes over the mutators until nothing changed any more",
);
const MUTATORS: Descriptor =
    metric("gatekeeper_mutators", MetricType::Gauge, &[STATUS], "Mutators by status");
const CONFLICTING: Descriptor = metric(
    "gatekeeper_mutator_conflicting_count",
    MetricType::Gauge,
    &[],
    "Mutators that contradict others, and are not applied",
);
const MUTATOR_INGESTION: Descriptor = metric(
    "gatekeeper_mutator_ingestion_count_total",
    MetricType::Counter,
    &[STATUS],
    "Versions of mutators that were compiled",
);
const MUTATOR_INGESTION_DURATION: Descriptor = metric(
    "gatekeeper_mutator_ingestion_duration_seconds",
    MetricType::Histogram,
    &[STATUS],
    "Time to compile a mutator",
);
const EXPANSION_TEMPLATES: Descriptor = metric(
    "gatekeeper_expansion_templates",
    MetricType::Gauge,
    &[STATUS],
    "ExpansionTemplates by status",
);
const PROVIDERS: Descriptor =
    metric("gatekeeper_providers", MetricType::Gauge, &[STATUS], "Providers by status");
const PROVIDER_ERRORS: Descriptor = metric(
    "gatekeeper_provider_error_count_total",
    MetricType::Counter,
    &[],
    "Versions of Providers that could not be loaded",
);

/// The metrics of `/v1/admit` and `/v1/mutate`, and of the policies they ask.
#[derive(Debug)]
pub(super) struct GatekeeperMetrics {
    requests: Family<Labels<2>, Counter>,
    durations: Family<Labels<1>, Histogram, fn() -> Histogram>,
    constraints: Family<Labels<2>, Gauge>,
    templates: Family<Labels<1>, Gauge>,
    templates_with_cel: Gauge,
    template_ingestion: Ingestion,
    mutation_requests: Family<Labels<1>, Counter>,
    mutation_durations: Family<Labels<1>, Histogram, fn() -> Histogram>,
    iterations: Family<Labels<1>, Histogram, fn() -> Histogram>,
    mutators: Family<Labels<1>, Gauge>,
    mutator_ingestion: Ingestion,
    conflicting: Gauge,
    expansion_templates: Family<Labels<1>, Gauge>,
    providers: Family<Labels<1>, Gauge>,
    provider_errors: Counter,
    /// As they were last time, to count those that broke since.
    broken_providers: Mutex<BTreeSet<PolicyId>>,
}

/// How policies of a kind were compiled.
#[derive(Debug)]
struct Ingestion {
    count: Family<Labels<1>, Counter>,
    duration: Family<Labels<1>, Histogram, fn() -> Histogram>,
}

impl Ingestion {
    fn register(
        catalog: &mut Catalog,
        count: &'static Descriptor,
        duration: &'static Descriptor,
    ) -> Self {
        Self {
            count: catalog.with(count, Family::default()),
            duration: catalog
                .with(duration, Family::new_with_constructor(|| Histogram::new(INGESTION_SECONDS))),
        }
    }

    fn add(&self, health: Health, took: Duration) {
        let label = [(STATUS.name, health.as_str())];
        self.count.get_or_create(&label).inc();
        self.duration.get_or_create(&label).observe(took.as_secs_f64());
    }
}

/// Passes until nothing changed any more.
const PASSES: [f64; 15] =
    [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0];

const INGESTION_SECONDS: [f64; 19] = [
    0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1, 0.2, 0.3, 0.4, 0.5, 1.0, 2.0, 3.0,
    4.0, 5.0,
];

impl GatekeeperMetrics {
    pub(super) fn register(catalog: &mut Catalog) -> Self {
        let request_times: fn() -> Histogram = || Histogram::new(request_seconds());
        Self {
            requests: catalog.with(&REQUESTS, Family::default()),
            durations: catalog.with(&DURATION, Family::new_with_constructor(request_times)),
            constraints: catalog.with(&CONSTRAINTS, Family::default()),
            templates: catalog.with(&TEMPLATES, Family::default()),
            templates_with_cel: catalog.with(&TEMPLATES_WITH_CEL, Gauge::default()),
            template_ingestion: Ingestion::register(
                catalog,
                &TEMPLATE_INGESTION,
                &TEMPLATE_INGESTION_DURATION,
            ),
            mutation_requests: catalog.with(&MUTATION_REQUESTS, Family::default()),
            mutation_durations: catalog
                .with(&MUTATION_DURATION, Family::new_with_constructor(request_times)),
            iterations: catalog
                .with(&ITERATIONS, Family::new_with_constructor(|| Histogram::new(PASSES))),
            mutators: catalog.with(&MUTATORS, Family::default()),
            mutator_ingestion: Ingestion::register(
                catalog,
                &MUTATOR_INGESTION,
                &MUTATOR_INGESTION_DURATION,
            ),
            conflicting: catalog.with(&CONFLICTING, Gauge::default()),
            expansion_templates: catalog.with(&EXPANSION_TEMPLATES, Family::default()),
            providers: catalog.with(&PROVIDERS, Family::default()),
            provider_errors: catalog.with(&PROVIDER_ERRORS, Counter::default()),
            broken_providers: Mutex::default(),
        }
    }

    pub(super) fn validated(&self, status: AdmissionStatus, dry_run: bool, took: Duration) {
        self.validated_as(status.as_str(), dry_run, took);
    }

    /// Counts a request that never came to a decision, not even to an error.
    pub(super) fn not_validated(&self, took: Duration) {
        self.validated_as("unknown", false, took);
    }

    fn validated_as(&self, status: &'static str, dry_run: bool, took: Duration) {
        let status = (ADMISSION_STATUS.name, status);
        let dry_run = if dry_run { "true" } else { "false" };
        self.requests.get_or_create(&[status, ("admission_dryrun", dry_run)]).inc();
        self.durations.get_or_create(&[status]).observe(took.as_secs_f64());
    }

    /// `passes` is present where mutators ran to an end, or to the last pass that is allowed.
    pub(super) fn mutated(&self, status: MutationStatus, passes: Option<usize>, took: Duration) {
        let converged = status != MutationStatus::Error;
        let label = [(MUTATION_STATUS.name, status.as_str())];
        self.mutation_requests.get_or_create(&label).inc();
        self.mutation_durations.get_or_create(&label).observe(took.as_secs_f64());
        if let Some(passes) = passes {
            let passes = u32::try_from(passes).unwrap_or(u32::MAX);
            let label = [("success", if converged { "true" } else { "false" })];
            self.iterations.get_or_create(&label).observe(f64::from(passes));
        }
    }

    /// A version of a policy was compiled; what is neither a template nor a mutator is not counted.
    pub(super) fn compiled(&self, group: &str, health: Health, took: Duration) {
        match group {
            templates::GROUP => self.template_ingestion.add(health, took),
            mutations::GROUP => self.mutator_ingestion.add(health, took),
            _ => {}
        }
    }

    /// Counts the policies in force and those whose newest version does not load; what there is
    /// none of is counted as well. A policy that is in force in an older version is an error only, as in
    /// Gatekeeper, where each name has one status.
    pub(super) fn loaded(&self, snapshot: &Snapshot, broken: &BTreeSet<PolicyId>) {
        let store = snapshot.constraints();
        let broken_in = |group: &str| broken.iter().filter(|id| id.group == group).count();
        let is_newest = |id: &PolicyId| !broken.contains(id);
        let conflicting = snapshot.mutators().conflicts().len();
        let mutators = snapshot.mutators().mutators().iter();
        let mutators = mutators.filter(|mutator| is_newest(&PolicyId::from(mutator.id()))).count();
        let cyclic = snapshot.expansions().cyclic().len();
        let expansions = snapshot.expansions().templates().iter();
        let expansions = expansions.filter(|template| is_newest(&template.id())).count();
        self.conflicting.set(saturated(conflicting));
        let with_cel = store
            .templates()
            .filter(|template| template.driver().engine() == templates::CEL_ENGINE);
        self.templates_with_cel.set(saturated(with_cel.count()));
        let templates = store.templates().filter(|template| is_newest(&template.id())).count();
        set_by_health(&self.templates, templates, broken_in(templates::GROUP));
        set_by_health(
            &self.mutators,
            mutators.saturating_sub(conflicting),
            broken_in(mutations::GROUP) + conflicting,
        );
        set_by_health(
            &self.expansion_templates,
            expansions.saturating_sub(cyclic),
            broken_in(expansion::GROUP) + cyclic,
        );
        set_by_health(&self.providers, snapshot.providers().len(), broken_in(externaldata::GROUP));
        self.count_broken_providers(broken);
        self.count_constraints(snapshot, broken);
    }

    fn count_broken_providers(&self, broken: &BTreeSet<PolicyId>) {
        let is_provider = |id: &&PolicyId| id.group == externaldata::GROUP;
        let now: BTreeSet<PolicyId> = broken.iter().filter(is_provider).cloned().collect();
        let mut before = self.broken_providers.lock().unwrap_or_else(PoisonError::into_inner);
        self.provider_errors.inc_by(now.difference(&before).count() as u64);
        *before = now;
    }

    fn count_constraints(&self, snapshot: &Snapshot, broken: &BTreeSet<PolicyId>) {
        let errors = broken.iter().filter(|id| id.group == constraints::GROUP).count();
        let known = EnforcementAction::ALL.map(EnforcementAction::as_str);
        for action in known.into_iter().chain([UNRECOGNIZED]) {
            let active = snapshot.constraints().constraints().filter(|constraint| {
                let name = constraint.enforcement().name().as_str();
                let has_action =
                    if action == UNRECOGNIZED { !known.contains(&name) } else { name == action };
                has_action && !broken.contains(&constraint.id())
            });
            // A constraint that does not load has no action yet.
            let failed = if action == UNRECOGNIZED { errors } else { 0 };
            for (status, count) in [(Health::Active, active.count()), (Health::Error, failed)] {
                let labels = [(ACTIONS.name, action), (STATUS.name, status.as_str())];
                self.constraints.get_or_create(&labels).set(saturated(count));
            }
        }
    }
}

/// Seconds: 1 to 9 ms, 10 to 90 ms, 0.1 to 0.9 s, and 1 to 10 s by halves.
fn request_seconds() -> impl Iterator<Item = f64> {
    let tenths = |unit: f64| (1..10).map(move |count| f64::from(count) / unit);
    let halves = (2..=20).map(|count| f64::from(count) / 2.0);
    tenths(1000.0).chain(tenths(100.0)).chain(tenths(10.0)).chain(halves)
}
