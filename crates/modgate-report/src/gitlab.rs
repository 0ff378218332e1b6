//! GitLab's Code Quality report: a list of issues, each with a place and a fingerprint.
//!
//! Source: GitLab's page "Code Quality", "Code Quality report format".

use modgate_value::Value;

use crate::{Level, Report, document::pretty};

/// The file of findings that have none: GitLab refuses an issue without a path.
const NOWHERE: &str = "(none)";

pub(crate) fn write(report: &Report) -> String {
    let fingerprints = report.fingerprints();
    let issues = report.with_rules().zip(fingerprints).map(|((finding, rule), fingerprint)| {
        let severity = match finding.level {
            Level::Error => "major",
            Level::Warning => "minor",
            Level::Note => "info",
        };
        let description = match &finding.object {
            Some(object) => format!("{object}: {}", finding.message),
            None => finding.message.clone(),
        };
        let place = finding.place.as_ref();
        let line = place.map_or(1, |place| place.line.max(1));
        let lines = object([("begin", i64::from(line).into())]);
        let path =
            place.map_or(NOWHERE, |place| place.file.strip_prefix("./").unwrap_or(&place.file));
        object([
            ("type", "issue".into()),
            ("check_name", rule.id.as_str().into()),
            ("description", description.into()),
            ("categories", Value::from(vec![Value::from("Security")])),
            ("severity", severity.into()),
            ("fingerprint", fingerprint.into()),
            ("location", object([("path", path.into()), ("lines", lines)])),
        ])
    });
    pretty(&issues.collect())
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    members.into_iter().collect()
}
