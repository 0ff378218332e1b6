//! Values that do not have the types of the fields that they are for.

use modgate_value::Value;

use super::places::{Step, below};
use crate::admissionpolicy::{Shape, Types};

/// The types at a place of objects of Kubernetes' own kinds, in every group and version; none where one
/// of the kinds is unknown or does not have the place.
fn shapes(kinds: &[&str], steps: &[Step<'_>]) -> Vec<Shape<'static>> {
    let types = Types::kubernetes();
    let mut found = Vec::new();
    for kind in kinds {
        let before = found.len();
        for (version, _) in types.keys().filter(|(_, known)| known == kind) {
            let whole = types.shape(version, kind);
            let at = steps.iter().try_fold(whole, |shape, step| {
                let shape = shape?;
                Some(Some(below(&shape, *step)?))
            });
            match at.flatten() {
                Some(shape) => found.push(shape),
                None => return Vec::new(),
            }
        }
        if found.len() == before {
            return Vec::new();
        }
    }
    found
}

/// What the field at a place is in words, if no kind takes this value there.
pub(crate) fn mismatch(kinds: &[&str], steps: &[Step<'_>], value: &Value) -> Option<String> {
    let mut expected = None;
    for shape in shapes(kinds, steps) {
        expected = Some(shape.mismatch(value)?);
    }
    expected
}

/// Whether the field at a place is true or false in all of the kinds.
pub(crate) fn is_boolean(kinds: &[&str], path: &[&str]) -> bool {
    let steps: Vec<Step<'_>> = path.iter().map(|name| Step::Member(name)).collect();
    let shapes = shapes(kinds, &steps);
    let is_it = |shape: &Shape<'_>| {
        shape.mismatch(&Value::from("text")).as_deref() == Some("true or false")
    };
    !shapes.is_empty() && shapes.iter().all(is_it)
}

/// A value in a message.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::String(text) => format!("the text `{}`", text.chars().take(40).collect::<String>()),
        scalar => format!("`{scalar}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_fields() {
        let of = |kinds: &[&str], path: &str, json: &str| {
            let steps: Vec<Step<'_>> = path
                .split('.')
                .map(|name| if name == "*" { Step::Element } else { Step::Member(name) })
                .collect();
            let value = Value::from_json(json.as_bytes()).expect(json);
            mismatch(kinds, &steps, &value)
        };
        for (kinds, path, value, expected) in [
            (&["Pod"][..], "spec.hostNetwork", "\"true\"", Some("true or false")),
            (&["Pod"], "spec.hostNetwork", "true", None),
            (&["Pod"], "spec.hostNetwork", "null", None),
            (&["Pod"], "spec.priority", "\"5\"", Some("a number")),
            (&["Pod"], "spec.containers", "{}", Some("a list")),
            (&["Pod"], "spec.containers.*.imagePullPolicy", "5", Some("a text")),
            (&["Pod"], "spec.containers.*", "\"x\"", Some("an object")),
            (&["Pod"], "metadata.labels", "\"x\"", Some("an object")),
            (&["Pod"], "spec.containers.*.resources.limits.cpu", "1", None),
            (&["Service"], "spec.ports.*.targetPort", "\"http\"", None),
            (&["Pod", "Deployment"], "spec.hostNetwork", "\"true\"", None),
            (&["Deployment", "StatefulSet"], "spec.replicas", "\"3\"", Some("a number")),
            (&["Foo"], "spec.replicas", "\"3\"", None),
            (&[], "spec.replicas", "\"3\"", None),
        ] {
            assert_eq!(of(kinds, path, value).as_deref(), expected, "{kinds:?} {path} {value}");
        }
        assert!(is_boolean(&["Pod"], &["spec", "hostNetwork"]));
        assert!(!is_boolean(&["Pod"], &["spec", "priority"]));
    }
}
