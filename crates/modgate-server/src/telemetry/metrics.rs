//! Metrics: KubeMod's names and labels (spec `kubemod.md`, 7.7) and modgate's own.
//!
//! Handles for every webhook are made at start, so that a review touches atomics only.

mod gatekeeper;

use std::{
    collections::BTreeSet,
    fmt::{self, Write as _},
    time::Duration,
};

use modgate_engine::{
    Decision, FailureKind, PolicyId, Snapshot,
    gatekeeper::{MutationStatus, Outcome as Admitted},
};
use prometheus_client::{
    collector::Collector,
    encoding::{
        DescriptorEncoder, EncodeLabelSet, EncodeLabelValue, EncodeMetric, LabelValueEncoder,
    },
    metrics::{
        counter::{ConstCounter, Counter},
        family::Family,
        gauge::{ConstGauge, Gauge},
        histogram::Histogram,
        info::Info,
    },
    registry::Registry,
};

use self::gatekeeper::GatekeeperMetrics;
use crate::webhook::Webhook;

/// The names, in one place. The text format appends `_total` to counters.
mod name {
    pub(super) const REQUESTS: &str = "controller_runtime_webhook_requests";
    pub(super) const LATENCY: &str = "controller_runtime_webhook_latency_seconds";
    pub(super) const IN_FLIGHT: &str = "controller_runtime_webhook_requests_in_flight";
    pub(super) const DECISIONS: &str = "modgate_decisions";
    pub(super) const EVALUATION: &str = "modgate_evaluation_seconds";
    pub(super) const FAILURES: &str = "modgate_rule_failures";
    pub(super) const POLICIES: &str = "modgate_policies";
    pub(super) const BROKEN: &str = "modgate_policies_broken";
    pub(super) const RELOADS: &str = "modgate_policy_reloads";
    pub(super) const BUILD: &str = "modgate_build";
    pub(super) const RESIDENT: &str = "process_resident_memory_bytes";
    pub(super) const CPU: &str = "process_cpu_seconds";
}

/// The content type of [`Metrics::encode`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Seconds. The first buckets are modgate's, for reviews take microseconds; the others are those of
/// KubeMod's histogram, so that existing queries keep their meaning.
const SECONDS: [f64; 16] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0,
    2.5, 5.0, 10.0,
];

/// A label whose value is known when the program is written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Fixed(&'static str);

impl EncodeLabelValue for Fixed {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(self.0)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WebhookLabel {
    webhook: Fixed,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    webhook: Fixed,
    code: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DecisionLabels {
    webhook: Fixed,
    kind: Fixed,
    decision: Fixed,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabels {
    kind: Fixed,
    failure: Fixed,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: Fixed,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VersionLabel {
    version: Fixed,
}

/// The policy kind in labels.
const MODRULE: Fixed = Fixed(modgate_engine::api::modrule::KIND);

/// Every metric of the process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    failures: Family<FailureLabels, Counter>,
    policies: Family<KindLabel, Gauge>,
    broken: Gauge,
    reloaded: Counter,
    reload_failed: Counter,
    webhooks: [WebhookMetrics; Webhook::ALL.len()],
    gatekeeper: GatekeeperMetrics,
}

/// The metrics of one webhook.
#[derive(Debug)]
struct WebhookMetrics {
    ok: Counter,
    latency: Histogram,
    evaluation: Histogram,
    in_flight: Gauge,
    decisions: [Counter; Outcome::ALL.len()],
}

/// What a decision comes to, for counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Unchanged,
    Patched,
    Rejected,
}

impl Outcome {
    const ALL: [Self; 3] = [Self::Unchanged, Self::Patched, Self::Rejected];

    fn of(decision: &Decision) -> Self {
        match (decision.allowed, decision.patch.is_empty()) {
            (false, _) => Self::Rejected,
            (true, false) => Self::Patched,
            (true, true) => Self::Unchanged,
        }
    }

