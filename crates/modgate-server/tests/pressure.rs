//! The server while others want all of it: evaluations without end, connections without requests,
//! bodies that do not come. Through real sockets; what happens is compared in order, not by a watch.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod https;

use std::{
    collections::VecDeque,
    io::{ErrorKind, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use https::{Running, connect, get, trusting};
use modgate_testkit::{
    client::{self, TlsConnection},
    steps::{TIMEOUT, eventually},
};
use modgate_value::Value;

/// A rule of one namespace that uses up whatever time it is given, and one of another.
const RULES: &str = r#"
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: burn, namespace: tenant}
spec:
  type: Patch
  match: [{select: '$.kind', matchValue: Pod}]
  patch:
  - op: add
    path: /metadata/labels/x
    value: '{{ $x := repeat 1000000 "a" }}{{ $y := repeat 1000000 "a" }}{{ range until 100000 }}{{ range until 100000 }}{{ $c := eq $x $y }}{{ end }}{{ end }}'
---
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: denies, namespace: neighbour}
spec:
  type: Reject
  rejectMessage: not here
  match: [{select: '$.kind', matchValue: Pod}]
"#;

fn review(namespace: &str) -> String {
    format!(
        r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{"uid":"u-{namespace}","kind":{{"group":"","version":"v1","kind":"Pod"}},"resource":{{"group":"","version":"v1","resource":"pods"}},"name":"p","namespace":"{namespace}","operation":"CREATE","object":{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p","namespace":"{namespace}","labels":{{}}}}}}}}}}"#
    )
}

/// Requests to a webhook that have a slot or wait for one.
fn in_flight(server: &Running) -> usize {
    let name = r#"controller_runtime_webhook_requests_in_flight{webhook="/dragnet-webhook"} "#;
    let metrics = get(server.metrics, "/metrics").body;
    let value = metrics.lines().find_map(|line| line.strip_prefix(name));
    value.map_or(0, |value| value.trim().parse().expect("number"))
}

/// More reviews than there can be evaluations, each of which would go on for longer than the test:
/// meanwhile probes, metrics, handshakes and the reviews of another namespace are answered.
#[test]
fn evaluations_that_use_up_their_time_hold_up_no_others() {
    let server = Running::start(RULES, |config| {
        config.evaluators = 1;
        config.limits.time = Duration::from_secs(600);
        config.engine.request_limits.time = Duration::from_secs(600);
        config.engine.request_limits.steps = u64::MAX;
        config.engine.rule_limits = config.engine.request_limits;
    });
    let answered = Arc::new(AtomicUsize::new(0));
    for _ in 0..8 {
        let (address, answered) = (server.address, Arc::clone(&answered));
        thread::spawn(move || {
            let body = review("tenant");
            let mut stream = connect(address);
            stream.write_all(client::post("/dragnet-webhook", &body).as_bytes()).expect("sent");
            // It ends with the test, without an answer.
            if stream.read(&mut [0]).is_ok_and(|read| read > 0) {
                answered.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    eventually("all of them are there", || in_flight(&server) == 8);
    for _ in 0..5 {
        assert_eq!(get(server.health, "/healthz").status, 200);
        assert_eq!(get(server.health, "/readyz").status, 200);
        assert_eq!(get(server.metrics, "/metrics").status, 200);
        drop(connect(server.address));
        let response = server.review("/dragnet-webhook", &review("neighbour"));
        assert_eq!(response.get("allowed"), Some(&Value::from(false)));
        assert_eq!(response.get("uid"), Some(&Value::from("u-neighbour")));
    }
    assert_eq!(answered.load(Ordering::SeqCst), 0, "all of them still run or wait");
}

/// A rule that used up its time thrice gets a small share of it; a Reject rule that is not decided
/// for that denies, also then.
#[test]
fn a_policy_that_keeps_using_up_its_time_is_demoted_and_still_denies() {
    let rules = RULES.replace("type: Patch", "type: Reject").replace(
        "  patch:\n  - op: add\n    path: /metadata/labels/x\n    value:",
        "  rejectMessage:",
    );
    let server = Running::start(&rules, |config| {
        config.engine.rule_limits.time = Duration::from_millis(200);
        config.engine.rule_limits.steps = u64::MAX;
        config.engine.request_limits.steps = u64::MAX;
    });
    let demoted = || {
        let metrics = get(server.metrics, "/metrics").body;
        let line = r#"modgate_policy_demoted{kind="ModRule",name="tenant/burn"} 1"#;
        metrics.lines().any(|found| found == line)
    };
    for _ in 0..3 {
        assert!(!demoted());
        let response = server.review("/dragnet-webhook", &review("tenant"));
        assert_eq!(response.get("allowed"), Some(&Value::from(false)));
    }
    assert!(demoted());
    let response = server.review("/dragnet-webhook", &review("tenant"));
    assert_eq!(response.get("allowed"), Some(&Value::from(false)));
    let response = server.review("/dragnet-webhook", &review("elsewhere"));
    assert_eq!(response.get("allowed"), Some(&Value::from(true)));
}

/// Connections of one client that ask nothing: the oldest goes for each that is too many.
#[test]
fn idle_connections_make_room_for_others() {
    let server = Running::start(RULES, |_| {});
    let idle: Vec<_> =
        (0..300).map(|_| TcpStream::connect(server.address).expect("connected")).collect();
    let response = server.review("/dragnet-webhook", &review("neighbour"));
    assert_eq!(response.get("allowed"), Some(&Value::from(false)));
    let is_closed = |mut stream: &TcpStream| {
        stream.set_nonblocking(true).expect("set");
        match stream.read(&mut [0]) {
            Ok(read) => read == 0,
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        }
    };
    eventually("the oldest are closed", || idle[..40].iter().all(is_closed));
    assert!(!is_closed(&idle[299]));
}

/// The review of a Pod on a connection that stays open, and the head of its answer.
fn ask(stream: &mut TlsConnection, namespace: &str) -> std::io::Result<String> {
    let body = review(namespace);
    let text = client::post("/dragnet-webhook", &body).replacen("Connection: close\r\n", "", 1);
    stream.write_all(text.as_bytes())?;
    stream.flush()?;
    let mut answer = Vec::new();
    loop {
        let mut part = [0; 4096];
        match stream.read(&mut part)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            read => answer.extend_from_slice(&part[..read]),
        }
        let text = String::from_utf8_lossy(&answer);
        let Some((head, rest)) = text.split_once("\r\n\r\n") else { continue };
        let head = head.to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if rest.len() >= length.expect("a length").parse().expect("a number") {
            return Ok(head);
        }
    }
}

/// Opens connections as fast as they come and leaves each as it is, more of them than there may be,
/// until the end of the test.
fn open_idle(address: SocketAddr, kind: usize, over: &Arc<AtomicBool>) {
    const HALF_HELLO: &[u8] = &[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3];
    let over = Arc::clone(over);
    thread::spawn(move || {
        let mut held: VecDeque<(TcpStream, Option<TlsConnection>)> = VecDeque::new();
        while !over.load(Ordering::SeqCst) {
            if held.len() > 300 {
                held.pop_front();
            }
            let Ok(mut stream) = TcpStream::connect(address) else { continue };
            let tls = match kind {
                0 => None,
                1 => stream.write_all(HALF_HELLO).ok().and(None),
                2 => client::connect(address, trusting(&[])).ok(),
                3 => client::connect(address, trusting(&[])).ok().map(|mut tls| {
                    let _ = tls.write_all(b"POST /dragnet-webhook HT").and_then(|()| tls.flush());
                    tls
                }),
                _ => client::connect(address, trusting(&["h2"])).ok().map(|mut tls| {
                    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
                    let _ = tls.write_all(preface).and_then(|()| tls.flush());
                    tls
                }),
            };
            held.push_back((stream, tls));
        }
    });
}

/// Connections that ask nothing, of every kind and from the address of a client, many more than
/// there may be: the connections of that client stay, and each of its reviews is answered there.
#[test]
fn connections_in_use_stay_while_others_open_idle_ones() {
    let server = Running::start(RULES, |_| {});
    let mut clients = [connect(server.address), connect(server.address)];
    let over = Arc::new(AtomicBool::new(false));
    for client in &mut clients {
        ask(client, "neighbour").expect("answered");
    }
    for kind in [0, 0, 1, 2, 3, 4] {
        open_idle(server.address, kind, &over);
    }
    let end = Instant::now() + Duration::from_secs(5);
    let mut count = 0;
    while Instant::now() < end {
        for client in &mut clients {
            let head = ask(client, "neighbour").unwrap_or_else(|error| panic!("{count}: {error}"));
            assert!(head.starts_with("http/1.1 200") && !head.contains("connection: close"));
            count += 1;
        }
    }
    over.store(true, Ordering::SeqCst);
    assert!(count > 20, "{count}");
}

/// More connections in use than there may be: the one that was not used for longest makes room, and
/// a review that is on its way on it is answered, with `Connection: close`.
#[test]
fn a_connection_in_use_that_makes_room_answers_once_more() {
    let server = Running::start(RULES, |_| {});
    let mut oldest = connect(server.address);
    assert!(!ask(&mut oldest, "neighbour").expect("answered").contains("connection: close"));
    let mut others = Vec::new();
    for _ in 0..255 {
        let mut other = connect(server.address);
        ask(&mut other, "neighbour").expect("answered");
        others.push(other);
    }
    let mut newest = connect(server.address);
    ask(&mut newest, "neighbour").expect("answered");
    let head = ask(&mut oldest, "neighbour").expect("answered although it made room");
    assert!(head.contains("connection: close"), "{head}");
    assert_eq!(oldest.read(&mut [0]).unwrap_or(0), 0, "closed");
    for other in &mut others {
        let head = ask(other, "neighbour").expect("answered");
        assert!(!head.contains("connection: close"), "{head}");
    }
}

/// More bytes of bodies than there may be, none of which is complete: a review is decided all the
/// same.
#[test]
fn bodies_that_do_not_come_make_room_for_others() {
    let server = Running::start(RULES, |config| config.limits.all_bodies_bytes = 64 << 10);
    let held: Vec<_> = (0..8)
        .map(|_| {
            let mut stream = connect(server.address);
            let head = "POST /dragnet-webhook HTTP/1.1\r\nHost: x\r\n\
                        Content-Type: application/json\r\nContent-Length: 60000\r\n\r\n";
            stream.write_all(head.as_bytes()).expect("sent");
            stream.write_all(&[b' '; 10_000]).expect("sent");
            stream
        })
        .collect();
    eventually("they take all there is", || {
        let metrics = get(server.metrics, "/metrics").body;
        let name = "modgate_request_body_bytes ";
        let bytes = metrics.lines().find_map(|line| line.strip_prefix(name));
        bytes.is_some_and(|bytes| bytes.parse::<usize>().is_ok_and(|bytes| bytes > 50_000))
    });
    let response = server.review("/dragnet-webhook", &review("neighbour"));
    assert_eq!(response.get("allowed"), Some(&Value::from(false)), "{response}");
    assert_eq!(response.get("uid"), Some(&Value::from("u-neighbour")));
    drop(held);
}

type Sender = hyper::client::conn::http2::SendRequest<http_body_util::Full<hyper::body::Bytes>>;

/// One HTTP/2 connection, as an API server has it.
async fn http2(address: SocketAddr) -> Sender {
    http2_and_its_end(address).await.0
}

/// As [`http2`], with the task that ends when the connection does.
async fn http2_and_its_end(
    address: SocketAddr,
) -> (Sender, tokio::task::JoinHandle<hyper::Result<()>>) {
    use hyper_util::rt::{TokioExecutor, TokioIo};

    let tcp = tokio::net::TcpStream::connect(address).await.expect("connected");
    let name = rustls::pki_types::ServerName::try_from("localhost").expect("name");
    let connector = tokio_rustls::TlsConnector::from(Arc::new(trusting(&["h2"])));
    let stream = connector.connect(name, tcp).await.expect("handshake");
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .expect("HTTP/2");
    (sender, tokio::spawn(connection))
}

fn request(
    method: &str,
    path: &str,
    body: String,
) -> hyper::Request<http_body_util::Full<hyper::body::Bytes>> {
    hyper::Request::builder()
        .method(method)
        .uri(format!("https://localhost{path}"))
        .header("content-type", "application/json")
        .body(body.into())
        .expect("request")
}

/// Requests on the connection of one that is evaluated without end are answered, too.
#[tokio::test(flavor = "multi_thread")]
async fn an_evaluation_without_end_does_not_hold_up_its_connection() {
    let server = tokio::task::spawn_blocking(|| {
        Running::start(RULES, |config| {
            config.evaluators = 1;
            config.engine.request_limits.time = Duration::from_secs(600);
            config.engine.request_limits.steps = u64::MAX;
            config.engine.rule_limits = config.engine.request_limits;
        })
    });
    let server = server.await.expect("server");
    let mut sender = http2(server.address).await;
    // Larger than what may be sent ahead, so that the connection has to say that it was read.
    let body = review("tenant").replace("{}", &format!(r#"{{"a": "{}"}}"#, "x".repeat(300_000)));
    let endless = tokio::spawn(sender.send_request(request("POST", "/dragnet-webhook", body)));
    for _ in 0..20 {
        let neighbour = request("POST", "/dragnet-webhook", review("neighbour"));
        let answer = tokio::time::timeout(TIMEOUT, sender.send_request(neighbour)).await;
        assert_eq!(answer.expect("in time").expect("answered").status(), 200);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!endless.is_finished());
    tokio::task::spawn_blocking(move || drop(server)).await.expect("ended");
}

/// An HTTP/2 connection that makes room ends with GOAWAY, after a request that is evaluated.
#[tokio::test(flavor = "multi_thread")]
async fn http2_connections_that_make_room_receive_goaway() {
    let server = tokio::task::spawn_blocking(|| Running::start(RULES, |_| {}));
    let server = server.await.expect("server");
    let (mut oldest, ended) = http2_and_its_end(server.address).await;
    let answer = oldest.send_request(request("POST", "/dragnet-webhook", review("neighbour")));
    assert_eq!(answer.await.expect("answered").status(), 200);
    let mut others = Vec::new();
    for _ in 0..256 {
        let mut other = http2(server.address).await;
        let answer = other.send_request(request("POST", "/dragnet-webhook", review("neighbour")));
        assert_eq!(answer.await.expect("answered").status(), 200);
        others.push(other);
    }
    let ended = tokio::time::timeout(TIMEOUT, ended).await.expect("in time").expect("joined");
    ended.expect("GOAWAY, no end in the middle of everything");
    for other in &mut others {
        let answer = other.send_request(request("POST", "/dragnet-webhook", review("neighbour")));
        assert_eq!(answer.await.expect("answered").status(), 200);
    }
    tokio::task::spawn_blocking(move || drop(server)).await.expect("ended");
}

/// Error answers reach clients that send an unwanted body, also over HTTP/2.
#[tokio::test(flavor = "multi_thread")]
async fn error_answers_reach_clients_that_send_a_body() {
    use http_body_util::BodyExt as _;

    let server = tokio::task::spawn_blocking(|| Running::start(RULES, |_| {}));
    let server = server.await.expect("server");
    let mut sender = http2(server.address).await;
    for (path, method, status) in [
        ("/nowhere", "POST", 404),
        ("/dragnet-webhook", "PUT", 405),
        ("/healthz", "POST", 405),
        ("/v1/dryrun", "POST", 404),
        ("/dragnet-webhook", "POST", 200),
    ] {
        for size in [2, 100_000] {
            let answer = sender.send_request(request(method, path, " ".repeat(size)));
            let answer = answer.await.expect(path);
            assert_eq!(answer.status(), status, "{method} {path}");
            answer.into_body().collect().await.expect("a whole answer");
        }
    }
    tokio::task::spawn_blocking(move || drop(server)).await.expect("ended");
}
