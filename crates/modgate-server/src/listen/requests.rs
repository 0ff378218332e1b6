//! Requests on a connection: counted, and their bodies seen to.

use std::{
    convert::Infallible,
    future::Future,
    net::IpAddr,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use axum::{Router, response::Response};
use http_body_util::BodyExt as _;
use hyper::{
    Request, Version,
    body::{Body, Bytes, Frame, Incoming, SizeHint},
    header::{CONNECTION, EXPECT, HeaderMap, HeaderValue},
    service::Service,
};
use hyper_util::service::TowerToHyperService;
use tokio::time::timeout;

use super::{answers::Answers, connections::Connection};

/// A body that no handler read is received up to so many bytes before the answer is sent: clients
/// that still send when the answer comes may lose it.
const DRAINED_BYTES: usize = 256 << 10;
/// How long reading them may take.
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// The address of the client that sends a request, as an extension of the request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// Whether the client sends the body of a request only after `100 Continue`.
pub(crate) fn waits_for_continue(headers: &HeaderMap) -> bool {
    headers.get(EXPECT).is_some_and(|it| it.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

/// The routes, as one connection reaches them.
#[derive(Clone)]
pub(super) struct Requests {
    pub(super) routes: TowerToHyperService<Router>,
    pub(super) connection: Arc<Connection>,
    pub(super) answers: Arc<Answers>,
}

impl Service<Request<Incoming>> for Requests {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let connection = Arc::clone(&self.connection);
        connection.begin(request.version() == Version::HTTP_2);
        let open =
            Arc::new(Open { connection: Arc::clone(&self.connection), rest: Mutex::default() });
        request.extensions_mut().insert(Peer(connection.peer()));
        let is_on_its_way = !waits_for_continue(request.headers());
        let body = |body| Received { body: Some(body), is_on_its_way, open: Arc::clone(&open) };
        let answer = self.routes.call(request.map(body));
        let answers = Arc::clone(&self.answers);
        Box::pin(async move {
            let mut answer = match answer.await {
                Ok(answer) => answers.count(answer, &connection).await,
                Err(never) => return Err(never),
            };
            let rest = open.rest.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(rest) = rest {
                let _ = timeout(DRAIN_TIME, drain(rest)).await;
            }
            if connection.closes() {
                answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok(answer)
        })
    }
}

/// A request whose answer is not ready.
struct Open {
    connection: Arc<Connection>,
    /// The rest of the body that its handler did not read.
    rest: Mutex<Option<Incoming>>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.connection.end();
    }
}

/// The body of a request.
struct Received {
    body: Option<Incoming>,
    /// Whether the client sends it: some wait until the server asks for it, which reading it does.
    is_on_its_way: bool,
    open: Arc<Open>,
}

impl Body for Received {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.is_on_its_way = true;
        let Some(body) = self.body.as_mut() else { return Poll::Ready(None) };
        let frame = std::task::ready!(Pin::new(&mut *body).poll_frame(cx));
        let ended = body.is_end_stream();
        if let Some(Ok(frame)) = &frame {
            self.open.connection.receives(frame.data_ref().map_or(0, Bytes::len));
        }
        if ended || !matches!(frame, Some(Ok(_))) {
            self.body = None;
            self.open.connection.received();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        let Some(body) = self.body.take() else { return };
        self.open.connection.received();
        let few = body.size_hint().exact().is_none_or(|left| left <= DRAINED_BYTES as u64);
        if few && self.is_on_its_way && !body.is_end_stream() {
            *self.open.rest.lock().unwrap_or_else(PoisonError::into_inner) = Some(body);
        }
    }
}

async fn drain(mut body: Incoming) {
    let mut bytes = 0;
    while let Some(Ok(frame)) = body.frame().await {
        bytes += frame.data_ref().map_or(0, Bytes::len);
        if bytes > DRAINED_BYTES {
            return;
        }
    }
}
