//! A queue between requests and what happens beside them. Putting something in never waits.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// The bounds of a queue.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// How many.
    pub length: usize,
    /// How many bytes together.
    pub bytes: usize,
    /// How long the first of them.
    pub age: Duration,
}

/// Why something did not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// As much waits as may.
    Size,
    /// The oldest entry was not taken out in time.
    Late,
    /// The queue is closed.
    Closed,
}

/// A queue.
#[derive(Debug)]
pub struct Queue<T> {
    bounds: Bounds,
    waiting: Mutex<Waiting<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct Waiting<T> {
    items: VecDeque<(T, usize, Instant)>,
    bytes: usize,
    closed: bool,
}

impl<T> Waiting<T> {
    fn room(&self, bounds: &Bounds, bytes: usize, now: Instant) -> Result<(), Full> {
        if self.closed {
            return Err(Full::Closed);
        }
        if self.items.len() >= bounds.length || self.bytes.saturating_add(bytes) > bounds.bytes {
            return Err(Full::Size);
        }
        let oldest = self.items.front().map(|(_, _, since)| *since);
        if oldest.is_some_and(|since| now.saturating_duration_since(since) > bounds.age) {
            return Err(Full::Late);
        }
        Ok(())
    }
}

impl<T> Queue<T> {
    /// An empty queue.
    pub fn new(bounds: Bounds) -> Self {
        let waiting = Waiting { items: VecDeque::new(), bytes: 0, closed: false };
        Self { bounds, waiting: Mutex::new(waiting), changed: Condvar::new() }
    }

    /// Whether something of so many bytes fits now.
    ///
    /// # Errors
    ///
    /// When it does not.
    pub fn room(&self, bytes: usize) -> Result<(), Full> {
        self.waiting().room(&self.bounds, bytes, Instant::now())
    }

    /// Puts something of so many bytes in. The other side is woken only if much waits: it looks by
    /// itself from time to time.
    ///
    /// # Errors
    ///
    /// When it does not fit.
    pub fn push(&self, item: T, bytes: usize) -> Result<(), Full> {
        let now = Instant::now();
        let mut waiting = self.waiting();
        waiting.room(&self.bounds, bytes, now)?;
        waiting.items.push_back((item, bytes, now));
        waiting.bytes += bytes;
        let is_much = waiting.items.len() == self.bounds.length / 2;
        drop(waiting);
        if is_much {
            self.changed.notify_one();
        }
        Ok(())
    }

    /// Takes everything that waits, after at most `pause`; `None` once the queue is closed and empty.
    pub fn take_all(&self, pause: Duration) -> Option<Vec<T>> {
        let mut waiting = self.waiting();
        if !waiting.closed && waiting.items.len() < self.bounds.length / 2 {
            (waiting, _) =
                self.changed.wait_timeout(waiting, pause).unwrap_or_else(PoisonError::into_inner);
        }
        if waiting.closed && waiting.items.is_empty() {
            return None;
        }
        waiting.bytes = 0;
        let items = std::mem::take(&mut waiting.items);
        drop(waiting);
        Some(items.into_iter().map(|(item, ..)| item).collect())
    }

    /// Lets nothing more in.
    pub fn close(&self) {
        self.waiting().closed = true;
        self.changed.notify_all();
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { length: 3, bytes: 100, age: Duration::from_secs(60) };

    #[test]
    fn bounds_hold() {
        let queue = Queue::new(BOUNDS);
        assert_eq!(queue.push(1, 90), Ok(()));
        assert_eq!(queue.push(2, 11), Err(Full::Size), "bytes");
        assert_eq!((queue.room(11), queue.room(10)), (Err(Full::Size), Ok(())));
        assert_eq!(queue.push(2, 1), Ok(()));
        assert_eq!(queue.push(3, 1), Ok(()));
        assert_eq!(queue.push(4, 1), Err(Full::Size), "length");
        assert_eq!(queue.take_all(Duration::ZERO), Some(vec![1, 2, 3]));
        assert_eq!(queue.push(4, 100), Ok(()));
        queue.close();
        assert_eq!(queue.push(5, 1), Err(Full::Closed));
        assert_eq!(queue.take_all(Duration::ZERO), Some(vec![4]));
        assert_eq!(queue.take_all(Duration::ZERO), None);
    }

    #[test]
    fn nothing_joins_what_is_late() {
        let queue = Queue::new(Bounds { age: Duration::ZERO, ..BOUNDS });
        assert_eq!(queue.push(1, 1), Ok(()));
        let since = Instant::now();
        while since.elapsed().is_zero() {
            std::hint::spin_loop();
        }
        assert_eq!(queue.push(2, 1), Err(Full::Late));
        assert_eq!(queue.take_all(Duration::ZERO), Some(vec![1]));
        assert_eq!(queue.push(2, 1), Ok(()));
    }
}
