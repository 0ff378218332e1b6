//! Policies that change the object of a request
//! (`apiserver/pkg/admission/plugin/policy/mutating/dispatcher.go`).

use std::collections::BTreeSet;

use modgate_api::{
    kinds,
    meta::{Operation, split_api_version},
    templates::FailurePolicy,
};
use modgate_cel::{Arena, CostLimits, Evaluation, Val};
use modgate_value::{Budget, Str, Value};

use super::{
    CompiledBinding, CompiledMutatingPolicy, Denial, Matched, PolicyKind, PolicySet, Reason,
    Surroundings, Types,
    audit::named,
    compile::{Mutation, PatchType},
    convert,
    evaluate::{Asked, Scope, Spent, input_of},
    matching::{Attributes, resource_of},
    merge, patch,
    set::Met,
};
use crate::{
    Review,
    constraint::{CelInput, ExpressionFailure},
};

/// The result of policies for an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mutated {
    /// The object, where it differs from the one that was sent.
    pub object: Option<Value>,
    /// Why the request is denied.
    pub denials: Vec<Denial>,
    /// The actions of each policy, in order.
    pub steps: Vec<MutationStep>,
}

/// One evaluation of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MutationStep {
    /// The policy.
    pub policy: Str,
    /// The binding.
    pub binding: Str,
    /// Namespace and name of the parameter, if the binding passes one.
    pub param: Option<(Str, Str)>,
    /// Whether it is the second pass, after others have changed the object.
    pub again: bool,
    /// The object after each mutation, in order; none where a match condition does not hold.
    pub mutations: Vec<AppliedMutation>,
}

/// One mutation of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedMutation {
    /// `ApplyConfiguration` or `JSONPatch`.
    pub patch_type: &'static str,
    /// Its expression.
    pub expression: Str,
    /// The object before it.
    pub before: Value,
    /// The object after it, or why there is none.
    pub after: Result<Value, String>,
}

impl MutationStep {
    /// Whether a mutation changed the object.
    pub fn changed(&self) -> bool {
        self.mutations.iter().any(|it| it.after.as_ref().is_ok_and(|after| *after != it.before))
    }
}

/// A policy, a binding and one parameter.
type Key = (Str, Str, (Str, Str));

/// The state of one request.
struct Run<'r> {
    review: &'r Review,
    attributes: Attributes<'r>,
    surroundings: &'r Surroundings<'r>,
    budget: &'r Budget<'r>,
    /// The object as it is now, in the version of the request.
    object: Value,
    /// Whether any mutation was applied, even one that changed nothing.
    dirty: bool,
    invoked: BTreeSet<Key>,
    mutated: Mutated,
}

/// Why a mutation has no result.
enum MutationFailure {
    /// It counts as `failurePolicy` says.
    Policy(String),
    /// It fails the request.
    Request(Reason, String),
}

impl PolicySet {
    /// The object of a request after the policies that mutate. `IfNeeded` gives policies a
    /// second pass where anything was applied.
    ///
    /// # Errors
    ///
    /// When a Namespace that is needed cannot be read: the API server fails the request then.
    pub fn mutate(
        &self,
        review: &Review,
        surroundings: &Surroundings<'_>,
        budget: &Budget<'_>,
    ) -> Result<Mutated, String> {
        let request = review.request();
        let Some(object) = &request.object else { return Ok(Mutated::default()) };
        if request.operation == Operation::Delete || self.mutating.policies.is_empty() {
            return Ok(Mutated::default());
        }
        let resource = resource_of(request);
        let mut run = Run {
            review,
            attributes: Attributes::of(request, &resource),
            surroundings,
            budget,
            object: object.clone(),
            dirty: false,
            invoked: BTreeSet::new(),
            mutated: Mutated::default(),
        };
        run.pass(self, false)?;
        if run.dirty && run.mutated.denials.is_empty() {
            run.pass(self, true)?;
        }
        let Run { object: made, mut mutated, .. } = run;
        mutated.object = (made != *object).then_some(made);
        Ok(mutated)
    }
}

