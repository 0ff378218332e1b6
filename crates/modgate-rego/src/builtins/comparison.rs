//! `==`, `<`, `in` and their kin, for calls by name; the evaluator compares inline.

use super::{Builtin, Context, Outcome, operand, yes_or_no};
use crate::value::{Value, View};

pub(super) const BUILTINS: &[Builtin] = &[
    Builtin::new("eq", "(any, any) => boolean", |context, args| {
        compare(context, args, |a, b| a == b)
    }),
    Builtin::new("equal", "(x: any, y: any) => result: boolean", |context, args| {
        compare(context, args, |a, b| a == b)
    }),
    Builtin::new("assign", "(any, any) => boolean", |context, args| {
        compare(context, args, |a, b| a == b)
    }),
    Builtin::new("neq", "(x: any, y: any) => result: boolean", |context, args| {
        compare(context, args, |a, b| a != b)
    }),
    Builtin::new("lt", "(x: any, y: any) => result: boolean", |context, args| {
        compare(context, args, |a, b| a < b)
    }),
    Builtin::new("lte", "(x: any, y: any) => result: boolean", |context, args| {
        compare(context, args, |a, b| a <= b)
    }),
    Builtin::new("gt", "(x: any, y: any) => result: boolean", |context, args| {
        compare(context, args, |a, b| a > b)
    }),
    Builtin::new("gte", "(x: any, y: any) => result: boolean", |context, args| {
        compare(context, args, |a, b| a >= b)
    }),
    Builtin::new("internal.member_2", "(any, any) => boolean", member),
    Builtin::new("internal.member_3", "(any, any, any) => boolean", member_with_key),
];

fn compare<'a>(
    context: &mut Context<'a>,
    args: &[Value<'a>],
    holds: impl Fn(Value<'a>, Value<'a>) -> bool,
) -> Outcome<'a> {
    let (a, b) = (operand::any(args, 0), operand::any(args, 1));
    if !a.is_composite() && !b.is_composite() {
        context.spend(1)?;
        return yes_or_no(holds(a, b));
    }
    context.heap.charge_walk([if a.cost() < b.cost() { a } else { b }])?;
    yes_or_no(holds(a, b))
}

/// `x in xs`
fn member<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let (value, collection) = (operand::any(args, 0), operand::any(args, 1));
    context.heap.charge_walk([collection])?;
    yes_or_no(match collection.view() {
        View::Set(set) => set.contains(value),
        View::Array(array) => array.iter().any(|item| item == value),
        View::Object(object) => object.iter().any(|(_, item)| item == value),
        _ => false,
    })
}

/// `k, v in xs`
fn member_with_key<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let (key, value) = (operand::any(args, 0), operand::any(args, 1));
    context.heap.charge_walk([value])?;
    yes_or_no(operand::any(args, 2).get(key) == Some(value))
}
