//! The differences of cel-go 0.26 from 0.30, by the recordings of both.

use super::{
    Native, Table, convert, lists,
    operators::{self, is_nan},
};
use crate::{
    error::{EvalError, Result, failed},
    heap::Heap,
    value::Val,
};

pub(super) const FUNCTIONS: Table = &[
    ("_<_", |heap, args| ordered(heap, args, "_<_")),
    ("_<=_", |heap, args| ordered(heap, args, "_<=_")),
    ("_>_", |heap, args| ordered(heap, args, "_>_")),
    ("_>=_", |heap, args| ordered(heap, args, "_>=_")),
    ("timestamp", |heap, args| match args {
        [Val::String(text)] => convert::lenient_timestamp(heap, text),
        _ => otherwise("timestamp", heap, args),
    }),
    ("indexOf", |heap, args| position(heap, args, "indexOf")),
    ("lastIndexOf", |heap, args| position(heap, args, "lastIndexOf")),
    ("lists.range", |heap, args| match args {
        [Val::Int(count)] if *count < 0 => lists::empty(heap),
        _ => otherwise("lists.range", heap, args),
    }),
];

/// The implementation of today.
fn otherwise<'a>(name: &str, heap: Heap<'a>, args: &[Val<'a>]) -> Result<Val<'a>> {
    let native: Option<Native> = super::NATIVES.get(name).copied();
    native.map_or(Err(EvalError::NoOverload), |native| native(heap, args))
}

/// Not-a-number has no order.
fn ordered<'a>(heap: Heap<'a>, args: &[Val<'a>], name: &str) -> Result<Val<'a>> {
    match args {
        [left, _] if args.iter().any(is_nan) => match operators::is_number(*left) {
            true => failed("NaN values cannot be ordered"),
            false => Err(EvalError::NoOverload),
        },
        _ => otherwise(name, heap, args),
    }
}

/// The empty text is found wherever the search starts, also outside of the text.
fn position<'a>(heap: Heap<'a>, args: &[Val<'a>], name: &str) -> Result<Val<'a>> {
    match args {
        [Val::String(_), Val::String(""), from @ Val::Int(_)] => Ok(*from),
        _ => otherwise(name, heap, args),
    }
}
