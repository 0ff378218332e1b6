//! Policies that keep using up their time.
//!
//! A policy whose evaluations take long and then run out of time, steps or bytes again and again takes the time of all others. It is
//! demoted: for a while its evaluations get a small share of their time, after which they end
//! undecided, as any evaluation that runs out of time. Then one evaluation with all of the time is
//! a trial: if it runs out again, the policy is demoted at once, and for twice as long.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use modgate_value::Limits;

/// So many evaluations within [`WINDOW`] that run out of their budget, late, demote a policy.
const STRIKES: u32 = 3;
const WINDOW: Duration = Duration::from_secs(60);
/// How long a policy is demoted for the first time; it doubles each time, [`DOUBLINGS`] times.
const FIRST: Duration = Duration::from_secs(30);
const DOUBLINGS: u32 = 4;
/// After so long without being demoted again, the next time is the first.
const FORGOTTEN: Duration = Duration::from_secs(600);
/// Of its time limit, a demoted policy gets one part of so many.
const SHARE: u32 = 20;
/// Less than this part of the time limit says nothing about a policy: there was no more left of the
/// time of its request.
const LEAST: u32 = 4;

/// How one policy has used its time; clones are of the same policy.
#[derive(Debug, Clone, Default)]
pub(crate) struct Conduct(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    demoted: AtomicBool,
    /// None for most policies.
    record: OnceLock<Box<Mutex<Record>>>,
}

#[derive(Debug, Default)]
struct Record {
    strikes: u32,
    /// The first of these strikes.
    first: Duration,
    /// When it is on trial.
    until: Duration,
    /// How often it was demoted.
    times: u32,
}

impl Conduct {
    /// The budget of the next evaluation. `uptime` is a clock that all evaluations share.
    #[inline]
    pub(crate) fn limits(&self, limits: Limits, uptime: impl FnOnce() -> Duration) -> Limits {
        if !self.is_demoted() {
            return limits;
        }
        let mut record = self.record();
        let now = uptime();
        if now < record.until {
            return Limits { time: limits.time / SHARE, ..limits };
        }
        record.strikes = STRIKES - 1;
        record.first = now;
        self.0.demoted.store(false, Ordering::Relaxed);
        limits
    }

    /// An evaluation has taken this time, and `ran_out` says whether its budget ended it.
    #[inline]
    pub(crate) fn ended(
        &self,
        limits: Limits,
        took: Duration,
        ran_out: impl FnOnce() -> bool,
        uptime: impl FnOnce() -> Duration,
    ) {
        if took < limits.time / LEAST || self.is_demoted() || !ran_out() {
            return;
        }
        let mut record = self.record();
        let now = uptime();
        if now.saturating_sub(record.first) > WINDOW {
            record.strikes = 0;
            record.first = now;
        }
        record.strikes += 1;
        if record.strikes < STRIKES {
            return;
        }
        if now.saturating_sub(record.until) > FORGOTTEN {
            record.times = 0;
        }
        record.until = now + FIRST * (1 << record.times.min(DOUBLINGS));
        record.times += 1;
        record.strikes = 0;
        self.0.demoted.store(true, Ordering::Relaxed);
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        let record = self.0.record.get_or_init(Box::default);
        record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_demoted(&self) -> bool {
        self.0.demoted.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const LIMITS: Limits = Limits { steps: 1, bytes: 1, time: Duration::from_secs(2) };

    /// The budget of one evaluation that began at `at` and used all of it.
    fn run_out(conduct: &Conduct, at: Duration) -> Duration {
        let granted = conduct.limits(LIMITS, || at).time;
        conduct.ended(LIMITS, granted, || true, || at + granted);
        granted
    }

    #[test]
    fn three_strikes_within_a_minute_demote() {
        let conduct = Conduct::default();
        for at in [0, 10, 70, 80] {
            assert_eq!(run_out(&conduct, SECOND * at), LIMITS.time, "{at}");
            assert!(!conduct.is_demoted(), "{at}");
        }
        run_out(&conduct, SECOND * 90);
        assert!(conduct.is_demoted());
        assert_eq!(run_out(&conduct, SECOND * 91), LIMITS.time / SHARE);
    }

    #[test]
    fn a_trial_that_fails_demotes_for_longer_and_one_that_succeeds_ends_it() {
        let conduct = Conduct::default();
        for at in 0..3 {
            run_out(&conduct, SECOND * at);
        }
        // Demoted at 4 s, when the third evaluation had run out.
        let mut trial = SECOND * 4 + FIRST;
        for doubled in [2, 4, 8, 16, 16] {
            assert_eq!(run_out(&conduct, trial - SECOND), LIMITS.time / SHARE);
            assert_eq!(run_out(&conduct, trial), LIMITS.time, "the trial");
            assert!(conduct.is_demoted());
            trial += LIMITS.time + FIRST * doubled;
        }
        assert_eq!(conduct.limits(LIMITS, || trial), LIMITS);
        conduct.ended(LIMITS, SECOND, || false, || trial);
        assert!(!conduct.is_demoted());
        let later = trial + WINDOW + SECOND;
        for _ in 1..STRIKES {
            assert_eq!(run_out(&conduct, later), LIMITS.time);
            assert!(!conduct.is_demoted(), "the trial is forgotten");
        }
    }

    #[test]
    fn an_evaluation_that_had_little_time_left_says_nothing() {
        let conduct = Conduct::default();
        for at in 0..10 {
            let took = LIMITS.time / LEAST - Duration::from_millis(1);
            conduct.ended(LIMITS, took, || true, || SECOND * at);
            conduct.ended(LIMITS, LIMITS.time, || false, || SECOND * at);
        }
        assert!(!conduct.is_demoted());
    }
}
