//! Runs the stages of a webhook, and records what those of Gatekeeper came to.

use std::{cell::RefCell, time::Duration};

use modgate_engine::{
    Decision, Evaluation, Host, NoopObserver, Review, StageReport, Stages, Trace,
    constraint::Arena, cost::Meter,
};
use modgate_export::AdmissionQueue;
use modgate_policies::PolicySet;

use super::{
    AdmissionEvents, App, evaluators::EvaluationError, templates::Template, trace, violation,
};

/// What the webhooks are told by the operator.
#[derive(Debug, Clone, Default)]
pub struct GatekeeperConfig {
    /// Whether every violation is logged (`--log-denies`).
    pub log_denies: bool,
    /// Whether it is logged what each constraint of a request took (`--log-stats-admission`).
    pub log_stats: bool,
    /// Which violations become Events.
    pub events: AdmissionEvents,
    /// Where violations are exported to; given by the server.
    pub export: Option<AdmissionQueue>,
    /// Whether every mutation is logged (`--log-mutations`).
    pub log_mutations: bool,
    /// Whether `/mutate` asks Gatekeeper's mutators before ModRules (`--unified-mutate`).
    pub unified_mutate: bool,
    /// What a failure of ours is answered with, by every webhook.
    pub on_failure: OnFailure,
    /// What `/validate` does about objects that Reject rules refuse (KM-5.4).
    pub late_rejections: LateRejections,
}

/// What becomes of an object that Reject rules refuse in the validating phase, after every mutating
/// webhook (KM-5.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LateRejections {
    /// No rule is asked.
    Off,
    /// It is admitted with a warning, a log line and a count: the chart's default.
    Warn,
    /// It is denied.
    #[default]
    Deny,
}

/// What to answer when the request is not decided for a failure of ours: no turn in time, a panic, or
/// a cluster that does not answer. It is the same for every webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// HTTP 500, so that the webhook's `failurePolicy` decides.
    #[default]
    FailurePolicy,
    /// A denial with code 500, as Gatekeeper answers; the webhook's `failurePolicy` has no say.
    Deny,
    /// The request goes on unchecked with a warning, as KubeMod lets it.
    Allow,
}

thread_local! {
    /// Each worker evaluates in memory of its own.
    static ARENA: RefCell<Arena> = RefCell::new(Arena::new());
}

/// What a worker keeps between requests; more is given back.
const KEPT_ARENA_BYTES: usize = 4 << 20;

/// What a request is evaluated with.
#[derive(Clone, Copy)]
pub(super) struct Conditions<'a> {
    pub(super) world: &'a PolicySet,
    pub(super) host: &'a dyn Host,
    pub(super) meter: Meter<'a>,
    /// Whether the template of a constraint may come later.
    pub(super) template: Template,
}

/// Runs the stages of a webhook.
pub(super) fn decide(review: &Review, stages: Stages, conditions: Conditions<'_>) -> Decision {
    let Conditions { world, host, meter, template } = conditions;
    ARENA.with_borrow_mut(|arena| {
        let mut evaluation = Evaluation::new(host, &world.inventory, arena);
        evaluation.meter = meter;
        evaluation.templates_may_follow = template == Template::Follows;
        let is_traced = stages == Stages::CONSTRAINTS && trace::is_wanted(review, &world.snapshot);
        let decision = if is_traced {
            let mut trace = Trace::default();
            let decision = world.snapshot.decide(review, stages, &mut evaluation, &mut trace);
            trace::record(review, &world.snapshot, &decision, &trace);
            decision
        } else {
            world.snapshot.decide(review, stages, &mut evaluation, &mut NoopObserver)
        };
        if arena.allocated_bytes() > KEPT_ARENA_BYTES {
            *arena = Arena::new();
        }
        decision
    })
}

/// Counts, logs and exports what the stages of Gatekeeper came to.
pub(super) fn record(
    app: &App,
    review: &Review,
    decision: &Decision,
    Conditions { world, meter, .. }: Conditions<'_>,
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
    config.events.emit(review, violations, &world.snapshot.config().installation.namespace);
    if let Some(queue) = &config.export {
        queue.push(review, violations);
    }
    if let Some(statistics) = meter.statistics.filter(|statistics| !statistics.is_empty()) {
        violation::statistics(review, statistics);
    }
}

/// What the original says when an evaluation gave no result (GR-4, SV-3).
pub(super) fn failure(error: &EvaluationError) -> String {
    match error {
        EvaluationError::Busy(_) => "serving context canceled, aborting request".to_owned(),
        EvaluationError::Panicked => format!("panic: {error} [recovered]"),
    }
}
