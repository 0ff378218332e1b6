//! Metrics of other parts of the process: audit, sync, watches, admission policies of the API
//! server, export, events, reconciling.
//!
//! A handle is cheap to clone, and each method is what its owner calls when something happened.

use std::{
    borrow::Cow,
    cmp::Reverse,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use modgate_engine::api::constraints::EnforcementAction;
use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder},
    metrics::{self, counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
};

use super::{
    Labels,
    catalog::{Catalog, Descriptor, Label, MetricType, Origin},
    gatekeeper::{ACTIONS, STATUS, UNRECOGNIZED},
    saturated,
};

/// Whether something works, as Gatekeeper's label `status` says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// `active`
    Active,
    /// `error`
    Error,
}

impl Health {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Active, Self::Error];

    /// The label's value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Error => "error",
        }
    }

    /// [`Health::Active`] if `good`.
    pub const fn of(good: bool) -> Self {
        if good { Self::Active } else { Self::Error }
    }
}

const fn gatekeepers(
    name: &'static str,
    kind: MetricType,
    labels: &'static [Label],
    help: &'static str,
) -> Descriptor {
    Descriptor { name, kind, labels, help, origin: Origin::Gatekeeper }
}

const VIOLATIONS: Descriptor = gatekeepers(
    "gatekeeper_violations",
    MetricType::Gauge,
    &[ACTIONS],
    "Violations the last audit found, by enforcement action; absent before the first audit",
);
const NAMESPACES: Descriptor = Descriptor {
    name: "modgate_violations",
    kind: MetricType::Gauge,
    labels: &[Label {
        // Prometheus puts the namespace of the Pod that it scrapes into `namespace`.
        name: "object_namespace",
        values: "the namespace; `(cluster-scoped)` for objects without one; `(others)` beyond the 200 \
                 namespaces with most violations",
    }],
    help: "Violations the last audit found, of policies of every kind, by namespace; absent before the \
           first audit",
    origin: Origin::Modgate,
};
/// Namespaces with a series of their own.
const MAX_NAMESPACES: usize = 200;
const AUDIT_DURATION: Descriptor = gatekeepers(
    "gatekeeper_audit_duration_seconds",
    MetricType::Histogram,
    &[],
    "Time an audit took",
);
const AUDIT_STARTED: Descriptor = gatekeepers(
    "gatekeeper_audit_last_run_time",
    MetricType::Gauge,
    &[],
    "When the last audit began, in Unix seconds; absent before the first audit",
);
const AUDIT_ENDED: Descriptor = gatekeepers(
    "gatekeeper_audit_last_run_end_time",
    MetricType::Gauge,
    &[],
    "When the last audit ended, in Unix seconds; absent before the first audit",
);

const AUDIT_SECONDS: [f64; 10] =
    [60.0, 180.0, 300.0, 600.0, 900.0, 1200.0, 2400.0, 4800.0, 9600.0, 19200.0];

/// Metrics of audits.
#[derive(Debug, Clone)]
pub struct AuditMetrics {
    violations: Family<Labels<1>, Gauge>,
    namespaces: Family<[(&'static str, String); 1], Gauge>,
    duration: Histogram,
    started: Moment,
    ended: Moment,
}

impl AuditMetrics {
    pub(super) fn register(catalog: &mut Catalog) -> Self {
        Self {
            violations: catalog.with(&VIOLATIONS, Family::default()),
            namespaces: catalog.with(&NAMESPACES, Family::default()),
            duration: catalog.with(&AUDIT_DURATION, Histogram::new(AUDIT_SECONDS)),
            started: catalog.with(&AUDIT_STARTED, Moment::default()),
            ended: catalog.with(&AUDIT_ENDED, Moment::default()),
        }
    }

    /// An audit begins.
    pub fn started(&self, at: SystemTime) {
        self.started.set(at);
    }

    /// Another process audits: there are no figures of audits until this one does again.
    pub fn forget(&self) {
        self.violations.clear();
        self.namespaces.clear();
        self.started.forget();
        self.ended.forget();
    }

    /// An audit came to its end. `violations` are all it found, by the action of their constraint as
    /// written (`deny`, `dryrun`, `warn`, `scoped`); what it names none of is counted as none, an
    /// unknown one as `unrecognized`.
    pub fn finished<'a>(
        &self,
        at: SystemTime,
        took: Duration,
        violations: impl IntoIterator<Item = (&'a str, u64)>,
    ) {
        self.ended.set(at);
        self.duration.observe(took.as_secs_f64());
        let known = EnforcementAction::ALL.map(EnforcementAction::as_str);
        let mut counts = [0_u64; EnforcementAction::ALL.len()];
        let mut unrecognized = 0_u64;
        for (action, count) in violations {
            let position = known.iter().position(|each| *each == action);
            let slot = position.and_then(|index| counts.get_mut(index));
            *slot.unwrap_or(&mut unrecognized) += count;
        }
        let all = known.into_iter().zip(counts).chain([(UNRECOGNIZED, unrecognized)]);
        for (action, count) in all {
            self.violations.get_or_create(&[(ACTIONS.name, action)]).set(saturated(count));
        }
    }
}

impl AuditMetrics {
    /// The violations of the last audit by namespace; `""` stands for cluster-scoped objects.
    pub fn by_namespace<'a>(&self, violations: impl IntoIterator<Item = (&'a str, u64)>) {
        let mut violations: Vec<_> = violations.into_iter().collect();
        violations.sort_by_key(|(namespace, count)| (Reverse(*count), *namespace));
        let others: u64 = violations.iter().skip(MAX_NAMESPACES).map(|(_, count)| count).sum();
        violations.truncate(MAX_NAMESPACES);
        if others > 0 {
            violations.push(("(others)", others));
        }
        self.namespaces.clear();
        for (namespace, count) in violations {
            let namespace = if namespace.is_empty() { "(cluster-scoped)" } else { namespace };
            let labels = [("object_namespace", namespace.to_owned())];
            self.namespaces.get_or_create(&labels).set(saturated(count));
        }
    }
}

