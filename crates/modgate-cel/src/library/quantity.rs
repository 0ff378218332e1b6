//! Quantities of resources, as Kubernetes reads and computes them.

use std::{cmp::Ordering, fmt};

use super::{Opaque, Table, semver};
use crate::{
    error::{EvalError, Result, failed},
    heap::Heap,
    value::Val,
};

/// A decimal number: some digits and the power of ten they count.
///
/// The original holds small ones as 64-bit integers and others as decimals of any size; some of its
/// answers depend on which, and so do we.
#[derive(Debug, Clone, Copy)]
pub struct Quantity<'a> {
    number: Number<'a>,
    /// Whether it is a sum or a difference. To the original these are of another type where one
    /// stands on the right of `==`, which is an error then.
    pub(super) computed: bool,
}

#[derive(Debug, Clone, Copy)]
enum Number<'a> {
    Small {
        value: i64,
        scale: i32,
    },
    Large {
        negative: bool,
        /// ASCII, without zeros in front; none for zero.
        digits: &'a [u8],
        scale: i32,
    },
}

use Number::{Large, Small};

/// The smallest part of a quantity, as a power of ten.
const NANO: i32 = -9;

/// As digits without zeros at the end, and a power of ten: `15e-1`.
impl fmt::Display for Quantity<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut buffer = Buffer::default();
        let Decimal { negative, digits, scale } = self.decimal(&mut buffer);
        let kept = trimmed(digits);
        if kept.is_empty() {
            return f.write_str("0");
        }
        let sign = if negative { "-" } else { "" };
        let zeros = i64::try_from(digits.len() - kept.len()).unwrap_or(0);
        let text = str::from_utf8(kept).unwrap_or_default();
        write!(f, "{sign}{text}e{}", i64::from(scale) + zeros)
    }
}

/// The digits of a small number.
type Buffer = [u8; 20];

/// Any quantity, in the form of a large one.
struct Decimal<'b> {
    negative: bool,
    digits: &'b [u8],
    scale: i32,
}

impl Decimal<'_> {
    /// The place of the first digit.
    fn height(&self) -> i64 {
        if trimmed(self.digits).is_empty() {
            return i64::MIN;
        }
        i64::from(self.scale) + i64::try_from(self.digits.len()).unwrap_or(i64::MAX)
    }
}

/// Without zeros at the end.
fn trimmed(digits: &[u8]) -> &[u8] {
    let end = digits.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1);
    digits.get(..end).unwrap_or_default()
}

impl<'a> Quantity<'a> {
    fn int(value: i64) -> Self {
        Self::new(Small { value, scale: 0 })
    }

    fn new(number: Number<'a>) -> Self {
        Self { number, computed: false }
    }

    fn sign(self) -> i64 {
        match self.number {
            Small { value, .. } => value.signum(),
            Large { digits: [], .. } => 0,
            Large { negative, .. } => {
                if negative {
                    -1
                } else {
                    1
                }
            }
        }
    }

    fn decimal<'b>(&self, buffer: &'b mut Buffer) -> Decimal<'b>
    where
        'a: 'b,
    {
        match self.number {
            Large { negative, digits, scale } => Decimal { negative, digits, scale },
            Small { value, scale } => {
                let mut rest = value.unsigned_abs();
                let mut length = 0;
                for slot in buffer.iter_mut().rev() {
                    if rest == 0 {
                        break;
                    }
                    *slot = b'0' + u8::try_from(rest % 10).unwrap_or(0);
                    rest /= 10;
                    length += 1;
                }
                let digits = buffer.get(buffer.len() - length..).unwrap_or_default();
                Decimal { negative: value < 0, digits, scale }
            }
        }
    }

    pub(super) fn compare(self, other: Self) -> Ordering {
        let sign = self.sign();
        sign.cmp(&other.sign()).then_with(|| {
            let (mut left, mut right) = (Buffer::default(), Buffer::default());
            let (left, right) = (self.decimal(&mut left), other.decimal(&mut right));
            let order = left.height().cmp(&right.height());
            let order = order.then_with(|| trimmed(left.digits).cmp(trimmed(right.digits)));
            if sign < 0 { order.reverse() } else { order }
        })
    }

    /// How many bytes comparing it looks at.
    pub(super) fn length(self) -> usize {
        match self.number {
            Small { .. } => 0,
            Large { digits, .. } => digits.len(),
        }
    }

    fn as_int(self) -> Option<i64> {
        match self.number {
            Small { value, scale } => scaled(value, u32::try_from(scale).ok()?),
            Large { .. } => None,
        }
    }

    fn as_float(self) -> f64 {
        let (base, scale) = match self.number {
            #[expect(clippy::cast_precision_loss, reason = "what the function gives")]
            Small { value, scale } => (value as f64, scale),
            Large { negative, digits, scale } => {
                let text = str::from_utf8(digits).ok().filter(|text| !text.is_empty());
                let base: f64 = text.unwrap_or("0").parse().unwrap_or(f64::INFINITY);
                (if negative && base != 0.0 { -base } else { base }, scale)
            }
        };
        if scale == 0 { base } else { base * power_of_ten(scale) }
    }

    fn add(self, heap: Heap<'a>, other: Self) -> Result<Self> {
        if let Some(small) = self.small_sum(other) {
            return Ok(small);
        }
        let (mut left, mut right) = (Buffer::default(), Buffer::default());
        sum(heap, &self.decimal(&mut left), &other.decimal(&mut right))
    }

    fn sub(self, heap: Heap<'a>, other: Self) -> Result<Self> {
        // The original forgets that the smallest number has no negative, unless the sum overflows.
        let negated = match other.number {
            Small { value, scale } => Small { value: value.wrapping_neg(), scale },
            Large { negative, digits, scale } => Large { negative: !negative, digits, scale },
        };
        if let Some(small) = self.small_sum(Self::new(negated)) {
            return Ok(small);
        }
        let (mut left, mut right) = (Buffer::default(), Buffer::default());
        let right = other.decimal(&mut right);
        let right = Decimal { negative: !right.negative, ..right };
        sum(heap, &self.decimal(&mut left), &right)
    }

    /// The sum of two small numbers, if it is one.
    fn small_sum(self, other: Self) -> Option<Self> {
        let (Small { value: a, scale: from }, Small { value: b, scale: to }) =
            (self.number, other.number)
        else {
            return None;
        };
        if b == 0 {
            return Some(self);
        }
        if a == 0 {
            return Some(other);
        }
        let scale = from.min(to);
        let part = |value, own: i32| scaled(value, own.abs_diff(scale));
        let value = part(a, from)?.checked_add(part(b, to)?)?;
        Some(Self::new(Small { value, scale }))
    }
}

