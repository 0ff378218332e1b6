//! The inventory for an evaluation that may not look at it.

use std::sync::atomic::{AtomicBool, Ordering};

use modgate_rego::value::{Node, Tree};

/// The value of `data`, and whether a policy read it.
pub(in crate::constraint) struct Watched<'a> {
    data: &'a dyn Tree,
    looked: &'a AtomicBool,
}

impl<'a> Watched<'a> {
    pub(super) fn new(data: &'a dyn Tree, looked: &'a AtomicBool) -> Self {
        Self { data, looked }
    }

    fn look(&self) -> &'a dyn Tree {
        self.looked.store(true, Ordering::Relaxed);
        self.data
    }
}

impl Tree for Watched<'_> {
    fn len(&self) -> usize {
        self.look().len()
    }

    fn get(&self, key: &str) -> Option<Node<'_>> {
        self.look().get(key)
    }

    fn entry(&self, index: usize) -> Option<(&str, Node<'_>)> {
        self.look().entry(index)
    }
}
