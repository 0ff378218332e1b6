//! Numbers as Rego has them: of any size, spelled as their author wrote them, computed with as
//! OPA 1.17 does, the version of Gatekeeper's current release. Later ones compute on integers exactly.
//!
//! OPA keeps a number as its JSON text and computes with binary floats of 64 mantissa bits
//! (`math/big.Float`), whose shortest text is the result. So `0.1 + 0.2` is `0.3`, `1 / 3` is
//! `0.33333333333333333334` and `1e20 + 1` is `1e20`, written `100000000000000000000`. [`Num`] is the text, borrowed,
//! with the two usual cases unpacked; [`Computed`] is the result of arithmetic.
//!
//! # Limits
//!
//! Arithmetic refuses numbers of more than [`MAX_DIGITS`] digits written out; comparing,
//! hashing and printing cost no more than the text is long, whatever the exponent.
//!
//! # Differences from OPA
//!
//! OPA 1.17 compares `10.0` and `1` as equal (`v1/ast/compare.go` trims the zeros before the
//! point as well); here numbers compare by value.

mod float;

use std::{
    borrow::Cow,
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
};

use modgate_value::gofloat;
use num_bigint::{BigInt, BigUint, Sign};

use float::Float;

/// How many decimal digits a number may have, written without exponent, to be computed with.
pub(crate) const MAX_DIGITS: usize = 10_000;

/// As many bits as [`MAX_DIGITS`] digits have, of which each is some 3.32 bits.
const MAX_BITS: u64 = MAX_DIGITS as u64 * 10 / 3;

/// A number, borrowed.
///
/// Equality, order and hash are by mathematical value.
#[derive(Clone, Copy)]
pub enum Num<'a> {
    /// An integer in its canonical text.
    Int(i64),
    /// A finite float whose text is [`gofloat::json`].
    Float(f64),
    /// Any other JSON number, as written.
    Literal(&'a str),
}

/// The result of arithmetic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Computed {
    /// An integer of 64 bits.
    Int(i64),
    /// The text of any other number.
    Text(String),
}

/// Why arithmetic has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArithmeticError {
    /// `x / 0`
    #[error("divide by zero")]
    DivideByZero,
    /// `x % 0`
    #[error("modulo by zero")]
    ModuloByZero,
    /// `1.5 % 2`
    #[error("modulo on floating-point number")]
    ModuloOfFraction,
    /// An operand or result beyond [`MAX_DIGITS`].
    #[error("number has more than {MAX_DIGITS} digits")]
    TooManyDigits,
}

impl<'a> Num<'a> {
    /// The number that `text`, a JSON number, spells.
    pub fn from_text(text: &'a str) -> Self {
        match canonical_int(text) {
            Some(int) => Self::Int(int),
            None => Self::Literal(text),
        }
    }

