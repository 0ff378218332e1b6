//! One call to one provider (6.2, 6.3).

use std::sync::Arc;

use hyper::{
    Method, Uri,
    body::Bytes,
    header::{CONTENT_TYPE, HeaderValue, LOCATION},
};
use modgate_engine::{api::externaldata, mutation::Answer, provider::CompiledProvider};
use modgate_http::{Bounds, Client, ClientError, Outgoing, Stage, Trust};
use modgate_value::{Str, Value};
use rustls::client::ResolvesClientCert;
use tokio::time::Instant;

/// The longest answer that is read.
pub const MAX_ANSWER_BYTES: usize = 16 << 20;

/// A provider and the connections to it.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) provider: Arc<CompiledProvider>,
    /// Where and with what to ask, or why that is not possible.
    route: Result<(Uri, Client), String>,
}

/// An answer, and the HTTP status it came with.
pub(super) type Answered = Result<(Answer, u16), String>;

impl Endpoint {
    pub(super) fn new(
        provider: Arc<CompiledProvider>,
        identity: Option<Arc<dyn ResolvesClientCert>>,
    ) -> Self {
        let route = route(&provider, identity)
            .map_err(|reason| format!("failed to get HTTP client: {reason}"));
        Self { provider, route }
    }

    /// Asks for these keys until `deadline`, or for as long as the Provider allows.
    pub(super) async fn ask(&self, keys: &[Str], deadline: Instant) -> Answered {
        let (url, client) = self.route.as_ref().map_err(Clone::clone)?;
        let json = HeaderValue::from_static("application/json");
        let outgoing = Outgoing {
            method: Method::POST,
            url: url.clone(),
            headers: vec![(CONTENT_TYPE, json)],
            body: Bytes::from(externaldata::request(keys).to_json()),
        };
        // A Provider may name more time than there is.
        let own = Instant::now().checked_add(self.provider.timeout());
        let bounds = Bounds {
            deadline: own.map_or(deadline, |own| deadline.min(own)),
            body_bytes: MAX_ANSWER_BYTES,
        };
        let incoming = client.exchange(outgoing, bounds).await.map_err(|error| {
            let what = match error.stage {
                Stage::Sending => "failed to send external data request",
                Stage::Reading => "failed to read external data response",
            };
            format!("{what}: {error}")
        })?;
        if incoming.status.is_redirection() && incoming.headers.contains_key(LOCATION) {
            return Err(format!(
                "failed to send external data request: the provider answered with a redirect \
                 (HTTP {}), which is not followed",
                incoming.status.as_u16()
            ));
        }
        let undecodable = |reason: &dyn std::fmt::Display| {
            format!("failed to unmarshal external data response: {reason}")
        };
        let body = Value::from_json(&incoming.body).map_err(|error| undecodable(&error))?;
        let answer = Answer::from_value(&body).map_err(|error| undecodable(&error))?;
        Ok((answer, incoming.status.as_u16()))
    }
}

fn route(
    provider: &CompiledProvider,
    identity: Option<Arc<dyn ResolvesClientCert>>,
) -> Result<(Uri, Client), String> {
    let url = provider.url();
    let unusable =
        |reason: &dyn std::fmt::Display| format!("failed to parse provider URL {url}: {reason}");
    let uri: Uri = url.parse().map_err(|error| unusable(&error))?;
    if uri.host().is_none_or(str::is_empty) {
        return Err(unusable(&"no host"));
    }
    let trust = Trust::Only { roots: provider.roots().to_vec(), identity };
    let client = Client::new(trust).map_err(|error| match error {
        ClientError::NoRoots => {
            "failed to append provider's CA bundle to certificate pool".to_owned()
        }
        other => other.to_string(),
    })?;
    Ok((uri, client))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use modgate_engine::api::externaldata::Provider;
    use modgate_value::go::base64::Alphabet;

    use super::*;

    const CERTIFICATE: &str =
        include_str!("../../../modgate-engine/src/provider/testdata/certificate.pem");

    /// Whatever time a Provider names, its call ends with an error of its own.
    #[tokio::test]
    async fn any_timeout_is_one() {
        for timeout in [0, 1, i64::from(u32::MAX), i64::MAX / 1000, i64::MAX] {
            let object = format!(
                r#"{{"metadata": {{"name": "p"}}, "spec": {{"url": "https://127.0.0.1:1/", "timeout": {timeout}, "caBundle": "{}"}}}}"#,
                Alphabet::Standard.encode(CERTIFICATE.as_bytes())
            );
            let object = Value::from_json(object.as_bytes()).expect("JSON");
            let provider = Provider::from_value(&object).expect("a Provider");
            let provider = CompiledProvider::compile(&provider).expect("valid");
            let endpoint = Endpoint::new(Arc::new(provider), None);
            let deadline = Instant::now() + Duration::from_secs(5);
            let failed = endpoint.ask(&["k".into()], deadline).await.expect_err("nothing listens");
            assert!(failed.contains("connection refused"), "{timeout}: {failed}");
        }
    }
}
