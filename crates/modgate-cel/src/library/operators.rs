//! Operators.

use std::cmp::Ordering;

use modgate_value::gotime::SECOND;

use super::{Table, time::add};
use crate::{
    error::{EvalError, Result, failed},
    heap::Heap,
    value::Val,
};

pub(super) const FUNCTIONS: Table = &[
    ("_<_", |heap, args| ordered(heap, args, Ordering::is_lt)),
    ("_<=_", |heap, args| ordered(heap, args, Ordering::is_le)),
    ("_>_", |heap, args| ordered(heap, args, Ordering::is_gt)),
    ("_>=_", |heap, args| ordered(heap, args, Ordering::is_ge)),
    ("_+_", plus),
    ("_-_", minus),
    ("_*_", |_, args| match args {
        [Val::Int(a), Val::Int(b)] => int(a.checked_mul(*b)),
        [Val::Uint(a), Val::Uint(b)] => uint(a.checked_mul(*b)),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a * b)),
        _ => Err(EvalError::NoOverload),
    }),
    ("_/_", |_, args| match args {
        [Val::Int(_), Val::Int(0)] | [Val::Uint(_), Val::Uint(0)] => failed("division by zero"),
        [Val::Int(a), Val::Int(b)] => int(a.checked_div(*b)),
        [Val::Uint(a), Val::Uint(b)] => uint(a.checked_div(*b)),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a / b)),
        _ => Err(EvalError::NoOverload),
    }),
    ("_%_", |_, args| match args {
        [Val::Int(_), Val::Int(0)] | [Val::Uint(_), Val::Uint(0)] => failed("modulus by zero"),
        [Val::Int(a), Val::Int(b)] => int(a.checked_rem(*b)),
        [Val::Uint(a), Val::Uint(b)] => uint(a.checked_rem(*b)),
        _ => Err(EvalError::NoOverload),
    }),
    ("!_", |_, args| match args {
        [Val::Bool(value)] => Ok(Val::Bool(!value)),
        _ => Err(EvalError::NoOverload),
    }),
    ("-_", |_, args| match args {
        [Val::Int(value)] => int(value.checked_neg()),
        [Val::Double(value)] => Ok(Val::Double(-value)),
        [Val::Duration(nanos)] => duration(nanos.checked_neg()),
        _ => Err(EvalError::NoOverload),
    }),
    ("@in", |heap, args| match args {
        [item, range] if range.is_list() => heap.contains(*range, *item).map(Val::Bool),
        [key, range] if range.is_map() => {
            heap.find(*range, *key).map(|found| Val::Bool(found.is_some()))
        }
        _ => Err(EvalError::NoOverload),
    }),
];

/// Whether the operator `name` may have such a value on its left; false for functions.
pub(super) fn takes(name: &str, left: Val<'_>) -> bool {
    let number = is_number(left);
    let time = matches!(left, Val::Timestamp(_) | Val::Duration(_));
    let text = matches!(left, Val::String(_) | Val::Bytes(_));
    match name {
        "_<_" | "_<=_" | "_>_" | "_>=_" => number || time || text || matches!(left, Val::Bool(_)),
        "_+_" => number || time || text || left.is_list(),
        "_-_" => number || time,
        "_*_" => number || matches!(left, Val::String(_)),
        "_/_" => number,
        "_%_" => matches!(left, Val::Int(_) | Val::Uint(_) | Val::String(_)),
        "-_" => matches!(left, Val::Bool(_) | Val::Int(_) | Val::Double(_)),
        "!_" | "@in" => true,
        _ => false,
    }
}

fn int(value: Option<i64>) -> Result<Val<'static>> {
    value.map_or_else(|| failed("integer overflow"), |value| Ok(Val::Int(value)))
}

fn uint(value: Option<u64>) -> Result<Val<'static>> {
    value.map_or_else(|| failed("unsigned integer overflow"), |value| Ok(Val::Uint(value)))
}

fn duration(value: Option<i64>) -> Result<Val<'static>> {
    value.map_or_else(|| failed("integer overflow"), |value| Ok(Val::Duration(value)))
}

pub(super) fn is_nan(value: &Val<'_>) -> bool {
    matches!(value, Val::Double(value) if value.is_nan())
}

pub(super) fn is_number(value: Val<'_>) -> bool {
    matches!(value, Val::Int(_) | Val::Uint(_) | Val::Double(_))
}

fn ordered<'a>(heap: Heap<'a>, args: &[Val<'a>], is: impl Fn(Ordering) -> bool) -> Result<Val<'a>> {
    let [left, right] = args else { return Err(EvalError::NoOverload) };
    // Nothing that has an order is less or greater than not-a-number, of whatever type it is.
    if left.has_order() && args.iter().any(is_nan) {
        return Ok(Val::Bool(false));
    }
    heap.compare(*left, *right).map(|order| Val::Bool(is(order)))
}

pub(super) fn plus<'a>(heap: Heap<'a>, args: &[Val<'a>]) -> Result<Val<'a>> {
    match args {
        [Val::Int(a), Val::Int(b)] => int(a.checked_add(*b)),
        [Val::Uint(a), Val::Uint(b)] => uint(a.checked_add(*b)),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a + b)),
        [Val::String(a), Val::String(b)] => {
            heap.read(a.len() + b.len())?;
            heap.budget.allocate(a.len() + b.len())?;
            let mut text =
                bumpalo::collections::String::with_capacity_in(a.len() + b.len(), heap.arena);
            text.push_str(a);
            text.push_str(b);
            Ok(Val::String(text.into_bump_str()))
        }
        [Val::Bytes(a), Val::Bytes(b)] => {
            heap.build(a.len() + b.len())?;
            heap.bytes(&[*a, *b].concat())
        }
        [Val::Timestamp(at), Val::Duration(nanos)] | [Val::Duration(nanos), Val::Timestamp(at)] => {
            add(*at, i128::from(*nanos)).map(Val::Timestamp)
        }
        [Val::Duration(a), Val::Duration(b)] => duration(a.checked_add(*b)),
        [a, b] if a.is_list() && b.is_list() => {
            if a.entries() == Some(0) {
                return Ok(*b);
            }
            let count = a.entries().unwrap_or(0) + b.entries().unwrap_or(0);
            heap.budget.spend(count as u64)?;
            heap.joined(count, *a, *b)
        }
        _ => Err(EvalError::NoOverload),
    }
}

fn minus<'a>(_: Heap<'a>, args: &[Val<'a>]) -> Result<Val<'a>> {
    match args {
        [Val::Int(a), Val::Int(b)] => int(a.checked_sub(*b)),
        [Val::Uint(a), Val::Uint(b)] => uint(a.checked_sub(*b)),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a - b)),
        [Val::Duration(a), Val::Duration(b)] => duration(a.checked_sub(*b)),
        [Val::Timestamp(at), Val::Duration(nanos)] => match nanos.checked_neg() {
            Some(nanos) => add(*at, i128::from(nanos)).map(Val::Timestamp),
            None => failed("integer overflow"),
        },
        [Val::Timestamp(a), Val::Timestamp(b)] => {
            let nanos = i64::from(a.nanos) - i64::from(b.nanos);
            // The seconds alone must fit already, as in the original.
            let seconds = a.seconds.checked_sub(b.seconds);
            let whole = seconds.and_then(|seconds| seconds.checked_mul(SECOND));
            duration(whole.and_then(|whole| whole.checked_add(nanos)))
        }
        _ => Err(EvalError::NoOverload),
    }
}
