//! Which policies are not in force, after what they depend on has changed.

use std::{collections::BTreeMap, sync::Arc};

use modgate_engine::{
    PolicyId, Snapshot,
    api::{constraints, expansion, mutations},
    constraint::ConstraintKey,
    mutation::MutatorId,
};

use super::{kinds::Kind, object::Key, state::OfKind};

/// Whether a policy that was not in force still is not: a template, the end of a conflict or of a
/// cycle can have helped it without a change of its own.
pub(super) fn is_still(
    id: &PolicyId,
    snapshot: &Snapshot,
    policies: &BTreeMap<Kind, Arc<OfKind>>,
) -> bool {
    let kind = Kind { group: id.group.to_string(), kind: id.kind.to_string() };
    let key = Key { namespace: id.namespace.clone(), name: id.name.clone() };
    // One that cannot even be read is not among them.
    let Some(loaded) = policies.get(&kind).and_then(|known| known.get(&key)) else { return true };
    match id.group.as_str() {
        constraints::GROUP => {
            let key = ConstraintKey { kind: id.kind.clone(), name: id.name.clone() };
            let compiled = snapshot.constraints().constraint(&key);
            compiled.is_none_or(|compiled| *compiled.resource() != loaded.object)
        }
        mutations::GROUP => {
            let Some(kind) = mutations::MutatorKind::from_name(&id.kind) else { return true };
            let id = MutatorId { kind, namespace: id.namespace.clone(), name: id.name.clone() };
            let system = snapshot.mutators();
            system.conflicts().contains_key(&id)
                || !system.mutators().iter().any(|mutator| *mutator.id() == id)
        }
        expansion::GROUP => {
            let system = snapshot.expansions();
            system.cyclic().contains(&id.name)
                || !system.templates().iter().any(|template| *template.name() == id.name)
        }
        _ => true,
    }
}
