//! Policies from a cluster, kept current by watching it.
//!
//! [`Watches`] follow one kind each and send what they see to one [`Ingest`], which makes the next
//! [`World`](crate::World) of it. Which kinds there are is itself watched: a kind is followed as soon
//! as the API server serves its CRD, whether that was there before, comes from another
//! installation or was made by [`definitions`] for the constraints of a template.
//!
//! # Guarantees
//!
//! - No world is published before every policy present at start was taken in; until then the
//!   process is not ready, however long it takes.
//! - A policy that does not load is reported and stops nothing.
//! - A watch that fails is tried again for ever, with what was last seen in force meanwhile.
//! - The inventory of a kind is never emptied to be filled again: what is there stays until all of
//!   what replaces it has been seen.
//!
//! - Policies that look at fields of synced objects which were not kept are in force once these are
//!   there, or after [`HOLD`].

mod announce;
mod audit;
mod broken;
mod certificates;
mod connect;
mod context;
mod counted;
mod counts;
mod definitions;
pub(crate) mod events;
mod export;
mod facts;
mod ingest;
mod kinds;
mod known;
mod lease;
mod listing;
mod live;
mod object;
pub(crate) mod reports;
mod state;
mod status;
mod storage;
mod sync;
mod truce;
mod unloaded;
mod vap;
mod watches;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use kube::Client;
use modgate_engine::{EngineConfig, PolicyId};
use modgate_value::{Str, diag::Diagnostic};
use tokio::{
    runtime::Handle,
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, timeout_at},
};

pub use self::vap::VapConfig;
use self::{
    audit::Auditing,
    context::Context,
    counts::SyncedCounts,
    definitions::Definitions,
    events::{EventQueue, Events},
    ingest::{Ingest, Pending},
    kinds::{Definition, Kind},
    known::KnownKinds,
    lease::{Elector, Leadership},
    live::Live,
    object::Item,
    reports::Reports,
    state::State,
    watches::{Event, Seen, Target, Watches},
};
pub use self::{
    audit::{AuditConfig, PolicyReportConfig, PolicyReportFormat},
    certificates::{ClusterCertificates, RotationTimes},
    connect::{ClusterConfig, ClusterError},
    lease::LeaseTimes,
};
pub(crate) use self::{
    certificates::Rotation, connect::connect, context::Identity, vap::Settings as VapSettings,
};
use crate::{
    export::Exporter,
    operations::{Operation, Operations},
    policies::{self, Current, Objects},
    telemetry::metrics::Metrics,
    tls::Certificates,
    webhook::App,
};

/// Logger of everything between us and the API server.
pub(crate) const LOGGER: &str = "cluster";

/// What is to be done in a cluster, and as whom.
pub(crate) struct Settings {
    pub(crate) identity: Identity,
    pub(crate) operations: Operations,
    pub(crate) engine: EngineConfig,
    /// Whether the process is not ready before every policy that was there at start loads, or is
    /// gone (RD-2).
    pub(crate) waits_for_broken_policies: bool,
    pub(crate) vap: VapSettings,
    pub(crate) audit: AuditConfig,
    /// How long a request waits for an object the cluster is asked for.
    pub(crate) patience: Duration,
}

/// What controllers share with the webhooks of this process.
pub(crate) struct Shared {
    /// Where the world is published.
    pub(crate) current: Arc<Current>,
    pub(crate) metrics: Arc<Metrics>,
    /// Told of everything that is wrong with a policy.
    pub(crate) report: Arc<dyn Fn(&Diagnostic) + Send + Sync>,
    pub(crate) events: Events,
    /// The Kubernetes Events that wait to be written.
    pub(crate) to_tell: EventQueue,
    pub(crate) exporter: Option<Arc<Exporter>>,
}

/// Follows a cluster and publishes its policies.
pub(crate) struct Controllers {
    context: Context,
    watches: Watches,
    events: mpsc::Receiver<Event>,
    ingest: Ingest,
    known: KnownKinds,
    wanted: watch::Sender<Definitions>,
    state: watch::Sender<Option<Arc<State>>>,
    current: Arc<Current>,
    metrics: Arc<Metrics>,
    report: Arc<dyn Fn(&Diagnostic) + Send + Sync>,
    /// Until they are written; none after the start.
    to_tell: Option<EventQueue>,
    exporter: Option<Arc<Exporter>>,
    vap: VapSettings,
    audit: AuditConfig,
    counts: SyncedCounts,
    /// Until when policies wait for fields of synced objects.
    held_until: Option<Instant>,
    waits_for_broken_policies: bool,
}

