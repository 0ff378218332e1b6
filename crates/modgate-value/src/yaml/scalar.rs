//! The types of YAML 1.1's scalars, as go-yaml v2 resolves them from their text.

use crate::{Number, Str, Value, go::base64::Alphabet, gofloat, gofmt, json};

/// The prefix that the handle `!!` abbreviates.
pub(super) const TAG_PREFIX: &str = "tag:yaml.org,2002:";
pub(super) const MERGE_TAG: &str = "tag:yaml.org,2002:merge";

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    /// Beyond `i64`.
    Uint(u64),
    Float(f64),
    String(Str),
}

impl Scalar {
    /// The JSON value; not-a-number and infinities have none and give their name.
    pub(super) fn json(self) -> Result<Value, String> {
        Ok(match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(value),
            Self::Int(value) => Value::from(value),
            Self::Uint(value) => match Number::from_json_text(&value.to_string()) {
                Some(number) => Value::Number(number),
                None => Value::Null,
            },
            Self::Float(value) => match Number::from_f64(value) {
                Some(number) => Value::Number(number),
                None => return Err(gofloat::general(value)),
            },
            Self::String(text) => Value::String(text),
        })
    }

    /// The text it has as a key of a JSON object; `null` and numbers beyond `i64` cannot be keys.
    pub(super) fn key(&self) -> Option<Str> {
        Some(match self {
            Self::Null | Self::Uint(_) => return None,
            Self::Bool(true) => "true".into(),
            Self::Bool(false) => "false".into(),
            Self::Int(value) => value.to_string().into(),
            Self::Float(value) if value.is_nan() => ".nan".into(),
            Self::Float(value) if value.is_infinite() && *value > 0.0 => ".inf".into(),
            Self::Float(value) if value.is_infinite() => "-.inf".into(),
            #[expect(clippy::cast_possible_truncation, reason = "Go prints these keys as 32-bit")]
            Self::Float(value) => gofloat::general32(*value as f32).into(),
            Self::String(text) => text.clone(),
        })
    }

    /// The name of its Go type.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nil",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint64",
            Self::Float(_) => "float64",
            Self::String(_) => "string",
        }
    }

    /// `%#v`
    pub(super) fn go_syntax(&self) -> String {
        match self {
            Self::Null => "interface {}(nil)".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => value.to_string(),
            Self::Uint(value) => format!("{value:#x}"),
            Self::Float(value) => gofloat::general(*value),
            Self::String(text) => gofmt::quote(text),
        }
    }

    /// The short name of the YAML type.
    fn tag(&self) -> &'static str {
        match self {
            Self::Null => "!!null",
            Self::Bool(_) => "!!bool",
            Self::Int(_) | Self::Uint(_) => "!!int",
            Self::Float(_) => "!!float",
            Self::String(_) => "!!str",
        }
    }
}

/// The scalar that `text` with `tag` (empty: none) is.
pub(super) fn resolve(tag: &str, text: Str) -> Result<Scalar, String> {
    let name = match tag {
        "" => return Ok(plain(&text).unwrap_or(Scalar::String(text))),
        _ => tag.strip_prefix(TAG_PREFIX),
    };
    match name {
        Some("binary") => match Alphabet::Standard.decode(&text) {
            Ok(bytes) => Ok(Scalar::String(json::lossy(&bytes).as_ref().into())),
            Err(_) => Err("!!binary value contains invalid base64 data".to_owned()),
        },
        Some("timestamp") if is_timestamp(&text) => Ok(Scalar::String(text)),
        Some(name @ ("bool" | "int" | "float" | "null" | "timestamp")) => {
            let short = format!("!!{name}");
            let found = plain(&text).unwrap_or_else(|| Scalar::String(text.clone()));
            match found {
                #[expect(clippy::cast_precision_loss, reason = "what `!!float 5` asks for")]
                Scalar::Int(value) if name == "float" => Ok(Scalar::Float(value as f64)),
                found if found.tag() == short => Ok(found),
                found => Err(format!("cannot decode {} `{text}` as a {short}", found.tag())),
            }
        }
        // `!!str`, and any tag that is not known here.
        _ => Ok(Scalar::String(text)),
    }
}

/// The type a plain scalar has by its looks; `None` if it is text.
fn plain(text: &str) -> Option<Scalar> {
    let Some(first) = text.bytes().next() else {
        return Some(Scalar::Null);
    };
    match first {
        b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~' => word(text),
        b'.' => word(text).or_else(|| separated(text).then(|| number(text)).flatten()),
        b'+' | b'-' | b'0'..=b'9' => word(text).or_else(|| number(text)),
        _ => None,
    }
}

/// Whether a plain scalar is a boolean in YAML 1.1 only.
pub(super) fn is_old_boolean(text: &str) -> bool {
    matches!(word(text), Some(Scalar::Bool(_))) && !matches!(text.len(), 4 | 5)
}

fn word(text: &str) -> Option<Scalar> {
    Some(match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Scalar::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Scalar::Bool(false)
        }
        "~" | "null" | "Null" | "NULL" => Scalar::Null,
        ".nan" | ".NaN" | ".NAN" => Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Scalar::Float(f64::NEG_INFINITY),
        _ => return None,
    })
}

fn number(text: &str) -> Option<Scalar> {
    let owned;
    let text = if text.contains('_') {
        owned = text.replace('_', "");
        owned.as_str()
    } else {
        text
    };
    if let Some(int) = integer(text) {
        return Some(int);
    }
    if let Some(digits) = text.strip_prefix("0b") {
        // Left over from before Go knew this prefix: `0b-101` is -5.
        return i64::from_str_radix(digits, 2).ok().map(Scalar::Int);
    }
    is_float(text).then(|| text.parse().ok()).flatten().and_then(finite)
}

