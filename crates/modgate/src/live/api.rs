//! Calls of the page's API.

use std::{net::IpAddr, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use hyper::{
    Method, StatusCode, Uri,
    body::Bytes,
    header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderValue},
};
use modgate_http::{Bounds, Client, Outgoing, Trust};
use modgate_value::Value;
use tokio::{
    runtime::{Builder, Runtime},
    time::Instant,
};

use crate::terminal::printable;

/// Time for an answer, and bytes of it.
const TIME: Duration = Duration::from_secs(30);
const MAX_ANSWER: usize = 32 << 20;

/// The live page of one process.
pub(super) struct Page {
    runtime: Runtime,
    client: Client,
    address: String,
    /// The Pod; empty for an address that was given.
    pub(super) pod: String,
    token: Option<String>,
}

impl Page {
    pub(super) fn new(address: &str, pod: String, token: Option<String>) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let client = Client::new(Trust::SystemOrPlain)?;
        let address = address.trim_end_matches('/').to_owned();
        let has_scheme = ["http://", "https://"].iter().any(|it| address.starts_with(it));
        if !has_scheme {
            bail!("the address `{address}` must begin with http:// or https://");
        }
        ensure!(
            token.is_none() || address.starts_with("https://") || is_local(&address),
            "`{address}` would carry the token unencrypted over the network; use https, or `kubectl port-forward` \
             and an address of this machine"
        );
        Ok(Self { runtime, client, address, pod, token })
    }

    /// The document of a path such as `/api/v1/status`, which has the member `has`.
    pub(super) fn get(&self, path: &str, has: &str) -> Result<Value> {
        self.exchange(Method::GET, path, None, has)
    }

    /// The answer to a document; it has the member `has`.
    pub(super) fn post(&self, path: &str, body: &Value, has: &str) -> Result<Value> {
        self.exchange(Method::POST, path, Some(body), has)
    }

    fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        has: &str,
    ) -> Result<Value> {
        let url: Uri = format!("{}{path}", self.address).parse()?;
        // The page shares answers among viewers for a moment; who asks why wants the denial of just now.
        let mut headers = vec![
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        ];
        if let Some(token) = &self.token {
            let value = HeaderValue::try_from(format!("Bearer {token}"));
            let mut value = value.context("the token has characters that no token has")?;
            value.set_sensitive(true);
            headers.push((AUTHORIZATION, value));
        }
        let body = body.map(|body| Bytes::from(body.to_json())).unwrap_or_default();
        let outgoing = Outgoing { method, url, headers, body };
        let answered = self.runtime.block_on(async {
            let bounds = Bounds { deadline: Instant::now() + TIME, body_bytes: MAX_ANSWER };
            self.client.exchange(outgoing, bounds).await
        });
        let who = match self.pod.as_str() {
            "" => self.address.clone(),
            pod => format!("Pod {pod}"),
        };
        let answer = answered.with_context(|| format!("{who} does not answer"))?;
        let document = Value::from_json(&answer.body);
        if answer.status == StatusCode::OK {
            let document =
                document.map_err(|error| anyhow::anyhow!("{who} answers no JSON: {error}"))?;
            ensure!(
                document.get(has).is_some(),
                "{who} is not modgate: its answer to {} has no `{has}`; check the address",
                path.split('?').next().unwrap_or_default()
            );
            return Ok(document);
        }
        let error = document.ok().and_then(|it| Some(it.get("error")?.as_str()?.to_owned()));
        let error = error.unwrap_or_else(|| format!("{who} answers {}", answer.status));
        bail!("{}", printable(&error))
    }
}

/// Whether an address is one of this machine.
fn is_local(address: &str) -> bool {
    let host = address.parse::<Uri>().ok().and_then(|uri| Some(uri.host()?.to_owned()));
    let host = host.unwrap_or_default();
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || ip.is_ok_and(|ip| ip.is_loopback())
}

/// A value in the query of an address.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(byte.into());
            }
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// A member that is a text; empty if there is none.
pub(super) fn text<'v>(value: &'v Value, path: &[&str]) -> &'v str {
    value.path(path).and_then(Value::as_str).unwrap_or_default()
}

/// A member that is a number; 0 if there is none.
pub(super) fn number(value: &Value, path: &[&str]) -> i64 {
    value.path(path).and_then(Value::as_i64).unwrap_or_default()
}

/// The items of a list.
pub(super) fn items<'v>(value: &'v Value, path: &[&str]) -> impl Iterator<Item = &'v Value> {
    value.path(path).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_queries_stay_values() {
        assert_eq!(escaped("a b&c=d/é"), "a%20b%26c%3Dd%2F%C3%A9");
    }

    #[test]
    fn an_address_has_a_scheme() {
        assert!(Page::new("127.0.0.1:8088", String::new(), None).is_err());
        assert!(Page::new("http://127.0.0.1:8088/", String::new(), None).is_ok());
    }

    #[test]
    fn a_token_leaves_the_machine_encrypted() {
        for (address, is_sent) in [
            ("http://127.0.0.1:8088", true),
            ("http://[::1]:8088", true),
            ("http://LocalHost:8088/", true),
            ("https://modgate.example:8443", true),
            ("http://modgate.example:8088", false),
            ("http://127.0.0.1.example", false),
            ("http://localhost@modgate.example", false),
            ("http://10.0.0.1", false),
        ] {
            let page = Page::new(address, String::new(), Some("t".to_owned()));
            assert_eq!(page.is_ok(), is_sent, "{address}");
        }
    }
}
