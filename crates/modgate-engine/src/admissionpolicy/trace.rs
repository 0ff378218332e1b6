//! How each policy came to its result: every expression, with what it read.

use modgate_cel::{Arena, CostLimits, Evaluation, Program};
use modgate_value::{Budget, Str, Value};
use serde::Serialize;

use super::{
    AppliedMutation, CompiledBinding, CompiledPolicy, MutationStep, PolicyKind, PolicySet,
    Surroundings,
    compile::environment_of,
    evaluate::{Asked, Scope, input_of},
    matching::{Attributes, resource_of},
    set::Met,
};
use crate::{
    PolicyId, Review,
    constraint::{
        CelInput, ConstraintOutcome, ConstraintTrace, ExpressionTrace, expression_trace,
        shown_value,
    },
    jsonpatch::{self, Op},
};

/// The actions of a MutatingAdmissionPolicy with one binding and one parameter.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MutatingPolicyTrace {
    /// The policy.
    pub policy: PolicyId,
    /// The binding.
    pub binding: Str,
    /// Namespace and name of the parameter, if the binding passes one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub params: Option<String>,
    /// Whether it is the second pass, after others have changed the object.
    pub again: bool,
    /// Its result.
    pub outcome: MutatingOutcome,
    /// Each mutation, in order.
    pub mutations: Vec<MutationTrace>,
}

/// The result of a MutatingAdmissionPolicy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum MutatingOutcome {
    /// A match condition does not hold.
    NoMatch,
    /// The object stays as it is.
    Unchanged,
    /// The object is another one.
    Changed,
    /// A mutation failed.
    Failed,
}

