//! Metrics of the webhooks: KubeMod's from controller-runtime, and our own of their decisions.

use std::time::Duration;

use modgate_engine::{Decision, FailureKind, api::modrule};
use prometheus_client::metrics::{
    counter::Counter, family::Family, gauge::Gauge, histogram::Histogram,
};

use super::{
    Labels,
    catalog::{Catalog, Descriptor, Label, MetricType, Origin},
};

/// The admission webhooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Webhook {
    /// KubeMod's webhook for all objects.
    Dragnet,
    /// KubeMod's webhook for pods being bound to nodes.
    PodBinding,
    /// The defaulting webhook for ModRules.
    DefaultModRule,
    /// The validating webhook for ModRules.
    ValidateModRule,
    /// modgate's own mutating webhook.
    Mutate,
    /// modgate's own validating webhook.
    Validate,
    /// Gatekeeper's validating webhook.
    Admit,
    /// Gatekeeper's webhook for the label that exempts namespaces.
    AdmitLabel,
    /// Gatekeeper's mutating webhook.
    ApplyMutators,
    /// modgate's webhook for MutatingAdmissionPolicies.
    MutatingPolicies,
    /// modgate's webhook for ValidatingAdmissionPolicies.
    ValidatingPolicies,
}

impl Webhook {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Dragnet,
        Self::PodBinding,
        Self::DefaultModRule,
        Self::ValidateModRule,
        Self::Mutate,
        Self::Validate,
        Self::Admit,
        Self::AdmitLabel,
        Self::ApplyMutators,
        Self::MutatingPolicies,
        Self::ValidatingPolicies,
    ];

    /// Where it is served; also its name in metrics.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Dragnet => "/dragnet-webhook",
            Self::PodBinding => "/podbinding-webhook",
            Self::DefaultModRule => "/mutate-api-kubemod-io-v1beta1-modrule",
            Self::ValidateModRule => "/validate-api-kubemod-io-v1beta1-modrule",
            Self::Mutate => "/mutate",
            Self::Validate => "/validate",
            Self::Admit => "/v1/admit",
            Self::AdmitLabel => "/v1/admitlabel",
            Self::ApplyMutators => "/v1/mutate",
            Self::MutatingPolicies => "/v1/policies/mutate",
            Self::ValidatingPolicies => "/v1/policies/validate",
        }
    }
}

/// Why modgate itself did not decide a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndecidedCause {
    /// Policies are not loaded yet.
    NoPolicies,
    /// No evaluation slot was free in time.
    NoSlot,
    /// Too many requests wait for an evaluation slot.
    QueueFull,
    /// Request bodies take all the memory they may have.
    BodyMemory,
    /// An object that policies need could not be read from the cluster.
    Lookup,
    /// The evaluation panicked.
    Panic,
}

impl UndecidedCause {
    /// Its name in logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoPolicies => "no_policies",
            Self::NoSlot => "no_slot",
            Self::QueueFull => "queue_full",
            Self::BodyMemory => "body_memory",
            Self::Lookup => "lookup",
            Self::Panic => "panic",
        }
    }
}

const WEBHOOK: Label = Label { name: "webhook", values: "its path" };
const KIND: Label = Label { name: "kind", values: "`ModRule`" };

