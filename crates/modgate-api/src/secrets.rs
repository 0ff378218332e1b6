//! Redaction of Secrets: what logs, reports and pages may show of them.

use modgate_value::Value;

use crate::meta::GroupVersionKind;

/// Stands for the message of a policy about a Secret, which may quote its data.
pub const NOT_SHOWN: &str = "not shown for a Secret";

/// Stands for a value of a Secret.
const HIDDEN: &str = "(hidden)";
/// Stands for a value of a Secret that policies changed.
const CHANGED: &str = "(hidden, changed)";
/// The members with the data of a Secret.
const DATA: [&str; 2] = ["data", "stringData"];

/// An object for people: without `managedFields`, without the copy that `kubectl apply` keeps in an
/// annotation, and without the data of a Secret, whose keys stay. An object is a Secret when it says so,
/// or when `is_secret` says that its request does.
pub fn shown(object: &Value, is_secret: bool) -> Value {
    without_data(object, is_secret, None)
}

/// A Secret before and after a change, each as [`shown`] returns it. Changed values of the second are
/// marked, so that a comparison of both still shows which keys changed.
pub fn shown_pair(before: &Value, after: &Value) -> (Value, Value) {
    (without_data(before, true, None), without_data(after, true, Some(before)))
}

fn without_data(object: &Value, is_secret: bool, before: Option<&Value>) -> Value {
    let Some(mut members) = object.as_object().cloned() else { return object.clone() };
    if let Some(mut metadata) = members.get("metadata").and_then(Value::as_object).cloned() {
        metadata.remove("managedFields");
        let annotations = metadata.get("annotations").and_then(Value::as_object).cloned();
        if let Some(mut annotations) = annotations {
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
            metadata.insert("annotations", annotations.into());
        }
        members.insert("metadata", metadata.into());
    }
    if is_secret || GroupVersionKind::of_object(object).is_secret() {
        for member in DATA {
            let Some(data) = members.get(member) else { continue };
            let old = before.map(|before| before.get(member).unwrap_or(&Value::Null));
            members.insert(member, hidden(data, old));
        }
    }
    members.into()
}

/// The keys of a Secret's data. Values that differ from those of `before` are marked.
fn hidden(data: &Value, before: Option<&Value>) -> Value {
    let mark = |value: Option<&Value>, before: Option<Option<&Value>>| -> Value {
        if before.is_none_or(|before| before == value) { HIDDEN } else { CHANGED }.into()
    };
    match data.as_object() {
        Some(members) => members
            .iter()
            .map(|(key, value)| (key.clone(), mark(Some(value), before.map(|it| it.get(key)))))
            .collect(),
        None => mark(Some(data), before.map(Some)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Value {
        Value::from_json(text.as_bytes()).expect("JSON")
    }

    #[test]
    fn data_is_hidden() {
        for (object, is_secret, expected) in [
            (
                r#"{"apiVersion": "v1", "kind": "Secret", "data": {"a": "eA=="}, "stringData": "b"}"#,
                false,
                r#"{"apiVersion":"v1","kind":"Secret","data":{"a":"(hidden)"},"stringData":"(hidden)"}"#,
            ),
            (
                r#"{"kind": "Other", "data": {"a": "b"}}"#,
                false,
                r#"{"kind":"Other","data":{"a":"b"}}"#,
            ),
            (
                r#"{"kind": "Other", "data": {"a": "b"}}"#,
                true,
                r#"{"kind":"Other","data":{"a":"(hidden)"}}"#,
            ),
            (
                r#"{"metadata": {"managedFields": [], "annotations": {
                    "kubectl.kubernetes.io/last-applied-configuration": "{}", "a": "b"}}}"#,
                false,
                r#"{"metadata":{"annotations":{"a":"b"}}}"#,
            ),
            ("[]", true, "[]"),
        ] {
            assert_eq!(shown(&parsed(object), is_secret), parsed(expected), "{object}");
        }
    }

    #[test]
    fn changes_of_data_are_marked() {
        let before = parsed(r#"{"data": {"a": "1", "b": "2"}}"#);
        let after = parsed(r#"{"data": {"a": "1", "b": "3", "c": "4"}, "stringData": {"d": "5"}}"#);
        let (before, after) = shown_pair(&before, &after);
        assert_eq!(before, parsed(r#"{"data": {"a": "(hidden)", "b": "(hidden)"}}"#));
        let expected = r#"{"data": {"a": "(hidden)", "b": "(hidden, changed)",
            "c": "(hidden, changed)"}, "stringData": {"d": "(hidden, changed)"}}"#;
        assert_eq!(after, parsed(expected));
    }
}
