//! Records: requests and answers in files of JSON lines, bounded in bytes and age.

mod files;
#[cfg(unix)]
mod folder;
#[cfg(not(unix))]
#[path = "record/no_folder.rs"]
mod folder;
mod sample;

use std::{
    io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime},
};

use jiff::Timestamp;
use modgate_engine::Review;
use modgate_prove::recorded::{AGAIN, Exchange};
use modgate_telemetry::metrics::{NotRecorded, RecordMetrics};
use modgate_value::Value;

pub use self::sample::{Rate, Samples};
use self::{files::Files, folder::Folder};
use crate::queue::{Bounds, Full, Queue};

/// The logger of records.
const LOGGER: &str = "record";

/// The bounds of the queue of entries to write.
const BOUNDS: Bounds = Bounds { length: 4096, bytes: 16 << 20, age: Duration::from_millis(500) };
/// How often it is written. Together with the age that may wait, less than the second that is lost at most
/// when the process is killed.
const PAUSE: Duration = Duration::from_millis(100);
/// A request that waited so long for its evaluation shows that no processor is free.
const BUSY: Duration = Duration::from_millis(1);
/// How long the thread works in each [`PAUSE`] while no processor is free: a twentieth of one. What it does not come to is
/// dropped, because requests would wait for it.
const SHARE: Duration = Duration::from_millis(5);
/// How often old files are looked for.
const TIDY: Duration = Duration::from_secs(10);
/// As much as the threads have that decide requests: objects may be nested deeply.
pub(crate) const STACK_BYTES: usize = 8 << 20;
/// How long the end of the process waits for what is still to be written.
const DRAIN: Duration = Duration::from_secs(3);

/// Where records go, and how much of them is kept.
#[derive(Debug, Clone)]
pub struct RecordConfig {
    /// The folder.
    pub folder: PathBuf,
    /// Bytes of all files.
    pub max_bytes: u64,
    /// Age of the oldest file.
    pub max_age: Duration,
    /// Which requests are recorded.
    pub samples: Samples,
}

impl RecordConfig {
    /// The default of [`max_bytes`](Self::max_bytes).
    pub const MAX_BYTES: u64 = 1 << 30;
    /// The default of [`max_age`](Self::max_age).
    pub const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
}

/// Why nothing can be recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The folder cannot be used.
    #[error("cannot record into `{}`: {source}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Another process records into the folder.
    #[error(
        "cannot record into `{}`: another process records there; give each process a folder of its own",
        .0.display()
    )]
    Locked(PathBuf),
}

