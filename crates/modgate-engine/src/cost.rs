//! The cost of policies, counted as they are evaluated.
//!
//! Counting must not slow down what it counts, so each policy keeps its own counters and nothing is
//! looked up; threads that work at the same time use different [shards](Meter::shard) of them;
//! and one look at the clock ends one policy's time and begins the next one's.

mod conduct;
mod statistics;

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use modgate_value::{Budget, Clock, Limits};

use self::conduct::Conduct;
pub use self::statistics::{Evaluated, Figures, Statistics};
use crate::PolicyId;

/// The time and steps of evaluations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// How many there were.
    pub evaluations: u64,
    /// Wall time, matching included.
    pub time: Duration,
    /// Steps, as budgets count them.
    pub steps: u64,
    /// Bytes of what was built, as budgets count them.
    pub bytes: u64,
}

impl Cost {
    /// One evaluation, by what it spent.
    #[inline]
    pub(crate) fn of(budget: &Budget<'_>, time: Duration) -> Self {
        Self { evaluations: 1, time, steps: budget.steps_spent(), bytes: budget.bytes_spent() }
    }

    /// The difference to `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            evaluations: self.evaluations.saturating_sub(before.evaluations),
            time: self.time.saturating_sub(before.time),
            steps: self.steps.saturating_sub(before.steps),
            bytes: self.bytes.saturating_sub(before.bytes),
        }
    }
}

/// The cost of a policy since it was compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyCost {
    /// The policy.
    pub policy: PolicyId,
    /// All its evaluations.
    pub cost: Cost,
}

/// Where the costs of a review are counted, and when the review has to end.
#[derive(Debug, Clone, Copy, Default)]
pub struct Meter<'a> {
    /// Which of a policy's counters are used: threads that work at the same time best use different
    /// ones.
    pub shard: usize,
    /// Where the costs of this review alone are kept, if they are wanted.
    pub statistics: Option<&'a Statistics>,
    /// When the review began, by `Host::uptime`. `None` where the evaluation is no reason to demote a policy and no
    /// trial of one, as in audits and for viewers of the live page; policies then have all of their time.
    pub uptime: Option<Duration>,
    /// When the answer is due, by `Host::uptime`; `None` where the caller waits as long as it takes.
    pub deadline: Option<Duration>,
}

impl Meter<'_> {
    /// Of a review that begins at `uptime`, by the clock that all reviews share.
    pub(crate) fn starting(uptime: Duration) -> Self {
        Self { uptime: Some(uptime), ..Self::default() }
    }

    /// A budget that ends before the answer is due (EV-50).
    pub(crate) fn budget<'h>(
        &self,
        limits: Limits,
        uptime: Duration,
        clock: &'h dyn Clock,
    ) -> Budget<'h> {
        let left = self.deadline.map(|deadline| deadline.saturating_sub(uptime));
        let time = left.map_or(limits.time, |left| left.min(limits.time));
        Budget::new(Limits { time, ..limits }, clock)
    }
}

/// How many threads can count at the same time without getting in each other's way.
const SHARDS: usize = 8;

/// The counters of one policy; clones count together.
#[derive(Clone, Default)]
pub(crate) struct Usage {
    /// Those that threads have counted in: most policies take part in few reviews.
    shards: Arc<OnceLock<Box<Shards>>>,
    conduct: Conduct,
}

type Shards = [OnceLock<Box<Shard>>; SHARDS];

/// On cache lines of its own.
#[derive(Default)]
#[repr(align(64))]
struct Shard {
    evaluations: AtomicU64,
    nanoseconds: AtomicU64,
    steps: AtomicU64,
    bytes: AtomicU64,
}

impl Usage {
    pub(crate) fn add(&self, shard: usize, cost: Cost) {
        let shards = self.shards.get_or_init(Box::default);
        let Some(shard) = shards.get(shard % SHARDS) else { return };
        let shard = shard.get_or_init(Box::default);
        let seconds = cost.time.as_secs().saturating_mul(1_000_000_000);
        let nanoseconds = seconds.saturating_add(u64::from(cost.time.subsec_nanos()));
        let add = |counter: &AtomicU64, more: u64| {
            if more > 0 {
                counter.fetch_add(more, Ordering::Relaxed);
            }
        };
        add(&shard.evaluations, cost.evaluations);
        add(&shard.nanoseconds, nanoseconds);
        add(&shard.steps, cost.steps);
        add(&shard.bytes, cost.bytes);
    }

    /// The budget of the next evaluation of the policy: less time while it is demoted.
    #[inline]
    pub(crate) fn limits(&self, limits: Limits, uptime: impl FnOnce() -> Duration) -> Limits {
        self.conduct.limits(limits, uptime)
    }

    /// An evaluation with these limits of the policy has ended after `took`.
    #[inline]
    pub(crate) fn ended(
        &self,
        limits: Limits,
        budget: &Budget<'_>,
        took: Duration,
        uptime: impl FnOnce() -> Duration,
    ) {
        // What would not fit any more is not begun, so that the time is not always up.
        let ran_out = || budget.ran_out() || budget.check_time().is_err();
        self.conduct.ended(limits, took, ran_out, uptime);
    }

    /// Whether the policy keeps using up its time, and gets less of it for now.
    pub(crate) fn is_demoted(&self) -> bool {
        self.conduct.is_demoted()
    }

    pub(crate) fn total(&self) -> Cost {
        let sum = |of: fn(&Shard) -> &AtomicU64| {
            self.shards
                .get()
                .into_iter()
                .flat_map(|shards| shards.iter())
                .filter_map(OnceLock::get)
                .map(|shard| of(shard).load(Ordering::Relaxed))
                .fold(0, u64::wrapping_add)
        };
        Cost {
            evaluations: sum(|shard| &shard.evaluations),
            time: Duration::from_nanos(sum(|shard| &shard.nanoseconds)),
            steps: sum(|shard| &shard.steps),
            bytes: sum(|shard| &shard.bytes),
        }
    }
}

impl fmt::Debug for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.total().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_add_up() {
        let usage = Usage::default();
        let once = Cost { evaluations: 1, time: Duration::from_micros(3), steps: 10, bytes: 100 };
        for shard in [0, 1, SHARDS, usize::MAX] {
            usage.clone().add(shard, once);
        }
        let total = Cost { evaluations: 4, time: Duration::from_micros(12), steps: 40, bytes: 400 };
        assert_eq!(usage.total(), total);
        assert_eq!(total.since(once).evaluations, 3);
        assert_eq!(once.since(total), Cost::default());
    }
}
