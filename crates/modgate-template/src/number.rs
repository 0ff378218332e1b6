//! Number constants, as Go's `strconv` reads them.

/// One number constant: which of Go's number types can hold it, and its value in each.
#[derive(Debug, Clone)]
pub(crate) struct Number {
    /// As written.
    pub(crate) text: Box<str>,
    pub(crate) int: Option<i64>,
    pub(crate) uint: Option<u64>,
    pub(crate) float: Option<f64>,
    pub(crate) complex: Option<(f64, f64)>,
}

impl Number {
    fn bare(text: &str) -> Self {
        Self { text: text.into(), int: None, uint: None, float: None, complex: None }
    }

    /// A character constant: an integer.
    pub(super) fn of_char(text: &str, character: char) -> Self {
        let code = u32::from(character);
        Self {
            int: Some(code.into()),
            uint: Some(code.into()),
            float: Some(code.into()),
            ..Self::bare(text)
        }
    }

    /// `1+2i`
    pub(super) fn of_complex(text: &str) -> Result<Self, String> {
        let illegal = || format!("illegal number syntax: {}", crate::text::quote(text.as_bytes()));
        let body = text.strip_suffix('i').ok_or_else(illegal)?;
        let split = body
            .char_indices()
            .skip(1)
            .filter(|(at, character)| {
                let exponent =
                    body.get(..*at).is_some_and(|before| before.ends_with(['e', 'E', 'p', 'P']));
                matches!(character, '+' | '-') && !exponent
            })
            .last()
            .map(|(at, _)| at);
        let (real, imaginary) = body.split_at(split.ok_or_else(illegal)?);
        let parsed = parse_float(real).ok().zip(parse_float(imaginary).ok());
        Ok(Self::bare(text).with_complex(parsed.ok_or_else(illegal)?))
    }

    /// Any other constant.
    pub(super) fn of_text(text: &str) -> Result<Self, String> {
        let mut number = Self::bare(text);
        if let Some(body) = text.strip_suffix('i')
            && let Ok(imaginary) = parse_float(body)
        {
            return Ok(number.with_complex((0.0, imaginary)));
        }
        number.uint = parse_uint(text, 0);
        number.int = parse_int(text, 0).ok();
        if number.int == Some(0) {
            number.uint = Some(0); // `-0`
        }
        #[expect(clippy::cast_precision_loss, reason = "the nearest float, as Go converts")]
        if let Some(int) = number.int {
            number.float = Some(int as f64);
        } else if let Some(uint) = number.uint {
            number.float = Some(uint as f64);
        } else if let Ok(float) = parse_float(text) {
            if !text.contains(['.', 'e', 'E', 'p', 'P']) {
                return Err(format!("integer overflow: {}", crate::text::quote(text.as_bytes())));
            }
            number.float = Some(float);
            number.int = exact_int(float);
            number.uint = exact_uint(float);
        } else {
            return Err(format!("illegal number syntax: {}", crate::text::quote(text.as_bytes())));
        }
        Ok(number)
    }

    /// A complex constant whose imaginary part is zero is also a float, and perhaps an integer.
    fn with_complex(self, (real, imaginary): (f64, f64)) -> Self {
        let float = (imaginary == 0.0).then_some(real);
        Self {
            complex: Some((real, imaginary)),
            float,
            int: float.and_then(exact_int),
            uint: float.and_then(exact_uint),
            ..self
        }
    }

    /// Whether an untyped constant spelled like this is a float.
    pub(crate) fn looks_like_float(&self) -> bool {
        let text = &*self.text;
        let hex_int = text.len() > 2
            && (text.starts_with("0x") || text.starts_with("0X"))
            && !text.contains(['p', 'P']);
        !text.starts_with('\'') && !hex_int && text.contains(['.', 'e', 'E', 'p', 'P'])
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "checked back")]
fn exact_int(float: f64) -> Option<i64> {
    let int = float as i64;
    (int as f64 == float && float < 9_223_372_036_854_775_808.0).then_some(int)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "checked back"
)]
fn exact_uint(float: f64) -> Option<u64> {
    let uint = float as u64;
    (uint as f64 == float && float < 18_446_744_073_709_551_616.0).then_some(uint)
}

