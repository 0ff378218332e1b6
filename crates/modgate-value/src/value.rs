//! The value itself.

pub(crate) mod hint;
pub(crate) mod walk;

use std::{
    borrow::Borrow,
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    ops::Deref,
    sync::Arc,
};

use crate::{Number, Str, pointer};

/// An immutable JSON value.
///
/// Cloning costs at most one reference count; text of up to 23 bytes, which is most keys and many
/// strings of a Kubernetes object, is stored in place and costs none. Hot paths borrow `&Value`
/// rather than clone, so that threads sharing a document never write to the same counter.
///
/// Equality, order and hash are by value: numbers compare mathematically and values of different
/// types in the order of the variants below, which is also Rego's.
///
/// A value may nest as deeply as memory allows: nothing here recurses without a bound, dropping
/// included. Whatever recurses over values elsewhere asks [`Value::check_depth`] first.
#[derive(Clone, Default)]
pub enum Value {
    /// `null`
    #[default]
    Null,
    /// `true` and `false`
    Bool(bool),
    /// Any JSON number.
    Number(Number),
    /// Text, always valid UTF-8.
    String(Str),
    /// A list.
    Array(Array),
    /// A map from text to values.
    Object(Object),
}

impl Value {
    /// The JSON type name: `null`, `boolean`, `number`, `string`, `array` or `object`.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Number(_) => "number",
            Self::String(_) => "string",
            Self::Array(_) => "array",
            Self::Object(_) => "object",
        }
    }

    /// Whether this is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// The boolean, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The number, if it is one.
    pub fn as_number(&self) -> Option<&Number> {
        match self {
            Self::Number(value) => Some(value),
            _ => None,
        }
    }

    /// The exact integer, if it is a number that is one and fits.
    pub fn as_i64(&self) -> Option<i64> {
        self.as_number().and_then(Number::as_i64)
    }

    /// The text, if it is a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(value) => Some(value),
            _ => None,
        }
    }

    /// The list, if it is one.
    pub fn as_array(&self) -> Option<&Array> {
        match self {
            Self::Array(value) => Some(value),
            _ => None,
        }
    }

    /// The map, if it is one.
    pub fn as_object(&self) -> Option<&Object> {
        match self {
            Self::Object(value) => Some(value),
            _ => None,
        }
    }

    /// The member `key` of an object; `None` for other types and missing members.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.as_object()?.get(key)
    }

    /// The element `index` of an array; `None` for other types and out of range.
    pub fn at(&self, index: usize) -> Option<&Self> {
        self.as_array()?.get(index)
    }

    /// The member reached through `keys`, each applied to an object.
    pub fn path(&self, keys: &[&str]) -> Option<&Self> {
        keys.iter().try_fold(self, |value, key| value.get(key))
    }

    /// The value at an RFC 6901 pointer; the empty pointer is the value itself.
    pub fn pointer(&self, pointer: &str) -> Option<&Self> {
        let Some(segments) = pointer.strip_prefix('/') else {
            return pointer.is_empty().then_some(self);
        };
        segments.split('/').try_fold(self, |value, segment| match value {
            Self::Object(object) => object.get(&pointer::unescape(segment)),
            Self::Array(array) if segment == "0" || !segment.starts_with(['0', '+']) => {
                array.get(segment.parse::<usize>().ok()?)
            }
            _ => None,
        })
    }
}

/// An immutable list of values; dereferences to a slice.
///
/// An empty list is `None`, which also is what dropping leaves behind.
#[derive(Clone)]
pub struct Array(Option<Arc<[Value]>>);

impl Deref for Array {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl Array {
    /// The elements for changing in place; copies them first if the list is shared.
    pub fn make_mut(&mut self) -> &mut [Value] {
        self.0.as_mut().map(Arc::make_mut).unwrap_or_default()
    }

    /// Whether both are the same allocation, hence equal without looking.
    pub fn ptr_eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(elements), Some(others)) => Arc::ptr_eq(elements, others),
            (elements, others) => elements.is_none() && others.is_none(),
        }
    }
}

impl PartialEq for Array {
    fn eq(&self, other: &Self) -> bool {
        self.ptr_eq(other) || **self == **other
    }
}

impl Eq for Array {}

impl PartialOrd for Array {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Array {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(other)
    }
}

impl Hash for Array {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl FromIterator<Value> for Array {
    fn from_iter<I: IntoIterator<Item = Value>>(iter: I) -> Self {
        let elements: Arc<[Value]> = iter.into_iter().collect();
        Self((!elements.is_empty()).then_some(elements))
    }
}

impl From<Vec<Value>> for Array {
    fn from(values: Vec<Value>) -> Self {
        Self((!values.is_empty()).then(|| values.into()))
    }
}

impl<'a> IntoIterator for &'a Array {
    type Item = &'a Value;
    type IntoIter = std::slice::Iter<'a, Value>;

