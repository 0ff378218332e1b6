//! The stages of a request and their order: the only place that knows them.
//!
//! The API server calls all mutating webhooks before the validating ones, and those of one phase by
//! name, hence Gatekeeper's before KubeMod's: mutators, ModRules, then the checks of Gatekeeper's own
//! resources and the constraints, on the object and on what it expands to. Its own policies come
//! before the webhooks of their phase. Each stage sees what the
//! one before leaves; the first that denies or fails ends the run.
//!
//! A webhook, a command and a dry run differ in the [`Stages`] they name and in nothing else.
//! [`Scope`] has the stages a request reaches, [`Decision`] their results, and an [`Observer`]
//! watches: explaining is the same run with one that remembers ([`Trace`]).

mod checks;
mod coverage;
mod dry_run;
mod mutators;
mod observer;
mod plan;
mod policies;
mod resources;
mod scope;
mod stages;

use std::borrow::Cow;

use modgate_api::{config::Process, meta::GroupVersionKind};
use modgate_value::Value;

pub use self::{
    dry_run::{DryRunError, dry_run},
    observer::{NoopObserver, Observer, Trace},
    plan::{Plan, PlannedConstraint, PlannedResultant, Stage},
    resources::lacks_template,
    scope::{Scope, UnsentByDefault},
    stages::Stages,
};
use self::{
    mutators::{Prepared, Unprepared, unfinished},
    resources::check_resource,
    stages::Caller,
};
use crate::{
    Decision, Evaluation, Failure, Host, Review, Skipped, Snapshot, StageReport,
    constraint::Admission,
    gatekeeper::{run_id, subject_namespace},
    modrule,
    review::Origin,
    snapshot::{Expansion, charge},
};

impl Snapshot {
    /// Decides about a request: runs these stages of it, in order, as far as the request reaches them.
    pub fn decide<O: Observer>(
        &self,
        review: &Review,
        stages: Stages,
        evaluation: &mut Evaluation<'_>,
        observer: &mut O,
    ) -> Decision {
        let scope = match stages.caller {
            Caller::Command => Scope::of(review, self.config(), evaluation.host),
            Caller::ApiServer | Caller::Gator => Scope::ALL,
        };
        let mut decision = Decision::unchanged(review.object().cloned().unwrap_or_default());
        decision.reason.clear();
        let given = review;
        let review = Cow::Borrowed(review);
        let mut run = Run { snapshot: self, stages, given, review, evaluation, observer, decision };
        if stages.mutating_policies {
            run.mutating_policies();
        }
        if run.decision.allowed && stages.mutators {
            run.mutators(scope.gatekeeper.clone());
        }
        if run.decision.allowed && stages.runs_modrules() {
            run.modrules(scope.modrules);
        }
        if run.decision.allowed && stages.validating_policies {
            run.validating_policies();
        }
        if run.decision.allowed && stages.validates() {
            run.validate(scope.gatekeeper);
        }
        run.decision
    }
}

/// A run of stages over one request.
struct Run<'r, 'e, O> {
    snapshot: &'r Snapshot,
    stages: Stages,
    /// The request as it came.
    given: &'r Review,
    /// The request as the stages so far leave it.
    review: Cow<'r, Review>,
    evaluation: &'r mut Evaluation<'e>,
    observer: &'r mut O,
    decision: Decision,
}

