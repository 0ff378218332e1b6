//! A budget for the bytes of all request bodies.
//!
//! All bodies share one budget from their first byte until their request is answered. When it is
//! spent, further bodies wait, smaller ones ahead of larger ones, and the body that has been
//! arriving for longest is aborted. An API server sends a body at once, so a client probably holds
//! that one back on purpose.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicI64},
    time::Duration,
};

use axum::body::Body;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Bytes};
use memchr::memchr_iter;
use modgate_value::json::plain_length;
use prometheus_client::metrics::gauge::Gauge;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    time::{Instant, sleep_until, timeout_at},
};

/// A body that takes longer to arrive may be aborted to make room for others.
const PROMPT: Duration = Duration::from_millis(500);
/// How long a body may wait for the budget.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The budget of all bodies; clones share it.
#[derive(Debug, Clone)]
pub struct Bodies(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limit: usize,
    ledger: Mutex<Ledger>,
    /// Bytes held, as a metric.
    held: Gauge<i64, AtomicI64>,
    /// Held while a review with many values is decoded and evaluated: one at a time.
    large: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Ledger {
    held: usize,
    next: u64,
    /// Bodies that are arriving, oldest first.
    arriving: BTreeMap<u64, Arriving>,
    /// Bytes of aborted bodies that are not released yet.
    leaving: BTreeMap<u64, usize>,
    /// Waiting requests, by the size of their bodies, then by arrival.
    waiting: BTreeMap<(usize, u64), Waiting>,
}

#[derive(Debug)]
struct Arriving {
    since: Instant,
    bytes: usize,
    give_up: oneshot::Sender<()>,
}

#[derive(Debug)]
struct Waiting {
    bytes: usize,
    granted: oneshot::Sender<()>,
}

/// Why a body was not received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// More bytes than one body may have.
    TooLarge,
    /// More values than one body may have.
    TooMany,
    /// The body ended early.
    Broken,
    /// The body did not arrive in time.
    Late,
    /// The budget of all bodies was spent.
    Overload,
}

/// A body that was not received, with the beginning that was.
#[derive(Debug)]
pub(crate) struct NotReceived {
    pub(crate) why: Missing,
    pub(super) beginning: Vec<u8>,
}

/// A received body. Dropping it returns its bytes to the budget.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) bytes: Bytes,
    _held: Held,
    _large: Option<OwnedSemaphorePermit>,
}

/// Bytes kept of a body that is not received, to read the uid from.
const BEGINNING: usize = 64 << 10;

/// Maximum number of JSON values in one body; an object counts as [`OBJECT`]. A value takes about
/// 25 bytes of memory. The largest review of an API server, an object of 3 MiB and a stored one of
/// 1.5 MiB, has no more values.
pub(super) const MAX_VALUES: usize = 3_600_000;
/// An object takes as much memory as this many other values.
pub(super) const OBJECT: usize = 5;
/// A body with more values than this is large.
const LARGE_VALUES: usize = 250_000;
/// Bytes of a refused body that are still read and dropped. A client reads the answer only after it
/// has sent the body, and closing the connection early would discard the answer.
const REFUSED: usize = 64 << 20;
/// How long reading them may take.
const REFUSED_TIME: Duration = Duration::from_secs(2);
/// Values of bodies up to this size are not counted.
const UNCOUNTED: usize = 256 << 10;

impl Default for Bodies {
    fn default() -> Self {
        Self::new(Self::DEFAULT_BYTES, Gauge::default())
    }
}

impl Bodies {
    /// The budget unless configured otherwise.
    pub const DEFAULT_BYTES: usize = 64 << 20;

    /// A budget of `limit` bytes. The gauge `held` shows how much of it is in use.
    pub fn new(limit: usize, held: Gauge<i64, AtomicI64>) -> Self {
        let large = Arc::new(Semaphore::new(1));
        Self(Arc::new(Shared { limit, ledger: Mutex::default(), held, large }))
    }

