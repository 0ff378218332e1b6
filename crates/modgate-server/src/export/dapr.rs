//! Violations published by a Dapr sidecar, over its HTTP API (XP-4).
//!
//! A message is sent again, less and less often, until the sidecar takes it or [`PATIENCE`] is over;
//! while the sidecar is away, those that follow are tried once each, so that audits come to an end.

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::Duration,
};

use futures_util::{StreamExt as _, stream};
use hyper::{
    Method, Uri,
    body::Bytes,
    header::{CONTENT_TYPE, HeaderName, HeaderValue},
};
use modgate_value::Value;
use tokio::{
    runtime::Handle,
    time::{Instant, sleep},
};

use super::{ExportConfig, LOGGER, Source};
use crate::client::{Bounds, Client, Outgoing, Trust};

/// Where sidecars listen unless they are told otherwise.
pub(crate) const SIDECAR: &str = "http://localhost:3500";

/// How long one message is tried.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Messages under way at the same time, and messages that may wait.
const CONCURRENT: usize = 16;
const WAITING: usize = 64;

/// What the answer may say.
const ANSWER: usize = 64 << 10;

/// Something on its way to the sidecar.
#[derive(Debug)]
struct Parcel {
    source: Source,
    json: String,
    /// Whether it must not overtake others, nor be overtaken.
    is_frame: bool,
}

/// What came of each message.
pub(super) type Told = Arc<dyn Fn(Source, Result<(), String>) + Send + Sync>;

/// A topic of a sidecar.
pub(crate) struct Dapr {
    url: Uri,
    runtime: Handle,
    client: Client,
    sender: Option<SyncSender<Parcel>>,
}

impl std::fmt::Debug for Dapr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dapr").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Dapr {
    pub(super) fn of(
        settings: &Value,
        config: &ExportConfig,
        runtime: Handle,
    ) -> Result<Self, String> {
        if settings.as_object().is_none() {
            return Err("invalid type assertion, config is not in expected format".to_owned());
        }
        let component = settings.get("component").and_then(Value::as_str);
        let component = component.ok_or("failed to get value of component")?;
        let base = config.sidecar.trim_end_matches('/');
        let url = format!("{base}/v1.0/publish/{component}/{}", config.channel);
        let url = url.parse().map_err(|error| format!("`{url}` is no URL: {error}"))?;
        let client = Client::new(Trust::SystemOrPlain).map_err(|error| error.to_string())?;
        Ok(Self { url, runtime, client, sender: None })
    }

    /// Starts the thread that sends; it ends when this is dropped and everything is sent.
    pub(super) fn start(&mut self, told: Told) -> Result<(), String> {
        let (sender, receiver) = sync_channel(WAITING);
        let (url, client, runtime) = (self.url.clone(), self.client.clone(), self.runtime.clone());
        let work = move || run(&receiver, &Sender { url, client, told }, &runtime);
        let spawned = thread::Builder::new().name("modgate-export".to_owned()).spawn(work);
        spawned.map_err(|error| format!("cannot start a thread: {error}"))?;
        self.sender = Some(sender);
        Ok(())
    }

    /// Where messages are handed over; waits there while too many are under way.
    pub(super) fn outbox(&self) -> Option<Outbox> {
        self.sender.clone().map(Outbox)
    }
}

/// Takes messages for a sidecar.
pub(super) struct Outbox(SyncSender<Parcel>);

impl Outbox {
    pub(super) fn send(&self, source: Source, json: String, is_frame: bool) -> Result<(), String> {
        let mut parcel = Parcel { source, json, is_frame };
        loop {
            match self.0.try_send(parcel) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(back)) => {
                    parcel = back;
                    thread::sleep(Duration::from_millis(1));
                }
                Err(TrySendError::Disconnected(_)) => {
                    return Err("the connection was closed".to_owned());
                }
            }
        }
    }
}

struct Sender {
    url: Uri,
    client: Client,
    told: Told,
}

/// Sends what comes until nobody can send any more.
fn run(receiver: &Receiver<Parcel>, sender: &Sender, runtime: &Handle) {
    let mut is_away = false;
    let mut held: Option<Parcel> = None;
    loop {
        let first = match held.take() {
            Some(held) => held,
            None => match receiver.recv() {
                Ok(first) => first,
                Err(_) => return,
            },
        };
        let mut batch = vec![first];
        while !batch.iter().any(|parcel| parcel.is_frame) && batch.len() < CONCURRENT {
            match receiver.try_recv() {
                Ok(parcel) if parcel.is_frame => {
                    held = Some(parcel);
                    break;
                }
                Ok(parcel) => batch.push(parcel),
                Err(_) => break,
            }
        }
        let patience = if is_away { Duration::ZERO } else { PATIENCE };
        let sent = runtime.block_on(async {
            let sending = batch.iter().map(|parcel| sender.send(&parcel.json, patience));
            stream::iter(sending).buffered(CONCURRENT).collect::<Vec<_>>().await
        });
        let was_away = std::mem::replace(&mut is_away, sent.iter().all(Result::is_err));
        if is_away && !was_away {
            let reason = sent.iter().find_map(|sent| sent.as_ref().err());
            tracing::warn!(target: LOGGER, url = %sender.url, reason = reason.map_or("", String::as_str),
                "the sidecar takes no messages: each is tried once until it does");
        }
        for (parcel, sent) in batch.iter().zip(sent) {
            (sender.told)(parcel.source, sent);
        }
    }
}

impl Sender {
    /// Sends a message until it is taken; one attempt at least.
    async fn send(&self, json: &str, patience: Duration) -> Result<(), String> {
        let until = Instant::now() + patience;
        let mut pause = FIRST_PAUSE;
        loop {
            let reason = match self.attempt(json).await {
                Ok(()) => return Ok(()),
                Err(reason) => reason,
            };
            if Instant::now() + pause >= until {
                return Err(format!("error publishing message to dapr: {reason}"));
            }
            sleep(pause).await;
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }

    async fn attempt(&self, json: &str) -> Result<(), String> {
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
        let bounds = Bounds { deadline: Instant::now() + ATTEMPT, body_bytes: ANSWER };
        let answer = self.client.exchange(outgoing, bounds).await;
        let answer = answer.map_err(|error| error.to_string())?;
        if answer.status.is_success() {
            return Ok(());
        }
        Err(format!("the sidecar answered {}", answer.status.as_u16()))
    }
}

/// What a sidecar that is protected asks for, as Dapr's own clients find it.
fn token() -> Option<HeaderValue> {
    let token = std::env::var("DAPR_API_TOKEN").ok().filter(|token| !token.is_empty())?;
    let mut token = HeaderValue::from_str(&token).ok()?;
    token.set_sensitive(true);
    Some(token)
}
