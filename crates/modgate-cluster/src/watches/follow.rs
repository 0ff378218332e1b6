//! One watch: finding its resource, listing, following, and starting over.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::{Stream, StreamExt as _};
use kube::{
    Api, Client,
    api::ApiResource,
    core::{GroupVersionKind as Gvk, Status},
    discovery::{Scope, pinned_kind, verbs},
    runtime::watcher::{self, DefaultBackoff, watcher},
};
use modgate_engine::{
    admissionpolicy::ParamScope, api::meta::GroupVersionKind, constraint::Fields,
};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep, timeout},
};

use super::{Change, Event, Seen, Target, watched::Listed};
use crate::{
    LOGGER,
    kinds::{self, Kind},
    object::{Item, Stored},
};

/// Objects asked for at once where lists come in pages.
const PAGE: u32 = 100;
/// CRDs can be a megabyte each, and those of other people are read too.
const DEFINITIONS_PAGE: u32 = 20;
/// How long a streamed list may send nothing before it is read in pages instead.
const STREAM_TIMEOUT: Duration = Duration::from_secs(30);
/// After so many failures in a row everything is listed anew.
const FAILURES: u32 = 3;
/// A list that is out of date sooner than this is not asked for again without a pause.
const LASTING: Duration = Duration::from_secs(10);

pub(super) struct Watch {
    pub(super) client: Client,
    /// To be found where unknown.
    pub(super) resource: Option<ApiResource>,
    pub(super) target: Target,
    /// The parts of objects that are kept.
    pub(super) fields: Arc<Fields>,
    pub(super) watch: u64,
    pub(super) events: mpsc::Sender<Event>,
    pub(super) definitions: watch::Receiver<()>,
    /// Whether lists are read as streams, which are as new as a watch begins. Pages are as new
    /// as can be.
    pub(super) streams: bool,
}

/// Why a watch came to its end.
enum End {
    /// The receiver is dropped.
    Dropped,
    /// The resource is not served any more.
    Gone,
}

/// The treatment of an error.
#[derive(Debug, PartialEq, Eq)]
enum Remedy {
    /// Wait, and go on.
    Wait,
    /// List anew at once: the watch fell too far behind.
    Relist,
    /// List in pages: the server does not stream lists.
    Page,
    /// Look for the resource.
    Find,
}

impl Watch {
    /// Follows the kind until the receiver is dropped. Failures are tried again, with a growing pause.
    pub(super) async fn run(mut self) {
        loop {
            let found = match &self.resource {
                Some(resource) => Some(resource.clone()),
                None => self.find().await,
            };
            let Some(resource) = found else { return };
            match self.follow(&resource).await {
                End::Dropped => return,
                End::Gone => {
                    let gone = match self.target {
                        Target::Params(_) => Seen::NotServed,
                        _ => Seen::All(Vec::new(), Arc::clone(&self.fields)),
                    };
                    if !self.send(gone).await {
                        return;
                    }
                }
            }
        }
    }

    /// The resource of a kind, as soon as it is served (ST-33); `None` if the receiver is dropped.
    async fn find(&mut self) -> Option<ApiResource> {
        let candidates = self.target.candidates();
        let mut backoff = DefaultBackoff::default();
        loop {
            self.definitions.borrow_and_update();
            let seen = match find_first(&self.client, &candidates).await {
                Ok((resource, scope)) => {
                    let is_param = matches!(self.target, Target::Params(_));
                    return match is_param && !self.send(Seen::Served(scope)).await {
                        true => None,
                        false => Some(resource),
                    };
                }
                Err(problem) => self.unserved(problem),
            };
            if let Some(seen) = seen
                && !self.send(seen).await
            {
                return None;
            }
            tokio::select! {
                () = sleep(backoff.next().unwrap_or(STREAM_TIMEOUT)) => {}
                changed = self.definitions.changed() => changed.ok()?,
            }
        }
    }

    /// The report of a kind that was not found.
    fn unserved(&self, problem: NotFound) -> Option<Seen> {
        let target = &self.target;
        tracing::debug!(target: LOGGER, kind = ?target, %problem, "kind cannot be watched yet");
        match (target, problem) {
            (Target::Kind(_), NotFound::Missing(_)) => {
                Some(Seen::All(Vec::new(), Arc::clone(&self.fields)))
            }
            // Whether there are policies is not known.
            (Target::Kind(_), NotFound::Failed(error)) => {
                tracing::warn!(target: LOGGER, kind = ?target, error, "discovery failed, trying again");
                None
            }
            (Target::Params(_), NotFound::Missing(_)) => Some(Seen::NotServed),
            (_, problem) => Some(Seen::Failed(problem.to_string())),
        }
    }

