//! The stages and policies that would run for a request, in order, with reasons.

use modgate_api::meta::ObjectExt as _;
use modgate_api::{constraints::EnforcementAction, meta::GroupVersionKind};
use modgate_value::{Str, Value};
use serde::Serialize;

use super::observer::Trace;
use crate::{
    Decision, EngineConfig, PolicyId, StageReport,
    admissionpolicy::MutatingPolicyTrace,
    constraint::{ConstraintOutcome, ConstraintTrace},
    expansion::Resultant,
    explain::RuleTrace,
    mutation::MutatorTrace,
};

/// The policies that apply to a request, from the mutators to the constraints.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// MutatingAdmissionPolicies about the object, in order.
    pub mutating_policies: Stage<MutatingPolicyTrace>,
    /// Gatekeeper's mutators, pass by pass.
    pub mutators: Stage<Vec<MutatorTrace>>,
    /// KubeMod's ModRules, in the order in which they are visited, on what the mutators leave.
    pub modrules: Stage<RuleTrace>,
    /// The resultants of the object, in the order in which they are reviewed.
    pub resultants: Stage<PlannedResultant>,
    /// Whether ModRules patched the resultants, too.
    pub expands_with_modrules: bool,
    /// ValidatingAdmissionPolicies that match the object, then the constraints that match it or a
    /// resultant.
    pub constraints: Stage<PlannedConstraint>,
    /// The object after mutators and ModRules.
    #[serde(skip)]
    pub object: Value,
}

/// One stage of a plan.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stage<T> {
    /// The steps, in order.
    pub steps: Vec<T>,
    /// Why nothing runs, or what stops the request here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// Whether the request fails or is denied here.
    pub fails: bool,
}

impl<T> Stage<T> {
    fn of(steps: Vec<T>, (report, reason): (StageReport, &str)) -> Self {
        let stopped = match &report {
            StageReport::NotRun | StageReport::Done => None,
            StageReport::Skipped(why) => Some(why.to_string()),
            StageReport::Denied => Some(reason.to_owned()),
        };
        Self { steps, stopped, fails: report == StageReport::Denied }
    }
}

/// One resultant of a plan.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedResultant {
    /// The template that makes it.
    pub template: Str,
    /// The action for its violations, whatever the constraint says.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "action")]
    pub enforcement_action: Option<EnforcementAction>,
    /// Its kind.
    pub kind: GroupVersionKind,
    /// Its name.
    pub name: Str,
    /// The mutators, pass by pass; empty where there are none.
    pub mutators: Vec<Vec<MutatorTrace>>,
    /// How each constraint decides about it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<ConstraintTrace>,
    /// The resultant.
    pub object: Value,
}

fn action<S: serde::Serializer>(
    action: &Option<EnforcementAction>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    action.map(EnforcementAction::as_str).serialize(serializer)
}

/// One constraint of a plan.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedConstraint {
    /// The constraint.
    pub policy: PolicyId,
    /// Its `enforcementAction`.
    pub action: Str,
    /// The resultant it is evaluated against; absent for the object itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resultant: Option<Str>,
    /// Why it cannot be decided whether it matches, which counts as a violation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl Plan {
    /// The result of a run, stage by stage; a failure or denial ends the plan.
    pub fn of(decision: &Decision, trace: &Trace, config: &EngineConfig) -> Self {
        let constraints = trace.constraints.iter().map(|constraint| (None, constraint));
        let implied = trace.resultants.iter().flat_map(|resultant| {
            let name = Str::from(format!("{} {}", resultant.kind.kind, resultant.name));
            resultant.constraints.iter().map(move |constraint| (Some(name.clone()), constraint))
        });
        let constraints = constraints.chain(implied);
        let constraints = constraints
            .filter_map(|(resultant, trace)| PlannedConstraint::of(resultant, trace))
            .collect();
        let stages = &decision.stages;
        let validating = match (&stages.validating_policies, &stages.checks) {
            (denied @ StageReport::Denied, _) | (_, denied @ StageReport::Denied) => denied,
            _ => &stages.constraints,
        };
        let of = |report: &StageReport| (report.clone(), decision.reason.as_str());
        Self {
            mutating_policies: Stage::of(
                trace.mutating_policies.clone(),
                of(&stages.mutating_policies),
            ),
            mutators: Stage::of(trace.mutators.clone(), of(&stages.mutators)),
            modrules: Stage::of(trace.modrules.clone(), of(&stages.modrules)),
            resultants: Stage::of(trace.resultants.clone(), of(&stages.expansion)),
            expands_with_modrules: config.expand_modrules,
            constraints: Stage::of(constraints, of(validating)),
            object: decision.object.clone(),
        }
    }
}

impl PlannedConstraint {
    /// A constraint that applies to the object, or whose match block cannot be decided.
    fn of(resultant: Option<Str>, trace: &ConstraintTrace) -> Option<Self> {
        let failure = match &trace.outcome {
            ConstraintOutcome::NotEvaluated(_) | ConstraintOutcome::Excluded(_) => return None,
            ConstraintOutcome::Undecided(why) => Some(why.clone()),
            ConstraintOutcome::Satisfied | ConstraintOutcome::Violated => None,
        };
        let action = trace.action.as_str().into();
        Some(Self { policy: trace.policy.clone(), action, resultant, failure })
    }
}

impl PlannedResultant {
    /// A resultant, and how every constraint decides about it: violations and actions as they are
    /// charged to the generator.
    pub(super) fn of(resultant: &Resultant, mut constraints: Vec<ConstraintTrace>) -> Self {
        for trace in &mut constraints {
            for violation in &mut trace.violations {
                *violation = resultant.implied(violation);
            }
            if let Some(action) = resultant.action() {
                trace.action = action.as_str().to_owned();
            }
        }
        let object = resultant.object.clone();
        let name = object.name();
        let mutation = resultant.mutation.as_ref();
        Self {
            template: resultant.template.name().clone(),
            enforcement_action: resultant.action(),
            kind: GroupVersionKind::of_object(&object),
            name: name.into(),
            mutators: mutation.map(|explanation| explanation.passes.clone()).unwrap_or_default(),
            constraints,
            object,
        }
    }
}
