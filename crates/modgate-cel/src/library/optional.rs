//! Optionals; `or`, `orValue` and the macros are part of the evaluator.

use super::Table;
use crate::{
    error::{EvalError, Result, failed},
    heap::Heap,
    value::Val,
};

pub(super) const FUNCTIONS: Table = &[
    ("optional.of", |heap, args| match args {
        [value] => heap.some(*value),
        _ => Err(EvalError::NoOverload),
    }),
    ("optional.ofNonZeroValue", |heap, args| match args {
        [value] if is_zero(*value) => Ok(Val::Optional(None)),
        [value] => heap.some(*value),
        _ => Err(EvalError::NoOverload),
    }),
    ("optional.none", |_, _| Ok(Val::Optional(None))),
    ("optional.unwrap", unwrap),
    ("unwrapOpt", unwrap),
    ("hasValue", |_, args| match args {
        [Val::Optional(inner)] => Ok(Val::Bool(inner.is_some())),
        _ => Err(EvalError::NoOverload),
    }),
    ("value", |_, args| match args {
        [Val::Optional(Some(inner))] => Ok(**inner),
        [Val::Optional(None)] => failed("optional.none() dereference"),
        _ => Err(EvalError::NoOverload),
    }),
    ("first", |heap, args| match args {
        [list] if list.is_list() => optional(heap, list.item(0)),
        _ => Err(EvalError::NoOverload),
    }),
    ("last", |heap, args| match args {
        [list] if list.is_list() => {
            let last = list.entries().and_then(|size| size.checked_sub(1));
            optional(heap, last.and_then(|last| list.item(last)))
        }
        _ => Err(EvalError::NoOverload),
    }),
];

fn optional<'a>(heap: Heap<'a>, value: Option<Val<'a>>) -> Result<Val<'a>> {
    value.map_or(Ok(Val::Optional(None)), |value| heap.some(value))
}

fn unwrap<'a>(heap: Heap<'a>, args: &[Val<'a>]) -> Result<Val<'a>> {
    let [list] = args else { return Err(EvalError::NoOverload) };
    let mut values = Vec::new();
    for item in list.items() {
        heap.budget.spend(1)?;
        match item {
            Val::Optional(None) => {}
            Val::Optional(Some(inner)) => heap.push(&mut values, *inner)?,
            other => {
                let other = crate::heap::shown(other);
                return failed(format!("value {other} is not optional"));
            }
        }
    }
    heap.list(&values)
}

fn is_zero(value: Val<'_>) -> bool {
    match value {
        Val::Null => true,
        Val::Bool(value) => !value,
        Val::Int(value) => value == 0,
        Val::Uint(value) => value == 0,
        Val::Double(value) => value == 0.0,
        Val::String(text) => text.is_empty(),
        Val::Bytes(bytes) => bytes.is_empty(),
        Val::Timestamp(at) => (at.seconds, at.nanos) == (-62_135_596_800, 0),
        Val::Duration(nanos) => nanos == 0,
        value => value.entries() == Some(0),
    }
}
