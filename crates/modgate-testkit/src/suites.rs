//! Which file of a corpus is run by what.

use std::{
    collections::BTreeMap,
    num::NonZero,
    panic::{self, AssertUnwindSafe},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use anyhow::{Result, anyhow};

use crate::{
    corpus::{self, CorpusFile, Roots},
    gatekeeper, kubemod, languages, rego,
    report::{Case, FileReport, Report},
};

/// Runs one kind of corpus file.
pub struct Suite {
    /// The file's name below a corpus folder; `*` stands for anything but a slash.
    pub name: &'static str,
    run: fn(&CorpusFile, &Roots, &mut Vec<Case>) -> Result<()>,
}

/// Everything that is run.
pub const SUITES: &[Suite] = &[
    Suite { name: "languages/yaml.json", run: languages::yaml::run },
    Suite { name: "languages/regexp.json", run: languages::regexp::run },
    Suite { name: "languages/gotemplate.json", run: languages::gotemplate::builtin },
    Suite { name: "languages/sprig.json", run: languages::gotemplate::sprig },
    Suite { name: "languages/cel.json", run: languages::cel::run },
    Suite { name: "languages/cel-costs.json", run: languages::cel::costs },
    Suite { name: "languages/cel-libraries.json", run: languages::cel::costs },
    Suite { name: "languages/rego.json", run: rego::recorded::run },
    Suite { name: "languages/rego-programs.json", run: rego::programs::run },
    Suite { name: "languages/library-rego-results.json", run: rego::library::run },
    Suite { name: "opa/*.json", run: rego::opa::run },
    Suite { name: "validation.json", run: gatekeeper::validation::run },
    Suite { name: "kubemod/cases.json", run: kubemod::cases::run },
    Suite { name: "kubemod/probes/expressions.json", run: kubemod::expressions::run },
    Suite { name: "kubemod/probes/match.json", run: kubemod::matching::run },
    Suite { name: "kubemod/probes/values.json", run: kubemod::values::run },
    // Every other file of probes is a list of scenarios; one that is not fails.
    Suite { name: "kubemod/probes/*.json", run: kubemod::scenarios::run },
    Suite { name: "kubemod/*.json", run: kubemod::scenarios::run },
    Suite { name: "gatekeeper/crds.json", run: gatekeeper::crds::run },
    Suite { name: "gatekeeper/vap.json", run: gatekeeper::vap::run },
    Suite { name: "gatekeeper/cases.json", run: gatekeeper::cases::run },
    Suite { name: "gatekeeper/acceptance/gator.json", run: gatekeeper::gator::run },
    Suite { name: "gatekeeper/unit/gator-test.json", run: gatekeeper::tables::run },
    Suite { name: "gatekeeper/unit/sync-test.json", run: gatekeeper::tables::run },
    Suite { name: "gatekeeper/unit/verify-*.json", run: gatekeeper::tables::run },
    Suite { name: "gatekeeper-library/library/general/*/suite.yaml", run: gatekeeper::suites::run },
    Suite {
        name: "gatekeeper-library/library/pod-security-policy/*/suite.yaml",
        run: gatekeeper::suites::run,
    },
    Suite { name: "gatekeeper/acceptance/location.json", run: gatekeeper::location::run },
    Suite { name: "gatekeeper/acceptance/mutation.json", run: gatekeeper::mutation::run },
    Suite { name: "gatekeeper/acceptance/expansion.json", run: gatekeeper::expansion::run },
    Suite { name: "gatekeeper/unit/applyto*.json", run: gatekeeper::unit::run },
    Suite { name: "gatekeeper/unit/assignimage-mutate.json", run: gatekeeper::unit::run },
    Suite { name: "gatekeeper/unit/expansion-*.json", run: gatekeeper::unit::run },
    Suite { name: "gatekeeper/unit/image-*.json", run: gatekeeper::unit::run },
    Suite { name: "gatekeeper/unit/location-parser.json", run: gatekeeper::unit::run },
    Suite { name: "gatekeeper/unit/match*.json", run: gatekeeper::unit::run },
    Suite { name: "gatekeeper/unit/modifyset-set.json", run: gatekeeper::unit::run },
    Suite { name: "gatekeeper/unit/mutator-admission-validation.json", run: gatekeeper::unit::run },
    Suite { name: "gatekeeper/unit/pathtests.json", run: gatekeeper::unit::run },
    Suite { name: "gatekeeper/unit/schema-*.json", run: gatekeeper::unit::run },
];

/// Groups of OPA's cases that reach outside an evaluation or belong to other products, by name;
/// issue 3 lists them.
const EXEMPT: &[&str] = &[
    "opa/graphql.json",
    "opa/jwtencodesign*.json",
    "opa/netlookupipaddr.json",
    "opa/planner-ir.json",
    "opa/providers-aws.json",
    "opa/regometadata*.json",
    "opa/regoparsemodule.json",
];

/// Files that hold no cases themselves: documentation, and what cases refer to.
const SUPPORT: &[&str] = &[
    "gatekeeper-library/",
    "gatekeeper/config/",
    "gatekeeper/demo/",
    "gatekeeper/example/",
    "gatekeeper/test/",
    "kubemod/samples/",
    "kubemod/testdata/",
];

/// A run over all corpora, or a part of them.
#[derive(Debug, Clone)]
pub struct Run {
    /// Where to look.
    pub roots: Roots,
    /// Run only files whose name, or cases whose `file#id`, contains this.
    pub filter: Option<String>,
}

impl Run {
    /// Runs it.
    ///
    /// # Errors
    ///
    /// When a corpus folder cannot be read at all; what goes wrong in one file is in the report.
    pub fn execute(&self) -> Result<Report> {
        let mut report = Report::default();
        let mut files = corpus::files(&self.roots)?;
        // A filter that names files need not run the others; one that does not may name cases.
        if let Some(filter) = &self.filter
            && files.iter().any(|file| file.name.contains(filter))
        {
            files.retain(|file| file.name.contains(filter));
        }
        let mut to_run = Vec::new();
        for file in files {
            if EXEMPT.iter().any(|exempt| matches(exempt, &file.name)) {
                report.exempt += cases_in(&file);
            } else if let Some(suite) = SUITES.iter().find(|suite| matches(suite.name, &file.name))
            {
                to_run.push((suite, file));
            } else if !is_support(&file.name) {
                report.unknown.push(file.name);
            }
        }
        report.files = self.run_files(&to_run);
        Ok(report)
    }

    /// Runs files on all cores; the reports come in the order of the files.
    fn run_files(&self, files: &[(&Suite, CorpusFile)]) -> Vec<FileReport> {
        let next = AtomicUsize::new(0);
        let done = Mutex::new(BTreeMap::new());
        let work = || {
            let mut own = Vec::new();
            while let Some((suite, file)) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                own.push((file.path.clone(), self.run_file(suite, file)));
            }
            if let Ok(mut done) = done.lock() {
                done.extend(own);
            }
        };
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        thread::scope(|scope| {
            for _ in 1..cores {
                scope.spawn(work);
            }
            work();
        });
        let mut done = done.into_inner().unwrap_or_default();
        files.iter().filter_map(|(_, file)| done.remove(&file.path).flatten()).collect()
    }

    fn run_file(&self, suite: &Suite, file: &CorpusFile) -> Option<FileReport> {
        let whole_file = self.filter.as_deref().is_none_or(|filter| file.name.contains(filter));
        let mut cases = Vec::new();
        // Nothing a case holds may panic; what does fails the file, and the run goes on.
        let ran =
            panic::catch_unwind(AssertUnwindSafe(|| (suite.run)(file, &self.roots, &mut cases)));
        let error =
            ran.unwrap_or_else(|_| Err(anyhow!("panicked after {} cases", cases.len()))).err();
        if let Some(filter) = self.filter.as_deref().filter(|_| !whole_file) {
            cases.retain(|case| format!("{}#{}", file.name, case.id).contains(filter));
            if cases.is_empty() {
                return None;
            }
        }
        let mut error = error.map(|error| format!("{error:#}"));
        if cases.is_empty() && error.is_none() {
            error = Some("no cases".to_owned());
        }
        Some(FileReport { name: file.name.clone(), cases, error })
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    if pattern.ends_with('/') {
        return name.starts_with(pattern);
    }
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, after)) => name
            .strip_prefix(before)
            .and_then(|rest| rest.strip_suffix(after))
            .is_some_and(|middle| !middle.contains('/')),
    }
}

fn is_support(name: &str) -> bool {
    let file_name = name.rsplit('/').next().unwrap_or(name);
    matches!(file_name, "README.md" | "LICENSE")
        || SUPPORT.iter().any(|folder| name.starts_with(folder))
}

/// How many cases a file says it holds; files of other shapes count none.
fn cases_in(file: &CorpusFile) -> usize {
    if !file.name.ends_with(".json") {
        return 0;
    }
    let Ok(document) = file.json() else { return 0 };
    let lists = ["cases", "results", "scenarios"].into_iter().filter_map(|key| document.get(key));
    lists
        .map(|list| match (list.as_array(), list.as_object()) {
            (Some(elements), _) => elements.len(),
            (None, Some(members)) => members.len(),
            (None, None) => 0,
        })
        .sum()
}
