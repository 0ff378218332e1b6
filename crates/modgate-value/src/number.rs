//! JSON numbers that keep what their author wrote.

use std::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use crate::gofloat;

/// A JSON number: exact as a 64-bit integer where it is one, a float where its text is the float's
/// own shortest text, and otherwise the literal text beside the nearest float.
///
/// Equality, order and hash are by mathematical value: `1`, `1.0` and `1e0` are equal although
/// they print differently.
#[derive(Clone)]
pub struct Number(Repr);

#[derive(Clone)]
enum Repr {
    Int(i64),
    /// Finite, and printed exactly as [`gofloat::json`] does.
    Float(f64),
    /// A valid JSON number that neither of the other two prints back.
    Literal(Arc<Literal>),
}

/// How a [`Number`] is held, for evaluators that compute with it.
#[derive(Debug, Clone, Copy)]
pub enum Spelling<'a> {
    /// An integer in its canonical text.
    Int(i64),
    /// A finite float printed exactly as [`gofloat::json`] does.
    Float(f64),
    /// Any other JSON number, as written.
    Literal(&'a str),
}

struct Literal {
    text: Box<str>,
    float: f64,
}

impl Number {
    /// Reads a JSON number.
    ///
    /// Returns `None` if `text` is not exactly one number in JSON's grammar (RFC 8259, section 6).
    pub fn from_json_text(text: &str) -> Option<Self> {
        is_json_number(text.as_bytes()).then(|| Self::from_valid_text(text))
    }

    /// `text` must already be known to be a JSON number.
    pub(crate) fn from_valid_text(text: &str) -> Self {
        if let Ok(int) = text.parse::<i64>()
            && text != "-0"
        {
            return Self(Repr::Int(int));
        }
        let float = text.parse::<f64>().unwrap_or(f64::NAN);
        if float.is_finite() && gofloat::json(float) == text {
            return Self(Repr::Float(float));
        }
        Self(Repr::Literal(Arc::new(Literal { text: text.into(), float })))
    }

    /// The number a float stands for; `None` for infinities and not-a-number, which JSON lacks.
    pub fn from_f64(value: f64) -> Option<Self> {
        if !value.is_finite() {
            return None;
        }
        // 2^53: every integral float below it prints as that integer.
        if value.fract() == 0.0
            && value.abs() < 9_007_199_254_740_992.0
            && !(value == 0.0 && value.is_sign_negative())
        {
            #[expect(clippy::cast_possible_truncation, reason = "integral and below 2^53")]
            return Some(Self(Repr::Int(value as i64)));
        }
        Some(Self(Repr::Float(value)))
    }

    /// The exact integer, if the number is one and fits, however it is spelled.
    pub fn as_i64(&self) -> Option<i64> {
        match &self.0 {
            Repr::Int(int) => Some(*int),
            Repr::Float(_) | Repr::Literal(_) => Decimal::of(self).to_i64(),
        }
    }

    /// The nearest 64-bit float; infinite where the number is out of a float's range.
    pub fn as_f64(&self) -> f64 {
        match &self.0 {
            #[expect(clippy::cast_precision_loss, reason = "the caller wants the nearest float")]
            Repr::Int(int) => *int as f64,
            Repr::Float(float) => *float,
            Repr::Literal(literal) => literal.float,
        }
    }

    /// How the number is held.
    pub fn spelling(&self) -> Spelling<'_> {
        match &self.0 {
            Repr::Int(int) => Spelling::Int(*int),
            Repr::Float(float) => Spelling::Float(*float),
            Repr::Literal(literal) => Spelling::Literal(&literal.text),
        }
    }

    /// Whether the number is written as an integer: digits only, no point and no exponent.
    pub fn is_integer_text(&self) -> bool {
        match &self.0 {
            Repr::Int(_) => true,
            Repr::Float(_) | Repr::Literal(_) => !self.to_string().contains(['.', 'e', 'E']),
        }
    }
}

impl From<i64> for Number {
    fn from(value: i64) -> Self {
        Self(Repr::Int(value))
    }
}

impl fmt::Display for Number {
    /// The JSON text: as written where it was read, Go's `encoding/json` form where it was made.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Int(int) => int.fmt(f),
            Repr::Float(float) => f.write_str(&gofloat::json(*float)),
            Repr::Literal(literal) => f.write_str(&literal.text),
        }
    }
}

impl fmt::Debug for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Number {}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Repr::Int(a), Repr::Int(b)) => a.cmp(b),
            // Both finite, and `-0` equals `0`.
            (Repr::Float(a), Repr::Float(b)) => a.partial_cmp(b).unwrap_or(Ordering::Equal),
            _ => Decimal::of(self).cmp(&Decimal::of(other)),
        }
    }
}

impl Hash for Number {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.0 {
            Repr::Int(int) => int.hash(state),
            Repr::Float(_) | Repr::Literal(_) => {
                let decimal = Decimal::of(self);
                match decimal.to_i64() {
                    Some(int) => int.hash(state),
                    None => decimal.hash(state),
                }
            }
        }
    }
}

/// `±0.d1d2d3… × 10^point` without leading or trailing zero digits; zero has no digits.
///
/// Comparing in this form costs no more than the digits written, whatever the exponent.
#[derive(PartialEq, Eq, Hash)]
struct Decimal {
    negative: bool,
    point: i64,
    digits: Vec<u8>,
}

