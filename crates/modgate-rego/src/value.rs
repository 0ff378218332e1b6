//! The values a Rego evaluation computes with.
//!
//! A [`Value`] is three words, `Copy`, and owns nothing: it either borrows from a document (the
//! request, `data`, a program's constants) or from the [`Arena`] of the running evaluation. So a
//! request is read without being converted or cloned, registers are moved by `memcpy`, nothing is
//! reference-counted, threads never write to a shared counter, and everything built is given back
//! at once when the arena is reset.
//!
//! Match on [`Value::view`], look inside through [`Array`], [`Object`] and [`Set`], build through
//! [`Heap`], which charges the evaluation's budget. [`Ground`] is the owned form, for program
//! constants and for results that outlive their arena.
//!
//! # Order
//!
//! `Ord` is OPA's total order (`v1/ast/compare.go`): null < boolean < number < string < array <
//! object < set; numbers by mathematical value, text by bytes, containers element by element with
//! the shorter first. Objects iterate in key order and sets in element order.
//!
//! # Limits
//!
//! Comparing and printing recurse, and a value may hold the same part many times over, so built
//! containers carry their depth and the number of nodes a walk would meet; [`Heap`] refuses to
//! build beyond [`MAX_DEPTH`] levels or [`MAX_NODES`] nodes.

mod address;
mod compare;
mod ground;
mod heap;
mod identity;
mod text;
mod values;

use std::sync::Arc;

use modgate_value as json;
use modgate_value::{Spelling, Value as Json};

pub use ground::Ground;
pub(crate) use ground::json_number;
pub use heap::{Arena, Heap, Limit};
pub(crate) use identity::Identity;
pub use modgate_value::MAX_DEPTH;
pub(crate) use values::Values;

pub use crate::number::{ArithmeticError, Computed, Num};

/// How many nodes a walk over a built value may meet, shared parts counted each time.
///
/// Parts borrowed from a document count once however large they are.
pub const MAX_NODES: u32 = 1 << 26;

/// A Rego value that borrows for `'a`, the time of one evaluation.
#[derive(Clone, Copy)]
pub struct Value<'a>(Repr<'a>);

