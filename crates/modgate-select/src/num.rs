//! Texts as numbers, the way Go's `strconv.ParseFloat` reads them.

/// Why a text is not a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotANumber {
    /// Not a Go float text.
    Syntax,
    /// One, but beyond the largest 64-bit float.
    Range,
}

/// Reads a Go float text: decimal or hexadecimal with `_` between digits, `inf`, `infinity`, `nan`.
pub(crate) fn parse_float(text: &str) -> Result<f64, NotANumber> {
    // Most texts that are compared are no numbers; their first byte tells.
    let (Some(first), Some(last)) = (text.bytes().next(), text.bytes().last()) else {
        return Err(NotANumber::Syntax);
    };
    if !matches!(first, b'0'..=b'9' | b'+' | b'-' | b'.' | b'i' | b'I' | b'n' | b'N')
        || !(last.is_ascii_hexdigit() || matches!(last, b'.' | b'y' | b'Y' | b'n' | b'N'))
    {
        return Err(NotANumber::Syntax);
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    if unsigned.eq_ignore_ascii_case("inf") || unsigned.eq_ignore_ascii_case("infinity") {
        return Ok(sign * f64::INFINITY);
    }
    // `nan` takes no sign.
    if text.eq_ignore_ascii_case("nan") {
        return Ok(f64::NAN);
    }
    let magnitude = match unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X")) {
        Some(digits) => hexadecimal(digits)?,
        None => decimal(unsigned)?,
    };
    if magnitude.is_infinite() { Err(NotANumber::Range) } else { Ok(sign * magnitude) }
}

/// Digits with at most one point, then optionally an exponent behind `marker`; underscores gone.
struct Parts {
    /// Digits and point.
    mantissa: String,
    /// Sign and digits.
    exponent: Option<String>,
}

/// Splits the text behind sign and prefix. `prefixed` allows an underscore at the very start.
fn parts(text: &str, is_digit: fn(&u8) -> bool, marker: u8, prefixed: bool) -> Option<Parts> {
    let mut parts = Parts { mantissa: String::with_capacity(text.len()), exponent: None };
    let (mut digits, mut exponent_digits, mut points) = (0_usize, 0_usize, 0_usize);
    // An underscore must have a digit, or the prefix, before it and a digit behind it.
    let mut after_digit = prefixed;
    let mut after_underscore = false;
    for byte in text.bytes() {
        if byte == b'_' {
            if !after_digit {
                return None;
            }
            (after_digit, after_underscore) = (false, true);
            continue;
        }
        let digit = match &mut parts.exponent {
            None if is_digit(&byte) => {
                digits += 1;
                parts.mantissa.push(char::from(byte));
                true
            }
            None if byte == b'.' => {
                points += 1;
                parts.mantissa.push('.');
                false
            }
            None if byte.to_ascii_lowercase() == marker => {
                parts.exponent = Some(String::new());
                false
            }
            Some(exponent) if byte.is_ascii_digit() => {
                exponent_digits += 1;
                exponent.push(char::from(byte));
                true
            }
            Some(exponent) if exponent.is_empty() && matches!(byte, b'+' | b'-') => {
                exponent.push(char::from(byte));
                false
            }
            _ => return None,
        };
        if after_underscore && !digit {
            return None;
        }
        (after_digit, after_underscore) = (digit, false);
    }
    let complete = digits > 0
        && points <= 1
        && !after_underscore
        && (parts.exponent.is_none() || exponent_digits > 0);
    complete.then_some(parts)
}

fn decimal(text: &str) -> Result<f64, NotANumber> {
    let parts = parts(text, u8::is_ascii_digit, b'e', false).ok_or(NotANumber::Syntax)?;
    let mut plain = parts.mantissa;
    if let Some(exponent) = parts.exponent {
        plain.push('e');
        plain.push_str(&exponent);
    }
    plain.parse().map_err(|_| NotANumber::Syntax)
}

