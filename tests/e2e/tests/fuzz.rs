//! Every input that ever broke a fuzz target or is made to, and a few mutations of the corpora on
//! each run.

#![allow(clippy::expect_used, reason = "test code, helpers included")]

use std::fs;

use modgate_e2e::fuzz::{named, targets};
use modgate_testkit::{
    Roots, corpus,
    fuzz::{Mutations, Target},
};

fn attempt(target: &Target, input: &[u8], what: &str) {
    let attempt = target.attempt(input);
    assert!(
        attempt.is_ok(),
        "{} {what}: {attempt:?}: {:?}",
        target.name,
        String::from_utf8_lossy(input)
    );
}

#[test]
fn regressions_stay_fixed() {
    let folder = corpus::repository().join("fuzz/regressions");
    let mut replayed = 0;
    for entry in fs::read_dir(&folder).expect("regressions") {
        let folder = entry.expect("a folder entry").path();
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let target = named(&name).expect("a target for every folder of regressions");
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("a folder entry").path();
            let input = corpus::read(&path).expect("a readable file");
            attempt(target, &input, &path.display().to_string());
            replayed += 1;
        }
    }
    assert!(replayed > 0, "nothing was replayed");
}

/// How many mutations each target gets. `MODGATE_FUZZ_ROUNDS=1000000` are more, and others.
const ROUNDS: u64 = 1500;

/// Targets whose inputs take a while each get a fifth of that.
const SLOW: &[&str] = &["http", "policies", "review"];

/// The same inputs on every run: a failure is reproducible, and time is bounded.
#[test]
fn corpora_and_their_mutations() {
    let roots = Roots::discover();
    let rounds = std::env::var("MODGATE_FUZZ_ROUNDS").ok().and_then(|text| text.parse().ok());
    let rounds: u64 = rounds.unwrap_or(ROUNDS);
    for target in targets() {
        let seeds = target.seeds(&roots).expect("readable corpora");
        assert!(!seeds.is_empty(), "{} has no seeds", target.name);
        for seed in &seeds {
            attempt(target, seed, "seed");
        }
        let rounds = if SLOW.contains(&target.name) { rounds / 5 } else { rounds };
        for input in Mutations::of(&seeds, rounds).take(usize::try_from(rounds).expect("a count")) {
            attempt(target, &input, "mutation");
        }
    }
}
