//! Compiled policies, immutable.

mod bound;
mod expanded;
mod load;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use modgate_api::{
    config,
    constraints::EnforcementPoint,
    meta::{GroupVersionKind, Operation},
};
use modgate_value::{Clock, Str, Value, budget::Frozen};

pub use self::expanded::Expansion;
pub(crate) use self::expanded::charge;
use crate::{
    Change, EngineConfig, OnError, PolicyId, Problem, Review, Severity,
    admissionpolicy::PolicySet,
    constraint::{self, Admission, ConstraintTrace, Evaluation, Externals, Violation},
    cost::PolicyCost,
    expansion::ExpansionSystem,
    gatekeeper::Exclusions,
    lint::Definitions,
    modrule,
    mutation::MutationSystem,
    provider::CompiledProvider,
};

/// Every policy there is, compiled; shared between threads by `Arc` and never changed.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    config: Arc<EngineConfig>,
    modrules: Arc<modrule::Store>,
    constraints: Arc<constraint::Store>,
    mutators: Arc<MutationSystem>,
    expansions: Arc<ExpansionSystem>,
    exclusions: Arc<Exclusions>,
    traces: Arc<[config::Trace]>,
    providers: Arc<BTreeMap<Str, Arc<CompiledProvider>>>,
    policies: Arc<PolicySet>,
    definitions: Arc<Definitions>,
}

/// The result of [`Snapshot::apply`].
#[derive(Debug)]
pub struct Update {
    /// The next snapshot.
    pub snapshot: Snapshot,
    /// The findings about the policies that changed: errors, and warnings about those that loaded.
    pub problems: Vec<Problem>,
    /// The policies that are new or have changed.
    pub compiled: Vec<Compiled>,
}

/// One policy that was compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiled {
    /// Which it is.
    pub policy: PolicyId,
    /// Whether nothing stood in its way; that it does not fit to others may show later.
    pub loaded: bool,
    /// Its time, if there was a clock.
    pub time: Duration,
}

impl Update {
    /// Whether some policy did not load.
    pub fn has_errors(&self) -> bool {
        self.problems.iter().any(|problem| problem.severity == Severity::Error)
    }
}

impl Snapshot {
    /// A snapshot without policies.
    pub fn new(config: EngineConfig) -> Self {
        Self { config: config.into(), ..Self::default() }
    }

    /// The same with these policies of Gatekeeper, which the caller compiled: gator has texts of its own
    /// for what does not compile.
    #[must_use]
    pub fn with_compiled(
        self,
        constraints: constraint::Store,
        mutators: MutationSystem,
        expansions: ExpansionSystem,
    ) -> Self {
        Self {
            constraints: constraints.into(),
            mutators: mutators.into(),
            expansions: expansions.into(),
            ..self
        }
    }

    /// The same, and warnings about policies know these custom resources.
    #[must_use]
    pub fn with_definitions(self, definitions: Arc<Definitions>) -> Self {
        Self { definitions, ..self }
    }

    /// The custom resources that warnings about policies know.
    pub fn definitions(&self) -> &Definitions {
        &self.definitions
    }

    /// A snapshot of these ModRules alone.
    pub(crate) fn of_modrules(config: EngineConfig, modrules: modrule::Store) -> Self {
        Self { config: config.into(), modrules: modrules.into(), ..Self::default() }
    }

    /// The settings it was made with.
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// Whether an object is a policy of a kind that [`Snapshot::apply`] takes.
    pub fn takes(object: &Value) -> bool {
        load::is_policy(object)
    }

    /// The snapshot after `changes`, applied in order. A policy that does not compile is reported
    /// and skipped; it never stops the others.
    ///
    /// Constraints may come before their templates; those that have none in the end are reported
    /// and wait for one. Templates and constraints whose new version does not compile stay in force
    /// as they were, whatever `on_error` says (TC-3, ST-21).
    #[must_use]
    pub fn apply(&self, changes: Vec<Change>, on_error: OnError) -> Update {
        self.apply_timed(changes, on_error, &Frozen)
    }

    /// As [`Snapshot::apply`], and `clock` measures the time of each policy.
    #[must_use]
    pub fn apply_timed(
        &self,
        changes: Vec<Change>,
        on_error: OnError,
        clock: &dyn Clock,
    ) -> Update {
        let mut loader = load::Loader::new(self, on_error);
        let mut compiled = Vec::new();
        for change in changes {
            let Change::Upsert(source) = &change else {
                loader.change(change);
                continue;
            };
            let policy = source.id();
            let started = clock.now();
            let loaded = loader.change(change);
            compiled.push(Compiled { policy, loaded, time: clock.now().saturating_sub(started) });
        }
        let (snapshot, problems) = loader.finish();
        Update { snapshot, problems, compiled }
    }

