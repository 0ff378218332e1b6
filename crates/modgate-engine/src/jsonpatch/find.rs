//! Looking at what a path addresses, with the same rules as [`apply`](super::apply).

use std::borrow::Cow;

use modgate_value::{Value, pointer::unescape};

use super::pointer;

/// The value a path addresses, where there is one.
pub(crate) fn find<'v>(document: &'v Value, path: &str) -> Option<&'v Value> {
    pointer::segments(path)?.try_fold(document, step)
}

/// The first keys of a path, at most two: what an operation changes is below them. Elements of a list have no
/// key.
pub(crate) fn first_keys(path: &str) -> impl Iterator<Item = Cow<'_, str>> {
    let keys = pointer::segments(path).into_iter().flatten().take(2);
    let keys = keys.take_while(|segment| *segment != "-" && pointer::index(segment).is_none());
    keys.map(unescape)
}

/// How many members the container of what a path addresses has.
pub(crate) fn parent_len(document: &Value, path: &str) -> Option<usize> {
    let (parent, _) = path.rsplit_once('/')?;
    match pointer::segments(parent)
        .map_or(Some(document), |mut rest| rest.try_fold(document, step))?
    {
        Value::Object(members) => Some(members.len()),
        Value::Array(elements) => Some(elements.len()),
        _ => None,
    }
}

/// The member of `value` that one segment names.
pub(super) fn step<'v>(value: &'v Value, segment: &str) -> Option<&'v Value> {
    match value {
        Value::Object(members) => members.get(&unescape(segment)),
        Value::Array(elements) => {
            let at = pointer::resolve(pointer::index(segment)?, elements.len())?;
            elements.get(at)
        }
        _ => None,
    }
}
