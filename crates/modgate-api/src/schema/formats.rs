//! The string formats that CRDs enforce (`kube-openapi/pkg/validation/strfmt`).

use std::{net::Ipv6Addr, sync::LazyLock};

use modgate_value::{gotime, regex::GoRegex};

use super::names;

/// A format by its name, whose dashes do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    BsonObjectId,
    Byte,
    Cidr,
    CreditCard,
    Date,
    DateTime,
    Duration,
    Email,
    HexColor,
    Hostname,
    Ipv4,
    Ipv6,
    Isbn,
    Isbn10,
    Isbn13,
    LongName,
    Mac,
    Password,
    RgbColor,
    ShortName,
    Ssn,
    Uri,
    Uuid(Option<u8>),
}

impl Format {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name.replace('-', "").as_str() {
            "bsonobjectid" => Self::BsonObjectId,
            "byte" => Self::Byte,
            "cidr" => Self::Cidr,
            "creditcard" => Self::CreditCard,
            "date" => Self::Date,
            "datetime" => Self::DateTime,
            "duration" => Self::Duration,
            "email" => Self::Email,
            "hexcolor" => Self::HexColor,
            "hostname" => Self::Hostname,
            "ipv4" => Self::Ipv4,
            "ipv6" => Self::Ipv6,
            "isbn" => Self::Isbn,
            "isbn10" => Self::Isbn10,
            "isbn13" => Self::Isbn13,
            "k8slongname" => Self::LongName,
            "k8sshortname" => Self::ShortName,
            "mac" => Self::Mac,
            "password" => Self::Password,
            "rgbcolor" => Self::RgbColor,
            "ssn" => Self::Ssn,
            "uri" => Self::Uri,
            "uuid" => Self::Uuid(None),
            "uuid3" => Self::Uuid(Some(b'3')),
            "uuid4" => Self::Uuid(Some(b'4')),
            "uuid5" => Self::Uuid(Some(b'5')),
            _ => return None,
        })
    }

    pub(super) fn admits(self, text: &str) -> bool {
        match self {
            Self::BsonObjectId => text.len() == 24 && is_hex(text),
            Self::Byte => is_base64(text),
            Self::Cidr => is_cidr(text),
            Self::CreditCard => is_credit_card(text),
            Self::Date => is_date(text),
            Self::DateTime => is_date_time(text),
            Self::Duration => is_duration(text),
            Self::Email => is_email(text),
            Self::HexColor => {
                let digits = text.strip_prefix('#').unwrap_or(text);
                matches!(digits.len(), 3 | 6) && is_hex(digits)
            }
            Self::Hostname => is_hostname(text),
            Self::Ipv4 => is_ipv4(text) || (text.contains('.') && text.parse::<Ipv6Addr>().is_ok()),
            Self::Ipv6 => text.parse::<Ipv6Addr>().is_ok(),
            Self::Isbn => is_isbn10(text) || is_isbn13(text),
            Self::Isbn10 => is_isbn10(text),
            Self::Isbn13 => is_isbn13(text),
            Self::LongName => names::subdomain(text).is_empty(),
            Self::Mac => is_mac(text),
            Self::Password => true,
            Self::RgbColor => is_rgb(text),
            Self::ShortName => {
                text.len() <= 63 && !text.contains('.') && names::subdomain(text).is_empty()
            }
            Self::Ssn => is_ssn(text),
            Self::Uri => is_uri(text),
            Self::Uuid(version) => is_uuid(text, version),
        }
    }
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Standard alphabet, padded, not empty.
fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && text.len() - body.len() <= 2
        && body.bytes().all(is_letter)
}

/// Leading zeros are tolerated and do not make a number octal.
fn is_ipv4(text: &str) -> bool {
    let mut parts = 0;
    text.split('.').all(|part| {
        parts += 1;
        let digits = part.trim_start_matches('0');
        is_digits(part) && (digits.is_empty() || digits.parse::<u8>().is_ok())
    }) && parts == 4
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let limit = match (is_ipv4(address), address.parse::<Ipv6Addr>()) {
        (true, _) => 32,
        (false, Ok(_)) => 128,
        (false, Err(_)) => return false,
    };
    is_digits(length) && length.parse::<u32>().is_ok_and(|length| length <= limit)
}

