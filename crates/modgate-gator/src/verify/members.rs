//! Unknown fields of a suite: gator ignores them, so that a misspelt assertion always holds.

use std::collections::{BTreeMap, BTreeSet};

use modgate_api::meta;
use modgate_engine::{Code, EngineConfig};
use modgate_policies::{check, manifest};
use modgate_report::Place;
use modgate_value::{
    Value,
    diag::{Diagnostic, Source, Span},
    near, yaml,
};

use super::{
    files::{beside, read},
    find::FoundSuite,
    suite::Test,
};
use crate::policies::Settings;

/// The versions of suites.
const VERSIONS: [&str; 1] = ["v1alpha1"];

const SUITE: [&str; 6] = ["apiVersion", "kind", "metadata", "skip", "status", "tests"];
const TEST: [&str; 10] = [
    "cases",
    "constraint",
    "expansion",
    "invalid",
    "modrules",
    "mutators",
    "name",
    "policies",
    "skip",
    "template",
];
const CASE: [&str; 11] = [
    "assertions",
    "expected",
    "idempotent",
    "inventory",
    "name",
    "namespace",
    "object",
    "operation",
    "patch",
    "rejected",
    "skip",
];
const ASSERTION: [&str; 2] = ["message", "violations"];

/// Warnings about likely mistakes in suites, each with its position.
pub(super) fn warnings(path: &str, suites: &[FoundSuite]) -> Vec<Diagnostic> {
    if suites.is_empty() {
        let none = Diagnostic::warning(format!("no suites found in `{path}`"));
        let help = "`PATH/...` is every suite below a folder";
        return vec![none.code(Code::NothingFound.as_str()).help(help)];
    }
    suites.iter().flat_map(of_suite).collect()
}

fn of_suite(suite: &FoundSuite) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let Ok(text) = read(&suite.absolute_path) else { return found };
    let Some(Ok(document)) = yaml::documents(&text).next() else { return found };
    let source = Source::new(suite.input_path.as_str(), text.as_str());
    found.extend(unknown(&document.value, "", &SUITE, &document, &source));
    found.extend(manifest::repeated(&document.positions, &source));
    found.extend(version(&document, &source));
    found.extend(without_cases(&document, &source));
    let mut check = |value: &Value, pointer: &str, known: &[&str]| {
        found.extend(unknown(value, pointer, known, &document, &source));
    };
    for (pointer, test) in items(&document.value, "", "tests") {
        check(test, &pointer, &TEST);
        for (pointer, case) in items(test, &pointer, "cases") {
            check(case, &pointer, &CASE);
            for (pointer, assertion) in items(case, &pointer, "assertions") {
                check(assertion, &pointer, &ASSERTION);
            }
        }
    }
    found
}

/// A version that suites do not have.
fn version(document: &yaml::Document, source: &Source) -> Option<Diagnostic> {
    let api_version = document.value.get("apiVersion").and_then(Value::as_str)?;
    let (group, version) = meta::split_api_version(api_version);
    if VERSIONS.contains(&version) {
        return None;
    }
    let offset = document.positions.nearest("/apiVersion").offset;
    let found = Diagnostic::warning(format!("`{group}` has no version `{version}`"))
        .code(Code::UnknownVersion.as_str())
        .at(source.clone(), Span::new(offset, offset + api_version.len()))
        .help(near::did_you_mean_or(version, &VERSIONS, "the versions are"));
    Some(found)
}

/// The members of a value that it cannot have.
fn unknown(
    value: &Value,
    pointer: &str,
    known: &[&str],
    document: &yaml::Document,
    source: &Source,
) -> Vec<Diagnostic> {
    let names = value.as_object().into_iter().flat_map(|members| members.keys());
    let names = names.filter(|name| !known.contains(&name.as_str()));
    let found = names.map(|name| {
        let offset = document.positions.nearest_key(&format!("{pointer}/{name}")).offset;
        Diagnostic::warning(format!("unknown member `{name}`, ignored"))
            .code(Code::SuiteMember.as_str())
            .at(source.clone(), Span::new(offset, offset + name.len()))
            .help(near::did_you_mean_or(name, known, "known members"))
    });
    found.collect()
}

