//! Locations that contradict each other.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use anyhow::{Context as _, Result};
use modgate_engine::mutation::{CompiledMutator, MutationSystem, Options};
use modgate_value::{Str, Value};

use super::{mutators::assign, nullable, object};
use crate::{members::Members, report::Verdict};

fn system(mutators: &[Value]) -> Result<MutationSystem> {
    let compiled: Vec<_> = mutators
        .iter()
        .map(|mutator| {
            let members = Members::of(mutator)?;
            let resource = assign(
                members.text("name")?,
                members.text("location")?,
                apply_to(members.list("bindings")?)?,
                members.flag("mustTerminate")?,
            );
            members.finish()?;
            Ok(Arc::new(CompiledMutator::compile(&resource, Options::default())?))
        })
        .collect::<Result<_>>()?;
    Ok(MutationSystem::new(compiled))
}

/// The entries of `applyTo` that lead to these bindings. Mutators apply to CREATE and UPDATE
/// only; the table's bindings for other operations say nothing that those do not.
fn apply_to(bindings: &[Value]) -> Result<Value> {
    let mut kinds: BTreeMap<[&str; 3], BTreeSet<&str>> = BTreeMap::new();
    for binding in bindings {
        let members = Members::of(binding)?;
        let kind = [members.text("group")?, members.text("version")?, members.text("kind")?];
        kinds.entry(kind).or_default().insert(members.text("operation")?);
        members.finish()?;
    }
    let list = |texts: &[&str]| -> Value { texts.iter().map(|text| Value::from(*text)).collect() };
    let entries = kinds.into_iter().map(|([group, version, kind], operations)| {
        let known: Vec<&str> = ["CREATE", "UPDATE"]
            .into_iter()
            .filter(|operation| operations.contains(operation))
            .collect();
        object([
            ("groups", list(&[group])),
            ("versions", list(&[version])),
            ("kinds", list(&[kind])),
            ("operations", list(&known)),
        ])
    });
    Ok(entries.collect())
}

fn present(case: &Members<'_>, key: &'static str) -> Result<Vec<Value>> {
    let list = case.required(key)?;
    Ok(list.as_array().map(|list| list.to_vec()).unwrap_or_default())
}

pub(super) fn upsert(case: &Members<'_>) -> Result<Verdict> {
    let mut mutators = present(case, "before")?;
    let added = case.required("toAdd")?;
    let expected = nullable(case.required("error")?)?;
    if added.is_null() {
        // There is no such thing as a mutator that is not there.
        return Ok(Verdict::Exempt);
    }
    mutators.push(added.clone());
    let system = system(&mutators)?;
    let name = added.get("name").and_then(Value::as_str).context("`name`")?;
    let conflict = system.conflicts().iter().find(|(id, _)| id.name == name);
    // The table's mutators have names only, hence print without their kind.
    let got = conflict
        .map(|(_, conflict)| conflict.to_string().replace("Assign.mutations.gatekeeper.sh", ""));
    Ok(Verdict::equal(format!("{expected:?}"), format!("{:?}", got.as_deref())))
}

pub(super) fn remove(case: &Members<'_>) -> Result<Verdict> {
    let mutators = present(case, "before")?;
    let (checked, removed) = (case.text("check")?, case.text("remove")?);
    let in_conflict = |mutators: &[Value]| -> Result<bool> {
        Ok(system(mutators)?.conflicts().keys().any(|id| id.name == checked))
    };
    let name = |mutator: &Value| mutator.get("name").and_then(Value::as_str).map(Str::from);
    let left: Vec<Value> =
        mutators.iter().filter(|it| name(it).as_deref() != Some(removed)).cloned().collect();
    let got = [in_conflict(&mutators)?, in_conflict(&left)?];
    let expected = [case.flag("conflictBefore")?, case.flag("conflictAfter")?];
    Ok(Verdict::equal(format!("{expected:?}"), format!("{got:?}")))
}
