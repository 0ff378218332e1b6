//! Text encodings: JSON, YAML, base64, hexadecimal, URLs.
//!
//! Decoded text need not be UTF-8, and is kept as it is. In JSON each wrong byte is U+FFFD.

mod base64;
mod url;

use modgate_value::{
    Number, Value as Json,
    go::{base64::Alphabet, hex},
    gofloat, json, yaml,
};

use super::{Builtin, BuiltinError, Context, Outcome, operand, yes_or_no};
use crate::value::Value;

pub(super) use url::go_json as url_json;

pub(super) const BUILTINS: &[Builtin] = &[
    Builtin::new("json.marshal", "(x: any) => y: string", json_marshal),
    Builtin::new(
        "json.marshal_with_options",
        "(x: any, opts: object<indent: string, prefix: string, pretty: boolean>[string: any]) => y: string",
        json_marshal_with_options,
    ),
    Builtin::new("json.unmarshal", "(x: string) => y: any", json_unmarshal),
    Builtin::new("json.is_valid", "(x: string) => result: boolean", json_is_valid),
    Builtin::new("yaml.marshal", "(x: any) => y: string", yaml_marshal),
    Builtin::new("yaml.unmarshal", "(x: string) => y: any", yaml_unmarshal),
    Builtin::new("yaml.is_valid", "(x: string) => result: boolean", yaml_is_valid),
    Builtin::new("base64.encode", "(x: string) => y: string", |context, args| {
        base64::encode(context, args, Alphabet::Standard, true)
    }),
    Builtin::new("base64.decode", "(x: string) => y: string", |context, args| {
        base64::decode_text(context, operand::string(args, 0)?, Alphabet::Standard)
    }),
    Builtin::new("base64.is_valid", "(x: string) => result: boolean", base64::is_valid),
    Builtin::new("base64url.encode", "(x: string) => y: string", |context, args| {
        base64::encode(context, args, Alphabet::Url, true)
    }),
    Builtin::new("base64url.encode_no_pad", "(x: string) => y: string", |context, args| {
        base64::encode(context, args, Alphabet::Url, false)
    }),
    Builtin::new("base64url.decode", "(x: string) => y: string", base64::decode_url),
    Builtin::new("hex.encode", "(x: string) => y: string", hex_encode),
    Builtin::new("hex.decode", "(x: string) => y: string", hex_decode),
    Builtin::new("urlquery.encode", "(x: string) => y: string", url::query_encode),
    Builtin::new("urlquery.decode", "(x: string) => y: string", url::query_decode),
    Builtin::new(
        "urlquery.encode_object",
        "(object: object[string: any<string, array[string], set[string]>]) => y: string",
        url::query_encode_object,
    ),
    Builtin::new(
        "urlquery.decode_object",
        "(x: string) => object: object[string: array[string]]",
        url::query_decode_object,
    ),
    Builtin::new("uri.parse", "(uri: string) => output: object[string: string]", url::uri_parse),
    Builtin::new("uri.is_valid", "(uri: string) => result: boolean", url::uri_is_valid),
];

impl<'a> Context<'a> {
    /// Decoded bytes as a string.
    pub(super) fn bytes(&self, bytes: &[u8]) -> Outcome<'a> {
        Ok(Some(self.heap.bytes(bytes)?))
    }

    /// A document as Go's `encoding/json` writes it.
    pub(super) fn json_text(&self, value: &Json) -> Result<String, BuiltinError> {
        let mut text = String::new();
        json::write(value, &mut text, json::Escape::Html);
        self.allocate(text.len())?;
        Ok(text)
    }
}

fn json_marshal<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let value = operand::any(args, 0);
    let json = value.to_json(context.heap.budget())?;
    let text = wrong_bytes_escaped(value, context.json_text(&json)?);
    Ok(Some(context.heap.charged_string(&text)))
}

/// Go escapes U+FFFD where it stands for a byte that is not part of a character.
fn wrong_bytes_escaped(value: Value<'_>, text: String) -> String {
    if value.has_bytes() { text.replace('\u{fffd}', "\\ufffd") } else { text }
}

