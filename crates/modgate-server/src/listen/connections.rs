//! The open connections of a listener: how many there may be, and which one goes when there are too
//! many.

use std::{
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// How long a step of the handshake, the first request, or the body of a request may take before the
/// connection is the first to go when there are too many.
const PATIENT: Duration = Duration::from_secs(2);

/// A body that comes at least this fast is not late, however long it is: bytes for a millisecond.
const BODY_RATE: u64 = 1 << 10;

/// Connections that make room wait for requests on their way, at most so many at a time.
const MAX_CLOSING: usize = 64;

/// Bounds on connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// All of a listener.
    pub(super) all: usize,
    /// Those from one address.
    pub(super) per_peer: usize,
    /// From its start until its first request is there, handshake and head included.
    pub(super) first_request: Duration,
    /// Between requests.
    pub(super) idle: Duration,
}

/// Open connections.
#[derive(Debug)]
pub(super) struct Connections {
    limits: Limits,
    open: Mutex<Vec<Arc<Connection>>>,
    /// Those that made room and are not closed yet.
    closing: Arc<AtomicUsize>,
}

/// Holds a place among the connections that made room and are not closed yet.
#[derive(Debug)]
pub(super) struct Closing(Arc<AtomicUsize>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The event that a connection waits for, by progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    /// The first byte.
    Silent,
    /// The rest of the ClientHello.
    Hello,
    /// The end of the handshake.
    Handshake,
    /// The first request.
    FirstRequest,
    /// A further request.
    NextRequest,
}

impl Waiting {
    /// All of them; each at the index of its number.
    const ALL: [Self; 5] =
        [Self::Silent, Self::Hello, Self::Handshake, Self::FirstRequest, Self::NextRequest];
}

/// One open connection, and what it is doing.
#[derive(Debug)]
pub(super) struct Connection {
    peer: IpAddr,
    since: Instant,
    /// How far it came before its first request: an index of [`Waiting::ALL`].
    progress: AtomicU8,
    /// Whether its requests are HTTP/2.
    http2: AtomicBool,
    /// Whether the next answer is its last.
    last_answer: AtomicBool,
    /// Requests whose answer is not ready.
    requests: AtomicUsize,
    /// Those of them whose body is not there yet.
    receiving: AtomicUsize,
    /// The bytes of bodies that came since no body was on its way.
    body_bytes: AtomicU64,
    /// Whether a request was answered.
    answered: AtomicBool,
    /// Milliseconds from `since` to the last progress, request or answer.
    last: AtomicU64,
    /// Whether it is closed whatever it does.
    given_up: AtomicBool,
    cut: Notify,
}

impl Connections {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, open: Mutex::default(), closing: Arc::default() }
    }

    /// Takes a connection in. If there are too many, of its peer or in all, one that waits for its
    /// client makes room; `None` if every other is at work.
    pub(super) fn admit(&self, peer: IpAddr) -> Option<Arc<Connection>> {
        let peer = peer.to_canonical();
        let mut open = self.open();
        let of_peer = open.iter().filter(|connection| connection.peer == peer).count();
        if of_peer >= self.limits.per_peer {
            cut_off(&mut open, |connection| connection.peer == peer)?;
        } else if open.len() >= self.limits.all {
            cut_off(&mut open, |_| true)?;
        }
        let connection = Arc::new(Connection {
            peer,
            since: Instant::now(),
            progress: AtomicU8::new(Waiting::Silent as u8),
            http2: AtomicBool::new(false),
            last_answer: AtomicBool::new(false),
            requests: AtomicUsize::new(0),
            receiving: AtomicUsize::new(0),
            body_bytes: AtomicU64::new(0),
            answered: AtomicBool::new(false),
            last: AtomicU64::new(0),
            given_up: AtomicBool::new(false),
            cut: Notify::new(),
        });
        open.push(Arc::clone(&connection));
        Some(connection)
    }

    /// The connection has ended.
    pub(super) fn remove(&self, connection: &Arc<Connection>) {
        self.open().retain(|open| !Arc::ptr_eq(open, connection));
    }

    /// A place for a connection that made room, while it waits for requests on their way; `None` if
    /// too many do.
    pub(super) fn closing(&self) -> Option<Closing> {
        let closing = Closing(Arc::clone(&self.closing));
        let before = self.closing.fetch_add(1, Ordering::Relaxed);
        (before < MAX_CLOSING).then_some(closing)
    }

    /// Waits until the connection has kept us waiting for too long.
    pub(super) async fn expired(&self, connection: &Connection) {
        while let Some(until) = connection.expires(&self.limits, Instant::now()) {
            sleep_until(until).await;
        }
    }

    fn open(&self) -> MutexGuard<'_, Vec<Arc<Connection>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes one connection go, if any waits for its client: the oldest that is overdue, else the oldest
