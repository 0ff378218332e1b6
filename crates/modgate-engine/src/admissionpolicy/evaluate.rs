//! Policies and bindings against one request
//! (`apiserver/pkg/admission/plugin/policy/validating/{dispatcher,validator}.go`).

use std::{collections::BTreeMap, time::Duration};

use modgate_api::templates::FailurePolicy;
use modgate_cel::{
    Action, Activation, Arena, Authorization, CostLimits, EvalError, Evaluation, Opaque, Val,
};
use modgate_value::{Budget, Str, Value};

use super::{
    CompiledBinding, CompiledPolicy, Denial, Matched, PolicyDecision, PolicyKind, PolicySet,
    Reason, Surroundings, ValidationAction,
    compile::{Base, Validation},
    convert,
    matching::{Attributes, is_namespaces, resource_of, with_name_label},
    set::Met,
};
use crate::{
    Review,
    constraint::{CelInput, ExpressionFailure, usable_message},
    cost::{Cost, Meter},
};

/// Longer values of audit annotations are cut.
const MAX_AUDIT_ANNOTATION: usize = 10 * 1024;

/// The annotation that `validationActions: [Audit]` adds.
const VALIDATION_FAILURE: &str = "validation.policy.admission.k8s.io/validation_failure";

/// The inputs of one evaluation.
pub(super) struct Scope<'a> {
    pub(super) input: &'a CelInput,
    pub(super) params: &'a Value,
    /// `None` where expressions may not ask.
    pub(super) asked: Option<&'a Asked<'a>>,
    /// Match conditions see no Namespace.
    pub(super) without_namespace: bool,
    /// Whether a match condition is evaluated.
    pub(super) is_condition: bool,
}

impl Activation for Scope<'_> {
    fn variable<'a>(&'a self, name: &str) -> Option<Val<'a>> {
        match name {
            "params" => Some(Val::json(self.params)),
            "authorizer" => self.asked.map(|Asked { values: [own, _], .. }| Val::Opaque(own)),
            "authorizer.requestResource" => {
                self.asked.map(|Asked { values: [_, own], .. }| Val::Opaque(own))
            }
            "namespaceObject" if self.without_namespace => Some(Val::Null),
            "request" if self.is_condition => Some(Val::json(self.input.condition_request())),
            name => self.input.member(name).map(Val::json),
        }
    }
}

/// The result of one evaluation of a policy, before its binding's actions.
pub(super) struct PolicyResult {
    /// Validations that failed, with their positions.
    pub(super) failed: Vec<Failed>,
    annotations: Vec<(Str, String)>,
    /// Errors of audit annotations: they deny whatever the binding's actions are.
    pub(super) annotation_errors: Vec<String>,
}

pub(super) struct Failed {
    index: usize,
    /// The position in `spec.validations`, unless the policy failed as a whole.
    pub(super) validation: Option<usize>,
    pub(super) reason: Reason,
    pub(super) message: String,
}

impl PolicySet {
    /// Decides a request by the policies that validate.
    ///
    /// # Errors
    ///
    /// When a Namespace that is needed cannot be read: the API server fails the request then.
    pub fn validate(
        &self,
        review: &Review,
        surroundings: &Surroundings<'_>,
        budget: &Budget<'_>,
    ) -> Result<PolicyDecision, String> {
        let resource = resource_of(review.request());
        let attributes = Attributes::of(review.request(), &resource);
        let mut decision = PolicyDecision::default();
        let mut annotations: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for met in self.validating.met(&attributes, surroundings) {
            let (policy, binding, matched, params) = match met {
                Met::Bound { policy, binding, matched, params } => {
                    (policy, binding, matched, params)
                }
                Met::Misconfigured { policy, binding, error } => {
                    decision.denials.extend(policy.misconfigured(binding, &error));
                    continue;
                }
            };
            let input = input_of(review, &attributes, surroundings, &matched)?;
            decision.evaluated += 1;
            let asked = Asked::of(surroundings, &attributes);
            for param in &params {
                let meter = surroundings.meter;
                let outcome = policy.metered(&input, &asked, param.as_ref(), budget, meter);
                act(policy, binding, outcome, &mut annotations, &mut decision);
            }
        }
        for (key, values) in annotations {
            decision.annotate(key, values.join(", "));
        }
        decision.cut_warnings();
        Ok(decision)
    }
}

/// The spent part of a budget at one moment.
pub(super) struct Spent {
    time: Duration,
    steps: u64,
    bytes: u64,
}