    async fn follow(&mut self, resource: &ApiResource) -> End {
        let api: Api<Stored> = Api::all_with(self.client.clone(), resource);
        // Starts over by itself when nothing has failed for a while.
        let mut backoff = DefaultBackoff::default();
        let mut failures = 0;
        loop {
            let streams = self.streams;
            let mut stream = pin!(watcher(api.clone(), self.config(resource)));
            let mut listed = Listed::default();
            let begun = Instant::now();
            loop {
                let Some(event) = next(&mut stream, streams && !listed.complete).await else {
                    tracing::debug!(target: LOGGER, kind = %resource.kind, "no list is streamed");
                    self.streams = false;
                    break;
                };
                let error = match event {
                    Ok(event) => {
                        // Others come before the first request, or before its end.
                        if !matches!(event, watcher::Event::Init | watcher::Event::InitApply(_)) {
                            failures = 0;
                        }
                        let change = listed.take(event, |stored| self.item(stored, resource));
                        let seen = match change {
                            Some(Change::All(items)) => Seen::All(items, Arc::clone(&self.fields)),
                            Some(Change::Applied(item)) => Seen::Applied(item),
                            Some(Change::Deleted(item)) => Seen::Deleted(item),
                            Some(Change::Failed(_)) | None => continue,
                        };
                        if !self.send(seen).await {
                            return End::Dropped;
                        }
                        continue;
                    }
                    Err(error) => error,
                };
                match remedy(&error, streams && !listed.complete) {
                    Remedy::Relist if failures == 0 => {
                        failures += 1;
                        tracing::debug!(target: LOGGER, kind = %resource.kind, %error, "listing anew");
                        if begun.elapsed() < LASTING {
                            sleep(backoff.next().unwrap_or(STREAM_TIMEOUT)).await;
                        }
                        break;
                    }
                    Remedy::Page => {
                        self.streams = false;
                        break;
                    }
                    Remedy::Find if self.resource.is_none() => return End::Gone,
                    _ => {}
                }
                failures += 1;
                let Kind { group, kind } = &Kind::of(resource);
                tracing::warn!(target: LOGGER, %group, %kind, %error, "watch failed, trying again");
                let is_lasting = failures >= FAILURES || !listed.complete;
                if is_lasting && !self.fail(&error).await {
                    return End::Dropped;
                }
                sleep(backoff.next().unwrap_or(STREAM_TIMEOUT)).await;
                if failures >= FAILURES {
                    break;
                }
            }
        }
    }

    fn config(&self, resource: &ApiResource) -> watcher::Config {
        let is_definitions = *resource == kinds::definitions();
        let page = if is_definitions { DEFINITIONS_PAGE } else { PAGE };
        let config = watcher::Config::default().page_size(page);
        if self.streams { config.streaming_lists() } else { config }
    }

    /// The kept part of an object; the rest is dropped as it arrives, not when all have arrived.
    fn item(&self, stored: Stored, resource: &ApiResource) -> Item {
        let mut item = Item::from(stored.of_kind(resource));
        match &self.target {
            Target::Types(groups) => {
                item.object = item.object.map(|definition| kinds::of_groups(definition, groups));
            }
            _ if *resource == kinds::definitions() => {
                item.object = item.object.map(kinds::without_schemas);
            }
            _ => {}
        }
        item.object = item.object.map(|object| self.fields.keep(object));
        item
    }

    async fn fail(&self, error: &watcher::Error) -> bool {
        match &self.target {
            Target::Kind(_) => true,
            Target::Synced(_) | Target::Params(_) | Target::Types(_) => {
                self.send(Seen::Failed(error.to_string())).await
            }
        }
    }

    /// Whether there still is a receiver.
    async fn send(&self, seen: Seen) -> bool {
        let event = Event { target: self.target.clone(), watch: self.watch, seen };
        self.events.send(event).await.is_ok()
    }
}

