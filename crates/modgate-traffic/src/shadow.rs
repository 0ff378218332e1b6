//! A second decision about requests that were answered: by candidate policies, or by another webhook. Its
//! result is compared with the answer, and changes nothing.

mod candidates;
mod decider;
mod remote;
mod report;

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime},
};

use modgate_engine::{Decision, api::secrets::NOT_SHOWN};
use modgate_policies::PolicySet;
use modgate_prove::{
    difference::{Class, Difference},
    recorded::Exchange,
};
use modgate_telemetry::metrics::{NotShadowed, ShadowMetrics, ShadowResult};
use modgate_value::Value;

pub use self::{
    candidates::{Candidates, Place},
    remote::{Remote, RemoteError, Target},
};
use self::{decider::Decider, report::Report};
use crate::{
    Recorder,
    queue::{Bounds, Full, Queue},
};

/// The logger of everything about the shadow.
pub(crate) const LOGGER: &str = "shadow";

/// The bounds of the queue of requests to decide again.
const BOUNDS: Bounds = Bounds { length: 1024, bytes: 16 << 20, age: Duration::from_secs(2) };
/// How often it is looked for.
const PAUSE: Duration = Duration::from_millis(20);
/// A request that has waited for longer is not decided again.
const MAX_WAIT: Duration = Duration::from_secs(5);
/// Objects may be nested deeply.
const STACK_BYTES: usize = 8 << 20;
/// How long the end of the process waits for what is under way.
const DRAIN: Duration = Duration::from_secs(1);
/// Differences that are logged in one minute.
const MAX_LINES: u64 = 60;
const MINUTE: Duration = Duration::from_secs(60);

/// A second decision about requests. Threads of its own make it.
#[derive(Debug)]
pub struct Shadow {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// An answered request.
#[derive(Debug)]
struct Item {
    exchange: Arc<Exchange>,
    /// The policies that decided.
    policies: Arc<PolicySet>,
    at: SystemTime,
    since: Instant,
}

/// The result of a second decision.
#[derive(Debug)]
struct Second {
    allowed: bool,
    message: String,
    differences: Vec<Difference>,
}

#[derive(Debug)]
struct Shared {
    queue: Queue<Item>,
    metrics: ShadowMetrics,
    recorder: Option<Arc<Recorder>>,
    noted: Mutex<Noted>,
}

#[derive(Debug)]
struct Noted {
    report: Report,
    /// Since when lines are counted, how many were logged, and how many were not.
    since: Instant,
    lines: u64,
    suppressed: u64,
    /// Whether the last decision failed: the first failure of several is logged.
    has_failed: bool,
}

impl Shadow {
    /// Decides with candidate policies.
    ///
    /// # Errors
    ///
    /// If the operating system refuses a thread.
    pub fn of_policies(
        candidates: Arc<Candidates>,
        metrics: ShadowMetrics,
        recorder: Option<Arc<Recorder>>,
    ) -> io::Result<Self> {
        let shared = Shared::new(metrics, recorder);
        let decider = Decider::new(candidates, Arc::clone(&shared));
        Self::start(shared, move || decider.run())
    }

    /// Sends requests to another webhook.
    ///
    /// # Errors
    ///
    /// If the operating system refuses a thread.
    pub fn of_webhook(
        remote: Remote,
        metrics: ShadowMetrics,
        recorder: Option<Arc<Recorder>>,
    ) -> io::Result<Self> {
        let shared = Shared::new(metrics, recorder);
        let to = Arc::clone(&shared);
        Self::start(shared, move || remote.run(&to))
    }

