//! Bounds on what clients of the webhooks can make modgate read from the API server.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// Questions under way at the same time.
const MAX_QUESTIONS: usize = 32;
/// How long an object that does not exist is taken not to. A Namespace that is made meanwhile is
/// reported by its watch, which goes first.
const UNKNOWN_FOR: Duration = Duration::from_secs(1);
/// Names that are remembered as unknown.
const MAX_UNKNOWN: usize = 1024;

/// The bounds; clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Bounds(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    asking: AtomicUsize,
    unknown: Mutex<BTreeMap<String, Instant>>,
}

/// A question under way.
#[derive(Debug)]
pub(super) struct Question(Arc<Shared>);

impl Drop for Question {
    fn drop(&mut self) {
        self.0.asking.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Bounds {
    /// Begins a question, unless too many are under way.
    pub(super) fn ask(&self) -> Option<Question> {
        if self.0.asking.fetch_add(1, Ordering::Relaxed) >= MAX_QUESTIONS {
            self.0.asking.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Question(Arc::clone(&self.0)))
    }

    /// Whether the API server said a moment ago that there is no such object.
    pub(super) fn is_unknown(&self, kind: &str, name: &str, now: Instant) -> bool {
        let unknown = self.0.unknown.lock().unwrap_or_else(PoisonError::into_inner);
        unknown.get(&key(kind, name)).is_some_and(|until| now < *until)
    }

    /// The API server says that there is no such object.
    pub(super) fn remember(&self, kind: &str, name: &str, now: Instant) {
        let mut unknown = self.0.unknown.lock().unwrap_or_else(PoisonError::into_inner);
        if unknown.len() >= MAX_UNKNOWN {
            unknown.retain(|_, until| now < *until);
        }
        // Beyond the bound it is read again.
        if unknown.len() < MAX_UNKNOWN {
            unknown.insert(key(kind, name), now + UNKNOWN_FOR);
        }
    }
}

fn key(kind: &str, name: &str) -> String {
    format!("{kind}/{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_questions_at_a_time() {
        let bounds = Bounds::default();
        let mut all: Vec<_> = (0..MAX_QUESTIONS).map(|_| bounds.ask().expect("room")).collect();
        assert!(bounds.ask().is_none());
        all.pop();
        assert!(bounds.ask().is_some());
    }

    #[test]
    fn unknown_names_are_remembered_for_a_moment_and_so_many_of_them() {
        let (bounds, now) = (Bounds::default(), Instant::now());
        bounds.remember("Namespace", "a", now);
        assert!(bounds.is_unknown("Namespace", "a", now));
        assert!(!bounds.is_unknown("Node", "a", now) && !bounds.is_unknown("Namespace", "b", now));
        assert!(!bounds.is_unknown("Namespace", "a", now + UNKNOWN_FOR));
        for number in 0..2 * MAX_UNKNOWN {
            bounds.remember("Node", &number.to_string(), now);
        }
        assert_eq!(bounds.0.unknown.lock().expect("no panic").len(), MAX_UNKNOWN);
        bounds.remember("Node", "later", now + UNKNOWN_FOR);
        assert!(bounds.is_unknown("Node", "later", now + UNKNOWN_FOR));
        assert_eq!(bounds.0.unknown.lock().expect("no panic").len(), 1);
    }
}
