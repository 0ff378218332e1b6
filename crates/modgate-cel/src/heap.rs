//! Where values are built, and what they are to one another.

use std::cmp::Ordering;

use bumpalo::Bump;
use modgate_value::Budget;

use crate::{
    eval::{EvalError, Result, failed},
    library::Opaque,
    value::Val,
};

/// The arena and the budget of one evaluation.
#[derive(Clone, Copy)]
pub(crate) struct Heap<'a> {
    pub(crate) arena: &'a Bump,
    pub(crate) budget: &'a Budget<'a>,
}

impl<'a> Heap<'a> {
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

    pub(crate) fn opaque(self, value: Opaque<'a>) -> Result<Val<'a>> {
        self.budget.allocate(size_of::<Opaque<'_>>())?;
        Ok(Val::Opaque(self.arena.alloc(value)))
    }

    /// The entry `key` of a map.
    pub(crate) fn find(self, map: Val<'a>, key: Val<'a>) -> Result<Option<Val<'a>>> {
        match (map, key) {
            (Val::JsonMap(object), Val::String(key)) => Ok(object.get(key).map(Val::json)),
            (Val::JsonMap(_), _) => Ok(None),
            _ => {
                for index in 0..map.entries().unwrap_or(0) {
                    if let Some((name, value)) = map.entry(index)
                        && self.equal(name, key)?
                    {
                        return Ok(Some(value));
                    }
                }
                Ok(None)
            }
        }
    }

    /// Adds or replaces an entry of a map that is being built.
    pub(crate) fn put(
        self,
        entries: &mut Vec<(Val<'a>, Val<'a>)>,
        key: Val<'a>,
        value: Val<'a>,
        replace: bool,
    ) -> Result<()> {
        for (old, slot) in entries.iter_mut() {
            if self.equal(*old, key)? {
                if !replace {
                    return failed(format!("insert failed: key {} already exists", shown(key)));
                }
                *slot = value;
                return Ok(());
            }
        }
        entries.push((key, value));
        Ok(())
    }

    /// `==`
    pub(crate) fn equal(self, left: Val<'a>, right: Val<'a>) -> Result<bool> {
        self.budget.spend(1)?;
        Ok(match (left, right) {
            (Val::String(a), Val::String(b)) => {
                self.budget.spend(a.len().min(b.len()) as u64 / 64)?;
                a == b
            }
            (Val::Null, Val::Null) | (Val::Variables, Val::Variables) => true,
            (Val::Bool(a), Val::Bool(b)) => a == b,
            (Val::Int(a), Val::Int(b)) => a == b,
            (Val::Bytes(a), Val::Bytes(b)) => a == b,
            (Val::Type(a), Val::Type(b)) => a == b,
            (Val::Timestamp(a), Val::Timestamp(b)) => a == b,
            (Val::Duration(a), Val::Duration(b)) => a == b,
            (Val::Optional(a), Val::Optional(b)) => match (a, b) {
                (Some(a), Some(b)) => self.equal(*a, *b)?,
                (a, b) => a.is_none() && b.is_none(),
            },
            (Val::Opaque(_), Val::Null) | (Val::Null, Val::Opaque(_)) => false,
            (Val::Opaque(a), Val::Opaque(b)) => a.equal(b).ok_or(EvalError::NoOverload)?,
            (Val::Opaque(_), _) => return Err(EvalError::NoOverload),
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

    /// `==` inside of lists and maps, where what cannot be compared does not differ.
    fn part_equal(self, left: Val<'a>, right: Val<'a>) -> Result<bool> {
        match self.equal(left, right) {
            Err(EvalError::NoOverload) => Ok(true),
            result => result,
        }
    }

    /// Which comes first, if that can be told.
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
            (Val::Bytes(a), Val::Bytes(b)) => a.cmp(b),
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
        for item in list.items() {
            match self.equal(item, wanted) {
                Ok(true) => return Ok(true),
                Ok(false) | Err(EvalError::NoOverload) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}

/// A key as Go's `%v` prints it.
pub(crate) fn shown(key: Val<'_>) -> String {
    match key {
        Val::Null => "null".to_owned(),
        Val::Bool(value) => value.to_string(),
        Val::Int(value) => value.to_string(),
        Val::Uint(value) => value.to_string(),
        Val::Double(value) => modgate_value::gofloat::general(value),
        Val::String(text) => text.to_owned(),
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
