//! Results for machines: JSON, and the XML of JUnit; and as a page. Ours.

use std::{fmt::Write as _, time::Duration};

use modgate_value::{Str, Value};

use super::report::{CaseResult, SuiteResult, TestResult};
use super::{
    coverage::{self, Measured},
    mutants::{self, Mutated},
};
use modgate_report::{Level, Report, RuleKind, about_policies, xml::escape};

use crate::{
    finding,
    print::{self, Layout, Node, Style},
};

/// The measurements of a run besides its results.
#[derive(Clone, Copy)]
pub(super) struct Parts<'p> {
    /// With `--coverage`.
    pub(super) coverage: Option<&'p Measured>,
    /// With `--mutants`.
    pub(super) mutants: Option<&'p [Mutated]>,
}

impl Parts<'_> {
    /// Whether there is anything.
    pub(super) fn is_some(self) -> bool {
        self.coverage.is_some() || self.mutants.is_some()
    }
}

/// `{"passed": …, "suites": […]}`, indented, with a final line break; and `findings` about policies,
/// if there are any.
pub(super) fn json(suites: &[SuiteResult], report: &Report, parts: Parts<'_>) -> String {
    let mut out = String::new();
    print::json(&document(suites, report, parts), "  ", &mut out);
    out.push('\n');
    out
}

/// The same in YAML.
pub(super) fn yaml(suites: &[SuiteResult], report: &Report, parts: Parts<'_>) -> String {
    let document = document(suites, report, parts);
    print::yaml(&document, Style::V3, Layout::Block)
}

fn document(suites: &[SuiteResult], report: &Report, parts: Parts<'_>) -> Node {
    let passed = report.complete && !suites.iter().any(SuiteResult::is_failure);
    let findings = about_policies(report).into_iter().map(Node::Value);
    let findings = Node::List(findings.collect());
    let has_findings = !matches!(&findings, Node::List(list) if list.is_empty());
    let suites = Node::List(suites.iter().map(suite).collect());
    let passed = ("passed".into(), Node::Value(passed.into()));
    let mut members: Vec<(Str, Node)> = vec![passed, ("suites".into(), suites)];
    members.extend(has_findings.then_some(("findings".into(), findings)));
    members.extend(parts.coverage.map(|measured| ("coverage".into(), coverage::node(measured))));
    members.extend(parts.mutants.map(|tried| ("mutants".into(), mutants::node(tried))));
    Node::Map(members)
}

/// The results as one HTML file. `ui/src/report/coverage.ts` shows `coverage` and `mutants` of the document: figures of
/// all, and `policies` with their figures, their `places` (`line`, `column`, `text`, `missing`) or their `survivors`
/// (`line`, `column`, `change`, `before`, `after`, `covered`).
pub(super) fn html(suites: &[SuiteResult], parts: Parts<'_>) -> String {
    // It is JSON that was just written.
    let document = json(suites, &finding::report(), parts);
    let document = Value::from_json(document.as_bytes()).unwrap_or_default();
    modgate_ui::Page::new("verify", env!("CARGO_PKG_VERSION"), document).html()
}

fn suite(result: &SuiteResult) -> Node {
    Node::map([
        ("path", Node::text(result.path.as_str())),
        ("passed", Node::Value((!result.is_failure() && !result.stopped).into())),
        ("skipped", Node::Value(result.skipped.into())),
        ("seconds", seconds(result.runtime)),
        ("tests", Node::List(result.tests.iter().map(test).collect())),
    ])
}

fn test(result: &TestResult) -> Node {
    Node::map([
        ("name", Node::text(result.name.as_str())),
        ("passed", Node::Value((!result.is_failure()).into())),
        ("skipped", Node::Value(result.skipped.into())),
        ("seconds", seconds(result.runtime)),
        ("error", optional(result.error.as_deref())),
        ("cases", Node::List(result.cases.iter().map(case).collect())),
    ])
}

fn case(result: &CaseResult) -> Node {
    Node::map([
        ("name", Node::text(result.name.as_str())),
        ("passed", Node::Value(result.error.is_none().into())),
        ("skipped", Node::Value(result.skipped.into())),
        ("seconds", seconds(result.runtime)),
        ("error", optional(result.error.as_deref())),
        ("printed", Node::text(result.print.as_str())),
        ("trace", optional(result.trace.as_deref())),
    ])
}

fn optional(text: Option<&str>) -> Node {
    text.map_or(Node::Value(Value::Null), Node::text)
}

