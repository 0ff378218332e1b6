//! Semantic versions and UUIDs.

use modgate_value::go::{
    hex,
    semver::{Version, is_identifier},
};

use super::{Builtin, BuiltinError, Context, Outcome, operand, yes_or_no};
use crate::value::Value;

pub(super) const BUILTINS: &[Builtin] = &[
    Builtin::new("semver.compare", "(a: string, b: string) => result: number", semver_compare),
    Builtin::new("semver.is_valid", "(vsn: any) => result: boolean", semver_is_valid),
    Builtin::new("uuid.parse", "(uuid: string) => result: object[string: any]", uuid_parse),
    Builtin::new("uuid.rfc4122", "(k: string) => output: string", uuid_rfc4122).nondeterministic(),
];

/// A version as OPA reads it: a `v` in front and leading zeros are allowed.
fn version(text: &str) -> Option<Version<'_, i64>> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let (text, metadata) = text.split_once('+').unwrap_or((text, ""));
    let (text, prerelease) = text.split_once('-').unwrap_or((text, ""));
    let mut parts = text.split('.').map(|part| part.parse::<i64>().ok());
    let numbers = [parts.next()??, parts.next()??, parts.next()??];
    let valid = identifiers(metadata) && identifiers(prerelease) && parts.next().is_none();
    valid.then_some(Version { numbers, prerelease })
}

/// Nothing, or identifiers between dots.
fn identifiers(text: &str) -> bool {
    text.is_empty() || text.split('.').all(|part| !part.is_empty() && is_identifier(part))
}

fn semver_compare<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let (a, b) = (operand::string(args, 0)?, operand::string(args, 1)?);
    context.scan(a)?;
    context.scan(b)?;
    let parse = |position: u8, text| {
        version(text).ok_or_else(|| {
            BuiltinError::failed(format!(
                "operand {position}: string {} is not a valid SemVer",
                Value::str(text)
            ))
        })
    };
    let order = parse(1, a)?.compare(&parse(2, b)?);
    Ok(Some(Value::int(order as i64)))
}

fn semver_is_valid<'a>(_: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    yes_or_no(operand::any(args, 0).as_str().and_then(version).is_some())
}

/// The sixteen bytes of a UUID in any of the forms that `github.com/google/uuid` reads.
fn uuid_bytes(text: &str) -> Option<[u8; 16]> {
    let bytes = |digits: &str| hex::decode(digits.as_bytes()).ok()?.try_into().ok();
    let is_urn = text.get(..9).is_some_and(|start| start.eq_ignore_ascii_case("urn:uuid:"));
    let hyphenated = match text.len() {
        45 if is_urn => text.get(9..)?,
        // Braces, or whatever stands in their place.
        38 => text.get(1..37)?,
        36 => text,
        32 => return bytes(text),
        _ => return None,
    };
    let parts: Vec<&str> = hyphenated.split('-').collect();
    let [a, b, c, d, e] = parts.as_slice() else { return None };
    let widths = [a, b, c, d, e].map(|part| part.len());
    (widths == [8, 4, 4, 4, 12]).then(|| bytes(&parts.concat()))?
}

fn uuid_parse<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let Some(bytes) = uuid_bytes(operand::string(args, 0)?) else { return Ok(None) };
    let number = u128::from_be_bytes(bytes);
    let bits = |shift: u32, width: u32| {
        i64::try_from(number >> shift & ((1 << width) - 1)).unwrap_or(i64::MAX)
    };
    let version = bits(76, 4);
    let variant = match bits(61, 3) {
        0..=3 => "Reserved",
        4 | 5 => "RFC4122",
        6 => "Microsoft",
        _ => "Future",
    };
    let mut entries = vec![
        (Value::str("variant"), Value::str(variant)),
        (Value::str("version"), Value::int(version)),
    ];
    if matches!(version, 1 | 2) {
        let node: Vec<String> = bytes.iter().skip(10).map(|byte| format!("{byte:02x}")).collect();
        let mac = match bits(40, 2) {
            3 => "local:multicast",
            1 => "global:multicast",
            2 => "local:unicast",
            _ => "global:unicast",
        };
        // In units of 100 ns since the Gregorian calendar began, 1582-10-15.
        const GREGORIAN: i64 = 122_192_928_000_000_000;
        let time = bits(64, 12) << 48 | bits(80, 16) << 32 | bits(96, 32);
        let nanoseconds = i128::from(time - GREGORIAN) * 100;
        // As Go's 64 bits overflow.
        #[expect(clippy::cast_possible_truncation, reason = "what OPA prints")]
        let nanoseconds = nanoseconds as i64;
        entries.extend([
            (Value::str("clocksequence"), Value::int(bits(48, 14))),
            (Value::str("macvariables"), Value::str(mac)),
            (Value::str("nodeid"), context.heap.string(&node.join("-"))?),
            (Value::str("time"), Value::int(nanoseconds)),
        ]);
    }
    if version == 2 {
        let domain = match bits(48, 8) {
            0 => "Person".to_owned(),
            1 => "Group".to_owned(),
            2 => "Org".to_owned(),
            other => format!("Domain{other}"),
        };
        entries.extend([
            (Value::str("domain"), context.heap.string(&domain)?),
            (Value::str("id"), Value::int(bits(96, 32))),
        ]);
    }
    Ok(Some(context.heap.object(entries)?))
}

/// A random UUID, the same for the same key throughout an evaluation.
fn uuid_rfc4122<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    context.settle("uuid.rfc4122", operand::any(args, 0), |context| {
        let (high, low) = (context.random()?, context.random()?);
        let high = high & !0xf000 | 0x4000;
        let low = low & !(0xc0 << 56) | 0x80 << 56;
        context.string(&format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        ))
    })
}
