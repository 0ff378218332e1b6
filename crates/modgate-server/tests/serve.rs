//! The whole server over TLS on loopback: reload, last good version, graceful stop.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};
use modgate_policies::PolicyFiles;
use modgate_server::{Addresses, CertificateSource, ServeConfig, Server, Stopped};
use modgate_testkit::{client, steps::TIMEOUT};
use modgate_value::Value;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::mpsc,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

fn rule(message: &str) -> String {
    format!(
        "apiVersion: api.kubemod.io/v1beta1\nkind: ModRule\nmetadata: {{name: r, namespace: ns}}\n\
         spec:\n  type: Reject\n  rejectMessage: '{message}'\n  match: [{{select: '$.kind'}}]\n"
    )
}

const REVIEW: &str = r#"{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
    "request": {"uid": "u", "namespace": "ns", "operation": "CREATE", "object": {"kind": "Pod"}}}"#;

async fn start(policies: &Path) -> (SocketAddr, Server) {
    let files = PolicyFiles { policies: vec![policies.to_owned()], objects: Vec::new() };
    let certificate = CertificateSource::SelfSigned { names: vec!["localhost".to_owned()] };
    start_with(files, certificate).await
}

async fn start_with(files: PolicyFiles, certificate: CertificateSource) -> (SocketAddr, Server) {
    start_as(ServeConfig::new(files, certificate)).await
}

async fn start_as(mut config: ServeConfig) -> (SocketAddr, Server) {
    config.addresses = Addresses { webhooks: "127.0.0.1:0".to_owned(), ..Addresses::default() };
    config.poll = Duration::from_millis(20);
    let server = Server::start(config, |_| {}).await.expect("server");
    (server.address().expect("address"), server)
}

async fn connect(
    address: SocketAddr,
    version: &'static rustls::SupportedProtocolVersion,
    alpn: &str,
) -> TlsStream<TcpStream> {
    let mut config = client::trusting(&[version]).expect("versions").with_no_client_auth();
    config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
    let tcp = TcpStream::connect(address).await.expect("connect");
    let name = ServerName::try_from("localhost").expect("name");
    TlsConnector::from(Arc::new(config)).connect(name, tcp).await.expect("handshake")
}

/// A POST of a review to the dragnet webhook.
fn post() -> String {
    client::post("/dragnet-webhook", REVIEW)
}

fn reason(answer: &str) -> String {
    let body = answer.split_once("\r\n\r\n").map_or(answer, |(_, body)| body);
    let review =
        Value::from_json(body.as_bytes()).unwrap_or_else(|error| panic!("{error}: {answer}"));
    let reason = review.path(&["response", "status", "reason"]).and_then(Value::as_str);
    reason.unwrap_or_default().to_owned()
}

async fn review(address: SocketAddr) -> String {
    let mut stream = connect(address, &rustls::version::TLS13, "http/1.1").await;
    stream.write_all(post().as_bytes()).await.expect("send");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("receive");
    reason(&answer)
}

/// The answer to a GET.
async fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = connect(address, &rustls::version::TLS13, "http/1.1").await;
    stream.write_all(client::head("GET", path, "").as_bytes()).await.expect("send");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("receive");
    answer
}

