//! What somebody else keeps changing is put back, less and less often. No IO here.

use std::time::Duration;

use tokio::time::Instant;

/// How long to wait before putting back what was put back before, at first and at most. Whoever keeps
/// changing it meets less and less resistance, and is not fought.
const PAUSE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(600)];

/// How often something was put back, and when last.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ContentionBackoff {
    times: u32,
    last: Option<Instant>,
}

impl ContentionBackoff {
    /// Until when it is left as others made it; `None` if it may be put back at once.
    pub(super) fn until(&self) -> Option<Instant> {
        let [shortest, longest] = PAUSE;
        let doubled = 2_u32.saturating_pow(self.times.saturating_sub(1));
        self.last.map(|last| last + shortest.saturating_mul(doubled).min(longest))
    }

    /// Notes that it was put back.
    pub(super) fn broken(&mut self, now: Instant) {
        let [_, longest] = PAUSE;
        let is_forgotten = self.last.is_some_and(|last| now > last + 2 * longest);
        self.times = if is_forgotten { 1 } else { self.times.saturating_add(1) };
        self.last = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_change_is_put_back_less_and_less_often() {
        let mut now = Instant::now();
        let mut backoff = ContentionBackoff::default();
        assert_eq!(backoff.until(), None);
        let mut waits = vec![0];
        backoff.broken(now);
        for _ in 0..12 {
            let until = backoff.until().expect("a pause");
            waits.push((until - now).as_secs());
            now = until;
            backoff.broken(now);
        }
        assert_eq!(waits, [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]);
        let later = now + Duration::from_secs(1300);
        backoff.broken(later);
        let until = backoff.until().expect("a pause");
        assert_eq!((until - later).as_secs(), 1, "it was quiet for long");
    }
}