const KIND: Label = Label { name: "kind", values: "the kind, without group and version" };
const SYNC: Descriptor = gatekeepers(
    "gatekeeper_sync",
    MetricType::Gauge,
    &[KIND, STATUS],
    "Objects kept for policies to see as `data.inventory`",
);
const SYNC_DURATION: Descriptor = gatekeepers(
    "gatekeeper_sync_duration_seconds",
    MetricType::Histogram,
    &[],
    "Time to take in a change of a kept object",
);
const SYNC_LAST_RUN: Descriptor = gatekeepers(
    "gatekeeper_sync_last_run_time_seconds",
    MetricType::Gauge,
    &[],
    "When a kept object last changed, in Unix seconds; absent before the first",
);

const SYNC_SECONDS: [f64; 19] = [
    0.0001, 0.0002, 0.0003, 0.0004, 0.0005, 0.0006, 0.0007, 0.0008, 0.0009, 0.001, 0.002, 0.003,
    0.004, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05,
];

/// Metrics of the inventory.
#[derive(Debug, Clone)]
pub struct SyncMetrics {
    objects: Family<[(&'static str, Cow<'static, str>); 2], Gauge>,
    duration: Histogram,
    last_run: Moment,
}

impl SyncMetrics {
    pub(super) fn register(catalog: &mut Catalog) -> Self {
        Self {
            objects: catalog.with(&SYNC, Family::default()),
            duration: catalog.with(&SYNC_DURATION, Histogram::new(SYNC_SECONDS)),
            last_run: catalog.with(&SYNC_LAST_RUN, Moment::default()),
        }
    }

    /// How many objects of a kind are kept, and how many could not be read. Kinds of the same name
    /// in several groups are one to the metric: pass their sum.
    pub fn objects(&self, kind: &str, active: usize, error: usize) {
        for (status, count) in [(Health::Active, active), (Health::Error, error)] {
            self.objects.get_or_create(&labels(kind, status)).set(saturated(count));
        }
    }

    /// A kind is not kept any more.
    pub fn forget(&self, kind: &str) {
        for status in Health::ALL {
            self.objects.remove(&labels(kind, status));
        }
    }

    /// A change was taken in.
    pub fn ran(&self, at: SystemTime, took: Duration) {
        self.duration.observe(took.as_secs_f64());
        self.last_run.set(at);
    }
}

fn labels(kind: &str, status: Health) -> [(&'static str, Cow<'static, str>); 2] {
    [(KIND.name, Cow::Owned(kind.to_owned())), (STATUS.name, Cow::Borrowed(status.as_str()))]
}

const WATCHED: Descriptor = gatekeepers(
    "gatekeeper_watch_manager_watched_gvk",
    MetricType::Gauge,
    &[],
    "Kinds being watched",
);
const INTENDED: Descriptor = gatekeepers(
    "gatekeeper_watch_manager_intended_watch_gvk",
    MetricType::Gauge,
    &[],
    "Kinds that should be watched, served or not",
);

/// Metrics of the watches.
#[derive(Debug, Clone)]
pub struct WatchMetrics {
    watched: Gauge,
    intended: Gauge,
}

