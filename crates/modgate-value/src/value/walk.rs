//! Going through values of any depth without recursion.
//!
//! A document of an API server may nest [`MAX_JSON_DEPTH`](crate::MAX_JSON_DEPTH) levels, and a
//! thread's stack does not hold so many calls. Everything here keeps its place in a list instead.

use std::{
    cell::Cell,
    cmp::Ordering,
    hash::{Hash, Hasher},
    slice,
    sync::Arc,
};

use super::{Array, Object, Value};
use crate::Str;

/// The children of a container that are still to be visited.
pub(crate) enum Rest<'a> {
    Elements(slice::Iter<'a, Value>),
    Members(slice::Iter<'a, (Str, Value)>),
}

impl<'a> Rest<'a> {
    /// The parts of a list or map; `None` for all others.
    pub(crate) fn of(value: &'a Value) -> Option<Self> {
        match value {
            Value::Array(elements) => Some(Self::Elements(elements.iter())),
            Value::Object(members) => Some(Self::Members(members.iter())),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        }
    }
}

impl<'a> Iterator for Rest<'a> {
    type Item = (Option<&'a Str>, &'a Value);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Elements(elements) => elements.next().map(|element| (None, element)),
            Self::Members(members) => members.next().map(|(key, member)| (Some(key), member)),
        }
    }
}

/// One value of a [`Walk`].
#[derive(Debug, Clone, Copy)]
pub struct Visit<'a> {
    /// How many containers it stands in: 0 at the root.
    pub depth: usize,
    /// Its key, if it is a member of an object.
    pub key: Option<&'a Str>,
    /// The value itself.
    pub value: &'a Value,
}

/// All values of a document, each container before its parts; see [`Value::walk`].
pub struct Walk<'a> {
    root: Option<&'a Value>,
    open: Vec<Rest<'a>>,
}

impl<'a> Iterator for Walk<'a> {
    type Item = Visit<'a>;

    fn next(&mut self) -> Option<Visit<'a>> {
        let (key, value, depth) = match self.root.take() {
            Some(root) => (None, root, 0),
            None => loop {
                let depth = self.open.len();
                match self.open.last_mut()?.next() {
                    Some((key, value)) => break (key, value, depth),
                    None => self.open.pop(),
                };
            },
        };
        self.open.extend(Rest::of(value));
        Some(Visit { depth, key, value })
    }
}

/// A value nests deeper than its reader can follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("value nests deeper than {limit} levels")]
pub struct TooDeep {
    /// How many levels the reader follows.
    pub limit: usize,
}

impl Value {
    /// The value and everything inside of it, each container before its parts. Does not recurse.
    pub fn walk(&self) -> Walk<'_> {
        Walk { root: Some(self), open: Vec::new() }
    }

    /// How many containers are nested inside one another: 0 for a scalar, 1 for `[]` and `{"a": 1}`.
    pub fn depth(&self) -> usize {
        let containers = self.walk().filter(|visit| Rest::of(visit.value).is_some());
        containers.map(|visit| visit.depth + 1).max().unwrap_or(0)
    }

    /// Refuses a value whose [`depth`](Self::depth) is beyond `limit`.
    ///
    /// This is what a function that recurses over a value of unknown origin asks first. Costs one
    /// step per value inside.
    ///
    /// # Errors
    ///
    /// When the value nests deeper.
    pub fn check_depth(&self, limit: usize) -> Result<(), TooDeep> {
        let deeper = |visit: Visit<'_>| visit.depth >= limit && Rest::of(visit.value).is_some();
        if self.walk().any(deeper) { Err(TooDeep { limit }) } else { Ok(()) }
    }

    /// The value with every scalar for which `change` has another one replaced. Containers in which
    /// nothing changes are shared with the original. Does not recurse.
    pub fn map_scalars(&self, mut change: impl FnMut(&Self) -> Option<Self>) -> Self {
        if Rest::of(self).is_none() {
            return change(self).unwrap_or_else(|| self.clone());
        }
        let mut open: Vec<Rebuilt<'_>> = Vec::new();
        open.extend(Rebuilt::of(None, self));
        let mut whole = Self::Null;
        while let Some(innermost) = open.last_mut() {
            if let Some((key, value)) = innermost.rest.next() {
                match Rebuilt::of(key, value) {
                    Some(container) => open.push(container),
                    None => {
                        let changed = change(value);
                        innermost.changed |= changed.is_some();
                        innermost.put(key, changed.unwrap_or_else(|| value.clone()));
                    }
                }
                continue;
            }
            let Some(done) = open.pop() else { break };
            let (key, changed) = (done.key, done.changed);
            let value = done.finish();
            match open.last_mut() {
                Some(outer) => {
                    outer.changed |= changed;
                    outer.put(key, value);
                }
                None => whole = value,
            }
        }
        whole
    }
}

