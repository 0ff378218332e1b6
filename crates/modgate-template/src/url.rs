//! URLs as Go's `net/url` reads and writes them.

use std::net::Ipv6Addr;

use crate::text::quote;

/// A URL in parts; the path and fragment decoded.
#[derive(Debug, Clone, Default)]
pub(crate) struct Url {
    pub(crate) scheme: String,
    pub(crate) opaque: Vec<u8>,
    pub(crate) user: Option<UserInfo>,
    pub(crate) host: Vec<u8>,
    pub(crate) path: Vec<u8>,
    pub(crate) query: Vec<u8>,
    pub(crate) fragment: Vec<u8>,
}

/// User name and, if given, password; decoded.
#[derive(Debug, Clone)]
pub(crate) struct UserInfo {
    name: Vec<u8>,
    password: Option<Vec<u8>>,
}

/// Which part of a URL is escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Path,
    Host,
    Zone,
    User,
    Fragment,
}

impl UserInfo {
    /// `name:password`, escaped.
    pub(crate) fn text(&self) -> Vec<u8> {
        let mut out = escape(&self.name, Part::User);
        if let Some(password) = &self.password {
            out.push(b':');
            out.extend(escape(password, Part::User));
        }
        out
    }
}

impl Url {
    /// `url.Parse`
    pub(crate) fn parse(text: &[u8]) -> Result<Self, String> {
        let (before, fragment) = cut(text, b'#');
        let failed = |text: &[u8], message: String| format!("parse {}: {message}", quote(text));
        let mut url = Self::parse_before_fragment(before).map_err(|m| failed(before, m))?;
        if let Some(fragment) = fragment {
            url.fragment = unescape(fragment, Part::Fragment).map_err(|m| failed(text, m))?;
        }
        Ok(url)
    }

    fn parse_before_fragment(text: &[u8]) -> Result<Self, String> {
        if text.iter().any(u8::is_ascii_control) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        let mut url = Self::default();
        if text == b"*" {
            url.path = text.to_vec();
            return Ok(url);
        }
        let (scheme, rest) = scheme(text)?;
        url.scheme = scheme.to_ascii_lowercase();
        let (rest, query) = cut(rest, b'?');
        url.query = query.unwrap_or_default().to_vec();
        if !rest.starts_with(b"/") {
            if !url.scheme.is_empty() {
                url.opaque = rest.to_vec();
                return Ok(url);
            }
            if cut(rest, b'/').0.contains(&b':') {
                return Err("first path segment in URL cannot contain colon".to_owned());
            }
        }
        let mut path = rest;
        if let Some(after) = rest.strip_prefix(b"//")
            && (!url.scheme.is_empty() || !after.starts_with(b"/"))
        {
            let length = after.iter().position(|byte| *byte == b'/').unwrap_or(after.len());
            let (authority, after) = after.split_at(length);
            url.authority(authority)?;
            path = after;
        }
        url.path = unescape(path, Part::Path)?;
        Ok(url)
    }

    fn authority(&mut self, authority: &[u8]) -> Result<(), String> {
        let at = authority.iter().rposition(|byte| *byte == b'@');
        let host = at.map_or(Some(authority), |at| authority.get(at + 1..));
        self.host = host_of(&self.scheme, host.unwrap_or_default())?;
        let Some(info) = at.and_then(|at| authority.get(..at)) else {
            return Ok(());
        };
        let valid =
            |byte: &u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(byte);
        if !info.iter().all(valid) {
            return Err("net/url: invalid userinfo".to_owned());
        }
        let (name, password) = cut(info, b':');
        self.user = Some(UserInfo {
            name: unescape(name, Part::User)?,
            password: password.map(|password| unescape(password, Part::User)).transpose()?,
        });
        Ok(())
    }

    /// The host without its port and brackets.
    pub(crate) fn hostname(&self) -> &[u8] {
        let mut host = self.host.as_slice();
        if let Some(colon) = host.iter().rposition(|byte| *byte == b':')
            && host.get(colon..).is_some_and(is_port)
        {
            host = host.get(..colon).unwrap_or_default();
        }
        host.strip_prefix(b"[").and_then(|inside| inside.strip_suffix(b"]")).unwrap_or(host)
    }

