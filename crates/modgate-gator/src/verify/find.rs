//! Finds the suites of a path.

use std::{fs, path::Path};

use modgate_api::meta::GroupVersionKind;
use modgate_engine::Code;
use modgate_policies::manifest;
use modgate_value::{
    DecodeError,
    diag::{Diagnostic, Severity, Source, Span},
    gofmt, near, yaml,
};

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
    read_suites_but(target, original, recursive, &|_| false, None)
}

/// As [`read_suites`], without the files that `is_excluded` names by their path in results. With `findings`, suites that
/// cannot be read are among these, and the others are still returned.
pub(super) fn read_suites_but(
    target: &str,
    original: &str,
    recursive: bool,
    is_excluded: &dyn Fn(&str) -> bool,
    mut findings: Option<&mut Vec<Diagnostic>>,
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
        let suite = match &mut findings {
            None => read_suite(&file)?,
            Some(findings) => placed(&file, &input_path).unwrap_or_else(|finding| {
                findings.push(*finding);
                None
            }),
        };
        if let Some(suite) = suite {
            suites.push(FoundSuite { absolute_path: file, input_path, suite });
        }
    }
    Ok(suites)
}

/// As [`read_suite`], with an error that has a place.
fn placed(path: &str, shown: &str) -> Result<Option<Suite>, Box<Diagnostic>> {
    let text = read(path).map_err(|error| Box::new(Diagnostic::error(error)))?;
    let source = Source::new(shown, text);
    let document = match yaml::documents_v3(&source.text).next() {
        None => return Ok(None),
        Some(Ok(document)) => document,
        Some(Err(error)) => return Err(unreadable(&error, &source).into()),
    };
    let kind = GroupVersionKind::of_object(&document.value);
    // gator's reading of YAML knows no places, ours does.
    let positions = match yaml::documents(&source.text).next() {
        Some(Ok(document)) => document.positions,
        _ => document.positions,
    };
    if kind.group != GROUP || kind.kind != KIND {
        return match misspelt(&kind) {
            None => Ok(None),
            Some((code, member, written, help)) => {
                let offset = positions.nearest(member).offset;
                let found = Diagnostic::warning(format!(
                    "`{written}` is no suite of tests, so no test is run"
                ))
                .code(code.as_str())
                .at(source.clone(), Span::new(offset, offset + written.len()));
                Err(found.help(help).into())
            }
        };
    }
    Suite::from_value(&document.value).map(Some).map_err(|DecodeError { path, message }| {
        let pointer: String = path
            .split(['.', '['])
            .filter(|part| !part.is_empty())
            .map(|part| format!("/{}", part.trim_end_matches(']')))
            .collect();
        let offset = positions.nearest(&pointer).offset;
        let rest = source.text.get(offset..).unwrap_or_default();
        let length = rest.lines().next().map_or(0, str::len);
        let message = if path.is_empty() { message } else { format!("{path}: {message}") };
        // gator reads suites by other rules of YAML than policies.
        let boolean = message.split_once("expected a boolean, got the string `").map(|(_, it)| it);
        let help = match boolean.and_then(|it| it.strip_suffix('`')) {
            Some("yes" | "on" | "Yes" | "On") => Some("write `true`"),
            Some("no" | "off" | "No" | "Off") => Some("write `false`"),
            _ => None,
        };
        let found =
            Diagnostic::error(message).at(source.clone(), Span::new(offset, offset + length));
        match help {
            Some(help) => found.help(help).into(),
            None => found.into(),
        }
    })
}

/// A group or a kind that is nearly that of a suite: the code, the member, its value and the advice.
fn misspelt(kind: &GroupVersionKind) -> Option<(Code, &'static str, String, String)> {
    let group = near::nearest(&kind.group, [GROUP]);
    if kind.kind == KIND && group.is_some() {
        let help = near::did_you_mean(&kind.group, [GROUP])?;
        return Some((Code::UnknownGroup, "/apiVersion", kind.group.to_string(), help));
    }
    let help = near::did_you_mean(&kind.kind, [KIND]);
    let help = help.filter(|_| kind.group == GROUP || group.is_some())?;
    Some((Code::UnknownKind, "/kind", kind.kind.to_string(), help))
}

/// Why a suite cannot be read. One that has a member twice is YAML, as other files are read.
fn unreadable(error: &yaml::Error, source: &Source) -> Diagnostic {
    if let Some(Ok(document)) = yaml::manifest(&source.text).next()
        && let Some(mut repeated) = manifest::repeated(&document.positions, source).next()
    {
        repeated.severity = Severity::Error;
        repeated.message = repeated.message.replace("; only the last counts", "");
        return repeated;
    }
    manifest::not_yaml(error, source)
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
