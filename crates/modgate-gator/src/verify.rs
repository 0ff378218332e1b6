//! `gator verify`: test suites of policies (7.6), and our extension of them for policies that
//! change objects (`docs/suites.md`); and kat's tests of the cluster's own policies ([`kat`]).
//!
//! [`find`](read_suites) the suites, run each test of each suite on whatever core is free, print
//! the [`SuiteResult`]s in order.

mod case;
mod files;
mod filter;
mod find;
mod kat;
mod machine;
mod members;
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

use std::{thread, time::Duration};

use crate::{
    Failure, Io,
    cli::VerifyArgs,
    finding,
    policies::Settings,
    read::{clean, os_text},
};

/// The formats that are not those of reports.
const OWN: [&str; 4] = ["text", "json", "junit", "html"];

/// The time between two looks at the files that `--watch` follows.
const LOOK: Duration = Duration::from_millis(300);

/// Runs the verb.
pub(crate) fn run(args: &VerifyArgs, is_gator: bool, io: &mut Io<'_>) -> Result<u8, Failure> {
    if !args.watch {
        return once(args, is_gator, io);
    }
    loop {
        let before = watch::State::of(&args.paths, io);
        match once(args, is_gator, io) {
            Ok(_) => {}
            Err(failure) => io.note(&failure.message.unwrap_or_default()),
        }
        io.stdout.flush().map_err(Failure::output)?;
        io.note("waiting for changes; Ctrl-C ends");
        while watch::State::of(&args.paths, io) == before {
            thread::sleep(LOOK);
        }
    }
}

/// One run of the suites.
fn once(args: &VerifyArgs, is_gator: bool, io: &mut Io<'_>) -> Result<u8, Failure> {
    let outputs = match is_gator {
        false => finding::outputs(&args.output, &OWN)?,
        true => vec![of_gator(args.output.last().map_or("text", String::as_str))?],
    };
    let settings =
        Settings::of(&args.cel, args.verbose || outputs.iter().any(|it| it.format != "text"))
            .map_err(Failure::error)?;
    let filter = Filter::new(&args.run)
        .map_err(|error| Failure::error(format!("compiling filter: {error}")))?;
    let (mut suites, mut folders) = (Vec::new(), Vec::new());
    for path in &args.paths {
        let (path, recursive) = match path.strip_suffix("/...") {
            Some(folder) => (folder, true),
            None => (path.as_str(), false),
        };
        let target = clean(&io.path(path).to_string_lossy());
        let target = target.trim_start_matches('/');
        let listing = |error: String| {
            // gator leaves out the first slash of the path.
            let shown = if is_gator { error } else { error.replace(target, path) };
            Failure::error(format!("listing test files: {shown}"))
        };
        suites.extend(read_suites(target, path, recursive).map_err(listing)?);
        folders.extend(kat::find(target, path, recursive).map_err(listing)?);
    }
    if !is_gator {
        warn(args, &suites, folders.is_empty(), io)?;
    }
    let mut results = Vec::new();
    let is_failed = |results: &[SuiteResult]| results.iter().any(SuiteResult::is_failure);
    if args.fail_fast {
        for suite in &suites {
            if is_failed(&results) {
                let path = suite.input_path.clone();
                results.push(SuiteResult { path, skipped: true, ..SuiteResult::default() });
            } else {
                let one = std::slice::from_ref(suite);
                results.extend(runner::run(one, &filter, &settings, args.trace));
            }
        }
    } else {
        results.extend(runner::run(&suites, &filter, &settings, args.trace));
    }
    if !(args.fail_fast && is_failed(&results)) {
        results.extend(folders.iter().map(|folder| kat::run(folder, &filter)));
    }
    if !is_gator {
        results.iter_mut().for_each(|result| relative(result, io));
    }
    let places = members::Places::of(&suites);
    let report = finding::suites(&results, |suite, test, case| places.of_case(suite, test, case));
    let own = |format: &str| match format {
        "text" => {
            let mut out = format!("{}\n", text(&results, args.verbose));
            if !is_gator {
                out.push_str(&report::totals(&results, &report));
            }
            Some(out)
        }
        "json" => Some(machine::json(&results)),
        "junit" => Some(machine::junit(&results)),
        "html" => Some(machine::html(&results)),
        _ => None,
    };
    finding::print(&outputs, &report, own, io)?;
    let count: usize = results.iter().map(|suite| suite.tests.len()).sum();
    if is_failed(&results) {
        return Err(Failure::error("FAIL").result());
    }
    if args.require_tests && count == 0 {
        return Err(Failure::error("there is no test, and --require-tests is on").result());
    }
    Ok(0)
}

/// The output of `gator verify`, whose formats are fewer.
fn of_gator(format: &str) -> Result<finding::Output<'_>, Failure> {
    if !OWN.contains(&format) || format == "html" {
        return Err(Failure::error(format!(
            "invalid output format: {format} (must be text, json or junit)"
        )));
    }
    Ok(finding::Output { format, file: None })
}

/// Prints the warnings about suites; with `--strict`, they and those about policies are errors.
fn warn(
    args: &VerifyArgs,
    suites: &[FoundSuite],
    is_all: bool,
    io: &mut Io<'_>,
) -> Result<(), Failure> {
    let mut warnings = members::warnings(&args.paths.join(" "), suites);
    if suites.is_empty() && !is_all {
        warnings.clear();
    }
    for warning in &warnings {
        match args.strict {
            true => io.note(&warning.replacen("warning[", "error[", 1)),
            false => io.note(warning),
        }
    }
    if !args.strict {
        return Ok(());
    }
    let files = suites.iter().flat_map(members::policy_files).collect();
    finding::strictly_files(&files, io)?;
    match warnings.len() {
        0 => Ok(()),
        _ => Err(Failure::error("there are warnings about suites, and --strict is on")),
    }
}

/// Paths in messages as the user knows them: relative to the folder of the run, or with the first
/// slash that gator leaves out.
fn relative(result: &mut SuiteResult, io: &Io<'_>) {
    let folder = clean(&io.directory.to_string_lossy());
    let inside = format!("{}/", folder.trim_start_matches('/'));
    if inside == "/" {
        return;
    }
    let shorten = |error: &mut Option<String>| {
        if let Some(error) = error {
            *error = error.replace(&inside, "");
        }
    };
    for test in &mut result.tests {
        shorten(&mut test.error);
        test.cases.iter_mut().for_each(|case| shorten(&mut case.error));
    }
}

/// What the system says about a file that could not be opened.
fn open_error(path: &str, error: &std::io::Error) -> String {
    format!("open {path}: {}", os_text(error))
}
