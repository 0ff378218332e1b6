//! Where values are built, and what they are to one another.

use std::cmp::Ordering;

use bumpalo::{Bump, collections::Vec as BumpVec};
use modgate_value::{Budget, MAX_DEPTH};

use crate::{
    brief::brief,
    error::{EvalError, Result, failed},
    library::Opaque,
    value::{Built, Val},
};

/// The arena and the budget of one evaluation.
#[derive(Clone, Copy)]
pub(crate) struct Heap<'a> {
    pub(crate) arena: &'a Bump,
    pub(crate) budget: &'a Budget<'a>,
    /// How many levels of a value what is being done has gone down.
    depth: usize,
}

impl<'a> Heap<'a> {
    pub(crate) fn new(arena: &'a Bump, budget: &'a Budget<'a>) -> Self {
        Self { arena, budget, depth: 0 }
    }

    /// For the next level of a value. Documents may nest far deeper than recursion may.
    pub(crate) fn deeper(self) -> Result<Self> {
        if self.depth >= MAX_DEPTH {
            return failed(format!("a value nests more than {MAX_DEPTH} levels"));
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }

    /// Pays for reading a text or bytes of this length.
    pub(crate) fn read(self, length: usize) -> Result<()> {
        Ok(self.budget.spend(length as u64 / 16)?)
    }

    /// Pays for building a text of this length, which takes twice as much while it grows.
    pub(crate) fn build(self, length: usize) -> Result<()> {
        self.budget.allocate(length.saturating_mul(2))?;
        self.read(length)
    }

    /// Does what takes this much memory and gives it back.
    pub(crate) fn temporary<T>(self, bytes: usize, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.budget.allocate(bytes)?;
        let result = work();
        self.budget.release(bytes);
        result
    }

    /// A vector that is paid for.
    pub(crate) fn vec<T>(self, capacity: usize) -> Result<Vec<T>> {
        self.budget.allocate(capacity.saturating_mul(size_of::<T>()))?;
        self.budget.spend(capacity as u64 / 16)?;
        Ok(Vec::with_capacity(capacity))
    }

    /// A vector of values, of which there are at most `count`.
    pub(crate) fn gather(
        self,
        count: usize,
        items: impl Iterator<Item = Val<'a>>,
    ) -> Result<Vec<Val<'a>>> {
        let mut all = self.vec(count)?;
        all.extend(items.take(count));
        Ok(all)
    }

    /// Adds to a vector, which takes twice as much while it grows.
    pub(crate) fn push<T>(self, items: &mut Vec<T>, item: T) -> Result<()> {
        self.budget.allocate(2 * size_of::<T>())?;
        items.push(item);
        Ok(())
    }

    /// As [`push`](Self::push), to a list of the arena.
    #[inline]
    pub(crate) fn add(self, items: &mut BumpVec<'a, Val<'a>>, item: Val<'a>) -> Result<()> {
        self.budget.allocate(2 * size_of::<Val<'_>>())?;
        items.push(item);
        Ok(())
    }

    /// The elements of two lists, `count` in all; a copy costs as much as if it grew elsewhere.
    pub(crate) fn joined(self, count: usize, left: Val<'a>, right: Val<'a>) -> Result<Val<'a>> {
        let bytes = count.saturating_mul(size_of::<Val<'_>>());
        self.budget.allocate(bytes)?;
        self.budget.spend(count as u64 / 16)?;
        self.budget.allocate(bytes)?;
        if right.entries() == Some(0) {
            return Ok(left);
        }
        let mut items = BumpVec::with_capacity_in(count, self.arena);
        items.extend(left.items());
        items.extend(right.items());
        Ok(Val::List(items.into_bump_slice()))
    }

    /// A list that was built in the arena. It costs as much as if it were copied there.
    pub(crate) fn built_list(self, items: BumpVec<'a, Val<'a>>) -> Result<Val<'a>> {
        self.budget.allocate(size_of_val(items.as_slice()))?;
        Ok(Val::List(items.into_bump_slice()))
    }

    pub(crate) fn list(self, items: &[Val<'a>]) -> Result<Val<'a>> {
        self.budget.allocate(size_of_val(items))?;
        Ok(Val::List(self.arena.alloc_slice_copy(items)))
    }

    pub(crate) fn map(self, entries: &[(Val<'a>, Val<'a>)]) -> Result<Val<'a>> {
        self.budget.allocate(size_of_val(entries))?;
        Ok(Val::Map(self.arena.alloc_slice_copy(entries)))
    }

    pub(crate) fn text(self, text: &str) -> Result<Val<'a>> {
        Ok(Val::String(self.str(text)?))
    }

