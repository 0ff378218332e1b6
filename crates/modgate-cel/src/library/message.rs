//! Messages: those of Protocol Buffers that stand for values of the language.

use super::time::add;
use crate::{
    error::{EvalError, Result},
    heap::Heap,
    value::{Timestamp, Val},
};

/// A kind of message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
    /// An object that a mutation builds, by the name of its type.
    Built(Box<str>),
    Timestamp,
    Duration,
    Bool,
    Bytes,
    Double,
    Int,
    Uint,
    String,
    List,
    Struct,
    Value,
    Any,
}

impl Message {
    pub(crate) fn find(name: &str) -> Option<Self> {
        Some(match name.strip_prefix("google.protobuf.")? {
            "Timestamp" => Self::Timestamp,
            "Duration" => Self::Duration,
            "BoolValue" => Self::Bool,
            "BytesValue" => Self::Bytes,
            "DoubleValue" | "FloatValue" => Self::Double,
            "Int32Value" | "Int64Value" => Self::Int,
            "UInt32Value" | "UInt64Value" => Self::Uint,
            "StringValue" => Self::String,
            "ListValue" => Self::List,
            "Struct" => Self::Struct,
            "Value" => Self::Value,
            "Any" => Self::Any,
            _ => return None,
        })
    }

    /// The type of a field, as the table of functions writes types.
    pub(crate) fn field(&self, name: &str) -> Option<&'static str> {
        Some(match (self, name) {
            (Self::Timestamp | Self::Duration, "seconds" | "nanos") => "int",
            (Self::Bool, "value") | (Self::Value, "bool_value") => "bool",
            (Self::Bytes | Self::Any, "value") => "bytes",
            (Self::Double, "value") | (Self::Value, "number_value") => "double",
            (Self::Int, "value") => "int",
            (Self::Uint, "value") => "uint",
            (Self::String, "value") | (Self::Value, "string_value") | (Self::Any, "type_url") => {
                "string"
            }
            (Self::List, "values") | (Self::Value, "list_value") => "L<dyn>",
            (Self::Struct, "fields") | (Self::Value, "struct_value") => "M<string;dyn>",
            (Self::Value, "null_value") => "dyn",
            _ => return None,
        })
    }
}

/// The value of a message with these fields.
pub(crate) fn build<'a>(
    heap: Heap<'a>,
    which: &'a Message,
    fields: &[(&'a str, Val<'a>)],
) -> Result<Val<'a>> {
    let field = |wanted: &str| {
        fields.iter().rev().find(|(name, _)| *name == wanted).map(|(_, value)| *value)
    };
    let int = |name: &str| match field(name) {
        None => Ok(0),
        Some(Val::Int(value)) => Ok(value),
        Some(_) => Err(EvalError::NoOverload),
    };
    let or = |default: Val<'a>| Ok(field("value").unwrap_or(default));
    match which {
        Message::Timestamp => {
            let start = Timestamp { seconds: int("seconds")?, nanos: 0, offset: 0 };
            add(start, int("nanos")?.into()).map(Val::Timestamp)
        }
        Message::Duration => {
            let seconds = i128::from(int("seconds")?) * 1_000_000_000;
            let nanos = i64::try_from(seconds + i128::from(int("nanos")?));
            nanos.map(Val::Duration).map_err(|_| EvalError::Failed("integer overflow".to_owned()))
        }
        Message::Bool => or(Val::Bool(false)),
        Message::Bytes => or(Val::Bytes(&[])),
        Message::Double => or(Val::Double(0.0)),
        Message::Int => or(Val::Int(0)),
        Message::Uint => or(Val::Uint(0)),
        Message::String => or(Val::String("")),
        Message::List => Ok(field("values").unwrap_or(Val::List(&[]))),
        Message::Struct => Ok(field("fields").unwrap_or(Val::Map(&[]))),
        Message::Value => match fields.last() {
            Some(("null_value", _)) | None => Ok(Val::Null),
            Some((_, value)) => Ok(*value),
        },
        Message::Any => heap.map(&[]),
        Message::Built(name) => heap.built(name, fields),
    }
}
