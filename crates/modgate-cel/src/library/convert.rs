//! Conversions between types, and what every value has.

use modgate_value::gofloat;

use super::{
    Opaque, Table,
    time::{duration_text, lenient, read_duration, read_timestamp, timestamp, timestamp_text},
};
use crate::{
    error::{EvalError, Result, failed},
    heap::Heap,
    value::Val,
};

pub(super) const FUNCTIONS: Table = &[
    ("size", |heap, args| match args {
        [value] => match value.size() {
            Some(size) => {
                heap.budget.spend(size as u64 / 64)?;
                Ok(Val::Int(i64::try_from(size).unwrap_or(i64::MAX)))
            }
            None => Err(EvalError::NoOverload),
        },
        _ => Err(EvalError::NoOverload),
    }),
    ("type", |_, args| match args {
        [value] => Ok(Val::Type(value.type_name())),
        _ => Err(EvalError::NoOverload),
    }),
    ("dyn", |_, args| args.first().copied().ok_or(EvalError::NoOverload)),
    ("int", |heap, args| match args {
        [value @ Val::Int(_)] => Ok(*value),
        [Val::Uint(value)] => int(i64::try_from(*value).ok()),
        [Val::Double(value)] => {
            int(truncated(*value, -9_223_372_036_854_775_808.0, 9_223_372_036_854_775_808.0)
                .and_then(|value| i64::try_from(value).ok()))
        }
        [Val::String(text)] => heap
            .read(text.len())
            .and_then(|()| text.parse().map(Val::Int).or_else(|_| cannot("string", "int"))),
        [Val::Timestamp(at)] => Ok(Val::Int(at.seconds)),
        [Val::Duration(nanos)] => Ok(Val::Int(*nanos)),
        _ => Err(EvalError::NoOverload),
    }),
    ("uint", |heap, args| match args {
        [value @ Val::Uint(_)] => Ok(*value),
        [Val::Int(value)] => uint(u64::try_from(*value).ok()),
        [Val::Double(value)] => uint(
            truncated(*value, -1.0, 18_446_744_073_709_551_616.0)
                .filter(|_| *value >= 0.0)
                .and_then(|value| u64::try_from(value).ok()),
        ),
        [Val::String(text)] if !text.starts_with('+') => {
            heap.read(text.len())?;
            text.parse().map(Val::Uint).or_else(|_| cannot("string", "uint"))
        }
        [Val::String(_)] => cannot("string", "uint"),
        _ => Err(EvalError::NoOverload),
    }),
    ("double", |heap, args| match args {
        [value @ Val::Double(_)] => Ok(*value),
        #[expect(clippy::cast_precision_loss, reason = "what the conversion is")]
        [Val::Int(value)] => Ok(Val::Double(*value as f64)),
        #[expect(clippy::cast_precision_loss, reason = "what the conversion is")]
        [Val::Uint(value)] => Ok(Val::Double(*value as f64)),
        [Val::String(text)] => {
            heap.read(text.len())?;
            heap.temporary(text.len() * 2, || read_double(text))
        }
        _ => Err(EvalError::NoOverload),
    }),
    ("bool", |_, args| match args {
        [value @ Val::Bool(_)] => Ok(*value),
        [Val::String("1" | "t" | "T" | "true" | "TRUE" | "True")] => Ok(Val::Bool(true)),
        [Val::String("0" | "f" | "F" | "false" | "FALSE" | "False")] => Ok(Val::Bool(false)),
        [Val::String(_)] => cannot("string", "bool"),
        _ => Err(EvalError::NoOverload),
    }),
    ("bytes", |_, args| match args {
        [value @ Val::Bytes(_)] => Ok(*value),
        [Val::String(text)] => Ok(Val::Bytes(text.as_bytes())),
        _ => Err(EvalError::NoOverload),
    }),
    ("string", |heap, args| match args {
        [value] => text(heap, *value)?.ok_or(EvalError::NoOverload),
        _ => Err(EvalError::NoOverload),
    }),
    ("timestamp", |heap, args| match args {
        [value @ Val::Timestamp(_)] => Ok(*value),
        [Val::String(text)] => parsing(heap, text, || read_timestamp(text).map(Val::Timestamp)),
        [Val::Int(seconds)] => timestamp(*seconds, 0, 0).map(Val::Timestamp),
        _ => Err(EvalError::NoOverload),
    }),
    ("duration", |heap, args| match args {
        [value @ Val::Duration(_)] => Ok(*value),
        [Val::String(text)] => parsing(heap, text, || read_duration(text).map(Val::Duration)),
        _ => Err(EvalError::NoOverload),
    }),
];

/// A time in any form that Go reads.
pub(super) fn lenient_timestamp<'a>(heap: Heap<'a>, text: &str) -> Result<Val<'a>> {
    parsing(heap, text, || lenient(text).map(Val::Timestamp))
}

/// Reads a time, which may end in an error that quotes the whole text.
fn parsing<T>(heap: Heap<'_>, text: &str, read: impl FnOnce() -> Result<T>) -> Result<T> {
    heap.read(text.len())?;
    heap.temporary(text.len() * 9, read)
}

