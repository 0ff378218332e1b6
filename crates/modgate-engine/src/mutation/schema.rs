//! Locations that contradict each other about the shape of an object (4.2).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use modgate_api::{
    meta::{GroupVersionKind, Operation},
    mutations::MutatorKind,
};
use modgate_value::Str;

use super::{CompiledMutator, MutatorId, location::Node};

/// The mutators a mutator cannot be loaded beside.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the following mutators have conflicting schemas: [{}]", self.list())]
pub struct Conflict {
    /// Groups of mutators that contradict each other, shared by their members.
    groups: Vec<Arc<BTreeSet<MutatorId>>>,
}

/// How many parties a message names.
const MAX_NAMED: usize = 100;

impl Conflict {
    /// All parties, the mutator itself included.
    pub fn parties(&self) -> BTreeSet<&MutatorId> {
        self.groups.iter().flat_map(|group| group.iter()).collect()
    }

    fn list(&self) -> String {
        let parties = self.parties();
        let mut shown: Vec<String> =
            parties.iter().take(MAX_NAMED).map(ToString::to_string).collect();
        shown.sort();
        match parties.len().saturating_sub(MAX_NAMED) {
            0 => shown.join(","),
            more => format!("{} and {more} more", shown.join(",")),
        }
    }
}

/// The type of a node of a location, as far as the location determines it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Shape {
    /// An Assign ends here: anything.
    Unknown,
    Object,
    List,
    /// A ModifySet ends here.
    Set,
    /// An AssignImage ends here.
    String,
}

/// The types that mutators give the children of one node.
#[derive(Default)]
struct Tree<'a> {
    children: BTreeMap<&'a Str, BTreeMap<Shape, Child<'a>>>,
}

#[derive(Default)]
struct Child<'a> {
    through: BTreeSet<usize>,
    /// Those of `through` that end here.
    ending: BTreeSet<usize>,
    tree: Tree<'a>,
}

/// Every mutator that is in conflict, by its index in `mutators`, with the parties.
///
/// Kinds and operations with the same mutators have the same conflicts, so one tree does for all
/// of them.
pub(super) fn conflicts(mutators: &[&CompiledMutator]) -> BTreeMap<usize, Conflict> {
    let mut bound: BTreeMap<(GroupVersionKind, Operation), Vec<usize>> = BTreeMap::new();
    for (index, mutator) in mutators.iter().enumerate() {
        for binding in bindings(mutator) {
            bound.entry(binding).or_default().push(index);
        }
    }
    let together: BTreeSet<Vec<usize>> =
        bound.into_values().filter(|mutators| mutators.len() > 1).collect();
    let mut groups: BTreeSet<BTreeSet<usize>> = BTreeSet::new();
    for indexes in together {
        let mut tree = Tree::default();
        for index in indexes {
            if let Some(mutator) = mutators.get(index) {
                tree.insert(index, mutator);
            }
        }
        tree.check(mutators, &mut |parties| {
            groups.insert(parties);
        });
    }
    let mut found: BTreeMap<usize, Conflict> = BTreeMap::new();
    for group in groups {
        let ids = group.iter().filter_map(|index| mutators.get(*index)).map(|it| it.id.clone());
        let ids: Arc<BTreeSet<MutatorId>> = Arc::new(ids.collect());
        for index in group {
            let conflict = found.entry(index).or_insert(Conflict { groups: Vec::new() });
            conflict.groups.push(Arc::clone(&ids));
        }
    }
    found
}

/// Every kind and operation a mutator applies to.
fn bindings(mutator: &CompiledMutator) -> BTreeSet<(GroupVersionKind, Operation)> {
    let mut bindings = BTreeSet::new();
    for entry in mutator.apply_to.iter().flatten() {
        for group in entry.groups.iter().flatten() {
            for version in entry.versions.iter().flatten() {
                for kind in entry.kinds.iter().flatten() {
                    bindings.extend(entry.operations().map(|operation| {
                        let kind = GroupVersionKind {
                            group: group.clone(),
                            version: version.clone(),
                            kind: kind.clone(),
                        };
                        (kind, operation)
                    }));
                }
            }
        }
    }
    bindings
}

impl<'a> Tree<'a> {
    fn insert(&mut self, index: usize, mutator: &'a CompiledMutator) {
        let nodes = mutator.location.nodes();
        let mut tree = self;
        for (depth, node) in nodes.iter().enumerate() {
            let next = nodes.get(depth + 1);
            let name = match node {
                Node::Field(name) => name,
                Node::List { key, .. } => key,
            };
            let shape = match (next, mutator.id.kind) {
                (Some(Node::Field(_)), _) => Shape::Object,
                (Some(Node::List { .. }), _) => Shape::List,
                (None, MutatorKind::ModifySet) => Shape::Set,
                (None, MutatorKind::AssignImage) => Shape::String,
                (None, MutatorKind::Assign | MutatorKind::AssignMetadata) => Shape::Unknown,
            };
            let child = tree.children.entry(name).or_default().entry(shape).or_default();
            child.through.insert(index);
            if next.is_none() {
                child.ending.insert(index);
            }
            tree = &mut child.tree;
        }
    }

    fn check(&self, mutators: &[&CompiledMutator], report: &mut dyn FnMut(BTreeSet<usize>)) {
        for shapes in self.children.values() {
            let known = shapes.iter().filter(|(shape, _)| **shape != Shape::Unknown);
            if known.clone().count() > 1 {
                report(known.flat_map(|(_, child)| child.through.iter().copied()).collect());
            }
            if let Some(list) = shapes.get(&Shape::List)
                && list.tree.children.len() > 1
            {
                report(list.through.clone());
            }
            let must_end =
                shapes.values().flat_map(|child| child.ending.iter().copied()).filter(|index| {
                    mutators.get(*index).is_some_and(|mutator| mutator.must_terminate())
                });
            let must_end: BTreeSet<usize> = must_end.collect();
            let deeper: BTreeSet<usize> = shapes
                .values()
                .flat_map(|child| child.through.difference(&child.ending).copied())
                .collect();
            if !must_end.is_empty() && !deeper.is_empty() {
                report(must_end.union(&deeper).copied().collect());
            }
            for child in shapes.values() {
                child.tree.check(mutators, report);
            }
        }
    }
}