impl<O: Observer> Run<'_, '_, O> {
    /// Gatekeeper's mutators, until nothing changes (4.4).
    fn mutators(&mut self, reached: Result<(), Skipped>) {
        let Evaluation { host, meter, .. } = *self.evaluation;
        let snapshot = self.snapshot;
        let prepared = match reached {
            Ok(()) if self.stages.caller == Caller::Gator => Prepared::unchecked(&self.review),
            Ok(()) => Prepared::of(&self.review, snapshot, host),
            Err(why) => Err(Unprepared::Skipped(why)),
        };
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(Unprepared::Skipped(why)) => {
                self.decision.skip(&why);
                self.decision.stages.mutators = StageReport::Skipped(why);
                return;
            }
            Err(Unprepared::Failed(failure)) => {
                self.decision.fail(failure);
                self.decision.stages.mutators = StageReport::Denied;
                return;
            }
        };
        let budget = meter.budget(snapshot.config().mutation_limits, host.uptime(), host.clock());
        let run_id = || run_id(host);
        let outside = (host, meter.shard);
        let request = prepared.request(&self.review, snapshot, outside, &budget, &run_id);
        let result = if O::EXPLAINS {
            let explanation = snapshot.mutators().explain(&request);
            let result = explanation.result.clone();
            self.observer.mutators(explanation);
            result
        } else {
            snapshot.mutators().mutate(&request)
        };
        match result {
            Ok(mutated) => {
                self.decision.stages.mutators = StageReport::Done;
                if let Some((patch, object)) = prepared.change(&mutated) {
                    self.decision.patch.extend(patch);
                    self.hand_on(object);
                } else {
                    self.decision.reason = "Resource was not mutated".to_owned();
                }
                self.decision.mutated = Some(mutated);
            }
            Err(error) => {
                self.decision.mutated = unfinished(&error);
                self.decision.fail(Failure::Mutation(error));
                self.decision.stages.mutators = StageReport::Denied;
            }
        }
    }

    /// KubeMod's ModRules: Patch rules by tier, then Reject rules.
    fn modrules(&mut self, reached: Result<(), Skipped>) {
        if let Err(why) = reached {
            self.decision.stages.modrules = StageReport::Skipped(why);
            return;
        }
        let config = self.snapshot.config();
        let outside = (self.evaluation.host, self.evaluation.meter);
        let store = self.snapshot.modrules();
        let is_last = !self.stages.validates() && !self.stages.validating_policies;
        let wants_object = self.evaluation.wants_object || !is_last;
        let decided = if !self.stages.patches {
            modrule::validate(store, config, &self.review, outside)
        } else if O::EXPLAINS {
            let (decision, rules) = modrule::explain(store, config, &self.review, outside);
            self.observer.modrules(rules);
            decision
        } else {
            modrule::mutate(store, config, &self.review, outside, wants_object)
        };
        let changed = wants_object && !decided.patch.is_empty();
        self.decision.add_modrules(decided);
        if changed {
            self.hand_on(self.decision.object.clone());
        }
    }

    /// The object as the next stage sees it.
    fn hand_on(&mut self, object: Value) {
        let stages = self.stages;
        if stages.runs_modrules() || stages.validates() || stages.validating_policies {
            let review = self.review.as_ref().clone();
            self.review = Cow::Owned(review.with_object(object.clone()));
        }
        self.decision.object = object;
    }

    /// Gatekeeper's validating webhook (6.1): the checks of its own resources, then the constraints.
    fn validate(&mut self, reached: Result<(), Skipped>) {
        let calls_webhooks = self.stages.caller == Caller::Command;
        if calls_webhooks && !self.passes_webhooks_without_policies(&reached) {
            return;
        }
        let has_installation = self.stages.caller != Caller::Gator;
        if has_installation && !self.passes_checks(reached) {
            return;
        }
        if let Err(failure) = self.constraints() {
            self.decision.fail(failure);
            self.decision.stages.constraints = StageReport::Denied;
        }
    }

    /// Whether the constraints are to be evaluated once Gatekeeper's own resources are checked.
    fn passes_checks(&mut self, reached: Result<(), Skipped>) -> bool {
        let request = self.review.request();
        let is_own = self.snapshot.config().installation.is_own(&request.user_info);
        if let Err(why) = reached.and(if is_own { Err(Skipped::OwnAccount) } else { Ok(()) }) {
            self.decision.skip(&why);
            self.decision.stages.checks = StageReport::Skipped(why.clone());
            self.decision.stages.constraints = StageReport::Skipped(why);
            return false;
        }
        let may_follow = self.evaluation.templates_may_follow;
        match check_resource(&self.review, self.snapshot, may_follow) {
            Ok(warnings) => {
                self.decision.stages.checks = StageReport::Done;
                self.decision.warn(warnings);
            }
            Err(refusal) => {
                self.decision.deny(refusal.code, refusal.message);
                self.decision.stages.checks = StageReport::Denied;
                let object = self.review.request().object.as_ref();
                let advice = object.map(|object| self.snapshot.advice(object));
                self.decision.warnings.extend(advice.unwrap_or_default());
                return false;
            }
        }
        let exclusions = self.snapshot.exclusions();
        let is_excluded = exclusions.excludes(Process::Webhook, subject_namespace(request));
        if is_excluded {
            self.decision.skip(&Skipped::Excluded);
            self.decision.stages.constraints = StageReport::Skipped(Skipped::Excluded);
        }
        !is_excluded
    }

    /// The constraints, on the object and on what it expands to (GR-5 to GR-9).
    fn constraints(&mut self) -> Result<(), Failure> {
        let (snapshot, stages) = (self.snapshot, self.stages);
        let Evaluation { host, meter, .. } = *self.evaluation;
        let review = self.review.as_ref();
        let namespace = namespace(review, host)?;
        let subject = if stages.as_given { self.given } else { review };
        let hides = review.hides_namespace();
        let admission = match stages.constraints {
            true => {
                Some(admission(subject, namespace.as_ref(), stages.caller)?.hiding_namespace(hides))
            }
            false => None,
        };
        let is_mutated = self.decision.mutated.as_ref().is_some_and(|it| it.object.is_some());
        let generator = generator(snapshot, review, stages, is_mutated).unwrap_or_default();
        let is_request = stages.caller != Caller::Gator;
        let expansion = Expansion {
            object: &generator,
            namespace: namespace.as_ref(),
            operation: is_request.then_some(review.request().operation),
            username: review.username(),
        };
        let resultants = match generator {
            Value::Null => Ok(Vec::new()),
            _ => snapshot.resultants(&expansion, host, meter, O::EXPLAINS),
        };
        let resultants = resultants.map_err(|error| {
            self.decision.stages.expansion = StageReport::Denied;
            Failure::Expansion(error)
        })?;
        self.decision.stages.expansion = StageReport::Done;
        if let Some(admission) = admission {
            let point = stages.point();
            let mut violations = snapshot.review_constraints(&admission, point, self.evaluation);
            self.observer.reviewed(None);
            for (index, resultant) in resultants.iter().enumerate() {
                let admission = expansion.admission(resultant).hiding_namespace(hides);
                let mut implied = snapshot.review_constraints(&admission, point, self.evaluation);
                implied.iter_mut().for_each(|violation| charge(violation, resultant, index));
                violations.append(&mut implied);
                self.observer.reviewed(Some(resultant));
            }
            if O::EXPLAINS {
                let traces = snapshot.explain_admission(&admission, point, self.evaluation);
                self.observer.constraints(traces);
                for resultant in &resultants {
                    let admission = expansion.admission(resultant).hiding_namespace(hides);
                    let traces = snapshot.explain_admission(&admission, point, self.evaluation);
                    self.observer.resultant(resultant, traces);
                }
            }
            self.decision.conclude(violations);
        }
        self.observer.expanded(resultants);
        Ok(())
    }
}

