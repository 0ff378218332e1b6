//! Go's source forms: quoted strings and `%#v`.

use std::fmt::Write as _;

use crate::{Value, gofloat};

/// `strconv.Quote(text)`.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    quote_into(text, false, &mut out);
    out
}

/// Appends `text` as a Go string literal; with `ascii`, everything else is escaped.
pub(super) fn quote_into(text: &str, ascii: bool, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        escape_into(character, '"', ascii, out);
    }
    out.push('"');
}

/// Appends one character as it stands inside Go quotes.
pub(super) fn escape_into(character: char, delimiter: char, ascii: bool, out: &mut String) {
    match character {
        '\\' => out.push_str("\\\\"),
        _ if character == delimiter => {
            out.push('\\');
            out.push(character);
        }
        '\x07' => out.push_str("\\a"),
        '\x08' => out.push_str("\\b"),
        '\x0c' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\x0b' => out.push_str("\\v"),
        ' '..='~' => out.push(character),
        _ if !ascii && is_print(character) => out.push(character),
        '\0'..='\x7f' => {
            let _ = write!(out, "\\x{:02x}", u32::from(character));
        }
        '\u{80}'..='\u{ffff}' => {
            let _ = write!(out, "\\u{:04x}", u32::from(character));
        }
        _ => {
            let _ = write!(out, "\\U{:08x}", u32::from(character));
        }
    }
}

/// `strconv.IsPrint`: letters, marks, numbers, punctuation, symbols, and the ASCII space.
pub(super) fn is_print(character: char) -> bool {
    // Rust's debug form escapes what Unicode calls other or separator, as Go does, and combining
    // marks besides, which Go prints.
    match character {
        ' '..='~' => true,
        '\0'..='\x1f' | '\x7f'..='\u{a0}' | '\u{ad}' => false,
        _ => !character.is_control() && !character.is_whitespace(),
    }
}

/// `%#v` of a value whose maps go-yaml decoded: `map[interface {}]interface {}`.
pub(crate) fn go_syntax(value: &Value, key_type: &str) -> String {
    let mut out = String::new();
    go_syntax_into(value, key_type, &mut out);
    out
}

fn go_syntax_into(value: &Value, key_type: &str, out: &mut String) {
    match value {
        Value::Null => out.push_str("interface {}(nil)"),
        Value::Bool(value) => {
            let _ = write!(out, "{value}");
        }
        Value::Number(number) => match number.as_i64() {
            Some(int) => {
                let _ = write!(out, "{int}");
            }
            None => out.push_str(&gofloat::general(number.as_f64())),
        },
        Value::String(text) => quote_into(text, false, out),
        Value::Array(elements) => {
            out.push_str("[]interface {}{");
            for (index, element) in elements.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                go_syntax_into(element, key_type, out);
            }
            out.push('}');
        }
        Value::Object(members) => {
            let _ = write!(out, "map[{key_type}]interface {{}}{{");
            for (index, (key, member)) in members.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                quote_into(key, false, out);
                out.push(':');
                go_syntax_into(member, key_type, out);
            }
            out.push('}');
        }
    }
}
