//! Violations published by a Dapr sidecar, over its HTTP API (XP-4).
//!
//! A message is sent again, less and less often, until the sidecar takes it, refuses it for what it
//! is, or [`Limits::delivery`] is over. After that and one more message without a connection, the sidecar is
//! away: from then on one message at a time asks whether it is back, and those of audits that find
//! no place in the queue are given up at once, so that audits come to an end. What is given up is
//! counted; an audit of which anything is missing is not said to be completed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::Duration,
};

use futures_util::{StreamExt as _, stream};
use hyper::{
    Method, StatusCode, Uri,
    body::Bytes,
    header::{CONTENT_TYPE, HeaderName, HeaderValue},
};
use modgate_http::{Backoff, Bounds, Client, Outgoing, Trust};
use modgate_value::Value;
use tokio::{
    runtime::{Builder, Runtime},
    time::{Instant, sleep},
};

use super::{ExportConfig, LOGGER, Source};

/// Where sidecars listen unless they are configured otherwise.
pub(crate) const SIDECAR: &str = "http://localhost:3500";

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// One message, with all attempts.
    pub(super) delivery: Duration,
    /// One attempt; and the first message of an audit while the sidecar is away.
    pub(super) attempt: Duration,
    /// From one question whether the sidecar is back to the next.
    pub(super) pause: Duration,
    /// One audit; those of its violations that still wait for a place then are given up.
    pub(super) audit: Duration,
}

const LIMITS: Limits = Limits {
    delivery: Duration::from_secs(60),
    attempt: Duration::from_secs(10),
    pause: Duration::from_secs(1),
    audit: Duration::from_secs(10 * 60),
};

const BACKOFF: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(2)];

/// Messages under way at the same time, and messages that may wait.
const CONCURRENT: usize = 16;
const WAITING: usize = 64;
/// How long to wait before looking for a place again.
const NO_PLACE: Duration = Duration::from_millis(1);

/// The longest answer.
const ANSWER: usize = 64 << 10;

/// Something on its way to the sidecar.
#[derive(Debug)]
struct Parcel {
    json: String,
    part: Part,
}

/// The position of a message among others.
#[derive(Debug)]
enum Part {
    Request,
    Violation(Arc<Audit>),
    /// Before or after those of an audit: it neither overtakes others nor is overtaken, and a
    /// caller waits for the result.
    Frame(Arc<Audit>, Frame, SyncSender<Result<(), String>>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Frame {
    Start,
    End,
}

impl Parcel {
    fn is_frame(&self) -> bool {
        matches!(self.part, Part::Frame(..))
    }

    fn audit(&self) -> Option<&Audit> {
        match &self.part {
            Part::Request => None,
            Part::Violation(audit) | Part::Frame(audit, ..) => Some(audit),
        }
    }

    /// Why it is not to be sent, if so.
    fn obstacle(&self) -> Option<DeliveryFailure> {
        let audit = self.audit()?;
        let is = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        let is_end = matches!(self.part, Part::Frame(_, Frame::End, _));
        let reason = if is(&audit.is_over) {
            "the audit was given up"
        } else if is_end && !is(&audit.is_begun) {
            "the beginning of the audit was not published"
        } else if is_end && audit.unsent.load(Ordering::Relaxed) > 0 {
            "violations of the audit were not published"
        } else {
            return None;
        };
        Some(DeliveryFailure { reason: reason.to_owned(), why: Why::GivenUp })
    }
}

/// An audit on its way.
#[derive(Debug)]
struct Audit {
    until: Instant,
    /// Whether its first message was taken.
    is_begun: AtomicBool,
    /// Whether the sidecar was found to be away.
    is_away: AtomicBool,
    /// Whether nothing of it is to be sent any more.
    is_over: AtomicBool,
    violations: AtomicU64,
    unsent: AtomicU64,
}

/// Receives the results of the messages of a source.
pub(super) type OnResult = Arc<dyn Fn(Source, Result<(), String>) + Send + Sync>;

/// A topic of a sidecar.
pub(crate) struct Dapr {
    url: Uri,
    client: Client,
    pub(super) limits: Limits,
    sender: Option<SyncSender<Parcel>>,
    audit: Option<Arc<Audit>>,
}

impl std::fmt::Debug for Dapr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dapr").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Dapr {
    pub(super) fn of(settings: &Value, config: &ExportConfig) -> Result<Self, String> {
        if settings.as_object().is_none() {
            return Err("invalid type assertion, config is not in expected format".to_owned());
        }
        let component = settings.get("component").and_then(Value::as_str);
        let component = component.ok_or("failed to get value of component")?;
        let base = config.sidecar.trim_end_matches('/');
        let url = format!("{base}/v1.0/publish/{component}/{}", config.channel);
        let url = url.parse().map_err(|error| format!("`{url}` is no URL: {error}"))?;
        let client = Client::new(Trust::SystemOrPlain).map_err(|error| error.to_string())?;
        Ok(Self { url, client, limits: LIMITS, sender: None, audit: None })
    }

    /// Starts the thread that sends; it ends when this is dropped and everything is sent, or with the
    /// process. Its runtime is its own, so that none that is shut down is used.
    pub(super) fn start(&mut self, on_result: OnResult) -> Result<(), String> {
        let (sender, receiver) = sync_channel(WAITING);
        let (url, client, limits) = (self.url.clone(), self.client.clone(), self.limits);
        let mut working = Sender { url, client, on_result, limits, away: Away::No };
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| format!("cannot start a runtime: {error}"))?;
        let work = move || working.run(&receiver, &runtime);
        let spawned = thread::Builder::new().name("modgate-export".to_owned()).spawn(work);
        spawned.map_err(|error| format!("cannot start a thread: {error}"))?;
        self.sender = Some(sender);
        Ok(())
    }

