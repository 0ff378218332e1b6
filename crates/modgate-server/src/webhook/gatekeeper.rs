//! Runs the stages of a webhook, and records the results of Gatekeeper's stages.

use std::{cell::RefCell, sync::Arc, time::Duration};

use modgate_engine::{
    Decision, Evaluation, Host, NoopObserver, Review, StageReport, Stages, Trace,
    constraint::Arena, cost::Meter,
};
use modgate_export::AdmissionQueue;
use modgate_policies::PolicySet;

use super::{
    AdmissionEvents, App, evaluators::EvaluationError, templates::Template, trace, violation,
};

/// Settings of Gatekeeper's webhooks.
#[derive(Debug, Clone, Default)]
pub struct GatekeeperConfig {
    /// Whether every violation is logged (`--log-denies`).
    pub log_denies: bool,
    /// Whether to log the cost of each constraint per request (`--log-stats-admission`).
    pub log_stats: bool,
    /// Which violations become Events.
    pub events: AdmissionEvents,
    /// The queue for exported violations; the server sets it.
    pub export: Option<AdmissionQueue>,
    /// Whether every mutation is logged (`--log-mutations`).
    pub log_mutations: bool,
    /// Whether `/mutate` runs Gatekeeper's mutators before ModRules (`--unified-mutate`).
    pub unified_mutate: bool,
    /// The answer of every webhook if modgate itself fails.
    pub on_failure: OnFailure,
    /// How `/validate` treats objects that Reject rules reject (KM-5.4).
    pub late_rejections: LateRejections,
}

/// How to treat an object that Reject rules reject in the validating phase, after all mutating
/// webhooks (KM-5.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LateRejections {
    /// No rule runs in the validating phase.
    Off,
    /// It is admitted with a warning, a log line and a count: the chart's default.
    Warn,
    /// It is denied.
    #[default]
    Deny,
}

/// The answer if modgate itself fails to decide a request: no slot in time, a panic, or a cluster
/// that does not answer. It applies to every webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// HTTP 500, so that the webhook's `failurePolicy` decides.
    #[default]
    FailurePolicy,
    /// A denial with code 500, as Gatekeeper answers, regardless of the webhook's `failurePolicy`.
    Deny,
    /// Admission of the unchecked request with a warning, as in KubeMod.
    Allow,
}

thread_local! {
    /// Each worker has its own arena.
    static ARENA: RefCell<Arena> = RefCell::new(Arena::new());
}

/// Bytes that a worker keeps between requests; it frees the rest.
const KEPT_ARENA_BYTES: usize = 4 << 20;

/// The policies and limits for the evaluation of a request.
#[derive(Clone, Copy)]
pub(super) struct Conditions<'a> {
    pub(super) policies: &'a Arc<PolicySet>,
    pub(super) host: &'a dyn Host,
    pub(super) meter: Meter<'a>,
    /// State of the template, if the request is a constraint.
    pub(super) template: Template,
    /// Bytes of the request.
    pub(super) bytes: usize,
    /// How long it waited for its slot.
    pub(super) waited: Duration,
    /// Whether its decision may be recorded or compared: the answer has no object.
    pub(super) is_recorded: bool,
}

/// Runs the stages of a webhook.
pub(super) fn decide(review: &Review, stages: Stages, conditions: Conditions<'_>) -> Decision {
    let Conditions { policies, host, meter, template, is_recorded, .. } = conditions;
    ARENA.with_borrow_mut(|arena| {
        let mut evaluation = Evaluation::new(host, &policies.inventory, arena);
        evaluation.meter = meter;
        evaluation.templates_may_follow = template == Template::Follows;
        evaluation.wants_object = is_recorded;
        let is_traced =
            stages == Stages::CONSTRAINTS && trace::is_wanted(review, &policies.snapshot);
        let decision = if is_traced {
            let mut trace = Trace::default();
            let decision = policies.snapshot.decide(review, stages, &mut evaluation, &mut trace);
            trace::record(review, &policies.snapshot, &decision, &trace);
            decision
        } else {
            policies.snapshot.decide(review, stages, &mut evaluation, &mut NoopObserver)
        };
        if arena.allocated_bytes() > KEPT_ARENA_BYTES {
            *arena = Arena::new();
        }
        decision
    })
}

/// Counts, logs and exports the results of Gatekeeper's stages.
pub(super) fn record(
    app: &App,
    review: &Review,
    decision: &Decision,
    Conditions { policies, meter, .. }: Conditions<'_>,
    took: Duration,
) {
    let config = &app.gatekeeper;
    if let Some(status) = decision.mutation_status() {
        let iterations = decision.mutated.as_ref().map(|mutated| mutated.iterations);
        app.metrics.mutated(status, iterations, took);
    }
    violation::mutation(review, decision, config.log_mutations);
    if decision.stages.checks == StageReport::NotRun {
        return;
    }
    if let Some(status) = decision.admission_status() {
        app.metrics.validated(status, review.request().dry_run, took);
    }
    violation::record(review, decision, config.log_denies);
    let violations = &decision.violations;
    // Others read these. A request that no API server sends has an answer, and nothing else.
    match review.request().implausible() {
        None => {
            let namespace = &policies.snapshot.config().installation.namespace;
            config.events.emit(review, violations, namespace);
            if let Some(queue) = &config.export {
                queue.push(review, violations);
            }
        }
        Some(why) => tracing::debug!(
            target: "webhook",
            why,
            "request uid" = %review.request().uid,
            "no API server sends such a request, so it causes no Events and no exports"
        ),
    }
    if let Some(statistics) = meter.statistics.filter(|statistics| !statistics.is_empty()) {
        violation::statistics(review, statistics);
    }
}

/// The original's message for an evaluation without a result (GR-4, SV-3).
pub(super) fn failure(error: &EvaluationError) -> String {
    match error {
        EvaluationError::Busy(_) | EvaluationError::Full => {
            "serving context canceled, aborting request".to_owned()
        }
        EvaluationError::Panicked => format!("panic: {error} [recovered]"),
    }
}
