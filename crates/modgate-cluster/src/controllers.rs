//! The controllers of a process, and the loop that publishes the policies of a cluster.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use kube::Client;
use modgate_engine::{EngineConfig, PolicyId};
use modgate_export::Exporter;
use modgate_policies::{Objects, PolicyHandle};
use modgate_telemetry::metrics::Metrics;
use modgate_value::{Str, diag::Diagnostic};
use tokio::{
    runtime::Handle,
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, timeout_at},
};

use crate::{
    LOGGER,
    audit::{self, AuditConfig, Auditing},
    certificates::{ClusterCertificates, Rotation, ServingCertificate},
    context::Context,
    definitions::{self, Definitions},
    events::{self, EventQueue, Events},
    export::Connections,
    identity::Identity,
    ingest::{Ingest, Pending},
    kinds::{self, Definition, Kind},
    lease::{Elector, Leadership, LeaseTimes},
    lifecycle_log::LifecycleLog,
    live::{Audits, Live},
    load_events::LoadEvents,
    lookup::ApiLookup,
    object::Item,
    operations::{Operation, Operations},
    reconcile::{run, run_as_leader},
    reports::Reports,
    served_kinds::KnownKinds,
    state::State,
    status,
    storage_migration::StorageMigration,
    sync_metrics::SyncedCounts,
    vap::{AdmissionPolicies, Settings as VapSettings},
    watches::{Event, Seen, Target, Watches},
};

/// The work in a cluster, and the Pod that does it.
pub struct Settings {
    /// The installation and the Pod.
    pub identity: Identity,
    /// The operations that are assigned to this process.
    pub operations: Operations,
    /// Settings of the engine.
    pub engine: EngineConfig,
    /// Whether the process is not ready before every policy that was there at start loads, or is
    /// gone (RD-2).
    pub waits_for_broken_policies: bool,
    /// Whether the cluster's own policies are evaluated: those that modgate's webhooks decide by, and in
    /// audits all that validate.
    pub admission_policies: bool,
    /// Which ValidatingAdmissionPolicies are generated.
    pub vap: VapSettings,
    /// How the cluster is audited.
    pub audit: AuditConfig,
    /// How long a request waits for an object that it makes this process look up.
    pub lookup_timeout: Duration,
}

/// State that controllers share with the webhooks of this process.
pub struct Shared {
    /// Where the policies in force are published.
    pub current: Arc<PolicyHandle>,
    /// The metrics of the process.
    pub metrics: Arc<Metrics>,
    /// Called for everything that is wrong with a policy.
    pub report: Arc<dyn Fn(&Diagnostic) + Send + Sync>,
    /// Queues Kubernetes Events.
    pub events: Events,
    /// The Kubernetes Events that wait to be written.
    pub event_queue: EventQueue,
    /// Exports violations, if that is on.
    pub exporter: Option<Arc<Exporter>>,
}

/// Follows a cluster and publishes its policies.
pub struct Controllers {
    context: Context,
    watches: Watches,
    events: mpsc::Receiver<Event>,
    ingest: Ingest,
    known: KnownKinds,
    wanted: watch::Sender<Definitions>,
    state: watch::Sender<Option<Arc<State>>>,
    current: Arc<PolicyHandle>,
    metrics: Arc<Metrics>,
    report: Arc<dyn Fn(&Diagnostic) + Send + Sync>,
    /// Until they are written; none after the start.
    event_queue: Option<EventQueue>,
    exporter: Option<Arc<Exporter>>,
    vap: VapSettings,
    audit: AuditConfig,
    audits: Audits,
    counts: SyncedCounts,
    /// Until when policies wait for fields of synced objects.
    field_deadline: Option<Instant>,
    waits_for_broken_policies: bool,
}

/// Events taken in together.
const BATCH: usize = 256;

/// How often the log names what the process waits for at start (RD-6).
const NOT_READY_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The shortest time between two policy sets that differ in their inventory only: a cluster in which a
/// thousand objects change each second makes twenty sets a second.
const MIN_PUBLISH_INTERVAL: Duration = Duration::from_millis(50);

/// The longest that policies wait for fields of synced objects, which are listed again for them.
const MAX_FIELD_WAIT: Duration = Duration::from_secs(5);

