//! Listeners: accept, handshake, serve HTTP/1.1 and HTTP/2, stop gracefully.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::Router;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{
        conn::auto,
        graceful::{GracefulShutdown, Watcher},
    },
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

/// A client that has not finished its handshake by then is cut off.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// A client that has not finished its request head by then is cut off; also bounds how long an idle
/// HTTP/1.1 connection is kept.
const HEADER_TIMEOUT: Duration = Duration::from_secs(90);
/// HTTP/2 connections are asked for a sign of life this often.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// Streams of one HTTP/2 connection; the API server opens at most 250.
const MAX_STREAMS: u32 = 250;
/// Open connections per listener. An API server needs a handful; the bound keeps a stranger from
/// using up memory and file descriptors.
const MAX_CONNECTIONS: usize = 512;
/// Pause after `accept` failed, typically for want of file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// What a listener speaks below HTTP.
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
}

impl Listener {
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Serves until `stop` turns true, then lets open requests finish, at most for `grace`.
    pub(crate) async fn run(self, mut stop: watch::Receiver<bool>, grace: Duration) {
        let Self { socket, transport, routes } = self;
        let http = Arc::new(protocol());
        let graceful = GracefulShutdown::new();
        let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            let accepted = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => break,
                accepted = accept(&socket, &slots) => accepted,
            };
            let Some((stream, peer, slot)) = accepted else { continue };
            let connection = Connection {
                http: Arc::clone(&http),
                routes: routes.clone(),
                watcher: graceful.watcher(),
                peer,
            };
            let transport = transport.clone();
            tokio::spawn(async move {
                connection.serve(stream, transport).await;
                drop(slot);
            });
        }
        drop(socket);
        if timeout(grace, graceful.shutdown()).await.is_err() {
            tracing::warn!(target: "listen", grace_seconds = grace.as_secs(),
                "requests still open after the grace period are cut off"
            );
        }
    }
}

async fn accept(
    socket: &TcpListener,
    slots: &Arc<Semaphore>,
) -> Option<(TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit)> {
    let slot = Arc::clone(slots).acquire_owned().await.ok()?;
    match socket.accept().await {
        Ok((stream, peer)) => Some((stream, peer, slot)),
        Err(error) => {
            tracing::debug!(target: "listen", %error, "accept failed");
            tokio::time::sleep(ACCEPT_RETRY).await;
            None
        }
    }
}

fn protocol() -> auto::Builder<TokioExecutor> {
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    http.http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .max_concurrent_streams(MAX_STREAMS);
    http
}

struct Connection {
    http: Arc<auto::Builder<TokioExecutor>>,
    routes: Router,
    watcher: Watcher,
    peer: SocketAddr,
}

impl Connection {
    async fn serve(self, stream: TcpStream, transport: Transport) {
        // Reviews are small and answered at once; waiting to fill segments only adds latency.
        let _ = stream.set_nodelay(true);
        let peer = self.peer;
        match transport {
            Transport::Plain => self.speak(stream).await,
            Transport::Tls(acceptor) => {
                match timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
                    Ok(Ok(stream)) => self.speak(stream).await,
                    Ok(Err(error)) => {
                        tracing::debug!(target: "listen", %peer, %error, "TLS handshake failed")
                    }
                    Err(_) => tracing::debug!(target: "listen", %peer, "TLS handshake timed out"),
                }
            }
        }
    }

    async fn speak(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let Self { http, routes, watcher, peer } = self;
        let service = TowerToHyperService::new(routes);
        let connection = http.serve_connection(TokioIo::new(stream), service).into_owned();
        if let Err(error) = watcher.watch(connection).await {
            tracing::debug!(target: "listen", %peer, %error, "connection ended early");
        }
    }
}