impl Decimal {
    fn of(number: &Number) -> Self {
        let text = number.to_string();
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.as_str()),
        };
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        // An exponent beyond 64 bits saturates: such numbers are still ordered by sign, and by
        // digits among themselves.
        let exponent = exponent.parse::<i64>().unwrap_or(if exponent.starts_with('-') {
            i64::MIN / 2
        } else {
            i64::MAX / 2
        });
        let all: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
        let leading = all.iter().take_while(|digit| **digit == b'0').count();
        let trailing = all.iter().rev().take_while(|digit| **digit == b'0').count();
        let digits: Vec<u8> = all
            .get(leading..all.len().saturating_sub(trailing).max(leading))
            .unwrap_or_default()
            .to_vec();
        if digits.is_empty() {
            return Self { negative: false, point: 0, digits };
        }
        let shift = i64::try_from(whole.len()).unwrap_or(i64::MAX / 4)
            - i64::try_from(leading).unwrap_or(i64::MAX / 4);
        Self { negative, point: exponent.saturating_add(shift), digits }
    }

    fn to_i64(&self) -> Option<i64> {
        if self.digits.is_empty() {
            return Some(0);
        }
        let width = i64::try_from(self.digits.len()).ok()?;
        if self.point < width || self.point > 19 {
            return None;
        }
        let mut value: i64 = 0;
        let zeros = usize::try_from(self.point - width).ok()?;
        for digit in self.digits.iter().copied().chain(std::iter::repeat_n(b'0', zeros)) {
            let digit = i64::from(digit - b'0');
            // Built negative, because i64::MIN has no positive counterpart.
            value = value.checked_mul(10)?.checked_sub(digit)?;
        }
        if self.negative { Some(value) } else { value.checked_neg() }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let sign = |d: &Self| match (d.digits.is_empty(), d.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        };
        let magnitude =
            || self.point.cmp(&other.point).then_with(|| self.digits.cmp(&other.digits));
        match (sign(self), sign(other)) {
            (a, b) if a != b => a.cmp(&b),
            (0, _) => Ordering::Equal,
            (1, _) => magnitude(),
            _ => magnitude().reverse(),
        }
    }
}

/// `-? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?`
fn is_json_number(text: &[u8]) -> bool {
    let digits = |bytes: &[u8]| bytes.iter().take_while(|b| b.is_ascii_digit()).count();
    let rest = text.strip_prefix(b"-").unwrap_or(text);
    let whole = digits(rest);
    if whole == 0 || (whole > 1 && rest.first() == Some(&b'0')) {
        return false;
    }
    let mut rest = rest.get(whole..).unwrap_or_default();
    if let Some(fraction) = rest.strip_prefix(b".") {
        let count = digits(fraction);
        if count == 0 {
            return false;
        }
        rest = fraction.get(count..).unwrap_or_default();
    }
    if let Some(exponent) = rest.strip_prefix(b"e").or_else(|| rest.strip_prefix(b"E")) {
        let unsigned =
            exponent.strip_prefix(b"+").or_else(|| exponent.strip_prefix(b"-")).unwrap_or(exponent);
        let count = digits(unsigned);
        return count > 0 && count == unsigned.len();
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use std::hash::{DefaultHasher, Hash, Hasher};

    use super::*;

    fn number(text: &str) -> Number {
        Number::from_json_text(text).expect(text)
    }

    fn hash(number: &Number) -> u64 {
        let mut hasher = DefaultHasher::new();
        number.hash(&mut hasher);
        hasher.finish()
    }

    #[test]
    fn text_is_kept() {
        for text in [
            "0",
            "-0",
            "1",
            "1.0",
            "1e3",
            "2.50",
            "0.1",
            "1E400",
            "-9223372036854775808",
            "18446744073709551616",
            "123456789012345678901234567890",
            "1e-7",
            "100000000000000000000",
        ] {
            assert_eq!(number(text).to_string(), text);
        }
    }

    #[test]
    fn grammar() {
        for text in ["", "-", "01", "1.", ".5", "+1", "1e", "1e+", "0x1", "1 ", "NaN", "1_0", "--1"]
        {
            assert!(Number::from_json_text(text).is_none(), "{text}");
        }
    }

    #[test]
    fn equal_by_value_and_hashed_alike() {
        for (a, b) in [
            ("1", "1.0"),
            ("1", "1e0"),
            ("100", "1e2"),
            ("0", "-0"),
            ("0.1", "0.10"),
            ("12345678901234567890", "1.2345678901234567890e19"),
            ("-0.0", "0e9"),
        ] {
            assert_eq!(number(a), number(b));
            assert_eq!(hash(&number(a)), hash(&number(b)), "{a} {b}");
        }
    }

    #[test]
    fn order_is_exact() {
        let ascending = [
            "-1e400",
            "-9223372036854775809",
            "-9223372036854775808",
            "-1.5",
            "-1e-400",
            "0",
            "1e-400",
            "0.1",
            "0.11",
            "1",
            "9007199254740992",
            "9007199254740993",
            "9223372036854775807",
            "9223372036854775808",
            "1e19",
            "1e400",
            "1e99999999999999999999",
        ];
        for pair in ascending.windows(2) {
            assert!(number(pair[0]) < number(pair[1]), "{pair:?}");
        }
    }

    #[test]
    fn integers_however_spelled() {
        assert_eq!(number("1e3").as_i64(), Some(1000));
        assert_eq!(number("-9223372036854775808.0").as_i64(), Some(i64::MIN));
        assert_eq!(number("9223372036854775808").as_i64(), None);
        assert_eq!(number("1.5").as_i64(), None);
        assert_eq!(number("1e1000000000").as_i64(), None);
        assert_eq!(Number::from_f64(3.0).map(|n| n.to_string()).as_deref(), Some("3"));
        assert_eq!(Number::from_f64(f64::NAN), None);
    }
}
