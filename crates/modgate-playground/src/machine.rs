//! The machine as policies see it in the playground.

use std::{cell::Cell, time::Duration};

use modgate_engine::{
    rego::builtins,
    template::{self, Refused},
};
use modgate_review::references::without_providers;
use modgate_value::Value;

/// A time that stands still, and random values that follow from a seed.
#[derive(Debug)]
pub(crate) struct Machine {
    milliseconds: u64,
    state: Cell<u64>,
}

impl Machine {
    pub(crate) fn new(milliseconds: u64, seed: u64) -> Self {
        Self { milliseconds, state: Cell::new(seed) }
    }

    /// The next value of SplitMix64 (Steele, Lea, Flood 2014).
    fn next(&self) -> u64 {
        let state = self.state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.state.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

impl template::Host for Machine {
    fn now(&self) -> Result<Duration, Refused> {
        Ok(Duration::from_millis(self.milliseconds))
    }

    fn random_bytes(&self, out: &mut [u8]) -> Result<(), Refused> {
        for chunk in out.chunks_mut(8) {
            chunk.iter_mut().zip(self.next().to_le_bytes()).for_each(|(to, from)| *to = from);
        }
        Ok(())
    }

    fn resolve_host(&self, _: &str) -> Result<Option<String>, Refused> {
        Err(Refused::new("the playground has no network"))
    }
}

impl builtins::Host for Machine {
    fn now_ns(&self) -> Option<i64> {
        i64::try_from(self.milliseconds).ok()?.checked_mul(1_000_000)
    }

    fn random(&self) -> Option<u64> {
        Some(self.next())
    }

    fn call(&self, name: &str, args: &[Value]) -> Option<Result<Value, String>> {
        without_providers(name, args)
    }
}