/// The next event; `None` if a streamed list does not come. A watcher's stream has no end.
async fn next<S>(stream: &mut S, is_streamed_list: bool) -> Option<S::Item>
where
    S: Stream + Unpin,
{
    if !is_streamed_list {
        return stream.next().await;
    }
    timeout(STREAM_TIMEOUT, stream.next()).await.ok().flatten()
}

/// Why a kind cannot be watched.
#[derive(Debug, thiserror::Error)]
enum NotFound {
    /// The API server does not serve it.
    #[error("{0}")]
    Missing(String),
    /// It cannot be listed, or the API server does not answer.
    #[error("{0}")]
    Failed(String),
}

/// The resource of the first kind that is served.
async fn find_first(
    client: &Client,
    kinds: &[GroupVersionKind],
) -> Result<(ApiResource, ParamScope), NotFound> {
    let mut missing = NotFound::Missing("no kind is looked for".to_owned());
    for (position, kind) in kinds.iter().enumerate() {
        match find(client, kind).await {
            Err(NotFound::Missing(problem)) if position == 0 => {
                missing = NotFound::Missing(problem)
            }
            Err(NotFound::Missing(_)) => {}
            found => return found,
        }
    }
    Err(missing)
}

async fn find(
    client: &Client,
    kind: &GroupVersionKind,
) -> Result<(ApiResource, ParamScope), NotFound> {
    let GroupVersionKind { group, version, kind } = kind;
    let wanted = Gvk::gvk(group, version, kind);
    let missing = || {
        let separator = if group.is_empty() { "" } else { "/" };
        format!("no matches for kind \"{kind}\" in version \"{group}{separator}{version}\"")
    };
    // These would ask for something else.
    if version.is_empty() || kind.is_empty() || [group, version].iter().any(|it| it.contains('/')) {
        return Err(NotFound::Missing(missing()));
    }
    match pinned_kind(client, &wanted).await {
        Ok((resource, capabilities)) => {
            let can = |verb| capabilities.supports_operation(verb);
            let scope = match capabilities.scope {
                Scope::Cluster => ParamScope::Cluster,
                Scope::Namespaced => ParamScope::Namespaced,
            };
            if can(verbs::LIST) && can(verbs::WATCH) {
                Ok((resource, scope))
            } else {
                let problem = "its objects cannot be listed and watched";
                Err(NotFound::Failed(format!("{}: {problem}", resource.plural)))
            }
        }
        Err(kube::Error::Discovery(_)) => Err(NotFound::Missing(missing())),
        Err(kube::Error::Api(status)) if status.code == 404 => Err(NotFound::Missing(missing())),
        Err(error) => Err(NotFound::Failed(error.to_string())),
    }
}

fn remedy(error: &watcher::Error, is_streamed_list: bool) -> Remedy {
    let status = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status)) => status,
        watcher::Error::WatchError(status) => status,
        _ => return Remedy::Wait,
    };
    let starts = !matches!(error, watcher::Error::WatchError(_));
    let Status { code, .. } = **status;
    match code {
        410 => Remedy::Relist,
        // What the API server says where `sendInitialEvents` is unheard of, or switched off.
        400 | 422 if is_streamed_list => Remedy::Page,
        404 if starts => Remedy::Find,
        _ => Remedy::Wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16) -> Box<Status> {
        Box::new(Status { code, ..Status::default() })
    }

    #[test]
    fn remedies() {
        use watcher::Error::{InitialListFailed, NoResourceVersion, WatchError, WatchStartFailed};
        let start = |code| WatchStartFailed(kube::Error::Api(status(code)));
        let list = |code| InitialListFailed(kube::Error::Api(status(code)));
        for (error, streams, expected) in [
            (WatchError(status(410)), false, Remedy::Relist),
            (start(410), false, Remedy::Relist),
            (list(410), false, Remedy::Relist),
            (start(422), true, Remedy::Page),
            (start(400), true, Remedy::Page),
            (start(422), false, Remedy::Wait),
            (start(404), true, Remedy::Find),
            (list(404), false, Remedy::Find),
            (WatchError(status(404)), false, Remedy::Wait),
            (WatchError(status(500)), false, Remedy::Wait),
            (start(403), true, Remedy::Wait),
            (NoResourceVersion, true, Remedy::Wait),
        ] {
            assert_eq!(remedy(&error, streams), expected, "{error} {streams}");
        }
    }
}