#[derive(Clone, Copy)]
enum Repr<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Literal(&'a str),
    String(&'a str),
    /// Not UTF-8.
    Bytes(&'a Bytes<'a>),
    JsonArray(&'a [Json]),
    JsonObject(&'a json::Object),
    /// Sorted and distinct.
    JsonSet(&'a [Json]),
    Tree(&'a dyn Tree),
    Array {
        depth: u16,
        nodes: u32,
        items: &'a [Value<'a>],
    },
    Object {
        depth: u16,
        nodes: u32,
        entries: &'a [(Value<'a>, Value<'a>)],
    },
    Set {
        depth: u16,
        nodes: u32,
        items: &'a [Value<'a>],
    },
}

/// A string that is not UTF-8, as Go's strings may be.
struct Bytes<'a> {
    bytes: &'a [u8],
    /// The text as Go's characters: U+FFFD for each byte that is not part of one.
    text: &'a str,
}

/// A part of `data` that its host looks up when asked, such as the inventory: an object with text
/// keys whose leaves are documents.
///
/// Entries are numbered from zero in the byte order of their keys.
pub trait Tree: Sync {
    /// How many entries there are.
    fn len(&self) -> usize;

    /// Whether there are no entries.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entry `key`.
    fn get(&self, key: &str) -> Option<Node<'_>>;

    /// The entry at `index` in key order.
    fn entry(&self, index: usize) -> Option<(&str, Node<'_>)>;
}

/// The entry of a [`Tree`] under a key.
#[derive(Clone, Copy)]
pub enum Node<'a> {
    /// A document.
    Json(&'a Json),
    /// Another level of lookups.
    Tree(&'a dyn Tree),
}

/// A [`Value`] opened for matching.
#[derive(Clone, Copy)]
pub enum View<'a> {
    /// `null`
    Null,
    /// `true` and `false`
    Bool(bool),
    /// Any number.
    Number(Num<'a>),
    /// Text; in a string that is not UTF-8 each wrong byte is U+FFFD, see [`Value::as_bytes`].
    String(&'a str),
    /// A list.
    Array(Array<'a>),
    /// A map with keys of any type.
    Object(Object<'a>),
    /// A set.
    Set(Set<'a>),
}

impl<'a> Value<'a> {
    /// `null`
    pub(crate) const NULL: Self = Self(Repr::Null);
    /// `true`
    pub const TRUE: Self = Self(Repr::Bool(true));
    /// `false`
    pub const FALSE: Self = Self(Repr::Bool(false));
    /// `[]`
    pub(crate) const EMPTY_ARRAY: Self = Self(Repr::Array { depth: 1, nodes: 1, items: &[] });
    /// `{}`
    pub(crate) const EMPTY_OBJECT: Self = Self(Repr::Object { depth: 1, nodes: 1, entries: &[] });
    /// `set()`
    pub const EMPTY_SET: Self = Self(Repr::Set { depth: 1, nodes: 1, items: &[] });

    /// A document, or a part of one, borrowed as it is.
    #[inline]
    pub fn json(value: &'a Json) -> Self {
        Self(match value {
            Json::Null => Repr::Null,
            Json::Bool(value) => Repr::Bool(*value),
            Json::Number(number) => match number.spelling() {
                Spelling::Int(int) => Repr::Int(int),
                Spelling::Float(float) => Repr::Float(float),
                Spelling::Literal(text) => Repr::Literal(text),
            },
            Json::String(text) => Repr::String(text.as_str()),
            Json::Array(items) => Repr::JsonArray(items),
            Json::Object(object) => Repr::JsonObject(object),
        })
    }

    /// The set of these documents, which must be as [`sorted_set`] makes them.
    #[inline]
    pub(crate) fn json_set(items: &'a [Json]) -> Self {
        Self(Repr::JsonSet(items))
    }

    /// A part of `data` that the host looks up when asked.
    pub fn tree(tree: &'a dyn Tree) -> Self {
        Self(Repr::Tree(tree))
    }

    /// Text borrowed from something that outlives the evaluation.
    #[inline]
    pub fn str(text: &'a str) -> Self {
        Self(Repr::String(text))
    }

    /// A boolean.
    #[inline]
    pub fn bool(value: bool) -> Self {
        Self(Repr::Bool(value))
    }

    /// An integer.
    #[inline]
    pub fn int(value: i64) -> Self {
        Self(Repr::Int(value))
    }

    /// A length or position.
    pub fn len(value: usize) -> Self {
        Self(Repr::Int(i64::try_from(value).unwrap_or(i64::MAX)))
    }

    /// A number whose text is already borrowed.
    #[inline]
    pub fn number(value: Num<'a>) -> Self {
        Self(match value {
            Num::Int(int) => Repr::Int(int),
            Num::Float(float) => Repr::Float(float),
            Num::Literal(text) => Repr::Literal(text),
        })
    }

    /// The value opened for matching.
    #[inline]
    pub fn view(self) -> View<'a> {
        match self.0 {
            Repr::Null => View::Null,
            Repr::Bool(value) => View::Bool(value),
            Repr::Int(int) => View::Number(Num::Int(int)),
            Repr::Float(float) => View::Number(Num::Float(float)),
            Repr::Literal(text) => View::Number(Num::Literal(text)),
            Repr::String(text) => View::String(text),
            Repr::Bytes(bytes) => View::String(bytes.text),
            Repr::JsonArray(items) => View::Array(Array(ArrayRepr::Json(items))),
            Repr::Array { items, .. } => View::Array(Array(ArrayRepr::Built(items))),
            Repr::JsonObject(object) => View::Object(Object(ObjectRepr::Json(object))),
            Repr::Tree(tree) => View::Object(Object(ObjectRepr::Tree(tree))),
            Repr::Object { entries, .. } => View::Object(Object(ObjectRepr::Built(entries))),
            Repr::Set { items, .. } => View::Set(Set(ArrayRepr::Built(items))),
            Repr::JsonSet(items) => View::Set(Set(ArrayRepr::Json(items))),
        }
    }

    /// Rego's type name: `null`, `boolean`, `number`, `string`, `array`, `object` or `set`.
    pub fn type_name(self) -> &'static str {
        match self.view() {
            View::Null => "null",
            View::Bool(_) => "boolean",
            View::Number(_) => "number",
            View::String(_) => "string",
            View::Array(_) => "array",
            View::Object(_) => "object",
            View::Set(_) => "set",
        }
    }

    /// Whether this is `false`, the one defined value that fails an expression.
    #[inline]
    pub(crate) fn is_false(self) -> bool {
        matches!(self.0, Repr::Bool(false))
    }

    /// Whether this is an array, object or set.
    #[inline]
    pub(crate) fn is_composite(self) -> bool {
        !matches!(
            self.0,
            Repr::Null
                | Repr::Bool(_)
                | Repr::Int(_)
                | Repr::Float(_)
                | Repr::Literal(_)
                | Repr::String(_)
                | Repr::Bytes(_)
        )
    }

    /// The boolean, if it is one.
    #[inline]
    pub fn as_bool(self) -> Option<bool> {
        match self.0 {
            Repr::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// The text, if it is a string; in one that is not UTF-8 each wrong byte is U+FFFD.
    #[inline]
    pub fn as_str(self) -> Option<&'a str> {
        match self.0 {
            Repr::String(text) => Some(text),
            Repr::Bytes(bytes) => Some(bytes.text),
            _ => None,
        }
    }

    /// The text, if it is a string and UTF-8, as all but decoded bytes are.
    #[inline]
    pub(crate) fn as_utf8(self) -> Option<&'a str> {
        match self.0 {
            Repr::String(text) => Some(text),
            _ => None,
        }
    }

    /// Whether a string in it is not UTF-8.
    pub(crate) fn has_bytes(self) -> bool {
        match self.0 {
            Repr::Bytes(_) => true,
            Repr::Array { items, .. } | Repr::Set { items, .. } => {
                items.iter().any(|item| item.has_bytes())
            }
            Repr::Object { entries, .. } => {
                entries.iter().any(|(key, value)| key.has_bytes() || value.has_bytes())
            }
            // Documents are UTF-8.
            _ => false,
        }
    }

    /// The bytes, if it is a string. They are UTF-8 unless a policy decoded others.
    #[inline]
    pub fn as_bytes(self) -> Option<&'a [u8]> {
        match self.0 {
            Repr::String(text) => Some(text.as_bytes()),
            Repr::Bytes(bytes) => Some(bytes.bytes),
            _ => None,
        }
    }

    /// The number, if it is one.
    #[inline]
    pub fn as_number(self) -> Option<Num<'a>> {
        match self.view() {
            View::Number(number) => Some(number),
            _ => None,
        }
    }

    /// The list, if it is one.
    #[inline]
    pub fn as_array(self) -> Option<Array<'a>> {
        match self.view() {
            View::Array(array) => Some(array),
            _ => None,
        }
    }

    /// The map, if it is one.
    #[inline]
    pub fn as_object(self) -> Option<Object<'a>> {
        match self.view() {
            View::Object(object) => Some(object),
            _ => None,
        }
    }

    /// The set, if it is one.
    #[inline]
    pub fn as_set(self) -> Option<Set<'a>> {
        match self.view() {
            View::Set(set) => Some(set),
            _ => None,
        }
    }

    /// The value of a reference to `key` inside this value: the element at an index, the member of
    /// an object, the element of a set itself; `None` when undefined.
    #[inline]
    pub fn get(self, key: Value<'a>) -> Option<Value<'a>> {
        if let (Repr::JsonObject(object), Repr::String(name)) = (self.0, key.0) {
            return object.get(name).map(Value::json);
        }
        match self.view() {
            View::Array(array) => array.get(usize::try_from(key.as_number()?.as_int()?).ok()?),
            View::Object(object) => object.get(key),
            View::Set(set) => set.find(key),
            _ => None,
        }
    }

    /// As [`get`](Self::get) with a text key.
    #[inline]
    pub fn get_str(self, key: &str) -> Option<Value<'a>> {
        match self.0 {
            Repr::JsonObject(object) => object.get(key).map(Value::json),
            Repr::Object { .. } | Repr::Tree(_) => self.as_object()?.get_str(key),
            Repr::Set { .. } | Repr::JsonSet(_) => self.as_set()?.find(Value::str(key)),
            _ => None,
        }
    }

    /// The object, if it is one of a document.
    #[inline]
    pub(crate) fn as_json_object(self) -> Option<&'a json::Object> {
        match self.0 {
            Repr::JsonObject(object) => Some(object),
            _ => None,
        }
    }

    /// As [`get_str`](Self::get_str) with a key that stands in a program.
    #[inline]
    pub(crate) fn get_name(self, key: &'a json::Str) -> Option<Value<'a>> {
        match self.0 {
            Repr::JsonObject(object) => object.get_name(key).map(Value::json),
            _ => self.get_str(key),
        }
    }

    /// How many entries a composite value has.
    pub fn entry_count(self) -> Option<usize> {
        match self.view() {
            View::Array(array) => Some(array.len()),
            View::Object(object) => Some(object.len()),
            View::Set(set) => Some(set.len()),
            _ => None,
        }
    }

    /// The entry at `index`, counted in iteration order, as the key a reference binds and the
    /// value it yields: index and element, key and member, element and itself.
    #[inline]
    pub fn entry(self, index: usize) -> Option<(Value<'a>, Value<'a>)> {
        match self.view() {
            View::Array(array) => Some((Value::len(index), array.get(index)?)),
            View::Object(object) => object.entry(index),
            View::Set(set) => set.get(index).map(|element| (element, element)),
            _ => None,
        }
    }

    /// The value at `index`, counted in iteration order.
    #[inline]
    pub(crate) fn element(self, index: usize) -> Option<Value<'a>> {
        match self.0 {
            Repr::JsonArray(items) | Repr::JsonSet(items) => items.get(index).map(Value::json),
            Repr::Array { items, .. } | Repr::Set { items, .. } => items.get(index).copied(),
            Repr::JsonObject(object) => {
                object.as_slice().get(index).map(|(_, value)| Value::json(value))
            }
            Repr::Object { entries, .. } => entries.get(index).map(|(_, value)| *value),
            _ => self.entry(index).map(|(_, value)| value),
        }
    }

    /// Steps to charge for walking the whole value, as a comparison or a print does. What is
    /// borrowed from a document counts its first level only, so this is a lower bound.
    #[inline]
    pub fn cost(self) -> u64 {
        match self.0 {
            Repr::Array { nodes, .. } | Repr::Object { nodes, .. } | Repr::Set { nodes, .. } => {
                u64::from(nodes)
            }
            Repr::JsonArray(items) | Repr::JsonSet(items) => items.len() as u64,
            Repr::JsonObject(object) => object.len() as u64,
            Repr::Tree(tree) => tree.len() as u64,
            _ => 1,
        }
    }

    /// Levels of containers built in the arena.
    #[inline]
    fn depth(self) -> u16 {
        match self.0 {
            Repr::Array { depth, .. } | Repr::Object { depth, .. } | Repr::Set { depth, .. } => {
                depth
            }
            _ => 0,
        }
    }

    #[inline]
    fn nodes(self) -> u32 {
        match self.0 {
            Repr::Array { nodes, .. } | Repr::Object { nodes, .. } | Repr::Set { nodes, .. } => {
                nodes
            }
            _ => 1,
        }
    }
}

