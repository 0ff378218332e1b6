//! JUnit XML: a suite for each rule, with a failed test for each finding that fails the command, a skipped test for each
//! other finding, and a test for what passed.
//!
//! Source: the schema of Jenkins' xUnit plugin (`junit-10.xsd`), which GitLab reads as well.

use std::fmt::Write as _;

use crate::{Finding, Level, Report, RuleKind, xml::escape};

pub(crate) fn write(report: &Report) -> String {
    let mut body = String::new();
    let (mut all_tests, mut all_failures, mut all_errors) = (0, 0, 0);
    for (index, rule) in report.rules.iter().enumerate() {
        let findings: Vec<&Finding> =
            report.findings.iter().filter(|finding| finding.rule == index).collect();
        let passed = report.passed.iter().filter(|passed| passed.rule == index);
        let mut names: Vec<&str> = passed.map(|passed| passed.name.as_str()).collect();
        if names.is_empty() && findings.is_empty() {
            names.push("no violations");
        }
        // A policy that does not load is an error, not a failed test.
        let is_error =
            |finding: &Finding| rule.kind == RuleKind::Code && finding.level == Level::Error;
        let errors = findings.iter().filter(|finding| is_error(finding)).count();
        let skipped = findings.iter().filter(|it| it.level < report.fails_from).count();
        let failures = findings.len() - errors - skipped;
        let tests = names.len() + findings.len();
        let class = escape(&rule.id);
        let _ = writeln!(
            body,
            r#"  <testsuite name="{class}" tests="{tests}" failures="{failures}" errors="{errors}" skipped="{skipped}">"#
        );
        for name in names {
            let _ =
                writeln!(body, r#"    <testcase name="{}" classname="{class}"/>"#, escape(name));
        }
        for finding in &findings {
            case(&mut body, report, finding, &class, is_error(finding));
        }
        body.push_str("  </testsuite>\n");
        all_tests += tests;
        all_failures += failures;
        all_errors += errors;
    }
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"modgate\" \
         tests=\"{all_tests}\" failures=\"{all_failures}\" errors=\"{all_errors}\">\n{body}\
         </testsuites>\n"
    )
}

fn case(out: &mut String, report: &Report, finding: &Finding, class: &str, is_error: bool) {
    let place = finding.place.as_ref().map(ToString::to_string).unwrap_or_default();
    let name = match &finding.object {
        Some(object) => object.to_string(),
        None if place.is_empty() => finding.message.clone(),
        None => place.clone(),
    };
    let element = match finding.level < report.fails_from {
        true => "skipped",
        false if is_error => "error",
        false => "failure",
    };
    let kind = if finding.action.is_empty() { finding.level.as_str() } else { &finding.action };
    let remediation = report.remediation(finding);
    let lines = [place.as_str(), finding.message.as_str(), remediation];
    let lines: Vec<&str> = lines.into_iter().filter(|line| !line.is_empty()).collect();
    let _ = write!(
        out,
        "    <testcase name=\"{}\" classname=\"{class}\">\n      <{element} message=\"{}\" \
         type=\"{}\">{}</{element}>\n    </testcase>\n",
        escape(&name),
        escape(&finding.message),
        escape(kind),
        escape(&lines.join("\n"))
    );
}
