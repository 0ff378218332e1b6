//! The keys by which programs share the documents and functions that they have in common.

use std::collections::BTreeSet;

use super::GroupId;

/// Equal for groups of the same value; a digest, so that no two others are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key(u128);

impl Key {
    pub(crate) fn new(digest: u128) -> Self {
        Self(digest)
    }

    pub(crate) fn digest(self) -> u128 {
        self.0
    }
}

/// The keys of a program's groups.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    /// By group.
    keys: Box<[Option<Key>]>,
    /// By group: of functions that read no document and are worth it.
    functions: Box<[Option<Key>]>,
    /// The groups that have one, sorted.
    groups: Box<[(Key, GroupId)]>,
}

impl Keys {
    /// By group: their keys, and those of functions whose calls are shared.
    pub(crate) fn new(keys: Box<[Option<Key>]>, functions: Box<[Option<Key>]>) -> Self {
        let ids = (0..u32::try_from(keys.len()).unwrap_or(u32::MAX)).map(GroupId);
        let groups = keys.iter().zip(ids).filter_map(|(key, id)| Some(((*key)?, id)));
        let mut groups: Vec<(Key, GroupId)> = groups.collect();
        groups.sort();
        Self { keys, functions, groups: groups.into() }
    }

    /// The keys of the groups that are kept, of which those that are referenced can be found.
    pub(crate) fn only(&self, kept: &BTreeSet<GroupId>, referenced: &BTreeSet<GroupId>) -> Self {
        let only = |keys: &[Option<Key>]| {
            let ids = (0..u32::try_from(keys.len()).unwrap_or(u32::MAX)).map(GroupId);
            ids.zip(keys).map(|(id, key)| key.filter(|_| kept.contains(&id))).collect()
        };
        let groups = self.groups.iter().filter(|(_, id)| referenced.contains(id));
        Self {
            keys: only(&self.keys),
            functions: only(&self.functions),
            groups: groups.copied().collect(),
        }
    }

    /// Of a document.
    pub(crate) fn of_group(&self, id: GroupId) -> Option<Key> {
        self.keys.get(id.0 as usize).copied().flatten()
    }

    /// Of a function whose calls are shared.
    pub(crate) fn of_function(&self, id: GroupId) -> Option<Key> {
        self.functions.get(id.0 as usize).copied().flatten()
    }

    /// The first group with this key.
    pub(crate) fn find(&self, key: Key) -> Option<GroupId> {
        let at = self.groups.partition_point(|(other, _)| *other < key);
        self.groups.get(at).filter(|(other, _)| *other == key).map(|(_, id)| *id)
    }

    /// The first group with the key of this one.
    pub(crate) fn first(&self, id: GroupId) -> GroupId {
        self.of_group(id).and_then(|key| self.find(key)).unwrap_or(id)
    }

    /// Whether several groups have the same key.
    pub(crate) fn has_equal(&self) -> bool {
        self.groups.windows(2).any(|pair| matches!(pair, [(a, _), (b, _)] if a == b))
    }
}
