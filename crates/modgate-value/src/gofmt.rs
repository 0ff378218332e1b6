//! Go's `fmt` for values: `%v` texts and the whole of `Printf`.
//!
//! [`text`] is the form every ModRule message and value text uses (spec `kubemod.md`, appendix B).
//! [`sprintf`], [`sprint`] and [`sprintln`] serve the template functions of the same names and
//! Rego's `sprintf`; their arguments are an abstract [`Arg`], because the same JSON number is a
//! `float64` to a template and an `int` or `*big.Int` to Rego.

mod float;
mod printf;
mod quote;

use std::borrow::Cow;

pub use printf::{Arg, sprint, sprintf, sprintln};
pub(crate) use quote::go_syntax;
pub use quote::{append_quoted, quote, quote_bytes};

use crate::{Value, Visit, gofloat};

/// The `%v` text of a value as Go's `encoding/json` decodes it: every number is a `float64`, `null`
/// is `<nil>`, lists are `[a b]` and maps `map[k:v]`.
pub fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        Value::Null => Cow::Borrowed("<nil>"),
        Value::Bool(true) => Cow::Borrowed("true"),
        Value::Bool(false) => Cow::Borrowed("false"),
        Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            let mut out = String::new();
            append_text(value, &mut out);
            Cow::Owned(out)
        }
    }
}

/// Appends [`text`] to `out`. Does not recurse.
pub fn append_text(value: &Value, out: &mut String) {
    let mut open = 0;
    let mut first = true;
    for Visit { depth, key, value } in value.walk() {
        if open > depth {
            out.extend(std::iter::repeat_n(']', open - depth));
            first = false;
        }
        open = depth;
        if !first {
            out.push(' ');
        }
        first = false;
        if let Some(key) = key {
            out.push_str(key);
            out.push(':');
        }
        match value {
            Value::Null => out.push_str("<nil>"),
            Value::Bool(true) => out.push_str("true"),
            Value::Bool(false) => out.push_str("false"),
            Value::Number(number) => out.push_str(&gofloat::general(number.as_f64())),
            Value::String(text) => out.push_str(text),
            Value::Array(_) | Value::Object(_) => {
                out.push_str(if matches!(value, Value::Array(_)) { "[" } else { "map[" });
                (open, first) = (depth + 1, true);
            }
        }
    }
    out.extend(std::iter::repeat_n(']', open));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        for (json, expected) in [
            ("null", "<nil>"),
            ("true", "true"),
            ("1000000", "1e+06"),
            ("9007199254740993", "9.007199254740992e+15"),
            ("1.50", "1.5"),
            (r#""a b""#, "a b"),
            (r#"[1, "a", null, [], {}]"#, "[1 a <nil> [] map[]]"),
            (r#"{"b": [true], "a": {"c": 0.00001}}"#, "map[a:map[c:1e-05] b:[true]]"),
        ] {
            assert_eq!(text(&Value::from_json(json.as_bytes()).expect(json)), expected);
        }
    }
}
