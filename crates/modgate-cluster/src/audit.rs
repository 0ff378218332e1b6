//! The audit of a cluster (spec `gatekeeper-validation`, section 7).
//!
//! Kinds that some policy may have something to do with are listed once and watched from then on
//! ([`follow`]). What arrives is evaluated and dropped; what was found is kept by
//! [`Incremental`]. Every interval, what may have changed without an object having changed is listed
//! and evaluated again, and the whole is reported: to logs, metrics, sinks and Events ([`record`]),
//! and in the status of each constraint ([`write`]).
//!
//! # Guarantees
//!
//! - No audit begins before everything present at start is loaded, and none is reported
//!   before every kind was listed, except for kinds that cannot be: they are left out, and that is
//!   logged each time.
//! - Audits never overlap. Only the process that leads audits.
//! - An audit that is interrupted, because this process ceases to lead or the API server is away, is
//!   not reported. The next one of this process goes on where it was: what was evaluated is not
//!   evaluated again. A process that does not lead for a whole interval forgets everything, and
//!   another process starts anew.
//! - Statuses and metrics do not wait for exports, which come last and may be given up.
//! - A status is written as a whole, as a merge patch of its own members: who else writes to it at the
//!   same time neither stands in the way nor loses anything.

mod arrived;
mod follow;
mod host;
mod policy_reports;
mod record;
mod turns;
mod write;

use std::{
    collections::BTreeSet,
    future::pending,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool},
    time::{Duration, Instant, SystemTime},
};

use k8s_openapi::jiff::Timestamp;
use kube::Api;
use modgate_audit::{AuditOptions, Incremental, Item, Options, Report, Sink, Stale};
use modgate_engine::{
    api::{constraints, meta::GroupVersionKind},
    cost::Statistics,
};
use modgate_export::{Exporter, ViolationsFile, ViolationsFileConfig};
use modgate_policies::PolicyHandle;
use modgate_telemetry::metrics::AuditMetrics;
use modgate_value::{Str, gotime};
use tokio::{
    task::spawn_blocking,
    time::{MissedTickBehavior, interval_at, sleep},
};

pub use self::policy_reports::{PolicyReportConfig, PolicyReportFormat};
use self::{
    arrived::Arrived,
    follow::{Follower, Seen, WatchFailure},
    host::AuditHost,
    policy_reports::{Collector, Reporting},
    record::BulkLines,
};
use super::{
    bounded,
    context::Context,
    events::Events,
    listing::{self, Listable, Pages, Served},
    live::Audits,
    object::{self, Unread},
    state::State,
};

/// Logger of audits, as Gatekeeper calls it.
pub(super) const LOGGER: &str = "controller";

/// How a cluster is audited (7.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditConfig {
    /// From one audit to the next; zero for none.
    pub interval: Duration,
    /// Violations listed in the status of a constraint.
    pub limit: usize,
    /// Most objects of a page when a kind is listed; zero for all at once.
    pub chunk: u32,
    /// Audit what is synced instead of what the API server has.
    pub from_cache: bool,
    /// Audit only kinds that constraints name.
    pub match_kind_only: bool,
    /// Whether violations become Events.
    pub events: bool,
    /// Whether those Events are put into the namespaces of the objects.
    pub events_in_namespace: bool,
    /// Whether mutators are audited, too: what they would still change.
    pub mutators: bool,
    /// Whether it is logged what constraints cost.
    pub log_statistics: bool,
    /// Where violations are written to a file, if they are.
    pub violations_file: Option<ViolationsFileConfig>,
    /// Which policy reports are written, if any.
    pub policy_reports: Option<PolicyReportConfig>,
}

impl Default for AuditConfig {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(60),
            limit: 20,
            chunk: 500,
            from_cache: false,
            match_kind_only: false,
            events: false,
            events_in_namespace: false,
            mutators: false,
            log_statistics: false,
            violations_file: None,
            policy_reports: None,
        }
    }
}

