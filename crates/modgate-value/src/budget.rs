//! Budgets: the steps, bytes and wall time that an evaluation may spend.
//!
//! Every evaluator charges its [`Budget`] as it goes and stops with [`Exhausted`], an ordinary
//! error value, when the limit is reached. One budget covers a whole request; [`Budget::child`]
//! carves a smaller one out of it for a single policy, and what the child spends the parent has
//! spent too.

use std::{cell::Cell, time::Duration};

/// A monotonic clock, handed in by the edge so that evaluation itself reads no time and tests can
/// spend it.
pub trait Clock {
    /// Time passed since some fixed origin.
    fn now(&self) -> Duration;
}

/// A clock that stands still: budgets over it limit steps and bytes only.
#[derive(Debug, Clone, Copy, Default)]
pub struct Frozen;

impl Clock for Frozen {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

/// The ceilings of one [`Budget`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Elementary operations: a node visited, an instruction run, a character matched.
    pub steps: u64,
    /// Bytes of text or values that may be built, counted when built and not given back.
    pub bytes: u64,
    /// Wall time from the moment the budget is made.
    pub time: Duration,
}

impl Limits {
    /// No limit at all; for tests and for tools that run a person's own input.
    pub const UNLIMITED: Self = Self { steps: u64::MAX, bytes: u64::MAX, time: Duration::MAX };
}

/// Which ceiling was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Exhausted {
    /// More steps than [`Limits::steps`].
    #[error("evaluation exceeded its budget of {limit} steps")]
    Steps {
        /// The ceiling.
        limit: u64,
    },
    /// More bytes than [`Limits::bytes`].
    #[error("evaluation exceeded its budget of {limit} bytes")]
    Bytes {
        /// The ceiling.
        limit: u64,
    },
    /// Longer than [`Limits::time`].
    #[error("evaluation exceeded its time budget of {} ms", limit.as_millis())]
    Time {
        /// The ceiling.
        limit: Duration,
    },
}

/// How many steps pass between two looks at the clock; a power of two.
const STEPS_PER_TIME_CHECK: u64 = 1 << 12;

/// How many bytes pass between two looks at the clock; a power of two. Copying them takes about a millisecond.
const BYTES_PER_TIME_CHECK: u64 = 1 << 20;

/// Whether what is left before and after is in the same part of this size. Limits are whole numbers of parts, mostly: the
/// first charge does not begin another one.
#[inline]
fn is_one_part(before: u64, after: u64, size: u64) -> bool {
    before.wrapping_sub(1) / size == after.wrapping_sub(1) / size
}

/// A running account against [`Limits`], used by one thread.
///
/// Methods take `&self`, so that one budget can be lent to nested evaluations without threading a
/// mutable borrow through them.
pub struct Budget<'a> {
    limits: Limits,
    steps_left: Cell<u64>,
    bytes_left: Cell<u64>,
    clock: &'a dyn Clock,
    deadline: Duration,
    parent: Option<&'a Budget<'a>>,
    /// The steps and bytes that the parent has been charged for.
    settled: Cell<(u64, u64)>,
    /// Bytes that were given back.
    released: Cell<u64>,
    ran_out: Cell<bool>,
}

impl<'a> Budget<'a> {
    /// A fresh account; the time limit counts from now.
    pub fn new(limits: Limits, clock: &'a dyn Clock) -> Self {
        Self {
            limits,
            steps_left: Cell::new(limits.steps),
            bytes_left: Cell::new(limits.bytes),
            clock,
            deadline: clock.now().saturating_add(limits.time),
            parent: None,
            settled: Cell::default(),
            released: Cell::default(),
            ran_out: Cell::default(),
        }
    }

