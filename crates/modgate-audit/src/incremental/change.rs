//! Which units may find something else than before.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use modgate_engine::{
    api::meta::GroupVersionKind,
    constraint::{CompiledConstraint, InventoryPart},
};

use crate::policies::{Policies, Unit, UnitId, UnitKey};

/// When each unit last changed.
#[derive(Debug, Default)]
pub(super) struct Changes {
    units: Vec<Changed>,
    latest: u32,
}

#[derive(Debug, Clone, Copy)]
struct Changed {
    /// The unit itself.
    own: u32,
    /// The parts of the inventory that it may read.
    inventory: u32,
}

/// The units that changed after an epoch and may have to do with objects of a kind.
#[derive(Debug, Default)]
pub(super) struct ChangedUnits {
    /// Those that changed themselves.
    pub(super) own: Vec<UnitId>,
    /// Those that find something else only where they looked at the inventory, sorted.
    pub(super) inventory: Vec<UnitId>,
}

impl Changes {
    /// Notes what changed from one set of policies to the next; returns the numbers of units that
    /// are gone.
    pub(super) fn between(
        &mut self,
        before: &Policies,
        next: &Policies,
        epoch: u32,
    ) -> BTreeSet<UnitId> {
        self.extend_to(next.units.len(), epoch);
        let parts = next.inventory().changed_since(before.inventory());
        let mut gone = BTreeSet::new();
        for ((id, new), changed) in (0..).zip(&next.units).zip(&mut self.units) {
            let old = before.unit(id);
            let is_same_key = |new: &Unit| old.is_some_and(|old| old.key == new.key);
            if old.is_some() && !new.as_ref().is_some_and(is_same_key) {
                gone.insert(id);
            }
            let Some(new) = new else { continue };
            let old = old.filter(|old| old.key == new.key);
            if old.is_none_or(|old| is_other(old, new, before, next)) {
                changed.own = epoch;
                self.latest = epoch;
            }
            if reads(new, &parts) {
                changed.inventory = epoch;
                self.latest = epoch;
            }
        }
        gone
    }

    /// A unit finds something else than before.
    pub(super) fn touch(&mut self, id: UnitId, epoch: u32) {
        if let Some(changed) = self.units.get_mut(id as usize) {
            changed.own = epoch;
            self.latest = epoch;
        }
    }

    /// Units beyond those known are new.
    pub(super) fn extend_to(&mut self, count: usize, epoch: u32) {
        if self.units.len() < count {
            self.units.resize(count, Changed { own: epoch, inventory: epoch });
            self.latest = epoch;
        }
    }

    /// The units that changed themselves in an epoch, the last.
    pub(super) fn at(&self, epoch: u32) -> impl Iterator<Item = UnitId> {
        let units = (0..).zip(&self.units).filter(move |(_, changed)| changed.own == epoch);
        units.map(|(id, _)| id)
    }

    fn since(&self, epoch: u32, policies: &Policies, kind: &GroupVersionKind) -> ChangedUnits {
        let mut since = ChangedUnits::default();
        if self.latest <= epoch {
            return since;
        }
        for (id, changed) in (0..).zip(&self.units) {
            if changed.own > epoch && concerns(policies, id, kind) {
                since.own.push(id);
            } else if changed.inventory > epoch {
                since.inventory.push(id);
            }
        }
        since
    }
}

/// The answer of [`Changes::since`] for one kind, used for many of its objects.
#[derive(Debug, Default)]
pub(super) struct Since(BTreeMap<u32, ChangedUnits>);

impl Since {
    /// The units that changed after an epoch and may have to do with objects of the kind.
    pub(super) fn units(
        &mut self,
        epoch: u32,
        changes: &Changes,
        policies: &Policies,
        kind: &GroupVersionKind,
    ) -> &ChangedUnits {
        self.0.entry(epoch).or_insert_with(|| changes.since(epoch, policies, kind))
    }
}

/// Whether a unit may have to do with objects of a kind.
pub(super) fn concerns(policies: &Policies, id: UnitId, kind: &GroupVersionKind) -> bool {
    match policies.unit(id) {
        None => false,
        Some(Unit { policy: Some((policy, _)), .. }) => policy.may_concern(kind),
        Some(Unit { constraint: None, .. }) => true,
        Some(Unit { constraint: Some((constraint, _)), .. }) => {
            let admits = constraint.criteria().is_none_or(|criteria| criteria.admits_kind(kind));
            // A constraint on Pods also applies to Deployments that expand to Pods.
            admits || policies.options.expansion && policies.snapshot().expansions().expands(kind)
        }
    }
}

fn is_other(old: &Unit, new: &Unit, before: &Policies, next: &Policies) -> bool {
    match (&new.key, &old.constraint, &new.constraint) {
        (UnitKey::Constraint(_), Some((old, _)), Some((new, _))) => !is_same(old, new),
        (UnitKey::Constraint(_), ..) => true,
        (UnitKey::ModRules, ..) => !before.snapshot().shares_modrules(next.snapshot()),
        (UnitKey::Mutators, ..) => !shares_mutators(before, next),
        (UnitKey::AdmissionPolicy(name), ..) => {
            let (before, next) = (before.snapshot(), next.snapshot());
            !before.cluster_policies().shares_bound(next.cluster_policies(), name)
        }
    }
}

fn is_same(old: &Arc<CompiledConstraint>, new: &Arc<CompiledConstraint>) -> bool {
    Arc::ptr_eq(old, new)
        || Arc::ptr_eq(old.template(), new.template()) && old.resource() == new.resource()
}

/// Whether a constraint's template looks at a part of the inventory that changed.
fn reads(unit: &Unit, parts: &[InventoryPart]) -> bool {
    let Some((constraint, _)) = &unit.constraint else { return false };
    let reads = constraint.template().driver().reads();
    reads.iter().any(|read| parts.iter().any(|part| read.overlaps(part)))
}

/// Snapshots that were not made from each other by changing mutators have the very same.
fn shares_mutators(before: &Policies, next: &Policies) -> bool {
    std::ptr::eq(before.snapshot().mutators(), next.snapshot().mutators())
}

/// Whether generators may expand to something else.
pub(super) fn expands_otherwise(before: &Policies, next: &Policies) -> bool {
    let (old, new) = (before.snapshot(), next.snapshot());
    !std::ptr::eq(old.expansions(), new.expansions())
        || !shares_mutators(before, next)
        || new.config().expand_modrules && !old.shares_modrules(new)
}
