//! The machine as policies see it: time, randomness, and the output of `print`.

use std::{
    cell::RefCell,
    hash::{BuildHasher as _, Hasher as _, RandomState},
    sync::LazyLock,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use modgate_engine::template::{self, Refused};
use modgate_rego::builtins;
use modgate_value::{Clock, Limits};

/// Budget of one policy for one object.
pub(crate) const POLICY: Limits =
    Limits { steps: 1_000_000_000, bytes: 1 << 30, time: Duration::from_secs(60) };

/// Budget of mutators and expansion for one object.
pub(crate) const OBJECT: Limits =
    Limits { steps: 1_000_000_000, bytes: 1 << 30, time: Duration::from_secs(60) };

/// Time since the first reading of the clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> Duration {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        START.elapsed()
    }
}

/// A host that keeps what policies print until it is taken.
#[derive(Debug, Default)]
pub(crate) struct Outside {
    printed: RefCell<String>,
}

/// Maximum bytes of print output per object.
const MAX_PRINTED: usize = 1 << 20;

impl Outside {
    /// Takes the output since the last call, with a line break after each text.
    pub(crate) fn take_printed(&self) -> String {
        self.printed.take()
    }
}

impl builtins::Host for Outside {
    fn now_ns(&self) -> Option<i64> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        i64::try_from(since.as_nanos()).ok()
    }

    fn random(&self) -> Option<u64> {
        Some(random())
    }

    /// Keeps a line as long as there is room. One byte beyond the cap shows that there was more.
    fn print(&self, text: &str) {
        let mut printed = self.printed.borrow_mut();
        if printed.len() <= MAX_PRINTED {
            printed.push_str(text);
            printed.push('\n');
        }
    }
}

impl template::Host for Outside {
    fn now(&self) -> Result<Duration, Refused> {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_err(|_| Refused::new("the clock stands before 1970"))
    }

    fn random_bytes(&self, out: &mut [u8]) -> Result<(), Refused> {
        for chunk in out.chunks_mut(8) {
            let bytes = random().to_le_bytes();
            chunk.iter_mut().zip(bytes).for_each(|(byte, random)| *byte = random);
        }
        Ok(())
    }

    fn resolve_host(&self, _: &str) -> Result<Option<String>, Refused> {
        Err(Refused::new("there is no network"))
    }
}

/// Random bits, not for secrets.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
