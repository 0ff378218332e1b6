//! The reports of all Pods on a policy, brought together in its status (ST-1, ST-3), and the state of
//! ModRules. Written by one process.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::StreamExt as _;
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams},
    runtime::watcher,
};
use modgate_engine::api::{constraints, modrule as api};
use modgate_value::{Object, Str, Value};
use tokio::{
    sync::{mpsc, watch},
    task::{AbortHandle, JoinSet},
    time::timeout,
};

use super::{
    BACKOFF, COALESCE, RESYNC,
    ledger::{Ledger, Unwanted},
    modrule, now, outcome,
    pod::pods,
    subject::{POD, Subject},
    write_all,
};
use crate::{
    FIELD_MANAGER, LOGGER,
    context::Context,
    crd_info::Fact,
    kinds::Kind,
    object::{Key, Stored},
    operations::Operation,
    reconcile::{self, Reconcile},
    retry::Retries,
    state::{Loaded, State},
    watches::{Change, watched},
};

/// How long the first gathering waits for this Pod's own reports, which saves a second write each.
const OWN_REPORTS: Duration = Duration::from_secs(30);

/// How often to look for reports that are left although their Pod is gone.
const SWEEP: Duration = Duration::from_secs(300);

/// Objects asked for at once.
const PAGE: u32 = 500;

/// Reports that may wait to be taken in.
const BACKLOG: usize = 64;

/// Gathers for as long as this process leads.
pub(crate) async fn run(context: Context, own: watch::Receiver<bool>) {
    let gathers = [Operation::Status, Operation::MutationStatus];
    if !gathers.iter().any(|operation| context.operations.has(*operation)) {
        return;
    }
    reconcile::run_as_leader(context.clone(), Gatherer::new(context, own)).await;
}

/// A policy's status; what is created again under the same name is another.
type Target = (Kind, Key, Str);

/// One Pod's report on one policy.
#[derive(Debug)]
struct Report {
    policy: (Kind, Key),
    pod: Str,
    /// The uid of the Pod, as far as the report belongs to one.
    owner: Str,
    status: Value,
}

struct Gatherer {
    context: Context,
    /// Whether this Pod has reported, and whether that was waited for.
    own: watch::Receiver<bool>,
    waited: bool,
    watches: JoinSet<()>,
    running: BTreeMap<Subject, AbortHandle>,
    sender: mpsc::Sender<(Subject, Change<Stored>)>,
    events: mpsc::Receiver<(Subject, Change<Stored>)>,
    /// Kinds of reports that were seen completely.
    listed: BTreeSet<Subject>,
    reports: BTreeMap<(Subject, Str), Report>,
    by_policy: BTreeMap<(Kind, Key), BTreeSet<(Subject, Str)>>,
    ledger: Ledger<Target>,
    /// The states of ModRules, and since when.
    since: BTreeMap<Target, (Value, Value)>,
    /// When the statuses the cluster has were last read.
    read: BTreeMap<Kind, Instant>,
    /// Kinds of which they could not be read.
    unlisted: Retries<Kind>,
    /// Kinds whose schemas, by their hashes, have no place for what we write.
    unkept: BTreeMap<Kind, Value>,
    sweep: Instant,
}

impl Reconcile for Gatherer {
    type Desired = Arc<State>;

    const COALESCE: Duration = COALESCE;

    fn desired(&mut self, state: &Arc<State>) -> Arc<State> {
        Arc::clone(state)
    }

    async fn apply(&mut self, state: Arc<State>) -> Option<Instant> {
        if !std::mem::replace(&mut self.waited, true) {
            let reported = self.own.wait_for(|reported| *reported);
            let _ = timeout(OWN_REPORTS, async { reported.await.is_ok() }).await;
        }
        self.follow(&state);
        self.read(&state, Instant::now()).await;
        let wanted = self.wanted(&state);
        self.write(&state, wanted).await;
        if self.sees_all() && self.sweep <= Instant::now() {
            if self.context.leads() {
                self.sweep().await;
            }
            self.sweep = Instant::now() + SWEEP;
        }
        self.next_try()
    }

    async fn changed(&mut self) {
        if let Some((subject, change)) = self.events.recv().await {
            self.take(subject, change);
        }
    }

    fn ended(&mut self) {
        *self = Self::new(self.context.clone(), self.own.clone());
    }
}

