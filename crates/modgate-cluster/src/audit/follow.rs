//! Existing objects, as watches report them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt as _, stream::BoxStream};
use kube::{
    Api, Client,
    runtime::watcher::{self, watcher},
};
use modgate_engine::api::meta::GroupVersionKind;
use tokio::{
    sync::{Semaphore, mpsc},
    task::{AbortHandle, JoinSet},
    time::{Instant, timeout},
};

use super::{
    super::{
        bounded::page_error,
        listing::{Listable, fewer},
        object::{Key, Unread},
        watches::with_backoff,
    },
    Place,
    arrived::Arrived,
    turns::Turn,
};

/// The next step.
pub(super) enum Seen {
    /// A kind is listed from its beginning.
    Begins(GroupVersionKind),
    /// All objects of a kind have been reported.
    Ends(GroupVersionKind),
    /// An object is gone.
    Gone(GroupVersionKind, Key),
    /// Objects are new or have changed.
    Many(Vec<Arrived>),
    /// Nothing yet.
    Nothing,
}

/// Objects that have changed wait to be evaluated once, however often they change until an audit, as
/// long as there are not more than so many.
const PENDING: usize = 500;
/// And as long as they have not more bytes.
const PENDING_BYTES: usize = 16 << 20;
/// Events that wait; a watch that is ahead by more is held up. Its next page then waits in it: less than a page here keeps
/// that from being the one after next.
const BACKLOG: usize = 64;
/// Kinds listed at the same time. Of most there are few objects, if any, so that an audit would wait for the API server
/// if they were listed one after the other.
const LISTINGS: usize = 16;
/// Kinds of which a page is in memory at the same time.
const PAGES: usize = 2;
/// A watch that failed works again when it has not failed for so long: more than the longest pause,
/// and time to be refused. Where nothing changes it says nothing else.
const QUIET: Duration = Duration::from_secs(120);

/// A list whose objects take longer to evaluate than the API server keeps its pages (five minutes by default) is begun
/// again so often before that counts as a failure. What was evaluated is not evaluated again, so each attempt gets
/// further.
const EXPIRIES: u32 = 50;
/// A list that expires sooner does so for another reason. That counts as so many expiries, as an audit waits for it.
const KEPT: Duration = Duration::from_secs(60);
const AT_ONCE: u32 = 10;

/// Watches of the kinds that are audited.
pub(super) struct Follower {
    client: Client,
    chunk: u32,
    tasks: JoinSet<()>,
    running: BTreeMap<GroupVersionKind, Running>,
    started: u64,
    sender: mpsc::Sender<Event>,
    events: mpsc::Receiver<Event>,
    listings: Arc<Semaphore>,
    pages: Arc<Semaphore>,
    /// Kinds whose objects have not all been reported yet.
    listing: BTreeSet<GroupVersionKind>,
    failed: BTreeMap<GroupVersionKind, String>,
    pending: BTreeMap<Place, Arrived>,
    /// Bytes that were added to them since they were taken.
    pending_bytes: usize,
    quiet: Duration,
}

/// The error of a kind.
pub(super) struct WatchFailure<'a> {
    pub(super) kind: &'a GroupVersionKind,
    /// Whether its objects were listed before.
    pub(super) is_listed: bool,
    pub(super) error: &'a str,
}

struct Running {
    listable: Listable,
    watch: u64,
    task: AbortHandle,
}

struct Event {
    kind: GroupVersionKind,
    watch: u64,
    what: What,
}

enum What {
    Begins,
    Ends,
    Is(Arrived),
    Gone(Key),
    Failed(String),
    /// Nothing failed for a while.
    Works,
}

impl Follower {
    pub(super) fn new(client: Client, chunk: u32) -> Self {
        let (sender, events) = mpsc::channel(BACKLOG);
        Self {
            client,
            chunk,
            tasks: JoinSet::new(),
            running: BTreeMap::new(),
            started: 0,
            sender,
            events,
            listings: Arc::new(Semaphore::new(LISTINGS)),
            pages: Arc::new(Semaphore::new(PAGES)),
            listing: BTreeSet::new(),
            failed: BTreeMap::new(),
            pending: BTreeMap::new(),
            pending_bytes: 0,
            quiet: QUIET,
        }
    }

    /// The kinds that are followed.
    pub(super) fn followed(&self) -> impl Iterator<Item = &Listable> {
        self.running.values().map(|running| &running.listable)
    }

