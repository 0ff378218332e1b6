//! Reports policies that keep exhausting their budgets.

use std::{collections::BTreeSet, time::Duration};

use modgate_cluster::reports::{DEMOTED, Reports};
use modgate_engine::PolicyId;
use modgate_policies::PolicyHandle;
use modgate_telemetry::metrics::name_of;

/// Interval between checks.
const INTERVAL: Duration = Duration::from_secs(1);

/// Logs and reports in statuses which policies are demoted and which no longer are, until the
/// process ends.
pub(crate) async fn announce(current: &PolicyHandle, statuses: Option<&Reports>) {
    let mut known = BTreeSet::new();
    loop {
        tokio::time::sleep(INTERVAL).await;
        let Some(policies) = current.load() else { continue };
        let demoted: BTreeSet<_> = policies.snapshot.demoted().collect();
        changes(&known, &demoted);
        if let Some(statuses) = statuses {
            statuses.demoted(&demoted);
        }
        known = demoted;
    }
}

fn changes(before: &BTreeSet<PolicyId>, after: &BTreeSet<PolicyId>) {
    for policy in after.difference(before) {
        tracing::warn!(
            target: "webhook",
            kind = policy.kind.as_str(),
            name = name_of(policy),
            "{DEMOTED}"
        );
    }
    for policy in before.difference(after) {
        tracing::info!(
            target: "webhook",
            kind = policy.kind.as_str(),
            name = name_of(policy),
            "policy gets all of its time again"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use modgate_telemetry::capture;

    #[test]
    fn a_demoted_policy_is_named_once_and_when_it_is_over() {
        let policy = |name: &str| PolicyId {
            group: "api.kubemod.io".into(),
            kind: "ModRule".into(),
            namespace: "tenant".into(),
            name: name.into(),
        };
        let (none, one, both) = (
            BTreeSet::new(),
            BTreeSet::from([policy("a")]),
            BTreeSet::from([policy("a"), policy("b")]),
        );
        let named = |text: &str, name: &str| text.contains(&format!("\"name\":\"tenant/{name}\""));
        let text = capture(|| changes(&none, &one));
        assert!(named(&text, "a") && text.contains("keeps using up its time"), "{text}");
        let text = capture(|| changes(&one, &both));
        assert!(!named(&text, "a") && named(&text, "b"), "{text}");
        let text = capture(|| changes(&both, &one));
        assert!(named(&text, "b") && text.contains("all of its time again"), "{text}");
        assert_eq!(capture(|| changes(&both, &both)), "");
    }
}
