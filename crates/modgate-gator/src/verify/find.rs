//! Finds the suites of a path.

use std::{fs, path::Path};

use modgate_api::meta::GroupVersionKind;
use modgate_value::gofmt;

use super::{
    files::{first, read},
    kat::is_part,
    suite::{GROUP, KIND, Suite},
};
use crate::files::{join, os_text, walk};

/// A suite and its path.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundSuite {
    /// Its file, absolute, without the leading slash.
    pub absolute_path: String,
    /// The path in results: the argument, and the path below it.
    pub input_path: String,
    /// The suite.
    pub suite: Suite,
}

/// The suites of a file or folder in the order of their paths.
///
/// `target` is absolute, without the leading slash; `original` is what the person wrote.
///
/// # Errors
///
/// When it does not exist, is of another kind, or when some YAML file does not parse.
pub fn read_suites(
    target: &str,
    original: &str,
    recursive: bool,
) -> Result<Vec<FoundSuite>, String> {
    read_suites_but(target, original, recursive, &|_| false)
}

/// As [`read_suites`], without the files that `is_excluded` names by their path in results.
pub(super) fn read_suites_but(
    target: &str,
    original: &str,
    recursive: bool,
    is_excluded: &dyn Fn(&str) -> bool,
) -> Result<Vec<FoundSuite>, String> {
    if target.is_empty() && original.is_empty() {
        return Err("target not specified".to_owned());
    }
    let path = Path::new("/").join(target);
    let found =
        fs::metadata(&path).map_err(|error| format!("stat {target}: {}", os_text(&error)))?;
    let original = if original.is_empty() { target } else { original };
    let mut files = Vec::new();
    if found.is_dir() {
        if recursive {
            walk(&path, target, 0, &mut |file| files.push(file))?;
        } else {
            let entries = fs::read_dir(&path).map_err(|error| super::open_error(target, &error))?;
            for entry in entries {
                let entry = entry.map_err(|error| super::open_error(target, &error))?;
                if entry.file_type().is_ok_and(|kind| !kind.is_dir()) {
                    files.push(join(target, &entry.file_name().to_string_lossy()));
                }
            }
            files.sort();
        }
        files.retain(|file| is_yaml(file) && !is_part(file));
    } else if recursive {
        return Err(format!(
            "can only recursively traverse directories, not a directory: {}",
            gofmt::quote(target)
        ));
    } else if is_yaml(target) {
        files.push(target.to_owned());
    } else {
        return Err(format!("unsupported extension: {}", gofmt::quote(extension(target))));
    }
    let mut suites = Vec::new();
    for file in files {
        let below = file.strip_prefix(target).unwrap_or(&file);
        let input_path = format!("{}{below}", original.trim_end_matches('/'));
        if is_excluded(&input_path) {
            continue;
        }
        if let Some(suite) = read_suite(&file)? {
            suites.push(FoundSuite { absolute_path: file, input_path, suite });
        }
    }
    Ok(suites)
}

/// The suite in a file, if it holds one.
fn read_suite(path: &str) -> Result<Option<Suite>, String> {
    let text = read(path)?;
    let document = first(&text).map_err(|error| {
        format!("invalid yaml: parsing yaml file {}: {error}", gofmt::quote(path))
    })?;
    let kind = GroupVersionKind::of_object(&document);
    if kind.group != GROUP || kind.kind != KIND {
        return Ok(None);
    }
    Suite::from_value(&document).map(Some).map_err(|error| format!("invalid yaml: {path}: {error}"))
}

/// The extension with its dot; empty if there is none.
fn extension(path: &str) -> &str {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.rfind('.').and_then(|at| file.get(at..)).unwrap_or_default()
}

fn is_yaml(path: &str) -> bool {
    matches!(extension(path), ".yaml" | ".yml")
}
