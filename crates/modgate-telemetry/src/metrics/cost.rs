//! The cost of each policy, so that the expensive one is found.

use std::{
    cell::Cell,
    cmp::Reverse,
    collections::BTreeSet,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use modgate_engine::{
    PolicyId, Snapshot,
    cost::{Cost, PolicyCost},
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{
        MetricType::{Counter as COUNTER, Gauge as GAUGE},
        counter::ConstCounter,
        gauge::ConstGauge,
    },
};

use super::{
    catalog::{Catalog, Descriptor, Label, MetricType, Origin},
    saturated,
};

const POLICY: &[Label] = &[
    Label { name: "kind", values: "the kind of the policy" },
    Label { name: "name", values: "its name; of a ModRule `namespace/name`" },
];

const fn counter(name: &'static str, help: &'static str) -> Descriptor {
    Descriptor { name, kind: MetricType::Counter, labels: POLICY, help, origin: Origin::Modgate }
}

const EVALUATIONS: Descriptor = counter(
    "modgate_policy_evaluations_total",
    "Evaluations of each ModRule, mutator and constraint since its newest version was loaded; of the \
     500 that took most time",
);
const SECONDS: Descriptor =
    counter("modgate_policy_evaluation_seconds_total", "Time that evaluations of a policy took");
const STEPS: Descriptor = counter(
    "modgate_policy_evaluation_steps_total",
    "Steps that evaluations of a policy took, as budgets count them",
);
const BYTES: Descriptor = counter(
    "modgate_policy_evaluation_bytes_total",
    "Bytes that evaluations of a policy built, as budgets count them",
);
const UNLISTED: Descriptor = Descriptor {
    name: "modgate_policies_unlisted",
    kind: MetricType::Gauge,
    labels: &[],
    help: "Policies that were evaluated and are not among the 500 whose cost is shown",
    origin: Origin::Modgate,
};
const DEMOTED: Descriptor = Descriptor {
    name: "modgate_policy_demoted",
    kind: MetricType::Gauge,
    labels: POLICY,
    help: "Whether a policy keeps using up its time and gets a small share of it for now, 0 or 1",
    origin: Origin::Modgate,
};

/// Policies that are shown; there are five series of each.
pub(super) const SHOWN: usize = 500;

/// The counters are in the policies; this knows which policies there are.
#[derive(Debug, Clone, Default)]
pub(super) struct CostMetrics(Arc<Mutex<Option<Snapshot>>>);

impl CostMetrics {
    pub(super) fn register(catalog: &mut Catalog) -> Self {
        let metrics = Self::default();
        catalog.registry.register_collector(Box::new(metrics.clone()));
        catalog.describe(&[&EVALUATIONS, &SECONDS, &STEPS, &BYTES, &UNLISTED, &DEMOTED]);
        metrics
    }

    /// These are the policies from now on.
    pub(super) fn of(&self, snapshot: &Snapshot) {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *current = Some(snapshot.clone());
    }

    fn snapshot(&self) -> Option<Snapshot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn costs(&self) -> Vec<PolicyCost> {
        let snapshot = self.snapshot();
        let costs = snapshot.iter().flat_map(Snapshot::costs);
        costs.filter(|each| each.cost.evaluations > 0).collect()
    }
}

impl Collector for CostMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut costs = self.costs();
        let unlisted = costs.len().saturating_sub(SHOWN);
        costs.sort_by_key(|each| Reverse(each.cost.time));
        costs.truncate(SHOWN);
        costs.sort_by(|a, b| a.policy.cmp(&b.policy));
        write(&mut encoder, &EVALUATIONS, &costs, |cost| cost.evaluations)?;
        write(&mut encoder, &SECONDS, &costs, |cost| cost.time.as_secs_f64())?;
        write(&mut encoder, &STEPS, &costs, |cost| cost.steps)?;
        write(&mut encoder, &BYTES, &costs, |cost| cost.bytes)?;
        let descriptor = encoder.encode_descriptor(UNLISTED.name, UNLISTED.help, None, GAUGE)?;
        ConstGauge::new(saturated(unlisted)).encode(descriptor)?;
        let demoted: BTreeSet<_> = self.snapshot().iter().flat_map(Snapshot::demoted).collect();
        if costs.is_empty() {
            return Ok(());
        }
        let mut family = encoder.encode_descriptor(DEMOTED.name, DEMOTED.help, None, GAUGE)?;
        for PolicyCost { policy, .. } in &costs {
            let labels = [("kind", policy.kind.as_str()), ("name", &name_of(policy))];
            let is_demoted = i64::from(demoted.contains(policy));
            ConstGauge::new(is_demoted).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

fn write<N>(
    encoder: &mut DescriptorEncoder<'_>,
    descriptor: &Descriptor,
    costs: &[PolicyCost],
    figure: impl Fn(&Cost) -> N,
) -> fmt::Result
where
    N: prometheus_client::encoding::EncodeCounterValue,
    ConstCounter<N>: prometheus_client::encoding::EncodeMetric,
{
    if costs.is_empty() {
        return Ok(());
    }
    let mut family =
        encoder.encode_descriptor(descriptor.family(), descriptor.help, None, COUNTER)?;
    for PolicyCost { policy, cost } in costs {
        let labels = [("kind", policy.kind.as_str()), ("name", &name_of(policy))];
        ConstCounter::new(figure(cost)).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

/// A policy as metrics and logs name it.
pub fn name_of(policy: &PolicyId) -> String {
    if policy.namespace.is_empty() {
        policy.name.to_string()
    } else {
        format!("{}/{}", policy.namespace, policy.name)
    }
}

/// A number for this thread, see [`modgate_engine::cost::Meter::shard`].
pub fn shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static SHARD: Cell<Option<usize>> = const { Cell::new(None) };
    }
    SHARD.with(|shard| {
        let number = shard.get().unwrap_or_else(|| NEXT.fetch_add(1, Ordering::Relaxed));
        shard.set(Some(number));
        number
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_have_shards_of_their_own() {
        let mine = shard();
        assert_eq!(shard(), mine);
        assert_ne!(std::thread::spawn(shard).join().expect("a number"), mine);
    }
}