    /// The text, as written or as computed.
    pub fn text(self) -> Cow<'a, str> {
        match self {
            Self::Int(int) => Cow::Owned(int.to_string()),
            Self::Float(float) => Cow::Owned(gofloat::json(float)),
            Self::Literal(text) => Cow::Borrowed(text),
        }
    }

    /// The 64-bit integer, if the number is written as one: `1.0` and `1e3` are not.
    ///
    /// The integer, as OPA reads indexes, lengths and positions (`Number.Int`).
    #[inline]
    pub fn as_int(self) -> Option<i64> {
        match self {
            Self::Int(int) => Some(int),
            Self::Float(_) | Self::Literal(_) => self.text().parse().ok(),
        }
    }

    /// The nearest 64-bit float; infinite beyond its range.
    pub fn as_f64(self) -> f64 {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "the nearest float is wanted")]
            Self::Int(int) => int as f64,
            Self::Float(float) => float,
            Self::Literal(text) => text.parse().unwrap_or(f64::NAN),
        }
    }

    /// The exact integer, if the number is one however it is written; `None` if it has a fraction.
    ///
    /// # Errors
    ///
    /// [`ArithmeticError::TooManyDigits`]
    pub(crate) fn to_integer(self) -> Result<Option<BigInt>, ArithmeticError> {
        let text = match self {
            Self::Int(int) => return Ok(Some(int.into())),
            Self::Float(_) | Self::Literal(_) => self.text(),
        };
        Decimal::of(&text).to_integer()
    }

    /// The integer, if the number is one after rounding to 64 bits of mantissa; `None` if it has a
    /// fraction then.
    ///
    /// # Errors
    ///
    /// [`ArithmeticError::TooManyDigits`]
    pub(crate) fn to_rounded_integer(self) -> Result<Option<BigInt>, ArithmeticError> {
        if let Self::Int(int) = self {
            return Ok(Some(int.into()));
        }
        let float = self.to_float()?;
        Ok(float.is_integer().then(|| float.truncate()))
    }

    fn to_float(self) -> Result<Float, ArithmeticError> {
        match self {
            Self::Int(int) => Ok(Float::from_integer(&int.into(), float::PRECISION)),
            Self::Float(_) | Self::Literal(_) => Decimal::of(&self.text()).to_float(),
        }
    }

    /// Both, if they are small integers, whatever their spelling: OPA computes with those directly,
    /// which shows where one is `-0`.
    fn both_small(self, other: Num<'_>) -> Option<(i64, i64)> {
        let small = |number: Num<'_>| number.as_int().filter(|int| (-999..1000).contains(int));
        Some((small(self)?, small(other)?))
    }

    /// `self + other`
    ///
    /// # Errors
    ///
    /// [`ArithmeticError::TooManyDigits`], as the other operations.
    pub fn plus(self, other: Num<'_>) -> Result<Computed, ArithmeticError> {
        if let (Self::Int(a), Num::Int(b)) = (self, other)
            && let Some(sum) = a.checked_add(b)
        {
            return Ok(Computed::Int(sum));
        }
        if let Some((a, b)) = self.both_small(other) {
            return Ok(Computed::Int(a + b));
        }
        Computed::float(&self.to_float()?.add(&other.to_float()?))
    }

    /// `self - other`
    ///
    /// # Errors
    ///
    /// [`ArithmeticError::TooManyDigits`]
    pub(crate) fn minus(self, other: Num<'_>) -> Result<Computed, ArithmeticError> {
        if let (Self::Int(a), Num::Int(b)) = (self, other)
            && let Some(difference) = a.checked_sub(b)
        {
            return Ok(Computed::Int(difference));
        }
        if let Some((a, b)) = self.both_small(other) {
            return Ok(Computed::Int(a - b));
        }
        Computed::float(&self.to_float()?.sub(&other.to_float()?))
    }

    /// `self * other`
    ///
    /// # Errors
    ///
    /// [`ArithmeticError::TooManyDigits`]
    pub fn times(self, other: Num<'_>) -> Result<Computed, ArithmeticError> {
        if let (Self::Int(a), Num::Int(b)) = (self, other)
            && let Some(product) = a.checked_mul(b)
            // Zero has the sign of the float's product unless both are small.
            && (product != 0 || self.both_small(other).is_some())
        {
            return Ok(Computed::Int(product));
        }
        if let Some((a, b)) = self.both_small(other) {
            return Ok(Computed::Int(a * b));
        }
        Computed::float(&self.to_float()?.mul(&other.to_float()?))
    }

    /// `self / other`
    ///
    /// # Errors
    ///
    /// [`ArithmeticError::DivideByZero`], [`ArithmeticError::TooManyDigits`]
    pub fn over(self, other: Num<'_>) -> Result<Computed, ArithmeticError> {
        // An exact quotient of two integers of 64 bits is what the float gives as well, but for
        // the sign of zero.
        if let (Self::Int(a), Num::Int(b)) = (self, other)
            && (a != 0 || b > 0)
            && let (Some(0), Some(quotient)) = (a.checked_rem(b), a.checked_div(b))
        {
            return Ok(Computed::Int(quotient));
        }
        let divisor = other.to_float()?;
        if divisor.is_zero() {
            return Err(ArithmeticError::DivideByZero);
        }
        Computed::float(&self.to_float()?.div(&divisor))
    }

    /// `self % other`, with the sign of `self`.
    ///
    /// # Errors
    ///
    /// [`ArithmeticError::ModuloByZero`], [`ArithmeticError::ModuloOfFraction`],
    /// [`ArithmeticError::TooManyDigits`]
    pub(crate) fn modulo(self, other: Num<'_>) -> Result<Computed, ArithmeticError> {
        if let (Self::Int(a), Num::Int(b)) = (self, other)
            && let Some(remainder) = a.checked_rem(b)
        {
            return Ok(Computed::Int(remainder));
        }
        let both = self.to_rounded_integer()?.zip(other.to_rounded_integer()?);
        let (a, b) = both.ok_or(ArithmeticError::ModuloOfFraction)?;
        // OPA looks at the low 64 bits of the divisor.
        if b.magnitude().iter_u64_digits().next().is_none_or(|low| low == 0) {
            return Err(ArithmeticError::ModuloByZero);
        }
        Computed::integer(&(a % b))
    }

    /// The magnitude.
    ///
    /// # Errors
    ///
    /// [`ArithmeticError::TooManyDigits`], as the roundings.
    pub fn abs(self) -> Result<Computed, ArithmeticError> {
        if let Self::Int(int) = self
            && let Some(magnitude) = int.checked_abs()
        {
            return Ok(Computed::Int(magnitude));
        }
        Computed::float(&self.to_float()?.abs())
    }

    /// The nearest integer, halves away from zero.
    ///
    /// # Errors
    ///
    /// [`ArithmeticError::TooManyDigits`]
    pub fn round(self) -> Result<Computed, ArithmeticError> {
        if let Self::Int(int) = self {
            return Ok(Computed::Int(int));
        }
        let value = self.to_float()?;
        let half = Float::half(value.is_negative());
        Computed::integer(&value.add(&half).truncate())
    }

    /// The integer above, as OPA finds it (`v1/topdown/arithmetic.go`): 1 for fractions in -1..0.
    ///
    /// # Errors
    ///
    /// [`ArithmeticError::TooManyDigits`]
    pub fn ceil(self) -> Result<Computed, ArithmeticError> {
        if let Self::Int(int) = self {
            return Ok(Computed::Int(int));
        }
        let value = self.to_float()?;
        let whole = value.truncate();
        if whole.sign() == Sign::Minus || value.is_integer() {
            return Computed::integer(&whole);
        }
        Computed::integer(&(whole + 1))
    }

    /// The integer below, as OPA finds it (`v1/topdown/arithmetic.go`): 0 for fractions in -1..0.
    ///
    /// # Errors
    ///
    /// [`ArithmeticError::TooManyDigits`]
    pub fn floor(self) -> Result<Computed, ArithmeticError> {
        if let Self::Int(int) = self {
            return Ok(Computed::Int(int));
        }
        let value = self.to_float()?;
        let whole = value.truncate();
        if whole.sign() != Sign::Minus || value.is_integer() {
            return Computed::integer(&whole);
        }
        Computed::integer(&(whole - 1))
    }

    /// The integer part, rounding towards zero after rounding to 64 bits of mantissa.
    ///
    /// # Errors
    ///
    /// [`ArithmeticError::TooManyDigits`]
    pub fn truncate(self) -> Result<BigInt, ArithmeticError> {
        Ok(self.to_float()?.truncate())
    }

    /// The number exactly, as numerator and denominator.
    ///
    /// # Errors
    ///
    /// [`ArithmeticError::TooManyDigits`]
    pub(crate) fn to_fraction(self) -> Result<(BigInt, BigInt), ArithmeticError> {
        let text = self.text();
        let decimal = Decimal::of(&text);
        let (digits, exponent) = decimal.scaled()?;
        let digits = BigInt::from_biguint(decimal.sign(), digits);
        let exponent = i32::try_from(exponent).map_err(|_| ArithmeticError::TooManyDigits)?;
        let power = BigInt::from(10).pow(exponent.unsigned_abs());
        Ok(if exponent >= 0 { (digits * power, 1.into()) } else { (digits, power) })
    }

    /// The integer part of the product with `factor`, computed with 64 bits of mantissa.
    ///
    /// # Errors
    ///
    /// [`ArithmeticError::TooManyDigits`]
    pub(crate) fn truncated_product(self, factor: i64) -> Result<BigInt, ArithmeticError> {
        let factor = Float::from_integer(&factor.into(), float::PRECISION);
        Ok(self.to_float()?.mul(&factor).truncate())
    }
}

