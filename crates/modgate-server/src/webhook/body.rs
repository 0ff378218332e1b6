//! A budget for the bytes of all request bodies.
//!
//! All bodies share one budget from their first byte until their request is answered. When it is
//! spent, further bodies wait, smaller ones ahead of larger ones, and the body that has been
//! arriving for longest is aborted. An API server sends a body at once, so a client probably holds
//! that one back on purpose.
//!
//! The memory of large bodies is used again for the next ones: memory that is new to the process costs as much
//! as decrypting what is put there.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicI64},
    time::Duration,
};

use axum::body::Body;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Bytes};
use memchr::memchr_iter;
use modgate_value::json::{OBJECT_VALUES, plain_length};
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
    spare: Spare,
}

/// Memory for bodies to come.
#[derive(Debug, Default)]
struct Spare {
    buffers: Vec<Vec<u8>>,
    /// When the last of them was given back.
    since: Option<Instant>,
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
    content: Content,
    held: Held,
    _alone: Option<Alone>,
}

#[derive(Debug)]
enum Content {
    /// It came in one piece.
    Piece(Bytes),
    Collected(Vec<u8>),
}

impl Received {
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.content {
            Content::Piece(bytes) => bytes,
            Content::Collected(bytes) => bytes,
        }
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        if let Content::Collected(bytes) = &mut self.content
            && (REUSED..=MAX_SPARE).contains(&bytes.capacity())
        {
            let bytes = std::mem::take(bytes);
            self.held.shared.ledger().spare.give(bytes, Instant::now());
        }
    }
}

/// The right to decode and evaluate a review with many values: one has it at a time.
#[derive(Debug)]
pub(crate) struct Alone {
    _permit: OwnedSemaphorePermit,
}

/// Bytes kept of a body that is not received, to read the uid from.
const BEGINNING: usize = 64 << 10;

/// Maximum number of JSON values in one body; an object counts as [`OBJECT_VALUES`]. A value takes about
/// 25 bytes of memory. The largest review of an API server, an object of 3 MiB and a stored one of
/// 1.5 MiB, has no more values.
const MAX_VALUES: usize = 3_600_000;
/// A review with more values than this is large.
const LARGE_VALUES: usize = 250_000;
/// Bytes of a refused body that are still read and dropped. A client reads the answer only after it
/// has sent the body, and closing the connection early would discard the answer.
const REFUSED: usize = 64 << 20;
/// How long reading them may take.
const REFUSED_TIME: Duration = Duration::from_secs(2);
/// Values of bodies up to this size are not counted.
const UNCOUNTED: usize = 256 << 10;
/// The memory of bodies from this size on is used again: allocators return such pieces to the system.
const REUSED: usize = 128 << 10;
/// The bytes that are kept for bodies to come.
const MAX_SPARE: usize = 6 << 20;
/// How long they are kept without use; the next request frees them.
const SPARE_TIME: Duration = Duration::from_secs(10);

/// How many values a body may have; without [`Alone`], before it needs that.
pub(super) fn max_values(body: &[u8], alone: Option<&Alone>) -> usize {
    match alone {
        _ if body.len() <= UNCOUNTED => usize::MAX,
        Some(_) => MAX_VALUES,
        None => LARGE_VALUES,
    }
}

