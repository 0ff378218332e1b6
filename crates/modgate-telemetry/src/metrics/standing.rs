//! The end of the served certificate, and leadership: read when they are scraped, because both change
//! without an event.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{MetricType::Gauge as GAUGE, gauge::ConstGauge},
};

use super::catalog::{Catalog, Descriptor, MetricType, Origin};

const CERTIFICATE: Descriptor = Descriptor {
    name: "modgate_certificate_not_after_seconds",
    kind: MetricType::Gauge,
    labels: &[],
    help: "When the certificate that the webhooks serve expires, in Unix seconds; absent while there \
           is none",
    origin: Origin::Modgate,
};
const LEADER: Descriptor = Descriptor {
    name: "modgate_leader",
    kind: MetricType::Gauge,
    labels: &[],
    help: "Whether this process holds the Lease, 0 or 1; absent where it takes part in no election",
    origin: Origin::Modgate,
};

type Figure = Arc<dyn Fn() -> Option<i64> + Send + Sync>;

/// Where the figures come from, once those who know them exist.
#[derive(Clone, Default)]
pub(super) struct StandingMetrics {
    certificate: Arc<OnceLock<Figure>>,
    leader: Arc<OnceLock<Figure>>,
}

impl StandingMetrics {
    pub(super) fn register(catalog: &mut Catalog) -> Self {
        let metrics = Self::default();
        catalog.registry.register_collector(Box::new(metrics.clone()));
        catalog.describe(&[&CERTIFICATE, &LEADER]);
        metrics
    }

    pub(super) fn certificate(&self, ends: impl Fn() -> Option<i64> + Send + Sync + 'static) {
        // A process serves one certificate.
        let _ = self.certificate.set(Arc::new(ends));
    }

    pub(super) fn leader(&self, leads: impl Fn() -> bool + Send + Sync + 'static) {
        // A process takes part in one election.
        let _ = self.leader.set(Arc::new(move || Some(leads().into())));
    }
}

impl Collector for StandingMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (descriptor, figure) in [(&CERTIFICATE, &self.certificate), (&LEADER, &self.leader)] {
            let Some(figure) = figure.get().and_then(|figure| figure()) else { continue };
            let encoder =
                encoder.encode_descriptor(descriptor.name, descriptor.help, None, GAUGE)?;
            ConstGauge::new(figure).encode(encoder)?;
        }
        Ok(())
    }
}

impl fmt::Debug for StandingMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StandingMetrics").finish_non_exhaustive()
    }
}
