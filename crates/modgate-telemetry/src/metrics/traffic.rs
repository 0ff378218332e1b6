//! Metrics of what happens beside requests.

use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};

use super::{
    Labels,
    catalog::{Catalog, Descriptor, Label, MetricType, Origin},
    saturated,
};

const fn own(
    name: &'static str,
    kind: MetricType,
    labels: &'static [Label],
    help: &'static str,
) -> Descriptor {
    Descriptor { name, kind, labels, help, origin: Origin::Modgate }
}

const RECORDED: Descriptor = own(
    "modgate_record_requests_total",
    MetricType::Counter,
    &[],
    "Requests that were recorded (`--record`)",
);
const LEFT_OUT: Descriptor = own(
    "modgate_record_left_out_total",
    MetricType::Counter,
    &[],
    "Requests that were not recorded because they are not in the sample",
);
const DROPPED: Descriptor = own(
    "modgate_record_dropped_total",
    MetricType::Counter,
    &[Label {
        name: "reason",
        values: "`queue_full`, `behind` if the disk is too slow, `disk` if it is full or fails",
    }],
    "Requests that could not be recorded",
);
const ON_DISK: Descriptor = own(
    "modgate_record_bytes",
    MetricType::Gauge,
    &[],
    "Bytes of the files with recorded requests",
);

/// Why a request was not recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotRecorded {
    /// As much waits to be written as may.
    QueueFull,
    /// The oldest entry was not written in time.
    Behind,
    /// The disk is full, or fails.
    Disk,
}

impl NotRecorded {
    const ALL: [Self; 3] = [Self::QueueFull, Self::Behind, Self::Disk];

    const fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::Behind => "behind",
            Self::Disk => "disk",
        }
    }
}

/// Metrics of records.
#[derive(Debug, Clone)]
pub struct RecordMetrics {
    recorded: Counter,
    left_out: Counter,
    dropped: Family<Labels<1>, Counter>,
    on_disk: Gauge,
}

impl RecordMetrics {
    pub(super) fn register(catalog: &mut Catalog) -> Self {
        let metrics = Self {
            recorded: catalog.with(&RECORDED, Counter::default()),
            left_out: catalog.with(&LEFT_OUT, Counter::default()),
            dropped: catalog.with(&DROPPED, Family::default()),
            on_disk: catalog.with(&ON_DISK, Gauge::default()),
        };
        for reason in NotRecorded::ALL {
            metrics.dropped(reason, 0);
        }
        metrics
    }

    /// So many were written.
    pub fn recorded(&self, count: u64) {
        self.recorded.inc_by(count);
    }

    /// One is not in the sample.
    pub fn left_out(&self) {
        self.left_out.inc();
    }

    /// So many are lost.
    pub fn dropped(&self, reason: NotRecorded, count: u64) {
        self.dropped.get_or_create(&[("reason", reason.as_str())]).inc_by(count);
    }

    /// The bytes of all files.
    pub fn on_disk(&self, bytes: u64) {
        self.on_disk.set(saturated(bytes));
    }
}

const SHADOWED: Descriptor = own(
    "modgate_shadow_requests_total",
    MetricType::Counter,
    &[Label { name: "result", values: "`same`, `differs`, `failed`" }],
    "Requests with a second decision (`--shadow`, `--shadow-url`), by how it compares with the answer",
);
const DIFFERENCES: Descriptor = own(
    "modgate_shadow_differences_total",
    MetricType::Counter,
    &[
        Label { name: "class", values: "`allow-to-deny`, `deny-to-allow`, `messages`, `patches`" },
        Label { name: "webhook", values: "the path of the webhook" },
    ],
    "Differences between answers and second decisions",
);
const NOT_SHADOWED: Descriptor = own(
    "modgate_shadow_dropped_total",
    MetricType::Counter,
    &[Label { name: "reason", values: "`queue_full`, `behind` if the shadow is too slow" }],
    "Requests without a second decision",
);
const CANDIDATES: Descriptor = own(
    "modgate_shadow_policies",
    MetricType::Gauge,
    &[Label { name: "state", values: "`loaded`, `broken`" }],
    "Candidate policies",
);

/// How a second decision compares with the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShadowResult {
    /// Nothing differs.
    Same,
    /// Something does.
    Differs,
    /// There is none.
    Failed,
}

impl ShadowResult {
    const ALL: [Self; 3] = [Self::Same, Self::Differs, Self::Failed];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Differs => "differs",
            Self::Failed => "failed",
        }
    }
}

/// Why a request got no second decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotShadowed {
    /// As many wait as may.
    QueueFull,
    /// It has waited for too long.
    Behind,
}

impl NotShadowed {
    const ALL: [Self; 2] = [Self::QueueFull, Self::Behind];

    const fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::Behind => "behind",
        }
    }
}

/// Metrics of second decisions.
#[derive(Debug, Clone)]
pub struct ShadowMetrics {
    requests: Family<Labels<1>, Counter>,
    differences: Family<Labels<2>, Counter>,
    dropped: Family<Labels<1>, Counter>,
    candidates: Family<Labels<1>, Gauge>,
}

impl ShadowMetrics {
    pub(super) fn register(catalog: &mut Catalog) -> Self {
        let metrics = Self {
            requests: catalog.with(&SHADOWED, Family::default()),
            differences: catalog.with(&DIFFERENCES, Family::default()),
            dropped: catalog.with(&NOT_SHADOWED, Family::default()),
            candidates: catalog.with(&CANDIDATES, Family::default()),
        };
        for result in ShadowResult::ALL {
            metrics.requests.get_or_create(&[("result", result.as_str())]).inc_by(0);
        }
        for reason in NotShadowed::ALL {
            metrics.dropped.get_or_create(&[("reason", reason.as_str())]).inc_by(0);
        }
        metrics
    }

    /// One has a second decision, or none.
    pub fn decided(&self, result: ShadowResult) {
        self.requests.get_or_create(&[("result", result.as_str())]).inc();
    }

    /// A difference of this class; both are texts of the program.
    pub fn differs(&self, class: &'static str, webhook: &'static str) {
        self.differences.get_or_create(&[("class", class), ("webhook", webhook)]).inc();
    }

    /// One gets no second decision.
    pub fn dropped(&self, reason: NotShadowed) {
        self.dropped.get_or_create(&[("reason", reason.as_str())]).inc();
    }

    /// So many candidates are loaded, and so many do not load.
    pub fn candidates(&self, loaded: usize, broken: usize) {
        self.candidates.get_or_create(&[("state", "loaded")]).set(saturated(loaded));
        self.candidates.get_or_create(&[("state", "broken")]).set(saturated(broken));
    }
}
