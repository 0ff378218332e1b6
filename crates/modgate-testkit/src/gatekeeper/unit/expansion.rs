//! Expansion templates, and what they make of an object.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use modgate_engine::{
    api::{constraints::EnforcementAction, expansion},
    expansion::{CompiledTemplate, ExpansionRequest, ExpansionSystem, Resultant},
    mutation::{CompiledMutator, MutationSystem, Options},
};
use modgate_value::{Budget, Value};

use super::{errors, nullable, object};
use crate::{
    gatekeeper::mutation::{EmptyProviders, show},
    members::Members,
    report::Verdict,
};

pub(super) fn validation(case: &Members<'_>) -> Result<Verdict> {
    errors(case, CompiledTemplate::compile(case.required("template")?).map(|_| ()))
}

fn resultants(
    object: &Value,
    namespace: Option<&Value>,
    templates: Vec<CompiledTemplate>,
    mutators: &MutationSystem,
) -> Result<Vec<Resultant>, String> {
    let budget = Budget::unlimited();
    let request = ExpansionRequest {
        object,
        namespace,
        username: "",
        mutators,
        annotate: false,
        run_id: &String::new,
        providers: &EmptyProviders,
        budget: &budget,
    };
    let system = ExpansionSystem::new(templates.into_iter().map(Arc::new));
    system.expand(&request).map_err(|error| error.to_string())
}

/// The errors of templates that the table accepts and compiling refuses.
const REFUSED_EARLIER: [(&str, &str); 2] = [
    (
        "cannot expand resource using template with empty generatedGVK",
        "ExpansionTemplate test-template has empty generatedGVK field",
    ),
    (
        "cannot expand resource using a template with no source",
        "ExpansionTemplate test-template has empty source field",
    ),
];

/// One template applied directly; it names no kinds, so ours names the object's.
pub(super) fn one_resultant(case: &Members<'_>) -> Result<Verdict> {
    let parent = case.required("object")?;
    let kind = modgate_engine::api::meta::GroupVersionKind::of_object(parent);
    let one = |text: &str| Value::from(vec![Value::from(text)]);
    let apply_to = object([
        ("groups", one(&kind.group)),
        ("versions", one(&kind.version)),
        ("kinds", one(&kind.kind)),
    ]);
    let mut template = case.required("template")?.as_object().context("`template`")?.clone();
    let mut spec = template.get("spec").and_then(Value::as_object).context("`spec`")?.clone();
    spec.insert("applyTo", vec![apply_to].into());
    template.insert("spec", spec.into());
    template.insert("apiVersion", format!("{}/v1beta1", expansion::GROUP).into());
    template.insert("kind", expansion::KIND.into());
    let namespace = case.required("namespace")?;
    let got = CompiledTemplate::compile(&template.into())
        .map_err(|error| error.to_string())
        .and_then(|template| {
            let namespace = Some(namespace).filter(|namespace| !namespace.is_null());
            resultants(parent, namespace, vec![template], &MutationSystem::default())
        })
        .map(|found| found.into_iter().map(|resultant| resultant.object).collect::<Value>());
    let result = case.required("result")?;
    let expected = match nullable(case.required("error")?)? {
        Some(error) => {
            let earlier = REFUSED_EARLIER.iter().find(|(late, _)| *late == error);
            Err(earlier.map_or(error, |(_, early)| early).to_owned())
        }
        None => Ok(vec![result.clone()].into()),
    };
    Ok(Verdict::equal(show(&expected), show(&got)))
}

/// Templates and mutators on one generator. Upstream's results are a set.
pub(super) fn expand(case: &Members<'_>) -> Result<Verdict> {
    let list = |key: &'static str| -> Result<Vec<Value>> {
        Ok(case.required(key)?.as_array().map(|list| list.to_vec()).unwrap_or_default())
    };
    let mutators: Vec<_> = list("mutators")?
        .iter()
        .map(|mutator| Ok(Arc::new(CompiledMutator::compile(mutator, Options::default())?)))
        .collect::<Result<_>>()?;
    let templates: Vec<_> = list("templates")?
        .iter()
        .map(|template| Ok(CompiledTemplate::compile(template)?))
        .collect::<Result<_>>()?;
    let namespace = case.required("namespace")?;
    let got = resultants(
        case.required("generator")?,
        Some(namespace).filter(|namespace| !namespace.is_null()),
        templates,
        &MutationSystem::new(mutators),
    );
    let sorted = |mut found: Vec<Value>| -> Value {
        found.sort();
        found.into()
    };
    let got = got.map(|found| {
        let describe = |resultant: &Resultant| {
            let action = resultant.action().map_or("", EnforcementAction::as_str);
            object([
                ("enforcementAction", action.into()),
                ("object", resultant.object.clone()),
                ("template", resultant.template.name().clone().into()),
            ])
        };
        sorted(found.iter().map(describe).collect())
    });
    let results = list("results")?;
    let expected = match nullable(case.required("error")?)? {
        Some(error) => Err(error.to_owned()),
        None => Ok(sorted(results)),
    };
    Ok(Verdict::equal(show(&expected), show(&got)))
}