    /// `URL.String` of a URL made of parts.
    pub(crate) fn text(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.scheme.is_empty() {
            out.extend(self.scheme.bytes());
            out.push(b':');
        }
        if self.opaque.is_empty() {
            let named = !self.host.is_empty() || self.user.is_some();
            if named || (!self.scheme.is_empty() && !self.path.is_empty()) {
                out.extend(b"//");
            }
            if let Some(user) = &self.user {
                out.extend(user.text());
                out.push(b'@');
            }
            out.extend(escape(&self.host, Part::Host));
            let path =
                if self.path == b"*" { b"*".to_vec() } else { escape(&self.path, Part::Path) };
            if !path.is_empty() && !path.starts_with(b"/") && !self.host.is_empty() {
                out.push(b'/');
            }
            if out.is_empty() && cut(&path, b'/').0.contains(&b':') {
                out.extend(b"./");
            }
            out.extend(path);
        } else {
            out.extend(&self.opaque);
        }
        if !self.query.is_empty() {
            out.push(b'?');
            out.extend(&self.query);
        }
        if !self.fragment.is_empty() {
            out.push(b'#');
            out.extend(escape(&self.fragment, Part::Fragment));
        }
        out
    }
}

fn cut(text: &[u8], separator: u8) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|byte| *byte == separator) {
        Some(at) => (text.get(..at).unwrap_or_default(), text.get(at + 1..)),
        None => (text, None),
    }
}

/// The scheme before the first colon, if what is there can be one.
fn scheme(text: &[u8]) -> Result<(String, &[u8]), String> {
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => {
                let (scheme, rest) = text.split_at(at);
                let rest = rest.get(1..).unwrap_or_default();
                return Ok((String::from_utf8_lossy(scheme).into_owned(), rest));
            }
            _ => break,
        }
    }
    Ok((String::new(), text))
}

/// `:` and digits, or nothing.
fn is_port(text: &[u8]) -> bool {
    match text {
        [] => true,
        [b':', digits @ ..] => digits.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

fn host_of(scheme: &str, host: &[u8]) -> Result<Vec<u8>, String> {
    let bad_port = |port: &[u8]| format!("invalid port {} after host", quote(port));
    match host.iter().rposition(|byte| *byte == b'[') {
        Some(0) => {
            let close = host.iter().rposition(|byte| *byte == b']');
            let close = close.ok_or("missing ']' in host")?;
            let port = host.get(close + 1..).unwrap_or_default();
            if !is_port(port) {
                return Err(bad_port(port));
            }
            let inside = host.get(1..close).unwrap_or_default();
            let zone = inside.windows(3).position(|window| window == b"%25");
            let (address, zone) = inside.split_at(zone.unwrap_or(inside.len()));
            let mut out = unescape(address, Part::Host)?;
            let address = String::from_utf8_lossy(&out).into_owned();
            if address.parse::<Ipv6Addr>().is_err() {
                let quoted = quote(address.as_bytes());
                return Err(format!("invalid host: ParseAddr({quoted}): unable to parse IP"));
            }
            out.extend(unescape(zone, Part::Zone)?);
            Ok([b"[", &*out, b"]", &*unescape(port, Part::Host)?].concat())
        }
        Some(_) => Err("invalid IP-literal".to_owned()),
        None => {
            let first = host.iter().position(|byte| *byte == b':');
            let last = host.iter().rposition(|byte| *byte == b':');
            // Other schemes may list several hosts with ports.
            let strict = matches!(scheme, "http" | "https");
            if let Some(colon) = if strict { first } else { last } {
                let port = host.get(colon..).unwrap_or_default();
                if !is_port(port) {
                    return Err(bad_port(port));
                }
            }
            unescape(host, Part::Host)
        }
    }
}

fn must_escape(byte: u8, part: Part) -> bool {
    if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
        return false;
    }
    match part {
        Part::Host | Part::Zone => !b"!$&'()*+,;=:[]<>\"".contains(&byte),
        Part::Path => !b"$&+,/:;=@".contains(&byte),
        Part::User => !b"$&+,;=".contains(&byte),
        Part::Fragment => !b"$&+,/:;=?@!()*".contains(&byte),
    }
}

fn escape(text: &[u8], part: Part) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        if must_escape(*byte, part) {
            out.extend(format!("%{byte:02X}").bytes());
        } else {
            out.push(*byte);
        }
    }
    out
}

fn unescape(text: &[u8], part: Part) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        if *first != b'%' {
            if matches!(part, Part::Host | Part::Zone)
                && first.is_ascii()
                && must_escape(*first, part)
            {
                return Err(format!("invalid character {} in host name", quote(&[*first])));
            }
            out.push(*first);
            rest = after;
            continue;
        }
        let invalid = || {
            let shown = rest.get(..3).unwrap_or(rest);
            format!("invalid URL escape {}", quote(shown))
        };
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let byte = byte.ok_or_else(invalid)?;
        let allowed = match part {
            // A host may escape what is not ASCII, and the per cent sign before a zone.
            Part::Host => !byte.is_ascii() || byte == b'%',
            Part::Zone => byte == b'%' || byte == b' ' || !must_escape(byte, Part::Host),
            Part::Path | Part::User | Part::Fragment => true,
        };
        if !allowed {
            return Err(invalid());
        }
        out.push(byte);
        rest = after.get(2..).unwrap_or_default();
    }
    Ok(out)
}
