//! 64-bit floats as Go's `strconv` and `encoding/json` print them.

use std::fmt::Write as _;

/// The shortest decimal digits that read back as the same float, and where the point stands.
///
/// The value is `0.d1d2d3… × 10^point`; zero has the single digit `0` and point 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortest {
    /// Whether the sign bit is set (true for `-0`).
    pub negative: bool,
    /// ASCII digits, first one non-zero unless the value is zero, no trailing zeros.
    pub digits: String,
    /// Position of the decimal point relative to the first digit.
    pub point: i32,
}

/// The shortest digits of a finite float.
pub fn shortest(value: f64) -> Shortest {
    // Rust's `{:e}` prints as many round-trip digits as Go's 'e' with precision -1, and the same ones
    // unless two texts are equally near: Go takes the even digit then.
    let text = format!("{:e}", value.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let mut digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if digits.len() >= TIED_DIGITS
        && let Some(even) = even_of_tie(value.abs(), &digits, exponent)
    {
        digits = even;
    }
    Shortest { negative: value.is_sign_negative(), digits, point: exponent + 1 }
}

/// Fewer digits than this are always nearer than any others.
const TIED_DIGITS: usize = 15;

/// The digits with the last one less by one, if that is even and exactly as near to the value.
fn even_of_tie(value: f64, digits: &str, exponent: i32) -> Option<String> {
    let (before, last) = digits.split_at_checked(digits.len() - 1)?;
    let even = match last {
        "3" => '2',
        "5" => '4',
        "7" => '6',
        "9" => '8',
        _ => return None,
    };
    let tied = format!("{before}{even}");
    // All digits of the value: half of the last place more than those, and nothing else.
    let exact = format!("{value:.60e}");
    let exact: String = exact.split('e').next()?.chars().filter(char::is_ascii_digit).collect();
    let half = exact.strip_prefix(tied.as_str())?.strip_prefix('5')?;
    let places = i32::try_from(tied.len()).ok()? - 1;
    let reads_back = format!("{tied}e{}", exponent - places).parse() == Ok(value);
    (half.bytes().all(|digit| digit == b'0') && reads_back).then_some(tied)
}

/// A float as `encoding/json` writes it: plain decimal unless `|v| < 1e-6` or `|v| >= 1e21`.
pub fn json(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        // encoding/json shortens e-09 to e-9, but leaves two-digit exponents alone.
        exponent(value, 1)
    } else {
        plain(value)
    }
}

/// A float as `%v` prints it: scientific for `|v| < 1e-4` and `|v| >= 1e6`, plain otherwise.
///
/// Infinities are `+Inf` and `-Inf`, not-a-number is `NaN` (spec `kubemod.md`, appendix B).
pub fn general(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let exponent10 = shortest(value).point - 1;
    if value != 0.0 && !(-4..6).contains(&exponent10) { exponent(value, 2) } else { plain(value) }
}

/// A 32-bit float as `strconv.FormatFloat(value, 'g', -1, 32)`: [`general`] with the shortest
/// digits that read back as the same 32-bit float.
pub fn general32(value: f32) -> String {
    // Those digits, read as a 64-bit float, are its own shortest digits too: there are at most 9.
    general(value.to_string().parse().unwrap_or(f64::from(value)))
}

/// Plain decimal notation with the shortest digits.
pub fn plain(value: f64) -> String {
    let Shortest { negative, digits, point } = shortest(value);
    let mut out = String::with_capacity(digits.len() + 4);
    if negative {
        out.push('-');
    }
    let width = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    if point <= 0 {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', point.unsigned_abs() as usize));
        out.push_str(&digits);
    } else if point >= width {
        out.push_str(&digits);
        out.extend(std::iter::repeat_n('0', (point - width).unsigned_abs() as usize));
    } else {
        let (whole, fraction) = digits.split_at(point.unsigned_abs() as usize);
        out.push_str(whole);
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// Scientific notation with the shortest digits and at least `width` exponent digits.
pub fn exponent(value: f64, width: usize) -> String {
    let Shortest { negative, digits, point } = shortest(value);
    let mut out = String::with_capacity(digits.len() + 6);
    if negative {
        out.push('-');
    }
    let (first, rest) = digits.split_at(1.min(digits.len()));
    out.push_str(first);
    if !rest.is_empty() {
        out.push('.');
        out.push_str(rest);
    }
    let exponent = point - 1;
    let sign = if exponent < 0 { '-' } else { '+' };
    let _ = write!(out, "e{sign}{:0width$}", exponent.unsigned_abs());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn general_is_percent_v() {
        for (value, text) in [
            (100_000.0, "100000"),
            (999_999.0, "999999"),
            (1e6, "1e+06"),
            (1_234_567.0, "1.234567e+06"),
            // As near to the digit below as to the one above: the even one.
            (900_719_925_474_099.2, "9.007199254740992e+14"),
            (225_179_981_368_524.62, "2.2517998136852462e+14"),
            (-225_179_981_368_524.62, "-2.2517998136852462e+14"),
            (900_719_925_474_099.8, "9.007199254740998e+14"),
            (65535.0, "65535"),
            (0.0001, "0.0001"),
            (0.000_01, "1e-05"),
            (1e20, "1e+20"),
            (2_147_483_648.0, "2.147483648e+09"),
            (9_007_199_254_740_993.0, "9.007199254740992e+15"),
            (1.5, "1.5"),
            (0.0, "0"),
            (-0.0, "-0"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
            (1e100, "1e+100"),
        ] {
            assert_eq!(general(value), text);
        }
    }

    #[test]
    fn ties_go_to_the_even_digit() {
        for (value, text) in [
            ("225179981368524.625", "225179981368524.62"),
            ("900719925474099.25", "900719925474099.2"),
            ("0.3", "0.3"),
            ("1234567890123457", "1234567890123457"),
        ] {
            assert_eq!(plain(value.parse().expect("a float")), text);
        }
    }

    #[test]
    fn json_is_encoding_json() {
        for (value, text) in [
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1e-6, "0.000001"),
            (1e-7, "1e-7"),
            (1.5e-10, "1.5e-10"),
            (1e300, "1e+300"),
            (0.1, "0.1"),
            (123_456.75, "123456.75"),
            (-0.0, "-0"),
            (3.0, "3"),
        ] {
            assert_eq!(json(value), text);
        }
    }
}
