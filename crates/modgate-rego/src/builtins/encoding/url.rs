//! URLs as Go's `net/url` reads and writes them.

use std::{borrow::Cow, collections::BTreeMap, net::Ipv6Addr};

use modgate_value::{Value as Json, gofmt};

use super::super::{BuiltinError, Context, Outcome, operand, strings::Sink, yes_or_no};
use crate::value::{Value, View};

/// Which part of a URL an escape stands in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Query,
    Path,
    Host,
    Fragment,
    User,
}

fn in_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!\"$&'()*+,-.:;<=>[]_~".contains(&byte)
}

/// `url.unescape`; what is not UTF-8 becomes U+FFFD.
fn unescape(text: &str, part: Part) -> Result<String, String> {
    Ok(match String::from_utf8(unescape_bytes(text.as_bytes(), part)?) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

/// `url.unescape`
fn unescape_bytes(text: &[u8], part: Part) -> Result<Vec<u8>, String> {
    let quote = |bytes: &[u8]| gofmt::quote(&String::from_utf8_lossy(bytes));
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let first = *first;
        if first == b'%' {
            let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
            let digits = digits.filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
            let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
            let ascii_in_host = part == Part::Host && digits.is_some_and(|d| d < "8" && d != "25");
            let Some(byte) = byte.filter(|_| !ascii_in_host) else {
                return Err(format!("invalid URL escape {}", quote(rest.get(..3).unwrap_or(rest))));
            };
            out.push(byte);
            rest = after.get(2..).unwrap_or_default();
            continue;
        }
        if part == Part::Host && first.is_ascii() && !in_host(first) {
            let shown = quote(&[first]);
            return Err(format!("invalid character {shown} in host name"));
        }
        out.push(if first == b'+' && part == Part::Query { b' ' } else { first });
        rest = after;
    }
    Ok(out)
}

fn escape_into(
    text: &[u8],
    out: &mut impl FnMut(&str) -> Result<(), BuiltinError>,
    plain: impl Fn(u8) -> bool,
) -> Result<(), BuiltinError> {
    for byte in text.iter().copied() {
        match byte {
            b' ' if !plain(b'/') => out("+")?,
            _ if byte.is_ascii_alphanumeric() || plain(byte) => {
                out(char::from(byte).encode_utf8(&mut [0; 4]))?;
            }
            _ => out(&format!("%{byte:02X}"))?,
        }
    }
    Ok(())
}

/// `url.QueryEscape`
fn query_escape(text: &[u8], sink: &mut Sink<'_>) -> Result<(), BuiltinError> {
    escape_into(text, &mut |piece| sink.push(piece), |byte| b"-_.~".contains(&byte))
}

pub(super) fn query_encode<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let bytes = operand::bytes(args, 0)?;
    context.scan(bytes)?;
    let mut sink = Sink::new(context);
    query_escape(bytes, &mut sink)?;
    sink.finish(context)
}

pub(super) fn query_decode<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let text = operand::bytes(args, 0)?;
    context.scan(text)?;
    context.allocate(text.len())?;
    context.bytes(&unescape_bytes(text, Part::Query).map_err(BuiltinError::Failed)?)
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
        query_escape(&key, &mut sink)?;
        sink.push("=")?;
        query_escape(value, &mut sink)?;
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
        let key = unescape_bytes(key.as_bytes(), Part::Query).map_err(BuiltinError::Failed)?;
        let value = unescape_bytes(value.as_bytes(), Part::Query).map_err(BuiltinError::Failed)?;
        parameters.entry(key).or_default().push(context.heap.bytes(&value)?);
    }
    let entries: Vec<_> = parameters
        .iter()
        .map(|(key, values)| Ok((context.heap.bytes(key)?, context.heap.array(values)?)))
        .collect::<Result<_, BuiltinError>>()?;
    Ok(Some(context.heap.object_from_sorted(&entries)?))
}

