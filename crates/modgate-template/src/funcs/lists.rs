//! Sprig's list functions.

use crate::{
    cx::{Cx, Fault, Result},
    equal::deep_equal,
    funcs::{
        Args, Function, Ty,
        defaults::is_empty,
        numbers::to_int,
        strings::{text_of, texts_of},
    },
    val::{List, ListKind, Val},
};

use Ty::{Any, Int};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("append", &[Any, Any], push),
    Function::new("chunk", &[Int, Any], chunk),
    Function::new("compact", &[Any], compact),
    Function::variadic("concat", &[Any], concat),
    Function::new("first", &[Any], first),
    Function::new("has", &[Any, Any], has),
    Function::new("initial", &[Any], initial),
    Function::new("last", &[Any], last),
    Function::variadic("list", &[Any], |cx, args| cx.any_list(args.all().to_vec())),
    Function::new("mustAppend", &[Any, Any], push),
    Function::new("mustChunk", &[Int, Any], chunk),
    Function::new("mustCompact", &[Any], compact),
    Function::new("mustFirst", &[Any], first),
    Function::new("mustHas", &[Any, Any], has),
    Function::new("mustInitial", &[Any], initial),
    Function::new("mustLast", &[Any], last),
    Function::new("mustPrepend", &[Any, Any], prepend),
    Function::new("mustPush", &[Any, Any], push),
    Function::new("mustRest", &[Any], rest),
    Function::new("mustReverse", &[Any], reverse),
    Function::variadic("mustSlice", &[Any, Any], slice),
    Function::new("mustUniq", &[Any], uniq),
    Function::variadic("mustWithout", &[Any, Any], without),
    Function::new("prepend", &[Any, Any], prepend),
    Function::new("push", &[Any, Any], push),
    Function::new("rest", &[Any], rest),
    Function::new("reverse", &[Any], reverse),
    Function::variadic("slice", &[Any, Any], slice),
    Function::new("sortAlpha", &[Any], sort_alpha),
    Function::variadic("tuple", &[Any], |cx, args| cx.any_list(args.all().to_vec())),
    Function::new("uniq", &[Any], uniq),
    Function::variadic("without", &[Any, Any], without),
];

/// The list of an argument, or the error of a function that cannot `what` on anything else.
fn list_of<'a>(value: &Val<'a>, what: &str) -> Result<List<'a>> {
    match value {
        Val::List(list) => Ok(list.clone()),
        Val::Nil | Val::Missing => Err(nil_dereference()),
        other => Err(Fault::new(format!("{what} {}", other.kind().name()))),
    }
}

fn nil_dereference() -> Fault {
    Fault::new("runtime error: invalid memory address or nil pointer dereference")
}

/// The elements of a list, with room for one more.
fn items<'a>(cx: &Cx<'a>, list: &List<'a>) -> Result<Vec<Val<'a>>> {
    cx.spend(list.len())?;
    cx.allocate((list.len() + 1) * size_of::<Val<'_>>())?;
    let mut items = Vec::with_capacity(list.len() + 1);
    items.extend(list.iter());
    Ok(items)
}

fn push<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let list = list_of(args.get(0), "Cannot push on type")?;
    let mut items = items(cx, &list)?;
    items.push(args.get(1).clone());
    cx.any_list(items)
}

fn prepend<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let list = list_of(args.get(0), "Cannot prepend on type")?;
    let mut items = items(cx, &list)?;
    items.insert(0, args.get(1).clone());
    cx.any_list(items)
}

fn chunk<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let list = list_of(args.get(1), "Cannot chunk type")?;
    let items = items(cx, &list)?;
    let Ok(size @ 1..) = usize::try_from(args.int(0)) else {
        // Go computes the number and lengths of chunks in floats; with a negative size that comes
        // out as something only for lists that are shorter.
        let magnitude = usize::try_from(args.int(0).unsigned_abs()).unwrap_or(usize::MAX);
        match items.len() {
            1 if magnitude > 1 => {
                let only = cx.any_list(items)?;
                return cx.list(vec![only], ListKind::Lists);
            }
            length if length > 1 && length - 1 <= magnitude => {
                return cx.list(Vec::new(), ListKind::Lists);
            }
            _ => {}
        }
        return Err(Fault::new("runtime error: makeslice: len out of range"));
    };
    let chunks = items.chunks(size).map(|chunk| cx.any_list(chunk.to_vec()));
    let chunks = chunks.collect::<Result<Vec<_>>>()?;
    cx.list(chunks, ListKind::Lists)
}

