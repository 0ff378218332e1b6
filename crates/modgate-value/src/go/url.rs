//! URLs: `net/url`.

use super::netip::{Quote, parse_addr};

/// A URL in its parts. Like Go's strings they are bytes, since escapes can stand for any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Url {
    /// In lower case.
    pub scheme: String,
    /// The text after the scheme where that is no path, as in `mailto:a@b`.
    pub opaque: Vec<u8>,
    /// The user information before the host.
    pub user: Option<UserInfo>,
    /// The host, with its port.
    pub host: Vec<u8>,
    /// The path, without escapes.
    pub path: Vec<u8>,
    /// The path as written, where escaping would write it differently.
    pub raw_path: Vec<u8>,
    /// Whether a path follows the scheme at once: `file:/a`, not `file:///a`.
    pub omit_host: bool,
    /// Whether there is a `?` with no query after it.
    pub force_query: bool,
    /// The query as written.
    pub raw_query: Vec<u8>,
    /// The fragment, without escapes.
    pub fragment: Vec<u8>,
    /// The fragment as written, where escaping would write it differently.
    pub raw_fragment: Vec<u8>,
}

/// User name and, if given, password; without escapes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserInfo {
    name: Vec<u8>,
    password: Option<Vec<u8>>,
}

impl UserInfo {
    /// `name:password`, escaped.
    pub fn text(&self) -> Vec<u8> {
        let mut out = escape(&self.name, Part::User);
        if let Some(password) = &self.password {
            out.push(b':');
            out.extend(escape(password, Part::User));
        }
        out
    }
}

/// A part of a URL, each of which escapes other characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Path,
    Host,
    Zone,
    User,
    Query,
    Fragment,
}

impl Url {
    /// `url.Parse`
    ///
    /// # Errors
    ///
    /// Go's text.
    pub fn parse(text: &[u8], quote: Quote) -> Result<Self, String> {
        let (before, fragment) = cut(text, b'#');
        let failed = |text: &[u8], problem: String| format!("parse {}: {problem}", quote(text));
        let mut url =
            Self::read(before, false, quote).map_err(|problem| failed(before, problem))?;
        if let Some(fragment) = fragment {
            url.fragment = unescape(fragment, Part::Fragment, quote)
                .map_err(|problem| failed(text, problem))?;
            if escape(&url.fragment, Part::Fragment) != fragment {
                url.raw_fragment = fragment.to_vec();
            }
        }
        Ok(url)
    }

    /// `url.ParseRequestURI`: an absolute URL or an absolute path, where `#` has no meaning.
    ///
    /// # Errors
    ///
    /// Go's text.
    pub fn parse_request_uri(text: &[u8], quote: Quote) -> Result<Self, String> {
        let url = Self::read(text, true, quote);
        url.map_err(|problem| format!("parse {}: {problem}", quote(text)))
    }

    fn read(text: &[u8], is_request: bool, quote: Quote) -> Result<Self, String> {
        if text.iter().any(u8::is_ascii_control) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        if text.is_empty() && is_request {
            return Err("empty url".to_owned());
        }
        let mut url = Self::default();
        if text == b"*" {
            url.path = text.to_vec();
            return Ok(url);
        }
        let (scheme, rest) = scheme(text)?;
        url.scheme = scheme.to_ascii_lowercase();
        let (rest, query) = cut(rest, b'?');
        url.force_query = query == Some(b"");
        url.raw_query = query.unwrap_or_default().to_vec();
        if !rest.starts_with(b"/") {
            if !url.scheme.is_empty() {
                url.opaque = rest.to_vec();
                return Ok(url);
            }
            if is_request {
                return Err("invalid URI for request".to_owned());
            }
            if cut(rest, b'/').0.contains(&b':') {
                return Err("first path segment in URL cannot contain colon".to_owned());
            }
        }
        let mut path = rest;
        if let Some(after) = rest.strip_prefix(b"//")
            && (!url.scheme.is_empty() || !is_request && !after.starts_with(b"/"))
        {
            let length = after.iter().position(|byte| *byte == b'/').unwrap_or(after.len());
            let (authority, after) = after.split_at(length);
            url.set_authority(authority, quote)?;
            path = after;
        } else {
            url.omit_host = !url.scheme.is_empty() && rest.starts_with(b"/");
        }
        url.path = unescape(path, Part::Path, quote)?;
        if escape(&url.path, Part::Path) != path {
            url.raw_path = path.to_vec();
        }
        Ok(url)
    }

    fn set_authority(&mut self, authority: &[u8], quote: Quote) -> Result<(), String> {
        let at = authority.iter().rposition(|byte| *byte == b'@');
        let host = at.map_or(Some(authority), |at| authority.get(at + 1..));
        self.host = host_of(&self.scheme, host.unwrap_or_default(), quote)?;
        let Some(info) = at.and_then(|at| authority.get(..at)) else {
            return Ok(());
        };
        let valid =
            |byte: &u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(byte);
        if !info.iter().all(valid) {
            return Err("net/url: invalid userinfo".to_owned());
        }
        let (name, password) = cut(info, b':');
        let plain = |text| unescape(text, Part::User, quote);
        self.user =
            Some(UserInfo { name: plain(name)?, password: password.map(plain).transpose()? });
        Ok(())
    }

