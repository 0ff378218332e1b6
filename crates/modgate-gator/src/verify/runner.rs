//! Runs suites: every test on whatever core is free.

use std::{sync::Arc, time::Instant};

use modgate_engine::{
    Severity, Snapshot,
    constraint::{ConstraintError, TemplateProblem},
};
use modgate_policies::references::References;
use modgate_value::{Value, gofmt};

use super::{
    case::{self, At as _, Failed},
    coverage::Collected,
    files::{Files, Replaced, beside, objects, read},
    filter::Filter,
    find::FoundSuite,
    mutants::Tests,
    pipeline,
    report::{CaseResult, SuiteResult, TestResult},
    suite::Test,
};
use crate::{
    expander::expansion_templates,
    policies::{Policies, Settings, is_constraint},
    review::Session,
    work::parallel,
};
use modgate_api::expansion::ExpansionTemplate;
use modgate_engine::expansion::ExpansionSystem;

/// The state that all cases of a test share.
pub(super) struct Subject {
    /// Template and constraint; a case adds its inventory to a copy.
    pub(super) policies: Policies,
    /// The same with expansion templates, mutators and ModRules.
    pub(super) snapshot: Snapshot,
    /// Whether there are policies that may change objects, as in our suites.
    pub(super) changes_objects: bool,
    /// The objects that the cluster's own policies read.
    objects: Arc<References>,
}

/// Runs all tests that the filter selects.
pub(super) fn run(
    suites: &[FoundSuite],
    filter: &Filter,
    settings: &Settings,
    trace: bool,
    collected: Option<&Collected>,
) -> Vec<SuiteResult> {
    let files = Files::new(settings);
    let tests: Vec<(&FoundSuite, &Test)> = suites
        .iter()
        .filter(|suite| !suite.suite.skip)
        .flat_map(|suite| suite.suite.tests.iter().map(move |test| (suite, test)))
        .collect();
    let mut results = parallel(
        tests.len(),
        || Session::new(trace, false).observing(collected.is_some()),
        |index, session| {
            let (suite, test) = tests.get(index)?;
            let folder = folder(&suite.absolute_path);
            let runner = Runner { files: &files, filter, folder, collected };
            Some(runner.test(test, session))
        },
    )
    .into_iter()
    .flatten();
    if let Some(collected) = collected {
        for (path, template) in files.templates() {
            collected.add(path, 0, template.coverage());
        }
    }
    suites
        .iter()
        .map(|suite| {
            let count = if suite.suite.skip { 0 } else { suite.suite.tests.len() };
            let tests: Vec<TestResult> = results.by_ref().take(count).collect();
            SuiteResult {
                path: suite.input_path.clone(),
                skipped: suite.suite.skip,
                stopped: false,
                runtime: tests.iter().map(|test| test.runtime).sum(),
                tests,
            }
        })
        .collect()
}

/// Whether the tests notice that a policy is another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Noticed {
    /// A case fails.
    Yes,
    /// Every case passes.
    No,
    /// The policy does not load.
    Invalid,
}

/// Runs the tests that use a policy until one notices that it is another one. With `runs` off it only
/// finds out whether the policy loads.
pub(super) fn notices(
    tests: &Tests<'_>,
    replaced: Replaced<'_>,
    runs: bool,
    session: &mut Session,
) -> Noticed {
    let files = Files::new(tests.settings).replacing(replaced);
    let mut noticed = Noticed::Invalid;
    for suite in tests.suites.iter().filter(|suite| !suite.suite.skip) {
        let folder = folder(&suite.absolute_path);
        let runner = Runner { files: &files, filter: tests.filter, folder, collected: None };
        for test in suite.suite.tests.iter().filter(|test| runner.uses(test, replaced.path)) {
            match runner.notices(test, runs, session) {
                Noticed::No if runs => noticed = Noticed::No,
                end => return end,
            }
        }
    }
    noticed
}

fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

struct Runner<'r> {
    files: &'r Files<'r>,
    filter: &'r Filter,
    /// The folder of the suite.
    folder: &'r str,
    collected: Option<&'r Collected>,
}

