//! Regular expressions.

use std::ops::Range;

use modgate_value::{
    Exhausted,
    regex::{GoRegex, Uncompiled},
};

use super::Table;
use crate::{
    brief::brief,
    error::{EvalError, Result, failed},
    heap::Heap,
    value::Val,
};

pub(super) const FUNCTIONS: Table = &[
    ("matches", |heap, args| pattern(heap, "matches", args)),
    ("find", |heap, args| pattern(heap, "find", args)),
    ("findAll", |heap, args| pattern(heap, "findAll", args)),
];

/// How large a compiled pattern of an evaluation may be: most are small, so that is tried first.
const COMPILED: [usize; 2] = [1 << 16, 1 << 20];

/// The bytes of a compiled pattern that are made in the time of one step.
const STEP: u64 = 64;

/// The memory that a search keeps at most: the `regex` crate's own limit.
const SEARCH: usize = 2 << 20;

fn pattern<'a>(heap: Heap<'a>, name: &str, args: &[Val<'a>]) -> Result<Val<'a>> {
    let [Val::String(text), Val::String(pattern), ..] = args else {
        return Err(EvalError::NoOverload);
    };
    // Compiling takes far longer than reading.
    heap.budget.spend(pattern.len() as u64 * 16)?;
    let mut problem = String::new();
    for size in COMPILED {
        heap.budget.spend(size as u64 / STEP)?;
        let found = heap.temporary(3 * size + SEARCH, || {
            match GoRegex::within(pattern, size, heap.budget) {
                Ok(regex) => with_pattern(heap, name, &regex, text, args).map(Some),
                Err(Uncompiled::Invalid(error)) => {
                    problem = brief(&error.to_string()).into_owned();
                    Ok(None)
                }
                Err(Uncompiled::Exhausted(exhausted)) => Err(exhausted.into()),
            }
        })?;
        if let Some(found) = found {
            return Ok(found);
        }
    }
    failed(if name == "matches" { problem } else { format!("Illegal regex: {problem}") })
}

/// The function `name` with its pattern compiled.
pub(crate) fn with_pattern<'a>(
    heap: Heap<'a>,
    name: &str,
    regex: &GoRegex,
    text: &'a str,
    args: &[Val<'a>],
) -> Result<Val<'a>> {
    heap.budget.spend(text.len() as u64 / 4)?;
    let found = |range| Val::String(text.get(range).unwrap_or_default());
    match (name, args) {
        ("matches", _) => Ok(Val::Bool(regex.matches(text, heap.budget)?)),
        ("find", _) => Ok(regex.find(text, heap.budget)?.map_or(Val::String(""), found)),
        (_, [_, _]) => all(heap, regex.find_iter(text, heap.budget), found),
        (_, [_, _, most]) => {
            let Val::Int(most) = loose(*most) else { return Err(EvalError::NoOverload) };
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            all(heap, regex.find_iter(text, heap.budget).take(most), found)
        }
        _ => Err(EvalError::NoOverload),
    }
}

/// The value that the original takes for an argument where the pattern is constant: it looks into optionals,
/// and takes the name of a type for a text.
pub(crate) fn loose(value: Val<'_>) -> Val<'_> {
    match value {
        Val::Optional(Some(inner)) => loose(*inner),
        Val::Type(name) => Val::String(name),
        value => value,
    }
}

fn all<'a>(
    heap: Heap<'a>,
    found: impl Iterator<Item = std::result::Result<Range<usize>, Exhausted>>,
    text: impl Fn(Range<usize>) -> Val<'a>,
) -> Result<Val<'a>> {
    let mut items = Vec::new();
    for range in found {
        heap.budget.spend(1)?;
        heap.push(&mut items, text(range?))?;
    }
    heap.list(&items)
}
