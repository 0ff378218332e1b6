//! Checking a chain of certificates (RFC 5280, section 6), as Go's `Certificate.Verify`.

use std::net::IpAddr;

use modgate_value::Value as Json;

use super::{
    super::{BuiltinError, Context, Outcome, operand},
    certificates::{CERT_SIGN, Certificate, Subtrees, read_all},
};
use crate::value::{Value, View};

const NANOS: i64 = 1_000_000_000;

/// The requirements that a chain is checked for.
struct Options<'t> {
    dns_name: &'t str,
    /// Seconds since 1970.
    now: i64,
    /// Of these extended key usages one must be allowed throughout.
    usages: Vec<i64>,
}

/// Server authentication, which is the default.
const SERVER_AUTH: i64 = 1;
const ANY_USAGE: i64 = 0;

pub(super) fn parse_and_verify<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let text = operand::string(args, 0)?;
    let now = context.now_ns()?.div_euclid(NANOS);
    check(context, text, &Options { dns_name: "", now, usages: vec![SERVER_AUTH] }, true)
}

pub(super) fn parse_and_verify_with_options<'a>(
    context: &mut Context<'a>,
    args: &[Value<'a>],
) -> Outcome<'a> {
    let text = operand::string(args, 0)?;
    operand::object(args, 1)?;
    context.charge_parsing(text)?;
    if read_all(text).is_err() {
        return context.array(&[Value::FALSE, Value::EMPTY_ARRAY]);
    }
    let options = read_options(context, args)?;
    check(context, text, &options, false)
}

fn read_options<'a>(
    context: &Context<'a>,
    args: &[Value<'a>],
) -> Result<Options<'a>, BuiltinError> {
    let fail = |message: &str| Err(BuiltinError::failed(message));
    let mut options = Options { dns_name: "", now: 0, usages: Vec::new() };
    let mut now = None;
    for (key, value) in operand::object(args, 1)? {
        match key.as_str() {
            Some("DNSName") => match value.as_str() {
                Some(name) => options.dns_name = name.trim_matches('"'),
                None => return fail("'DNSName' should be a string"),
            },
            Some("CurrentTime") => match value.as_number() {
                None => return fail("'CurrentTime' should be a number"),
                Some(number) => match number.as_int() {
                    Some(nanos) => now = Some(nanos),
                    None => return fail("'CurrentTime' should be a valid int64 number"),
                },
            },
            Some("MaxConstraintComparisons") => match value.as_number() {
                None => return fail("'MaxConstraintComparisons' should be a number"),
                Some(number) if number.as_int().is_none() => {
                    return fail("'MaxConstraintComparisons' should be a valid number");
                }
                Some(_) => {}
            },
            Some("KeyUsages") => options.usages = usages(value)?,
            Some(_) => return fail("invalid key option"),
            None => {}
        }
    }
    options.now = match now {
        Some(nanos) => nanos,
        None => context.now_ns()?,
    }
    .div_euclid(NANOS);
    if options.usages.is_empty() {
        options.usages.push(SERVER_AUTH);
    }
    Ok(options)
}

fn usages(value: Value<'_>) -> Result<Vec<i64>, BuiltinError> {
    const NAMES: [&str; 14] = [
        "KeyUsageAny",
        "KeyUsageServerAuth",
        "KeyUsageClientAuth",
        "KeyUsageCodeSigning",
        "KeyUsageEmailProtection",
        "KeyUsageIPSECEndSystem",
        "KeyUsageIPSECTunnel",
        "KeyUsageIPSECUser",
        "KeyUsageTimeStamping",
        "KeyUsageOCSPSigning",
        "KeyUsageMicrosoftServerGatedCrypto",
        "KeyUsageNetscapeServerGatedCrypto",
        "KeyUsageMicrosoftCommercialCodeSigning",
        "KeyUsageMicrosoftKernelCodeSigning",
    ];
    let items = match value.view() {
        View::Array(array) => array.iter(),
        View::Set(set) => set.iter(),
        _ => return Err(BuiltinError::failed("'KeyUsages' should be an Array or Set")),
    };
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for name in items.filter_map(Value::as_str) {
        let name = name.trim_matches('"');
        match (0i64..).zip(NAMES).find(|(_, usage)| *usage == name) {
            Some((number, _)) => known.push(number),
            None => unknown.push(name),
        }
    }
    if unknown.is_empty() {
        return Ok(known);
    }
    let unknown = unknown.join(" ");
    Err(BuiltinError::failed(format!("invalid entries for 'KeyUsages' found: [{unknown}]")))
}

