//! Listeners: accept, handshake, serve HTTP/1.1 and HTTP/2, stop gracefully.

mod ahead;
mod answers;
mod connections;
mod requests;

use std::{
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use axum::Router;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulConnection},
    service::TowerToHyperService,
};
use rustls::server::Acceptor;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    runtime::Handle,
    sync::watch,
    time::{sleep, timeout},
};
use tokio_rustls::{LazyConfigAcceptor, TlsAcceptor};

pub(crate) use self::requests::{Peer, waits_for_continue};
use self::{
    ahead::ReadAhead,
    answers::Answers,
    connections::{Connection, Connections, Limits},
    requests::Requests,
};

/// The time from a connection to the head of its first request, handshake included.
const FIRST_REQUEST: Duration = Duration::from_secs(10);
/// A connection without an open request is closed after this, whatever pings it sends.
const IDLE: Duration = Duration::from_secs(90);
/// How long a client has to take notice that its connection is being closed.
const CLOSING: Duration = Duration::from_secs(1);
/// The server pings HTTP/2 connections this often.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// Streams of one HTTP/2 connection. A client with more requests opens another.
const MAX_STREAMS: u32 = 128;
/// The bytes that a client may send on one stream before they are read.
const STREAM_WINDOW: u32 = 128 << 10;
/// The same for all streams of a connection.
const CONNECTION_WINDOW: u32 = 256 << 10;
/// The head of an HTTP/1.1 request, and what is read ahead of its body.
const HTTP1_BUFFER: usize = 64 << 10;
/// Open connections per listener. An API server needs a handful; the bound keeps a stranger from
/// using up memory and file descriptors.
const MAX_CONNECTIONS: usize = 512;
/// Of these, those from one address: several API servers may share one.
const MAX_CONNECTIONS_PER_PEER: usize = 256;
/// Pause after `accept` failed, typically for want of file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// The transport of a listener.
#[derive(Clone)]
pub(crate) enum Transport {
    Plain,
    Tls(TlsAcceptor),
}

/// One bound address with what it serves.
pub(crate) struct Listener {
    pub(crate) socket: TcpListener,
    pub(crate) transport: Transport,
    pub(crate) routes: Router,
    /// Where connections are served; they are accepted on the runtime that runs the listener.
    pub(crate) runtime: Handle,
}

impl Listener {
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Serves until `stop` becomes true, then lets open requests finish, at most for `grace`.
    pub(crate) async fn run(self, mut stop: watch::Receiver<bool>, grace: Duration) {
        let Self { socket, transport, routes, runtime } = self;
        let http = Arc::new(protocol());
        let (closing, closed) = watch::channel(());
        let connections = Arc::new(Connections::new(Limits {
            all: MAX_CONNECTIONS,
            per_peer: MAX_CONNECTIONS_PER_PEER,
            first_request: FIRST_REQUEST,
            idle: IDLE,
        }));
        let answers = Answers::new(answers::MAX_BYTES);
        loop {
            let accepted = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => break,
                accepted = accept(&socket) => accepted,
            };
            let Some((stream, peer)) = accepted else { continue };
            let Some(connection) = connections.admit(peer.ip()) else {
                tracing::debug!(target: "listen", %peer, "every connection is at work: refused");
                continue;
            };
            let served = Served {
                http: Arc::clone(&http),
                routes: routes.clone(),
                closed: closed.clone(),
                peer,
                connections: Arc::clone(&connections),
                connection,
                answers: Arc::clone(&answers),
            };
            runtime.spawn(served.serve(stream, transport.clone()));
        }
        drop(socket);
        drop(closed);
        let _ = closing.send(());
        if timeout(grace, closing.closed()).await.is_err() {
            tracing::warn!(target: "listen", grace_seconds = grace.as_secs(),
                "requests still open after the grace period are cut off"
            );
        }
    }
}

/// A connection that belongs to no runtime yet.
async fn accept(socket: &TcpListener) -> Option<(std::net::TcpStream, SocketAddr)> {
    let accepted = match socket.accept().await {
        Ok((stream, peer)) => stream.into_std().map(|stream| (stream, peer)),
        Err(error) => Err(error),
    };
    match accepted {
        Ok(accepted) => Some(accepted),
        Err(error) => {
            tracing::debug!(target: "listen", %error, "accept failed");
            sleep(ACCEPT_RETRY).await;
            None
        }
    }
}

fn protocol() -> auto::Builder<TokioExecutor> {
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE + CLOSING)
        .max_buf_size(HTTP1_BUFFER);
    http.http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    http
}