fn json_marshal_with_options<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let json = operand::any(args, 0).to_json(context.heap.budget())?;
    let (mut prefix, mut indent) = ("", "\t");
    let (mut implied, mut pretty) = (false, None);
    for (key, value) in operand::object(args, 1)? {
        let key_text = key.to_text(context.heap.budget())?;
        let text = |what: &str| {
            value.as_str().ok_or_else(|| {
                let got = value.type_name();
                let problem = format!(
                    "key {key_text} failed cast to string: operand {what} must be string but got {got}"
                );
                operand::wrong(1, &problem)
            })
        };
        match key.as_str() {
            Some("prefix") => (prefix, implied) = (text("1")?, true),
            Some("indent") => (indent, implied) = (text("0")?, true),
            Some("pretty") => {
                let flag = value.as_bool();
                pretty = Some(flag.ok_or_else(|| {
                    operand::wrong(1, &format!("key {key_text} failed cast to bool"))
                })?);
            }
            _ => {
                return Err(operand::wrong(1, &format!("object contained unknown key {key_text}")));
            }
        }
    }
    if !pretty.unwrap_or(implied) {
        let text = wrong_bytes_escaped(operand::any(args, 0), context.json_text(&json)?);
        return Ok(Some(context.heap.charged_string(&text)));
    }
    // Charged as if every value had a line of its own, indented by the deepest nesting.
    let lines = values_in(&json);
    let depth = depth_of(&json);
    let per_line = prefix.len().saturating_add(indent.len().saturating_mul(depth));
    context.allocate(lines.saturating_mul(2).saturating_mul(per_line))?;
    let mut text = String::new();
    json::write_pretty(&json, &mut text, indent, json::Escape::Html);
    context.allocate(text.len())?;
    // Line breaks inside strings are escaped, so these are the structure's own.
    let text = text.replace('\n', &format!("\n{prefix}"));
    Ok(Some(context.heap.charged_string(&format!("{prefix}{text}"))))
}

/// How many values a document holds, itself included.
fn values_in(value: &Json) -> usize {
    match value {
        Json::Array(items) => 1 + items.iter().map(values_in).sum::<usize>(),
        Json::Object(members) => 1 + members.values().map(values_in).sum::<usize>(),
        _ => 1,
    }
}

fn depth_of(value: &Json) -> usize {
    match value {
        Json::Array(items) => 1 + items.iter().map(depth_of).max().unwrap_or(0),
        Json::Object(members) => 1 + members.values().map(depth_of).max().unwrap_or(0),
        _ => 0,
    }
}

/// Charges for a document of `text` before it is read.
fn charge_document(context: &Context<'_>, text: &str) -> Result<(), BuiltinError> {
    context.spend(text.len())?;
    // The smallest element, a digit and a comma, becomes a value.
    context.allocate(text.len().saturating_mul(size_of::<Json>() / 2))
}

fn json_unmarshal<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let text = operand::string(args, 0)?;
    charge_document(context, text)?;
    let json = Json::from_json(text.as_bytes())
        .map_err(|error| BuiltinError::Failed(error.to_string()))?;
    Ok(Some(context.heap.copy_json(&json)?))
}

fn json_is_valid<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let Some(text) = operand::any(args, 0).as_str() else { return yes_or_no(false) };
    charge_document(context, text)?;
    yes_or_no(Json::from_json(text.as_bytes()).is_ok())
}

fn yaml_marshal<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let json = operand::any(args, 0).to_json(context.heap.budget())?;
    let depth = depth_of(&json);
    let lines = values_in(&json);
    context.allocate(lines.saturating_mul(2 * depth))?;
    context.string(&yaml::write(&yaml_numbers(json)))
}

/// Numbers as YAML's own decoder leaves them: integers of 64 bits as they are, others as floats.
fn yaml_numbers(value: Json) -> Json {
    match value {
        Json::Number(number) => {
            let text = number.to_string();
            if text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok() {
                return Json::Number(number);
            }
            let float = gofloat::general(number.as_f64());
            Number::from_json_text(&float).map_or(Json::Number(number), Json::Number)
        }
        Json::Array(items) => items.iter().cloned().map(yaml_numbers).collect(),
        Json::Object(members) => {
            members.iter().map(|(key, value)| (key.clone(), yaml_numbers(value.clone()))).collect()
        }
        other => other,
    }
}

fn yaml_unmarshal<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let text = operand::string(args, 0)?;
    if operand::any(args, 0).as_utf8().is_none() {
        return Err(BuiltinError::failed("yaml: invalid leading UTF-8 octet"));
    }
    charge_document(context, text)?;
    let json = yaml::value(text).map_err(|error| BuiltinError::Failed(error.to_string()))?;
    Ok(Some(context.heap.copy_json(&json)?))
}

fn yaml_is_valid<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let Some(text) = operand::any(args, 0).as_utf8() else { return yes_or_no(false) };
    charge_document(context, text)?;
    yes_or_no(yaml::value(text).is_ok())
}

fn hex_encode<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let bytes = operand::bytes(args, 0)?;
    context.scan(bytes)?;
    context.allocate(bytes.len().saturating_mul(2))?;
    Ok(Some(context.heap.charged_string(&hex::encode(bytes))))
}

fn hex_decode<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let text = operand::string(args, 0)?;
    context.scan(text)?;
    context.allocate(text.len())?;
    context.bytes(&hex::decode(text.as_bytes()).map_err(BuiltinError::Failed)?)
}
