//! Candidate policies, beside those in force.

use std::sync::{Arc, Mutex, PoisonError};

use modgate_engine::{Change, OnError, PolicySource, Snapshot};
use modgate_policies::{PolicySet, PolicyStore};

/// Whether candidates stand alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// They stand in for all policies, with the objects of their files.
    Instead,
    /// They are added to the policies in force, and stand in for those of the same kind, namespace and name.
    Added,
}

/// Candidate policies as they were last loaded.
#[derive(Debug)]
pub struct Candidates {
    place: Place,
    loaded: Mutex<Arc<Loaded>>,
}

/// One state of the files.
#[derive(Debug)]
struct Loaded {
    policies: Arc<PolicySet>,
    sources: Vec<PolicySource>,
}

impl Candidates {
    /// The policies of a store that has read its files.
    pub fn new(place: Place, store: &PolicyStore) -> Self {
        Self { place, loaded: Mutex::new(Loaded::of(place, store)) }
    }

    /// Takes the policies of a store that has read its files again.
    pub fn replace(&self, store: &PolicyStore) {
        *self.loaded.lock().unwrap_or_else(PoisonError::into_inner) = Loaded::of(self.place, store);
    }

    fn loaded(&self) -> Arc<Loaded> {
        Arc::clone(&self.loaded.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Loaded {
    fn of(place: Place, store: &PolicyStore) -> Arc<Self> {
        let sources = match place {
            Place::Instead => Vec::new(),
            Place::Added => store.sources().map(|(_, source)| source).collect(),
        };
        Arc::new(Self { policies: Arc::clone(store.policies()), sources })
    }
}

/// The candidates together with the policies in force, compiled once for each state of both.
#[derive(Debug, Default)]
pub(super) struct Beside {
    last: Option<(Arc<Loaded>, Snapshot, Snapshot)>,
}

impl Beside {
    /// The policies for a second decision, and what they see.
    pub(super) fn get(&mut self, candidates: &Candidates, in_force: &Arc<PolicySet>) -> PolicySet {
        let loaded = candidates.loaded();
        if candidates.place == Place::Instead {
            return PolicySet::clone(&loaded.policies);
        }
        let known = self
            .last
            .as_ref()
            .filter(|(of, below, _)| Arc::ptr_eq(of, &loaded) && below.is_same(&in_force.snapshot));
        let snapshot = match known {
            Some((.., snapshot)) => snapshot.clone(),
            None => {
                let changes = loaded.sources.iter().cloned().map(Change::Upsert).collect();
                let snapshot = in_force.snapshot.apply(changes, OnError::Keep).snapshot;
                self.last = Some((loaded, in_force.snapshot.clone(), snapshot.clone()));
                snapshot
            }
        };
        PolicySet { snapshot, ..PolicySet::clone(in_force) }
    }
}
