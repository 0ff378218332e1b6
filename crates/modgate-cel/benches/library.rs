//! All validations and message expressions of a template of the public library, evaluated once
//! against one of its samples. Needs the library: set `MODGATE_CONFORMANCE`.

#![allow(clippy::expect_used, reason = "a bench")]

use divan::{Bencher, counter::ItemsCount};
use modgate_cel::Arena;
use modgate_testkit::{
    cel_library::{Compiled, Review, policies},
    rego::library,
};
use modgate_value::Budget;

fn main() {
    divan::main();
}

const CASES: [(&str, &str); 4] = [
    ("general/requiredlabels", "must-have-owner/example-disallowed"),
    ("pod-security-policy/privileged-containers", "example-disallowed"),
    ("pod-security-policy/capabilities", "capabilities-baseline/example-disallowed"),
    ("pod-security-policy/host-filesystem", "host-filesystem/example-disallowed"),
];

fn sample(folder: &str, case: &str) -> Option<(Compiled, Review)> {
    let library = library::folder()?;
    let policies = policies().expect("the library");
    let policy = policies.iter().find(|policy| policy.name.ends_with(folder))?;
    let cases = library::cases(&library, folder).expect("the library");
    let case = cases.iter().find(|it| it.key.contains(case))?;
    let compiled = policy.compile().ok()?;
    Some((compiled, Review::of(case)))
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
