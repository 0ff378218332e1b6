//! Addresses and networks.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use super::{Opaque, Table};
use crate::{
    brief::quote,
    eval::{EvalError, Result, failed},
    heap::Heap,
    value::Val,
};

/// An IPv4 or IPv6 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ip(IpAddr);

/// An address and how many of its bits name a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    address: IpAddr,
    length: u8,
}

impl fmt::Display for Ip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl Ip {
    pub(super) fn size(self) -> usize {
        if self.0.is_ipv4() { 4 } else { 16 }
    }
}

impl Cidr {
    pub(super) fn size(self) -> usize {
        usize::from(self.length).div_ceil(8)
    }

    fn masked(self) -> Self {
        let address = match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.length)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.length)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
            }
        };
        Self { address, length: self.length }
    }

    fn contains(self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4()
            && self.masked() == Self { address, length: self.length }.masked()
    }
}

pub(super) const FUNCTIONS: Table = &[
    ("ip", |heap, args| {
        match args {
            [Val::String(text)] => ip(heap, text)?,
            [Val::Opaque(Opaque::Cidr(cidr))] => Ok(Ip(cidr.address)),
            _ => return Err(EvalError::NoOverload),
        }
        .map_or_else(failed, |ip| heap.opaque(Opaque::Ip(ip)))
    }),
    // The method; the checker knows both by one name.
    ("@ip", |heap, args| match args {
        [Val::Opaque(Opaque::Cidr(cidr))] => heap.opaque(Opaque::Ip(Ip(cidr.address))),
        _ => Err(EvalError::NoOverload),
    }),
    ("isIP", |heap, args| match args {
        [Val::String(text)] => Ok(Val::Bool(ip(heap, text)?.is_ok())),
        _ => Err(EvalError::NoOverload),
    }),
    ("ip.isCanonical", |heap, args| match args {
        [Val::String(text)] => {
            ip(heap, text)?.map_or_else(failed, |ip| Ok(Val::Bool(ip.to_string() == *text)))
        }
        _ => Err(EvalError::NoOverload),
    }),
    ("family", |_, args| of(args, |ip| Val::Int(if ip.is_ipv4() { 4 } else { 6 }))),
    ("isUnspecified", |_, args| of(args, |ip| Val::Bool(ip.is_unspecified()))),
    ("isLoopback", |_, args| of(args, |ip| Val::Bool(ip.is_loopback()))),
    ("isLinkLocalMulticast", |_, args| of(args, |ip| Val::Bool(link_local_multicast(ip)))),
    ("isLinkLocalUnicast", |_, args| of(args, |ip| Val::Bool(link_local_unicast(ip)))),
    ("isGlobalUnicast", |_, args| {
        of(args, |ip| {
            let broadcast = ip == IpAddr::V4(Ipv4Addr::BROADCAST);
            let special = ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || broadcast;
            Val::Bool(!special && !link_local_unicast(ip))
        })
    }),
    ("cidr", |heap, args| match args {
        [Val::String(text)] => match cidr(heap, text)? {
            Ok(cidr) => heap.opaque(Opaque::Cidr(cidr)),
            Err(error) => failed(unread(&error)),
        },
        _ => Err(EvalError::NoOverload),
    }),
    ("isCIDR", |heap, args| match args {
        [Val::String(text)] => Ok(Val::Bool(cidr(heap, text)?.is_ok())),
        _ => Err(EvalError::NoOverload),
    }),
    ("containsIP", |heap, args| match args {
        [Val::Opaque(Opaque::Cidr(cidr)), Val::Opaque(Opaque::Ip(ip))] => {
            Ok(Val::Bool(cidr.contains(ip.0)))
        }
        [Val::Opaque(Opaque::Cidr(cidr)), Val::String(text)] => match ip(heap, text)? {
            Ok(ip) => Ok(Val::Bool(cidr.contains(ip.0))),
            // The original forgets what was wrong with the address.
            Err(_) => Err(EvalError::Failed("no such overload".to_owned())),
        },
        _ => Err(EvalError::NoOverload),
    }),
    ("containsCIDR", |heap, args| match args {
        [Val::Opaque(Opaque::Cidr(outer)), Val::Opaque(Opaque::Cidr(inner))] => {
            Ok(Val::Bool(covers(*outer, *inner)))
        }
        [Val::Opaque(Opaque::Cidr(outer)), Val::String(text)] => match cidr(heap, text)? {
            Ok(inner) => Ok(Val::Bool(covers(*outer, inner))),
            Err(error) => failed(unread(&error)),
        },
        _ => Err(EvalError::NoOverload),
    }),
    ("prefixLength", |_, args| match args {
        [Val::Opaque(Opaque::Cidr(cidr))] => Ok(Val::Int(i64::from(cidr.length))),
        _ => Err(EvalError::NoOverload),
    }),
    ("masked", |heap, args| match args {
        [Val::Opaque(Opaque::Cidr(cidr))] => heap.opaque(Opaque::Cidr(cidr.masked())),
        _ => Err(EvalError::NoOverload),
    }),
];

