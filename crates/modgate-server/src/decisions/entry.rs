//! A decision as it is kept and shown.

use std::time::SystemTime;

use jiff::Timestamp;
use modgate_value::Str;
use serde::Serialize;

/// The most severe of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    Allowed,
    Patched,
    Warned,
    Denied,
    Undecided,
}

impl Outcome {
    /// The outcome of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "allowed" => Self::Allowed,
            "patched" => Self::Patched,
            "warned" => Self::Warned,
            "denied" => Self::Denied,
            "undecided" => Self::Undecided,
            _ => return None,
        })
    }
}

/// Decisions by outcome.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Counts {
    allowed: u64,
    patched: u64,
    warned: u64,
    denied: u64,
    undecided: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, outcome: Outcome) {
        *match outcome {
            Outcome::Allowed => &mut self.allowed,
            Outcome::Patched => &mut self.patched,
            Outcome::Warned => &mut self.warned,
            Outcome::Denied => &mut self.denied,
            Outcome::Undecided => &mut self.undecided,
        } += 1;
    }
}

/// A decision of one webhook.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Entry {
    pub(crate) id: u64,
    pub(crate) uid: String,
    pub(crate) time: String,
    pub(crate) webhook: &'static str,
    pub(crate) operation: &'static str,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) sub_resource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) user: String,
    pub(crate) dry_run: bool,
    pub(crate) outcome: Outcome,
    pub(crate) code: u16,
    pub(crate) message: String,
    pub(crate) warnings: Vec<String>,
    pub(crate) policies: Vec<Part>,
    pub(crate) changes: Vec<String>,
    pub(crate) microseconds: u64,
    pub(crate) secret: bool,
    pub(crate) explainable: bool,
}

impl Entry {
    /// The bytes of its texts.
    pub(crate) fn bytes(&self) -> usize {
        let Self {
            uid, group, version, kind, sub_resource, namespace, name, user, message, ..
        } = self;
        let texts = [uid, group, version, kind, sub_resource, namespace, name, user, message];
        let lists = self.warnings.iter().chain(&self.changes);
        let own = texts.into_iter().chain(lists).map(String::len).sum::<usize>();
        own + self.policies.iter().map(|it| it.message.len() + it.name.len() + 100).sum::<usize>()
    }
}

/// The part of a policy in a decision.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Part {
    pub(crate) group: &'static str,
    pub(crate) kind: Str,
    pub(crate) namespace: Str,
    pub(crate) name: Str,
    pub(crate) action: &'static str,
    pub(crate) message: String,
}

/// A denial, in short.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct LastDenial {
    pub(crate) id: u64,
    pub(crate) time: String,
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) message: String,
}

/// A time as RFC 3339 with milliseconds, UTC.
pub(crate) fn time_of(time: SystemTime) -> String {
    let time = Timestamp::try_from(time).unwrap_or_default();
    time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}
