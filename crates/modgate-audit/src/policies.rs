//! The policies that objects are evaluated against: those of a snapshot, numbered.

use std::{collections::BTreeMap, sync::Arc};

use modgate_engine::{
    Host, HostError, PolicyId, Review, Scope, Snapshot,
    admissionpolicy::{CompiledPolicy, PolicyKind},
    api::{
        constraints::{EnforcementAction, EnforcementPoint},
        meta::{GroupVersionKind, Operation, split_api_version},
        modrule,
    },
    constraint::{CompiledConstraint, ConstraintKey, Inventory},
};
use modgate_value::{Clock, Object, Str, Value, budget::Frozen};

use crate::reference::PolicyRef;

/// The policies of an audit beside constraints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Whether what workloads expand to is evaluated, too. An audit of synced objects does
    /// not.
    pub expansion: bool,
    /// Whether ModRules are evaluated: which objects Reject rules would refuse and Patch rules would
    /// still change.
    pub modrules: bool,
    /// Whether Gatekeeper's mutators are evaluated: what they would still change.
    pub mutators: bool,
    /// Whether ValidatingAdmissionPolicies are evaluated: which objects the API server would not
    /// admit again.
    pub admission_policies: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { expansion: true, modrules: true, mutators: false, admission_policies: true }
    }
}

/// Numbers a unit: what is evaluated, and kept, as a whole.
pub(crate) type UnitId = u32;

/// The unit of evaluation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum UnitKey {
    Constraint(ConstraintKey),
    /// All of them, since each sees what those before it made of the object.
    ModRules,
    /// Likewise.
    Mutators,
    /// A ValidatingAdmissionPolicy with its bindings.
    AdmissionPolicy(Str),
}

/// A unit.
#[derive(Debug, Clone)]
pub(crate) struct Unit {
    pub(crate) key: UnitKey,
    /// The constraint and its reference; none for the other units.
    pub(crate) constraint: Option<(Arc<CompiledConstraint>, Arc<PolicyRef>)>,
    /// The ValidatingAdmissionPolicy and its reference; none for the other units.
    pub(crate) policy: Option<(Arc<CompiledPolicy>, Arc<PolicyRef>)>,
}

impl Unit {
    fn of(key: UnitKey) -> Self {
        Self { key, constraint: None, policy: None }
    }
}

/// The policies of a snapshot and what they may see, ready for an audit.
#[derive(Debug)]
pub struct Policies {
    pub(crate) snapshot: Snapshot,
    pub(crate) inventory: Inventory,
    pub(crate) options: Options,
    /// `None` where a constraint is gone.
    pub(crate) units: Vec<Option<Unit>>,
    ids: BTreeMap<UnitKey, UnitId>,
    /// By the address of the constraint.
    constraints: BTreeMap<usize, UnitId>,
}

impl Policies {
    /// The policies of a snapshot; `inventory` is what they see as `data.inventory`.
    pub fn new(snapshot: Snapshot, inventory: Inventory, options: Options) -> Self {
        Self::numbered(snapshot, inventory, options, &BTreeMap::new(), Vec::new())
    }

    /// As [`new`](Self::new); what was there before keeps its number.
    pub(crate) fn next(&self, snapshot: Snapshot, inventory: Inventory) -> Self {
        let free = vec![None; self.units.len()];
        Self::numbered(snapshot, inventory, self.options, &self.ids, free)
    }

    fn numbered(
        snapshot: Snapshot,
        inventory: Inventory,
        options: Options,
        known: &BTreeMap<UnitKey, UnitId>,
        mut units: Vec<Option<Unit>>,
    ) -> Self {
        let mut new = Vec::new();
        let mut place = |unit: Unit| {
            let slot = known.get(&unit.key).and_then(|id| units.get_mut(*id as usize));
            match slot {
                Some(slot) => *slot = Some(unit),
                None => new.push(unit),
            }
        };
        for constraint in snapshot.constraints().constraints() {
            let key =
                ConstraintKey { kind: constraint.kind().clone(), name: constraint.name().clone() };
            let policy = Arc::new(PolicyRef::of_policy(constraint.resource()));
            let constraint = Some((Arc::clone(constraint), policy));
            place(Unit { constraint, ..Unit::of(UnitKey::Constraint(key)) });
        }
        place(Unit::of(UnitKey::ModRules));
        place(Unit::of(UnitKey::Mutators));
        let policies = snapshot.cluster_policies().bound();
        for policy in policies.filter(|_| options.admission_policies) {
            let key = UnitKey::AdmissionPolicy(policy.name().clone());
            let reference = Arc::new(admission_policy(policy.name()));
            place(Unit { policy: Some((Arc::clone(policy), reference)), ..Unit::of(key) });
        }
        let mut free = 0..units.len();
        for unit in new {
            let is_free = |id: &usize| units.get(*id).is_some_and(Option::is_none);
            match free.find(is_free).and_then(|id| units.get_mut(id)) {
                Some(slot) => *slot = Some(unit),
                None => units.push(Some(unit)),
            }
        }
        let mut ids = BTreeMap::new();
        let mut constraints = BTreeMap::new();
        for (id, unit) in (0..).zip(&units) {
            let Some(unit) = unit else { continue };
            ids.insert(unit.key.clone(), id);
            if let Some((constraint, _)) = &unit.constraint {
                constraints.insert(Arc::as_ptr(constraint).addr(), id);
            }
        }
        Self { snapshot, inventory, options, units, ids, constraints }
    }

