//! Quantities of resources, as Kubernetes reads and computes them.

use std::cmp::Ordering;

use super::{Opaque, Table, semver};
use crate::{
    eval::{EvalError, Result, failed},
    heap::Heap,
    value::Val,
};

/// A decimal number.
///
/// The original holds small ones as 64-bit integers with a scale and others as decimals of any
/// size; some of its answers depend on which. Of those others we keep 38 digits.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    digits: i128,
    /// The power of ten that `digits` count.
    scale: i32,
    small: bool,
}

/// How many digits always fit.
const DIGITS: usize = 38;

/// The smallest part of a quantity, as a power of ten.
const NANO: i32 = -9;

impl Quantity {
    fn int(value: i64) -> Self {
        Self { digits: value.into(), scale: 0, small: true }
    }

    pub(super) fn is_zero(self) -> bool {
        self.digits == 0
    }

    pub(super) fn compare(self, other: Self) -> Ordering {
        let sign = self.digits.signum();
        sign.cmp(&other.digits.signum()).then_with(|| {
            let order = magnitude(self).cmp(&magnitude(other));
            if sign < 0 { order.reverse() } else { order }
        })
    }

    fn as_int(self) -> Option<i64> {
        if !self.small || self.scale < 0 {
            return None;
        }
        let factor = 10_i64.checked_pow(self.scale.unsigned_abs())?;
        i64::try_from(self.digits).ok()?.checked_mul(factor)
    }

    #[expect(clippy::cast_precision_loss, reason = "what the function gives")]
    fn as_float(self) -> f64 {
        let power = format!("1e{}", self.scale).parse().unwrap_or(f64::INFINITY);
        if self.digits == 0 { 0.0 } else { self.digits as f64 * power }
    }

    fn add(self, other: Self) -> Self {
        if other.digits == 0 && (self.small || !other.small) {
            return self;
        }
        if self.digits == 0 && self.small && other.small {
            return other;
        }
        let (high, low) = if self.scale > other.scale { (self, other) } else { (other, self) };
        let gap = high.scale.abs_diff(low.scale);
        let aligned = 10_i128.checked_pow(gap).and_then(|factor| high.digits.checked_mul(factor));
        match aligned.and_then(|aligned| aligned.checked_add(low.digits)) {
            Some(digits) => {
                let fits = |digits: i128| i64::try_from(digits).is_ok();
                let small = self.small && other.small && aligned.is_some_and(fits) && fits(digits);
                Self { digits, scale: low.scale, small }
            }
            // Too far apart for the smaller one to count.
            None => Self { small: false, ..high },
        }
    }

    fn negated(self) -> Self {
        Self { digits: -self.digits, ..self }
    }
}

/// How large, as the place of the first digit and all digits, filled up.
fn magnitude(of: Quantity) -> (i64, u128) {
    let digits = of.digits.unsigned_abs();
    if digits == 0 {
        return (i64::MIN, 0);
    }
    let length = digits.ilog10();
    let fill = 38_u32.saturating_sub(length);
    let filled = digits.saturating_mul(10_u128.pow(fill));
    (i64::from(of.scale) + i64::from(length), filled)
}

pub(super) const FUNCTIONS: Table = &[
    ("quantity", |heap, args| match read(heap, args)? {
        Ok(quantity) => heap.opaque(Opaque::Quantity(quantity)),
        Err(error) => failed(error),
    }),
    ("isQuantity", |heap, args| Ok(Val::Bool(read(heap, args)?.is_ok()))),
    ("isInteger", |_, args| Ok(Val::Bool(one(args)?.as_int().is_some()))),
    ("asInteger", |_, args| match one(args)?.as_int() {
        Some(value) => Ok(Val::Int(value)),
        None => failed("cannot convert value to integer"),
    }),
    ("asApproximateFloat", |_, args| Ok(Val::Double(one(args)?.as_float()))),
    ("sign", |_, args| Ok(Val::Int(i64::try_from(one(args)?.digits.signum()).unwrap_or(0)))),
    ("isGreaterThan", |_, args| compare(args).map(|order| Val::Bool(order.is_gt()))),
    ("isLessThan", |_, args| compare(args).map(|order| Val::Bool(order.is_lt()))),
    ("compareTo", |_, args| compare(args).map(|order| Val::Int(order as i64))),
    ("add", |heap, args| {
        let (a, b) = two(args)?;
        heap.opaque(Opaque::Quantity(a.add(b)))
    }),
    ("sub", |heap, args| {
        let (a, b) = two(args)?;
        heap.opaque(Opaque::Quantity(a.add(b.negated())))
    }),
];

