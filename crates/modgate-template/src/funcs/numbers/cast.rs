//! `github.com/spf13/cast`: any value as a number.

use crate::{
    number::{parse_float, parse_int},
    val::Val,
};

/// `cast.ToInt64`; 0 for what is not a number.
pub(crate) fn to_int(value: &Val<'_>) -> i64 {
    match value.pointed() {
        Val::Int(value) | Val::Int64(value) => value,
        Val::Uint64(value) => value.cast_signed(),
        Val::Uint32(value) => value.into(),
        Val::Uint8(value) => value.into(),
        Val::Float(value) => float_to_int(value),
        Val::Text(text) => parse_int(&text.lossy(), 0).unwrap_or(0),
        Val::Bool(value) => value.into(),
        _ => 0,
    }
}

/// `cast.ToFloat64`; 0 for what is not a number.
#[expect(clippy::cast_precision_loss, reason = "the nearest float, as Go converts")]
pub(crate) fn to_float(value: &Val<'_>) -> f64 {
    match value.pointed() {
        Val::Float(value) => value,
        Val::Int(value) | Val::Int64(value) => value as f64,
        Val::Uint64(value) => value as f64,
        Val::Uint32(value) => value.into(),
        Val::Uint8(value) => value.into(),
        Val::Text(text) => parse_float(&text.lossy()).unwrap_or(0.0),
        Val::Bool(value) => value.into(),
        _ => 0.0,
    }
}

/// `int64(value)` as Go does it on amd64: out of range is the least integer.
fn float_to_int(value: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    #[expect(clippy::cast_possible_truncation, reason = "in range")]
    if (-LIMIT..LIMIT).contains(&value) { value as i64 } else { i64::MIN }
}