impl Spent {
    pub(super) fn of(budget: &Budget<'_>) -> Self {
        let (steps, bytes) = (budget.steps_spent(), budget.bytes_spent());
        Self { time: budget.now(), steps, bytes }
    }

    /// One evaluation that began then.
    pub(super) fn until_now(&self, budget: &Budget<'_>) -> Cost {
        Cost {
            evaluations: 1,
            time: budget.now().saturating_sub(self.time),
            steps: budget.steps_spent().saturating_sub(self.steps),
            bytes: budget.bytes_spent().saturating_sub(self.bytes),
        }
    }
}

fn is_core_namespace(attributes: &Attributes<'_>) -> bool {
    let kind = attributes.kind;
    kind.group.is_empty() && kind.version == "v1" && kind.kind == "Namespace"
}

/// The values of `authorizer` and `authorizer.requestResource`.
pub(super) struct Asked<'a> {
    values: [Opaque<'a>; 2],
    /// Whether match conditions see no Namespace.
    pub(super) without_namespace: bool,
}

impl<'a> Asked<'a> {
    pub(super) fn of(surroundings: &Surroundings<'a>, attributes: &Attributes<'a>) -> Self {
        let authorizer = surroundings.authorizer;
        let (user, user_info) = (attributes.user, Some(attributes.user_info));
        let resource = Action {
            user,
            user_info,
            group: &attributes.resource.group,
            resource: &attributes.resource.resource,
            subresource: attributes.sub_resource,
            namespace: attributes.namespace,
            name: attributes.name,
            ..Action::default()
        };
        let values = [
            Authorization::of(authorizer, user, user_info),
            Authorization::of_resource(authorizer, resource),
        ];
        let without_namespace = !surroundings.conditions_see_namespace;
        Self { values: values.map(Opaque::Authorization), without_namespace }
    }
}

/// The input of expressions; in another version of the resource where the policy's rules name one.
pub(super) fn input_of(
    review: &Review,
    attributes: &Attributes<'_>,
    surroundings: &Surroundings<'_>,
    matched: &Matched,
) -> Result<CelInput, String> {
    let namespace = match is_core_namespace(attributes) {
        true => None,
        false => (surroundings.namespace)()?.map(with_name_label),
    };
    let mut input = CelInput::of(review.sent(), namespace.as_ref());
    input.complete(&attributes.resource.resource);
    if !is_namespaces(attributes.resource) {
        input.place(attributes.namespace);
    }
    if let Matched::InVersion { group, version } = matched {
        input.convert_to(group, version, &|object| convert::converted(object, group, version));
    }
    Ok(input)
}

impl CompiledPolicy {
    /// A configuration error denies under `failurePolicy: Fail`, whatever the actions are.
    pub(super) fn misconfigured(
        &self,
        binding: Option<&CompiledBinding>,
        error: &str,
    ) -> Option<Denial> {
        let part = if binding.is_some() { "binding" } else { "policy" };
        (self.base.failure_policy == FailurePolicy::Fail).then(|| Denial {
            kind: PolicyKind::Validating,
            policy: self.base.name.clone(),
            binding: binding.map(|binding| binding.name.clone()),
            validation: None,
            reason: Reason::Invalid,
            message: format!("failed to configure {part}: {error}"),
        })
    }

    /// As [`evaluate`](Self::evaluate), and its cost is counted.
    pub(super) fn metered(
        &self,
        input: &CelInput,
        asked: &Asked<'_>,
        param: Option<&Value>,
        budget: &Budget<'_>,
        meter: Meter<'_>,
    ) -> PolicyResult {
        let spent = Spent::of(budget);
        let outcome = self.evaluate(input, asked, param, budget);
        self.base.usage.add(meter.shard, spent.until_now(budget));
        outcome
    }

