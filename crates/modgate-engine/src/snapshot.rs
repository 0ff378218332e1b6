//! Compiled policies, immutable.

use crate::{
    Change, Decision, EngineConfig, Explanation, Host, OnError, PolicyId, Problem, Review,
};

/// Every policy there is, compiled; shared between threads by `Arc` and never changed.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    config: std::sync::Arc<EngineConfig>,
}

/// What [`Snapshot::apply`] returns.
#[derive(Debug)]
pub struct Update {
    /// The next snapshot.
    pub snapshot: Snapshot,
    /// What is wrong with the policies that changed: errors, and warnings about those that loaded.
    pub problems: Vec<Problem>,
}

impl Snapshot {
    /// A snapshot without policies.
    pub fn new(config: EngineConfig) -> Self {
        Self { config: config.into() }
    }

    /// The settings it was made with.
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// The snapshot after `changes`, applied in order.
    pub fn apply(&self, changes: Vec<Change>, on_error: OnError) -> Update {
        let _ = (changes, on_error);
        Update { snapshot: self.clone(), problems: Vec::new() }
    }

    /// The policies that are loaded, sorted.
    pub fn policies(&self) -> Vec<PolicyId> {
        Vec::new()
    }

    /// Patches the object, then asks the Reject rules about the result: KubeMod's dragnet webhook.
    pub fn mutate(&self, review: &Review, host: &dyn Host) -> Decision {
        let _ = host;
        Decision::unchanged(review.object().cloned().unwrap_or_default())
    }

    /// Asks the Reject rules about the object as it is.
    pub fn validate(&self, review: &Review, host: &dyn Host) -> Decision {
        let _ = host;
        Decision::unchanged(review.object().cloned().unwrap_or_default())
    }

    /// What [`Snapshot::mutate`] does, and how each rule came to match or not.
    pub fn explain(&self, review: &Review, host: &dyn Host) -> Explanation {
        Explanation { decision: self.mutate(review, host), rules: Vec::new() }
    }
}