    /// Follows these kinds and no others.
    pub(super) fn follow(&mut self, wanted: Vec<Listable>) {
        while self.tasks.try_join_next().is_some() {}
        let kinds: BTreeSet<_> = wanted.iter().map(Listable::kind).collect();
        let gone: Vec<_> =
            self.running.keys().filter(|kind| !kinds.contains(kind)).cloned().collect();
        gone.iter().for_each(|kind| self.stop(kind));
        for listable in wanted {
            let kind = listable.kind();
            if self.running.contains_key(&kind) {
                continue;
            }
            self.started += 1;
            let turn = Turn::new(&self.pages);
            let watch = Watch {
                api: Api::all_with(turn.client(&self.client), &listable.resource),
                turn,
                kind: kind.clone(),
                listable: listable.clone(),
                chunk: self.chunk,
                watch: self.started,
                events: self.sender.clone(),
                listings: Arc::clone(&self.listings),
                quiet: self.quiet,
            };
            let task = self.tasks.spawn(watch.run());
            self.running.insert(kind.clone(), Running { listable, watch: self.started, task });
            self.listing.insert(kind);
        }
    }

    fn stop(&mut self, kind: &GroupVersionKind) {
        if let Some(running) = self.running.remove(kind) {
            running.task.abort();
        }
        self.listing.remove(kind);
        self.failed.remove(kind);
        self.pending.retain(|(of, _), _| of != kind);
    }

    pub(super) fn stop_all(&mut self) {
        let all: Vec<_> = self.running.keys().cloned().collect();
        all.iter().for_each(|kind| self.stop(kind));
    }

    /// Whether some kind has not been listed yet, and is not known to refuse that.
    pub(super) fn is_listing(&self) -> bool {
        self.listing.iter().any(|kind| !self.failed.contains_key(kind))
    }

    /// Kinds that cannot be listed, or not be followed since.
    pub(super) fn failed(&self) -> impl Iterator<Item = WatchFailure<'_>> {
        self.failed.iter().map(|(kind, error)| WatchFailure {
            kind,
            is_listed: !self.listing.contains(kind),
            error,
        })
    }

    /// Objects that have changed.
    pub(super) fn take_pending(&mut self) -> Vec<Arrived> {
        self.pending_bytes = 0;
        std::mem::take(&mut self.pending).into_values().collect()
    }

    /// Those of a kind.
    pub(super) fn take_pending_of(&mut self, kind: &GroupVersionKind) -> Vec<Arrived> {
        let pending = std::mem::take(&mut self.pending).into_iter();
        let (taken, left): (Vec<_>, Vec<_>) = pending.partition(|((of, _), _)| of == kind);
        self.pending = left.into_iter().collect();
        taken.into_iter().map(|(_, item)| item).collect()
    }

    /// The next event of the watches. Nothing is lost if this future is dropped.
    pub(super) async fn next(&mut self) -> Seen {
        // Kinds may come to refuse to be listed while one waits.
        let Ok(Some(event)) = timeout(Duration::from_secs(1), self.events.recv()).await else {
            return Seen::Nothing;
        };
        let Event { kind, watch, what } = event;
        if self.running.get(&kind).is_none_or(|running| running.watch != watch) {
            return Seen::Nothing;
        }
        match what {
            What::Begins => Seen::Begins(kind),
            What::Ends => {
                self.listing.remove(&kind);
                self.failed.remove(&kind);
                Seen::Ends(kind)
            }
            What::Gone(key) => {
                self.pending.remove(&(kind.clone(), key.clone()));
                Seen::Gone(kind, key)
            }
            What::Failed(error) => {
                self.failed.insert(kind, error);
                Seen::Nothing
            }
            What::Works => {
                self.failed.remove(&kind);
                Seen::Nothing
            }
            What::Is(item) => {
                self.pending_bytes += item.bytes();
                self.pending.insert((kind, item.key().clone()), item);
                if self.pending.len() < PENDING && self.pending_bytes < PENDING_BYTES {
                    return Seen::Nothing;
                }
                Seen::Many(self.take_pending())
            }
        }
    }
}

struct Watch {
    api: Api<Unread>,
    turn: Turn,
    kind: GroupVersionKind,
    listable: Listable,
    chunk: u32,
    watch: u64,
    events: mpsc::Sender<Event>,
    listings: Arc<Semaphore>,
    quiet: Duration,
}

