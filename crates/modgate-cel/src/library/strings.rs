//! Texts.

use modgate_value::pointer;

use super::{Table, lists, printing};
use crate::{
    error::{EvalError, Result, failed},
    heap::Heap,
    value::Val,
};

pub(super) const FUNCTIONS: Table = &[
    ("contains", |heap, args| match args {
        [Val::String(a), Val::String(b)] => {
            heap.budget.spend(a.len() as u64 / 16)?;
            Ok(Val::Bool(a.contains(b)))
        }
        _ => Err(EvalError::NoOverload),
    }),
    ("startsWith", |heap, args| match args {
        [Val::String(a), Val::String(b)] => {
            heap.read(b.len().min(a.len()))?;
            Ok(Val::Bool(a.starts_with(b)))
        }
        _ => Err(EvalError::NoOverload),
    }),
    ("endsWith", |heap, args| match args {
        [Val::String(a), Val::String(b)] => {
            heap.read(b.len().min(a.len()))?;
            Ok(Val::Bool(a.ends_with(b)))
        }
        _ => Err(EvalError::NoOverload),
    }),
    ("charAt", |heap, args| match args {
        [Val::String(text), Val::Int(index)] => {
            heap.read(text.len())?;
            let rest = text.get(place(text, *index)?..).unwrap_or_default();
            let length = rest.chars().next().map_or(0, char::len_utf8);
            Ok(Val::String(rest.get(..length).unwrap_or_default()))
        }
        _ => Err(EvalError::NoOverload),
    }),
    ("indexOf", |heap, args| match args {
        [Val::String(text), Val::String(part)] => index_of(heap, text, part, 0),
        [Val::String(text), Val::String(part), Val::Int(from)] => index_of(heap, text, part, *from),
        [list, item] => lists::index_of(heap, *list, *item),
        _ => Err(EvalError::NoOverload),
    }),
    ("lastIndexOf", |heap, args| match args {
        [Val::String(text), Val::String(part)] => {
            let length = text.chars().count();
            let last = i64::try_from(length).unwrap_or(i64::MAX);
            match part.is_empty() {
                true => Ok(Val::Int(last)),
                false if text.len() < part.len() => Ok(Val::Int(-1)),
                false => last_index_of(heap, text, part, last - 1),
            }
        }
        [Val::String(text), Val::String(part), Val::Int(from)] => {
            last_index_of(heap, text, part, *from)
        }
        [list, item] => lists::last_index_of(heap, *list, *item),
        _ => Err(EvalError::NoOverload),
    }),
    ("lowerAscii", |heap, args| match args {
        [Val::String(text)] => {
            heap.build(text.len())?;
            heap.text(&text.to_ascii_lowercase())
        }
        _ => Err(EvalError::NoOverload),
    }),
    ("upperAscii", |heap, args| match args {
        [Val::String(text)] => {
            heap.build(text.len())?;
            heap.text(&text.to_ascii_uppercase())
        }
        _ => Err(EvalError::NoOverload),
    }),
    ("jsonpatch.escapeKey", |heap, args| match args {
        [Val::String(text)] => {
            heap.build(text.len().saturating_mul(2))?;
            heap.text(&pointer::escape(text))
        }
        _ => Err(EvalError::NoOverload),
    }),
    ("trim", |heap, args| match args {
        [Val::String(text)] => {
            heap.read(text.len())?;
            Ok(Val::String(text.trim()))
        }
        _ => Err(EvalError::NoOverload),
    }),
    ("substring", |heap, args| match args {
        [Val::String(text), Val::Int(from)] => {
            heap.read(text.len())?;
            Ok(Val::String(text.get(place(text, *from)?..).unwrap_or_default()))
        }
        [Val::String(_), Val::Int(from), Val::Int(to)] if from > to => {
            failed(format!("invalid substring range. start: {from}, end: {to}"))
        }
        [Val::String(text), Val::Int(from), Val::Int(to)] => {
            heap.read(text.len())?;
            let range = place(text, *from)?..place(text, *to)?;
            Ok(Val::String(text.get(range).unwrap_or_default()))
        }
        _ => Err(EvalError::NoOverload),
    }),
    ("replace", |heap, args| match args {
        [Val::String(text), Val::String(old), Val::String(new)] => {
            replace(heap, text, old, new, usize::MAX)
        }
        [Val::String(text), Val::String(old), Val::String(new), Val::Int(count)] => {
            replace(heap, text, old, new, usize::try_from(*count).unwrap_or(usize::MAX))
        }
        _ => Err(EvalError::NoOverload),
    }),
    ("split", |heap, args| match args {
        [Val::String(text), Val::String(by)] => split(heap, text, by, usize::MAX),
        [Val::String(text), Val::String(by), Val::Int(count)] => {
            split(heap, text, by, usize::try_from(*count).unwrap_or(usize::MAX))
        }
        _ => Err(EvalError::NoOverload),
    }),
    ("join", |heap, args| match args {
        [list] if list.is_list() => join(heap, *list, ""),
        [list, Val::String(by)] if list.is_list() => join(heap, *list, by),
        _ => Err(EvalError::NoOverload),
    }),
    ("strings.quote", |heap, args| match args {
        [Val::String(text)] => {
            heap.build(text.len() * 2)?;
            heap.text(&quote(text))
        }
        _ => Err(EvalError::NoOverload),
    }),
    ("format", |heap, args| match args {
        [Val::String(text), list] if list.is_list() => printing::format(heap, text, *list),
        _ => Err(EvalError::NoOverload),
    }),
];