impl Computed {
    /// An exact integer.
    ///
    /// # Errors
    ///
    /// [`ArithmeticError::TooManyDigits`]
    pub fn integer(value: &BigInt) -> Result<Self, ArithmeticError> {
        if let Ok(int) = i64::try_from(value) {
            return Ok(Self::Int(int));
        }
        if value.bits() > MAX_BITS {
            return Err(ArithmeticError::TooManyDigits);
        }
        Ok(Self::Text(value.to_string()))
    }

    fn float(value: &Float) -> Result<Self, ArithmeticError> {
        let text = value.text()?;
        Ok(canonical_int(&text).map_or(Self::Text(text), Self::Int))
    }

    /// The number, to compute on with.
    pub fn as_num(&self) -> Num<'_> {
        match self {
            Self::Int(int) => Num::Int(*int),
            Self::Text(text) => Num::from_text(text),
        }
    }
}

/// The sum: exact if it has 64 bits, otherwise of the floats, from the first.
///
/// # Errors
///
/// [`ArithmeticError::TooManyDigits`]
pub(crate) fn sum(numbers: &[Num<'_>]) -> Result<Computed, ArithmeticError> {
    let small = |total: i64, number: &Num<'_>| match number {
        Num::Int(int) => total.checked_add(*int),
        _ => None,
    };
    match numbers.iter().try_fold(0, small) {
        Some(total) => Ok(Computed::Int(total)),
        None => fold(numbers, 0, Float::add),
    }
}

