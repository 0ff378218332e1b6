//! URLs.

use std::{borrow::Cow, collections::BTreeMap};

use modgate_value::{
    Value as Json,
    go::url::{Url, query_escape, query_unescape},
    gofmt::quote_bytes,
};

use super::super::{BuiltinError, Context, Outcome, operand, strings::Sink, yes_or_no};
use crate::value::{Value, View};

/// `url.QueryEscape`, in pieces that are charged before the next one is made.
fn escape_into(text: &[u8], sink: &mut Sink<'_>) -> Result<(), BuiltinError> {
    for piece in text.chunks(1024) {
        sink.push(&String::from_utf8_lossy(&query_escape(piece)))?;
    }
    Ok(())
}

pub(super) fn query_encode<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let bytes = operand::bytes(args, 0)?;
    context.scan(bytes)?;
    let mut sink = Sink::new(context);
    escape_into(bytes, &mut sink)?;
    sink.finish(context)
}

pub(super) fn query_decode<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let text = operand::bytes(args, 0)?;
    context.scan(text)?;
    context.allocate(text.len())?;
    context.bytes(&query_unescape(text, quote_bytes).map_err(BuiltinError::Failed)?)
}

/// Parameters sorted by name, those of a list one after the other.
pub(super) fn query_encode_object<'a>(
    context: &mut Context<'a>,
    args: &[Value<'a>],
) -> Outcome<'a> {
    let wrong = || operand::wrong(0, "values must be string, array[string], or set[string]");
    let mut parameters = Vec::new();
    for (key, value) in operand::object(args, 0)? {
        let key = match key.as_bytes() {
            Some(key) => Cow::Borrowed(key),
            None => Cow::Owned(key.to_json(context.heap.budget())?.to_json().into_bytes()),
        };
        let values = match value.view() {
            View::Array(items) => items.iter(),
            View::Set(items) => items.iter(),
            _ => {
                parameters.push((key, value.as_bytes().ok_or_else(wrong)?));
                continue;
            }
        };
        for value in values {
            context.spend(1)?;
            context.allocate(size_of::<(Cow<'_, [u8]>, &[u8])>().saturating_add(key.len()))?;
            parameters.push((key.clone(), value.as_bytes().ok_or_else(wrong)?));
        }
    }
    let mut sink = Sink::new(context);
    for (index, (key, value)) in parameters.into_iter().enumerate() {
        context.scan(value)?;
        if index > 0 {
            sink.push("&")?;
        }
        escape_into(&key, &mut sink)?;
        sink.push("=")?;
        escape_into(value, &mut sink)?;
    }
    sink.finish(context)
}

pub(super) fn query_decode_object<'a>(
    context: &mut Context<'a>,
    args: &[Value<'a>],
) -> Outcome<'a> {
    let text = operand::string(args, 0)?;
    context.scan(text)?;
    context.allocate(text.len().saturating_mul(size_of::<Value<'_>>()))?;
    let mut parameters: BTreeMap<Vec<u8>, Vec<Value<'a>>> = BTreeMap::new();
    for parameter in text.split('&').filter(|parameter| !parameter.is_empty()) {
        if parameter.contains(';') {
            return Err(BuiltinError::failed("invalid semicolon separator in query"));
        }
        let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let key = query_unescape(key.as_bytes(), quote_bytes).map_err(BuiltinError::Failed)?;
        let value = query_unescape(value.as_bytes(), quote_bytes).map_err(BuiltinError::Failed)?;
        parameters.entry(key).or_default().push(context.heap.bytes(&value)?);
    }
    let entries: Vec<_> = parameters
        .iter()
        .map(|(key, values)| Ok((context.heap.bytes(key)?, context.heap.array(values)?)))
        .collect::<Result<_, BuiltinError>>()?;
    Ok(Some(context.heap.object_from_sorted(&entries)?))
}

pub(super) fn uri_parse<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let text = operand::string(args, 0)?;
    context.scan(text)?;
    context.allocate(text.len().saturating_mul(4))?;
    let url = Url::parse(text.as_bytes(), quote_bytes).map_err(BuiltinError::Failed)?;
    let mut entries = Vec::new();
    for (key, part) in [
        ("scheme", url.scheme.as_bytes()),
        ("hostname", url.hostname()),
        ("port", url.port()),
        ("path", &url.path),
        ("raw_path", if url.raw_path.is_empty() { &url.path } else { &url.raw_path }),
        ("raw_query", &url.raw_query),
        ("fragment", &url.fragment),
    ] {
        if !part.is_empty() {
            entries.push((Value::str(key), context.heap.bytes(part)?));
        }
    }
    Ok(Some(context.heap.object(entries)?))
}

/// The empty string is not valid, although it is a relative reference.
pub(super) fn uri_is_valid<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let Some(text) = operand::any(args, 0).as_str() else { return yes_or_no(false) };
    context.scan(text)?;
    context.allocate(text.len().saturating_mul(4))?;
    yes_or_no(!text.is_empty() && Url::parse(text.as_bytes(), quote_bytes).is_ok())
}

/// A URL as Go's `encoding/json` writes its `url.URL`.
pub(in super::super) fn go_json(text: &str) -> Json {
    let Ok(url) = Url::parse(text.as_bytes(), quote_bytes) else { return Json::Null };
    let text = |bytes: &[u8]| Json::from(String::from_utf8_lossy(bytes).into_owned());
    let user = url.user.as_ref().map(|_| Json::Object(Default::default()));
    [
        ("Scheme", url.scheme.as_str().into()),
        ("Opaque", text(&url.opaque)),
        ("User", user.unwrap_or_default()),
        ("Host", text(&url.host)),
        ("Path", text(&url.path)),
        ("Fragment", text(&url.fragment)),
        ("RawQuery", text(&url.raw_query)),
        ("RawPath", text(&url.raw_path)),
        ("RawFragment", text(&url.raw_fragment)),
        ("ForceQuery", url.force_query.into()),
        ("OmitHost", url.omit_host.into()),
    ]
    .into_iter()
    .collect()
}
