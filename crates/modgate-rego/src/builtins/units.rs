//! Amounts with units.

use num_bigint::{BigInt, Sign};

use super::{Builtin, BuiltinError, Context, Outcome, operand};
use crate::{
    number::{Computed, Num},
    value::Value,
};

pub(super) const BUILTINS: &[Builtin] = &[
    Builtin::new("units.parse", "(x: string) => y: number", parse),
    Builtin::new("units.parse_bytes", "(x: string) => y: number", parse_bytes),
];

/// More digits in an exponent than these are refused, as by OPA.
const EXPONENT_DIGITS: usize = 6;

fn failed(name: &str, problem: &str) -> BuiltinError {
    BuiltinError::failed(format!("{name}: {problem}"))
}

/// The number in front and the unit behind it; `None` if the exponent is too long.
fn number_and_unit(text: &str) -> Option<(&str, &str)> {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let sign = |at: usize| matches!(bytes.get(at), Some(b'+' | b'-'));
    let mut end = 0;
    while let Some(byte) = bytes.get(end) {
        match byte {
            b'0'..=b'9' | b'.' | b'+' | b'-' => end += 1,
            b'e' | b'E' if digit(end + 1) || sign(end + 1) => {
                let first = end + 1 + usize::from(sign(end + 1));
                end = first;
                while digit(end) {
                    end += 1;
                }
                if end - first > EXPONENT_DIGITS {
                    return None;
                }
            }
            _ => break,
        }
    }
    text.split_at_checked(end)
}

/// Whether Go's `big.Rat` and `big.Float` read it: an optional sign, digits with at most one
/// point, an optional exponent.
fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && digits(exponent)
        && !exponent.is_empty()
}

/// Amounts as Kubernetes writes them: `10Mi`, `500m`. What is not whole has ten decimals.
fn parse<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    const NAME: &str = "units.parse";
    let text = operand::string(args, 0)?;
    context.scan(text)?;
    let text = text.replace('"', "");
    if text.contains(' ') {
        return Err(failed(NAME, "spaces not allowed in resource strings"));
    }
    let (number, unit) =
        number_and_unit(&text).ok_or_else(|| failed(NAME, "exponent too large"))?;
    if number.is_empty() {
        return Err(failed(NAME, "no amount provided"));
    }
    // The first letter tells `m` from `M`; the case of the rest does not matter.
    let unit = match unit.chars().next() {
        Some(first) => {
            let (first, rest) = unit.split_at(first.len_utf8());
            format!("{first}{}", rest.to_lowercase())
        }
        None => String::new(),
    };
    let factor: i64 = match unit.as_str() {
        // A thousandth, by which is divided below.
        "m" | "" => 1,
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        "g" | "G" => 1_000_000_000,
        "t" | "T" => 1_000_000_000_000,
        "p" | "P" => 1_000_000_000_000_000,
        "e" | "E" => 1_000_000_000_000_000_000,
        "ki" | "Ki" => 1 << 10,
        "mi" | "Mi" => 1 << 20,
        "gi" | "Gi" => 1 << 30,
        "ti" | "Ti" => 1 << 40,
        "pi" | "Pi" => 1 << 50,
        "ei" | "Ei" => 1 << 60,
        _ => return Err(failed(NAME, &format!("unit {unit} not recognized"))),
    };
    if !is_number(number) {
        return Err(failed(NAME, "could not parse amount to a number"));
    }
    let (mut numerator, mut denominator) = Num::Literal(number).to_fraction()?;
    numerator *= factor;
    if unit == "m" {
        // OPA multiplies by the float nearest to a thousandth.
        numerator *= MILLI_NUMERATOR;
        denominator <<= MILLI_SHIFT;
    }
    if &numerator % &denominator == BigInt::ZERO {
        return context.computed(&Computed::integer(&(numerator / denominator))?);
    }
    let text = ten_decimals(&numerator, &denominator);
    Ok(Some(context.heap.number(Num::from_text(&text))?))
}

/// `0.001` as a 64-bit float is this over two to the power of [`MILLI_SHIFT`].
const MILLI_NUMERATOR: i64 = 1_152_921_504_606_847;
const MILLI_SHIFT: u32 = 60;

/// Rounded to ten digits after the point, halves away from zero.
fn ten_decimals(numerator: &BigInt, denominator: &BigInt) -> String {
    const SCALE: u64 = 10_000_000_000;
    let doubled = numerator.magnitude() * SCALE * 2u8 + denominator.magnitude();
    let rounded = doubled / (denominator.magnitude() * 2u8);
    let digits = format!("{rounded:0>11}");
    let (whole, fraction) = digits.split_at(digits.len() - 10);
    let sign = if numerator.sign() == Sign::Minus { "-" } else { "" };
    format!("{sign}{whole}.{fraction}")
}

/// Sizes of memory: `1GiB`, `10MB`; a whole number of bytes, rounded down.
fn parse_bytes<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    const NAME: &str = "units.parse_bytes";
    let text = operand::string(args, 0)?;
    context.scan(text)?;
    let text = text.to_lowercase().replace('"', "");
    if text.contains(' ') {
        return Err(failed(NAME, "spaces not allowed in resource strings"));
    }
    let (number, unit) =
        number_and_unit(&text).ok_or_else(|| failed(NAME, "exponent too large"))?;
    if number.is_empty() {
        return Err(failed(NAME, "no byte amount provided"));
    }
    let factor: i64 = match unit {
        "" => 1,
        "kb" | "k" => 1_000,
        "mb" | "m" => 1_000_000,
        "gb" | "g" => 1_000_000_000,
        "tb" | "t" => 1_000_000_000_000,
        "pb" | "p" => 1_000_000_000_000_000,
        "eb" | "e" => 1_000_000_000_000_000_000,
        "kib" | "ki" => 1 << 10,
        "mib" | "mi" => 1 << 20,
        "gib" | "gi" => 1 << 30,
        "tib" | "ti" => 1 << 40,
        "pib" | "pi" => 1 << 50,
        "eib" | "ei" => 1 << 60,
        _ => return Err(failed(NAME, &format!("byte unit {unit} not recognized"))),
    };
    if !is_number(number) {
        return Err(failed(NAME, "could not parse byte amount to a number"));
    }
    let bytes = Num::Literal(number).truncated_product(factor)?;
    context.computed(&Computed::integer(&bytes)?)
}