impl Gatherer {
    fn new(context: Context, own: watch::Receiver<bool>) -> Self {
        let (sender, events) = mpsc::channel(BACKLOG);
        let nothing = [("byPod", Value::from(vec![]))].into_iter().collect();
        Self {
            context,
            own,
            waited: false,
            watches: JoinSet::new(),
            running: BTreeMap::new(),
            sender,
            events,
            listed: BTreeSet::new(),
            reports: BTreeMap::new(),
            by_policy: BTreeMap::new(),
            ledger: Ledger::new(Unwanted::Forget, nothing),
            since: BTreeMap::new(),
            read: BTreeMap::new(),
            unlisted: Retries::new(BACKOFF),
            unkept: BTreeMap::new(),
            sweep: Instant::now() + COALESCE,
        }
    }

    /// Whether all reports there are have been seen; whose Pods are gone is not known before.
    fn sees_all(&self) -> bool {
        self.running.keys().all(|subject| self.listed.contains(subject))
    }

    /// When there is something to do although nothing was seen.
    fn next_try(&self) -> Option<Instant> {
        let sweep = self.sees_all().then_some(self.sweep);
        [self.ledger.next_try(), self.unlisted.next(), sweep].into_iter().flatten().min()
    }

    fn gathers(&self, subject: Subject) -> bool {
        self.context.operations.has(subject.gathered_by())
    }

    /// Watches the reports there can be.
    fn follow(&mut self, state: &State) {
        for subject in Subject::ALL {
            if !self.gathers(subject) {
                continue;
            }
            let is_served = state.facts.of(&subject.report_kind()).is_some();
            match (is_served, self.running.contains_key(&subject)) {
                (true, false) => {
                    let namespace = &self.context.identity.namespace;
                    let resource = subject.resource();
                    let client = self.context.client.clone();
                    let api = Api::namespaced_with(client, namespace, &resource);
                    let mut changes = watched(api, watcher::Config::default(), |stored| stored);
                    let sender = self.sender.clone();
                    let task = self.watches.spawn(async move {
                        while let Some(change) = changes.next().await
                            && sender.send((subject, change)).await.is_ok()
                        {
                        }
                    });
                    self.running.insert(subject, task);
                }
                (false, true) => {
                    if let Some(task) = self.running.remove(&subject) {
                        task.abort();
                    }
                    self.listed.remove(&subject);
                    self.retain(subject, |_| false);
                }
                _ => {}
            }
        }
        while self.watches.try_join_next().is_some() {}
    }

    fn take(&mut self, subject: Subject, change: Change<Stored>) {
        if !self.running.contains_key(&subject) {
            return;
        }
        match change {
            Change::All(all) => {
                let present: BTreeSet<Str> = all.iter().map(|stored| stored.key().name).collect();
                self.retain(subject, |name| present.contains(name));
                all.into_iter().for_each(|stored| self.insert(subject, stored));
                self.listed.insert(subject);
            }
            Change::Applied(stored) => self.insert(subject, stored),
            Change::Deleted(stored) => {
                let gone = stored.key().name;
                self.retain(subject, |name| *name != gone);
            }
            Change::Failed(_) => {}
        }
    }

    fn retain(&mut self, subject: Subject, keep: impl Fn(&Str) -> bool) {
        let by_policy = &mut self.by_policy;
        self.reports.retain(|id, report| {
            let stays = id.0 != subject || keep(&id.1);
            if !stays && let Some(ids) = by_policy.get_mut(&report.policy) {
                ids.remove(id);
                if ids.is_empty() {
                    by_policy.remove(&report.policy);
                }
            }
            stays
        });
    }

    fn insert(&mut self, subject: Subject, stored: Stored) {
        let name = stored.key().name;
        self.retain(subject, |known| *known != name);
        let Ok(object) = stored.object else { return };
        let Some(policy) = subject.policy(&object) else { return };
        let text = |value: Option<&Value>| Str::from(value.and_then(Value::as_str).unwrap_or(""));
        let owners = object.path(&["metadata", "ownerReferences"]);
        let report = Report {
            policy: policy.clone(),
            pod: text(object.path(&["metadata", "labels", POD])),
            owner: text(owners.and_then(|owners| owners.at(0)?.get("uid"))),
            status: object.get("status").cloned().unwrap_or_default(),
        };
        let id = (subject, name);
        self.by_policy.entry(policy).or_default().insert(id.clone());
        self.reports.insert(id, report);
    }