/// Events taken in together.
const BATCH: usize = 256;

/// How often it is said what the process waits for at start (RD-6).
const PATIENCE: Duration = Duration::from_secs(10);

/// How long the inventory stays as it is at least: a cluster in which a thousand objects change each
/// second is given twenty worlds a second.
const LULL: Duration = Duration::from_millis(50);

/// How long policies wait at most for fields of synced objects that are listed again for them.
const HOLD: Duration = Duration::from_secs(5);

impl Controllers {
    /// Nothing is watched yet.
    pub(crate) fn new(client: Client, settings: Settings, shared: Shared) -> Self {
        let Settings {
            identity,
            operations,
            engine,
            waits_for_broken_policies,
            vap,
            audit,
            patience,
        } = settings;
        let Shared { current, metrics, report, events: told, to_tell, exporter } = shared;
        let (watches, events) = Watches::new(client.clone());
        let live = Live::new(client.clone(), Handle::current(), patience);
        let objects = Objects::of_cluster(Arc::new(live));
        // The namespace whose Config counts.
        let mut ingest = Ingest::new(engine, identity.namespace.clone(), objects);
        if audit.from_cache && operations.has(Operation::Audit) {
            // What no policy reads is audited, too.
            ingest.keep_all_fields();
        }
        let state = watch::channel(None).0;
        let context = Context {
            client,
            identity,
            operations,
            leadership: Leadership::new(),
            state: state.subscribe(),
            reports: Reports::default(),
            events: told,
        };
        Self {
            context,
            watches,
            events,
            ingest,
            known: KnownKinds::default(),
            wanted: watch::channel(Definitions::default()).0,
            state,
            current,
            metrics,
            report,
            to_tell: Some(to_tell),
            exporter,
            vap,
            audit,
            counts: SyncedCounts::default(),
            held_until: None,
            waits_for_broken_policies,
        }
    }

    /// What is said of policies in their statuses beside how they load.
    pub(crate) fn reports(&self) -> Reports {
        self.context.reports.clone()
    }

    /// Takes part in the election of the one process that writes for all.
    pub(crate) fn elector(&self, times: LeaseTimes) -> Elector {
        let Context { client, identity, operations, leadership, .. } = &self.context;
        Elector::new(client.clone(), identity, operations, times, leadership.clone())
    }

    /// Keeps the certificate of the webhooks.
    pub(crate) fn rotation(
        &self,
        config: &ClusterCertificates,
        certificates: Arc<Certificates>,
        app: Arc<App>,
    ) -> Rotation {
        Rotation::new(&self.context, config, certificates, app)
    }

    /// Follows the cluster; ends only if a part of it fails.
    pub(crate) async fn run(mut self) {
        let mut controllers = self.start_controllers();
        if let Some(queue) = self.to_tell.take() {
            let metrics = self.metrics.events().clone();
            controllers
                .spawn(events::Writer::new(self.context.client.clone(), queue, metrics).run());
        }
        for resource in [kinds::definitions(), kinds::namespaces()] {
            self.watches.start(&resource);
        }
        let mut events = Vec::new();
        let mut earliest = Instant::now();
        let mut due = None;
        let mut note = Instant::now() + PATIENCE;
        loop {
            let received = self.events.recv_many(&mut events, BATCH);
            let complete = self.known.was_complete();
            let received = async {
                match due.or((!complete).then_some(note)) {
                    Some(due) => timeout_at(due, received).await.ok(),
                    None => Some(received.await),
                }
            };
            let received = tokio::select! {
                received = received => received,
                Some(Err(error)) = controllers.join_next() => {
                    tracing::error!(target: LOGGER, %error, "a controller failed");
                    break;
                }
            };
            if !complete && Instant::now() >= note {
                note = Instant::now() + PATIENCE;
                let missing = self.known.missing(self.ingest.sync()).join(", ");
                tracing::info!(target: LOGGER, %missing, "not ready, still to be seen");
            }
            if received == Some(0) {
                break;
            }
            let findings: Vec<_> = events.drain(..).flat_map(|event| self.take(event)).collect();
            findings.iter().for_each(|finding| (self.report)(finding));
            if !self.known.has_policies() {
                continue;
            }
            due = None;
            let now = Instant::now();
            if self.ingest.pending() == Pending::Inventory && now < earliest {
                self.watch_what_is_wanted();
                due = Some(earliest);
                continue;
            }
            earliest = now + LULL;
            let Some(next) = self.next_world().await else { break };
            self = next;
            due = self.release_held(due);
        }
        drop(controllers);
    }

