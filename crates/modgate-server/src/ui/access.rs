//! The access of viewers to the page.
//!
//! With policies of a cluster, the cluster says who a bearer token belongs to (TokenReview) and what they may
//! (SubjectAccessReview). Both answers are kept for a moment, by a digest of the token. With policies of files
//! the page is for this machine, which the `Host` header must name: otherwise a page of another site could have
//! its name resolve to this machine and read the answers.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::{
    extract::Request,
    http::{HeaderMap, Method, StatusCode, header},
};
use modgate_cluster::live::{Live, Question, User};
use sha2::{Digest as _, Sha256};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::listen::Peer;

/// The error of an address that others reach.
pub(crate) const LOOPBACK_ONLY: &str = "with policies of files there are no users, so `--ui-address` must be an address of this machine, such as \
     127.0.0.1:8088";

/// The API group of the page's resources, which exist for permissions only.
const GROUP: &str = "modgate.sh";
/// Bytes of a token.
const MAX_TOKEN: usize = 16 << 10;
/// How long an answer of the cluster counts: of consent, and of refusal.
const CONSENT: Duration = Duration::from_secs(30);
const REFUSAL: Duration = Duration::from_secs(5);
/// Answers that are kept.
const MAX_KEPT: usize = 1_024;
/// Questions that wait for the API server, or are answered by it.
const MAX_QUESTIONS: usize = 24;
/// Of these, those of one peer, so that the others have some left.
const MAX_OF_PEER: usize = 12;
/// Time between two questions: strangers with invented tokens must not keep the API server busy.
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(50);
/// Questions without that time in between after a pause: a page that opens has several.
const BURST: u32 = 10;

/// The right that a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Right {
    /// `get overview`
    Overview,
    /// `get decisions`
    Decisions,
    /// `create decisions`
    Try,
}

impl Right {
    fn question(self, namespace: &str) -> Question {
        let (verb, resource) = match self {
            Self::Overview => ("get", "overview"),
            Self::Decisions => ("get", "decisions"),
            Self::Try => ("create", "decisions"),
        };
        Question { group: GROUP, resource, verb, namespace: namespace.to_owned() }
    }
}

/// The facts that identify the viewer: the headers of a request, and the address that it comes
/// from.
#[derive(Debug, Clone)]
pub(super) struct Asker {
    pub(super) headers: HeaderMap,
    peer: IpAddr,
}

impl Asker {
    pub(super) fn of(request: &Request) -> Self {
        let peer = request.extensions().get::<Peer>().map(|Peer(address)| *address);
        let peer = match peer {
            // One machine has as many of these as it likes.
            Some(IpAddr::V6(address)) => {
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64))
            }
            Some(address) => address,
            None => Ipv4Addr::UNSPECIFIED.into(),
        };
        Self { headers: request.headers().clone(), peer }
    }
}

/// The viewer who sends a request.
#[derive(Debug)]
pub(super) enum Caller {
    /// Someone on this machine.
    Local,
    /// A user of the cluster.
    User(User),
}

impl Caller {
    /// The name of the user, if there are users.
    pub(super) fn name(&self) -> Option<String> {
        match self {
            Self::Local => None,
            Self::User(user) => Some(user.name().to_owned()),
        }
    }
}

/// A request that is not answered.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) status: StatusCode,
    pub(super) message: String,
    /// Whether the address is one to post to.
    pub(super) wants_post: bool,
}

impl Refused {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), wants_post: false }
    }

    pub(super) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(super) fn busy() -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "too many requests are in progress; try again")
    }

    pub(super) fn not_loaded() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "policies are not loaded yet")
    }

    pub(super) fn method(wanted: &Method) -> Self {
        let message = format!("the method must be {wanted}");
        let wants_post = *wanted == Method::POST;
        Self { wants_post, ..Self::new(StatusCode::METHOD_NOT_ALLOWED, message) }
    }
}

/// The check of requests.
pub(super) enum Access {
    Machine,
    Cluster(Box<Cluster>),
}

/// A cluster, and what it answered.
pub(super) struct Cluster {
    live: Live,
    asking: Semaphore,
    /// The questions of each peer.
    peers: Mutex<BTreeMap<IpAddr, usize>>,
    pace: Pace,
    known: Mutex<Known>,
}

