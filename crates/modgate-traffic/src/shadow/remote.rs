//! The second decision by another webhook.

use std::{
    fs, io,
    path::PathBuf,
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hyper::{
    Method, Uri,
    body::Bytes,
    header::{CONTENT_TYPE, HeaderValue},
};
use modgate_engine::api::admission::{ReviewVersion, review_of};
use modgate_http::{Bounds, Client, ClientError, Outgoing, Trust};
use modgate_prove::{answer::Answer, recorded::Exchange};
use modgate_value::Value;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use tokio::{runtime::Builder, sync::Semaphore, time::Instant};

use super::{Item, PAUSE, Second, Shared};

/// Requests that are under way at once.
const IN_FLIGHT: usize = 16;
/// The largest answer. An API server refuses larger ones, too.
const MAX_ANSWER: usize = 8 << 20;

/// Where the requests of a webhook go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The path of the webhook here; `None` for all of them.
    webhook: Option<String>,
    scheme_and_host: String,
    /// The path there; `None` for the same.
    path: Option<String>,
}

impl FromStr for Target {
    type Err = String;

    /// `https://HOST:PORT`, `https://HOST:PORT/PATH` or `/WEBHOOK=https://HOST:PORT/PATH`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (webhook, url) = match text.split_once('=') {
            Some((webhook, url)) if webhook.starts_with('/') => (Some(webhook.to_owned()), url),
            _ => (None, text),
        };
        let uri: Uri = url.parse().map_err(|error| format!("`{url}` is not a URL: {error}"))?;
        let host = uri.authority().map(|it| it.as_str()).unwrap_or_default();
        if uri.scheme_str() != Some("https") || host.is_empty() || host.contains('@') {
            return Err(format!("`{url}` is not a URL with `https` and a host"));
        }
        if uri.query().is_some() {
            return Err(format!("`{url}` has a query, which modgate sets itself"));
        }
        let path = Some(uri.path()).filter(|path| !matches!(*path, "" | "/")).map(str::to_owned);
        Ok(Self { webhook, scheme_and_host: format!("https://{host}"), path })
    }
}

/// Another webhook.
#[derive(Debug)]
pub struct Remote {
    targets: Vec<Target>,
    client: Client,
    time: Duration,
    /// Whether the other webhook knows `v1beta1` of reviews only, as KubeMod does. An API server reads the versions in
    /// the webhook's configuration.
    only_v1beta1: AtomicBool,
}