    /// Everything that writes to the cluster; dropping the set stops it.
    fn start_controllers(&self) -> JoinSet<()> {
        let context = self.context.clone();
        let mut controllers = JoinSet::new();
        controllers.spawn(unloaded::run(context.clone()));
        controllers.spawn(announce::run(context.clone()));
        if let Some(exporter) = self.exporter.clone() {
            controllers.spawn(export::run(context.clone(), exporter));
        }
        controllers.spawn(status::run(context.clone()));
        if context.operations.has(Operation::Status) {
            controllers.spawn(storage::migrate(context.clone()));
        }
        if context.operations.has(Operation::Audit) {
            let auditing = Auditing {
                config: self.audit.clone(),
                metrics: self.metrics.audit().clone(),
                events: context.events.clone(),
                exporter: self.exporter.clone(),
                current: Arc::clone(&self.current),
            };
            controllers.spawn(audit::run(context.clone(), auditing));
        }
        if context.operations.has(Operation::Generate) {
            let metrics = self.metrics.admission_policies().clone();
            controllers.spawn(vap::run(context.clone(), self.vap.clone(), metrics));
            controllers.spawn(definitions::write(context, self.wanted.subscribe()));
        }
        controllers
    }

    fn take(&mut self, event: Event) -> Vec<Diagnostic> {
        if !self.watches.admits(&event) {
            return Vec::new();
        }
        let Event { target, seen, .. } = event;
        let is_first = matches!(seen, Seen::All(..)) && self.known.listed.insert(target.clone());
        if is_first {
            tracing::debug!(target: LOGGER, kind = ?target, "all objects seen");
        }
        if target == Target::Kind(Kind::of(&kinds::definitions())) {
            self.take_definitions(seen);
            return Vec::new();
        }
        self.ingest.take(&target, seen)
    }

    fn take_definitions(&mut self, seen: Seen) {
        match seen {
            Seen::All(all, _) => {
                let present: BTreeSet<Str> = all.iter().map(|item| item.key.name.clone()).collect();
                let gone: Vec<String> = self
                    .known
                    .definitions
                    .keys()
                    .filter(|name| !present.contains(name.as_str()))
                    .cloned()
                    .collect();
                gone.iter().for_each(|name| self.without_definition(name));
                let is_present = |name: &str| present.contains(name);
                self.known.facts_changed |= self.known.facts.retain(is_present);
                all.into_iter().for_each(|item| self.with_definition(item));
            }
            Seen::Applied(item) => self.with_definition(item),
            Seen::Deleted(item) => self.without_definition(&item.key.name),
            Seen::Failed(_) => {}
        }
        self.watches.definitions_changed();
    }

    fn with_definition(&mut self, item: Item) {
        let definition = match &item.object {
            Ok(object) => {
                self.known.facts_changed |= self.known.facts.with(object);
                self.wanted.send_if_modified(|wanted| wanted.saw(&item.key.name, object));
                Definition::of(object)
            }
            // None of ours is nested that deeply.
            Err(_) => Definition::Foreign,
        };
        let definition = match definition {
            Definition::Served(resource) if !self.context.operations.load(&resource.group) => {
                Definition::Foreign
            }
            definition => definition,
        };
        if definition == Definition::Foreign {
            return;
        }
        if let Definition::Served(resource) = &definition {
            self.watches.start(resource);
        }
        self.known.definitions.insert(item.key.name.to_string(), definition);
    }

    /// Objects without a CRD do not exist.
    fn without_definition(&mut self, name: &str) {
        if let Some(Definition::Served(resource)) = self.known.definitions.remove(name) {
            let kind = Kind::of(&resource);
            let target = Target::Kind(kind.clone());
            self.watches.stop(&target);
            self.known.listed.remove(&target);
            self.ingest.forget(&kind);
        }
        self.known.facts_changed |= self.known.facts.without(name);
        self.wanted.send_if_modified(|wanted| wanted.gone(name));
    }

    /// Starts and stops the watches of what policies refer to.
    fn watch_what_is_wanted(&mut self) {
        let nodes = kinds::nodes();
        let kind = Kind::of(&nodes);
        if self.ingest.wants_nodes() {
            self.watches.start(&nodes);
        } else if self.known.listed.remove(&Target::Kind(kind.clone())) {
            self.watches.stop(&Target::Kind(kind.clone()));
            self.ingest.forget(&kind);
        }
        let refills = self.ingest.take_refills();
        let sync = self.ingest.sync();
        self.watches.retain_synced(|kind| sync.wants(kind));
        // These are watched in any case.
        let shared = [kinds::namespaces(), nodes].map(|resource| kinds::gvk(&resource));
        for (kind, synced) in sync.kinds().iter().filter(|(kind, _)| !shared.contains(*kind)) {
            self.watches.start_synced(kind, synced.fields());
            if refills.contains(kind) {
                self.watches.refill(kind, synced.fields());
            }
        }
        self.known.listed.retain(|target| match target {
            Target::Synced(kind) => self.ingest.sync().wants(kind),
            Target::Kind(_) => true,
        });
        self.metrics.watches().intended(self.watches.len());
        self.metrics.watches().watched(self.known.listed.len());
    }

