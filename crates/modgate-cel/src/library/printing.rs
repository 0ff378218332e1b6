//! `format`: clauses, and values as they print them.
//!
//! The original prints with a locale, American English; hence the commas in large numbers and the
//! superscripts of exponents.

use std::fmt::Write as _;

use modgate_value::{go::hex, gofmt};

use super::{
    convert,
    time::{duration_text, timestamp_text},
};
use crate::{
    brief::quote,
    error::{EvalError, Result, failed},
    heap::Heap,
    value::Val,
};

/// The form in which a clause prints its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clause {
    Text,
    Decimal,
    Fixed(usize),
    Scientific(usize),
    Binary,
    Hex { upper: bool },
    Octal,
}

const DEFAULT_PRECISION: usize = 6;

impl Clause {
    /// The clause at the start of `rest`, which stands behind a percent sign, and what follows.
    pub(crate) fn read(rest: &str) -> std::result::Result<(Self, &str), String> {
        let broken = |why: &str| {
            Err(format!("could not parse formatting clause: error while parsing precision: {why}"))
        };
        let mut precision = DEFAULT_PRECISION;
        let mut rest = rest;
        if let Some(after) = rest.strip_prefix('.') {
            let length = after.bytes().take_while(u8::is_ascii_digit).count();
            let (digits, following) = after.split_at_checked(length).unwrap_or((after, ""));
            if following.is_empty() {
                return broken("could not find end of precision specifier");
            }
            precision = match digits.parse::<i64>() {
                Ok(precision) => usize::try_from(precision).unwrap_or(usize::MAX),
                Err(_) => {
                    let why =
                        if digits.is_empty() { "invalid syntax" } else { "value out of range" };
                    return broken(&format!(
                        "error while converting precision to integer: strconv.Atoi: parsing \
                         {}: {why}",
                        quote(digits)
                    ));
                }
            };
            rest = following;
        }
        let clause = match rest.bytes().next() {
            Some(b's') => Self::Text,
            Some(b'd') => Self::Decimal,
            Some(b'f') => Self::Fixed(precision),
            Some(b'e') => Self::Scientific(precision),
            Some(b'b') => Self::Binary,
            Some(b'x') => Self::Hex { upper: false },
            Some(b'X') => Self::Hex { upper: true },
            Some(b'o') => Self::Octal,
            other => {
                // The original looks at single bytes.
                let other = other.map(char::from).unwrap_or_default();
                return Err(format!(
                    "could not parse formatting clause: unrecognized formatting clause \"{other}\""
                ));
            }
        };
        Ok((clause, rest.get(1..).unwrap_or_default()))
    }

    /// Whether a value of this type may be printed; nothing if that is known only from the value.
    pub(crate) fn takes(self, type_name: &str) -> bool {
        let integer = matches!(type_name, "int" | "uint");
        type_name == "dyn"
            || match self {
                Self::Text => {
                    integer
                        || matches!(
                            type_name,
                            "list"
                                | "map"
                                | "double"
                                | "bool"
                                | "string"
                                | "bytes"
                                | "google.protobuf.Timestamp"
                                | "google.protobuf.Duration"
                                | "type"
                                | "null_type"
                        )
                }
                Self::Decimal | Self::Octal => integer,
                Self::Fixed(_) | Self::Scientific(_) => matches!(type_name, "double" | "string"),
                Self::Binary => integer || type_name == "bool",
                Self::Hex { .. } => integer || matches!(type_name, "string" | "bytes"),
            }
    }

    /// The error for a value of another type.
    pub(crate) fn refusal(self, type_name: &str) -> String {
        let what = match self {
            Self::Text => {
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, \
                 lists, types, durations, and timestamps"
            }
            Self::Decimal => "decimal clause can only be used on integers",
            Self::Octal => "octal clause can only be used on integers",
            Self::Fixed(_) => "fixed-point clause can only be used on doubles",
            Self::Scientific(_) => "scientific clause can only be used on doubles",
            Self::Binary => "only integers and bools can be formatted as binary",
            Self::Hex { .. } => "only integers, byte buffers, and strings can be formatted as hex",
        };
        format!("error during formatting: {what}, was given {type_name}")
    }
}

/// The text up to a clause or the end, and what stands behind the percent sign.
pub(crate) fn literal(text: &str) -> (String, Option<&str>) {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        match after.strip_prefix('%') {
            Some(after) => {
                out.push('%');
                rest = after;
            }
            None => return (out, Some(after)),
        }
    }
    out.push_str(rest);
    (out, None)
}

