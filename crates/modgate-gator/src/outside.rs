//! What policies may see of the machine: the time, randomness, and where their `print` goes.

use std::{
    cell::RefCell,
    hash::{BuildHasher as _, Hasher as _, RandomState},
    sync::LazyLock,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use modgate_rego::builtins::Host;
use modgate_value::{Clock, Limits};

/// What one policy may spend on one object.
pub(crate) const POLICY: Limits =
    Limits { steps: 1_000_000_000, bytes: 1 << 30, time: Duration::from_secs(60) };

/// What mutators and expansion may spend on one object.
pub(crate) const OBJECT: Limits =
    Limits { steps: 1_000_000_000, bytes: 1 << 30, time: Duration::from_secs(60) };

/// Time since the process began to look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> Duration {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        START.elapsed()
    }
}

/// A host that keeps what policies print, until somebody takes it.
#[derive(Debug, Default)]
pub(crate) struct Outside {
    printed: RefCell<String>,
    notes: RefCell<String>,
}

/// How much print output of one object is kept.
const MAX_PRINTED: usize = 1 << 20;

impl Outside {
    /// What has been printed since the last time, a line break after each text.
    pub(crate) fn take_printed(&self) -> String {
        self.printed.take()
    }

    /// What has been noted with `trace()` since the last time; `None` if nothing was.
    pub(crate) fn take_notes(&self) -> Option<String> {
        Some(self.notes.take()).filter(|notes| !notes.is_empty())
    }
}

/// Keeps a line as long as there is room. One byte beyond the cap tells that there was more.
fn keep(text: &str, kept: &RefCell<String>) {
    let mut kept = kept.borrow_mut();
    if kept.len() <= MAX_PRINTED {
        kept.push_str(text);
        kept.push('\n');
    }
}

impl Host for Outside {
    fn now_ns(&self) -> Option<i64> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        i64::try_from(since.as_nanos()).ok()
    }

    fn random(&self) -> Option<u64> {
        Some(random())
    }

    fn print(&self, text: &str) {
        keep(text, &self.printed);
    }

    fn trace(&self, note: &str) {
        keep(note, &self.notes);
    }
}

/// Random bits, not for secrets.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A random UUID, version 4.
pub(crate) fn uuid() -> String {
    let (high, low) = (random(), random());
    let high = (high & !0xf000) | 0x4000;
    let low = (low & !(0b11 << 62)) | (0b10 << 62);
    let [a, b, c] = [high >> 32, (high >> 16) & 0xffff, high & 0xffff];
    let [d, e] = [low >> 48, low & 0xffff_ffff_ffff];
    format!("{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids() {
        let id = uuid();
        let lengths: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{id}");
        assert_eq!(id.get(14..15), Some("4"), "{id}");
    }
}
