//! All policies with their bindings, and which of them a request meets
//! (`apiserver/pkg/admission/plugin/policy/generic`).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use modgate_api::{
    admissionregistration::{self, ParamKind},
    kinds,
    meta::split_api_version,
};
use modgate_cel::{Access, Action, Authorizer};
use modgate_value::{Object, Str, Value};

use crate::{
    cost::{Meter, PolicyCost},
    fault,
};

use super::{
    CompiledBinding, CompiledMutatingPolicy, CompiledPolicy, Matched, Params, PolicyKind, Types,
    ValidationAction,
    compile::{Base, Validation},
    matching::{Attributes, with_name_label},
    outcome::is_dropped,
    params,
};

/// The ValidatingAdmissionPolicies and MutatingAdmissionPolicies in force.
#[derive(Debug, Clone, Default)]
pub struct PolicySet {
    pub(super) validating: Bound<CompiledPolicy>,
    pub(super) mutating: Bound<CompiledMutatingPolicy>,
}

/// The data that policies read beside the request.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// The Namespace of the request, if it is in one.
    pub namespace: &'a dyn Fn() -> Result<Option<Value>, String>,
    /// The objects that bindings pass.
    pub params: &'a dyn Params,
    /// The answers of `authorizer`.
    pub authorizer: &'a dyn Authorizer,
    /// Where costs are counted.
    pub meter: Meter<'a>,
    /// Which bindings count.
    pub bindings: Bindings,
    /// Whether the Namespace is made up, because no file describes it. A webhook does not know its labels
    /// then, and fails as the API server does where it cannot find the Namespace.
    pub assumes_namespace: bool,
    /// The types of the objects that are mutated.
    pub types: &'a Types,
    /// Whether match conditions see the Namespace. The API server shows them none.
    pub conditions_see_namespace: bool,
}

/// Which bindings of policies are evaluated.
///
/// A binding whose `policyName` is `NAME.modgate.sh` is modgate's: the API server finds no policy of
/// that name, and does nothing. A policy that has other bindings, too, is the API server's, and
/// modgate's bindings of it have no effect: a request is never decided twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bindings {
    /// Those of the API server, and modgate's: everything that decides in a cluster.
    All,
    /// Those of modgate.
    Modgate,
    /// All of them are modgate's, whatever they name.
    Taken,
}

impl Bindings {
    /// Whether a binding counts, given whether the API server has one of the policy.
    fn count(self, binding: &CompiledBinding, api_server_has_one: bool) -> bool {
        match self {
            Self::All => !(binding.for_modgate && api_server_has_one),
            Self::Modgate => binding.for_modgate && !api_server_has_one,
            Self::Taken => true,
        }
    }
}

/// Answers nothing.
#[derive(Debug, Clone, Copy)]
pub struct NoAuthorizer;

impl Authorizer for NoAuthorizer {
    fn decide(&self, _: &Action<'_>) -> Result<Access, String> {
        let error = "modgate does not know what users may do here".to_owned();
        Ok(Access { error: Some(error), ..Access::default() })
    }
}

/// Policies of one kind.
#[derive(Debug)]
pub(super) struct Bound<P> {
    pub(super) policies: BTreeMap<Str, Arc<P>>,
    /// By policy, then by name.
    bindings: BTreeMap<(Str, Str), Arc<CompiledBinding>>,
}

impl<P> Default for Bound<P> {
    fn default() -> Self {
        Self { policies: BTreeMap::new(), bindings: BTreeMap::new() }
    }
}

impl<P> Clone for Bound<P> {
    fn clone(&self) -> Self {
        Self { policies: self.policies.clone(), bindings: self.bindings.clone() }
    }
}

/// A policy of either kind.
pub(super) trait Policy {
    fn base(&self) -> &Base;
}

impl Policy for CompiledPolicy {
    fn base(&self) -> &Base {
        &self.base
    }
}

impl Policy for CompiledMutatingPolicy {
    fn base(&self) -> &Base {
        &self.base
    }
}

/// The findings about a request, in the order of policies and bindings.
pub(super) enum Met<'p, P> {
    /// A policy or a binding that cannot be evaluated, and why.
    Misconfigured { policy: &'p P, binding: Option<&'p CompiledBinding>, error: String },
    /// A binding, with its parameters.
    Bound {
        policy: &'p P,
        binding: &'p CompiledBinding,
        matched: Matched,
        params: Vec<Option<Value>>,
    },
}

impl<P> Bound<P> {
    /// The bindings of a policy, by name.
    pub(super) fn bindings_of(&self, policy: &Str) -> impl Iterator<Item = &Arc<CompiledBinding>> {
        let from = (policy.clone(), Str::default());
        self.bindings
            .range(from..)
            .take_while(move |((name, _), _)| name == policy)
            .map(|(_, binding)| binding)
    }