/// The message of a body with more values than it may have.
pub(super) fn too_many() -> String {
    format!("request body has more than {MAX_VALUES} values (an object counts as {OBJECT_VALUES})")
}

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
                    return Ok(Received { content: Content::Collected(bytes), held, _alone: None });
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
            if bytes.is_empty() && body.is_end_stream() && !is_too_large {
                held.arrived();
                return Ok(Received { content: Content::Piece(data), held, _alone: None });
            }
            if let Some(expected) = expected.filter(|_| bytes.is_empty()) {
                bytes = self.0.room(expected.min(limit));
            }
            bytes.extend_from_slice(&data);
        };
        bytes.truncate(BEGINNING);
        bytes.shrink_to_fit();
        drop(held);
        if why == Missing::TooLarge {
            read_off(&mut body, deadline.min(Instant::now() + REFUSED_TIME)).await;
        }
        Err(NotReceived { why, beginning: bytes })
    }

    /// As [`receive`](Self::receive), for a reader that does not count values: a body with too many is not received, and
    /// one with many when no other such is in use.
    pub(crate) async fn receive_counted(
        &self,
        body: Body,
        limit: usize,
        deadline: Instant,
    ) -> Result<Received, NotReceived> {
        let mut received = self.receive(body, limit, deadline).await?;
        let bytes = received.bytes();
        let missing = |why| {
            let beginning = bytes.get(..BEGINNING).unwrap_or(bytes).to_vec();
            NotReceived { why, beginning }
        };
        let values = if bytes.len() > UNCOUNTED { count_values(bytes) } else { 0 };
        if values > MAX_VALUES {
            return Err(missing(Missing::TooMany));
        }
        if values > LARGE_VALUES {
            let alone = self.alone(deadline).await;
            received._alone = Some(alone.ok_or_else(|| missing(Missing::Overload))?);
        }
        Ok(received)
    }

    /// Waits until no other review with many values is decoded or evaluated; `None` if that takes until `deadline`.
    pub(super) async fn alone(&self, deadline: Instant) -> Option<Alone> {
        let alone = Arc::clone(&self.0.large).acquire_owned();
        let permit = timeout_at(deadline, alone).await.ok()?.ok()?;
        Some(Alone { _permit: permit })
    }

    fn begin(&self) -> (Held, oneshot::Receiver<()>) {
        let (give_up, given_up) = oneshot::channel();
        let now = Instant::now();
        let mut ledger = self.0.ledger();
        let number = ledger.next;
        ledger.next += 1;
        ledger.arriving.insert(number, Arriving { since: now, bytes: 0, give_up });
        let unused = ledger.spare.unused(now);
        drop(ledger);
        drop(unused);
        (Held { shared: Arc::clone(&self.0), number, bytes: 0 }, given_up)
    }

    #[cfg(test)]
    fn held(&self) -> usize {
        self.0.ledger().held
    }
}

/// The values of a JSON text, if there may be many.
fn count_values(text: &[u8]) -> usize {
    let most = most_values(text);
    if most <= LARGE_VALUES {
        return most;
    }
    let (mut count, mut in_text, mut is_escaped) = (0, false, false);
    let mut rest = text;
    loop {
        // A large body is large texts, nearly always.
        if in_text && !is_escaped {
            rest = rest.get(plain_length(rest)..).unwrap_or_default();
        }
        let Some((byte, after)) = rest.split_first() else { return count };
        rest = after;
        match (in_text, byte) {
            (true, _) if is_escaped => is_escaped = false,
            (true, b'\\') => is_escaped = true,
            (_, b'"') => in_text = !in_text,
            (false, b',' | b'[') => count += 1,
            (false, b'{') => count += OBJECT_VALUES,
            _ => {}
        }
    }
}

/// The values of a JSON text, if none of it were inside of a string.
fn most_values(text: &[u8]) -> usize {
    let count = |byte| memchr_iter(byte, text).count();
    count(b',') + count(b'[') + OBJECT_VALUES * count(b'{')
}

impl Spare {
    /// Keeps the memory of a body, in place of what was given first where that is too much.
    fn give(&mut self, mut buffer: Vec<u8>, now: Instant) {
        buffer.clear();
        self.buffers.push(buffer);
        self.since = Some(now);
        let kept = |buffers: &[Vec<u8>]| buffers.iter().map(Vec::capacity).sum::<usize>();
        while kept(&self.buffers) > MAX_SPARE {
            self.buffers.remove(0);
        }
    }

    /// Memory for so many bytes, and not for many more.
    fn take(&mut self, bytes: usize) -> Option<Vec<u8>> {
        let fits = |buffer: &Vec<u8>| (bytes..=2 * bytes).contains(&buffer.capacity());
        let at = self.buffers.iter().rposition(fits)?;
        Some(self.buffers.remove(at))
    }

