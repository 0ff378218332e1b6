//! `gatekeeper/unit/{gator-test,sync-test,verify-*}.json`: the tables of gator's unit tests.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use anyhow::{Context as _, Result, bail};
use modgate_gator::verify::{
    CaseResult, Filter, Suite, SuiteResult, TestResult, read_suites, text,
};
use modgate_value::Value;
use tempfile::TempDir;

use super::command::{Ran, gator};
use crate::{
    corpus::{CorpusFile, Roots},
    decision::FIX_INVALID_MESSAGE,
    members::Members,
    report::{Case, Verdict},
};

/// The tables that are run here, by their names below `gatekeeper/unit/`.
pub(crate) fn run(file: &CorpusFile, _: &Roots, cases: &mut Vec<Case>) -> Result<()> {
    let name = file.name.rsplit('/').next().unwrap_or_default();
    let check: fn(&Members<'_>) -> Result<Verdict> = match name {
        "gator-test.json" => test,
        "sync-test.json" => sync,
        "verify-filter-cases.json" => filter_cases,
        "verify-filter-error.json" => filter_errors,
        "verify-printer.json" => printer,
        "verify-read-suites.json" => suites,
        "verify-runcase.json" | "verify-runner.json" | "verify-runner-integer.json" => runner,
        other => bail!("no suite for the table `{other}`"),
    };
    let document = file.json()?;
    let top = Members::of(&document)?;
    top.notes(&["what", "upstream"]);
    for (index, case) in top.list("cases")?.iter().enumerate() {
        let members = Members::of(case)?;
        let id = format!("{index} {}", members.text("name")?);
        let verdict = check(&members).with_context(|| id.clone())?;
        members.finish()?;
        cases.push(Case { id, verdict });
    }
    top.finish()
}

/// A folder with these files.
fn folder_of(files: Option<&Value>) -> Result<TempDir> {
    let folder = tempfile::tempdir()?;
    for (name, text) in files.and_then(Value::as_object).into_iter().flatten() {
        let path = folder.path().join(name.as_str());
        fs::create_dir_all(path.parent().context("a folder")?)?;
        fs::write(path, text.as_str().context("a file is not a text")?)?;
    }
    Ok(folder)
}

/// Runs a verb over documents in one file.
fn over_documents(case: &Members<'_>, verb: &[&str], more: &[&str]) -> Result<Ran> {
    let folder = tempfile::tempdir()?;
    let documents: Vec<&str> = case
        .list("inputs")?
        .iter()
        .map(|input| input.as_str().context("an input"))
        .collect::<Result<_>>()?;
    fs::write(folder.path().join("in.yaml"), documents.join("\n---\n"))?;
    let args: Vec<&str> = verb.iter().chain(more).copied().collect();
    Ok(gator(&args, folder.path(), None, &BTreeMap::new()))
}

/// Where a table has nothing to read, the command line says so; the function it tests does not.
const NO_INPUT: &str = "no input data identified\n";