/// Bytes in hexadecimal, separated by colons or dashes, or in pairs by points, or not at all.
fn is_mac(text: &str) -> bool {
    let groups = |separator: char, width: usize| {
        let mut count = 0;
        let sound = text.split(separator).all(|group| {
            count += 1;
            group.len() == width && is_hex(group)
        });
        sound.then_some(count * width / 2)
    };
    let bytes = if text.contains(':') {
        groups(':', 2)
    } else if text.contains('-') {
        groups('-', 2)
    } else if text.contains('.') {
        groups('.', 4)
    } else {
        (is_hex(text) && text.len().is_multiple_of(2)).then_some(text.len() / 2)
    };
    matches!(bytes, Some(6 | 8 | 20))
}

/// Groups of hexadecimal digits, with a dash between two or none.
fn is_uuid(text: &str, version: Option<u8>) -> bool {
    let mut digits = Vec::with_capacity(32);
    let mut rest = text.as_bytes();
    for (index, width) in [8_usize, 4, 4, 4, 12].into_iter().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix(b"-").unwrap_or(rest);
        }
        let Some((group, after)) = rest.split_at_checked(width) else { return false };
        digits.extend_from_slice(group);
        rest = after;
    }
    let variant = || {
        let digit = digits.get(16).copied().unwrap_or_default().to_ascii_lowercase();
        version == Some(b'3') || matches!(digit, b'8' | b'9' | b'a' | b'b')
    };
    rest.is_empty()
        && digits.iter().all(u8::is_ascii_hexdigit)
        && version.is_none_or(|version| digits.get(12) == Some(&version) && variant())
}

fn without_spaces_and_dashes(text: &str) -> String {
    text.chars().filter(|c| *c != '-' && !matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0c')).collect()
}

fn is_isbn10(text: &str) -> bool {
    let text = without_spaces_and_dashes(text);
    let Some((body, check)) = text.split_at_checked(9) else { return false };
    let check = match check {
        "X" => 10,
        digit if digit.len() == 1 && is_digits(digit) => digit.parse().unwrap_or(0),
        _ => return false,
    };
    let weighted = body.bytes().zip(1_u32..).map(|(byte, place)| place * u32::from(byte - b'0'));
    is_digits(body) && (weighted.sum::<u32>() + 10 * check).is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let text = without_spaces_and_dashes(text);
    if text.len() != 13 || !is_digits(&text) {
        return false;
    }
    let digits = text.bytes().map(|byte| u32::from(byte - b'0'));
    let factors = [1, 3].into_iter().cycle();
    digits.zip(factors).map(|(digit, factor)| digit * factor).sum::<u32>().is_multiple_of(10)
}

/// A number of one of the known issuers with a valid check digit; other characters do not count.
fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let prefix = |length: usize| digits.get(..length).and_then(|text| text.parse::<u32>().ok());
    let known = match digits.len() {
        13 => prefix(1) == Some(4),
        14 => matches!(prefix(3), Some(300..=305)) || matches!(prefix(2), Some(36 | 38)),
        15 => matches!(prefix(2), Some(34 | 37)) || matches!(prefix(4), Some(2131 | 1800)),
        16 => {
            prefix(1) == Some(4)
                || matches!(prefix(2), Some(51..=55 | 65))
                || prefix(4) == Some(6011)
                || prefix(2) == Some(35)
        }
        _ => false,
    };
    let sum = digits.bytes().rev().enumerate().map(|(index, byte)| {
        let digit = u32::from(byte - b'0');
        if index % 2 == 0 { digit } else { digit * 2 / 10 + digit * 2 % 10 }
    });
    known && sum.sum::<u32>().is_multiple_of(10)
}

fn is_ssn(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 11
        && bytes.iter().enumerate().all(|(index, byte)| match index {
            3 | 6 => matches!(byte, b' ' | b'-'),
            _ => byte.is_ascii_digit(),
        })
}

fn is_rgb(text: &str) -> bool {
    let inner = text.strip_prefix("rgb(").and_then(|rest| rest.strip_suffix(')'));
    let Some(inner) = inner else { return false };
    let is_part = |part: &str| {
        let part = part.trim_matches([' ', '\t', '\n', '\r', '\x0c']);
        is_digits(part) && (part == "0" || !part.starts_with('0')) && part.parse::<u8>().is_ok()
    };
    inner.split(',').count() == 3 && inner.split(',').all(is_part)
}

fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_shape = bytes.len() == 10
        && bytes.iter().enumerate().all(|(index, byte)| match index {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    let part = |range: std::ops::Range<usize>| text.get(range).and_then(|text| text.parse().ok());
    let (Some(year), Some(month), Some(day)) = (part(0..4), part(5..7), part(8..10)) else {
        return false;
    };
    let (month, day) = (u8::try_from(month).unwrap_or(0), u8::try_from(day).unwrap_or(0));
    is_shape && (1..=12).contains(&month) && (1..=gotime::days_in(month, year)).contains(&day)
}

/// RFC 3339 with an hour below 24 and a second below 60.
fn is_date_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't']) else { return false };
    let Some((clock, rest)) = time.split_at_checked(8) else { return false };
    let two = |text: &str, limit: u32| {
        text.len() == 2 && is_digits(text) && text.parse::<u32>().is_ok_and(|value| value < limit)
    };
    let mut parts = clock.split(':');
    let is_clock =
        [24, 60, 60].into_iter().all(|limit| parts.next().is_some_and(|part| two(part, limit)));
    let zone = match rest.strip_prefix('.') {
        None => rest,
        Some(fraction) => {
            let zone = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
            if zone.len() == fraction.len() {
                return false;
            }
            zone
        }
    };
    let is_zone = match zone.split_at_checked(1) {
        Some(("Z" | "z", "")) => true,
        Some(("+" | "-", offset)) => offset
            .split_once(':')
            .is_some_and(|(hours, minutes)| two(hours, 24) && two(minutes, 60)),
        _ => false,
    };
    is_date(date) && is_clock && parts.next().is_none() && is_zone
}

/// Go's notation, or anywhere in the text a number with a unit.
fn is_duration(text: &str) -> bool {
    if gotime::Duration::parse(text).is_ok() {
        return true;
    }
    const EXACT: [&str; 11] = ["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"];
    const BEGINNINGS: [&str; 8] = ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let number = rest.get(start..).unwrap_or_default();
        let unit = number.trim_start_matches(|c: char| c.is_ascii_digit());
        // A number that does not fit makes the whole text invalid.
        let digits = number.len() - unit.len();
        let unit = unit.trim_start_matches([' ', '\t', '\n', '\r', '\x0c']);
        let end = unit.find(|c: char| !c.is_ascii_alphabetic() && c != 'µ').unwrap_or(unit.len());
        let (name, after) = unit.split_at(end);
        if !name.is_empty() {
            if number.get(..digits).is_none_or(|digits| digits.parse::<i64>().is_err()) {
                return false;
            }
            let name = name.to_lowercase();
            let known = EXACT.contains(&name.as_str())
                || BEGINNINGS.iter().any(|unit| name.starts_with(unit));
            if known {
                return true;
            }
        }
        rest = after;
    }
    false
}

/// The characters of labels of host names; and letters only.
static CHARACTERS: LazyLock<[Option<GoRegex>; 2]> = LazyLock::new(|| {
    [r"^[\p{L}\p{S}0-9.-]*$", r"^\p{L}*$"].map(|pattern| GoRegex::new(pattern).ok())
});

/// Labels of letters, digits and symbols with dashes inside; the last of several has letters only,
/// two at least. A name of one label may have a dash in its second place, nowhere else.
fn is_hostname(text: &str) -> bool {
    let [sound, letters] = &*CHARACTERS;
    let only = |regex: &Option<GoRegex>, text: &str| {
        regex.as_ref().is_some_and(|regex| regex.is_match(text))
    };
    let is_short = text.len() <= 255 && text.split('.').all(|label| label.len() <= 63);
    if text.is_empty() || !is_short || !only(sound, text) {
        return false;
    }
    let Some((labels, last)) = text.rsplit_once('.') else {
        let dash = text.char_indices().filter(|(_, c)| *c == '-').map(|(at, _)| at);
        let second = text.chars().next().map_or(0, char::len_utf8);
        return dash.into_iter().all(|at| at == second && at > 0);
    };
    let is_inner =
        |label: &str| !label.is_empty() && !label.starts_with('-') && !label.ends_with('-');
    labels.split('.').all(is_inner) && last.chars().count() >= 2 && only(letters, last)
}