    /// Whether statuses of this kind are written here and now.
    fn writes(&self, state: &State, kind: &Kind) -> bool {
        let unkept = self.unkept.get(kind);
        let has_place =
            |fact: &Fact| fact.has_status && unkept.is_none_or(|schema| *schema != fact.schema);
        if !state.facts.of(kind).is_some_and(has_place) {
            return false;
        }
        match Subject::of(kind) {
            Some(subject) => self.gathers(subject) && self.listed.contains(&subject),
            None => is_modrule(kind) && self.context.operations.has(Operation::Status),
        }
    }

    /// Learns which statuses the cluster has, of each kind once in a while.
    async fn read(&mut self, state: &State, now: Instant) {
        self.read.retain(|kind, _| state.served.contains_key(kind));
        self.unlisted.retain(|kind, ()| state.policies.contains_key(kind));
        for (kind, policies) in &state.policies {
            let is_fresh = self.read.get(kind).is_some_and(|read| read.elapsed() < RESYNC);
            if policies.is_empty() || !self.writes(state, kind) {
                self.unlisted.succeeded(kind);
                continue;
            }
            if is_fresh || self.unlisted.pending(kind, &(), now).is_some() {
                continue;
            }
            match self.list(state, kind).await {
                Ok(()) => {
                    self.unlisted.succeeded(kind);
                    self.read.insert(kind.clone(), Instant::now());
                }
                Err(error) => {
                    let Kind { group, kind: name } = kind;
                    tracing::debug!(target: LOGGER, %group, kind = %name, %error, "statuses cannot be listed");
                    let reason = error.to_string();
                    self.unlisted.failed(kind.clone(), (), reason, Instant::now());
                }
            }
        }
    }