    /// Receives a body of at most `limit` bytes until `deadline`.
    pub(crate) async fn receive(
        &self,
        mut body: Body,
        limit: usize,
        deadline: Instant,
    ) -> Result<Received, NotReceived> {
        let (mut held, mut given_up) = self.begin();
        let mut bytes = Vec::new();
        let mut values = Values::default();
        let expected = body.size_hint().exact().and_then(|size| usize::try_from(size).ok());
        // If `Content-Length` is too large, receive only the beginning.
        let is_too_large = expected.is_some_and(|size| size > limit);
        let limit = if is_too_large { BEGINNING } else { limit };
        let why = loop {
            let frame = tokio::select! {
                biased;
                _ = &mut given_up => break Missing::Overload,
                frame = timeout_at(deadline, body.frame()) => frame,
            };
            let data = match frame {
                Err(_) => break Missing::Late,
                Ok(Some(Err(_))) => break Missing::Broken,
                Ok(None) if is_too_large => break Missing::TooLarge,
                Ok(None) => {
                    held.arrived();
                    match self.large(values.count, deadline).await {
                        Ok(_large) => {
                            return Ok(Received { bytes: bytes.into(), _held: held, _large });
                        }
                        Err(()) => break Missing::Overload,
                    }
                }
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => data,
                    Err(_) => continue,
                },
            };
            let keep_beginning = |bytes: &mut Vec<u8>| {
                let wanted = BEGINNING.saturating_sub(bytes.len()).min(data.len());
                bytes.extend_from_slice(data.get(..wanted).unwrap_or_default());
            };
            if bytes.len() + data.len() > limit {
                keep_beginning(&mut bytes);
                break Missing::TooLarge;
            }
            let room = tokio::select! {
                biased;
                _ = &mut given_up => false,
                room = held.grow(data.len(), deadline) => room,
            };
            if !room {
                keep_beginning(&mut bytes);
                break Missing::Overload;
            }
            if bytes.is_empty() && body.is_end_stream() && !is_too_large && data.len() <= UNCOUNTED
            {
                held.arrived();
                return Ok(Received { bytes: data, _held: held, _large: None });
            }
            if let Some(expected) = expected.filter(|_| bytes.is_empty()) {
                bytes.reserve_exact(expected.min(limit));
            }
            bytes.extend_from_slice(&data);
            if bytes.len() > UNCOUNTED {
                values.look(&bytes);
                if values.count > MAX_VALUES {
                    break Missing::TooMany;
                }
            }
        };
        bytes.truncate(BEGINNING);
        bytes.shrink_to_fit();
        drop(held);
        if matches!(why, Missing::TooLarge | Missing::TooMany) {
            read_off(&mut body, deadline.min(Instant::now() + REFUSED_TIME)).await;
        }
        Err(NotReceived { why, beginning: bytes })
    }

    /// If this review is large, waits until no other large one is being evaluated.
    async fn large(
        &self,
        values: usize,
        deadline: Instant,
    ) -> Result<Option<OwnedSemaphorePermit>, ()> {
        if values <= LARGE_VALUES {
            return Ok(None);
        }
        let alone = Arc::clone(&self.0.large).acquire_owned();
        match timeout_at(deadline, alone).await {
            Ok(Ok(alone)) => Ok(Some(alone)),
            _ => Err(()),
        }
    }

    fn begin(&self) -> (Held, oneshot::Receiver<()>) {
        let (give_up, given_up) = oneshot::channel();
        let mut ledger = self.0.ledger();
        let number = ledger.next;
        ledger.next += 1;
        ledger.arriving.insert(number, Arriving { since: Instant::now(), bytes: 0, give_up });
        drop(ledger);
        (Held { shared: Arc::clone(&self.0), number, bytes: 0 }, given_up)
    }

    #[cfg(test)]
    fn held(&self) -> usize {
        self.0.ledger().held
    }
}

/// Counts the values of a JSON text that arrives in pieces, once it may have many.
#[derive(Debug, Default)]
struct Values {
    /// How much was looked at, and the most values that this can have.
    looked: usize,
    most: usize,
    /// How much was counted, and the values in it.
    counted: usize,
    count: usize,
    in_text: bool,
    is_escaped: bool,
}

impl Values {
    /// Looks at what is new of a text.
    fn look(&mut self, text: &[u8]) {
        self.most += most_values(text.get(self.looked..).unwrap_or_default());
        self.looked = text.len();
        if self.most > LARGE_VALUES {
            self.count(text.get(self.counted..).unwrap_or_default());
            self.counted = text.len();
        }
    }

