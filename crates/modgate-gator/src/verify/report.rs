//! The results of suites, as text.

use std::{fmt::Write as _, time::Duration};

use modgate_report::{Finding, Level, Passed, Place, Report, Rule, RuleKind, one_line};

/// The result of a suite.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SuiteResult {
    /// Its file, as in the arguments.
    pub path: String,
    /// Whether it was not run.
    pub skipped: bool,
    /// Whether that is because another suite failed before.
    pub stopped: bool,
    /// How long its tests took, one after another.
    pub runtime: Duration,
    /// Its tests.
    pub tests: Vec<TestResult>,
}

/// The result of a test.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TestResult {
    /// Its name.
    pub name: String,
    /// Why it could not be run at all.
    pub error: Option<String>,
    /// The pointer of the member at fault, below the test; empty for the test itself.
    pub at: String,
    /// Whether it was not run.
    pub skipped: bool,
    /// How long it took.
    pub runtime: Duration,
    /// Its cases.
    pub cases: Vec<CaseResult>,
}

/// The result of a case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CaseResult {
    /// Its name.
    pub name: String,
    /// Why it failed.
    pub error: Option<String>,
    /// The pointer of the member at fault, below the case; empty for the case itself.
    pub at: String,
    /// Whether it was not run.
    pub skipped: bool,
    /// How long it took.
    pub runtime: Duration,
    /// The trace of the policy, if requested.
    pub trace: Option<String>,
    /// The output of the policy.
    pub print: String,
}

impl SuiteResult {
    /// Whether some test failed.
    pub fn is_failure(&self) -> bool {
        self.tests.iter().any(TestResult::is_failure)
    }
}

impl TestResult {
    /// Whether it could not be run, or some case failed.
    pub fn is_failure(&self) -> bool {
        self.error.is_some() || self.cases.iter().any(|case| case.error.is_some())
    }
}

/// The failed cases of suites, and the tests that could not be run. `places` has the place of a test
/// of a suite, or of a case of it, and of the member in it at a pointer.
pub(super) fn findings(
    report: &mut Report,
    results: &[SuiteResult],
    place: impl Fn(&str, (usize, Option<usize>), &str) -> Option<Place>,
) {
    for suite in results {
        for (index, test) in suite.tests.iter().enumerate() {
            let id = format!("{}: {}", suite.path, test.name);
            let rule = report.rule(Rule::new(id, RuleKind::Test));
            let mut fail = |name: &str, error: &str, (case, at): (Option<usize>, &str)| {
                let message = match name {
                    "" => error.to_owned(),
                    name => format!("{name}: {error}"),
                };
                let mut finding = Finding::new(rule, Level::Error, message);
                finding.place = place(&suite.path, (index, case), at);
                report.findings.push(finding);
            };
            if let Some(error) = &test.error {
                fail("", error, (None, &test.at));
            }
            for (number, case) in test.cases.iter().enumerate() {
                if let Some(error) = &case.error {
                    fail(&case.name, error, (Some(number), &case.at));
                }
            }
            let passed = test.cases.iter().filter(|case| case.error.is_none() && !case.skipped);
            report.passed.extend(passed.map(|case| Passed { rule, name: case.name.clone() }));
        }
    }
}

/// The failed cases with their places, and how many passed: what follows the results, unless gator
/// prints them.
pub(super) fn totals(suites: &[SuiteResult], report: &Report) -> String {
    let mut out = String::new();
    // What is wrong with policies and suites is on standard error.
    let of_tests = report.with_rules().filter(|(_, rule)| rule.kind == RuleKind::Test);
    for (finding, _) in of_tests {
        let Some(place) = &finding.place else { continue };
        let first = finding.message.lines().next().unwrap_or_default();
        let place = one_line(&place.to_string());
        // Writing to a `String` cannot fail.
        let _ = writeln!(out, "{place}: {first}");
    }
    let (mut passed, mut failed, mut skipped) = (0_usize, 0_usize, 0_usize);
    for test in suites.iter().flat_map(|suite| &suite.tests) {
        failed += usize::from(test.error.is_some());
        skipped += usize::from(test.skipped);
        for case in &test.cases {
            match (&case.error, case.skipped) {
                (_, true) => skipped += 1,
                (Some(_), _) => failed += 1,
                (None, _) => passed += 1,
            }
        }
    }
    let stopped = suites.iter().filter(|suite| suite.stopped).count();
    let count = suites.len() - stopped;
    let plural = if count == 1 { "" } else { "s" };
    let _ =
        write!(out, "{passed} passed, {failed} failed, {skipped} skipped in {count} suite{plural}");
    let _ = match stopped {
        0 => writeln!(out),
        _ => writeln!(out, "; {stopped} not run, because of --fail-fast"),
    };
    out
}

/// The results as `go test` would print them; `verbose` with everything that passed.
pub fn text(suites: &[SuiteResult], verbose: bool) -> String {
    let mut out = Printer { out: String::new(), verbose };
    for suite in suites {
        for test in &suite.tests {
            out.test(test);
        }
        let verdict = match suite.is_failure() {
            true => "FAIL",
            false if suite.stopped => "not run",
            false => "ok",
        };
        out.line(format_args!("{verdict}\t{}\t{}", suite.path, seconds(suite.runtime)));
    }
    let failed = suites.iter().any(SuiteResult::is_failure);
    out.line(format_args!("{}", if failed { "FAIL" } else { "PASS" }));
    out.out
}

fn seconds(runtime: Duration) -> String {
    format!("{:.3}s", runtime.as_secs_f64())
}

struct Printer {
    out: String,
    verbose: bool,
}

impl Printer {
    fn line(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a `String` cannot fail.
        let _ = writeln!(self.out, "{text}");
    }

    fn detail(&mut self, text: std::fmt::Arguments<'_>) {
        if self.verbose {
            self.line(text);
        }
    }

    fn test(&mut self, test: &TestResult) {
        let TestResult { name, error, skipped, runtime, cases, .. } = test;
        if *skipped {
            return self.detail(format_args!("=== SKIP  {name}"));
        }
        self.detail(format_args!("=== RUN   {name}"));
        for case in cases {
            self.case(case);
        }
        let runtime = seconds(*runtime);
        if test.is_failure() {
            self.line(format_args!("--- FAIL: {name}\t({runtime})"));
        } else {
            self.detail(format_args!("--- PASS: {name}\t({runtime})"));
        }
        if let Some(error) = error {
            self.line(format_args!("  {error}"));
        }
    }

    fn case(&mut self, case: &CaseResult) {
        let CaseResult { name, error, skipped, runtime, trace, print, .. } = case;
        if *skipped {
            return self.detail(format_args!("    === SKIP  {name}"));
        }
        self.detail(format_args!("    === RUN   {name}"));
        let print = print.trim_end_matches('\n');
        if !print.is_empty() {
            self.detail(format_args!("        === PRINT ==="));
            for line in print.split('\n') {
                self.detail(format_args!("        {line}"));
            }
        }
        let runtime = seconds(*runtime);
        match error {
            Some(error) => {
                self.line(format_args!("    --- FAIL: {name}\t({runtime})"));
                self.line(format_args!("        {error}"));
            }
            None => self.detail(format_args!("    --- PASS: {name}\t({runtime})")),
        }
        if let Some(trace) = trace {
            let indent = if self.verbose { "    --- " } else { "" };
            self.line(format_args!("{indent}TRACE: {name}\t{trace}"));
        }
    }
}
