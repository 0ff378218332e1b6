//! Sprig's base64 and base32, with Go's error texts, which Sprig returns as the result.

use crate::funcs::{Function, Ty};

const S: &[Ty] = &[Ty::Text];

pub(super) const FUNCTIONS: &[Function] =
    &[
        Function::new("b32dec", S, |cx, args| {
            let text = args.text(0).as_bytes();
            cx.bytes(base32_decode(text).unwrap_or_else(|at| {
                format!("illegal base32 data at input byte {at}").into_bytes()
            }))
        }),
        Function::new("b32enc", S, |cx, args| {
            let text = args.text(0).as_bytes();
            cx.text(encode(text, BASE32, 5, 8))
        }),
        Function::new("b64dec", S, |cx, args| {
            let text = args.text(0).as_bytes();
            cx.bytes(base64_decode(text).unwrap_or_else(|at| illegal_base64(at).into_bytes()))
        }),
        Function::new("b64enc", S, |cx, args| {
            let text = args.text(0).as_bytes();
            cx.text(base64_encode(text))
        }),
    ];

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// Go's text for base64 that goes wrong at a byte.
pub(crate) fn illegal_base64(at: usize) -> String {
    format!("illegal base64 data at input byte {at}")
}

/// Standard base64 with padding.
pub(crate) fn base64_encode(bytes: &[u8]) -> String {
    encode(bytes, BASE64, 6, 4)
}

/// Digits of `bits` bits each from a power-of-two alphabet, padded to groups.
pub(super) fn encode(bytes: &[u8], alphabet: &[u8], bits: u32, group: usize) -> String {
    let mut out = String::with_capacity(bytes.len() * 8 / bits as usize + group);
    let mut push = |digit: u32| {
        let index = (digit & ((1 << bits) - 1)) as usize;
        out.extend(alphabet.get(index).copied().map(char::from));
    };
    let (mut pending, mut held) = (0u32, 0);
    for byte in bytes {
        pending = pending << 8 | u32::from(*byte);
        held += 8;
        while held >= bits {
            held -= bits;
            push(pending >> held);
        }
        pending &= (1 << held) - 1;
    }
    if held > 0 {
        push(pending << (bits - held));
    }
    while !out.len().is_multiple_of(group) {
        out.push('=');
    }
    out
}

fn digit(alphabet: &[u8], byte: u8) -> Option<u32> {
    let index = alphabet.iter().position(|digit| *digit == byte)?;
    u32::try_from(index).ok()
}

/// Bytes from digits of `bits` bits; what is left over of the last digit is dropped.
fn pack(digits: &[u32], bits: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(digits.len() * bits as usize / 8);
    let (mut pending, mut held) = (0u32, 0);
    for digit in digits {
        pending = (pending << bits | digit) & 0xFFFF;
        held += bits;
        if held >= 8 {
            held -= 8;
            out.push((pending >> held & 0xFF) as u8);
        }
    }
    out
}

/// Standard base64 with padding; line breaks are skipped. The error is where it goes wrong.
pub(crate) fn base64_decode(text: &[u8]) -> Result<Vec<u8>, usize> {
    let mut digits = Vec::with_capacity(text.len());
    let is_break = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let mut at = 0;
    let skip_breaks = |mut at: usize| {
        while text.get(at).is_some_and(is_break) {
            at += 1;
        }
        at
    };
    // Offset of the first digit of the group being read.
    let mut in_group = 0;
    while let Some(byte) = text.get(at) {
        at += 1;
        if let Some(value) = digit(BASE64, *byte) {
            digits.push(value);
            in_group = (in_group + 1) % 4;
            continue;
        }
        if is_break(byte) {
            continue;
        }
        if *byte != b'=' || in_group < 2 {
            return Err(at - 1);
        }
        if in_group == 2 {
            at = skip_breaks(at);
            match text.get(at) {
                None => return Err(text.len()),
                Some(b'=') => at += 1,
                Some(_) => return Err(at - 1),
            }
        }
        at = skip_breaks(at);
        return if at < text.len() { Err(at) } else { Ok(pack(&digits, 6)) };
    }
    if in_group == 0 { Ok(pack(&digits, 6)) } else { Err(text.len() - in_group) }
}

fn base32_decode(text: &[u8]) -> Result<Vec<u8>, usize> {
    let text: Vec<u8> =
        text.iter().copied().filter(|byte| !matches!(byte, b'\n' | b'\r')).collect();
    let mut digits = Vec::with_capacity(text.len());
    for (at, byte) in text.iter().enumerate() {
        let in_group = digits.len() % 8;
        let left = text.len() - at - 1;
        if *byte == b'=' && in_group >= 2 && left < 8 {
            if left + in_group < 7 {
                return Err(text.len());
            }
            let padding = text.get(at + 1..).unwrap_or_default().iter().take(7 - in_group);
            if let Some(wrong) = padding.clone().position(|byte| *byte != b'=') {
                return Err(at + wrong);
            }
            if matches!(in_group, 1 | 3 | 6) {
                return Err(at);
            }
            return Ok(pack(&digits, 5));
        }
        digits.push(digit(BASE32, *byte).ok_or(at)?);
    }
    match digits.len() % 8 {
        0 => Ok(pack(&digits, 5)),
        in_group => Err(text.len() - in_group),
    }
}
