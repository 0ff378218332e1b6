//! Conversions between types, and what every value has.

use modgate_value::gofloat;

use super::{
    Opaque, Table,
    time::{duration_text, read_duration, read_timestamp, timestamp, timestamp_text},
};
use crate::{
    eval::{EvalError, Result, failed},
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
    ("int", |_, args| match args {
        [value @ Val::Int(_)] => Ok(*value),
        [Val::Uint(value)] => int(i64::try_from(*value).ok()),
        [Val::Double(value)] => {
            int(truncated(*value, -9_223_372_036_854_775_808.0, 9_223_372_036_854_775_808.0)
                .and_then(|value| i64::try_from(value).ok()))
        }
        [Val::String(text)] => text.parse().map(Val::Int).or_else(|_| cannot("string", "int")),
        [Val::Timestamp(at)] => Ok(Val::Int(at.seconds)),
        [Val::Duration(nanos)] => Ok(Val::Int(*nanos)),
        _ => Err(EvalError::NoOverload),
    }),
    ("uint", |_, args| match args {
        [value @ Val::Uint(_)] => Ok(*value),
        [Val::Int(value)] => uint(u64::try_from(*value).ok()),
        [Val::Double(value)] => uint(
            truncated(*value, -1.0, 18_446_744_073_709_551_616.0)
                .filter(|_| *value >= 0.0)
                .and_then(|value| u64::try_from(value).ok()),
        ),
        [Val::String(text)] if !text.starts_with('+') => {
            text.parse().map(Val::Uint).or_else(|_| cannot("string", "uint"))
        }
        [Val::String(_)] => cannot("string", "uint"),
        _ => Err(EvalError::NoOverload),
    }),
    ("double", |_, args| match args {
        [value @ Val::Double(_)] => Ok(*value),
        #[expect(clippy::cast_precision_loss, reason = "what the conversion is")]
        [Val::Int(value)] => Ok(Val::Double(*value as f64)),
        #[expect(clippy::cast_precision_loss, reason = "what the conversion is")]
        [Val::Uint(value)] => Ok(Val::Double(*value as f64)),
        [Val::String(text)] => read_double(text),
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
    ("timestamp", |_, args| match args {
        [value @ Val::Timestamp(_)] => Ok(*value),
        [Val::String(text)] => read_timestamp(text).map(Val::Timestamp),
        [Val::Int(seconds)] => timestamp(*seconds, 0, 0).map(Val::Timestamp),
        _ => Err(EvalError::NoOverload),
    }),
    ("duration", |_, args| match args {
        [value @ Val::Duration(_)] => Ok(*value),
        [Val::Int(nanos)] => Ok(Val::Duration(*nanos)),
        [Val::String(text)] => read_duration(text).map(Val::Duration),
        _ => Err(EvalError::NoOverload),
    }),
];

/// A value converted to text, if its type has such a conversion.
pub(super) fn text<'a>(heap: Heap<'a>, value: Val<'a>) -> Result<Option<Val<'a>>> {
    let text = match value {
        Val::String(_) => return Ok(Some(value)),
        Val::Bool(value) => value.to_string(),
        Val::Int(value) => value.to_string(),
        Val::Uint(value) => value.to_string(),
        Val::Double(value) => gofloat::general(value),
        Val::Bytes(bytes) => {
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
    let bare = text.strip_prefix(['+', '-']).unwrap_or(text).to_ascii_lowercase();
    let name = matches!(bare.as_str(), "inf" | "infinity" | "nan");
    if bare.starts_with(|first: char| first.is_ascii_alphabetic()) && !name {
        return cannot("string", "double");
    }
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() || name => Ok(Val::Double(value)),
        _ => cannot("string", "double"),
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
