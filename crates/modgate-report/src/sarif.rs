//! SARIF 2.1.0 (OASIS), which code scanning reads.

use modgate_value::Value;

use crate::{Finding, Place, Report, Rule, document::pretty};

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// The log: one run, every rule, a result for each finding.
pub(crate) fn write(report: &Report) -> String {
    let fingerprints = report.fingerprints();
    let results = report.with_rules().zip(&fingerprints);
    let mut driver = vec![
        ("name", Value::from("modgate")),
        ("version", report.version.as_str().into()),
        ("semanticVersion", report.version.as_str().into()),
        ("rules", report.rules.iter().map(|it| rule(report, it)).collect()),
    ];
    // The page that has the codes.
    let page = report.help_base.split(['#', '?']).next().unwrap_or_default();
    if is_address(page) {
        driver.push(("informationUri", page.into()));
    }
    let driver: Value = driver.into_iter().collect();
    let invocation = object([("executionSuccessful", report.complete.into())]);
    let run = object([
        ("tool", object([("driver", driver)])),
        ("invocations", vec![invocation].into()),
        ("results", results.map(|((it, rule), id)| result(report, it, rule, id)).collect()),
        ("columnKind", "unicodeCodePoints".into()),
    ]);
    pretty(&object([
        ("$schema", SCHEMA.into()),
        ("version", "2.1.0".into()),
        ("runs", vec![run].into()),
    ]))
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    members.into_iter().collect()
}

fn text(text: &str) -> Value {
    object([("text", text.into())])
}

fn rule(report: &Report, rule: &Rule) -> Value {
    let mut members = vec![
        ("id", Value::from(rule.id.as_str())),
        ("shortDescription", text(rule.name())),
        ("defaultConfiguration", object([("level", rule.level.as_str().into())])),
    ];
    if !rule.title.is_empty() {
        members.push(("name", rule.title.as_str().into()));
    }
    if !rule.description.is_empty() {
        members.push(("fullDescription", text(&rule.description)));
    }
    let help: Vec<&str> = [&rule.description, &rule.remediation]
        .into_iter()
        .map(String::as_str)
        .filter(|part| !part.is_empty())
        .collect();
    if !help.is_empty() {
        members.push(("help", text(&help.join("\n\n"))));
    }
    let help_uri = report.help_uri(rule);
    if is_address(&help_uri) {
        members.push(("helpUri", help_uri.into()));
    }
    let mut properties = vec![("tags", Value::from(vec![Value::from(rule.kind.as_str())]))];
    if !rule.owner.is_empty() {
        properties.push(("owner", rule.owner.as_str().into()));
    }
    members.push(("properties", properties.into_iter().collect()));
    members.into_iter().collect()
}

/// Whether a text is an address as SARIF's schema wants one: annotations and flags may hold anything.
pub fn is_address(text: &str) -> bool {
    let known = text.starts_with("https://") || text.starts_with("http://");
    known && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte))
}

fn result(report: &Report, finding: &Finding, rule: &Rule, fingerprint: &str) -> Value {
    let message = match &finding.object {
        Some(object) => format!("{object}: {}", finding.message),
        None => finding.message.clone(),
    };
    let mut members = vec![
        ("ruleId", Value::from(rule.id.as_str())),
        ("ruleIndex", i64::try_from(finding.rule).unwrap_or(i64::MAX).into()),
        ("level", finding.level.as_str().into()),
        ("message", text(&message)),
        // Code scanning recognises a known result by it.
        ("partialFingerprints", object([("modgate/v1", fingerprint.into())])),
    ];
    let mut location = Vec::new();
    if let Some(place) = &finding.place {
        location.push(("physicalLocation", physical(place)));
    }
    if let Some(it) = &finding.object {
        let name = it.to_string();
        let logical = object([("fullyQualifiedName", name.into()), ("kind", "object".into())]);
        location.push(("logicalLocations", vec![logical].into()));
    }
    if !location.is_empty() {
        let location: Value = location.into_iter().collect();
        members.push(("locations", vec![location].into()));
    }
    let known = [
        ("action", finding.action.as_str()),
        ("field", &finding.field),
        ("owner", &rule.owner),
        ("remediation", report.remediation(finding)),
    ];
    let known = known.into_iter().filter(|(_, text)| !text.is_empty());
    let properties: Vec<(&str, Value)> = known.map(|(key, text)| (key, text.into())).collect();
    if !properties.is_empty() {
        members.push(("properties", properties.into_iter().collect()));
    }
    members.into_iter().collect()
}

fn physical(place: &Place) -> Value {
    let file = object([("uri", uri(&place.file).into())]);
    let mut members = vec![("artifactLocation", file)];
    if place.line > 0 {
        // The end of a region may be left out, but must not precede its start.
        let is_end = (place.end_line, place.end_column) > (place.line, place.column);
        let (end_line, end_column) =
            if is_end { (place.end_line, place.end_column) } else { (0, 0) };
        let region = [
            ("startLine", place.line),
            ("startColumn", place.column),
            ("endLine", end_line),
            ("endColumn", end_column),
        ];
        let known = region.into_iter().filter(|(_, number)| *number > 0);
        let region = known.map(|(key, number)| (key, Value::from(i64::from(number))));
        members.push(("region", region.collect()));
    }
    members.into_iter().collect()
}

/// A path as a relative reference (RFC 3986). `./` is not part of it, because code scanning compares
/// references with paths of the repository.
fn uri(path: &str) -> String {
    let path = path.strip_prefix("./").unwrap_or(path);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, expected) in [
            ("https://example.com/a?b=c#d", true),
            ("http://example.com", true),
            ("example.com", false),
            ("javascript:alert(1)", false),
            ("https://example.com/a b", false),
            ("", false),
        ] {
            assert_eq!(is_address(text), expected, "{text}");
        }
    }

    #[test]
    fn paths() {
        for (path, expected) in [
            ("./a/b.yaml", "a/b.yaml"),
            ("a b/ü.yaml", "a%20b/%C3%BC.yaml"),
            ("<stdin>", "%3Cstdin%3E"),
        ] {
            assert_eq!(uri(path), expected);
        }
    }
}