fn test(case: &Members<'_>) -> Result<Verdict> {
    let ran = over_documents(case, &["test", "-f", "in.yaml", "-o", "json"], &[])?;
    let (error, recorded) = (case.required("error")?, case.optional("results"));
    if let Some(error) = error.as_str() {
        return Ok(Verdict::equal(format!("auditing objects: {error}\n"), ran.stderr));
    }
    if case.list("inputs")?.is_empty() {
        return Ok(Verdict::equal(NO_INPUT, ran.stderr));
    }
    let results = Value::from_json(ran.stdout.as_bytes()).with_context(|| ran.stderr.clone())?;
    let member = |value: &Value, path: &[&str]| -> String {
        value.path(path).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let shown = results.as_array().into_iter().flatten().map(|result| {
        let object = ["violatingObject"];
        let of_object = |path: &[&str]| member(result, &[&object[..], path].concat());
        let constraint = format!(
            "{}/{}",
            member(result, &["constraint", "kind"]),
            member(result, &["constraint", "metadata", "name"])
        );
        let violating = format!(
            "{}/{} {}/{}",
            of_object(&["apiVersion"]),
            of_object(&["kind"]),
            of_object(&["metadata", "namespace"]),
            of_object(&["metadata", "name"])
        );
        [
            ("constraint", constraint.into()),
            ("enforcementAction", member(result, &["enforcementAction"]).into()),
            ("msg", member(result, &["msg"]).into()),
            ("scopedEnforcementActions", result.get("scopedActions").cloned().unwrap_or_default()),
            ("violatingObject", violating.into()),
        ]
        .into_iter()
        .collect::<Value>()
    });
    let shown: Value = shown.collect();
    let recorded = recorded.filter(|recorded| !recorded.is_null()).cloned();
    let recorded = recorded.unwrap_or_else(|| Value::from(Vec::new()));
    Ok(Verdict::equal(recorded.to_json(), shown.to_json()))
}

fn sync(case: &Members<'_>) -> Result<Verdict> {
    let flags: &[&str] = if case.flag("omitGVKManifest")? { &["-f"] } else { &[] };
    let ran = over_documents(case, &["sync", "test", "-n", "in.yaml"], flags)?;
    let blocks = |value: Option<&Value>| -> Result<BTreeMap<String, String>> {
        let members = value.and_then(Value::as_object).into_iter().flatten();
        members
            .map(|(name, text)| Ok((name.to_string(), text.as_str().context("a text")?.to_owned())))
            .collect()
    };
    let (missing, errors) =
        (blocks(case.optional("missing"))?, blocks(case.optional("templateErrors"))?);
    let expected = match case.required("error")?.as_str() {
        _ if case.list("inputs")?.is_empty() => NO_INPUT.to_owned(),
        Some(error) => format!("checking: {error}\n"),
        None if !errors.is_empty() => {
            // The rest is a library's.
            let names: Vec<&str> = errors.keys().map(String::as_str).collect();
            let start = format!(
                "encountered errors parsing the following templates: \n{}:\n",
                names.join(" ")
            );
            return Ok(match ran.stderr.starts_with(&start) && names.len() == 1 {
                true => Verdict::Passed,
                false => Verdict::Failed { expected: start, got: ran.stderr },
            });
        }
        None if missing.is_empty() => String::new(),
        None => {
            let blocks: Vec<String> = missing
                .iter()
                .map(|(name, text)| format!("{name}:\n{}\n", text.trim_end()))
                .collect();
            format!("the following requirements were not met: \n{}\n", blocks.join("\n"))
        }
    };
    Ok(Verdict::equal(alternatives(&expected), alternatives(&ran.stderr)))
}

/// A text in which alternatives are sorted: upstream prints them in any order.
fn alternatives(text: &str) -> String {
    let lines = text.lines().map(|line| match line.strip_prefix("- ") {
        Some(rest) => {
            let mut parts: Vec<&str> = rest.split(" OR ").collect();
            parts.sort_unstable();
            format!("- {}", parts.join(" OR "))
        }
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn filter_cases(case: &Members<'_>) -> Result<Verdict> {
    let filter = Filter::new(case.text("filter")?)?;
    let mut got: Vec<(String, Value)> = Vec::new();
    let want = case.required("want")?;
    for (test, cases) in want.as_object().context("`want`")? {
        let row = cases
            .as_object()
            .context("a test")?
            .keys()
            .map(|name| (name.clone(), Value::from(filter.matches_case(test, name))));
        got.push((test.to_string(), row.collect()));
    }
    let got: Value = got.into_iter().collect();
    Ok(Verdict::equal(want.to_json(), got.to_json()))
}

fn filter_errors(case: &Members<'_>) -> Result<Verdict> {
    let got = Filter::new(case.text("filter")?).err().map(|error| error.to_string());
    let expected = case.required("error")?.as_str();
    Ok(Verdict::equal(format!("{expected:?}"), format!("{:?}", got.as_deref())))
}

fn printer(case: &Members<'_>) -> Result<Verdict> {
    let suites = case.list("results")?.iter().map(suite_result).collect::<Result<Vec<_>>>()?;
    for (key, verbose) in [("want", false), ("wantVerbose", true)] {
        let verdict = Verdict::equal(case.text(key)?, text(&suites, verbose));
        if verdict != Verdict::Passed {
            case.notes(&["wantVerbose"]);
            return Ok(verdict);
        }
    }
    Ok(Verdict::Passed)
}

fn suite_result(value: &Value) -> Result<SuiteResult> {
    let members = Members::of(value)?;
    anyhow::ensure!(members.required("error")?.is_null(), "an error of a whole suite");
    let result = SuiteResult {
        path: members.text("path")?.to_owned(),
        skipped: members.flag("skipped")?,
        stopped: false,
        runtime: runtime(&members)?,
        tests: members.list("tests")?.iter().map(test_result).collect::<Result<_>>()?,
    };
    members.finish()?;
    Ok(result)
}

fn test_result(value: &Value) -> Result<TestResult> {
    let members = Members::of(value)?;
    let result = TestResult {
        name: members.text("name")?.to_owned(),
        error: nullable(&members, "error")?,
        at: String::new(),
        skipped: members.flag("skipped")?,
        runtime: runtime(&members)?,
        cases: members.list("cases")?.iter().map(case_result).collect::<Result<_>>()?,
    };
    members.finish()?;
    Ok(result)
}

fn case_result(value: &Value) -> Result<CaseResult> {
    let members = Members::of(value)?;
    let result = CaseResult {
        name: members.text("name")?.to_owned(),
        error: nullable(&members, "error")?,
        at: String::new(),
        skipped: members.flag("skipped")?,
        runtime: runtime(&members)?,
        trace: nullable(&members, "trace")?,
        print: members.text("print")?.to_owned(),
    };
    members.finish()?;
    Ok(result)
}

fn nullable(members: &Members<'_>, key: &'static str) -> Result<Option<String>> {
    match members.required(key)? {
        Value::Null => Ok(None),
        other => Ok(Some(other.as_str().with_context(|| format!("`{key}`"))?.to_owned())),
    }
}

fn runtime(members: &Members<'_>) -> Result<Duration> {
    let seconds = members.text("runtime")?.strip_suffix('s').context("`runtime`")?;
    Ok(Duration::from_secs_f64(seconds.parse()?))
}

fn suites(case: &Members<'_>) -> Result<Verdict> {
    let folder = folder_of(case.optional("files"))?;
    let here = folder.path().canonicalize()?.to_string_lossy().into_owned();
    let here = here.trim_start_matches('/');
    let (target, original) = (case.text("target")?, case.text("originalPath")?);
    let recursive = case.flag("recursive")?;
    let (recorded_error, recorded) = (case.required("error")?, case.optional("suites"));
    if recorded_error.as_str() == Some("no filesystem") {
        // A mistake in a caller's code that cannot be made here.
        return Ok(Verdict::Exempt);
    }
    // The table's files stand at the root of its file system.
    let absolute = if target.is_empty() { String::new() } else { format!("{here}/{target}") };
    let got = read_suites(&absolute, original, recursive);
    let expected = match recorded_error.as_str() {
        Some(error) => Err(error),
        None => Ok(recorded.and_then(Value::as_array).map_or(&[][..], |all| &all[..])),
    };
    match (expected, got) {
        (Err(expected), Err(got)) => {
            let got = got.replace(&format!("{here}/"), "");
            // After this it is a library that speaks, or the file system.
            let fixed = ["invalid yaml: parsing yaml file \"test.yaml\": ", "invalid yaml: "];
            if let Some(fixed) = fixed.into_iter().find(|fixed| expected.starts_with(fixed)) {
                return Ok(started(fixed, &got));
            }
            if expected == "open test/../test/test.yaml: file does not exist" {
                // Go's file systems refuse such paths, which ours never sees: it cleans them.
                return Ok(Verdict::Exempt);
            }
            if let Some(path) = expected.strip_prefix("open ").and_then(|rest| rest.split_once(':'))
            {
                return Ok(started(&format!("stat {}: ", path.0), &got));
            }
            Ok(Verdict::equal(expected, got))
        }
        (Ok(expected), Ok(got)) => {
            let mut shown = Vec::new();
            for (found, recorded) in got.iter().zip(expected) {
                let members = Members::of(recorded)?;
                let path = members.text("absolutePath")?;
                let input = members.text("inputPath")?;
                let input =
                    if original.is_empty() { format!("{here}/{input}") } else { input.to_owned() };
                let suite = Suite::from_value(members.required("suite")?)?;
                members.finish()?;
                let same = found.absolute_path == format!("{here}/{path}")
                    && found.input_path == input
                    && found.suite == suite;
                if !same {
                    shown.push(format!("{found:?} instead of {}", recorded.to_json()));
                }
            }
            if got.len() != expected.len() {
                shown.push(format!("{} suites instead of {}", got.len(), expected.len()));
            }
            Ok(Verdict::equal("", shown.join("\n")))
        }
        // The path with `..` leads to the file all the same.
        (Err("open test/../test/test.yaml: file does not exist"), Ok(_)) => Ok(Verdict::Exempt),
        (expected, got) => {
            Ok(Verdict::Failed { expected: format!("{expected:?}"), got: format!("{got:?}") })
        }
    }
}

fn started(start: &str, got: &str) -> Verdict {
    match got.starts_with(start) && got.len() > start.len() {
        true => Verdict::Passed,
        false => Verdict::Failed { expected: format!("{start}…"), got: got.to_owned() },
    }
}

fn runner(case: &Members<'_>) -> Result<Verdict> {
    let folder = folder_of(case.optional("files"))?;
    let path = folder.path().canonicalize()?;
    let suite = case.required("suite")?.as_object().context("`suite`")?;
    let header =
        [("kind", Value::from("Suite")), ("apiVersion", "test.gatekeeper.sh/v1alpha1".into())];
    let members = header.into_iter().map(|(key, value)| (key.to_owned(), value));
    let members = members.chain(suite.iter().map(|(key, value)| (key.to_string(), value.clone())));
    let document: Value = members.collect();
    fs::write(path.join("suite.yaml"), document.to_json())?;
    let filter = case.optional_text("filter")?.unwrap_or_default();
    let args = ["verify", "suite.yaml", "-o", "json", "--run", filter];
    let ran = gator(&args, &path, None, &BTreeMap::new());
    let report = Value::from_json(ran.stdout.as_bytes()).with_context(|| ran.stderr.clone())?;
    let got = report.pointer("/suites/0").context("no suite was run")?;
    case.notes(&["wantErrorsAre"]);
    let classes = case.optional("wantErrorsAre");
    let here = Here { path: &path, decided: false.into() };
    let verdict = here.compare(case.required("got")?, classes, got)?;
    Ok(match verdict {
        Verdict::Passed if here.decided.get() => Verdict::Differs(vec![&FIX_INVALID_MESSAGE]),
        verdict => verdict,
    })
}

struct Here<'h> {
    path: &'h Path,
    /// Whether a decision made the difference.
    decided: std::cell::Cell<bool>,
}

impl Here<'_> {
    /// Compares errors and skips of a suite, its tests or its cases.
    fn compare(&self, recorded: &Value, class: Option<&Value>, got: &Value) -> Result<Verdict> {
        let members = Members::of(recorded)?;
        members.notes(&["name"]);
        let skipped = members.flag("skipped")?;
        if got.get("skipped").and_then(Value::as_bool) != Some(skipped) {
            return Ok(Verdict::Failed { expected: recorded.to_json(), got: got.to_json() });
        }
        let error = members.required("error")?.as_str();
        let class_error = class.and_then(|class| class.get("error")).and_then(Value::as_str);
        let found = got.get("error").and_then(Value::as_str);
        if !self.is_error(error, class_error, found) {
            return Ok(Verdict::Failed {
                expected: format!("{error:?}"),
                got: format!("{found:?}"),
            });
        }
        for key in ["tests", "cases"] {
            let list = members.optional_list(key)?;
            let of = |value: Option<&Value>| -> Vec<Value> {
                let list = value.and_then(|value| value.get(key)).and_then(Value::as_array);
                list.map(|list| list.to_vec()).unwrap_or_default()
            };
            let (classes, found) = (of(class), of(Some(got)));
            if found.len() != list.len() {
                return Ok(Verdict::Failed { expected: recorded.to_json(), got: got.to_json() });
            }
            for (index, (recorded, got)) in list.iter().zip(&found).enumerate() {
                let verdict = self.compare(recorded, classes.get(index), got)?;
                if verdict != Verdict::Passed {
                    return Ok(verdict);
                }
            }
        }
        members.finish()?;
        Ok(Verdict::Passed)
    }

    fn is_error(&self, recorded: Option<&str>, class: Option<&str>, got: Option<&str>) -> bool {
        let (Some(recorded), Some(got)) = (recorded, got) else { return recorded == got };
        let here = self.path.to_string_lossy();
        let got = got.replace(&format!("{}/", here.trim_start_matches('/')), "");
        if let Some((fixed, _)) = recorded.split_once(": got error %!w(<nil>)") {
            self.decided.set(got == fixed);
            return got == fixed;
        }
        // The operating system's words, and where a library begins to speak.
        let recorded = recorded.replace("file does not exist", "no such file or directory");
        if recorded == got {
            return true;
        }
        let library = [": yaml: ", ": json: ", ": no kind ", "rego_"];
        let Some(at) = library.into_iter().filter_map(|start| recorded.find(start)).min() else {
            return false;
        };
        let fixed = recorded.get(..at).unwrap_or_default();
        got.starts_with(fixed) && class.is_none_or(|class| got.contains(class))
    }
}
