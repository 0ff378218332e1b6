//! The report as a document of its own: JSON and YAML.

use modgate_value::{
    Value,
    json::{self, Escape},
    yaml,
};

use crate::{Finding, Place, Report, Rule, RuleKind};

/// `{"complete": …, "findings": […], "rules": […], "version": …}`
fn document(report: &Report) -> Value {
    let fingerprints = report.fingerprints();
    let findings = report.with_rules().zip(&fingerprints);
    [
        ("version", Value::from(report.version.as_str())),
        ("complete", report.complete.into()),
        ("rules", report.rules.iter().map(|it| rule(report, it)).collect()),
        ("findings", findings.map(|((it, rule), id)| finding(report, it, rule, id)).collect()),
    ]
    .into_iter()
    .collect()
}

/// The findings about policies and files as JSON documents have them: with `rule`, `level`, `message`
/// and `place`. Documents of a command's own carry them beside its results.
pub fn about_policies(report: &Report) -> Vec<Value> {
    let findings = report.with_rules().zip(report.fingerprints());
    let of_policies = findings.filter(|((_, rule), _)| rule.kind == RuleKind::Code);
    of_policies.map(|((it, rule), id)| finding(report, it, rule, &id)).collect()
}

pub(crate) fn json(report: &Report) -> String {
    pretty(&document(report))
}

pub(crate) fn yaml(report: &Report) -> String {
    yaml::write(&document(report))
}

pub(crate) fn jsonl(report: &Report) -> String {
    let mut out = String::new();
    for ((it, rule), id) in report.with_rules().zip(&report.fingerprints()) {
        json::write(&finding(report, it, rule, id), &mut out, Escape::Minimal);
        out.push('\n');
    }
    out
}

/// Indented JSON and a line break.
pub(crate) fn pretty(value: &Value) -> String {
    let mut out = String::new();
    json::write_pretty(value, &mut out, "  ", Escape::Minimal);
    out.push('\n');
    out
}

/// The texts that are known.
fn texts(pairs: &[(&'static str, &str)]) -> Vec<(&'static str, Value)> {
    let known = pairs.iter().filter(|(_, text)| !text.is_empty());
    known.map(|(key, text)| (*key, Value::from(*text))).collect()
}

fn rule(report: &Report, rule: &Rule) -> Value {
    let Rule { id, kind, title, description, level, owner, remediation, .. } = rule;
    let members = texts(&[
        ("id", id),
        ("kind", kind.as_str()),
        ("title", title),
        ("description", description),
        ("helpUri", &report.help_uri(rule)),
        ("level", level.as_str()),
        ("owner", owner),
        ("remediation", remediation),
    ]);
    members.into_iter().collect()
}

fn finding(report: &Report, finding: &Finding, rule: &Rule, id: &str) -> Value {
    let mut members = texts(&[
        ("rule", &rule.id),
        ("level", finding.level.as_str()),
        ("message", &finding.message),
        ("field", &finding.field),
        ("action", &finding.action),
        ("owner", &rule.owner),
        ("remediation", report.remediation(finding)),
        ("fingerprint", id),
    ]);
    members.extend(finding.place.as_ref().map(|it| ("place", place(it))));
    members.extend(finding.object.as_ref().map(|object| {
        let parts = texts(&[
            ("group", &object.group),
            ("version", &object.version),
            ("kind", &object.kind),
            ("namespace", &object.namespace),
            ("name", &object.name),
        ]);
        ("object", parts.into_iter().collect())
    }));
    members.into_iter().collect()
}

fn place(place: &Place) -> Value {
    let mut members = texts(&[("file", &place.file)]);
    let numbers = [
        ("line", place.line),
        ("column", place.column),
        ("endLine", place.end_line),
        ("endColumn", place.end_column),
    ];
    let known = numbers.into_iter().filter(|(_, number)| *number > 0);
    members.extend(known.map(|(key, number)| (key, Value::from(i64::from(number)))));
    members.into_iter().collect()
}
