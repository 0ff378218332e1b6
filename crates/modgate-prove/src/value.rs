//! Changes of values, which are immutable.

use modgate_value::{MAX_DEPTH, Str, Value};

/// A step to a member or an element.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// A member of an object.
    Key(Str),
    /// An element of a list.
    Index(usize),
}

impl From<&str> for Step {
    fn from(key: &str) -> Self {
        Self::Key(key.into())
    }
}

impl From<usize> for Step {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

/// The way to a value.
pub type Path = [Step];

/// The value at a path.
pub fn at<'v>(value: &'v Value, path: &Path) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get(key),
        Step::Index(index) => value.at(*index),
    })
}

/// A path in Kubernetes' spelling: `spec.containers[0].image`.
pub fn written(path: &Path) -> String {
    let mut out = String::new();
    for step in path {
        match step {
            Step::Key(key) if key.contains(['.', '/', '[']) => {
                out.push_str("[\"");
                out.push_str(key);
                out.push_str("\"]");
            }
            Step::Key(key) => {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(key);
            }
            Step::Index(index) => {
                out.push('[');
                out.push_str(&index.to_string());
                out.push(']');
            }
        }
    }
    out
}

/// The value with another one at a path; objects on the way are made where they are missing, and an
/// index of a list's length appends.
pub fn replaced(value: &Value, path: &Path, with: Value) -> Value {
    let Some((first, rest)) = path.split_first() else { return with };
    match first {
        Step::Key(key) => {
            let mut members = value.as_object().cloned().unwrap_or_default();
            let inner = members.get(key).cloned().unwrap_or_default();
            members.insert(key.clone(), replaced(&inner, rest, with));
            members.into()
        }
        Step::Index(index) => {
            let mut items: Vec<Value> =
                value.as_array().map(|items| items.to_vec()).unwrap_or_default();
            match items.get_mut(*index) {
                Some(item) => *item = replaced(item, rest, with),
                None => items.push(replaced(&Value::Null, rest, with)),
            }
            items.into()
        }
    }
}

/// The value without the member or element at a path.
pub fn removed(value: &Value, path: &Path) -> Value {
    let Some((first, rest)) = path.split_first() else { return Value::Null };
    match (first, value) {
        (Step::Key(key), Value::Object(members)) => {
            let mut members = members.clone();
            if rest.is_empty() {
                members.remove(key);
            } else if let Some(inner) = members.get(key) {
                let inner = removed(inner, rest);
                members.insert(key.clone(), inner);
            }
            members.into()
        }
        (Step::Index(index), Value::Array(items)) => {
            let kept = items.iter().enumerate().filter_map(|(at, item)| match at == *index {
                false => Some(item.clone()),
                true if rest.is_empty() => None,
                true => Some(removed(item, rest)),
            });
            kept.collect()
        }
        _ => value.clone(),
    }
}

/// The paths of all members and elements, outer ones first, not deeper than a document may nest.
pub fn paths(value: &Value) -> Vec<Vec<Step>> {
    let mut found = Vec::new();
    let mut level: Vec<(Vec<Step>, &Value)> = vec![(Vec::new(), value)];
    for _ in 0..MAX_DEPTH {
        let mut next = Vec::new();
        for (path, value) in level {
            let mut below = |step: Step, inner| {
                let mut path = path.clone();
                path.push(step);
                found.push(path.clone());
                next.push((path, inner));
            };
            match value {
                Value::Object(members) => {
                    members.iter().for_each(|(key, inner)| below(Step::Key(key.clone()), inner));
                }
                Value::Array(items) => {
                    items
                        .iter()
                        .enumerate()
                        .for_each(|(index, inner)| below(Step::Index(index), inner));
                }
                _ => {}
            }
        }
        if next.is_empty() {
            break;
        }
        level = next;
    }
    found
}

/// How much there is to read of a value: the length of its JSON.
pub fn size(value: &Value) -> usize {
    value.to_json().len()
}

/// The object without `managedFields`, which no policy needs and which are often most of it.
pub fn unmanaged(object: &Value) -> Value {
    let path = ["metadata".into(), "managedFields".into()];
    if at(object, &path).is_some() { removed(object, &path) } else { object.clone() }
}
