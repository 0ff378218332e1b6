//! A provider of external data on loopback: HTTPS, and everything it was asked written down.

use std::{
    convert::Infallible,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use http_body_util::{BodyExt as _, Full, combinators::BoxBody};
use hyper::{
    Request, Response,
    body::{Bytes, Frame, Incoming},
    header::LOCATION,
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use modgate_engine::{PolicySource, api::externaldata::Provider, provider::CompiledProvider};
use modgate_value::Value;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use rustls::{
    RootCertStore, ServerConfig, SupportedProtocolVersion,
    pki_types::{CertificateDer, PrivatePkcs8KeyDer},
    server::WebPkiClientVerifier,
};
use tokio::{net::TcpListener, sync::Barrier};
use tokio_rustls::TlsAcceptor;

/// How long `/pause` takes, and `/three` after three have asked it.
pub const PAUSE: Duration = Duration::from_secs(2);

/// Signs certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub pem: String,
    pub der: CertificateDer<'static>,
}

/// A certificate and its key.
pub struct Leaf {
    pub cert_pem: String,
    pub key_pem: String,
    pub der: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("key");
        let cert = params.self_signed(&key).expect("authority");
        Self { pem: cert.pem(), der: cert.der().clone(), issuer: Issuer::new(params, key) }
    }

    pub fn leaf(&self, name: &str, usage: ExtendedKeyUsagePurpose) -> Leaf {
        self.leaf_for(name, vec![usage])
    }

    pub fn leaf_for(&self, name: &str, usages: Vec<ExtendedKeyUsagePurpose>) -> Leaf {
        let mut params = CertificateParams::new([name.to_owned()]).expect("name");
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = usages;
        let key = KeyPair::generate().expect("key");
        let cert = params.signed_by(&key, &self.issuer).expect("leaf");
        Leaf::new(cert.pem(), cert.der().clone(), &key)
    }
}

impl Leaf {
    fn new(cert_pem: String, der: CertificateDer<'static>, key: &KeyPair) -> Self {
        Self {
            cert_pem,
            der,
            key_pem: key.serialize_pem(),
            key: PrivatePkcs8KeyDer::from(key.serialize_der()),
        }
    }

    /// Signed by itself and marked as an authority, as `openssl req -x509` does.
    pub fn self_signed(name: &str, expired: bool) -> Self {
        let mut params = CertificateParams::new([name.to_owned()]).expect("name");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        if expired {
            params.not_after = rcgen::date_time_ymd(2001, 1, 1);
        }
        let key = KeyPair::generate().expect("key");
        let cert = params.self_signed(&key).expect("certificate");
        Self::new(cert.pem(), cert.der().clone(), &key)
    }
}

/// A request that the provider received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub path: String,
    pub content_type: String,
    pub keys: Vec<String>,
    /// The client's certificate.
    pub client: Option<Vec<u8>>,
}

/// How the provider presents itself.
pub struct Presented<'a> {
    pub leaf: &'a Leaf,
    /// The authority that signs the clients it lets in; `None` lets in every client.
    pub clients: Option<&'a Authority>,
    pub version: &'static SupportedProtocolVersion,
}

/// A running provider.
pub struct Dummy {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    connections: Arc<AtomicUsize>,
}

impl Dummy {
    pub async fn start(presented: Presented<'_>) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[presented.version])
            .expect("version");
        let builder = match presented.clients {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(authority.der.clone()).expect("root");
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider)
                    .build()
                    .expect("verifier");
                builder.with_client_cert_verifier(verifier)
            }
        };
        let config = builder
            .with_single_cert(
                vec![presented.leaf.der.clone()],
                presented.leaf.key.clone_key().into(),
            )
            .expect("certificate");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let address = listener.local_addr().expect("address");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(AtomicUsize::new(0));
        let (log, count) = (Arc::clone(&asked), Arc::clone(&connections));
        let three = Arc::new(Barrier::new(3));
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (acceptor, log, count, three) =
                    (acceptor.clone(), Arc::clone(&log), Arc::clone(&count), Arc::clone(&three));
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(socket).await else { return };
                    count.fetch_add(1, Ordering::Relaxed);
                    let certificates = stream.get_ref().1.peer_certificates();
                    let client = certificates.and_then(|all| all.first()).map(|der| der.to_vec());
                    let service = service_fn(move |request| {
                        answer(request, client.clone(), Arc::clone(&log), Arc::clone(&three))
                    });
                    let _ =
                        http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { address, asked, connections }
    }

    pub fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.address.port())
    }

    /// Everything asked since last time.
    pub fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.asked.lock().expect("not poisoned"))
    }

    /// The keys of everything asked since last time.
    pub fn keys(&self) -> Vec<Vec<String>> {
        self.asked().into_iter().map(|asked| asked.keys).collect()
    }

    /// How many connections there have been.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