impl WatchMetrics {
    pub(super) fn register(catalog: &mut Catalog) -> Self {
        Self {
            watched: catalog.with(&WATCHED, Gauge::default()),
            intended: catalog.with(&INTENDED, Gauge::default()),
        }
    }

    /// How many kinds are watched.
    pub fn watched(&self, kinds: usize) {
        self.watched.set(saturated(kinds));
    }

    /// How many kinds there is a reason to watch.
    pub fn intended(&self, kinds: usize) {
        self.intended.set(saturated(kinds));
    }
}

const VAPS: Descriptor = gatekeepers(
    "gatekeeper_validating_admission_policies",
    MetricType::Gauge,
    &[STATUS],
    "ValidatingAdmissionPolicies made of templates",
);
const VAP_BINDINGS: Descriptor = gatekeepers(
    "gatekeeper_validating_admission_policy_bindings",
    MetricType::Gauge,
    &[STATUS],
    "ValidatingAdmissionPolicyBindings made of constraints",
);

/// Metrics of generated ValidatingAdmissionPolicies.
#[derive(Debug, Clone)]
pub struct AdmissionPolicyMetrics {
    policies: Family<Labels<1>, Gauge>,
    bindings: Family<Labels<1>, Gauge>,
}

impl AdmissionPolicyMetrics {
    pub(super) fn register(catalog: &mut Catalog) -> Self {
        let metrics = Self {
            policies: catalog.with(&VAPS, Family::default()),
            bindings: catalog.with(&VAP_BINDINGS, Family::default()),
        };
        metrics.policies(0, 0);
        metrics.bindings(0, 0);
        metrics
    }

    /// How many policies there are, and how many could not be made.
    pub fn policies(&self, active: usize, error: usize) {
        set_by_health(&self.policies, active, error);
    }

    /// How many bindings there are, and how many could not be made.
    pub fn bindings(&self, active: usize, error: usize) {
        set_by_health(&self.bindings, active, error);
    }
}

/// Sets both series of a family by status.
pub(super) fn set_by_health(family: &Family<Labels<1>, Gauge>, active: usize, error: usize) {
    for (status, count) in [(Health::Active, active), (Health::Error, error)] {
        family.get_or_create(&[(STATUS.name, status.as_str())]).set(saturated(count));
    }
}

const QUEUED: Descriptor = gatekeepers(
    "gatekeeper_admission_export_queued_count_total",
    MetricType::Counter,
    &[],
    "Violations of requests that were queued for export",
);
const QUEUE_FULL: Descriptor = gatekeepers(
    "gatekeeper_admission_export_queue_full_count_total",
    MetricType::Counter,
    &[],
    "Violations of requests that found the queue full",
);
const PUBLISHED: Descriptor = gatekeepers(
    "gatekeeper_admission_export_published_count_total",
    MetricType::Counter,
    &[],
    "Violations of requests that were exported",
);
const PUBLISH_ERRORS: Descriptor = gatekeepers(
    "gatekeeper_admission_export_publish_error_count_total",
    MetricType::Counter,
    &[],
    "Violations of requests whose export failed",
);
const DROPPED: Descriptor = gatekeepers(
    "gatekeeper_admission_export_dropped_count_total",
    MetricType::Counter,
    &[Label {
        name: "reason",
        values: "`marshal_error`, `message_too_large`, `queue_bytes_full`, `queue_full`, `shutdown`",
    }],
    "Violations of requests that were never exported",
);
const QUEUE_DEPTH: Descriptor = gatekeepers(
    "gatekeeper_admission_export_queue_depth",
    MetricType::Gauge,
    &[],
    "Violations of requests that wait for their export",
);
const QUEUE_BYTES: Descriptor = gatekeepers(
    "gatekeeper_admission_export_queue_bytes",
    MetricType::Gauge,
    &[],
    "Bytes of the violations that wait for their export",
);

const UNPUBLISHED: Descriptor = Descriptor {
    name: "modgate_audit_export_unpublished_total",
    kind: MetricType::Counter,
    labels: &[],
    help: "Violations of audits whose export was given up; the next audit exports what is still there",
    origin: Origin::Modgate,
};

/// Why a violation was never exported (XP-5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// It could not be written as JSON.
    MarshalError,
    /// It is larger than a message may be.
    MessageTooLarge,
    /// The queue holds as many bytes as it may.
    QueueBytesFull,
    /// The queue holds as many messages as it may.
    QueueFull,
    /// The process ended first.
    Shutdown,
}