    fn count(&mut self, piece: &[u8]) {
        let mut rest = piece;
        loop {
            // A large body is large texts, nearly always.
            if self.in_text && !self.is_escaped {
                rest = rest.get(plain_length(rest)..).unwrap_or_default();
            }
            let Some((byte, after)) = rest.split_first() else { return };
            rest = after;
            match (self.in_text, byte) {
                (true, _) if self.is_escaped => self.is_escaped = false,
                (true, b'\\') => self.is_escaped = true,
                (_, b'"') => self.in_text = !self.in_text,
                (false, b',' | b'[') => self.count += 1,
                (false, b'{') => self.count += OBJECT,
                _ => {}
            }
        }
    }
}

/// The values of a JSON text, if none of it were inside of a string.
fn most_values(text: &[u8]) -> usize {
    let count = |byte| memchr_iter(byte, text).count();
    count(b',') + count(b'[') + OBJECT * count(b'{')
}

/// Reads the rest of a body and drops it.
async fn read_off(body: &mut Body, deadline: Instant) {
    let mut read = 0;
    while read < REFUSED
        && let Ok(Some(Ok(frame))) = timeout_at(deadline, body.frame()).await
    {
        read += frame.data_ref().map_or(0, Bytes::len);
    }
}

impl Shared {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, ledger: &Ledger) {
        self.held.set(i64::try_from(ledger.held).unwrap_or(i64::MAX));
    }

    /// Grants room to waiting bodies that now fit, smallest first.
    fn grant(&self, ledger: &mut Ledger) {
        while let Some(first) = ledger.waiting.first_entry() {
            if first.get().bytes > self.limit.saturating_sub(ledger.held) {
                return;
            }
            let ((_, number), Waiting { bytes, granted }) = first.remove_entry();
            if granted.send(()).is_ok() {
                ledger.held += bytes;
                if let Some(arriving) = ledger.arriving.get_mut(&number) {
                    arriving.bytes += bytes;
                }
            }
        }
    }

    /// Aborts bodies that have been arriving for longer than [`PROMPT`], oldest first, until there
    /// is room for the next body.
    fn make_room(&self, ledger: &mut Ledger, now: Instant) {
        let Some((_, first)) = ledger.waiting.first_key_value() else { return };
        let wanted = first.bytes;
        while self.limit.saturating_sub(ledger.held) + ledger.leaving.values().sum::<usize>()
            < wanted
        {
            let holds = |arriving: &Arriving| arriving.bytes > 0;
            let oldest =
                ledger.arriving.iter().find(|(_, it)| holds(it)).map(|(number, _)| *number);
            let Some(Entry::Occupied(oldest)) = oldest.map(|oldest| ledger.arriving.entry(oldest))
            else {
                return;
            };
            if now.saturating_duration_since(oldest.get().since) < PROMPT {
                return;
            }
            let (number, oldest) = oldest.remove_entry();
            ledger.leaving.insert(number, oldest.bytes);
            // If the receiver is gone, so is the request, which has released its bytes itself.
            let _ = oldest.give_up.send(());
        }
    }
}

/// The part of the budget that one body holds.
#[derive(Debug)]
struct Held {
    shared: Arc<Shared>,
    number: u64,
    bytes: usize,
}

impl Held {
    /// Takes more of the budget, waiting until `deadline` at most. Returns whether it got it.
    async fn grow(&mut self, bytes: usize, deadline: Instant) -> bool {
        let mut granted = {
            let mut ledger = self.shared.ledger();
            if ledger.waiting.is_empty() && bytes <= self.shared.limit.saturating_sub(ledger.held) {
                ledger.held += bytes;
                if let Some(arriving) = ledger.arriving.get_mut(&self.number) {
                    arriving.bytes += bytes;
                }
                self.bytes += bytes;
                self.shared.publish(&ledger);
                return true;
            }
            let (granted, receiver) = oneshot::channel();
            let place = (self.bytes + bytes, self.number);
            ledger.waiting.insert(place, Waiting { bytes, granted });
            self.shared.grant(&mut ledger);
            receiver
        };
        let deadline = deadline.min(Instant::now() + TIMEOUT);
        let mut waiting = InLine { held: self, bytes, granted: false };
        loop {
            let now = Instant::now();
            {
                let shared = &waiting.held.shared;
                let mut ledger = shared.ledger();
                shared.make_room(&mut ledger, now);
            }
            let look_again = deadline.min(now + PROMPT / 5);
            tokio::select! {
                biased;
                is_granted = &mut granted => {
                    waiting.granted = is_granted.is_ok();
                    return waiting.granted;
                }
                () = sleep_until(look_again) => {}
            }
            if Instant::now() >= deadline {
                return false;
            }
        }
    }

