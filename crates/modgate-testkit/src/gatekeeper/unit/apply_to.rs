//! Which kinds and operations `applyTo` means.

use anyhow::Result;
use modgate_engine::api::{
    meta::{GroupVersionKind, Operation},
    mutations::{ApplyTo, MutatorKind},
};
use modgate_value::Value;
use serde::Deserialize as _;

use super::{compiles, errors, mutator, object};
use crate::{members::Members, report::Verdict};

fn entries(case: &Members<'_>) -> Result<Vec<ApplyTo>> {
    let entries = case.list("applyTo")?;
    Ok(entries.iter().map(ApplyTo::deserialize).collect::<Result<_, _>>()?)
}

fn kind_of(case: &Members<'_>) -> Result<GroupVersionKind> {
    let text = |key| Ok::<_, anyhow::Error>(case.text(key)?.into());
    Ok(GroupVersionKind { group: text("group")?, version: text("version")?, kind: text("kind")? })
}

fn operation_of(case: &Members<'_>) -> Result<Option<Operation>> {
    Ok(match case.text("operation")? {
        "" => None,
        text => Some(text.parse()?),
    })
}

fn yes_or_no(case: &Members<'_>, got: bool) -> Result<Verdict> {
    Ok(Verdict::equal(case.flag("want")?.to_string(), got.to_string()))
}

pub(super) fn kinds(case: &Members<'_>) -> Result<Verdict> {
    let kind = kind_of(case)?;
    yes_or_no(case, entries(case)?.iter().any(|entry| entry.names(&kind)))
}

pub(super) fn kinds_and_operations(case: &Members<'_>) -> Result<Verdict> {
    let (kind, operation) = (kind_of(case)?, operation_of(case)?);
    let meant = |entry: &ApplyTo| entry.names(&kind) && entry.covers(operation);
    yes_or_no(case, entries(case)?.iter().any(meant))
}

pub(super) fn operation(case: &Members<'_>) -> Result<Verdict> {
    let entry = ApplyTo::deserialize(case.required("applyTo")?)?;
    yes_or_no(case, entry.covers(operation_of(case)?))
}

pub(super) fn effective_operations(case: &Members<'_>) -> Result<Verdict> {
    let entry = ApplyTo::deserialize(case.required("applyTo")?)?;
    let got: Value = entry.operations().map(|operation| Value::from(operation.as_str())).collect();
    Ok(Verdict::equal(case.required("want")?.to_json(), got.to_json()))
}

/// The entries of this table have no kinds; given some, the same error comes with the mutator's
/// name before it.
pub(super) fn validation(case: &Members<'_>) -> Result<Verdict> {
    let any = || Value::from(vec![Value::from("x")]);
    let entries: Vec<Value> = case
        .list("applyTo")?
        .iter()
        .map(|entry| {
            let mut entry = entry.as_object().cloned().unwrap_or_default();
            for list in ["groups", "versions", "kinds"] {
                entry.insert(list, any());
            }
            entry.into()
        })
        .collect();
    let kind = MutatorKind::Assign.as_str();
    let empty = entries.is_empty();
    let spec = object([
        ("applyTo", entries.into()),
        ("location", "spec.x".into()),
        ("parameters", object([("assign", object([("value", 1.into())]))])),
    ]);
    let got = match compiles(&mutator(kind, spec)) {
        // That there is an entry at all is checked elsewhere.
        Err(error) if empty && error == "applyTo required for Assign mutator m" => Ok(()),
        Err(error) => Err(match error.strip_prefix("invalid applyTo for Assign mutator m: ") {
            Some(rest) => rest.to_owned(),
            None => error,
        }),
        Ok(()) => Ok(()),
    };
    errors(case, got)
}