/// One RFC 5322 address, with or without a name before it in angle brackets.
fn is_email(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t']);
    let Some(before) = text.strip_suffix('>') else { return is_address(text) };
    let Some(open) = before.rfind('<') else { return false };
    let (name, address) = before.split_at(open);
    let address = address.get(1..).unwrap_or_default();
    is_display_name(name.trim_matches([' ', '\t'])) && is_address(address)
}

fn is_atom_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || !c.is_ascii()
}

fn is_dot_atom(text: &str) -> bool {
    text.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atom_char))
}

/// The text after a quoted string at the start of `text`.
fn after_quoted(text: &str) -> Option<&str> {
    let mut chars = text.strip_prefix('"')?.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return text.get(at + 2..),
            '\\' => drop(chars.next()?),
            c if c.is_control() && c != '\t' => return None,
            _ => {}
        }
    }
    None
}

fn is_display_name(name: &str) -> bool {
    let mut rest = name;
    while !rest.is_empty() {
        rest = match after_quoted(rest) {
            Some(after) => after,
            None => {
                let after = rest.trim_start_matches(|c| is_atom_char(c) || c == '.');
                if after.len() == rest.len() {
                    return false;
                }
                after
            }
        };
        rest = rest.trim_start_matches([' ', '\t']);
    }
    true
}

fn is_address(text: &str) -> bool {
    let (local_is_sound, domain) = match after_quoted(text) {
        Some(after) => (true, after.strip_prefix('@')),
        None => match text.split_once('@') {
            Some((local, domain)) => (is_dot_atom(local), Some(domain)),
            None => (false, None),
        },
    };
    let Some(domain) = domain else { return false };
    let is_literal = || {
        let inner = domain.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        inner.is_some_and(|inner| is_ipv4(inner) || inner.parse::<Ipv6Addr>().is_ok())
    };
    local_is_sound && (is_dot_atom(domain) || is_literal())
}

/// Whether Go accepts a text as the address of a request: absolute, or a path.
fn is_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let Some((scheme, rest)) = split_scheme(text) else { return false };
    let rest = rest.split_once('?').map_or(rest, |(path, _)| path);
    if !rest.starts_with('/') {
        // A path that does not begin at the root belongs to a scheme such as `mailto`.
        return scheme;
    }
    let (authority, path) = match rest.strip_prefix("//").filter(|_| scheme) {
        None => (None, rest),
        Some(after) => {
            let at = after.find('/').unwrap_or(after.len());
            let (authority, path) = after.split_at(at);
            (Some(authority), path)
        }
    };
    authority.is_none_or(is_authority) && is_percent_encoded(path)
}

/// Whether there is a scheme, and what follows it; `None` when it is empty.
fn split_scheme(text: &str) -> Option<(bool, &str)> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return None,
            ':' => return Some((true, text.get(at + 1..).unwrap_or_default())),
            _ => break,
        }
    }
    Some((false, text))
}

fn is_percent_encoded(text: &str) -> bool {
    let mut pieces = text.split('%');
    pieces.next();
    pieces.all(|piece| piece.get(..2).is_some_and(is_hex))
}

fn is_authority(authority: &str) -> bool {
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (user, host),
        None => ("", authority),
    };
    let is_user = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
    let is_port = |port: &str| {
        port.is_empty()
            || port
                .strip_prefix(':')
                .is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let host_is_sound = match host.strip_prefix('[') {
        Some(literal) => literal.rsplit_once(']').is_some_and(|(address, port)| {
            let address = address.split_once("%25").map_or(address, |(address, _)| address);
            is_port(port) && address.parse::<Ipv6Addr>().is_ok()
        }),
        None => {
            let (name, port) = host.split_at(host.rfind(':').unwrap_or(host.len()));
            let is_host = |c: char| {
                c.is_ascii_alphanumeric() || !c.is_ascii() || "-._~!$&'()*+,;=:\"<>[]".contains(c)
            };
            // In a host only bytes beyond ASCII may be encoded.
            is_port(port)
                && !name.contains(':')
                && name.chars().all(|c| is_host(c) || c == '%')
                && is_percent_encoded(name)
        }
    };
    user.chars().all(is_user) && is_percent_encoded(user) && host_is_sound
}
