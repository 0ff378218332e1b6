use std::fmt::Write as _;

use super::plain::plain_length;
use crate::{MAX_DEPTH, Value, value::walk::Rest};

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
    emit(value, out, None, escape);
}

/// Appends JSON over several lines, as Go's `json.MarshalIndent(value, "", indent)`.
///
/// Values nested deeper than [`MAX_DEPTH`] levels follow without line breaks: their indentation
/// would grow with the square of the depth.
pub fn write_pretty(value: &Value, out: &mut String, indent: &str, escape: Escape) {
    emit(value, out, Some(indent), escape);
}

/// A container being written.
struct Open<'a> {
    rest: Rest<'a>,
    close: char,
    /// Whether a part of it was written.
    begun: bool,
    /// Whether its parts stand on lines of their own.
    lines: bool,
}

fn emit(value: &Value, out: &mut String, indent: Option<&str>, escape: Escape) {
    let line = |out: &mut String, level: usize| {
        if let Some(indent) = indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(indent, level));
        }
    };
    let mut open: Vec<Open<'_>> = Vec::new();
    let mut value = value;
    loop {
        match value {
            Value::Null => out.push_str("null"),
            Value::Bool(true) => out.push_str("true"),
            Value::Bool(false) => out.push_str("false"),
            Value::Number(number) => {
                let _ = write!(out, "{number}");
            }
            Value::String(text) => write_string(text, out, escape),
            Value::Array(_) | Value::Object(_) => {}
        }
        if let Some(rest) = Rest::of(value) {
            let (opening, close) = match rest {
                Rest::Elements(_) => ('[', ']'),
                Rest::Members(_) => ('{', '}'),
            };
            out.push(opening);
            let lines = indent.is_some() && open.len() < MAX_DEPTH;
            open.push(Open { rest, close, begun: false, lines });
        }
        value = loop {
            let level = open.len();
            let Some(innermost) = open.last_mut() else { return };
            if let Some((key, next)) = innermost.rest.next() {
                if innermost.begun {
                    out.push(',');
                }
                innermost.begun = true;
                if innermost.lines {
                    line(out, level);
                }
                if let Some(key) = key {
                    write_string(key, out, escape);
                    out.push_str(if innermost.lines { ": " } else { ":" });
                }
                break next;
            }
            if innermost.begun && innermost.lines {
                line(out, level - 1);
            }
            out.push(innermost.close);
            open.pop();
        };
    }
}

/// Appends one JSON string, quotes included.
pub fn write_string(text: &str, out: &mut String, escape: Escape) {
    out.push('"');
    out.reserve(text.len() + 1);
    let mut rest = text;
    // What is copied as it is, also where it began with a byte that some other character begins with.
    let mut plain = 0;
    loop {
        let ahead = rest.as_bytes().get(plain..).unwrap_or_default();
        plain += match escape {
            Escape::Minimal => plain_length::<false>(ahead),
            Escape::Html => plain_length::<true>(ahead),
        };
        let Some((before, after)) = rest.split_at_checked(plain) else { break };
        let mut characters = after.chars();
        let Some(character) = characters.next() else { break };
        let named = match character {
            '"' => "\\\"",
            '\\' => "\\\\",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '\u{8}' => "\\b",
            '\u{c}' => "\\f",
            '\0'..' ' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => "",
            other => {
                plain += other.len_utf8();
                continue;
            }
        };
        out.push_str(before);
        if named.is_empty() {
            let _ = write!(out, "\\u{:04x}", u32::from(character));
        } else {
            out.push_str(named);
        }
        rest = characters.as_str();
        plain = 0;
    }
    out.push_str(rest);
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

    /// Bytes to escape at every position of the eight-byte words that are scanned, beside
    /// characters that begin with the same bytes.
    #[test]
    fn escapes_anywhere() {
        let escaped = [("\"", "\\\""), ("\u{1f}", "\\u001f"), ("\\", "\\\\"), ("\n", "\\n")];
        let for_html = [("<", "\\u003c"), ("&", "\\u0026"), ("\u{2029}", "\\u2029")];
        let written = |text: &str, escape| {
            let mut out = String::new();
            write_string(text, &mut out, escape);
            out
        };
        for length in 0..20 {
            for at in 0..=length {
                for filler in ["a", "\u{7f}", "é", "€", "\u{2027}", "\u{202a}", "😀"] {
                    let (before, after) = (filler.repeat(at), filler.repeat(length - at));
                    for (raw, expected) in escaped.iter().chain(&for_html) {
                        let text = format!("{before}{raw}{after}");
                        let html = format!("\"{before}{expected}{after}\"");
                        assert_eq!(written(&text, Escape::Html), html, "{text:?}");
                        let plain = for_html.iter().any(|(other, _)| other == raw);
                        let minimal = if plain { format!("\"{text}\"") } else { html };
                        assert_eq!(written(&text, Escape::Minimal), minimal, "{text:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn pretty_as_go() {
        let value = Value::from_json(br#"{"a": [1, {}], "b": {}, "c": []}"#).expect("json");
        let mut out = String::new();
        write_pretty(&value, &mut out, "  ", Escape::Minimal);
        assert_eq!(out, "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": {},\n  \"c\": []\n}");
    }
}
