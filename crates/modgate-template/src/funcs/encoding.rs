//! Sprig's base64 and base32, with Go's error texts, which Sprig returns as the result.

use modgate_value::go::base64::Alphabet::Standard;

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
            cx.bytes(Standard.decode(text).unwrap_or_else(|error| error.to_string().into_bytes()))
        }),
        Function::new("b64enc", S, |cx, args| {
            let text = args.text(0).as_bytes();
            cx.text(Standard.encode(text))
        }),
    ];

const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

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
