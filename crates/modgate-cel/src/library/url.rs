//! URLs as Go reads them (`net/url`).

use std::{collections::BTreeMap, fmt};

use super::{Opaque, Table, net};
use crate::{
    brief::quote,
    eval::{EvalError, Result, failed},
    heap::Heap,
    value::Val,
};

/// A URL in its parts.
#[derive(Debug, Clone, Copy)]
pub struct Url<'a> {
    scheme: &'a str,
    /// What follows the scheme, if that is no path.
    opaque: &'a str,
    user: Option<&'a str>,
    host: &'a str,
    /// As written.
    path: &'a str,
    query: Option<&'a str>,
    fragment: &'a str,
    /// Whether a path follows the scheme at once: `file:/a`, not `file:///a`.
    omit_host: bool,
}

impl fmt::Display for Url<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.scheme.is_empty() {
            write!(f, "{}:", self.scheme.to_ascii_lowercase())?;
        }
        if !self.opaque.is_empty() {
            f.write_str(self.opaque)?;
        } else {
            let authority = !self.host.is_empty() || self.user.is_some();
            let absolute = !self.scheme.is_empty() && !self.path.is_empty() && !self.omit_host;
            if authority || absolute {
                f.write_str("//")?;
            }
            if let Some(user) = self.user {
                let (name, password) = match user.split_once(':') {
                    Some((name, password)) => (name, Some(password)),
                    None => (user, None),
                };
                let plain = |byte: u8| is_unreserved(byte) || b"$&+,;=".contains(&byte);
                f.write_str(&escape(&unescape(name, |_| true).unwrap_or_default(), plain))?;
                if let Some(password) = password {
                    let password = unescape(password, |_| true).unwrap_or_default();
                    write!(f, ":{}", escape(&password, plain))?;
                }
                f.write_str("@")?;
            }
            f.write_str(&escape(self.host, is_host))?;
            f.write_str(&self.escaped_path())?;
        }
        if let Some(query) = self.query {
            write!(f, "?{query}")?;
        }
        if !self.fragment.is_empty() {
            write!(f, "#{}", self.escaped_fragment())?;
        }
        Ok(())
    }
}

pub(super) const FUNCTIONS: Table = &[
    ("url", |heap, args| match args {
        [Val::String(text)] => {
            heap.budget.spend(text.len() as u64 / 4)?;
            heap.budget.allocate(text.len() * 3)?;
            match read(heap, text)? {
                Ok(url) => heap.opaque(Opaque::Url(url)),
                Err(error) => {
                    failed(format!("URL parse error during conversion from string: {error}"))
                }
            }
        }
        _ => Err(EvalError::NoOverload),
    }),
    ("isURL", |heap, args| match args {
        [Val::String(text)] => {
            heap.budget.spend(text.len() as u64 / 4)?;
            heap.temporary(text.len() * 3, || Ok(Val::Bool(request_uri(text).is_ok())))
        }
        _ => Err(EvalError::NoOverload),
    }),
    ("getScheme", |heap, args| {
        let scheme = of(args)?.scheme;
        heap.build(scheme.len())?;
        heap.text(&scheme.to_ascii_lowercase())
    }),
    ("getHost", |_, args| Ok(Val::String(of(args)?.host))),
    ("getHostname", |_, args| Ok(Val::String(split_port(of(args)?.host).0))),
    ("getPort", |_, args| Ok(Val::String(split_port(of(args)?.host).1))),
    ("getEscapedPath", |heap, args| {
        let url = of(args)?;
        heap.build(url.path.len() * 3)?;
        heap.text(&url.escaped_path())
    }),
    ("getQuery", |heap, args| {
        let mut all: BTreeMap<String, Vec<Val<'_>>> = BTreeMap::new();
        for part in of(args)?.query.unwrap_or_default().split('&') {
            if part.is_empty() || part.contains(';') {
                continue;
            }
            heap.build(part.len())?;
            heap.budget.allocate(256)?;
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let plain = |text: &str| unescape(&text.replace('+', " "), |_| true);
            let (Ok(key), Ok(value)) = (plain(key), plain(value)) else { continue };
            let value = heap.text(&value)?;
            heap.budget.allocate(key.len())?;
            all.entry(key).or_default().push(value);
        }
        let mut entries = heap.vec(all.len())?;
        for (key, values) in &all {
            entries.push((heap.text(key)?, heap.list(values)?));
        }
        heap.map(&entries)
    }),
];