    fn label(self) -> Fixed {
        Fixed(match self {
            Self::Unchanged => "unchanged",
            Self::Patched => "patched",
            Self::Rejected => "rejected",
        })
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All metrics at zero.
    pub fn new() -> Self {
        let mut registry = Registry::default();
        let requests = Family::<RequestLabels, Counter>::default();
        let latency = histograms();
        let in_flight = Family::<WebhookLabel, Gauge>::default();
        let decisions = Family::<DecisionLabels, Counter>::default();
        let evaluation = histograms();
        let failures = Family::default();
        let policies = Family::default();
        let broken = Gauge::default();
        let reloads = Family::<ResultLabel, Counter>::default();

        registry.register(
            name::REQUESTS,
            "Admission requests by webhook path and HTTP status code",
            requests.clone(),
        );
        registry.register(
            name::LATENCY,
            "Time from the first byte of an admission request to its answer",
            latency.clone(),
        );
        registry.register(name::IN_FLIGHT, "Admission requests being served", in_flight.clone());
        registry.register(
            name::DECISIONS,
            "Decisions by webhook path, policy kind and what they came to",
            decisions.clone(),
        );
        registry.register(
            name::EVALUATION,
            "Time spent decoding, evaluating and encoding a review",
            evaluation.clone(),
        );
        registry.register(
            name::FAILURES,
            "Policies that could not do their work during a review",
            failures.clone(),
        );
        registry.register(name::POLICIES, "Policies being enforced, by kind", policies.clone());
        registry.register(
            name::BROKEN,
            "Policy files and policies whose newest version does not load",
            broken.clone(),
        );
        registry.register(
            name::RELOADS,
            "Reloads of policy files, by whether all of them loaded",
            reloads.clone(),
        );
        registry.register(
            name::BUILD,
            "What is running",
            Info::new(VersionLabel { version: Fixed(env!("CARGO_PKG_VERSION")) }),
        );
        registry.register_collector(Box::new(Process));
        let gatekeeper = GatekeeperMetrics::register(&mut registry);

        let webhooks = Webhook::ALL.map(|webhook| {
            let path = Fixed(webhook.path());
            let labels = WebhookLabel { webhook: path.clone() };
            WebhookMetrics {
                ok: requests
                    .get_or_create_owned(&RequestLabels { webhook: path.clone(), code: 200 }),
                latency: latency.get_or_create_owned(&labels),
                evaluation: evaluation.get_or_create_owned(&labels),
                in_flight: in_flight.get_or_create_owned(&labels),
                decisions: Outcome::ALL.map(|outcome| {
                    decisions.get_or_create_owned(&DecisionLabels {
                        webhook: path.clone(),
                        kind: MODRULE,
                        decision: outcome.label(),
                    })
                }),
            }
        });
        let reload = |result| reloads.get_or_create_owned(&ResultLabel { result: Fixed(result) });
        Self {
            reloaded: reload("success"),
            reload_failed: reload("error"),
            registry,
            requests,
            failures,
            policies,
            broken,
            webhooks,
            gatekeeper,
        }
    }

    /// Everything in the OpenMetrics text format, see [`CONTENT_TYPE`].
    pub fn encode(&self) -> String {
        let mut out = String::with_capacity(8 << 10);
        // Writing to a string fails only if a metric's own encoding does, and none of ours can.
        let _ = prometheus_client::encoding::text::encode(&mut out, &self.registry);
        out
    }

    /// Counts a request as being served until the guard is dropped.
    pub(crate) fn start(&self, webhook: Webhook) -> InFlight<'_> {
        let gauge = self.of(webhook).map(|metrics| &metrics.in_flight);
        if let Some(gauge) = gauge {
            gauge.inc();
        }
        InFlight(gauge)
    }

    pub(crate) fn answered(&self, webhook: Webhook, code: u16, took: Duration) {
        let Some(metrics) = self.of(webhook) else { return };
        metrics.latency.observe(took.as_secs_f64());
        if code == 200 {
            metrics.ok.inc();
        } else {
            let labels = RequestLabels { webhook: Fixed(webhook.path()), code };
            self.requests.get_or_create(&labels).inc();
        }
    }

    pub(crate) fn evaluated(&self, webhook: Webhook, took: Duration) {
        if let Some(metrics) = self.of(webhook) {
            metrics.evaluation.observe(took.as_secs_f64());
        }
    }

    pub(crate) fn decided(&self, webhook: Webhook, decision: &Decision) {
        let Some(metrics) = self.of(webhook) else { return };
        let outcome = Outcome::of(decision);
        let counters = Outcome::ALL.iter().zip(&metrics.decisions);
        if let Some((_, counter)) = counters.into_iter().find(|(of, _)| **of == outcome) {
            counter.inc();
        }
        for failure in &decision.failures {
            let labels =
                FailureLabels { kind: MODRULE, failure: Fixed(failure_label(failure.kind)) };
            self.failures.get_or_create(&labels).inc();
        }
    }