impl Run<'_> {
    fn pass(&mut self, set: &PolicySet, again: bool) -> Result<(), String> {
        let object = self.object.clone();
        let attributes = Attributes { object: Some(&object), ..self.attributes };
        let (mut configuration, mut bound) = (Vec::new(), Vec::new());
        for met in set.mutating.met(&attributes, self.surroundings) {
            match met {
                Met::Misconfigured { policy, binding, error } => {
                    let part = if binding.is_some() { "binding" } else { "policy" };
                    let message = format!("failed to configure {part}: {error}");
                    configuration.extend(denial(policy, binding, Reason::Forbidden, message));
                }
                Met::Bound { policy, binding, matched, params } => {
                    bound.push((policy, binding, matched, params));
                }
            }
        }
        self.mutated.denials.extend(configuration);
        for (policy, binding, matched, params) in bound {
            for param in params {
                if !self.invoke(policy, binding, &matched, param.as_ref(), again)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Evaluates a policy with one parameter; `false` where the request fails at once.
    fn invoke(
        &mut self,
        policy: &CompiledMutatingPolicy,
        binding: &CompiledBinding,
        matched: &Matched,
        param: Option<&Value>,
        again: bool,
    ) -> Result<bool, String> {
        let base = &policy.base;
        let step = MutationStep {
            policy: base.name.clone(),
            binding: binding.name.clone(),
            param: param.map(named),
            again,
            mutations: Vec::new(),
        };
        let object = self.object.clone();
        let attributes = Attributes { object: Some(&object), ..self.attributes };
        let review = self.review.clone().with_object(object.clone());
        let mut input = input_of(&review, &attributes, self.surroundings, matched)?;
        let asked = Asked::of(self.surroundings, &attributes);
        let (arena, none) = (Arena::new(), Value::Null);
        let params = param.unwrap_or(&none);
        let without_namespace = asked.without_namespace;
        let scope = Scope {
            input: &input,
            params,
            asked: Some(&asked),
            without_namespace,
            is_condition: true,
        };
        match base.conditions_hold(&scope, &arena, self.budget) {
            Ok(true) => {}
            Ok(false) => {
                self.mutated.steps.extend((!again).then_some(step));
                return Ok(true);
            }
            Err(message) => {
                let denial = denial(policy, Some(binding), Reason::Invalid, message);
                self.mutated.denials.extend(denial);
                return Ok(true);
            }
        }
        let key = (base.name.clone(), binding.name.clone(), step.param.clone().unwrap_or_default());
        if again && !(policy.reinvoked && self.invoked.contains(&key)) {
            return Ok(true);
        }
        if policy.reinvoked {
            self.invoked.insert(key);
        }
        let current = input.member("object").cloned().unwrap_or_default();
        let spent = Spent::of(self.budget);
        let made = self.mutations(policy, binding, &mut input, (params, &asked), current.clone());
        base.usage.add(self.surroundings.meter.shard, spent.until_now(self.budget));
        let (mut made, mutations, goes_on) = made;
        self.mutated.steps.push(MutationStep { mutations, ..step });
        if goes_on && made != current {
            // Back in the version of the request.
            if let (Matched::InVersion { .. }, Some(sent)) =
                (matched, self.object.get("apiVersion"))
            {
                let (group, version) = split_api_version(sent.as_str().unwrap_or_default());
                made = convert::converted(&made, group, version);
            }
            self.object = unplaced(made, &self.object);
        }
        Ok(goes_on)
    }

    /// Applies the mutations of a policy: the object they make, what each made, and `false` where the
    /// request fails at once.
    fn mutations(
        &mut self,
        policy: &CompiledMutatingPolicy,
        binding: &CompiledBinding,
        input: &mut CelInput,
        (params, asked): (&Value, &Asked<'_>),
        mut current: Value,
    ) -> (Value, Vec<AppliedMutation>, bool) {
        let mut applied = Vec::with_capacity(policy.mutations.len());
        for mutation in &policy.mutations {
            let arena = Arena::new();
            input.replace_object(current.clone());
            let made = apply(policy, mutation, input, params, asked, self, &arena, &current);
            let (failure, after) = match made {
                Ok(made) => (None, Ok(made)),
                Err(MutationFailure::Policy(message)) => (Some(None), Err(message)),
                Err(MutationFailure::Request(reason, message)) => {
                    (Some(Some(reason)), Err(message))
                }
            };
            applied.push(AppliedMutation {
                patch_type: mutation.patch.as_str(),
                expression: mutation.expression.text().clone(),
                before: current.clone(),
                after: after.clone(),
            });
            match (failure, after) {
                (Some(None), Err(message)) => {
                    let denial = denial(policy, Some(binding), Reason::Invalid, message);
                    self.mutated.denials.extend(denial);
                }
                (Some(Some(reason)), Err(message)) => {
                    let denial = Denial {
                        kind: PolicyKind::Mutating,
                        policy: policy.base.name.clone(),
                        binding: Some(binding.name.clone()),
                        validation: None,
                        reason,
                        message,
                    };
                    self.mutated.denials.insert(0, denial);
                    return (current, applied, false);
                }
                (_, Ok(made)) => {
                    self.dirty = true;
                    current = made;
                }
                (None, Err(_)) => {}
            }
        }
        (current, applied, true)
    }
}

/// An object without the namespace and the name that expressions saw and that it was not sent with.
fn unplaced(mut object: Value, sent: &Value) -> Value {
    for member in ["namespace", "name"] {
        if sent.path(&["metadata", member]).is_none()
            && let Value::Object(members) = &mut object
            && let Some(Value::Object(metadata)) = members.get_mut("metadata")
        {
            metadata.remove(member);
        }
    }
    object
}

/// A denial, unless the policy ignores failures.
fn denial(
    policy: &CompiledMutatingPolicy,
    binding: Option<&CompiledBinding>,
    reason: Reason,
    message: String,
) -> Option<Denial> {
    (policy.base.failure_policy == FailurePolicy::Fail).then(|| Denial {
        kind: PolicyKind::Mutating,
        policy: policy.base.name.clone(),
        binding: binding.map(|binding| binding.name.clone()),
        validation: None,
        reason,
        message,
    })
}

/// The object that a mutation makes of `object`.
#[expect(clippy::too_many_arguments, reason = "what one evaluation needs")]
fn apply(
    policy: &CompiledMutatingPolicy,
    mutation: &Mutation,
    input: &CelInput,
    params: &Value,
    asked: &Asked<'_>,
    run: &Run<'_>,
    arena: &Arena,
    object: &Value,
) -> Result<Value, MutationFailure> {
    let scope =
        Scope { input, params, asked: Some(asked), without_namespace: false, is_condition: false };
    let limits = CostLimits::VALIDATIONS;
    let evaluation = Evaluation::new(&scope, &policy.base.variables, arena, run.budget, limits);
    let value = mutation.expression.evaluate(&evaluation).map_err(|failure| match failure {
        ExpressionFailure::OutOfBudget(message) | ExpressionFailure::Error(message) => {
            MutationFailure::Policy(message)
        }
    })?;
    let types = run.surroundings.types;
    match mutation.patch {
        PatchType::ApplyConfiguration => configure(types, object, value),
        PatchType::JsonPatch => patched(types, object, value),
    }
}

fn texts(object: &Value) -> (&str, &str) {
    let text = |key| object.get(key).and_then(Value::as_str).unwrap_or_default();
    (text("apiVersion"), text("kind"))
}

fn configure(types: &Types, object: &Value, value: Val<'_>) -> Result<Value, MutationFailure> {
    let (api_version, kind) = texts(object);
    let (group, version) = split_api_version(api_version);
    let ty = types.of(api_version, kind);
    // The API server describes what is only sent to subresources, and has no type to merge it with; nor
    // has it for options of CONNECT.
    const SUBRESOURCES: [(&str, &str); 3] = [
        ("authentication.k8s.io/v1", "TokenRequest"),
        ("autoscaling/v1", "Scale"),
        ("policy/v1", "Eviction"),
    ];
    let is_of_subresource = SUBRESOURCES.contains(&(api_version, kind));
    if is_of_subresource
        || ty.is_none() && kinds::of_group(group).is_some_and(|it| it.contains(&kind))
    {
        return Err(MutationFailure::Policy(format!(
            "error applying patch: failed to convert patch object to typed object: no \
             corresponding type for {group}/{version}, Kind={kind}"
        )));
    }
    let Some(ty) = ty else {
        return Err(MutationFailure::Request(
            Reason::ServiceUnavailable,
            format!(
                "Resource kind {group}/{version}, Kind={kind} not found. There can be a delay \
                 between when CustomResourceDefinitions are created and when they are available."
            ),
        ));
    };
    let misnamed = value.misnamed();
    if !misnamed.is_empty() {
        return Err(MutationFailure::Policy(format!("type mismatch: {}", misnamed.join("\n"))));
    }
    let mut patch = value.to_json().map_err(|error| MutationFailure::Policy(error.to_string()))?;
    if let Value::Object(members) = &mut patch {
        members.insert("apiVersion", api_version.into());
        members.insert("kind", kind.into());
    }
    let merged = merge::apply(types, ty, object, &patch)
        .map_err(|error| MutationFailure::Policy(format!("error applying patch: {error}")))?;
    let typed = types.is_builtin(api_version, kind);
    if let Some(misfit) = types.misfit(ty, &merged).filter(|_| typed) {
        return Err(MutationFailure::Policy(format!(
            "unable to convert unstructured object to {group}/{version}, Kind={kind}: {}",
            misfit.conversion()
        )));
    }
    Ok(if typed { patch::without_nulls(&merged, 0) } else { merged })
}

fn patched(types: &Types, object: &Value, value: Val<'_>) -> Result<Value, MutationFailure> {
    let operations = operations(value).map_err(MutationFailure::Policy)?;
    let made = match patch::apply(object, &operations) {
        Ok(made) => made,
        Err(patch::PatchFailure::Test) => return Ok(object.clone()),
        Err(patch::PatchFailure::Error(message)) => {
            return Err(MutationFailure::Policy(format!("JSON Patch: {message}")));
        }
    };
    let (api_version, kind) = texts(object);
    let Some(ty) = types.of(api_version, kind).filter(|_| types.is_builtin(api_version, kind))
    else {
        return Ok(made);
    };
    // A typed object has no members that its kind does not have.
    let known = merge::undeclared(types, ty, object);
    let unknown: Vec<_> = merge::undeclared(types, ty, &made)
        .into_iter()
        .filter(|field| !known.contains(field))
        .map(|field| format!("unknown field {field:?}"))
        .collect();
    if !unknown.is_empty() {
        return Err(MutationFailure::Request(
            Reason::InternalError,
            format!("Internal error occurred: strict decoding error: {}", unknown.join(", ")),
        ));
    }
    if let Some(misfit) = types.misfit(ty, &made).filter(|_| types.misfit(ty, object).is_none()) {
        let message = format!("Internal error occurred: {}", misfit.decoding());
        return Err(MutationFailure::Request(Reason::InternalError, message));
    }
    Ok(patch::without_nulls(&made, 0))
}

/// The operations of a list of `JSONPatch{…}`.
fn operations(value: Val<'_>) -> Result<Vec<patch::Operation>, String> {
    let mut operations = Vec::new();
    for index in 0..value.size().unwrap_or_default() {
        let Some((_, Val::Built(built))) = value.entry(index) else {
            return Err("type mismatch: JSONPatchType.expression should evaluate to array of \
                        JSONPatch"
                .to_owned());
        };
        let text = |name| match built.field(name) {
            Some(Val::String(text)) => text.to_owned(),
            _ => String::new(),
        };
        let value = match built.field("value") {
            None => None,
            Some(value) => {
                let misnamed = value.misnamed();
                if !misnamed.is_empty() {
                    return Err(format!("type mismatch: {}", misnamed.join("\n")));
                }
                Some(value.to_structpb().map_err(|error| {
                    format!(
                        "JSONPath valueExpression evaluated to a type that could not marshal to \
                         JSON: {error}"
                    )
                })?)
            }
        };
        let (op, path, from) = (text("op"), text("path"), text("from"));
        operations.push(patch::Operation { op, path, from, value });
    }
    Ok(operations)
}
