//! Writing a JSON Patch on the way through two documents.

use modgate_value::{MAX_DEPTH, Value};

use super::{
    Op, PatchOperation,
    pointer::{push_index, push_key},
};

/// The patch so far, and the place that is compared.
#[derive(Default)]
pub(super) struct Writer {
    /// The pointer to the place.
    path: String,
    /// How many containers the place is inside of.
    level: usize,
    /// Cells of edit-distance tables so far.
    pub(super) cells: usize,
    pub(super) patch: Vec<PatchOperation>,
}

impl Writer {
    /// Whether containers at this place are compared member by member, not as a whole.
    pub(super) fn descends(&self) -> bool {
        self.level < MAX_DEPTH
    }

    pub(super) fn at_key(&mut self, key: &str, then: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        push_key(&mut self.path, key);
        self.inside(length, then);
    }

    pub(super) fn at_index(&mut self, index: usize, then: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        push_index(&mut self.path, index);
        self.inside(length, then);
    }

    fn inside(&mut self, length: usize, then: impl FnOnce(&mut Self)) {
        self.level += 1;
        then(self);
        self.level -= 1;
        self.path.truncate(length);
    }

    pub(super) fn emit(&mut self, op: Op, value: Option<Value>) {
        self.patch.push(PatchOperation { op, path: self.path.clone(), value });
    }
}
