//! Arrays.

use super::{Builtin, Context, Outcome, operand};
use crate::value::Value;

pub(super) const BUILTINS: &[Builtin] = &[
    Builtin::new("array.concat", "(x: array[any], y: array[any]) => z: array[any]", concat),
    Builtin::new("array.flatten", "(arr: array[any]) => flattened: array[any]", flatten),
    Builtin::new(
        "array.slice",
        "(arr: array[any], start: number, stop: number) => slice: array[any]",
        slice,
    ),
    Builtin::new("array.reverse", "(arr: array[any]) => rev: array[any]", reverse),
];

fn concat<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let (a, b) = (operand::array(args, 0)?, operand::array(args, 1)?);
    if a.is_empty() {
        return Ok(args.get(1).copied());
    }
    if b.is_empty() {
        return Ok(args.first().copied());
    }
    context.spend(a.len() + b.len())?;
    let items: Vec<_> = a.iter().chain(b.iter()).collect();
    context.array(&items)
}

/// One level.
fn flatten<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let array = operand::array(args, 0)?;
    let mut items = Vec::new();
    for item in array {
        match item.as_array() {
            Some(nested) => {
                context.spend(nested.len())?;
                context.allocate(nested.len().saturating_mul(size_of::<Value<'_>>()))?;
                items.extend(nested.iter());
            }
            None => items.push(item),
        }
    }
    context.spend(array.len())?;
    context.array(&items)
}

/// From the second operand up to, but without, the third; both brought into range.
fn slice<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let array = operand::array(args, 0)?;
    let (start, stop) = (operand::int(args, 1)?, operand::int(args, 2)?);
    let clamp = |position: i64| usize::try_from(position.max(0)).unwrap_or(usize::MAX);
    let stop = clamp(stop).min(array.len());
    let start = clamp(start).min(stop);
    if start == 0 && stop == array.len() {
        return Ok(args.first().copied());
    }
    context.spend(stop - start)?;
    let items: Vec<_> = (start..stop).filter_map(|index| array.get(index)).collect();
    context.array(&items)
}

fn reverse<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let array = operand::array(args, 0)?;
    context.spend(array.len())?;
    let mut items: Vec<_> = array.iter().collect();
    items.reverse();
    context.array(&items)
}
