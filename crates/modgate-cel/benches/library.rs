//! All validations and message expressions of a template of the public library, evaluated once
//! against one of its samples. Needs the library: set `MODGATE_CONFORMANCE`.

#![allow(clippy::expect_used, reason = "a bench")]

use divan::{Bencher, counter::ItemsCount};
use modgate_cel::Arena;
use modgate_cel_corpora::library::{Compiled, Review, folder, policies};
use modgate_value::Budget;

fn main() {
    divan::main();
}

const CASES: [(&str, &str); 4] = [
    ("general/requiredlabels", "all-must-have-owner/example_disallowed"),
    ("pod-security-policy/privileged-containers", "psp-privileged-container/example_disallowed"),
    ("pod-security-policy/capabilities", "psp-capabilities-baseline/example_disallowed"),
    ("pod-security-policy/host-filesystem", "psp-host-filesystem/example_disallowed"),
];

fn sample(name: &str, case: &str) -> Option<(Compiled, Review)> {
    let library = folder()?;
    let policies = policies().expect("the library");
    let policy = policies.iter().find(|policy| policy.name.ends_with(name)).expect("a policy");
    let compiled = policy.compile().expect("a policy that compiles");
    let (samples, object) = case.split_once('/').expect("a folder and a file");
    let samples = library.join("library").join(name).join("samples").join(samples);
    let review = Review::of(&samples, &format!("{object}.yaml")).expect("a sample");
    Some((compiled, review))
}

#[divan::bench(args = CASES)]
fn policy(bencher: Bencher<'_, '_>, (folder, case): (&str, &str)) {
    let Some((compiled, review)) = sample(folder, case) else { return };
    let mut arena = Arena::new();
    bencher.counter(ItemsCount::new(1_usize)).bench_local(|| {
        arena.reset();
        let budget = Budget::unlimited();
        compiled.evaluate(&review, &arena, &budget).expect("a budget")
    });
}

#[divan::bench]
fn compile_all(bencher: Bencher<'_, '_>) {
    let policies = policies().expect("the library");
    bencher.bench_local(|| policies.iter().filter(|policy| policy.compile().is_ok()).count());
}