/// The product: exact if it has 64 bits, otherwise of the floats, from the first.
///
/// # Errors
///
/// [`ArithmeticError::TooManyDigits`]
pub(crate) fn product(numbers: &[Num<'_>]) -> Result<Computed, ArithmeticError> {
    let small = |total: i64, number: &Num<'_>| match number {
        Num::Int(int) => total.checked_mul(*int),
        _ => None,
    };
    match numbers.iter().try_fold(1, small) {
        Some(total) => Ok(Computed::Int(total)),
        None => fold(numbers, 1, Float::mul),
    }
}

fn fold(
    numbers: &[Num<'_>],
    initial: i64,
    float: impl Fn(&Float, &Float) -> Float,
) -> Result<Computed, ArithmeticError> {
    let mut total = Float::from_integer(&initial.into(), float::PRECISION);
    for number in numbers {
        total = float(&total, &number.to_float()?);
        total.check()?;
    }
    Computed::float(&total)
}

/// The integer whose canonical text this is.
fn canonical_int(text: &str) -> Option<i64> {
    let int: i64 = text.parse().ok()?;
    let digits = text.strip_prefix('-').unwrap_or(text);
    let canonical = text == "0" || digits.starts_with(|c: char| ('1'..='9').contains(&c));
    canonical.then_some(int)
}

impl fmt::Display for Num<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(int) => int.fmt(f),
            Self::Float(float) => f.write_str(&gofloat::json(*float)),
            Self::Literal(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for Num<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl PartialEq for Num<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Num<'_> {}

impl PartialOrd for Num<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Num<'_> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a.cmp(b),
            (Self::Float(a), Self::Float(b)) => a.partial_cmp(b).unwrap_or(Ordering::Equal),
            _ => Decimal::of(&self.text()).cmp(&Decimal::of(&other.text())),
        }
    }
}

impl Hash for Num<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Int(int) => int.hash(state),
            Self::Float(_) | Self::Literal(_) => {
                let text = self.text();
                let decimal = Decimal::of(&text);
                match decimal.to_i64() {
                    Some(int) => int.hash(state),
                    None => {
                        decimal.negative.hash(state);
                        decimal.point.hash(state);
                        decimal.digits().for_each(|digit| digit.hash(state));
                    }
                }
            }
        }
    }
}

/// `±0.d1d2d3… × 10^point`, digits borrowed from the text, without leading or trailing zeros.
///
/// Comparing in this form costs no more than the digits written, whatever the exponent.
struct Decimal<'t> {
    negative: bool,
    point: i64,
    whole: &'t str,
    fraction: &'t str,
}

