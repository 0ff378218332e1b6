//! Which kinds there are, and which of them have been seen.

use std::collections::{BTreeMap, BTreeSet};

use kube::api::ApiResource;
use modgate_policies::Objects;

use super::{
    crd_info::Facts,
    kinds::{self, Definition, Kind},
    sync::SyncedInventory,
    watches::Target,
};

/// Which CRDs and objects have been seen.
#[derive(Debug, Default)]
pub(super) struct KnownKinds {
    pub(super) definitions: BTreeMap<String, Definition>,
    pub(super) facts: Facts,
    /// Whether these are other than when they were last published.
    pub(super) facts_changed: bool,
    /// Kinds of policies that have no CRD: the API server serves them itself, or not at all.
    pub(super) without_definitions: Vec<Kind>,
    /// Kinds whose objects were all seen at least once.
    pub(super) listed: BTreeSet<Target>,
    /// Whether every policy that was there at start has been taken in.
    policies: bool,
    /// Whether everything that was there at start has been taken in.
    complete: bool,
}

impl KnownKinds {
    /// Whether everything there is has been listed: [policies](Self::has_policies), then what they
    /// say is to be synced (RD-1), and the parameters and definitions that they refer to.
    pub(super) fn is_complete(&mut self, sync: &SyncedInventory, objects: &Objects) -> bool {
        let is_settled = || sync.is_settled() && objects.is_settled();
        self.complete = self.complete || (self.has_policies() && is_settled());
        self.complete
    }

    /// Whether what says which kinds there are has been listed, and then policies.
    pub(super) fn has_policies(&mut self) -> bool {
        self.policies = self.policies || {
            let core = [kinds::definitions(), kinds::namespaces()];
            let is_listed = |resource| self.listed.contains(&Target::Kind(Kind::of(resource)));
            let is_seen = |kind: &Kind| self.listed.contains(&Target::Kind(kind.clone()));
            core.iter().all(is_listed)
                && self.without_definitions.iter().all(is_seen)
                && self.definitions.values().all(|definition| match definition {
                    Definition::Foreign | Definition::Refused => true,
                    Definition::Pending => false,
                    Definition::Served(resource) => is_listed(resource),
                })
        };
        self.policies
    }

    /// Whether everything was there when that was last asked.
    pub(super) fn was_complete(&self) -> bool {
        self.complete
    }

    /// The kinds that have not been seen yet.
    pub(super) fn missing(&self, sync: &SyncedInventory, objects: &Objects) -> Vec<String> {
        let core = [kinds::definitions(), kinds::namespaces()];
        let core = core.iter().map(|resource| (resource.plural.clone(), Some(resource)));
        let ours = self.definitions.iter().filter_map(|(name, definition)| match definition {
            Definition::Foreign | Definition::Refused => None,
            Definition::Pending => Some((name.clone(), None)),
            Definition::Served(resource) => Some((name.clone(), Some(resource))),
        });
        let is_missing = |resource: Option<&ApiResource>| {
            resource.is_none_or(|it| !self.listed.contains(&Target::Kind(Kind::of(it))))
        };
        let missing = core.chain(ours).filter(|(_, resource)| is_missing(*resource));
        let mut missing: Vec<String> = missing.map(|(name, _)| name).collect();
        let is_unseen = |kind: &&Kind| !self.listed.contains(&Target::Kind((*kind).clone()));
        let unseen = self.without_definitions.iter().filter(is_unseen);
        missing.extend(unseen.map(|kind| kind.kind.clone()));
        if !objects.watched_params().is_settled() {
            missing.push("parameters of policies".to_owned());
        }
        if !objects.watched_types().is_settled() {
            missing.push("CustomResourceDefinitions that policies need".to_owned());
        }
        if !sync.is_settled() {
            missing.push("synced objects".to_owned());
        }
        missing
    }

    /// Kinds of policies that the API server serves.
    pub(super) fn served(&self) -> BTreeMap<Kind, ApiResource> {
        let served = self.definitions.values().filter_map(|definition| match definition {
            Definition::Served(resource) => Some((Kind::of(resource), resource.clone())),
            Definition::Foreign | Definition::Pending | Definition::Refused => None,
        });
        served.collect()
    }
}
