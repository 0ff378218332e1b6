//! The documents agree with the code: every decision is listed, under its id and verdict.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "test code, helpers included"
)]

use std::fs;

use modgate_testkit::{corpus, decision};

fn document(name: &str) -> String {
    fs::read_to_string(corpus::repository().join("docs").join(name)).expect(name)
}

#[test]
fn every_decision_is_listed() {
    let document = document("compatibility.md");
    for decision in decision::ALL {
        let row = format!("| {} |", decision.id);
        let line = document.lines().find(|line| line.starts_with(&row));
        let line = line.unwrap_or_else(|| panic!("{} has no row", decision.id));
        let verdict = match decision.kind {
            decision::Kind::Fix => "F",
            decision::Kind::Superset => "S",
        };
        let verdicts = line.split('|').nth(2).expect("a verdict");
        assert!(verdicts.contains(verdict), "{}: {line}", decision.id);
    }
}

#[test]
fn every_quirk_has_a_row() {
    let document = document("compatibility.md");
    for number in 1..=78 {
        let row = format!("| Q-{number:02} |");
        assert_eq!(document.matches(&row).count(), 1, "{row}");
    }
}