    /// Whether the API server has a binding of the policy.
    fn is_api_servers(&self, policy: &Str) -> bool {
        self.bindings_of(policy).any(|binding| !binding.for_modgate)
    }

    /// modgate's bindings of policies that the API server evaluates.
    fn doubled(&self) -> impl Iterator<Item = &Arc<CompiledBinding>> {
        let own = self.bindings.values().filter(|binding| binding.for_modgate);
        own.filter(|binding| self.is_api_servers(&binding.policy))
    }

    fn add_binding(&mut self, binding: CompiledBinding) {
        self.remove_binding(&binding.name.clone());
        let key = (binding.policy.clone(), binding.name.clone());
        self.bindings.insert(key, Arc::new(binding));
    }

    fn remove_binding(&mut self, name: &str) {
        self.bindings.retain(|(_, other), _| other != name);
    }

    fn unbound(&self) -> impl Iterator<Item = &Str> {
        self.policies.keys().filter(|name| self.bindings_of(name).next().is_none())
    }

    fn unused(&self) -> impl Iterator<Item = &Arc<CompiledBinding>> {
        self.bindings.values().filter(|binding| !self.policies.contains_key(&binding.policy))
    }
}

impl<P: Policy> Bound<P> {
    /// The bindings whose parameters do not fit their policy, and whether it has a `paramKind`.
    fn at_odds(&self) -> impl Iterator<Item = (&Arc<CompiledBinding>, bool)> {
        self.bindings.values().filter_map(|binding| {
            let policy = self.policies.get(&binding.policy)?;
            let has_kind = policy.base().param_kind.is_some();
            (has_kind != binding.param_ref.is_some()).then_some((binding, has_kind))
        })
    }

    /// The findings about a request.
    pub(super) fn met(
        &self,
        attributes: &Attributes<'_>,
        surroundings: &Surroundings<'_>,
    ) -> Vec<Met<'_, P>> {
        if is_exempt(attributes) {
            return Vec::new();
        }
        let policies = self.policies.values();
        policies.flat_map(|policy| self.met_of(policy, attributes, surroundings)).collect()
    }

    /// The findings of one policy about a request that is not exempt.
    fn met_of<'p>(
        &'p self,
        policy: &'p P,
        attributes: &Attributes<'_>,
        surroundings: &Surroundings<'_>,
    ) -> Vec<Met<'p, P>> {
        let labels = || -> Result<Option<Object>, String> {
            let namespace = (surroundings.namespace)()?.map(with_name_label);
            let labels = namespace.as_ref().and_then(|it| it.path(&["metadata", "labels"]));
            Ok(labels.and_then(Value::as_object).cloned())
        };
        // Commands stand for an API server of 1.36; webhooks have one, of any version.
        let by_table = surroundings.bindings == Bindings::All;
        let unlabelled = surroundings.assumes_namespace && !by_table;
        let attributes = &Attributes { by_table, unlabelled, ..*attributes };
        let base = policy.base();
        let is_api_servers = self.is_api_servers(&base.name);
        let counts = |it: &&Arc<CompiledBinding>| surroundings.bindings.count(it, is_api_servers);
        if !self.bindings_of(&base.name).any(|binding| counts(&binding)) {
            return Vec::new();
        }
        let matched = match base.matcher.matches(attributes, &labels) {
            Ok(Matched::No) => return Vec::new(),
            Ok(matched) => matched,
            Err(error) => return vec![Met::Misconfigured { policy, binding: None, error }],
        };
        if let Some(kind) = &base.param_kind
            && surroundings.params.scope(kind).is_none()
        {
            // As Go prints a kind: the core group is empty, and its slash stays.
            let (group, version) = split_api_version(&kind.api_version);
            let error = format!(
                "failed to find resource referenced by paramKind: '{group}/{version}, Kind={}'",
                kind.kind
            );
            return vec![Met::Misconfigured { policy, binding: None, error }];
        }
        let mut met = Vec::new();
        for binding in self.bindings_of(&base.name).filter(counts) {
            let matches = match &binding.matcher {
                None => Ok(true),
                Some(matcher) => matcher.matches(attributes, &labels).map(|it| it != Matched::No),
            };
            let collected = match matches {
                Ok(false) => continue,
                Ok(true) => params::collect(
                    base.param_kind.as_ref(),
                    binding.param_ref.as_ref(),
                    attributes.namespace,
                    surroundings.params,
                ),
                Err(error) => Err(error),
            };
            met.push(match collected {
                Ok(params) => Met::Bound { policy, binding, matched: matched.clone(), params },
                Err(error) => Met::Misconfigured { policy, binding: Some(binding), error },
            });
        }
        met
    }

    /// The findings of the named policy about a request.
    pub(super) fn met_named(
        &self,
        name: &str,
        attributes: &Attributes<'_>,
        surroundings: &Surroundings<'_>,
    ) -> Vec<Met<'_, P>> {
        match self.policies.get(name) {
            Some(policy) if !is_exempt(attributes) => self.met_of(policy, attributes, surroundings),
            _ => Vec::new(),
        }
    }
}