impl<'t> Decimal<'t> {
    fn of(text: &'t str) -> Self {
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        // An exponent beyond 64 bits saturates: such numbers are still ordered by sign, and by
        // digits among themselves.
        let exponent = exponent.parse::<i64>().unwrap_or(if exponent.starts_with('-') {
            i64::MIN / 2
        } else {
            i64::MAX / 2
        });
        let fraction = fraction.trim_end_matches('0');
        let all = whole.trim_start_matches('0');
        let length = |text: &str| i64::try_from(text.len()).unwrap_or(i64::MAX / 4);
        if all.is_empty() {
            let significant = fraction.trim_start_matches('0');
            let point = exponent.saturating_sub(length(fraction) - length(significant));
            let point = if significant.is_empty() { 0 } else { point };
            Self { negative, point, whole: "", fraction: significant }
        } else {
            let whole = if fraction.is_empty() { all.trim_end_matches('0') } else { all };
            Self { negative, point: exponent.saturating_add(length(all)), whole, fraction }
        }
    }

    fn digits(&self) -> impl Iterator<Item = u8> + 't {
        self.whole.bytes().chain(self.fraction.bytes())
    }

    fn is_zero(&self) -> bool {
        self.whole.is_empty() && self.fraction.is_empty()
    }

    fn width(&self) -> usize {
        self.whole.len() + self.fraction.len()
    }

    fn to_i64(&self) -> Option<i64> {
        if self.is_zero() {
            return Some(0);
        }
        let width = i64::try_from(self.width()).ok()?;
        if self.point < width || self.point > 19 {
            return None;
        }
        let zeros = usize::try_from(self.point - width).ok()?;
        let mut value: i64 = 0;
        for digit in self.digits().chain(std::iter::repeat_n(b'0', zeros)) {
            // Built negative, because i64::MIN has no positive counterpart.
            value = value.checked_mul(10)?.checked_sub(i64::from(digit.saturating_sub(b'0')))?;
        }
        if self.negative { Some(value) } else { value.checked_neg() }
    }

    /// The digits as an integer, to be multiplied by ten to the second part.
    fn scaled(&self) -> Result<(BigUint, i64), ArithmeticError> {
        let width = self.width();
        if width > MAX_DIGITS || self.point.abs() > MAX_DIGITS as i64 {
            return Err(ArithmeticError::TooManyDigits);
        }
        let digits: Vec<u8> = self.digits().collect();
        let magnitude = BigUint::parse_bytes(&digits, 10).unwrap_or_default();
        Ok((magnitude, self.point - width as i64))
    }

    fn sign(&self) -> Sign {
        if self.negative { Sign::Minus } else { Sign::Plus }
    }

    fn to_integer(&self) -> Result<Option<BigInt>, ArithmeticError> {
        if self.is_zero() {
            return Ok(Some(BigInt::ZERO));
        }
        if self.point < i64::try_from(self.width()).unwrap_or(i64::MAX) {
            return Ok(None);
        }
        let (digits, exponent) = self.scaled()?;
        let exponent = u32::try_from(exponent).map_err(|_| ArithmeticError::TooManyDigits)?;
        let magnitude = digits * BigUint::from(10u8).pow(exponent);
        Ok(Some(BigInt::from_biguint(self.sign(), magnitude)))
    }

    fn to_float(&self) -> Result<Float, ArithmeticError> {
        let (digits, exponent) = self.scaled()?;
        Ok(Float::from_decimal(self.negative, &digits, exponent))
    }
}

impl PartialEq for Decimal<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Decimal<'_> {}

impl PartialOrd for Decimal<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let sign = |d: &Self| match (d.is_zero(), d.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        };
        let magnitude =
            || self.point.cmp(&other.point).then_with(|| self.digits().cmp(other.digits()));
        match (sign(self), sign(other)) {
            (a, b) if a != b => a.cmp(&b),
            (0, _) => Ordering::Equal,
            (1, _) => magnitude(),
            _ => magnitude().reverse(),
        }
    }
}

#[cfg(test)]
mod tests;
