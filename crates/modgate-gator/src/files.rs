//! Files as Go's library shows them: paths, folders and the errors of the operating system.

use std::{fs, io, path::Path};

/// Folders nested deeper are refused.
const MAX_FOLDER_DEPTH: usize = 64;

/// An error of the operating system, as Go prints it.
pub(crate) fn os_text(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error ").next().unwrap_or_default();
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => text.to_owned(),
    }
}

/// Every file below a folder in the order of their names; links to folders count as files.
pub(crate) fn walk(
    folder: &Path,
    shown: &str,
    depth: usize,
    found: &mut impl FnMut(String),
) -> Result<(), String> {
    let failed = |error: &io::Error| format!("open {shown}: {}", os_text(error));
    if depth > MAX_FOLDER_DEPTH {
        return Err(format!("{shown} is nested more than {MAX_FOLDER_DEPTH} folders deep"));
    }
    let entries = fs::read_dir(folder).map_err(|error| failed(&error))?;
    let mut entries = entries.collect::<io::Result<Vec<_>>>().map_err(|error| failed(&error))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let below = join(shown, &name);
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(&entry.path(), &below, depth + 1, found)?;
        } else {
            found(below);
        }
    }
    Ok(())
}

/// A path as Go's `filepath.Clean` writes it.
pub(crate) fn clean(path: &str) -> String {
    let absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if absolute => {}
            part => parts.push(part),
        }
    }
    match (absolute, parts.is_empty()) {
        (true, _) => format!("/{}", parts.join("/")),
        (false, true) => ".".to_owned(),
        (false, false) => parts.join("/"),
    }
}

/// Go's `filepath.Join` of two.
pub(crate) fn join(folder: &str, name: &str) -> String {
    clean(&format!("{folder}/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        for (path, expected) in [
            ("a/b", "a/b"),
            ("./a//b/", "a/b"),
            ("a/../b", "b"),
            ("../a", "../a"),
            ("/../a", "/a"),
            ("a/..", "."),
            ("/", "/"),
        ] {
            assert_eq!(clean(path), expected, "{path}");
        }
    }
}
