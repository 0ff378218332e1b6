//! Following policy files while they change.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use modgate_engine::ServedPolicies;
use modgate_policies::{FileWatch, PolicyStore, Refresh};
use modgate_telemetry::metrics::Metrics;
use modgate_value::diag::Diagnostic;

/// The logger of policy files.
const LOGGER: &str = "policies";

/// Follows the files until the process ends. `loaded` receives the store after each change.
pub(super) async fn follow(
    mut store: PolicyStore,
    loaded: impl Fn(&PolicyStore, &Refresh),
    interval: Duration,
    report: Arc<dyn Fn(&Diagnostic) + Send + Sync>,
) {
    let mut watch = FileWatch::every(interval);
    let mut unlistable = BTreeSet::new();
    loop {
        watch.tick().await;
        // Reading files blocks, and a slow disk must not delay reviews.
        let looked = tokio::task::spawn_blocking(move || {
            let refresh = store.refresh();
            (store, refresh)
        });
        let refresh;
        (store, refresh) = match looked.await {
            Ok(looked) => looked,
            Err(error) => {
                tracing::error!(target: LOGGER, %error, "policy files are no longer followed");
                return;
            }
        };
        if !refresh.changed {
            // A folder that cannot be listed changes nothing. Log it once, not every second.
            for finding in refresh.findings {
                if unlistable.insert(finding.to_string()) {
                    report(&finding);
                }
            }
            continue;
        }
        unlistable.clear();
        refresh.findings.iter().for_each(|finding| report(finding));
        loaded(&store, &refresh);
    }
}

/// Counts and logs a reload.
pub(super) fn announce(store: &PolicyStore, metrics: &Metrics, refresh: &Refresh) {
    metrics.compiled(&refresh.compiled);
    let snapshot = &store.policies().snapshot;
    let broken = store.broken_policies();
    metrics.policies_loaded(snapshot, broken, store.broken(), &refresh.findings);
    if snapshot.policies().next().is_none() {
        tracing::warn!(target: LOGGER, "there is no policy in the files: every request is allowed");
    }
    let is_left = |is_modgates: bool| match snapshot.config().admission_policies {
        ServedPolicies::Off => true,
        ServedPolicies::Marked => !is_modgates,
        ServedPolicies::All => false,
    };
    let bindings = snapshot.cluster_policies().bindings();
    let mut left = bindings.filter(|(.., is_modgates)| is_left(*is_modgates));
    if let Some((kind, binding, policy, _)) = left.next() {
        tracing::warn!(target: LOGGER, kind = kind.as_str(), %binding, %policy, more = left.count(),
            "the webhooks do not evaluate this binding: add `.modgate.sh` to its `policyName`, or set \
             `--admission-policies=all`"
        );
    }
}
