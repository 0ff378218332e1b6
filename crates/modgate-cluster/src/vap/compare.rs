//! Whether an object has the content that it should, without what the API server adds.

use modgate_engine::api::{constraints, templates};
use modgate_value::Value;

/// Whether `live` has the content of `wanted`, and nothing else but defaults.
pub(super) fn is_same(wanted: &Value, live: &Value) -> bool {
    let spec = |object: &Value| object.get("spec").cloned().unwrap_or_default();
    let owner = |object: &Value| Owner::of(object).map(|owner| owner.uid.to_owned());
    same(&spec(wanted), &spec(live)) && owner(wanted) == owner(live)
}

/// Whether `live` says anything that `wanted` does not, which applying leaves as it is where it was
/// not applied by us.
pub(super) fn says_more(wanted: &Value, live: &Value) -> bool {
    let spec = |object: &Value| object.get("spec").cloned().unwrap_or_default();
    more(&spec(wanted), &spec(live))
}

fn same(wanted: &Value, live: &Value) -> bool {
    match (wanted, live) {
        (Value::Object(wanted), Value::Object(live)) => {
            wanted.iter().all(|(key, wanted)| match live.get(key) {
                Some(live) => same(wanted, live),
                None => is_empty(wanted),
            }) && live.iter().all(|(key, live)| wanted.get(key).is_some() || is_default(key, live))
        }
        (Value::Array(wanted), Value::Array(live)) => {
            wanted.len() == live.len()
                && wanted.iter().zip(live.iter()).all(|(wanted, live)| same(wanted, live))
        }
        _ => wanted == live,
    }
}

fn more(wanted: &Value, live: &Value) -> bool {
    match (wanted, live) {
        (Value::Object(wanted), Value::Object(live)) => {
            live.iter().any(|(key, live)| match wanted.get(key) {
                Some(wanted) => more(wanted, live),
                None => !is_default(key, live),
            })
        }
        (Value::Array(wanted), Value::Array(live)) => {
            live.len() > wanted.len()
                || wanted.iter().zip(live.iter()).any(|(wanted, live)| more(wanted, live))
        }
        _ => false,
    }
}

/// The fields that the API server adds.
fn is_default(key: &str, value: &Value) -> bool {
    match key {
        "matchPolicy" => value.as_str() == Some("Equivalent"),
        "scope" => value.as_str() == Some("*"),
        _ => is_empty(value),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// The controller an object belongs to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Owner<'o> {
    api_version: &'o str,
    kind: &'o str,
    name: &'o str,
    uid: &'o str,
}

impl<'o> Owner<'o> {
    pub(super) fn of(object: &'o Value) -> Option<Self> {
        let owners = object.path(&["metadata", "ownerReferences"])?.as_array()?;
        let is_controller =
            |owner: &&Value| owner.get("controller").and_then(Value::as_bool) == Some(true);
        let owner = owners.iter().find(is_controller)?;
        let text = |key: &str| owner.get(key).and_then(Value::as_str).unwrap_or_default();
        Some(Self {
            api_version: text("apiVersion"),
            kind: text("kind"),
            name: text("name"),
            uid: text("uid"),
        })
    }

    /// Whether it is a template or a constraint.
    pub(super) fn is_policy(&self) -> bool {
        let (group, _) = self.api_version.split_once('/').unwrap_or_default();
        group == constraints::GROUP || (group == templates::GROUP && self.kind == templates::KIND)
    }

    /// Whether both are the same object.
    pub(super) fn is(&self, other: &Owner<'_>) -> bool {
        self.uid == other.uid
    }
}

impl std::fmt::Display for Owner<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(json: &str) -> Value {
        Value::from_json(json.as_bytes()).expect(json)
    }

    #[test]
    fn defaults_make_no_difference() {
        for (wanted, live, same, more) in [
            (r#"{"a": 1}"#, r#"{"a": 1}"#, true, false),
            (r#"{"a": 1}"#, r#"{"a": 1, "b": {}, "matchPolicy": "Equivalent"}"#, true, false),
            (r#"{"a": 1}"#, r#"{"a": 1, "matchPolicy": "Exact"}"#, false, true),
            (r#"{"a": 1}"#, r#"{"a": 2}"#, false, false),
            (r#"{"a": [], "b": 1}"#, r#"{"b": 1}"#, true, false),
            (r#"{"a": [{}]}"#, r#"{"a": [{"scope": "*"}]}"#, true, false),
            (r#"{"a": [{}]}"#, r#"{"a": [{}, {"b": 1}]}"#, false, true),
            (r#"{"a": [1, 2]}"#, r#"{"a": [2, 1]}"#, false, false),
            (r#"{"a": {"b": 1}}"#, r#"{"a": {"b": 1, "c": 2}}"#, false, true),
        ] {
            let (wanted, live) =
                (format!(r#"{{"spec": {wanted}}}"#), format!(r#"{{"spec": {live}}}"#));
            let found = (
                is_same(&value(&wanted), &value(&live)),
                says_more(&value(&wanted), &value(&live)),
            );
            assert_eq!(found, (same, more), "{wanted} {live}");
        }
    }

    #[test]
    fn owners() {
        let owned = |api_version: &str, kind: &str, controller: bool| {
            value(&format!(
                r#"{{"metadata": {{"ownerReferences": [{{"apiVersion": "{api_version}",
                "kind": "{kind}", "name": "n", "uid": "u", "controller": {controller}}}]}}}}"#
            ))
        };
        for (object, expected) in [
            (owned("templates.gatekeeper.sh/v1beta1", "ConstraintTemplate", true), Some(true)),
            (owned("constraints.gatekeeper.sh/v1beta1", "Any", true), Some(true)),
            (owned("templates.gatekeeper.sh/v1", "Other", true), Some(false)),
            (owned("apps/v1", "ConstraintTemplate", true), Some(false)),
            (owned("apps/v1", "ConstraintTemplate", false), None),
            (value(r#"{"metadata": {}}"#), None),
        ] {
            let found = Owner::of(&object).map(|owner| owner.is_policy());
            assert_eq!(found, expected, "{object}");
        }
    }
}
