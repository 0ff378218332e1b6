//! What would run for a request, in which order, and why.

use modgate_api::{
    constraints::{EnforcementAction, EnforcementPoint},
    meta::GroupVersionKind,
};
use modgate_value::{Str, Value};
use serde::Serialize;

use super::{Expansion, Snapshot};
use crate::{
    Host, PolicyId, Review,
    constraint::{Admission, Arena, ConstraintTrace, Inventory},
    expansion::{Resultant, implied},
    explain::RuleTrace,
    gatekeeper::{Installation, Mutation, explain_mutation},
    matching::Source,
    mutation::MutatorTrace,
    pipeline::Reach,
};

/// What policies have to do with a request, from the mutators to the constraints.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Gatekeeper's mutators, pass by pass.
    pub mutators: Stage<Vec<MutatorTrace>>,
    /// KubeMod's ModRules, in the order in which they are visited, on what the mutators leave.
    pub modrules: Stage<RuleTrace>,
    /// What the object expands to, in the order in which it is reviewed.
    pub resultants: Stage<PlannedResultant>,
    /// Whether ModRules patched the resultants, too.
    pub expands_with_modrules: bool,
    /// The constraints that match the object or a resultant.
    pub constraints: Stage<PlannedConstraint>,
    /// The object after mutators and ModRules.
    #[serde(skip)]
    pub object: Value,
}

/// One stage of a plan.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stage<T> {
    /// What runs, in order.
    pub steps: Vec<T>,
    /// Why nothing runs, or what stops the request here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// Whether the request fails or is denied here.
    pub fails: bool,
}

impl<T> Stage<T> {
    fn of(steps: Vec<T>) -> Self {
        Self { steps, stopped: None, fails: false }
    }

    fn skipped(why: impl ToString) -> Self {
        Self { steps: Vec::new(), stopped: Some(why.to_string()), fails: false }
    }

    fn failed(why: impl ToString) -> Self {
        Self { fails: true, ..Self::skipped(why) }
    }
}

