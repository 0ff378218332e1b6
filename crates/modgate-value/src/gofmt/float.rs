//! `strconv.FormatFloat(value, verb, precision, 64)`.

use std::fmt::Write as _;

use crate::gofloat;

/// No 64-bit float has more digits than this after the point, or significant ones.
const ALL_DIGITS: usize = 1100;

/// `value` as one of the verbs `e E f g G b x X`; without a precision with the fewest digits that
/// read back as the same float.
pub(super) fn format(value: f64, verb: char, precision: Option<usize>) -> String {
    if !value.is_finite() {
        return gofloat::general(value);
    }
    let text = match (verb, precision) {
        ('b', _) => binary(value),
        ('x' | 'X', _) => hexadecimal(value, precision),
        ('f', Some(precision)) => fixed(value, precision),
        ('f', None) => gofloat::plain(value),
        ('e' | 'E', Some(precision)) => exponent(value, precision),
        ('e' | 'E', None) => gofloat::exponent(value, 2),
        (_, Some(precision)) => general(value, precision.max(1)),
        (_, None) => gofloat::general(value),
    };
    if verb.is_ascii_uppercase() { text.to_ascii_uppercase() } else { text }
}

fn fixed(value: f64, precision: usize) -> String {
    let digits = precision.min(ALL_DIGITS);
    let mut text = format!("{value:.digits$}");
    text.extend(std::iter::repeat_n('0', precision - digits));
    text
}

fn exponent(value: f64, precision: usize) -> String {
    let digits = precision.min(ALL_DIGITS);
    let text = format!("{value:.digits$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let mut out = mantissa.to_owned();
    out.extend(std::iter::repeat_n('0', precision - digits));
    push_exponent(&mut out, 'e', exponent.parse().unwrap_or(0));
    out
}

/// `precision` significant digits without trailing zeros, in whichever form is shorter.
fn general(value: f64, precision: usize) -> String {
    let text = exponent(value, precision.min(ALL_DIGITS) - 1);
    let (mantissa, power) = text.split_once('e').unwrap_or((&text, "0"));
    let power: i64 = power.parse().unwrap_or(0);
    let precision = i64::try_from(precision).unwrap_or(i64::MAX);
    let trim = |text: &str| {
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text.to_owned()
        }
    };
    if power < -4 || power >= precision {
        let mut out = trim(mantissa);
        push_exponent(&mut out, 'e', power);
        return out;
    }
    let after_point = usize::try_from(precision - 1 - power).unwrap_or(0).min(ALL_DIGITS);
    trim(&fixed(value, after_point))
}

/// `mantissa p exponent`, the value being mantissa × 2^exponent.
fn binary(value: f64) -> String {
    let (negative, mantissa, exponent) = parts(value);
    let mut out = String::from(if negative { "-" } else { "" });
    let _ = write!(out, "{mantissa}");
    let sign = if exponent < 0 { '-' } else { '+' };
    let _ = write!(out, "p{sign}{}", exponent.unsigned_abs());
    out
}

fn hexadecimal(value: f64, precision: Option<usize>) -> String {
    const TOP: u32 = 60;
    let (negative, mantissa, exponent) = parts(value);
    let mut exponent = exponent + 52;
    // The leading one at bit 60, so that fifteen hexadecimal digits follow it.
    let mut mantissa = mantissa << (TOP - 52);
    if mantissa == 0 {
        exponent = 0;
    }
    while mantissa != 0 && mantissa & (1 << TOP) == 0 {
        mantissa <<= 1;
        exponent -= 1;
    }
    if let Some(digits @ 0..15) = precision {
        let shift = u32::try_from(digits * 4).unwrap_or(0);
        let extra = (mantissa << shift) & ((1 << TOP) - 1);
        mantissa >>= TOP - shift;
        if extra | (mantissa & 1) > 1 << (TOP - 1) {
            mantissa += 1;
        }
        mantissa <<= TOP - shift;
        if mantissa & (1 << (TOP + 1)) != 0 {
            mantissa >>= 1;
            exponent += 1;
        }
    }
    let mut out = String::from(if negative { "-0x" } else { "0x" });
    let _ = write!(out, "{}", mantissa >> TOP & 1);
    let mut fraction = (mantissa & ((1 << TOP) - 1)) << 4;
    let digits = precision.unwrap_or(usize::MAX);
    if precision.map_or(fraction != 0, |digits| digits > 0) {
        out.push('.');
    }
    let mut printed = 0;
    while printed < digits && fraction != 0 {
        let _ = write!(out, "{:x}", fraction >> TOP);
        fraction = (fraction & ((1 << TOP) - 1)) << 4;
        printed += 1;
    }
    out.extend(std::iter::repeat_n('0', precision.map_or(0, |digits| digits - printed)));
    push_exponent(&mut out, 'p', exponent);
    out
}

/// Sign, mantissa of up to 53 bits, and exponent of the mantissa's last bit.
fn parts(value: f64) -> (bool, u64, i64) {
    let bits = value.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    let biased = i64::try_from(bits >> 52 & 0x7FF).unwrap_or(0);
    let (mantissa, biased) = if biased == 0 { (fraction, 1) } else { (fraction | 1 << 52, biased) };
    (value.is_sign_negative(), mantissa, biased - 1075)
}

/// `e+06`: a sign and at least two digits.
fn push_exponent(out: &mut String, letter: char, exponent: i64) {
    let sign = if exponent < 0 { '-' } else { '+' };
    let _ = write!(out, "{letter}{sign}{:02}", exponent.unsigned_abs());
}