fn of<'a>(args: &[Val<'a>]) -> Result<Url<'a>> {
    match args {
        [Val::Opaque(Opaque::Url(url))] => Ok(*url),
        _ => Err(EvalError::NoOverload),
    }
}

type Parsed<T> = std::result::Result<T, String>;

/// Whether `text` is an absolute URL or an absolute path.
///
/// # Errors
///
/// Go's text about what it is instead.
pub(super) fn request_uri(text: &str) -> Parsed<()> {
    parse(text, true).map(drop).map_err(|error| format!("parse {}: {error}", quote(text)))
}

fn read<'a>(heap: Heap<'a>, text: &'a str) -> Result<Parsed<Url<'a>>> {
    if let Err(error) = request_uri(text) {
        return Ok(Err(error));
    }
    let (before, fragment) = text.split_once('#').unwrap_or((text, ""));
    let found =
        parse(before, false).map_err(|error| (before, error)).and_then(|url| {
            match unescape(fragment, |_| true) {
                Ok(_) => Ok(url),
                Err(error) => Err((text, error)),
            }
        });
    Ok(match found {
        Ok((url, host)) => {
            let host = match host {
                Some(host) => heap.str(&host)?,
                None => url.host,
            };
            Ok(Url { fragment, host, ..url })
        }
        Err((text, error)) => Err(format!("parse {}: {error}", quote(text))),
    })
}

/// The parts; the host apart if it was written with escapes.
fn parse(text: &str, request: bool) -> Parsed<(Url<'_>, Option<String>)> {
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() && request {
        return Err("empty url".to_owned());
    }
    let (scheme, rest) = scheme(text)?;
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, Some(query)),
        None => (rest, None),
    };
    let mut url = Url {
        scheme,
        opaque: "",
        user: None,
        host: "",
        path: rest,
        query,
        fragment: "",
        omit_host: false,
    };
    if text == "*" {
        return Ok((url, None));
    }
    if !rest.starts_with('/') {
        if !scheme.is_empty() {
            return Ok((Url { opaque: rest, path: "", ..url }, None));
        }
        if request {
            return Err("invalid URI for request".to_owned());
        }
        if rest.split('/').next().is_some_and(|first| first.contains(':')) {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    let mut host = None;
    let relative = !request && !rest.starts_with("///");
    if (!scheme.is_empty() || relative)
        && let Some(authority) = rest.strip_prefix("//")
    {
        let end = authority.find('/').unwrap_or(authority.len());
        let (authority, path) = authority.split_at_checked(end).unwrap_or((authority, ""));
        url.path = path;
        let written = match authority.rsplit_once('@') {
            Some((user, written)) => {
                url.user = Some(user);
                written
            }
            None => authority,
        };
        let plain = read_host(scheme, written)?;
        if let Some(user) = url.user {
            check_user(user)?;
        }
        url.host = written;
        host = (plain != written).then_some(plain);
    } else {
        url.omit_host = !scheme.is_empty() && rest.starts_with('/');
    }
    unescape(url.path, |_| true)?;
    Ok((url, host))
}

fn scheme(text: &str) -> Parsed<(&str, &str)> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok(text.split_once(':').unwrap_or(("", text))),
            _ => break,
        }
    }
    Ok(("", text))
}

fn check_user(user: &str) -> Parsed<()> {
    let valid = |next: char| next.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(next);
    if !user.chars().all(valid) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    unescape(user, |_| true).map(drop)
}

/// A host and port without escapes.
fn read_host(scheme: &str, host: &str) -> Parsed<String> {
    match host.rfind('[') {
        Some(0) => {
            let (inner, port) =
                host.rsplit_once(']').ok_or_else(|| "missing ']' in host".to_owned())?;
            check_port(port)?;
            let inner = inner.get(1..).unwrap_or_default();
            let name = match inner.split_once("%25") {
                Some((name, zone)) => {
                    let zone = unescape(zone, |byte| byte == b' ' || is_host(byte))?;
                    format!("{}%{zone}", unescape_host(name)?)
                }
                None => unescape_host(inner)?,
            };
            match net::literal(&name) {
                Ok(true) => Ok(format!("[{name}]{port}")),
                Ok(false) => Err("invalid IP-literal".to_owned()),
                Err(error) => Err(format!("invalid host: {error}")),
            }
        }
        Some(_) => Err("invalid IP-literal".to_owned()),
        None => {
            let strict = ["http", "https"].iter().any(|name| scheme.eq_ignore_ascii_case(name));
            let colon = if strict { host.find(':') } else { host.rfind(':') };
            if let Some(port) = colon.and_then(|colon| host.get(colon..)) {
                check_port(port)?;
            }
            unescape_host(host)
        }
    }
}

