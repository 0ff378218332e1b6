//! Sprig's functions that draw random numbers or ask the network; all through the host.

use modgate_value::go::{base64::Alphabet::Standard, hex};

use crate::{
    cx::{Cx, Fault, Result},
    funcs::{Args, Function, Ty},
    val::Val,
};

use Ty::{Int, Text as S};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("getHostByName", &[S], |cx, args| {
        let name = args.str(0);
        match cx.env.host.resolve_host(&name)? {
            Some(address) => cx.text(address),
            None => Err(Fault::new("invalid argument to Intn")),
        }
    })
    .impure(),
    Function::new("randAlpha", &[Int], |cx, args| {
        characters(cx, args, |byte| byte.is_ascii_alphabetic())
    })
    .impure(),
    Function::new("randAlphaNum", &[Int], |cx, args| {
        characters(cx, args, |byte| byte.is_ascii_alphanumeric())
    })
    .impure(),
    Function::new("randAscii", &[Int], |cx, args| {
        characters(cx, args, |byte| matches!(byte, 32..127))
    })
    .impure(),
    Function::new("randBytes", &[Int], |cx, args| {
        let Ok(count) = usize::try_from(args.int(0)) else {
            return Err(Fault::new("runtime error: makeslice: len out of range"));
        };
        cx.allocate(count.saturating_mul(2))?;
        cx.spend(count / 16)?;
        cx.text(Standard.encode(&random(cx, count)?))
    })
    .impure(),
    Function::new("randInt", &[Int, Int], |cx, args| {
        let (low, high) = (args.int(0), args.int(1));
        let span = high.wrapping_sub(low);
        if span <= 0 {
            return Err(Fault::new("invalid argument to Intn"));
        }
        let offset = below(cx, span.unsigned_abs())?;
        Ok(Val::Int(low.wrapping_add(offset.cast_signed())))
    })
    .impure(),
    Function::new("randNumeric", &[Int], |cx, args| {
        characters(cx, args, |byte| byte.is_ascii_digit())
    })
    .impure(),
    Function::new("shuffle", &[S], |cx, args| {
        let mut characters: Vec<char> = args.str(0).chars().collect();
        cx.spend(characters.len())?;
        cx.allocate(characters.len().saturating_mul(4))?;
        for last in (1..characters.len()).rev() {
            let other = below(cx, last as u64 + 1)?;
            characters.swap(last, usize::try_from(other).unwrap_or(0));
        }
        cx.text(characters.into_iter().collect())
    })
    .impure(),
    Function::new("uuidv4", &[], |cx, _| {
        let mut bytes = [0; 16];
        cx.env.host.random_bytes(&mut bytes)?;
        bytes[6] = bytes[6] & 0x0F | 0x40;
        bytes[8] = bytes[8] & 0x3F | 0x80;
        let hex = hex::encode(&bytes);
        let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
        cx.text(format!(
            "{}-{}-{}-{}-{}",
            part(0, 8),
            part(8, 12),
            part(12, 16),
            part(16, 20),
            part(20, 32)
        ))
    })
    .impure(),
];

/// Random bytes of the host; the caller has charged for them.
pub(super) fn random(cx: &Cx<'_>, count: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; count];
    cx.env.host.random_bytes(&mut bytes)?;
    Ok(bytes)
}

/// A number below `limit`, every one equally likely.
fn below(cx: &Cx<'_>, limit: u64) -> Result<u64> {
    // The largest multiple of `limit`: numbers from there on would favour the low ones.
    let fair = u64::MAX - u64::MAX % limit;
    loop {
        cx.spend(1)?;
        let mut bytes = [0; 8];
        cx.env.host.random_bytes(&mut bytes)?;
        let number = u64::from_le_bytes(bytes);
        if number < fair {
            return Ok(number % limit);
        }
    }
}

/// As many characters as the argument says, drawn evenly from those `wanted`.
fn characters<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>, wanted: fn(u8) -> bool) -> Result<Val<'a>> {
    // The original throws away its error for a negative count.
    let count = usize::try_from(args.int(0)).unwrap_or(0);
    cx.allocate(count)?;
    let mut out = String::new();
    while out.len() < count {
        let draw = (count - out.len()).saturating_mul(2).clamp(16, 4096);
        cx.spend(draw)?;
        let drawn = random(cx, draw)?;
        let fitting = drawn.into_iter().map(|byte| byte & 0x7F).filter(|byte| wanted(*byte));
        out.extend(fitting.take(count - out.len()).map(char::from));
    }
    Ok(Val::text(out))
}
