//! Which file of a corpus is run by what.

use anyhow::Result;
use modgate_corpus::{
    Report,
    corpus::{self, CorpusFile, Roots},
    suite::{Suite, matches, run_files},
};

use crate::{gatekeeper, kubemod, languages, rego};

/// Everything that is run.
pub fn suites() -> impl Iterator<Item = &'static Suite> {
    SUITES.iter().chain(modgate_cel_corpora::SUITES).chain(rego::SUITES)
}

const SUITES: &[Suite] = &[
    Suite { name: "languages/yaml.json", run: languages::yaml::run },
    Suite { name: "languages/regexp.json", run: languages::regexp::run },
    Suite { name: "languages/gotemplate.json", run: languages::gotemplate::builtin },
    Suite { name: "languages/gotemplate-*.json", run: languages::gotemplate::builtin },
    Suite { name: "languages/sprig.json", run: languages::gotemplate::sprig },
    Suite { name: "languages/sprig-*.json", run: languages::gotemplate::sprig },
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

/// Files that hold no cases themselves: documentation, and what cases refer to.
const SUPPORT: &[&str] = &[
    // Of `cargo xtask mistakes`.
    "mistakes/",
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
            if rego::EXEMPT.iter().any(|exempt| matches(exempt, &file.name)) {
                report.exempt += cases_in(&file);
            } else if let Some(suite) = suites().find(|suite| matches(suite.name, &file.name)) {
                to_run.push((suite, file));
            } else if !is_support(&file.name) {
                report.unknown.push(file.name);
            }
        }
        report.files = run_files(&to_run, &self.roots, self.filter.as_deref());
        Ok(report)
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
