//! What was written to the cluster, what is to be written next, and when to try again. No IO here.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use modgate_http::Backoff;
use modgate_value::Value;

/// How long to wait after a write failed, at first and at most.
const BACKOFF: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(60)];

/// What becomes of something written that nobody wants any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unwanted {
    /// It is deleted.
    Delete,
    /// It is gone by itself.
    Forget,
}

/// How a write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// The cluster has it.
    Done,
    /// It may work later.
    Failed,
    /// It will not work for as long as the same is to be written.
    Refused,
}

/// What the cluster has of the things called `T`, as far as this process knows: only what differs
/// from it is written.
#[derive(Debug)]
pub(crate) struct Ledger<T> {
    written: BTreeMap<T, Value>,
    failures: BTreeMap<T, Failure>,
    unwanted: Unwanted,
    /// What the cluster has where nothing was ever written.
    nothing: Value,
}

#[derive(Debug)]
struct Failure {
    /// What could not be written; none for a deletion.
    wanted: Option<Value>,
    backoff: Backoff,
    /// When to try again; never, for a write that was refused.
    next: Option<Instant>,
}

impl<T: Ord + Clone> Ledger<T> {
    /// Nothing is written. `nothing` is what the cluster has then, and is not worth a write.
    pub(crate) fn new(unwanted: Unwanted, nothing: Value) -> Self {
        Self { written: BTreeMap::new(), failures: BTreeMap::new(), unwanted, nothing }
    }

    /// What the cluster has.
    pub(crate) fn get(&self, target: &T) -> &Value {
        self.written.get(target).unwrap_or(&self.nothing)
    }

    /// Notes what the cluster has, read from it.
    pub(crate) fn found(&mut self, target: T, value: Value) {
        self.written.insert(target, value);
    }

    /// Forgets all that is known of some targets.
    pub(crate) fn forget(&mut self, is_gone: impl Fn(&T) -> bool) {
        self.written.retain(|target, _| !is_gone(target));
        self.failures.retain(|target, _| !is_gone(target));
    }

    /// What differs from what the cluster has and may be written now; none is a deletion.
    pub(crate) fn due(
        &mut self,
        wanted: &BTreeMap<T, Value>,
        now: Instant,
    ) -> Vec<(T, Option<Value>)> {
        if self.unwanted == Unwanted::Forget {
            self.forget(|target| !wanted.contains_key(target));
        }
        let changed = wanted
            .iter()
            .filter(|(target, value)| self.get(target) != *value)
            .map(|(target, value)| (target.clone(), Some(value.clone())));
        let gone = self
            .written
            .keys()
            .filter(|target| !wanted.contains_key(*target))
            .map(|target| (target.clone(), None));
        let differing: Vec<_> = changed.chain(gone).collect();
        // What was to be written before is not any more.
        self.failures.retain(|target, failure| {
            let now_wanted = wanted.get(target);
            now_wanted == failure.wanted.as_ref()
        });
        differing
            .into_iter()
            .filter(|(target, _)| {
                let next = self.failures.get(target).map(|failure| failure.next);
                next.is_none_or(|next| next.is_some_and(|next| next <= now))
            })
            .collect()
    }

    /// Notes how a write ended.
    pub(crate) fn record(
        &mut self,
        target: T,
        wanted: Option<Value>,
        outcome: Written,
        now: Instant,
    ) {
        if outcome == Written::Done {
            self.failures.remove(&target);
            match wanted {
                Some(value) => self.written.insert(target, value),
                None => self.written.remove(&target),
            };
            return;
        }
        let before = self.failures.get(&target);
        let mut backoff = before.map_or(Backoff::new(BACKOFF), |failure| failure.backoff);
        let pause = backoff.pause();
        let next = (outcome == Written::Failed).then(|| now + pause);
        self.failures.insert(target, Failure { wanted, backoff, next });
    }

    /// When something that failed may be tried again.
    pub(crate) fn next_try(&self) -> Option<Instant> {
        self.failures.values().filter_map(|failure| failure.next).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(pairs: &[(&'static str, i64)]) -> BTreeMap<&'static str, Value> {
        pairs.iter().map(|(name, number)| (*name, Value::from(*number))).collect()
    }

    fn shown(due: &[(&'static str, Option<Value>)]) -> Vec<String> {
        let text = |value: &Option<Value>| {
            value.as_ref().map_or_else(|| "gone".to_owned(), Value::to_json)
        };
        due.iter().map(|(name, value)| format!("{name}={}", text(value))).collect()
    }

    #[test]
    fn only_what_differs_is_written() {
        let now = Instant::now();
        let mut ledger = Ledger::new(Unwanted::Delete, Value::Null);
        ledger.found("old", 1.into());
        ledger.found("same", 2.into());
        let want = wanted(&[("new", 3), ("same", 2)]);
        let due = ledger.due(&want, now);
        assert_eq!(shown(&due), ["new=3", "old=gone"]);
        for (target, value) in due {
            ledger.record(target, value, Written::Done, now);
        }
        assert_eq!(shown(&ledger.due(&want, now)), [""; 0]);
        assert_eq!(shown(&ledger.due(&wanted(&[("new", 4)]), now)), ["new=4", "same=gone"]);
    }

    #[test]
    fn failures_are_tried_again_later_and_refusals_are_not() {
        let now = Instant::now();
        let mut ledger = Ledger::new(Unwanted::Delete, Value::Null);
        let want = wanted(&[("a", 1), ("b", 1)]);
        ledger.record("a", Some(1.into()), Written::Failed, now);
        ledger.record("b", Some(1.into()), Written::Refused, now);
        assert_eq!(shown(&ledger.due(&want, now)), [""; 0]);
        let next = ledger.next_try().expect("a");
        assert_eq!(next, now + BACKOFF[0]);
        assert_eq!(shown(&ledger.due(&want, next)), ["a=1"]);
        ledger.record("a", Some(1.into()), Written::Failed, next);
        assert_eq!(ledger.next_try(), Some(next + BACKOFF[0] * 2));
        let changed = wanted(&[("a", 1), ("b", 2)]);
        assert_eq!(shown(&ledger.due(&changed, now)), ["b=2"], "another value");
        for _ in 0..20 {
            ledger.record("a", Some(1.into()), Written::Failed, now);
        }
        assert_eq!(ledger.next_try(), Some(now + BACKOFF[1]));
    }

    #[test]
    fn what_is_gone_by_itself_is_forgotten() {
        let now = Instant::now();
        let nothing = Value::from(0);
        let mut ledger = Ledger::new(Unwanted::Forget, nothing);
        ledger.found("a", 1.into());
        ledger.record("b", Some(1.into()), Written::Failed, now);
        assert_eq!(shown(&ledger.due(&wanted(&[("c", 0)]), now)), [""; 0]);
        assert_eq!(ledger.next_try(), None);
        assert_eq!(ledger.get(&"a"), &Value::from(0));
    }
}