/// The effect of one mutation.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MutationTrace {
    /// `ApplyConfiguration` or `JSONPatch`.
    pub patch_type: &'static str,
    /// Its expression.
    pub expression: Str,
    /// The changes.
    pub changes: Vec<ChangeTrace>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangeTrace {
    /// RFC 6901 pointer.
    pub path: String,
    /// The value before the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// The value after the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

impl MutatingPolicyTrace {
    pub(crate) fn of(step: &MutationStep) -> Self {
        let outcome = match step.mutations.as_slice() {
            [] => MutatingOutcome::NoMatch,
            all if all.iter().any(|it| it.after.is_err()) => MutatingOutcome::Failed,
            _ if step.changed() => MutatingOutcome::Changed,
            _ => MutatingOutcome::Unchanged,
        };
        let named = |(namespace, name): &(Str, Str)| match namespace.as_str() {
            "" => name.to_string(),
            namespace => format!("{namespace}/{name}"),
        };
        Self {
            policy: PolicyKind::Mutating.id(&step.policy),
            binding: step.binding.clone(),
            params: step.param.as_ref().map(named),
            again: step.again,
            outcome,
            mutations: step.mutations.iter().map(MutationTrace::of).collect(),
        }
    }
}

impl MutationTrace {
    fn of(applied: &AppliedMutation) -> Self {
        let AppliedMutation { patch_type, expression, before, after } = applied;
        let changes = match after {
            Err(_) => Vec::new(),
            Ok(after) => jsonpatch::diff_exact(before, after)
                .into_iter()
                .map(|change| ChangeTrace {
                    before: match change.op {
                        Op::Add => None,
                        Op::Replace | Op::Remove => jsonpatch::find(before, &change.path).cloned(),
                    },
                    path: change.path,
                    after: change.value,
                })
                .collect(),
        };
        let error = after.as_ref().err().cloned();
        Self { patch_type, expression: expression.clone(), changes, error }
    }
}

impl PolicySet {
    /// How each ValidatingAdmissionPolicy that matches the request decides, binding by binding and
    /// parameter by parameter. Values are looked at without counting what that costs.
    pub fn explain(
        &self,
        review: &Review,
        surroundings: &Surroundings<'_>,
        budget: &Budget<'_>,
    ) -> Vec<ConstraintTrace> {
        let resource = resource_of(review.request());
        let attributes = Attributes::of(review.request(), &resource);
        let mut traces = Vec::new();
        for met in self.validating.met(&attributes, surroundings) {
            match met {
                Met::Misconfigured { policy, binding, error } => {
                    let mut trace = trace_of(policy, binding);
                    trace.violations.push(error.clone());
                    trace.outcome = ConstraintOutcome::Undecided(error);
                    traces.push(trace);
                }
                Met::Bound { policy, binding, matched, params } => {
                    let input = match input_of(review, &attributes, surroundings, &matched) {
                        Ok(input) => input,
                        Err(error) => {
                            let mut trace = trace_of(policy, Some(binding));
                            trace.outcome = ConstraintOutcome::Undecided(error);
                            traces.push(trace);
                            continue;
                        }
                    };
                    let asked = Asked::of(surroundings, &attributes);
                    for param in &params {
                        let mut trace = trace_of(policy, Some(binding));
                        trace.parameters = param.clone().unwrap_or_default();
                        policy.explain(&input, &asked, param.as_ref(), budget, &mut trace);
                        traces.push(trace);
                    }
                }
            }
        }
        traces
    }
}

fn trace_of(policy: &CompiledPolicy, binding: Option<&CompiledBinding>) -> ConstraintTrace {
    let id = PolicyKind::Validating.id(&policy.base.name);
    let actions = binding.map(|binding| {
        binding.actions.iter().map(|action| action.as_str()).collect::<Vec<_>>().join(", ")
    });
    let origin = binding.map_or_else(String::new, |binding| format!("binding {}", binding.name));
    ConstraintTrace {
        origin,
        position: None,
        template_origin: id.to_string(),
        engine: "CEL",
        action: actions.unwrap_or_default(),
        parameters: Value::Null,
        outcome: ConstraintOutcome::Satisfied,
        violations: Vec::new(),
        expressions: Vec::new(),
        omitted: 0,
        notes: Vec::new(),
        policy: id,
    }
}

impl CompiledPolicy {
    fn explain(
        &self,
        input: &CelInput,
        asked: &Asked<'_>,
        param: Option<&Value>,
        budget: &Budget<'_>,
        trace: &mut ConstraintTrace,
    ) {
        let outcome = self.evaluate(input, asked, param, budget);
        trace.violations = outcome.messages();
        let (none, arena) = (Value::Null, Arena::new());
        let params = param.unwrap_or(&none);
        let scope = Scope {
            input,
            params,
            asked: Some(asked),
            without_namespace: false,
            is_condition: false,
        };
        let variables = &self.base.variables;
        let limits = CostLimits { total: u64::MAX, ..CostLimits::VALIDATIONS };
        let evaluation = Evaluation::new(&scope, variables, &arena, budget, limits);
        let environment = environment_of(true, true);
        let environment = variables.declare(&environment);
        // One evaluation for each value, which ends before its program does.
        let again = |program: &Program| {
            let arena = Arena::new();
            let evaluation = Evaluation::new(&scope, variables, &arena, budget, limits);
            shown_value(program, &evaluation)
        };
        let mut all: Vec<ExpressionTrace> = Vec::new();
        for (index, condition) in self.base.conditions.iter().enumerate() {
            let rule = format!("matchConditions[{index}]");
            all.push(expression_trace(rule, condition, &environment, &evaluation, &again));
        }
        for (index, validation) in self.validations.iter().enumerate() {
            let rule = format!("validations[{index}]");
            let expression = &validation.expression;
            all.push(expression_trace(rule.clone(), expression, &environment, &evaluation, &again));
            if let Some(message) = &validation.message_expression {
                all.push(expression_trace(rule, message, &environment, &evaluation, &again));
            }
        }
        trace.expressions = all;
        let reached = self.base.conditions_hold(
            &Scope {
                input,
                params,
                asked: Some(asked),
                without_namespace: asked.without_namespace,
                is_condition: true,
            },
            &arena,
            budget,
        );
        trace.outcome = match reached {
            Ok(false) => {
                ConstraintOutcome::NotEvaluated("a match condition does not hold".to_owned())
            }
            _ if trace.violations.is_empty() => ConstraintOutcome::Satisfied,
            _ => ConstraintOutcome::Violated,
        };
    }
}
