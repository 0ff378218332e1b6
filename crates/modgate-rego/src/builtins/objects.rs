//! Objects, walks and graphs.

use std::{
    cmp::Ordering,
    collections::{BTreeSet, VecDeque},
};

use super::{Builtin, BuiltinError, Context, Outcome, operand, yes_or_no};
use crate::value::{Array, Object, Value, View};

pub(super) const BUILTINS: &[Builtin] = &[
    Builtin::new(
        "object.get",
        "(object: object[any: any], key: any, default: any) => value: any",
        get,
    ),
    Builtin::new("object.keys", "(object: object[any: any]) => value: set[any]", keys),
    Builtin::new(
        "object.union",
        "(a: object[any: any], b: object[any: any]) => output: any",
        union,
    ),
    Builtin::new("object.union_n", "(objects: array[object[any: any]]) => output: any", union_n),
    Builtin::new(
        "object.remove",
        "(object: object[any: any], keys: any<array[any], object[any: any], set[any]>) => output: any",
        remove,
    ),
    Builtin::new(
        "object.filter",
        "(object: object[any: any], keys: any<array[any], object[any: any], set[any]>) => filtered: any",
        filter,
    ),
    Builtin::new(
        "object.subset",
        "(super: any<array[any], object[any: any], set[any]>, sub: any<array[any], object[any: any], set[any]>) => result: any",
        subset,
    ),
    Builtin::new("walk", "(x: any) => output: array<array[any], any>", walk).relation(),
    Builtin::new(
        "graph.reachable",
        "(graph: object[any: any<array[any], set[any]>], initial: any<array[any], set[any]>) => output: set[any]",
        reachable,
    ),
    Builtin::new(
        "graph.reachable_paths",
        "(graph: object[any: any<array[any], set[any]>], initial: any<array[any], set[any]>) => output: set[array[any]]",
        reachable_paths,
    ),
];

/// The member under a key, or under each key of a path in turn; the default if there is none.
fn get<'a>(_: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let object = operand::object(args, 0)?;
    let key = operand::any(args, 1);
    let found = match key.as_array() {
        None => object.get(key),
        Some(path) => path.iter().try_fold(operand::any(args, 0), Value::get),
    };
    Ok(Some(found.unwrap_or_else(|| operand::any(args, 2))))
}

fn keys<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let object = operand::object(args, 0)?;
    context.spend(object.len())?;
    let keys: Vec<_> = object.keys().collect();
    Ok(Some(context.heap.set_from_sorted(&keys)?))
}

fn union<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let (a, b) = (operand::object(args, 0)?, operand::object(args, 1)?);
    if a.is_empty() {
        return Ok(args.get(1).copied());
    }
    context.heap.charge_walk([operand::any(args, 0), operand::any(args, 1)])?;
    if b.is_empty() || a == b {
        return Ok(args.first().copied());
    }
    Ok(Some(merge(context, a, b, Spelling::First)?))
}

/// The last of all values under a key, merged with the objects that stand under it before.
fn union_n<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let list = operand::any(args, 0);
    let mut merged: Option<Value<'a>> = None;
    for item in operand::array(args, 0)? {
        let Some(object) = item.as_object() else {
            return Err(operand::wrong_element(0, list, item, &["object"]));
        };
        merged = Some(match merged.and_then(Value::as_object) {
            None => item,
            Some(so_far) => merge(context, so_far, object, Spelling::Last)?,
        });
    }
    Ok(Some(merged.unwrap_or(Value::EMPTY_OBJECT)))
}

/// Which of two equal keys is kept: `1` and `1.0` are equal.
#[derive(Clone, Copy)]
enum Spelling {
    First,
    Last,
}

/// Both, key by key; where both have a key, two objects merge and otherwise `b` wins.
fn merge<'a>(
    context: &Context<'a>,
    a: Object<'a>,
    b: Object<'a>,
    spelling: Spelling,
) -> Result<Value<'a>, BuiltinError> {
    context.spend(a.len() + b.len())?;
    let mut entries = Vec::with_capacity(a.len() + b.len());
    let (mut left, mut right) = (a.iter().peekable(), b.iter().peekable());
    loop {
        let order = match (left.peek(), right.peek()) {
            (Some((a, _)), Some((b, _))) => a.cmp(b),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => break,
        };
        if order.is_lt() {
            entries.extend(left.next());
        } else if order.is_gt() {
            entries.extend(right.next());
        } else if let (Some((first, old)), Some((last, new))) = (left.next(), right.next()) {
            let value = match (old.as_object(), new.as_object()) {
                (Some(old), Some(new)) => merge(context, old, new, spelling)?,
                _ => new,
            };
            let key = match spelling {
                Spelling::First => first,
                Spelling::Last => last,
            };
            entries.push((key, value));
        }
    }
    Ok(context.heap.object_from_sorted(&entries)?)
}

