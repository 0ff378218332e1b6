//! The records of objects, in few bytes.

use std::collections::BTreeMap;

use modgate_value::Str;

use super::{kept::Kept, pack::Packer};

/// The objects of a kind.
#[derive(Debug, Default)]
pub(super) struct OfKind {
    /// Since when its objects expand to what they expand to.
    pub(super) changed: u32,
    /// Counts how often it was listed.
    pub(super) sweep: u32,
    /// By namespace, then name: the order in which violations are listed (AU-21). No namespace is
    /// without objects.
    pub(super) namespaces: BTreeMap<Str, BTreeMap<Str, Record>>,
    pub(super) packer: Packer,
}

/// An object as it was evaluated.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) version: u64,
    /// When what is kept was true.
    pub(super) epoch: u32,
    /// In which listing it was last seen.
    pub(super) sweep: u32,
    /// Whether nothing of it may be kept.
    pub(super) fleeting: bool,
    pub(super) excluded: bool,
    /// Whether it could not be evaluated completely.
    pub(super) failed: bool,
    /// `None` if there is nothing to say about it, as about most objects.
    pub(super) kept: Option<Kept>,
}

impl OfKind {
    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<&Record> {
        self.namespaces.get(namespace)?.get(name)
    }

    pub(super) fn get_mut(&mut self, namespace: &str, name: &str) -> Option<&mut Record> {
        self.namespaces.get_mut(namespace)?.get_mut(name)
    }

    pub(super) fn insert(&mut self, namespace: &Str, name: &Str, record: Record) {
        let names = match self.namespaces.get_mut(namespace) {
            Some(names) => names,
            None => self.namespaces.entry(namespace.clone()).or_default(),
        };
        names.insert(name.clone(), record);
    }

    pub(super) fn remove(&mut self, namespace: &str, name: &str) {
        let Some(names) = self.namespaces.get_mut(namespace) else { return };
        names.remove(name);
        if names.is_empty() {
            self.namespaces.remove(namespace);
        }
    }

    pub(super) fn retain(&mut self, is_wanted: impl Fn(&Record) -> bool) {
        self.namespaces.retain(|_, names| {
            names.retain(|_, record| is_wanted(record));
            !names.is_empty()
        });
    }

    /// How many objects there are.
    pub(super) fn len(&self) -> usize {
        self.namespaces.values().map(BTreeMap::len).sum()
    }

    /// Namespaces, names and what is known.
    pub(super) fn records(&self) -> impl Iterator<Item = (&Str, &Str, &Record)> {
        self.namespaces.iter().flat_map(|(namespace, names)| {
            names.iter().map(move |(name, record)| (namespace, name, record))
        })
    }
}