    pub(super) fn evaluate(
        &self,
        input: &CelInput,
        asked: &Asked<'_>,
        param: Option<&Value>,
        budget: &Budget<'_>,
    ) -> PolicyResult {
        let none = Value::Null;
        let params = param.unwrap_or(&none);
        let arena = Arena::new();
        let without_namespace = asked.without_namespace;
        let asked = Some(asked);
        match self.base.conditions_hold(
            &Scope { input, params, asked, without_namespace, is_condition: true },
            &arena,
            budget,
        ) {
            Ok(true) => {}
            Ok(false) => return PolicyResult::nothing(),
            Err(message) => return self.failed_as_a_whole(message),
        }
        let variables = &self.base.variables;
        let scope = Scope { input, params, asked, without_namespace: false, is_condition: false };
        let limits = CostLimits::VALIDATIONS;
        let evaluation = Evaluation::new(&scope, variables, &arena, budget, limits);
        let mut results = Vec::with_capacity(self.validations.len());
        for validation in &self.validations {
            match validation.expression.holds(&evaluation) {
                Err(ExpressionFailure::OutOfBudget(message)) => {
                    return self.failed_as_a_whole(message);
                }
                Err(ExpressionFailure::Error(message)) => results.push(Err(message)),
                Ok(holds) => results.push(Ok(holds)),
            }
        }
        let left = CostLimits { total: evaluation.remaining(), ..limits };
        let silent =
            Scope { input, params, asked: None, without_namespace: false, is_condition: false };
        let messages = Evaluation::new(&silent, variables, &arena, budget, left);
        let failed = self.failures(results, &messages);
        let mut outcome = PolicyResult { failed, ..PolicyResult::nothing() };
        let evaluation = Evaluation::new(&silent, variables, &arena, budget, limits);
        match self.annotate(&evaluation, &mut outcome) {
            Ok(()) => outcome,
            Err(message) => self.failed_as_a_whole(message),
        }
    }

    fn failed_as_a_whole(&self, message: String) -> PolicyResult {
        let failed = match self.base.failure_policy {
            FailurePolicy::Ignore => Vec::new(),
            FailurePolicy::Fail => {
                vec![Failed { index: 0, validation: None, reason: Reason::Invalid, message }]
            }
        };
        PolicyResult { failed, ..PolicyResult::nothing() }
    }

    /// The validations that deny. Every message expression is evaluated, those of validations that
    /// hold too: what they cost counts.
    fn failures<'a>(
        &'a self,
        results: Vec<Result<bool, String>>,
        messages: &Evaluation<'a>,
    ) -> Vec<Failed> {
        let mut made: Vec<Option<String>> = Vec::with_capacity(results.len());
        let mut out_of_budget = None;
        for validation in &self.validations {
            match validation.made_message(messages) {
                Ok(message) => made.push(message),
                Err(error) => {
                    out_of_budget = Some(format!("failed messageExpression: {error}"));
                    break;
                }
            }
        }
        let fails = self.base.failure_policy == FailurePolicy::Fail;
        let mut failed = Vec::new();
        for (index, (validation, result)) in self.validations.iter().zip(results).enumerate() {
            let (reason, message) = match (result, &out_of_budget) {
                (Err(error), _) if fails => (Reason::Invalid, error),
                (Ok(_), Some(error)) if fails => (Reason::Invalid, error.clone()),
                (Err(_), _) | (Ok(_), Some(_)) | (Ok(true), None) => continue,
                (Ok(false), None) => {
                    let made = made.get_mut(index).and_then(Option::take);
                    (validation.reason, made.unwrap_or_else(|| validation.own_message()))
                }
            };
            failed.push(Failed { index, validation: Some(index), reason, message });
        }
        failed
    }

    fn annotate<'a>(
        &'a self,
        evaluation: &Evaluation<'a>,
        outcome: &mut PolicyResult,
    ) -> Result<(), String> {
        let fails = self.base.failure_policy == FailurePolicy::Fail;
        for annotation in &self.audit_annotations {
            match annotation.value.evaluate(evaluation) {
                Err(ExpressionFailure::OutOfBudget(message)) => return Err(message),
                Err(ExpressionFailure::Error(message)) if fails => {
                    outcome.annotation_errors.push(message);
                }
                Ok(Val::String(text)) if !text.trim().is_empty() => {
                    outcome.annotations.push((annotation.key.clone(), text.trim().to_owned()));
                }
                Err(ExpressionFailure::Error(_)) | Ok(_) => {}
            }
        }
        Ok(())
    }
}

impl Base {
    /// Whether all match conditions hold. One that is false decides, whatever others fail with.
    pub(super) fn conditions_hold(
        &self,
        scope: &Scope<'_>,
        arena: &Arena,
        budget: &Budget<'_>,
    ) -> Result<bool, String> {
        let limits = CostLimits::MATCH_CONDITIONS;
        let evaluation = Evaluation::new(scope, &self.variables, arena, budget, limits);
        let mut holds = true;
        let mut errors: Vec<String> = Vec::new();
        for condition in &self.conditions {
            match condition.holds(&evaluation) {
                Ok(held) => holds &= held,
                Err(ExpressionFailure::OutOfBudget(message)) => return self.undecided(message),
                Err(ExpressionFailure::Error(message)) if errors.contains(&message) => {}
                Err(ExpressionFailure::Error(message)) => errors.push(message),
            }
        }
        match errors.as_slice() {
            _ if !holds => Ok(false),
            [] => Ok(true),
            [error] => self.undecided(error.clone()),
            errors => self.undecided(format!("[{}]", errors.join(", "))),
        }
    }