const REQUESTS: Descriptor = Descriptor {
    name: "controller_runtime_webhook_requests_total",
    kind: MetricType::Counter,
    labels: &[WEBHOOK, Label { name: "code", values: "the HTTP status" }],
    help: "Admission requests by webhook path and HTTP status code",
    origin: Origin::KubeMod,
};
const LATENCY: Descriptor = Descriptor {
    name: "controller_runtime_webhook_latency_seconds",
    kind: MetricType::Histogram,
    labels: &[WEBHOOK],
    help: "Time from the first byte of an admission request to its answer",
    origin: Origin::KubeMod,
};
const IN_FLIGHT: Descriptor = Descriptor {
    name: "controller_runtime_webhook_requests_in_flight",
    kind: MetricType::Gauge,
    labels: &[WEBHOOK],
    help: "Admission requests being served",
    origin: Origin::KubeMod,
};
const DECISIONS: Descriptor = Descriptor {
    name: "modgate_decisions_total",
    kind: MetricType::Counter,
    labels: &[
        WEBHOOK,
        KIND,
        Label { name: "decision", values: "`unchanged`, `patched`, `rejected`, `warned`" },
    ],
    help: "Decisions by webhook path, policy kind and what they came to",
    origin: Origin::Modgate,
};
const EVALUATION: Descriptor = Descriptor {
    name: "modgate_evaluation_seconds",
    kind: MetricType::Histogram,
    labels: &[WEBHOOK],
    help: "Time spent decoding, evaluating and encoding a review",
    origin: Origin::Modgate,
};
const QUEUED: Descriptor = Descriptor {
    name: "modgate_queue_seconds",
    kind: MetricType::Histogram,
    labels: &[WEBHOOK],
    help: "Time reviews waited for an evaluation slot",
    origin: Origin::Modgate,
};
const UNDECIDED: Descriptor = Descriptor {
    name: "modgate_undecided_reviews_total",
    kind: MetricType::Counter,
    labels: &[
        WEBHOOK,
        Label {
            name: "cause",
            values: "`no_policies`, `no_slot`, `queue_full`, `body_memory`, `lookup`, `panic`",
        },
    ],
    help: "Reviews that modgate itself failed to decide, by webhook path and cause",
    origin: Origin::Modgate,
};
const BODIES: Descriptor = Descriptor {
    name: "modgate_request_body_bytes",
    kind: MetricType::Gauge,
    labels: &[],
    help: "Bytes of all request bodies that are being received or evaluated",
    origin: Origin::Modgate,
};
const FAILURES: Descriptor = Descriptor {
    name: "modgate_rule_failures_total",
    kind: MetricType::Counter,
    labels: &[
        KIND,
        Label {
            name: "failure",
            values: "`references`, `calculate_patch`, `apply_patch`, `last_applied`, \
                     `reject_message`, `patch_on_delete`, `budget`, `pod_binding`, `other`",
        },
    ],
    help: "Policies that could not do their work during a review",
    origin: Origin::Modgate,
};

/// Seconds. The first buckets are modgate's, for reviews take microseconds; the others are those of
/// KubeMod's histogram, so that existing queries keep their meaning.
const SECONDS: [f64; 16] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0,
    2.5, 5.0, 10.0,
];

/// Metrics of every webhook; what a review touches is made at start.
#[derive(Debug)]
pub(super) struct WebhooksMetrics {
    requests: Family<[(&'static str, String); 2], Counter>,
    failures: Family<Labels<2>, Counter>,
    undecided: Family<Labels<2>, Counter>,
    bodies: Gauge,
    each: [WebhookMetrics; Webhook::ALL.len()],
}

/// The metrics of one webhook.
#[derive(Debug)]
struct WebhookMetrics {
    ok: Counter,
    latency: Histogram,
    evaluation: Histogram,
    queued: Histogram,
    in_flight: Gauge,
    decisions: [Counter; Decided::ALL.len()],
}

/// The label of a decision, for counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decided {
    Unchanged,
    Patched,
    Rejected,
    /// Admitted although Reject rules refuse it.
    Warned,
}

impl Decided {
    const ALL: [Self; 4] = [Self::Unchanged, Self::Patched, Self::Rejected, Self::Warned];

