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

pub use self::{
    filter::{BadFilter, Filter},
    find::{FoundSuite, read_suites},
    report::{CaseResult, SuiteResult, TestResult, text},
    suite::{Assertion, Case, Suite, Test},
};

use crate::{
    Failure, Io,
    cli::VerifyArgs,
    policies::Settings,
    read::{clean, os_text},
};

/// The output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Text,
    Json,
    JUnit,
    Html,
}

/// Runs the verb.
pub(crate) fn run(
    path: &str,
    args: &VerifyArgs,
    is_gator: bool,
    io: &mut Io<'_>,
) -> Result<u8, Failure> {
    let format = match args.output.as_str() {
        "text" => Format::Text,
        "json" => Format::Json,
        "junit" => Format::JUnit,
        "html" if !is_gator => Format::Html,
        other => {
            let known = if is_gator { "text, json or junit" } else { "text, json, junit or html" };
            return Err(Failure::error(format!(
                "invalid output format: {other} (must be {known})"
            )));
        }
    };
    let settings =
        Settings::of(&args.cel, args.verbose || format != Format::Text).map_err(Failure::error)?;
    let (path, recursive) = match path.strip_suffix("/...") {
        Some(folder) => (folder, true),
        None => (path, false),
    };
    let target = clean(&io.path(path).to_string_lossy());
    let suites = read_suites(target.trim_start_matches('/'), path, recursive)
        .map_err(|error| Failure::error(format!("listing test files: {error}")))?;
    if !is_gator {
        let warnings = members::warnings(&args.paths.join(" "), &suites);
        warnings.iter().for_each(|warning| io.note(warning));
    }
    let filter = Filter::new(&args.run)
        .map_err(|error| Failure::error(format!("compiling filter: {error}")))?;
    let mut results = runner::run(&suites, &filter, &settings, args.trace);
    let folders = kat::find(target.trim_start_matches('/'), path, recursive)
        .map_err(|error| Failure::error(format!("listing test files: {error}")))?;
    results.extend(folders.iter().map(|folder| kat::run(folder, &filter)));
    let out = match format {
        Format::Text => format!("{}\n", text(&results, args.verbose)),
        Format::Json => machine::json(&results),
        Format::JUnit => machine::junit(&results),
        Format::Html => machine::html(&results),
    };
    io.print(&out)?;
    if results.iter().any(SuiteResult::is_failure) {
        return Err(Failure::error("FAIL"));
    }
    Ok(0)
}

/// The operating system's error for a file that could not be opened.
fn open_error(path: &str, error: &std::io::Error) -> String {
    format!("open {path}: {}", os_text(error))
}
