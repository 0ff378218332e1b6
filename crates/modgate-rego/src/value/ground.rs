//! Values that own themselves.

use modgate_value::{Number, Value as Json};

use super::{Heap, Limit, Value, View};
use crate::number::Num;

/// An owned value, shareable between threads: a constant of a program, or a result that outlives
/// the arena it was computed in.
///
/// Always [`Ground::Json`] where the value is JSON, which is then borrowed without building.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ground {
    /// Anything without sets and without keys other than text.
    Json(Json),
    /// A string that is not UTF-8.
    Bytes(Box<[u8]>),
    /// An array with a part that is not JSON.
    Array(Box<[Ground]>),
    /// An object with a part that is not JSON, sorted by key.
    Object(Box<[(Ground, Ground)]>),
    /// A set, sorted.
    Set(Box<[Ground]>),
}

impl Ground {
    /// The value for an evaluation: borrowed where it is JSON, otherwise built.
    ///
    /// # Errors
    ///
    /// Any [`Limit`].
    pub fn value<'a>(&'a self, heap: Heap<'a>) -> Result<Value<'a>, Limit> {
        let all = |items: &'a [Self]| -> Result<Vec<Value<'a>>, Limit> {
            items.iter().map(|item| item.value(heap)).collect()
        };
        match self {
            Self::Json(json) => Ok(Value::json(json)),
            Self::Bytes(bytes) => heap.bytes(bytes),
            Self::Array(items) => heap.array(&all(items)?),
            Self::Set(items) => heap.set_from_sorted(&all(items)?),
            Self::Object(entries) => {
                let entries: Vec<_> = entries
                    .iter()
                    .map(|(key, value)| Ok((key.value(heap)?, value.value(heap)?)))
                    .collect::<Result<_, Limit>>()?;
                heap.object_from_sorted(&entries)
            }
        }
    }

    fn json(self) -> Result<Json, Self> {
        match self {
            Self::Json(json) => Ok(json),
            other => Err(other),
        }
    }
}

/// An owned copy.
impl From<Value<'_>> for Ground {
    fn from(value: Value<'_>) -> Self {
        match value.view() {
            View::Null => Self::Json(Json::Null),
            View::Bool(value) => Self::Json(value.into()),
            View::Number(number) => Self::Json(json_number(number)),
            View::String(text) => match (value.as_utf8(), value.as_bytes()) {
                (None, Some(bytes)) => Self::Bytes(bytes.into()),
                _ => Self::Json(text.into()),
            },
            View::Array(array) => {
                let items: Vec<Self> = array.iter().map(Self::from).collect();
                if items.iter().all(|item| matches!(item, Self::Json(_))) {
                    Self::Json(items.into_iter().filter_map(|item| item.json().ok()).collect())
                } else {
                    Self::Array(items.into())
                }
            }
            View::Set(set) => Self::Set(set.iter().map(Self::from).collect()),
            View::Object(object) => {
                let is_json = |(key, value): &(Self, Self)| {
                    matches!((key, value), (Self::Json(Json::String(_)), Self::Json(_)))
                };
                let entries: Vec<(Self, Self)> =
                    object.iter().map(|(key, value)| (key.into(), value.into())).collect();
                if entries.iter().all(is_json) {
                    let members = entries.into_iter().filter_map(|(key, value)| {
                        Some((key.json().ok()?.as_str()?.to_owned(), value.json().ok()?))
                    });
                    Self::Json(members.collect())
                } else {
                    Self::Object(entries.into())
                }
            }
        }
    }
}

/// The number as a document holds it.
pub(crate) fn json_number(number: Num<'_>) -> Json {
    match number {
        Num::Int(int) => int.into(),
        Num::Float(float) => Number::from_f64(float).map_or(Json::Null, Json::Number),
        // Only JSON number text is ever made a literal.
        Num::Literal(text) => Number::from_json_text(text).map_or(Json::Null, Json::Number),
    }
}
