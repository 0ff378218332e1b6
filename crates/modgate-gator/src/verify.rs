//! `gator verify`: test suites of policies (7.6), and our extension of them for policies that
//! change objects (`docs/suites.md`); and kat's tests of the cluster's own policies ([`kat`]).
//!
//! [`find`](read_suites) the suites, run each test of each suite on whatever core is free, print
//! the [`SuiteResult`]s in order.

mod case;
mod coverage;
mod files;
mod filter;
mod find;
mod kat;
mod machine;
mod members;
mod mutants;
mod pipeline;
mod report;
mod runner;
mod suite;
mod watch;

pub use self::{
    filter::{BadFilter, Filter},
    find::{FoundSuite, read_suites},
    report::{CaseResult, SuiteResult, TestResult, text},
    suite::{Assertion, Case, Suite, Test},
};

use std::{
    path::{Component, Path, PathBuf},
    thread,
    time::Duration,
};

use modgate_engine::Code;
use modgate_policies::paths::{self, Exclude};
use modgate_report::{Format, Report};
use modgate_value::diag::Diagnostic;

use crate::{
    Io, VerbFailure,
    args::VerifyArgs,
    files::{clean, os_text},
    finding::{self, Output},
    policies::Settings,
};

/// The formats that are not those of reports.
const OWN: [&str; 5] = ["text", "json", "junit", "html", "lcov"];

/// The formats of `verify` when it is called as modgate.
pub fn formats() -> impl Iterator<Item = &'static str> {
    let reports = Format::ALL.iter().map(|format| format.as_str());
    OWN.into_iter().chain(reports.filter(|format| !OWN.contains(format)))
}

/// The time between two looks at the files that `--watch` follows.
const LOOK: Duration = Duration::from_millis(300);

/// Runs the verb.
pub(crate) fn run(args: &VerifyArgs, is_gator: bool, io: &mut Io<'_>) -> Result<u8, VerbFailure> {
    if !args.watch {
        return once(args, is_gator, io);
    }
    loop {
        let before = watch::State::of(&args.paths, io);
        match once(args, is_gator, io) {
            Ok(_) => {}
            Err(failure) => io.note(&failure.message.unwrap_or_default()),
        }
        io.stdout.flush().map_err(VerbFailure::output)?;
        io.note("waiting for changes; Ctrl-C ends");
        while watch::State::of(&args.paths, io) == before {
            thread::sleep(LOOK);
        }
    }
}

/// One run of the suites.
fn once(args: &VerifyArgs, is_gator: bool, io: &mut Io<'_>) -> Result<u8, VerbFailure> {
    if is_gator {
        let outputs = vec![of_gator(args.output.last().map_or("text", String::as_str))?];
        return verified(args, &outputs, true, &mut finding::report(), io);
    }
    let outputs = finding::outputs(&args.output, &OWN)?;
    if !args.measures_coverage() && outputs.iter().any(|output| output.format == "lcov") {
        return Err(VerbFailure::error("`-o lcov` needs `--coverage`"));
    }
    let mut report = finding::report();
    args.help_base.show_in(&mut report);
    match verified(args, &outputs, false, &mut report, io) {
        Err(failure) if !failure.is_result => {
            let nothing = |format: &str, report: &Report| {
                let parts = machine::Parts { coverage: None, mutants: None };
                (format == "json").then(|| machine::json(&[], report, parts))
            };
            Err(finding::failed(&outputs, &mut report, failure, nothing, io)?)
        }
        done => done,
    }
}