    fn into_iter(self) -> Self::IntoIter {
        (**self).iter()
    }
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// An immutable map from text to values, sorted by the bytes of its keys.
///
/// An empty map is `None`, which also is what dropping leaves behind.
#[derive(Clone, Default)]
pub struct Object(Option<Arc<[(Str, Value)]>>);

/// Up to this many members a scan that compares lengths first beats bisection.
const SCAN_LIMIT: usize = 12;

impl Object {
    /// The members of `entries`; where a key appears more than once the last one counts.
    pub fn from_entries(mut entries: Vec<(Str, Value)>) -> Self {
        sort_last_wins(&mut entries);
        Self((!entries.is_empty()).then(|| entries.into()))
    }

    /// Members that are already sorted by key and distinct; it is the caller who knows.
    pub fn from_sorted(entries: impl Iterator<Item = (Str, Value)>) -> Self {
        let entries: Arc<[(Str, Value)]> = entries.collect();
        Self((!entries.is_empty()).then_some(entries))
    }

    /// The member `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.find(key).and_then(|index| self.as_slice().get(index)).map(|(_, value)| value)
    }

    /// As [`get`](Self::get) with a key that is kept: short ones are compared without reading their text.
    #[inline]
    pub fn get_name(&self, key: &Str) -> Option<&Value> {
        let members = self.as_slice();
        if members.len() > SCAN_LIMIT {
            return self.get(key);
        }
        members.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// As [`get_name`](Self::get_name), and its place, which is looked at first where it is `near`: objects of one
    /// kind have a member at the same place, mostly ([`Hint`](crate::Hint)).
    #[inline]
    pub fn get_name_near(&self, key: &Str, near: usize) -> Option<(usize, &Value)> {
        let members = self.as_slice();
        if let Some((name, value)) = members.get(near)
            && name == key
        {
            return Some((near, value));
        }
        self.get_name_far(key)
    }

    fn get_name_far(&self, key: &Str) -> Option<(usize, &Value)> {
        let members = self.as_slice();
        let at = if members.len() > SCAN_LIMIT {
            self.find(key)?
        } else {
            members.iter().position(|(name, _)| name == key)?
        };
        members.get(at).map(|(_, value)| (at, value))
    }

    /// Whether there is a member `key`.
    pub fn contains_key(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    fn find(&self, key: &str) -> Option<usize> {
        let members = self.as_slice();
        if members.len() <= SCAN_LIMIT {
            members.iter().position(|(name, _)| name.as_str() == key)
        } else {
            members.binary_search_by(|(name, _)| name.as_str().cmp(key)).ok()
        }
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }

    /// The members, sorted by key.
    pub fn iter(&self) -> std::slice::Iter<'_, (Str, Value)> {
        self.as_slice().iter()
    }

    /// The members as a sorted slice.
    pub fn as_slice(&self) -> &[(Str, Value)] {
        self.0.as_deref().unwrap_or_default()
    }

    /// The keys, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &Str> {
        self.iter().map(|(key, _)| key)
    }

    /// The values, in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &Value> {
        self.iter().map(|(_, value)| value)
    }

    /// The member `key` for changing in place; copies the members first if the map is shared.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        let index = self.find(key)?;
        let members = self.0.as_mut().map(Arc::make_mut)?;
        members.get_mut(index).map(|(_, value)| value)
    }

    /// Sets the member `key`; returns the value it had.
    pub fn insert(&mut self, key: impl Into<Str>, value: Value) -> Option<Value> {
        let key = key.into();
        if let Some(slot) = self.get_mut(&key) {
            return Some(std::mem::replace(slot, value));
        }
        let at = self.as_slice().partition_point(|(name, _)| *name < key);
        let (before, after) = self.as_slice().split_at(at);
        let added = std::iter::once((key, value));
        let grown = before.iter().cloned().chain(added).chain(after.iter().cloned());
        *self = Self::from_sorted(grown);
        None
    }

    /// Removes the member `key`; returns the value it had.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let index = self.find(key)?;
        let removed = self.as_slice().get(index).map(|(_, value)| value.clone());
        let rest = self.iter().enumerate().filter(|(at, _)| *at != index);
        *self = Self::from_sorted(rest.map(|(_, entry)| entry.clone()));
        removed
    }

    /// Whether both are the same allocation, hence equal without looking.
    pub fn ptr_eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(members), Some(others)) => Arc::ptr_eq(members, others),
            (members, others) => members.is_none() && others.is_none(),
        }
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.ptr_eq(other) || self.as_slice() == other.as_slice()
    }
}

impl Eq for Object {}

impl PartialOrd for Object {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Object {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_slice().cmp(other.as_slice())
    }
}

impl Hash for Object {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_slice().hash(state);
    }
}

/// Sorts by key and keeps the last of equal keys; cheap when already sorted.
pub(crate) fn sort_last_wins(entries: &mut Vec<(Str, Value)>) {
    if entries.is_sorted_by(|(a, _), (b, _)| a < b) {
        return;
    }
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    // `dedup_by` drops its first argument, the later element; the swap lets the later one win.
    entries.dedup_by(|later, kept| {
        let same = later.0 == kept.0;
        if same {
            std::mem::swap(later, kept);
        }
        same
    });
}

