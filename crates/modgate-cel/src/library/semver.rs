//! Semantic versions.

use std::{cmp::Ordering, fmt};

use modgate_value::go::semver::{Version, is_identifier};

use super::{Opaque, Table};
use crate::{
    brief::quote,
    error::{EvalError, Result, failed},
    heap::Heap,
    value::Val,
};

/// A semantic version; build metadata is checked and dropped.
#[derive(Debug, Clone, Copy)]
pub struct Semver<'a>(Version<'a, u64>);

/// Without build metadata.
impl fmt::Display for Semver<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.0.numbers;
        write!(f, "{major}.{minor}.{patch}")?;
        match self.0.prerelease {
            "" => Ok(()),
            prerelease => write!(f, "-{prerelease}"),
        }
    }
}

impl Semver<'_> {
    pub(super) fn length(&self) -> usize {
        self.0.prerelease.len()
    }

    pub(super) fn compare(&self, other: &Semver<'_>) -> Ordering {
        self.0.compare(&other.0)
    }
}

pub(super) const FUNCTIONS: Table = &[
    ("semver", |heap, args| match read(heap, args)? {
        Ok(version) => heap.opaque(Opaque::Semver(version)),
        Err(error) => failed(error),
    }),
    ("isSemver", |heap, args| Ok(Val::Bool(read(heap, args)?.is_ok()))),
    ("major", |_, args| number(args, 0)),
    ("minor", |_, args| number(args, 1)),
    ("patch", |_, args| number(args, 2)),
];

fn number<'a>(args: &[Val<'a>], index: usize) -> Result<Val<'a>> {
    let [Val::Opaque(Opaque::Semver(version))] = args else { return Err(EvalError::NoOverload) };
    let number = version.0.numbers.get(index).copied().unwrap_or(0);
    // As the original converts it.
    Ok(Val::Int(number.cast_signed()))
}

fn read<'a>(heap: Heap<'a>, args: &[Val<'a>]) -> Result<std::result::Result<Semver<'a>, String>> {
    let (text, normalize) = match args {
        [Val::String(text)] => (*text, false),
        [Val::String(text), Val::Bool(normalize)] => (*text, *normalize),
        _ => return Err(EvalError::NoOverload),
    };
    heap.budget.spend(text.len() as u64 / 16)?;
    if !normalize {
        return Ok(parse(text));
    }
    heap.build(2 * text.len())?;
    match normalized(text) {
        Ok(text) => Ok(parse(heap.str(&text)?)),
        Err(error) => Ok(Err(error)),
    }
}

/// Without `v` and leading zeros, and with all three numbers.
fn normalized(text: &str) -> std::result::Result<String, String> {
    let mut parts: Vec<String> = text
        .strip_prefix('v')
        .unwrap_or(text)
        .splitn(3, '.')
        .map(|part| {
            if part.len() < 2 {
                return part.to_owned();
            }
            let bare = part.trim_start_matches('0');
            let zero =
                if bare.starts_with(|first: char| first.is_ascii_digit()) { "" } else { "0" };
            format!("{zero}{bare}")
        })
        .collect();
    if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
        return Err("short version cannot contain PreRelease/Build meta data".to_owned());
    }
    parts.resize(3, "0".to_owned());
    Ok(parts.join("."))
}

fn parse(text: &str) -> std::result::Result<Semver<'_>, String> {
    if text.is_empty() {
        return Err("Version string empty".to_owned());
    }
    let mut parts = text.splitn(3, '.');
    let (Some(major), Some(minor), Some(patch)) = (parts.next(), parts.next(), parts.next()) else {
        return Err("No Major.Minor.Patch elements found".to_owned());
    };
    let (major, minor) = (integer(major, "major", "Major")?, integer(minor, "minor", "Minor")?);
    let (patch, build) = match patch.split_once('+') {
        Some((patch, build)) => (patch, Some(build)),
        None => (patch, None),
    };
    let (patch, prerelease) = match patch.split_once('-') {
        Some((patch, prerelease)) => (patch, Some(prerelease)),
        None => (patch, None),
    };
    let patch = integer(patch, "patch", "Patch")?;
    for part in prerelease.iter().flat_map(|prerelease| prerelease.split('.')) {
        if part.is_empty() {
            return Err("Prerelease is empty".to_owned());
        }
        let digits = part.bytes().all(|byte| byte.is_ascii_digit());
        if digits && part.len() > 1 && part.starts_with('0') {
            return Err(format!(
                "Numeric PreRelease version must not contain leading zeroes {}",
                quote(part)
            ));
        }
        if digits && part.parse::<u64>().is_err() {
            return Err(out_of_range(part));
        }
        if !is_identifier(part) {
            return Err(format!("Invalid character(s) found in prerelease {}", quote(part)));
        }
    }
    for part in build.iter().flat_map(|build| build.split('.')) {
        if part.is_empty() {
            return Err("Build meta data is empty".to_owned());
        }
        if !is_identifier(part) {
            return Err(format!("Invalid character(s) found in build meta data {}", quote(part)));
        }
    }
    let prerelease = prerelease.unwrap_or_default();
    Ok(Semver(Version { numbers: [major, minor, patch], prerelease }))
}

fn integer(text: &str, name: &str, title: &str) -> std::result::Result<u64, String> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {name} number {}", quote(text)));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{title} number must not contain leading zeroes {}", quote(text)));
    }
    if text.is_empty() {
        return Err("strconv.ParseUint: parsing \"\": invalid syntax".to_owned());
    }
    text.parse().map_err(|_| out_of_range(text))
}

fn out_of_range(text: &str) -> String {
    format!("strconv.ParseUint: parsing {}: value out of range", quote(text))
}
