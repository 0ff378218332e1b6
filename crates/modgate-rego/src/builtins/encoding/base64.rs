//! Base64.

use modgate_value::go::base64::Alphabet;

use super::super::{BuiltinError, Context, Outcome, operand, yes_or_no};
use crate::value::Value;

pub(super) fn encode<'a>(
    context: &mut Context<'a>,
    args: &[Value<'a>],
    alphabet: Alphabet,
    padded: bool,
) -> Outcome<'a> {
    let bytes = operand::bytes(args, 0)?;
    context.scan(bytes)?;
    context.allocate(bytes.len().div_ceil(3).saturating_mul(4))?;
    let text = if padded { alphabet.encode(bytes) } else { alphabet.encode_unpadded(bytes) };
    Ok(Some(context.heap.charged_string(&text)))
}

pub(super) fn decode_text<'a>(
    context: &mut Context<'a>,
    text: &str,
    alphabet: Alphabet,
) -> Outcome<'a> {
    context.scan(text)?;
    context.allocate(text.len())?;
    context.bytes(&alphabet.decode(text)?)
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
    yes_or_no(Alphabet::Standard.decode(text).is_ok())
}
