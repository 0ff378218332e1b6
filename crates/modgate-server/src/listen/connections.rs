//! The open connections of a listener: how many there may be, and which one goes when there are too
//! many.

use std::{
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// How long a handshake and the first request may take before the connection counts as idle when
/// there are too many.
const FIRST_REQUEST: Duration = Duration::from_secs(2);

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
}

/// One open connection, and what it is doing.
#[derive(Debug)]
pub(super) struct Connection {
    peer: IpAddr,
    since: Instant,
    /// Requests whose answer is not ready.
    requests: AtomicUsize,
    /// Those of them whose body is not there yet.
    receiving: AtomicUsize,
    /// Whether a request was answered.
    answered: AtomicBool,
    /// Milliseconds from `since` to the last answer.
    last: AtomicU64,
    cut: Notify,
}

impl Connections {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, open: Mutex::default() }
    }

    /// Takes a connection in. If there are too many, of its peer or in all, one that waits for its
    /// client is cut off; `None` if every other is at work.
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
            requests: AtomicUsize::new(0),
            receiving: AtomicUsize::new(0),
            answered: AtomicBool::new(false),
            last: AtomicU64::new(0),
            cut: Notify::new(),
        });
        open.push(Arc::clone(&connection));
        Some(connection)
    }

    /// The connection has ended.
    pub(super) fn remove(&self, connection: &Arc<Connection>) {
        self.open().retain(|open| !Arc::ptr_eq(open, connection));
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

/// Cuts off the connection that is needed least, if any waits for its client.
fn cut_off(open: &mut Vec<Arc<Connection>>, which: impl Fn(&Connection) -> bool) -> Option<()> {
    let waiting = open.iter().enumerate().filter(|(_, connection)| which(connection));
    let (_, least) = waiting.filter_map(|(at, it)| Some((it.need()?, at))).min()?;
    open.swap_remove(least).cut.notify_one();
    Some(())
}

impl Connection {
    /// Ends when the connection has to make room for another.
    pub(super) async fn is_cut_off(&self) {
        self.cut.notified().await;
    }

    /// A request has come.
    pub(super) fn begin(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.receiving.fetch_add(1, Ordering::Relaxed);
    }

    /// All of its body was received, or is not wanted.
    pub(super) fn received(&self) {
        self.receiving.fetch_sub(1, Ordering::Relaxed);
    }

    /// Its answer is ready, or the client no longer waits for it.
    pub(super) fn end(&self) {
        let now = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
        self.answered.store(true, Ordering::Relaxed);
        self.requests.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether a request is open.
    pub(super) fn has_requests(&self) -> bool {
        self.requests.load(Ordering::Relaxed) > 0
    }

    /// How much a connection that waits for its client is needed. Least where no first request has
    /// come for some time, then between requests, then in a handshake that may still succeed, then
    /// while a body is received; and less the longer that lasts. `None` while a request is evaluated.
    ///
    /// Young handshakes are needed more than idle connections: otherwise idle ones that fill the
    /// listener would let new clients only evict each other.
    fn need(&self) -> Option<(u8, Instant)> {
        let requests = self.requests.load(Ordering::Relaxed);
        if requests > self.receiving.load(Ordering::Relaxed) {
            return None;
        }
        let kind = match (requests, self.answered.load(Ordering::Relaxed)) {
            (0, false) if self.since.elapsed() > FIRST_REQUEST => 0,
            (0, true) => 1,
            (0, false) => 2,
            _ => 3,
        };
        Some((kind, self.waits_since()))
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
        let answered = self.answered.load(Ordering::Relaxed);
        let allowed = if answered { limits.idle } else { limits.first_request };
        Some(self.waits_since() + allowed).filter(|until| *until > now)
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
        connection.begin();
        connection.received();
        connection.end();
    }

    #[tokio::test(start_paused = true)]
    async fn the_least_needed_one_makes_room() {
        let connections = connections(4, 4);
        let working = admit(&connections, 1).await;
        let receiving = admit(&connections, 2).await;
        let silent = admit(&connections, 4).await;
        let answered = admit(&connections, 3).await;
        tokio::time::advance(SECOND).await;
        working.begin();
        working.received();
        receiving.begin();
        answer(&answered);
        for least in [&silent, &answered, &receiving] {
            assert!(!is_cut_off(least));
            let new = admit(&connections, 5).await;
            assert!(is_cut_off(least));
            new.begin();
            new.received();
        }
        assert!(connections.admit(peer(6)).is_none(), "all are at work");
        working.end();
        assert!(connections.admit(peer(6)).is_some());
        assert!(is_cut_off(&working));
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
        // More clients knock in the time of one handshake than there are connections.
        let new: Vec<_> = (0..8).map(|_| connections.admit(peer(2)).expect("room")).collect();
        assert!(idle.iter().all(|connection| is_cut_off(connection)));
        assert!(!new.iter().any(|connection| is_cut_off(connection)));
        // Who does not ask in time makes room before a client that asked does.
        answer(&new[0]);
        tokio::time::advance(FIRST_REQUEST + SECOND).await;
        let client = connections.admit(peer(3)).expect("room");
        assert!(is_cut_off(&new[1]) && !is_cut_off(&new[0]) && !is_cut_off(&client));
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
        connection.begin();
        let asleep = tokio::time::timeout(SECOND * 1000, connections.expired(&connection)).await;
        assert!(asleep.is_err(), "at work");
    }
}