impl Watch {
    /// Follows the kind until the receiver is dropped. Failures are tried again, with a growing pause.
    async fn run(self) {
        let resource = Arc::new(self.listable.resource.clone());
        let mut chunk = self.chunk;
        let mut stream = self.stream(chunk);
        let mut permit = None;
        let (mut is_listed, mut has_failed) = (false, false);
        let (mut expiries, mut begun) = (0, Instant::now());
        loop {
            let next = match is_listed && has_failed {
                true => timeout(self.quiet, stream.next()).await,
                false => Ok(stream.next().await),
            };
            // A change, or its absence, says that the watch works; a list does at its end.
            let works = match &next {
                Err(_) | Ok(Some(Ok(watcher::Event::Apply(_) | watcher::Event::Delete(_)))) => true,
                Ok(_) => false,
            };
            if works && std::mem::take(&mut has_failed) && !self.send(What::Works).await {
                return;
            }
            let event = match next {
                Ok(Some(event)) => event,
                Ok(None) => return,
                Err(_) => continue,
            };
            let what = match event {
                Ok(watcher::Event::Init) => {
                    // Before the request for the first page.
                    is_listed = false;
                    permit = self.listings.acquire().await.ok();
                    begun = Instant::now();
                    What::Begins
                }
                Ok(watcher::Event::InitApply(unread) | watcher::Event::Apply(unread)) => {
                    What::Is(Arrived::new(unread, &resource))
                }
                Ok(watcher::Event::InitDone) => {
                    (is_listed, has_failed) = (true, false);
                    expiries = 0;
                    self.turn.end();
                    drop(permit.take());
                    What::Ends
                }
                Ok(watcher::Event::Delete(unread)) => What::Gone(unread.key()),
                Err(error) if has_expired(&error) && expiries < EXPIRIES => {
                    expiries += if begun.elapsed() < KEPT { AT_ONCE } else { 1 };
                    self.turn.give_back();
                    drop(permit.take());
                    continue;
                }
                // A shorter page does not help where an event of the watch is too long.
                Err(error) => match fewer(&error, chunk).filter(|_| !is_listed) {
                    Some(fewer) => {
                        chunk = fewer;
                        stream = self.stream(chunk);
                        self.turn.give_back();
                        drop(permit.take());
                        continue;
                    }
                    None => {
                        has_failed = true;
                        self.turn.fail();
                        drop(permit.take());
                        What::Failed(page_error(&error))
                    }
                },
            };
            if !self.send(what).await {
                return;
            }
        }
    }

    /// The list and then the changes of the kind. A page has at most `chunk` objects; with 0, all.
    fn stream(&self, chunk: u32) -> BoxStream<'static, watcher::Result<watcher::Event<Unread>>> {
        let page_size = (chunk > 0).then_some(chunk);
        let config = watcher::Config { page_size, ..watcher::Config::default() };
        with_backoff(watcher(self.api.clone(), config))
    }

    /// Whether there still is a receiver.
    async fn send(&self, what: What) -> bool {
        let event = Event { kind: self.kind.clone(), watch: self.watch, what };
        self.events.send(event).await.is_ok()
    }
}

