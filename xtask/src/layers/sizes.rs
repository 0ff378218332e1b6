//! The sizes that a reader can take in: lines of a file, and of a function.
//!
//! Read from the source text as rustfmt leaves it: a function ends at the first `}` that is indented as
//! its first line is. Of tests only the scenarios against an API server count, by their functions.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};

use super::circles::rust_files;

/// The lines a product file may have.
const FILE: usize = 800;

/// The lines a product function may have.
const FUNCTION: usize = 100;

/// The files and functions that are too long in the crate whose sources are in `folder`.
pub(super) fn of_crate(folder: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    rust_files(folder, &mut files)?;
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| !file.iter().any(|part| part == "tests")) {
        if file.file_stem().is_some_and(|name| name == "tests") {
            continue;
        }
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        findings.extend(too_long(&text).map(|found| format!("{}: {found}", file.display())));
    }
    Ok(findings)
}

/// The functions that are too long in a folder of tests.
pub(super) fn of_scenarios(folder: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    rust_files(folder, &mut files)?;
    let mut findings = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let lines: Vec<&str> = text.lines().collect();
        findings.extend(long_functions(&lines).map(|it| format!("{}: {it}", file.display())));
    }
    Ok(findings)
}

fn too_long(text: &str) -> impl Iterator<Item = String> {
    let lines: Vec<&str> = text.lines().collect();
    let is_tests = |pair: &[&str]| pair == ["#[cfg(test)]", "mod tests {"];
    let product = lines.windows(2).position(is_tests).unwrap_or(lines.len());
    let lines = lines.get(..product).unwrap_or_default();
    let file = (product > FILE).then(|| format!("{product} lines; {FILE} are allowed"));
    file.into_iter().chain(long_functions(lines)).collect::<Vec<_>>().into_iter()
}

fn long_functions<'l>(lines: &'l [&'l str]) -> impl Iterator<Item = String> {
    lines.iter().enumerate().filter_map(|(start, line)| {
        let code = line.trim_start();
        let name = name(code)?;
        let end = format!("{}}}", line.strip_suffix(code).unwrap_or_default());
        let length = lines.iter().skip(start).position(|line| *line == end)? + 1;
        // Of a declaration or a function of one line, this is the end of another one.
        let is_whole = lines
            .get(start + 1..start + length)?
            .iter()
            .all(|line| line.is_empty() || line.len() >= end.len());
        let is_here = !code.ends_with([';', '}']) && is_whole;
        (is_here && length > FUNCTION)
            .then(|| format!("`{name}` has {length} lines; {FUNCTION} are allowed"))
    })
}

/// The name of the function that begins in a line.
fn name(code: &str) -> Option<&str> {
    const BEFORE: [&str; 6] = ["pub", "pub(crate)", "pub(super)", "const", "async", "pub(in"];
    let (before, after) = code.split_once("fn ")?;
    let is_function = before.split_whitespace().all(|word| {
        BEFORE.contains(&word) || word.starts_with("super::") || word.starts_with("crate::")
    });
    let end = after.find(|it: char| !it.is_alphanumeric() && it != '_').unwrap_or(after.len());
    is_function.then(|| after.get(..end)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(head: &str, lines: usize, indent: &str) -> String {
        let body = format!("{indent}    x();\n").repeat(lines - 2);
        format!("{indent}{head} {{\n{body}{indent}}}\n")
    }

    fn found(text: &str) -> Vec<String> {
        too_long(text).collect()
    }

    #[test]
    fn long_functions_are_found() {
        let long = |head| found(&function(head, FUNCTION + 1, ""));
        let message = ["`f` has 101 lines; 100 are allowed"];
        for head in ["fn f()", "pub(crate) async fn f<T>(a: T) -> T", "pub const fn f()"] {
            assert_eq!(long(head), message, "{head}");
        }
        let method =
            format!("impl X {{\n{}}}\n", function("pub fn f(&self)", FUNCTION + 1, "    "));
        assert_eq!(found(&method), message);
        assert_eq!(found(&function("fn f()", FUNCTION, "")), [""; 0]);
        assert_eq!(long("impl Fn for X"), [""; 0]);
        let declared = format!("trait T {{\n    fn g();\n{}}}\n", function("fn f()", 60, "    "));
        assert_eq!(found(&declared.repeat(2)), [""; 0]);
    }

    #[test]
    fn long_files_are_found_without_their_tests() {
        let line = "const A: u8 = 0;\n";
        assert_eq!(found(&line.repeat(FILE)), [""; 0]);
        assert_eq!(found(&line.repeat(FILE + 1)), ["801 lines; 800 are allowed"]);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", line.repeat(FILE));
        assert_eq!(found(&format!("{line}{tests}")), [""; 0]);
    }
}
