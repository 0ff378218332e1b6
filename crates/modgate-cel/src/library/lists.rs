//! Lists, also as sets.

use std::cmp::Ordering;

use super::{Table, operators::plus};
use crate::{
    error::{EvalError, Result, failed},
    heap::Heap,
    value::Val,
};

/// The longest list that is sorted by inserting one element after the other.
const SHORT: usize = 12;

/// The longest list that `lists.range` makes.
const MAX_RANGE: usize = 10_000_000;

pub(super) const FUNCTIONS: Table = &[
    ("isSorted", |heap, args| {
        let mut before = None;
        for item in only(args)?.items() {
            comparable(item)?;
            if let Some(before) = before
                && heap.precedence(before, item)?.is_some_and(Ordering::is_gt)
            {
                return Ok(Val::Bool(false));
            }
            before = Some(item);
        }
        Ok(Val::Bool(true))
    }),
    ("sum", |heap, args| {
        let list = only(args)?;
        let zero = match list.item(0) {
            Some(Val::Uint(_)) => Val::Uint(0),
            Some(Val::Double(_)) => Val::Double(0.0),
            Some(Val::Duration(_)) => Val::Duration(0),
            _ => Val::Int(0),
        };
        list.items().try_fold(zero, |sum, item| {
            heap.budget.spend(1)?;
            plus(heap, &[sum, item]).map_err(|error| match error {
                EvalError::NoOverload => unnamed(),
                error => error,
            })
        })
    }),
    ("min", |heap, args| best(heap, args, "min", Ordering::is_lt)),
    ("max", |heap, args| best(heap, args, "max", Ordering::is_gt)),
    ("slice", |heap, args| match args {
        [list, Val::Int(from), Val::Int(to)] if list.is_list() => slice(heap, *list, *from, *to),
        _ => Err(EvalError::NoOverload),
    }),
    ("flatten", |heap, args| {
        let (list, depth) = match args {
            [list] if list.is_list() => (*list, 1),
            [list, Val::Int(depth)] if list.is_list() => (*list, *depth),
            _ => return Err(EvalError::NoOverload),
        };
        let Ok(depth) = usize::try_from(depth) else {
            return failed("level must be non-negative");
        };
        let mut items = Vec::new();
        flatten(heap, list, depth, &mut items)?;
        heap.list(&items)
    }),
    ("sort", |heap, args| {
        let list = only(args)?;
        sorted_by(heap, list, list)
    }),
    ("lists.range", |heap, args| match args {
        [Val::Int(count)] => {
            let Ok(size) = usize::try_from(*count) else {
                let message = format!("lists.range: size must be non-negative, got {count}");
                return failed(message);
            };
            let count = size;
            if count > MAX_RANGE {
                return failed(format!(
                    "lists.range: size {count} exceeds maximum allowed ({MAX_RANGE})"
                ));
            }
            heap.budget.spend(count as u64)?;
            heap.list(&heap.gather(count, (0..).map(Val::Int))?)
        }
        _ => Err(EvalError::NoOverload),
    }),
    ("reverse", |heap, args| {
        let list = only(args)?;
        let mut items = heap.gather(list.entries().unwrap_or(0), list.items())?;
        items.reverse();
        heap.list(&items)
    }),
    ("distinct", |heap, args| {
        let mut kept: Vec<Val<'_>> = Vec::new();
        'items: for item in only(args)?.items() {
            for other in &kept {
                if heap.is_equal(item, *other)? {
                    continue 'items;
                }
            }
            heap.push(&mut kept, item)?;
        }
        heap.list(&kept)
    }),
    ("sets.contains", |heap, args| two(args).and_then(|(a, b)| contains(heap, a, b))),
    ("sets.equivalent", |heap, args| {
        let (a, b) = two(args)?;
        match contains(heap, a, b)? {
            Val::Bool(true) => contains(heap, b, a),
            other => Ok(other),
        }
    }),
    ("sets.intersects", |heap, args| {
        let (a, b) = two(args)?;
        for item in a.items() {
            if heap.contains(b, item)? {
                return Ok(Val::Bool(true));
            }
        }
        Ok(Val::Bool(false))
    }),
];

fn only<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    match args {
        [list] if list.is_list() => Ok(*list),
        _ => Err(EvalError::NoOverload),
    }
}

fn two<'a>(args: &[Val<'a>]) -> Result<(Val<'a>, Val<'a>)> {
    match args {
        [a, b] if a.is_list() && b.is_list() => Ok((*a, *b)),
        _ => Err(EvalError::NoOverload),
    }
}

fn contains<'a>(heap: Heap<'a>, list: Val<'a>, part: Val<'a>) -> Result<Val<'a>> {
    for item in part.items() {
        if !heap.contains(list, item)? {
            return Ok(Val::Bool(false));
        }
    }
    Ok(Val::Bool(true))
}

fn best<'a>(
    heap: Heap<'a>,
    args: &[Val<'a>],
    name: &str,
    better: impl Fn(Ordering) -> bool,
) -> Result<Val<'a>> {
    let mut items = only(args)?.items();
    let Some(mut best) = items.next() else {
        return failed(format!("{name} called on empty list"));
    };
    comparable(best)?;
    for item in items {
        comparable(item)?;
        if heap.precedence(item, best)?.is_some_and(&better) {
            best = item;
        }
    }
    Ok(best)
}

