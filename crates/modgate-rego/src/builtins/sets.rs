//! Sets.

use super::{Builtin, Context, Outcome, operand};
use crate::value::{Set, Value};

pub(super) const BUILTINS: &[Builtin] = &[
    Builtin::new("and", "(x: set[any], y: set[any]) => z: set[any]", |context, args| {
        intersect(context, operand::set(args, 0)?, operand::set(args, 1)?)
    }),
    Builtin::new("or", "(x: set[any], y: set[any]) => z: set[any]", or),
    Builtin::new("set_diff", "(set[any], set[any]) => set[any]", |context, args| {
        difference(context, operand::set(args, 0)?, operand::set(args, 1)?)
    })
    .deprecated(),
    Builtin::new("intersection", "(xs: set[set[any]]) => y: set[any]", intersection),
    Builtin::new("union", "(xs: set[set[any]]) => y: set[any]", union),
];

/// The elements of `a` that are in `b`.
fn intersect<'a>(context: &Context<'a>, a: Set<'a>, b: Set<'a>) -> Outcome<'a> {
    context.spend(a.len() + b.len())?;
    // The elements of the smaller one, as it spells them.
    let (few, many) = if b.len() < a.len() { (b, a) } else { (a, b) };
    let kept: Vec<_> = few.iter().filter(|item| many.contains(*item)).collect();
    Ok(Some(context.heap.set_from_sorted(&kept)?))
}

/// The elements of `a` that are not in `b`.
pub(super) fn difference<'a>(context: &Context<'a>, a: Set<'a>, b: Set<'a>) -> Outcome<'a> {
    context.spend(a.len() + b.len())?;
    let kept: Vec<_> = a.iter().filter(|item| !b.contains(*item)).collect();
    Ok(Some(context.heap.set_from_sorted(&kept)?))
}

fn or<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let (a, b) = (operand::set(args, 0)?, operand::set(args, 1)?);
    if a.is_empty() {
        return Ok(args.get(1).copied());
    }
    if b.is_empty() {
        return Ok(args.first().copied());
    }
    let both = a.iter().chain(b.iter()).collect();
    Ok(Some(context.heap.set(both)?))
}

fn intersection<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let mut common: Option<Vec<Value<'a>>> = None;
    for item in operand::set(args, 0)? {
        let set = operand::set(&[item], 0)?;
        let kept: Vec<_> = match &common {
            None => set.iter().collect(),
            Some(known) => known.iter().copied().filter(|one| set.contains(*one)).collect(),
        };
        context.spend(kept.len() + set.len())?;
        common = Some(kept);
    }
    Ok(Some(context.heap.set_from_sorted(&common.unwrap_or_default())?))
}

fn union<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let mut all = Vec::new();
    for item in operand::set(args, 0)? {
        let set = operand::set(&[item], 0)?;
        context.allocate(set.len().saturating_mul(size_of::<Value<'_>>()))?;
        all.extend(set.iter());
    }
    Ok(Some(context.heap.set(all)?))
}
