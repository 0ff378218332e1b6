//! The stages of a request and their order: the only place that knows them.
//!
//! The API server calls all mutating webhooks before the validating ones, and those of one phase by
//! name, hence Gatekeeper's before KubeMod's: mutators, ModRules, then the checks of Gatekeeper's own
//! resources and the constraints, on the object and on what it expands to. Each stage sees what the
//! one before leaves; the first that denies or fails ends the run.
//!
//! A webhook, a command and a dry run differ in the [`Stages`] they name and in nothing else.
//! [`Scope`] has the stages a request reaches, [`Decision`] their results, and an [`Observer`]
//! watches: explaining is the same run with one that remembers ([`Trace`]).

mod decision;
mod observer;
mod plan;
mod scope;
mod stages;

use std::borrow::Cow;

use modgate_api::{config::Process, constraints::EnforcementPoint};
use modgate_value::Value;

pub(crate) use self::decision::reason;
pub use self::{
    decision::{
        AdmissionStatus, Decision, FailureKind, MutationStatus, RuleFailure, StageReport,
        StageReports,
    },
    observer::{Observer, Silent, Trace},
    plan::{Plan, PlannedConstraint, PlannedResultant, Stage},
    scope::{Scope, Skipped},
    stages::Stages,
};
use crate::{
    Host, Review, Snapshot,
    constraint::{Admission, Arena, Inventory},
    cost::Meter,
    gatekeeper::{self, check_resource, subject_namespace},
    modrule,
    snapshot::Expansion,
};

/// What a run needs besides the policies.
pub struct Evaluation<'a> {
    /// What policies may ask of the outside.
    pub host: &'a dyn Host,
    /// What policies see as `data.inventory`.
    pub inventory: &'a Inventory,
    /// Memory for one thread to keep; what was in it is forgotten.
    pub arena: &'a mut Arena,
    /// Where costs are counted, and when the answer is due.
    pub meter: Meter<'a>,
    /// Whether constraints may come before their templates: they are taken with a warning, and wait
    /// (AD-34).
    pub templates_may_follow: bool,
}

impl<'a> Evaluation<'a> {
    /// With these, and constraints after their templates.
    pub fn new(host: &'a dyn Host, inventory: &'a Inventory, arena: &'a mut Arena) -> Self {
        let meter = Meter::starting(host);
        Self { host, inventory, arena, meter, templates_may_follow: false }
    }
}

impl Snapshot {
    /// Decides about a request: runs these stages of it, in order, as far as the request reaches them.
    pub fn decide<O: Observer>(
        &self,
        review: &Review,
        stages: Stages,
        evaluation: &mut Evaluation<'_>,
        observer: &mut O,
    ) -> Decision {
        let scope = match stages.as_configured {
            true => Scope::of(review, self.config(), evaluation.host),
            false => Scope::ALL,
        };
        let mut decision = Decision::unchanged(review.object().cloned().unwrap_or_default());
        decision.reason.clear();
        let review = Cow::Borrowed(review);
        let mut run = Run { snapshot: self, stages, review, evaluation, observer, decision };
        if stages.mutators {
            run.mutators(scope.gatekeeper.clone());
        }
        if run.decision.allowed && stages.runs_modrules() {
            run.modrules(scope.modrules);
        }
        if run.decision.allowed && stages.constraints {
            run.constraints(scope.gatekeeper);
        }
        run.decision
    }
}

/// A run of stages over one request.
struct Run<'r, 'e, O> {
    snapshot: &'r Snapshot,
    stages: Stages,
    /// The request as the stages so far leave it.
    review: Cow<'r, Review>,
    evaluation: &'r mut Evaluation<'e>,
    observer: &'r mut O,
    decision: Decision,
}