impl DropReason {
    const ALL: [Self; 5] = [
        Self::MarshalError,
        Self::MessageTooLarge,
        Self::QueueBytesFull,
        Self::QueueFull,
        Self::Shutdown,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            Self::MarshalError => "marshal_error",
            Self::MessageTooLarge => "message_too_large",
            Self::QueueBytesFull => "queue_bytes_full",
            Self::QueueFull => "queue_full",
            Self::Shutdown => "shutdown",
        }
    }
}

/// Metrics of the export of requests' violations.
#[derive(Debug, Clone)]
pub struct ExportMetrics {
    queued: Counter,
    queue_full: Counter,
    published: Counter,
    publish_errors: Counter,
    dropped: Family<Labels<1>, Counter>,
    depth: Gauge,
    bytes: Gauge,
    unpublished: Counter,
}

impl ExportMetrics {
    pub(super) fn register(catalog: &mut Catalog) -> Self {
        let metrics = Self {
            queued: catalog.with(&QUEUED, Counter::default()),
            queue_full: catalog.with(&QUEUE_FULL, Counter::default()),
            published: catalog.with(&PUBLISHED, Counter::default()),
            publish_errors: catalog.with(&PUBLISH_ERRORS, Counter::default()),
            dropped: catalog.with(&DROPPED, Family::default()),
            depth: catalog.with(&QUEUE_DEPTH, Gauge::default()),
            bytes: catalog.with(&QUEUE_BYTES, Gauge::default()),
            unpublished: catalog.with(&UNPUBLISHED, Counter::default()),
        };
        for reason in DropReason::ALL {
            metrics.dropped.get_or_create(&[("reason", reason.as_str())]).inc_by(0);
        }
        metrics
    }

    /// One was queued.
    pub fn queued(&self) {
        self.queued.inc();
    }

    /// So many were exported.
    pub fn published(&self, count: u64) {
        self.published.inc_by(count);
    }

    /// So many could not be exported.
    pub fn failed(&self, count: u64) {
        self.publish_errors.inc_by(count);
    }

    /// So many of an audit were given up.
    pub fn unpublished(&self, count: u64) {
        self.unpublished.inc_by(count);
    }

    /// So many are lost.
    pub fn dropped(&self, reason: DropReason, count: u64) {
        if matches!(reason, DropReason::QueueFull | DropReason::QueueBytesFull) {
            self.queue_full.inc_by(count);
        }
        self.dropped.get_or_create(&[("reason", reason.as_str())]).inc_by(count);
    }

    /// The current length of the queue.
    pub fn waiting(&self, messages: usize, bytes: usize) {
        self.depth.set(saturated(messages));
        self.bytes.set(saturated(bytes));
    }
}

const EVENTS: Descriptor = Descriptor {
    name: "modgate_events_total",
    kind: MetricType::Counter,
    labels: &[Label {
        name: "result",
        values: "`written`, `merged` into one already there, `dropped` for want of room or by the \
                 rate limit, `error`",
    }],
    help: "Kubernetes Events by result",
    origin: Origin::Modgate,
};

/// The result for an Event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventResult {
    /// The API server has it.
    Written,
    /// It is counted in one the API server has or is about to get.
    Merged,
    /// There were too many.
    Dropped,
    /// The API server did not take it.
    Error,
}

impl EventResult {
    const ALL: [Self; 4] = [Self::Written, Self::Merged, Self::Dropped, Self::Error];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Merged => "merged",
            Self::Dropped => "dropped",
            Self::Error => "error",
        }
    }
}

/// Metrics of Events.
#[derive(Debug, Clone)]
pub struct EventMetrics(Family<Labels<1>, Counter>);

impl EventMetrics {
    pub(super) fn register(catalog: &mut Catalog) -> Self {
        let metrics = Self(catalog.with(&EVENTS, Family::default()));
        for result in EventResult::ALL {
            metrics.became(result, 0);
        }
        metrics
    }

    /// Counts Events with a result.
    pub fn became(&self, result: EventResult, count: u64) {
        self.0.get_or_create(&[("result", result.as_str())]).inc_by(count);
    }

    /// How many came to this so far.
    pub fn count(&self, result: EventResult) -> u64 {
        self.0.get_or_create(&[("result", result.as_str())]).get()
    }
}

const CONTROLLER: Label =
    Label { name: "controller", values: "the kind of the policy, such as `modrule`" };