impl PolicySet {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or replaces a policy that validates.
    pub fn add_policy(&mut self, policy: CompiledPolicy) {
        self.validating.policies.insert(policy.base.name.clone(), Arc::new(policy));
    }

    /// Adds or replaces a policy that mutates.
    pub fn add_mutating_policy(&mut self, policy: CompiledMutatingPolicy) {
        self.mutating.policies.insert(policy.base.name.clone(), Arc::new(policy));
    }

    /// Adds or replaces a binding of a policy that validates. One whose policy does not exist has
    /// no effect.
    pub fn add_binding(&mut self, binding: CompiledBinding) {
        self.validating.add_binding(binding);
    }

    /// Adds or replaces a binding of a policy that mutates.
    pub fn add_mutating_binding(&mut self, binding: CompiledBinding) {
        self.mutating.add_binding(binding);
    }

    /// Removes a policy.
    pub(crate) fn remove_policy(&mut self, kind: PolicyKind, name: &str) {
        match kind {
            PolicyKind::Validating => drop(self.validating.policies.remove(name)),
            PolicyKind::Mutating => drop(self.mutating.policies.remove(name)),
        }
    }

    /// Removes a binding of policies of this kind.
    pub(crate) fn remove_binding(&mut self, kind: PolicyKind, name: &str) {
        match kind {
            PolicyKind::Validating => self.validating.remove_binding(name),
            PolicyKind::Mutating => self.mutating.remove_binding(name),
        }
    }

    /// The messages of a ValidatingAdmissionPolicy with the fields at fault of an object, as pointers. They are read
    /// from the text of the validations: a message that an expression makes has a field only if the
    /// policy has one validation.
    pub(crate) fn faults(&self, name: &str, object: &Value) -> Vec<(String, String)> {
        let Some(policy) = self.validating.policies.get(name) else { return Vec::new() };
        let field = |validation: &Validation| {
            fault::failed(validation.expression.text(), &|_| None, object, &|_| None)
        };
        if let [only] = policy.validations.as_slice() {
            return field(only).map(|pointer| (String::new(), pointer)).into_iter().collect();
        }
        let plain = policy.validations.iter().filter(|it| it.message_expression.is_none());
        let found = plain.filter_map(|it| Some((it.own_message(), field(it)?)));
        found.collect()
    }

    /// Whether there is no policy.
    pub fn is_empty(&self) -> bool {
        self.validating.policies.is_empty() && self.mutating.policies.is_empty()
    }

    /// The kind and name of every policy.
    pub fn names(&self) -> impl Iterator<Item = (PolicyKind, &Str)> {
        let mutating = self.mutating.policies.keys().map(|name| (PolicyKind::Mutating, name));
        mutating.chain(self.validating.policies.keys().map(|name| (PolicyKind::Validating, name)))
    }

    /// The kind of objects that bindings pass to a ValidatingAdmissionPolicy.
    pub fn param_kind(&self, policy: &str) -> Option<&ParamKind> {
        self.validating.policies.get(policy)?.base.param_kind.as_ref()
    }

    /// The kinds of objects that bindings pass.
    pub fn param_kinds(&self) -> BTreeSet<(&Str, &Str)> {
        let mutating = self.mutating.policies.values().map(|policy| &policy.base);
        let validating = self.validating.policies.values().map(|policy| &policy.base);
        let kinds = mutating.chain(validating).filter_map(|base| base.param_kind.as_ref());
        kinds.map(|kind| (&kind.api_version, &kind.kind)).collect()
    }

    /// The kinds of objects that bindings pass to policies that are there.
    pub fn bound_param_kinds(&self) -> BTreeSet<ParamKind> {
        let bound = |base: &Base, is_bound: bool| base.param_kind.clone().filter(|_| is_bound);
        let mutating = self.mutating.policies.values().map(|policy| {
            let base = &policy.base;
            bound(base, self.mutating.bindings_of(&base.name).next().is_some())
        });
        let validating = self.validating.policies.values().map(|policy| {
            let base = &policy.base;
            bound(base, self.validating.bindings_of(&base.name).next().is_some())
        });
        mutating.chain(validating).flatten().collect()
    }