    /// The number of a constraint of the snapshot.
    pub(crate) fn id_of(&self, constraint: &CompiledConstraint) -> Option<UnitId> {
        self.constraints.get(&std::ptr::from_ref(constraint).addr()).copied()
    }

    pub(crate) fn id(&self, key: &UnitKey) -> Option<UnitId> {
        self.ids.get(key).copied()
    }

    pub(crate) fn unit(&self, id: UnitId) -> Option<&Unit> {
        self.units.get(id as usize)?.as_ref()
    }

    /// Every constraint in force, by kind, then name: who demands it, its action, and what that
    /// leads to in audits.
    pub(crate) fn audited(
        &self,
    ) -> impl Iterator<Item = (&Arc<PolicyRef>, &Str, &[EnforcementAction])> {
        let constraints = self.ids.values().filter_map(|id| self.unit(*id)?.constraint.as_ref());
        constraints.map(|(constraint, policy)| {
            let enforcement = constraint.enforcement();
            let actions = enforcement.at(EnforcementPoint::Audit).unwrap_or_default();
            (policy, enforcement.name(), actions)
        })
    }

    /// The ValidatingAdmissionPolicies that may have to do with objects of a kind, by number.
    pub(crate) fn admission_policies(
        &self,
        kind: &GroupVersionKind,
    ) -> impl Iterator<Item = (UnitId, &Arc<CompiledPolicy>, &Arc<PolicyRef>)> {
        let units = (0..).zip(&self.units);
        units.filter_map(move |(id, unit)| {
            let (policy, reference) = unit.as_ref()?.policy.as_ref()?;
            policy.may_concern(kind).then_some((id, policy, reference))
        })
    }

    /// Whether ModRules are evaluated.
    pub(crate) fn asks_modrules(&self) -> bool {
        let any = |operation| self.snapshot.modrules_for(operation).next().is_some();
        self.options.modrules && (any(Operation::Create) || any(Operation::Update))
    }

    /// Whether any policy may have something to do with objects of a kind.
    pub fn concerns(&self, kind: &GroupVersionKind) -> bool {
        let admits = |constraint: &CompiledConstraint| {
            constraint.enforcement().at(EnforcementPoint::Audit).is_some()
                && constraint.criteria().is_none_or(|criteria| criteria.admits_kind(kind))
        };
        self.snapshot.constraints().constraints().any(|constraint| admits(constraint))
            || self.options.expansion && self.snapshot.expansions().expands(kind)
            || self.asks_mutators()
            || self.asks_modrules() && reach_modrules(self, kind)
            || self.admission_policies(kind).next().is_some()
    }

    /// Whether mutators are evaluated.
    pub(crate) fn asks_mutators(&self) -> bool {
        self.options.mutators && !self.snapshot.mutators().is_empty()
    }

    /// The policies.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The other objects that policies see.
    pub fn inventory(&self) -> &Inventory {
        &self.inventory
    }
}

/// The reference to a ValidatingAdmissionPolicy.
fn admission_policy(name: &Str) -> PolicyRef {
    let PolicyId { group, kind, namespace, name } = PolicyKind::Validating.id(name);
    PolicyRef {
        kind: GroupVersionKind { group, version: "v1".into(), kind },
        namespace,
        name,
        annotations: Object::default().into(),
    }
}

/// Whether the API server sends objects of a kind to the webhooks of ModRules.
fn reach_modrules(policies: &Policies, kind: &GroupVersionKind) -> bool {
    let members =
        [("apiVersion", Value::from(kind.api_version())), ("kind", kind.kind.clone().into())];
    let review = Review::of_object(members.into_iter().collect(), Operation::Create, "");
    Scope::of(&review, policies.snapshot.config(), &EmptyHost).modrules.is_ok()
}

/// A cluster without objects.
struct EmptyHost;

impl Host for EmptyHost {
    fn clock(&self) -> &dyn Clock {
        &Frozen
    }

    fn namespace(&self, name: &str) -> Result<Value, HostError> {
        Err(HostError::NotFound(format!("namespaces \"{name}\" not found")))
    }

    fn node(&self, name: &str) -> Result<Value, HostError> {
        Err(HostError::NotFound(format!("nodes \"{name}\" not found")))
    }
}

/// The reference to a ModRule.
pub(crate) fn modrule_policy(namespace: &Str, name: &Str) -> PolicyRef {
    let (group, version) = split_api_version(modrule::API_VERSION);
    PolicyRef {
        kind: GroupVersionKind {
            group: group.into(),
            version: version.into(),
            kind: modrule::KIND.into(),
        },
        namespace: namespace.clone(),
        name: name.clone(),
        annotations: Object::default().into(),
    }
}
