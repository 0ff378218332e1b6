//! Exponential back-off.

use std::time::Duration;

/// Pauses between attempts: each is twice as long as the one before, up to a bound.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    next: Duration,
    longest: Duration,
}

impl Backoff {
    /// Starts at the first of these, and never exceeds the second.
    pub const fn new([shortest, longest]: [Duration; 2]) -> Self {
        Self { next: shortest, longest }
    }

    /// The pause after one more failure.
    pub fn pause(&mut self) -> Duration {
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