fn one(args: &[Val<'_>]) -> Result<Quantity> {
    match args {
        [Val::Opaque(Opaque::Quantity(quantity))] => Ok(*quantity),
        _ => Err(EvalError::NoOverload),
    }
}

fn two(args: &[Val<'_>]) -> Result<(Quantity, Quantity)> {
    match args {
        [a, Val::Int(b)] => Ok((one(&[*a])?, Quantity::int(*b))),
        [a, b] => Ok((one(&[*a])?, one(&[*b])?)),
        _ => Err(EvalError::NoOverload),
    }
}

/// Versions are compared by the same functions.
fn compare(args: &[Val<'_>]) -> Result<Ordering> {
    match args {
        [Val::Opaque(Opaque::Quantity(a)), Val::Opaque(Opaque::Quantity(b))] => Ok(a.compare(*b)),
        [Val::Opaque(Opaque::Semver(a)), Val::Opaque(Opaque::Semver(b))] => {
            Ok(semver::Semver::compare(a, b))
        }
        _ => Err(EvalError::NoOverload),
    }
}

fn read(heap: Heap<'_>, args: &[Val<'_>]) -> Result<std::result::Result<Quantity, String>> {
    let [Val::String(text)] = args else { return Err(EvalError::NoOverload) };
    heap.budget.spend(text.len() as u64 / 16)?;
    Ok(parse(text).map_err(|error| error.to_string()))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum ParseError {
    #[error(
        "quantities must match the regular expression \
         '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    #[error("unable to parse numeric part of quantity")]
    Number,
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// What a suffix multiplies by.
enum Suffix {
    Ten(i32),
    Two(u32),
}

fn suffix(text: &str) -> Option<Suffix> {
    Some(match text {
        "" => Suffix::Ten(0),
        "n" => Suffix::Ten(-9),
        "u" => Suffix::Ten(-6),
        "m" => Suffix::Ten(-3),
        "k" => Suffix::Ten(3),
        "M" => Suffix::Ten(6),
        "G" => Suffix::Ten(9),
        "T" => Suffix::Ten(12),
        "P" => Suffix::Ten(15),
        "E" => Suffix::Ten(18),
        "Ki" => Suffix::Two(10),
        "Mi" => Suffix::Two(20),
        "Gi" => Suffix::Two(30),
        "Ti" => Suffix::Two(40),
        "Pi" => Suffix::Two(50),
        "Ei" => Suffix::Two(60),
        _ => {
            let exponent = text.strip_prefix(['e', 'E'])?;
            // Beyond this the original counts around.
            Suffix::Ten(exponent.parse::<i32>().ok().filter(|power| power.abs() < 1 << 24)?)
        }
    })
}

fn parse(text: &str) -> std::result::Result<Quantity, ParseError> {
    if text.is_empty() {
        return Err(ParseError::Format);
    }
    let negative = text.starts_with('-');
    let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let rest = rest.trim_start_matches('0');
    if rest.is_empty() {
        return Ok(Quantity::int(0));
    }
    let (whole, rest) = rest.split_at_checked(digits(rest)).ok_or(ParseError::Format)?;
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at_checked(digits(rest)).ok_or(ParseError::Format)?,
        None => ("", rest),
    };
    let letters = rest.bytes().take_while(|byte| b"eEinumkKMGTP".contains(byte)).count();
    let after = rest.get(letters..).unwrap_or_default();
    let after = after.strip_prefix(['-', '+']).unwrap_or(after);
    if digits(after) < after.len() {
        return Err(ParseError::Format);
    }
    let suffix = suffix(rest).ok_or(ParseError::Suffix)?;
    // The original drops all zeros of a number that has no others.
    let whole = if whole.is_empty() { "0" } else { whole };
    let places = i32::try_from(fraction.len()).map_err(|_| ParseError::Number)?;
    let length = i32::try_from(whole.len() + fraction.len()).map_err(|_| ParseError::Number)?;
    let (power, binary, room) = match suffix {
        Suffix::Ten(power) => (power, 0, 18 - length),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_possible_wrap
        )]
        Suffix::Two(power) if fraction.is_empty() => {
            (0, power, 15 - whole.len() as i32 - (power as f32 * 3.0 / 10.0) as i32 - 1)
        }
        Suffix::Two(power) => (0, power, -1),
    };
    let sign = if negative { -1 } else { 1 };
    if room >= 0 && power - places >= NANO {
        let value = format!("{whole}{fraction}").parse::<i64>().map_err(|_| ParseError::Number)?;
        if let Some(value) = value.checked_mul(1_i64.checked_shl(binary).unwrap_or(i64::MAX)) {
            return Ok(Quantity {
                digits: i128::from(value) * sign,
                scale: power - places,
                small: true,
            });
        }
    }
    let mut value = large(whole, fraction, power, binary);
    value.digits *= sign;
    Ok(value)
}

/// A number that is not small, rounded up to a whole number of the smallest part.
fn large(whole: &str, fraction: &str, power: i32, binary: u32) -> Quantity {
    let all = format!("{whole}{fraction}");
    let all = all.trim_start_matches('0');
    let kept = all.get(..DIGITS).unwrap_or(all);
    let dropped = i32::try_from(all.len() - kept.len()).unwrap_or(i32::MAX);
    let mut rest = all.get(kept.len()..).unwrap_or_default().bytes().any(|digit| digit != b'0');
    let mut digits = kept.parse::<i128>().unwrap_or(0);
    let places = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
    let mut scale = power.saturating_sub(places).saturating_add(dropped);
    let factor = 1_i128 << binary;
    while digits.checked_mul(factor).is_none() {
        rest |= digits % 10 != 0;
        digits /= 10;
        scale += 1;
    }
    digits *= factor;
    while scale < NANO && (digits != 0 || rest) {
        rest |= digits % 10 != 0;
        digits /= 10;
        scale += 1;
        if digits == 0 {
            scale = NANO;
        }
    }
    if rest {
        digits = digits.saturating_add(1);
    }
    while scale > NANO
        && let Some(more) = digits.checked_mul(10)
    {
        digits = more;
        scale -= 1;
    }
    let value = Quantity { digits, scale, small: false };
    let most = Quantity::int(i64::MAX);
    if binary > 0 && value.compare(most).is_gt() {
        return Quantity { small: false, ..most };
    }
    value
}
