//! `gatekeeper/acceptance/gator.json`: command lines over small files, to the last byte of output.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result};
use modgate_value::Value;

use super::{
    check,
    command::{arguments, gator, is_like},
};
use crate::{
    corpus::{CorpusFile, Roots},
    members::Members,
    report::Case,
};

pub(crate) fn run(file: &CorpusFile, _: &Roots, cases: &mut Vec<Case>) -> Result<()> {
    let document = file.json()?;
    let top = Members::of(&document)?;
    top.notes(&["what"]);
    for case in top.list("cases")? {
        let members = Members::of(case)?;
        let id = members.text("id")?.to_owned();
        let verdict = case_of(&members).with_context(|| id.clone())?;
        cases.push(Case { id, verdict });
        members.finish()?;
    }
    top.finish()
}

fn case_of(case: &Members<'_>) -> Result<crate::report::Verdict> {
    case.notes(&["title", "note"]);
    let folder = tempfile::tempdir()?;
    // Without links, as the command line sees it.
    let folder_path = folder.path().canonicalize()?;
    for (name, text) in case.required("files")?.as_object().context("`files`")? {
        let path = folder_path.join(name.as_str());
        // A name that ends in a slash is an empty folder.
        if name.ends_with('/') {
            fs::create_dir_all(&path)?;
            continue;
        }
        fs::create_dir_all(path.parent().context("a folder")?)?;
        fs::write(&path, text.as_str().context("a file is not a text")?)?;
    }
    let args = arguments(case.list("args")?)?;
    let ran = gator(&args, &folder_path, None, &BTreeMap::new());
    let got: Value = [
        ("exitCode", Value::from(i64::from(ran.code))),
        ("stdout", ran.stdout.as_str().into()),
        ("stderr", ran.stderr.as_str().into()),
    ]
    .into_iter()
    .collect();
    let (expect, upstream) = (case.required("expect")?, case.required("upstream")?);
    // What cannot be compared fails the file; it must not look like a difference.
    for recorded in [expect, upstream] {
        is_as(recorded, &got, &folder_path)?;
    }
    let is_as = |recorded: &Value| is_as(recorded, &got, &folder_path).unwrap_or(false);
    check(case.text("decision")?, expect, upstream, &got, is_as)
}

/// Whether a recorded result is what came out.
fn is_as(recorded: &Value, got: &Value, folder: &Path) -> Result<bool> {
    let members = Members::of(recorded)?;
    let text = |key| got.get(key).and_then(Value::as_str).unwrap_or_default();
    let here = folder.to_string_lossy();
    let replaced =
        |recorded: &str| recorded.replace("${DIR_NOSLASH}", here.trim_start_matches('/'));
    let mut is_same = Some(members.required("exitCode")?) == got.get("exitCode");
    for key in ["stdout", "stderr"] {
        if let Some(recorded) = members.optional_text(key)? {
            is_same &= is_like(&replaced(recorded), text(key))?;
        }
    }
    if let Some(start) = members.optional_text("stderrStartsWith")? {
        is_same &= text("stderr").starts_with(start);
    }
    if let Some(files) = members.optional("files") {
        for (name, recorded) in files.as_object().context("`files`")? {
            let written = fs::read_to_string(folder.join(name.as_str())).unwrap_or_default();
            is_same &= recorded.as_str() == Some(&written);
        }
    }
    members.finish()?;
    Ok(is_same)
}