/// A Provider object.
pub fn object(name: &str, url: &str, timeout: i64, bundle: &str) -> Value {
    use base64::{Engine as _, engine::general_purpose::STANDARD};

    let spec: Value = [
        ("url", Value::from(url)),
        ("timeout", timeout.into()),
        ("caBundle", STANDARD.encode(bundle).into()),
    ]
    .into_iter()
    .collect();
    let metadata: Value = [("name", Value::from(name))].into_iter().collect();
    [
        ("apiVersion", Value::from("externaldata.gatekeeper.sh/v1beta1")),
        ("kind", "Provider".into()),
        ("metadata", metadata),
        ("spec", spec),
    ]
    .into_iter()
    .collect()
}

pub fn compiled(name: &str, url: &str, timeout: i64, bundle: &str) -> Arc<CompiledProvider> {
    let source = PolicySource::of_object(object(name, url, timeout, bundle));
    let provider = Provider::from_value(&source.object).expect("a Provider");
    Arc::new(CompiledProvider::compile(&provider).expect("valid"))
}

type Body = BoxBody<Bytes, Infallible>;

fn full(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).boxed()
}

async fn answer(
    request: Request<Incoming>,
    client: Option<Vec<u8>>,
    log: Arc<Mutex<Vec<Asked>>>,
    three: Arc<Barrier>,
) -> Result<Response<Body>, Infallible> {
    let path = request.uri().path().to_owned();
    let content_type = request
        .headers()
        .get("content-type")
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
        .to_owned();
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let body = Value::from_json(&body).expect("JSON");
    assert_eq!(body.get("kind").and_then(Value::as_str), Some("ProviderRequest"));
    let keys = body.pointer("/request/keys").and_then(Value::as_array).map(|keys| {
        keys.iter().map(|key| key.as_str().expect("text").to_owned()).collect::<Vec<_>>()
    });
    let keys = keys.unwrap_or_default();
    let asked = Asked { path: path.clone(), content_type, keys: keys.clone(), client };
    log.lock().expect("not poisoned").push(asked);
    Ok(match path.as_str() {
        "/slow" => {
            tokio::time::sleep(Duration::from_secs(30)).await;
            Response::new(full(dummy(&keys, true)))
        }
        "/pause" => {
            tokio::time::sleep(PAUSE).await;
            Response::new(full(dummy(&keys, true)))
        }
        "/three" => {
            three.wait().await;
            tokio::time::sleep(PAUSE).await;
            Response::new(full(dummy(&keys, true)))
        }
        "/half" => {
            let first = Frame::data(Bytes::from_static(b"{\"response\": "));
            Response::new(HalfBody(Some(first)).boxed())
        }
        "/huge" => Response::new(full(vec![b' '; modgate_policies::MAX_ANSWER_BYTES + 1])),
        "/redirect" => Response::builder()
            .status(307)
            .header(LOCATION, "/validate")
            .body(full(""))
            .expect("response"),
        "/status" => {
            Response::builder().status(503).body(full(dummy(&keys, true))).expect("response")
        }
        "/text" => Response::new(full("no such thing")),
        "/wrong" => Response::new(full(r#"{"response": {"items": 7}}"#)),
        "/changing" => Response::new(full(dummy(&keys, false))),
        _ => Response::new(full(dummy(&keys, true))),
    })
}

/// Sends its first part and then nothing, without coming to an end.
struct HalfBody(Option<Frame<Bytes>>);

impl hyper::body::Body for HalfBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.take().map_or(Poll::Pending, |frame| Poll::Ready(Some(Ok(frame))))
    }
}

/// As the dummy provider of Gatekeeper's own tests behaves.
fn dummy(keys: &[String], idempotent: bool) -> String {
    let items: Vec<Value> = keys
        .iter()
        .filter(|key| !key.ends_with("_valid"))
        .map(|key| {
            let second = match key.strip_prefix("number_") {
                _ if key.starts_with("error_") => ("error", Value::from(format!("{key}_invalid"))),
                Some(number) => ("value", number.parse::<i64>().expect("a number").into()),
                None => ("value", format!("{key}_valid").into()),
            };
            [("key", Value::from(key.as_str())), second].into_iter().collect()
        })
        .collect();
    let system_error = if keys.iter().any(|key| key.ends_with("_systemError")) {
        "testing system error"
    } else {
        ""
    };
    let response: Value = [
        ("idempotent", Value::from(idempotent)),
        ("items", items.into()),
        ("systemError", system_error.into()),
    ]
    .into_iter()
    .collect();
    [
        ("apiVersion", Value::from("externaldata.gatekeeper.sh/v1beta1")),
        ("kind", "ProviderResponse".into()),
        ("response", response),
    ]
    .into_iter()
    .collect::<Value>()
    .to_json()
}
