//! Equality, order and hash, alike for borrowed and built values.

use std::{
    cmp::Ordering,
    hash::{Hash, Hasher},
};

use modgate_value::Value as Json;

use super::{Array, ArrayRepr, Object, ObjectRepr, Repr, Set, Value, View};

impl Value<'_> {
    fn rank(self) -> u8 {
        match self.0 {
            Repr::Null => 0,
            Repr::Bool(_) => 1,
            Repr::Int(_) | Repr::Float(_) | Repr::Literal(_) => 2,
            Repr::String(_) | Repr::Bytes(_) => 3,
            Repr::JsonArray(_) | Repr::Array { .. } => 4,
            Repr::JsonObject(_) | Repr::Tree(_) | Repr::Object { .. } => 5,
            Repr::Set { .. } | Repr::JsonSet(_) => 6,
        }
    }

    /// Equal for values that are [identical](Self::is_identical), and for few others.
    #[expect(clippy::cast_possible_truncation, reason = "any part tells most values apart")]
    pub(crate) fn tag(self) -> u32 {
        fn part<T: ?Sized>(place: *const T) -> u32 {
            (place.addr() >> 3) as u32
        }
        match self.0 {
            Repr::Null | Repr::Float(_) | Repr::Tree(_) => 0,
            Repr::Bool(value) => u32::from(value),
            Repr::Int(int) => int as u32,
            Repr::Literal(text) | Repr::String(text) => {
                let end = text.as_bytes().last().copied().unwrap_or_default();
                (text.len() as u32) << 8 | u32::from(end)
            }
            Repr::Bytes(bytes) => bytes.bytes.len() as u32,
            Repr::JsonArray(items) | Repr::JsonSet(items) => part(items),
            Repr::JsonObject(object) => part(object),
            Repr::Array { items, .. } | Repr::Set { items, .. } => part(items),
            Repr::Object { entries, .. } => part(entries),
        }
    }
}

impl PartialEq for Value<'_> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        match (self.0, other.0) {
            // Text first: most comparisons of a policy are between strings.
            (Repr::String(a), Repr::String(b)) => a == b,
            (Repr::Int(a), Repr::Int(b)) => a == b,
            (Repr::Bool(a), Repr::Bool(b)) => a == b,
            (Repr::JsonObject(a), Repr::JsonObject(b)) => a.ptr_eq(b) || a == b,
            _ if self.rank() != other.rank() => false,
            _ => match (self.entry_count(), other.entry_count()) {
                (Some(a), Some(b)) if a != b => false,
                _ => self.cmp(other).is_eq(),
            },
        }
    }
}

impl Eq for Value<'_> {}

impl PartialOrd for Value<'_> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Value<'_> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.0, other.0) {
            (Repr::String(a), Repr::String(b)) => a.cmp(b),
            (Repr::Int(a), Repr::Int(b)) => a.cmp(&b),
            _ => match self.rank().cmp(&other.rank()) {
                Ordering::Equal => same_rank(*self, *other),
                unequal => unequal,
            },
        }
    }
}

fn same_rank(a: Value<'_>, b: Value<'_>) -> Ordering {
    match (a.view(), b.view()) {
        (View::Bool(a), View::Bool(b)) => a.cmp(&b),
        (View::Number(a), View::Number(b)) => a.cmp(&b),
        (View::String(_), View::String(_)) => a.as_bytes().cmp(&b.as_bytes()),
        (View::Array(a), View::Array(b)) => a.cmp(&b),
        (View::Object(a), View::Object(b)) => a.cmp(&b),
        (View::Set(a), View::Set(b)) => a.cmp(&b),
        _ => Ordering::Equal,
    }
}

impl Ord for Array<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.0, other.0) {
            (ArrayRepr::Json(a), ArrayRepr::Json(b)) => compare_json(a, b),
            (ArrayRepr::Built(a), ArrayRepr::Built(b)) if std::ptr::eq(a, b) => Ordering::Equal,
            (ArrayRepr::Built(a), ArrayRepr::Built(b)) => a.cmp(b),
            _ => self.iter().cmp(other.iter()),
        }
    }
}

/// Documents have no sets and order their own types as Rego does.
fn compare_json(a: &[Json], b: &[Json]) -> Ordering {
    if std::ptr::eq(a, b) { Ordering::Equal } else { a.cmp(b) }
}

impl Ord for Object<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.0, other.0) {
            (ObjectRepr::Json(a), ObjectRepr::Json(b)) if a.ptr_eq(b) => Ordering::Equal,
            (ObjectRepr::Json(a), ObjectRepr::Json(b)) => a.cmp(b),
            (ObjectRepr::Built(a), ObjectRepr::Built(b)) if std::ptr::eq(a, b) => Ordering::Equal,
            (ObjectRepr::Built(a), ObjectRepr::Built(b)) => a.cmp(b),
            _ => self.iter().cmp(other.iter()),
        }
    }
}

impl Ord for Set<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        Array(self.0).cmp(&Array(other.0))
    }
}

macro_rules! equality_from_order {
    ($($type:ident),*) => {$(
        impl PartialEq for $type<'_> {
            fn eq(&self, other: &Self) -> bool {
                self.len() == other.len() && self.cmp(other).is_eq()
            }
        }

        impl Eq for $type<'_> {}

        impl PartialOrd for $type<'_> {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }
    )*};
}

equality_from_order!(Array, Object, Set);

/// How many levels of a value take part in its hash: documents may be deeper than calls may be
/// nested, and what is equal is equal in its outer levels.
const HASHED_LEVELS: usize = 64;

impl Hash for Value<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash_at(*self, 0, state);
    }
}

fn hash_at<H: Hasher>(value: Value<'_>, level: usize, state: &mut H) {
    state.write_u8(value.rank());
    let inner = level < HASHED_LEVELS;
    match value.view() {
        View::Null => {}
        View::Bool(value) => value.hash(state),
        View::Number(number) => number.hash(state),
        View::String(_) => value.as_bytes().hash(state),
        View::Array(array) => {
            state.write_usize(array.len());
            array.iter().filter(|_| inner).for_each(|item| hash_at(item, level + 1, state));
        }
        View::Object(object) => {
            state.write_usize(object.len());
            for (key, value) in object.iter().filter(|_| inner) {
                hash_at(key, level + 1, state);
                hash_at(value, level + 1, state);
            }
        }
        View::Set(set) => {
            state.write_usize(set.len());
            set.iter().filter(|_| inner).for_each(|item| hash_at(item, level + 1, state));
        }
    }
}
