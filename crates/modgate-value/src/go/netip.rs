//! IP addresses: `net/netip`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How an error quotes a part of its input. Callers that take long inputs cut them.
pub type Quote = fn(&[u8]) -> String;

/// `netip.ParseAddr`: an address, and the zone of an IPv6 address if it names one.
///
/// # Errors
///
/// Go's text.
pub fn parse_addr(text: &str, quote: Quote) -> Result<(IpAddr, Option<&str>), String> {
    let address = match text.find(['.', ':', '%']).and_then(|at| text.get(at..)) {
        Some(rest) if rest.starts_with('.') => {
            text.parse::<Ipv4Addr>().ok().map(|address| (address.into(), None))
        }
        Some(rest) if rest.starts_with(':') => {
            let (bare, zone) = match text.split_once('%') {
                Some((bare, zone)) => (bare, Some(zone)),
                None => (text, None),
            };
            let address = bare.parse::<Ipv6Addr>().ok().filter(|_| zone != Some(""));
            address.map(|address| (address.into(), zone))
        }
        _ => None,
    };
    address
        .ok_or_else(|| format!("ParseAddr({}): {}", quote(text.as_bytes()), problem(text, quote)))
}

/// Why Go's parser refuses a text.
fn problem(text: &str, quote: Quote) -> String {
    match text.find(['.', ':', '%']).and_then(|at| text.get(at..)) {
        Some(rest) if rest.starts_with('.') => problem_v4(text, quote),
        Some(rest) if rest.starts_with(':') => problem_v6(text, quote),
        Some(_) => "missing IPv6 address".to_owned(),
        None => "unable to parse IP".to_owned(),
    }
}

fn problem_v4(text: &str, quote: Quote) -> String {
    let at = |what: &str, rest: &str| format!("{what} (at {})", quote(rest.as_bytes()));
    let mut rest = text;
    let mut fields = 1;
    loop {
        let length = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (field, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        if !after.is_empty() && !after.starts_with('.') {
            return at("unexpected character", after);
        }
        if field.is_empty() {
            return at("IPv4 field must have at least one digit", rest);
        }
        if field.len() > 1 && field.starts_with('0') {
            return "IPv4 field has octet with leading zero".to_owned();
        }
        if field.parse::<u8>().is_err() {
            return "IPv4 field has value >255".to_owned();
        }
        match after.strip_prefix('.') {
            Some(_) if fields == 4 => return "IPv4 address too long".to_owned(),
            Some("") => return at("IPv4 field must have at least one digit", after),
            Some(next) => rest = next,
            None => return "IPv4 address too short".to_owned(),
        }
        fields += 1;
    }
}

fn problem_v6(text: &str, quote: Quote) -> String {
    let at = |what: &str, rest: &str| format!("{what} (at {})", quote(rest.as_bytes()));
    let mut rest = match text.split_once('%') {
        Some((_, "")) => return "zone must be a non-empty string".to_owned(),
        Some((address, _)) => address,
        None => text,
    };
    let mut gap = false;
    if let Some(after) = rest.strip_prefix("::") {
        gap = true;
        rest = after;
    }
    let mut groups = 0;
    while groups < 8 {
        let length = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        let after = rest.get(length..).unwrap_or_default();
        if length > 4 {
            return at("each group must have 4 or less digits", rest);
        }
        if length == 0 {
            return at("each colon-separated field must have at least one digit", rest);
        }
        if after.starts_with('.') {
            if !gap && groups != 6 {
                let what = "embedded IPv4 address must replace the final 2 fields of the address";
                return at(what, rest);
            }
            if groups > 6 {
                let what = "too many hex fields to fit an embedded IPv4 at the end of the address";
                return at(what, rest);
            }
            return problem_v4(rest, quote);
        }
        groups += 1;
        rest = after;
        match rest.strip_prefix(':') {
            None if rest.is_empty() => break,
            None => return at("unexpected character, want colon", rest),
            Some("") => return at("colon must be followed by more characters", rest),
            Some(after) => rest = after,
        }
        if let Some(after) = rest.strip_prefix(':') {
            if gap {
                return at("multiple :: in address", rest);
            }
            gap = true;
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
    }
    if !rest.is_empty() {
        return at("trailing garbage after address", rest);
    }
    if gap {
        "the :: must expand to at least one field of zeros"
    } else {
        "address string too short"
    }
    .to_owned()
}
