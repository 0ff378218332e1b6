//! Building values within a budget.

use bumpalo::Bump;
use modgate_value::{Budget, Exhausted, Spelling, Value as Json};

use super::{Bytes, MAX_DEPTH, MAX_NODES, Repr, Value};
use crate::number::Num;

/// The memory of one evaluation, given back all at once.
///
/// Keep one per thread and [`reset`](Self::reset) it between evaluations: the largest block is
/// kept, so that a steady load allocates nothing.
#[derive(Debug, Default)]
pub struct Arena(Bump);

impl Arena {
    /// An arena that holds nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets everything that was built.
    pub fn reset(&mut self) {
        self.0.reset();
    }

    /// Bytes held from the system.
    pub fn allocated_bytes(&self) -> usize {
        self.0.allocated_bytes()
    }
}

/// Why a value could not be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Limit {
    /// The evaluation's budget is spent.
    #[error(transparent)]
    Exhausted(#[from] Exhausted),
    /// More than [`MAX_DEPTH`] levels.
    #[error("value nests deeper than {MAX_DEPTH} levels")]
    Depth,
    /// More than [`MAX_NODES`] nodes.
    #[error("value has more than {MAX_NODES} parts")]
    Nodes,
}

/// Where an evaluation builds its values: an [`Arena`], and the [`Budget`] that every build is
/// charged to before it happens.
#[derive(Debug, Clone, Copy)]
pub struct Heap<'a> {
    arena: &'a Arena,
    budget: &'a Budget<'a>,
}

type Entry<'a> = (Value<'a>, Value<'a>);

impl<'a> Heap<'a> {
    /// Builds in `arena`, paid by `budget`.
    pub fn new(arena: &'a Arena, budget: &'a Budget<'a>) -> Self {
        Self { arena, budget }
    }

    /// The budget everything is charged to.
    #[inline]
    pub fn budget(self) -> &'a Budget<'a> {
        self.budget
    }

