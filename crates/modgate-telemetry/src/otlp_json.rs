//! The JSON of OTLP.

use std::time::{SystemTime, UNIX_EPOCH};

use modgate_value::Value;

pub(crate) fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    members.into_iter().collect()
}

pub(crate) fn attribute(key: &str, value: Value) -> Value {
    object([("key", key.into()), ("value", value)])
}

pub(crate) fn text(value: &str) -> Value {
    object([("stringValue", value.into())])
}

/// 64-bit integers are texts in OTLP's JSON.
pub(crate) fn integer(value: impl ToString) -> Value {
    value.to_string().into()
}

pub(crate) fn nanoseconds(at: SystemTime) -> Value {
    integer(at.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos())
}