    /// `Hostname`: the host without its port and brackets.
    pub fn hostname(&self) -> &[u8] {
        split_port(&self.host).0
    }

    /// `Port`: the digits after the host; empty without a port.
    pub fn port(&self) -> &[u8] {
        split_port(&self.host).1
    }

    /// `EscapedPath`: as written, where that is a way to write it.
    pub fn escaped_path(&self) -> Vec<u8> {
        if is_escaped(&self.raw_path, Part::Path) {
            return self.raw_path.clone();
        }
        if self.path == b"*" { b"*".to_vec() } else { escape(&self.path, Part::Path) }
    }

    /// `EscapedFragment`: as written, where that is a way to write it.
    pub fn escaped_fragment(&self) -> Vec<u8> {
        if is_escaped(&self.raw_fragment, Part::Fragment) {
            return self.raw_fragment.clone();
        }
        escape(&self.fragment, Part::Fragment)
    }

    /// `String`
    pub fn text(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.scheme.is_empty() {
            out.extend(self.scheme.bytes());
            out.push(b':');
        }
        if self.opaque.is_empty() {
            let named = !self.host.is_empty() || self.user.is_some();
            let absolute = !self.scheme.is_empty() && !self.path.is_empty() && !self.omit_host;
            if named || absolute {
                out.extend(b"//");
            }
            if let Some(user) = &self.user {
                out.extend(user.text());
                out.push(b'@');
            }
            out.extend(escape(&self.host, Part::Host));
            let path = self.escaped_path();
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
        if self.force_query || !self.raw_query.is_empty() {
            out.push(b'?');
            out.extend(&self.raw_query);
        }
        if !self.fragment.is_empty() {
            out.push(b'#');
            out.extend(self.escaped_fragment());
        }
        out
    }
}

/// `url.QueryEscape`
pub fn query_escape(text: &[u8]) -> Vec<u8> {
    escape(text, Part::Query)
}

/// `url.QueryUnescape`
///
/// # Errors
///
/// Go's text.
pub fn query_unescape(text: &[u8], quote: Quote) -> Result<Vec<u8>, String> {
    unescape(text, Part::Query, quote)
}

fn cut(text: &[u8], separator: u8) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|byte| *byte == separator) {
        Some(at) => (text.get(..at).unwrap_or_default(), text.get(at + 1..)),
        None => (text, None),
    }
}

/// The scheme before the first colon, if the text there can be one.
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

/// The host without brackets, and the port.
fn split_port(host: &[u8]) -> (&[u8], &[u8]) {
    let colon = host.iter().rposition(|byte| *byte == b':');
    let (name, port) = match colon.and_then(|at| host.split_at_checked(at)) {
        Some((name, port)) if is_port(port) => (name, port.get(1..).unwrap_or_default()),
        _ => (host, &[][..]),
    };
    let inside = name.strip_prefix(b"[").and_then(|name| name.strip_suffix(b"]"));
    (inside.unwrap_or(name), port)
}

/// A host and port without escapes.
fn host_of(scheme: &str, host: &[u8], quote: Quote) -> Result<Vec<u8>, String> {
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
            let mut out = unescape(address, Part::Host, quote)?;
            out.extend(unescape(zone, Part::Zone, quote)?);
            match parse_addr(&String::from_utf8_lossy(&out), quote) {
                Ok((address, _)) if address.is_ipv6() => {}
                Ok(_) => return Err("invalid IP-literal".to_owned()),
                Err(problem) => return Err(format!("invalid host: {problem}")),
            }
            Ok([b"[", &*out, b"]", port].concat())
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
            unescape(host, Part::Host, quote)
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
        Part::Query => true,
        Part::Fragment => !b"$&+,/:;=?@!()*".contains(&byte),
    }
}

/// Whether a text is a way to write a part, although not the one of [`escape`].
fn is_escaped(text: &[u8], part: Part) -> bool {
    let plain = |byte: &u8| b"!$&'()*+,;=:@[]%".contains(byte) || !must_escape(*byte, part);
    !text.is_empty() && text.iter().all(plain)
}

fn escape(text: &[u8], part: Part) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        if *byte == b' ' && part == Part::Query {
            out.push(b'+');
        } else if must_escape(*byte, part) {
            let digit = |value: u8| if value < 10 { b'0' + value } else { b'A' + (value - 10) };
            out.extend([b'%', digit(byte >> 4), digit(byte & 15)]);
        } else {
            out.push(*byte);
        }
    }
    out
}

fn unescape(text: &[u8], part: Part, quote: Quote) -> Result<Vec<u8>, String> {
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
            out.push(if *first == b'+' && part == Part::Query { b' ' } else { *first });
            rest = after;
            continue;
        }
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let allowed = |byte: &u8| match part {
            // A host may escape bytes beyond ASCII, and the per cent sign before a zone.
            Part::Host => !byte.is_ascii() || *byte == b'%',
            Part::Zone => *byte == b'%' || *byte == b' ' || !must_escape(*byte, Part::Host),
            Part::Path | Part::User | Part::Query | Part::Fragment => true,
        };
        let Some(byte) = byte.filter(allowed) else {
            return Err(format!("invalid URL escape {}", quote(rest.get(..3).unwrap_or(rest))));
        };
        out.push(byte);
        rest = after.get(2..).unwrap_or_default();
    }
    Ok(out)
}