impl Runner<'_> {
    fn test(&self, test: &Test, session: &mut Session) -> TestResult {
        let name = test.name.to_string();
        if test.skip || !self.filter.matches_test(test) {
            return TestResult { name, skipped: true, ..TestResult::default() };
        }
        let start = Instant::now();
        let (cases, failed) = match self.subject(test) {
            Ok(Some(subject)) => {
                session.objects = Some(Arc::clone(&subject.objects));
                let cases = self.cases(test, &subject, session);
                if let Some(collected) = self.collected {
                    collected.of_test(test, self.folder, &subject, &session.take_changes());
                }
                (cases, None)
            }
            Ok(None) => (Vec::new(), None),
            Err(failed) => (Vec::new(), Some(failed)),
        };
        let (error, at) = Failed::parts(failed);
        TestResult { name, error, at, skipped: false, runtime: start.elapsed(), cases }
    }

    fn cases(&self, test: &Test, subject: &Subject, session: &mut Session) -> Vec<CaseResult> {
        test.cases
            .iter()
            .map(|case| {
                let name = case.name.to_string();
                if case.skip || !self.filter.matches_case(&test.name, &case.name) {
                    return CaseResult { name, skipped: true, ..CaseResult::default() };
                }
                let start = Instant::now();
                let ran = case::run(case, subject, self.folder, session);
                let (error, at) = Failed::parts(ran.err());
                CaseResult {
                    name,
                    error,
                    at,
                    skipped: false,
                    runtime: start.elapsed(),
                    trace: session.take_traced(),
                    print: session.outside.take_printed(),
                }
            })
            .collect()
    }

    /// Whether a test is run and uses the policy of a file.
    fn uses(&self, test: &Test, path: &str) -> bool {
        let lists = test.mutators.iter().chain(&test.modrules).chain(&test.policies).flatten();
        let mut files = [&test.template, &test.constraint].into_iter().chain(lists);
        !test.skip
            && !test.invalid
            && self.filter.matches_test(test)
            && files.any(|file| !file.is_empty() && beside(self.folder, file) == path)
    }

    fn notices(&self, test: &Test, runs: bool, session: &mut Session) -> Noticed {
        let Ok(Some(subject)) = self.subject(test) else { return Noticed::Invalid };
        session.objects = Some(Arc::clone(&subject.objects));
        let is_wrong = |problem: &TemplateProblem| problem.severity == Severity::Error;
        let constraints = subject.policies.store.constraints();
        if constraints.flat_map(|it| it.template().problems()).any(is_wrong) {
            return Noticed::Invalid;
        }
        let cases = test
            .cases
            .iter()
            .filter(|case| runs && !case.skip && self.filter.matches_case(&test.name, &case.name));
        for case in cases {
            let ran = case::run(case, &subject, self.folder, session);
            session.outside.take_printed();
            if ran.is_err() {
                return Noticed::Yes;
            }
        }
        Noticed::No
    }

    /// Loads the policies of a test; `None` if its constraint was refused as expected.
    fn subject(&self, test: &Test) -> Result<Option<Subject>, Failed> {
        let mut policies = Policies::default();
        let is_complete = !test.template.is_empty() || !test.constraint.is_empty();
        // All other policies can be tested without a constraint.
        if is_complete || !test.changes_objects() {
            if test.template.is_empty() {
                return Err(Failed::from("invalid Suite: missing template".to_owned()));
            }
            match self.files.template(&beside(self.folder, &test.template)) {
                Ok(template) => policies.add_template(template),
                Err(error) if test.invalid => {
                    return invalid(Err(Refused::Unread(error))).map(|()| None).at("/template");
                }
                Err(error) => return Err(error).at("/template"),
            }
            if test.constraint.is_empty() {
                return Err(Failed::from("invalid Suite: missing constraint".to_owned()));
            }
            let added = self.add_constraint(&mut policies, &test.constraint);
            if test.invalid {
                return invalid(added).map(|()| None).at("/constraint");
            }
            let added = added.map_err(|refused| match refused {
                Refused::Unread(error) => error,
                Refused::Constraint(error) => error.to_string(),
            });
            added.at("/constraint")?;
        }
        let expansion = match test.expansion.as_str() {
            "" => ExpansionSystem::default(),
            file => self.expansion(file).at("/expansion")?,
        };
        let pipeline::Loaded { mutators, snapshot, objects } =
            pipeline::load(test, self.folder, self.files)?;
        let snapshot = snapshot.with_compiled(policies.store.clone(), mutators, expansion);
        let (changes_objects, objects) = (test.changes_objects(), Arc::new(objects));
        Ok(Some(Subject { policies, snapshot, changes_objects, objects }))
    }

    fn add_constraint(&self, policies: &mut Policies, file: &str) -> Result<(), Refused> {
        let path = beside(self.folder, file);
        let quoted = gofmt::quote(&path);
        let text = read(&path).map_err(|error| {
            Refused::Unread(format!("reading Constraint from {quoted}: {error}"))
        })?;
        let resource = self.files.first(&path, &text).map_err(|error| {
            Refused::Unread(format!("adding constraint: parsing Constraint from {quoted}: {error}"))
        })?;
        if !is_constraint(&resource) {
            return Err(Refused::Unread("not a Constraint".to_owned()));
        }
        policies.add_constraint(&resource).map_err(Refused::Constraint)
    }

    fn expansion(&self, file: &str) -> Result<ExpansionSystem, String> {
        let path = beside(self.folder, file);
        let quoted = gofmt::quote(&path);
        read(&path).map_err(|error| format!("reading ExpansionTemplate from {quoted}: {error}"))?;
        let resources = match objects(&path) {
            Err(error) if error.starts_with("missing objects: ") => Vec::new(),
            read => read?,
        };
        if resources.is_empty() || !resources.iter().all(ExpansionTemplate::is_expansion_template) {
            return Err(format!("not an Expansion Template: {}", gofmt::quote(&path)));
        }
        let resources: Vec<&Value> = resources.iter().collect();
        expansion_templates(&resources).map_err(|(_, error)| error)
    }
}

/// Why there is no constraint.
enum Refused {
    Unread(String),
    Constraint(ConstraintError),
}

/// Whether a constraint was refused as `invalid: true` asks.
fn invalid(added: Result<(), Refused>) -> Result<(), String> {
    const WANTED: &str = "constraint should have failed schema validation";
    let error = match added {
        Err(Refused::Constraint(ConstraintError::Schema { .. })) => return Ok(()),
        Ok(()) => return Err(WANTED.to_owned()),
        Err(Refused::Unread(error)) => error,
        Err(Refused::Constraint(error)) => error.to_string(),
    };
    Err(format!("{WANTED}: got error {error} but want schema validation failed"))
}