/// `[true, chain]` from the leaf to the root, or `[false, []]`.
fn check<'a>(
    context: &mut Context<'a>,
    text: &str,
    options: &Options<'_>,
    with_uri_strings: bool,
) -> Outcome<'a> {
    context.charge_parsing(text)?;
    let chain = match read_all(text) {
        Ok(certificates) => verify(context, &certificates, options)?
            .map(|chain| chain.iter().map(|one| one.json(with_uri_strings)).collect::<Json>()),
        Err(_) => None,
    };
    match chain {
        Some(chain) => {
            let chain = context.heap.copy_json(&chain)?;
            context.array(&[Value::TRUE, chain])
        }
        None => context.array(&[Value::FALSE, Value::EMPTY_ARRAY]),
    }
}

/// The first is the root, the last the leaf, those between may be intermediates.
fn verify<'c>(
    context: &Context<'_>,
    certificates: &'c [Certificate],
    options: &Options<'_>,
) -> Result<Option<Vec<&'c Certificate>>, BuiltinError> {
    let [root, intermediates @ .., leaf] = certificates else { return Ok(None) };
    if !is_valid(leaf, options, None)
        || !options.dns_name.is_empty() && !has_name(leaf, options.dns_name)
    {
        return Ok(None);
    }
    let mut chain = vec![leaf];
    // A leaf that is the root itself needs no signature.
    let found = leaf.is_same(root) || extend(context, root, intermediates, options, &mut chain)?;
    Ok(found.then_some(chain).filter(|chain| usage_is_allowed(chain, &options.usages)))
}

/// Looks for who signed the last of `chain`, the root first.
fn extend<'c>(
    context: &Context<'_>,
    root: &'c Certificate,
    intermediates: &'c [Certificate],
    options: &Options<'_>,
    chain: &mut Vec<&'c Certificate>,
) -> Result<bool, BuiltinError> {
    let Some(last) = chain.last().copied() else { return Ok(false) };
    if chain.len() > MAX_CHAIN {
        return Ok(false);
    }
    for (index, candidate) in std::iter::once(root).chain(intermediates).enumerate() {
        context.spend(1)?;
        let unused = !chain.iter().any(|one| one.is_same(candidate));
        if last.issuer.raw != candidate.subject.raw || !unused {
            continue;
        }
        context.charge_signature()?;
        if !may_sign(candidate)
            || !last.is_signed_by(candidate)
            || !is_valid(candidate, options, Some(chain))
        {
            continue;
        }
        chain.push(candidate);
        if index == 0 || extend(context, root, intermediates, options, chain)? {
            return Ok(true);
        }
        chain.pop();
    }
    Ok(false)
}

/// As deep as no real chain is; deeper ones only cost time.
const MAX_CHAIN: usize = 32;

fn may_sign(certificate: &Certificate) -> bool {
    let extensions = &certificate.extensions;
    extensions.basic_constraints
        && extensions.is_ca
        && (extensions.key_usage == 0 || extensions.key_usage & CERT_SIGN != 0)
}