/// A digest of a token.
type Token = [u8; 32];

#[derive(Default)]
struct Known {
    users: BTreeMap<Token, (Instant, Option<User>)>,
    rights: BTreeMap<(Token, Question), (Instant, bool)>,
}

impl Access {
    pub(super) fn of_machine() -> Self {
        Self::Machine
    }

    pub(super) fn of_cluster(live: Live) -> Self {
        let asking = Semaphore::new(MAX_QUESTIONS);
        let (peers, pace, known) = (Mutex::default(), Pace::default(), Mutex::default());
        Self::Cluster(Box::new(Cluster { live, asking, peers, pace, known }))
    }

    /// Refuses names of other machines, where the page is for this one.
    pub(super) fn host(&self, request: &Request) -> Result<(), Refused> {
        if matches!(self, Self::Cluster(_)) {
            return Ok(());
        }
        let header = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
        let host = header.or_else(|| request.uri().authority().map(|it| it.as_str()));
        match host.is_some_and(is_of_machine) {
            true => Ok(()),
            false => {
                let message =
                    "the Host header must be `localhost` or an address of the loopback interface";
                Err(Refused::new(StatusCode::FORBIDDEN, message))
            }
        }
    }

    /// The viewer, if they have the right: in one namespace, or in all if it is empty.
    pub(super) async fn check(
        &self,
        asker: &Asker,
        right: Right,
        namespace: &str,
    ) -> Result<Caller, Refused> {
        let Self::Cluster(cluster) = self else { return Ok(Caller::Local) };
        let (token, user) = cluster.user(asker).await?;
        let question = right.question(namespace);
        if cluster.allows(asker, token, &user, &question).await? {
            return Ok(Caller::User(user));
        }
        let Question { group, resource, verb, .. } = question;
        let place = match namespace {
            "" => "all namespaces".to_owned(),
            namespace => format!("namespace `{namespace}`"),
        };
        let message = format!(
            "user `{}` may not {verb} {resource}.{group} in {place}; the ClusterRole `modgate-viewer` allows it",
            user.name()
        );
        Err(Refused::new(StatusCode::FORBIDDEN, message))
    }
}

impl Cluster {
    /// The user of a request, by its bearer token.
    async fn user(&self, asker: &Asker) -> Result<(Token, User), Refused> {
        let unknown = |message: &str| Refused::new(StatusCode::UNAUTHORIZED, message);
        let token = bearer(&asker.headers).ok_or_else(|| {
            unknown("a bearer token is missing; `kubectl modgate ui` opens the page with one")
        })?;
        if token.len() > MAX_TOKEN {
            return Err(unknown("the bearer token is too long"));
        }
        let digest: Token = Sha256::digest(token.as_bytes()).into();
        let known = self.known().users.get(&digest).filter(|(until, _)| is_fresh(until)).cloned();
        let user = match known {
            Some((_, user)) => user,
            None => {
                let _permit = self.permit(asker).await?;
                let user = self.live.authenticate(token).await.map_err(no_answer)?;
                let kept = (until(user.is_some()), user.clone());
                keep(&mut self.known().users, digest, kept);
                user
            }
        };
        let refused = || unknown("the cluster does not accept this token; it may have expired");
        Ok((digest, user.ok_or_else(refused)?))
    }

    async fn allows(
        &self,
        asker: &Asker,
        token: Token,
        user: &User,
        question: &Question,
    ) -> Result<bool, Refused> {
        let key = (token, question.clone());
        if let Some((_, allowed)) = self.known().rights.get(&key).filter(|(at, _)| is_fresh(at)) {
            return Ok(*allowed);
        }
        let _permit = self.permit(asker).await?;
        let allowed = self.live.is_allowed(user, question).await.map_err(no_answer)?;
        keep(&mut self.known().rights, key, (until(allowed), allowed));
        Ok(allowed)
    }

    async fn permit(&self, asker: &Asker) -> Result<Permit<'_>, Refused> {
        let permit = Permit::take(self, asker.peer).ok_or_else(Refused::busy)?;
        self.pace.wait().await;
        Ok(permit)
    }

    fn peers(&self) -> std::sync::MutexGuard<'_, BTreeMap<IpAddr, usize>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of [`MAX_QUESTIONS`], and of [`MAX_OF_PEER`], until it is dropped.