    pub(crate) fn str(self, text: &str) -> Result<&'a str> {
        self.budget.allocate(text.len())?;
        Ok(self.arena.alloc_str(text))
    }

    pub(crate) fn bytes(self, bytes: &[u8]) -> Result<Val<'a>> {
        self.budget.allocate(bytes.len())?;
        Ok(Val::Bytes(self.arena.alloc_slice_copy(bytes)))
    }

    pub(crate) fn some(self, value: Val<'a>) -> Result<Val<'a>> {
        self.budget.allocate(size_of::<Val<'_>>())?;
        Ok(Val::Optional(Some(self.arena.alloc(value))))
    }

    pub(crate) fn built(self, name: &'a str, fields: &[(&'a str, Val<'a>)]) -> Result<Val<'a>> {
        self.budget.allocate(size_of_val(fields).saturating_add(size_of::<Built<'_>>()))?;
        let fields = self.arena.alloc_slice_copy(fields);
        Ok(Val::Built(self.arena.alloc(Built { name, fields })))
    }

    pub(crate) fn opaque(self, value: Opaque<'a>) -> Result<Val<'a>> {
        self.budget.allocate(size_of::<Opaque<'_>>())?;
        Ok(Val::Opaque(self.arena.alloc(value)))
    }

    /// The entry `key` of a map: of the same type, or of another type of whole numbers and equal.
    pub(crate) fn find(self, map: Val<'a>, key: Val<'a>) -> Result<Option<Val<'a>>> {
        if let Val::JsonMap(object) = map {
            let Val::String(key) = key else { return Ok(None) };
            return Ok(object.get(key).map(Val::json));
        }
        if map.entries() == Some(0) {
            return Ok(None);
        }
        if let (Val::Map(entries), Val::String(text)) = (map, key) {
            return self.find_text(entries, text);
        }
        let keys = [Some(key), as_int(key), as_uint(key)];
        for key in keys.into_iter().flatten() {
            for index in 0..map.entries().unwrap_or(0) {
                if let Some((name, value)) = map.entry(index)
                    && self.same_key(name, key)?
                {
                    return Ok(Some(value));
                }
            }
        }
        Ok(None)
    }

    /// The entry of a map that was built whose key is this text.
    pub(crate) fn find_text(
        self,
        entries: &[(Val<'a>, Val<'a>)],
        key: &str,
    ) -> Result<Option<Val<'a>>> {
        for (name, value) in entries {
            let Val::String(name) = name else {
                self.budget.spend(1)?;
                hashable(*name)?;
                continue;
            };
            self.budget.spend(1 + name.len().min(key.len()) as u64 / 64)?;
            if *name == key {
                return Ok(Some(*value));
            }
        }
        Ok(None)
    }

    /// Whether two keys of maps are one: as the original looks them up, by type and value, and by
    /// identity if they are lists or maps or other compounds.
    fn same_key(self, left: Val<'a>, right: Val<'a>) -> Result<bool> {
        self.budget.spend(1)?;
        hashable(left)?;
        hashable(right)?;
        Ok(match (left, right) {
            (Val::String(a), Val::String(b)) => {
                self.budget.spend(a.len().min(b.len()) as u64 / 64)?;
                a == b
            }
            (Val::Null, Val::Null) => true,
            (Val::Bool(a), Val::Bool(b)) => a == b,
            (Val::Int(a), Val::Int(b)) | (Val::Duration(a), Val::Duration(b)) => a == b,
            (Val::Uint(a), Val::Uint(b)) => a == b,
            (Val::Double(a), Val::Double(b)) => a == b,
            (Val::Type(a), Val::Type(b)) => a == b,
            (Val::Timestamp(a), Val::Timestamp(b)) => a == b && a.offset == 0 && b.offset == 0,
            (Val::Optional(a), Val::Optional(b)) => a.is_none() && b.is_none(),
            (Val::Opaque(Opaque::Ip(a)), Val::Opaque(Opaque::Ip(b))) => a == b,
            (Val::Opaque(Opaque::Cidr(a)), Val::Opaque(Opaque::Cidr(b))) => a == b,
            _ => false,
        })
    }

    /// Adds or replaces an entry of a map that is being built.
    pub(crate) fn put(
        self,
        entries: &mut Vec<(Val<'a>, Val<'a>)>,
        key: Val<'a>,
        value: Val<'a>,
    ) -> Result<()> {
        hashable(key)?;
        for (old, slot) in entries.iter_mut() {
            if self.same_key(*old, key)? {
                *slot = value;
                return Ok(());
            }
        }
        self.push(entries, (key, value))
    }

    /// Removes an entry of a map that is being built.
    pub(crate) fn remove(self, entries: &mut Vec<(Val<'a>, Val<'a>)>, key: Val<'a>) -> Result<()> {
        hashable(key)?;
        for index in 0..entries.len() {
            if let Some((old, _)) = entries.get(index)
                && self.same_key(*old, key)?
            {
                entries.remove(index);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Adds an entry to a map that is being built; it must be a new one.
    pub(crate) fn insert(
        self,
        entries: &mut Vec<(Val<'a>, Val<'a>)>,
        key: Val<'a>,
        value: Val<'a>,
    ) -> Result<()> {
        hashable(key)?;
        for key in [Some(key), as_int(key), as_uint(key)].into_iter().flatten() {
            for (old, _) in entries.iter() {
                if self.same_key(*old, key)? {
                    return failed(format!("insert failed: key {} already exists", shown(key)));
                }
            }
        }
        self.push(entries, (key, value))
    }

    /// `==`
    pub(crate) fn equal(self, left: Val<'a>, right: Val<'a>) -> Result<bool> {
        match (left, right) {
            (Val::Null, Val::Null) => Ok(true),
            (Val::Null, _) | (_, Val::Null) => Ok(false),
            _ => self.same(left, right),
        }
    }

    /// `==` as the type of `left` has it, which may not know the type of `right`.
    fn same(self, left: Val<'a>, right: Val<'a>) -> Result<bool> {
        self.budget.spend(1)?;
        Ok(match (left, right) {
            (Val::String(a), Val::String(b)) => {
                self.budget.spend(a.len().min(b.len()) as u64 / 64)?;
                a == b
            }
            (Val::Null, Val::Null) | (Val::Variables, Val::Variables) => true,
            (Val::Bool(a), Val::Bool(b)) => a == b,
            (Val::Int(a), Val::Int(b)) => a == b,
            (Val::Bytes(a), Val::Bytes(b)) => {
                self.budget.spend(a.len().min(b.len()) as u64 / 64)?;
                a == b
            }
            (Val::Type(a), Val::Type(b)) => a == b,
            (Val::Timestamp(a), Val::Timestamp(b)) => a == b,
            (Val::Duration(a), Val::Duration(b)) => a == b,
            (Val::Optional(a), Val::Optional(b)) => match (a, b) {
                (Some(a), Some(b)) => self.deeper()?.same(*a, *b)?,
                (a, b) => a.is_none() && b.is_none(),
            },
            (Val::Opaque(a), Val::Opaque(b)) => {
                self.budget.spend(a.work().min(b.work()))?;
                a.equal(b).ok_or(EvalError::NoOverload)?
            }
            (Val::Opaque(_), _) => return Err(EvalError::NoOverload),
            (Val::Built(a), Val::Built(b)) => self.same_fields(a, b)?,
            (a, b) if a.is_list() && b.is_list() => {
                if a.entries() != b.entries() {
                    return Ok(false);
                }
                for (a, b) in a.items().zip(b.items()) {
                    if !self.part_equal(a, b)? {
                        return Ok(false);
                    }
                }
                true
            }
            (a, b) if a.is_map() && b.is_map() => {
                if a.entries() != b.entries() {
                    return Ok(false);
                }
                for index in 0..a.entries().unwrap_or(0) {
                    let Some((key, value)) = a.entry(index) else { return Ok(false) };
                    let Some(other) = self.find(b, key)? else { return Ok(false) };
                    if !self.part_equal(value, other)? {
                        return Ok(false);
                    }
                }
                true
            }
            (a, b) => numbers(a, b) == Some(Some(Ordering::Equal)),
        })
    }

    fn same_fields(self, left: &Built<'a>, right: &Built<'a>) -> Result<bool> {
        if left.name != right.name || left.fields.len() != right.fields.len() {
            return Ok(false);
        }
        for (name, value) in left.fields {
            let Some(other) = right.field(name) else { return Ok(false) };
            if !self.part_equal(*value, other)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether `==` gives true; what cannot be compared is not equal.
    pub(crate) fn is_equal(self, left: Val<'a>, right: Val<'a>) -> Result<bool> {
        match self.same(left, right) {
            Err(EvalError::NoOverload) => Ok(false),
            result => result,
        }
    }

    /// `==` inside of lists and maps, where what cannot be compared does not differ.
    fn part_equal(self, left: Val<'a>, right: Val<'a>) -> Result<bool> {
        match self.deeper()?.equal(left, right) {
            Err(EvalError::NoOverload) => Ok(true),
            result => result,
        }
    }

    /// Which comes first, if they can be compared.
    pub(crate) fn precedence(self, left: Val<'a>, right: Val<'a>) -> Result<Option<Ordering>> {
        match self.compare(left, right) {
            Ok(order) => Ok(Some(order)),
            Err(error @ EvalError::Exhausted(_)) => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// Which comes first, of two values that have an order.
    pub(crate) fn compare(self, left: Val<'a>, right: Val<'a>) -> Result<Ordering> {
        self.budget.spend(1)?;
        Ok(match (left, right) {
            (Val::Int(a), Val::Int(b)) => a.cmp(&b),
            (Val::Bool(a), Val::Bool(b)) => a.cmp(&b),
            (Val::String(a), Val::String(b)) => {
                self.budget.spend(a.len().min(b.len()) as u64 / 64)?;
                a.cmp(b)
            }
            (Val::Bytes(a), Val::Bytes(b)) => {
                self.budget.spend(a.len().min(b.len()) as u64 / 64)?;
                a.cmp(b)
            }
            (Val::Timestamp(a), Val::Timestamp(b)) => a.cmp(&b),
            (Val::Duration(a), Val::Duration(b)) => a.cmp(&b),
            (a, b) => match numbers(a, b) {
                Some(Some(order)) => order,
                Some(None) => return failed("NaN values cannot be ordered"),
                None => return Err(EvalError::NoOverload),
            },
        })
    }

    /// Whether a list has an element equal to `wanted`.
    pub(crate) fn contains(self, list: Val<'a>, wanted: Val<'a>) -> Result<bool> {
        if let Val::String(text) = wanted {
            return self.contains_text(list, text);
        }
        for item in list.items() {
            if self.is_equal(wanted, item)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// As [`contains`](Self::contains), which costs the same.
    fn contains_text(self, list: Val<'a>, text: &str) -> Result<bool> {
        for index in 0..list.entries().unwrap_or(0) {
            let Some(item) = list.item(index) else { break };
            self.budget.spend(1)?;
            let Val::String(item) = item else { continue };
            self.budget.spend(text.len().min(item.len()) as u64 / 64)?;
            if item == text {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Whether a value can be looked up in a map; the original panics at others, and makes an error of it.
pub(crate) fn hashable(key: Val<'_>) -> Result<()> {
    let name = match key {
        Val::Bytes(_) => "types.Bytes",
        Val::Opaque(Opaque::Semver(_)) => "cel.Semver",
        Val::Opaque(Opaque::Format(_)) => "cel.Format",
        _ => return Ok(()),
    };
    failed(format!("internal error: runtime error: hash of unhashable type {name}"))
}

/// Another number as a signed integer, if that loses nothing.
fn as_int(key: Val<'_>) -> Option<Val<'_>> {
    match key {
        Val::Uint(value) => i64::try_from(value).ok().map(Val::Int),
        Val::Double(value) => {
            whole(value).and_then(|value| i64::try_from(value).ok()).map(Val::Int)
        }
        _ => None,
    }
}

/// Another number as an unsigned integer, if that loses nothing.
fn as_uint(key: Val<'_>) -> Option<Val<'_>> {
    match key {
        Val::Int(value) => u64::try_from(value).ok().map(Val::Uint),
        Val::Double(value) => {
            whole(value).and_then(|value| u64::try_from(value).ok()).map(Val::Uint)
        }
        _ => None,
    }
}

/// A float without a fraction as an integer.
#[expect(clippy::cast_possible_truncation, reason = "checked to have no fraction, and to fit")]
pub(crate) fn whole(value: f64) -> Option<i128> {
    (value.fract() == 0.0 && value.abs() < 1e30).then_some(value as i128)
}

/// A key as Go's `%v` prints it.
pub(crate) fn shown(key: Val<'_>) -> String {
    match key {
        Val::Null => "null".to_owned(),
        Val::Bool(value) => value.to_string(),
        Val::Int(value) => value.to_string(),
        Val::Uint(value) => value.to_string(),
        Val::Double(value) => modgate_value::gofloat::general(value),
        Val::String(text) => brief(text).into_owned(),
        Val::Type(name) => name.to_owned(),
        Val::Timestamp(at) => at.written().to_string(),
        Val::Duration(nanos) => modgate_value::gotime::Duration(nanos).to_string(),
        other => format!("<{}>", other.type_name()),
    }
}

/// How two numbers compare, whatever their types; the outer `None` if one is not a number.
///
/// With a float, whole numbers are compared as floats.
#[expect(clippy::cast_precision_loss, reason = "as the original does")]
fn numbers(left: Val<'_>, right: Val<'_>) -> Option<Option<Ordering>> {
    let whole = |value: Val<'_>| match value {
        Val::Int(value) => Some(i128::from(value)),
        Val::Uint(value) => Some(i128::from(value)),
        _ => None,
    };
    Some(match (left, right) {
        (Val::Double(a), Val::Double(b)) => a.partial_cmp(&b),
        (Val::Double(a), b) => a.partial_cmp(&(whole(b)? as f64)),
        (a, Val::Double(b)) => (whole(a)? as f64).partial_cmp(&b),
        (a, b) => Some(whole(a)?.cmp(&whole(b)?)),
    })
}
