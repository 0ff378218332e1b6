//! The admission webhooks: what each is, in one table.

use modgate_engine::Stages;

use crate::operations::{Operation, Operations};

/// The admission webhooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Webhook {
    /// KubeMod's webhook for all objects.
    Dragnet,
    /// KubeMod's webhook for pods being bound to nodes.
    PodBinding,
    /// The defaulting webhook for ModRules.
    DefaultModRule,
    /// The validating webhook for ModRules.
    ValidateModRule,
    /// modgate's own mutating webhook.
    Mutate,
    /// modgate's own validating webhook.
    Validate,
    /// Gatekeeper's validating webhook.
    Admit,
    /// Gatekeeper's webhook for the label that exempts namespaces.
    AdmitLabel,
    /// Gatekeeper's mutating webhook.
    ApplyMutators,
}

/// What a webhook is.
pub(super) struct Route {
    /// Where it is served; also its name in metrics.
    pub(super) path: &'static str,
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

impl Webhook {
    pub(crate) const ALL: [Self; 9] = [
        Self::Dragnet,
        Self::PodBinding,
        Self::DefaultModRule,
        Self::ValidateModRule,
        Self::Mutate,
        Self::Validate,
        Self::Admit,
        Self::AdmitLabel,
        Self::ApplyMutators,
    ];

    /// The table of webhooks.
    pub(super) const fn route(self) -> Route {
        use Operation::MutationWebhook;
        use Task::Decide;
        let (path, operation, task, words) = match self {
            Self::Dragnet => ("/dragnet-webhook", None, Decide(Stages::MODRULES), Words::KubeMod),
            Self::PodBinding => ("/podbinding-webhook", None, Task::BindPod, Words::KubeMod),
            Self::DefaultModRule => {
                let path = "/mutate-api-kubemod-io-v1beta1-modrule";
                (path, None, Task::DefaultModRule, Words::Own)
            }
            Self::ValidateModRule => {
                let path = "/validate-api-kubemod-io-v1beta1-modrule";
                (path, None, Task::ValidateModRule, Words::Own)
            }
            Self::Mutate => ("/mutate", Some(MutationWebhook), Task::DecideUnified, Words::Own),
            Self::Validate => {
                let task = Decide(Stages::REJECTIONS);
                ("/validate", Some(Operation::Webhook), task, Words::Own)
            }
            Self::Admit => {
                let task = Decide(Stages::CONSTRAINTS);
                ("/v1/admit", Some(Operation::Webhook), task, Words::Gatekeeper)
            }
            Self::AdmitLabel => ("/v1/admitlabel", None, Task::CheckLabel, Words::Gatekeeper),
            Self::ApplyMutators => {
                let task = Decide(Stages::MUTATORS);
                ("/v1/mutate", Some(MutationWebhook), task, Words::Gatekeeper)
            }
        };
        Route { path, operation, task, words }
    }

    /// Where it is served; also its name in metrics.
    pub(crate) const fn path(self) -> &'static str {
        self.route().path
    }

    pub(super) fn is_served(self, operations: &Operations) -> bool {
        match self.route().operation {
            Some(operation) => operations.has(operation),
            None => operations.serve(),
        }
    }
}