/// The byte at which the character number `index` starts, or the end.
fn place(text: &str, index: i64) -> Result<usize> {
    let found = usize::try_from(index).ok().and_then(|index| at(text, index));
    found.map_or_else(|| failed(format!("index out of range: {index}")), Ok)
}

fn at(text: &str, index: usize) -> Option<usize> {
    if text.is_ascii() {
        return (index <= text.len()).then_some(index);
    }
    text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(index)
}

/// The number of the character that starts at a byte.
fn number(text: &str, byte: usize) -> Val<'static> {
    let before = text.get(..byte).unwrap_or_default();
    Val::Int(i64::try_from(before.chars().count()).unwrap_or(i64::MAX))
}

fn index_of<'a>(heap: Heap<'a>, text: &str, part: &str, from: i64) -> Result<Val<'a>> {
    heap.budget.spend(text.len() as u64 / 16)?;
    let Ok(start) = usize::try_from(from) else {
        return failed(format!("index out of range: {from}"));
    };
    if part.is_empty() {
        // Found where the search starts, at the end at the latest.
        return Ok(at(text, start).map_or_else(|| number(text, text.len()), |_| Val::Int(from)));
    }
    let found = at(text, start).and_then(|start| Some(start + text.get(start..)?.find(part)?));
    Ok(found.map_or(Val::Int(-1), |byte| number(text, byte)))
}

fn last_index_of<'a>(heap: Heap<'a>, text: &str, part: &str, from: i64) -> Result<Val<'a>> {
    heap.budget.spend(text.len() as u64 / 16)?;
    let Ok(start) = usize::try_from(from) else {
        return failed(format!("index out of range: {from}"));
    };
    if part.is_empty() {
        // Found where the search starts, at the end at the latest.
        return Ok(at(text, start).map_or_else(|| number(text, text.len()), |_| Val::Int(from)));
    }
    // The match may begin at `start` at the latest.
    let Some(start) = at(text, start).filter(|start| *start < text.len()) else {
        return Ok(Val::Int(-1));
    };
    let mut end = (start + part.len()).min(text.len());
    while !text.is_char_boundary(end) {
        end += 1;
    }
    let found = text.get(..end).and_then(|text| text.rfind(part));
    Ok(found.filter(|found| *found <= start).map_or(Val::Int(-1), |byte| number(text, byte)))
}

fn replace<'a>(heap: Heap<'a>, text: &str, old: &str, new: &str, most: usize) -> Result<Val<'a>> {
    heap.budget.spend(text.len() as u64 / 16)?;
    let mut out = String::new();
    let mut rest = text;
    let mut left = most;
    while left > 0 {
        let found = if old.is_empty() {
            // Between any two characters, before the first and after the last.
            match rest.chars().next() {
                _ if left == most => Some(0),
                Some(next) => Some(next.len_utf8()),
                None => None,
            }
        } else {
            rest.find(old)
        };
        let Some(at) = found else { break };
        let (before, after) = rest.split_at_checked(at).unwrap_or((rest, ""));
        heap.budget.spend(1)?;
        heap.build(before.len() + new.len())?;
        out.push_str(before);
        out.push_str(new);
        rest = after.get(old.len()..).unwrap_or_default();
        left -= 1;
    }
    heap.build(rest.len())?;
    out.push_str(rest);
    heap.text(&out)
}

fn split<'a>(heap: Heap<'a>, text: &'a str, by: &str, most: usize) -> Result<Val<'a>> {
    heap.budget.spend(text.len() as u64 / 16)?;
    let mut parts = Vec::new();
    let mut rest = text;
    while parts.len() + 1 < most {
        let at = if by.is_empty() {
            // One character each.
            rest.chars().next().map(char::len_utf8).filter(|length| *length < rest.len())
        } else {
            rest.find(by)
        };
        let Some((before, after)) = at.and_then(|at| rest.split_at_checked(at)) else { break };
        heap.budget.spend(1)?;
        heap.push(&mut parts, Val::String(before))?;
        rest = after.get(by.len()..).unwrap_or_default();
    }
    if most > 0 && !(by.is_empty() && text.is_empty()) {
        parts.push(Val::String(rest));
    }
    heap.list(&parts)
}

fn join<'a>(heap: Heap<'a>, list: Val<'a>, by: &str) -> Result<Val<'a>> {
    let mut length = 0_usize;
    for (index, item) in list.items().enumerate() {
        let Val::String(text) = item else {
            if index == 0 {
                return Err(EvalError::NoOverload);
            }
            return failed(format!("join: invalid input: {}", crate::heap::shown(item)));
        };
        heap.budget.spend(1)?;
        heap.build(by.len() + text.len())?;
        length += text.len() + if index > 0 { by.len() } else { 0 };
    }
    heap.budget.allocate(length)?;
    let mut out = bumpalo::collections::String::with_capacity_in(length, heap.arena);
    for (index, text) in list.items().filter_map(Val::as_str).enumerate() {
        if index > 0 {
            out.push_str(by);
        }
        out.push_str(text);
    }
    Ok(Val::String(out.into_bump_str()))
}

/// `text` as a literal.
fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}
