//! Workflow commands of GitHub Actions: `::error file=…,line=…,col=…,title=…::message`.
//!
//! Source: GitHub's page "Workflow commands for GitHub Actions". The characters that would end a
//! message or a property are percent-encoded.

use std::fmt::Write as _;

use crate::{Level, Report, printable};

pub(crate) fn write(report: &Report) -> String {
    let mut out = String::new();
    for (finding, rule) in report.with_rules() {
        let command = match finding.level {
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Note => "notice",
        };
        let _ = write!(out, "::{command} ");
        if let Some(place) = &finding.place {
            let _ = write!(out, "file={},", property(&place.file));
            let numbers = [
                ("line", place.line),
                ("endLine", place.end_line),
                ("col", place.column),
                // Columns are shown only where the finding stands on one line.
                ("endColumn", if place.end_line == place.line { place.end_column } else { 0 }),
            ];
            for (key, number) in numbers.into_iter().filter(|(_, number)| *number > 0) {
                let _ = write!(out, "{key}={number},");
            }
        }
        let _ = write!(out, "title={}::", property(&rule.id));
        let mut message = String::new();
        if let Some(object) = &finding.object {
            let _ = write!(message, "{object}: ");
        }
        message.push_str(&finding.message);
        let remediation = report.remediation(finding);
        if !remediation.is_empty() {
            let _ = write!(message, "\nhelp: {remediation}");
        }
        let _ = writeln!(out, "{}", data(&message));
    }
    out
}

fn data(text: &str) -> String {
    printable(text).replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
