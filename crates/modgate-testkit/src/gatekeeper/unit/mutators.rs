//! Mutators: locations, path tests, sets, and which are valid.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use modgate_engine::mutation::{
    CompiledMutator, Location, MutationSystem, Options,
    location::{Elements, Node},
};
use modgate_value::{Str, Value};

use super::{compiles, errors, mutator, nullable, object, resource, to_pods};
use crate::{
    decision,
    gatekeeper::mutation::{mutate, show},
    members::Members,
    report::Verdict,
};

pub(super) fn location(case: &Members<'_>) -> Result<Verdict> {
    let parsed = Location::parse(case.text("location")?);
    let expected = case.list("nodes")?;
    match parsed {
        Ok(location) => {
            let nodes: Value = location.nodes().iter().map(node).collect();
            let same = nullable(case.required("error")?)?.is_none()
                && expected == nodes.as_array().map(|nodes| &**nodes).unwrap_or_default();
            let expected: Value = expected.iter().cloned().collect();
            Ok(if same {
                Verdict::Passed
            } else {
                Verdict::Failed { expected: expected.to_json(), got: nodes.to_json() }
            })
        }
        Err(error) => errors(case, Err(error)),
    }
}

fn node(node: &Node) -> Value {
    let entry = |key: &'static str, value: Value| (Str::from(key), value);
    match node {
        Node::Field(name) => [entry("field", name.clone().into())].into_iter().collect(),
        Node::List { key, elements } => {
            let key = entry("keyField", key.clone().into());
            let value = match elements {
                Elements::All => return [key, entry("glob", true.into())].into_iter().collect(),
                Elements::Text(text) => text.clone().into(),
                Elements::Integer(integer) => (*integer).into(),
            };
            [key, entry("glob", false.into()), entry("keyValue", value)].into_iter().collect()
        }
    }
}

pub(super) fn path_tests(case: &Members<'_>) -> Result<Verdict> {
    let location = case.text("location")?;
    let tests = case.required("pathTests")?;
    let parameters =
        object([("assign", object([("value", 1.into())])), ("pathTests", tests.clone())]);
    let spec =
        object([("applyTo", to_pods()), ("location", location.into()), ("parameters", parameters)]);
    let got = compiles(&mutator("Assign", spec)).err();
    let original = nullable(case.required("error")?)?.map(str::to_owned);
    let prescribed = by_depth(tests.as_array().map(|tests| &**tests).unwrap_or_default())
        .filter(|_| original.as_ref().is_some_and(|error| error.contains("parent <nil>")))
        .map(|required| (vec![&decision::FIX_PATHTEST_ORDER], Some(required)));
    Ok(Verdict::check(&got, &original, prescribed, PartialEq::eq, |error| format!("{error:?}")))
}

/// The contradiction between tests when their depths are compared instead of their places in the
/// list; the subpaths of this table are plain.
fn by_depth(tests: &[Value]) -> Option<String> {
    let with = |condition: &'static str| {
        let paths = tests
            .iter()
            .filter(move |test| test.get("condition").and_then(Value::as_str) == Some(condition));
        paths.filter_map(|test| test.get("subPath").and_then(Value::as_str))
    };
    let depth = |path: &&str| path.split('.').count();
    let parent = with("MustNotExist").min_by_key(depth)?;
    let child = with("MustExist").filter(|path| depth(path) > depth(&parent)).min_by_key(depth)?;
    Some(format!(
        "conflicting path test conditions: path \"{child}\" is marked MustExist but parent \
         \"{parent}\" MustNotExist"
    ))
}

/// One list as a set. `existing` null means the member is absent.
pub(super) fn sets(case: &Members<'_>) -> Result<Verdict> {
    let values = case.required("values")?;
    let mut parameters = vec![("operation", case.required("operation")?.clone())];
    if !values.is_null() {
        parameters.push(("values", object([("fromList", values.clone())])));
    }
    let spec = object([
        ("applyTo", to_pods()),
        ("location", "set".into()),
        ("parameters", parameters.into_iter().collect()),
    ]);
    let compiled = CompiledMutator::compile(&mutator("ModifySet", spec), Options::default())?;
    let pod = |set: &Value| {
        let mut members = vec![("apiVersion", "v1".into()), ("kind", "Pod".into())];
        if !set.is_null() {
            members.push(("set", set.clone()));
        }
        members.into_iter().collect::<Value>()
    };
    let object = pod(case.required("existing")?);
    let got = mutate(&MutationSystem::new([Arc::new(compiled)]), &object, None);
    // The table has the reason only; a failed request says more before it.
    let reason = |error: String| match error.split_once("failed for  Pod  : ") {
        Some((_, reason)) => reason.to_owned(),
        None => error,
    };
    let expected = match nullable(case.required("error")?)? {
        Some(error) => {
            case.notes(&["result"]);
            Err(error.to_owned())
        }
        None => Ok(pod(case.required("result")?)),
    };
    Ok(Verdict::equal(show(&expected), show(&got.map_err(reason))))
}

pub(super) fn validation(case: &Members<'_>) -> Result<Verdict> {
    case.notes(&["kind", "errorExpected"]);
    let manifest = Value::from_json(case.text("manifest")?.as_bytes()).context("`manifest`")?;
    errors(case, modgate_engine::mutation::validate(&manifest, Options::default()).map(|_| ()))
}

/// An Assign called `name`, at `location`, about `apply_to`; one that asks a provider may have
/// nothing below its location.
pub(super) fn assign(name: &str, location: &str, apply_to: Value, must_terminate: bool) -> Value {
    let from = if must_terminate {
        object([("externalData", object([("provider", "p".into())]))])
    } else {
        object([("value", 1.into())])
    };
    let spec = object([
        ("applyTo", apply_to),
        ("location", location.into()),
        ("parameters", object([("assign", from)])),
    ]);
    resource("mutations.gatekeeper.sh/v1", "Assign", name, spec)
}
