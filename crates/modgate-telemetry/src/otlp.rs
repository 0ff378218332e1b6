//! Metrics and traces for an OpenTelemetry collector: OTLP over HTTP, as JSON.
//!
//! No library of OpenTelemetry is used: metrics are those of `/metrics`, read as they are scraped, so
//! that there is one set of them; a trace is one span per request. Both are sent by one task each,
//! from bounded memory; what the collector does not take is dropped, and said once in a while.

mod metrics;

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use hyper::{
    Method, Uri,
    body::Bytes,
    header::{CONTENT_TYPE, HeaderValue},
};
use modgate_http::{Bounds, Client, ClientError, Outgoing, Trust};
use modgate_value::Value;
use tokio::{
    sync::mpsc,
    time::{Instant, interval},
};

pub use crate::spans::{Parent, Span, Tracer};
use crate::{
    metrics::Metrics,
    otlp_json::{attribute, object, text},
};

/// Where to send what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtlpConfig {
    /// The collector's URL, without `/v1/…`.
    pub endpoint: String,
    /// How often metrics are sent; `None` if they are not.
    pub metrics: Option<Duration>,
}

/// Why nothing can be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OtlpError {
    /// The endpoint is no URL.
    #[error(
        "`{endpoint}` is not the URL of a collector, such as `http://collector:4318`: {reason}"
    )]
    Endpoint {
        /// As given.
        endpoint: String,
        /// Its error.
        reason: String,
    },
    /// There is no client.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// How long a collector may take to answer.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of its answer that are read.
const ANSWER_BYTES: usize = 64 << 10;
/// Failures are logged this often at most.
const SILENCE: Duration = Duration::from_secs(60);

/// Sends to one path of the collector.
struct Sender {
    client: Client,
    url: Uri,
    complained: Option<Instant>,
}

impl Sender {
    fn new(config: &OtlpConfig, path: &str) -> Result<Self, OtlpError> {
        let OtlpConfig { endpoint, .. } = config;
        let wrong = |reason: String| OtlpError::Endpoint { endpoint: endpoint.clone(), reason };
        let url: Uri = format!("{}{path}", endpoint.trim_end_matches('/'))
            .parse()
            .map_err(|error| wrong(format!("{error}")))?;
        if !matches!(url.scheme_str(), Some("http" | "https")) {
            return Err(wrong("it begins with neither `http://` nor `https://`".to_owned()));
        }
        Ok(Self { client: Client::new(Trust::SystemOrPlain)?, url, complained: None })
    }

    async fn send(&mut self, message: &Value) {
        let outgoing = Outgoing {
            method: Method::POST,
            url: self.url.clone(),
            headers: vec![(CONTENT_TYPE, HeaderValue::from_static("application/json"))],
            body: Bytes::from(message.to_json()),
        };
        let bounds = Bounds { deadline: Instant::now() + EXPORT_TIMEOUT, body_bytes: ANSWER_BYTES };
        let error = match self.client.exchange(outgoing, bounds).await {
            Ok(answer) if answer.status.is_success() => return,
            Ok(answer) => answer.status.to_string(),
            Err(error) => error.to_string(),
        };
        let now = Instant::now();
        if self.complained.is_none_or(|at| now.saturating_duration_since(at) >= SILENCE) {
            self.complained = Some(now);
            tracing::warn!(target: "otlp", url = %self.url, error, "the collector takes nothing");
        }
    }
}

/// Begins to send what `metrics` counts, on the runtime this is called on.
///
/// # Errors
///
/// When the endpoint is no URL, or there is no client.
pub fn start(config: &OtlpConfig, metrics: &Arc<Metrics>) -> Result<(), OtlpError> {
    let (tracer, queue) = Tracer::new();
    let sender = Sender::new(config, "/v1/traces")?;
    metrics.trace_with(tracer);
    tokio::spawn(send_spans(sender, queue));
    if let Some(every) = config.metrics {
        let sender = Sender::new(config, "/v1/metrics")?;
        tokio::spawn(send_metrics(sender, Arc::clone(metrics), every));
    }
    Ok(())
}

async fn send_metrics(mut sender: Sender, metrics: Arc<Metrics>, every: Duration) {
    let started = SystemTime::now();
    let mut ticks = interval(every);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let text = metrics.encode();
        let points = metrics::of_text(&text, metrics.descriptors(), started, SystemTime::now());
        sender.send(&resource("resourceMetrics", "scopeMetrics", "metrics", points)).await;
    }
}

/// Spans sent together, and how long they wait for others.
const BATCH: usize = 512;
const LINGER: Duration = Duration::from_secs(2);

async fn send_spans(mut sender: Sender, mut queue: mpsc::Receiver<Span>) {
    let mut batch = Vec::new();
    while queue.recv_many(&mut batch, BATCH).await > 0 {
        if batch.len() < BATCH {
            tokio::time::sleep(LINGER).await;
            while batch.len() < BATCH
                && let Ok(span) = queue.try_recv()
            {
                batch.push(span);
            }
        }
        let spans = batch.drain(..).map(|span| span.to_value()).collect();
        sender.send(&resource("resourceSpans", "scopeSpans", "spans", spans)).await;
    }
}

/// A message: who sends it, and what.
fn resource(outer: &str, scoped: &str, inner: &str, what: Value) -> Value {
    let name = attribute("service.name", text("modgate"));
    let version = attribute("service.version", text(env!("CARGO_PKG_VERSION")));
    let attributes: Value = [name, version].into_iter().collect();
    let scope = object([("name", "modgate".into())]);
    let list = |value: Value| -> Value { std::iter::once(value).collect() };
    object([(
        outer,
        list(object([
            ("resource", object([("attributes", attributes)])),
            (scoped, list(object([("scope", scope), (inner, what)]))),
        ])),
    )])
}