/// A hexadecimal float: the exponent is mandatory, decimal, and a power of two.
fn hexadecimal(text: &str) -> Result<f64, NotANumber> {
    let parts = parts(text, u8::is_ascii_hexdigit, b'p', true).ok_or(NotANumber::Syntax)?;
    let exponent = parts.exponent.ok_or(NotANumber::Syntax)?;
    // Exponents beyond this give zero or infinity whatever the digits of a text that fits memory.
    let limit = if exponent.starts_with('-') { -(1_i64 << 40) } else { 1_i64 << 40 };
    let mut power = exponent.parse::<i64>().unwrap_or(limit).clamp(-(1 << 40), 1 << 40);
    let (whole, fraction) = parts.mantissa.split_once('.').unwrap_or((&parts.mantissa, ""));
    // The leading 60 bits, and whether anything non-zero follows them.
    let (mut bits, mut sticky) = (0_u64, false);
    for (digits, scale) in [(whole, 0), (fraction, 4)] {
        for digit in digits.chars().filter_map(|digit| digit.to_digit(16)) {
            power -= scale;
            if bits >> 56 == 0 {
                bits = bits << 4 | u64::from(digit);
            } else {
                sticky |= digit != 0;
                power += 4;
            }
        }
    }
    if bits == 0 {
        return Ok(0.0);
    }
    let shift = i64::from(bits.leading_zeros());
    bits <<= shift;
    power -= shift;
    // value = bits × 2^power with bit 63 set; a float keeps 53 bits, fewer below 2^-1022.
    let top = power + 63;
    if top > 1023 {
        return Err(NotANumber::Range);
    }
    let kept = if top >= -1022 { 53 } else { 53 - (-1022 - top) };
    if kept < 0 {
        return Ok(0.0);
    }
    let dropped = u32::try_from(64 - kept).unwrap_or(64);
    let rest = if dropped == 64 { bits } else { bits & ((1 << dropped) - 1) };
    let mut mantissa = bits.checked_shr(dropped).unwrap_or(0);
    let half = 1_u64 << (dropped - 1);
    if rest > half || (rest == half && (sticky || mantissa & 1 == 1)) {
        mantissa += 1;
    }
    // Two exact steps: the mantissa fits 53 bits, and neither power leaves the float range early.
    let power = i32::try_from(power + i64::from(dropped)).unwrap_or(0);
    #[expect(clippy::cast_precision_loss, reason = "at most 2^53")]
    let value = mantissa as f64 * 2_f64.powi(power / 2) * 2_f64.powi(power - power / 2);
    Ok(value)
}

/// A float as Go converts it to `int64` on amd64: toward zero; out of range the smallest integer.
pub(crate) fn to_i64(value: f64) -> i64 {
    // 2^63 is the first float beyond the largest integer.
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value) {
        #[expect(clippy::cast_possible_truncation, reason = "in range")]
        return value as i64;
    }
    i64::MIN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_float_texts() {
        for (text, value) in [
            ("80", 80.0),
            ("+80", 80.0),
            ("-0", -0.0),
            ("007", 7.0),
            ("1_000", 1000.0),
            ("1.5e3", 1500.0),
            ("1e1_0", 1e10),
            (".5", 0.5),
            ("5.", 5.0),
            ("inf", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
            ("0x1p4", 16.0),
            ("0X_1.8P-1", 0.75),
            ("-0x10p0", -16.0),
            ("0x1p-1074", 5e-324),
            ("0x1p-1075", 0.0),
            ("0x1.8p-1075", 5e-324),
            ("0x1.fffffffffffffp1023", f64::MAX),
            ("0x123456789abcdef01p0", 20_988_295_479_420_645_377.0),
            ("0x1.00000000000008p0", 1.0),
            ("0x1.000000000000080001p0", 1.000_000_000_000_000_2),
            ("1e-400", 0.0),
        ] {
            let parsed = parse_float(text).expect(text);
            assert_eq!(parsed.to_bits(), value.to_bits(), "{text}: {parsed}");
        }
        assert!(parse_float("NaN").is_ok_and(f64::is_nan));
    }

    #[test]
    fn not_numbers() {
        for text in [
            "", " 80", "80 ", "0x10", "0x", "0xp1", "0x1p", "1__0", "_1", "1_", "1_.5", "1._5",
            "1e_5", "+nan", "infin", "1.2.3", "e5", ".", "+", "-", "--1", "1e", "1e+", "abc",
            "0b1", "0o7", "Pod", "1-1", "i", "n", "0_", "1e5.5",
        ] {
            assert_eq!(parse_float(text).err(), Some(NotANumber::Syntax), "{text}");
        }
        for text in ["1e400", "-1e309", "0x1p1024", "0x1.fffffffffffff8p1023"] {
            let out = parse_float(text);
            assert_eq!(out.err(), Some(NotANumber::Range), "{text}");
        }
    }

    #[test]
    fn integers_as_amd64() {
        for (value, int) in [
            (1.9, 1),
            (-0.5, 0),
            (f64::NAN, i64::MIN),
            (f64::INFINITY, i64::MIN),
            (1e300, i64::MIN),
            (-9_223_372_036_854_775_808.0, i64::MIN),
            (9_007_199_254_740_992.0, 9_007_199_254_740_992),
        ] {
            assert_eq!(to_i64(value), int, "{value}");
        }
    }
}
