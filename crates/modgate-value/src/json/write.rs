use std::fmt::Write as _;

use crate::Value;

/// Which characters a JSON string escapes beyond those it must.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Escape {
    /// Only what RFC 8259 requires.
    Minimal,
    /// Also `<`, `>`, `&`, U+2028 and U+2029, as Go's `encoding/json` does by default.
    Html,
}

/// Appends compact JSON with sorted keys.
pub fn write(value: &Value, out: &mut String, escape: Escape) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => {
            let _ = write!(out, "{number}");
        }
        Value::String(text) => write_string(text, out, escape),
        Value::Array(elements) => {
            out.push('[');
            for (index, element) in elements.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(element, out, escape);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (index, (key, member)) in members.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_string(key, out, escape);
                out.push(':');
                write(member, out, escape);
            }
            out.push('}');
        }
    }
}

/// Appends JSON over several lines, as Go's `json.MarshalIndent(value, "", indent)`.
pub fn write_pretty(value: &Value, out: &mut String, indent: &str, escape: Escape) {
    pretty(value, out, indent, escape, 0);
}

fn pretty(value: &Value, out: &mut String, indent: &str, escape: Escape, level: usize) {
    let line = |out: &mut String, level: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n(indent, level));
    };
    match value {
        Value::Array(elements) if !elements.is_empty() => {
            out.push('[');
            for (index, element) in elements.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                line(out, level + 1);
                pretty(element, out, indent, escape, level + 1);
            }
            line(out, level);
            out.push(']');
        }
        Value::Object(members) if !members.is_empty() => {
            out.push('{');
            for (index, (key, member)) in members.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                line(out, level + 1);
                write_string(key, out, escape);
                out.push_str(": ");
                pretty(member, out, indent, escape, level + 1);
            }
            line(out, level);
            out.push('}');
        }
        flat => write(flat, out, escape),
    }
}

/// Appends one JSON string, quotes included.
pub fn write_string(text: &str, out: &mut String, escape: Escape) {
    out.push('"');
    let mut plain = 0;
    for (at, character) in text.char_indices() {
        let named = match character {
            '"' => "\\\"",
            '\\' => "\\\\",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '\u{8}' => "\\b",
            '\u{c}' => "\\f",
            '\0'..' ' => "",
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' if escape == Escape::Html => "",
            _ => continue,
        };
        out.push_str(text.get(plain..at).unwrap_or_default());
        if named.is_empty() {
            let _ = write!(out, "\\u{:04x}", u32::from(character));
        } else {
            out.push_str(named);
        }
        plain = at + character.len_utf8();
    }
    out.push_str(text.get(plain..).unwrap_or_default());
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes() {
        let text = Value::from("a\"\\\n\u{1}<&>\u{2028}é");
        assert_eq!(text.to_json(), "\"a\\\"\\\\\\n\\u0001<&>\u{2028}é\"");
        let mut html = String::new();
        write(&text, &mut html, Escape::Html);
        assert_eq!(html, "\"a\\\"\\\\\\n\\u0001\\u003c\\u0026\\u003e\\u2028é\"");
    }

    #[test]
    fn pretty_as_go() {
        let value = Value::from_json(br#"{"a": [1, {}], "b": {}, "c": []}"#).expect("json");
        let mut out = String::new();
        write_pretty(&value, &mut out, "  ", Escape::Minimal);
        assert_eq!(out, "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": {},\n  \"c\": []\n}");
    }
}