    /// Whether a ModRule that reaches objects of this namespace may look at its Namespace.
    pub fn modrules_read_namespace(&self, name: &str) -> bool {
        let clusters = &self.config.cluster_rules_namespaces;
        let reaches = |id: &PolicyId| id.namespace == name || clusters.contains(&id.namespace);
        let mut rules = self.modrules.entries().iter().map(|entry| &entry.rule);
        rules.any(|rule| rule.reads.namespace() && reaches(&rule.id))
    }

    /// The policies that are in force: ModRules in the order in which they are visited, then
    /// mutators in the order in which they run, expansion templates, templates, constraints, and the
    /// cluster's own policies.
    pub fn policies(&self) -> impl Iterator<Item = PolicyId> {
        let modrules = self.modrules.entries().iter().map(|entry| entry.rule.id.clone());
        let mutators = self.mutators.mutators().iter().map(|mutator| mutator.id().into());
        let templates = self.constraints.templates().map(|template| template.id());
        let constraints = self.constraints.constraints().map(|constraint| constraint.id());
        let expansions = self.expansions.templates().iter().map(|template| template.id());
        let own = self.policies.names().map(|(kind, name)| kind.id(name));
        let gatekeepers = mutators.chain(expansions).chain(templates).chain(constraints);
        modrules.chain(gatekeepers).chain(own)
    }

    /// The cost of each ModRule, mutator, constraint and policy of the cluster since it was compiled.
    pub fn costs(&self) -> impl Iterator<Item = PolicyCost> {
        let modrules = self.modrules.entries().iter().map(|entry| PolicyCost {
            policy: entry.rule.id.clone(),
            cost: entry.rule.usage.total(),
        });
        let mutators = self
            .mutators
            .mutators()
            .iter()
            .map(|mutator| PolicyCost { policy: mutator.id().into(), cost: mutator.cost() });
        let constraints = self
            .constraints
            .constraints()
            .map(|constraint| PolicyCost { policy: constraint.id(), cost: constraint.cost() });
        modrules.chain(mutators).chain(constraints).chain(self.policies.costs())
    }

    /// The ModRules and constraints that keep using up their time, and get less of it for now.
    pub fn demoted(&self) -> impl Iterator<Item = PolicyId> {
        let modrules = self.modrules.entries().iter().filter(|entry| entry.rule.usage.is_demoted());
        let modrules = modrules.map(|entry| entry.rule.id.clone());
        let constraints = self.constraints.constraints().filter(|each| each.is_demoted());
        modrules.chain(constraints.map(|constraint| constraint.id()))
    }

    /// ValidatingAdmissionPolicies and MutatingAdmissionPolicies.
    pub fn cluster_policies(&self) -> &PolicySet {
        &self.policies
    }

    /// Templates and constraints.
    pub fn constraints(&self) -> &constraint::Store {
        &self.constraints
    }

    /// Mutators.
    pub fn mutators(&self) -> &MutationSystem {
        &self.mutators
    }

    /// Expansion templates.
    pub fn expansions(&self) -> &ExpansionSystem {
        &self.expansions
    }

    /// Which namespaces the Config leaves alone.
    pub fn exclusions(&self) -> &Exclusions {
        &self.exclusions
    }

    /// Which requests the Config wants logged with how they were decided (TR-1).
    pub fn traces(&self) -> &[config::Trace] {
        &self.traces
    }

    /// Where external data comes from, by name.
    pub fn providers(&self) -> &BTreeMap<Str, Arc<CompiledProvider>> {
        &self.providers
    }

    /// ModRules.
    pub(crate) fn modrules(&self) -> &modrule::Store {
        &self.modrules
    }

    /// Whether there is any ModRule.
    pub fn has_modrules(&self) -> bool {
        !self.modrules.entries().is_empty()
    }

    /// The ModRules that react to an operation, in the order in which they are visited.
    pub fn modrules_for(&self, operation: Operation) -> impl Iterator<Item = &PolicyId> {
        let rules = self.modrules.entries().iter().map(|entry| &*entry.rule);
        rules.filter(move |rule| rule.operations.contains(operation)).map(|rule| &rule.id)
    }

