//! Unknown fields of a suite: gator ignores them, so that a misspelt assertion always holds.

use std::{collections::BTreeMap, fmt::Write as _};

use modgate_engine::Code;
use modgate_report::Place;
use modgate_value::{Value, near, yaml};

use super::{
    files::{beside, read},
    find::FoundSuite,
};

const SUITE: [&str; 6] = ["apiVersion", "kind", "metadata", "skip", "status", "tests"];
const TEST: [&str; 9] = [
    "cases",
    "constraint",
    "expansion",
    "invalid",
    "modrules",
    "mutators",
    "name",
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

/// Warnings about likely mistakes in suites, each with its position, on several lines.
pub(super) fn warnings(path: &str, suites: &[FoundSuite]) -> Vec<String> {
    if suites.is_empty() {
        let below = "`PATH/...` is every suite below a folder";
        return vec![format!(
            "warning[{}]: no suites found in `{path}`\n  = help: {below}",
            Code::NothingFound
        )];
    }
    suites.iter().flat_map(of_suite).collect()
}

fn of_suite(suite: &FoundSuite) -> Vec<String> {
    let mut found = Vec::new();
    let Ok(text) = read(&suite.absolute_path) else { return found };
    let Some(Ok(document)) = yaml::documents(&text).next() else { return found };
    let mut check = |value: &Value, pointer: &str, known: &[&str]| {
        let names = value.as_object().into_iter().flat_map(|members| members.keys());
        for name in names.filter(|name| !known.contains(&name.as_str())) {
            let place = document.positions.nearest_key(&format!("{pointer}/{name}"));
            let mut text =
                format!("warning[{}]: unknown member `{name}`, ignored", Code::SuiteMember);
            let _ = write!(text, "\n --> {}:{place}", suite.input_path);
            let help = near::did_you_mean_or(name, known, "known members");
            let _ = write!(text, "\n  = help: {help}");
            found.push(text);
        }
    };
    check(&document.value, "", &SUITE);
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

    /// The place of a case, or of a test, by their numbers.
    pub(super) fn of_case(&self, suite: &str, test: usize, case: Option<usize>) -> Option<Place> {
        let positions = self.0.get(suite)?;
        let place = match case {
            Some(case) => positions.nearest(&format!("/tests/{test}/cases/{case}")),
            None => positions.nearest(&format!("/tests/{test}")),
        };
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Some(Place::at(suite, number(place.line), number(place.column)))
    }
}

/// The files with policies that a suite names.
pub(super) fn policy_files(suite: &FoundSuite) -> Vec<String> {
    let folder = suite.absolute_path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let tests = suite.suite.tests.iter();
    let files = tests.flat_map(|test| {
        let lists = test.mutators.iter().chain(&test.modrules).flatten();
        [&test.template, &test.constraint, &test.expansion].into_iter().chain(lists)
    });
    files.filter(|file| !file.is_empty()).map(|file| beside(folder, file)).collect()
}

/// The elements of a list, each with its pointer.
fn items<'v>(value: &'v Value, pointer: &str, key: &str) -> Vec<(String, &'v Value)> {
    let list = value.get(key).and_then(Value::as_array);
    let items = list.into_iter().flat_map(|list| list.iter()).enumerate();
    items.map(|(index, item)| (format!("{pointer}/{key}/{index}"), item)).collect()
}
