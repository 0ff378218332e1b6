//! Static analysis of expressions, for indexing rules.

use std::collections::BTreeSet;

use modgate_value::Str;

use crate::ast::{Binary, Function, Kind, Link, Node, Path, Root, Step, Unary};

/// A text that one place of the document must have for an expression to be true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// Keys from the root, each applied to an object.
    pub path: Vec<Str>,
    /// The place must be a string and one of these.
    pub texts: BTreeSet<Str>,
}

pub(crate) fn plain_path(node: &Node) -> Option<Box<[Str]>> {
    match &node.kind {
        Kind::Path(path @ Path { root: Root::Document, .. }) => {
            path.constant_keys().map(Vec::into_boxed_slice)
        }
        _ => None,
    }
}

/// Whether a node is true or false, if it has a value at all.
pub(crate) fn is_condition(node: &Node) -> bool {
    use Binary::{
        And, Equal, Greater, GreaterEqual, In, Less, LessEqual, Matches, MatchesNot, NotEqual, Or,
    };
    let comparisons =
        [And, Equal, Greater, GreaterEqual, In, Less, LessEqual, Matches, MatchesNot, NotEqual, Or];
    match &node.kind {
        Kind::Bool(_) | Kind::Unary(Unary::Not, _) => true,
        Kind::Chain(_, links) => links.last().is_some_and(|link| comparisons.contains(&link.op)),
        Kind::Call(function, _) => !matches!(function, Function::Date | Function::Length),
        _ => false,
    }
}

/// Every one of these must hold for the expression to evaluate to `true`.
pub(crate) fn requirements(node: &Node) -> Vec<Requirement> {
    let Kind::Chain(first, links) = &node.kind else {
        return Vec::new();
    };
    match links.as_slice() {
        [Link { op: Binary::Equal, right, .. }] => {
            equality(first, right).or_else(|| equality(right, first)).into_iter().collect()
        }
        [Link { op: Binary::In, right, .. }] => membership(first, right).into_iter().collect(),
        links if links.iter().all(|link| link.op == Binary::And) => {
            operands(first, links).flat_map(requirements).collect()
        }
        links if links.iter().all(|link| link.op == Binary::Or) => {
            any_of(operands(first, links).map(requirements))
        }
        _ => Vec::new(),
    }
}

fn operands<'n>(first: &'n Node, links: &'n [Link]) -> impl Iterator<Item = &'n Node> {
    std::iter::once(first).chain(links.iter().map(|link| &link.right))
}

/// `$.a == "text"`, where the text does not read as a number: then only that text is equal.
fn equality(place: &Node, text: &Node) -> Option<Requirement> {
    let path = plain_path(place)?.into_vec();
    match &text.kind {
        Kind::Text(text) if text.number.is_none() => {
            Some(Requirement { path, texts: BTreeSet::from([text.text.clone()]) })
        }
        _ => None,
    }
}

/// `$.a in ["x", "y"]`
fn membership(place: &Node, list: &Node) -> Option<Requirement> {
    let path = plain_path(place)?.into_vec();
    let Kind::Array(elements) = &list.kind else {
        return None;
    };
    let texts = elements.iter().map(|element| match &element.kind {
        Kind::Text(text) => Some(text.text.clone()),
        _ => None,
    });
    Some(Requirement { path, texts: texts.collect::<Option<_>>()? })
}

/// The requirements that hold for every alternative: those on the same place, joined.
fn any_of(mut alternatives: impl Iterator<Item = Vec<Requirement>>) -> Vec<Requirement> {
    let mut common = alternatives.next().unwrap_or_default();
    for alternative in alternatives {
        common.retain_mut(|requirement| {
            let same_place = alternative.iter().find(|other| other.path == requirement.path);
            if let Some(other) = same_place {
                requirement.texts.extend(other.texts.iter().cloned());
            }
            same_place.is_some()
        });
    }
    common
}

/// Whether evaluating the expression may depend on what is at `place`, keys from the root.
///
/// `false` is certain. `true` is not: a path that ends above the place, or goes on by a key that
/// only evaluation tells, counts as one that reads it.
pub(crate) fn may_read(node: &Node, place: &[&str]) -> bool {
    node_may_read(node, place, false)
}

/// As [`may_read`], for a path of its own.
pub(crate) fn path_may_read(path: &Path, place: &[&str]) -> bool {
    steps_may_read(path, place, false)
}

fn node_may_read(node: &Node, place: &[&str], in_filter: bool) -> bool {
    let keys = match &node.kind {
        Kind::Path(path) => return steps_may_read(path, place, in_filter),
        Kind::Variable(keys) | Kind::CallVariable(keys, _) => Some(keys),
        _ => None,
    };
    if keys.is_some_and(|keys| keys_may_reach(keys.iter().map(StepKeys::of_key), place)) {
        return true;
    }
    let mut found = false;
    node.children(&mut |child| found = found || node_may_read(child, place, in_filter));
    found
}

fn steps_may_read(path: &Path, place: &[&str], in_filter: bool) -> bool {
    // In a filter `@` is an element that the path around it has reached, which is checked by itself.
    // Elsewhere it is the root, or a part of the document that the path around it has reached.
    let from_root = path.root == Root::Document || !in_filter;
    (from_root && keys_may_reach(path.steps.iter().map(StepKeys::of_step), place))
        || path.steps.iter().any(|step| match step {
            Step::Filter(node) => node_may_read(node, place, true),
            Step::Key(node) | Step::Script(node) => node_may_read(node, place, in_filter),
            Step::Union(nodes) => nodes.iter().any(|node| node_may_read(node, place, in_filter)),
            Step::Slice(bounds) => {
                bounds.iter().flatten().any(|node| node_may_read(node, place, in_filter))
            }
            Step::Star | Step::Descend => false,
        })
}

/// The keys by which a step may go on.
enum StepKeys<'n> {
    These(Vec<&'n str>),
    Any,
}

impl<'n> StepKeys<'n> {
    fn of_key(node: &'n Node) -> Self {
        match &node.kind {
            Kind::Text(text) => Self::These(vec![text.text.as_str()]),
            _ => Self::Any,
        }
    }

    fn of_step(step: &'n Step) -> Self {
        match step {
            Step::Key(node) => Self::of_key(node),
            Step::Union(nodes) => {
                let keys = nodes.iter().map(|node| match &node.kind {
                    Kind::Text(text) => Some(text.text.as_str()),
                    _ => None,
                });
                keys.collect::<Option<_>>().map_or(Self::Any, Self::These)
            }
            Step::Script(_) | Step::Star | Step::Filter(_) | Step::Slice(_) | Step::Descend => {
                Self::Any
            }
        }
    }
}

/// Whether the steps lead to `place`, into it, or stop above it. `..` reaches everything below where
/// it stands.
fn keys_may_reach<'n>(steps: impl Iterator<Item = StepKeys<'n>>, place: &[&str]) -> bool {
    let mut place = place.iter();
    for keys in steps {
        let Some(key) = place.next() else { return true };
        match keys {
            StepKeys::These(these) if !these.contains(key) => return false,
            StepKeys::These(_) => {}
            StepKeys::Any => return true,
        }
    }
    true
}
