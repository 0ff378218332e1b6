//! What can be known about an expression without a document, for indexing rules.

use std::collections::BTreeSet;

use modgate_value::Str;

use crate::ast::{Binary, Kind, Link, Node, Path, Root};

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

/// What holds whichever alternative is true: requirements on the same place, joined.
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