impl<O: Observer> Run<'_, '_, O> {
    /// Gatekeeper's mutators, until nothing changes (4.4).
    fn mutators(&mut self, reached: Result<(), Skipped>) {
        let (snapshot, host, meter) = (self.snapshot, self.evaluation.host, self.evaluation.meter);
        let prepared = match reached {
            Ok(()) => gatekeeper::Prepared::of(&self.review, snapshot, host),
            Err(why) => Err(gatekeeper::Unprepared::Skipped(why)),
        };
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(gatekeeper::Unprepared::Skipped(why)) => {
                self.decision.skip(&why);
                self.decision.stages.mutators = StageReport::Skipped(why);
                return;
            }
            Err(gatekeeper::Unprepared::Failed { message, undecided }) => {
                self.decision.fail(message, undecided);
                self.decision.stages.mutators = StageReport::Denied;
                return;
            }
        };
        let budget = meter.budget(snapshot.config().mutation_limits, host);
        let run_id = || gatekeeper::run_id(host);
        let request =
            prepared.request(&self.review, snapshot, (host, meter.shard), &budget, &run_id);
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
                    self.decision.patch = patch;
                    self.hand_on(object);
                } else {
                    self.decision.reason = "Resource was not mutated".to_owned();
                }
                self.decision.mutated = Some(mutated);
            }
            Err(error) => {
                self.decision.fail(error.to_string(), false);
                self.decision.stages.mutators = StageReport::Denied;
                self.decision.mutated = gatekeeper::unfinished(error);
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
        let decided = if !self.stages.patches {
            modrule::validate(store, config, &self.review, outside)
        } else if O::EXPLAINS {
            let explanation = modrule::explain(store, config, &self.review, outside);
            self.observer.modrules(explanation.rules);
            explanation.decision
        } else {
            modrule::mutate(store, config, &self.review, outside)
        };
        let changed = !decided.patch.is_empty();
        self.decision.add_modrules(decided);
        if changed {
            self.hand_on(self.decision.object.clone());
        }
    }

    /// The object as the next stage sees it.
    fn hand_on(&mut self, object: Value) {
        if self.stages.runs_modrules() || self.stages.constraints {
            let review = self.review.as_ref().clone();
            self.review = Cow::Owned(review.with_object(object.clone()));
        }
        self.decision.object = object;
    }

    /// Gatekeeper's validating webhook (6.1): the checks of its own resources, then the constraints.
    fn constraints(&mut self, reached: Result<(), Skipped>) {
        let request = self.review.request();
        let is_own = self.snapshot.config().installation.is_own(&request.user_info);
        if let Err(why) = reached.and(if is_own { Err(Skipped::OwnAccount) } else { Ok(()) }) {
            self.decision.skip(&why);
            self.decision.stages.checks = StageReport::Skipped(why.clone());
            self.decision.stages.constraints = StageReport::Skipped(why);
            return;
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
                return;
            }
        }
        let exclusions = self.snapshot.exclusions();
        if exclusions.excludes(Process::Webhook, subject_namespace(request)) {
            self.decision.skip(&Skipped::Excluded);
            self.decision.stages.constraints = StageReport::Skipped(Skipped::Excluded);
            return;
        }
        if let Err(Failed { message, undecided }) = self.ask() {
            self.decision.fail(message, undecided);
            self.decision.stages.constraints = StageReport::Denied;
        }
    }

    /// The constraints about the object and about what it expands to (GR-5 to GR-9).
    fn ask(&mut self) -> Result<(), Failed> {
        let (snapshot, host) = (self.snapshot, self.evaluation.host);
        let review = self.review.as_ref();
        let namespace = match review.store_namespace() {
            "" => None,
            name => Some(host.namespace(name).map_err(|error| Failed {
                message: format!("failed to create augmentedReview: {error}"),
                undecided: true,
            })?),
        };
        let admission =
            Admission::of_review(review, namespace.as_ref()).map_err(|error| Failed {
                message: format!("error reviewing resource {}: {error}", review.request().name),
                undecided: false,
            })?;
        let generator = snapshot.generator(review).unwrap_or_default();
        let user = &review.request().user_info;
        let expansion = Expansion {
            object: &generator,
            namespace: namespace.as_ref(),
            operation: Some(review.request().operation),
            username: user.get("username").and_then(Value::as_str).unwrap_or_default(),
        };
        let resultants = match generator {
            Value::Null => Ok(Vec::new()),
            _ => snapshot.resultants(&expansion, host, self.evaluation.meter, O::EXPLAINS),
        };
        let resultants = resultants.map_err(|error| {
            self.decision.stages.expansion = StageReport::Denied;
            Failed { message: format!("unable to expand object: {error}"), undecided: false }
        })?;
        self.decision.stages.expansion = StageReport::Done;
        let point = EnforcementPoint::Webhook;
        let mut violations = snapshot.ask(&admission, point, self.evaluation);
        let implied = snapshot.ask_resultants(&resultants, &expansion, point, self.evaluation);
        violations.extend(implied);
        if O::EXPLAINS {
            let traces = snapshot.explain_admission(&admission, point, self.evaluation);
            self.observer.constraints(traces);
            for resultant in &resultants {
                let admission = expansion.admission(resultant);
                let traces = snapshot.explain_admission(&admission, point, self.evaluation);
                self.observer.resultant(resultant, traces);
            }
        }
        self.decision.conclude(violations);
        Ok(())
    }
}

/// Why constraints could not be asked.
struct Failed {
    message: String,
    /// Whether the failure is ours, not one of the request or of a policy.
    undecided: bool,
}
