//! The written objects, the next writes, and the times of retries. No IO here.

use std::{collections::BTreeMap, time::Instant};

use modgate_value::Value;

use super::BACKOFF;
use crate::retry::Retries;

/// The treatment of a written object that is no longer wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unwanted {
    /// It is deleted.
    Delete,
    /// It is gone by itself.
    Forget,
}

/// How a write ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Written {
    /// The cluster has it.
    Done,
    /// It may work later. Why it did not.
    Failed(String),
    /// It will not work for as long as the same is to be written. Why.
    Refused(String),
}

/// The cluster's objects with the names `T`, as far as this process knows: only what differs
/// from it is written.
#[derive(Debug)]
pub(crate) struct Ledger<T> {
    written: BTreeMap<T, Value>,
    /// By what could not be written; none for a deletion.
    failures: Retries<T, Option<Value>>,
    unwanted: Unwanted,
    /// The cluster's state where nothing was ever written.
    nothing: Value,
}

impl<T: Ord + Clone> Ledger<T> {
    /// Nothing is written. `nothing` is what the cluster has then, and is not worth a write.
    pub(crate) fn new(unwanted: Unwanted, nothing: Value) -> Self {
        Self { written: BTreeMap::new(), failures: Retries::new(BACKOFF), unwanted, nothing }
    }

    /// The cluster's state.
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
        self.failures.retain(|target, _: &Option<Value>| !is_gone(target));
    }

    /// The differences to the cluster's state that may be written now; none is a deletion.
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
        self.failures.retain(|target, failed| wanted.get(target) == failed.as_ref());
        let is_due = |(target, value): &(T, Option<Value>)| {
            self.failures.pending(target, value, now).is_none()
        };
        differing.into_iter().filter(is_due).collect()
    }

    /// Notes how a write ended.
    pub(crate) fn record(
        &mut self,
        target: T,
        wanted: Option<Value>,
        outcome: Written,
        now: Instant,
    ) {
        match outcome {
            Written::Done => {
                self.failures.succeeded(&target);
                match wanted {
                    Some(value) => drop(self.written.insert(target, value)),
                    None => drop(self.written.remove(&target)),
                }
            }
            Written::Failed(reason) => {
                self.failures.failed(target, wanted, reason, now);
            }
            Written::Refused(reason) => self.failures.refused(target, wanted, reason),
        }
    }

    /// When something that failed may be tried again.
    pub(crate) fn next_try(&self) -> Option<Instant> {
        self.failures.next()
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
        let failed = || Written::Failed("why".to_owned());
        ledger.record("a", Some(1.into()), failed(), now);
        ledger.record("b", Some(1.into()), Written::Refused("why".to_owned()), now);
        assert_eq!(shown(&ledger.due(&want, now)), [""; 0]);
        let next = ledger.next_try().expect("a");
        assert_eq!(next, now + BACKOFF[0]);
        assert_eq!(shown(&ledger.due(&want, next)), ["a=1"]);
        ledger.record("a", Some(1.into()), failed(), next);
        assert_eq!(ledger.next_try(), Some(next + BACKOFF[0] * 2));
        let changed = wanted(&[("a", 1), ("b", 2)]);
        assert_eq!(shown(&ledger.due(&changed, now)), ["b=2"], "another value");
        for _ in 0..20 {
            ledger.record("a", Some(1.into()), failed(), now);
        }
        assert_eq!(ledger.next_try(), Some(now + BACKOFF[1]));
    }

    #[test]
    fn what_is_gone_by_itself_is_forgotten() {
        let now = Instant::now();
        let nothing = Value::from(0);
        let mut ledger = Ledger::new(Unwanted::Forget, nothing);
        ledger.found("a", 1.into());
        ledger.record("b", Some(1.into()), Written::Failed("why".to_owned()), now);
        assert_eq!(shown(&ledger.due(&wanted(&[("c", 0)]), now)), [""; 0]);
        assert_eq!(ledger.next_try(), None);
        assert_eq!(ledger.get(&"a"), &Value::from(0));
    }
}