/// A container that [`Value::map_scalars`] is inside of.
struct Rebuilt<'a> {
    original: &'a Value,
    /// The key it stands under.
    key: Option<&'a Str>,
    rest: Rest<'a>,
    elements: Vec<Value>,
    members: Vec<(Str, Value)>,
    changed: bool,
}

impl<'a> Rebuilt<'a> {
    fn of(key: Option<&'a Str>, original: &'a Value) -> Option<Self> {
        let rest = Rest::of(original)?;
        let (elements, members) = (Vec::new(), Vec::new());
        Some(Self { original, key, rest, elements, members, changed: false })
    }

    fn put(&mut self, key: Option<&Str>, value: Value) {
        match key {
            Some(key) => self.members.push((key.clone(), value)),
            None => self.elements.push(value),
        }
    }

    fn finish(self) -> Value {
        match self.original {
            Value::Array(_) if self.changed => Value::Array(self.elements.into()),
            Value::Object(_) if self.changed => {
                Value::Object(Object::from_sorted(self.members.into_iter()))
            }
            same => same.clone(),
        }
    }
}

/// Two containers that are compared part by part.
enum Pair<'a> {
    Elements(slice::Iter<'a, Value>, slice::Iter<'a, Value>),
    Members(slice::Iter<'a, (Str, Value)>, slice::Iter<'a, (Str, Value)>),
}

/// The next step of a comparison.
enum Step<'a> {
    /// These two come next.
    Compare(&'a Value, &'a Value),
    /// The containers differ here, or have ended alike.
    Decided(Ordering),
}

impl<'a> Pair<'a> {
    fn step(&mut self) -> Step<'a> {
        match self {
            Self::Elements(left, right) => match (left.next(), right.next()) {
                (Some(left), Some(right)) => Step::Compare(left, right),
                (left, right) => Step::Decided(left.is_some().cmp(&right.is_some())),
            },
            Self::Members(left, right) => match (left.next(), right.next()) {
                (Some((key, left)), Some((other, right))) => match key.cmp(other) {
                    Ordering::Equal => Step::Compare(left, right),
                    decided => Step::Decided(decided),
                },
                (left, right) => Step::Decided(left.is_some().cmp(&right.is_some())),
            },
        }
    }
}

/// Where two values stand in the order of types.
fn rank(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) => 4,
        Value::Object(_) => 5,
    }
}

/// Up to how many levels comparing recurses, which needs no memory.
const COMPARE_RECURSION: u32 = 32;

/// Compares values of any depth. With `lengths`, containers of different lengths count as different
/// without a look inside: all that equality needs.
fn compare(left: &Value, right: &Value, lengths: bool) -> Ordering {
    compare_within(left, right, lengths, COMPARE_RECURSION)
}

fn compare_within(left: &Value, right: &Value, lengths: bool, levels: u32) -> Ordering {
    let (count, other) = match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => return left.cmp(right),
        (Value::Number(left), Value::Number(right)) => return left.cmp(right),
        (Value::String(left), Value::String(right)) => return left.cmp(right),
        (Value::Array(left), Value::Array(right)) if !left.ptr_eq(right) => {
            (left.len(), right.len())
        }
        (Value::Object(left), Value::Object(right)) if !left.ptr_eq(right) => {
            (left.len(), right.len())
        }
        (left, right) => return rank(left).cmp(&rank(right)),
    };
    if lengths && count != other {
        return count.cmp(&other);
    }
    let Some(levels) = levels.checked_sub(1) else { return compare_deep(left, right, lengths) };
    let (Some(parts), Some(others)) = (Rest::of(left), Rest::of(right)) else {
        return Ordering::Equal;
    };
    for ((key, part), (other_key, other_part)) in parts.zip(others) {
        let ordering =
            key.cmp(&other_key).then_with(|| compare_within(part, other_part, lengths, levels));
        if ordering.is_ne() {
            return ordering;
        }
    }
    count.cmp(&other)
}

