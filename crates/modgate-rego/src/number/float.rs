//! A binary float with a mantissa of any width, as Go's `math/big.Float` computes and prints it.
//!
//! Only what Rego's arithmetic needs: round to nearest even, no infinities, and the shortest
//! decimal text that reads back as the same float.

use num_bigint::{BigInt, BigUint, Sign};

use super::{ArithmeticError, MAX_BITS, MAX_DIGITS};

/// Mantissa bits of a number read from text, and of results computed from such numbers.
pub(super) const PRECISION: u64 = 64;

/// `±mantissa × 2^exponent`, where the mantissa has at most `precision` bits. Zero has a sign.
#[derive(Debug, Clone)]
pub(super) struct Float {
    negative: bool,
    mantissa: BigUint,
    exponent: i64,
    precision: u64,
}

impl Float {
    pub(super) fn from_integer(value: &BigInt, precision: u64) -> Self {
        let negative = value.sign() == Sign::Minus;
        Self { negative, mantissa: value.magnitude().clone(), exponent: 0, precision }
            .rounded(false)
    }

    /// `±digits × 10^exponent`
    pub(super) fn from_decimal(negative: bool, digits: &BigUint, exponent: i64) -> Self {
        let power = BigUint::from(10u8)
            .pow(u32::try_from(exponent.unsigned_abs()).unwrap_or(MAX_DIGITS as u32));
        let exact =
            |negative, mantissa| Self { negative, mantissa, exponent: 0, precision: PRECISION };
        if exponent >= 0 {
            exact(negative, digits * power).rounded(false)
        } else {
            // Neither side is rounded before the quotient is.
            exact(negative, digits.clone()).div(&exact(false, power))
        }
    }

    /// `±0.5`
    pub(super) fn half(negative: bool) -> Self {
        Self { negative, mantissa: 1u8.into(), exponent: -1, precision: PRECISION }
    }

    pub(super) fn is_zero(&self) -> bool {
        self.mantissa.bits() == 0
    }

    pub(super) fn is_negative(&self) -> bool {
        self.negative
    }

    pub(super) fn is_integer(&self) -> bool {
        self.exponent >= 0
            || self
                .mantissa
                .trailing_zeros()
                .is_none_or(|zeros| zeros >= self.exponent.unsigned_abs())
    }

    pub(super) fn abs(&self) -> Self {
        Self { negative: false, ..self.clone() }
    }

    fn negated(&self) -> Self {
        Self { negative: !self.negative, ..self.clone() }
    }

    pub(super) fn add(&self, other: &Self) -> Self {
        let exponent = self.exponent.min(other.exponent);
        let align = |value: &Self| {
            let sign = if value.negative { Sign::Minus } else { Sign::Plus };
            let shift = (value.exponent - exponent).unsigned_abs();
            BigInt::from_biguint(sign, &value.mantissa << shift)
        };
        let sum = align(self) + align(other);
        // Only two negative zeros make a negative zero.
        let negative = match sum.sign() {
            Sign::Minus => true,
            Sign::NoSign => self.negative && other.negative,
            Sign::Plus => false,
        };
        let precision = self.precision.max(other.precision);
        Self { negative, mantissa: sum.magnitude().clone(), exponent, precision }.rounded(false)
    }

    pub(super) fn sub(&self, other: &Self) -> Self {
        self.add(&other.negated())
    }

    pub(super) fn mul(&self, other: &Self) -> Self {
        Self {
            negative: self.negative != other.negative,
            mantissa: &self.mantissa * &other.mantissa,
            exponent: self.exponent + other.exponent,
            precision: self.precision.max(other.precision),
        }
        .rounded(false)
    }