    /// An account without limits.
    pub fn unlimited() -> Budget<'static> {
        Budget::new(Limits::UNLIMITED, &Frozen)
    }

    /// A smaller account whose spending also counts here, once the child is dropped.
    ///
    /// The child can never spend more than its parent has left.
    pub fn child(&'a self, limits: Limits) -> Budget<'a> {
        self.child_since(limits, self.clock.now())
    }

    /// As [`Budget::child`], with a time limit that counts from `now`, a moment of the same clock:
    /// for those who have looked at it already.
    pub fn child_since(&'a self, limits: Limits, now: Duration) -> Budget<'a> {
        let granted = Limits {
            steps: limits.steps.min(self.steps_left.get()),
            bytes: limits.bytes.min(self.bytes_left.get()),
            time: limits.time.min(self.deadline.saturating_sub(now)),
        };
        Budget {
            limits: granted,
            steps_left: Cell::new(granted.steps),
            bytes_left: Cell::new(granted.bytes),
            clock: self.clock,
            deadline: now.saturating_add(granted.time),
            parent: Some(self),
            settled: Cell::default(),
            released: Cell::default(),
            ran_out: Cell::default(),
        }
    }

    /// Charges `steps` elementary operations.
    ///
    /// # Errors
    ///
    /// [`Exhausted::Steps`] when fewer are left, [`Exhausted::Time`] when the deadline has passed
    /// (looked at every few thousand steps).
    #[inline]
    pub fn spend(&self, steps: u64) -> Result<(), Exhausted> {
        let left = self.steps_left.get();
        let Some(rest) = left.checked_sub(steps) else {
            self.steps_left.set(0);
            return Err(self.exhausted(Exhausted::Steps { limit: self.limits.steps }));
        };
        self.steps_left.set(rest);
        if is_one_part(left, rest, STEPS_PER_TIME_CHECK) {
            return Ok(());
        }
        self.check_time()
    }

    /// Charges `bytes` of text or values about to be built.
    ///
    /// # Errors
    ///
    /// [`Exhausted::Bytes`] when fewer are left, [`Exhausted::Time`] when the deadline has passed (looked at
    /// once in a mebibyte).
    #[inline]
    pub fn allocate(&self, bytes: usize) -> Result<(), Exhausted> {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let left = self.bytes_left.get();
        let Some(rest) = left.checked_sub(bytes) else {
            self.bytes_left.set(0);
            return Err(self.exhausted(Exhausted::Bytes { limit: self.limits.bytes }));
        };
        self.bytes_left.set(rest);
        if is_one_part(left, rest, BYTES_PER_TIME_CHECK) {
            return Ok(());
        }
        self.check_time()
    }

    /// Charges at once for work that need not be done again: whether enough is left of everything. If not, nothing is
    /// charged. The work also took `released` bytes for a time, which must be left, too.
    pub fn pay(&self, steps: u64, bytes: u64, released: u64) -> bool {
        let (before, held) = (self.steps_left.get(), self.bytes_left.get());
        let (Some(left), Some(room)) = (before.checked_sub(steps), held.checked_sub(bytes)) else {
            return false;
        };
        if room < released {
            return false;
        }
        let is_unseen = is_one_part(before, left, STEPS_PER_TIME_CHECK)
            && is_one_part(held, room, BYTES_PER_TIME_CHECK);
        if !is_unseen && self.check_time().is_err() {
            return false;
        }
        self.steps_left.set(left);
        self.bytes_left.set(room);
        self.released.set(self.released.get().saturating_add(released));
        true
    }

    /// Charges `more` bytes that are about to be appended to a buffer of `length` bytes and this capacity.
    /// Returns for how many bytes to reserve room exactly, 0 if there is room: a buffer that grows doubles, but
    /// for no more than may still be charged, so that it and its copy while it grows take at most twice the
    /// limit.
    ///
    /// # Errors
    ///
    /// As [`Budget::allocate`].
    pub fn append(&self, length: usize, capacity: usize, more: usize) -> Result<usize, Exhausted> {
        self.allocate(more)?;
        let needed = length.saturating_add(more);
        if needed <= capacity {
            return Ok(0);
        }
        let most = needed.saturating_add(usize::try_from(self.bytes_left()).unwrap_or(usize::MAX));
        Ok(capacity.saturating_mul(2).clamp(needed, most) - length)
    }

    /// Charges for work that need not be done again and took `released` bytes more for a time.
    ///
    /// # Errors
    ///
    /// As [`Budget::allocate`].
    pub fn allocate_again(&self, bytes: u64, released: u64) -> Result<(), Exhausted> {
        let size = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
        self.allocate(size(bytes.saturating_add(released)))?;
        if released > 0 {
            self.release(size(released));
        }
        Ok(())
    }

    /// Gives back `bytes` that were charged and are free again.
    pub fn release(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.bytes_left.set(self.bytes_left.get().saturating_add(bytes).min(self.limits.bytes));
        self.released.set(self.released.get().saturating_add(bytes));
    }

    /// Looks at the clock now, for work that takes long without taking steps.
    ///
    /// # Errors
    ///
    /// [`Exhausted::Time`] when the deadline has passed.
    pub fn check_time(&self) -> Result<(), Exhausted> {
        if self.limits.time != Duration::MAX && self.clock.now() > self.deadline {
            return Err(self.exhausted(Exhausted::Time { limit: self.limits.time }));
        }
        Ok(())
    }

    /// Looks at the clock before work that cannot be interrupted and takes about as long as `needed`.
    ///
    /// # Errors
    ///
    /// [`Exhausted::Time`] when less time is left.
    pub fn check_time_for(&self, needed: Duration) -> Result<(), Exhausted> {
        let ends = || self.clock.now().saturating_add(needed);
        if self.limits.time != Duration::MAX && ends() > self.deadline {
            return Err(self.exhausted(Exhausted::Time { limit: self.limits.time }));
        }
        Ok(())
    }

    /// Charges the parent for what was spent until now, rather than when this is dropped.
    pub fn settle(&self) {
        let Some(parent) = self.parent else { return };
        let spent = (self.steps_spent(), self.bytes_spent());
        let settled = self.settled.replace(spent);
        // What was given back in between is settled by what is spent next.
        let more = (spent.0.saturating_sub(settled.0), spent.1.saturating_sub(settled.1));
        parent.steps_left.set(parent.steps_left.get().saturating_sub(more.0));
        parent.bytes_left.set(parent.bytes_left.get().saturating_sub(more.1));
    }

    /// Gives everything back that was spent, for an evaluation that ran out of steps or bytes and begins again. The limit
    /// of its time stays: returns whether there is any left. Nothing may have been [settled](Self::settle) before.
    #[must_use]
    pub fn restart(&self) -> bool {
        if self.check_time().is_err() {
            return false;
        }
        self.steps_left.set(self.limits.steps);
        self.bytes_left.set(self.limits.bytes);
        self.released.set(0);
        self.ran_out.set(false);
        true
    }

    /// Whether anything was refused because of it.
    pub fn ran_out(&self) -> bool {
        self.ran_out.get()
    }

    #[cold]
    fn exhausted(&self, ceiling: Exhausted) -> Exhausted {
        self.ran_out.set(true);
        ceiling
    }

    /// The time on its clock.
    pub fn now(&self) -> Duration {
        self.clock.now()
    }

    /// Steps charged so far.
    pub fn steps_spent(&self) -> u64 {
        self.limits.steps - self.steps_left.get()
    }

    /// Steps that may still be charged.
    pub fn steps_left(&self) -> u64 {
        self.steps_left.get()
    }

    /// Bytes that may still be charged.
    pub fn bytes_left(&self) -> u64 {
        self.bytes_left.get()
    }

    /// Bytes charged so far.
    pub fn bytes_spent(&self) -> u64 {
        self.limits.bytes - self.bytes_left.get()
    }

    /// Bytes given back so far. Work may end for want of bytes that it would have given back.
    pub fn bytes_released(&self) -> u64 {
        self.released.get()
    }
}

impl Drop for Budget<'_> {
    fn drop(&mut self) {
        self.settle();
    }
}

