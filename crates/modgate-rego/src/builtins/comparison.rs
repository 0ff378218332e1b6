//! `==`, `<`, `in` and their kin.

use super::{Builtin, Context, Outcome, operand, yes_or_no};
use crate::value::{Heap, Limit, Value, View};

/// A comparison that the evaluator makes itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// That of a built-in, by its name.
    pub(crate) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "eq" | "equal" | "assign" => Self::Equal,
            "neq" => Self::NotEqual,
            "lt" => Self::Less,
            "lte" => Self::LessOrEqual,
            "gt" => Self::Greater,
            "gte" => Self::GreaterOrEqual,
            _ => return None,
        })
    }

    /// Whether it holds, which is paid for as a call.
    ///
    /// # Errors
    ///
    /// [`Limit::Exhausted`]
    #[inline]
    pub(crate) fn holds<'a>(
        self,
        heap: Heap<'a>,
        a: Value<'a>,
        b: Value<'a>,
    ) -> Result<bool, Limit> {
        if !a.is_composite() && !b.is_composite() {
            heap.budget().spend(1)?;
        } else {
            heap.charge_walk([if a.cost() < b.cost() { a } else { b }])?;
        }
        Ok(match self {
            Self::Equal => a == b,
            Self::NotEqual => a != b,
            Self::Less => a < b,
            Self::LessOrEqual => a <= b,
            Self::Greater => a > b,
            Self::GreaterOrEqual => a >= b,
        })
    }
}

pub(super) const BUILTINS: &[Builtin] = &[
    Builtin::new("eq", "(any, any) => boolean", |context, args| {
        compare(context, args, Comparison::Equal)
    }),
    Builtin::new("equal", "(x: any, y: any) => result: boolean", |context, args| {
        compare(context, args, Comparison::Equal)
    }),
    Builtin::new("assign", "(any, any) => boolean", |context, args| {
        compare(context, args, Comparison::Equal)
    }),
    Builtin::new("neq", "(x: any, y: any) => result: boolean", |context, args| {
        compare(context, args, Comparison::NotEqual)
    }),
    Builtin::new("lt", "(x: any, y: any) => result: boolean", |context, args| {
        compare(context, args, Comparison::Less)
    }),
    Builtin::new("lte", "(x: any, y: any) => result: boolean", |context, args| {
        compare(context, args, Comparison::LessOrEqual)
    }),
    Builtin::new("gt", "(x: any, y: any) => result: boolean", |context, args| {
        compare(context, args, Comparison::Greater)
    }),
    Builtin::new("gte", "(x: any, y: any) => result: boolean", |context, args| {
        compare(context, args, Comparison::GreaterOrEqual)
    }),
    Builtin::new("internal.member_2", "(any, any) => boolean", member),
    Builtin::new("internal.member_3", "(any, any, any) => boolean", member_with_key),
];

fn compare<'a>(
    context: &mut Context<'a>,
    args: &[Value<'a>],
    comparison: Comparison,
) -> Outcome<'a> {
    let (a, b) = (operand::any(args, 0), operand::any(args, 1));
    yes_or_no(comparison.holds(context.heap, a, b)?)
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
