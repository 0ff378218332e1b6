//! Sprig's numbers: integers, floats, decimal arithmetic, sequences.

mod decimal;

pub(crate) use cast::{to_float, to_int};
use decimal::Decimal;
use modgate_value::gofloat;

use crate::{
    cx::{Cx, Fault, Result},
    funcs::{Args, Function, Ty, builtin},
    number::{IntError, parse_int},
    val::{ListKind, Val},
};

mod cast;

use Ty::{Any, Float, Int};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::variadic("add", &[Any], |_, args| {
        Ok(Val::Int64(args.all().iter().map(to_int).fold(0, i64::wrapping_add)))
    }),
    Function::new("add1", &[Any], |_, args| Ok(Val::Int64(to_int(args.get(0)).wrapping_add(1)))),
    Function::new("add1f", &[Any], |cx, args| {
        decimals(cx, args.get(0), &[Val::Int(1)], |a, b| Ok(a.add(&b)))
    }),
    Function::variadic("addf", &[Any], |cx, args| {
        decimals(cx, &Val::Float(0.0), args.all(), |a, b| Ok(a.add(&b)))
    }),
    Function::new("atoi", &[Ty::Text], |_, args| {
        let text = args.str(0);
        Ok(Val::Int(match parse_int(&text, 10) {
            Ok(value) => value,
            Err(IntError::Syntax) => 0,
            // strconv returns the nearest integer beside its error.
            Err(IntError::Range) if text.starts_with('-') => i64::MIN,
            Err(IntError::Range) => i64::MAX,
        }))
    }),
    Function::variadic("biggest", &[Any, Any], |_, args| Ok(extreme(args, i64::max))),
    Function::new("ceil", &[Any], |_, args| Ok(Val::Float(to_float(args.get(0)).ceil()))),
    Function::new("div", &[Any, Any], |_, args| {
        let divisor = nonzero(args.get(1))?;
        Ok(Val::Int64(to_int(args.get(0)).wrapping_div(divisor)))
    }),
    Function::variadic("divf", &[Any, Any], |cx, args| {
        decimals(cx, args.get(0), args.rest(1), |a, b| {
            a.div(&b).ok_or_else(|| Fault::new("decimal division by 0"))
        })
    }),
    Function::new("float64", &[Any], |_, args| Ok(Val::Float(to_float(args.get(0))))),
    Function::new("floor", &[Any], |_, args| Ok(Val::Float(to_float(args.get(0)).floor()))),
    Function::new("int", &[Any], |_, args| Ok(Val::Int(to_int(args.get(0))))),
    Function::new("int64", &[Any], |_, args| Ok(Val::Int64(to_int(args.get(0))))),
    Function::variadic("max", &[Any, Any], |_, args| Ok(extreme(args, i64::max))),
    Function::variadic("maxf", &[Any, Any], |_, args| Ok(extreme_float(args, max_float))),
    Function::variadic("min", &[Any, Any], |_, args| Ok(extreme(args, i64::min))),
    Function::variadic("minf", &[Any, Any], |_, args| Ok(extreme_float(args, min_float))),
    Function::new("mod", &[Any, Any], |_, args| {
        let divisor = nonzero(args.get(1))?;
        Ok(Val::Int64(to_int(args.get(0)).wrapping_rem(divisor)))
    }),
    Function::variadic("mul", &[Any, Any], |_, args| {
        Ok(Val::Int64(args.all().iter().map(to_int).fold(1, i64::wrapping_mul)))
    }),
    Function::variadic("mulf", &[Any, Any], |cx, args| {
        decimals(cx, args.get(0), args.rest(1), |a, b| Ok(a.mul(&b)))
    }),
    Function::variadic("round", &[Any, Int, Float], round),
    Function::variadic("seq", &[Int], seq),
    Function::new("sub", &[Any, Any], |_, args| {
        Ok(Val::Int64(to_int(args.get(0)).wrapping_sub(to_int(args.get(1)))))
    }),
    Function::variadic("subf", &[Any, Any], |cx, args| {
        decimals(cx, args.get(0), args.rest(1), |a, b| Ok(a.sub(&b)))
    }),
    Function::new("toDecimal", &[Any], |cx, args| {
        let text = builtin::sprint(cx, std::slice::from_ref(args.get(0)))?;
        let text = String::from_utf8_lossy(&text);
        Ok(Val::Int64(parse_int(&text, 8).unwrap_or(0)))
    }),
    Function::new("until", &[Int], |cx, args| {
        let count = args.int(0);
        ints(cx, until(cx, 0, count, if count < 0 { -1 } else { 1 })?)
    }),
    Function::new("untilStep", &[Int, Int, Int], |cx, args| {
        ints(cx, until(cx, args.int(0), args.int(1), args.int(2))?)
    }),
];

