//! The corpora of Rego, as `cargo xtask conformance` runs them: OPA's own compliance cases where
//! they are (`MODGATE_CONFORMANCE` or `../shared/conformance`), and our recordings.

#![allow(clippy::expect_used, reason = "tests fail by panicking")]

use modgate_corpus::suite::{matches, run_all};
use modgate_rego_corpora::{EXEMPT, SUITES};

#[test]
fn every_corpus_of_rego() {
    let mut report = run_all(SUITES).expect("readable corpus folders");
    report.files.retain(|file| !EXEMPT.iter().any(|exempt| matches(exempt, &file.name)));
    assert!(report.is_success(), "\n{}", report.table(true));
    for name in ["rego.json", "rego-programs.json", "library-rego-results.json"] {
        let name = format!("languages/{name}");
        assert!(report.files.iter().any(|file| file.name == name), "{name}");
    }
    assert!(report.counts().total() > 800, "{}", report.table(false));
}