/// Records requests and answers. A thread of its own writes them.
#[derive(Debug)]
pub struct Recorder {
    queue: Arc<Queue<Item>>,
    samples: Samples,
    metrics: RecordMetrics,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Item {
    exchange: Arc<Exchange>,
    at: SystemTime,
    more: Vec<(&'static str, Value)>,
}

impl Recorder {
    /// Takes possession of the folder, and starts to write.
    ///
    /// # Errors
    ///
    /// When the folder cannot be used, or another process uses it.
    pub fn start(config: RecordConfig, metrics: RecordMetrics) -> Result<Self, RecordError> {
        let folder = Folder::open(&config.folder)?;
        let mut files = Files::new(folder, config.max_bytes, config.max_age);
        files.tidy();
        let queue = Arc::new(Queue::new(BOUNDS));
        let writer = Writer {
            queue: Arc::clone(&queue),
            files,
            metrics: metrics.clone(),
            has_failed: false,
        };
        let thread =
            thread::Builder::new().name("modgate-record".to_owned()).stack_size(STACK_BYTES);
        let thread = thread.spawn(move || writer.run());
        let failed = |source| RecordError::Folder { folder: config.folder.clone(), source };
        let thread = Mutex::new(Some(thread.map_err(failed)?));
        Ok(Self { queue, samples: config.samples, metrics, thread })
    }

    /// Whether a request of so many bytes may be recorded; counts it if not. Rates of policies are looked at once it
    /// is decided.
    pub(crate) fn wants(&self, review: &Review, bytes: usize) -> bool {
        if self.samples.policies.is_empty() && !self.samples.takes(review) {
            self.metrics.left_out();
            return false;
        }
        self.counted(self.queue.room(bytes)).is_ok()
    }

    /// Records an exchange of so many bytes if it is in the sample. Never waits.
    pub(crate) fn record(&self, exchange: Arc<Exchange>, bytes: usize) {
        if self.samples.take(&exchange) {
            self.push(Item { exchange, at: SystemTime::now(), more: Vec::new() }, bytes);
        } else {
            self.metrics.left_out();
        }
    }

    /// Records an exchange with a second decision about it, whether it is in the sample or not. If it is, the
    /// line is marked as one that repeats an earlier one.
    pub(crate) fn record_again(&self, exchange: Arc<Exchange>, at: SystemTime, second: Value) {
        let again = self.samples.take(&exchange);
        let more = vec![(AGAIN, Value::from(again)), ("shadow", second)];
        // Only requests that differ: their number is what bounds them.
        self.push(Item { exchange, at, more }, 0);
    }

    fn push(&self, item: Item, bytes: usize) {
        // What does not fit is counted.
        let _ = self.counted(self.queue.push(item, bytes));
    }

    fn counted(&self, result: Result<(), Full>) -> Result<(), Full> {
        match result {
            Ok(()) => {}
            Err(Full::Size) => self.metrics.dropped(NotRecorded::QueueFull, 1),
            Err(Full::Late | Full::Closed) => self.metrics.dropped(NotRecorded::Behind, 1),
        }
        result
    }

    /// Takes nothing more, and writes what waits, for at most a few seconds.
    pub fn close(&self) {
        self.queue.close();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return };
        let until = Instant::now() + DRAIN;
        while !thread.is_finished() && Instant::now() < until {
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The thread that writes.
struct Writer {
    queue: Arc<Queue<Item>>,
    files: Files,
    metrics: RecordMetrics,
    /// Whether the last attempt failed: the first failure of several is logged.
    has_failed: bool,
}

impl Writer {
    fn run(mut self) {
        let mut lines = Vec::new();
        let mut tidied = Instant::now();
        while let Some(items) = self.queue.take_all(PAUSE) {
            lines.clear();
            let begun = Instant::now();
            let is_busy = items.iter().any(|item| item.exchange.waited >= BUSY);
            let mut dropped = 0;
            for Item { exchange, at, more } in items {
                if is_busy && begun.elapsed() >= SHARE {
                    dropped += 1;
                    continue;
                }
                let time = Timestamp::try_from(at).unwrap_or_default().to_string();
                lines.push(exchange.to_json(&time, more));
            }
            self.metrics.dropped(NotRecorded::Behind, dropped);
            if !lines.is_empty() {
                self.write(&lines);
            }
            if tidied.elapsed() >= TIDY {
                tidied = Instant::now();
                self.files.tidy();
                self.metrics.on_disk(self.files.bytes());
            }
        }
    }

    fn write(&mut self, lines: &[String]) {
        let (written, done) = self.files.append(lines);
        self.metrics.recorded(written);
        self.metrics.on_disk(self.files.bytes());
        let lost = u64::try_from(lines.len()).unwrap_or(u64::MAX).saturating_sub(written);
        self.metrics.dropped(NotRecorded::Disk, lost);
        match done {
            Ok(()) if std::mem::take(&mut self.has_failed) => {
                tracing::info!(target: LOGGER, "requests are recorded again");
            }
            Ok(()) => {}
            Err(error) => {
                if !std::mem::replace(&mut self.has_failed, true) {
                    tracing::warn!(target: LOGGER, %error,
                        "requests are not recorded: modgate goes on answering, counts them in \
                         modgate_record_dropped_total, and tries again"
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, fs};

    use modgate_engine::{
        Decision, Stages,
        api::{admission::ReviewVersion, meta::Operation},
    };
    use modgate_telemetry::metrics::Metrics;

    use super::*;

    const REQUESTS: usize = 2000;
    /// How long all of them may take on a machine that does other things.
    const TIMEOUT: Duration = Duration::from_secs(60);

    /// How many of [`REQUESTS`] requests are recorded that come at once and waited so long before.
    fn recorded(waited: Duration) -> usize {
        let annotations: BTreeMap<String, String> =
            (0..200).map(|number| (format!("example.com/{number}"), "value".repeat(8))).collect();
        let annotations: Value =
            annotations.into_iter().map(|(key, value)| (key, Value::from(value))).collect();
        let metadata = [("name", "a".into()), ("annotations", annotations)];
        let object: Value = [
            ("apiVersion", Value::from("v1")),
            ("kind", "ConfigMap".into()),
            ("metadata", metadata.into_iter().collect()),
        ]
        .into_iter()
        .collect();
        let exchange = Arc::new(Exchange {
            webhook: "/v1/admit",
            stages: Stages::CONSTRAINTS,
            version: ReviewVersion::V1,
            review: Review::of_object(object.clone(), Operation::Create, "default"),
            decision: Decision::unchanged(object),
            response: Default::default(),
            took: Duration::ZERO,
            waited,
        });
        let folder = tempfile::tempdir().expect("a folder");
        let config = RecordConfig {
            folder: folder.path().to_owned(),
            max_bytes: RecordConfig::MAX_BYTES,
            max_age: RecordConfig::MAX_AGE,
            samples: Samples::default(),
        };
        let recorder =
            Recorder::start(config, Metrics::new().record().clone()).expect("a recorder");
        for _ in 0..REQUESTS {
            recorder.record(Arc::clone(&exchange), 1);
        }
        let lines = || -> usize {
            let files = fs::read_dir(folder.path()).expect("a folder");
            let files = files.map(|it| it.expect("an entry").path());
            let files = files.filter(|it| it.extension().is_some_and(|it| it == "jsonl"));
            files.map(|it| fs::read_to_string(it).expect("text").lines().count()).sum()
        };
        let until = Instant::now() + TIMEOUT;
        while waited.is_zero() && lines() < REQUESTS && Instant::now() < until {
            thread::sleep(PAUSE);
        }
        recorder.close();
        lines()
    }

    #[test]
    fn requests_that_wait_come_before_their_records() {
        assert_eq!(recorded(Duration::ZERO), REQUESTS);
        let some = recorded(Duration::from_millis(2));
        assert!((1..REQUESTS).contains(&some), "{some}");
    }
}
