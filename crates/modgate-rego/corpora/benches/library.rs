//! One evaluation of `violation` on samples of the public library, against the figures for OPA in
//! `docs/performance.md`. Needs the library: set `MODGATE_CONFORMANCE`.

#![allow(clippy::expect_used, reason = "a bench")]

use divan::{Bencher, counter::ItemsCount};
use modgate_rego::value::Arena;
use modgate_rego_corpora::library::{self, Case};
use modgate_value::Budget;

fn main() {
    divan::main();
}

const CASES: [&str; 8] = [
    "general/requiredlabels/suite.yaml:must-have-owner/example-disallowed",
    "general/allowedrepos/suite.yaml:allowed-repos/container-disallowed",
    "general/containerlimits/suite.yaml:container-limits/example-disallowed",
    "privileged-containers/suite.yaml:privileged-containers-disallowed/example-disallowed",
    "users/suite.yaml:users-and-groups-together/example-disallowed",
    "pod-security-policy/capabilities/suite.yaml:capabilities-baseline/example-disallowed",
    "seccompv2/suite.yaml:seccomp-restricted/example-disallowed-container",
    "host-filesystem/suite.yaml:host-filesystem/example-disallowed",
];

fn case(name: &str) -> Option<Case> {
    library::cases(&library::folder()?, name).expect("the library").into_iter().next()
}

#[divan::bench(args = CASES)]
fn violation(bencher: Bencher<'_, '_>, name: &str) {
    let Some(case) = case(name) else { return };
    evaluate(bencher, &case);
}

/// The same programs, specialised for the constraint's parameters as the engine does.
#[divan::bench(args = CASES)]
fn specialized(bencher: Bencher<'_, '_>, name: &str) {
    let Some(case) = case(name) else { return };
    evaluate(bencher, &case.specialized());
}

fn evaluate(bencher: Bencher<'_, '_>, case: &Case) {
    let mut arena = Arena::new();
    bencher.counter(ItemsCount::new(1_usize)).bench_local(|| {
        arena.reset();
        let budget = Budget::unlimited();
        case.evaluate(&arena, &budget).expect("an evaluation").entry_count()
    });
}

/// The cost of specializing, once for each constraint.
#[divan::bench(args = CASES)]
fn specialize(bencher: Bencher<'_, '_>, name: &str) {
    let Some(case) = case(name) else { return };
    bencher.bench_local(|| case.specialized());
}
