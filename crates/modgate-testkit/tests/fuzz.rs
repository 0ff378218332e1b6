//! Every input that ever broke a fuzz target or is made to, and a few mutations of the corpora on
//! each run.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "test code, helpers included"
)]

use std::fs;

use modgate_testkit::{
    Roots, corpus,
    fuzz::{TARGETS, Target},
};

#[test]
fn regressions_stay_fixed() {
    for target in TARGETS {
        let folder = corpus::repository().join("fuzz/regressions").join(target.name);
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry.expect("a folder entry").path();
            (target.run)(&corpus::read(&path).expect("a readable file"));
        }
    }
}

#[test]
fn corpora_and_their_mutations() {
    let roots = Roots::discover();
    for target in TARGETS {
        let seeds = target.seeds(&roots).expect("readable corpora");
        assert!(!seeds.is_empty(), "{} has no seeds", target.name);
        for seed in &seeds {
            (target.run)(seed);
        }
        mutations(target, &seeds);
    }
}

/// The same inputs on every run: a failure is reproducible, and time is bounded.
fn mutations(target: &Target, seeds: &[Vec<u8>]) {
    // More rounds, with other inputs, on request: `MODGATE_FUZZ_ROUNDS=1000000`.
    let rounds = std::env::var("MODGATE_FUZZ_ROUNDS").ok().and_then(|text| text.parse().ok());
    let rounds: u64 = rounds.unwrap_or(1500);
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ rounds);
    for _ in 0..rounds {
        let mut input = seeds[random.below(seeds.len())].clone();
        for _ in 0..=random.below(4) {
            mutate(&mut input, &seeds[random.below(seeds.len())], &mut random);
        }
        let attempt = std::panic::catch_unwind(|| (target.run)(&input));
        assert!(attempt.is_ok(), "{}: {:?}", target.name, String::from_utf8_lossy(&input));
    }
}

const PIECES: &[&str] = &[
    "[",
    "]",
    "{{",
    "}}",
    "(",
    "$",
    "..",
    "\0",
    "&a",
    "*a",
    "<<:",
    "-1",
    "#0",
    "\"",
    "\\",
    "1e9",
    "not ",
    "some x in ",
    ":= ",
    " with input as ",
    " | ",
    "\n",
    "else ",
    "every ",
];

fn mutate(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = random.below(input.len() + 1);
    let end = (at + random.below(8)).min(input.len());
    match random.below(5) {
        0 => drop(input.drain(at..end)),
        1 => {
            let piece = PIECES[random.below(PIECES.len())].bytes();
            drop(input.splice(at..at, piece));
        }
        2 => {
            let copy = input[at..end].to_vec();
            drop(input.splice(at..at, copy.repeat(1 + random.below(40))));
        }
        3 => {
            let from = random.below(other.len() + 1);
            let to = (from + random.below(16)).min(other.len());
            drop(input.splice(at..end, other[from..to].iter().copied()));
        }
        _ => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
    }
}

/// xorshift64
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound.max(1) as u64).expect("below a usize")
    }
}