    fn start(shared: Arc<Shared>, work: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let thread = thread::Builder::new().name("modgate-shadow".to_owned());
        let thread = thread.stack_size(STACK_BYTES).spawn(work)?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Whether there is room for a request of so many bytes; counts it if not.
    pub(crate) fn wants(&self, bytes: usize) -> bool {
        self.counted(self.shared.queue.room(bytes)).is_ok()
    }

    /// A request of so many bytes was answered. Never waits.
    pub(crate) fn observe(&self, exchange: Arc<Exchange>, policies: Arc<PolicySet>, bytes: usize) {
        let (at, since) = (SystemTime::now(), Instant::now());
        let item = Item { exchange, policies, at, since };
        // What does not fit is counted.
        let _ = self.counted(self.shared.queue.push(item, bytes));
    }

    fn counted(&self, result: Result<(), Full>) -> Result<(), Full> {
        match result {
            Ok(()) => {}
            Err(Full::Size) => self.shared.metrics.dropped(NotShadowed::QueueFull),
            Err(Full::Late | Full::Closed) => self.shared.metrics.dropped(NotShadowed::Behind),
        }
        result
    }

    /// The differences since the candidates were loaded: counts by class, policy and namespace.
    pub fn report(&self) -> Value {
        self.shared.noted().report.to_value()
    }

    /// Candidates were loaded: the report begins anew.
    pub fn begin(&self) {
        self.shared.noted().report = Report::default();
    }

    /// Takes nothing more, and finishes for at most a second.
    pub fn close(&self) {
        self.shared.queue.close();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return };
        let until = Instant::now() + DRAIN;
        while !thread.is_finished() && Instant::now() < until {
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Shared {
    fn new(metrics: ShadowMetrics, recorder: Option<Arc<Recorder>>) -> Arc<Self> {
        let noted = Noted {
            report: Report::default(),
            since: Instant::now(),
            lines: 0,
            suppressed: 0,
            has_failed: false,
        };
        let queue = Queue::new(BOUNDS);
        Arc::new(Self { queue, metrics, recorder, noted: Mutex::new(noted) })
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a request has waited for too long; counts it then.
    fn is_stale(&self, item: &Item) -> bool {
        let is_stale = item.since.elapsed() > MAX_WAIT;
        if is_stale {
            self.metrics.dropped(NotShadowed::Behind);
        }
        is_stale
    }

    /// A request has a second decision, or none.
    fn note(&self, item: Item, second: Result<Second, String>) {
        let second = match second {
            Ok(second) => second,
            Err(error) => {
                self.metrics.decided(ShadowResult::Failed);
                let mut noted = self.noted();
                noted.report.failed();
                if !std::mem::replace(&mut noted.has_failed, true) {
                    tracing::warn!(target: LOGGER, error,
                        "no second decision: later failures are counted in modgate_shadow_requests_total"
                    );
                }
                return;
            }
        };
        let mut noted = self.noted();
        noted.has_failed = false;
        if second.differences.is_empty() {
            noted.report.same();
            drop(noted);
            self.metrics.decided(ShadowResult::Same);
            return;
        }
        self.metrics.decided(ShadowResult::Differs);
        noted.report.differs(&item, &second);
        let suppressed = noted.may_log();
        drop(noted);
        let webhook = item.exchange.webhook;
        for Difference { class, .. } in &second.differences {
            self.metrics.differs(class.as_str(), webhook);
        }
        if let Some(suppressed) = suppressed {
            log(&item.exchange, &second, suppressed);
        }
        if let Some(recorder) = &self.recorder {
            let found = recorded(&item.exchange, &second);
            recorder.record_again(item.exchange, item.at, found);
        }
    }
}

impl Noted {
    /// How many lines were left out before one that may be logged; `None` if it may not.
    fn may_log(&mut self) -> Option<u64> {
        if self.since.elapsed() >= MINUTE {
            self.since = Instant::now();
            self.lines = 0;
        }
        if self.lines >= MAX_LINES {
            self.suppressed += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.suppressed))
    }
}

/// The text of a decision, as it may be shown.
fn shown<'t>(exchange: &Exchange, text: &'t str) -> &'t str {
    match text {
        "" => "",
        _ if exchange.review.is_secret() => NOT_SHOWN,
        text => text,
    }
}

/// The text of a denial.
fn denial(decision: &Decision) -> &str {
    if decision.allowed { "" } else { &decision.reason }
}

fn log(exchange: &Exchange, second: &Second, suppressed: u64) {
    let request = exchange.review.request();
    for Difference { class, policies } in &second.differences {
        let policies: Vec<&str> = policies.iter().map(String::as_str).collect();
        tracing::info!(
            target: LOGGER,
            class = class.as_str(),
            policies = policies.join(", "),
            webhook = exchange.webhook,
            "request uid" = %request.uid,
            kind = %request.kind.kind,
            namespace = %request.namespace,
            name = %request.name,
            operation = %request.operation,
            answered = shown(exchange, denial(&exchange.decision)),
            shadow = shown(exchange, &second.message),
            suppressed,
            "The shadow decides otherwise"
        );
    }
}

/// The second decision, for the record.
fn recorded(exchange: &Exchange, second: &Second) -> Value {
    let texts =
        |texts: &mut dyn Iterator<Item = &str>| -> Value { texts.map(Value::from).collect() };
    let policies = second.differences.iter().flat_map(|it| &it.policies).map(String::as_str);
    let classes = second.differences.iter().map(|it: &Difference| Class::as_str(it.class));
    [
        ("allowed", Value::from(second.allowed)),
        ("message", shown(exchange, &second.message).into()),
        ("classes", texts(&mut { classes })),
        ("policies", texts(&mut { policies })),
    ]
    .into_iter()
    .collect()
}
