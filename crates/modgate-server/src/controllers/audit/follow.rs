//! What exists, as watches tell of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures_util::StreamExt as _;
use kube::{
    Api, Client,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, watcher},
    },
};
use modgate_engine::api::meta::GroupVersionKind;
use tokio::{
    sync::{Semaphore, mpsc},
    task::{AbortHandle, JoinSet},
    time::timeout,
};

use super::{
    super::{
        listing::Listable,
        object::{Item, Key, Stored},
    },
    Place,
};

/// What there is to do next.
pub(super) enum Seen {
    /// A kind is listed from its beginning.
    Begins(GroupVersionKind),
    /// All objects of a kind have been told of.
    Ends(GroupVersionKind),
    /// An object is gone.
    Gone(GroupVersionKind, Key),
    /// Objects are new or have changed.
    Many(Vec<Item>),
    /// Nothing yet.
    Nothing,
}

/// Objects that have changed wait to be evaluated once, however often they change until an audit, as
/// long as there are not more than so many.
const PENDING: usize = 500;
/// What watches have seen beyond that; a watch that is ahead by more is held up.
const BACKLOG: usize = 512;
/// Kinds listed at the same time: each holds a page in memory.
const LISTINGS: usize = 2;

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
    /// Kinds whose objects have not all been told of yet.
    listing: BTreeSet<GroupVersionKind>,
    failed: BTreeMap<GroupVersionKind, String>,
    pending: BTreeMap<Place, Item>,
}

struct Running {
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
    Is(Item),
    Gone(Key),
    Failed(String),
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
            listing: BTreeSet::new(),
            failed: BTreeMap::new(),
            pending: BTreeMap::new(),
        }
    }

    /// Follows these kinds and no others; returns those that were followed and are not any more.
    pub(super) fn follow(&mut self, wanted: Vec<Listable>) -> Vec<GroupVersionKind> {
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
            let watch = Watch {
                api: Api::all_with(self.client.clone(), &listable.resource),
                kind: kind.clone(),
                listable,
                chunk: self.chunk,
                watch: self.started,
                events: self.sender.clone(),
                listings: Arc::clone(&self.listings),
            };
            let task = self.tasks.spawn(watch.run());
            self.running.insert(kind.clone(), Running { watch: self.started, task });
            self.listing.insert(kind);
        }
        gone
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

    /// Kinds that cannot be listed, and why.
    pub(super) fn failed(&self) -> impl Iterator<Item = (&GroupVersionKind, &String)> {
        self.failed.iter()
    }

    /// Objects that have changed.
    pub(super) fn take_pending(&mut self) -> Vec<Item> {
        std::mem::take(&mut self.pending).into_values().collect()
    }

    /// What watches saw next. Nothing is lost if this is not waited for.
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
                if self.listing.contains(&kind) {
                    self.failed.insert(kind, error);
                }
                Seen::Nothing
            }
            What::Is(item) => {
                self.pending.insert((kind, item.key.clone()), item);
                if self.pending.len() < PENDING {
                    return Seen::Nothing;
                }
                Seen::Many(self.take_pending())
            }
        }
    }
}

struct Watch {
    api: Api<Stored>,
    kind: GroupVersionKind,
    listable: Listable,
    chunk: u32,
    watch: u64,
    events: mpsc::Sender<Event>,
    listings: Arc<Semaphore>,
}

impl Watch {
    /// Follows the kind until nobody listens any more. Whatever goes wrong is tried again, less and
    /// less often.
    async fn run(self) {
        let page_size = (self.chunk > 0).then_some(self.chunk);
        let config = watcher::Config { page_size, ..watcher::Config::default() };
        let mut stream = pin!(watcher(self.api.clone(), config).default_backoff());
        let mut turn = self.listings.acquire().await.ok();
        while let Some(event) = stream.next().await {
            let what = match event {
                Ok(watcher::Event::Init) => What::Begins,
                Ok(watcher::Event::InitApply(stored) | watcher::Event::Apply(stored)) => {
                    What::Is(stored.of_kind(&self.listable.resource).into())
                }
                Ok(watcher::Event::InitDone) => {
                    turn = None;
                    What::Ends
                }
                Ok(watcher::Event::Delete(stored)) => What::Gone(stored.key()),
                Err(error) => {
                    turn = None;
                    What::Failed(error.to_string())
                }
            };
            let event = Event { kind: self.kind.clone(), watch: self.watch, what };
            if self.events.send(event).await.is_err() {
                return;
            }
        }
        drop(turn);
    }
}