    /// The buffers that have not been used for long.
    fn unused(&mut self, now: Instant) -> Vec<Vec<u8>> {
        match self.since {
            Some(since) if now.saturating_duration_since(since) >= SPARE_TIME => {
                self.since = None;
                std::mem::take(&mut self.buffers)
            }
            _ => Vec::new(),
        }
    }
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

    /// Memory for a body of so many bytes; that of large ones is for others of about the size, too.
    fn room(&self, bytes: usize) -> Vec<u8> {
        if bytes < REUSED {
            return Vec::with_capacity(bytes);
        }
        let spare = self.ledger().spare.take(bytes);
        spare.unwrap_or_else(|| Vec::with_capacity(bytes.next_multiple_of(REUSED)))
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
    use std::{
        collections::VecDeque,
        convert::Infallible,
        pin::Pin,
        task::{Context, Poll},
    };

    use futures_util::{StreamExt as _, stream};
    use hyper::body::{Body as HttpBody, Frame, SizeHint};

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    fn bodies(limit: usize) -> Bodies {
        Bodies::new(limit, Gauge::default())
    }

    /// A body of these pieces, with its length.
    fn pieces_of(lengths: &[usize]) -> Body {
        let frames: VecDeque<_> =
            lengths.iter().map(|length| Bytes::from(vec![b'x'; *length])).collect();
        Body::new(Known(frames))
    }

    struct Known(VecDeque<Bytes>);

    impl HttpBody for Known {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(self.0.iter().map(|piece| piece.len() as u64).sum())
        }
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
            assert_eq!((received.bytes().len(), bodies.held()), (10, 10));
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
    fn values_are_counted_outside_of_texts() {
        let text = r#"{"a,[": [1, "\"{,\\", {}], "b": "\\\""}"#;
        let texts = format!(r#"[{text},"{}"]"#, ",".repeat(LARGE_VALUES));
        assert_eq!(count_values(texts.as_bytes()), 6 + 2 * OBJECT_VALUES);
        assert!(count_values(text.as_bytes()) < LARGE_VALUES);
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_of_many_values_come_one_at_a_time_and_of_too_many_not_at_all() {
        let bodies = bodies(64 << 20);
        let receive = async |values: usize| {
            let received =
                bodies.receive_counted(Body::from("0,".repeat(values)), 64 << 20, soon()).await;
            received.map_err(|missing| missing.why)
        };
        let large = receive(LARGE_VALUES + 1).await.expect("received");
        assert_eq!(receive(LARGE_VALUES + 1).await.err(), Some(Missing::Overload));
        drop(receive(LARGE_VALUES).await.expect("received"));
        drop(large);
        assert!(receive(LARGE_VALUES + 1).await.is_ok());
        assert_eq!(receive(MAX_VALUES + 1).await.err(), Some(Missing::TooMany));
        assert_eq!(bodies.held(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn memory_of_large_bodies_is_used_again_and_freed_when_it_is_not() {
        let bodies = bodies(64 << 20);
        let spare = || bodies.0.ledger().spare.buffers.len();
        let receive = async |length: usize| {
            let body = pieces_of(&[length / 2, length - length / 2]);
            bodies.receive(body, 64 << 20, soon()).await.expect("received")
        };
        drop(receive(REUSED - 2).await);
        assert_eq!(spare(), 0, "small");
        let all = [receive(1 << 20).await, receive(1 << 20).await, receive(3 << 20).await];
        drop(all);
        assert_eq!(spare(), 3);
        let again = receive((1 << 20) - 9).await;
        assert_eq!((again.bytes().len(), spare()), ((1 << 20) - 9, 2));
        drop(receive(REUSED).await);
        assert_eq!(spare(), 3, "a small one has memory of its own");
        drop(again);
        assert_eq!(spare(), 4);
        drop(receive(MAX_SPARE - 1).await);
        assert_eq!(spare(), 1, "what was given first goes first");
        drop(receive(MAX_SPARE + 1).await);
        assert_eq!(spare(), 1, "too much");
        tokio::time::advance(SPARE_TIME).await;
        drop(receive(1).await);
        assert_eq!(spare(), 0);
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
        assert_eq!(received.expect("received").bytes().len(), 15);
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
                received.map(|received| received.bytes().len()).map_err(|missing| missing.why)
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
