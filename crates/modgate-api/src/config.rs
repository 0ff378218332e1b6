//! `config.gatekeeper.sh`: Config, what the processes of an installation leave alone and what is
//! synced (spec `gatekeeper-validation`, section 1.3).

use modgate_value::{DecodeError, Str, Value};
use serde::Deserialize;

use crate::meta::GroupVersionKind;

/// API group of Config.
pub const GROUP: &str = "config.gatekeeper.sh";

/// The kind.
pub const KIND: &str = "Config";

/// The name of the one Config that counts.
pub const NAME: &str = "config";

/// A Config as stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Config {
    /// Its spec.
    pub spec: Spec,
}

/// `spec` of a Config.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Spec {
    /// Which kinds policies see in `data.inventory`.
    pub sync: Sync,
    /// The settings of the validating webhook.
    pub validation: Validation,
    /// Which namespaces which process leaves alone.
    #[serde(rename = "match")]
    pub matching: Option<Vec<MatchEntry>>,
}

/// `spec.validation`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Validation {
    /// Which requests are logged with how they were decided.
    pub traces: Option<Vec<Trace>>,
}

/// One entry of `spec.validation.traces`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Trace {
    /// Requests of this user.
    pub user: Str,
    /// Requests about this kind.
    pub kind: GroupVersionKind,
    /// `All`, in any case, logs the policies as well.
    pub dump: Str,
}

/// `spec.sync`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Sync {
    /// The kinds.
    pub sync_only: Option<Vec<GroupVersionKind>>,
}

/// One entry of `spec.match`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MatchEntry {
    /// A [`Process`] or `*` each; other names are stored and have no effect.
    pub processes: Option<Vec<Str>>,
    /// Names, with `*` at either end.
    pub excluded_namespaces: Option<Vec<Str>>,
}

/// The processes that namespaces can be excluded from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Process {
    /// The audit of existing objects.
    Audit,
    /// The copying of objects into `data.inventory`.
    Sync,
    /// The validating webhook.
    Webhook,
    /// The mutating webhook.
    MutationWebhook,
}

impl Process {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Audit, Self::Sync, Self::Webhook, Self::MutationWebhook];

    /// The name in `processes`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Audit => "audit",
            Self::Sync => "sync",
            Self::Webhook => "webhook",
            Self::MutationWebhook => "mutation-webhook",
        }
    }
}

impl Config {
    /// Decodes a Config.
    ///
    /// # Errors
    ///
    /// When a member has the wrong type; the error names its path.
    pub fn from_value(value: &Value) -> Result<Self, DecodeError> {
        Self::deserialize(value)
    }

    /// The patterns of namespaces that a process leaves alone. Entries add up, and names of
    /// unknown processes have no effect (EX-2).
    pub fn excluded_from(&self, process: Process) -> impl Iterator<Item = &Str> {
        let entries = self.spec.matching.iter().flatten();
        entries
            .filter(move |entry| {
                let mut names = entry.processes.iter().flatten();
                names.any(|name| name == "*" || name == process.as_str())
            })
            .flat_map(|entry| entry.excluded_namespaces.iter().flatten())
    }
}
