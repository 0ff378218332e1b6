//! Gatekeeper's webhooks: `/v1/admit`, `/v1/admitlabel` and `/v1/mutate`.

use std::{borrow::Cow, cell::RefCell, time::Instant};

use modgate_engine::{
    Decision, Host, Review,
    api::admission::AdmissionResponse,
    constraint::{Arena, Verdict},
    gatekeeper::{self, Answer, Installation, MutationStatus, Outcome, admit_label},
    jsonpatch,
    pipeline::{self, Piped},
};

use super::{
    AdmissionEvents, App, evaluators::EvaluationError, templates::Template, trace, violation,
};
use crate::{export::AdmissionQueue, policies::World};

/// What the webhooks are told by the operator.
#[derive(Debug, Clone, Default)]
pub struct GatekeeperConfig {
    /// Where Gatekeeper runs, and who is exempt from what.
    pub installation: Installation,
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
    /// What a failure of ours is answered with.
    pub on_failure: OnFailure,
}

/// What to answer when a request cannot be decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// A denial with code 500, as Gatekeeper does; the webhook's `failurePolicy` has no say.
    #[default]
    Deny,
    /// HTTP 500, so that the webhook's `failurePolicy` decides.
    FailurePolicy,
}

thread_local! {
    /// Each worker evaluates in memory of its own.
    static ARENA: RefCell<Arena> = RefCell::new(Arena::new());
}

/// What a worker keeps between requests; more is given back.
const KEPT_ARENA_BYTES: usize = 4 << 20;

/// Answers `/v1/admit`; the error is a failure that `failurePolicy` is to decide about.
pub(super) fn admit(
    app: &App,
    review: &Review,
    world: &World,
    host: &dyn Host,
    template: Template,
) -> Result<AdmissionResponse, String> {
    let started = Instant::now();
    let config = &app.gatekeeper;
    let mut installation = Cow::Borrowed(&config.installation);
    if template == Template::Follows {
        installation.to_mut().templates_may_follow = true;
    }
    let Answer { verdict, findings, outcome } = ARENA.with_borrow_mut(|arena| {
        let answer = gatekeeper::admit(
            review,
            &installation,
            &world.snapshot,
            &world.inventory,
            host,
            arena,
        );
        if !world.snapshot.traces().is_empty() {
            trace::record(review, &world.snapshot, &world.inventory, host, arena);
        }
        if arena.allocated_bytes() > KEPT_ARENA_BYTES {
            *arena = Arena::new();
        }
        answer
    });
    app.metrics.validated(outcome, review.request().dry_run, started.elapsed());
    violation::record(review, &verdict, &findings, config.log_denies);
    config.events.emit(review, &findings, &config.installation.namespace);
    if let Some(queue) = &config.export {
        queue.push(review, &findings);
    }
    if let Some(statistics) = host.statistics().filter(|statistics| !statistics.is_empty()) {
        violation::statistics(review, statistics);
    }
    if outcome == Outcome::Error && config.on_failure == OnFailure::FailurePolicy {
        return Err(verdict.message);
    }
    Ok(response(verdict))
}

/// Answers `/v1/admitlabel`.
pub(super) fn label(app: &App, review: &Review) -> AdmissionResponse {
    response(admit_label(review.request(), &app.gatekeeper.installation.exempt))
}

/// Answers `/v1/mutate`; the error is a failure that `failurePolicy` is to decide about.
pub(super) fn mutate(
    app: &App,
    review: &Review,
    world: &World,
    host: &dyn Host,
) -> Result<AdmissionResponse, String> {
    let started = Instant::now();
    let config = &app.gatekeeper;
    let answer = gatekeeper::mutate(review, &config.installation, &world.snapshot, host);
    let iterations = answer.mutated.as_ref().map(|mutated| mutated.iterations);
    app.metrics.mutated(answer.status, iterations, started.elapsed());
    violation::mutation(review, &answer, config.log_mutations);
    if answer.status == MutationStatus::Error && config.on_failure == OnFailure::FailurePolicy {
        return Err(answer.message);
    }
    Ok(AdmissionResponse {
        allowed: answer.allowed,
        code: answer.code,
        message: answer.message,
        patch: (!answer.patch.is_empty()).then(|| jsonpatch::to_value(&answer.patch).to_json()),
        ..AdmissionResponse::default()
    })
}

/// Answers `/mutate` where it stands for both originals: mutators first, then ModRules.
pub(super) fn mutate_with_both(
    app: &App,
    review: &Review,
    world: &World,
    host: &dyn Host,
) -> Decision {
    let started = Instant::now();
    let config = &app.gatekeeper;
    let Piped { decision, mutation } =
        pipeline::mutate(review, &config.installation, &world.snapshot, host);
    if let Some(mutation) = &mutation {
        let iterations = mutation.mutated.as_ref().map(|mutated| mutated.iterations);
        app.metrics.mutated(mutation.status, iterations, started.elapsed());
        violation::mutation(review, mutation, config.log_mutations);
    }
    decision
}

/// What the original says when an evaluation gave no result (GR-4, SV-3).
pub(super) fn failure(error: &EvaluationError) -> String {
    match error {
        EvaluationError::Busy(_) => "serving context canceled, aborting request".to_owned(),
        EvaluationError::Panicked => format!("panic: {error} [recovered]"),
    }
}

fn response(verdict: Verdict) -> AdmissionResponse {
    let Verdict { allowed, code, reason, message, warnings } = verdict;
    AdmissionResponse {
        allowed,
        code,
        reason: reason.to_owned(),
        message,
        warnings,
        ..AdmissionResponse::default()
    }
}
