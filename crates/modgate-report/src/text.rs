//! Lines for people: what compilers print, so that editors find the place.

use std::fmt::Write as _;

use crate::{Level, Report, one_line};

/// `file:line:column: error[rule]: Kind namespace/name: message`, then the remediation, indented.
pub(crate) fn write(report: &Report) -> String {
    let mut out = String::new();
    for (finding, rule) in report.with_rules() {
        if let Some(place) = &finding.place {
            let _ = write!(out, "{}: ", one_line(&place.to_string()));
        }
        let _ = write!(out, "{}[{}]: ", finding.level, rule.id);
        if let Some(object) = &finding.object {
            let _ = write!(out, "{object}: ");
        }
        let _ = writeln!(out, "{}", finding.message);
        let remediation = report.remediation(finding);
        if !remediation.is_empty() {
            let _ = writeln!(out, "  help: {remediation}");
        }
    }
    let _ = writeln!(out, "{}", totals(report));
    out
}

/// `2 errors, 1 warning`
pub(crate) fn totals(report: &Report) -> String {
    let counted = |level: Level, one: &str| match report.count(level) {
        0 => None,
        1 => Some(format!("1 {one}")),
        count => Some(format!("{count} {one}s")),
    };
    let levels = [(Level::Error, "error"), (Level::Warning, "warning"), (Level::Note, "note")];
    let parts: Vec<String> =
        levels.into_iter().filter_map(|(level, one)| counted(level, one)).collect();
    if parts.is_empty() { "no findings".to_owned() } else { parts.join(", ") }
}
