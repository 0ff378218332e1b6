//! Regular expressions.

use modgate_value::regex::GoRegex;

use super::Table;
use crate::{
    eval::{EvalError, Result, failed},
    heap::Heap,
    value::Val,
};

pub(super) const FUNCTIONS: Table = &[
    ("matches", |heap, args| pattern(heap, "matches", args)),
    ("find", |heap, args| pattern(heap, "find", args)),
    ("findAll", |heap, args| pattern(heap, "findAll", args)),
];

/// The largest compiled pattern of an evaluation.
const MAX_COMPILED: usize = 1 << 20;

fn pattern<'a>(heap: Heap<'a>, name: &str, args: &[Val<'a>]) -> Result<Val<'a>> {
    let [Val::String(text), Val::String(pattern), ..] = args else {
        return Err(EvalError::NoOverload);
    };
    // Compiling takes far longer than reading.
    heap.budget.spend(pattern.len() as u64 * 16)?;
    match GoRegex::with_size_limit(pattern, MAX_COMPILED) {
        Ok(regex) => with_pattern(heap, name, &regex, text, args),
        Err(error) if name == "matches" => failed(error.to_string()),
        Err(error) => failed(format!("Illegal regex: {error}")),
    }
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
        ("matches", _) => Ok(Val::Bool(regex.is_match(text))),
        ("find", _) => Ok(regex.find(text).map_or(Val::String(""), found)),
        (_, [_, _]) => all(heap, regex.find_iter(text).map(found)),
        (_, [_, _, most]) => {
            let Val::Int(most) = loose(*most) else { return Err(EvalError::NoOverload) };
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            all(heap, regex.find_iter(text).map(found).take(most))
        }
        _ => Err(EvalError::NoOverload),
    }
}

/// What the original takes an argument for where the pattern is constant: it looks into optionals,
/// and takes the name of a type for a text.
pub(crate) fn loose(value: Val<'_>) -> Val<'_> {
    match value {
        Val::Optional(Some(inner)) => loose(*inner),
        Val::Type(name) => Val::String(name),
        value => value,
    }
}

fn all<'a>(heap: Heap<'a>, found: impl Iterator<Item = Val<'a>>) -> Result<Val<'a>> {
    let mut items = Vec::new();
    for item in found {
        heap.budget.allocate(size_of::<Val<'_>>())?;
        items.push(item);
    }
    heap.list(&items)
}
