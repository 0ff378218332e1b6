//! What is known of one object, in few bytes.

use std::collections::BTreeMap;

use modgate_value::{Str, Value};

use crate::{evaluate::Found, policies::UnitId, violation::Subject};

/// The objects of a kind.
#[derive(Debug, Default)]
pub(super) struct OfKind {
    /// Since when its objects expand to what they expand to.
    pub(super) changed: u32,
    /// Counts how often it was listed.
    pub(super) sweep: u32,
    pub(super) objects: BTreeMap<Key, Record>,
}

/// What tells an object from others of its kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) namespace: Str,
    pub(super) name: Str,
}

impl Key {
    pub(super) fn of(subject: &Subject) -> Self {
        Self { namespace: subject.namespace.clone(), name: subject.name.clone() }
    }
}

/// An object as it was judged.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) version: u64,
    /// When what is kept was true.
    pub(super) epoch: u32,
    /// In which listing it was last seen.
    pub(super) sweep: u32,
    /// Its Namespace, its own name if it is one, or empty.
    pub(super) namespace: Str,
    pub(super) fleeting: bool,
    pub(super) excluded: bool,
    /// `None` if there is nothing to say about it, as about most objects.
    pub(super) kept: Option<Box<Kept>>,
}

/// What there is to say about an object.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) uid: Str,
    pub(super) labels: Value,
    /// Units with violations, by number.
    pub(super) found: Box<[(UnitId, Box<[Found]>)]>,
    /// Units that must be asked every time, by number.
    pub(super) volatile: Box<[UnitId]>,
    pub(super) errors: Box<[Box<str>]>,
}

impl Kept {
    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty() && self.volatile.is_empty() && self.errors.is_empty()
    }

    /// Adds what was known before, but of the units `asked` anew (sorted).
    pub(super) fn merge(&mut self, before: Self, asked: &[UnitId]) {
        let is_old = |id: &UnitId| asked.binary_search(id).is_err();
        let found = std::mem::take(&mut self.found).into_iter();
        let mut found: Vec<_> =
            found.chain(before.found.into_iter().filter(|(id, _)| is_old(id))).collect();
        found.sort_by_key(|(id, _)| *id);
        self.found = found.into();
        let volatile = self.volatile.iter().chain(before.volatile.iter().filter(|id| is_old(id)));
        let mut volatile: Vec<UnitId> = volatile.copied().collect();
        volatile.sort_unstable();
        volatile.dedup();
        self.volatile = volatile.into();
    }

    /// Drops some units.
    pub(super) fn forget(&mut self, is_gone: &impl Fn(&UnitId) -> bool) {
        if self.found.iter().any(|(id, _)| is_gone(id)) {
            let found = std::mem::take(&mut self.found).into_iter();
            self.found = found.filter(|(id, _)| !is_gone(id)).collect();
        }
        if self.volatile.iter().any(is_gone) {
            self.volatile = self.volatile.iter().filter(|id| !is_gone(id)).copied().collect();
        }
    }
}