/// Why digits are not an integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IntError {
    Syntax,
    Range,
}

/// Go's `strconv.ParseInt(text, base, 64)`; base 0 reads prefixes and underscores.
pub(crate) fn parse_int(text: &str, base: u32) -> Result<i64, IntError> {
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, text.get(1..).unwrap_or_default()),
        Some(b'+') => (false, text.get(1..).unwrap_or_default()),
        _ => (false, text),
    };
    let magnitude = parse_magnitude(digits, base)?;
    let signed = if negative { -i128::from(magnitude) } else { i128::from(magnitude) };
    i64::try_from(signed).map_err(|_| IntError::Range)
}

/// Go's `strconv.ParseUint(text, base, 64)`.
pub(crate) fn parse_uint(text: &str, base: u32) -> Option<u64> {
    parse_magnitude(text, base).ok()
}

fn parse_magnitude(text: &str, base: u32) -> Result<u64, IntError> {
    let (base, digits) = if base == 0 {
        let (base, digits) = match text.as_bytes() {
            [b'0', b'x' | b'X', ..] => (16, text.get(2..)),
            [b'0', b'o' | b'O', ..] => (8, text.get(2..)),
            [b'0', b'b' | b'B', ..] => (2, text.get(2..)),
            [b'0', _, ..] => (8, text.get(1..)),
            _ => (10, Some(text)),
        };
        if text.contains('_') && !underscores_separate_digits(text) {
            return Err(IntError::Syntax);
        }
        (base, digits.unwrap_or_default().replace('_', ""))
    } else {
        (base, text.to_owned())
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(base)) {
        return Err(IntError::Syntax);
    }
    u64::from_str_radix(&digits, base).map_err(|_| IntError::Range)
}

/// Underscores may stand between digits and between a base prefix and a digit.
fn underscores_separate_digits(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let bytes = text.as_bytes();
    let prefixed = matches!(bytes, [b'0', b'x' | b'X' | b'o' | b'O' | b'b' | b'B', ..]);
    let hex = matches!(bytes, [b'0', b'x' | b'X', ..]);
    let body = if prefixed { bytes.get(2..).unwrap_or_default() } else { bytes };
    let mut before = if prefixed { b'0' } else { b'^' };
    for byte in body {
        let kind = match byte {
            b'0'..=b'9' => b'0',
            b'a'..=b'f' | b'A'..=b'F' if hex => b'0',
            b'_' if before != b'0' => return false,
            b'_' => b'_',
            _ if before == b'_' => return false,
            _ => b'!',
        };
        before = kind;
    }
    before != b'_'
}

/// Why a text is not a float.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum FloatError {
    Syntax,
    /// Out of range; the infinity Go returns beside the error.
    Range(f64),
}

/// Go's `strconv.ParseFloat(text, 64)`.
pub(crate) fn parse_float(text: &str) -> Result<f64, FloatError> {
    let (negative, body) = match text.as_bytes().first() {
        Some(b'-') => (true, text.get(1..).unwrap_or_default()),
        Some(b'+') => (false, text.get(1..).unwrap_or_default()),
        _ => (false, text),
    };
    let signed = |value: f64| if negative { -value } else { value };
    if body.eq_ignore_ascii_case("inf") || body.eq_ignore_ascii_case("infinity") {
        return Ok(signed(f64::INFINITY));
    }
    if text.eq_ignore_ascii_case("nan") {
        return Ok(f64::NAN);
    }
    if body.contains('_') && !underscores_separate_digits(text) {
        return Err(FloatError::Syntax);
    }
    let body = body.replace('_', "");
    let value = match body.strip_prefix("0x").or_else(|| body.strip_prefix("0X")) {
        Some(hex) => hex_float(hex).ok_or(FloatError::Syntax)?,
        None => {
            if !body.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
                return Err(FloatError::Syntax);
            }
            body.parse::<f64>().map_err(|_| FloatError::Syntax)?
        }
    };
    if value.is_infinite() {
        return Err(FloatError::Range(signed(value)));
    }
    Ok(signed(value))
}

