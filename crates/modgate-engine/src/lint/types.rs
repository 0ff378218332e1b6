//! Values that do not have the types of the fields that they are for.

use modgate_value::{Value, near};

use super::places::{Step, below, has_no_value};
use crate::{
    Code,
    admissionpolicy::{Shape, Types},
    constraint::unreadable,
};

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

/// The field at a place, in words, if no kind takes this value there.
pub(crate) fn mismatch(kinds: &[&str], steps: &[Step<'_>], value: &Value) -> Option<String> {
    let mut expected = None;
    for shape in shapes(kinds, steps) {
        expected = Some(shape.mismatch(value)?);
    }
    expected
}

/// A part of a value that does not fit its field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Misfit {
    /// The way from the value to the part, as `[0].name`.
    pub(crate) path: String,
    /// The text to mark in the value: the name of the part, or the part itself.
    pub(crate) mark: String,
    pub(crate) code: Code,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
}

/// How deep a value is looked at.
const MAX_DEPTH: usize = 32;

/// How many parts of a value are reported.
const MAX_MISFITS: usize = 5;

/// The parts of a value that none of these types takes. The type of the whole has warnings of its own.
pub(crate) fn misfits(shapes: &[Shape<'_>], name: &str, value: &Value) -> Vec<Misfit> {
    let of = |shape: &Shape<'_>| {
        let mut found = Vec::new();
        match value {
            Value::Object(_) | Value::Array(_) => {
                within(shape, None, (name, value), "", 0, &mut found)
            }
            Value::String(text) => found.extend(quantity(shape, name, text, "")),
            _ => {}
        }
        found
    };
    let Some((first, others)) = shapes.split_first() else { return Vec::new() };
    let mut found = of(first);
    for shape in others {
        let of_other = of(shape);
        found.retain(|misfit| of_other.contains(misfit));
    }
    found
}

/// A text that is no quantity where one is wanted.
fn quantity(shape: &Shape<'_>, name: &str, text: &str, path: &str) -> Option<Misfit> {
    let reason = shape.is_quantity().then(|| unreadable("quantity", text))??;
    Some(Misfit {
        path: path.to_owned(),
        mark: text.to_owned(),
        code: Code::UnknownValue,
        message: has_no_value(name, text),
        help: Some(match text.strip_suffix(['B', 'b']) {
            Some(number) if unreadable("quantity", number).is_none() => {
                format!("did you mean `{number}`?")
            }
            _ => reason,
        }),
    })
}

fn within(
    shape: &Shape<'_>,
    values: Option<&'static [&'static str]>,
    (name, value): (&str, &Value),
    path: &str,
    depth: usize,
    found: &mut Vec<Misfit>,
) {
    if depth > MAX_DEPTH || found.len() >= MAX_MISFITS {
        return;
    }
    let mut push = |code, message, help| {
        let mark = value.as_str().filter(|text| !text.is_empty()).unwrap_or(name).to_owned();
        found.push(Misfit { path: path.to_owned(), mark, code, message, help });
    };
    if let Some(expected) = shape.mismatch(value).filter(|_| depth > 0) {
        let message = format!("the field is {expected}, and the value is {}", shown(value));
        return push(Code::ValueType, message, None);
    }
    match value {
        Value::String(text) => {
            if let Some(known) = values.filter(|known| !known.contains(&text.as_str())) {
                let help = near::did_you_mean_or(text, known, "the values are");
                push(Code::UnknownValue, has_no_value(name, text), Some(help));
            } else {
                found.extend(quantity(shape, name, text, path));
            }
        }
        Value::Array(items) => {
            let Some(element) = shape.element() else { return };
            for (at, item) in items.iter().enumerate() {
                within(&element, values, (name, item), &format!("{path}[{at}]"), depth + 1, found);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                let path = format!("{path}.{name}");
                if let Some(inner) = shape.member(name) {
                    let values = shape.values_of(name);
                    within(&inner, values, (name, member), &path, depth + 1, found);
                    continue;
                }
                let names = shape.fields().map(|(name, _)| name);
                if let Some(help) = near::did_you_mean(name, names)
                    && found.len() < MAX_MISFITS
                {
                    let message =
                        format!("no object that this policy matches has the field `{name}` here");
                    let (mark, code) = (name.to_string(), Code::UnknownPath);
                    found.push(Misfit { path, mark, code, message, help: Some(help) });
                }
            }
        }
        _ => {}
    }
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
