//! Ranges of IP addresses, read and printed as Go's `net` does.

use std::{
    fmt,
    net::{Ipv4Addr, Ipv6Addr},
};

use super::{Builtin, BuiltinError, Context, Outcome, operand, yes_or_no};
use crate::value::{Value, View};

pub(super) const BUILTINS: &[Builtin] = &[
    Builtin::new(
        "net.cidr_contains",
        "(cidr: string, cidr_or_ip: string) => result: boolean",
        contains,
    ),
    Builtin::new("net.cidr_overlap", "(string, string) => boolean", contains).deprecated(),
    Builtin::new(
        "net.cidr_contains_matches",
        "(cidrs: any<string, array[any<string, array[any]>], object[string: any<string, array[any]>], set[any<string, array[any]>]>, cidrs_or_ips: any<string, array[any<string, array[any]>], object[string: any<string, array[any]>], set[any<string, array[any]>]>) => output: set[array<any, any>]",
        contains_matches,
    ),
    Builtin::new(
        "net.cidr_intersects",
        "(cidr1: string, cidr2: string) => result: boolean",
        intersects,
    ),
    Builtin::new("net.cidr_is_valid", "(cidr: string) => result: boolean", is_valid),
    Builtin::new("net.cidr_expand", "(cidr: string) => hosts: set[string]", expand),
    Builtin::new(
        "net.cidr_merge",
        "(addrs: any<array[any<string>], set[string]>) => output: set[string]",
        merge,
    ),
];

/// The first IPv4 address among the IPv6 ones, `::ffff:0.0.0.0`.
const MAPPED: u128 = 0xffff_0000_0000;

/// An address; those of IPv4 are mapped into IPv6, as Go has them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Address(u128);

impl Address {
    fn parse(text: &str) -> Option<Self> {
        if let Ok(v4) = text.parse::<Ipv4Addr>() {
            return Some(Self(MAPPED | u128::from(v4.to_bits())));
        }
        text.parse::<Ipv6Addr>().ok().map(|v6| Self(v6.to_bits()))
    }

    fn is_v4(self) -> bool {
        self.0 >> 32 == MAPPED >> 32
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match u32::try_from(self.0 & u128::from(u32::MAX)) {
            Ok(bits) if self.is_v4() => Ipv4Addr::from_bits(bits).fmt(f),
            _ => Ipv6Addr::from_bits(self.0).fmt(f),
        }
    }
}

/// A network: an address, not necessarily its first, and how many of its 128 bits are fixed.
#[derive(Clone, Copy)]
struct Network {
    address: Address,
    prefix: u32,
}

impl Network {
    /// The network that `address/prefix` names.
    fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let digits = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
        let prefix: u32 = prefix.parse().ok().filter(|_| digits)?;
        let (width, offset) = if address.contains(':') { (128, 0) } else { (32, 96) };
        let address = Address::parse(address).filter(|_| prefix <= width)?;
        let prefix = prefix + offset;
        Some(Self { address: Address(address.0 & mask(prefix)), prefix })
    }

    fn first(self) -> Address {
        Address(self.address.0 & mask(self.prefix))
    }

    fn last(self) -> Address {
        Address(self.address.0 | !mask(self.prefix))
    }

    /// Only addresses of the network's own family are in it.
    fn contains(self, address: Address) -> bool {
        let same_family = self.address.is_v4() == address.is_v4();
        same_family && address.0 & mask(self.prefix) == self.first().0
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let v4 = self.address.is_v4() && self.prefix >= 96;
        let prefix = if v4 { self.prefix - 96 } else { self.prefix };
        write!(f, "{}/{prefix}", self.address)
    }
}

/// The `prefix` highest of 128 bits.
fn mask(prefix: u32) -> u128 {
    !u128::MAX.checked_shr(prefix).unwrap_or(0)
}

fn network(args: &[Value<'_>], index: usize) -> Result<Network, BuiltinError> {
    // OPA calls either operand the first.
    let text = operand::string(&[operand::any(args, index)], 0)?;
    Network::parse(text)
        .ok_or_else(|| BuiltinError::failed(format!("invalid CIDR address: {text}")))
}

fn is_valid<'a>(_: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    yes_or_no(operand::any(args, 0).as_str().and_then(Network::parse).is_some())
}

fn intersects<'a>(_: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let (a, b) = (network(args, 0)?, network(args, 1)?);
    yes_or_no(a.contains(b.address) || b.contains(a.address))
}

fn contains<'a>(_: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    yes_or_no(is_inside(operand::any(args, 0), operand::any(args, 1))?)
}

/// Whether the network `outer` has all of `inner`, an address or a network.
fn is_inside(outer: Value<'_>, inner: Value<'_>) -> Result<bool, BuiltinError> {
    let outer = network(&[outer], 0)?;
    let text = operand::string(&[inner], 0)?;
    if let Some(address) = Address::parse(text) {
        return Ok(outer.contains(address));
    }
    let inner = Network::parse(text).ok_or_else(|| {
        BuiltinError::failed(format!(
            "not a valid textual representation of an IP address or CIDR: {text}"
        ))
    })?;
    Ok(outer.contains(inner.address) && outer.contains(inner.last()))
}