fn of<'a>(args: &[Val<'a>], what: impl Fn(IpAddr) -> Val<'static>) -> Result<Val<'a>> {
    match args {
        [Val::Opaque(Opaque::Ip(ip))] => Ok(what(ip.0)),
        _ => Err(EvalError::NoOverload),
    }
}

fn link_local_unicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

fn link_local_multicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => matches!(ip.octets(), [224, 0, 0, _]),
        IpAddr::V6(ip) => matches!(ip.octets(), [0xff, second, ..] if second & 0x0f == 2),
    }
}

fn covers(outer: Cidr, inner: Cidr) -> bool {
    outer.length <= inner.length && outer.contains(inner.address)
}

fn unread(error: &str) -> String {
    format!("network address parse error during conversion from string: {error}")
}

/// An address, or what is wrong with the text.
fn ip(heap: Heap<'_>, text: &str) -> Result<std::result::Result<Ip, String>> {
    heap.budget.spend(text.len() as u64 / 16)?;
    let (bare, zone) = match text.split_once('%') {
        Some((bare, zone)) if !zone.is_empty() => (bare, true),
        _ => (text, false),
    };
    Ok(match bare.parse::<IpAddr>() {
        Ok(IpAddr::V6(_)) if zone => {
            Err(format!("IP address {} with zone value is not allowed", quote(text)))
        }
        Ok(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_some() => Err(mapped(text)),
        Ok(ip) if !zone => Ok(Ip(ip)),
        _ => Err(format!(
            "IP Address {0} parse error during conversion from string: ParseAddr({0}): {1}",
            quote(text),
            trouble(text)
        )),
    })
}

fn mapped(text: &str) -> String {
    format!("IPv4-mapped IPv6 address {} is not allowed", quote(text))
}

/// A network, or what is wrong with the text.
fn cidr(heap: Heap<'_>, text: &str) -> Result<std::result::Result<Cidr, String>> {
    heap.budget.spend(text.len() as u64 / 16)?;
    let wrong = |what: &str| unread(&format!("netip.ParsePrefix({}): {what}", quote(text)));
    let Some((address, bits)) = text.rsplit_once('/') else {
        return Ok(Err(wrong("no '/'")));
    };
    if address.contains('%') {
        return Ok(Err(wrong("IPv6 zones cannot be present in a prefix")));
    }
    let Ok(address) = address.parse::<IpAddr>() else {
        let inner = format!("ParseAddr({}): {}", quote(address), trouble(address));
        return Ok(Err(wrong(&inner)));
    };
    let most = if address.is_ipv4() { 32 } else { 128 };
    let digits = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
    if !digits || bits.len() > 1 && bits.starts_with('0') {
        return Ok(Err(wrong(&format!("bad bits after slash: {}", quote(bits)))));
    }
    let Some(length) = bits.parse::<u8>().ok().filter(|length| *length <= most) else {
        return Ok(Err(wrong("prefix length out of range")));
    };
    if matches!(address, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some()) {
        return Ok(Err(mapped(text)));
    }
    Ok(Ok(Cidr { address, length }))
}

/// What Go's parser says about a text that is no address.
fn trouble(text: &str) -> String {
    match text.find(['.', ':', '%']).and_then(|at| text.get(at..)) {
        Some(rest) if rest.starts_with('.') => trouble_v4(text),
        Some(rest) if rest.starts_with(':') => trouble_v6(text),
        Some(_) => "missing IPv6 address".to_owned(),
        None => "unable to parse IP".to_owned(),
    }
}

fn at(what: &str, rest: &str) -> String {
    format!("{what} (at {})", quote(rest))
}

fn trouble_v4(text: &str) -> String {
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

fn trouble_v6(text: &str) -> String {
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
            return trouble_v4(rest);
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

/// Whether what stands in the brackets of a URL is an IPv6 address.
///
/// # Errors
///
/// Go's text if it is no address at all.
pub(super) fn literal(text: &str) -> std::result::Result<bool, String> {
    let bare = text.split_once('%').map_or(text, |(bare, _)| bare);
    match bare.parse::<IpAddr>() {
        Ok(ip) => Ok(ip.is_ipv6()),
        Err(_) => Err(format!("ParseAddr({}): {}", quote(text), trouble(text))),
    }
}