/// Whether the API server no longer has the next page of a list.
fn has_expired(error: &watcher::Error) -> bool {
    const GONE: u16 = 410;
    matches!(error, watcher::Error::InitialListFailed(kube::Error::Api(status)) if status.code == GONE)
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        future::pending,
        sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    };

    use hyper::{Request, Response};
    use kube::{api::ApiResource, client::Body, core::GroupVersionKind as Gvk};
    use tokio::{sync::Barrier, time::sleep};
    use tower::service_fn;

    use super::{
        super::super::{bounded::LONG, listing::tests::large},
        *,
    };

    /// A cluster of which lists and watches are answered so.
    fn client<F>(answer: impl Fn(bool) -> F + Clone + Send + 'static) -> Client
    where
        F: Future<Output = String> + Send + 'static,
    {
        let service = service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default();
            let answered = answer(query.contains("watch=true"));
            async move {
                let body = answered.await;
                let status =
                    if body.contains("Status") && !body.contains("type") { 500 } else { 200 };
                let response =
                    Response::builder().status(status).body(Body::from(body.into_bytes()));
                Ok::<_, Infallible>(response.expect("a response"))
            }
        });
        Client::new(service, "default")
    }

    fn listable(kind: &str) -> Listable {
        let resource = ApiResource::from_gvk(&Gvk::gvk("", "v1", kind));
        Listable { resource, watchable: true }
    }

    const LIST: &str = r#"{"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "1"},
        "items": [{"metadata": {"name": "a", "resourceVersion": "1"}}]}"#;
    const REFUSED: &str = r#"{"kind": "Status", "apiVersion": "v1", "metadata": {}, "message": "no",
        "status": "Failure", "reason": "InternalError", "code": 500}"#;
    const EXPIRED: &str = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}}"#;

    async fn until(follower: &mut Follower, what: &str, is_so: impl Fn(&Follower) -> bool) {
        let waiting = async {
            while !is_so(follower) {
                follower.next().await;
            }
        };
        assert!(timeout(Duration::from_secs(30), waiting).await.is_ok(), "{what}");
    }

    #[tokio::test]
    async fn a_watch_that_fails_is_named_until_it_works() {
        let works = Arc::new(AtomicBool::new(false));
        let state = Arc::clone(&works);
        let client = client(move |is_watch| {
            let works = state.load(Ordering::Relaxed);
            async move {
                match (is_watch, works) {
                    (false, _) => LIST.to_owned(),
                    (true, false) => REFUSED.to_owned(),
                    (true, true) => pending().await,
                }
            }
        });
        let mut follower = Follower::new(client, 500);
        follower.quiet = Duration::from_secs(2);
        follower.follow(vec![listable("ConfigMap")]);
        until(&mut follower, "the watch is refused", |follower| follower.failed().next().is_some())
            .await;
        let failure = follower.failed().next().expect("a failure");
        assert_eq!(failure.kind.kind, "ConfigMap");
        assert!(failure.is_listed, "its objects are known");
        assert!(failure.error.contains("no"), "{}", failure.error);
        assert!(!follower.is_listing());
        works.store(true, Ordering::Relaxed);
        until(&mut follower, "it works", |follower| follower.failed().next().is_none()).await;
    }

    /// When one kind has been listed, objects of others wait for more.
    #[tokio::test]
    async fn what_waits_is_taken_by_kind() {
        let client =
            client(
                |is_watch| async move { if is_watch { pending().await } else { LIST.to_owned() } },
            );
        let mut follower = Follower::new(client, 500);
        follower.follow(["A", "B"].map(listable).to_vec());
        until(&mut follower, "both are listed", |follower| !follower.is_listing()).await;
        let kind = listable("A").kind();
        assert_eq!(follower.take_pending_of(&kind).len(), 1);
        assert_eq!(follower.take_pending_of(&kind).len(), 0);
        assert_eq!(follower.take_pending().len(), 1);
    }

    /// A kind whose pages the API server keeps for too short a time is listed again, and fails only
    /// if that repeats.
    #[tokio::test]
    async fn a_list_that_expires_is_begun_again() {
        const PAGE: &str = r#"{"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "1", "continue": "b"},
            "items": [{"metadata": {"name": "a", "resourceVersion": "1"}}]}"#;
        const GONE: &str = r#"{"kind": "Status", "apiVersion": "v1", "metadata": {}, "message": "too old",
            "status": "Failure", "reason": "Expired", "code": 410}"#;
        let lists = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&lists);
        let client = client(move |is_watch| {
            let count = Arc::clone(&count);
            async move {
                if is_watch {
                    return pending().await;
                }
                match count.fetch_add(1, Ordering::SeqCst) {
                    0 | 2 => PAGE.to_owned(),
                    1 | 3 => GONE.to_owned(),
                    _ => LIST.to_owned(),
                }
            }
        });
        let mut follower = Follower::new(client, 1);
        follower.follow(vec![listable("ConfigMap")]);
        let mut begun = 0;
        let listing = async {
            loop {
                match follower.next().await {
                    Seen::Begins(_) => begun += 1,
                    Seen::Ends(_) => break,
                    _ => {}
                }
                assert!(follower.failed().next().is_none(), "an audit waits for it");
                assert!(follower.is_listing());
            }
        };
        assert!(timeout(Duration::from_secs(60), listing).await.is_ok());
        assert_eq!((begun, lists.load(Ordering::SeqCst)), (3, 5));
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_expires_at_once_holds_no_audit_up() {
        const PAGE: &str = r#"{"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "1", "continue": "b"},
            "items": [{"metadata": {"name": "a", "resourceVersion": "1"}}]}"#;
        const GONE: &str = r#"{"kind": "Status", "apiVersion": "v1", "metadata": {}, "message": "too old",
            "status": "Failure", "reason": "Expired", "code": 410}"#;
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let client = client(move |_| {
            let is_first = count.fetch_add(1, Ordering::SeqCst).is_multiple_of(2);
            async move { if is_first { PAGE.to_owned() } else { GONE.to_owned() } }
        });
        let mut follower = Follower::new(client, 1);
        follower.follow(vec![listable("ConfigMap")]);
        let begun = Instant::now();
        while follower.is_listing() {
            follower.next().await;
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "{:?}", begun.elapsed());
        let lists = asked.load(Ordering::SeqCst) / 2;
        assert_eq!(lists, 1 + (EXPIRIES / AT_ONCE) as usize);
    }

    #[tokio::test]
    async fn a_kind_with_long_pages_is_listed_with_shorter_ones() {
        let asked = Arc::default();
        let mut follower = Follower::new(large(5, LONG / 4, &asked), 500);
        follower.follow(vec![listable("Secret")]);
        let mut names = BTreeSet::new();
        let mut taken = 0;
        while follower.is_listing() {
            assert!(follower.failed().next().is_none(), "an audit waits for it");
            if let Seen::Many(arrived) = follower.next().await {
                taken += 1;
                names.extend(arrived.iter().map(|object| object.key().name.clone()));
            }
        }
        assert_eq!(taken, 2, "they do not all wait");
        names.extend(follower.take_pending().iter().map(|object| object.key().name.clone()));
        assert_eq!(names, ["o0", "o1", "o2", "o3", "o4"].map(Into::into).into());
        let asked = asked.lock().expect("a list").clone();
        assert_eq!(asked[..6], [100, 62, 7, 1, 1, 1]);
    }

    /// A watch alone knows of an object that has grown since the list.
    #[tokio::test]
    async fn an_event_that_is_too_long_is_named() {
        let event = |bytes| {
            let text = "x".repeat(bytes);
            format!(
                r#"{{"type": "MODIFIED", "object": {{"metadata": {{"name": "a", "resourceVersion": "2"}}, "data": "{text}"}}}}"#
            ) + "\n"
        };
        let follow = |events: String| {
            let lists = Arc::new(AtomicUsize::new(0));
            let asked = Arc::clone(&lists);
            let client = client(move |is_watch| {
                asked.fetch_add(usize::from(!is_watch), Ordering::SeqCst);
                let answer = if is_watch { events.clone() } else { LIST.to_owned() };
                async move { answer }
            });
            let mut follower = Follower::new(client, 500);
            follower.follow(vec![listable("Secret")]);
            (follower, lists)
        };
        let (mut follower, lists) = follow(event(LONG));
        until(&mut follower, "the watch fails", |follower| follower.failed().next().is_some())
            .await;
        let failure = follower.failed().next().expect("a failure");
        assert_eq!(failure.error, "an object has more than 32 MiB");
        assert!(failure.is_listed, "what was found before is reported");
        assert_eq!(lists.load(Ordering::SeqCst), 1, "a shorter page is of no use");

        // Together they may have more.
        let (mut follower, _) = follow(event(LONG / 8).repeat(9));
        while !matches!(follower.next().await, Seen::Many(_)) {
            assert!(follower.failed().next().is_none());
        }
    }

    #[tokio::test]
    async fn kinds_take_turns_to_be_listed_again() {
        const KINDS: usize = 3 * LISTINGS / 2;
        let (now, most, lists) = (
            Arc::new(AtomicUsize::new(0)),
            Arc::new(AtomicUsize::new(0)),
            Arc::new(AtomicUsize::new(0)),
        );
        let all = Arc::new(Barrier::new(KINDS));
        let counts = (Arc::clone(&now), Arc::clone(&most), Arc::clone(&lists));
        let client = client(move |is_watch| {
            let ((now, most, lists), all) = (counts.clone(), Arc::clone(&all));
            async move {
                if !is_watch {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    sleep(Duration::from_millis(20)).await;
                    now.fetch_sub(1, Ordering::SeqCst);
                    lists.fetch_add(1, Ordering::SeqCst);
                    return LIST.to_owned();
                }
                if lists.load(Ordering::SeqCst) >= 2 * KINDS {
                    return pending().await;
                }
                // Every watch is too old at once.
                all.wait().await;
                EXPIRED.to_owned()
            }
        });
        let mut follower = Follower::new(client, 500);
        follower.follow((0..KINDS).map(|at| listable(&format!("Kind{at}"))).collect());
        until(&mut follower, "all are listed again", |_| lists.load(Ordering::SeqCst) == 2 * KINDS)
            .await;
        assert_eq!(most.load(Ordering::SeqCst), LISTINGS);
    }
}