fn seconds(runtime: Duration) -> Node {
    let milliseconds = format!("{:.3}", runtime.as_secs_f64());
    let number = modgate_value::Number::from_json_text(&milliseconds);
    Node::Value(number.map_or(Value::Null, Value::from))
}

/// JUnit's XML: a `testsuite` for each suite file, a `testcase` for each case. A test that could
/// not be run, or has no cases, is a `testcase` of its own.
///
/// Findings about policies are a suite of their own in front.
pub(super) fn junit(suites: &[SuiteResult], report: &Report) -> String {
    let mut all = Counts::default();
    let mut body = of_policies(report, &mut all);
    let mut time = Duration::ZERO;
    for suite in suites {
        let mut counts = Counts::default();
        let mut cases = String::new();
        for test in &suite.tests {
            test_cases(test, &mut cases, &mut counts);
        }
        time += suite.runtime;
        all.add(&counts);
        let _ = writeln!(
            body,
            "  <testsuite name=\"{}\" {} time=\"{:.3}\">\n{cases}  </testsuite>",
            escape(&suite.path),
            counts.attributes(),
            suite.runtime.as_secs_f64()
        );
    }
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {} time=\"{:.3}\">\n{body}</testsuites>\n",
        all.of_all(),
        time.as_secs_f64()
    )
}

/// The suite of what is wrong with policies and files; empty if nothing is.
fn of_policies(report: &Report, all: &mut Counts) -> String {
    let mut counts = Counts::default();
    let mut cases = String::new();
    for finding in &report.findings {
        let rule = report.rules.get(finding.rule);
        let Some(rule) = rule.filter(|rule| rule.kind == RuleKind::Code) else { continue };
        counts.tests += 1;
        let place = finding.place.as_ref().map(ToString::to_string).unwrap_or_default();
        let text = format!("{place}: {}", finding.message);
        let inner = match finding.level {
            Level::Error => {
                counts.errors += 1;
                element("error", &text)
            }
            Level::Warning | Level::Note => {
                format!("      <system-out>{}</system-out>\n", escape(&text))
            }
        };
        test_case(&rule.id, &place, Duration::ZERO, &inner, &mut cases);
    }
    if counts.tests == 0 {
        return String::new();
    }
    all.add(&counts);
    let counts = counts.attributes();
    format!("  <testsuite name=\"policies\" {counts} time=\"0.000\">\n{cases}  </testsuite>\n")
}

#[derive(Default)]
struct Counts {
    tests: usize,
    failures: usize,
    errors: usize,
    skipped: usize,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.tests += other.tests;
        self.failures += other.failures;
        self.errors += other.errors;
        self.skipped += other.skipped;
    }

    /// Those of a `testsuite`.
    fn attributes(&self) -> String {
        format!("{} skipped=\"{}\"", self.of_all(), self.skipped)
    }

    /// Those of `testsuites`, where Jenkins' schema has no number of skipped tests.
    fn of_all(&self) -> String {
        let Self { tests, failures, errors, .. } = self;
        format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\"")
    }
}

fn test_cases(test: &TestResult, out: &mut String, counts: &mut Counts) {
    if test.skipped || test.error.is_some() || test.cases.is_empty() {
        let inner = match &test.error {
            Some(error) => {
                counts.errors += 1;
                element("error", error)
            }
            None if test.skipped => {
                counts.skipped += 1;
                "      <skipped/>\n".to_owned()
            }
            None => String::new(),
        };
        counts.tests += 1;
        test_case(&test.name, &test.name, test.runtime, &inner, out);
    }
    for case in &test.cases {
        counts.tests += 1;
        let mut inner = String::new();
        if case.skipped {
            counts.skipped += 1;
            inner.push_str("      <skipped/>\n");
        } else if let Some(error) = &case.error {
            counts.failures += 1;
            inner = element("failure", error);
        }
        if !case.print.is_empty() {
            let _ = writeln!(inner, "      <system-out>{}</system-out>", escape(&case.print));
        }
        test_case(&test.name, &case.name, case.runtime, &inner, out);
    }
}

fn test_case(class: &str, name: &str, runtime: Duration, inner: &str, out: &mut String) {
    let _ = write!(
        out,
        "    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3}\"",
        escape(class),
        escape(name),
        runtime.as_secs_f64()
    );
    if inner.is_empty() {
        out.push_str("/>\n");
    } else {
        let _ = write!(out, ">\n{inner}    </testcase>\n");
    }
}

fn element(name: &str, text: &str) -> String {
    let first = text.lines().next().unwrap_or_default();
    format!("      <{name} message=\"{}\">{}</{name}>\n", escape(first), escape(text))
}