/// One resultant of a plan.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedResultant {
    /// The template that makes it.
    pub template: Str,
    /// What its violations lead to, whatever the constraint says.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "action")]
    pub enforcement_action: Option<EnforcementAction>,
    /// What it is.
    pub kind: GroupVersionKind,
    /// Its name.
    pub name: Str,
    /// The mutators, pass by pass; empty where there are none.
    pub mutators: Vec<Vec<MutatorTrace>>,
    /// How each constraint decides about it, once [`Snapshot::explain_resultants`] was asked.
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
    /// The resultant it is asked about; absent for the object itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resultant: Option<Str>,
    /// Why it cannot be decided whether it matches, which counts as a violation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl Snapshot {
    /// What policies have to do with a request, stage by stage: mutators, ModRules, expansion,
    /// constraints. Each stage sees what the one before leaves; what fails or denies a request ends
    /// the plan there.
    pub fn plan(
        &self,
        review: &Review,
        installation: &Installation,
        inventory: &Inventory,
        host: &dyn Host,
    ) -> Plan {
        let reach = Reach::of(review, installation, self.config(), host);
        let mut plan = Plan {
            mutators: Stage::of(Vec::new()),
            modrules: Stage::of(Vec::new()),
            resultants: Stage::of(Vec::new()),
            expands_with_modrules: self.config().expand_modrules,
            constraints: Stage::of(Vec::new()),
            object: review.object().cloned().unwrap_or_default(),
        };
        let mut review = review.clone();
        plan.mutators = match reach.mutators {
            Err(why) => Stage::skipped(why),
            Ok(()) => {
                let (answer, explanation) = explain_mutation(&review, installation, self, host);
                let Mutation { allowed, message, object, .. } = answer;
                if let Some(object) = object {
                    review = review.with_object(object.clone());
                    plan.object = object;
                }
                match explanation {
                    None if allowed => Stage::skipped(message),
                    None => Stage::failed(message),
                    Some(explanation) if allowed => Stage::of(explanation.passes),
                    Some(explanation) => {
                        Stage { steps: explanation.passes, ..Stage::failed(message) }
                    }
                }
            }
        };
        if plan.mutators.fails {
            return plan;
        }
        plan.modrules = match reach.modrules {
            Err(why) => Stage::skipped(why),
            Ok(()) => {
                let explanation = self.explain(&review, host);
                let decision = explanation.decision;
                let mut stage = Stage::of(explanation.rules);
                if decision.allowed {
                    review = review.with_object(decision.object.clone());
                    plan.object = decision.object;
                } else {
                    stage.stopped = Some(decision.reason);
                    stage.fails = true;
                }
                stage
            }
        };
        if plan.modrules.fails {
            return plan;
        }
        let namespace = match review.store_namespace() {
            "" => None,
            name => host.namespace(name).ok(),
        };
        let generator = Self::generator(&review).unwrap_or_default();
        let user = &review.request().user_info;
        let expansion = Expansion {
            object: &generator,
            namespace: namespace.as_ref(),
            operation: Some(review.request().operation),
            username: user.get("username").and_then(Value::as_str).unwrap_or_default(),
        };
        let resultants = match generator {
            Value::Null => Ok(Vec::new()),
            _ => self.explain_expansion(&expansion, host),
        };
        let resultants = match resultants {
            Ok(resultants) => resultants,
            Err(error) => {
                plan.resultants = Stage::failed(format!("unable to expand object: {error}"));
                return plan;
            }
        };
        plan.resultants = Stage::of(resultants.iter().map(planned).collect());
        plan.constraints = match Admission::of_review(&review, namespace.as_ref()) {
            Err(error) => Stage::failed(error),
            Ok(admission) => {
                let mut steps = self.matching(&admission, None, inventory);
                for (resultant, planned) in resultants.iter().zip(&plan.resultants.steps) {
                    let admission =
                        Admission::of_object(resultant.object.clone(), namespace.as_ref())
                            .with_source(Some(Source::Generated))
                            .with_operation(expansion.operation);
                    let name = format!("{} {}", planned.kind.kind, planned.name);
                    let found = self.matching(&admission, Some(name.into()), inventory);
                    steps.extend(found.into_iter().map(|step| match resultant.action() {
                        Some(action) => {
                            PlannedConstraint { action: action.as_str().into(), ..step }
                        }
                        None => step,
                    }));
                }
                Stage::of(steps)
            }
        };
        plan
    }

    /// How every constraint decides about each resultant of a plan for a request, as
    /// [`Snapshot::admit`] asks them: violations and actions as they are charged to the object.
    pub fn explain_resultants(
        &self,
        plan: &mut Plan,
        review: &Review,
        inventory: &Inventory,
        host: &dyn Host,
        arena: &mut Arena,
    ) {
        let namespace = match review.store_namespace() {
            "" => None,
            name => host.namespace(name).ok(),
        };
        for resultant in &mut plan.resultants.steps {
            let admission = Admission::of_object(resultant.object.clone(), namespace.as_ref())
                .with_source(Some(Source::Generated))
                .with_operation(Some(review.request().operation));
            let mut traces = self.explain_admission(&admission, inventory, host, arena);
            for trace in &mut traces {
                for violation in &mut trace.violations {
                    *violation = implied(&resultant.template, violation);
                }
                if let Some(action) = resultant.enforcement_action {
                    trace.action = action.as_str().to_owned();
                }
            }
            resultant.constraints = traces;
        }
    }

    /// The constraints that the webhook asks about an object.
    fn matching(
        &self,
        admission: &Admission,
        resultant: Option<Str>,
        inventory: &Inventory,
    ) -> Vec<PlannedConstraint> {
        let asked = self.constraints.constraints().filter(|constraint| {
            constraint.template().covers(admission.operation())
                && constraint.enforcement().at(EnforcementPoint::Webhook).is_some()
        });
        asked
            .filter_map(|constraint| {
                let failure = match constraint.matches(admission, inventory) {
                    Ok(false) => return None,
                    Ok(true) => None,
                    Err(error) => Some(error),
                };
                Some(PlannedConstraint {
                    policy: constraint.id(),
                    action: constraint.enforcement().name().clone(),
                    resultant: resultant.clone(),
                    failure,
                })
            })
            .collect()
    }
}

fn planned(resultant: &Resultant) -> PlannedResultant {
    let object = resultant.object.clone();
    let name = object.path(&["metadata", "name"]).and_then(Value::as_str).unwrap_or_default();
    PlannedResultant {
        template: resultant.template.name().clone(),
        enforcement_action: resultant.action(),
        kind: GroupVersionKind::of_object(&object),
        name: name.into(),
        mutators: resultant
            .mutation
            .as_ref()
            .map(|explanation| explanation.passes.clone())
            .unwrap_or_default(),
        constraints: Vec::new(),
        object,
    }
}
