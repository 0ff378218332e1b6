//! The loaded policies of a cluster, for controllers.

use std::{collections::BTreeMap, sync::Arc};

use kube::api::ApiResource;
use modgate_engine::{Problem, Severity, api::meta::GroupVersionKind};
use modgate_policies::PolicySet;
use modgate_value::Value;

use super::{crd_info::Facts, kinds::Kind, object::Key, sync::SyncedKind};

/// Policies of one kind.
pub(crate) type OfKind = BTreeMap<Key, Arc<Loaded>>;

/// Policies as the cluster has them, and the result of loading them.
///
/// Those who wait for it to change are woken when anything but the inventory has.
#[derive(Debug)]
pub(crate) struct State {
    /// The policy set that decides requests.
    pub(crate) current: Arc<PolicySet>,
    /// All policies that can be read, whether they load or not. Without their status.
    pub(crate) policies: BTreeMap<Kind, Arc<OfKind>>,
    /// Kinds of policies that the API server serves, as they are watched.
    pub(crate) served: Arc<BTreeMap<Kind, ApiResource>>,
    /// Further facts about our kinds.
    pub(crate) facts: Arc<Facts>,
    /// Kinds that are copied into the inventory, and what has become of them.
    pub(crate) synced: Arc<BTreeMap<GroupVersionKind, SyncedKind>>,
}

impl State {
    /// Nothing is loaded and nothing served.
    #[cfg(test)]
    pub(crate) fn empty() -> Self {
        use crate::ingest::Ingest;
        use modgate_policies::Objects;
        let ingest =
            Ingest::new(Default::default(), "gatekeeper-system".into(), Objects::default());
        Self {
            current: Arc::clone(ingest.current()),
            policies: BTreeMap::new(),
            served: Arc::default(),
            facts: Arc::default(),
            synced: Arc::default(),
        }
    }

    /// Policies of a kind.
    pub(crate) fn of_kind(
        &self,
        group: &str,
        kind: &str,
    ) -> impl Iterator<Item = (&Key, &Arc<Loaded>)> {
        let kind = Kind { group: group.to_owned(), kind: kind.to_owned() };
        self.policies.get(&kind).into_iter().flat_map(|of_kind| of_kind.iter())
    }
}

/// One policy, and what is wrong with it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Loaded {
    /// Without status and resource version.
    pub(crate) object: Value,
    /// Found when this version of it was loaded.
    pub(crate) problems: Vec<Problem>,
}

impl Loaded {
    /// Whether it is in force.
    pub(crate) fn is_in_force(&self) -> bool {
        self.problems.iter().all(|problem| problem.severity != Severity::Error)
    }

    /// `metadata.uid`.
    pub(crate) fn uid(&self) -> &str {
        let uid = self.object.path(&["metadata", "uid"]);
        uid.and_then(Value::as_str).unwrap_or_default()
    }

    /// `metadata.generation`.
    pub(crate) fn generation(&self) -> i64 {
        let generation = self.object.path(&["metadata", "generation"]);
        generation.and_then(Value::as_i64).unwrap_or_default()
    }
}
