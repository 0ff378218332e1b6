//! Counting which parts of a template renderings reach.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::{
    program::Program,
    syntax::{Node, Pos},
};

/// A part of a template that renderings reach or not: an action, or the condition of `if`, `with` and `range`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Where it starts, in bytes of the text.
    pub start: usize,
    /// Whether it decides what is rendered, hence whether both its results matter.
    pub decides: bool,
    /// How often it was reached.
    pub reached: u64,
    /// How often `if` and `with` held, and how often `range` had an element.
    pub held: u64,
    /// How often they did not.
    pub failed: u64,
}

/// The counts of all places of a template, by where they start.
#[derive(Debug)]
pub(crate) struct Counts(BTreeMap<Pos, Count>);

#[derive(Debug, Default)]
struct Count {
    decides: bool,
    reached: AtomicU64,
    held: AtomicU64,
    failed: AtomicU64,
}

impl Counts {
    /// Nothing reached yet.
    pub(crate) fn of(program: &Program) -> Self {
        let mut counts = Self(BTreeMap::new());
        program.trees.values().for_each(|tree| counts.list(&tree.root));
        counts
    }

    fn list(&mut self, nodes: &[Node]) {
        for node in nodes {
            let (at, decides) = match node {
                Node::Action(pipe) => (pipe.pos, false),
                Node::Template(call) => (call.pos, false),
                Node::Branch(branch) => {
                    self.list(&branch.list);
                    self.list(branch.otherwise.as_deref().unwrap_or_default());
                    (branch.pipe.pos, true)
                }
                Node::Text(_) | Node::Break | Node::Continue => continue,
            };
            self.0.insert(at, Count { decides, ..Count::default() });
        }
    }

    pub(crate) fn reach(&self, at: Pos) {
        if let Some(count) = self.0.get(&at) {
            count.reached.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn result(&self, at: Pos, held: bool) {
        if let Some(count) = self.0.get(&at) {
            let of_result = if held { &count.held } else { &count.failed };
            of_result.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = Place> {
        self.0.iter().map(|(start, count)| Place {
            start: *start,
            decides: count.decides,
            reached: count.reached.load(Ordering::Relaxed),
            held: count.held.load(Ordering::Relaxed),
            failed: count.failed.load(Ordering::Relaxed),
        })
    }
}