fn check_port(port: &str) -> Parsed<()> {
    if is_port(port) {
        return Ok(());
    }
    Err(format!("invalid port {} after host", quote(port)))
}

fn is_port(port: &str) -> bool {
    port.is_empty()
        || port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|d| d.is_ascii_digit()))
}

/// Whether a host may have such a byte unescaped.
fn is_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!\"$&'()*+,-.:;<=>[]_~".contains(&byte)
}

fn unescape_host(host: &str) -> Parsed<String> {
    if let Some(bad) = host.bytes().find(|byte| byte.is_ascii() && *byte != b'%' && !is_host(*byte))
    {
        let bad = char::from(bad).to_string();
        return Err(format!("invalid character {} in host name", quote(&bad)));
    }
    // Only what is not ASCII may be escaped.
    unescape(host, |byte| byte >= 0x80 || byte == b'%')
}

/// `text` without its escapes, of which only `allowed` bytes may be.
fn unescape(text: &str, allowed: impl Fn(u8) -> bool) -> Parsed<String> {
    if !text.contains('%') {
        return Ok(text.to_owned());
    }
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        if *byte != b'%' {
            out.push(*byte);
            at += 1;
            continue;
        }
        let digits = bytes.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
        let value = digits
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match value {
            Some(value) if allowed(value) => out.push(value),
            _ => {
                let end = (at + 3).min(bytes.len());
                let escape = String::from_utf8_lossy(bytes.get(at..end).unwrap_or_default());
                return Err(format!("invalid URL escape {}", quote(&escape)));
            }
        }
        at += 3;
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte)
}

/// `text` with all bytes escaped that are not `plain`.
fn escape(text: &str, plain: impl Fn(u8) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if plain(byte) {
            out.push(char::from(byte));
        } else {
            let _ = fmt::Write::write_fmt(&mut out, format_args!("%{byte:02X}"));
        }
    }
    out
}

/// The host without brackets, and the port.
fn split_port(host: &str) -> (&str, &str) {
    let (name, port) = match host.rfind(':').and_then(|at| host.split_at_checked(at)) {
        Some((name, port)) if is_port(port) => (name, port.get(1..).unwrap_or_default()),
        _ => (host, ""),
    };
    let inner = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    (inner.unwrap_or(name), port)
}

impl Url<'_> {
    pub(super) fn length(&self) -> usize {
        let parts = [self.scheme, self.opaque, self.host, self.path, self.fragment];
        let rest = self.user.map_or(0, str::len) + self.query.map_or(0, str::len);
        parts.iter().map(|part| part.len()).sum::<usize>() + rest
    }

    fn escaped_fragment(&self) -> String {
        let plain = |byte: u8| is_unreserved(byte) || b"$&+,/:;=?@!()*".contains(&byte);
        if self.fragment.bytes().all(|byte| plain(byte) || b"'[]%".contains(&byte)) {
            return self.fragment.to_owned();
        }
        escape(&unescape(self.fragment, |_| true).unwrap_or_default(), plain)
    }

    fn escaped_path(&self) -> String {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"$&+,-./:;=@_~".contains(&byte);
        let path = self.path;
        if path == "*" || path.bytes().all(|byte| plain(byte) || b"!'()*[]%".contains(&byte)) {
            return path.to_owned();
        }
        let mut out = String::with_capacity(path.len() + 8);
        let bytes = path.as_bytes();
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            let digits = bytes.get(at + 1..at + 3).and_then(|pair| std::str::from_utf8(pair).ok());
            let byte = match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
                Some(value) if *byte == b'%' => {
                    at += 2;
                    value
                }
                _ => *byte,
            };
            at += 1;
            if plain(byte) {
                out.push(char::from(byte));
            } else {
                let _ = fmt::Write::write_fmt(&mut out, format_args!("%{byte:02X}"));
            }
        }
        out
    }
}
