//! One policy at a time, for objects that exist: what audits need.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use modgate_api::meta::{GroupVersionKind, Operation};
use modgate_value::{Budget, Str, Value};

use super::{
    CompiledPolicy, Params, PolicySet, Reason, Surroundings, ValidationAction,
    evaluate::{Asked, input_of},
    matching::{Attributes, resource_of},
    set::Met,
};
use crate::Review;

/// A validation of a policy that does not hold, and what its binding does about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The binding; `None` where the policy itself is configured wrongly.
    pub binding: Option<Str>,
    /// Namespace and name of the parameter, if the binding passes one.
    pub param: Option<(Str, Str)>,
    /// The position in `spec.validations`; `None` where the policy failed as a whole.
    pub validation: Option<usize>,
    /// The status reason.
    pub reason: Reason,
    /// The validation's message, or the error.
    pub message: String,
    /// The actions of the binding. A policy that is configured wrongly denies.
    pub actions: Vec<ValidationAction>,
}

impl Finding {
    /// The strongest action of the binding: it denies, it warns, or it writes into the audit event.
    pub fn strongest(&self) -> ValidationAction {
        let order = [ValidationAction::Deny, ValidationAction::Warn, ValidationAction::Audit];
        let found = order.into_iter().find(|action| self.actions.contains(action));
        found.unwrap_or(ValidationAction::Audit)
    }
}

impl PolicySet {
    /// The policies that validate and have a binding, by name.
    pub fn bound(&self) -> impl Iterator<Item = &Arc<CompiledPolicy>> {
        let policies = self.validating.policies.values();
        policies.filter(|policy| self.validating.bindings_of(policy.name()).next().is_some())
    }

    /// The findings of the named policy in a request; `None` where it does not match the request.
    ///
    /// # Errors
    ///
    /// When a Namespace that is needed cannot be read.
    fn findings(
        &self,
        name: &str,
        review: &Review,
        surroundings: &Surroundings<'_>,
        budget: &Budget<'_>,
    ) -> Result<Option<Vec<Finding>>, String> {
        let resource = resource_of(review.request());
        let attributes = Attributes::of(review.request(), &resource);
        let mut findings = None;
        for met in self.validating.met_named(name, &attributes, surroundings) {
            let findings = findings.get_or_insert_with(Vec::new);
            match met {
                Met::Misconfigured { policy, binding, error } => {
                    findings.extend(policy.misconfigured(binding, &error).map(|denial| Finding {
                        binding: denial.binding,
                        param: None,
                        validation: None,
                        reason: denial.reason,
                        message: denial.message,
                        actions: vec![ValidationAction::Deny],
                    }));
                }
                Met::Bound { policy, binding, matched, params } => {
                    let input = input_of(review, &attributes, surroundings, &matched)?;
                    let asked = Asked::of(surroundings, &attributes);
                    for param in &params {
                        let meter = surroundings.meter;
                        let outcome = policy.metered(&input, &asked, param.as_ref(), budget, meter);
                        let finding = |validation, reason, message, actions| Finding {
                            binding: Some(binding.name.clone()),
                            param: param.as_ref().map(named),
                            validation,
                            reason,
                            message,
                            actions,
                        };
                        findings.extend(outcome.failed.into_iter().map(|failed| {
                            let actions = binding.actions.clone();
                            finding(failed.validation, failed.reason, failed.message, actions)
                        }));
                        findings.extend(outcome.annotation_errors.into_iter().map(|message| {
                            finding(None, Reason::Invalid, message, vec![ValidationAction::Deny])
                        }));
                    }
                }
            }
        }
        Ok(findings)
    }

    /// The findings of the named policy in an existing object: as if the object were created, or,
    /// if the policy is not about that, as if it were updated to what it is. `namespace` is where the
    /// object lives, for a Namespace its own name.
    ///
    /// # Errors
    ///
    /// When a Namespace that is needed cannot be read.
    pub fn findings_of(
        &self,
        name: &str,
        object: &Value,
        namespace: &str,
        surroundings: &Surroundings<'_>,
        budget: &Budget<'_>,
    ) -> Result<Vec<Finding>, String> {
        let review = |operation| Review::of_object(object.clone(), operation, namespace);
        let created = review(Operation::Create);
        if let Some(found) = self.findings(name, &created, surroundings, budget)? {
            return Ok(found);
        }
        let updated = review(Operation::Update).with_old_object(object.clone());
        Ok(self.findings(name, &updated, surroundings, budget)?.unwrap_or_default())
    }

    /// Whether the policy of this name, bound as it is, is the same in both.
    pub fn shares_bound(&self, other: &Self, name: &Str) -> bool {
        let (own, others) = (&self.validating, &other.validating);
        let same_policy = match (own.policies.get(name), others.policies.get(name)) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            _ => false,
        };
        same_policy
            && own.bindings_of(name).count() == others.bindings_of(name).count()
            && own.bindings_of(name).zip(others.bindings_of(name)).all(|(a, b)| Arc::ptr_eq(a, b))
    }
}

impl PolicySet {
    /// Whether any policy may match requests about objects of a kind.
    pub(crate) fn may_concern(&self, kind: &GroupVersionKind) -> bool {
        let mutating = self.mutating.policies.values().map(|policy| &policy.base);
        let validating = self.validating.policies.values().map(|policy| &policy.base);
        let plural = kind.plural();
        mutating.chain(validating).any(|base| base.matcher.may_match(&kind.group, &plural))
    }
}

impl CompiledPolicy {
    /// Whether requests about objects of a kind may match, whatever else is in them. The name of the
    /// resource is derived from the kind.
    pub fn may_concern(&self, kind: &GroupVersionKind) -> bool {
        self.base.matcher.may_match(&kind.group, &kind.plural())
    }

    /// A number that differs once an object that bindings may pass differs.
    pub fn params_version(&self, params: &dyn Params) -> u64 {
        let mut hash = DefaultHasher::new();
        if let Some(kind) = &self.base.param_kind {
            params.scope(kind).map(|scope| format!("{scope:?}")).hash(&mut hash);
            params.version(kind).hash(&mut hash);
        }
        hash.finish()
    }
}

/// Namespace and name of a parameter.
pub(super) fn named(param: &Value) -> (Str, Str) {
    let text = |member| {
        let found = param.path(&["metadata", member]).and_then(Value::as_str);
        Str::from(found.unwrap_or_default())
    };
    (text("namespace"), text("name"))
}
