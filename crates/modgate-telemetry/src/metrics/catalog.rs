//! The description of each metric, in one place: nothing can be registered that is not described here.

use std::fmt::Write as _;

use prometheus_client::registry::{Metric, Registry};

/// The type of a metric, in Prometheus' terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricType {
    /// Only grows, until the process ends or its subject is deleted.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts of observations up to each bound.
    Histogram,
}

impl MetricType {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// The project that a metric's name comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Gatekeeper's (spec `gatekeeper-validation`, 9.7).
    Gatekeeper,
    /// KubeMod's, from controller-runtime and client-go (spec `kubemod.md`, 7.7).
    KubeMod,
    /// The metrics that Prometheus expects of every process.
    Process,
    /// Our own.
    Modgate,
}

impl Origin {
    const ALL: [Self; 4] = [Self::Gatekeeper, Self::KubeMod, Self::Modgate, Self::Process];

    fn title(self) -> &'static str {
        match self {
            Self::Gatekeeper => "Gatekeeper's",
            Self::KubeMod => "KubeMod's",
            Self::Process => "Of the process",
            Self::Modgate => "modgate's own",
        }
    }
}

/// A label of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// The values it can have, or what they are.
    pub values: &'static str,
}

/// A metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Descriptor {
    /// As in the text that is scraped, `_total` of counters included.
    pub name: &'static str,
    /// Its name.
    pub kind: MetricType,
    /// Its labels.
    pub labels: &'static [Label],
    /// Its help, one sentence without a full stop.
    pub help: &'static str,
    /// The project that its name comes from.
    pub origin: Origin,
}

impl Descriptor {
    /// The name that the text format's `# HELP` and `# TYPE` lines use.
    pub(crate) fn family(&self) -> &'static str {
        match self.kind {
            MetricType::Counter => self.name.strip_suffix("_total").unwrap_or(self.name),
            MetricType::Gauge | MetricType::Histogram => self.name,
        }
    }
}

/// A [`Registry`] that knows what is in it.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    pub(super) registry: Registry,
    pub(super) metrics: Vec<&'static Descriptor>,
}

impl Catalog {
    /// Registers `metric`, and returns it.
    pub(super) fn with<M: Metric + Clone>(
        &mut self,
        descriptor: &'static Descriptor,
        metric: M,
    ) -> M {
        self.registry.register(descriptor.family(), descriptor.help, metric.clone());
        self.metrics.push(descriptor);
        metric
    }

    /// Describes metrics that a collector makes.
    pub(super) fn describe(&mut self, descriptors: &[&'static Descriptor]) {
        self.metrics.extend(descriptors);
    }

    /// The page of the documentation.
    pub(super) fn markdown(&self) -> String {
        let mut out = String::from(
            "# Metrics\n\n\
             Written by `cargo xtask codegen` from what the process registers; do not edit.\n\n\
             Served on `/metrics` of the HTTPS port, and over plain HTTP on `--prometheus-port` and \
             `--operator-metrics-addr`: in Prometheus' text format 0.0.4, as the originals have it, or \
             as OpenMetrics 1.0.0 to clients that prefer that in `Accept`, as Prometheus does. Names, \
             types and labels of Gatekeeper and KubeMod are as theirs, so that dashboards and alerts \
             go on working; what differs, and Go's own `go_*`, is in \
             [compatibility.md](compatibility.md).\n",
        );
        for origin in Origin::ALL {
            let _ = write!(
                out,
                "\n## {}\n\n| Metric | Type | Labels | What it says |\n| --- | --- | --- | --- |\n",
                origin.title()
            );
            let mut rows: Vec<_> =
                self.metrics.iter().filter(|metric| metric.origin == origin).collect();
            rows.sort_by_key(|metric| metric.name);
            for Descriptor { name, kind, labels, help, .. } in rows {
                let kind = kind.as_str();
                let labels: Vec<String> = labels
                    .iter()
                    .map(|Label { name, values }| format!("`{name}`: {values}"))
                    .collect();
                let _ = writeln!(out, "| `{name}` | {kind} | {} | {help} |", labels.join("; "));
            }
        }
        out
    }
}
