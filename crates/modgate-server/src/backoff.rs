//! How long to wait after failures in a row.

use std::time::Duration;

/// Twice as long each time, up to a bound.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backoff {
    next: Duration,
    longest: Duration,
}

impl Backoff {
    pub(crate) const fn new([shortest, longest]: [Duration; 2]) -> Self {
        Self { next: shortest, longest }
    }

    /// How long to wait after one more failure.
    pub(crate) fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = self.longest.min(pause.saturating_mul(2));
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_its_bound() {
        let mut backoff = Backoff::new([1, 5].map(Duration::from_secs));
        let pauses: Vec<u64> = (0..5).map(|_| backoff.pause().as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 5, 5]);
    }
}