/// Settings and collaborators of audits, beside the cluster.
pub(crate) struct Auditing {
    pub(crate) config: AuditConfig,
    pub(crate) metrics: AuditMetrics,
    pub(crate) events: Events,
    /// Receives each violation after all other receivers: it may have to wait.
    pub(crate) exporter: Option<Arc<Exporter>>,
    /// Knows who gives external data.
    pub(crate) current: Arc<PolicyHandle>,
    /// The live page shows them.
    pub(crate) audits: Audits,
}

/// Objects evaluated by one thread before it looks for more.
const BATCH: usize = 32;

/// Up to this many stale objects are read one by one; for more, their kind is listed.
const FEW: usize = 16;

/// The longest time between two audits, ten years.
const LONGEST_INTERVAL: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Audits until the process ends.
pub(crate) async fn run(mut context: Context, auditing: Auditing) {
    if auditing.config.interval.is_zero() || context.loaded().await.is_none() {
        return;
    }
    // Moments that far ahead cannot be told.
    let interval = auditing.config.interval.min(LONGEST_INTERVAL);
    // The first audit is one interval after start (AU-1).
    let mut ticks = interval_at(tokio::time::Instant::now() + interval, interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut auditor = Auditor::new(context.clone(), auditing);
    let mut leadership = context.leadership.subscribe();
    let mut last = 0;
    let mut idle = false;
    loop {
        let seen = tokio::select! {
            _ = ticks.tick() => None,
            // Who does not lead any more leaves what is seen until it does again.
            seen = auditor.follower.next(), if context.leads() => Some(seen),
            Ok(()) = leadership.changed() => Some(Seen::Nothing),
        };
        if !context.leads() {
            // The process that audits now reports the same.
            auditor.auditing.metrics.forget();
            auditor.auditing.audits.forget();
        }
        // Not within the above, where it could be interrupted.
        if let Some(seen) = seen {
            auditor.take(seen).await;
            continue;
        }
        if !context.leads() {
            // Leadership that comes back within an interval finds everything as it was.
            if std::mem::replace(&mut idle, true) {
                auditor.forget();
            }
            continue;
        }
        idle = false;
        let Some(state) = context.loaded().await else { return };
        last = second(SystemTime::now(), last);
        let name = name(last);
        match auditor.audit(&name, &state).await {
            Ok(()) => {}
            Err(Ended::NotLeading) => tracing::info!(target: LOGGER, process = "audit",
                audit_id = %name, semantic = true, event_type = "audit_interrupted",
                "this process does not lead any more: the audit is not reported"),
            Err(Ended::Failed(error)) => tracing::error!(target: LOGGER, process = "audit",
                audit_id = %name, error, "audit manager audit() failed"),
        }
    }
}

/// The second an audit is called by, after that of the one before: readers of violations could not distinguish two
/// audits of one name.
fn second(now: SystemTime, last: i64) -> i64 {
    Timestamp::try_from(now).unwrap_or_default().as_second().max(last + 1)
}

/// The name of an audit that begins in this second since 1970 (AU-2).
fn name(second: i64) -> Str {
    Timestamp::from_second(second).unwrap_or_default().to_string().into()
}

/// Why an audit came to no end.
enum Ended {
    /// Another process may audit by now.
    NotLeading,
    Failed(String),
}

impl From<String> for Ended {
    fn from(reason: String) -> Self {
        Self::Failed(reason)
    }
}

/// Gives up an export when it is dropped.
struct GivenUp(Arc<Exporter>);

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

struct Auditor {
    context: Context,
    auditing: Auditing,
    /// The receivers of each violation.
    sinks: Vec<Arc<dyn Sink>>,
    follower: Follower,
    /// `None` while it is lent to a thread, and for good if that failed.
    incremental: Option<Incremental>,
    host: Option<Arc<AuditHost>>,
    /// The statistics of constraints in this audit, if they are logged.
    statistics: Option<Arc<Mutex<Statistics>>>,
    writing: write::Writing,
    collector: Option<Arc<Collector>>,
    reporting: Reporting,
}

impl Auditor {
    fn new(context: Context, auditing: Auditing) -> Self {
        let collector =
            auditing.config.policy_reports.clone().map(|it| Arc::new(Collector::new(it)));
        let file = auditing.config.violations_file.clone().map(ViolationsFile::new);
        let file = file.map(|it| Arc::new(it) as Arc<dyn Sink>);
        let reports = collector.iter().map(|it| Arc::clone(it) as Arc<dyn Sink>);
        let sinks = file.into_iter().chain(reports).collect();
        let follower = Follower::new(context.client.clone(), auditing.config.chunk);
        let incremental = Some(Incremental::new(options(&auditing.config)));
        Self {
            context,
            auditing,
            sinks,
            follower,
            incremental,
            host: None,
            statistics: None,
            writing: write::Writing::default(),
            collector,
            reporting: Reporting::default(),
        }
    }

    /// Forgets everything, because another process audits.
    fn forget(&mut self) {
        self.follower.stop_all();
        self.writing.stop();
        self.reporting.stop();
        self.host = None;
        self.incremental = Some(Incremental::new(options(&self.auditing.config)));
    }

    /// One audit, from the start to its report.
    async fn audit(&mut self, name: &str, state: &State) -> Result<(), Ended> {
        let began = Instant::now();
        self.auditing.metrics.started(SystemTime::now());
        tracing::info!(target: LOGGER, process = "audit", audit_id = name, semantic = true,
            event_type = "audit_started", "auditing constraints and violations");
        let host = Arc::new(AuditHost::new(
            state.current.objects.clone(),
            self.auditing.current.providers().cloned(),
        ));
        self.host = Some(Arc::clone(&host));
        self.statistics = self.auditing.config.log_statistics.then(Arc::default);
        let policies = Arc::clone(&state.current);
        self.with(move |incremental| {
            incremental.adopt(&policies.snapshot, &policies.inventory, &*host);
        })
        .await?;
        if self.auditing.config.from_cache {
            self.audit_inventory(state).await?;
        } else {
            self.audit_cluster(state).await?;
        }
        self.still_leads()?;
        let report = self.report(name).await?;
        self.auditing.metrics.finished(
            SystemTime::now(),
            began.elapsed(),
            report.totals.by_action(),
        );
        self.auditing.metrics.by_namespace(
            report.by_namespace.iter().map(|(namespace, count)| (&**namespace, *count)),
        );
        self.auditing.audits.finished(&report);
        record::errors(name, &report);
        self.log_statistics(name);
        // Each of these asks again before it writes anything.
        let objects = state.policies.iter().filter(|(kind, _)| kind.group == constraints::GROUP);
        let statuses = write::statuses(objects, &state.served, &report);
        self.writing.start(self.context.clone(), statuses);
        self.write_policy_reports(name);
        let took = gotime::Duration(i64::try_from(began.elapsed().as_nanos()).unwrap_or(i64::MAX));
        tracing::info!(target: LOGGER, process = "audit", audit_id = name, semantic = true,
            event_type = "audit_finished", duration = %took,
            objects = report.counts.objects, evaluated = report.counts.evaluated,
            "auditing is complete");
        self.export(name).await
    }

    /// Exports what was found, for as long as this process leads.
    async fn export(&mut self, name: &str) -> Result<(), Ended> {
        let Some(exporter) = self.auditing.exporter.clone().filter(|it| it.exports_audits()) else {
            return Ok(());
        };
        let given_up = GivenUp(Arc::clone(&exporter));
        let context = self.context.clone();
        let lost = async {
            while context.leads() {
                sleep(Duration::from_secs(1)).await;
            }
            given_up.0.abandon();
            pending::<()>().await;
        };
        let name = name.to_owned();
        let exported = self.with(move |incremental| drop(incremental.report(&name, 0, &*exporter)));
        tokio::select! {
            exported = exported => exported?,
            () = lost => {}
        }
        self.still_leads()
    }

    /// Fails if another process may audit by now.
    fn still_leads(&self) -> Result<(), Ended> {
        if self.context.leads() { Ok(()) } else { Err(Ended::NotLeading) }
    }

    fn log_statistics(&mut self, name: &str) {
        if let Some(statistics) = self.statistics.take() {
            let statistics = statistics.lock().unwrap_or_else(PoisonError::into_inner);
            record::statistics(name, self.auditing.config.from_cache, &statistics);
        }
    }

    fn write_policy_reports(&mut self, name: &str) {
        let Some(collector) = &self.collector else { return };
        let (reports, left_out) = collector.take();
        if left_out > 0 {
            tracing::warn!(target: LOGGER, process = "audit", audit_id = name, left_out,
                "namespaces have no policy report because there are too many");
        }
        self.reporting.start(self.context.clone(), collector.format(), reports);
    }

    /// The API server's objects.
    async fn audit_cluster(&mut self, state: &State) -> Result<(), Ended> {
        let found = listing::listable(&self.context.client).await;
        let Served { mut kinds, unknown } =
            found.map_err(|error| format!("cannot find out which kinds there are: {error}"))?;
        for version in &unknown {
            tracing::warn!(target: LOGGER, process = "audit", error = version.reason,
                "it is unknown which kinds {version} has: those known are audited as before; an \
                 orphaned APIService can be deleted with kubectl delete apiservice {version}");
        }
        let unknown: BTreeSet<Str> = unknown.into_iter().map(|it| it.group.into()).collect();
        listing::keep(&mut kinds, self.follower.followed(), &unknown);
        let wanted = self.wanted(kinds, state);
        self.follower.follow(wanted.iter().filter(|kind| kind.watchable).cloned().collect());
        let known: BTreeSet<_> = wanted.iter().map(Listable::kind).collect();
        self.with(move |incremental| {
            let is_gone =
                |kind: &&GroupVersionKind| !known.contains(*kind) && !unknown.contains(&kind.group);
            let gone: Vec<_> = incremental.kinds().filter(is_gone).cloned().collect();
            gone.iter().for_each(|kind| incremental.remove_kind(kind));
        })
        .await?;
        while self.follower.is_listing() {
            self.still_leads()?;
            let seen = self.follower.next().await;
            self.take(seen).await;
        }
        self.flush().await;
        for kind in wanted.iter().filter(|kind| !kind.watchable) {
            self.still_leads()?;
            self.list_again(kind, None).await;
        }
        let stale = self.with(|incremental| incremental.stale()).await?;
        for stale in stale {
            let Some(kind) = wanted.iter().find(|kind| kind.kind() == stale.kind) else { continue };
            self.still_leads()?;
            self.list_again(kind, Some(stale)).await;
        }
        for WatchFailure { kind, is_listed, error } in self.follower.failed() {
            if is_listed {
                tracing::warn!(target: LOGGER, process = "audit", kind = %kind, error,
                    "objects cannot be followed; those that changed since are reported as they were");
            } else {
                tracing::warn!(target: LOGGER, process = "audit", kind = %kind, error,
                    "objects cannot be listed and are not audited");
            }
        }
        Ok(())
    }

    /// The kinds that are listed.
    fn wanted(&self, listable: Vec<Listable>, state: &State) -> Vec<Listable> {
        let named = self.auditing.config.match_kind_only.then(|| named_kinds(state)).flatten();
        let policies = self.incremental.as_ref().and_then(Incremental::policies);
        let is_wanted = |kind: &Listable| {
            let kind = kind.kind();
            let is_named = named.as_ref().is_none_or(|named| named.contains(&kind.kind));
            is_named && policies.is_some_and(|policies| policies.concerns(&kind))
        };
        listable.into_iter().filter(is_wanted).collect()
    }

    /// Asks again for objects that have not changed, or for a kind that is not watched.
    async fn list_again(&mut self, kind: &Listable, stale: Option<Stale>) {
        let gvk = kind.kind();
        let done = match &stale {
            Some(stale) if is_few(stale) => self.get(kind, stale).await,
            _ => self.list(kind, stale.is_none()).await,
        };
        if let Err(error) = done {
            let error = bounded::page_error(&error);
            tracing::warn!(target: LOGGER, process = "audit", kind = %gvk, error,
                "objects cannot be listed; what was found before is reported");
        }
    }

    async fn get(&mut self, kind: &Listable, stale: &Stale) -> Result<(), kube::Error> {
        let client = bounded::client(&self.context.client, &Arc::default());
        let shared = Arc::new(kind.resource.clone());
        for (namespace, name) in &stale.objects {
            let (client, resource) = (client.clone(), &kind.resource);
            let api: Api<Unread> = match namespace.as_str() {
                "" => Api::all_with(client, resource),
                namespace => Api::namespaced_with(client, namespace, resource),
            };
            match api.get_opt(name).await? {
                Some(unread) => self.evaluate(vec![Arrived::new(unread, &shared)]).await,
                None => {
                    let (kind, namespace, name) = (kind.kind(), namespace.clone(), name.clone());
                    let remove = move |incremental: &mut Incremental| {
                        incremental.remove(&kind, &namespace, &name);
                    };
                    let _ = self.with(remove).await;
                }
            }
        }
        Ok(())
    }

    /// `all` says that what is not listed is gone. Watches say that themselves.
    async fn list(&mut self, kind: &Listable, all: bool) -> Result<(), kube::Error> {
        let gvk = kind.kind();
        if all {
            let gvk = gvk.clone();
            let _ = self.with(move |incremental| incremental.begin(&gvk)).await;
        }
        let mut pages =
            Pages::new(&self.context.client, &kind.resource, self.auditing.config.chunk);
        let shared = Arc::new(kind.resource.clone());
        while let Some(page) = pages.next().await? {
            let arrived = page.into_iter().map(|unread| Arrived::new(unread, &shared));
            self.evaluate(arrived.collect()).await;
            if !self.context.leads() {
                // What was not listed is still to be evaluated, and not gone.
                return Ok(());
            }
        }
        if all {
            let _ = self.with(move |incremental| incremental.end(&gvk)).await;
        }
        Ok(())
    }

    /// Audits the synced objects, without expansion (AU-8).
    async fn audit_inventory(&mut self, state: &State) -> Result<(), String> {
        let (policies, host) = (Arc::clone(&state.current), self.host.clone());
        let statistics = self.statistics.clone();
        self.with(move |incremental| {
            let Some(host) = host else { return };
            let mut objects = policies.inventory.objects().peekable();
            let mut kinds = BTreeSet::new();
            kinds.extend(policies.inventory.objects().map(|synced| synced.gvk()));
            kinds.extend(incremental.kinds().cloned());
            kinds.iter().for_each(|kind| incremental.begin(kind));
            let mut source = || {
                objects.peek()?;
                Some(objects.by_ref().take(BATCH).map(|it| Item::new(it.object.clone())).collect())
            };
            incremental.run(&mut source, &*host, audit_options(statistics.as_deref()));
            kinds.iter().for_each(|kind| incremental.end(kind));
        })
        .await
    }

    async fn report(&mut self, name: &str) -> Result<Report, String> {
        let mut sinks = self.sinks.clone();
        let bulk = BulkLines::log();
        if bulk.is_none() {
            sinks.push(Arc::new(record::Lines));
        }
        if self.auditing.config.events && self.auditing.events.are_written() {
            sinks.push(Arc::new(record::AsEvents {
                events: self.auditing.events.clone(),
                in_namespace: self.auditing.config.events_in_namespace,
                installation: self.context.identity.namespace.clone(),
            }));
        }
        let (name, limit) = (name.to_owned(), self.auditing.config.limit);
        let report = self.with(move |incremental| {
            if let Some(log) = bulk {
                let lines = BulkLines { log, audit: &name };
                let threads = AuditOptions::all_cores();
                incremental.tell(&lines, threads, &mut |lines| log.write(lines));
            }
            incremental.report(&name, limit, &sinks)
        });
        let report = report.await?;
        report.ok_or_else(|| "no policies".to_owned())
    }

    async fn take(&mut self, seen: Seen) {
        match seen {
            Seen::Many(objects) => self.evaluate(objects).await,
            Seen::Begins(kind) => {
                self.flush_kind(&kind).await;
                let _ = self.with(move |incremental| incremental.begin(&kind)).await;
            }
            Seen::Ends(kind) => {
                self.flush_kind(&kind).await;
                let _ = self.with(move |incremental| incremental.end(&kind)).await;
            }
            Seen::Gone(kind, key) => {
                let remove = move |incremental: &mut Incremental| {
                    incremental.remove(&kind, &key.namespace, &key.name);
                };
                let _ = self.with(remove).await;
            }
            Seen::Nothing => {}
        }
    }

    async fn flush(&mut self) {
        let pending = self.follower.take_pending();
        self.evaluate(pending).await;
    }

    /// Only what counts when a list of a kind begins or ends: objects of others are better evaluated together with more.
    async fn flush_kind(&mut self, kind: &GroupVersionKind) {
        let pending = self.follower.take_pending_of(kind);
        self.evaluate(pending).await;
    }

    async fn evaluate(&mut self, objects: Vec<Arrived>) {
        let Some(host) = self.host.clone().filter(|_| !objects.is_empty()) else { return };
        let statistics = self.statistics.clone();
        let _ = self
            .with(move |incremental| {
                let mut objects = objects.into_iter().peekable();
                let mut source = || {
                    objects.peek()?;
                    Some(objects.by_ref().take(BATCH).collect())
                };
                incremental.run::<Arrived>(
                    &mut source,
                    &*host,
                    audit_options(statistics.as_deref()),
                );
            })
            .await;
    }

    /// Lends what is known to a thread that may take its time.
    async fn with<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Incremental) -> T + Send + 'static,
    ) -> Result<T, String> {
        let Some(mut incremental) = self.incremental.take() else {
            return Err("an audit before this one failed".to_owned());
        };
        let done = spawn_blocking(move || {
            let result = work(&mut incremental);
            (incremental, result)
        });
        match done.await {
            Ok((incremental, result)) => {
                self.incremental = Some(incremental);
                Ok(result)
            }
            Err(error) => {
                // Start over: what is known may be wrong.
                self.forget();
                Err(error.to_string())
            }
        }
    }
}

