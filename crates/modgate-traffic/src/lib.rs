//! Work beside the requests of a server: [`Recorder`] writes requests and answers into files, and
//! [`Shadow`] has them decided again, by candidate policies or by another webhook.
//!
//! An answer never waits for this crate. A request is handed over through a [`queue`] that is bounded in length,
//! bytes and age; what does not fit is dropped and counted.
//!
//! ```
//! use std::time::Duration;
//! use modgate_traffic::queue::{Bounds, Full, Queue};
//!
//! let bounds = Bounds { length: 10, bytes: 100, age: Duration::from_secs(60) };
//! let queue = Queue::new(bounds);
//! assert_eq!(queue.push("a request", 60), Ok(()));
//! assert_eq!(queue.push("another one", 60), Err(Full::Size));
//! assert_eq!(queue.take_all(Duration::ZERO), Some(vec!["a request"]));
//! ```
//!
//! What this crate deliberately does not do: receive requests, decide them, answer them.
//!
//! # Limits
//!
//! [`queue::Bounds`] for what waits; [`RecordConfig`] for what is on disk.

pub mod queue;
mod record;
mod shadow;

use std::sync::Arc;

use modgate_engine::Review;
use modgate_policies::PolicySet;
use modgate_prove::recorded::Exchange;

pub use self::{
    record::{Rate, RecordConfig, RecordError, Recorder, Samples},
    shadow::{Candidates, Place, Remote, RemoteError, Shadow, Target},
};

/// Everything that happens beside requests.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Writes requests and answers down.
    pub recorder: Option<Arc<Recorder>>,
    /// Has requests decided again.
    pub shadow: Option<Arc<Shadow>>,
}

/// The work for one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    record: bool,
    shadow: bool,
}

impl Wanted {
    /// Whether anything happens to it.
    pub fn is_any(self) -> bool {
        self.record || self.shadow
    }
}

impl Traffic {
    /// Whether anything happens to requests.
    pub fn is_on(&self) -> bool {
        self.recorder.is_some() || self.shadow.is_some()
    }

    /// The work for a request of so many bytes. Counts the request if a queue has no room for it,
    /// so that nothing is copied for a queue that is full.
    pub fn wanted(&self, review: &Review, bytes: usize) -> Wanted {
        Wanted {
            record: self.recorder.as_ref().is_some_and(|it| it.wants(review, bytes)),
            shadow: self.shadow.as_ref().is_some_and(|it| it.wants(bytes)),
        }
    }

    /// A request of so many bytes was answered with these policies. Never waits.
    pub fn observe(
        &self,
        exchange: Exchange,
        policies: &Arc<PolicySet>,
        bytes: usize,
        wanted: Wanted,
    ) {
        let exchange = Arc::new(exchange);
        if let Some(recorder) = self.recorder.as_ref().filter(|_| wanted.record) {
            recorder.record(Arc::clone(&exchange), bytes);
        }
        if let Some(shadow) = self.shadow.as_ref().filter(|_| wanted.shadow) {
            shadow.observe(exchange, Arc::clone(policies), bytes);
        }
    }

    /// Takes nothing more, and finishes for at most a few seconds.
    pub fn close(&self) {
        if let Some(shadow) = &self.shadow {
            shadow.close();
        }
        if let Some(recorder) = &self.recorder {
            recorder.close();
        }
    }
}
