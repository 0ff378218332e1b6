//! Webhook configurations.

use super::About;
use crate::{
    installation::{CONFIGURATIONS, Original, is_modgates, operations, resources},
    object::text,
};

/// Findings about a webhook configuration of an original.
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
        if name == "dragnet.kubemod.io" {
            about.say(
                "KM-5.4",
                format!("webhooks[{index}]"),
                "Reject rules are evaluated again in the validating phase, after all mutating webhooks; \
                 what they refuse there is warned about unless `--late-rejections` is `deny` or \
                 `off`",
            );
            let asked: Vec<&str> = resources(webhook).collect();
            let containers = ["pods/ephemeralcontainers", "pods/resize"];
            let all = asked.iter().any(|it| matches!(*it, "*/*" | "pods/*"));
            if !all
                && asked.iter().any(|it| matches!(*it, "pods" | "*"))
                && containers.iter().any(|it| !asked.contains(it))
            {
                about.say(
                    "KM-7.1 subresources",
                    format!("webhooks[{index}].rules"),
                    "ModRules about containers are not asked when a container is added to a running \
                     Pod or changes its size: add `pods/ephemeralcontainers` and `pods/resize` to \
                     the value `kubemod.dragnet.resources`",
                );
            }
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
