//! The requests that each policy denied, warned about, or only reported.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use modgate_engine::{
    Decision, Snapshot,
    admissionpolicy::ValidationAction,
    api::{constraints::EnforcementAction, modrule},
};
use modgate_value::Str;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{MetricType::Counter as COUNTER, counter::ConstCounter},
};

use super::{
    catalog::{Catalog, Descriptor, Label, MetricType, Origin},
    cost::{SHOWN, name_of},
};

const DECISIONS: Descriptor = Descriptor {
    name: "modgate_policy_decisions_total",
    kind: MetricType::Counter,
    labels: &[
        Label { name: "kind", values: "the kind of the policy" },
        Label {
            name: "name",
            values: "its name; of a ModRule `namespace/name`; `(others)` beyond 500 policies",
        },
        Label { name: "result", values: "`denied`, `warned`, `reported`" },
    ],
    help: "Requests that a policy denied, warned about, or reported without an effect for the user \
           (`dryrun`, `Audit`); a request counts once for each policy and result",
    origin: Origin::Modgate,
};

/// The name under which policies beyond the first 500 are counted.
const OTHERS: &str = "(others)";

/// The effect of a policy on a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Effect {
    Denied,
    Warned,
    Reported,
}

impl Effect {
    fn as_str(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::Warned => "warned",
            Self::Reported => "reported",
        }
    }
}

/// Kind and name of a policy, and its effect.
type Key = (Str, Str, Effect);

/// Counts by policy. Requests without a finding, which are nearly all, do not touch it.
#[derive(Debug, Clone, Default)]
pub(super) struct FindingMetrics(Arc<Mutex<BTreeMap<Key, u64>>>);

impl FindingMetrics {
    pub(super) fn register(catalog: &mut Catalog) -> Self {
        let metrics = Self::default();
        catalog.registry.register_collector(Box::new(metrics.clone()));
        catalog.describe(&[&DECISIONS]);
        metrics
    }

    /// Policies that are gone take their series with them.
    pub(super) fn of(&self, snapshot: &Snapshot) {
        let mut counts = self.counts();
        if counts.is_empty() {
            return;
        }
        let known: BTreeSet<_> = snapshot
            .policies()
            .map(|policy| (policy.kind.clone(), Str::from(name_of(&policy))))
            .collect();
        counts.retain(|(kind, name, _), _| {
            &**name == OTHERS || known.contains(&(kind.clone(), name.clone()))
        });
    }

    pub(super) fn decided(&self, decision: &Decision) {
        let effects = effects(decision);
        if effects.is_empty() {
            return;
        }
        let mut counts = self.counts();
        for (kind, name, effect) in effects {
            let key = (kind, name, effect);
            if let Some(count) = counts.get_mut(&key) {
                *count += 1;
                continue;
            }
            let (kind, name, effect) = key;
            let name = if counts.len() < SHOWN { name } else { OTHERS.into() };
            *counts.entry((kind, name, effect)).or_default() += 1;
        }
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<Key, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The effects of policies on a request, each once.
fn effects(decision: &Decision) -> BTreeSet<Key> {
    let mut effects = BTreeSet::new();
    let rejection = if decision.allowed { Effect::Warned } else { Effect::Denied };
    for rejected in &decision.rejections {
        effects.insert((modrule::KIND.into(), rejected.rule.clone(), rejection));
    }
    for violation in &decision.violations {
        let has = |action| violation.actions.contains(&action);
        let effect = if has(EnforcementAction::Deny) {
            Effect::Denied
        } else if has(EnforcementAction::Warn) {
            Effect::Warned
        } else {
            Effect::Reported
        };
        effects.insert((violation.kind.clone(), violation.constraint.clone(), effect));
    }
    let denials = decision.denials.iter().map(|denial| (denial, Effect::Denied));
    let remarks = decision.remarks.iter().map(|(action, denial)| match action {
        ValidationAction::Warn => (denial, Effect::Warned),
        _ => (denial, Effect::Reported),
    });
    for (denial, effect) in denials.chain(remarks) {
        effects.insert((denial.kind.as_str().into(), denial.policy.clone(), effect));
    }
    effects
}

impl Collector for FindingMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counts = self.counts().clone();
        if counts.is_empty() {
            return Ok(());
        }
        let mut family =
            encoder.encode_descriptor(DECISIONS.family(), DECISIONS.help, None, COUNTER)?;
        for ((kind, name, effect), count) in &counts {
            let labels = [("kind", &**kind), ("name", &**name), ("result", effect.as_str())];
            ConstCounter::new(*count).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
