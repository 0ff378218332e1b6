//! One span per request.

use std::time::{Duration, SystemTime};

use hyper::HeaderMap;
use modgate_value::Value;
use rustls::crypto::ring;
use tokio::sync::mpsc;

use crate::otlp_json::{attribute, integer, nanoseconds, object, text};

/// Spans that wait to be sent; more are dropped.
const QUEUE: usize = 2048;

/// Queues spans to be sent.
#[derive(Debug)]
pub struct Tracer(mpsc::Sender<Span>);

impl Tracer {
    pub(crate) fn new() -> (Self, mpsc::Receiver<Span>) {
        let (sender, queue) = mpsc::channel(QUEUE);
        (Self(sender), queue)
    }

    /// Queues a span; a full queue drops it.
    pub fn record(&self, span: Span) {
        // What does not fit is dropped: no request waits for its trace.
        let _ = self.0.try_send(span);
    }
}

/// The span of the sender of a request, in W3C's `traceparent`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parent {
    trace: String,
    span: String,
    sampled: bool,
}

impl Parent {
    /// Reads `traceparent`; `None` if it is missing or invalid.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let header = headers.get("traceparent")?.to_str().ok()?;
        let mut parts = header.split('-');
        let (version, trace, span, flags) =
            (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let is_hex = |text: &str, length: usize| {
            text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        let is_valid = is_hex(version, 2)
            && version != "ff"
            && is_hex(trace, 32)
            && trace.bytes().any(|byte| byte != b'0')
            && is_hex(span, 16)
            && span.bytes().any(|byte| byte != b'0')
            && is_hex(flags, 2);
        let sampled = u8::from_str_radix(flags, 16).ok()? & 1 == 1;
        is_valid.then(|| Self { trace: trace.to_owned(), span: span.to_owned(), sampled })
    }

    /// Whether the sender does not sample this trace.
    pub fn is_left_out(&self) -> bool {
        !self.sampled
    }
}

/// A request that was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The span of the sender, if it sent one.
    pub parent: Option<Parent>,
    /// The path of the webhook.
    pub webhook: &'static str,
    /// HTTP status of the response.
    pub code: u16,
    /// When the response was complete.
    pub ended: SystemTime,
    /// How long it took.
    pub took: Duration,
}

impl Span {
    pub(crate) fn to_value(&self) -> Value {
        let (trace, parent) = match &self.parent {
            Some(parent) => (parent.trace.clone(), parent.span.clone()),
            None => (random::<16>(), String::new()),
        };
        let started = self.ended.checked_sub(self.took).unwrap_or(self.ended);
        let code = object([("intValue", integer(self.code))]);
        let attributes: Value = [
            attribute("http.request.method", text("POST")),
            attribute("url.path", text(self.webhook)),
            attribute("http.response.status_code", code),
        ]
        .into_iter()
        .collect();
        // 1 is ok, 2 an error.
        let status = if self.code < 500 { 1 } else { 2 };
        object([
            ("traceId", trace.into()),
            ("spanId", random::<8>().into()),
            ("parentSpanId", parent.into()),
            ("name", format!("POST {}", self.webhook).into()),
            // Of a server.
            ("kind", 2.into()),
            ("startTimeUnixNano", nanoseconds(started)),
            ("endTimeUnixNano", nanoseconds(self.ended)),
            ("attributes", attributes),
            ("status", object([("code", status.into())])),
        ])
    }
}

fn random<const N: usize>() -> String {
    let mut bytes = [1_u8; N];
    // Without randomness all have the same id, and the collector puts them together.
    let _ = ring::default_provider().secure_random.fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn parents() {
        let trace = "0af7651916cd43dd8448eb211c80319c";
        let span = "b7ad6b7169203331";
        for (header, expected) in [
            (format!("00-{trace}-{span}-01"), Some(true)),
            (format!("00-{trace}-{span}-00"), Some(false)),
            (format!("00-{}-{span}-01", "0".repeat(32)), None),
            (format!("ff-{trace}-{span}-01"), None),
            (format!("00-{trace}-{span}"), None),
            ("nonsense".to_owned(), None),
        ] {
            let headers = HeaderMap::from_iter([(
                hyper::header::HeaderName::from_static("traceparent"),
                header.parse().expect("header"),
            )]);
            assert_eq!(Parent::of(&headers).map(|it| !it.is_left_out()), expected, "{header}");
        }
    }

    #[test]
    fn as_otlp_has_it() {
        let span = Span {
            parent: Some(Parent { trace: "a".into(), span: "b".into(), sampled: true }),
            webhook: "/v1/admit",
            code: 500,
            ended: UNIX_EPOCH + Duration::from_secs(2),
            took: Duration::from_secs(1),
        };
        let value = span.to_value();
        for (key, expected) in [
            ("traceId", "a"),
            ("parentSpanId", "b"),
            ("name", "POST /v1/admit"),
            ("startTimeUnixNano", "1000000000"),
            ("endTimeUnixNano", "2000000000"),
        ] {
            assert_eq!(value.get(key).and_then(Value::as_str), Some(expected), "{key}");
        }
        assert_eq!(value.path(&["status", "code"]), Some(&Value::from(2)));
        let alone = Span { parent: None, ..span }.to_value();
        let id = |key: &str| alone.get(key).and_then(Value::as_str).map(str::len);
        assert_eq!(
            (id("traceId"), id("spanId"), id("parentSpanId")),
            (Some(32), Some(16), Some(0))
        );
    }
}