/// Asks with GET until the answer contains `wanted`.
async fn get_until(address: SocketAddr, path: &str, wanted: &str) -> String {
    let asking = async {
        loop {
            let answer = get(address, path).await;
            if answer.contains(wanted) {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(TIMEOUT, asking).await.unwrap_or_else(|_| panic!("never answered `{wanted}`"))
}

/// Begins a request on a connection of its own. Returns what is missing once the server has the
/// beginning and waits for the rest.
async fn half_a_review(address: SocketAddr) -> (TlsStream<TcpStream>, String) {
    let mut open = connect(address, &rustls::version::TLS13, "http/1.1").await;
    let mut request = post();
    let rest = request.split_off(request.len() - 10);
    open.write_all(request.as_bytes()).await.expect("send");
    open.flush().await.expect("send");
    let in_flight =
        r#"controller_runtime_webhook_requests_in_flight{webhook="/dragnet-webhook"} 1"#;
    get_until(address, "/metrics", in_flight).await;
    (open, rest)
}

/// Writes a file in one step, as editors and ConfigMaps do: a file caught between being emptied and
/// being written is an empty file, which is a good one.
fn put(path: &Path, text: &str) {
    let fresh = tempfile::NamedTempFile::new().expect("file");
    fs::write(fresh.path(), text).expect("write");
    fresh.persist(path).expect("rename");
}

/// Asks until the answer contains `wanted`.
async fn review_until(address: SocketAddr, wanted: &str) {
    let asking = async {
        while !review(address).await.contains(wanted) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(TIMEOUT, asking).await.unwrap_or_else(|_| panic!("never answered `{wanted}`"));
}

#[tokio::test(flavor = "multi_thread")]
async fn serves_reloads_keeps_the_last_good_version_and_stops_gracefully() {
    let dir = tempfile::tempdir().expect("dir");
    let file = dir.path().join("rule.yaml");
    fs::write(&file, rule("first")).expect("write");
    let (address, server) = start(dir.path()).await;
    let (stop, asked) = mpsc::channel(1);
    let running = tokio::spawn(server.run_until(asked));

    assert!(review(address).await.contains("ns/r: \"first\""));
    put(&file, &rule("second"));
    review_until(address, "ns/r: \"second\"").await;

    // A bad file next to a changed one: once the change is seen, the bad file was seen, too.
    put(&file, "spec: [\n");
    let other = rule("other").replace("name: r,", "name: s,");
    put(&dir.path().join("s.yaml"), &other);
    review_until(address, "ns/s: \"other\"").await;
    assert!(review(address).await.contains("ns/r: \"second\""), "the last good version stays");

    // A request whose head was received before the stop is answered after it.
    let (mut open, rest) = half_a_review(address).await;
    stop.send(()).await.expect("stop");
    let refused = async { while TcpStream::connect(address).await.is_ok() {} };
    timeout(TIMEOUT, refused).await.expect("new connections are refused");
    open.write_all(rest.as_bytes()).await.expect("send");
    let mut answer = String::new();
    open.read_to_string(&mut answer).await.expect("receive");
    assert!(reason(&answer).contains("ns/r: \"second\""), "{answer}");
    drop(open);
    let stopped = timeout(TIMEOUT, running).await.expect("in time").expect("no panic");
    assert_eq!(stopped, Stopped::Gracefully);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_stops_at_once() {
    let dir = tempfile::tempdir().expect("dir");
    let (address, server) = start(dir.path()).await;
    let (stop, asked) = mpsc::channel(2);
    let running = tokio::spawn(server.run_until(asked));
    // A request that never ends.
    let (_open, _rest) = half_a_review(address).await;
    stop.send(()).await.expect("stop");
    stop.send(()).await.expect("stop");
    let stopped = timeout(TIMEOUT, running).await.expect("in time").expect("no panic");
    assert_eq!(stopped, Stopped::AtOnce);
}

#[tokio::test(flavor = "multi_thread")]
async fn http2_and_tls_1_2() {
    let dir = tempfile::tempdir().expect("dir");
    fs::write(dir.path().join("rule.yaml"), rule("hello")).expect("write");
    let (address, server) = start(dir.path()).await;
    let (_stop, asked) = mpsc::channel(1);
    let running = tokio::spawn(server.run_until(asked));

    let stream = connect(address, &rustls::version::TLS12, "h2").await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .expect("handshake");
    tokio::spawn(connection);
    for _ in 0..3 {
        let request = hyper::Request::post("https://localhost/dragnet-webhook")
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(REVIEW)))
            .expect("request");
        let response = sender.send_request(request).await.expect("response");
        let body = response.into_body().collect().await.expect("body").to_bytes();
        assert!(reason(str::from_utf8(&body).expect("text")).contains("ns/r: \"hello\""));
    }
    running.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_signal_it_answers_until_the_delay_is_over() {
    const DELAY: Duration = Duration::from_secs(5);
    let dir = tempfile::tempdir().expect("dir");
    fs::write(dir.path().join("rule.yaml"), rule("hello")).expect("write");
    let files = PolicyFiles { policies: vec![dir.path().to_owned()], objects: Vec::new() };
    let certificate = CertificateSource::SelfSigned { names: vec!["localhost".to_owned()] };
    let mut config = ServeConfig::new(files, certificate);
    config.shutdown_delay = DELAY;
    let (address, server) = start_as(config).await;
    let (stop, asked) = mpsc::channel(1);
    let running = tokio::spawn(server.run_until(asked));

    let stream = connect(address, &rustls::version::TLS13, "h2").await;
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .expect("handshake");
    let connection = tokio::spawn(connection);
    let mut ask = async |path: &str| {
        let request = hyper::Request::post(format!("https://localhost{path}"))
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(REVIEW)))
            .expect("request");
        let response = sender.send_request(request).await.expect("response");
        let body = response.into_body().collect().await.expect("body").to_bytes();
        str::from_utf8(&body).expect("text").to_owned()
    };
    assert!(reason(&ask("/dragnet-webhook").await).contains("ns/r: \"hello\""));
    let signalled = Instant::now();
    stop.send(()).await.expect("stop");
    let said = get_until(address, "/readyz", "[-]shutdown failed: process is stopping").await;
    assert!(said.starts_with("HTTP/1.1 500 "), "{said}");
    // Long before the delay is over, also on a busy machine.
    let until = Instant::now() + DELAY / 10;
    loop {
        // On the connection there is, and on a new one.
        assert!(reason(&ask("/dragnet-webhook").await).contains("ns/r: \"hello\""));
        assert!(review(address).await.contains("ns/r: \"hello\""));
        if Instant::now() >= until {
            break;
        }
    }
    // The client gets GOAWAY, and open requests are answered.
    let ended = timeout(TIMEOUT, connection).await.expect("in time").expect("no panic");
    ended.expect("a graceful end");
    assert!(signalled.elapsed() >= DELAY);
    let stopped = timeout(TIMEOUT, running).await.expect("in time").expect("no panic");
    assert_eq!(stopped, Stopped::Gracefully);
}

/// A certificate and its key in files; returns the certificate.
fn write_certificate(folder: &Path) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("cert");
    fs::write(folder.join("tls.crt"), made.cert.pem()).expect("write");
    fs::write(folder.join("tls.key"), made.signing_key.serialize_pem()).expect("write");
    made.cert.der().clone()
}

async fn served_certificate(address: SocketAddr) -> CertificateDer<'static> {
    let stream = connect(address, &rustls::version::TLS13, "http/1.1").await;
    stream.get_ref().1.peer_certificates().expect("certificates")[0].clone().into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_certificate_is_taken_up_and_a_bad_one_is_not() {
    let dir = tempfile::tempdir().expect("dir");
    let first = write_certificate(dir.path());
    let files = PolicyFiles { policies: Vec::new(), objects: Vec::new() };
    let path = |name| dir.path().join(name);
    let certificate = CertificateSource::Files { cert: path("tls.crt"), key: path("tls.key") };
    let (address, server) = start_with(files, certificate).await;
    let (_stop, asked) = mpsc::channel(1);
    let running = tokio::spawn(server.run_until(asked));
    assert_eq!(served_certificate(address).await, first);

    // A key that does not belong to the certificate, as between two writes.
    let other = rcgen::KeyPair::generate().expect("key");
    fs::write(path("tls.key"), other.serialize_pem()).expect("write");
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(served_certificate(address).await, first);

    let second = write_certificate(dir.path());
    let renewed = async {
        while served_certificate(address).await != second {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(TIMEOUT, renewed).await.expect("the new certificate is served");
    running.abort();
}
