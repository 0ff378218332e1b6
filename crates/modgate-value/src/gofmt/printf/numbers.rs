//! Numbers, in every base and notation.

use std::borrow::Cow;

use super::{
    super::{
        float,
        quote::{self, Quoting},
    },
    Arg, Printer, Spec,
};
use crate::{Budget, Exhausted};

impl Printer<'_> {
    pub(super) fn integer(
        &mut self,
        arg: &Arg<'_>,
        magnitude: u64,
        negative: bool,
        signed: bool,
        verb: char,
    ) -> Result<(), Exhausted> {
        // `%c` and its like see a negative number as a huge one.
        let code = if negative { u64::MAX } else { magnitude };
        let character = u32::try_from(code).ok().and_then(char::from_u32);
        let character = character.unwrap_or(char::REPLACEMENT_CHARACTER);
        match verb {
            'v' if self.spec.sharp_v && !signed => self.sharp_hex(magnitude),
            'v' | 'd' => self.digits(&magnitude.to_string(), negative, verb),
            'b' => self.digits(&format!("{magnitude:b}"), negative, verb),
            'o' | 'O' => self.digits(&format!("{magnitude:o}"), negative, verb),
            'x' => self.digits(&format!("{magnitude:x}"), negative, verb),
            'X' => self.digits(&format!("{magnitude:X}"), negative, verb),
            'c' => self.pad(character.encode_utf8(&mut [0; 4])),
            'q' => {
                let quoting = if self.spec.plus { Quoting::Ascii } else { Quoting::Printable };
                self.pad(&quote::quote_character(character, quoting))
            }
            'U' => {
                let code = if negative { magnitude.wrapping_neg() } else { magnitude };
                self.unicode(code)
            }
            _ => self.bad_verb(arg, verb),
        }
    }

    /// An unsigned integer under `%#v`.
    pub(super) fn sharp_hex(&mut self, value: u64) -> Result<(), Exhausted> {
        let sharp = std::mem::replace(&mut self.spec.sharp, true);
        let result = self.digits(&format!("{value:x}"), false, 'x');
        self.spec.sharp = sharp;
        result
    }

    /// An integer's digits in the base of `verb`, with precision, prefix, sign and padding.
    pub(super) fn digits(
        &mut self,
        digits: &str,
        negative: bool,
        verb: char,
    ) -> Result<(), Exhausted> {
        let Spec { width, precision, plus, space, zero, minus, sharp, .. } = self.spec;
        let signed = negative || plus || space;
        if precision == Some(0) && digits == "0" {
            return self.pad_with_spaces("");
        }
        let least = match (precision, width) {
            (Some(precision), _) => precision,
            (None, Some(width)) if zero && !minus => width.saturating_sub(usize::from(signed)),
            _ => 0,
        };
        let zeros = least.saturating_sub(digits.len());
        // Checked before it is built: a format may have a million widths of a million each.
        self.budget.allocate(zeros)?;
        let mut text = String::with_capacity(digits.len() + zeros + 4);
        text.push_str(if negative {
            "-"
        } else if plus {
            "+"
        } else if space {
            " "
        } else {
            ""
        });
        text.push_str(match verb {
            'O' if sharp && zeros == 0 && !digits.starts_with('0') => "0o0",
            'O' => "0o",
            'b' if sharp => "0b",
            'o' if sharp && zeros == 0 && !digits.starts_with('0') => "0",
            'x' if sharp => "0x",
            'X' if sharp => "0X",
            _ => "",
        });
        text.extend(std::iter::repeat_n('0', zeros));
        text.push_str(digits);
        self.pad_with_spaces(&text)
    }

    pub(super) fn unicode(&mut self, code: u64) -> Result<(), Exhausted> {
        let least = self.spec.precision.unwrap_or(4).max(4);
        let digits = format!("{code:X}");
        let zeros = least.saturating_sub(digits.len());
        self.budget.allocate(zeros)?;
        let mut text = String::from("U+");
        text.extend(std::iter::repeat_n('0', zeros));
        text.push_str(&digits);
        let character = u32::try_from(code).ok().and_then(char::from_u32);
        if let Some(character) = character.filter(|c| self.spec.sharp && quote::is_print(*c)) {
            text.push_str(" '");
            text.push(character);
            text.push('\'');
        }
        self.pad_with_spaces(&text)
    }

    /// `(*big.Int).Format`, which has its own rules.
    pub(super) fn big_integer(&mut self, number: &str, verb: char) -> Result<(), Exhausted> {
        let spec = self.spec;
        let (negative, digits) = match number.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, number),
        };
        let digits: Cow<'_, str> = match verb {
            'd' | 's' | 'v' => Cow::Borrowed(digits),
            'b' => in_base(digits, 1, false, self.budget)?.into(),
            'o' | 'O' => in_base(digits, 3, false, self.budget)?.into(),
            'x' => in_base(digits, 4, false, self.budget)?.into(),
            'X' => in_base(digits, 4, true, self.budget)?.into(),
            _ => {
                self.complain(verb, "(big.Int=")?;
                self.write(number)?;
                return self.write(")");
            }
        };
        let sign = match negative {
            true => "-",
            false if spec.plus || spec.plus_v => "+",
            false if spec.space => " ",
            false => "",
        };
        let prefix = match verb {
            'O' => "0o",
            'b' if spec.sharp => "0b",
            'o' if spec.sharp => "0",
            'x' if spec.sharp => "0x",
            'X' if spec.sharp => "0X",
            _ => "",
        };
        if spec.precision == Some(0) && digits == "0" {
            return Ok(());
        }
        let mut zeros = spec.precision.unwrap_or(0).saturating_sub(digits.len());
        let length = sign.len() + prefix.len() + zeros + digits.len();
        let missing = spec.width.unwrap_or(0).saturating_sub(length);
        let (mut left, mut right) = (0, 0);
        if spec.minus {
            right = missing;
        } else if spec.zero && spec.precision.is_none() {
            zeros = missing;
        } else {
            left = missing;
        }
        self.repeat(b' ', left)?;
        self.write(sign)?;
        self.write(prefix)?;
        self.repeat(b'0', zeros)?;
        self.write(&digits)?;
        self.repeat(b' ', right)
    }

    pub(super) fn float(&mut self, arg: &Arg<'_>, value: f64, verb: char) -> Result<(), Exhausted> {
        let precision = self.spec.precision;
        // Digits beyond this precision are zeros, which are not built here.
        self.budget.allocate(precision.unwrap_or(0))?;
        let text = match verb {
            'v' => float::format(value, 'g', precision),
            'b' | 'g' | 'G' | 'x' | 'X' => float::format(value, verb, precision),
            'e' | 'E' | 'f' => float::format(value, verb, Some(precision.unwrap_or(6))),
            'F' => float::format(value, 'f', Some(precision.unwrap_or(6))),
            _ => return self.bad_verb(arg, verb),
        };
        let Spec { plus, space, zero, minus, width, .. } = self.spec;
        let (negative, mut number) = match text.strip_prefix(['-', '+']) {
            Some(number) => (text.starts_with('-'), Cow::Borrowed(number)),
            None => (false, Cow::Borrowed(text.as_str())),
        };
        let sign = match negative {
            true => "-",
            false if plus => "+",
            false if space => " ",
            false => "",
        };
        if !value.is_finite() {
            // Not-a-number has no sign of its own; infinity shows its own under `%v` only if asked.
            let sign = match (value.is_nan(), sign) {
                (false, "") => "+",
                (_, sign) => sign,
            };
            return self.pad_with_spaces(&format!("{sign}{number}"));
        }
        if self.spec.sharp && verb != 'b' {
            number = with_point(&number, if verb == 'F' { 'f' } else { verb }, precision).into();
        }
        if !sign.is_empty()
            && zero
            && !minus
            && let Some(missing) = width.and_then(|width| width.checked_sub(number.len() + 1))
            && missing > 0
        {
            self.write(sign)?;
            self.padding(missing)?;
            return self.write(&number);
        }
        self.pad(&format!("{sign}{number}"))
    }
}

