//! The recorded expressions: values, errors and costs.

#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

use modgate_cel_corpora::SUITES;
use modgate_corpus::suite::run_all;

#[test]
fn every_recorded_expression_gives_what_was_recorded() {
    let report = run_all(SUITES).expect("corpora");
    assert!(report.is_success(), "\n{}", report.table(true));
    let names: Vec<_> = report.files.iter().map(|file| file.name.as_str()).collect();
    for suite in SUITES {
        assert!(names.contains(&suite.name), "no file {} in {names:?}", suite.name);
    }
    assert!(report.counts().passed >= 1_000, "{:?}", report.counts());
}