/// One connection while it is served.
struct Served {
    http: Arc<auto::Builder<TokioExecutor>>,
    routes: Router,
    closed: watch::Receiver<()>,
    peer: SocketAddr,
    connections: Arc<Connections>,
    connection: Arc<Connection>,
    answers: Arc<Answers>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.connections.remove(&self.connection);
    }
}

impl Served {
    async fn serve(mut self, stream: std::net::TcpStream, transport: Transport) {
        let peer = self.peer;
        let stream = match TcpStream::from_std(stream) {
            Ok(stream) => stream,
            Err(error) => {
                tracing::debug!(target: "listen", %peer, %error, "connection not registered");
                return;
            }
        };
        // Reviews are small and answered at once; waiting to fill segments only adds latency.
        let _ = stream.set_nodelay(true);
        let spoke = async {
            stream.readable().await?;
            self.connection.spoke();
            Ok(stream)
        };
        match transport {
            Transport::Plain => {
                if let Some(stream) = self.prepare(spoke).await {
                    self.speak(stream).await;
                }
            }
            Transport::Tls(acceptor) => {
                let handshake = async {
                    let stream = ReadAhead::new(spoke.await?);
                    let begun = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
                    self.connection.said_hello();
                    begun.into_stream(Arc::clone(acceptor.config())).await
                };
                if let Some(stream) = self.prepare(handshake).await {
                    self.speak(stream).await;
                }
            }
        }
    }

    /// Waits until the client may send requests; `None` if it takes too long, or the connection had
    /// to make room.
    async fn prepare<T>(&self, ready: impl Future<Output = io::Result<T>>) -> Option<T> {
        let ready = tokio::select! {
            biased;
            ready = timeout(FIRST_REQUEST, ready) => ready,
            () = self.connection.is_cut_off() => {
                self.made_room();
                return None;
            }
        };
        let peer = self.peer;
        match ready {
            Ok(Ok(stream)) => {
                self.connection.shook_hands();
                return Some(stream);
            }
            Ok(Err(error)) => {
                tracing::debug!(target: "listen", %peer, %error, "TLS handshake failed")
            }
            Err(_) => tracing::debug!(target: "listen", %peer, "TLS handshake timed out"),
        }
        None
    }

    async fn speak(&mut self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let requests = Requests {
            routes: TowerToHyperService::new(self.routes.clone()),
            connection: Arc::clone(&self.connection),
            answers: Arc::clone(&self.answers),
        };
        let connection = self.http.serve_connection(TokioIo::new(stream), requests);
        let mut connection = pin!(connection);
        let outcome = tokio::select! {
            biased;
            outcome = connection.as_mut() => outcome,
            () = self.connection.is_cut_off() => {
                if self.connection.is_given_up() {
                    tracing::debug!(target: "listen", peer = %self.peer, "answers not read: closed to make room");
                    return;
                }
                self.made_room();
                // Its place is taken, and others may open connections faster than these close. Its
                // client may have sent a request the moment before, which is then answered.
                let closing = self.connections.closing();
                let is_between_requests =
                    self.connection.is_in_use() && !self.connection.has_requests();
                let is_closed_gracefully = is_between_requests && closing.is_some();
                if !is_closed_gracefully && !self.connection.is_at_work() {
                    return;
                }
                match self.close(connection).await {
                    Some(outcome) => outcome,
                    None => return,
                }
            }
            _ = self.closed.changed() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
            () = self.connections.expired(&self.connection) => match self.close(connection).await {
                Some(outcome) => outcome,
                None => return,
            },
        };
        if let Err(error) = outcome {
            tracing::debug!(target: "listen", peer = %self.peer, %error, "connection ended early");
        }
    }

    /// Closes a connection without a request, so that no request on its way is lost: an HTTP/2 client
    /// receives GOAWAY; a request over HTTP/1.1 that comes within [`CLOSING`] is answered with
    /// `Connection: close`. `None` if the client does not close its side.
    async fn close<C: GracefulConnection>(&self, mut connection: Pin<&mut C>) -> Option<C::Output> {
        if self.connection.is_in_use() && !self.connection.is_http2() {
            self.connection.close_after_answer();
        } else {
            connection.as_mut().graceful_shutdown();
        }
        loop {
            match timeout(CLOSING, connection.as_mut()).await {
                Ok(outcome) => return Some(outcome),
                // A request came at the last moment.
                Err(_) if self.connection.is_at_work() && !self.connection.is_given_up() => {}
                Err(_) => return None,
            }
        }
    }

