//! A clock for tests of time limits, the same on every machine.

use std::{cell::Cell, time::Duration};

use modgate_value::Clock;

/// A clock that goes on by a millisecond with every reading.
#[derive(Debug, Default)]
pub struct CountingClock(Cell<u64>);

impl CountingClock {
    /// The number of readings so far.
    pub fn readings(&self) -> u64 {
        self.0.get()
    }
}

impl Clock for CountingClock {
    fn now(&self) -> Duration {
        self.0.set(self.0.get() + 1);
        Duration::from_millis(self.0.get())
    }
}
