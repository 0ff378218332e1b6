//! Results as reports, for the formats that machines read. Ours.

use std::{collections::BTreeSet, fs};

use modgate_api::meta::GroupVersionKind;
use modgate_engine::{
    Change, EngineConfig, OnError, PolicySource, Position, Problem, Severity, Snapshot,
    constraint::Violation, guidance::Guidance,
};
use modgate_report::{Finding, Format, Level, Object, Report, Rule, RuleKind, write};
use modgate_value::{Str, Value, yaml};

use crate::{
    Failure, Io,
    object::metadata,
    read::{Resource, os_text},
    verify::SuiteResult,
};

/// One `-o FORMAT[=FILE]`.
pub(crate) struct Output<'a> {
    pub(crate) format: &'a str,
    pub(crate) file: Option<&'a str>,
}

/// The outputs of a verb: the formats of its own, and those of reports.
///
/// # Errors
///
/// When a format is neither, or two go to standard output.
pub(crate) fn outputs<'a>(texts: &'a [String], own: &[&str]) -> Result<Vec<Output<'a>>, Failure> {
    let mut outputs = Vec::new();
    for text in texts {
        let (format, file) = match text.split_once('=') {
            Some((format, file)) => (format, Some(file).filter(|file| !file.is_empty())),
            None => (text.as_str(), None),
        };
        if !own.contains(&format) {
            let parsed = format.parse::<Format>();
            parsed.map_err(|error| Failure::error(error.to_string()))?;
        }
        outputs.push(Output { format, file });
    }
    if outputs.iter().filter(|output| output.file.is_none()).count() > 1 {
        return Err(Failure::error(
            "two outputs are written to standard output; give one a file, such as `-o sarif=FILE`",
        ));
    }
    Ok(outputs)
}