/// Whether every underscore stands between two digits, as Go's `ParseFloat` wants it.
fn separated(text: &str) -> bool {
    let digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    let mut parts = text.split('_').map(str::as_bytes).peekable();
    while let Some(part) = parts.next() {
        if let Some(next) = parts.peek()
            && !(digit(part.last()) && digit(next.first()))
        {
            return false;
        }
    }
    true
}

/// Go's `strconv.ParseInt(text, 0, 64)`, then `ParseUint`.
fn integer(text: &str) -> Option<Scalar> {
    let (negative, signed, digits) = match text.as_bytes().first()? {
        b'-' => (true, true, text.get(1..)?),
        b'+' => (false, true, text.get(1..)?),
        _ => (false, false, text),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, digits.get(2..)?),
        [b'0', b'b' | b'B', ..] => (2, digits.get(2..)?),
        [b'0', b'o' | b'O', ..] => (8, digits.get(2..)?),
        [b'0', _, ..] => (8, digits.get(1..)?),
        _ => (10, digits),
    };
    // Rust would take a sign here.
    if !digits.starts_with(|first: char| first.is_ascii_hexdigit()) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    if negative {
        return 0_i64.checked_sub_unsigned(magnitude).map(Scalar::Int);
    }
    match i64::try_from(magnitude) {
        Ok(int) => Some(Scalar::Int(int)),
        Err(_) => (!signed).then_some(Scalar::Uint(magnitude)),
    }
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float(text: &str) -> bool {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let whole = digits(text);
    let mut rest = text.get(whole..).unwrap_or_default();
    if let Some(fraction) = rest.strip_prefix('.') {
        let length = digits(fraction);
        if whole == 0 && length == 0 {
            return false;
        }
        rest = fraction.get(length..).unwrap_or_default();
    } else if whole == 0 {
        return false;
    }
    match rest.strip_prefix(['e', 'E']) {
        None => rest.is_empty(),
        Some(exponent) => {
            let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            !exponent.is_empty() && digits(exponent) == exponent.len()
        }
    }
}

/// Go's `ParseFloat` refuses what overflows, so `1e400` is text.
fn finite(value: f64) -> Option<Scalar> {
    value.is_finite().then_some(Scalar::Float(value))
}

/// Whether it is a date, alone or with a time, in one of the forms that go-yaml knows.
pub(super) fn is_timestamp(text: &str) -> bool {
    timestamp(text).is_some()
}

fn timestamp(text: &str) -> Option<()> {
    let mut rest = text;
    let year = digits(&mut rest, 4, 4, 0..=9999)?;
    character(&mut rest, "-")?;
    let month = digits(&mut rest, 1, 2, 1..=12)?;
    character(&mut rest, "-")?;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    digits(&mut rest, 1, 2, 1..=days)?;
    if rest.is_empty() {
        return Some(());
    }
    let separator = character(&mut rest, "Tt ")?;
    digits(&mut rest, 1, 2, 0..=23)?;
    character(&mut rest, ":")?;
    digits(&mut rest, 1, 2, 0..=59)?;
    character(&mut rest, ":")?;
    digits(&mut rest, 1, 2, 0..=59)?;
    if rest.starts_with(['.', ',']) {
        let fraction = rest.get(1..)?.trim_start_matches(|c: char| c.is_ascii_digit());
        if fraction.len() + 1 == rest.len() {
            return None;
        }
        rest = fraction;
    }
    if separator != ' ' && character(&mut rest, "Z+-")? != 'Z' {
        digits(&mut rest, 2, 2, 0..=24)?;
        character(&mut rest, ":")?;
        digits(&mut rest, 2, 2, 0..=60)?;
    }
    rest.is_empty().then_some(())
}

/// Takes a number of `least` to `most` digits off the front of `rest`.
fn digits(
    rest: &mut &str,
    least: usize,
    most: usize,
    range: std::ops::RangeInclusive<u32>,
) -> Option<u32> {
    let length = rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
    let (number, after) = rest.split_at_checked(length)?;
    *rest = after;
    let number = (length >= least).then(|| number.parse().ok()).flatten()?;
    range.contains(&number).then_some(number)
}

/// Takes one of `allowed` off the front of `rest`.
fn character(rest: &mut &str, allowed: &str) -> Option<char> {
    let first = rest.chars().next().filter(|first| allowed.contains(*first))?;
    *rest = rest.get(first.len_utf8()..)?;
    Some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64() {
        for (text, expected) in [
            ("", Some("")),
            ("aGk=", Some("hi")),
            ("aA==", Some("h")),
            ("aGlv", Some("hio")),
            ("aG\nk=\n", Some("hi")),
            ("aGk", None),
            ("aG=k", None),
            ("a===", None),
            ("====", None),
            ("aGk=aGk=", None),
        ] {
            let decoded = Alphabet::Standard
                .decode(text)
                .ok()
                .map(|bytes| String::from_utf8(bytes).expect(text));
            assert_eq!(decoded.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn timestamps() {
        for (text, expected) in [
            ("2001-01-01", true),
            ("2001-1-1", true),
            ("2000-02-29", true),
            ("2001-02-29", false),
            ("2001-13-01", false),
            ("01-01-01", false),
            ("2001-12-14T21:59:43Z", true),
            ("2001-12-14t21:59:43.10-05:00", true),
            ("2001-12-14 21:59:43.1", true),
            ("2001-12-14 21:59:43Z", false),
            ("2001-12-14T21:59:43", false),
            ("2001-12-14T21:59:43.Z", false),
        ] {
            assert_eq!(is_timestamp(text), expected, "{text}");
        }
    }
}