fn verified(
    args: &VerifyArgs,
    outputs: &[Output<'_>],
    is_gator: bool,
    report: &mut Report,
    io: &mut Io<'_>,
) -> Result<u8, VerbFailure> {
    let settings =
        Settings::of(&args.cel, args.verbose || outputs.iter().any(|it| it.format != "text"))
            .map_err(VerbFailure::error)?;
    let observes = args.measures_coverage() || args.tries_mutants();
    let collected = observes.then(coverage::Collected::default);
    let filter = Filter::new(&args.run)
        .map_err(|error| VerbFailure::error(format!("compiling filter: {error}")))?;
    let mut unread = Vec::new();
    let (suites, folders) = listed(args, (!is_gator).then_some(&mut unread), io)?;
    let inside = inside(io);
    let shown = |file: &str| match file.strip_prefix(&inside) {
        Some(below) => below.to_owned(),
        None => format!("/{}", file.trim_start_matches('/')),
    };
    let mut is_good = true;
    if !is_gator {
        let mut findings = match suites.is_empty() && (!folders.is_empty() || !unread.is_empty()) {
            true => Vec::new(),
            false => members::warnings(&args.paths.join(" "), &suites),
        };
        findings.append(&mut unread);
        let paths: Vec<PathBuf> = args
            .paths
            .iter()
            .map(|path| io.path(path.strip_suffix("/...").unwrap_or(path)))
            .collect();
        findings.extend(paths::unmatched(&args.exclude, paths.iter()));
        findings.extend(folders.iter().flat_map(kat::warnings));
        findings.extend(members::policies(&suites, &settings, shown));
        is_good = finding::diagnostics(findings, args.strict, args.quiet, report, io);
    }
    let observed = settings.clone().observed(collected.is_some());
    let results = results(args, (&suites, &folders), &filter, &observed, collected.as_ref());
    let measured = collected.map(|collected| collected.measured(shown));
    let has_passed = is_good && !results.iter().any(SuiteResult::is_failure);
    // A case that fails anyway notices nothing.
    let tried = (args.tries_mutants() && has_passed).then(|| {
        let policies = measured.as_ref().map_or(&[][..], |measured| &measured.policies);
        let (suites, folders) = (&suites, &folders);
        let tests = mutants::Tests { suites, folders, filter: &filter, settings: &settings };
        let limits = mutants::Limits { budget: args.budget, seed: args.seed };
        mutants::run(policies, &tests, limits)
    });
    let measured = measured.filter(|_| args.measures_coverage());
    let parts = machine::Parts { coverage: measured.as_ref(), mutants: tried.as_deref() };
    let tests = results.iter().filter(|suite| !suite.skipped).flat_map(|suite| &suite.tests);
    let count = tests.filter(|test| !test.skipped).count();
    if !is_gator && count == 0 && !args.run.is_empty() {
        let none = Diagnostic::warning(format!("no test matches `--run {}`", args.run));
        let none = none.code(Code::NothingFound.as_str()).help("it is a pattern of names of tests");
        is_good &= finding::diagnostics(vec![none], args.strict, args.quiet, report, io);
    }
    let results = match is_gator {
        true => results,
        false => results.into_iter().map(|result| relative(result, io)).collect(),
    };
    let places = members::Places::of(&suites);
    report::findings(report, &results, |suite, case, member| places.of_case(suite, case, member));
    report.complete = is_good;
    let own = |format: &str| match format {
        "text" => {
            let mut out = format!("{}\n", text(&results, args.verbose));
            // What could not be read did not pass.
            if !is_good && let Some(before) = out.strip_suffix("PASS\n\n") {
                out = format!("{before}FAIL\n\n");
            }
            if !is_gator && !args.quiet {
                out.push_str(&report::totals(&results, report));
            }
            out.extend(measured.as_ref().map(coverage::text));
            out.extend(tried.as_deref().map(mutants::text));
            Some(out)
        }
        "json" => Some(machine::json(&results, report, parts)),
        "yaml" if parts.is_some() => Some(machine::yaml(&results, report, parts)),
        "lcov" => measured.as_ref().map(coverage::lcov),
        "junit" => Some(machine::junit(&results, report)),
        "html" => Some(machine::html(&results, parts)),
        _ => None,
    };
    finding::print(outputs, report, own, io)?;
    // Nothing can be concluded from the tests of policies that do not load.
    if !is_good {
        return Err(VerbFailure { is_result: true, ..VerbFailure::silent(2) });
    }
    if results.iter().any(SuiteResult::is_failure) {
        return Err(VerbFailure::error("FAIL").result());
    }
    if args.require_tests && count == 0 {
        return Err(VerbFailure::error("there is no test, and --require-tests is on").result());
    }
    enough(args, parts).map(|()| 0)
}

/// Whether as much is covered, and noticed, as the arguments ask for.
fn enough(args: &VerifyArgs, parts: machine::Parts<'_>) -> Result<(), VerbFailure> {
    if let (Some(least), Some(measured)) = (args.coverage_min, parts.coverage) {
        let percent = measured.figures().total().percent();
        if percent < least {
            let text = format!("coverage is {percent:.1} %, less than --coverage-min {least}");
            return Err(VerbFailure::error(text).result());
        }
    }
    if let (Some(least), Some(tried)) = (args.mutants_min, parts.mutants) {
        let percent = mutants::score(tried).percent();
        if percent < least {
            let text = format!("the score is {percent:.1} %, less than --mutants-min {least}");
            return Err(VerbFailure::error(text).result());
        }
    }
    Ok(())
}

/// The suites of the arguments, and the folders with tests of kat. `unread` takes the findings about suites that cannot be
/// read; gator has none, and ends with the first.
fn listed(
    args: &VerifyArgs,
    mut unread: Option<&mut Vec<Diagnostic>>,
    io: &Io<'_>,
) -> Result<(Vec<FoundSuite>, Vec<kat::Folder>), VerbFailure> {
    let (mut suites, mut folders) = (Vec::new(), Vec::new());
    let is_gator = unread.is_none();
    let exclude = Exclude::new(&args.exclude).map_err(|it| VerbFailure::error(it.to_string()))?;
    for path in &expanded(args, is_gator, &exclude)? {
        let (path, recursive) = match path.strip_suffix("/...") {
            Some(folder) => (folder, true),
            None => (path.as_str(), false),
        };
        let target = clean(&io.path(path).to_string_lossy());
        let target = target.trim_start_matches('/');
        let listing = |error: String| {
            // gator leaves out the first slash of the path.
            if is_gator {
                return VerbFailure::error(format!("listing test files: {error}"));
            }
            let near = paths::did_you_mean(&io.path(path)).map(|help| as_written(&help, io));
            let near = near.filter(|_| error.ends_with("no such file or directory"));
            let near = near.map(|help| format!("; {help}")).unwrap_or_default();
            VerbFailure::error(format!("listing test files: {}{near}", error.replace(target, path)))
        };
        let is_excluded = |path: &str| exclude.excludes(Path::new(path));
        let found =
            find::read_suites_but(target, path, recursive, &is_excluded, unread.as_deref_mut());
        suites.extend(found.map_err(listing)?);
        folders.extend(kat::find(target, path, recursive).map_err(listing)?);
    }
    Ok((suites, folders))
}

/// The paths of the arguments. Patterns stand for the suites that match them, and in front of `/...` for the folders, unless
/// gator is called.
fn expanded(
    args: &VerifyArgs,
    is_gator: bool,
    exclude: &Exclude,
) -> Result<Vec<String>, VerbFailure> {
    let mut found = Vec::new();
    for path in &args.paths {
        if is_gator || !path.contains(['*', '?', '[']) {
            found.push(path.clone());
            continue;
        }
        let below = path.strip_suffix("/...");
        let pattern = below.map_or_else(|| path.clone(), |folder| format!("{folder}/**"));
        let files = paths::expanded(&[pattern.into()], exclude);
        let files = files.map_err(|error| VerbFailure::error(error.to_string()))?;
        let is_step = |it: &Component<'_>| *it != Component::CurDir && it.as_os_str() != "**";
        let depth = below.map(|folder| Path::new(folder).components().filter(is_step).count());
        for file in &files {
            let path = match depth {
                Some(depth) => {
                    let folder: PathBuf = file.components().take(depth).collect();
                    format!("{}/...", folder.display())
                }
                None => file.to_string_lossy().into_owned(),
            };
            if !found.contains(&path) {
                found.push(path);
            }
        }
    }
    Ok(found)
}

/// Runs the tests.
fn results(
    args: &VerifyArgs,
    (suites, folders): (&[FoundSuite], &[kat::Folder]),
    filter: &Filter,
    settings: &Settings,
    collected: Option<&coverage::Collected>,
) -> Vec<SuiteResult> {
    let mut results = Vec::new();
    let is_failed = |results: &[SuiteResult]| results.iter().any(SuiteResult::is_failure);
    if args.fail_fast {
        for suite in suites {
            if is_failed(&results) {
                let path = suite.input_path.clone();
                results.push(SuiteResult {
                    path,
                    skipped: true,
                    stopped: true,
                    ..Default::default()
                });
            } else {
                let one = std::slice::from_ref(suite);
                results.extend(runner::run(one, filter, settings, args.trace, collected));
            }
        }
    } else {
        results.extend(runner::run(suites, filter, settings, args.trace, collected));
    }
    for folder in folders {
        results.push(match args.fail_fast && is_failed(&results) {
            true => SuiteResult {
                path: folder.shown.clone(),
                skipped: true,
                stopped: true,
                ..SuiteResult::default()
            },
            false => kat::run(folder, filter, collected),
        });
    }
    results
}

/// The output of `gator verify`, whose formats are fewer.
fn of_gator(format: &str) -> Result<Output<'_>, VerbFailure> {
    if !["text", "json", "junit"].contains(&format) {
        return Err(VerbFailure::error(format!(
            "invalid output format: {format} (must be text, json or junit)"
        )));
    }
    Ok(Output { format, file: None })
}

