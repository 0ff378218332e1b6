//! `unit/*.json`: the tables of Gatekeeper's unit tests for match criteria, `applyTo`, locations,
//! mutators, schema conflicts and expansion, asked through our own public functions.

mod apply_to;
mod expansion;
mod image;
mod matching;
mod mutators;
mod schema;

use anyhow::{Context as _, Result, bail};
use modgate_engine::mutation::{CompiledMutator, Options};
use modgate_value::Value;

use crate::{
    corpus::{CorpusFile, Roots},
    members::Members,
    report::{Case, Verdict},
};

/// The tables that are run here, by their names below `gatekeeper/unit/`.
pub(crate) fn run(file: &CorpusFile, _: &Roots, cases: &mut Vec<Case>) -> Result<()> {
    let name = file.name.rsplit('/').next().unwrap_or_default();
    let check: fn(&Members<'_>) -> Result<Verdict> = match name {
        "applyto.json" => apply_to::kinds,
        "applyto-effective-operations.json" => apply_to::effective_operations,
        "applyto-gvk-and-operation.json" => apply_to::kinds_and_operations,
        "applyto-operation.json" => apply_to::operation,
        "applyto-validate-operations.json" => apply_to::validation,
        "assignimage-mutate.json" => image::mutate,
        "expansion-expand.json" => expansion::expand,
        "expansion-expandresource.json" => expansion::one_resultant,
        "expansion-validate.json" => expansion::validation,
        "image-split.json" => image::split,
        "image-validate.json" => image::validation,
        "location-parser.json" => mutators::location,
        "match.json" => matching::criteria,
        "match-names.json" => matching::names,
        "modifyset-set.json" => mutators::sets,
        "mutator-admission-validation.json" => mutators::validation,
        "pathtests.json" => mutators::path_tests,
        "schema-remove.json" => schema::remove,
        "schema-upsert.json" => schema::upsert,
        other => bail!("no suite for the table `{other}`"),
    };
    let document = file.json()?;
    let top = Members::of(&document)?;
    top.notes(&["what", "upstream"]);
    for (index, case) in top.list("cases")?.iter().enumerate() {
        let members = Members::of(case)?;
        // Names are not distinct in every table, and one table has none.
        let id = match members.optional_text("name")?.or(members.optional_text("location")?) {
            Some(name) => format!("{index} {name}"),
            None => index.to_string(),
        };
        let verdict = check(&members).with_context(|| id.clone())?;
        members.finish()?;
        cases.push(Case { id, verdict });
    }
    top.finish()
}

/// An error or its absence, compared by text.
fn errors<E: ToString>(case: &Members<'_>, got: Result<(), E>) -> Result<Verdict> {
    let expected = nullable(case.required("error")?)?;
    let got = got.err().map(|error| error.to_string());
    Ok(Verdict::equal(format!("{expected:?}"), format!("{:?}", got.as_deref())))
}

fn nullable(value: &Value) -> Result<Option<&str>> {
    match value {
        Value::Null => Ok(None),
        other => Ok(Some(other.as_str().context("`error` is neither null nor a text")?)),
    }
}

/// Whether a mutator compiles.
fn compiles(resource: &Value) -> Result<(), String> {
    let compiled = CompiledMutator::compile(resource, Options::default());
    compiled.map(|_| ()).map_err(|error| error.to_string())
}

/// A mutator called `m`.
fn mutator(kind: &str, spec: Value) -> Value {
    resource("mutations.gatekeeper.sh/v1alpha1", kind, "m", spec)
}

fn resource(api_version: &str, kind: &str, name: &str, spec: Value) -> Value {
    object([
        ("apiVersion", api_version.into()),
        ("kind", kind.into()),
        ("metadata", object([("name", name.into())])),
        ("spec", spec),
    ])
}

/// `applyTo` for Pods.
fn to_pods() -> Value {
    let one = |text: &str| vec![Value::from(text)].into();
    vec![object([("groups", one("")), ("versions", one("v1")), ("kinds", one("Pod"))])].into()
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    members.into_iter().collect()
}
