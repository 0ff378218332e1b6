//! The operations of a process.

use std::{collections::BTreeSet, fmt, str::FromStr};

use modgate_engine::api::{constraints, modrule, mutations, templates};

/// A part of the work (spec `gatekeeper-validation`, OP-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Audits existing objects.
    Audit,
    /// Writes CRDs of constraints and ValidatingAdmissionPolicies.
    Generate,
    /// Loads mutators, for expansion, without serving mutation.
    MutationController,
    /// Gathers the statuses of mutators.
    MutationStatus,
    /// Serves mutation.
    MutationWebhook,
    /// Gathers the statuses of all other kinds.
    Status,
    /// Serves validation.
    Webhook,
}

impl Operation {
    /// All of them, in the order of their names.
    pub const ALL: [Self; 7] = [
        Self::Audit,
        Self::Generate,
        Self::MutationController,
        Self::MutationStatus,
        Self::MutationWebhook,
        Self::Status,
        Self::Webhook,
    ];

    /// As on the command line and in statuses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Audit => "audit",
            Self::Generate => "generate",
            Self::MutationController => "mutation-controller",
            Self::MutationStatus => "mutation-status",
            Self::MutationWebhook => "mutation-webhook",
            Self::Status => "status",
            Self::Webhook => "webhook",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No operation has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("operation {0} is not a valid operation: {names}", names = names())]
pub struct UnknownOperation(String);

fn names() -> String {
    Operation::ALL.map(Operation::name).join(", ")
}

impl FromStr for Operation {
    type Err = UnknownOperation;

    fn from_str(text: &str) -> Result<Self, UnknownOperation> {
        let found = Self::ALL.into_iter().find(|operation| operation.name() == text);
        found.ok_or_else(|| UnknownOperation(text.to_owned()))
    }
}

/// The operations of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operations(BTreeSet<Operation>);

impl Operations {
    /// Whether this is among them.
    pub fn has(&self, operation: Operation) -> bool {
        self.0.contains(&operation)
    }

    /// Whether policies of an API group are needed for any of them (OP-2; `gatekeeper-mutation…`,
    /// 4.5). Configs, Providers and ExpansionTemplates always are.
    pub fn load(&self, group: &str) -> bool {
        use Operation::{
            Audit, Generate, MutationController, MutationStatus, MutationWebhook, Status, Webhook,
        };
        let any = |of: &[Operation]| of.iter().any(|operation| self.has(*operation));
        match group {
            modrule::GROUP => any(&[Audit, MutationWebhook, Status, Webhook]),
            templates::GROUP | constraints::GROUP => any(&[Audit, Generate, Status, Webhook]),
            mutations::GROUP => any(&[MutationController, MutationStatus, MutationWebhook]),
            _ => true,
        }
    }

    /// Whether any of them answers admission requests.
    pub fn serve(&self) -> bool {
        self.has(Operation::Webhook) || self.has(Operation::MutationWebhook)
    }

    /// In the order of their names, as statuses list them.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|operation| operation.name())
    }
}

/// All there are, as without the flag.
impl Default for Operations {
    fn default() -> Self {
        Self(Operation::ALL.into())
    }
}

/// None given means all.
impl FromIterator<Operation> for Operations {
    fn from_iter<I: IntoIterator<Item = Operation>>(given: I) -> Self {
        let given: BTreeSet<_> = given.into_iter().collect();
        if given.is_empty() { Self::default() } else { Self(given) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_read_back() {
        assert!(Operation::ALL.is_sorted_by_key(|operation| operation.name()));
        for operation in Operation::ALL {
            assert_eq!(operation.name().parse(), Ok(operation));
        }
        let error = "x".parse::<Operation>().expect_err("unknown").to_string();
        assert_eq!(
            error,
            "operation x is not a valid operation: audit, generate, mutation-controller, \
             mutation-status, mutation-webhook, status, webhook"
        );
    }

    #[test]
    fn what_is_loaded_for_what() {
        use Operation::{Audit, MutationController, MutationStatus, MutationWebhook, Webhook};
        for (operations, expected) in [
            (&[][..], [true, true, true]),
            (&[Webhook], [true, true, false]),
            (&[Audit], [true, true, false]),
            (&[MutationWebhook], [true, false, true]),
            (&[MutationStatus], [false, false, true]),
            (&[Webhook, MutationController], [true, true, true]),
        ] {
            let operations = Operations::from_iter(operations.iter().copied());
            let groups = [modrule::GROUP, templates::GROUP, mutations::GROUP];
            assert_eq!(groups.map(|group| operations.load(group)), expected, "{operations:?}");
            assert!(operations.load("expansion.gatekeeper.sh"), "in any case");
        }
    }

    #[test]
    fn none_means_all() {
        assert_eq!(Operations::from_iter([]), Operations::default());
        let one = Operations::from_iter([Operation::Audit]);
        assert!(one.has(Operation::Audit) && !one.has(Operation::Status));
    }
}
