//! Markdown for job summaries and comments: the totals, then a table for each rule.

use std::fmt::Write as _;

use crate::{Finding, Report, text::totals};

pub(crate) fn write(report: &Report) -> String {
    let mut out = format!("## modgate: {}\n", totals(report));
    if !report.complete {
        out.push_str("\nSome policies or objects could not be evaluated, so more may be wrong.\n");
    }
    for (index, rule) in report.rules.iter().enumerate() {
        let findings: Vec<&Finding> =
            report.findings.iter().filter(|finding| finding.rule == index).collect();
        if findings.is_empty() {
            continue;
        }
        let _ = write!(out, "\n### {}\n\n", line(&rule.id));
        let about = [
            ("", rule.title.as_str()),
            ("", rule.description.as_str()),
            ("Owner: ", rule.owner.as_str()),
            ("Remediation: ", rule.remediation.as_str()),
            ("See ", rule.help_uri.as_str()),
        ];
        for (before, text) in about.into_iter().filter(|(_, text)| !text.is_empty()) {
            let _ = write!(out, "{before}{}\n\n", line(text));
        }
        out.push_str("| Level | Object | Message | Place |\n| --- | --- | --- | --- |\n");
        for finding in findings {
            let object = finding.object.as_ref().map(ToString::to_string).unwrap_or_default();
            let place = finding.place.as_ref().map(ToString::to_string).unwrap_or_default();
            let mut message = line(&finding.message);
            if !finding.remediation.is_empty() {
                let _ = write!(message, " ({})", line(&finding.remediation));
            }
            let (object, place) = (line(&object), line(&place));
            let _ = writeln!(out, "| {} | {object} | {message} | {place} |", finding.level);
        }
    }
    out
}

/// Text that stays in its cell and is no markup: Markdown shows it as it is.
fn line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' => {
                out.push('\\');
                out.push(character);
            }
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\n' => out.push_str("<br>"),
            control if control.is_control() => out.push(' '),
            plain => out.push(plain),
        }
    }
    out
}