fn scaled(value: i64, power: u32) -> Option<i64> {
    if value == 0 { Some(0) } else { value.checked_mul(10_i64.checked_pow(power)?) }
}

/// The power of ten that Go computes, whose last digit may be wrong.
fn power_of_ten(power: i32) -> f64 {
    let exact = |power: i32| format!("1e{power}").parse().unwrap_or(f64::INFINITY);
    match power {
        309.. => f64::INFINITY,
        0..=308 => exact(power - power % 32) * exact(power % 32),
        -323..0 => exact(power - power % 32) / exact(-(power % 32)),
        _ => 0.0,
    }
}

/// `a + b`, with as many digits as that takes.
fn sum<'a>(heap: Heap<'a>, a: &Decimal<'_>, b: &Decimal<'_>) -> Result<Quantity<'a>> {
    let scale = a.scale.min(b.scale);
    let length = |of: &Decimal<'_>| of.digits.len() + of.scale.abs_diff(scale) as usize;
    let width = length(a).max(length(b)) + 1;
    heap.budget.allocate(2 * width)?;
    heap.budget.spend(width as u64)?;
    // The digit that counts ten to the power of `place`, as a number.
    let digit = |of: &Decimal<'_>, place: usize| {
        let shift = of.scale.abs_diff(scale) as usize;
        let from_end =
            place.checked_sub(shift).and_then(|place| of.digits.len().checked_sub(place + 1));
        from_end.and_then(|index| of.digits.get(index)).map_or(0, |digit| i16::from(digit - b'0'))
    };
    let magnitudes =
        a.height().cmp(&b.height()).then_with(|| trimmed(a.digits).cmp(trimmed(b.digits)));
    let (large, small) = if magnitudes.is_lt() { (b, a) } else { (a, b) };
    let factor = if a.negative == b.negative { 1 } else { -1 };
    let mut carry = 0;
    let mut out = Vec::with_capacity(width);
    for place in 0..width {
        let total = digit(large, place) + factor * digit(small, place) + carry;
        carry = total.div_euclid(10);
        out.push(b'0' + u8::try_from(total.rem_euclid(10)).unwrap_or(0));
    }
    while out.last() == Some(&b'0') {
        out.pop();
    }
    out.reverse();
    let digits = heap.arena.alloc_slice_copy(&out);
    Ok(Quantity::new(Large { negative: large.negative, digits, scale }))
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
    ("sign", |_, args| Ok(Val::Int(one(args)?.sign()))),
    ("isGreaterThan", |heap, args| compare(heap, args).map(|order| Val::Bool(order.is_gt()))),
    ("isLessThan", |heap, args| compare(heap, args).map(|order| Val::Bool(order.is_lt()))),
    ("compareTo", |heap, args| compare(heap, args).map(|order| Val::Int(order as i64))),
    ("add", |heap, args| {
        let (a, b) = two(args)?;
        computed(heap, a.add(heap, b)?)
    }),
    ("sub", |heap, args| {
        let (a, b) = two(args)?;
        computed(heap, a.sub(heap, b)?)
    }),
];

fn computed<'a>(heap: Heap<'a>, quantity: Quantity<'a>) -> Result<Val<'a>> {
    heap.opaque(Opaque::Quantity(Quantity { computed: true, ..quantity }))
}

fn one<'a>(args: &[Val<'a>]) -> Result<Quantity<'a>> {
    match args {
        [Val::Opaque(Opaque::Quantity(quantity))] => Ok(*quantity),
        _ => Err(EvalError::NoOverload),
    }
}

