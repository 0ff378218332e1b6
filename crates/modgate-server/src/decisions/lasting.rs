//! The last denial of each namespace, longer than the ring of all denials has it.

use std::{collections::BTreeMap, sync::Arc};

use modgate_value::Str;

use super::{Bounds, Noted};

/// A denial for each namespace.
#[derive(Debug, Default)]
pub(super) struct Lasting {
    denials: BTreeMap<Str, Arc<Noted>>,
    bytes: usize,
}

impl Lasting {
    /// Keeps a denial instead of an older one. Beyond the bounds, the oldest denial makes room for a further
    /// namespace, and the largest ones for bytes: one namespace with large objects does not push out others.
    pub(super) fn keep(&mut self, namespace: Str, noted: &Arc<Noted>, bounds: Bounds) {
        self.bytes += noted.bytes;
        if let Some(older) = self.denials.insert(namespace, Arc::clone(noted)) {
            self.bytes -= older.bytes;
        }
        if self.denials.len() > bounds.entries {
            self.remove_first_by(|noted| noted.entry.id);
        }
        while self.bytes > bounds.bytes && !self.denials.is_empty() {
            self.remove_first_by(|noted| usize::MAX - noted.bytes);
        }
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Noted>> {
        self.denials.values()
    }

    fn remove_first_by<K: Ord>(&mut self, key: impl Fn(&Noted) -> K) {
        let first = self.denials.iter().min_by_key(|(_, noted)| key(noted));
        let Some(namespace) = first.map(|(namespace, _)| namespace.clone()) else { return };
        if let Some(noted) = self.denials.remove(&namespace) {
            self.bytes -= noted.bytes;
        }
    }
}
