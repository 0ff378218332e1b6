//! Image references.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use modgate_engine::mutation::{CompiledMutator, ImageReference, MutationSystem, Options};
use modgate_value::Value;

use super::{compiles, errors, mutator, nullable, object, to_pods};
use crate::{
    gatekeeper::mutation::{mutate as run, show},
    members::Members,
    report::Verdict,
};

pub(super) fn split(case: &Members<'_>) -> Result<Verdict> {
    let ImageReference { domain, path, tag } = ImageReference::split(case.text("image")?);
    let expected = [case.text("domain")?, case.text("path")?, case.text("tag")?];
    Ok(Verdict::equal(format!("{expected:?}"), format!("{:?}", [domain, path, tag])))
}

pub(super) fn validation(case: &Members<'_>) -> Result<Verdict> {
    let part = |key| Ok::<_, anyhow::Error>((key, Value::from(case.text(key)?)));
    let parameters = object([part("assignDomain")?, part("assignPath")?, part("assignTag")?]);
    let spec =
        object([("applyTo", to_pods()), ("location", "spec.x".into()), ("parameters", parameters)]);
    let got = compiles(&mutator("AssignImage", spec)).map_err(|error| {
        match error.strip_prefix("assignImage m has invalid parameters: ") {
            Some(reason) => reason.to_owned(),
            None => error,
        }
    });
    errors(case, got)
}

/// The table's `applyTo` names a kind that its object is not of, as it applies the mutator
/// directly; ours has to be about Pods.
pub(super) fn mutate(case: &Members<'_>) -> Result<Verdict> {
    let mut spec = case.required("spec")?.as_object().context("`spec`")?.clone();
    spec.insert("applyTo", to_pods());
    let compiled =
        CompiledMutator::compile(&mutator("AssignImage", spec.into()), Options::default())?;
    let object = case.required("object")?;
    let got = run(&MutationSystem::new([Arc::new(compiled)]), object, None);
    let expected = match nullable(case.required("error")?)? {
        Some(error) => Err(error.to_owned()),
        None => Ok(case.required("result")?.clone()),
    };
    Ok(Verdict::equal(show(&expected), show(&got)))
}
