//! A client with its connections, and one exchange with a server.

mod trust;

use std::{fmt, sync::Arc, time::Duration};

use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::{
    HeaderMap, Method, Request, StatusCode, Uri,
    body::Bytes,
    header::{HeaderName, HeaderValue, USER_AGENT},
};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use rustls::{ClientConfig, RootCertStore, client::ResolvesClientCert, crypto::ring};
use tokio::time::{Instant, timeout_at};

use crate::chain::Chain;

/// How long an idle connection is kept (6.3).
const IDLE: Duration = Duration::from_secs(90);
/// How many idle connections are kept per host (6.3).
const IDLE_PER_HOST: usize = 10;
/// How long it may take to connect, where the deadline is not nearer.
const CONNECT: Duration = Duration::from_secs(30);

/// An HTTP client with its connections; cheap to clone.
#[derive(Clone)]
pub struct Client {
    inner: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

/// Which servers a client trusts, and which protocols it speaks.
#[derive(Debug, Clone)]
pub enum Trust {
    /// HTTPS, with servers that the system's certificate authorities vouch for.
    System,
    /// As [`Trust::System`], and plain HTTP where a URL says so.
    SystemOrPlain,
    /// HTTPS with TLS 1.3, with servers that one of these certificates (DER) vouches for.
    Only {
        /// The certificates.
        roots: Vec<Vec<u8>>,
        /// The client certificate, for servers that request one.
        identity: Option<Arc<dyn ResolvesClientCert>>,
    },
}

/// Something to send.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// Such as `GET`.
    pub method: Method,
    /// Where to.
    pub url: Uri,
    /// Its headers, beside `Host`, `User-Agent` and `Content-Length`.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The body.
    pub body: Bytes,
}

impl Outgoing {
    /// A request for what is at `url`.
    pub fn get(url: Uri) -> Self {
        Self { method: Method::GET, url, headers: Vec::new(), body: Bytes::new() }
    }
}

/// A response of any status.
#[derive(Debug, Clone)]
pub struct Incoming {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// When to give up.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// At this moment.
    pub deadline: Instant,
    /// After this many bytes of body.
    pub body_bytes: usize,
}

/// Why there is no client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// None of the certificates can be one that vouches for others.
    #[error("no usable certificate authority")]
    NoRoots,
    /// The system has no certificate authorities, or TLS cannot be set up.
    #[error("cannot set up TLS: {0}")]
    Tls(String),
}

/// Why there is no response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.reason)]
pub struct ExchangeError {
    /// How far it got.
    pub stage: Stage,
    /// The message: a lower-case fragment.
    pub reason: String,
}

/// How far an exchange got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// No response head came.
    Sending,
    /// The body did not come in full.
    Reading,
}

impl Client {
    /// A client without connections yet.
    ///
    /// # Errors
    ///
    /// When there is no certificate authority to trust.
    pub fn new(trust: Trust) -> Result<Self, ClientError> {
        let plain = matches!(trust, Trust::SystemOrPlain);
        let tls = match trust {
            Trust::System | Trust::SystemOrPlain => system(plain)?,
            Trust::Only { roots, identity } => only(&roots, identity)?,
        };
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls);
        let builder = if plain { builder.https_or_http() } else { builder.https_only() };
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT));
        let inner = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_PER_HOST)
            .build(builder.enable_http1().wrap_connector(tcp));
        Ok(Self { inner })
    }

    /// Sends a request and reads the whole response.
    ///
    /// # Errors
    ///
    /// When the server cannot be reached or is not trusted, and at either of the bounds.
    pub async fn exchange(
        &self,
        outgoing: Outgoing,
        bounds: Bounds,
    ) -> Result<Incoming, ExchangeError> {
        let Outgoing { method, url, headers, body } = outgoing;
        let sending = |reason| ExchangeError { stage: Stage::Sending, reason };
        let reading = |reason| ExchangeError { stage: Stage::Reading, reason };
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = url;
        let agent = HeaderValue::from_static(concat!("modgate/", env!("CARGO_PKG_VERSION")));
        request.headers_mut().insert(USER_AGENT, agent);
        request.headers_mut().extend(headers);

        let response = timeout_at(bounds.deadline, self.inner.request(request))
            .await
            .map_err(|_| sending("no answer before the deadline".to_owned()))?
            .map_err(|error| sending(Chain(&error).to_string()))?;
        let (head, body) = response.into_parts();
        let body = timeout_at(bounds.deadline, Limited::new(body, bounds.body_bytes).collect())
            .await
            .map_err(|_| reading("not all of the answer came before the deadline".to_owned()))?
            .map_err(|error| match error.downcast_ref::<LengthLimitError>() {
                Some(_) => {
                    reading(format!("the answer is longer than {} bytes", bounds.body_bytes))
                }
                None => reading(Chain(&*error).to_string()),
            })?;
        Ok(Incoming { status: head.status, headers: head.headers, body: body.to_bytes() })
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

/// Trusts the system's authorities. A client that may use plain HTTP works even where the system has no
/// authorities, as in an empty image; over HTTPS it then trusts no server.
fn system(may_be_plain: bool) -> Result<ClientConfig, ClientError> {
    use hyper_rustls::ConfigBuilderExt as _;

    let tls =
        |error: &(dyn std::error::Error + 'static)| ClientError::Tls(Chain(error).to_string());
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| tls(&error))?;
    let trusting = match builder.clone().with_native_roots() {
        Ok(trusting) => trusting,
        Err(_) if may_be_plain => builder.with_root_certificates(RootCertStore::empty()),
        Err(error) => return Err(tls(&error)),
    };
    Ok(trusting.with_no_client_auth())
}

fn only(
    ders: &[Vec<u8>],
    identity: Option<Arc<dyn ResolvesClientCert>>,
) -> Result<ClientConfig, ClientError> {
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(ders.iter().map(|der| der.as_slice().into()));
    if added == 0 {
        return Err(ClientError::NoRoots);
    }
    let provider = Arc::new(ring::default_provider());
    let tls =
        |error: &(dyn std::error::Error + 'static)| ClientError::Tls(Chain(error).to_string());
    let verifier =
        trust::OnlyThese::new(roots, ders, Arc::clone(&provider)).map_err(|error| tls(&error))?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| tls(&error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    Ok(match identity {
        Some(identity) => config.with_client_cert_resolver(identity),
        None => config.with_no_client_auth(),
    })
}

#[cfg(test)]
mod tests {
    use std::{env, process::Command};

    use super::*;

    /// In a process of its own, as the system's authorities are found by its environment.
    #[test]
    fn plain_http_needs_no_authorities() {
        const FILE: &str = "SSL_CERT_FILE";
        const NOWHERE: &str = "/nowhere/authorities.pem";
        if env::var_os(FILE).is_some_and(|file| file == NOWHERE) {
            assert!(matches!(Client::new(Trust::System), Err(ClientError::Tls(_))));
            Client::new(Trust::SystemOrPlain).expect("a client");
            return;
        }
        let child = Command::new(env::current_exe().expect("this program"))
            .args(["--exact", "client::tests::plain_http_needs_no_authorities"])
            .env(FILE, NOWHERE)
            .env_remove("SSL_CERT_DIR")
            .output()
            .expect("run");
        let printed = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success() && printed.contains("1 passed"), "{printed}");
    }
}
