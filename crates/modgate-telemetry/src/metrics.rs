//! Metrics: Gatekeeper's and KubeMod's names and labels, what Prometheus expects of a process, and
//! modgate's own.
//!
//! [`Metrics`] holds all of them. What a review touches is made at start, so that it costs atomics
//! only. Other parts of the process report through handles ([`Metrics::audit`] and the like), cheap
//! to clone.

mod catalog;
mod cost;
mod findings;
mod format;
mod gatekeeper;
mod process;
mod reports;
mod standing;
mod traffic;
mod webhooks;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use modgate_engine::{
    AdmissionStatus, Compiled, Decision, MutationStatus, PolicyId, Snapshot, api::modrule,
};
use modgate_value::diag::{Diagnostic, Severity};
use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge, info::Info};

use self::{
    catalog::Catalog, cost::CostMetrics, findings::FindingMetrics, gatekeeper::GatekeeperMetrics,
    standing::StandingMetrics, webhooks::WebhooksMetrics,
};
pub use self::{
    catalog::{Descriptor, Label, MetricType, Origin},
    cost::{name_of, shard},
    format::Format,
    reports::{
        AdmissionPolicyMetrics, AuditMetrics, ControllerMetrics, DropReason, EventMetrics,
        EventResult, ExportMetrics, Health, Reconciled, SyncMetrics, WatchMetrics,
    },
    traffic::{NotRecorded, NotShadowed, RecordMetrics, ShadowMetrics, ShadowResult},
    webhooks::{InFlight, UndecidedCause, Webhook},
};
use crate::spans::{Parent, Span, Tracer};

/// Labels whose values are known when the program is written.
type Labels<const N: usize> = [(&'static str, &'static str); N];

const POLICIES: Descriptor = Descriptor {
    name: "modgate_policies",
    kind: MetricType::Gauge,
    labels: &[Label { name: "kind", values: "the kind of policy" }],
    help: "Policies being enforced, by kind",
    origin: Origin::Modgate,
};
const BROKEN: Descriptor = Descriptor {
    name: "modgate_policies_broken",
    kind: MetricType::Gauge,
    labels: &[],
    help: "Policy files and policies whose newest version does not load",
    origin: Origin::Modgate,
};
const WARNINGS: Descriptor = Descriptor {
    name: "modgate_policy_warnings_total",
    kind: MetricType::Counter,
    labels: &[Label { name: "code", values: "the code of the warning (docs/warnings.md)" }],
    help: "Warnings about policies that were loaded, by code",
    origin: Origin::Modgate,
};
const RELOADS: Descriptor = Descriptor {
    name: "modgate_policy_reloads_total",
    kind: MetricType::Counter,
    labels: &[Label { name: "result", values: "`success`, `error`" }],
    help: "Reloads of policies, by whether all of them loaded",
    origin: Origin::Modgate,
};
const BUILD: Descriptor = Descriptor {
    name: "modgate_build_info",
    kind: MetricType::Gauge,
    labels: &[Label { name: "version", values: "modgate's version" }],
    help: "What is running; always 1",
    origin: Origin::Modgate,
};
const TARGET: Descriptor = Descriptor {
    name: "target_info",
    kind: MetricType::Gauge,
    labels: &[
        Label { name: "service_name", values: "`modgate`" },
        Label { name: "service_version", values: "modgate's version" },
    ],
    help: "What is being scraped, as OpenTelemetry says it; always 1",
    origin: Origin::Gatekeeper,
};

