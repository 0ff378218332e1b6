//! Go's source forms: quoted strings and `%#v`.

use std::{fmt::Write as _, sync::LazyLock};

use regex::Regex;

use crate::{Value, gofloat};

/// Which characters a quoted form may contain as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quoting {
    /// All that can be printed.
    Printable,
    /// ASCII only.
    Ascii,
}

/// `strconv.Quote(text)`: a Go string literal, as `%q` prints it.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    append_quoted(text, &mut out);
    out
}

/// Appends `strconv.Quote(text)`.
pub fn append_quoted(text: &str, out: &mut String) {
    // Most text needs no escapes.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\') {
        out.reserve(text.len() + 2);
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        out.push_str(&quote_bytes(text.as_bytes()));
    }
}

/// `strconv.Quote` of a Go string, which need not be UTF-8.
pub fn quote_bytes(bytes: &[u8]) -> String {
    quote_as(bytes, Quoting::Printable)
}

/// `strconv.Quote` and `strconv.QuoteToASCII`.
pub(super) fn quote_as(bytes: &[u8], quoting: Quoting) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            escape_into(character, '"', quoting, &mut out);
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out.push('"');
    out
}

/// `strconv.QuoteRune` and `strconv.QuoteRuneToASCII`.
pub(super) fn quote_character(character: char, quoting: Quoting) -> String {
    let mut out = String::from("'");
    escape_into(character, '\'', quoting, &mut out);
    out.push('\'');
    out
}

/// `strconv.CanBackquote`: whether the text can stand between backquotes on one line.
pub(super) fn can_backquote(text: &str) -> bool {
    text.chars().all(|c| c == '\t' || !(c < ' ' || matches!(c, '`' | '\x7f' | '\u{feff}')))
}

/// Appends one character as it stands inside Go quotes.
fn escape_into(character: char, delimiter: char, quoting: Quoting, out: &mut String) {
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
        _ if quoting == Quoting::Printable && is_print(character) => out.push(character),
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
    static BEYOND_ASCII: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"^[\p{L}\p{M}\p{N}\p{P}\p{S}]$").ok());
    if character.is_ascii() {
        return matches!(character, ' '..='~');
    }
    let printable = |regex: &Regex| regex.is_match(character.encode_utf8(&mut [0; 4]));
    BEYOND_ASCII.as_ref().is_some_and(printable)
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
        Value::String(text) => out.push_str(&quote(text)),
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
                out.push_str(&quote(key));
                out.push(':');
                go_syntax_into(member, key_type, out);
            }
            out.push('}');
        }
    }
}