    /// Puts policies in force that have waited for fields of synced objects long enough; returns when
    /// to look again.
    fn release_held(&mut self, due: Option<Instant>) -> Option<Instant> {
        if !self.ingest.is_held() {
            self.held_until = None;
            return due;
        }
        let until = *self.held_until.get_or_insert_with(|| Instant::now() + HOLD);
        if Instant::now() < until {
            return Some(due.map_or(until, |due| due.min(until)));
        }
        tracing::warn!(
            target: LOGGER,
            "synced objects cannot be listed: policies that look at more of them than before are in \
             force, and see what was kept"
        );
        self.ingest.release();
        Some(Instant::now())
    }

    /// Compiles what was taken in, off the threads that answer requests, and publishes it. `None`
    /// if that went wrong, which it does only when the process ends.
    async fn next_world(mut self) -> Option<Self> {
        let pending = self.ingest.pending();
        let inventory_changed = self.ingest.sync().has_changed();
        let started = Instant::now();
        let applied = tokio::task::spawn_blocking(move || {
            let findings = self.ingest.apply();
            (self, findings)
        });
        let findings;
        (self, findings) = match applied.await {
            Ok(applied) => applied,
            Err(error) => {
                tracing::error!(target: LOGGER, %error, "the cluster is no longer followed");
                return None;
            }
        };
        self.watch_what_is_wanted();
        let is_complete = self.known.is_complete(self.ingest.sync());
        if !is_complete || self.ingest.is_held() {
            findings.iter().flatten().for_each(|finding| (self.report)(finding));
            if is_complete && self.current.load().is_some() {
                // What is synced, under the policies there were.
                self.current.store(Arc::clone(self.ingest.world()));
            }
            return Some(self);
        }
        let is_first = self.current.load().is_none();
        let facts_changed = std::mem::take(&mut self.known.facts_changed);
        if findings.is_none() && !is_first && !facts_changed {
            return Some(self);
        }
        let is_new = findings.is_some() || is_first;
        let findings = findings.unwrap_or_default();
        findings.iter().for_each(|finding| (self.report)(finding));
        self.metrics.compiled(&self.ingest.take_compiled());
        let world = self.ingest.world();
        if self.waits_for_broken_policies {
            let reason = not_ready(self.ingest.broken());
            // What comes later does not count (RD-3).
            self.waits_for_broken_policies = reason.is_some();
            self.current.hold(reason);
        }
        self.current.store(Arc::clone(world));
        if inventory_changed || is_new {
            let (sync, metrics) = (self.ingest.sync(), self.metrics.sync());
            self.counts.report(sync, &world.inventory, started.elapsed(), metrics);
        }
        let state = Arc::new(State {
            world: Arc::clone(world),
            policies: self.ingest.policies().clone(),
            served: Arc::new(self.known.served()),
            facts: Arc::new(self.known.facts.clone()),
            synced: Arc::clone(self.ingest.synced()),
        });
        if pending == Pending::Inventory && !is_first && !facts_changed {
            // Controllers find the newest inventory, and are not woken by each change of it.
            self.state.send_if_modified(|known| {
                *known = Some(state);
                false
            });
            return Some(self);
        }
        if is_new {
            let broken = self.ingest.broken();
            let (snapshot, count) = (&world.snapshot, broken.len());
            policies::announce_snapshot(snapshot, broken, count, &self.metrics, &findings);
        }
        self.wanted.send_if_modified(|wanted| wanted.want(&state));
        self.state.send_replace(Some(state));
        Some(self)
    }
}

/// Why policies that do not load keep a process from being ready that is told to wait for them.
fn not_ready(broken: &BTreeSet<PolicyId>) -> Option<String> {
    const NAMED: usize = 5;
    let named: Vec<_> = broken.iter().take(NAMED).map(ToString::to_string).collect();
    let more = broken.len() - named.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let text = || format!("policies do not load: {}{more}", named.join(", "));
    (!broken.is_empty()).then(text)
}

impl std::fmt::Debug for Controllers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controllers").field("known", &self.known).finish_non_exhaustive()
    }
}
