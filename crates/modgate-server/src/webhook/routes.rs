//! The table of admission webhooks: the stages each runs, and the form of its answers.

use modgate_cluster::{Operation, Operations};
use modgate_engine::Stages;
use modgate_telemetry::metrics::Webhook;

/// The work of a webhook.
pub(super) struct Route {
    /// The operation that serves it; `None` if any operation with a webhook does (SV-1). KubeMod's
    /// webhooks both patch and reject, so either operation serves them.
    operation: Option<Operation>,
    /// Its work.
    pub(super) task: Task,
    /// The original whose texts the answer uses.
    pub(super) words: Words,
}

/// The treatment of a request by a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// It runs these stages.
    Decide(Stages),
    /// It runs the stages of both originals where it stands for both, else those of ModRules.
    DecideUnified,
    /// It checks which Namespaces may carry Gatekeeper's ignore label.
    CheckLabel,
    /// It fills in defaults of a ModRule.
    DefaultModRule,
    /// It checks a ModRule.
    ValidateModRule,
    /// It writes to a Pod that is being bound. The write causes another request to this process, so
    /// it runs without a slot.
    BindPod,
}

/// Which member of an answer has its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Words {
    /// KubeMod's: in `reason`, which Kubernetes reserves for a keyword (spec `kubemod.md`, 5.6).
    KubeMod,
    /// Gatekeeper's: allowed requests have a text, too.
    Gatekeeper,
    /// modgate's own: allowed requests have no text.
    Own,
    /// The API server's about its own policies, with the reason and the audit annotations.
    ApiServer,
}

/// The table of webhooks.
pub(super) const fn route(webhook: Webhook) -> Route {
    use Operation::MutationWebhook;
    use Task::Decide;
    let (operation, task, words) = match webhook {
        Webhook::Dragnet => (None, Decide(Stages::MODRULES), Words::KubeMod),
        Webhook::PodBinding => (None, Task::BindPod, Words::KubeMod),
        Webhook::DefaultModRule => (None, Task::DefaultModRule, Words::Own),
        Webhook::ValidateModRule => (None, Task::ValidateModRule, Words::Own),
        Webhook::Mutate => (Some(MutationWebhook), Task::DecideUnified, Words::Own),
        Webhook::Validate => (Some(Operation::Webhook), Decide(Stages::REJECTIONS), Words::Own),
        Webhook::Admit => {
            (Some(Operation::Webhook), Decide(Stages::CONSTRAINTS), Words::Gatekeeper)
        }
        Webhook::AdmitLabel => (None, Task::CheckLabel, Words::Gatekeeper),
        Webhook::ApplyMutators => {
            (Some(MutationWebhook), Decide(Stages::MUTATORS), Words::Gatekeeper)
        }
        Webhook::MutatingPolicies => {
            (Some(MutationWebhook), Decide(Stages::MUTATING_POLICIES), Words::ApiServer)
        }
        Webhook::ValidatingPolicies => {
            (Some(Operation::Webhook), Decide(Stages::VALIDATING_POLICIES), Words::ApiServer)
        }
    };
    Route { operation, task, words }
}

pub(super) fn is_served(webhook: Webhook, operations: &Operations) -> bool {
    match route(webhook).operation {
        Some(operation) => operations.has(operation),
        None => operations.serve(),
    }
}
