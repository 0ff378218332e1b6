//! Base64 with Go's errors, which name the place.

use super::super::{BuiltinError, Context, Outcome, operand, yes_or_no};
use crate::value::Value;

/// Which two characters stand for 62 and 63.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Alphabet {
    /// `+` and `/`
    Standard,
    /// `-` and `_`
    Url,
}

impl Alphabet {
    fn character(self, value: u8) -> char {
        match (value, self) {
            (0..=25, _) => char::from(b'A' + value),
            (26..=51, _) => char::from(b'a' + (value - 26)),
            (52..=61, _) => char::from(b'0' + (value - 52)),
            (62, Self::Standard) => '+',
            (62, Self::Url) => '-',
            (_, Self::Standard) => '/',
            (_, Self::Url) => '_',
        }
    }

    fn value(self, byte: u8) -> Option<u32> {
        Some(u32::from(match (byte, self) {
            (b'A'..=b'Z', _) => byte - b'A',
            (b'a'..=b'z', _) => byte - b'a' + 26,
            (b'0'..=b'9', _) => byte - b'0' + 52,
            (b'+', Self::Standard) | (b'-', Self::Url) => 62,
            (b'/', Self::Standard) | (b'_', Self::Url) => 63,
            _ => return None,
        }))
    }
}

pub(super) fn encode<'a>(
    context: &mut Context<'a>,
    args: &[Value<'a>],
    alphabet: Alphabet,
    padded: bool,
) -> Outcome<'a> {
    let bytes = operand::bytes(args, 0)?;
    context.scan(bytes)?;
    context.allocate(bytes.len().div_ceil(3).saturating_mul(4))?;
    Ok(Some(context.heap.charged_string(&base64_text(bytes, alphabet, padded))))
}

/// Bytes in base64.
pub(in super::super) fn base64_text(bytes: &[u8], alphabet: Alphabet, padded: bool) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3).saturating_mul(4));
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for index in 0..4 {
            if index <= chunk.len() {
                let value = u8::try_from(bits >> (18 - 6 * index) & 63).unwrap_or(0);
                out.push(alphabet.character(value));
            } else if padded {
                out.push('=');
            }
        }
    }
    out
}

/// Go's `Encoding.DecodeString` with padding: line breaks are skipped, and the error is the index
/// of the byte it stopped at.
pub(in super::super) fn decode(text: &str, alphabet: Alphabet) -> Result<Vec<u8>, usize> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len() / 4 * 3);
    let mut at = 0;
    let skip_breaks = |mut at: usize| {
        while matches!(bytes.get(at), Some(b'\n' | b'\r')) {
            at += 1;
        }
        at
    };
    loop {
        let mut bits = 0u32;
        let mut count = 0;
        while count < 4 {
            at = skip_breaks(at);
            let Some(byte) = bytes.get(at).copied() else {
                return if count == 0 { Ok(out) } else { Err(at - count) };
            };
            at += 1;
            if let Some(value) = alphabet.value(byte) {
                bits = bits << 6 | value;
                count += 1;
                continue;
            }
            if byte != b'=' || count < 2 {
                return Err(at - 1);
            }
            if count == 2 {
                at = skip_breaks(at);
                match bytes.get(at) {
                    None => return Err(bytes.len()),
                    Some(b'=') => at += 1,
                    Some(_) => return Err(at - 1),
                }
            }
            at = skip_breaks(at);
            if at < bytes.len() {
                return Err(at);
            }
            bits <<= 6 * (4 - count);
            let [_, first, second, _] = bits.to_be_bytes();
            out.push(first);
            out.extend((count == 3).then_some(second));
            return Ok(out);
        }
        let [_, first, second, third] = bits.to_be_bytes();
        out.extend([first, second, third]);
    }
}

pub(super) fn decode_text<'a>(
    context: &mut Context<'a>,
    text: &str,
    alphabet: Alphabet,
) -> Outcome<'a> {
    context.scan(text)?;
    context.allocate(text.len())?;
    let bytes = decode(text, alphabet)
        .map_err(|at| BuiltinError::failed(format!("illegal base64 data at input byte {at}")))?;
    context.bytes(&bytes)
}

/// Padding may be left out, all of it.
pub(super) fn decode_url<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let text = operand::string(args, 0)?;
    if text.ends_with('=') {
        return decode_text(context, text, Alphabet::Url);
    }
    let padding = match text.len() % 4 {
        0 => "",
        2 => "==",
        3 => "=",
        _ => {
            return Err(BuiltinError::failed(format!("illegal base64url string: {text}")));
        }
    };
    context.allocate(text.len())?;
    decode_text(context, &format!("{text}{padding}"), Alphabet::Url)
}

pub(super) fn is_valid<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let Some(text) = operand::any(args, 0).as_str() else { return yes_or_no(false) };
    context.scan(text)?;
    context.allocate(text.len())?;
    yes_or_no(decode(text, Alphabet::Standard).is_ok())
}
