//! When to try again what failed, and when to put back what another writer changes. No IO here.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use modgate_http::Backoff;

/// Attempts that failed, by target `T`, and when each may be repeated. An attempt at another value `W`
/// is a new one.
#[derive(Debug)]
pub(crate) struct Retries<T, W = ()> {
    pauses: [Duration; 2],
    failures: BTreeMap<T, FailedAttempt<W>>,
}

/// An attempt that failed.
#[derive(Debug)]
pub(crate) struct FailedAttempt<W> {
    wanted: W,
    /// Why.
    pub(crate) reason: String,
    backoff: Backoff,
    /// When it may be repeated; never, if the same would be refused again.
    pub(crate) next: Option<Instant>,
}

impl<T: Ord, W: PartialEq> Retries<T, W> {
    /// Nothing has failed. Pauses double from the first of these to the second.
    pub(crate) const fn new(pauses: [Duration; 2]) -> Self {
        Self { pauses, failures: BTreeMap::new() }
    }

    /// Notes a success.
    pub(crate) fn succeeded(&mut self, target: &T) {
        self.failures.remove(target);
    }

    /// Notes a failure; returns when to try again.
    pub(crate) fn failed(&mut self, target: T, wanted: W, reason: String, now: Instant) -> Instant {
        let before = self.failures.remove(&target).filter(|before| before.wanted == wanted);
        let mut backoff = before.map_or(Backoff::new(self.pauses), |before| before.backoff);
        let next = now + backoff.pause();
        self.failures.insert(target, FailedAttempt { wanted, reason, backoff, next: Some(next) });
        next
    }

    /// Notes that trying the same again is of no use.
    pub(crate) fn refused(&mut self, target: T, wanted: W, reason: String) {
        let backoff = Backoff::new(self.pauses);
        self.failures.insert(target, FailedAttempt { wanted, reason, backoff, next: None });
    }

    /// The failure for which this must not be tried yet.
    pub(crate) fn pending(
        &self,
        target: &T,
        wanted: &W,
        now: Instant,
    ) -> Option<&FailedAttempt<W>> {
        let rests = |failure: &&FailedAttempt<W>| failure.next.is_none_or(|next| next > now);
        self.failures.get(target).filter(|it| it.wanted == *wanted).filter(rests)
    }

    /// Forgets the failures of other targets, and at other values than these.
    pub(crate) fn retain(&mut self, keep: impl Fn(&T, &W) -> bool) {
        self.failures.retain(|target, failure| keep(target, &failure.wanted));
    }

    /// When the next attempt may be repeated.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.failures.values().filter_map(|failure| failure.next).min()
    }

    /// The targets of the attempts that failed.
    pub(crate) fn targets(&self) -> impl Iterator<Item = &T> {
        self.failures.keys()
    }
}

/// How long to leave an object as another writer made it, at first and at most. After repeated conflicts
/// the pauses are long, so that two controllers do not fight.
const CONTENTION: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(600)];

/// The back-off for an object that another writer keeps changing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ContentionBackoff {
    backoff: Backoff,
    /// When it was last put back, and until when not to do so again.
    last: Option<(Instant, Instant)>,
}

impl Default for ContentionBackoff {
    fn default() -> Self {
        Self { backoff: Backoff::new(CONTENTION), last: None }
    }
}

impl ContentionBackoff {
    /// Until when the change stays; `None` if nothing was put back yet.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.last.map(|(_, until)| until)
    }

    /// Notes that the object was put back.
    pub(crate) fn record(&mut self, now: Instant) {
        let [_, longest] = CONTENTION;
        if self.last.is_some_and(|(last, _)| now > last + 2 * longest) {
            self.backoff = Backoff::new(CONTENTION);
        }
        self.last = Some((now, now + self.backoff.pause()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSES: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(60)];

    #[test]
    fn failures_rest_longer_each_time() {
        let now = Instant::now();
        let [first, longest] = PAUSES;
        let mut retries = Retries::new(PAUSES);
        let is_due = |retries: &Retries<&str, u8>, target, wanted, now| {
            retries.pending(&target, &wanted, now).is_none()
        };
        let fail = |retries: &mut Retries<&str, u8>, target, wanted| {
            retries.failed(target, wanted, "why".to_owned(), now)
        };
        assert!(is_due(&retries, "a", 1, now));
        assert_eq!(fail(&mut retries, "a", 1), now + first);
        assert!(!is_due(&retries, "a", 1, now) && is_due(&retries, "b", 1, now));
        assert!(is_due(&retries, "a", 2, now), "another value");
        assert_eq!(retries.pending(&"a", &1, now).expect("it failed").reason, "why");
        assert!(is_due(&retries, "a", 1, now + first));
        assert_eq!(fail(&mut retries, "a", 1), now + first * 2);
        assert_eq!(fail(&mut retries, "a", 2), now + first, "another value");
        fail(&mut retries, "b", 1);
        retries.retain(|target, _| *target == "a");
        for _ in 0..20 {
            fail(&mut retries, "a", 2);
        }
        assert_eq!(retries.next(), Some(now + longest));
        retries.succeeded(&"a");
        assert_eq!((retries.next(), retries.targets().count()), (None, 0));
        retries.refused("a", 1, "no".to_owned());
        assert!(!is_due(&retries, "a", 1, now + longest) && retries.next().is_none());
    }

    #[test]
    fn pauses_grow_while_another_writer_goes_on() {
        let mut now = Instant::now();
        let mut backoff = ContentionBackoff::default();
        assert_eq!(backoff.until(), None);
        let mut waits = vec![0];
        backoff.record(now);
        for _ in 0..12 {
            let until = backoff.until().expect("a pause");
            waits.push((until - now).as_secs());
            now = until;
            backoff.record(now);
        }
        assert_eq!(waits, [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]);
        let later = now + Duration::from_secs(1300);
        backoff.record(later);
        let until = backoff.until().expect("a pause");
        assert_eq!((until - later).as_secs(), 1, "it was quiet for long");
    }
}