    async fn list(&mut self, state: &State, kind: &Kind) -> Result<(), kube::Error> {
        let Some(resource) = state.served.get(kind) else { return Ok(()) };
        let api: Api<Stored> = Api::all_with(self.context.client.clone(), resource);
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let listed = api.list(&params).await?;
            params.continue_token = listed.metadata.continue_.clone();
            for stored in listed {
                let key = stored.key();
                let Ok(object) = stored.object else { continue };
                let uid = object.path(&["metadata", "uid"]).and_then(Value::as_str);
                let target = (kind.clone(), key, Str::from(uid.unwrap_or_default()));
                if is_modrule(kind) {
                    let (status, since) = modrule::stored(&object);
                    self.since.extend(since.map(|since| (target.clone(), since)));
                    self.ledger.found(target, status);
                    continue;
                }
                let mut status = Object::default();
                let by_pod = object.path(&["status", "byPod"]).cloned();
                status.insert("byPod", by_pod.unwrap_or_else(|| Value::from(vec![])));
                if created(&object) {
                    status.insert("created", true.into());
                }
                self.ledger.found(target, status.into());
            }
            if params.continue_token.as_ref().is_none_or(String::is_empty) {
                return Ok(());
            }
        }
    }

    fn wanted(&self, state: &State) -> BTreeMap<Target, Value> {
        let mut wanted = BTreeMap::new();
        for (kind, policies) in &state.policies {
            if !self.writes(state, kind) || !self.read.contains_key(kind) {
                continue;
            }
            for (key, loaded) in policies.iter() {
                let target = (kind.clone(), key.clone(), Str::from(loaded.uid()));
                let status = match Subject::of(kind) {
                    Some(subject) => self.by_pod(state, subject, &target, loaded),
                    None => modrule::status(loaded),
                };
                wanted.insert(target, status);
            }
        }
        wanted
    }

    /// The entries about this very object, by Pod.
    fn by_pod(&self, state: &State, subject: Subject, target: &Target, loaded: &Loaded) -> Value {
        let (kind, key, uid) = target;
        let member = |status: &Value, name: &str| {
            Str::from(status.get(name).and_then(Value::as_str).unwrap_or_default())
        };
        let ids = self.by_policy.get(&(kind.clone(), key.clone()));
        let reports = ids.into_iter().flatten().filter_map(|id| self.reports.get(id));
        let mut entries: Vec<&Value> = reports
            .map(|report| &report.status)
            .filter(|status| member(status, subject.uid_member()) == *uid)
            .collect();
        entries.sort_by_key(|status| member(status, "id"));
        let mut status = Object::default();
        if subject == Subject::Template {
            let is_known = created_of(self.ledger.get(target));
            let is_good = |entry: &&Value| entry.get("errors").is_none();
            if is_known || entries.iter().any(is_good) || makes_kind(state, loaded) {
                status.insert("created", true.into());
            }
        }
        status.insert("byPod", entries.into_iter().cloned().collect());
        status.into()
    }

    async fn write(&mut self, state: &State, wanted: BTreeMap<Target, Value>) {
        if !self.context.leads() {
            return;
        }
        let due = self.ledger.due(&wanted, Instant::now());
        self.since.retain(|target, _| wanted.contains_key(target));
        let time = now();
        let mut writes = Vec::new();
        for (target, value) in due {
            let (Some(resource), Some(value)) = (state.served.get(&target.0), value) else {
                continue;
            };
            let timed = if is_modrule(&target.0) {
                let (timed, since) = modrule::timed(&value, self.since.get(&target), &time);
                self.since.extend(since.map(|since| (target.clone(), since)));
                timed
            } else {
                value.clone()
            };
            let client = self.context.client.clone();
            let api: Api<Stored> = match target.1.namespace.as_str() {
                "" => Api::all_with(client, resource),
                namespace => Api::namespaced_with(client, namespace, resource),
            };
            writes.push(async move {
                let params = PatchParams {
                    field_manager: Some(FIELD_MANAGER.to_owned()),
                    ..Default::default()
                };
                let patch: Value = [("status", timed)].into_iter().collect();
                let written = api.patch_status(&target.1.name, &params, &Patch::Merge(patch)).await;
                let written = match written {
                    // It was deleted meanwhile.
                    Err(kube::Error::Api(status)) if status.code == 404 => Ok(true),
                    written => written.map(|stored| keeps(&target.0, &stored)),
                };
                (target, value, written)
            });
        }
        let mut failed = None;
        for (target, value, written) in write_all(writes).await {
            match &written {
                Ok(true) => {}
                Ok(false) => self.note_unkept(state, &target.0),
                Err(error) => {
                    let (Kind { kind, .. }, Key { name, .. }, _) = &target;
                    let first = || (format!("{kind} {name}"), error.to_string(), 0);
                    failed.get_or_insert_with(first).2 += 1;
                }
            }
            self.ledger.record(target, Some(value), outcome(&written), Instant::now());
        }
        if let Some((policy, error, count)) = failed {
            tracing::warn!(target: LOGGER, %policy, %error, count, "statuses not written");
        }
    }

    /// Leaves a kind alone whose CRD has no place for what we write, until it has: KubeMod's own.
    fn note_unkept(&mut self, state: &State, kind: &Kind) {
        let schema = state.facts.of(kind).map(|fact| fact.schema.clone()).unwrap_or_default();
        if self.unkept.insert(kind.clone(), schema).is_none() {
            let Kind { group, kind } = kind;
            tracing::info!(
                target: LOGGER, %group, %kind,
                "the CRD keeps no status of ours; none is written until it is replaced by modgate's"
            );
        }
    }

    /// Removes the reports of Pods that are gone: where the owner of a report is not known, or
    /// the garbage collector does not run.
    async fn sweep(&mut self) {
        let namespace = &self.context.identity.namespace;
        let client = &self.context.client;
        let pods: Api<Stored> = Api::namespaced_with(client.clone(), namespace, &pods());
        let names: BTreeSet<Str> = self.reports.values().map(|report| report.pod.clone()).collect();
        let mut present = BTreeMap::new();
        for name in names {
            match pods.get_opt(&name).await {
                Ok(found) => {
                    let uid = found.and_then(|pod| {
                        let object = pod.object.ok()?;
                        Some(Str::from(object.path(&["metadata", "uid"])?.as_str()?))
                    });
                    present.insert(name, uid);
                }
                Err(error) => tracing::debug!(target: LOGGER, %name, %error, "Pod not found out"),
            }
        }
        let is_stale = |report: &Report| match present.get(&report.pod) {
            None => false,
            Some(None) => true,
            Some(Some(uid)) => !report.owner.is_empty() && report.owner != *uid,
        };
        let stale = self.reports.iter().filter(|(_, report)| is_stale(report));
        let deletions: Vec<_> = stale
            .map(|((subject, name), _)| {
                let resource = subject.resource();
                let api: Api<Stored> = Api::namespaced_with(client.clone(), namespace, &resource);
                let name = name.clone();
                async move { api.delete(&name, &DeleteParams::default()).await.is_ok() }
            })
            .collect();
        if !deletions.is_empty() {
            let deleted = write_all(deletions).await.into_iter().filter(|done| *done).count();
            tracing::info!(target: LOGGER, deleted, "statuses of Pods that are gone removed");
        }
    }
}