const RECONCILED: Descriptor = Descriptor {
    name: "controller_runtime_reconcile_total",
    kind: MetricType::Counter,
    labels: &[
        CONTROLLER,
        Label { name: "result", values: "`success`, `error`, `requeue`, `requeue_after`" },
    ],
    help: "Objects that were reconciled, by result",
    origin: Origin::KubeMod,
};
const RECONCILE_ERRORS: Descriptor = Descriptor {
    name: "controller_runtime_reconcile_errors_total",
    kind: MetricType::Counter,
    labels: &[CONTROLLER],
    help: "Objects that could not be taken in",
    origin: Origin::KubeMod,
};
const RECONCILE_TIME: Descriptor = Descriptor {
    name: "controller_runtime_reconcile_time_seconds",
    kind: MetricType::Histogram,
    labels: &[CONTROLLER],
    help: "Time to take in an object",
    origin: Origin::KubeMod,
};
const CLIENT_REQUESTS: Descriptor = Descriptor {
    name: "rest_client_requests_total",
    kind: MetricType::Counter,
    labels: &[
        Label { name: "code", values: "the HTTP status, or `<error>`" },
        Label { name: "host", values: "the API server" },
        Label { name: "method", values: "such as `GET`" },
    ],
    help: "Requests to the API server",
    origin: Origin::KubeMod,
};

/// controller-runtime's bounds, in seconds.
const RECONCILE_SECONDS: [f64; 32] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9,
    1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 10.0,
];

/// The result of reconciling an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reconciled {
    /// It is done.
    Success,
    /// It is tried again, for it failed.
    Error,
    /// It is tried again at once.
    Requeue,
    /// It is tried again later.
    RequeueAfter,
}

impl Reconciled {
    const ALL: [Self; 4] = [Self::Success, Self::Error, Self::Requeue, Self::RequeueAfter];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "error",
            Self::Requeue => "requeue",
            Self::RequeueAfter => "requeue_after",
        }
    }
}

/// Metrics of controllers.
#[derive(Debug, Clone)]
pub struct ControllerMetrics {
    total: Family<Labels<2>, Counter>,
    errors: Family<Labels<1>, Counter>,
    time: Family<Labels<1>, Histogram, fn() -> Histogram>,
    requests: Family<ClientLabels, Counter>,
}

type ClientLabels = [(&'static str, Cow<'static, str>); 3];

impl ControllerMetrics {
    pub(super) fn register(catalog: &mut Catalog) -> Self {
        let metrics = Self {
            total: catalog.with(&RECONCILED, Family::default()),
            errors: catalog.with(&RECONCILE_ERRORS, Family::default()),
            time: catalog.with(
                &RECONCILE_TIME,
                Family::new_with_constructor(|| Histogram::new(RECONCILE_SECONDS)),
            ),
            requests: catalog.with(&CLIENT_REQUESTS, Family::default()),
        };
        // KubeMod has exactly one controller.
        for result in Reconciled::ALL {
            metrics.total.get_or_create(&labels_of("modrule", result)).inc_by(0);
        }
        metrics.errors.get_or_create(&[(CONTROLLER.name, "modrule")]).inc_by(0);
        metrics
    }

    /// `controller` took in an object.
    pub fn reconciled(&self, controller: &'static str, result: Reconciled, took: Duration) {
        self.total.get_or_create(&labels_of(controller, result)).inc();
        let label = [(CONTROLLER.name, controller)];
        if result == Reconciled::Error {
            self.errors.get_or_create(&label).inc();
        }
        self.time.get_or_create(&label).observe(took.as_secs_f64());
    }

    /// A request to the API server at `host`, and the status of the answer, if it answered.
    pub fn requested(&self, host: &str, method: &str, code: Option<u16>) {
        let code = code.map_or(Cow::Borrowed("<error>"), |code| Cow::Owned(code.to_string()));
        let labels = [
            ("code", code),
            ("host", Cow::Owned(host.to_owned())),
            ("method", Cow::Owned(method.to_owned())),
        ];
        self.requests.get_or_create(&labels).inc();
    }
}

fn labels_of(controller: &'static str, result: Reconciled) -> Labels<2> {
    [(CONTROLLER.name, controller), ("result", result.as_str())]
}

/// A gauge in Unix seconds that is absent until it is set.
#[derive(Debug, Clone, Default)]
struct Moment(Arc<Mutex<Option<f64>>>);

impl Moment {
    fn set(&self, at: SystemTime) {
        let seconds = at.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        *self.seconds() = Some(seconds);
    }

    fn forget(&self) {
        *self.seconds() = None;
    }

    fn seconds(&self) -> MutexGuard<'_, Option<f64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EncodeMetric for Moment {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let seconds = *self.seconds();
        seconds.map_or(Ok(()), |seconds| encoder.encode_gauge(&seconds))
    }

    fn metric_type(&self) -> metrics::MetricType {
        metrics::MetricType::Gauge
    }
}