/// The keys that an array, a set or an object gives, sorted.
fn key_set<'a>(context: &Context<'a>, args: &[Value<'a>]) -> Result<Vec<Value<'a>>, BuiltinError> {
    let value = operand::any(args, 1);
    let mut keys: Vec<_> = match value.view() {
        View::Array(array) => array.iter().collect(),
        View::Set(set) => set.iter().collect(),
        View::Object(object) => object.keys().collect(),
        _ => return Err(operand::wrong_type(1, value, &["object", "set", "array"])),
    };
    let count = context.heap.sort_set(&mut keys)?;
    keys.truncate(count);
    Ok(keys)
}

fn remove<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let object = operand::object(args, 0)?;
    let keys = key_set(context, args)?;
    context.spend(object.len())?;
    let kept: Vec<_> = object.iter().filter(|(key, _)| keys.binary_search(key).is_err()).collect();
    Ok(Some(context.heap.object_from_sorted(&kept)?))
}

fn filter<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let object = operand::object(args, 0)?;
    let keys = key_set(context, args)?;
    context.spend(object.len())?;
    // `1` and `1.0` are equal; OPA looks for the keys of the smaller one and keeps its spelling.
    let found = |(key, value)| {
        let at = keys.binary_search(&key).ok()?;
        let key = if object.len() < keys.len() { *keys.get(at)? } else { key };
        Some((key, value))
    };
    let kept: Vec<_> = object.iter().filter_map(found).collect();
    Ok(Some(context.heap.object_from_sorted(&kept)?))
}

fn subset<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let (whole, part) = (operand::any(args, 0), operand::any(args, 1));
    context.heap.charge_walk([whole, part])?;
    if let (View::Array(whole), View::Set(part)) = (whole.view(), part.view()) {
        let found = part.iter().filter(|item| whole.iter().any(|other| other == *item)).count();
        context.spend(part.len().saturating_mul(whole.len()))?;
        // An empty set is in no empty array, since OPA decides while it meets elements.
        return yes_or_no(found == part.len() && !whole.is_empty());
    }
    match is_subset(context, whole, part)? {
        Some(answer) => yes_or_no(answer),
        None => Err(BuiltinError::Operand(
            "both arguments object.subset must be of the same type or array and set".to_owned(),
        )),
    }
}

/// Whether `part` is in `whole`; `None` unless both are objects, both sets or both arrays.
fn is_subset<'a>(
    context: &Context<'a>,
    whole: Value<'a>,
    part: Value<'a>,
) -> Result<Option<bool>, BuiltinError> {
    Ok(Some(match (whole.view(), part.view()) {
        (View::Object(whole), View::Object(part)) => {
            context.spend(part.len())?;
            for (key, wanted) in part {
                let Some(found) = whole.get(key) else { return Ok(Some(false)) };
                if found != wanted && is_subset(context, found, wanted)? != Some(true) {
                    return Ok(Some(false));
                }
            }
            true
        }
        (View::Set(whole), View::Set(part)) => {
            context.spend(part.len())?;
            part.iter().all(|item| whole.contains(item))
        }
        (View::Array(whole), View::Array(part)) => is_sublist(context, whole, part)?,
        _ => return Ok(None),
    }))
}