/// The part after `0x`: hexadecimal mantissa and a mandatory binary exponent.
///
/// Mantissas of more than 64 bits lose the excess, which can only change the last bit.
fn hex_float(text: &str) -> Option<f64> {
    let (mantissa, exponent) = text.split_once(['p', 'P'])?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut scale: i64 =
        exponent.parse().unwrap_or(if exponent.starts_with('-') { -100_000 } else { 100_000 });
    let mut bits: u64 = 0;
    for (digit, in_fraction) in
        whole.chars().map(|digit| (digit, false)).chain(fraction.chars().map(|digit| (digit, true)))
    {
        let digit = digit.to_digit(16)?;
        if bits >> 60 == 0 {
            bits = bits << 4 | u64::from(digit);
            scale = if in_fraction { scale.saturating_sub(4) } else { scale };
        } else if !in_fraction {
            scale = scale.saturating_add(4);
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "the caller wants the nearest float")]
    let mut value = bits as f64;
    let mut scale = scale.clamp(-2_200, 2_200);
    // In steps, so that neither factor overflows or is denormal before the product is.
    while scale != 0 {
        let step = scale.clamp(-500, 500);
        #[expect(clippy::cast_possible_truncation, reason = "at most 500")]
        let factor = 2f64.powi(step as i32);
        value *= factor;
        scale -= step;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers() {
        for (text, base, expected) in [
            ("0", 0, Ok(0)),
            ("-0", 0, Ok(0)),
            ("0x1F", 0, Ok(31)),
            ("0b11", 0, Ok(3)),
            ("0o17", 0, Ok(15)),
            ("017", 0, Ok(15)),
            ("018", 0, Err(IntError::Syntax)),
            ("1_000", 0, Ok(1000)),
            ("1__0", 0, Err(IntError::Syntax)),
            ("_1", 0, Err(IntError::Syntax)),
            ("1_", 0, Err(IntError::Syntax)),
            ("0x_1", 0, Ok(1)),
            ("0_7", 0, Ok(7)),
            ("1_000", 10, Err(IntError::Syntax)),
            ("9223372036854775807", 0, Ok(i64::MAX)),
            ("-9223372036854775808", 0, Ok(i64::MIN)),
            ("9223372036854775808", 0, Err(IntError::Range)),
            ("", 0, Err(IntError::Syntax)),
            ("+", 10, Err(IntError::Syntax)),
            ("+5", 10, Ok(5)),
            ("0x", 0, Err(IntError::Syntax)),
        ] {
            assert_eq!(parse_int(text, base), expected, "{text}");
        }
    }

    #[test]
    fn floats() {
        for (text, expected) in [
            ("1.5", Ok(1.5)),
            (".5", Ok(0.5)),
            ("5.", Ok(5.0)),
            ("1e3", Ok(1000.0)),
            ("0x1p-2", Ok(0.25)),
            ("0x1.8p1", Ok(3.0)),
            ("0x1", Err(FloatError::Syntax)),
            ("1_0.5", Ok(10.5)),
            ("1._5", Err(FloatError::Syntax)),
            ("inf", Ok(f64::INFINITY)),
            ("-Infinity", Ok(f64::NEG_INFINITY)),
            ("1e400", Err(FloatError::Range(f64::INFINITY))),
            ("0x1p2000", Err(FloatError::Range(f64::INFINITY))),
            ("0x1p-1074", Ok(5e-324)),
            ("", Err(FloatError::Syntax)),
            (".", Err(FloatError::Syntax)),
            ("e1", Err(FloatError::Syntax)),
            (" 1", Err(FloatError::Syntax)),
        ] {
            assert_eq!(parse_float(text), expected, "{text}");
        }
    }
}