    /// Where messages about requests are handed over.
    pub(super) fn requests(&self) -> Option<Requests> {
        self.sender.clone().map(Requests)
    }

    /// The way of the violations of a new audit.
    pub(super) fn begin(&mut self) -> Result<Delivery, String> {
        self.audit = Some(Arc::new(Audit {
            until: Instant::now() + self.limits.audit,
            is_begun: AtomicBool::new(false),
            is_away: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            violations: AtomicU64::new(0),
            unsent: AtomicU64::new(0),
        }));
        self.delivery()
    }

    /// The way of the violations of the audit that began.
    pub(super) fn delivery(&mut self) -> Result<Delivery, String> {
        let both = self.sender.clone().zip(self.audit.clone());
        let (sender, audit) = both.ok_or("the connection is newer than the audit")?;
        Ok(Delivery { sender, audit })
    }

    /// Gives up what is not sent yet of the audit.
    pub(super) fn abandon(&self) {
        if let Some(audit) = &self.audit {
            audit.is_over.store(true, Ordering::Relaxed);
        }
    }
}

/// Takes messages about requests.
pub(super) struct Requests(SyncSender<Parcel>);

impl Requests {
    /// Waits while too many are under way.
    pub(super) fn send(&self, json: String) -> Result<(), String> {
        let parcel = Parcel { json, part: Part::Request };
        self.0.send(parcel).map_err(|_| CLOSED.to_owned())
    }
}

const CLOSED: &str = "the connection was closed";

/// Takes the messages of an audit.
pub(super) struct Delivery {
    sender: SyncSender<Parcel>,
    audit: Arc<Audit>,
}

impl Delivery {
    /// Says that the audit begins, and waits until that is known.
    pub(super) fn start(&self, json: String) -> Result<(), String> {
        let done = self.frame(Frame::Start, json);
        self.audit.is_begun.store(done.is_ok(), Ordering::Relaxed);
        done
    }