fn nonzero(value: &Val<'_>) -> Result<i64> {
    match to_int(value) {
        0 => Err(Fault::new("runtime error: integer divide by zero")),
        divisor => Ok(divisor),
    }
}

fn extreme<'a>(args: Args<'_, 'a>, choose: fn(i64, i64) -> i64) -> Val<'a> {
    Val::Int64(args.all().iter().map(to_int).reduce(choose).unwrap_or(0))
}

fn extreme_float<'a>(args: Args<'_, 'a>, choose: fn(f64, f64) -> f64) -> Val<'a> {
    Val::Float(args.all().iter().map(to_float).reduce(choose).unwrap_or(0.0))
}

/// `math.Max`: not-a-number wins, and 0 beats -0.
fn max_float(a: f64, b: f64) -> f64 {
    if a.is_infinite() && a > 0.0 || b.is_infinite() && b > 0.0 {
        return f64::INFINITY;
    }
    if a.is_nan() || b.is_nan() {
        return f64::NAN;
    }
    if a == 0.0 && b == 0.0 {
        return if a.is_sign_negative() { b } else { a };
    }
    if a > b { a } else { b }
}

/// `math.Min`
fn min_float(a: f64, b: f64) -> f64 {
    -max_float(-a, -b)
}

/// Folds decimal arithmetic over floats; the result is a float again.
fn decimals<'a>(
    cx: &mut Cx<'a>,
    first: &Val<'a>,
    others: &[Val<'a>],
    operation: fn(Decimal, Decimal) -> Result<Decimal>,
) -> Result<Val<'a>> {
    let decimal = |value: &Val<'a>| {
        let float = to_float(value);
        Decimal::of_float(float).ok_or_else(|| {
            let shown = gofloat::general(float);
            Fault::new(format!("Cannot create a Decimal from {shown}"))
        })
    };
    let mut result = decimal(first)?;
    for other in others {
        // Every operand can add some hundred digits.
        cx.spend(16 + result.digits() / 8)?;
        cx.allocate(result.digits())?;
        result = operation(result, decimal(other)?)?;
    }
    Ok(Val::Float(result.to_float()))
}

/// `round value places [from]`: the fraction from which to round up is half unless given.
fn round<'a>(_: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let value = to_float(args.get(0));
    let places = args.int(1);
    let from = if args.all().len() > 2 { args.float(2) } else { 0.5 };
    let magnitude = i32::try_from(places.unsigned_abs()).unwrap_or(i32::MAX);
    let power = 10f64.powi(magnitude);
    let power = if places < 0 { power.recip() } else { power };
    let scaled = power * value;
    let rounded = if scaled.fract() >= from { scaled.ceil() } else { scaled.floor() };
    Ok(Val::Float(rounded / power))
}

/// `start`, `start + step`, … short of `stop`; charged for before it is built.
fn until(cx: &Cx<'_>, start: i64, stop: i64, step: i64) -> Result<Vec<i64>> {
    let towards = if stop < start { step < 0 } else { step > 0 };
    if !towards || start == stop {
        return Ok(Vec::new());
    }
    let distance = stop.abs_diff(start);
    let count = distance.div_ceil(step.unsigned_abs());
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    cx.spend(count)?;
    cx.allocate(count.saturating_mul(size_of::<i64>()))?;
    let mut numbers = Vec::with_capacity(count);
    let mut next = Some(start);
    while let Some(number) = next
        && numbers.len() < count
    {
        numbers.push(number);
        next = number.checked_add(step);
    }
    Ok(numbers)
}

fn ints<'a>(cx: &Cx<'a>, numbers: Vec<i64>) -> Result<Val<'a>> {
    cx.list(numbers.into_iter().map(Val::Int).collect(), ListKind::Ints)
}

/// `seq`, as the shell's: a text of numbers separated by spaces.
fn seq<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let numbers: Vec<i64> = (0..args.all().len()).map(|index| args.int(index)).collect();
    let (start, step, end) = match *numbers.as_slice() {
        [end] => (1, if end < 1 { -1 } else { 1 }, end),
        [start, end] => (start, if end < start { -1 } else { 1 }, end),
        [start, step, end] => (start, step, end),
        _ => return cx.text(String::new()),
    };
    if numbers.len() == 3 && end < start && step > 0 {
        return cx.text(String::new());
    }
    let past = if end < start { end.wrapping_sub(1) } else { end.wrapping_add(1) };
    let mut out = String::new();
    for number in until(cx, start, past, step)? {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(&number.to_string());
    }
    cx.text(out)
}