/// Whether objects can be read one by one: what has no name is only found in a list.
fn is_few(stale: &Stale) -> bool {
    stale.objects.len() <= FEW && stale.objects.iter().all(|(_, name)| !name.is_empty())
}

fn options(config: &AuditConfig) -> Options {
    let (expansion, mutators) = (!config.from_cache, config.mutators);
    Options { expansion, modrules: true, mutators, admission_policies: true }
}

fn audit_options(statistics: Option<&Mutex<Statistics>>) -> AuditOptions<'_> {
    static NEVER: AtomicBool = AtomicBool::new(false);
    AuditOptions { threads: AuditOptions::all_cores(), limit: 0, stop: &NEVER, statistics }
}

/// The kinds that constraints name, whatever their group; `None` when one of them matches all (AU-7,
///
fn named_kinds(state: &State) -> Option<BTreeSet<Str>> {
    let mut names = BTreeSet::new();
    for constraint in state.current.snapshot.constraints().constraints() {
        let kinds = constraint.criteria()?.kind_names()?;
        if kinds.contains("") {
            return None;
        }
        names.extend(kinds);
    }
    Some(names)
}

/// The identity of an object, as a key of maps.
type Place = (GroupVersionKind, object::Key);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_audits() {
        let at = |milliseconds| SystemTime::UNIX_EPOCH + Duration::from_millis(milliseconds);
        let first = second(at(1_785_578_400_999), 0);
        assert_eq!(name(first), "2026-08-01T10:00:00Z");
        // Two in one second, and a clock that was set back.
        let next = second(at(1_785_578_400_999), first);
        assert_eq!(name(next), "2026-08-01T10:00:01Z");
        assert_eq!(name(second(at(1_785_570_000_000), next)), "2026-08-01T10:00:02Z");
    }
}