fn two<'a>(args: &[Val<'a>]) -> Result<(Quantity<'a>, Quantity<'a>)> {
    match args {
        [a, Val::Int(b)] => Ok((one(&[*a])?, Quantity::int(*b))),
        [a, b] => Ok((one(&[*a])?, one(&[*b])?)),
        _ => Err(EvalError::NoOverload),
    }
}

/// Versions are compared by the same functions.
fn compare(heap: Heap<'_>, args: &[Val<'_>]) -> Result<Ordering> {
    let [Val::Opaque(a), Val::Opaque(b)] = args else { return Err(EvalError::NoOverload) };
    heap.budget.spend(a.work().min(b.work()))?;
    match (a, b) {
        (Opaque::Quantity(a), Opaque::Quantity(b)) => Ok(a.compare(*b)),
        (Opaque::Semver(a), Opaque::Semver(b)) => Ok(semver::Semver::compare(a, b)),
        _ => Err(EvalError::NoOverload),
    }
}

fn read<'a>(heap: Heap<'a>, args: &[Val<'_>]) -> Result<std::result::Result<Quantity<'a>, String>> {
    let [Val::String(text)] = args else { return Err(EvalError::NoOverload) };
    heap.budget.spend(text.len() as u64 / 16)?;
    match parse(heap, text) {
        Ok(quantity) => Ok(Ok(quantity)),
        Err(ParseError::Eval(error)) => Err(error),
        Err(error) => Ok(Err(error.to_string())),
    }
}

#[derive(Debug, thiserror::Error)]
enum ParseError {
    #[error(transparent)]
    Eval(#[from] EvalError),
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

/// The factor of a suffix.
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
            // The original counts around.
            #[expect(clippy::cast_possible_truncation, reason = "as the original does")]
            Suffix::Ten(exponent.parse::<i64>().ok()? as i32)
        }
    })
}

fn parse<'a>(heap: Heap<'a>, text: &str) -> std::result::Result<Quantity<'a>, ParseError> {
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
    if room >= 0 && power.saturating_sub(places) >= NANO {
        let value = format!("{whole}{fraction}").parse::<i64>().map_err(|_| ParseError::Number)?;
        if let Some(value) = value.checked_mul(1_i64.checked_shl(binary).unwrap_or(i64::MAX)) {
            let value = if negative { -value } else { value };
            return Ok(Quantity::new(Small { value, scale: power.saturating_sub(places) }));
        }
    }
    let number = Written { whole, fraction, power, binary };
    Ok(large(heap, negative, &number)?)
}

/// A number as it is written.
struct Written<'t> {
    whole: &'t str,
    fraction: &'t str,
    /// The power of ten it is multiplied by.
    power: i32,
    /// The power of two it is multiplied by.
    binary: u32,
}

/// A number that is not small, rounded away from zero to a whole number of the smallest part.
fn large<'a>(heap: Heap<'a>, negative: bool, number: &Written<'_>) -> Result<Quantity<'a>> {
    let Written { whole, fraction, power, binary } = number;
    let written = whole.len() + fraction.len();
    heap.budget.allocate(written + 40)?;
    // From the last digit on, multiplied by the power of two.
    let mut reversed = Vec::with_capacity(written + 20);
    let mut carry = 0_u128;
    for digit in whole.bytes().chain(fraction.bytes()).rev() {
        carry += u128::from(digit - b'0') << binary;
        reversed.push(b'0' + u8::try_from(carry % 10).unwrap_or(0));
        carry /= 10;
    }
    while carry > 0 {
        reversed.push(b'0' + u8::try_from(carry % 10).unwrap_or(0));
        carry /= 10;
    }
    let places = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
    let scale = power.saturating_sub(places);
    if scale < NANO {
        let dropped = (scale.abs_diff(NANO) as usize).min(reversed.len());
        let rest = reversed.drain(..dropped).any(|digit| digit != b'0');
        if rest {
            increase(&mut reversed);
        }
    }
    while reversed.last() == Some(&b'0') {
        reversed.pop();
    }
    let zeros =
        if scale > NANO && !reversed.is_empty() { scale.abs_diff(NANO) as usize } else { 0 };
    heap.budget.allocate(reversed.len() + zeros)?;
    let digits = heap.arena.alloc_slice_fill_copy(reversed.len() + zeros, b'0');
    for (slot, digit) in digits.iter_mut().zip(reversed.iter().rev()) {
        *slot = *digit;
    }
    let scale = if digits.is_empty() { scale } else { NANO };
    let value = Quantity::new(Large { negative, digits, scale });
    let most = Quantity::new(Large { negative, digits: b"9223372036854775807", scale: 0 });
    let beyond = value.compare(most);
    let beyond = if negative { beyond.is_lt() } else { beyond.is_gt() };
    Ok(if *binary > 0 && beyond { most } else { value })
}

/// Adds one to a number of reversed digits.
fn increase(reversed: &mut Vec<u8>) {
    for digit in reversed.iter_mut() {
        if *digit < b'9' {
            *digit += 1;
            return;
        }
        *digit = b'0';
    }
    reversed.push(b'1');
}
