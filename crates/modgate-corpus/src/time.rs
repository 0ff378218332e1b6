//! Processor time, so that what tests measure does not depend on what else runs.

use std::time::Duration;

use modgate_value::{Budget, Clock, Limits};
use rustix::time::{ClockId, clock_gettime};

/// The time that [`spent`] gives.
const BUDGET: Duration = Duration::from_millis(10);

/// The processor time of the calling thread.
#[derive(Debug, Clone, Copy)]
struct ProcessorTime;

impl Clock for ProcessorTime {
    fn now(&self) -> Duration {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        // Neither part is negative.
        Duration::new(now.tv_sec.try_into().unwrap_or(0), now.tv_nsec.try_into().unwrap_or(0))
    }
}

/// Runs something with a budget of 10 ms and of these bytes, and of steps without end. Returns the processor
/// time that it took.
pub fn spent(bytes: u64, run: impl FnOnce(&Budget<'_>)) -> Duration {
    let began = ProcessorTime.now();
    let limits = Limits { steps: u64::MAX, bytes, time: BUDGET };
    run(&Budget::new(limits, &ProcessorTime));
    ProcessorTime.now().saturating_sub(began)
}

/// The most that a run of [`spent`] may take: 1.2 times its budget and 20 ms. Without optimisation the steps between
/// two looks at the clock take many times as long, so that 20 times as much is allowed.
#[must_use]
pub fn allowed() -> Duration {
    let optimised = BUDGET * 6 / 5 + Duration::from_millis(20);
    if cfg!(debug_assertions) { optimised * 20 } else { optimised }
}