/// Whether the API server has kept the status that was written.
fn keeps(kind: &Kind, stored: &Stored) -> bool {
    let has_conditions =
        |object: &Value| object.path(&["status", "conditions"]).is_some_and(|it| !it.is_null());
    !is_modrule(kind) || stored.object.as_ref().is_ok_and(has_conditions)
}

fn is_modrule(kind: &Kind) -> bool {
    (kind.group.as_str(), kind.kind.as_str()) == (api::GROUP, api::KIND)
}

fn created(template: &Value) -> bool {
    template.get("status").is_some_and(created_of)
}

fn created_of(status: &Value) -> bool {
    status.get("created").and_then(Value::as_bool) == Some(true)
}

/// Whether the kind of a template's constraints is served.
fn makes_kind(state: &State, template: &Loaded) -> bool {
    let kind = template.object.path(&["spec", "crd", "spec", "names", "kind"]);
    kind.and_then(Value::as_str).is_some_and(|kind| {
        let kind = Kind { group: constraints::GROUP.to_owned(), kind: kind.to_owned() };
        state.served.contains_key(&kind)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::scripted;

    /// A kind that cannot be listed is waited for, not listed again and again.
    #[tokio::test]
    async fn nothing_is_done_before_all_reports_are_seen() {
        let client = scripted::client(|_, _, _| (403, "{}".to_owned()));
        let (context, _state) = scripted::context(client, State::empty());
        let mut gatherer = Gatherer::new(context, watch::channel(true).1);
        for subject in [Subject::Template, Subject::Mutator] {
            let watch = gatherer.watches.spawn(std::future::pending());
            gatherer.running.insert(subject, watch);
        }
        gatherer.take(Subject::Template, Change::All(Vec::new()));
        assert!(!gatherer.sees_all());
        assert_eq!(gatherer.next_try(), None);
        gatherer.take(Subject::Mutator, Change::All(Vec::new()));
        assert_eq!(gatherer.next_try(), Some(gatherer.sweep));
    }

    #[tokio::test]
    async fn statuses_that_cannot_be_listed_are_tried_again() {
        let client = scripted::client(|_, _, _| (500, "{}".to_owned()));
        let kind = Kind { group: api::GROUP.to_owned(), kind: api::KIND.to_owned() };
        let (state, rest) = with_a_rule(&kind);
        let (context, _state) = scripted::context(client, rest);
        let mut gatherer = Gatherer::new(context, watch::channel(true).1);
        gatherer.sweep = Instant::now() + SWEEP;
        let now = Instant::now();
        gatherer.read(&state, now).await;
        let next = gatherer.next_try().expect("a time");
        assert!(next < Instant::now() + Duration::from_secs(1));
        // Not at each turn.
        gatherer.read(&state, now).await;
        assert_eq!(gatherer.next_try(), Some(next));
    }

    /// One ModRule whose status can be written, and an empty state.
    fn with_a_rule(kind: &Kind) -> (State, State) {
        let definition = r#"{"metadata": {"name": "modrules.api.kubemod.io"},
            "spec": {"group": "api.kubemod.io", "names": {"kind": "ModRule", "plural": "modrules"},
                "versions": [{"name": "v1beta1", "served": true, "storage": true,
                    "subresources": {"status": {}}}]},
            "status": {"storedVersions": ["v1beta1"],
                "conditions": [{"type": "Established", "status": "True"}]}}"#;
        let mut facts = crate::crd_info::Facts::default();
        facts.with(&Value::from_json(definition.as_bytes()).expect("JSON"));
        let resource = facts.of(kind).expect("served").resource.clone();
        let key = Key { namespace: "n".into(), name: "r".into() };
        let loaded = Loaded { object: Value::default(), problems: Vec::new() };
        let rules = [(key, loaded.into())].into_iter().collect::<BTreeMap<_, _>>();
        let state = State {
            facts: facts.into(),
            served: BTreeMap::from([(kind.clone(), resource)]).into(),
            policies: BTreeMap::from([(kind.clone(), rules.into())]),
            ..State::empty()
        };
        (state, State::empty())
    }
}
