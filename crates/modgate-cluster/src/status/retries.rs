//! When to try again what failed, less and less often. No IO here.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use modgate_http::Backoff;

/// How long to wait after a try failed, at first and at most.
const BACKOFF: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(60)];

/// Things called `T` that failed, how long each rests next, and until when it does.
#[derive(Debug)]
pub(super) struct Retries<T>(BTreeMap<T, (Backoff, Instant)>);

impl<T: Ord> Retries<T> {
    pub(super) fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Notes how a try ended.
    pub(super) fn record(&mut self, target: T, succeeded: bool, now: Instant) {
        if succeeded {
            self.0.remove(&target);
            return;
        }
        let mut backoff =
            self.0.get(&target).map_or(Backoff::new(BACKOFF), |(backoff, _)| *backoff);
        let next = now + backoff.pause();
        self.0.insert(target, (backoff, next));
    }

    /// Forgets what nobody wants to try any more.
    pub(super) fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.0.retain(|target, _| keep(target));
    }

    /// Whether it may be tried: it did not fail, or has rested.
    pub(super) fn is_due(&self, target: &T, now: Instant) -> bool {
        self.0.get(target).is_none_or(|(_, next)| *next <= now)
    }

    /// When the next of them may be tried again.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.values().map(|(_, next)| *next).min()
    }

    /// What failed last.
    pub(super) fn failed(&self) -> impl Iterator<Item = &T> {
        self.0.keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_rest_longer_each_time() {
        let now = Instant::now();
        let [first, longest] = BACKOFF;
        let mut retries = Retries::new();
        assert!(retries.is_due(&"a", now));
        retries.record("a", false, now);
        assert!(!retries.is_due(&"a", now) && retries.is_due(&"b", now));
        assert_eq!(retries.next(), Some(now + first));
        assert!(retries.is_due(&"a", now + first));
        retries.record("a", false, now);
        assert_eq!(retries.next(), Some(now + first * 2));
        retries.record("b", false, now);
        assert_eq!(retries.next(), Some(now + first));
        retries.retain(|target| *target == "a");
        for _ in 0..20 {
            retries.record("a", false, now);
        }
        assert_eq!(retries.next(), Some(now + longest));
        retries.record("a", true, now);
        assert_eq!((retries.next(), retries.failed().count()), (None, 0));
    }
}