/// of those that wait for the same, where most wait for the same.
///
/// So the kind of connection that fills the listener makes room for itself: neither a handshake nor
/// a connection in use goes because others open connections and send nothing on them.
fn cut_off(open: &mut Vec<Arc<Connection>>, which: impl Fn(&Connection) -> bool) -> Option<()> {
    let of_which = || open.iter().enumerate().filter(|(_, connection)| which(connection));
    let overdue = of_which().filter_map(|(at, it)| Some((it.overdue()?, at))).min();
    let oldest = |kind| {
        let waiting = of_which().filter(|(_, connection)| connection.waiting() == Some(kind));
        let (mut count, mut oldest) = (0, None);
        for (at, connection) in waiting {
            count += 1;
            let this = (connection.waits_since(), at);
            oldest = Some(oldest.map_or(this, |oldest| this.min(oldest)));
        }
        oldest.map(|oldest| (count, oldest))
    };
    let (_, least) = overdue.or_else(|| {
        let kinds = Waiting::ALL.into_iter().rev().filter_map(oldest);
        kinds.max_by_key(|(count, _): &(usize, _)| *count).map(|(_, oldest)| oldest)
    })?;
    let least = open.swap_remove(least);
    // Its next answer may be ready before its task hears of this.
    least.close_after_answer();
    least.cut.notify_one();
    Some(())
}

impl Connection {
    /// The address of the client.
    pub(super) fn peer(&self) -> IpAddr {
        self.peer
    }

    /// Ends when the connection has to make room for another.
    pub(super) async fn is_cut_off(&self) {
        self.cut.notified().await;
    }

    /// Closes it at once: its client does not read what it asked for.
    pub(super) fn give_up(&self) {
        if !self.given_up.swap(true, Ordering::Relaxed) {
            self.cut.notify_one();
        }
    }