/// Whether the elements of `part` stand next to one another in `whole`, as OPA looks: after a
/// mismatch it starts over one further.
fn is_sublist<'a>(
    context: &Context<'a>,
    whole: Array<'a>,
    part: Array<'a>,
) -> Result<bool, BuiltinError> {
    if part.len() > whole.len() {
        return Ok(false);
    }
    for start in 0..=whole.len() - part.len() {
        context.spend(part.len())?;
        if part.iter().enumerate().all(|(at, item)| whole.get(start + at) == Some(item)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Every `[path, value]` in a value, outermost first.
fn walk<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let mut found = Vec::new();
    walk_into(context, operand::any(args, 0), &mut Vec::new(), &mut found)?;
    context.array(&found)
}

fn walk_into<'a>(
    context: &Context<'a>,
    value: Value<'a>,
    path: &mut Vec<Value<'a>>,
    found: &mut Vec<Value<'a>>,
) -> Result<(), BuiltinError> {
    context.spend(1)?;
    context.allocate(size_of::<Value<'_>>())?;
    let here = context.heap.array(path)?;
    found.push(context.heap.array(&[here, value])?);
    let mut index = 0;
    while let Some((key, inner)) = value.entry(index) {
        path.push(key);
        walk_into(context, inner, path, found)?;
        path.pop();
        index += 1;
    }
    Ok(())
}

/// The neighbours of a node, if the graph has it.
fn neighbours<'a>(graph: Object<'a>, node: Value<'a>) -> Option<Vec<Value<'a>>> {
    Some(match graph.get(node)?.view() {
        View::Array(array) => array.iter().collect(),
        View::Set(set) => set.iter().collect(),
        _ => Vec::new(),
    })
}

fn reachable<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let graph = operand::object(args, 0)?;
    let mut queue: VecDeque<_> = operand::elements(args, 1, &["{array, set}"])?.collect();
    let mut reached = BTreeSet::new();
    while let Some(node) = queue.pop_front() {
        context.spend(1)?;
        if reached.contains(&node) {
            continue;
        }
        if let Some(edges) = neighbours(graph, node) {
            context.spend(edges.len())?;
            context.allocate(4 * size_of::<Value<'_>>())?;
            reached.insert(node);
            let new = edges.into_iter().filter(|edge| !reached.contains(edge));
            let known = queue.len();
            queue.extend(new);
            context.allocate((queue.len() - known).saturating_mul(size_of::<Value<'_>>()))?;
        }
    }
    let reached: Vec<_> = reached.into_iter().collect();
    Ok(Some(context.heap.set_from_sorted(&reached)?))
}

/// Every longest path without a repeated node from each of the starts.
fn reachable_paths<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let graph = operand::object(args, 0)?;
    let mut paths = Vec::new();
    for start in operand::elements(args, 1, &["{array, set}"])? {
        follow(context, graph, start, &mut paths)?;
    }
    Ok(Some(context.heap.set(paths)?))
}

/// Depth first without recursion, since a path may be as long as the graph is large.
///
/// A path that has reached a value ends the later ones from the same first edge as well, as in the
/// recorded cases; OPA 1.19 itself looks at each path alone.
fn follow<'a>(
    context: &Context<'a>,
    graph: Object<'a>,
    start: Value<'a>,
    paths: &mut Vec<Value<'a>>,
) -> Result<(), BuiltinError> {
    let Some(first) = neighbours(graph, start) else { return Ok(()) };
    if first.is_empty() {
        return commit(context, &[start], paths);
    }
    for edge in first {
        let mut reached = BTreeSet::from([start]);
        let mut path = vec![start];
        let mut pending: Vec<std::vec::IntoIter<Value<'a>>> = Vec::new();
        let mut next = Some(edge);
        loop {
            context.spend(path.len())?;
            match next.take() {
                // A node that the graph lacks is no part of the path.
                Some(node) => match neighbours(graph, node) {
                    None => commit(context, &path, paths)?,
                    Some(edges) => {
                        path.push(node);
                        if edges.is_empty() {
                            commit(context, &path, paths)?;
                            path.pop();
                        } else {
                            pending.push(edges.into_iter());
                        }
                    }
                },
                None => {
                    let Some(edges) = pending.last_mut() else { break };
                    match edges.next() {
                        None => {
                            pending.pop();
                            path.pop();
                        }
                        Some(node) if reached.contains(&node) => commit(context, &path, paths)?,
                        Some(node) => {
                            reached.extend(path.last().copied());
                            next = Some(node);
                        }
                    }
                }
            }
        }
    }
    Ok(())
}

fn commit<'a>(
    context: &Context<'a>,
    path: &[Value<'a>],
    paths: &mut Vec<Value<'a>>,
) -> Result<(), BuiltinError> {
    context.allocate(size_of::<Value<'_>>())?;
    paths.push(context.heap.array(path)?);
    Ok(())
}