/// The folder of the run as messages begin with it: with a slash behind, and without the first one.
fn inside(io: &Io<'_>) -> String {
    let folder = clean(&io.directory.to_string_lossy());
    format!("{}/", folder.trim_start_matches('/'))
}

/// Paths in messages as the user knows them: relative to the folder of the run.
fn relative(mut result: SuiteResult, io: &Io<'_>) -> SuiteResult {
    let inside = inside(io);
    // gator leaves out the first slash of paths.
    let folder = clean(&io.path(&result.path).to_string_lossy());
    let folder = folder.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
    let without = folder.trim_start_matches('/').to_owned();
    let shorten = |error: &mut Option<String>| {
        let Some(error) = error else { return };
        *error = match inside.as_str() {
            "/" => std::mem::take(error),
            inside => error.replace(inside, ""),
        };
        for before in [" ", "\""] {
            let (wrong, right) = (format!("{before}{without}/"), format!("{before}{folder}/"));
            if !without.is_empty() {
                *error = error.replace(&wrong, &right);
            }
        }
        if let Some(advice) = advice(error, io) {
            error.push_str("; ");
            error.push_str(&advice);
        }
    };
    for test in &mut result.tests {
        shorten(&mut test.error);
        test.cases.iter_mut().for_each(|case| shorten(&mut case.error));
    }
    result
}

/// Advice about a file that a suite names and that does not exist, or has another kind of policy.
fn advice(error: &str, io: &Io<'_>) -> Option<String> {
    if error.ends_with(": no such file or directory") {
        let (_, rest) = error.rsplit_once("open ")?;
        let path = rest.trim_end_matches(": no such file or directory");
        let help = paths::did_you_mean(&io.path(path))?;
        return Some(as_written(&help, io));
    }
    let path = error.strip_prefix("path \"")?.strip_suffix("\": not a ConstraintTemplate")?;
    let text = std::fs::read_to_string(io.path(path)).ok()?;
    text.contains("constraints.gatekeeper.sh/")
        .then(|| "it is a constraint: are `template` and `constraint` swapped?".to_owned())
}

/// Advice with a path below the folder of the run, as people write it.
fn as_written(help: &str, io: &Io<'_>) -> String {
    match io.path("") {
        folder if folder.as_os_str().is_empty() => help.to_owned(),
        folder => help.replacen(&format!("`{}/", clean(&folder.to_string_lossy())), "`", 1),
    }
}

/// The system's error for a file that could not be opened.
fn open_error(path: &str, error: &std::io::Error) -> String {
    format!("open {path}: {}", os_text(error))
}