pub(super) fn format<'a>(heap: Heap<'a>, template: &str, args: Val<'a>) -> Result<Val<'a>> {
    let mut out = String::new();
    let mut rest = template;
    let mut index = 0;
    loop {
        let until = rest.find('%').unwrap_or(rest.len());
        // The text may hold doubled percent signs; then it is paid for as far as the first.
        heap.build(until + 16)?;
        let (before, after) = literal(rest);
        heap.build(before.len().saturating_sub(until))?;
        out.push_str(&before);
        let Some(after) = after else { break };
        let Some(arg) = args.item(index) else {
            return failed(format!("index {index} out of range"));
        };
        if after.is_empty() {
            return failed("unexpected end of string");
        }
        let (clause, following) = Clause::read(after).map_err(EvalError::Failed)?;
        print(heap, clause, arg, &mut out)?;
        rest = following;
        index += 1;
    }
    heap.text(&out)
}

fn print(heap: Heap<'_>, clause: Clause, arg: Val<'_>, out: &mut String) -> Result<()> {
    let written = match (clause, arg) {
        (Clause::Text, value) => return text(heap, value, false, out),
        (Clause::Decimal, Val::Int(value)) => write!(out, "{value}"),
        (Clause::Decimal, Val::Uint(value)) => write!(out, "{value}"),
        (Clause::Octal, Val::Int(value)) => {
            write!(out, "{}{:o}", sign(value), value.unsigned_abs())
        }
        (Clause::Octal, Val::Uint(value)) => write!(out, "{value:o}"),
        (Clause::Binary, Val::Int(value)) => {
            write!(out, "{}{:b}", sign(value), value.unsigned_abs())
        }
        (Clause::Binary, Val::Uint(value)) => write!(out, "{value:b}"),
        (Clause::Binary, Val::Bool(value)) => write!(out, "{}", u8::from(value)),
        (Clause::Hex { upper }, value) => {
            if let Val::String(_) | Val::Bytes(_) = value {
                // Two digits for each byte, in capitals once more.
                heap.build(4 * value.length())?;
            }
            let hex = match value {
                Val::Int(value) => format!("{}{:x}", sign(value), value.unsigned_abs()),
                Val::Uint(value) => format!("{value:x}"),
                Val::String(text) => hex::encode(text.as_bytes()),
                Val::Bytes(bytes) => hex::encode(bytes),
                other => return failed(clause.refusal(other.type_name())),
            };
            out.push_str(&if upper { hex.to_ascii_uppercase() } else { hex });
            Ok(())
        }
        (Clause::Fixed(_) | Clause::Scientific(_), value) => {
            let number = match value {
                Val::Double(value) => value,
                Val::String("NaN") => f64::NAN,
                Val::String("Infinity") => f64::INFINITY,
                Val::String("-Infinity") => f64::NEG_INFINITY,
                other => return failed(clause.refusal(other.type_name())),
            };
            match clause {
                Clause::Fixed(large) | Clause::Scientific(large) if large > READ => {
                    out.push_str("%!(NOVERB)");
                }
                Clause::Fixed(precision) => {
                    heap.build(decimals_at_most(precision).unwrap_or(0) + 1_000)?;
                    fixed(number, precision, out);
                }
                Clause::Scientific(width) => {
                    // The original keeps the width in 16 bits.
                    let width = width % (1 << 16);
                    let width = if width < 1 << 15 { width } else { 0 };
                    heap.build(width)?;
                    scientific(number, width, out);
                }
                _ => {}
            }
            Ok(())
        }
        (_, other) => return failed(clause.refusal(other.type_name())),
    };
    written.or_else(|_| failed("error writing format string"))
}

fn sign(value: i64) -> &'static str {
    if value < 0 { "-" } else { "" }
}

/// A value as `%s` prints it; `inner` where it is part of a list or map, and so written as CEL.
fn text(heap: Heap<'_>, value: Val<'_>, inner: bool, out: &mut String) -> Result<()> {
    heap.budget.spend(1)?;
    // A character in quotation marks may take four times its bytes.
    heap.build(64 + value.length() * if inner { 4 } else { 1 })?;
    match value {
        Val::Null => out.push_str("null"),
        Val::String(text) if inner => gofmt::append_quoted(text, out),
        Val::Bytes(bytes) if inner => {
            let text = convert_bytes(bytes)?;
            out.push('b');
            gofmt::append_quoted(text, out);
        }
        Val::Bytes(bytes) => out.push_str(convert_bytes(bytes)?),
        Val::Timestamp(at) if inner => {
            let _ = write!(out, "timestamp(\"{}\")", timestamp_text(at));
        }
        Val::Duration(nanos) if inner => {
            let _ = write!(out, "duration(\"{}\")", duration_text(nanos));
        }
        Val::Double(value) if inner && !value.is_finite() => {
            let _ = write!(out, "\"{}\"", modgate_value::gofloat::general(value));
        }
        Val::Double(value) if inner => {
            let _ = write!(out, "{value:.6}");
        }
        value if value.is_list() => {
            out.push('[');
            for (index, item) in value.items().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                element(heap, item, out)?;
            }
            out.push(']');
        }
        value if value.is_map() => return map(heap, value, out),
        Val::String(text) => out.push_str(text),
        Val::Bool(_)
        | Val::Int(_)
        | Val::Uint(_)
        | Val::Double(_)
        | Val::Type(_)
        | Val::Timestamp(_)
        | Val::Duration(_) => {
            if let Some(Val::String(text)) = convert::text(heap, value)? {
                out.push_str(text);
            }
        }
        other => return failed(Clause::Text.refusal(other.type_name())),
    }
    Ok(())
}

