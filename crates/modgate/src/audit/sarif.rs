//! What an audit found as SARIF 2.1.0, which code scanning reads.

use modgate_audit::{PolicyRef, Violation};
use modgate_value::Value;

use super::{
    Found,
    report::{groups, policy_title, title},
    severity,
};
use crate::args::{AuditCommandArgs, FailOn};

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// The log: one run, a rule for each policy, a result for each violation.
pub(super) fn value(found: &Found, args: &AuditCommandArgs) -> Value {
    let limit = args.limit.unwrap_or(usize::MAX);
    let groups = groups(found, args.by);
    let shown = groups.iter().flat_map(|group| group.violations.iter().take(limit));
    let rules = found.report.by_policy.iter().map(|report| rule(&report.policy));
    let driver = object([
        ("name", "modgate".into()),
        ("version", env!("CARGO_PKG_VERSION").into()),
        ("rules", rules.collect()),
    ]);
    let run = object([
        ("tool", object([("driver", driver)])),
        ("results", shown.map(|violation| result(violation)).collect()),
        ("columnKind", "unicodeCodePoints".into()),
    ]);
    object([("$schema", SCHEMA.into()), ("version", "2.1.0".into()), ("runs", vec![run].into())])
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    members.into_iter().collect()
}

fn text(text: &str) -> Value {
    object([("text", text.into())])
}

/// `K8sRequiredLabels/must-have-owner`
fn id(policy: &PolicyRef) -> Value {
    policy_title(policy).replacen(' ', "/", 1).into()
}

fn rule(policy: &PolicyRef) -> Value {
    object([("id", id(policy)), ("shortDescription", text(&policy_title(policy)))])
}

fn result(violation: &Violation) -> Value {
    let subject = &violation.subject;
    let level = match severity(violation) {
        FailOn::Deny => "error",
        FailOn::Warn => "warning",
        FailOn::Dryrun | FailOn::None => "note",
    };
    let title = title(subject);
    let logical =
        object([("fullyQualifiedName", title.as_str().into()), ("kind", "object".into())]);
    let mut location = vec![("logicalLocations", Value::from(vec![logical]))];
    if !subject.origin.is_empty() {
        let mut physical =
            vec![("artifactLocation", object([("uri", uri(&subject.origin).into())]))];
        if let Some(position) = subject.position {
            let region = [
                ("startLine", i64::from(position.line).into()),
                ("startColumn", i64::from(position.column).into()),
            ];
            physical.push(("region", object(region)));
        }
        location.push(("physicalLocation", physical.into_iter().collect()));
    }
    // Code scanning tells by it which result it has seen before.
    let fingerprint = object([("modgate/v1", violation.id("").into())]);
    object([
        ("ruleId", id(&violation.policy)),
        ("level", level.into()),
        ("message", text(&format!("{title}: {}", violation.message))),
        ("locations", vec![location.into_iter().collect::<Value>()].into()),
        ("partialFingerprints", fingerprint),
    ])
}

/// A path as a relative reference.
fn uri(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                out.push(byte.into());
            }
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
