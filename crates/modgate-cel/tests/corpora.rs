//! The recorded expressions: values, errors and costs.

#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

use modgate_cel_corpora::SUITES;
use modgate_corpus::suite::{matches, run_all};

#[test]
fn every_recorded_expression_gives_what_was_recorded() {
    let report = run_all(SUITES).expect("corpora");
    assert!(report.is_success(), "\n{}", report.table(true));
    let names: Vec<_> = report.files.iter().map(|file| file.name.as_str()).collect();
    for suite in SUITES {
        let found = names.iter().any(|name| matches(suite.name, name));
        assert!(found, "no file {} in {names:?}", suite.name);
    }
}
