//! Which decisions of a second are kept whole.
//!
//! A decision that is kept costs copies of its texts and of its request: with thousands of denials in a second,
//! a fifth of their processor time. So a second has a number for each kind of them. Beyond that number the first
//! of each namespace and the first of each policy are kept, so that many denials do not hide a single one.

use std::{
    collections::{HashSet, hash_map::RandomState},
    hash::BuildHasher as _,
    time::{Duration, Instant},
};

use modgate_value::Str;

use super::{Outcome, PolicyPart};

/// Decisions of a second that are kept: those that deny, warn or are undecided; that change an object; that
/// allow, with findings; and those without a word.
const SAMPLES: [u32; 4] = [200, 200, 200, 20];
/// Namespaces and policies that are counted one by one in a second.
const MAX_FIRSTS: usize = 1_000;

/// The decisions that were kept in this second.
#[derive(Debug, Default)]
pub(super) struct Sampling {
    since: Option<Instant>,
    counts: [u32; 4],
    /// Hashes of namespaces and policies, each with the outcome.
    seen: HashSet<u64>,
    hasher: RandomState,
}

impl Sampling {
    /// Whether to keep a decision.
    pub(super) fn takes(
        &mut self,
        outcome: Outcome,
        namespace: &Str,
        found: &[PolicyPart<'_>],
    ) -> bool {
        let now = Instant::now();
        if self.since.is_none_or(|since| now.duration_since(since) >= Duration::from_secs(1)) {
            self.since = Some(now);
            self.counts = [0; 4];
            self.seen.clear();
        }
        let class = match outcome {
            Outcome::Denied | Outcome::Undecided | Outcome::Warned => 0,
            Outcome::Patched => 1,
            Outcome::Allowed if !found.is_empty() => 2,
            Outcome::Allowed => 3,
        };
        let (Some(count), Some(most)) = (self.counts.get_mut(class), SAMPLES.get(class)) else {
            return false;
        };
        *count = count.saturating_add(1);
        let is_within = *count <= *most;
        if class == 3 {
            return is_within;
        }
        let mut is_first = self.is_new((outcome, namespace));
        for found in found {
            is_first |= self.is_new((outcome, found.action, &found.policy));
        }
        is_within || is_first
    }

    fn is_new(&mut self, it: impl std::hash::Hash) -> bool {
        self.seen.len() < MAX_FIRSTS && self.seen.insert(self.hasher.hash_one(it))
    }
}
