//! `gatekeeper-library/…/suite.yaml`: the public library's own suites, by `gator verify`.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use modgate_value::Value;

use super::command::gator;
use crate::{
    corpus::{CorpusFile, Roots},
    report::{Case, Verdict},
};

pub(crate) fn run(file: &CorpusFile, _: &Roots, cases: &mut Vec<Case>) -> Result<()> {
    let folder = file.path.parent().context("a suite has a folder")?;
    let ran = gator(&["verify", "suite.yaml", "-o", "json"], folder, None, &BTreeMap::new());
    let report = Value::from_json(ran.stdout.as_bytes())
        .with_context(|| format!("exit code {}: {}", ran.code, ran.stderr))?;
    let mut all_passed = true;
    for suite in list(&report, "suites") {
        for test in list(suite, "tests") {
            let name = text(test, "name");
            if let Some(error) = test.get("error").and_then(Value::as_str) {
                cases.push(failed(name.to_owned(), error));
                all_passed = false;
            }
            for case in list(test, "cases") {
                let id = format!("{name}/{}", text(case, "name"));
                match case.get("error").and_then(Value::as_str) {
                    Some(error) => {
                        cases.push(failed(id, error));
                        all_passed = false;
                    }
                    None => cases.push(Case { id, verdict: Verdict::Passed }),
                }
            }
        }
    }
    ensure!((ran.code == 0) == all_passed, "exit code {}: {}", ran.code, ran.stderr);
    Ok(())
}

fn failed(id: String, error: &str) -> Case {
    let verdict = Verdict::Failed { expected: "a pass".to_owned(), got: error.to_owned() };
    Case { id, verdict }
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], |list| &list[..])
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