/// The Namespace of the object: the one that came with the review, or the one that the host knows.
fn namespace(review: &Review, host: &dyn Host) -> Result<Option<Value>, Failure> {
    match (review.given_namespace(), review.store_namespace()) {
        (Some(given), _) => Ok(given.clone()),
        (None, "") => Ok(None),
        (None, name) => host.namespace(name).map(Some).map_err(Failure::ConstraintsNamespace),
    }
}

/// The input of the constraints that a command asks about a request, once their decision is known: without a Namespace
/// that cannot be read.
pub(crate) fn constraint_admission(review: &Review, host: &dyn Host) -> Result<Admission, Failure> {
    let namespace = namespace(review, host).unwrap_or_default();
    let admission = admission(review, namespace.as_ref(), Caller::Command)?;
    Ok(admission.hiding_namespace(review.hides_namespace()))
}

/// The input of constraints. gator gives them a request where it was given one, else an object.
fn admission(
    review: &Review,
    namespace: Option<&Value>,
    caller: Caller,
) -> Result<Admission, Failure> {
    if caller == Caller::Gator && review.origin() != Origin::Sent {
        let object = review.object().cloned().unwrap_or_default();
        return Ok(Admission::of_object(object, namespace));
    }
    Admission::of_review(review, namespace)
        .map_err(|error| Failure::Admission { name: review.request().name.clone(), error })
}

/// The input of expansion. gator expands objects, not requests, and mutated ones also where no template
/// applies, which is an error where they have no kind.
fn generator(
    snapshot: &Snapshot,
    review: &Review,
    stages: Stages,
    is_mutated: bool,
) -> Option<Value> {
    if !stages.expansion {
        return None;
    }
    if stages.caller != Caller::Gator {
        return snapshot.generator(review);
    }
    let object = review.object().filter(|_| review.origin() != Origin::Sent)?;
    let kind = GroupVersionKind::of_object(object);
    let expands = is_mutated || !stages.mutators || snapshot.expansions().expands(&kind);
    expands.then(|| object.clone())
}