struct Permit<'c> {
    cluster: &'c Cluster,
    peer: IpAddr,
    _place: SemaphorePermit<'c>,
}

impl<'c> Permit<'c> {
    fn take(cluster: &'c Cluster, peer: IpAddr) -> Option<Self> {
        let place = cluster.asking.try_acquire().ok()?;
        let mut peers = cluster.peers();
        let of_peer = peers.entry(peer).or_default();
        if *of_peer >= MAX_OF_PEER {
            return None;
        }
        *of_peer += 1;
        Some(Self { cluster, peer, _place: place })
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let mut peers = self.cluster.peers();
        if let Some(of_peer) = peers.get_mut(&self.peer) {
            *of_peer -= 1;
            if *of_peer == 0 {
                peers.remove(&self.peer);
            }
        }
    }
}

/// Lets one caller go every [`BETWEEN_QUESTIONS`], in the order in which they came, and [`BURST`] of them at once.
#[derive(Default)]
struct Pace {
    /// The time of the next question; it may have passed.
    next: Mutex<Option<tokio::time::Instant>>,
}

impl Pace {
    async fn wait(&self) {
        let at = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let now = tokio::time::Instant::now();
            let first = now.checked_sub(BETWEEN_QUESTIONS * (BURST - 1)).unwrap_or(now);
            let at = next.map_or(first, |next| next.max(first));
            *next = Some(at + BETWEEN_QUESTIONS);
            at
        };
        tokio::time::sleep_until(at).await;
    }
}

fn no_answer(error: String) -> Refused {
    tracing::warn!(target: "ui", error, "the API server does not say who may see the live page");
    let message = "the API server does not say who you are and what you may; try again";
    Refused::new(StatusCode::SERVICE_UNAVAILABLE, message)
}

fn is_fresh(until: &Instant) -> bool {
    Instant::now() < *until
}

fn until(consents: bool) -> Instant {
    Instant::now() + if consents { CONSENT } else { REFUSAL }
}

/// Keeps an answer. If there are too many, removes the expired ones, or else the first one: keys begin with
/// digests, so a client cannot choose which.
fn keep<K: Ord, V>(kept: &mut BTreeMap<K, (Instant, V)>, key: K, answer: (Instant, V)) {
    if kept.len() >= MAX_KEPT {
        kept.retain(|_, (until, _)| is_fresh(until));
    }
    if kept.len() >= MAX_KEPT {
        kept.pop_first();
    }
    kept.insert(key, answer);
}

/// The token of `Authorization: Bearer TOKEN`.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let header = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = header.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Whether a `Host` header names this machine: `localhost`, or a loopback address, with or without a port.
fn is_of_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or("", |(address, _)| address),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_this_machine() {
        for (host, expected) in [
            ("localhost", true),
            ("LOCALHOST:80", true),
            ("127.0.0.1:8088", true),
            ("127.9.9.9", true),
            ("[::1]:8088", true),
            ("::1", false),
            ("10.0.0.1", false),
            ("evil.example:8088", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("", false),
        ] {
            assert_eq!(is_of_machine(host), expected, "{host}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn questions_have_a_pace() {
        let pace = Pace::default();
        let mut start = tokio::time::Instant::now();
        for _ in 0..2 {
            for number in 0..3 * BURST {
                pace.wait().await;
                let late = BETWEEN_QUESTIONS * number.saturating_sub(BURST - 1);
                assert_eq!(start.elapsed(), late, "{number}");
            }
            // After any pause, no more than a burst goes at once.
            tokio::time::advance(Duration::from_secs(60)).await;
            start = tokio::time::Instant::now();
        }
    }

    #[test]
    fn answers_that_are_kept_are_bounded() {
        let mut kept = BTreeMap::new();
        for key in 0..3 * MAX_KEPT {
            keep(&mut kept, key, (until(true), ()));
        }
        assert_eq!(kept.len(), MAX_KEPT);
        for answer in kept.values_mut() {
            answer.0 = Instant::now();
        }
        keep(&mut kept, 0, (until(true), ()));
        assert_eq!(kept.len(), 1);
    }
}