/// As [`compare`], without recursion.
fn compare_deep(left: &Value, right: &Value, lengths: bool) -> Ordering {
    let mut open: Vec<Pair<'_>> = Vec::new();
    let (mut left, mut right) = (left, right);
    loop {
        let ordering = match (left, right) {
            (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
            (Value::Number(left), Value::Number(right)) => left.cmp(right),
            (Value::String(left), Value::String(right)) => left.cmp(right),
            (Value::Array(left), Value::Array(right)) if !left.ptr_eq(right) => {
                if lengths && left.len() != right.len() {
                    return left.len().cmp(&right.len());
                }
                open.push(Pair::Elements(left.iter(), right.iter()));
                Ordering::Equal
            }
            (Value::Object(left), Value::Object(right)) if !left.ptr_eq(right) => {
                if lengths && left.len() != right.len() {
                    return left.len().cmp(&right.len());
                }
                open.push(Pair::Members(left.iter(), right.iter()));
                Ordering::Equal
            }
            (left, right) => rank(left).cmp(&rank(right)),
        };
        if ordering.is_ne() {
            return ordering;
        }
        loop {
            let Some(innermost) = open.last_mut() else { return Ordering::Equal };
            match innermost.step() {
                Step::Compare(next, other) => {
                    (left, right) = (next, other);
                    break;
                }
                Step::Decided(Ordering::Equal) => {
                    open.pop();
                }
                Step::Decided(ordering) => return ordering,
            }
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        compare(self, other, true).is_eq()
    }
}

impl Eq for Value {}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self, other, false)
    }
}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for Visit { key, value, .. } in self.walk() {
            if let Some(key) = key {
                key.hash(state);
            }
            rank(value).hash(state);
            match value {
                Self::Null => {}
                Self::Bool(value) => value.hash(state),
                Self::Number(value) => value.hash(state),
                Self::String(value) => value.hash(state),
                Self::Array(elements) => elements.len().hash(state),
                Self::Object(members) => members.len().hash(state),
            }
        }
    }
}

/// Up to how many levels dropping recurses, which is faster than keeping a list.
const DROP_RECURSION: u32 = 64;

thread_local! {
    /// How many containers this thread is in the middle of dropping.
    static DROPPING: Cell<u32> = const { Cell::new(0) };
}

/// The content of a container that is being dropped.
enum Content {
    Elements(Arc<[Value]>),
    Members(Arc<[(Str, Value)]>),
}

impl Content {
    /// Takes the containers inside out of this one, if nothing else holds it.
    fn strip(&mut self, into: &mut Vec<Self>) {
        let take = |value: &mut Value| match value {
            Value::Array(array) => array.0.take().map(Self::Elements),
            Value::Object(object) => object.0.take().map(Self::Members),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        };
        match self {
            Self::Elements(elements) => {
                into.extend(Arc::get_mut(elements).into_iter().flatten().filter_map(take));
            }
            Self::Members(members) => {
                let members = Arc::get_mut(members).into_iter().flatten();
                into.extend(members.filter_map(|(_, member)| take(member)));
            }
        }
    }

    fn release(self) {
        let level = DROPPING.get();
        if level < DROP_RECURSION {
            DROPPING.set(level + 1);
            drop(self);
            DROPPING.set(level);
            return;
        }
        let mut rest = vec![self];
        while let Some(mut content) = rest.pop() {
            content.strip(&mut rest);
        }
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        if let Some(elements) = self.0.take() {
            Content::Elements(elements).release();
        }
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        if let Some(members) = self.0.take() {
            Content::Members(members).release();
        }
    }
}