impl Default for Value<'_> {
    fn default() -> Self {
        Self::NULL
    }
}

impl<'a> From<Node<'a>> for Value<'a> {
    fn from(node: Node<'a>) -> Self {
        match node {
            Node::Json(value) => Self::json(value),
            Node::Tree(tree) => Self::tree(tree),
        }
    }
}

/// A list, borrowed from a document or built.
#[derive(Clone, Copy)]
pub struct Array<'a>(ArrayRepr<'a>);

#[derive(Clone, Copy)]
enum ArrayRepr<'a> {
    Json(&'a [Json]),
    Built(&'a [Value<'a>]),
}

impl<'a> Array<'a> {
    /// How many elements there are.
    #[inline]
    pub fn len(self) -> usize {
        match self.0 {
            ArrayRepr::Json(items) => items.len(),
            ArrayRepr::Built(items) => items.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The element at `index`.
    #[inline]
    pub fn get(self, index: usize) -> Option<Value<'a>> {
        match self.0 {
            ArrayRepr::Json(items) => items.get(index).map(Value::json),
            ArrayRepr::Built(items) => items.get(index).copied(),
        }
    }

    /// The elements in order.
    #[inline]
    pub fn iter(self) -> Items<'a> {
        match self.0 {
            ArrayRepr::Json(items) => Items::Json(items.iter()),
            ArrayRepr::Built(items) => Items::Built(items.iter()),
        }
    }
}