/// What `uri.parse` shows of a URL; what it lacks is empty.
#[derive(Default)]
struct Url {
    scheme: String,
    hostname: String,
    port: String,
    path: String,
    /// The path where it is not UTF-8.
    path_bytes: Vec<u8>,
    raw_path: String,
    raw_query: String,
    fragment: String,
    /// What follows the scheme where that is not a path, as in `mailto:`.
    opaque: String,
    /// The host with its port.
    host: String,
    has_user: bool,
    ends_in_question_mark: bool,
}

impl Url {
    /// `url.Parse`
    fn parse(text: &str) -> Result<Self, String> {
        let (before, fragment) = text.split_once('#').unwrap_or((text, ""));
        let fail =
            |shown: &str, problem: String| format!("parse {}: {problem}", gofmt::quote(shown));
        let mut url = Self::parse_reference(before).map_err(|problem| fail(before, problem))?;
        url.fragment = unescape(fragment, Part::Fragment).map_err(|problem| fail(text, problem))?;
        Ok(url)
    }

    fn parse_reference(text: &str) -> Result<Self, String> {
        let mut url = Self::default();
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        let (scheme, rest) = split_scheme(text)?;
        url.scheme = scheme.to_ascii_lowercase();
        url.ends_in_question_mark = rest.find('?') == Some(rest.len().saturating_sub(1));
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        query.clone_into(&mut url.raw_query);
        if !rest.starts_with('/') {
            if !scheme.is_empty() {
                rest.clone_into(&mut url.opaque);
                return Ok(url);
            }
            if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
                return Err("first path segment in URL cannot contain colon".to_owned());
            }
        }
        let mut path = rest;
        if let Some(authority) = rest.strip_prefix("//")
            && (!scheme.is_empty() || !authority.starts_with('/'))
        {
            let end = authority.find('/').unwrap_or(authority.len());
            let (authority, after) = authority.split_at(end);
            path = after;
            url.set_authority(authority)?;
        }
        url.path = unescape(path, Part::Path)?;
        url.path_bytes = unescape_bytes(path.as_bytes(), Part::Path)?;
        // Where the usual escaping of the path is what was written, the path says it all.
        url.raw_path =
            if escaped_path(&url.path_bytes) == path { url.path.clone() } else { path.into() };
        Ok(url)
    }

    fn set_authority(&mut self, authority: &str) -> Result<(), String> {
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        let strict = matches!(self.scheme.as_str(), "http" | "https");
        let host = parse_host(host, strict)?;
        host.clone_into(&mut self.host);
        self.has_user = user.is_some();
        if let Some(user) = user {
            let valid =
                |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
            if !user.bytes().all(valid) {
                return Err("net/url: invalid userinfo".to_owned());
            }
            unescape(user, Part::User)?;
        }
        let (host, port) = match host.rsplit_once(':') {
            Some((name, port)) if is_port(port) => (name.to_owned(), port.to_owned()),
            _ => (host, String::new()),
        };
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        self.hostname = bracketed.map(str::to_owned).unwrap_or(host);
        self.port = port;
        Ok(())
    }
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    let end =
        text.find(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c)).unwrap_or(text.len());
    let (scheme, rest) = text.split_at(end);
    match rest.strip_prefix(':') {
        Some(_) if scheme.is_empty() => Err("missing protocol scheme".to_owned()),
        Some(rest) if scheme.starts_with(|c: char| c.is_ascii_alphabetic()) => Ok((scheme, rest)),
        _ => Ok(("", text)),
    }
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The host and port without escapes.
fn parse_host(host: &str, strict_colons: bool) -> Result<String, String> {
    let port_error = |port: &str| format!("invalid port {} after host", gofmt::quote(port));
    match host.rfind('[') {
        Some(0) => {
            let (name, port) = host.split_at(host.rfind(']').ok_or("missing ']' in host")?);
            let (name, port) =
                (name.get(1..).unwrap_or_default(), port.get(1..).unwrap_or_default());
            if !port.is_empty() && !port.strip_prefix(':').is_some_and(is_port) {
                return Err(port_error(port));
            }
            let name = unescape(name, Part::Host)?;
            let address = name.split('%').next().unwrap_or_default();
            if address.parse::<Ipv6Addr>().is_err() {
                let shown = gofmt::quote(&name);
                return Err(format!("invalid host: ParseAddr({shown}): unable to parse IP"));
            }
            Ok(format!("[{name}]{port}"))
        }
        Some(_) => Err("invalid IP-literal".to_owned()),
        None => {
            let colon = if strict_colons { host.find(':') } else { host.rfind(':') };
            if let Some(port) = colon.and_then(|colon| host.get(colon..))
                && !is_port(port.get(1..).unwrap_or_default())
            {
                return Err(port_error(port));
            }
            unescape(host, Part::Host)
        }
    }
}