impl Controllers {
    /// Nothing is watched yet.
    pub fn new(client: Client, settings: Settings, shared: Shared) -> Self {
        let Settings {
            identity,
            operations,
            engine,
            waits_for_broken_policies,
            admission_policies,
            vap,
            audit,
            lookup_timeout,
        } = settings;
        let Shared { current, metrics, report, events, event_queue, exporter } = shared;
        let (watches, watch_events) = Watches::new(client.clone());
        let lookup = ApiLookup::new(client.clone(), Handle::current(), lookup_timeout);
        let objects = Objects::of_cluster(Arc::new(lookup));
        // The namespace whose Config counts.
        let mut ingest = Ingest::new(engine, identity.namespace.clone(), objects);
        if audit.from_cache && operations.has(Operation::Audit) {
            // What no policy reads is audited, too.
            ingest.keep_all_fields();
        }
        let mut known = KnownKinds::default();
        if admission_policies {
            known.without_definitions = kinds::admission_policies(&operations);
        }
        let state = watch::channel(None).0;
        let leadership = Leadership::new();
        let leads = leadership.clone();
        metrics.report_leader(move || leads.lasts());
        let context = Context {
            client,
            identity,
            operations,
            leadership,
            state: state.subscribe(),
            reports: Reports::default(),
            events,
        };
        Self {
            context,
            watches,
            events: watch_events,
            ingest,
            known,
            wanted: watch::channel(Definitions::default()).0,
            state,
            current,
            metrics,
            report,
            event_queue: Some(event_queue),
            exporter,
            vap,
            audit,
            audits: Audits::default(),
            counts: SyncedCounts::default(),
            field_deadline: None,
            waits_for_broken_policies,
        }
    }

    /// The parts of policies' statuses beside the result of loading.
    pub fn reports(&self) -> Reports {
        self.context.reports.clone()
    }

    /// The cluster as the live page shows it.
    pub fn live(&self) -> Live {
        Live::new(self.context.clone(), self.audits.clone())
    }

    /// Takes part in the election of the one process that writes for all.
    pub fn elector(&self, times: LeaseTimes) -> Elector {
        let Context { client, identity, operations, leadership, .. } = &self.context;
        Elector::new(client.clone(), identity, operations, times, leadership.clone())
    }

    /// Keeps the certificate of the webhooks.
    pub fn rotation(
        &self,
        config: &ClusterCertificates,
        serving: Arc<dyn ServingCertificate>,
    ) -> Rotation {
        Rotation::new(&self.context, config, serving)
    }

