//! Addresses and networks.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use modgate_value::go::netip::parse_addr;

use super::{Opaque, Table};
use crate::{
    brief::{quote, quote_bytes},
    error::{EvalError, Result, failed},
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
    Ok(match parse_addr(text, quote_bytes) {
        Ok((_, Some(_))) => {
            Err(format!("IP address {} with zone value is not allowed", quote(text)))
        }
        Ok((IpAddr::V6(ip), None)) if ip.to_ipv4_mapped().is_some() => Err(mapped(text)),
        Ok((ip, None)) => Ok(Ip(ip)),
        Err(error) => {
            let quoted = quote(text);
            Err(format!("IP Address {quoted} parse error during conversion from string: {error}"))
        }
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
    let address = match parse_addr(address, quote_bytes) {
        Ok((address, _)) => address,
        Err(error) => return Ok(Err(wrong(&error))),
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
