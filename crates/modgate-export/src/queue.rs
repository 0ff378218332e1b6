//! Violations of requests on their way to the exporter, without holding up an answer (XP-5).

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use modgate_engine::{Review, constraint::Violation};
use modgate_telemetry::metrics::{DropReason, ExportMetrics};

use super::{Exporter, Line, message};

const MAX_MESSAGES: usize = 1024;
const MAX_BYTES: usize = 16 << 20;
const MAX_MESSAGE: usize = 64 << 10;
const BATCH: usize = 64;
/// How long the rest may take when the process ends.
const DRAIN: Duration = Duration::from_secs(5);
/// How often files are looked at that could be complete.
const TIDY: Duration = Duration::from_secs(5);

/// A bounded queue in front of an [`Exporter`]; cheap to clone.
#[derive(Clone)]
pub struct AdmissionQueue(Arc<Shared>);

struct Shared {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    metrics: ExportMetrics,
}

#[derive(Default)]
struct Waiting {
    lines: VecDeque<Line>,
    bytes: usize,
    closed: bool,
    /// Everything is exported, and files are complete.
    done: bool,
}

impl AdmissionQueue {
    /// An empty queue, and the thread that empties it.
    ///
    /// # Errors
    ///
    /// When the operating system refuses a thread.
    pub fn start(exporter: Arc<Exporter>, metrics: ExportMetrics) -> std::io::Result<Self> {
        let queue = Self::unattended(metrics);
        let worker = queue.clone();
        thread::Builder::new()
            .name("modgate-export".to_owned())
            .spawn(move || while worker.export(&exporter) {})?;
        Ok(queue)
    }

    fn unattended(metrics: ExportMetrics) -> Self {
        let (waiting, changed) = (Mutex::default(), Condvar::new());
        Self(Arc::new(Shared { waiting, changed, metrics }))
    }

    /// Queues the violations that lead to something; never waits for the exporter.
    pub fn push(&self, review: &Review, violations: &[Violation]) {
        let led = violations.iter().filter(|violation| !violation.actions.is_empty());
        let now = Timestamp::now().to_string();
        for (ordinal, violation) in led.enumerate() {
            self.push_line(message::of_request(review, violation, ordinal, &now));
        }
    }

    fn push_line(&self, line: Line) {
        let metrics = &self.0.metrics;
        let bytes = line.json.len();
        if bytes > MAX_MESSAGE {
            metrics.dropped(DropReason::MessageTooLarge, 1);
            return;
        }
        let mut waiting = self.waiting();
        let reason = if waiting.closed {
            Some(DropReason::Shutdown)
        } else if waiting.lines.len() >= MAX_MESSAGES {
            Some(DropReason::QueueFull)
        } else if waiting.bytes + bytes > MAX_BYTES {
            Some(DropReason::QueueBytesFull)
        } else {
            None
        };
        if let Some(reason) = reason {
            metrics.dropped(reason, 1);
            return;
        }
        waiting.bytes += bytes;
        waiting.lines.push_back(line);
        metrics.queued();
        metrics.waiting(waiting.lines.len(), waiting.bytes);
        self.0.changed.notify_all();
    }

    /// Exports the next batch; returns whether there may be more.
    fn export(&self, exporter: &Exporter) -> bool {
        let mut waiting = self.waiting();
        if waiting.lines.is_empty() {
            if waiting.closed {
                drop(waiting);
                exporter.tidy(true);
                self.waiting().done = true;
                self.0.changed.notify_all();
                return false;
            }
            let (after, waited) =
                self.0.changed.wait_timeout(waiting, TIDY).unwrap_or_else(PoisonError::into_inner);
            drop(after);
            if waited.timed_out() {
                exporter.tidy(false);
            }
            return true;
        }
        let count = waiting.lines.len().min(BATCH);
        let batch: Vec<Line> = waiting.lines.drain(..count).collect();
        waiting.bytes -= batch.iter().map(|line| line.json.len()).sum::<usize>();
        self.0.metrics.waiting(waiting.lines.len(), waiting.bytes);
        drop(waiting);
        exporter.requests(batch);
        true
    }

    /// Takes nothing more, and gives what waits a few seconds.
    pub fn close(&self) {
        let until = Instant::now() + DRAIN;
        let mut waiting = self.waiting();
        waiting.closed = true;
        self.0.changed.notify_all();
        while !waiting.done {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            (waiting, _) =
                self.0.changed.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner);
        }
        let lost = u64::try_from(waiting.lines.len()).unwrap_or(u64::MAX);
        if lost > 0 {
            self.0.metrics.dropped(DropReason::Shutdown, lost);
            waiting.lines.clear();
            waiting.bytes = 0;
        }
        self.0.metrics.waiting(0, 0);
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for AdmissionQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdmissionQueue").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use modgate_telemetry::metrics::Metrics;

    fn line(bytes: usize) -> Line {
        Line { id: 0, json: "x".repeat(bytes) }
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let metrics = Metrics::new();
        let queue = AdmissionQueue::unattended(metrics.export().clone());
        queue.push_line(line(MAX_MESSAGE + 1));
        for _ in 0..MAX_BYTES / MAX_MESSAGE {
            queue.push_line(line(MAX_MESSAGE));
        }
        queue.push_line(line(1));
        assert_eq!(queue.waiting().bytes, MAX_BYTES);
        let full = AdmissionQueue::unattended(metrics.export().clone());
        for _ in 0..=MAX_MESSAGES {
            full.push_line(line(1));
        }
        full.waiting().closed = true;
        full.push_line(line(1));
        let text = metrics.encode();
        let drops = |reason: &str| {
            let series =
                format!("gatekeeper_admission_export_dropped_count_total{{reason=\"{reason}\"}} ");
            let line = text.lines().find_map(|line| line.strip_prefix(series.as_str()));
            line.map(str::to_owned)
        };
        for (reason, expected) in [
            ("message_too_large", "1"),
            ("queue_bytes_full", "1"),
            ("queue_full", "1"),
            ("shutdown", "1"),
            ("marshal_error", "0"),
        ] {
            assert_eq!(drops(reason).as_deref(), Some(expected), "{reason}\n{text}");
        }
    }
}