    /// The groups of custom resources whose types bound policies need, because they change objects by
    /// ApplyConfiguration; `*` for all groups.
    pub fn configured_groups(&self) -> BTreeSet<Str> {
        let bound = self.mutating.policies.values();
        let bound = bound.filter(|it| self.mutating.bindings_of(&it.base.name).next().is_some());
        let configure = bound.filter(|policy| policy.configures());
        let groups = configure.flat_map(|policy| policy.base.matcher.groups());
        groups.filter(|group| kinds::of_group(group).is_none()).cloned().collect()
    }

    /// The cost of each policy since it was compiled.
    pub fn costs(&self) -> impl Iterator<Item = PolicyCost> {
        let cost = |kind: PolicyKind, base: &Base| PolicyCost {
            policy: kind.id(&base.name),
            cost: base.usage.total(),
        };
        let mutating = self.mutating.policies.values();
        let validating = self.validating.policies.values();
        mutating
            .map(move |policy| cost(PolicyKind::Mutating, &policy.base))
            .chain(validating.map(move |policy| cost(PolicyKind::Validating, &policy.base)))
    }

    /// The policies without a binding: they have no effect.
    pub(crate) fn unbound(&self) -> impl Iterator<Item = (PolicyKind, &Str)> {
        let mutating = self.mutating.unbound().map(|name| (PolicyKind::Mutating, name));
        mutating.chain(self.validating.unbound().map(|name| (PolicyKind::Validating, name)))
    }

    /// modgate's bindings of policies that the API server evaluates by others: they have no effect.
    /// Name, and name of the policy.
    pub(crate) fn doubled_bindings(&self) -> impl Iterator<Item = (PolicyKind, &Str, &Str)> {
        let mutating =
            self.mutating.doubled().map(|it| (PolicyKind::Mutating, &it.name, &it.policy));
        let validating =
            self.validating.doubled().map(|it| (PolicyKind::Validating, &it.name, &it.policy));
        mutating.chain(validating)
    }

    /// All bindings: name, name of the policy, and whether they are modgate's rather than the API
    /// server's.
    pub fn bindings(&self) -> impl Iterator<Item = (PolicyKind, &Str, &Str, bool)> {
        let mutating = self.mutating.bindings.values().map(|it| (PolicyKind::Mutating, it));
        let validating = self.validating.bindings.values().map(|it| (PolicyKind::Validating, it));
        mutating.chain(validating).map(|(kind, it)| (kind, &it.name, &it.policy, it.for_modgate))
    }

    /// Validations whose warnings the API server drops, because they quote an expression of several lines:
    /// the name of the policy, and the position in `spec.validations`.
    pub(crate) fn dropped_warnings(&self) -> impl Iterator<Item = (&Str, usize)> {
        let warns = |policy: &&Arc<CompiledPolicy>| {
            let mut bindings = self.validating.bindings_of(policy.name());
            bindings.any(|binding| binding.actions.contains(&ValidationAction::Warn))
        };
        self.validating.policies.values().filter(warns).flat_map(|policy| {
            let validations = policy.validations.iter().enumerate();
            validations
                .filter(|(_, validation)| is_dropped(&validation.own_message()))
                .map(|(index, _)| (policy.name(), index))
        })
    }

    /// The bindings that name parameters of a policy without `paramKind`, and those that name none of a policy with one:
    /// name, name of the policy, and whether it has a `paramKind`.
    pub(crate) fn bindings_at_odds(&self) -> impl Iterator<Item = (PolicyKind, &Str, &Str, bool)> {
        let mutating = self.mutating.at_odds();
        let validating = self.validating.at_odds();
        mutating.map(|(it, with)| (PolicyKind::Mutating, &it.name, &it.policy, with)).chain(
            validating.map(|(it, with)| (PolicyKind::Validating, &it.name, &it.policy, with)),
        )
    }

    /// The bindings whose policy is not there: they have no effect. Name, and name of the policy.
    pub(crate) fn unused_bindings(&self) -> impl Iterator<Item = (PolicyKind, &Str, &Str)> {
        let mutating =
            self.mutating.unused().map(|it| (PolicyKind::Mutating, &it.name, &it.policy));
        let validating =
            self.validating.unused().map(|it| (PolicyKind::Validating, &it.name, &it.policy));
        mutating.chain(validating)
    }
}

/// The API server applies policies neither to the objects that configure admission nor to reviews of
/// access.
fn is_exempt(attributes: &Attributes<'_>) -> bool {
    let kind = attributes.kind;
    match kind.group.as_str() {
        "authentication.k8s.io" | "authorization.k8s.io" => kind.kind.ends_with("Review"),
        _ => admissionregistration::is_exempt(kind),
    }
}