impl<'a> IntoIterator for Array<'a> {
    type Item = Value<'a>;
    type IntoIter = Items<'a>;

    fn into_iter(self) -> Items<'a> {
        self.iter()
    }
}

/// The elements of an [`Array`] or [`Set`].
#[derive(Clone)]
pub enum Items<'a> {
    /// Of a document.
    Json(std::slice::Iter<'a, Json>),
    /// Of a built value.
    Built(std::slice::Iter<'a, Value<'a>>),
}

impl<'a> Iterator for Items<'a> {
    type Item = Value<'a>;

    #[inline]
    fn next(&mut self) -> Option<Value<'a>> {
        match self {
            Self::Json(items) => items.next().map(Value::json),
            Self::Built(items) => items.next().copied(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Self::Json(items) => items.size_hint(),
            Self::Built(items) => items.size_hint(),
        }
    }
}

impl ExactSizeIterator for Items<'_> {}

/// A map with keys of any type: borrowed from a document, looked up in the host, or built.
#[derive(Clone, Copy)]
pub struct Object<'a>(ObjectRepr<'a>);

#[derive(Clone, Copy)]
enum ObjectRepr<'a> {
    Json(&'a json::Object),
    Tree(&'a dyn Tree),
    Built(&'a [(Value<'a>, Value<'a>)]),
}

/// Up to this many entries a scan for equality beats bisection.
const SCAN_LIMIT: usize = 8;

impl<'a> Object<'a> {
    /// How many members there are.
    #[inline]
    pub fn len(self) -> usize {
        match self.0 {
            ObjectRepr::Json(object) => object.len(),
            ObjectRepr::Tree(tree) => tree.len(),
            ObjectRepr::Built(entries) => entries.len(),
        }
    }

    /// Whether there are no members.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The member `key`.
    #[inline]
    pub fn get(self, key: Value<'a>) -> Option<Value<'a>> {
        match (self.0, key.as_utf8()) {
            (_, Some(text)) => self.get_str(text),
            (ObjectRepr::Built(entries), None) => {
                let index = entries.binary_search_by(|(name, _)| name.cmp(&key)).ok()?;
                entries.get(index).map(|(_, value)| *value)
            }
            (ObjectRepr::Json(_) | ObjectRepr::Tree(_), None) => None,
        }
    }

    /// The member with the text key `key`.
    #[inline]
    pub fn get_str(self, key: &str) -> Option<Value<'a>> {
        match self.0 {
            ObjectRepr::Json(object) => object.get(key).map(Value::json),
            ObjectRepr::Tree(tree) => tree.get(key).map(Value::from),
            ObjectRepr::Built(entries) if entries.len() <= SCAN_LIMIT => entries
                .iter()
                .find(|(name, _)| name.as_utf8() == Some(key))
                .map(|(_, value)| *value),
            ObjectRepr::Built(entries) => {
                let index =
                    entries.binary_search_by(|(name, _)| name.cmp(&Value::str(key))).ok()?;
                entries.get(index).map(|(_, value)| *value)
            }
        }
    }

    /// The member at `index` in key order.
    #[inline]
    pub fn entry(self, index: usize) -> Option<(Value<'a>, Value<'a>)> {
        match self.0 {
            ObjectRepr::Json(object) => object
                .as_slice()
                .get(index)
                .map(|(key, value)| (Value::str(key.as_str()), Value::json(value))),
            ObjectRepr::Tree(tree) => {
                tree.entry(index).map(|(key, node)| (Value::str(key), node.into()))
            }
            ObjectRepr::Built(entries) => entries.get(index).copied(),
        }
    }

    /// The members in key order.
    #[inline]
    pub fn iter(self) -> Entries<'a> {
        Entries { object: self, next: 0 }
    }

    /// The keys in order.
    pub fn keys(self) -> impl Iterator<Item = Value<'a>> {
        self.iter().map(|(key, _)| key)
    }
}