    /// Hands a violation over. Waits while too many are under way, unless the sidecar is away or the
    /// time of the audit is over: then it is counted.
    pub(super) fn send(&self, json: String) {
        self.audit.violations.fetch_add(1, Ordering::Relaxed);
        let mut parcel = Parcel { json, part: Part::Violation(Arc::clone(&self.audit)) };
        while !self.audit.is_over.load(Ordering::Relaxed) {
            match self.sender.try_send(parcel) {
                Ok(()) => return,
                Err(TrySendError::Disconnected(_)) => break,
                Err(TrySendError::Full(back)) => parcel = back,
            }
            if self.audit.is_away.load(Ordering::Relaxed) || Instant::now() >= self.audit.until {
                break;
            }
            thread::sleep(NO_PLACE);
        }
        self.audit.unsent.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits for what is under way, and says that the audit is complete if it is. Fails with the
    /// number of violations that were not published, and why it is not complete.
    pub(super) fn finish(&self, audit: &str, json: String) -> Result<(), (u64, String)> {
        if self.audit.is_away.load(Ordering::Relaxed) {
            self.audit.is_over.store(true, Ordering::Relaxed);
        }
        let done = self.frame(Frame::End, json);
        let unsent = self.audit.unsent.load(Ordering::Relaxed);
        if unsent == 0 {
            return done.map_err(|reason| (0, reason));
        }
        let all = self.audit.violations.load(Ordering::Relaxed);
        Err((
            unsent,
            format!(
                "violations were not published: {unsent} of {all} of the audit {audit}; the next \
                 one publishes those that are still there"
            ),
        ))
    }

    fn frame(&self, frame: Frame, json: String) -> Result<(), String> {
        let (answer, answered) = sync_channel(1);
        let part = Part::Frame(Arc::clone(&self.audit), frame, answer);
        self.sender.send(Parcel { json, part }).map_err(|_| CLOSED.to_owned())?;
        answered.recv().map_err(|_| CLOSED.to_owned())?
    }
}

/// Whether the sidecar takes messages.
#[derive(Debug)]
enum Away {
    No,
    /// All of some messages at a time were in vain.
    Perhaps,
    /// And one more, at that time, for that reason.
    Since(Instant, String),
}

/// Why a message was not taken.
#[derive(Debug, Clone)]
struct DeliveryFailure {
    reason: String,
    why: Why,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    /// There is no sidecar, or it cannot take it now.
    Away,
    /// It would not be taken another time either.
    Refused,
    /// There was no further attempt.
    GivenUp,
}

struct Sender {
    url: Uri,
    client: Client,
    on_result: OnResult,
    limits: Limits,
    away: Away,
}

impl Sender {
    /// Sends what comes until the last sender is dropped.
    fn run(&mut self, receiver: &Receiver<Parcel>, runtime: &Runtime) {
        let mut held: Option<Parcel> = None;
        while let Some(first) = held.take().or_else(|| receiver.recv().ok()) {
            let mut batch = vec![first];
            while !batch.iter().any(Parcel::is_frame) && batch.len() < CONCURRENT {
                match receiver.try_recv() {
                    Ok(parcel) if parcel.is_frame() => {
                        held = Some(parcel);
                        break;
                    }
                    Ok(parcel) => batch.push(parcel),
                    Err(_) => break,
                }
            }
            let sent = runtime.block_on(self.send_all(&batch));
            for (Parcel { part, .. }, sent) in batch.into_iter().zip(sent) {
                let is_given_up = sent.as_ref().is_err_and(|failure| failure.why == Why::GivenUp);
                let sent = sent.map_err(|failure| {
                    format!("error publishing message to dapr: {}", failure.reason)
                });
                match part {
                    Part::Request => (self.on_result)(Source::Webhook, sent),
                    Part::Violation(audit) => {
                        if sent.is_err() {
                            audit.unsent.fetch_add(1, Ordering::Relaxed);
                        }
                        // Those that were given up are only counted: they are not the reason.
                        if !is_given_up {
                            (self.on_result)(Source::Audit, sent);
                        }
                    }
                    Part::Frame(_, _, answer) => drop(answer.try_send(sent)),
                }
            }
        }
    }

    /// The result of each.
    async fn send_all(&mut self, batch: &[Parcel]) -> Vec<Result<(), DeliveryFailure>> {
        let mut sent: Vec<Option<Result<(), DeliveryFailure>>> =
            batch.iter().map(|parcel| parcel.obstacle().map(Err)).collect();
        let mut left = batch.iter().zip(&mut sent).filter(|(_, sent)| sent.is_none());
        if !matches!(self.away, Away::No)
            && let Some((first, of_first)) = left.next()
        {
            let probed = self.probe(first, batch).await;
            if probed.as_ref().is_err_and(|failure| failure.why == Why::Away) {
                left.for_each(|(_, sent)| *sent = Some(probed.clone()));
            } else if !matches!(&probed, Err(DeliveryFailure { why: Why::GivenUp, .. })) {
                self.away = Away::No;
            }
            *of_first = Some(probed);
            for audit in batch.iter().filter_map(Parcel::audit) {
                audit.is_away.store(matches!(self.away, Away::Since(..)), Ordering::Relaxed);
            }
        }
        let left: Vec<_> = batch.iter().zip(&mut sent).filter(|(_, sent)| sent.is_none()).collect();
        let (parcels, places): (Vec<_>, Vec<_>) = left.into_iter().unzip();
        let sending = parcels.into_iter().map(|parcel| self.send(parcel, self.limits.delivery));
        let tried: Vec<_> = stream::iter(sending).buffered(CONCURRENT).collect().await;
        let is_in_vain = |tried: &Result<(), DeliveryFailure>| {
            tried.as_ref().is_err_and(|failure| failure.why == Why::Away)
        };
        if !tried.is_empty() && tried.iter().all(is_in_vain) {
            self.away = Away::Perhaps;
        }
        places.into_iter().zip(tried).for_each(|(place, tried)| *place = Some(tried));
        // Each has been decided.
        sent.into_iter().map(|sent| sent.unwrap_or(Ok(()))).collect()
    }