    /// Whether it is closed at once, whatever it does.
    pub(super) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }

    /// The first byte has come.
    pub(super) fn spoke(&self) {
        self.reached(Waiting::Hello);
    }

    /// The ClientHello is complete.
    pub(super) fn said_hello(&self) {
        self.reached(Waiting::Handshake);
    }

    /// The handshake is complete.
    pub(super) fn shook_hands(&self) {
        self.reached(Waiting::FirstRequest);
    }

    fn reached(&self, waiting: Waiting) {
        self.touch();
        self.progress.store(waiting as u8, Ordering::Relaxed);
    }

    /// Whether a request was answered: its client may be sending the next one.
    pub(super) fn is_in_use(&self) -> bool {
        self.answered.load(Ordering::Relaxed) || self.has_requests()
    }

    /// Whether its requests are HTTP/2.
    pub(super) fn is_http2(&self) -> bool {
        self.http2.load(Ordering::Relaxed)
    }

    /// Closes an HTTP/1.1 connection after the next answer.
    pub(super) fn close_after_answer(&self) {
        self.last_answer.store(true, Ordering::Relaxed);
    }

    /// Whether the answer that is ready is the last of an HTTP/1.1 connection.
    pub(super) fn closes(&self) -> bool {
        self.last_answer.load(Ordering::Relaxed) && !self.is_http2()
    }

    /// A request has come.
    pub(super) fn begin(&self, http2: bool) {
        self.http2.store(http2, Ordering::Relaxed);
        self.touch();
        self.requests.fetch_add(1, Ordering::Relaxed);
        if self.receiving.fetch_add(1, Ordering::Relaxed) == 0 {
            self.body_bytes.store(0, Ordering::Relaxed);
        }
    }

    /// So many bytes of a body were received.
    pub(super) fn receives(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.body_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// All of its body was received, or is not wanted.
    pub(super) fn received(&self) {
        self.receiving.fetch_sub(1, Ordering::Relaxed);
    }

    /// Its answer is ready, or the client no longer waits for it.
    pub(super) fn end(&self) {
        self.touch();
        self.answered.store(true, Ordering::Relaxed);
        self.requests.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether it answers a request, or receives one whose body is not late. Such a connection is not
    /// cut off, also when it was to make room the moment before its request came.
    pub(super) fn is_at_work(&self) -> bool {
        self.has_requests() && self.overdue().is_none()
    }

    /// Whether a request is open.
    pub(super) fn has_requests(&self) -> bool {
        self.requests.load(Ordering::Relaxed) > 0
    }

    fn touch(&self) {
        let now = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
    }

    /// Since when the connection has waited for the next step to its first request or for the bodies of all
    /// of its requests, if that is too long. A body that comes fast enough may be long.
    fn overdue(&self) -> Option<Instant> {
        let requests = self.requests.load(Ordering::Relaxed);
        let (since, allowed) = match requests {
            0 if self.answered.load(Ordering::Relaxed) => return None,
            // Not since its start: where processors are busy, a handshake waits for us.
            0 => (self.waits_since(), PATIENT),
            _ if requests > self.receiving.load(Ordering::Relaxed) => return None,
            _ => {
                let millis = self.body_bytes.load(Ordering::Relaxed) / BODY_RATE;
                (self.waits_since(), PATIENT + Duration::from_millis(millis))
            }
        };
        (since.elapsed() > allowed).then_some(since)
    }

    /// The event that the connection waits for; `None` while a request is received or evaluated.
    fn waiting(&self) -> Option<Waiting> {
        if self.has_requests() {
            return None;
        }
        if self.answered.load(Ordering::Relaxed) {
            return Some(Waiting::NextRequest);
        }
        Waiting::ALL.get(usize::from(self.progress.load(Ordering::Relaxed))).copied()
    }

    fn waits_since(&self) -> Instant {
        self.since + Duration::from_millis(self.last.load(Ordering::Relaxed))
    }

    /// When to look again whether the connection has expired; `None` if it has.
    fn expires(&self, limits: &Limits, now: Instant) -> Option<Instant> {
        if self.has_requests() {
            // The time of requests is bounded elsewhere.
            return Some(now + limits.first_request);
        }
        let until = match self.answered.load(Ordering::Relaxed) {
            true => self.waits_since() + limits.idle,
            false => self.since + limits.first_request,
        };
        Some(until).filter(|until| *until > now)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use futures_util::FutureExt as _;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn connections(all: usize, per_peer: usize) -> Connections {
        let (first_request, idle) = (SECOND * 10, SECOND * 90);
        Connections::new(Limits { all, per_peer, first_request, idle })
    }

    fn peer(last: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, last).into()
    }

    fn is_cut_off(connection: &Connection) -> bool {
        connection.is_cut_off().now_or_never().is_some()
    }

    async fn admit(connections: &Connections, last: u8) -> Arc<Connection> {
        tokio::time::advance(SECOND).await;
        connections.admit(peer(last)).expect("room")
    }

    fn answer(connection: &Connection) {
        connection.begin(false);
        connection.received();
        connection.end();
    }

    #[tokio::test(start_paused = true)]
    async fn requests_do_not_make_room() {
        let connections = connections(4, 4);
        let working = admit(&connections, 1).await;
        let answered = admit(&connections, 3).await;
        let receiving = admit(&connections, 2).await;
        let silent = admit(&connections, 4).await;
        working.begin(false);
        working.received();
        receiving.begin(false);
        answer(&answered);
        for least in [&silent, &answered] {
            assert!(!is_cut_off(least));
            let new = admit(&connections, 5).await;
            assert!(is_cut_off(least));
            new.begin(false);
            new.received();
            // Its body is on its way.
            receiving.touch();
        }
        assert!(connections.admit(peer(6)).is_none(), "all are at work");
        tokio::time::advance(PATIENT + SECOND).await;
        assert!(connections.admit(peer(6)).is_some());
        assert!(is_cut_off(&receiving), "its body does not come");
        working.end();
        assert!(connections.admit(peer(6)).is_some());
        assert!(!is_cut_off(&working), "the silent one goes");
    }

    /// Whatever others do with connections on which they ask nothing, one in use stays, and so does
    /// a handshake that gets ahead.
    #[tokio::test(start_paused = true)]
    async fn connections_in_use_stay() {
        let idle: [fn(&Connection); 4] =
            [|_| {}, Connection::spoke, Connection::said_hello, Connection::shook_hands];
        for others in [&idle[..1], &idle[1..2], &idle[2..3], &idle[3..], &idle] {
            let connections = connections(64, 64);
            let client = connections.admit(peer(1)).expect("room");
            answer(&client);
            for (count, leave) in others.iter().cycle().take(1000).enumerate() {
                leave(&connections.admit(peer(1)).expect("room"));
                if count % 100 == 50 {
                    answer(&client);
                }
                tokio::time::advance(Duration::from_millis(5)).await;
            }
            assert!(!is_cut_off(&client));
            // As many more as there is room for, none of which comes as far as this one.
            let shaken = connections.admit(peer(1)).expect("room");
            shaken.shook_hands();
            for _ in 0..200 {
                connections.admit(peer(1)).expect("room");
            }
            assert!(!is_cut_off(&shaken));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn new_clients_do_not_evict_each_other_while_others_are_idle() {
        let connections = connections(8, 8);
        let mut idle = Vec::new();
        for _ in 0..8 {
            idle.push(admit(&connections, 1).await);
        }
        for connection in &idle {
            answer(connection);
        }
        // Half of all places are for those that come.
        let new: Vec<_> = (0..4).map(|_| connections.admit(peer(2)).expect("room")).collect();
        assert_eq!(idle.iter().filter(|connection| is_cut_off(connection)).count(), 4);
        assert!(!new.iter().any(|connection| is_cut_off(connection)));
        // A client that sends no request in time makes room before a client that sent one does.
        answer(&new[0]);
        tokio::time::advance(PATIENT + SECOND).await;
        let client = connections.admit(peer(3)).expect("room");
        assert!(is_cut_off(&new[1]) && !is_cut_off(&new[0]) && !is_cut_off(&client));
    }

    /// A handshake may take long where processors are busy, as each of its steps then does.
    #[tokio::test(start_paused = true)]
    async fn a_slow_handshake_that_goes_on_is_not_overdue() {
        let connections = connections(3, 3);
        let slow = admit(&connections, 1).await;
        tokio::time::advance(PATIENT).await;
        slow.said_hello();
        let (silent, _fresh) = (admit(&connections, 2).await, admit(&connections, 3).await);
        tokio::time::advance(PATIENT).await;
        slow.shook_hands();
        connections.admit(peer(4)).expect("room");
        assert!(is_cut_off(&silent) && !is_cut_off(&slow));
    }

    #[tokio::test(start_paused = true)]
    async fn few_wait_while_they_close() {
        let connections = connections(2, 2);
        let mut closing: Vec<_> = (0..MAX_CLOSING).map(|_| connections.closing()).collect();
        assert!(closing.iter().all(Option::is_some));
        assert!(connections.closing().is_none() && connections.closing().is_none());
        closing.pop();
        assert!(connections.closing().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn the_one_that_waits_longest_goes_first() {
        let connections = connections(2, 2);
        let (first, second) = (admit(&connections, 1).await, admit(&connections, 1).await);
        answer(&second);
        tokio::time::advance(SECOND).await;
        answer(&first);
        admit(&connections, 1).await;
        assert!(is_cut_off(&second) && !is_cut_off(&first));
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_has_its_share_makes_room_itself() {
        let connections = connections(10, 2);
        let neighbour = admit(&connections, 1).await;
        let first = admit(&connections, 2).await;
        let mapped = Ipv4Addr::new(10, 0, 0, 2).to_ipv6_mapped();
        connections.admit(mapped.into()).expect("room");
        admit(&connections, 2).await;
        assert!(is_cut_off(&first) && !is_cut_off(&neighbour));
        connections.remove(&neighbour);
        assert_eq!(connections.open().len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_expires_without_requests() {
        let connections = connections(2, 2);
        let connection = admit(&connections, 1).await;
        let began = Instant::now();
        let after = |began: Instant| began.elapsed().as_secs();
        connections.expired(&connection).await;
        assert_eq!(after(began), 10, "never asked anything");
        answer(&connection);
        connections.expired(&connection).await;
        assert_eq!(after(began), 100, "idle");
        connection.begin(false);
        let asleep = tokio::time::timeout(SECOND * 1000, connections.expired(&connection)).await;
        assert!(asleep.is_err(), "at work");
    }
}
