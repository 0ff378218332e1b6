//! Spans of time.

use std::fmt;

use crate::gofmt::quote;

/// A second in nanoseconds.
pub const SECOND: i64 = 1_000_000_000;
/// A minute in nanoseconds.
pub const MINUTE: i64 = 60 * SECOND;
/// An hour in nanoseconds.
pub const HOUR: i64 = 60 * MINUTE;

/// `time.Duration`: nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Duration(pub i64);

impl Duration {
    /// `time.ParseDuration`
    ///
    /// # Errors
    ///
    /// Go's text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let invalid = || format!("time: invalid duration {}", quote(text));
        let (negative, mut rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        if rest == "0" {
            return Ok(Self(0));
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let limit = 1u64 << 63;
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let whole = leading_digits(&mut rest);
            let mut fraction = "";
            let mut dotted = false;
            if let Some(after) = rest.strip_prefix('.') {
                dotted = true;
                rest = after;
                fraction = leading_digits(&mut rest);
            }
            if whole.is_empty() && fraction.is_empty() {
                return Err(invalid());
            }
            let unit_length =
                rest.find(|next: char| next == '.' || next.is_ascii_digit()).unwrap_or(rest.len());
            let (unit, after) = rest.split_at(unit_length);
            rest = after;
            if unit.is_empty() {
                let quoted = quote(text);
                return Err(format!("time: missing unit in duration {quoted}"));
            }
            let scale: u64 = match unit {
                "ns" => 1,
                "us" | "µs" | "μs" => 1_000,
                "ms" => 1_000_000,
                "s" => SECOND.unsigned_abs(),
                "m" => MINUTE.unsigned_abs(),
                "h" => HOUR.unsigned_abs(),
                _ => {
                    let (unit, quoted) = (quote(unit), quote(text));
                    return Err(format!("time: unknown unit {unit} in duration {quoted}"));
                }
            };
            let whole: u64 =
                if whole.is_empty() { 0 } else { whole.parse().map_err(|_| invalid())? };
            let nanos = whole.checked_mul(scale).filter(|nanos| *nanos <= limit);
            let mut nanos = nanos.ok_or_else(invalid)?;
            if dotted {
                nanos = nanos.checked_add(fraction_of(fraction, scale)).ok_or_else(invalid)?;
            }
            total = total.checked_add(nanos).filter(|total| *total <= limit).ok_or_else(invalid)?;
        }
        match (negative, i64::try_from(total)) {
            (false, Ok(nanos)) => Ok(Self(nanos)),
            (true, Ok(nanos)) => Ok(Self(-nanos)),
            (true, Err(_)) => Ok(Self(i64::MIN)),
            (false, Err(_)) => Err(invalid()),
        }
    }

    /// To the nearest multiple of `unit`, halves away from zero.
    pub fn round(self, unit: i64) -> Self {
        if unit <= 0 {
            return self;
        }
        let below = i128::from(self.0.unsigned_abs() % unit.unsigned_abs());
        let unit = i128::from(unit);
        let down = i128::from(self.0.unsigned_abs()) - below;
        let magnitude = if below * 2 < unit { down } else { down + unit };
        let signed = if self.0 < 0 { -magnitude } else { magnitude };
        let clamped = signed.clamp(i64::MIN.into(), i64::MAX.into());
        Self(i64::try_from(clamped).unwrap_or(i64::MAX))
    }
}

fn leading_digits<'t>(rest: &mut &'t str) -> &'t str {
    let length = rest.find(|next: char| !next.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, after) = rest.split_at(length);
    *rest = after;
    digits
}

/// `0.digits` of a unit of `scale` nanoseconds, by way of a float as Go does it.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "less than one hour in nanoseconds, and never negative"
)]
fn fraction_of(digits: &str, scale: u64) -> u64 {
    let mut value: u64 = 0;
    let mut divisor = 1f64;
    for digit in digits.bytes() {
        let next = value
            .checked_mul(10)
            .and_then(|value| value.checked_add(u64::from(digit - b'0')))
            .filter(|value| *value <= 1 << 63);
        let Some(next) = next else {
            break;
        };
        value = next;
        divisor *= 10.0;
    }
    (value as f64 * (scale as f64 / divisor)) as u64
}

/// `1h2m3.5s`, `1.5µs`, `0s`
impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        match nanos {
            0 => return f.write_str("0s"),
            1..1_000 => return write!(f, "{nanos}ns"),
            1_000..1_000_000 => return decimal(f, nanos, 3, "µs"),
            1_000_000..1_000_000_000 => return decimal(f, nanos, 6, "ms"),
            _ => {}
        }
        let second = SECOND.unsigned_abs();
        let minutes = nanos / (60 * second);
        if minutes >= 60 {
            write!(f, "{}h", minutes / 60)?;
        }
        if minutes > 0 {
            write!(f, "{}m", minutes % 60)?;
        }
        decimal(f, nanos % (60 * second), 9, "s")
    }
}

/// `value / 10^places` without trailing zeros.
fn decimal(f: &mut fmt::Formatter<'_>, value: u64, places: u32, unit: &str) -> fmt::Result {
    let scale = 10u64.pow(places);
    write!(f, "{}", value / scale)?;
    let fraction = value % scale;
    if fraction > 0 {
        let digits = format!("{fraction:0width$}", width = places as usize);
        write!(f, ".{}", digits.trim_end_matches('0'))?;
    }
    f.write_str(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printing() {
        for (nanos, expected) in [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1µs"),
            (2_200_000, "2.2ms"),
            (3_300_000_000, "3.3s"),
            (245_000_000_000, "4m5s"),
            (3_600_000_000_000, "1h0m0s"),
            (18_367_001_000_000, "5h6m7.001s"),
            (i64::MAX, "2562047h47m16.854775807s"),
            (i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            assert_eq!(Duration(nanos).to_string(), expected);
        }
    }

    #[test]
    fn reading() {
        for (text, expected) in [
            ("0", Some(0)),
            ("5s", Some(5_000_000_000)),
            ("-1.5h", Some(-5_400_000_000_000)),
            ("1h2m3s4ms5us6ns", Some(3_723_004_005_006)),
            ("+.5m", Some(30_000_000_000)),
            ("1.s", Some(1_000_000_000)),
            ("9223372036854775807ns", Some(i64::MAX)),
            ("-9223372036854775808ns", Some(i64::MIN)),
            ("9223372036854775808ns", None),
            ("", None),
            ("-", None),
            ("1", None),
            (".s", None),
            ("1d", None),
            ("s", None),
        ] {
            let parsed = Duration::parse(text).ok().map(|duration| duration.0);
            assert_eq!(parsed, expected, "{text}");
        }
    }

    #[test]
    fn rounding() {
        for (nanos, expected) in [
            (1_499_999_999, 1),
            (1_500_000_000, 2),
            (-1_500_000_000, -2),
            (-1_400_000_000, -1),
            (0, 0),
        ] {
            assert_eq!(Duration(nanos).round(SECOND).0, expected * SECOND);
        }
        assert_eq!(Duration(i64::MAX).round(SECOND).0, i64::MAX);
    }
}
