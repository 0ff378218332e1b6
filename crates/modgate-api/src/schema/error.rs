//! Errors of fields, with the API server's messages.

use std::{collections::BTreeSet, fmt};

use modgate_value::{
    Number, Object, Value, gofloat, gofmt,
    json::{self, Escape},
};

/// One thing that is wrong with one field (`apimachinery/pkg/util/validation/field`).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct FieldError {
    /// Where, such as `spec.match.kinds[0]`.
    pub path: String,
    /// The message, such as `Required value: must not be empty`.
    pub problem: String,
}

/// How numbers of a value are held in Go, which decides what errors call them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbers {
    /// All are `float64`: constraints, which pass through JSON once more.
    Floats,
    /// Integers are `int64`: what a schema contains.
    Exact,
}

impl FieldError {
    fn new(path: &impl fmt::Display, kind: &str, shown: Option<&str>, detail: &str) -> Self {
        let mut problem = kind.to_owned();
        for part in shown.into_iter().chain((!detail.is_empty()).then_some(detail)) {
            problem.push_str(": ");
            problem.push_str(part);
        }
        Self { path: path.to_string(), problem }
    }

    /// A value must be given.
    pub fn required(path: &impl fmt::Display, detail: &str) -> Self {
        Self::new(path, "Required value", None, detail)
    }

    /// A value must not be given.
    pub fn forbidden(path: &impl fmt::Display, detail: &str) -> Self {
        Self::new(path, "Forbidden", None, detail)
    }

    /// A text is not what it should be.
    pub fn invalid(path: &impl fmt::Display, text: &str, detail: &str) -> Self {
        Self::invalid_shown(path, &gofmt::quote(text), detail)
    }

    /// As [`FieldError::invalid`], with the offending value already printed.
    pub(super) fn invalid_shown(path: &impl fmt::Display, shown: &str, detail: &str) -> Self {
        Self::new(path, "Invalid value", Some(shown), detail)
    }

    /// A value is none of those allowed.
    pub(super) fn unsupported(
        path: &impl fmt::Display,
        shown: &str,
        supported: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Self {
        let supported: Vec<String> =
            supported.into_iter().map(|value| gofmt::quote(value.as_ref())).collect();
        let detail = format!("supported values: {}", supported.join(", "));
        Self::new(path, "Unsupported value", Some(shown), &detail)
    }

    pub(super) fn too_long(path: &impl fmt::Display, limit: i64) -> Self {
        let unit = if limit == 1 { "byte" } else { "bytes" };
        Self::new(path, "Too long", None, &format!("may not be more than {limit} {unit}"))
    }

    pub(super) fn too_many(path: &impl fmt::Display, count: usize, limit: i64) -> Self {
        let unit = if limit == 1 { "item" } else { "items" };
        let detail = format!("must have at most {limit} {unit}");
        Self::new(path, "Too many", Some(&count.to_string()), &detail)
    }
}

/// Several errors as one text: alone as it is, otherwise in brackets, each text once
/// (`apimachinery/pkg/util/errors`).
pub fn aggregate<E: fmt::Display>(errors: &[E]) -> String {
    if let [error] = errors {
        return error.to_string();
    }
    let mut seen = BTreeSet::new();
    let mut texts = Vec::new();
    for error in errors {
        let text = error.to_string();
        if seen.insert(text.clone()) {
            texts.push(text);
        }
    }
    match texts.as_slice() {
        [text] => text.clone(),
        texts => format!("[{}]", texts.join(", ")),
    }
}

/// A value as errors show it: `%v` for numbers and booleans, quoted text, JSON for the rest.
pub(super) fn shown(value: &Value, numbers: Numbers) -> String {
    match value {
        Value::String(text) => gofmt::quote(text),
        Value::Number(number) => shown_number(number, numbers),
        other => as_json(other),
    }
}

/// A value as Go's `encoding/json` writes it.
pub(super) fn as_json(value: &Value) -> String {
    let mut out = String::new();
    json::write(&as_go_writes(value), &mut out, Escape::Html);
    out
}

/// `%v` of a number.
pub(super) fn shown_number(number: &Number, numbers: Numbers) -> String {
    match numbers {
        Numbers::Exact if number.is_integer_text() => match number.as_i64() {
            Some(int) => int.to_string(),
            None => gofloat::general(number.as_f64()),
        },
        _ => gofloat::general(number.as_f64()),
    }
}

/// The value with its numbers spelled as Go spells what it has read.
fn as_go_writes(value: &Value) -> Value {
    match value {
        Value::Number(number) => {
            Number::from_f64(number.as_f64()).map_or_else(|| value.clone(), Value::from)
        }
        Value::Array(items) => items.iter().map(as_go_writes).collect(),
        Value::Object(members) => {
            let members = members.iter().map(|(key, member)| (key.clone(), as_go_writes(member)));
            Object::from_entries(members.collect()).into()
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_error_stands_alone_and_equal_ones_count_once() {
        assert_eq!(aggregate(&["a"]), "a");
        assert_eq!(aggregate(&["a", "b", "a"]), "[a, b]");
        assert_eq!(aggregate(&["a", "a"]), "a");
    }

    #[test]
    fn values_as_errors_show_them() {
        let value = |text: &str| Value::from_json(text.as_bytes()).expect(text);
        for (json, floats, exact) in [
            ("1000000", "1e+06", "1000000"),
            ("1.0", "1", "1"),
            ("true", "true", "true"),
            ("null", "null", "null"),
            (r#""a\"b""#, r#""a\"b""#, r#""a\"b""#),
            (
                r#"{"b":[1.50,"<"],"a":{}}"#,
                r#"{"a":{},"b":[1.5,"\u003c"]}"#,
                r#"{"a":{},"b":[1.5,"\u003c"]}"#,
            ),
        ] {
            assert_eq!(shown(&value(json), Numbers::Floats), floats, "{json}");
            assert_eq!(shown(&value(json), Numbers::Exact), exact, "{json}");
        }
    }
}
