//! Exact decimals as `github.com/shopspring/decimal` has them.

use modgate_value::gofloat;
use num_bigint::{BigInt, Sign};

/// `value × 10^exponent`
#[derive(Debug, Clone)]
pub(super) struct Decimal {
    value: BigInt,
    exponent: i64,
}

/// Digits after the point of a quotient.
const DIVISION_PRECISION: i64 = 16;

impl Decimal {
    /// The shortest decimal that reads back as `float`; `None` where it is not finite.
    pub(super) fn of_float(float: f64) -> Option<Self> {
        if !float.is_finite() {
            return None;
        }
        let shortest = gofloat::shortest(float);
        let value: BigInt = shortest.digits.parse().ok()?;
        let width = i64::try_from(shortest.digits.len()).ok()?;
        let value = if shortest.negative { -value } else { value };
        Some(Self { value, exponent: i64::from(shortest.point) - width })
    }

    /// The nearest float.
    pub(super) fn to_float(&self) -> f64 {
        format!("{}e{}", self.value, self.exponent).parse().unwrap_or(f64::NAN)
    }

    /// Roughly how many decimal digits there are, for charging.
    pub(super) fn digits(&self) -> usize {
        usize::try_from(self.value.bits() / 3).unwrap_or(usize::MAX)
    }

    /// Both values at the smaller of the two exponents.
    fn aligned(&self, other: &Self) -> (BigInt, BigInt, i64) {
        let exponent = self.exponent.min(other.exponent);
        let at = |decimal: &Self| &decimal.value * power_of_ten(decimal.exponent - exponent);
        (at(self), at(other), exponent)
    }

    pub(super) fn add(&self, other: &Self) -> Self {
        let (a, b, exponent) = self.aligned(other);
        Self { value: a + b, exponent }
    }

    pub(super) fn sub(&self, other: &Self) -> Self {
        let (a, b, exponent) = self.aligned(other);
        Self { value: a - b, exponent }
    }

    pub(super) fn mul(&self, other: &Self) -> Self {
        Self {
            value: &self.value * &other.value,
            exponent: self.exponent.saturating_add(other.exponent),
        }
    }

    /// The quotient to 16 decimal places, halves away from zero; `None` for division by zero.
    pub(super) fn div(&self, other: &Self) -> Option<Self> {
        if other.value.sign() == Sign::NoSign {
            return None;
        }
        let shift = self.exponent - other.exponent + DIVISION_PRECISION;
        let dividend = &self.value * power_of_ten(shift);
        let divisor = &other.value * power_of_ten(-shift);
        let mut quotient = &dividend / &divisor;
        let rest: BigInt = (&dividend % &divisor) * 2;
        if rest.magnitude() >= divisor.magnitude() {
            let away = if dividend.sign() == divisor.sign() { 1 } else { -1 };
            quotient += away;
        }
        Some(Self { value: quotient, exponent: -DIVISION_PRECISION })
    }
}

/// `10^exponent`; 1 for negative exponents.
fn power_of_ten(exponent: i64) -> BigInt {
    // Floats span 650 powers of ten, so exponents stay in the thousands.
    BigInt::from(10).pow(u32::try_from(exponent.max(0)).unwrap_or(u32::MAX))
}
