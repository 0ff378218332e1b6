//! Metrics of what is synced.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, SystemTime},
};

use modgate_engine::constraint::Inventory;
use modgate_telemetry::metrics::SyncMetrics;

use super::sync::SyncedInventory;

/// Kinds that objects were reported of. The metric knows names of kinds only, so that those of the
/// same name are counted together (Q-33).
#[derive(Debug, Default)]
pub(super) struct SyncedCounts {
    reported: BTreeSet<String>,
}

impl SyncedCounts {
    /// Reports an inventory that was made just now.
    pub(super) fn report(
        &mut self,
        sync: &SyncedInventory,
        inventory: &Inventory,
        took: Duration,
        metrics: &SyncMetrics,
    ) {
        let active = inventory.counts_by_name();
        let mut error: BTreeMap<&str, usize> = BTreeMap::new();
        for (kind, synced) in sync.kinds() {
            *error.entry(&kind.kind).or_default() += synced.unreadable.len();
        }
        for (kind, error) in &error {
            metrics.objects(kind, active.get(kind).copied().unwrap_or_default(), *error);
        }
        let now: BTreeSet<String> = error.keys().map(|kind| (*kind).to_owned()).collect();
        self.reported.difference(&now).for_each(|kind| metrics.forget(kind));
        self.reported = now;
        metrics.ran(SystemTime::now(), took);
    }
}

#[cfg(test)]
mod tests {
    use modgate_engine::api::meta::GroupVersionKind;
    use modgate_value::yaml;

    use super::*;
    use modgate_telemetry::metrics::Metrics;

    #[test]
    fn kinds_of_one_name_are_counted_together() {
        let gvk = |group: &str, kind: &str| GroupVersionKind {
            group: group.into(),
            version: "v1".into(),
            kind: kind.into(),
        };
        let (mut sync, mut inventory) = (SyncedInventory::default(), Inventory::default());
        for (version, namespace) in [("v1", "a"), ("v1", "b"), ("x.test/v1", "a")] {
            let text = format!(
                "{{apiVersion: {version}, kind: Event, metadata: {{name: e, namespace: {namespace}}}}}"
            );
            inventory.insert(yaml::value(&text).expect("object")).expect("inserted");
        }
        let metrics = Metrics::new();
        let mut counts = SyncedCounts::default();
        let mut lines = |sync: &SyncedInventory, inventory: &Inventory| -> Vec<String> {
            counts.report(sync, inventory, Duration::from_millis(1), metrics.sync());
            let text = metrics.encode();
            let lines = text.lines().filter(|line| line.starts_with("gatekeeper_sync{"));
            let mut lines: Vec<_> = lines.map(str::to_owned).collect();
            lines.sort();
            lines
        };
        sync.want(&[gvk("", "Event"), gvk("x.test", "Event"), gvk("", "Pod")].into());
        assert_eq!(
            lines(&sync, &inventory),
            [
                r#"gatekeeper_sync{kind="Event",status="active"} 3"#,
                r#"gatekeeper_sync{kind="Event",status="error"} 0"#,
                r#"gatekeeper_sync{kind="Pod",status="active"} 0"#,
                r#"gatekeeper_sync{kind="Pod",status="error"} 0"#,
            ]
        );
        sync.want(&BTreeSet::new());
        assert_eq!(lines(&sync, &Inventory::default()), [""; 0]);
    }
}
