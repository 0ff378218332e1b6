//! Answers that clients have not taken yet.
//!
//! A client may send requests and read no answer, on many streams of many connections. Where such answers hold too much
//! memory, the connections of the clients that leave them lying the longest are closed. An API server reads an answer as
//! soon as it comes.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{body::Body as AnyBody, response::Response};
use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::time::{Instant, sleep};

use super::connections::Connection;

/// The bytes of answers that all clients of a listener together may leave lying.
pub(super) const MAX_BYTES: usize = 64 << 20;
/// An answer that is lying for longer may be given up.
const PROMPT: Duration = Duration::from_millis(500);
/// How long an answer waits for room, at most.
const PATIENCE: Duration = Duration::from_secs(2);
/// Answers up to this size are not counted; most are smaller.
const UNCOUNTED: usize = 4 << 10;
/// Answers are handed on in pieces of this size: what is handed on is not counted any more.
const PIECE: usize = 64 << 10;

/// The answers of a listener that are counted.
#[derive(Debug)]
pub(super) struct Answers {
    limit: usize,
    ledger: Mutex<Ledger>,
}

#[derive(Debug, Default)]
struct Ledger {
    bytes: usize,
    next: u64,
    /// Answers that clients may read, those first that are lying for longest.
    lying: BTreeMap<u64, Lying>,
}

#[derive(Debug)]
struct Lying {
    since: Instant,
    bytes: usize,
    connection: Arc<Connection>,
}

/// An answer that is counted until it is dropped.
#[derive(Debug)]
struct Held {
    answers: Arc<Answers>,
    bytes: usize,
    /// Its number among those that clients may read.
    lying: Option<u64>,
}

impl Answers {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, ledger: Mutex::default() })
    }

    /// The answer, counted until the client has taken it. It waits while there is no room for it.
    pub(super) async fn count(
        self: &Arc<Self>,
        answer: Response,
        connection: &Arc<Connection>,
    ) -> Response {
        let bytes = answer.body().size_hint().exact().and_then(|it| usize::try_from(it).ok());
        let Some(bytes) = bytes.filter(|bytes| *bytes > UNCOUNTED) else { return answer };
        self.ledger().bytes += bytes;
        let mut held = Held { answers: Arc::clone(self), bytes, lying: None };
        let until = Instant::now() + PATIENCE;
        while self.is_full() && Instant::now() < until {
            sleep(PROMPT / 10).await;
        }
        held.lie(connection);
        answer.map(|body| AnyBody::new(Pieces { body, rest: Bytes::new(), held: Some(held) }))
    }

    /// Whether too much is held. Then it closes connections whose answers are lying for too long, as many as are needed.
    fn is_full(&self) -> bool {
        let ledger = self.ledger();
        let mut excess = ledger.bytes.saturating_sub(self.limit);
        for lying in ledger.lying.values() {
            if excess == 0 || lying.since.elapsed() <= PROMPT {
                break;
            }
            lying.connection.give_up();
            excess = excess.saturating_sub(lying.bytes);
        }
        ledger.bytes > self.limit
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// From now on the client may read it.
    fn lie(&mut self, connection: &Arc<Connection>) {
        let mut ledger = self.answers.ledger();
        let (number, bytes) = (ledger.next, self.bytes);
        ledger.next += 1;
        let lying = Lying { since: Instant::now(), bytes, connection: Arc::clone(connection) };
        ledger.lying.insert(number, lying);
        self.lying = Some(number);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut ledger = self.answers.ledger();
        ledger.bytes = ledger.bytes.saturating_sub(self.bytes);
        if let Some(number) = self.lying {
            ledger.lying.remove(&number);
        }
    }
}

/// A body in pieces, which its client takes one after the other.
struct Pieces {
    body: AnyBody,
    /// The rest of the frame that was read last.
    rest: Bytes,
    held: Option<Held>,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                end => {
                    self.held = None;
                    return Poll::Ready(end);
                }
            }
        }
        let length = self.rest.len().min(PIECE);
        let mut piece = self.rest.split_to(length);
        if self.rest.is_empty() && self.body.is_end_stream() {
            // A piece of a frame keeps all of it in memory.
            piece = Bytes::copy_from_slice(&piece);
            self.rest = Bytes::new();
            self.body = AnyBody::empty();
            self.held = None;
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.body.size_hint();
        let rest = self.rest.len() as u64;
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use futures_util::FutureExt as _;
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::listen::connections::{Connections, Limits};

    fn connection() -> Arc<Connection> {
        let second = Duration::from_secs(1);
        let limits = Limits { all: 1, per_peer: 1, first_request: second, idle: second };
        Connections::new(limits).admit(IpAddr::V4(Ipv4Addr::LOCALHOST)).expect("room")
    }

    fn answer(length: usize) -> Response {
        Response::new(AnyBody::from(vec![b'x'; length]))
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_counted_until_its_last_piece_is_taken() {
        for length in [0, 1, UNCOUNTED, UNCOUNTED + 1, PIECE, PIECE + 1, 3 * PIECE] {
            let answers = Answers::new(1 << 20);
            let mut taken = answers.count(answer(length), &connection()).await.into_body();
            assert_eq!(taken.size_hint().exact(), Some(length as u64));
            let mut bytes = 0;
            while let Some(frame) = taken.frame().await {
                bytes += frame.expect("a frame").into_data().expect("data").len();
                let counted = bytes < length && length > UNCOUNTED;
                assert_eq!(answers.ledger().bytes, if counted { length } else { 0 });
            }
            assert_eq!((bytes, answers.ledger().bytes), (length, 0));
            drop(answers.count(answer(length), &connection()).await);
            let ledger = answers.ledger();
            assert_eq!((ledger.bytes, ledger.lying.len()), (0, 0));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn clients_that_take_nothing_make_room() {
        let answers = Answers::new(2 * PIECE);
        let gives_up = |of: &Arc<Connection>| of.is_cut_off().now_or_never().is_some();
        let (slow, later, reads) = (connection(), connection(), connection());
        let _lying = answers.count(answer(PIECE), &slow).await;
        sleep(PROMPT / 2).await;
        let _later = answers.count(answer(PIECE), &later).await;
        assert!(!gives_up(&slow), "there is room");
        let began = Instant::now();
        let _read = answers.count(answer(PIECE), &reads).await;
        assert!(began.elapsed() >= PROMPT / 2, "it waits until one is lying for too long");
        assert!(slow.is_given_up() && gives_up(&slow));
        assert!(!later.is_given_up() && !reads.is_given_up(), "one is enough");
        assert!(began.elapsed() <= PATIENCE + PROMPT, "it does not wait without end");
    }
}