    /// Whether both hold the very same policies: true at most if no policy changed between them.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.config, &other.config)
            && Arc::ptr_eq(&self.modrules, &other.modrules)
            && Arc::ptr_eq(&self.constraints, &other.constraints)
            && Arc::ptr_eq(&self.mutators, &other.mutators)
            && Arc::ptr_eq(&self.expansions, &other.expansions)
            && Arc::ptr_eq(&self.exclusions, &other.exclusions)
            && Arc::ptr_eq(&self.traces, &other.traces)
            && Arc::ptr_eq(&self.providers, &other.providers)
            && Arc::ptr_eq(&self.policies, &other.policies)
    }

    /// Whether any policy may have something to do with a request: by the kind of its object, and for
    /// ModRules also by its namespace and operation.
    pub fn concerns(&self, review: &Review) -> bool {
        self.concerns_by(review, |_| true)
    }

    /// Whether any policy may look at the [`CONTENTS`] of the objects of a request. Where it says no, a request with
    /// other contents, or without, is decided alike. It says no of ConfigMaps and Secrets only, and may say yes
    /// where the answer is no.
    pub fn may_read_contents(&self, review: &Review) -> bool {
        let request = review.request();
        let kind = (request.kind.group.as_str(), request.kind.version.as_str());
        let resource = match (kind, request.kind.kind.as_str()) {
            (("", "v1"), "ConfigMap") => "configmaps",
            (("", "v1"), "Secret") => "secrets",
            _ => return true,
        };
        let named = &request.resource;
        let named = (named.group.as_str(), named.version.as_str(), named.resource.as_str());
        let mut objects = request.object.iter().chain(&request.old_object);
        // Some policies go by the resource, others by the kind of the request, or of the object. A client may send
        // what does not belong together.
        named != ("", "v1", resource)
            || !request.sub_resource.is_empty()
            || !objects.all(|object| GroupVersionKind::of_object(object) == request.kind)
            || self.concerns_by(review, |it| it.template().driver().may_read_contents())
    }

    fn concerns_by(
        &self,
        review: &Review,
        does: impl Fn(&constraint::CompiledConstraint) -> bool,
    ) -> bool {
        let request = review.request();
        let kind = match review.object() {
            Some(object) => GroupVersionKind::of_object(object),
            None => request.kind.clone(),
        };
        let admits = |it: &Arc<constraint::CompiledConstraint>| {
            it.criteria().is_none_or(|criteria| criteria.admits_kind(&kind)) && does(it)
        };
        self.constraints.constraints().any(admits)
            || self.expansions.expands(&kind)
            || self.mutators.may_concern(&kind.kind)
            || self.modrules.may_concern(&kind.kind, review.store_namespace(), request.operation)
            || self.policies.may_concern(&kind)
    }

    /// Whether both have the same ModRules: true at most if no change between them concerned one.
    pub fn shares_modrules(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.modrules, &other.modrules)
    }

    /// How every constraint decides about an admission at the webhook.
    pub(crate) fn explain_admission(
        &self,
        admission: &Admission,
        point: EnforcementPoint,
        evaluation: &mut crate::Evaluation<'_>,
    ) -> Vec<ConstraintTrace> {
        self.of_constraints(point, evaluation, |store, evaluation, arena| {
            constraint::explain(store, admission, evaluation, arena)
        })
    }

    /// The result of `review`, a pass over the constraints, with the budget of a review.
    pub(crate) fn of_constraints<T>(
        &self,
        point: EnforcementPoint,
        evaluation: &mut crate::Evaluation<'_>,
        review: impl FnOnce(&constraint::Store, Evaluation<'_>, &mut constraint::Arena) -> T,
    ) -> T {
        let crate::Evaluation { host, inventory, arena, meter, .. } = evaluation;
        let budget = meter.budget(self.config.review_limits, host.uptime(), host.clock());
        let evaluation = Evaluation {
            point,
            externals: Externals { inventory, host: host.policies() },
            budget: &budget,
            limits: self.config.constraint_limits,
            meter: *meter,
        };
        review(&self.constraints, evaluation, arena)
    }

    /// Every violation of an object or request at an enforcement point, in the order in which they
    /// are shown. It may spend what [`EngineConfig::review_limits`] allows.
    pub fn review_constraints(
        &self,
        admission: &Admission,
        point: EnforcementPoint,
        evaluation: &mut crate::Evaluation<'_>,
    ) -> Vec<Violation> {
        let lookup = self.config.lookup;
        self.of_constraints(point, evaluation, |store, evaluation, arena| match lookup {
            crate::Lookup::Index => {
                constraint::review(store.candidates(admission), admission, evaluation, arena)
            }
            crate::Lookup::Scan => {
                let all = store.constraints().map(AsRef::as_ref);
                constraint::review(all, admission, evaluation, arena)
            }
        })
    }
}