/// A value converted to text, if its type has such a conversion.
pub(super) fn text<'a>(heap: Heap<'a>, value: Val<'a>) -> Result<Option<Val<'a>>> {
    let text = match value {
        Val::String(_) => return Ok(Some(value)),
        Val::Bool(value) => value.to_string(),
        Val::Int(value) => value.to_string(),
        Val::Uint(value) => value.to_string(),
        Val::Double(value) => gofloat::general(value),
        Val::Bytes(bytes) => {
            heap.read(bytes.len())?;
            return match std::str::from_utf8(bytes) {
                Ok(text) => Ok(Some(Val::String(text))),
                Err(_) => failed("invalid UTF-8 in bytes, cannot convert to string"),
            };
        }
        Val::Timestamp(at) => timestamp_text(at),
        Val::Duration(nanos) => duration_text(nanos),
        Val::Type(name) => name.to_owned(),
        Val::Opaque(Opaque::Ip(ip)) => ip.to_string(),
        Val::Opaque(Opaque::Cidr(cidr)) => cidr.to_string(),
        _ => return Ok(None),
    };
    heap.text(&text).map(Some)
}

/// A float as Go's `strconv.ParseFloat` reads it.
fn read_double(text: &str) -> Result<Val<'static>> {
    match parse_float(text) {
        Some(value) => Ok(Val::Double(value)),
        None => cannot("string", "double"),
    }
}

fn cannot<T>(from: &str, to: &str) -> Result<T> {
    failed(format!("type conversion error from '{from}' to '{to}'"))
}

fn int(value: Option<i64>) -> Result<Val<'static>> {
    value.map_or_else(|| failed("integer overflow"), |value| Ok(Val::Int(value)))
}

fn uint(value: Option<u64>) -> Result<Val<'static>> {
    value.map_or_else(|| failed("unsigned integer overflow"), |value| Ok(Val::Uint(value)))
}

/// The integer below, towards zero, if the number is strictly between the bounds.
#[expect(clippy::cast_possible_truncation, reason = "within the bounds, without its fraction")]
fn truncated(value: f64, above: f64, below: f64) -> Option<i128> {
    (value > above && value < below).then_some(value as i128)
}

/// A float as Go's `strconv.ParseFloat` reads it: also hexadecimal, and with `_` between digits.
fn parse_float(text: &str) -> Option<f64> {
    let (sign, bare) = match text.strip_prefix('-') {
        Some(bare) => (-1.0, bare),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = bare.to_ascii_lowercase();
    match lower.as_str() {
        "inf" | "infinity" => return Some(sign * f64::INFINITY),
        "nan" if bare.len() == text.len() => return Some(f64::NAN),
        _ => {}
    }
    let hexadecimal = lower.strip_prefix("0x");
    if lower.contains('_')
        && !underscores_separate(hexadecimal.unwrap_or(&lower), hexadecimal.is_some())
    {
        return None;
    }
    let plain = hexadecimal.unwrap_or(&lower).replace('_', "");
    let value = match hexadecimal {
        Some(_) => parse_hexadecimal(&plain)?,
        None if plain.starts_with(|first: char| first.is_ascii_digit() || first == '.') => {
            plain.parse().ok()?
        }
        None => return None,
    };
    value.is_finite().then_some(sign * value)
}

/// Whether every `_` stands between digits, or between a prefix and a digit.
fn underscores_separate(text: &str, prefixed: bool) -> bool {
    let digit = |byte: u8| byte.is_ascii_digit() || prefixed && byte.is_ascii_hexdigit();
    let mut before = prefixed;
    let mut bytes = text.bytes().peekable();
    while let Some(byte) = bytes.next() {
        let next = bytes.peek().copied().is_some_and(digit);
        if byte == b'_' && !(before && next) {
            return false;
        }
        before = digit(byte);
    }
    true
}

/// `1.8p1` behind `0x`, rounded to the nearest float.
fn parse_hexadecimal(text: &str) -> Option<f64> {
    let (mantissa, exponent) = text.split_once('p')?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent =
        exponent.strip_prefix('+').filter(|rest| !rest.starts_with('-')).unwrap_or(exponent);
    let digits = exponent.strip_prefix('-').unwrap_or(exponent);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    // Beyond this every number is zero or infinite.
    let far = 1_i64 << 40;
    let exponent =
        exponent.parse::<i64>().unwrap_or(if exponent.starts_with('-') { -far } else { far });
    let mut power =
        exponent.clamp(-far, far).checked_sub(4 * i64::try_from(fraction.len()).ok()?)?;
    let (mut bits, mut any, mut rest) = (0_u64, false, false);
    for digit in whole.chars().chain(fraction.chars()) {
        let digit = u64::from(digit.to_digit(16)?);
        any = true;
        if bits >> 59 == 0 {
            bits = bits << 4 | digit;
        } else {
            rest |= digit != 0;
            power += 4;
        }
    }
    if !any {
        return None;
    }
    if bits == 0 {
        return Some(0.0);
    }
    let zeros = bits.leading_zeros();
    bits <<= zeros;
    power -= i64::from(zeros);
    // The value is `bits * 2^power`, of 64 bits; of these 53 are kept, fewer near zero.
    let dropped = 11.max(-1074 - power);
    if dropped > 64 {
        return Some(0.0);
    }
    let kept = u128::from(bits) >> dropped;
    let lost = u128::from(bits) & ((1 << dropped) - 1);
    let half = 1_u128 << (dropped - 1);
    let up = lost > half || lost == half && (rest || kept & 1 == 1);
    let mantissa = kept + u128::from(up);
    #[expect(clippy::cast_precision_loss, reason = "at most 53 bits and one")]
    let mantissa = mantissa as f64;
    let power = i32::try_from(power + dropped).ok()?;
    // In two steps, each of them exact or beyond the largest.
    let first = power.clamp(-1000, 1000);
    Some(mantissa * 2_f64.powi(first) * 2_f64.powi(power - first))
}