fn compact<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let list = list_of(args.get(0), "Cannot compact on type")?;
    let mut items = items(cx, &list)?;
    items.retain(|item| !is_empty(cx, item));
    cx.any_list(items)
}

fn concat<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let mut all = Vec::new();
    for value in args.all() {
        let list = match value {
            Val::List(list) => list,
            Val::Nil | Val::Missing => return Err(nil_dereference()),
            other => {
                let kind = other.kind().name();
                return Err(Fault::new(format!("Cannot concat type {kind} as list")));
            }
        };
        all.extend(items(cx, list)?);
    }
    let kind = if all.is_empty() { ListKind::Nil } else { ListKind::Any };
    cx.list(all, kind)
}

fn first<'a>(_: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let list = list_of(args.get(0), "Cannot find first on type")?;
    Ok(list.get(0).unwrap_or(Val::Nil))
}

fn last<'a>(_: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let list = list_of(args.get(0), "Cannot find last on type")?;
    Ok(list.len().checked_sub(1).and_then(|index| list.get(index)).unwrap_or(Val::Nil))
}

fn rest<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let list = list_of(args.get(0), "Cannot find rest on type")?;
    let mut items = items(cx, &list)?;
    if items.is_empty() {
        return cx.list(items, ListKind::Nil);
    }
    items.remove(0);
    cx.any_list(items)
}

fn initial<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let list = list_of(args.get(0), "Cannot find initial on type")?;
    let mut items = items(cx, &list)?;
    if items.pop().is_none() {
        return cx.list(items, ListKind::Nil);
    }
    cx.any_list(items)
}

fn reverse<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let list = list_of(args.get(0), "Cannot find reverse on type")?;
    let mut items = items(cx, &list)?;
    items.reverse();
    cx.any_list(items)
}

fn contains<'a>(cx: &Cx<'a>, items: &[Val<'a>], wanted: &Val<'a>) -> Result<bool> {
    for item in items {
        if deep_equal(cx, wanted, item)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn uniq<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let list = list_of(args.get(0), "Cannot find uniq on type")?;
    let mut distinct = Vec::new();
    for item in items(cx, &list)? {
        if !contains(cx, &distinct, &item)? {
            distinct.push(item);
        }
    }
    cx.any_list(distinct)
}

fn without<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let list = list_of(args.get(0), "Cannot find without on type")?;
    let mut kept = Vec::new();
    for item in items(cx, &list)? {
        if !contains(cx, args.rest(1), &item)? {
            kept.push(item);
        }
    }
    cx.any_list(kept)
}

fn has<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    if matches!(args.get(1), Val::Nil | Val::Missing) {
        return Ok(Val::Bool(false));
    }
    let list = list_of(args.get(1), "Cannot find has on type")?;
    for item in list.iter() {
        if deep_equal(cx, args.get(0), &item)? {
            return Ok(Val::Bool(true));
        }
    }
    Ok(Val::Bool(false))
}

/// `slice list [start [end]]`, of lists only.
fn slice<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let list = list_of(args.get(0), "list should be type of slice or array but")?;
    let length = list.len();
    if length == 0 {
        return Ok(Val::Nil);
    }
    let bound = |index: usize, default: usize| match args.rest(index).first() {
        Some(value) => usize::try_from(to_int(value)).ok(),
        None => Some(default),
    };
    let range = bound(1, 0).zip(bound(2, length)).filter(|(a, b)| a <= b && *b <= length);
    let Some((start, end)) = range else {
        return Err(Fault::new("reflect.Value.Slice: slice index out of bounds"));
    };
    let items = (start..end).filter_map(|index| list.get(index));
    cx.list(items.collect(), list.kind())
}

fn sort_alpha<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let mut texts = match args.get(0).pointed() {
        list @ Val::List(_) => texts_of(cx, &list)?,
        other => vec![text_of(cx, &other)?],
    };
    cx.spend(texts.len().saturating_mul(8))?;
    texts.sort_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
    cx.list(texts.into_iter().map(Val::Text).collect(), ListKind::Texts)
}
