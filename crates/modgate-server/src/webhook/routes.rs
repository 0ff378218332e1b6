//! The table of admission webhooks: the stages each runs, and the form of its answers.

use modgate_cluster::{Operation, Operations};
use modgate_engine::Stages;
use modgate_telemetry::metrics::Webhook;

/// What a webhook does.
pub(super) struct Route {
    /// Served where this operation is assigned; `None` where any webhook is (SV-1). KubeMod's
    /// webhooks patch and reject in one, so either operation will do.
    operation: Option<Operation>,
    /// What it does.
    pub(super) task: Task,
    /// Whose words it answers in.
    pub(super) words: Words,
}

/// What a webhook does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// It runs these stages.
    Decide(Stages),
    /// It runs the stages of both originals where it stands for both, else those of ModRules.
    DecideUnified,
    /// It says which namespaces may carry Gatekeeper's label.
    CheckLabel,
    /// It fills in defaults of a ModRule.
    DefaultModRule,
    /// It checks a ModRule.
    ValidateModRule,
    /// It writes a Pod that is about to be bound. That is a request of its own to this process, so it
    /// is done outside of the turns in which requests are evaluated.
    BindPod,
}

/// Where an answer has its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Words {
    /// KubeMod puts it where Kubernetes has a keyword (spec `kubemod.md`, 5.6).
    KubeMod,
    /// Gatekeeper has one for requests that it allows, too.
    Gatekeeper,
    /// A request that is allowed needs none.
    Own,
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
    };
    Route { operation, task, words }
}

pub(super) fn is_served(webhook: Webhook, operations: &Operations) -> bool {
    match route(webhook).operation {
        Some(operation) => operations.has(operation),
        None => operations.serve(),
    }
}
