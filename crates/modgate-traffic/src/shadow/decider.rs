//! The second decision by candidate policies.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
    time::{Duration, UNIX_EPOCH},
};

use modgate_engine::{Decision, Evaluation, Host as _, NoopObserver, Trace, constraint::Arena};
use modgate_policies::{Permit, PolicySet};
use modgate_prove::{
    difference::{Class, Difference, changing, differences},
    repeatably,
};
use tokio::time::Instant;

use super::{
    Item, PAUSE, Second, Shared,
    candidates::{Beside, Candidates},
    denial,
};

/// How much longer the thread rests than it works: it takes a quarter of one processor at most.
const REST: u32 = 3;
/// Shorter rests are put together.
const SHORTEST_REST: Duration = Duration::from_millis(5);
/// Time for one decision.
const TIME: Duration = Duration::from_secs(5);

/// Decides with candidates, one request after another.
pub(super) struct Decider {
    candidates: Arc<Candidates>,
    shared: Arc<Shared>,
    beside: Beside,
    arena: Arena,
    /// How long to rest.
    owed: Duration,
}

impl Decider {
    pub(super) fn new(candidates: Arc<Candidates>, shared: Arc<Shared>) -> Self {
        Self {
            candidates,
            shared,
            beside: Beside::default(),
            arena: Arena::new(),
            owed: Duration::ZERO,
        }
    }

    pub(super) fn run(mut self) {
        while let Some(items) = self.shared.queue.take_all(PAUSE) {
            for item in items {
                if self.shared.is_stale(&item) {
                    continue;
                }
                let begun = Instant::now();
                let decided = catch_unwind(AssertUnwindSafe(|| self.decide(&item)));
                let decided = decided.map_err(|_| {
                    self.arena = Arena::new();
                    "the evaluation panicked".to_owned()
                });
                self.shared.note(item, decided);
                self.rest(begun.elapsed());
            }
        }
    }

    /// Leaves the processor to requests, for [`REST`] times as long as decisions took.
    fn rest(&mut self, worked: Duration) {
        self.owed += worked * REST;
        if self.owed >= SHORTEST_REST {
            thread::sleep(std::mem::take(&mut self.owed));
        }
    }

    fn decide(&mut self, item: &Item) -> Second {
        let candidates = self.beside.get(&self.candidates, &item.policies);
        let until = Instant::now() + TIME;
        let host = candidates.objects.yielding(&NoPermit, until);
        let mut evaluation = Evaluation::new(&host, &candidates.inventory, &mut self.arena);
        evaluation.meter.uptime = Some(host.uptime());
        evaluation.meter.deadline = Some(host.uptime() + TIME);
        let exchange = &item.exchange;
        let (review, stages) = (&exchange.review, exchange.stages);
        let new = candidates.snapshot.decide(review, stages, &mut evaluation, &mut NoopObserver);
        let mut found = differences(&exchange.decision, &new);
        if !found.is_empty() {
            // Time and random numbers are not a difference of policies: both decide with the same.
            let now = item.at.duration_since(UNIX_EPOCH).unwrap_or_default();
            found = self.both(item, &candidates, now);
        }
        Second { allowed: new.allowed, message: denial(&new).to_owned(), differences: found }
    }

    fn both(&mut self, item: &Item, candidates: &PolicySet, now: Duration) -> Vec<Difference> {
        let mut decide = |policies: &PolicySet| -> (Decision, Trace) {
            let mut trace = Trace::default();
            let host = policies.objects.yielding(&NoPermit, Instant::now() + TIME);
            let decision = repeatably(&host, now, |host| {
                let mut evaluation = Evaluation::new(host, &policies.inventory, &mut self.arena);
                let (review, stages) = (&item.exchange.review, item.exchange.stages);
                policies.snapshot.decide(review, stages, &mut evaluation, &mut trace)
            });
            (decision, trace)
        };
        let (old, old_trace) = decide(&item.policies);
        let (new, new_trace) = decide(candidates);
        let mut found = differences(&old, &new);
        for difference in found.iter_mut().filter(|it| it.class == Class::Patches) {
            difference.policies = changing(&old_trace, &new_trace);
        }
        found
    }
}

/// This thread has no permit to give back.
#[derive(Debug)]
struct NoPermit;

impl Permit for NoPermit {
    fn pause(&self, _: Instant, wait: &mut dyn FnMut()) {
        wait();
    }
}