    /// `self / other`; zero when `other` is.
    pub(super) fn div(&self, other: &Self) -> Self {
        let negative = self.negative != other.negative;
        let precision = self.precision.max(other.precision);
        let divisor = &other.mantissa;
        if divisor.bits() == 0 {
            return Self { negative, mantissa: BigUint::ZERO, exponent: 0, precision };
        }
        // Enough bits that the quotient has two more than it keeps.
        let shift = (precision + 2 + divisor.bits()).saturating_sub(self.mantissa.bits());
        let dividend = &self.mantissa << shift;
        let mantissa = &dividend / divisor;
        let sticky = &mantissa * divisor != dividend;
        let shift = i64::try_from(shift).unwrap_or(i64::MAX);
        let exponent = self.exponent - other.exponent - shift;
        Self { negative, mantissa, exponent, precision }.rounded(sticky)
    }

    /// The integer part, towards zero.
    pub(super) fn truncate(&self) -> BigInt {
        let shift = self.exponent.unsigned_abs();
        let magnitude =
            if self.exponent >= 0 { &self.mantissa << shift } else { &self.mantissa >> shift };
        let sign = if self.negative { Sign::Minus } else { Sign::Plus };
        BigInt::from_biguint(sign, magnitude)
    }

    /// Rounded to `precision` bits, to nearest even; `sticky` tells that the exact value lies a
    /// little further from zero than the mantissa.
    fn rounded(mut self, sticky: bool) -> Self {
        let bits = self.mantissa.bits();
        if bits <= self.precision {
            return self;
        }
        let excess = bits - self.precision;
        let half = self.mantissa.bit(excess - 1);
        let below =
            sticky || self.mantissa.trailing_zeros().is_some_and(|zeros| zeros < excess - 1);
        let mut kept = &self.mantissa >> excess;
        if half && (below || kept.bit(0)) {
            kept += 1u8;
        }
        self.exponent += i64::try_from(excess).unwrap_or(i64::MAX);
        self.mantissa = kept;
        self
    }

    /// Refuses numbers too large, or too close to zero, to be written out.
    pub(super) fn check(&self) -> Result<(), ArithmeticError> {
        let size = i64::try_from(self.mantissa.bits()).unwrap_or(i64::MAX) + self.exponent;
        if !self.is_zero() && size.unsigned_abs() > MAX_BITS {
            return Err(ArithmeticError::TooManyDigits);
        }
        Ok(())
    }

    /// `Text('f', -1)` of an integer and `Text('g', -1)` of anything else.
    pub(super) fn text(&self) -> Result<String, ArithmeticError> {
        if self.is_zero() {
            return Ok(if self.negative { "-0" } else { "0" }.to_owned());
        }
        self.check()?;
        let (digits, point) = self.shortest();
        let mut out = String::new();
        if self.is_negative() {
            out.push('-');
        }
        if self.is_integer() {
            plain(&digits, point, &mut out);
        } else if !(-4..6).contains(&(point - 1)) {
            scientific(&digits, point, &mut out);
        } else {
            plain(&digits, point, &mut out);
        }
        Ok(out)
    }

