//! Arithmetic, bits and ranges of numbers.

use num_bigint::{BigInt, Sign};

use super::{Builtin, BuiltinError, Context, Outcome, operand, sets};
use crate::{
    number::{ArithmeticError, Computed, MAX_DIGITS, Num},
    value::Value,
};

pub(super) const BUILTINS: &[Builtin] = &[
    Builtin::new("plus", "(x: number, y: number) => z: number", |context, args| {
        binary(context, args, |a, b| a.plus(b))
    }),
    Builtin::new(
        "minus",
        "(x: any<number, set[any]>, y: any<number, set[any]>) => z: any<number, set[any]>",
        minus,
    ),
    Builtin::new("mul", "(x: number, y: number) => z: number", |context, args| {
        binary(context, args, |a, b| a.times(b))
    }),
    Builtin::new("div", "(x: number, y: number) => z: number", |context, args| {
        binary(context, args, |a, b| a.over(b))
    }),
    Builtin::new("rem", "(x: number, y: number) => z: number", |context, args| {
        binary(context, args, |a, b| a.modulo(b))
    }),
    Builtin::new("abs", "(x: number) => y: number", |context, args| unary(context, args, Num::abs)),
    Builtin::new("round", "(x: number) => y: number", |context, args| {
        unary(context, args, Num::round)
    }),
    Builtin::new("ceil", "(x: number) => y: number", |context, args| {
        unary(context, args, Num::ceil)
    }),
    Builtin::new("floor", "(x: number) => y: number", |context, args| {
        unary(context, args, Num::floor)
    }),
    Builtin::new("bits.and", "(x: number, y: number) => z: number", |context, args| {
        bits(context, args, |a, b| Ok(a & b))
    }),
    Builtin::new("bits.or", "(x: number, y: number) => z: number", |context, args| {
        bits(context, args, |a, b| Ok(a | b))
    }),
    Builtin::new("bits.xor", "(x: number, y: number) => z: number", |context, args| {
        bits(context, args, |a, b| Ok(a ^ b))
    }),
    Builtin::new("bits.lsh", "(x: number, s: number) => z: number", |context, args| {
        bits(context, args, shift_left)
    }),
    Builtin::new("bits.rsh", "(x: number, s: number) => z: number", |context, args| {
        bits(context, args, shift_right)
    }),
    Builtin::new("bits.negate", "(x: number) => z: number", negate),
    Builtin::new("numbers.range", "(a: number, b: number) => range: array[number]", range),
    Builtin::new(
        "numbers.range_step",
        "(a: number, b: number, step: number) => range: array[number]",
        range_step,
    ),
];

fn unary<'a>(
    context: &mut Context<'a>,
    args: &[Value<'a>],
    compute: impl Fn(Num<'a>) -> Result<Computed, ArithmeticError>,
) -> Outcome<'a> {
    context.computed(&compute(operand::number(args, 0)?)?)
}

fn binary<'a>(
    context: &mut Context<'a>,
    args: &[Value<'a>],
    compute: impl Fn(Num<'a>, Num<'a>) -> Result<Computed, ArithmeticError>,
) -> Outcome<'a> {
    context.computed(&compute(operand::number(args, 0)?, operand::number(args, 1)?)?)
}

/// Of two numbers or two sets.
fn minus<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let (a, b) = (operand::any(args, 0), operand::any(args, 1));
    if let (Some(a), Some(b)) = (a.as_number(), b.as_number()) {
        return context.computed(&a.minus(b)?);
    }
    if let (Some(a), Some(b)) = (a.as_set(), b.as_set()) {
        return sets::difference(context, a, b);
    }
    Err(if a.as_number().is_none() && a.as_set().is_none() {
        operand::wrong_type(0, a, &["number", "set"])
    } else if b.as_number().is_some() {
        operand::wrong_type(1, b, &["set"])
    } else {
        operand::wrong_type(1, b, &["number"])
    })
}

fn bits<'a>(
    context: &mut Context<'a>,
    args: &[Value<'a>],
    compute: impl Fn(BigInt, BigInt) -> Result<BigInt, BuiltinError>,
) -> Outcome<'a> {
    let result = compute(operand::integer(args, 0)?, operand::integer(args, 1)?)?;
    context.computed(&Computed::integer(&result)?)
}

fn negate<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    context.computed(&Computed::integer(&!operand::integer(args, 0)?)?)
}

fn shift(by: &BigInt) -> Result<u64, BuiltinError> {
    if by.sign() == Sign::Minus {
        let problem = "must be an unsigned integer number but got a negative integer";
        return Err(operand::wrong(1, problem));
    }
    Ok(u64::try_from(by).unwrap_or(u64::MAX))
}

fn shift_left(value: BigInt, by: BigInt) -> Result<BigInt, BuiltinError> {
    let by = shift(&by)?;
    if value.bits().saturating_add(by) > MAX_DIGITS as u64 * 4 {
        return Err(ArithmeticError::TooManyDigits.into());
    }
    Ok(value << by)
}

fn shift_right(value: BigInt, by: BigInt) -> Result<BigInt, BuiltinError> {
    // Shifting everything out leaves the sign; no more need be said than its width.
    let by = shift(&by)?.min(value.bits() + 1);
    Ok(value >> by)
}

fn range<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let (from, to) = (operand::integer(args, 0)?, operand::integer(args, 1)?);
    generate(context, from, to, BigInt::from(1))
}

fn range_step<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let (from, to) = (operand::integer(args, 0)?, operand::integer(args, 1)?);
    let step = operand::integer(args, 2)?;
    if step.sign() != Sign::Plus {
        let problem = "numbers.range_step: step must be a positive integer";
        return Err(BuiltinError::failed(problem));
    }
    generate(context, from, to, step)
}

/// From `from` to `to`, up or down, both included when the step meets them.
fn generate<'a>(context: &mut Context<'a>, from: BigInt, to: BigInt, step: BigInt) -> Outcome<'a> {
    let upwards = from <= to;
    let distance = if upwards { &to - &from } else { &from - &to };
    let count = usize::try_from(distance / &step).unwrap_or(usize::MAX).saturating_add(1);
    context.spend(count)?;
    // Once for the list being built and, in the heap, once for the array.
    context.allocate(count.saturating_mul(size_of::<Value<'_>>()))?;
    let mut items = Vec::with_capacity(count);
    if let (Ok(from), Ok(step)) = (i64::try_from(&from), i64::try_from(&step)) {
        let step = if upwards { step } else { -step };
        let mut next = Some(from);
        while let (Some(value), true) = (next, items.len() < count) {
            items.push(Value::int(value));
            next = value.checked_add(step);
        }
    }
    if items.len() < count {
        items.clear();
        let mut value = from;
        for _ in 0..count {
            items.push(context.heap.number(Computed::integer(&value)?.as_num())?);
            if upwards { value += &step } else { value -= &step }
        }
    }
    context.array(&items)
}