/// The entries of an operand of `net.cidr_contains_matches`: each text with its key in the
/// result, an index, a key or the element itself.
fn candidates<'a>(
    args: &[Value<'a>],
    index: usize,
) -> Result<Vec<(Value<'a>, Value<'a>)>, BuiltinError> {
    let operand = operand::any(args, index);
    if operand.as_str().is_some() {
        return Ok(vec![(operand, operand)]);
    }
    let text_of = |value: Value<'a>| match value.view() {
        View::String(_) => Ok(value),
        View::Array(array) if !array.is_empty() => Ok(array.get(0).unwrap_or_default()),
        _ => Err(BuiltinError::failed(format!(
            "operand {}: element must be string or non-empty array",
            index + 1
        ))),
    };
    let entries = (0..).map_while(|at| operand.entry(at));
    entries.map(|(key, value)| Ok((text_of(value)?, key))).collect()
}

fn contains_matches<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let outers = candidates(args, 0)?;
    if outers.is_empty() {
        return Ok(Some(Value::EMPTY_SET));
    }
    let inners = candidates(args, 1)?;
    let mut found = Vec::new();
    for (outer, outer_key) in outers {
        context.spend(inners.len())?;
        for (inner, inner_key) in &inners {
            if is_inside(outer, *inner)? {
                found.push(context.heap.array(&[outer_key, *inner_key])?);
            }
        }
    }
    Ok(Some(context.heap.set(found)?))
}

fn expand<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let network = network(args, 0)?;
    let (first, last) = (network.first().0, network.last().0);
    let count = usize::try_from(last - first).unwrap_or(usize::MAX).saturating_add(1);
    context.spend(count)?;
    context.allocate(count.saturating_mul(size_of::<Value<'_>>()))?;
    let addresses: Vec<_> = (first..=last)
        .map(|address| context.heap.string(&Address(address).to_string()))
        .collect::<Result<_, _>>()?;
    Ok(Some(context.heap.set(addresses)?))
}

/// A run of addresses, and the network it is, unless it was put together.
struct Run {
    last: Address,
    first: Address,
    network: Option<Network>,
}

fn merge<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let items = match operand::any(args, 0).view() {
        View::Array(array) => array.iter(),
        View::Set(set) => set.iter(),
        _ => return Err(BuiltinError::failed("operand must be an array")),
    };
    context.spend(items.len().saturating_mul(8))?;
    let mut runs: Vec<Run> = items
        .map(|item| {
            let network = mergeable(item)?;
            Ok(Run { last: network.last(), first: network.first(), network: Some(network) })
        })
        .collect::<Result<_, BuiltinError>>()?;
    runs.sort_by_key(|run| (run.last, run.first));
    // From the end, each run swallows those before it that it overlaps or follows.
    let mut merged: Vec<Run> = Vec::new();
    for run in runs.into_iter().rev() {
        match merged.last_mut() {
            Some(next) if before(next.first) <= run.last => {
                next.first = next.first.min(run.first);
                next.network = None;
            }
            _ => merged.push(run),
        }
    }
    let mut found = Vec::new();
    for run in merged {
        match run.network {
            Some(network) => found.push(context.heap.string(&network.to_string())?),
            None => {
                for network in cover(run.first, run.last) {
                    found.push(context.heap.string(&network.to_string())?);
                }
            }
        }
    }
    Ok(Some(context.heap.set(found)?))
}

/// A network, or an IPv4 address, which stands for the network of its historical class.
fn mergeable(item: Value<'_>) -> Result<Network, BuiltinError> {
    let text = item.as_str().ok_or_else(|| BuiltinError::failed("element must be string"))?;
    match Address::parse(text) {
        None => network(&[item], 0),
        Some(address) if address.is_v4() => {
            let class = match address.0 >> 24 & 0xff {
                0..0x80 => 8,
                0x80..0xc0 => 16,
                _ => 24,
            };
            Ok(Network { address, prefix: 96 + class })
        }
        Some(_) => Err(BuiltinError::failed("IPv6 invalid: needs prefix length")),
    }
}

/// The address before; the first of each family has none and stays.
fn before(address: Address) -> Address {
    if address.0 == MAPPED { address } else { Address(address.0.saturating_sub(1)) }
}

/// The fewest networks that are exactly the addresses from `first` to `last`.
fn cover(first: Address, last: Address) -> Vec<Network> {
    let mut networks = Vec::new();
    let mut next = first.0;
    loop {
        // As large as the address is round and the rest allows.
        let mut prefix = 128 - next.trailing_zeros();
        while next | !mask(prefix) > last.0 {
            prefix += 1;
        }
        let network = Network { address: Address(next), prefix };
        networks.push(network);
        if network.last() >= last {
            return networks;
        }
        next = network.last().0 + 1;
    }
}