    fn made_room(&self) {
        tracing::debug!(target: "listen", peer = %self.peer, "idle connection closed to make room");
    }
}

#[cfg(test)]
mod tests {
    use axum::{extract::DefaultBodyLimit, routing::post};
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream},
        sync::Notify,
        task::yield_now,
    };

    use super::*;

    const PEER: SocketAddr =
        SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1);

    /// A listener with room for one connection, and a route that answers once it is notified.
    struct Bench {
        connections: Arc<Connections>,
        routes: Router,
        answer: Arc<Notify>,
        closed: (watch::Sender<()>, watch::Receiver<()>),
    }

    impl Bench {
        fn new() -> Self {
            let answer = Arc::new(Notify::new());
            let notified = Arc::clone(&answer);
            let handler = move |body: String| async move {
                notified.notified().await;
                body.len().to_string()
            };
            let limits = Limits { all: 1, per_peer: 1, first_request: FIRST_REQUEST, idle: IDLE };
            Self {
                connections: Arc::new(Connections::new(limits)),
                routes: Router::new().route("/", post(handler)).layer(DefaultBodyLimit::disable()),
                answer,
                closed: watch::channel(()),
            }
        }

        /// Another connection; the one that is open makes room.
        fn admit(&self) -> Arc<Connection> {
            self.connections.admit(PEER.ip()).expect("room")
        }

        /// The side of the client of a connection that may send requests.
        async fn open(&self) -> DuplexStream {
            let (client, server) = tokio::io::duplex(1 << 20);
            let connection = self.admit();
            connection.shook_hands();
            let mut served = Served {
                http: Arc::new(protocol()),
                routes: self.routes.clone(),
                closed: self.closed.1.clone(),
                peer: PEER,
                connections: Arc::clone(&self.connections),
                connection,
                answers: Answers::new(answers::MAX_BYTES),
            };
            tokio::spawn(async move { served.speak(server).await });
            // It waits for a request.
            for _ in 0..10 {
                yield_now().await;
            }
            client
        }
    }

    async fn send(client: &mut DuplexStream, length: usize, body: &str) {
        let head = format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n");
        client.write_all(head.as_bytes()).await.expect("sent");
        client.write_all(body.as_bytes()).await.expect("sent");
    }

    async fn read(client: &mut DuplexStream) -> String {
        let mut text = String::new();
        client.read_to_string(&mut text).await.expect("readable");
        text.to_lowercase()
    }

    /// Nothing runs between the moment in which the request comes and the one in which its connection is
    /// chosen to make room: it has no request yet, and has one when it notices.
    #[tokio::test(start_paused = true)]
    async fn a_request_that_comes_when_its_connection_makes_room_is_answered() {
        for body in ["", "text"] {
            let bench = Bench::new();
            let mut client = bench.open().await;
            send(&mut client, body.len(), body).await;
            let _other = bench.admit();
            for _ in 0..10 {
                yield_now().await;
            }
            bench.answer.notify_one();
            let answer = read(&mut client).await;
            assert!(answer.starts_with("http/1.1 200"), "{answer}");
            assert!(answer.contains("connection: close"), "{answer}");
        }
    }

    /// A client that asks before it sends a body gets no `100 Continue` for one that no handler wants.
    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_not_wanted_is_not_asked_for() {
        let mut bench = Bench::new();
        bench.routes = Router::new().route("/", post(async || "no"));
        let mut client = bench.open().await;
        let head =
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";
        client.write_all(head.as_bytes()).await.expect("sent");
        let answer = read(&mut client).await;
        assert!(answer.starts_with("http/1.1 200"), "{answer}");
        assert!(answer.ends_with("no"), "{answer}");
    }

    /// A body may be on its way for longer than one that does not come would be waited for.
    #[tokio::test(start_paused = true)]
    async fn a_long_body_that_comes_is_not_cut_off() {
        for (pause, comes) in [(100, true), (3000, false)] {
            let bench = Bench::new();
            let mut client = bench.open().await;
            let (part, parts) = ("x".repeat(200_000), 40);
            send(&mut client, parts * part.len(), "").await;
            let mut part_of_it = async || {
                let sent = client.write_all(part.as_bytes()).await;
                sleep(Duration::from_millis(pause)).await;
                sent
            };
            for _ in 0..parts - 10 {
                part_of_it().await.expect("sent");
            }
            let _other = bench.connections.admit(PEER.ip());
            for _ in 0..10 {
                let _ = part_of_it().await;
            }
            bench.answer.notify_one();
            assert_eq!(read(&mut client).await.starts_with("http/1.1 200"), comes);
        }
    }
}