/// Whether a certificate is good by itself and, as an authority, for those `below` it.
fn is_valid(
    certificate: &Certificate,
    options: &Options<'_>,
    below: Option<&[&Certificate]>,
) -> bool {
    let extensions = &certificate.extensions;
    let in_time = (certificate.not_before..=certificate.not_after).contains(&options.now);
    if !extensions.unhandled.is_empty() || !in_time {
        return false;
    }
    let Some(below) = below else { return true };
    // Authorities that issued themselves do not count towards the length.
    let depth = below.iter().skip(1).filter(|one| one.subject.raw != one.issuer.raw).count();
    let limit = extensions.max_path;
    (limit < 0 || i64::try_from(depth).is_ok_and(|depth| depth <= limit))
        && below
            .iter()
            .all(|one| names_are_allowed(one, &extensions.permitted, &extensions.excluded))
}

/// Whether an authority's name constraints let a certificate have its names.
///
/// Constraints on e-mail addresses and URIs are not looked into: names of those kinds are then not
/// allowed at all.
fn names_are_allowed(certificate: &Certificate, permitted: &Subtrees, excluded: &Subtrees) -> bool {
    if permitted.is_empty() && excluded.is_empty() {
        return true;
    }
    let names = &certificate.extensions.alt;
    let dns = names.dns.iter().all(|name| {
        (permitted.dns.is_empty() || permitted.dns.iter().any(|tree| is_below(name, tree)))
            && !excluded.dns.iter().any(|tree| is_below(name, tree))
    });
    let ips = names.ips.iter().all(|ip| {
        (permitted.ips.is_empty() || permitted.ips.iter().any(|net| is_in_network(*ip, net)))
            && !excluded.ips.iter().any(|net| is_in_network(*ip, net))
    });
    let unconstrained = |names: &[String], permitted: &[String], excluded: &[String]| {
        names.is_empty() || permitted.is_empty() && excluded.is_empty()
    };
    dns && ips
        && unconstrained(&names.emails, &permitted.emails, &excluded.emails)
        && unconstrained(&names.uris, &permitted.uris, &excluded.uris)
}

/// Whether `name` is `domain` or something under it.
fn is_below(name: &str, domain: &str) -> bool {
    let (name, domain) = (name.to_ascii_lowercase(), domain.to_ascii_lowercase());
    let domain_only = domain.strip_prefix('.').unwrap_or(&domain);
    domain_only.is_empty()
        || name == domain
        || name.strip_suffix(domain_only).is_some_and(|host| host.ends_with('.'))
}

fn is_in_network(ip: IpAddr, network: &[u8]) -> bool {
    let bytes = match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let (address, mask) = network.split_at(network.len() / 2);
    address.len() == bytes.len()
        && bytes.iter().zip(address).zip(mask).all(|((ip, net), mask)| ip & mask == net & mask)
}

/// Whether a certificate is for a host: one of its DNS names, perhaps with a `*` for the first
/// label, or one of its IP addresses.
fn has_name(certificate: &Certificate, host: &str) -> bool {
    let names = &certificate.extensions.alt;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let Ok(ip) = bare.parse::<IpAddr>() {
        return names.ips.contains(&ip);
    }
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    names.dns.iter().any(|pattern| {
        let pattern = pattern.strip_suffix('.').unwrap_or(pattern).to_ascii_lowercase();
        match pattern.strip_prefix("*.") {
            Some(rest) => host
                .split_once('.')
                .is_some_and(|(label, after)| !label.is_empty() && after == rest),
            None => pattern == host,
        }
    })
}

/// Whether every certificate that restricts its use allows one and the same of `wanted`.
fn usage_is_allowed(chain: &[&Certificate], wanted: &[i64]) -> bool {
    let allows = |certificate: &Certificate, usage: i64| {
        let extensions = &certificate.extensions;
        let unrestricted =
            extensions.ext_key_usage.is_empty() && extensions.unknown_ext_key_usage.is_empty();
        unrestricted
            || extensions.ext_key_usage.contains(&ANY_USAGE)
            || extensions.ext_key_usage.contains(&usage)
    };
    wanted.contains(&ANY_USAGE)
        || wanted.iter().any(|usage| chain.iter().all(|one| allows(one, *usage)))
}