    /// Marks the body as complete: it is no longer aborted.
    fn arrived(&self) {
        self.shared.ledger().arriving.remove(&self.number);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut ledger = self.shared.ledger();
        ledger.arriving.remove(&self.number);
        ledger.leaving.remove(&self.number);
        ledger.held -= self.bytes;
        self.shared.grant(&mut ledger);
        self.shared.publish(&ledger);
    }
}

/// A body that waits for room. Dropping it settles whether the room was granted.
struct InLine<'h> {
    held: &'h mut Held,
    bytes: usize,
    granted: bool,
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        let mut ledger = self.held.shared.ledger();
        let place = (self.held.bytes + self.bytes, self.held.number);
        let left = ledger.waiting.remove(&place).is_some();
        if self.granted || !left {
            // Room granted at the last moment is released with the rest.
            self.held.bytes += self.bytes;
            self.held.shared.publish(&ledger);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::{StreamExt as _, stream};
    use hyper::body::Frame;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    fn bodies(limit: usize) -> Bodies {
        Bodies::new(limit, Gauge::default())
    }

    /// A body of these pieces that then ends, or stays open.
    fn pieces(pieces: &[usize], ends: bool) -> Body {
        let pieces: Vec<_> = pieces.iter().map(|length| Bytes::from(vec![b'x'; *length])).collect();
        let pieces = stream::iter(pieces).map(|piece| Ok::<_, Infallible>(Frame::data(piece)));
        let rest = stream::pending().take(usize::from(!ends));
        Body::new(http_body_util::StreamBody::new(pieces.chain(rest)))
    }

    async fn why(bodies: &Bodies, body: Body, limit: usize) -> (Missing, usize) {
        let missing = bodies.receive(body, limit, soon()).await.expect_err("not received");
        (missing.why, missing.beginning.len())
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_received_and_given_back() {
        let bodies = bodies(10);
        for body in [Body::from("0123456789"), pieces(&[4, 0, 6], true)] {
            let received = bodies.receive(body, 10, soon()).await.expect("received");
            assert_eq!((received.bytes.len(), bodies.held()), (10, 10));
            drop(received);
            assert_eq!(bodies.held(), 0);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_received_leaves_its_beginning_and_nothing_held() {
        let bodies = bodies(1 << 20);
        assert_eq!(why(&bodies, Body::from("12345"), 4).await, (Missing::TooLarge, 5));
        assert_eq!(why(&bodies, pieces(&[3, 3], true), 4).await, (Missing::TooLarge, 6));
        let long = pieces(&[BEGINNING, 9, 9], true);
        assert_eq!(why(&bodies, long, BEGINNING + 10).await, (Missing::TooLarge, BEGINNING));
        assert_eq!(why(&bodies, pieces(&[3], false), 4).await, (Missing::Late, 3));
        let broken = stream::iter([Ok(Frame::data(Bytes::from("abc"))), Err("no more")]);
        let broken = Body::new(http_body_util::StreamBody::new(broken));
        assert_eq!(why(&bodies, broken, 4).await, (Missing::Broken, 3));
        assert_eq!(bodies.held(), 0);
        assert!(bodies.0.ledger().arriving.is_empty());
    }

    #[test]
    fn values_are_counted_outside_of_texts_and_across_pieces() {
        let text = br#"{"a,[": [1, "\"{,\\", {}], "b": "\\\""}"#;
        for at in 0..text.len() {
            let mut values = Values::default();
            let (first, second) = text.split_at(at);
            values.count(first);
            values.count(second);
            assert_eq!(values.count, 4 + 2 * OBJECT, "{at}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_of_many_values_come_one_at_a_time_and_of_too_many_not_at_all() {
        let bodies = bodies(64 << 20);
        let body = |values: usize| Body::from("0,".repeat(values));
        let large = bodies.receive(body(LARGE_VALUES + 1), 64 << 20, soon()).await;
        let large = large.expect("received");
        assert_eq!(why(&bodies, body(LARGE_VALUES + 1), 64 << 20).await.0, Missing::Overload);
        let small = bodies.receive(body(LARGE_VALUES), 64 << 20, soon()).await;
        drop(small.expect("received"));
        drop(large);
        assert!(bodies.receive(body(LARGE_VALUES + 1), 64 << 20, soon()).await.is_ok());
        assert_eq!(why(&bodies, body(MAX_VALUES + 1), 64 << 20).await.0, Missing::TooMany);
        assert_eq!(bodies.held(), 0);
    }

    /// Bodies that clients hold back fill the budget; each new body makes room by aborting one of
    /// them.
    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_held_back_makes_room() {
        let bodies = bodies(100);
        let slow: Vec<_> = (0..10)
            .map(|_| {
                let bodies = bodies.clone();
                tokio::spawn(async move { why(&bodies, pieces(&[10], false), 50).await })
            })
            .collect();
        tokio::time::sleep(PROMPT).await;
        assert_eq!(bodies.held(), 100);
        let began = Instant::now();
        let received = bodies.receive(Body::from("0123456789abcde"), 50, soon()).await;
        assert_eq!(received.expect("received").bytes.len(), 15);
        assert!(began.elapsed() <= PROMPT, "{:?}", began.elapsed());
        let mut given_up = 0;
        for slow in slow {
            let (why, _) = slow.await.expect("no panic");
            given_up += usize::from(why == Missing::Overload);
        }
        assert_eq!(given_up, 2);
        assert_eq!(bodies.held(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_smallest_goes_first_and_waiting_ends() {
        let bodies = bodies(10);
        let all = bodies.receive(Body::from("0123456789"), 10, soon()).await.expect("received");
        let wait = |length: usize| {
            let bodies = bodies.clone();
            tokio::spawn(async move {
                let body = Body::from(vec![b'x'; length]);
                let received = bodies.receive(body, 10, soon()).await;
                tokio::time::sleep(MS).await;
                received.map(|received| received.bytes.len()).map_err(|missing| missing.why)
            })
        };
        let large = wait(9);
        tokio::time::sleep(MS).await;
        let small = wait(5);
        tokio::time::sleep(MS).await;
        drop(all);
        tokio::time::sleep(MS / 2).await;
        assert_eq!(bodies.held(), 5, "the small one");
        assert_eq!(small.await.expect("no panic"), Ok(5));
        assert_eq!(large.await.expect("no panic"), Ok(9));

        // Complete bodies are not aborted: their requests are being evaluated.
        let all = bodies.receive(Body::from("0123456789"), 10, soon()).await.expect("received");
        let began = Instant::now();
        assert_eq!(wait(1).await.expect("no panic"), Err(Missing::Overload));
        assert!(began.elapsed() >= TIMEOUT && began.elapsed() < TIMEOUT + PROMPT);
        drop(all);
        assert_eq!(bodies.held(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_goes_away_while_it_waits_leaves_nothing() {
        let bodies = bodies(10);
        let all = bodies.receive(Body::from("0123456789"), 10, soon()).await.expect("received");
        for ends_first in [false, true] {
            let mut waits = Box::pin(bodies.receive(Body::from("x"), 10, soon()));
            assert!(futures_util::poll!(waits.as_mut()).is_pending());
            if ends_first {
                let mut ledger = bodies.0.ledger();
                ledger.held -= 10;
                bodies.0.grant(&mut ledger);
            }
            drop(waits);
            if ends_first {
                assert_eq!(bodies.held(), 0);
                bodies.0.ledger().held += 10;
            }
        }
        assert_eq!(bodies.held(), 10);
        drop(all);
        assert_eq!(bodies.held(), 0);
        assert!(bodies.0.ledger().waiting.is_empty());
    }
}
