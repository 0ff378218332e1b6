//! How far a long run is.

use std::{
    io::{self, IsTerminal as _, Write as _},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// A line on a terminal that says how far a long run is.
pub struct Progress {
    things: &'static str,
    total: Option<usize>,
    done: AtomicUsize,
    shown: Mutex<Option<Instant>>,
    began: Instant,
}

impl Progress {
    /// Of so many things, if that is known.
    pub fn new(total: Option<usize>, things: &'static str) -> Self {
        Self {
            things,
            total,
            done: AtomicUsize::new(0),
            shown: Mutex::new(io::stderr().is_terminal().then(Instant::now)),
            began: Instant::now(),
        }
    }

    /// Counts things, and shows the count ten times a second at most.
    pub fn show(&self, more: usize) {
        let done = self.done.fetch_add(more, Ordering::Relaxed) + more;
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(last) = &mut *shown else { return };
        if last.elapsed() < Duration::from_millis(100) {
            return;
        }
        *last = Instant::now();
        let rate = done as f64 / self.began.elapsed().as_secs_f64().max(0.001);
        let line = match self.total {
            Some(total) => format!("{done} of {total} {}, {rate:.0} per second", self.things),
            None => format!("{done} {}, {rate:.0} per second", self.things),
        };
        // There is no reader if standard error is closed.
        let _ = write!(io::stderr(), "\r{line}\x1b[K");
    }

    /// Takes the line away.
    pub fn clear(&self) {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
