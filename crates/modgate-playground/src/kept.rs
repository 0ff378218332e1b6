//! Policies of earlier requests. Most requests differ from the one before in their object alone, and loading policies takes
//! most of the time of an answer. Policies that count what is reached of them are sets of their own; they add to what they
//! counted before.

use std::collections::{BTreeMap, VecDeque};

use modgate_engine::{Snapshot, constraint::Inventory};
use modgate_review::{manifest::Manifest, references::References};
use modgate_value::{
    Str,
    diag::{Diagnostic, Source},
};

use crate::request::{File, Request};

/// How many sets of policies are kept: those of all examples, with and without counting, and some more.
const MAX_SETS: usize = 24;
/// The bytes of their texts at most.
const MAX_BYTES: usize = 1 << 20;

/// The policies in force and what they refer to.
#[derive(Debug, Clone)]
pub(crate) struct Policies {
    pub(crate) snapshot: Snapshot,
    pub(crate) references: References,
    pub(crate) inventory: Inventory,
    /// As they were written; only policies that count need them.
    pub(crate) manifests: Vec<Manifest>,
}

/// Policies that loaded, and what loading them found.
#[derive(Debug, Clone)]
pub(crate) struct Loaded {
    pub(crate) policies: Policies,
    pub(crate) heard: Vec<Diagnostic>,
    pub(crate) sources: BTreeMap<Str, Source>,
}

/// The parts of a request that policies follow from.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    policies: Vec<File>,
    references: Vec<File>,
    namespace: String,
    coverage: bool,
}

impl Key {
    fn is_of(&self, request: &Request) -> bool {
        let Self { policies, references, namespace, coverage } = self;
        (policies, references, namespace, *coverage)
            == (&request.policies, &request.references, &request.namespace, request.coverage)
    }

    fn bytes(&self) -> usize {
        let files = self.policies.iter().chain(&self.references);
        files.map(|file| file.name.len() + file.text.len()).sum()
    }
}

/// The policies of the last requests, the newest last.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    sets: VecDeque<(Key, Loaded)>,
}

impl Kept {
    pub(crate) const fn new() -> Self {
        Self { sets: VecDeque::new() }
    }

    /// The policies of a request, if they are kept.
    pub(crate) fn find(&mut self, request: &Request) -> Option<Loaded> {
        let at = self.sets.iter().position(|(key, _)| key.is_of(request))?;
        let found = self.sets.remove(at)?;
        let loaded = found.1.clone();
        self.sets.push_back(found);
        Some(loaded)
    }

    /// Keeps the policies of a request, in place of the oldest ones.
    pub(crate) fn keep(&mut self, request: &Request, loaded: Loaded) {
        let key = Key {
            policies: request.policies.clone(),
            references: request.references.clone(),
            namespace: request.namespace.clone(),
            coverage: request.coverage,
        };
        self.sets.push_back((key, loaded));
        let mut bytes: usize = self.sets.iter().map(|(key, _)| key.bytes()).sum();
        while self.sets.len() > MAX_SETS || bytes > MAX_BYTES {
            let Some((key, _)) = self.sets.pop_front() else { break };
            bytes -= key.bytes();
        }
    }
}
