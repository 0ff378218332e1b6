//! Files with one JSON document on each line: logs and records.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use modgate_value::{Value, diag::Source};

/// Their extensions.
const EXTENSIONS: [&str; 3] = ["jsonl", "ndjson", "log"];

/// Whether a file is one, by its name.
pub(crate) fn is_one(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| EXTENSIONS.contains(&extension))
}

/// Those at a path: the file itself, or those of the folder, sorted.
pub(crate) fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(if is_one(path) { vec![path.to_owned()] } else { Vec::new() });
    }
    let entries =
        fs::read_dir(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    found.retain(|path| is_one(path) && path.is_file());
    found.sort();
    Ok(found)
}

/// The text without a last line that is not complete, as a process leaves it that is killed; `None` if there is no such line.
pub(crate) fn whole(source: &Source) -> Option<Source> {
    let end = source.text.rfind('\n').map_or(0, |end| end + 1);
    let (whole, last) = source.text.split_at_checked(end)?;
    let is_torn = !last.trim().is_empty() && Value::from_json(last.as_bytes()).is_err();
    is_torn.then(|| Source::new(&*source.name, whole))
}