    pub(crate) fn reloaded(&self, policies: &[(String, usize)], broken: usize) {
        for (kind, count) in policies {
            let labels = KindLabel { kind: kind.clone() };
            self.policies.get_or_create(&labels).set(i64::try_from(*count).unwrap_or(i64::MAX));
        }
        self.broken.set(i64::try_from(broken).unwrap_or(i64::MAX));
        if broken == 0 { &self.reloaded } else { &self.reload_failed }.inc();
    }

    /// Counts a request to Gatekeeper's validating webhook.
    pub(crate) fn validated(&self, outcome: Admitted, dry_run: bool, took: Duration) {
        self.gatekeeper.validated(outcome, dry_run, took);
    }

    /// Counts a request to Gatekeeper's mutating webhook.
    pub(crate) fn mutated(
        &self,
        status: MutationStatus,
        iterations: Option<usize>,
        took: Duration,
    ) {
        self.gatekeeper.mutated(status, iterations, took);
    }

    /// Counts Gatekeeper's policies, as they are from now on.
    pub(crate) fn gatekeeper_loaded(&self, snapshot: &Snapshot, broken: &BTreeSet<PolicyId>) {
        self.gatekeeper.loaded(snapshot, broken);
    }

    fn of(&self, webhook: Webhook) -> Option<&WebhookMetrics> {
        let position = Webhook::ALL.iter().position(|each| *each == webhook)?;
        self.webhooks.get(position)
    }
}

fn histograms() -> Family<WebhookLabel, Histogram, fn() -> Histogram> {
    Family::new_with_constructor(|| Histogram::new(SECONDS))
}

fn failure_label(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::References => "references",
        FailureKind::CalculatePatch => "calculate_patch",
        FailureKind::ApplyPatch => "apply_patch",
        FailureKind::LastApplied => "last_applied",
        FailureKind::RejectMessage => "reject_message",
        FailureKind::PatchOnDelete => "patch_on_delete",
        FailureKind::Budget => "budget",
        FailureKind::PodBinding => "pod_binding",
        _ => "other",
    }
}

/// A request being served.
pub(crate) struct InFlight<'a>(Option<&'a Gauge>);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if let Some(gauge) = self.0 {
            gauge.dec();
        }
    }
}

/// `process_…`, read when asked for; silent where there is no `/proc`.
#[derive(Debug)]
struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some((resident, cpu)) = process_figures() else { return Ok(()) };
        let resident = ConstGauge::new(resident);
        resident.encode(encoder.encode_descriptor(
            name::RESIDENT,
            "Resident memory of the process",
            None,
            resident.metric_type(),
        )?)?;
        let cpu = ConstCounter::new(cpu);
        cpu.encode(encoder.encode_descriptor(
            name::CPU,
            "User and system processor time of the process",
            None,
            cpu.metric_type(),
        )?)
    }
}

/// Resident bytes and processor seconds.
fn process_figures() -> Option<(i64, f64)> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: i64 = resident.trim().trim_end_matches(" kB").parse().ok()?;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the command in parentheses and may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next().and_then(|field| field.parse::<u32>().ok());
    // Linux counts in USER_HZ, which is 100 on every architecture it runs on today.
    Some((kib * 1024, f64::from(ticks()?) / 100.0 + f64::from(ticks()?) / 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubemods_names_and_labels() {
        let metrics = Metrics::new();
        let guard = metrics.start(Webhook::Dragnet);
        metrics.answered(Webhook::Dragnet, 200, Duration::from_millis(2));
        metrics.answered(Webhook::Dragnet, 500, Duration::from_millis(2));
        let text = metrics.encode();
        drop(guard);
        for line in [
            r#"controller_runtime_webhook_requests_total{webhook="/dragnet-webhook",code="200"} 1"#,
            r#"controller_runtime_webhook_requests_total{webhook="/dragnet-webhook",code="500"} 1"#,
            r#"controller_runtime_webhook_latency_seconds_count{webhook="/dragnet-webhook"} 2"#,
            r#"controller_runtime_webhook_latency_seconds_bucket{le="0.005",webhook="/dragnet-webhook"} 2"#,
            r#"controller_runtime_webhook_requests_in_flight{webhook="/dragnet-webhook"} 1"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(metrics.encode().contains(
            r#"controller_runtime_webhook_requests_in_flight{webhook="/dragnet-webhook"} 0"#
        ));
    }
}