    /// The fewest decimal digits that tell this float from its neighbours: `0.d1d2… × 10^point`.
    fn shortest(&self) -> (String, i64) {
        // Scaled so that the lowest bit is half a unit in the last place, as Go's roundShortest.
        let magnitude = &self.mantissa;
        let target = self.precision + 1;
        let bits = magnitude.bits();
        let (scaled, exponent) = if bits <= target {
            let shift = target - bits;
            (magnitude << shift, self.exponent - i64::try_from(shift).unwrap_or(0))
        } else {
            let shift = bits - target;
            (magnitude >> shift, self.exponent + i64::try_from(shift).unwrap_or(0))
        };
        let inclusive = !scaled.bit(1);
        let (exact, point) = decimal(&scaled, exponent);
        let (lower, lower_point) = decimal(&(&scaled - 1u8), exponent);
        let (upper, upper_point) = decimal(&(&scaled + 1u8), exponent);
        let at = |digits: &[u8], offset: i64, index: usize| {
            let index = i64::try_from(index).unwrap_or(i64::MAX) - offset;
            usize::try_from(index).ok().and_then(|i| digits.get(i)).copied().unwrap_or(b'0')
        };
        let last = |digits: &[u8], offset: i64, index: usize| {
            i64::try_from(index).unwrap_or(i64::MAX) - offset + 1
                >= i64::try_from(digits.len()).unwrap_or(i64::MAX)
        };
        let (exact, lower, upper) = (exact.into_bytes(), lower.into_bytes(), upper.into_bytes());
        let (low_offset, high_offset) = (point - lower_point, point - upper_point);
        for (index, digit) in exact.iter().copied().enumerate() {
            let low = at(&lower, low_offset, index);
            let high = at(&upper, high_offset, index);
            let ok_down = low != digit || inclusive && last(&lower, low_offset, index);
            let ok_up = digit != high
                && (inclusive || digit + 1 < high || !last(&upper, high_offset, index));
            let kept = exact.get(..=index).unwrap_or_default();
            let rest = exact.get(index + 1..).unwrap_or_default();
            match (ok_down, ok_up) {
                (true, true) => {
                    let half_up = match rest {
                        [b'5'] => digit % 2 == 1,
                        [first, ..] => *first >= b'5',
                        [] => false,
                    };
                    return if half_up { round_up(kept, point) } else { cut(kept, point) };
                }
                (true, false) => return cut(kept, point),
                (false, true) => return round_up(kept, point),
                (false, false) => {}
            }
        }
        cut(&exact, point)
    }
}

/// The exact decimal digits of `mantissa × 2^exponent` without trailing zeros, and their point.
fn decimal(mantissa: &BigUint, exponent: i64) -> (String, i64) {
    let shift = exponent.unsigned_abs();
    let (text, scale) = if exponent >= 0 {
        ((mantissa << shift).to_string(), 0)
    } else {
        let five = BigUint::from(5u8).pow(u32::try_from(shift).unwrap_or(u32::MAX));
        ((mantissa * five).to_string(), exponent)
    };
    let point = i64::try_from(text.len()).unwrap_or(i64::MAX) + scale;
    (text.trim_end_matches('0').to_owned(), point)
}

fn cut(digits: &[u8], point: i64) -> (String, i64) {
    let text = String::from_utf8_lossy(digits);
    (text.trim_end_matches('0').to_owned(), point)
}

fn round_up(digits: &[u8], point: i64) -> (String, i64) {
    let nines = digits.iter().rev().take_while(|digit| **digit == b'9').count();
    let mut kept = digits.get(..digits.len() - nines).unwrap_or_default().to_vec();
    match kept.last_mut() {
        Some(last) => *last += 1,
        None => return ("1".to_owned(), point + 1),
    }
    cut(&kept, point)
}

fn plain(digits: &str, point: i64, out: &mut String) {
    let width = i64::try_from(digits.len()).unwrap_or(i64::MAX);
    let zeros = |count: i64| "0".repeat(usize::try_from(count).unwrap_or(0));
    if point <= 0 {
        out.push_str("0.");
        out.push_str(&zeros(-point));
        out.push_str(digits);
    } else if point >= width {
        out.push_str(digits);
        out.push_str(&zeros(point - width));
    } else {
        let (whole, fraction) = digits.split_at(usize::try_from(point).unwrap_or(0));
        out.push_str(whole);
        out.push('.');
        out.push_str(fraction);
    }
}

fn scientific(digits: &str, point: i64, out: &mut String) {
    let (first, rest) = digits.split_at(1.min(digits.len()));
    out.push_str(first);
    if !rest.is_empty() {
        out.push('.');
        out.push_str(rest);
    }
    let exponent = point - 1;
    out.push('e');
    out.push(if exponent < 0 { '-' } else { '+' });
    out.push_str(&format!("{:02}", exponent.unsigned_abs()));
}
