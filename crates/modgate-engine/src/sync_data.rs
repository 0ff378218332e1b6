//! The annotation in which a template names the kinds it needs.

use modgate_api::meta::GroupVersionKind;
use modgate_value::{Object, Str, Value};

/// The annotation.
pub const ANNOTATION: &str = "metadata.gatekeeper.sh/requires-sync-data";

/// Everything must be met; each by any one of its kinds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs(pub Vec<Vec<GroupVersionKind>>);

/// How many kinds one alternative may stand for.
const MAX_KINDS: usize = 10_000;

/// The needs of a template; none without the annotation.
///
/// # Errors
///
/// The mistake in the annotation.
pub fn needs_of(template: &Value) -> Result<Needs, String> {
    let annotation = template.path(&["metadata", "annotations", ANNOTATION]);
    let Some(text) = annotation.and_then(Value::as_str) else { return Ok(Needs::default()) };
    // Written with quotes around it, so that its first line can be a brace.
    let text = text.trim_matches('\n');
    let text = text.strip_prefix('"').unwrap_or(text);
    let text = text.strip_suffix('"').unwrap_or(text);
    let list = Value::from_json(text.as_bytes()).map_err(|error| error.to_string())?;
    if list.is_null() {
        return Ok(Needs::default());
    }
    let needs = items(&list, "requirements")?.iter().map(need).collect::<Result<_, _>>()?;
    Ok(Needs(needs))
}

fn need(value: &Value) -> Result<Vec<GroupVersionKind>, String> {
    let mut kinds = Vec::new();
    for alternative in items(value, "a requirement")? {
        let Value::Object(members) = alternative else {
            return Err(format!("an alternative is {}, not an object", what(alternative)));
        };
        let known = ["groups", "versions", "kinds"];
        if let Some(unknown) = members.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(format!("unknown field {unknown:?} of an alternative"));
        }
        let [groups, versions, names] =
            [texts(members, "groups")?, texts(members, "versions")?, texts(members, "kinds")?];
        let count = groups.len().saturating_mul(versions.len()).saturating_mul(names.len());
        if count > MAX_KINDS {
            return Err(format!("an alternative stands for more than {MAX_KINDS} kinds"));
        }
        for group in &groups {
            for version in &versions {
                kinds.extend(names.iter().map(|kind| GroupVersionKind {
                    group: group.clone(),
                    version: version.clone(),
                    kind: kind.clone(),
                }));
            }
        }
    }
    Ok(kinds)
}

fn items<'v>(value: &'v Value, name: &str) -> Result<&'v [Value], String> {
    match value {
        Value::Array(items) => Ok(items),
        other => Err(format!("{name} must be a list, found {}", what(other))),
    }
}

fn texts(members: &Object, key: &str) -> Result<Vec<Str>, String> {
    let Some(list) = members.get(key).filter(|list| !list.is_null()) else {
        return Ok(Vec::new());
    };
    items(list, key)?
        .iter()
        .map(|item| match item {
            Value::String(text) => Ok(text.clone()),
            other => Err(format!("{key} must be texts, found {}", what(other))),
        })
        .collect()
}

/// The type of a value, in words.
pub fn what(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