impl<'a> IntoIterator for Object<'a> {
    type Item = (Value<'a>, Value<'a>);
    type IntoIter = Entries<'a>;

    fn into_iter(self) -> Entries<'a> {
        self.iter()
    }
}

/// The members of an [`Object`] in key order.
#[derive(Clone)]
pub struct Entries<'a> {
    object: Object<'a>,
    next: usize,
}

impl<'a> Iterator for Entries<'a> {
    type Item = (Value<'a>, Value<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.object.entry(self.next)?;
        self.next += 1;
        Some(entry)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.object.len().saturating_sub(self.next);
        (left, Some(left))
    }
}

impl ExactSizeIterator for Entries<'_> {}

/// A set: elements sorted and distinct.
#[derive(Clone, Copy)]
pub struct Set<'a>(ArrayRepr<'a>);

impl<'a> Set<'a> {
    /// How many elements there are.
    #[inline]
    pub fn len(self) -> usize {
        Array(self.0).len()
    }

    /// Whether there are no elements.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The element equal to `value`, as the set holds it.
    #[inline]
    pub fn find(self, value: Value<'_>) -> Option<Value<'a>> {
        if self.len() <= SCAN_LIMIT {
            return self.iter().find(|element| *element == value);
        }
        let index = match self.0 {
            ArrayRepr::Built(items) => items.binary_search_by(|element| element.cmp(&value)),
            ArrayRepr::Json(items) => {
                items.binary_search_by(|element| Value::json(element).cmp(&value))
            }
        };
        self.get(index.ok()?)
    }

    /// Whether an element equals `value`.
    #[inline]
    pub fn contains(self, value: Value<'a>) -> bool {
        self.find(value).is_some()
    }

    /// The element at `index` in order.
    #[inline]
    pub fn get(self, index: usize) -> Option<Value<'a>> {
        Array(self.0).get(index)
    }

    /// The elements in order.
    #[inline]
    pub fn iter(self) -> Items<'a> {
        Array(self.0).iter()
    }
}

impl<'a> IntoIterator for Set<'a> {
    type Item = Value<'a>;
    type IntoIter = Items<'a>;

    fn into_iter(self) -> Items<'a> {
        self.iter()
    }
}

/// Documents as a [`Value::json_set`] holds them: in Rego's order, the first of equal ones.
pub fn sorted_set(mut items: Vec<Json>) -> Arc<[Json]> {
    items.sort_by(|a, b| Value::json(a).cmp(&Value::json(b)));
    items.dedup_by(|later, kept| Value::json(later) == Value::json(kept));
    items.into()
}

#[cfg(test)]
mod tests;