    fn of(decision: &Decision) -> Self {
        match (decision.allowed, decision.patch.is_empty()) {
            (false, _) => Self::Rejected,
            (true, _) if !decision.rejections.is_empty() => Self::Warned,
            (true, false) => Self::Patched,
            (true, true) => Self::Unchanged,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Unchanged => "unchanged",
            Self::Patched => "patched",
            Self::Rejected => "rejected",
            Self::Warned => "warned",
        }
    }
}

impl WebhooksMetrics {
    pub(super) fn register(catalog: &mut Catalog) -> Self {
        let requests = catalog.with(&REQUESTS, Family::default());
        let times: fn() -> Histogram = || Histogram::new(SECONDS);
        let latency = catalog.with(&LATENCY, Family::new_with_constructor(times));
        let in_flight: Family<Labels<1>, Gauge> = catalog.with(&IN_FLIGHT, Family::default());
        let decisions: Family<Labels<3>, Counter> = catalog.with(&DECISIONS, Family::default());
        let evaluation = catalog.with(&EVALUATION, Family::new_with_constructor(times));
        let queued = catalog.with(&QUEUED, Family::new_with_constructor(times));
        let undecided = catalog.with(&UNDECIDED, Family::default());
        let bodies = catalog.with(&BODIES, Gauge::default());
        let failures = catalog.with(&FAILURES, Family::default());
        let each = Webhook::ALL.map(|webhook| {
            let label = [(WEBHOOK.name, webhook.path())];
            WebhookMetrics {
                ok: requests.get_or_create_owned(&request_labels(webhook, 200)),
                latency: latency.get_or_create_owned(&label),
                evaluation: evaluation.get_or_create_owned(&label),
                queued: queued.get_or_create_owned(&label),
                in_flight: in_flight.get_or_create_owned(&label),
                decisions: Decided::ALL.map(|decided| {
                    decisions.get_or_create_owned(&[
                        (WEBHOOK.name, webhook.path()),
                        (KIND.name, modrule::KIND),
                        ("decision", decided.as_str()),
                    ])
                }),
            }
        });
        Self { requests, failures, undecided, bodies, each }
    }

    pub(super) fn start(&self, webhook: Webhook) -> InFlight<'_> {
        let gauge = self.of(webhook).map(|metrics| &metrics.in_flight);
        if let Some(gauge) = gauge {
            gauge.inc();
        }
        InFlight(gauge)
    }

    pub(super) fn answered(&self, webhook: Webhook, code: u16, took: Duration) {
        let Some(metrics) = self.of(webhook) else { return };
        metrics.latency.observe(took.as_secs_f64());
        if code == 200 {
            metrics.ok.inc();
        } else {
            self.requests.get_or_create(&request_labels(webhook, code)).inc();
        }
    }

    pub(super) fn evaluated(&self, webhook: Webhook, took: Duration) {
        if let Some(metrics) = self.of(webhook) {
            metrics.evaluation.observe(took.as_secs_f64());
        }
    }

    pub(super) fn queued(&self, webhook: Webhook, waited: Duration) {
        if let Some(metrics) = self.of(webhook) {
            metrics.queued.observe(waited.as_secs_f64());
        }
    }

    pub(super) fn undecided(&self, webhook: Webhook, cause: UndecidedCause) {
        let labels = [(WEBHOOK.name, webhook.path()), ("cause", cause.as_str())];
        self.undecided.get_or_create(&labels).inc();
    }

    /// Bytes of bodies, kept by those who receive them.
    pub(super) fn bodies(&self) -> &Gauge {
        &self.bodies
    }

    pub(super) fn decided(&self, webhook: Webhook, decision: &Decision) {
        let Some(metrics) = self.of(webhook) else { return };
        let decided = Decided::of(decision);
        let counters = Decided::ALL.iter().zip(&metrics.decisions);
        if let Some((_, counter)) = counters.into_iter().find(|(of, _)| **of == decided) {
            counter.inc();
        }
        for failure in &decision.failures {
            let labels = [(KIND.name, modrule::KIND), ("failure", failure_label(failure.kind))];
            self.failures.get_or_create(&labels).inc();
        }
    }

    fn of(&self, webhook: Webhook) -> Option<&WebhookMetrics> {
        let position = Webhook::ALL.iter().position(|each| *each == webhook)?;
        self.each.get(position)
    }
}

fn request_labels(webhook: Webhook, code: u16) -> [(&'static str, String); 2] {
    [(WEBHOOK.name, webhook.path().to_owned()), ("code", code.to_string())]
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
#[derive(Debug)]
pub struct InFlight<'a>(Option<&'a Gauge>);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if let Some(gauge) = self.0 {
            gauge.dec();
        }
    }
}
