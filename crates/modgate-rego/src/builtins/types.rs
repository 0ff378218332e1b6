//! Asking for and converting between types.

use modgate_value::{Number, gofmt};

use super::{Builtin, BuiltinError, Context, Outcome, operand, yes_or_no};
use crate::{
    number::Num,
    value::{Value, View},
};

pub(super) const BUILTINS: &[Builtin] = &[
    Builtin::new("is_null", "(x: any) => result: boolean", |_, args| {
        is(args, |view| matches!(view, View::Null))
    }),
    Builtin::new("is_boolean", "(x: any) => result: boolean", |_, args| {
        is(args, |view| matches!(view, View::Bool(_)))
    }),
    Builtin::new("is_number", "(x: any) => result: boolean", |_, args| {
        is(args, |view| matches!(view, View::Number(_)))
    }),
    Builtin::new("is_string", "(x: any) => result: boolean", |_, args| {
        is(args, |view| matches!(view, View::String(_)))
    }),
    Builtin::new("is_array", "(x: any) => result: boolean", |_, args| {
        is(args, |view| matches!(view, View::Array(_)))
    }),
    Builtin::new("is_object", "(x: any) => result: boolean", |_, args| {
        is(args, |view| matches!(view, View::Object(_)))
    }),
    Builtin::new("is_set", "(x: any) => result: boolean", |_, args| {
        is(args, |view| matches!(view, View::Set(_)))
    }),
    Builtin::new("type_name", "(x: any) => type: string", |_, args| {
        Ok(Some(Value::str(operand::any(args, 0).type_name())))
    }),
    Builtin::new("to_number", "(x: any<null, boolean, number, string>) => num: number", to_number),
    Builtin::new("cast_null", "(any) => null", |_, args| cast(args, "null")).deprecated(),
    Builtin::new("cast_boolean", "(any) => boolean", |_, args| cast(args, "boolean")).deprecated(),
    Builtin::new("cast_string", "(any) => string", |_, args| cast(args, "string")).deprecated(),
    Builtin::new("cast_object", "(any) => object[any: any]", |_, args| cast(args, "object"))
        .deprecated(),
    Builtin::new("cast_array", "(any) => array[any]", cast_array).deprecated(),
    Builtin::new("cast_set", "(any) => set[any]", cast_set).deprecated(),
];

fn is<'a>(args: &[Value<'a>], of_type: impl Fn(View<'a>) -> bool) -> Outcome<'a> {
    yes_or_no(of_type(operand::any(args, 0).view()))
}

fn cast<'a>(args: &[Value<'a>], name: &'static str) -> Outcome<'a> {
    let value = operand::any(args, 0);
    if value.type_name() == name {
        return Ok(Some(value));
    }
    Err(operand::wrong_type(0, value, &[name]))
}

fn cast_array<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let items: Vec<_> = operand::elements(args, 0, &["array", "set"])?.collect();
    context.array(&items)
}

fn cast_set<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let items: Vec<_> = operand::elements(args, 0, &["array", "set"])?.collect();
    Ok(Some(context.heap.set(items)?))
}

fn to_number<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let value = operand::any(args, 0);
    match value.view() {
        View::Null | View::Bool(false) => Ok(Some(Value::int(0))),
        View::Bool(true) => Ok(Some(Value::int(1))),
        View::Number(_) => Ok(Some(value)),
        View::String(text) => parse_number(context, value, text),
        _ => Err(operand::wrong_type(0, value, &["null", "boolean", "number", "string"])),
    }
}

/// Decimal numbers as Go's `strconv.ParseFloat` accepts them, kept as it is written unless that
/// is no JSON number.
fn parse_number<'a>(context: &mut Context<'a>, value: Value<'a>, text: &'a str) -> Outcome<'a> {
    context.spend(text.len())?;
    // Most are plain.
    if let number @ Num::Int(_) = Num::from_text(text) {
        return Ok(Some(Value::number(number)));
    }
    let unsigned = text.trim_start_matches(['+', '-']).to_ascii_lowercase();
    if matches!(unsigned.as_str(), "inf" | "infinity" | "nan") {
        return Err(operand::wrong_type(0, value, &["valid number string"]));
    }
    let problem = |what: &str| {
        let quoted = gofmt::quote(text);
        BuiltinError::failed(format!("strconv.ParseFloat: parsing {quoted}: {what}"))
    };
    let plain = without_underscores(text).ok_or_else(|| problem("invalid syntax"))?;
    let float: f64 = plain.parse().map_err(|_| problem("invalid syntax"))?;
    if float.is_infinite() {
        return Err(problem("value out of range"));
    }
    if Number::from_json_text(text).is_some() {
        return Ok(Some(Value::number(Num::from_text(text))));
    }
    Ok(Some(context.heap.number(Num::from_text(&json_number(&plain)))?))
}

/// Underscores may stand between digits.
fn without_underscores(text: &str) -> Option<String> {
    let digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    let bytes = text.as_bytes();
    let stray = bytes.iter().enumerate().any(|(at, byte)| {
        *byte == b'_' && !(at > 0 && digit(bytes.get(at - 1)) && digit(bytes.get(at + 1)))
    });
    (!stray).then(|| text.replace('_', ""))
}

/// A decimal number as JSON spells it: `+05.` is `5`, `.5` is `0.5`.
fn json_number(text: &str) -> String {
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let end = unsigned.find(['e', 'E']).unwrap_or(unsigned.len());
    let (mantissa, exponent) = unsigned.split_at(end);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        digits => digits,
    };
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{whole}{point}{fraction}{exponent}")
}
