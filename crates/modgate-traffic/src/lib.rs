//! What happens beside the requests of a server: [`Recorder`] writes requests and answers into files.
//!
//! An answer never waits for this crate. A request is handed over through a [`queue`] that is bounded in length,
//! bytes and age; what does not fit is dropped and counted.
//!
//! What this crate deliberately does not do: receive requests, decide them, answer them.
//!
//! # Limits
//!
//! [`queue::Bounds`] for what waits; [`RecordConfig`] for what is on disk.

pub mod queue;
mod record;

use modgate_prove::recorded::Exchange;

pub use self::record::{Rate, RecordConfig, RecordError, Recorder, Samples};

/// Everything that happens beside requests.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Writes requests and answers down.
    pub recorder: Option<Recorder>,
}

impl Traffic {
    /// Whether anything happens.
    pub fn is_on(&self) -> bool {
        self.recorder.is_some()
    }

    /// A request was answered, in so many bytes. Never waits.
    pub fn observe(&self, exchange: Exchange, bytes: usize) {
        if let Some(recorder) = &self.recorder {
            recorder.record(exchange, bytes, Vec::new());
        }
    }

    /// Takes nothing more, and finishes for at most a few seconds.
    pub fn close(&self) {
        if let Some(recorder) = &self.recorder {
            recorder.close();
        }
    }
}