/// Why another webhook cannot be called.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// The file with the authorities cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Authorities {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// No authority can be used.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl Remote {
    /// The default time for one answer.
    pub const TIME: Duration = Duration::from_secs(5);

    /// A webhook whose certificate the authorities of a PEM file vouch for, or those of the system.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or has no authority.
    pub fn new(
        targets: Vec<Target>,
        authorities: Option<PathBuf>,
        time: Duration,
    ) -> Result<Self, RemoteError> {
        let trust = match authorities {
            None => Trust::System,
            Some(path) => {
                let failed = |source| RemoteError::Authorities { path: path.clone(), source };
                let text = fs::read(&path).map_err(failed)?;
                let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
                let found = found.map_err(|error| failed(io::Error::other(error.to_string())))?;
                let roots = found.iter().map(|der| der.to_vec()).collect();
                Trust::Only { roots, identity: None }
            }
        };
        let (client, only_v1beta1) = (Client::new(trust)?, AtomicBool::default());
        Ok(Self { targets, client, time, only_v1beta1 })
    }

    /// The URL for a webhook, if its requests are sent.
    fn url(&self, webhook: &str) -> Option<String> {
        let exact = self.targets.iter().find(|it| it.webhook.as_deref() == Some(webhook));
        let target = exact.or_else(|| self.targets.iter().find(|it| it.webhook.is_none()))?;
        let path = target.path.as_deref().unwrap_or(webhook);
        Some(format!("{}{path}?timeout={}s", target.scheme_and_host, self.time.as_secs().max(1)))
    }

    pub(super) fn run(self, shared: &Arc<Shared>) {
        let runtime = match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                tracing::error!(target: super::LOGGER, %error, "the shadow cannot start");
                return;
            }
        };
        runtime.block_on(async {
            let remote = Arc::new(self);
            let permits = Arc::new(Semaphore::new(IN_FLIGHT));
            loop {
                let waiting = Arc::clone(shared);
                let items = tokio::task::spawn_blocking(move || waiting.queue.take_all(PAUSE));
                let Ok(Some(items)) = items.await else { return };
                for item in items {
                    let Some(url) = remote.url(item.exchange.webhook) else { continue };
                    let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
                    if shared.is_stale(&item) {
                        continue;
                    }
                    let (remote, shared) = (Arc::clone(&remote), Arc::clone(shared));
                    tokio::spawn(async move {
                        let second = remote.ask(&item, url).await;
                        shared.note(item, second);
                        drop(permit);
                    });
                }
            }
        });
    }

    async fn ask(&self, item: &Item, url: String) -> Result<Second, String> {
        let exchange = &item.exchange;
        let url: Uri = url.parse().map_err(|error| format!("{error}"))?;
        let version = match self.only_v1beta1.load(Ordering::Relaxed) {
            true => ReviewVersion::V1Beta1,
            false => exchange.version,
        };
        let mut response = self.send(exchange, version, url.clone()).await?;
        // A webhook that cannot read a review answers without its uid.
        if version == ReviewVersion::V1 && !is_for(exchange, &response) {
            response = self.send(exchange, ReviewVersion::V1Beta1, url).await?;
            if !is_for(exchange, &response) {
                return Err("the answer has not the uid of the request".to_owned());
            }
            self.only_v1beta1.store(true, Ordering::Relaxed);
        }
        let answer = Answer::of_response(&exchange.review, &response)
            .ok_or_else(|| "the answer is not an AdmissionReview with a response".to_owned())?;
        Ok(Second {
            allowed: answer.allowed,
            message: answer.denial().to_owned(),
            differences: answer.differences_from(&exchange.decision),
        })
    }

    /// The `response` to a review of this version.
    async fn send(
        &self,
        exchange: &Exchange,
        version: ReviewVersion,
        url: Uri,
    ) -> Result<Value, String> {
        let json = HeaderValue::from_static("application/json");
        let outgoing = Outgoing {
            method: Method::POST,
            url,
            headers: vec![(CONTENT_TYPE, json)],
            body: Bytes::from(body(exchange, version)),
        };
        let bounds = Bounds { deadline: Instant::now() + self.time, body_bytes: MAX_ANSWER };
        let answer = self.client.exchange(outgoing, bounds).await;
        let answer = answer.map_err(|error| error.to_string())?;
        if !answer.status.is_success() {
            return Err(format!("the webhook answers with status {}", answer.status));
        }
        let review = Value::from_json(&answer.body);
        let review = review.map_err(|error| format!("the answer is not JSON: {error}"))?;
        Ok(review.get("response").cloned().unwrap_or_default())
    }
}

/// Whether a response is to this request. Without any, it is no matter of versions.
fn is_for(exchange: &Exchange, response: &Value) -> bool {
    let uid = response.get("uid").and_then(Value::as_str);
    response.is_null() || uid == Some(exchange.review.request().uid.as_str())
}

/// The request as it came.
fn body(exchange: &Exchange, version: ReviewVersion) -> String {
    let request = exchange.review.sent().as_object().cloned().unwrap_or_default();
    review_of(version, request).to_json()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets() {
        let url = |target: &str, webhook: &str| {
            let targets = vec![target.parse().expect(target)];
            let client = Client::new(Trust::SystemOrPlain).expect("a client");
            let time = Duration::from_secs(5);
            Remote { targets, client, time, only_v1beta1: AtomicBool::default() }.url(webhook)
        };
        for (target, webhook, expected) in [
            ("https://other:8443", "/v1/admit", Some("https://other:8443/v1/admit?timeout=5s")),
            ("https://other/", "/mutate", Some("https://other/mutate?timeout=5s")),
            (
                "https://other/validate/fail",
                "/v1/admit",
                Some("https://other/validate/fail?timeout=5s"),
            ),
            ("/v1/admit=https://other/x", "/v1/admit", Some("https://other/x?timeout=5s")),
            ("/v1/admit=https://other/x", "/v1/mutate", None),
        ] {
            assert_eq!(url(target, webhook).as_deref(), expected, "{target} {webhook}");
        }
        for bad in
            ["other", "http://other", "https://", "https://a@b", "https://other?x=1", "x=https://a"]
        {
            assert!(bad.parse::<Target>().is_err(), "{bad}");
        }
    }
}
