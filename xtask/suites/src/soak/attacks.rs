//! Attacks of a client that can reach the port.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::{Arc, atomic::Ordering},
    thread::{self, Scope},
    time::{Duration, Instant},
};

use anyhow::Result;
use rustls::{ClientConnection, StreamOwned};

use super::{Run, cases::review};
use crate::load::Target;

type Tls = StreamOwned<ClientConnection, TcpStream>;

/// Starts a thread for each attack; they end when the run is over.
pub(super) fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    run: &'scope Arc<Run>,
    idle: usize,
    burning: usize,
) {
    for _ in 0..burning {
        scope.spawn(move || burn(run));
    }
    for kind in [Idle::Silent, Idle::HalfHello, Idle::Shaken, Idle::HalfHead, Idle::Http2] {
        scope.spawn(move || hold(run, kind, idle));
    }
    scope.spawn(move || slow_bodies(run, idle / 10 + 1));
    scope.spawn(move || bombs(run));
    scope.spawn(move || hang_up(run));
}

/// How a connection is left alone.
#[derive(Debug, Clone, Copy)]
enum Idle {
    /// Nothing is sent.
    Silent,
    /// The first bytes of a handshake.
    HalfHello,
    /// A handshake, and nothing.
    Shaken,
    /// The first lines of a request, and a byte more each second.
    HalfHead,
    /// HTTP/2 without a stream, and a PING each second.
    Http2,
}

enum Held {
    Plain(TcpStream),
    Tls(Box<Tls>),
}

/// The start of a TLS 1.2 record with a ClientHello of 512 bytes.
const HALF_HELLO: &[u8] = &[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3];

/// The preface of HTTP/2 and an empty SETTINGS frame.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// A PING frame.
const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0modgate!";

/// Holds `count` connections open, and opens those again that the server closed.
fn hold(run: &Run, kind: Idle, count: usize) {
    let mut held: Vec<Held> = Vec::new();
    while !run.is_over() {
        held.retain_mut(|connection| connection.keep(kind));
        while held.len() < count && !run.is_over() {
            match open(run, kind) {
                Ok(connection) => held.push(connection),
                // Full, or not fast enough: the server's good right.
                Err(_) => break,
            }
        }
        thread::sleep(Duration::from_secs(1));
    }
}

fn open(run: &Run, kind: Idle) -> Result<Held> {
    run.attacks.fetch_add(1, Ordering::Relaxed);
    if matches!(kind, Idle::Silent | Idle::HalfHello) {
        let mut tcp = connect(run)?;
        if matches!(kind, Idle::HalfHello) {
            tcp.write_all(HALF_HELLO)?;
        }
        tcp.set_nonblocking(true)?;
        return Ok(Held::Plain(tcp));
    }
    let protocol: &[u8] = if matches!(kind, Idle::Http2) { b"h2" } else { b"http/1.1" };
    let mut tls = shake_hands(run, protocol)?;
    match kind {
        Idle::HalfHead => tls.write_all(b"POST /v1/admit HTTP/1.1\r\nHost: h\r\nX-Slow: ")?,
        Idle::Http2 => tls.write_all(HTTP2)?,
        _ => {}
    }
    tls.flush()?;
    tls.sock.set_nonblocking(true)?;
    Ok(Held::Tls(Box::new(tls)))
}

impl Held {
    /// Does what its kind does each second; false once the server has closed it.
    fn keep(&mut self, kind: Idle) -> bool {
        let mut buffer = [0; 4096];
        let (sent, read) = match self {
            Self::Plain(tcp) => (Ok(()), tcp.read(&mut buffer)),
            Self::Tls(tls) => {
                let sent = match kind {
                    Idle::HalfHead => tls.write_all(b"x").and_then(|()| tls.flush()),
                    Idle::Http2 => tls.write_all(PING).and_then(|()| tls.flush()),
                    _ => Ok(()),
                };
                (sent, tls.read(&mut buffer))
            }
        };
        let is_waiting = |error: &std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
        let is_open = match read {
            Ok(bytes) => bytes > 0,
            Err(error) => is_waiting(&error),
        };
        is_open && sent.map_or_else(|error| is_waiting(&error), |()| true)
    }
}

/// No attack waits longer than this for the server.
const TIMEOUT: Duration = Duration::from_secs(15);

fn connect(run: &Run) -> Result<TcpStream> {
    let tcp = TcpStream::connect_timeout(&run.address, TIMEOUT)?;
    tcp.set_read_timeout(Some(TIMEOUT))?;
    tcp.set_write_timeout(Some(TIMEOUT))?;
    Ok(tcp)
}