/// The list without elements.
pub(super) fn empty<'a>(heap: Heap<'a>) -> Result<Val<'a>> {
    heap.list(&heap.vec(0)?)
}

/// The error where a call has an overload and the elements of its list have not: it names no function.
fn unnamed() -> EvalError {
    EvalError::Failed(EvalError::NoOverload.to_string())
}

/// Fails for values of types without an order.
fn comparable(value: Val<'_>) -> Result<()> {
    if value.has_order() { Ok(()) } else { Err(unnamed()) }
}

fn slice<'a>(heap: Heap<'a>, list: Val<'a>, from: i64, to: i64) -> Result<Val<'a>> {
    let size = list.entries().unwrap_or(0);
    let (Ok(start), Ok(end)) = (usize::try_from(from), usize::try_from(to)) else {
        return failed(format!("cannot slice({from}, {to}), negative indexes not supported"));
    };
    if start > end {
        return failed(format!(
            "cannot slice({from}, {to}), start index must be less than or equal to end index"
        ));
    }
    if size < end {
        return failed(format!("cannot slice({from}, {to}), list is length {size}"));
    }
    match list {
        Val::JsonList(items) => Ok(Val::JsonList(items.get(start..end).unwrap_or_default())),
        Val::List(items) => Ok(Val::List(items.get(start..end).unwrap_or_default())),
        _ => {
            let items = (start..end).filter_map(|index| list.item(index));
            heap.list(&heap.gather(end - start, items)?)
        }
    }
}

fn flatten<'a>(
    heap: Heap<'a>,
    list: Val<'a>,
    depth: usize,
    items: &mut Vec<Val<'a>>,
) -> Result<()> {
    for item in list.items() {
        heap.budget.spend(1)?;
        if depth > 0 && item.is_list() {
            flatten(heap.deeper()?, item, depth - 1, items)?;
        } else {
            heap.push(items, item)?;
        }
    }
    Ok(())
}

/// The elements of `list` in the order of their `keys`.
pub(crate) fn sorted_by<'a>(heap: Heap<'a>, list: Val<'a>, keys: Val<'a>) -> Result<Val<'a>> {
    let size = list.entries().unwrap_or(0);
    heap.budget.spend(size as u64 * 16)?;
    let Some(first) = keys.item(0) else { return Ok(list) };
    if heap.compare(first, first).is_err_and(|error| error == EvalError::NoOverload) {
        return failed("list elements must be comparable");
    }
    if keys.items().any(|key| key.type_name() != first.type_name()) {
        return failed("list elements must have the same type");
    }
    // Sorting needs as much again.
    heap.budget.allocate(size * size_of::<(Val<'_>, Val<'_>)>())?;
    let mut pairs = heap.vec(size)?;
    pairs.extend(keys.items().zip(list.items()).take(size));
    if size <= SHORT {
        // As the original sorts short lists, which shows where not-a-number is among them.
        for end in 1..size {
            for at in (1..=end).rev() {
                let (Some((after, _)), Some((before, _))) = (pairs.get(at), pairs.get(at - 1))
                else {
                    break;
                };
                if heap.precedence(*after, *before)? != Some(Ordering::Less) {
                    break;
                }
                pairs.swap(at, at - 1);
            }
        }
    } else {
        let mut error = None;
        pairs.sort_by(|(a, _), (b, _)| match heap.precedence(*a, *b) {
            Ok(Some(order)) => order,
            // Not-a-number goes to the front.
            Ok(None) => is_nan(*b).cmp(&is_nan(*a)),
            Err(found) => {
                error = Some(found);
                Ordering::Equal
            }
        });
        if let Some(error) = error {
            return Err(error);
        }
    }
    heap.list(&heap.gather(size, pairs.into_iter().map(|(_, item)| item))?)
}

fn is_nan(value: Val<'_>) -> bool {
    matches!(value, Val::Double(value) if value.is_nan())
}

pub(super) fn index_of<'a>(heap: Heap<'a>, list: Val<'a>, wanted: Val<'a>) -> Result<Val<'a>> {
    find(heap, list, wanted, 0..list.entries().unwrap_or(0))
}

pub(super) fn last_index_of<'a>(heap: Heap<'a>, list: Val<'a>, wanted: Val<'a>) -> Result<Val<'a>> {
    find(heap, list, wanted, (0..list.entries().unwrap_or(0)).rev())
}

fn find<'a>(
    heap: Heap<'a>,
    list: Val<'a>,
    wanted: Val<'a>,
    indices: impl Iterator<Item = usize>,
) -> Result<Val<'a>> {
    if !list.is_list() {
        return Err(EvalError::NoOverload);
    }
    for index in indices {
        if let Some(item) = list.item(index)
            && heap.is_equal(item, wanted)?
        {
            return Ok(Val::Int(i64::try_from(index).unwrap_or(i64::MAX)));
        }
    }
    Ok(Val::Int(-1))
}