    /// Text that lives as long as the evaluation.
    ///
    /// # Errors
    ///
    /// [`Limit::Exhausted`]
    pub fn text(self, text: &str) -> Result<&'a str, Limit> {
        self.budget.allocate(text.len())?;
        Ok(self.arena.0.alloc_str(text))
    }

    /// A string.
    ///
    /// # Errors
    ///
    /// [`Limit::Exhausted`]
    pub fn string(self, text: &str) -> Result<Value<'a>, Limit> {
        self.text(text).map(Value::str)
    }

    /// A string whose bytes have already been charged while it was put together.
    pub(crate) fn charged_string(self, text: &str) -> Value<'a> {
        Value::str(self.arena.0.alloc_str(text))
    }

    /// The parts one after the other, of `length` bytes together, which have been charged.
    pub(crate) fn charged_parts(self, length: usize, parts: &[&str]) -> Option<Value<'a>> {
        let text = self.arena.0.alloc_slice_fill_copy(length, 0);
        let mut left = &mut *text;
        for part in parts {
            let (here, rest) = left.split_at_mut_checked(part.len())?;
            here.copy_from_slice(part.as_bytes());
            left = rest;
        }
        std::str::from_utf8(text).ok().map(Value::str)
    }

    /// A string of any bytes, as Go's are.
    ///
    /// # Errors
    ///
    /// [`Limit::Exhausted`]
    pub fn bytes(self, bytes: &[u8]) -> Result<Value<'a>, Limit> {
        self.budget.allocate(bytes.len())?;
        self.charged_bytes(bytes)
    }

    /// As [`bytes`](Self::bytes), for bytes that have been charged while they were put together.
    pub(crate) fn charged_bytes(self, bytes: &[u8]) -> Result<Value<'a>, Limit> {
        if let Ok(text) = std::str::from_utf8(bytes) {
            return Ok(self.charged_string(text));
        }
        let text = characters(bytes);
        self.budget.allocate(text.len().saturating_add(size_of::<Bytes<'_>>()))?;
        let bytes = Bytes {
            bytes: self.arena.0.alloc_slice_copy(bytes),
            text: self.arena.0.alloc_str(&text),
        };
        Ok(Value(Repr::Bytes(self.arena.0.alloc(bytes))))
    }

    /// A number, copying its text if it has one.
    ///
    /// # Errors
    ///
    /// [`Limit::Exhausted`]
    pub fn number(self, number: Num<'_>) -> Result<Value<'a>, Limit> {
        Ok(Value::number(match number {
            Num::Int(int) => Num::Int(int),
            Num::Float(float) => Num::Float(float),
            Num::Literal(text) => Num::Literal(self.text(text)?),
        }))
    }

    /// Keeps what no policy asked for, which nothing is charged for.
    pub(crate) fn kept<T: Copy>(self, value: T) -> &'a T {
        self.arena.0.alloc(value)
    }

    /// As [`kept`](Self::kept).
    pub(crate) fn kept_slice<T: Copy>(self, values: &[T]) -> &'a [T] {
        self.arena.0.alloc_slice_copy(values)
    }

    /// Room for so many values, each of them `value` at first, which no policy sees and nothing is charged for.
    pub(crate) fn kept_room<T: Copy>(self, length: usize, value: T) -> &'a mut [T] {
        self.arena.0.alloc_slice_fill_copy(length, value)
    }

    /// Copies a slice of values.
    ///
    /// # Errors
    ///
    /// [`Limit::Exhausted`]
    pub fn slice<T: Copy>(self, items: &[T]) -> Result<&'a [T], Limit> {
        self.budget.allocate(size_of_val(items))?;
        Ok(self.arena.0.alloc_slice_copy(items))
    }

    /// An array of `items`.
    ///
    /// # Errors
    ///
    /// Any [`Limit`].
    pub fn array(self, items: &[Value<'a>]) -> Result<Value<'a>, Limit> {
        if items.is_empty() {
            return Ok(Value::EMPTY_ARRAY);
        }
        let (depth, nodes) = measure(items.iter().copied())?;
        Ok(Value(Repr::Array { depth, nodes, items: self.slice(items)? }))
    }

    /// Charges for an array of `items` that is not built.
    ///
    /// # Errors
    ///
    /// As [`array`](Self::array).
    pub(crate) fn charge_array(self, items: &[Value<'a>]) -> Result<(), Limit> {
        if items.is_empty() {
            return Ok(());
        }
        measure(items.iter().copied())?;
        Ok(self.budget.allocate(size_of_val(items))?)
    }

    /// An array of items that have been charged, which no policy sees.
    pub(crate) fn charged_array(self, items: &[Value<'a>]) -> Value<'a> {
        if items.is_empty() {
            return Value::EMPTY_ARRAY;
        }
        Value(Repr::Array { depth: 1, nodes: 1, items: self.arena.0.alloc_slice_copy(items) })
    }

    /// The set of `items`; of equal elements the first is kept.
    ///
    /// # Errors
    ///
    /// Any [`Limit`].
    pub fn set(self, mut items: Vec<Value<'a>>) -> Result<Value<'a>, Limit> {
        self.set_of(&mut items)
    }

    /// As [`set`](Self::set), of items in memory that is used again.
    pub(crate) fn set_of(self, items: &mut [Value<'a>]) -> Result<Value<'a>, Limit> {
        let count = self.sort_set(items)?;
        self.set_from_sorted(items.get(..count).unwrap_or_default())
    }

    /// Sorts `items` and moves repeated ones to the end, as [`set`](Self::set) does; how many are left.
    ///
    /// # Errors
    ///
    /// [`Limit::Exhausted`]
    pub(crate) fn sort_set(self, items: &mut [Value<'a>]) -> Result<usize, Limit> {
        // One element is compared with nothing, so the clock need not say how long that takes.
        if let [only] = items {
            self.budget.spend(only.cost())?;
            return Ok(1);
        }
        if items.is_sorted_by(|a, b| a < b) {
            self.charge_walk(items.iter().copied())?;
            return Ok(items.len());
        }
        self.sort(items)?;
        Ok(distinct(items))
    }

    /// Sorts `items` in Rego's order; equal ones keep theirs.
    ///
    /// # Errors
    ///
    /// [`Limit::Exhausted`]
    pub fn sort(self, items: &mut [Value<'a>]) -> Result<(), Limit> {
        self.charge_sort(items.len(), items.iter().copied())?;
        items.sort();
        Ok(())
    }

    /// The set of `items`, which are sorted and distinct.
    ///
    /// # Errors
    ///
    /// Any [`Limit`].
    pub(crate) fn set_from_sorted(self, items: &[Value<'a>]) -> Result<Value<'a>, Limit> {
        debug_assert!(items.is_sorted_by(|a, b| a < b), "set elements must be sorted");
        if items.is_empty() {
            return Ok(Value::EMPTY_SET);
        }
        let (depth, nodes) = measure(items.iter().copied())?;
        Ok(Value(Repr::Set { depth, nodes, items: self.slice(items)? }))
    }

    /// The object of `entries`; of equal keys the first spelling and the last value count.
    ///
    /// # Errors
    ///
    /// Any [`Limit`].
    pub fn object(self, mut entries: Vec<Entry<'a>>) -> Result<Value<'a>, Limit> {
        self.sort_entries(&mut entries)?;
        entries.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                kept.1 = later.1;
            }
            same
        });
        self.object_from_sorted(&entries)
    }

    /// The object of `entries`, or `None` if a key has two different values.
    ///
    /// # Errors
    ///
    /// Any [`Limit`].
    pub(crate) fn object_unless_conflict(
        self,
        mut entries: Vec<Entry<'a>>,
    ) -> Result<Option<Value<'a>>, Limit> {
        self.sort_entries(&mut entries)?;
        let mut conflict = false;
        entries.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            conflict |= same && later.1 != kept.1;
            same
        });
        if conflict { Ok(None) } else { self.object_from_sorted(&entries).map(Some) }
    }

    /// The object of `entries`, which are sorted by key and distinct.
    ///
    /// # Errors
    ///
    /// Any [`Limit`].
    pub(crate) fn object_from_sorted(self, entries: &[Entry<'a>]) -> Result<Value<'a>, Limit> {
        debug_assert!(entries.is_sorted_by(|a, b| a.0 < b.0), "keys must be sorted");
        if entries.is_empty() {
            return Ok(Value::EMPTY_OBJECT);
        }
        let (mut depth, mut nodes) = (0, 1_u32);
        for (key, value) in entries {
            depth = depth.max(key.depth()).max(value.depth());
            nodes = nodes.saturating_add(key.nodes()).saturating_add(value.nodes());
        }
        let (depth, nodes) = measured(depth, nodes)?;
        Ok(Value(Repr::Object { depth, nodes, entries: self.slice(entries)? }))
    }

    /// An object with the text keys of `entries`.
    ///
    /// # Errors
    ///
    /// Any [`Limit`].
    pub fn record<const N: usize>(
        self,
        entries: [(&'a str, Value<'a>); N],
    ) -> Result<Value<'a>, Limit> {
        let sorted = entries.is_sorted_by(|a, b| a.0 < b.0);
        let entries = entries.map(|(key, value)| (Value::str(key), value));
        if sorted {
            self.charge_walk(entries.iter().map(|(key, _)| *key))?;
            return self.object_from_sorted(&entries);
        }
        self.object(entries.to_vec())
    }

    /// A copy of a document that need not outlive the call.
    ///
    /// # Errors
    ///
    /// Any [`Limit`].
    pub(crate) fn copy_json(self, value: &Json) -> Result<Value<'a>, Limit> {
        self.budget.spend(1)?;
        Ok(match value {
            Json::Null => Value::NULL,
            Json::Bool(value) => Value::bool(*value),
            Json::Number(number) => self.number(match number.spelling() {
                Spelling::Int(int) => Num::Int(int),
                Spelling::Float(float) => Num::Float(float),
                Spelling::Literal(text) => Num::Literal(text),
            })?,
            Json::String(text) => self.string(text)?,
            Json::Array(items) => {
                let items: Vec<_> =
                    items.iter().map(|item| self.copy_json(item)).collect::<Result<_, _>>()?;
                self.array(&items)?
            }
            Json::Object(object) => {
                let entries: Vec<_> = object
                    .iter()
                    .map(|(key, value)| Ok((self.string(key)?, self.copy_json(value)?)))
                    .collect::<Result<_, Limit>>()?;
                self.object_from_sorted(&entries)?
            }
        })
    }

    /// Charges for walking each of `values` once, as comparing with it does.
    ///
    /// # Errors
    ///
    /// [`Limit::Exhausted`]
    pub(crate) fn charge_walk(
        self,
        values: impl IntoIterator<Item = Value<'a>>,
    ) -> Result<(), Limit> {
        self.charge_rounds(1, values)
    }

    /// Charges for sorting: every value takes part in about log2(n) comparisons.
    fn charge_sort(self, len: usize, values: impl Iterator<Item = Value<'a>>) -> Result<(), Limit> {
        self.charge_rounds(u64::from(len.checked_ilog2().unwrap_or(0)) + 1, values)
    }

    fn charge_rounds(
        self,
        rounds: u64,
        values: impl IntoIterator<Item = Value<'a>>,
    ) -> Result<(), Limit> {
        let (mut steps, mut composite) = (0_u64, false);
        for value in values {
            steps = steps.saturating_add(value.cost());
            composite |= value.is_composite();
        }
        self.budget.spend(steps.saturating_mul(rounds))?;
        // A cost is a lower bound for what may hold parts of documents, so the clock has to say.
        if composite {
            self.budget.check_time()?;
        }
        Ok(())
    }

    fn sort_entries(self, entries: &mut [Entry<'a>]) -> Result<(), Limit> {
        if entries.is_sorted_by(|a, b| a.0 < b.0) {
            return self.charge_walk(entries.iter().map(|(key, _)| *key));
        }
        self.charge_sort(entries.len(), entries.iter().map(|(key, _)| *key))?;
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(())
    }
}

/// Bytes as Go's `range` reads them: U+FFFD for each byte that is not part of a character.
fn characters(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

/// Moves the first of equal neighbours to the front; how many these are.
fn distinct(items: &mut [Value<'_>]) -> usize {
    let (mut kept, mut last) = (0, None);
    for at in 0..items.len() {
        let Some(item) = items.get(at).copied() else { break };
        if last != Some(item) {
            if let Some(place) = items.get_mut(kept) {
                *place = item;
            }
            (kept, last) = (kept + 1, Some(item));
        }
    }
    kept
}

/// Depth and node count of a container of `parts`.
fn measure<'a>(parts: impl Iterator<Item = Value<'a>>) -> Result<(u16, u32), Limit> {
    let mut depth = 0;
    let mut nodes: u32 = 1;
    for part in parts {
        depth = depth.max(part.depth());
        nodes = nodes.saturating_add(part.nodes());
    }
    measured(depth, nodes)
}

/// Those of a container with so many nodes, the parts of which are as deep as `depth`.
#[inline]
fn measured(depth: u16, nodes: u32) -> Result<(u16, u32), Limit> {
    if usize::from(depth) >= MAX_DEPTH {
        return Err(Limit::Depth);
    }
    if nodes > MAX_NODES {
        return Err(Limit::Nodes);
    }
    Ok((depth + 1, nodes))
}
