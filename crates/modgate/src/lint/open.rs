//! Fields that a constraint leaves open on purpose: its template has an optional parameter for the
//! value of a label or an annotation, and the constraint does not give it.

use modgate_engine::{
    Code, EngineConfig, PolicyId, PolicySource,
    api::{constraints, templates},
};
use modgate_prove::{
    lint::{Bypass, Request, Verdict, ask},
    value::{Path, Step, at, paths, replaced},
};
use modgate_value::Value;

use super::units::{Unit, snapshot};

/// Patterns that an empty text does not match: a regular expression, and one with `*` and `?`.
const SOMETHING: [&str; 2] = [".+", "?*"];
/// A value that they match.
const VALUE: &str = "web";

/// Whether the constraint leaves the value open that is empty in the witness: with an optional parameter beside the
/// name, the policy denies the empty value, and still admits another one.
pub(super) fn leaves_open(unit: &Unit, bypass: &Bypass, config: &EngineConfig) -> bool {
    if bypass.code != Code::BypassEmptyValue {
        return false;
    }
    let Some((at_witness, name)) = empty_text(&bypass.witness.object) else { return false };
    let other = Request {
        object: replaced(&bypass.witness.object, &at_witness, VALUE.into()),
        ..bypass.witness.clone()
    };
    with_parameter(unit.documents(), &name).into_iter().any(|documents| {
        let policies = documents.into_iter().map(PolicySource::of_object).collect();
        let Ok(snapshot) = snapshot(policies, config, &[]) else { return false };
        let side = modgate_prove::Side { snapshot: &snapshot, ..unit.subject().side };
        matches!(ask(&side, &bypass.witness), Verdict::Denied(_))
            && ask(&side, &other) == Verdict::Admitted
    })
}

/// The label or annotation without a value, and its name.
fn empty_text(object: &Value) -> Option<(Vec<Step>, String)> {
    ["labels", "annotations"].into_iter().find_map(|member| {
        let path: &Path = &["metadata".into(), member.into()];
        let members = at(object, path)?.as_object()?;
        let (name, _) = members.iter().find(|(_, value)| value.as_str() == Some(""))?;
        Some(([path, &[name.as_str().into()]].concat(), name.to_string()))
    })
}

/// The documents of a policy, once for each optional text among its parameters beside `name` that is not given, and for
/// each pattern: with the pattern in its place.
fn with_parameter(documents: &[Value], name: &str) -> Vec<Vec<Value>> {
    let of_group =
        |group: &str| documents.iter().position(|it| *PolicyId::of_object(it).group == *group);
    let place = of_group(constraints::GROUP);
    let constraint = place.and_then(|place| documents.get(place));
    let template = of_group(templates::GROUP).and_then(|place| documents.get(place));
    let (Some(place), Some(constraint), Some(template)) = (place, constraint, template) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for path in paths(constraint) {
        let Some((_, holder)) = path.split_last() else { continue };
        if at(constraint, &path).and_then(Value::as_str) != Some(name) {
            continue;
        }
        for member in optional_texts(template, constraint, holder) {
            let path = [holder, &[member.as_str().into()]].concat();
            for pattern in SOMETHING {
                let changed = replaced(constraint, &path, pattern.into());
                let others = documents.iter().enumerate();
                found.push(
                    others
                        .map(|(at, it)| if at == place { changed.clone() } else { it.clone() })
                        .collect(),
                );
            }
        }
    }
    found
}

/// The members of type `string` that the schema of a template has for an object among the parameters, and that are
/// not there.
fn optional_texts(template: &Value, constraint: &Value, holder: &Path) -> Vec<String> {
    let [Step::Key(spec), Step::Key(parameters), rest @ ..] = holder else { return Vec::new() };
    if (spec.as_str(), parameters.as_str()) != ("spec", "parameters") {
        return Vec::new();
    }
    let root = ["spec", "crd", "spec", "validation", "openAPIV3Schema"];
    let schema = rest.iter().try_fold(template.path(&root), |schema, step| {
        Some(match step {
            Step::Key(key) => schema?.path(&["properties", key.as_str()]),
            Step::Index(_) => schema?.get("items"),
        })
    });
    let given = at(constraint, holder);
    let members = schema.flatten().and_then(|schema| schema.get("properties"));
    let members = members.and_then(Value::as_object).into_iter().flat_map(|members| members.iter());
    members
        .filter(|(name, schema)| {
            schema.get("type").and_then(Value::as_str) == Some("string")
                && given.is_some_and(|given| given.get(name.as_str()).is_none())
        })
        .map(|(name, _)| name.to_string())
        .collect()
}
