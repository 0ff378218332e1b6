//! Suites, and running them over files.

use std::{
    collections::BTreeMap,
    num::NonZero,
    panic::{self, AssertUnwindSafe},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use anyhow::{Result, anyhow};

use crate::{
    corpus::{self, CorpusFile, Roots},
    report::{Case, FileReport, Report},
};

/// Runs one kind of corpus file.
pub struct Suite {
    /// The file's name below a corpus folder; `*` stands for anything but a slash.
    pub name: &'static str,
    /// Turns the cases of a file into verdicts.
    pub run: fn(&CorpusFile, &Roots, &mut Vec<Case>) -> Result<()>,
}

/// Runs every file of the default search path that one of `suites` knows; other files are left
/// alone.
///
/// # Errors
///
/// When a corpus folder cannot be read at all; what goes wrong in one file is in the report.
pub fn run_all(suites: &[Suite]) -> Result<Report> {
    let roots = Roots::discover();
    let mut files = Vec::new();
    for file in corpus::files(&roots)? {
        let suite = suites.iter().find(|suite| matches(suite.name, &file.name));
        files.extend(suite.map(|suite| (suite, file)));
    }
    Ok(Report { files: run_files(&files, &roots, None), ..Report::default() })
}

/// Runs files on all cores; the reports come in the order of the files.
///
/// With a `filter` only files whose name, or cases whose `file#id`, contains it.
pub fn run_files(
    files: &[(&Suite, CorpusFile)],
    roots: &Roots,
    filter: Option<&str>,
) -> Vec<FileReport> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(BTreeMap::new());
    let work = || {
        let mut own = Vec::new();
        while let Some((suite, file)) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            own.push((file.path.clone(), run_file(suite, file, roots, filter)));
        }
        if let Ok(mut done) = done.lock() {
            done.extend(own);
        }
    };
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 1..cores {
            scope.spawn(work);
        }
        work();
    });
    let mut done = done.into_inner().unwrap_or_default();
    files.iter().filter_map(|(_, file)| done.remove(&file.path).flatten()).collect()
}

fn run_file(
    suite: &Suite,
    file: &CorpusFile,
    roots: &Roots,
    filter: Option<&str>,
) -> Option<FileReport> {
    let whole_file = filter.is_none_or(|filter| file.name.contains(filter));
    let mut cases = Vec::new();
    // Nothing a case holds may panic; what does fails the file, and the run goes on.
    let ran = panic::catch_unwind(AssertUnwindSafe(|| (suite.run)(file, roots, &mut cases)));
    let error = ran.unwrap_or_else(|_| Err(anyhow!("panicked after {} cases", cases.len()))).err();
    if let Some(filter) = filter.filter(|_| !whole_file) {
        cases.retain(|case| format!("{}#{}", file.name, case.id).contains(filter));
        if cases.is_empty() {
            return None;
        }
    }
    let mut error = error.map(|error| format!("{error:#}"));
    if cases.is_empty() && error.is_none() {
        error = Some("no cases".to_owned());
    }
    Some(FileReport { name: file.name.clone(), cases, error })
}

/// Whether a file of this name is meant by `pattern`: a folder that ends in `/`, or a name in which
/// `*` stands for anything but a slash.
pub fn matches(pattern: &str, name: &str) -> bool {
    if pattern.ends_with('/') {
        return name.starts_with(pattern);
    }
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, after)) => name
            .strip_prefix(before)
            .and_then(|rest| rest.strip_suffix(after))
            .is_some_and(|middle| !middle.contains('/')),
    }
}