/// `#` on a float: always a decimal point, and for `%g` all digits of the precision.
pub(super) fn with_point(number: &str, verb: char, precision: Option<usize>) -> String {
    let hexadecimal = matches!(verb, 'x' | 'X');
    let mut missing = match verb {
        'v' | 'g' | 'G' | 'x' => i64::try_from(precision.unwrap_or(6)).unwrap_or(i64::MAX),
        _ => 0,
    };
    let tail = number
        .find(|c: char| matches!(c, 'p' | 'P') || (!hexadecimal && matches!(c, 'e' | 'E')))
        .unwrap_or(number.len());
    let (digits, tail) = number.split_at_checked(tail).unwrap_or((number, ""));
    let mut significant = false;
    for digit in digits.chars().filter(|c| *c != '.') {
        significant |= digit != '0';
        missing -= i64::from(significant);
    }
    let mut text = digits.to_owned();
    if !digits.contains('.') {
        missing -= i64::from(digits == "0");
        text.push('.');
    }
    text.extend(std::iter::repeat_n('0', usize::try_from(missing).unwrap_or(0)));
    text.push_str(tail);
    text
}

/// Decimal digits in a base that is a power of two. Takes time with the square of the length, which
/// is charged.
pub(super) fn in_base(
    decimal: &str,
    bits: u32,
    upper: bool,
    budget: &Budget<'_>,
) -> Result<String, Exhausted> {
    // Little-endian, 32 bits each.
    let mut limbs: Vec<u32> = Vec::new();
    for group in decimal.as_bytes().chunks(9) {
        budget.spend(1 + u64::try_from(limbs.len()).unwrap_or(u64::MAX))?;
        let mut carry = group.iter().fold(0, |value, digit| value * 10 + u64::from(digit & 0xF));
        let factor = 10_u64.pow(u32::try_from(group.len()).unwrap_or(9));
        for limb in &mut limbs {
            let product = u64::from(*limb) * factor + carry;
            #[expect(clippy::cast_possible_truncation, reason = "the low half is what is kept")]
            {
                *limb = product as u32;
            }
            carry = product >> 32;
        }
        if let Ok(carry @ 1..) = u32::try_from(carry) {
            limbs.push(carry);
        }
    }
    let bit = |at: u64| {
        let limb = usize::try_from(at / 32).ok().and_then(|index| limbs.get(index));
        limb.is_some_and(|limb| limb >> (at % 32) & 1 == 1)
    };
    let length = u64::try_from(limbs.len()).unwrap_or(0) * 32;
    let width = u64::from(bits);
    let mut text = String::new();
    for digit in (0..length.div_ceil(width)).rev() {
        let value =
            (0..width).rev().fold(0, |value, at| value << 1 | u32::from(bit(digit * width + at)));
        if value == 0 && text.is_empty() {
            continue;
        }
        let character = char::from_digit(value, 16).unwrap_or('0');
        text.push(if upper { character.to_ascii_uppercase() } else { character });
    }
    if text.is_empty() {
        text.push('0');
    }
    Ok(text)
}
