//! The changes of the rules of a tier, before the next rule reads them.
//!
//! A document that a rule selects from or renders is made of the changes first. A rule that looks at nothing that
//! changed needs no new document: its operations change the same opened [`Tree`], and what the rules before it
//! added is not copied for it.

use std::borrow::Cow;

use modgate_value::{Budget, Value};

use super::compile::{PatchStep, PatchValue};
use crate::jsonpatch::{self, ApplyError, Editor, PatchOperation, Tree};

/// With more changed places than this, every rule gets a document.
const MAX_PLACES: usize = 16;

/// Changes to a document that is as it was before them.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// The document with the changes.
    tree: Option<Tree<'static>>,
    /// The number of the rule that changed it last.
    editor: Editor,
    /// The operations of all rules, in order.
    operations: Vec<PatchOperation>,
    /// The first keys of what they changed.
    places: Vec<Vec<String>>,
}

impl Changes {
    /// Whether these steps may look at anything that was changed.
    pub(super) fn concern(&self, steps: &[PatchStep]) -> bool {
        let changed = |reads: &dyn Fn(&[&str]) -> bool| {
            self.places.len() > MAX_PLACES
                || self.places.iter().any(|place| {
                    let keys: Vec<&str> = place.iter().map(String::as_str).collect();
                    keys.is_empty() || reads(&keys)
                })
        };
        let looks = |step: &PatchStep| {
            matches!(step.value, PatchValue::Template(_))
                || step.select.as_ref().is_some_and(|select| changed(&|keys| select.may_read(keys)))
        };
        !self.places.is_empty() && steps.iter().any(looks)
    }

    /// Applies the operations of one rule to `document`, which has none of the changes yet.
    ///
    /// # Errors
    ///
    /// The first operation that does not apply. The changes are then not usable: [`undone`](Self::undone) says
    /// what the document was before this rule.
    pub(super) fn apply<'o>(
        &mut self,
        document: &Value,
        operations: impl Iterator<Item = &'o PatchOperation>,
        budget: &Budget<'_>,
    ) -> Result<(), ApplyError> {
        self.editor = self.editor.wrapping_add(1);
        let tree = self.tree.get_or_insert_with(|| Tree::from(document.clone()));
        let before = self.operations.len();
        for operation in operations {
            let changed = jsonpatch::apply_in(tree, operation, self.editor, budget);
            match changed {
                Ok(false) => {}
                Ok(true) => self.operations.push(operation.clone()),
                Err(error) => {
                    self.operations.truncate(before);
                    return Err(error);
                }
            }
        }
        for operation in self.operations.get(before..).unwrap_or_default() {
            let keys = || jsonpatch::first_keys(&operation.path);
            let is_at = |place: &Vec<String>| keys().eq(place.iter().map(String::as_str));
            if self.places.len() <= MAX_PLACES && !self.places.iter().any(is_at) {
                self.places.push(keys().map(Cow::into_owned).collect());
            }
        }
        Ok(())
    }

    /// Whether a change is below the member `key` of the document.
    pub(super) fn reach(&self, key: &str) -> bool {
        let below = |place: &Vec<String>| place.first().is_none_or(|first| first == key);
        self.places.len() > MAX_PLACES || self.places.iter().any(below)
    }

    /// The document with the changes, which are then forgotten; `None` if there are none.
    pub(super) fn take(&mut self) -> Option<Value> {
        let tree = self.tree.take();
        let changed = !self.operations.is_empty();
        self.operations.clear();
        self.places.clear();
        tree.filter(|_| changed).map(Tree::into_value)
    }

    /// As [`take`](Self::take), after a rule failed: the document with the changes of the rules before it.
    pub(super) fn undone(&mut self, document: &Value) -> Option<Value> {
        let mut tree = Tree::from(document.clone());
        let budget = Budget::unlimited();
        // Each applied when its rule was the last one, and does so again.
        let applied = self
            .operations
            .iter()
            .try_for_each(|operation| jsonpatch::apply(&mut tree, operation, &budget));
        self.tree = applied.is_ok().then_some(tree);
        self.take()
    }
}
