//! The field of an object that made a policy find a violation, as far as the policy's reads show it.
//!
//! A message need not name a field. What the policy read last, before it made the message, mostly is
//! the field at fault: that the object is a Pod is tested first. Nothing is decided by it; reports
//! show it as a place.

mod expression;
mod text;

use std::collections::HashMap;

use modgate_value::{Value, pointer::below};

pub(crate) use self::expression::failed;
pub(crate) use self::text::{Step, refs};

/// The parts of an object that are found by their address.
const MAX_PLACES: usize = 100_000;

/// The parts of a document by where they are in memory: evaluators borrow them, so that the value of
/// a variable tells its place.
pub(crate) struct Places {
    by_address: HashMap<usize, String>,
}

impl Places {
    pub(crate) fn of(document: &Value) -> Self {
        let mut by_address = HashMap::new();
        let mut open = vec![(String::new(), document)];
        while let Some((pointer, value)) = open.pop() {
            if by_address.len() + open.len() >= MAX_PLACES {
                break;
            }
            if let Some(address) = address(value) {
                by_address.entry(address).or_insert_with(|| pointer.clone());
            }
            match value {
                Value::Object(members) => {
                    open.extend(members.iter().map(|(name, it)| (below(&pointer, name), it)));
                }
                Value::Array(items) => {
                    let items = items.iter().enumerate();
                    open.extend(items.map(|(at, it)| (below(&pointer, &at.to_string()), it)));
                }
                _ => {}
            }
        }
        Self { by_address }
    }

    /// The pointer of the part at an address.
    pub(crate) fn at(&self, address: usize) -> Option<&str> {
        self.by_address.get(&address).map(String::as_str)
    }
}

/// As the evaluators' values have it; none for values that they copy, and for what is empty.
fn address(value: &Value) -> Option<usize> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.as_str().as_ptr().addr()),
        Value::Array(items) if !items.is_empty() => Some(items.as_ptr().addr()),
        Value::Object(members) => Some(std::ptr::from_ref(members).addr()),
        _ => None,
    }
}

/// The pointer of the field that steps lead to from `base`, or of the last field on the way that is
/// there.
pub(crate) fn walk<'n>(
    object: &Value,
    base: &str,
    names: impl Iterator<Item = &'n str>,
) -> Option<String> {
    let mut value = object.pointer(base)?;
    let mut pointer = base.to_owned();
    for name in names {
        let next = match value {
            Value::Array(items) => name.parse::<usize>().ok().and_then(|at| items.get(at)),
            value => value.get(name),
        };
        let Some(next) = next else { break };
        pointer = below(&pointer, name);
        value = next;
    }
    Some(pointer)
}

/// The field at fault among those that were read, in the order in which they were: the last one that
/// tells something, or what was read within it.
pub(crate) fn choose<S: AsRef<str>>(reads: &[S]) -> Option<&str> {
    let telling = || reads.iter().map(AsRef::as_ref).filter(|pointer| is_telling(pointer));
    let last = telling().next_back()?;
    let within =
        |pointer: &&str| pointer.strip_prefix(last).is_some_and(|rest| rest.starts_with('/'));
    Some(telling().rfind(within).unwrap_or(last))
}

/// Nearly every policy reads the kind, and messages have the name.
fn is_telling(pointer: &str) -> bool {
    const PLAIN: [&str; 6] = [
        "",
        "/kind",
        "/apiVersion",
        "/metadata/name",
        "/metadata/generateName",
        "/metadata/namespace",
    ];
    !PLAIN.contains(&pointer)
}

/// The innermost field that has all of these.
pub(crate) fn common<'p>(mut pointers: impl Iterator<Item = &'p str>) -> Option<String> {
    let mut shared: Vec<&str> = pointers.next()?.split('/').collect();
    for pointer in pointers {
        let same = shared.iter().zip(pointer.split('/')).take_while(|(a, b)| **a == *b).count();
        shared.truncate(same);
    }
    Some(shared.join("/")).filter(|pointer| is_telling(pointer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_read_that_tells_something() {
        for (reads, expected) in [
            (&["/kind", "/spec/replicas", "/metadata/name"][..], Some("/spec/replicas")),
            (&["/spec/containers/0/image", "/spec/containers/0"], Some("/spec/containers/0/image")),
            (&["/spec/containers/1/image", "/spec/containers/0"], Some("/spec/containers/0")),
            (&["/kind", ""], None),
            (&[], None),
        ] {
            assert_eq!(choose(reads), expected, "{reads:?}");
        }
    }

    #[test]
    fn what_fields_have_in_common() {
        for (pointers, expected) in [
            (&["/spec/a/b", "/spec/a/c"][..], Some("/spec/a")),
            (&["/spec/a", "/spec/a"], Some("/spec/a")),
            (&["/spec/a", "/metadata/labels"], None),
            (&[], None),
        ] {
            assert_eq!(common(pointers.iter().copied()).as_deref(), expected, "{pointers:?}");
        }
    }

    #[test]
    fn steps_end_where_the_object_does() {
        let object = Value::from_json(br#"{"spec": {"c": [{"a/b": 1}]}}"#).expect("JSON");
        for (base, steps, expected) in [
            ("", &["spec", "c", "0", "a/b"][..], Some("/spec/c/0/a~1b")),
            ("/spec", &["c", "7"], Some("/spec/c")),
            ("", &["status", "phase"], Some("")),
            ("/nothing", &["x"], None),
        ] {
            let found = walk(&object, base, steps.iter().copied());
            assert_eq!(found.as_deref(), expected, "{base} {steps:?}");
        }
    }
}