    /// A match condition that fails means no match under `failurePolicy: Ignore`.
    fn undecided(&self, message: String) -> Result<bool, String> {
        match self.failure_policy {
            FailurePolicy::Fail => Err(message),
            FailurePolicy::Ignore => Ok(false),
        }
    }
}

impl Validation {
    /// The text of `messageExpression`, if it is one that is shown.
    fn made_message<'a>(
        &'a self,
        evaluation: &Evaluation<'a>,
    ) -> Result<Option<String>, EvalError> {
        let Some(expression) = &self.message_expression else { return Ok(None) };
        let Some(program) = expression.program() else { return Ok(None) };
        match evaluation.evaluate(program) {
            Ok(Val::String(text)) => Ok(usable_message(text).map(str::to_owned)),
            Err(error @ EvalError::OutOfBudget) => Err(error),
            Ok(_) | Err(_) => Ok(None),
        }
    }

    pub(super) fn own_message(&self) -> String {
        if self.message.is_empty() {
            format!("failed expression: {}", self.expression.text().trim())
        } else {
            self.message.to_string()
        }
    }
}

impl PolicyResult {
    /// The findings that deny, warn or are audited, whatever the actions are.
    pub(super) fn messages(&self) -> Vec<String> {
        let failed = self.failed.iter().map(|failed| &failed.message);
        failed.chain(&self.annotation_errors).cloned().collect()
    }

    fn nothing() -> Self {
        Self { failed: Vec::new(), annotations: Vec::new(), annotation_errors: Vec::new() }
    }
}

/// Applies the binding's actions.
fn act(
    policy: &CompiledPolicy,
    binding: &CompiledBinding,
    outcome: PolicyResult,
    annotations: &mut BTreeMap<String, Vec<String>>,
    decision: &mut PolicyDecision,
) {
    let denial = |validation, reason, message| Denial {
        kind: PolicyKind::Validating,
        policy: policy.base.name.clone(),
        binding: Some(binding.name.clone()),
        validation,
        reason,
        message,
    };
    for failed in outcome.failed {
        let does = |action| binding.actions.contains(&action);
        if !does(ValidationAction::Deny) {
            let warns = does(ValidationAction::Warn);
            let action = if warns { ValidationAction::Warn } else { ValidationAction::Audit };
            let remark = denial(failed.validation, failed.reason, failed.message.clone());
            decision.remarks.push((action, remark));
        }
        for action in &binding.actions {
            let message = failed.message.clone();
            match action {
                ValidationAction::Deny => {
                    decision.denials.push(denial(failed.validation, failed.reason, message));
                }
                ValidationAction::Audit => {
                    let value = failure_annotation(policy, binding, failed.index, &message);
                    decision.annotate(VALIDATION_FAILURE.to_owned(), value);
                }
                ValidationAction::Warn => decision.warn(format!(
                    "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': \
                     {message}",
                    policy.base.name, binding.name
                )),
            }
        }
    }
    for (key, mut value) in outcome.annotations {
        if value.len() > MAX_AUDIT_ANNOTATION {
            value.truncate(value.floor_char_boundary(MAX_AUDIT_ANNOTATION));
        }
        let key = format!("{}/{key}", policy.base.name);
        let values = annotations.entry(key).or_default();
        if !values.contains(&value) {
            values.push(value);
        }
    }
    for message in outcome.annotation_errors {
        decision.denials.push(denial(None, Reason::Invalid, message));
    }
}

/// The JSON that Go writes for a failed validation.
fn failure_annotation(
    policy: &CompiledPolicy,
    binding: &CompiledBinding,
    index: usize,
    message: &str,
) -> String {
    let text = |text: &str| {
        let json = Value::from(text).to_json();
        let json = json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
        json.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
    };
    let actions: Vec<_> =
        binding.actions.iter().map(|action| format!("\"{}\"", action.as_str())).collect();
    format!(
        "[{{\"message\":{},\"policy\":{},\"binding\":{},\"expressionIndex\":{index},\
         \"validationActions\":[{}]}}]",
        text(message),
        text(&policy.base.name),
        text(&binding.name),
        actions.join(",")
    )
}