fn element(heap: Heap<'_>, value: Val<'_>, out: &mut String) -> Result<()> {
    if !Clause::Text.takes(value.type_name()) {
        return failed(format!(
            "error during formatting: no formatting function for {}",
            value.type_name()
        ));
    }
    text(heap.deeper()?, value, true, out)
}

fn map(heap: Heap<'_>, value: Val<'_>, out: &mut String) -> Result<()> {
    let mut pairs = Vec::new();
    for index in 0..value.entries().unwrap_or(0) {
        let Some((key, value)) = value.entry(index) else { break };
        if !matches!(key, Val::String(_) | Val::Bool(_) | Val::Int(_) | Val::Uint(_)) {
            return failed(format!(
                "error during formatting: no formatting function for map key of type {}",
                key.type_name()
            ));
        }
        let (mut key_text, mut value_text) = (String::new(), String::new());
        text(heap, key, true, &mut key_text)?;
        element(heap, value, &mut value_text)?;
        heap.budget.allocate(key_text.len() + value_text.len())?;
        pairs.push((key_text, value_text));
    }
    pairs.sort();
    out.push('{');
    for (index, (key, value)) in pairs.iter().enumerate() {
        let separator = if index > 0 { ", " } else { "" };
        let _ = write!(out, "{separator}{key}:{value}");
    }
    out.push('}');
    Ok(())
}

fn convert_bytes(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes)
        .or_else(|_| failed("invalid UTF-8 in bytes, cannot convert to string"))
}

/// More decimals than any float has.
const DECIMALS: usize = 1_100;

/// The largest precision that the original reads.
const READ: usize = 10_000_009;

/// How many decimals there are at most: the original keeps the precision in 16 bits, and writes the
/// fewest digits where that makes it negative.
fn decimals_at_most(precision: usize) -> Option<usize> {
    let kept = precision % (1 << 16);
    (kept < 1 << 15).then_some(kept.min(DECIMALS))
}

/// Infinities and NaN, as a locale writes them.
fn special(value: f64) -> Option<&'static str> {
    if value.is_nan() {
        return Some("NaN");
    }
    value.is_infinite().then_some(if value > 0.0 { "∞" } else { "-∞" })
}

/// Plain notation with thousands separated.
fn fixed(value: f64, precision: usize, out: &mut String) {
    if let Some(special) = special(value) {
        out.push_str(special);
        return;
    }
    let digits = match decimals_at_most(precision) {
        Some(most) => format!("{:.*}", most, value.abs()),
        None => modgate_value::gofloat::plain(value.abs()),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    // The original keeps in a byte how many decimals there are at least.
    let least = precision % 256;
    let significant = fraction.trim_end_matches('0').len();
    let decimals = significant.max(least);
    if value < 0.0 {
        out.push('-');
    }
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    if decimals > 0 {
        out.push('.');
        out.push_str(fraction.get(..decimals).unwrap_or(fraction));
        out.extend(std::iter::repeat_n('0', decimals.saturating_sub(fraction.len())));
    }
}

/// Six decimals and a power of ten; the original takes the precision for the least width.
fn scientific(value: f64, width: usize, out: &mut String) {
    let text = match special(value) {
        Some(special) => special.to_owned(),
        None => {
            let plain = format!("{value:.6e}");
            let (mantissa, exponent) = plain.split_once('e').unwrap_or((&plain, "0"));
            let mantissa = if value == 0.0 { "0.000000" } else { mantissa };
            let mut text = format!("{mantissa}×10");
            if exponent.starts_with('-') {
                text.push('⁻');
            }
            let digits = exponent.trim_start_matches('-');
            for digit in format!("{digits:0>2}").bytes() {
                let shapes = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
                text.extend(shapes.get(usize::from(digit.wrapping_sub(b'0'))));
            }
            text
        }
    };
    let length = text.chars().count();
    out.extend(std::iter::repeat_n(' ', width.saturating_sub(length)));
    out.push_str(&text);
}