/// Every metric of the process.
#[derive(Debug)]
pub struct Metrics {
    catalog: Catalog,
    webhooks: WebhooksMetrics,
    gatekeeper: GatekeeperMetrics,
    policies: Family<[(&'static str, String); 1], Gauge>,
    broken: Gauge,
    warnings: Family<Labels<1>, Counter>,
    reloaded: Counter,
    reload_failed: Counter,
    audit: AuditMetrics,
    sync: SyncMetrics,
    watches: WatchMetrics,
    admission_policies: AdmissionPolicyMetrics,
    export: ExportMetrics,
    record: RecordMetrics,
    shadow: ShadowMetrics,
    events: EventMetrics,
    controllers: ControllerMetrics,
    costs: CostMetrics,
    findings: FindingMetrics,
    standing: StandingMetrics,
    tracer: std::sync::OnceLock<Tracer>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All metrics at zero.
    pub fn new() -> Self {
        let mut catalog = Catalog::default();
        let version = env!("CARGO_PKG_VERSION");
        catalog.registry.register("modgate_build", BUILD.help, Info::new([("version", version)]));
        let target = [("service_name", "modgate"), ("service_version", version)];
        catalog.registry.register("target", TARGET.help, Info::new(target));
        catalog.describe(&[&BUILD, &TARGET]);
        process::register(&mut catalog);
        let reloads: Family<Labels<1>, Counter> = catalog.with(&RELOADS, Family::default());
        let reload = |result| reloads.get_or_create_owned(&[("result", result)]);
        Self {
            webhooks: WebhooksMetrics::register(&mut catalog),
            gatekeeper: GatekeeperMetrics::register(&mut catalog),
            policies: catalog.with(&POLICIES, Family::default()),
            broken: catalog.with(&BROKEN, Gauge::default()),
            warnings: catalog.with(&WARNINGS, Family::default()),
            reloaded: reload("success"),
            reload_failed: reload("error"),
            audit: AuditMetrics::register(&mut catalog),
            sync: SyncMetrics::register(&mut catalog),
            watches: WatchMetrics::register(&mut catalog),
            admission_policies: AdmissionPolicyMetrics::register(&mut catalog),
            export: ExportMetrics::register(&mut catalog),
            record: RecordMetrics::register(&mut catalog),
            shadow: ShadowMetrics::register(&mut catalog),
            events: EventMetrics::register(&mut catalog),
            controllers: ControllerMetrics::register(&mut catalog),
            costs: CostMetrics::register(&mut catalog),
            findings: FindingMetrics::register(&mut catalog),
            standing: StandingMetrics::register(&mut catalog),
            tracer: std::sync::OnceLock::new(),
            catalog,
        }
    }

    /// Everything in a text format.
    pub fn encode_as(&self, format: Format) -> String {
        format.of_open_metrics(self.encode())
    }

    /// Everything in the OpenMetrics text format.
    pub fn encode(&self) -> String {
        let mut out = String::with_capacity(16 << 10);
        // Writing to a string fails only if a metric's own encoding does, and none of ours can.
        let _ = prometheus_client::encoding::text::encode(&mut out, &self.catalog.registry);
        out
    }

    /// Every metric there is.
    pub fn descriptors(&self) -> &[&'static Descriptor] {
        &self.catalog.metrics
    }

    /// The page of the documentation that describes every metric.
    pub fn documentation(&self) -> String {
        self.catalog.markdown()
    }

    /// For audits.
    pub fn audit(&self) -> &AuditMetrics {
        &self.audit
    }

    /// For what keeps the inventory.
    pub fn sync(&self) -> &SyncMetrics {
        &self.sync
    }

    /// For what follows the cluster.
    pub fn watches(&self) -> &WatchMetrics {
        &self.watches
    }

    /// For what makes ValidatingAdmissionPolicies.
    pub fn admission_policies(&self) -> &AdmissionPolicyMetrics {
        &self.admission_policies
    }

    /// For the export of the violations of requests.
    pub fn export(&self) -> &ExportMetrics {
        &self.export
    }

    /// For records of requests.
    pub fn record(&self) -> &RecordMetrics {
        &self.record
    }

    /// For second decisions.
    pub fn shadow(&self) -> &ShadowMetrics {
        &self.shadow
    }

    /// For what writes Events.
    pub fn events(&self) -> &EventMetrics {
        &self.events
    }

    /// For controllers.
    pub fn controllers(&self) -> &ControllerMetrics {
        &self.controllers
    }

    /// Policies were compiled, or could not be.
    pub fn compiled(&self, policies: &[Compiled]) {
        for Compiled { policy, loaded, time } in policies {
            self.gatekeeper.compiled(&policy.group, Health::of(*loaded), *time);
            if policy.kind == modrule::KIND {
                let result = if *loaded { Reconciled::Success } else { Reconciled::Error };
                self.controllers.reconciled("modrule", result, *time);
            }
        }
    }

    /// Counts a request as being served until the guard is dropped.
    pub fn start(&self, webhook: Webhook) -> InFlight<'_> {
        self.webhooks.start(webhook)
    }

    /// A webhook answered with this HTTP status.
    pub fn answered(&self, webhook: Webhook, code: u16, took: Duration) {
        self.webhooks.answered(webhook, code, took);
    }

    /// Spans go to `tracer` from now on.
    pub fn trace_with(&self, tracer: Tracer) {
        // Nothing is started twice.
        let _ = self.tracer.set(tracer);
    }

    /// A request was answered, for its trace.
    pub fn traced(&self, parent: Option<Parent>, webhook: Webhook, code: u16, took: Duration) {
        let Some(tracer) = self.tracer.get() else { return };
        if parent.as_ref().is_some_and(Parent::is_left_out) {
            return;
        }
        let ended = std::time::SystemTime::now();
        let webhook = webhook.path();
        tracer.record(Span { parent, webhook, code, ended, took });
    }

    /// A webhook decoded, evaluated and encoded a review.
    pub fn evaluated(&self, webhook: Webhook, took: Duration) {
        self.webhooks.evaluated(webhook, took);
    }

    /// A request has waited for its turn, and got it or gave up.
    pub fn queued(&self, webhook: Webhook, waited: Duration) {
        self.webhooks.queued(webhook, waited);
    }

    /// Modgate itself failed to decide a review.
    pub fn undecided(&self, webhook: Webhook, cause: UndecidedCause) {
        self.webhooks.undecided(webhook, cause);
    }

    /// Bytes of the bodies of requests, kept by those who receive them.
    pub fn bodies(&self) -> &Gauge {
        self.webhooks.bodies()
    }

    /// A webhook decided.
    pub fn decided(&self, webhook: Webhook, decision: &Decision) {
        self.webhooks.decided(webhook, decision);
    }

    /// Counts the requests that policies denied, warned about or reported, by policy.
    pub fn found(&self, decision: &Decision) {
        self.findings.decided(decision);
    }

    /// `ends` returns the end of the served certificate, in Unix seconds.
    pub fn report_certificate(&self, ends: impl Fn() -> Option<i64> + Send + Sync + 'static) {
        self.standing.certificate(ends);
    }

    /// This process takes part in an election; `leads` returns whether it leads now.
    pub fn report_leader(&self, leads: impl Fn() -> bool + Send + Sync + 'static) {
        self.standing.leader(leads);
    }

    fn reloaded(&self, policies: &[(String, usize)], broken: usize) {
        for (kind, count) in policies {
            self.policies.get_or_create(&[("kind", kind.clone())]).set(saturated(*count));
        }
        self.broken.set(saturated(broken));
        if broken == 0 { &self.reloaded } else { &self.reload_failed }.inc();
    }

    /// Counts the warnings among findings by their codes.
    fn warned(&self, findings: &[Diagnostic]) {
        let warnings = findings.iter().filter(|found| found.severity == Severity::Warning);
        for code in warnings.filter_map(|warning| warning.code) {
            self.warnings.get_or_create(&[("code", code)]).inc();
        }
    }

    /// Counts and logs policies that were loaded; `broken` do not load, and `count_broken` is their
    /// number together with files that cannot be read.
    pub fn policies_loaded(
        &self,
        snapshot: &Snapshot,
        broken: &BTreeSet<PolicyId>,
        count_broken: usize,
        findings: &[Diagnostic],
    ) {
        let policies: Vec<_> = snapshot.policies().collect();
        let mut kinds = BTreeMap::from([(modrule::KIND.to_owned(), 0)]);
        for policy in &policies {
            *kinds.entry(policy.kind.to_string()).or_insert(0_usize) += 1;
        }
        self.reloaded(&kinds.into_iter().collect::<Vec<_>>(), count_broken);
        self.gatekeeper_loaded(snapshot, broken);
        self.warned(findings);
        let count = |severity| findings.iter().filter(|found| found.severity == severity).count();
        tracing::info!(
            target: "policies",
            policies = policies.len(),
            errors = count(Severity::Error),
            warnings = count(Severity::Warning),
            "policies loaded"
        );
    }

    /// Counts a request to Gatekeeper's validating webhook.
    pub fn validated(&self, status: AdmissionStatus, dry_run: bool, took: Duration) {
        self.gatekeeper.validated(status, dry_run, took);
    }

    /// Counts a request to Gatekeeper's validating webhook that never came to a decision.
    pub fn not_validated(&self, took: Duration) {
        self.gatekeeper.not_validated(took);
    }

    /// Counts a request to Gatekeeper's mutating webhook, and the passes over the mutators.
    pub fn mutated(&self, status: MutationStatus, passes: Option<usize>, took: Duration) {
        self.gatekeeper.mutated(status, passes, took);
    }

    /// Counts Gatekeeper's policies, as they are from now on.
    fn gatekeeper_loaded(&self, snapshot: &Snapshot, broken: &BTreeSet<PolicyId>) {
        self.gatekeeper.loaded(snapshot, broken);
        self.costs.of(snapshot);
        self.findings.of(snapshot);
    }
}

/// A count as a gauge holds it.
fn saturated(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