fn shake_hands(run: &Run, protocol: &[u8]) -> Result<Tls> {
    let mut tls = Target::resolve(&run.address.to_string(), "/")?.session(protocol)?;
    let mut tcp = connect(run)?;
    while tls.is_handshaking() {
        tls.complete_io(&mut tcp)?;
    }
    Ok(StreamOwned::new(tls, tcp))
}

/// Bodies that are promised and come a byte at a time.
fn slow_bodies(run: &Run, count: usize) {
    let mut held: Vec<Tls> = Vec::new();
    while !run.is_over() {
        held.retain_mut(|tls| tls.write_all(b"[").and_then(|()| tls.flush()).is_ok());
        while held.len() < count && !run.is_over() {
            run.attacks.fetch_add(1, Ordering::Relaxed);
            let Ok(mut tls) = shake_hands(run, b"http/1.1") else { break };
            if tls.write_all(&head("/dragnet-webhook", 6_000_000)).is_ok() {
                held.push(tls);
            }
        }
        thread::sleep(Duration::from_millis(500));
    }
}

fn head(route: &str, length: usize) -> Vec<u8> {
    format!(
        "POST {route} HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n"
    )
    .into_bytes()
}

/// Bodies that cost much to read or to decide. Each is answered or hung up on in time.
fn bombs(run: &Run) {
    let containers: Vec<String> =
        (0..3000).map(|index| format!(r#"{{"name":"c{index}","image":"i:{index}"}}"#)).collect();
    let pod = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"n","namespace":"shop"}},"spec":{{"containers":[{}]}}}}"#,
        containers.join(",")
    );
    let labels: Vec<String> = (0..100_000).map(|index| format!(r#""k{index}":"""#)).collect();
    let labelled = format!(
        r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"n","namespace":"shop","labels":{{{}}}}}}}"#,
        labels.join(",")
    );
    let depth = 200_000;
    let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let bodies = [
        review("", "v1", "Pod", "pods", &pod),
        review("apps", "v1", "Deployment", "deployments", &labelled),
        review("", "v1", "Pod", "pods", &deep),
        "[".repeat(3_000_000),
        format!("{{\"request\":{{\"uid\":\"{}\"}}}}", "u".repeat(2_000_000)),
        format!("{{\"request\":{}}}", "9".repeat(1_000_000)),
        r#"{"request":{"uid":"u","object":{"a":"#.to_owned(),
        String::new(),
    ];
    let routes =
        ["/dragnet-webhook", "/v1/admit", "/v1/mutate", "/mutate", "/validate", "/nowhere"];
    for round in 0_usize.. {
        if run.is_over() {
            break;
        }
        let body = bodies.get(round % bodies.len()).map(String::as_bytes).unwrap_or_default();
        let route = routes.get(round / bodies.len() % routes.len()).copied().unwrap_or_default();
        run.attacks.fetch_add(1, Ordering::Relaxed);
        let start = Instant::now();
        let attempt = shake_hands(run, b"http/1.1").map(|mut tls| {
            // It may answer before it has read all.
            let _ = tls.write_all(&head(route, body.len())).and_then(|()| tls.write_all(body));
            let _ = tls.flush();
            tls.read(&mut [0; 1024])
        });
        if let Ok(Err(error)) = attempt
            && start.elapsed() >= TIMEOUT
        {
            run.fault(&run.failed, &format!("a bomb was not answered on {route}: {error}"));
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// Reviews that use up their whole budget, one after the other.
fn burn(run: &Run) {
    let body = review("", "v1", "Pod", "pods", BURNING_POD).replace(r#""shop""#, r#""tenant""#);
    let request = [&*head("/dragnet-webhook", body.len()), body.as_bytes()].concat();
    while !run.is_over() {
        run.attacks.fetch_add(1, Ordering::Relaxed);
        let attempt = shake_hands(run, b"http/1.1").and_then(|mut tls| {
            tls.write_all(&request)?;
            tls.flush()?;
            Ok(tls.read(&mut [0; 1024])?)
        });
        if attempt.is_err() {
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The object on which the rules of the namespace `tenant` spend their time.
const BURNING_POD: &str =
    r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"n","namespace":"shop","labels":{}}}"#;

/// Connections that end in the middle of everything.
fn hang_up(run: &Run) {
    for round in 0_usize.. {
        if run.is_over() {
            break;
        }
        run.attacks.fetch_add(1, Ordering::Relaxed);
        let _ = match round % 3 {
            0 => connect(run).map(drop),
            1 => shake_hands(run, b"http/1.1").map(drop),
            _ => shake_hands(run, b"http/1.1").map(|mut tls| {
                let _ = tls.write_all(&head("/v1/admit", 1000)).and_then(|()| tls.write_all(b"{"));
            }),
        };
        thread::sleep(Duration::from_millis(20));
    }
}
