//! One resultant of one template (5.3, build).

use modgate_api::meta::GroupVersionKind;
use modgate_value::{Object, Str, Value, gofmt};

use super::{compile::CompiledTemplate, system::ExpansionError};
use crate::mutation::go_type;

/// The resultant that `template` makes of `parent`, in the namespace of the Namespace object or,
/// without one, of the parent.
pub(super) fn build(
    parent: &Value,
    namespace: Option<&Value>,
    template: &CompiledTemplate,
) -> Result<Value, ExpansionError> {
    let mut resultant = source(parent, template)?;
    let kind = template.generated();
    resultant.insert("apiVersion", api_version(kind).into());
    resultant.insert("kind", kind.kind.clone().into());
    let mut metadata = object_at(resultant.get("metadata"));
    match namespace_of(parent, namespace, template)? {
        Some(name) if name.is_empty() => {
            metadata.remove("namespace");
        }
        Some(name) => {
            metadata.insert("namespace", name.into());
        }
        None => {}
    }
    metadata.insert("name", name(parent, kind).into());
    if let Some(owner) = owner(parent) {
        let owners = metadata.get("ownerReferences").and_then(Value::as_array);
        let mut owners = owners.map(|owners| owners.to_vec()).unwrap_or_default();
        let members = ["apiVersion", "kind", "name"];
        if !owners.iter().any(|known| members.iter().all(|key| known.get(key) == owner.get(key))) {
            owners.push(owner);
            metadata.insert("ownerReferences", owners.into());
        }
    }
    resultant.insert("metadata", metadata.into());
    Ok(resultant.into())
}

/// The object at the template's source, as `unstructured.NestedMap` finds it.
fn source(parent: &Value, template: &CompiledTemplate) -> Result<Object, ExpansionError> {
    let path = &template.source.path;
    let wrong_type = |fields: usize, value: &Value| ExpansionError::SourceType {
        path: path.iter().take(fields).map(|field| format!(".{field}")).collect(),
        value: gofmt::text(value).into_owned(),
        found: go_type(value),
    };
    let missing = || ExpansionError::NoSource {
        source_path: template.source.text.clone(),
        parent: text(parent, "name").into(),
    };
    let mut value = parent;
    for (index, field) in path.iter().enumerate() {
        value = match value {
            Value::Null => return Err(missing()),
            Value::Object(members) => members.get(field).ok_or_else(missing)?,
            other => return Err(wrong_type(index + 1, other)),
        };
    }
    value.as_object().cloned().ok_or_else(|| wrong_type(path.len(), value))
}

/// The namespace of the resultant: `Some("")` for none, `None` for the one its source has.
fn namespace_of(
    parent: &Value,
    namespace: Option<&Value>,
    template: &CompiledTemplate,
) -> Result<Option<Str>, ExpansionError> {
    if let Some(namespace) = namespace {
        return Ok(Some(text(namespace, "name").into()));
    }
    match parent.path(&["metadata", "namespace"]) {
        None => Ok(None),
        Some(Value::String(name)) => Ok(Some(name.clone())),
        Some(_) => Err(ExpansionError::ParentNamespace {
            source_path: template.source.text.clone(),
            parent: text(parent, "name").into(),
        }),
    }
}

fn api_version(kind: &GroupVersionKind) -> String {
    if kind.group.is_empty() {
        kind.version.to_string()
    } else {
        format!("{}/{}", kind.group, kind.version)
    }
}

/// `<parent>-<kind>` in lower case.
fn name(parent: &Value, kind: &GroupVersionKind) -> String {
    let separator = if kind.kind.is_empty() { "" } else { "-" };
    format!("{}{separator}{}", text(parent, "name"), kind.kind).to_lowercase()
}

/// The owner reference to `parent`; `None` when it lacks a name or its kind.
fn owner(parent: &Value) -> Option<Value> {
    let members = [
        ("apiVersion", member(parent, &["apiVersion"])?),
        ("kind", member(parent, &["kind"])?),
        ("name", member(parent, &["metadata", "name"])?),
        ("uid", ""),
    ];
    Some(members.into_iter().map(|(key, text)| (key, Value::from(text))).collect())
}

/// A text that is there and not empty.
fn member<'a>(object: &'a Value, path: &[&str]) -> Option<&'a str> {
    object.path(path)?.as_str().filter(|text| !text.is_empty())
}

fn object_at(value: Option<&Value>) -> Object {
    value.and_then(Value::as_object).cloned().unwrap_or_default()
}

pub(super) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.path(&["metadata", field]).and_then(Value::as_str).unwrap_or_default()
}