impl std::fmt::Debug for Budget<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Budget")
            .field("limits", &self.limits)
            .field("steps_left", &self.steps_left.get())
            .field("bytes_left", &self.bytes_left.get())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Hand(Cell<u64>);

    impl Clock for Hand {
        fn now(&self) -> Duration {
            Duration::from_millis(self.0.get())
        }
    }

    const LIMITS: Limits = Limits { steps: 10_000, bytes: 100, time: Duration::from_millis(5) };

    #[test]
    fn steps_and_bytes_run_out() {
        let budget = Budget::new(LIMITS, &Frozen);
        assert_eq!(budget.spend(9_999), Ok(()));
        assert_eq!(budget.spend(1), Ok(()));
        assert_eq!(budget.spend(1), Err(Exhausted::Steps { limit: 10_000 }));
        assert_eq!(budget.allocate(100), Ok(()));
        assert_eq!(budget.allocate(1), Err(Exhausted::Bytes { limit: 100 }));
    }

    #[test]
    fn time_is_seen_between_steps() {
        let clock = Hand(Cell::new(0));
        let budget = Budget::new(LIMITS, &clock);
        clock.0.set(6);
        let first_error = (0..LIMITS.steps).find_map(|_| budget.spend(1).err());
        assert_eq!(first_error, Some(Exhausted::Time { limit: LIMITS.time }));
    }

    #[test]
    fn all_is_paid_or_nothing() {
        let clock = Hand(Cell::new(0));
        let budget = Budget::new(LIMITS, &clock);
        assert!(budget.pay(9_000, 90, 10) && !budget.pay(1_001, 0, 0) && !budget.pay(0, 11, 0));
        assert!(!budget.pay(0, 1, 10) && !budget.pay(0, 0, 11));
        assert!(!budget.ran_out());
        assert_eq!((budget.steps_spent(), budget.bytes_spent()), (9_000, 90));
        clock.0.set(6);
        let late = Budget::new(LIMITS, &clock);
        clock.0.set(12);
        assert!(!late.pay(9_000, 0, 0) && late.pay(1, 1, 0) && late.ran_out());
        assert_eq!(late.steps_spent(), 1);
    }

    #[test]
    fn what_ran_out_begins_again_unless_its_time_is_over() {
        let clock = Hand(Cell::new(0));
        let parent = Budget::new(Limits::UNLIMITED, &clock);
        let budget = parent.child(LIMITS);
        assert!(budget.spend(9_999).is_ok() && budget.allocate(101).is_err() && budget.ran_out());
        budget.release(50);
        assert!(budget.restart() && !budget.ran_out());
        let spent = (budget.steps_spent(), budget.bytes_spent(), budget.bytes_released());
        assert_eq!(spent, (0, 0, 0));
        assert!(budget.spend(10_000).is_ok() && budget.spend(1).is_err());
        clock.0.set(6);
        assert!(!budget.restart() && budget.ran_out());
        drop(budget);
        assert_eq!((parent.steps_spent(), parent.bytes_spent()), (10_000, 0));
    }

    #[test]
    fn time_is_seen_between_bytes() {
        let clock = Hand(Cell::new(0));
        let budget = Budget::new(Limits { bytes: 8 << 20, ..LIMITS }, &clock);
        clock.0.set(6);
        let first_error = (0..32).find_map(|_| budget.allocate(64 << 10).err());
        assert_eq!(first_error, Some(Exhausted::Time { limit: LIMITS.time }));
    }

    #[test]
    fn the_first_bytes_of_a_limit_do_not_look_at_the_clock() {
        struct Looks(Cell<u32>);
        impl Clock for Looks {
            fn now(&self) -> Duration {
                self.0.set(self.0.get() + 1);
                Duration::ZERO
            }
        }
        let looks = Looks(Cell::new(0));
        let budget = Budget::new(Limits { bytes: 8 << 20, ..LIMITS }, &looks);
        let before = looks.0.get();
        assert_eq!(budget.allocate(100), Ok(()));
        assert!(budget.pay(1, 100, 0));
        assert_eq!(looks.0.get(), before);
        assert_eq!(budget.allocate(1 << 20), Ok(()));
        assert_eq!(looks.0.get(), before + 1);
    }

    #[test]
    fn a_buffer_and_its_copy_take_at_most_twice_the_limit() {
        for piece in [1, 7, 60] {
            let budget = Budget::new(LIMITS, &Frozen);
            let (mut length, mut capacity) = (0, 0);
            while let Ok(reserve) = budget.append(length, capacity, piece) {
                if reserve > 0 {
                    assert!(capacity + length + reserve <= 200, "{capacity} {length} {reserve}");
                    capacity = length + reserve;
                }
                length += piece;
                assert!(length <= capacity);
            }
            assert!(length <= 100 && length + piece > 100, "{length}");
        }
    }

    #[test]
    fn a_child_spends_for_its_parent() {
        let parent = Budget::new(LIMITS, &Frozen);
        {
            let child = parent.child(Limits { steps: 50, ..Limits::UNLIMITED });
            assert_eq!(child.spend(50), Ok(()));
            assert_eq!(child.spend(1), Err(Exhausted::Steps { limit: 50 }));
        }
        assert_eq!(parent.steps_spent(), 50);
        let greedy = parent.child(Limits::UNLIMITED);
        assert_eq!(greedy.spend(9_951), Err(Exhausted::Steps { limit: 9_950 }));
    }
}