/// A path as `net/url` escapes it.
fn escaped_path(path: &[u8]) -> String {
    let mut out = String::with_capacity(path.len());
    let plain = |byte: u8| b"$&+,-./:;=@_~".contains(&byte);
    // Pushing to a string does not fail.
    let _ = escape_into(
        path,
        &mut |piece| {
            out.push_str(piece);
            Ok(())
        },
        plain,
    );
    out
}

pub(super) fn uri_parse<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let text = operand::string(args, 0)?;
    context.scan(text)?;
    context.allocate(text.len().saturating_mul(4))?;
    let url = Url::parse(text).map_err(BuiltinError::Failed)?;
    let path = url.path.clone();
    let mut entries = Vec::new();
    for (key, part) in [
        ("scheme", url.scheme),
        ("hostname", url.hostname),
        ("port", url.port),
        ("path", url.path),
        ("raw_path", url.raw_path),
        ("raw_query", url.raw_query),
        ("fragment", url.fragment),
    ] {
        if part.is_empty() {
            continue;
        }
        // The raw path is the path itself where the usual escaping of it is what was written.
        let is_path = key == "path" || key == "raw_path" && part == path;
        let part = if is_path { &url.path_bytes } else { part.as_bytes() };
        entries.push((Value::str(key), context.heap.bytes(part)?));
    }
    Ok(Some(context.heap.object(entries)?))
}

/// The empty string is not valid, although it is a relative reference.
pub(super) fn uri_is_valid<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let Some(text) = operand::any(args, 0).as_str() else { return yes_or_no(false) };
    context.scan(text)?;
    context.allocate(text.len().saturating_mul(4))?;
    yes_or_no(!text.is_empty() && Url::parse(text).is_ok())
}

/// The scheme and the path of a URL.
pub(in super::super) fn parts(text: &str) -> Option<(String, String)> {
    Url::parse(text).ok().map(|url| (url.scheme, url.path))
}

/// The scheme and the host, with its port, of a URL; the error is that of `url.Parse`.
pub(in super::super) fn origin(text: &str) -> Result<(String, String), String> {
    Url::parse(text).map(|url| (url.scheme, url.host))
}

/// A URL as Go's `encoding/json` writes its `url.URL`.
pub(in super::super) fn go_json(text: &str) -> Json {
    let Ok(url) = Url::parse(text) else { return Json::Null };
    let raw_path = if url.raw_path == url.path { String::new() } else { url.raw_path };
    let omit_host = !url.scheme.is_empty() && url.host.is_empty() && url.opaque.is_empty();
    [
        ("Scheme", url.scheme.into()),
        ("Opaque", url.opaque.into()),
        ("User", if url.has_user { Json::Object(Default::default()) } else { Json::Null }),
        ("Host", url.host.into()),
        ("Path", url.path.into()),
        ("Fragment", url.fragment.into()),
        ("RawQuery", url.raw_query.into()),
        ("RawPath", raw_path.into()),
        ("RawFragment", "".into()),
        ("ForceQuery", url.ends_in_question_mark.into()),
        ("OmitHost", omit_host.into()),
    ]
    .into_iter()
    .collect()
}
