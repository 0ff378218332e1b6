//! Watches, one per kind.

use std::{collections::BTreeMap, pin::pin};

use futures_util::StreamExt as _;
use kube::{
    Api, Client,
    api::ApiResource,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, watcher},
    },
};
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinSet},
};

use super::{
    LOGGER,
    kinds::{self, Kind},
    object::Stored,
};

/// What a watch saw.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) kind: Kind,
    /// Which watch it was; what a stopped one still had to say is out of date.
    watch: u64,
    pub(crate) seen: Seen,
}

#[derive(Debug)]
pub(crate) enum Seen {
    /// All objects there are; what is not among them is gone.
    All(Vec<Stored>),
    /// An object is new or has changed.
    Applied(Stored),
    /// An object is gone.
    Deleted(Stored),
}

/// Objects that may wait to be taken in; a watch that is ahead by more is held up.
const BACKLOG: usize = 1024;

/// Objects asked for at once when all are listed.
const PAGE: u32 = 500;
/// CRDs can be a megabyte each, and those of other people are read too.
const DEFINITIONS_PAGE: u32 = 20;

/// The running watches.
pub(crate) struct Watches {
    client: Client,
    tasks: JoinSet<()>,
    running: BTreeMap<Kind, Running>,
    started: u64,
    events: mpsc::Sender<Event>,
}

#[derive(Debug)]
struct Running {
    watch: u64,
    resource: ApiResource,
    task: AbortHandle,
}

impl Watches {
    /// No watches yet, and where their events will arrive. Dropping it stops them all.
    pub(crate) fn new(client: Client) -> (Self, mpsc::Receiver<Event>) {
        let (events, receiver) = mpsc::channel(BACKLOG);
        let (tasks, running) = (JoinSet::new(), BTreeMap::new());
        (Self { client, tasks, running, started: 0, events }, receiver)
    }

    /// Watches a kind in all namespaces, in this version only; without effect if it already does.
    pub(crate) fn start(&mut self, resource: &ApiResource) {
        let kind = Kind::of(resource);
        if self.running.get(&kind).is_some_and(|running| running.resource == *resource) {
            return;
        }
        self.stop(&kind);
        self.started += 1;
        let watch = Watch {
            api: Api::all_with(self.client.clone(), resource),
            resource: resource.clone(),
            kind: kind.clone(),
            watch: self.started,
            events: self.events.clone(),
        };
        let task = self.tasks.spawn(watch.run());
        let running = Running { watch: self.started, resource: resource.clone(), task };
        self.running.insert(kind, running);
    }

    /// Stops watching a kind.
    pub(crate) fn stop(&mut self, kind: &Kind) {
        if let Some(running) = self.running.remove(kind) {
            running.task.abort();
        }
        while self.tasks.try_join_next().is_some() {}
    }

    /// Whether an event comes from a watch that still runs.
    pub(crate) fn is_current(&self, event: &Event) -> bool {
        self.running.get(&event.kind).is_some_and(|running| running.watch == event.watch)
    }
}

struct Watch {
    api: Api<Stored>,
    resource: ApiResource,
    kind: Kind,
    watch: u64,
    events: mpsc::Sender<Event>,
}

impl Watch {
    /// Follows the kind until nobody listens any more. Whatever goes wrong is tried again, less and
    /// less often.
    async fn run(self) {
        let is_definitions = self.resource == kinds::definitions();
        let page = if is_definitions { DEFINITIONS_PAGE } else { PAGE };
        let config = watcher::Config::default().page_size(page);
        let mut stream = pin!(watcher(self.api.clone(), config).default_backoff());
        let mut listed = Vec::new();
        let known = |stored: Stored| {
            let mut stored = stored.of_kind(&self.resource);
            if is_definitions {
                stored.object = stored.object.map(kinds::without_schemas);
            }
            stored
        };
        while let Some(event) = stream.next().await {
            let seen = match event {
                Ok(watcher::Event::Init) => {
                    listed.clear();
                    continue;
                }
                Ok(watcher::Event::InitApply(stored)) => {
                    listed.push(known(stored));
                    continue;
                }
                Ok(watcher::Event::InitDone) => Seen::All(std::mem::take(&mut listed)),
                Ok(watcher::Event::Apply(stored)) => Seen::Applied(known(stored)),
                Ok(watcher::Event::Delete(stored)) => Seen::Deleted(known(stored)),
                Err(error) => {
                    let Kind { group, kind } = &self.kind;
                    tracing::warn!(target: LOGGER, %group, %kind, %error, "watch failed, trying again");
                    continue;
                }
            };
            let event = Event { kind: self.kind.clone(), watch: self.watch, seen };
            if self.events.send(event).await.is_err() {
                return;
            }
        }
    }
}
