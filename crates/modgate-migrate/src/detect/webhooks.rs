//! Webhook configurations.

use super::About;
use crate::{
    installation::{CONFIGURATIONS, Original, is_modgates, operations},
    object::text,
};

/// What a webhook configuration of an original shows.
pub(super) fn configuration(about: &mut About<'_>) {
    let found = about.found;
    let known = CONFIGURATIONS
        .into_iter()
        .find(|(kind, name, _)| found.kind() == *kind && found.name() == *name);
    let Some((.., original)) = known.filter(|_| !is_modgates(found)) else { return };
    for (index, webhook) in found.list(&["webhooks"]).iter().enumerate() {
        let name = text(webhook, &["name"]);
        if name == "podbinding.kubemod.io" && text(webhook, &["failurePolicy"]) == "Fail" {
            about.say(
                "Q-37",
                format!("webhooks[{index}].failurePolicy"),
                "the webhook for pods being bound never denies, so its `failurePolicy` is \
                 `Ignore`; with KubeMod's `Fail` no pod is scheduled while it is down",
            );
        }
        if original == Original::Gatekeeper
            && name == "validation.gatekeeper.sh"
            && operations(webhook).any(|operation| operation == "DELETE" || operation == "*")
        {
            about.say(
                "GK-Q-22",
                format!("webhooks[{index}].rules"),
                "the deletion of a policy is never refused; Gatekeeper refuses that of one that is \
                 not valid",
            );
        }
    }
}
