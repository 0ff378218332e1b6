//! Watches, one per kind.

mod follow;
#[cfg(test)]
mod tests;
mod watched;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kube::{Client, api::ApiResource};
use modgate_engine::{
    admissionpolicy::ParamScope,
    api::{
        admissionregistration::ParamKind,
        meta::{GroupVersionKind, split_api_version},
    },
    constraint::Fields,
};
use modgate_value::Str;
use tokio::{
    sync::{mpsc, watch},
    task::{AbortHandle, JoinSet},
};

pub(super) use self::watched::{Change, watched, with_backoff};

use self::follow::Watch;
use super::{
    kinds::{self, Kind},
    object::Item,
};

/// The object of a watch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    /// Policies of a kind, or what all policies may refer to.
    Kind(Kind),
    /// The objects under `data.inventory`.
    Synced(GroupVersionKind),
    /// Parameters of bindings of the cluster's own policies.
    Params(ParamKind),
    /// The CustomResourceDefinitions of these groups, with their schemas; `*` for all groups.
    Types(Arc<BTreeSet<Str>>),
}

/// An event of a watch.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) target: Target,
    /// Which watch it was; what a stopped one still had to say is out of date.
    watch: u64,
    pub(crate) seen: Seen,
}

#[derive(Debug)]
pub(crate) enum Seen {
    /// All objects there are; what is not among them is gone.
    All(Vec<Item>, Arc<Fields>),
    /// An object is new or has changed.
    Applied(Item),
    /// An object is gone.
    Deleted(Item),
    /// Objects cannot be seen, for now; what was seen before stays so. Not reported for policies.
    Failed(String),
    /// The API server serves the kind. Reported for parameters only.
    Served(ParamScope),
    /// The API server does not serve the kind. Reported for parameters only.
    NotServed,
}

/// Objects that may wait to be taken in; a watch that is ahead by more is held up.
const BACKLOG: usize = 1024;

/// The running watches.
pub(crate) struct Watches {
    client: Client,
    tasks: JoinSet<()>,
    running: BTreeMap<Target, Running>,
    started: u64,
    events: mpsc::Sender<Event>,
    /// Changes with every CRD: a kind that was not served may be served now.
    definitions: watch::Sender<()>,
}

impl Target {
    /// The kinds that a watch looks for where it is not given a resource, the best one first.
    fn candidates(&self) -> Vec<GroupVersionKind> {
        match self {
            Self::Kind(kind) => kinds::versions_of(kind).collect(),
            Self::Synced(kind) => vec![kind.clone()],
            Self::Types(_) => vec![kinds::gvk(&kinds::definitions())],
            Self::Params(kind) => {
                let (group, version) = split_api_version(&kind.api_version);
                let (group, version) = (group.into(), version.into());
                vec![GroupVersionKind { group, version, kind: kind.kind.clone() }]
            }
        }
    }
}

#[derive(Debug)]
struct Running {
    resource: Option<ApiResource>,
    task: Task,
    /// Takes over when it has seen everything.
    next: Option<Task>,
}

#[derive(Debug)]
struct Task {
    watch: u64,
    task: AbortHandle,
}

impl Watches {
    /// No watches yet, and where their events will arrive. Dropping it stops them all.
    pub(crate) fn new(client: Client) -> (Self, mpsc::Receiver<Event>) {
        let (events, receiver) = mpsc::channel(BACKLOG);
        let watches = Self {
            client,
            tasks: JoinSet::new(),
            running: BTreeMap::new(),
            started: 0,
            events,
            definitions: watch::channel(()).0,
        };
        (watches, receiver)
    }

    /// Watches a kind in all namespaces, in this version only; without effect if it already does.
    pub(crate) fn start(&mut self, resource: &ApiResource) {
        let target = Target::Kind(Kind::of(resource));
        let resource = Some(resource.clone());
        if self.running.get(&target).is_some_and(|running| running.resource == resource) {
            return;
        }
        self.stop(&target);
        let all = Arc::new(Fields::all());
        let task = self.spawn(&target, resource.clone(), &all, false);
        self.running.insert(target, Running { resource, task, next: None });
    }

