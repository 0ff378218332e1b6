//! The identity of a value, which tells values apart without looking inside containers.

use super::{Repr, Value};

/// The identity of a value, which tells values apart without looking inside containers, as
/// [`Value::is_identical`] does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Identity<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Text(&'a str),
    /// Where a container is, how long it is, and which type it has.
    Part(usize, usize, u8),
}

/// The longest text that is an [`Identity`], in bytes.
const MAX_IDENTITY: usize = 256;

impl<'a> Value<'a> {
    /// Whether both are the same without looking inside containers: the same part of a document,
    /// the same built container, or equal scalars. Equal containers need not be.
    #[inline]
    pub(crate) fn is_identical(self, other: Value<'a>) -> bool {
        match (self.0, other.0) {
            (Repr::JsonObject(a), Repr::JsonObject(b)) => std::ptr::eq(a, b),
            (Repr::JsonArray(a), Repr::JsonArray(b)) | (Repr::JsonSet(a), Repr::JsonSet(b)) => {
                std::ptr::eq(a, b)
            }
            (Repr::Array { items: a, .. }, Repr::Array { items: b, .. })
            | (Repr::Set { items: a, .. }, Repr::Set { items: b, .. }) => std::ptr::eq(a, b),
            (Repr::Object { entries: a, .. }, Repr::Object { entries: b, .. }) => {
                std::ptr::eq(a, b)
            }
            // `1` and `1.0` print differently, so the same number is not enough.
            (Repr::String(a), Repr::String(b)) | (Repr::Literal(a), Repr::Literal(b)) => a == b,
            (Repr::Bytes(a), Repr::Bytes(b)) => a.bytes == b.bytes,
            (Repr::Int(a), Repr::Int(b)) => a == b,
            (Repr::Bool(a), Repr::Bool(b)) => a == b,
            (Repr::Null, Repr::Null) => true,
            _ => false,
        }
    }

    /// Equal for values that are identical; none for what is rare or takes long to compare.
    pub(crate) fn identity(self) -> Option<Identity<'a>> {
        fn part<'a, T>(items: &[T], rank: u8) -> Identity<'a> {
            Identity::Part(items.as_ptr().addr(), items.len(), rank)
        }
        Some(match self.0 {
            Repr::Null => Identity::Null,
            Repr::Bool(value) => Identity::Bool(value),
            Repr::Int(int) => Identity::Int(int),
            Repr::String(text) if text.len() <= MAX_IDENTITY => Identity::Text(text),
            Repr::JsonArray(items) => part(items, 0),
            Repr::JsonObject(object) => Identity::Part(std::ptr::from_ref(object).addr(), 0, 1),
            Repr::JsonSet(items) => part(items, 2),
            Repr::Array { items, .. } => part(items, 3),
            Repr::Object { entries, .. } => part(entries, 4),
            Repr::Set { items, .. } => part(items, 5),
            Repr::String(_)
            | Repr::Float(_)
            | Repr::Literal(_)
            | Repr::Bytes(_)
            | Repr::Tree(_) => return None,
        })
    }
}