    /// Asks with one message whether the sidecar is back.
    async fn probe(&mut self, first: &Parcel, batch: &[Parcel]) -> Result<(), DeliveryFailure> {
        if let Away::Since(last, reason) = &self.away
            && !first.is_frame()
        {
            let left = self.limits.pause.saturating_sub(last.elapsed());
            let has_request = batch.iter().any(|parcel| parcel.audit().is_none());
            if has_request {
                // Requests have a queue of their own to wait in.
                sleep(left).await;
            } else if !left.is_zero() {
                return Err(DeliveryFailure { reason: reason.clone(), why: Why::Away });
            }
        }
        let limit = if first.is_frame() { self.limits.attempt } else { Duration::ZERO };
        let sent = self.send(first, limit).await;
        if let Err(DeliveryFailure { reason, why: Why::Away }) = &sent {
            if !matches!(self.away, Away::Since(..)) {
                tracing::warn!(target: LOGGER, url = %self.url, reason,
                    "the sidecar takes no messages: violations of audits are given up until it does");
            }
            self.away = Away::Since(Instant::now(), reason.clone());
        }
        sent
    }

    /// Sends a message until it is taken; one attempt at least, unless it is given up.
    async fn send(&self, parcel: &Parcel, limit: Duration) -> Result<(), DeliveryFailure> {
        let until = Instant::now() + limit;
        let until = parcel.audit().map_or(until, |audit| until.min(audit.until));
        let mut backoff = Backoff::new(BACKOFF);
        loop {
            let failure = match self.attempt(&parcel.json).await {
                Ok(()) => return Ok(()),
                Err(failure) => failure,
            };
            let pause = backoff.pause();
            if failure.why == Why::Refused || Instant::now() + pause >= until {
                return Err(failure);
            }
            sleep(pause).await;
            if let Some(given_up) = parcel.obstacle() {
                return Err(given_up);
            }
        }
    }

    async fn attempt(&self, json: &str) -> Result<(), DeliveryFailure> {
        let mut headers = vec![(CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        if let Some(token) = token() {
            headers.push((HeaderName::from_static("dapr-api-token"), token));
        }
        let outgoing = Outgoing {
            method: Method::POST,
            url: self.url.clone(),
            headers,
            body: Bytes::copy_from_slice(json.as_bytes()),
        };
        let bounds = Bounds { deadline: Instant::now() + self.limits.attempt, body_bytes: ANSWER };
        let answer = self.client.exchange(outgoing, bounds).await;
        let answer = answer
            .map_err(|error| DeliveryFailure { reason: error.to_string(), why: Why::Away })?;
        let status = answer.status;
        if status.is_success() {
            return Ok(());
        }
        let may_pass = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS];
        let is_refused = status.is_client_error() && !may_pass.contains(&status);
        let reason = format!("the sidecar answered {}", status.as_u16());
        Err(DeliveryFailure { reason, why: if is_refused { Why::Refused } else { Why::Away } })
    }
}

/// The token of a protected sidecar, as Dapr's own clients find it.
fn token() -> Option<HeaderValue> {
    let token = std::env::var("DAPR_API_TOKEN").ok().filter(|token| !token.is_empty())?;
    let mut token = HeaderValue::from_str(&token).ok()?;
    token.set_sensitive(true);
    Some(token)
}

#[cfg(test)]
pub(super) mod tests;