    /// Follows the cluster; ends only if a part of it fails.
    pub async fn run(mut self) {
        let mut controllers = self.start_controllers();
        if let Some(queue) = self.event_queue.take() {
            let metrics = self.metrics.events().clone();
            controllers
                .spawn(events::Writer::new(self.context.client.clone(), queue, metrics).run());
        }
        for resource in [kinds::definitions(), kinds::namespaces()] {
            self.watches.start(&resource);
        }
        for kind in &self.known.without_definitions {
            self.watches.start_served(kind);
        }
        let mut events = Vec::new();
        let mut earliest = Instant::now();
        let mut due = None;
        let mut note = Instant::now() + NOT_READY_LOG_INTERVAL;
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
                note = Instant::now() + NOT_READY_LOG_INTERVAL;
                let missing =
                    self.known.missing(self.ingest.sync(), self.ingest.objects()).join(", ");
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
            earliest = now + MIN_PUBLISH_INTERVAL;
            let Some(next) = self.publish_next().await else { break };
            self = next;
            due = self.stop_waiting_for_fields(due);
        }
        drop(controllers);
    }

    /// Everything that writes to the cluster; dropping the set stops it.
    fn start_controllers(&self) -> JoinSet<()> {
        let context = self.context.clone();
        let mut controllers = JoinSet::new();
        let load_events = LoadEvents::new(context.clone());
        controllers.spawn(run_as_leader(context.clone(), load_events));
        controllers.spawn(run(context.clone(), LifecycleLog::default()));
        if let Some(exporter) = self.exporter.clone() {
            let connections = Connections::new(context.clone(), exporter);
            controllers.spawn(run(context.clone(), connections));
        }
        controllers.spawn(status::run(context.clone()));
        if context.operations.has(Operation::Status) {
            let migration = StorageMigration::new(context.clone());
            controllers.spawn(run_as_leader(context.clone(), migration));
        }
        if context.operations.has(Operation::Audit) {
            let auditing = Auditing {
                config: self.audit.clone(),
                metrics: self.metrics.audit().clone(),
                events: context.events.clone(),
                exporter: self.exporter.clone(),
                current: Arc::clone(&self.current),
                audits: self.audits.clone(),
            };
            controllers.spawn(audit::run(context.clone(), auditing));
        }
        if context.operations.has(Operation::Generate) {
            let metrics = self.metrics.admission_policies().clone();
            let policies = AdmissionPolicies::new(context.clone(), self.vap.clone(), metrics);
            controllers.spawn(run_as_leader(context.clone(), policies));
            let writer = definitions::Writer::new(context.clone(), self.wanted.subscribe());
            controllers.spawn(run_as_leader(context, writer));
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
            Seen::Failed(_) | Seen::Served(_) | Seen::NotServed => {}
        }
        self.watches.definitions_changed();
    }

    fn with_definition(&mut self, item: Item) {
        let definition = match &item.object {
            Ok(object) => {
                self.known.facts_changed |= self.known.facts.with(object);
                self.ingest.define(object);
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
        self.ingest.undefine(name);
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
        let (sync, objects) = (self.ingest.sync(), self.ingest.objects());
        let (params, types) = (objects.watched_params(), objects.watched_types());
        let is_wanted = |target: &Target| match target {
            Target::Kind(_) => true,
            Target::Synced(kind) => sync.wants(kind),
            Target::Params(kind) => params.wants(kind),
            Target::Types(groups) => groups == types.groups(),
        };
        self.watches.retain(is_wanted);
        self.known.listed.retain(is_wanted);
        params.kinds().for_each(|kind| self.watches.start_params(kind));
        if !types.groups().is_empty() {
            self.watches.start_types(types.groups());
        }
        // These are watched in any case.
        let shared = [kinds::namespaces(), nodes].map(|resource| kinds::gvk(&resource));
        for (kind, synced) in sync.kinds().iter().filter(|(kind, _)| !shared.contains(*kind)) {
            self.watches.start_synced(kind, synced.fields());
            if refills.contains(kind) {
                self.watches.refill(kind, synced.fields());
            }
        }
        self.metrics.watches().intended(self.watches.len());
        self.metrics.watches().watched(self.known.listed.len());
    }

    /// Puts policies in force that have waited for fields of synced objects long enough; returns when
    /// to look again.
    fn stop_waiting_for_fields(&mut self, due: Option<Instant>) -> Option<Instant> {
        if !self.ingest.awaits_fields() {
            self.field_deadline = None;
            return due;
        }
        let until = *self.field_deadline.get_or_insert_with(|| Instant::now() + MAX_FIELD_WAIT);
        if Instant::now() < until {
            return Some(due.map_or(until, |due| due.min(until)));
        }
        tracing::warn!(
            target: LOGGER,
            "synced objects cannot be listed: policies that look at more of them than before are in \
             force, and see what was kept"
        );
        self.ingest.stop_waiting_for_fields();
        Some(Instant::now())
    }

    /// Compiles what was taken in, off the threads that answer requests, and publishes it. `None`
    /// if that went wrong, which it does only when the process ends.
    async fn publish_next(mut self) -> Option<Self> {
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
        let is_complete = self.known.is_complete(self.ingest.sync(), self.ingest.objects());
        if !is_complete || self.ingest.awaits_fields() {
            findings.iter().flatten().for_each(|finding| (self.report)(finding));
            if is_complete && self.current.load().is_some() {
                // What is synced, under the policies there were.
                self.current.store(Arc::clone(self.ingest.current()));
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
        let policies = self.ingest.current();
        if self.waits_for_broken_policies {
            let reason = not_ready(self.ingest.broken());
            // What comes later does not count (RD-3).
            self.waits_for_broken_policies = reason.is_some();
            self.current.set_not_ready(reason);
        }
        self.current.store(Arc::clone(policies));
        if inventory_changed || is_new {
            let (sync, metrics) = (self.ingest.sync(), self.metrics.sync());
            self.counts.report(sync, &policies.inventory, started.elapsed(), metrics);
        }
        let state = Arc::new(State {
            current: Arc::clone(policies),
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
            let (snapshot, count) = (&policies.snapshot, broken.len());
            self.metrics.policies_loaded(snapshot, broken, count, &findings);
        }
        self.wanted.send_if_modified(|wanted| wanted.want(&state));
        self.state.send_replace(Some(state));
        Some(self)
    }
}

/// The reason why a process is not ready that waits for policies which do not load.
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