/// A suite without tests, and tests without cases: they pass whatever the policies do. A misspelt `tests` or
/// `cases` is an unknown member already.
fn without_cases(document: &yaml::Document, source: &Source) -> Vec<Diagnostic> {
    let is_true = |value: &Value, key: &str| value.get(key).and_then(Value::as_bool) == Some(true);
    let has = |value: &Value, key: &str, known: &[&str]| {
        let items = value.get(key).and_then(Value::as_array);
        let names = value.as_object().into_iter().flat_map(|members| members.keys());
        let mut unknown = names.filter(|name| !known.contains(&name.as_str()));
        items.is_some_and(|items| !items.is_empty())
            || unknown.any(|name| near::nearest(name, [key]).is_some())
    };
    let warned = |pointer: &str, message: String| {
        let offset = document.positions.nearest(pointer).offset;
        let length = source.text.get(offset..).and_then(|it| it.lines().next()).map_or(0, str::len);
        Diagnostic::warning(message)
            .code(Code::NothingFound.as_str())
            .at(source.clone(), Span::new(offset, offset + length))
    };
    let suite = &document.value;
    if is_true(suite, "skip") {
        return Vec::new();
    }
    if !has(suite, "tests", &SUITE) {
        return vec![warned("", "the suite has no tests".to_owned())];
    }
    let tests = items(suite, "", "tests").into_iter();
    let idle = tests.filter(|(_, test)| {
        !is_true(test, "skip") && !is_true(test, "invalid") && !has(test, "cases", &TEST)
    });
    let found = idle.map(|(pointer, test)| {
        let name = test.get("name").and_then(Value::as_str).unwrap_or_default();
        let message = format!(
            "the test `{name}` has no cases: it passes if its policies load, whatever they do"
        );
        warned(&pointer, message).help("give it `cases`, or `skip: true`")
    });
    found.collect()
}

/// Errors and warnings of the policies that the tests of suites name, each once; not of constraints
/// that a test expects to be invalid.
pub(super) fn policies(
    suites: &[FoundSuite],
    settings: &Settings,
    shown: impl Fn(&str) -> String,
) -> Vec<Diagnostic> {
    let mut found: Vec<Diagnostic> = Vec::new();
    let config = EngineConfig { templates: settings.templates.clone(), ..EngineConfig::default() };
    let mut checked = BTreeSet::new();
    for suite in suites.iter().filter(|suite| !suite.suite.skip) {
        for test in suite.suite.tests.iter().filter(|test| !test.skip) {
            let files = policy_files(suite, test);
            if !checked.insert(files.clone()) {
                continue;
            }
            let (mut manifests, mut sources) = (Vec::new(), Vec::new());
            // A file that cannot be read fails the test that names it, and others may need what is in it.
            let texts: Result<Vec<String>, String> = files.iter().map(|file| read(file)).collect();
            for (file, text) in files.iter().zip(texts.unwrap_or_default()) {
                let source = Source::new(shown(file), text);
                let (read, findings) = manifest::parse(&source);
                manifests.extend(read);
                found.extend(findings);
                sources.push(source);
            }
            found.extend(check(&manifests, &sources, &config));
        }
    }
    let mut reported = BTreeSet::new();
    found.retain(|finding| reported.insert(finding.to_string()));
    found
}

/// Where the tests and cases of suites stand.
pub(super) struct Places(BTreeMap<String, yaml::Positions>);

impl Places {
    pub(super) fn of(suites: &[FoundSuite]) -> Self {
        let positions = |suite: &FoundSuite| {
            let text = read(&suite.absolute_path).ok()?;
            let document = yaml::documents(&text).next()?.ok()?;
            Some((suite.input_path.clone(), document.positions))
        };
        Self(suites.iter().filter_map(positions).collect())
    }

    /// The place of a case, or of a test, by their numbers, or of the member in it at a pointer.
    pub(super) fn of_case(
        &self,
        suite: &str,
        (test, case): (usize, Option<usize>),
        member: &str,
    ) -> Option<Place> {
        let positions = self.0.get(suite)?;
        let whole = match case {
            Some(case) => format!("/tests/{test}/cases/{case}"),
            None => format!("/tests/{test}"),
        };
        let pointer = format!("{whole}{member}");
        let place = match member.is_empty() {
            true => positions.nearest(&whole),
            false => positions.nearest_key(&pointer),
        };
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Some(Place::at(suite, number(place.line), number(place.column)))
    }
}

/// The files with policies that a test names.
fn policy_files(suite: &FoundSuite, test: &Test) -> Vec<String> {
    let folder = suite.absolute_path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let lists = test.mutators.iter().chain(&test.modrules).chain(&test.policies).flatten();
    let constraint = (!test.invalid).then_some(&test.constraint);
    let files = [&test.template, &test.expansion].into_iter().chain(constraint).chain(lists);
    let mut files: Vec<String> =
        files.filter(|file| !file.is_empty()).map(|file| beside(folder, file)).collect();
    let mut seen = BTreeSet::new();
    files.retain(|file| seen.insert(file.clone()));
    files
}

/// The elements of a list, each with its pointer.
fn items<'v>(value: &'v Value, pointer: &str, key: &str) -> Vec<(String, &'v Value)> {
    let list = value.get(key).and_then(Value::as_array);
    let items = list.into_iter().flat_map(|list| list.iter()).enumerate();
    items.map(|(index, item)| (format!("{pointer}/{key}/{index}"), item)).collect()
}