    /// Watches a kind in the best version that is served, as soon as one is. Without effect if it is watched.
    pub(crate) fn start_served(&mut self, kind: &Kind) {
        self.start_unknown(Target::Kind(kind.clone()), &Arc::new(Fields::all()));
    }

    /// Watches the objects that bindings pass, as soon as their kind is served.
    pub(crate) fn start_params(&mut self, kind: &ParamKind) {
        self.start_unknown(Target::Params(kind.clone()), &Arc::new(Fields::all()));
    }

    /// Watches the definitions of the custom resources of some groups.
    pub(crate) fn start_types(&mut self, groups: &Arc<BTreeSet<Str>>) {
        self.start_unknown(Target::Types(Arc::clone(groups)), &Arc::new(Fields::all()));
    }

    /// Watches a kind of objects for policies to see, as soon as it is served. Of each object these
    /// fields are kept.
    pub(crate) fn start_synced(&mut self, kind: &GroupVersionKind, fields: &Arc<Fields>) {
        self.start_unknown(Target::Synced(kind.clone()), fields);
    }

    fn start_unknown(&mut self, target: Target, fields: &Arc<Fields>) {
        if self.running.contains_key(&target) {
            return;
        }
        let task = self.spawn(&target, None, fields, false);
        self.running.insert(target, Running { resource: None, task, next: None });
    }

    /// Lists a synced kind anew. Until everything was seen the watch there is goes on.
    pub(crate) fn refill(&mut self, kind: &GroupVersionKind, fields: &Arc<Fields>) {
        let target = Target::Synced(kind.clone());
        if !self.running.contains_key(&target) {
            return;
        }
        let next = self.spawn(&target, None, fields, true);
        if let Some(running) = self.running.get_mut(&target)
            && let Some(before) = running.next.replace(next)
        {
            before.task.abort();
        }
    }

    fn spawn(
        &mut self,
        target: &Target,
        resource: Option<ApiResource>,
        fields: &Arc<Fields>,
        again: bool,
    ) -> Task {
        while self.tasks.try_join_next().is_some() {}
        self.started += 1;
        let watch = Watch {
            client: self.client.clone(),
            resource,
            target: target.clone(),
            fields: Arc::clone(fields),
            watch: self.started,
            events: self.events.clone(),
            definitions: self.definitions.subscribe(),
            // What replaces objects must not be older than they are.
            streams: !again,
        };
        Task { watch: self.started, task: self.tasks.spawn(watch.run()) }
    }

    /// Stops watching a kind.
    pub(crate) fn stop(&mut self, target: &Target) {
        if let Some(running) = self.running.remove(target) {
            running.task.task.abort();
            running.next.inspect(|next| next.task.abort());
        }
    }

    /// Stops watching what is not wanted.
    pub(crate) fn retain(&mut self, is_wanted: impl Fn(&Target) -> bool) {
        let gone: Vec<Target> =
            self.running.keys().filter(|target| !is_wanted(target)).cloned().collect();
        gone.iter().for_each(|target| self.stop(target));
    }

    /// Whether an event is of a watch that counts. The watch of a [`refill`](Self::refill) does from
    /// when it has seen everything.
    pub(crate) fn admits(&mut self, event: &Event) -> bool {
        let Some(running) = self.running.get_mut(&event.target) else { return false };
        if running.task.watch == event.watch {
            return true;
        }
        let has_all = matches!(event.seen, Seen::All(..));
        match running.next.take() {
            Some(next) if next.watch == event.watch && has_all => {
                running.task.task.abort();
                running.task = next;
                true
            }
            next => {
                running.next = next;
                false
            }
        }
    }

    /// Looks again for kinds that were not served.
    pub(crate) fn definitions_changed(&self) {
        self.definitions.send_replace(());
    }

    /// How many kinds there is a reason to watch.
    pub(crate) fn len(&self) -> usize {
        self.running.len()
    }
}