/// Writes each output: those of the verb as `own` has them, the others from the report.
pub(crate) fn print(
    outputs: &[Output<'_>],
    report: &Report,
    own: impl Fn(&str) -> Option<String>,
    io: &mut Io<'_>,
) -> Result<(), Failure> {
    for output in outputs {
        let text = match (own(output.format), output.format.parse::<Format>()) {
            (Some(text), _) => text,
            (None, Ok(format)) => write(report, format),
            (None, Err(error)) => return Err(Failure::error(error.to_string())),
        };
        match output.file {
            Some(file) => fs::write(io.path(file), text).map_err(|error| {
                Failure::error(format!("cannot write `{file}`: {}", os_text(&error)))
            })?,
            None => io.print(&text)?,
        }
    }
    Ok(())
}

/// A report of this version.
pub(crate) fn report() -> Report {
    Report::new(env!("CARGO_PKG_VERSION"))
}

/// Adds a violation by an object of the input.
pub(crate) fn violation(report: &mut Report, violation: &Violation, resource: &Resource) {
    let Guidance { owner, remediation, docs_url } = violation.guidance();
    let text = |name: &str| violation.annotations.get(name).and_then(Value::as_str);
    let rule = report.rule(Rule {
        title: text("metadata.gatekeeper.sh/title").unwrap_or_default().to_owned(),
        description: text("description").unwrap_or_default().trim().to_owned(),
        owner: owner.to_string(),
        remediation: remediation.to_string(),
        help_uri: docs_url.to_string(),
        ..Rule::policy(format!("{}/{}", violation.kind, violation.constraint))
    });
    let has = |action: &str| violation.actions.iter().any(|it| it.as_str() == action);
    let level = match (has("deny"), has("warn")) {
        (true, _) => Level::Error,
        (false, true) => Level::Warning,
        (false, false) => Level::Note,
    };
    let GroupVersionKind { group, version, kind } = GroupVersionKind::of_object(&resource.object);
    let object = Object {
        group: group.to_string(),
        version: version.to_string(),
        kind: kind.to_string(),
        namespace: metadata(&resource.object, "namespace").to_owned(),
        name: metadata(&resource.object, "name").to_owned(),
    };
    let finding = Finding::new(rule, level, violation.message.as_str());
    let finding = finding.at(resource.place()).about(object);
    report.findings.push(Finding { action: violation.action.to_string(), ..finding });
}

/// The failed cases of suites, and the tests that could not be run. `places` has the place of a test
/// of a suite, or of a case of it.
pub(crate) fn suites(
    results: &[SuiteResult],
    place: impl Fn(&str, usize, Option<usize>) -> Option<modgate_report::Place>,
) -> Report {
    let mut report = report();
    for suite in results {
        for (index, test) in suite.tests.iter().enumerate() {
            let id = format!("{}: {}", suite.path, test.name);
            let rule = report.rule(Rule::new(id, RuleKind::Test));
            let mut fail = |name: &str, error: &str, case: Option<usize>| {
                let message = match name {
                    "" => error.to_owned(),
                    name => format!("{name}: {error}"),
                };
                let mut finding = Finding::new(rule, Level::Error, message);
                finding.place = place(&suite.path, index, case);
                report.findings.push(finding);
            };
            if let Some(error) = &test.error {
                fail("", error, None);
            }
            for (number, case) in test.cases.iter().enumerate() {
                if let Some(error) = &case.error {
                    fail(&case.name, error, Some(number));
                }
            }
            let passed = test.cases.iter().filter(|case| case.error.is_none() && !case.skipped);
            report.passed.extend(
                passed.map(|case| modgate_report::Passed { rule, name: case.name.clone() }),
            );
        }
    }
    report
}

/// With `--strict`, prints the warnings about the policies of the input, and fails if there is any.
pub(crate) fn strictly(
    strict: bool,
    resources: &[Resource],
    io: &mut Io<'_>,
) -> Result<(), Failure> {
    if !strict {
        return Ok(());
    }
    let sources = resources.iter().map(|resource| PolicySource {
        origin: resource.place().file.into(),
        object: resource.object.clone(),
        positions: resource.positions.clone(),
    });
    fail_on_warnings(sources, io)
}

/// As [`strictly`], for files of suites.
pub(crate) fn strictly_files(files: &BTreeSet<String>, io: &mut Io<'_>) -> Result<(), Failure> {
    let mut sources = Vec::new();
    for file in files {
        // Files that cannot be read fail the tests that name them.
        let Ok(text) = fs::read_to_string(format!("/{}", file.trim_start_matches('/'))) else {
            continue;
        };
        for document in yaml::manifest(&text).flatten() {
            sources.push(PolicySource {
                origin: Str::from(file.as_str()),
                object: document.value,
                positions: Some(document.positions.into()),
            });
        }
    }
    fail_on_warnings(sources.into_iter(), io)
}

fn fail_on_warnings(
    sources: impl Iterator<Item = PolicySource>,
    io: &mut Io<'_>,
) -> Result<(), Failure> {
    let policies = sources.filter(|source| Snapshot::takes(&source.object));
    let changes = policies.map(Change::Upsert).collect();
    let update = Snapshot::new(EngineConfig::default()).apply(changes, OnError::Unload);
    let is_warning = |problem: &&Problem| problem.severity == Severity::Warning;
    let warnings: Vec<&Problem> = update.problems.iter().filter(is_warning).collect();
    for problem in &warnings {
        let code = problem.code.map(|code| format!("[{code}]")).unwrap_or_default();
        io.note(&format!("error{code}: {}: {}", problem.policy, problem.message));
        match problem.position {
            Some(Position { line, column }) => {
                io.note(&format!(" --> {}:{line}:{column}", problem.origin));
            }
            None => io.note(&format!(" --> {}", problem.origin)),
        }
        if let Some(help) = &problem.help {
            io.note(&format!("  = help: {help}"));
        }
    }
    match warnings.len() {
        0 => Ok(()),
        1 => Err(Failure::error("there is a warning about a policy, and --strict is on")),
        count => Err(Failure::error(format!(
            "there are {count} warnings about policies, and --strict is on"
        ))),
    }
}