impl<K: Into<Str>> FromIterator<(K, Value)> for Object {
    fn from_iter<I: IntoIterator<Item = (K, Value)>>(iter: I) -> Self {
        Self::from_entries(iter.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }
}

impl<'a> IntoIterator for &'a Object {
    type Item = &'a (Str, Value);
    type IntoIter = std::slice::Iter<'a, (Str, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(key, value)| (key, value))).finish()
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Number(value.into())
    }
}

impl From<Number> for Value {
    fn from(value: Number) -> Self {
        Self::Number(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::String(value.into())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::String(value.into())
    }
}

impl From<Str> for Value {
    fn from(value: Str) -> Self {
        Self::String(value)
    }
}

impl From<Array> for Value {
    fn from(value: Array) -> Self {
        Self::Array(value)
    }
}

impl From<Object> for Value {
    fn from(value: Object) -> Self {
        Self::Object(value)
    }
}

impl From<Vec<Value>> for Value {
    fn from(values: Vec<Value>) -> Self {
        Self::Array(values.into())
    }
}

impl FromIterator<Value> for Value {
    fn from_iter<I: IntoIterator<Item = Value>>(iter: I) -> Self {
        Self::Array(iter.into_iter().collect())
    }
}

impl<K: Into<Str>> FromIterator<(K, Value)> for Value {
    fn from_iter<I: IntoIterator<Item = (K, Value)>>(iter: I) -> Self {
        Self::Object(iter.into_iter().collect())
    }
}

impl Borrow<[Value]> for Array {
    fn borrow(&self) -> &[Value] {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Value {
        Value::from_json(text.as_bytes()).expect(text)
    }

    #[test]
    fn a_value_is_three_words() {
        assert_eq!(size_of::<Value>(), 24);
    }

    #[test]
    fn pointers() {
        let doc = json(r#"{"a": [1, {"b/c": 2, "~": 3, "": 4}]}"#);
        for (pointer, expected) in [
            ("/a/0", Some("1")),
            ("/a/1/b~1c", Some("2")),
            ("/a/1/~0", Some("3")),
            ("/a/1/", Some("4")),
            ("/a/01", None),
            ("/a/+1", None),
            ("/a/2", None),
            ("/b", None),
            ("a", None),
        ] {
            assert_eq!(doc.pointer(pointer).map(Value::to_json).as_deref(), expected, "{pointer}");
        }
        assert_eq!(doc.pointer(""), Some(&doc));
    }

    #[test]
    fn order_across_types() {
        let ascending = json(r#"[null, false, true, 1, 2, "a", "b", [], [1], {}, {"a": 1}]"#);
        for pair in ascending.as_array().expect("array").windows(2) {
            assert!(pair[0] < pair[1], "{pair:?}");
        }
    }

    #[test]
    fn insert_and_remove_leave_other_holders_alone() {
        let original: Object = [("b", Value::from(1)), ("d", Value::from(2))].into_iter().collect();
        let mut changed = original.clone();
        assert_eq!(changed.insert("a", Value::Null), None);
        assert_eq!(changed.insert("c", Value::Null), None);
        assert_eq!(changed.insert("b", Value::from(3)), Some(Value::from(1)));
        assert_eq!(changed.remove("d"), Some(Value::from(2)));
        assert_eq!(Value::from(changed).to_json(), r#"{"a":null,"b":3,"c":null}"#);
        assert_eq!(Value::from(original).to_json(), r#"{"b":1,"d":2}"#);
    }

    #[test]
    fn lookups_in_wide_objects() {
        let wide: Object = (0..100).map(|n| (format!("key-{n}"), Value::from(n))).collect();
        for n in 0..100 {
            let key = format!("key-{n}");
            assert_eq!(wide.get(&key), Some(&Value::from(n)));
            for near in [0, 50, 99, 100] {
                let name = Str::from(key.as_str());
                let (at, value) = wide.get_name_near(&name, near).expect("a member");
                assert_eq!(
                    (value, wide.get_name_near(&name, at)),
                    (&Value::from(n), Some((at, value)))
                );
            }
        }
        assert_eq!((wide.get("key-100"), wide.get_name_near(&"key-100".into(), 0)), (None, None));
    }

    #[test]
    fn hints_are_guesses() {
        let object = |keys: &[&str]| -> Object {
            keys.iter().map(|key| ((*key).to_owned(), Value::from(*key))).collect()
        };
        let (name, hint) = (Str::from("name"), hint::Hint::default());
        assert_eq!((hint.member(&object(&["a"]), &name), hint.place()), (None, 255));
        for keys in [&["a", "b", "name"][..], &["name"], &["a", "name", "z"], &[]] {
            let object = object(keys);
            assert_eq!(hint.member(&object, &name), object.get("name"), "{keys:?}");
            assert_eq!(hint.place(), 2);
        }
    }

    #[test]
    fn the_last_of_equal_keys_wins() {
        assert_eq!(json(r#"{"b": 1, "a": 2, "b": 3, "b": 4}"#).to_json(), r#"{"a":2,"b":4}"#);
    }
}
