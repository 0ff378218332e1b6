//! `reflect.DeepEqual`.

use crate::{
    cx::{Cx, Result, check_depth},
    val::{List, Map, Val},
};

/// Two values to compare, and how deep they stand.
type Pair<'a> = (Val<'a>, Val<'a>, usize);

/// Whether two values have the same type and the same content. Keeps a list of what is left to
/// compare, because data may be deeper than calls may be nested.
pub(crate) fn deep_equal<'a>(cx: &Cx<'a>, a: &Val<'a>, b: &Val<'a>) -> Result<bool> {
    let mut left = vec![(a.clone(), b.clone(), 0)];
    while let Some((a, b, depth)) = left.pop() {
        cx.spend(1)?;
        check_depth(depth)?;
        let equal = match (&a, &b) {
            (Val::List(a), Val::List(b)) => lists(a, b, depth, &mut left),
            (Val::Map(a), Val::Map(b)) => maps(cx, *a, *b, depth, &mut left)?,
            (Val::Pointer(a), Val::Pointer(b)) => {
                left.push((Val::of_json(a), Val::of_json(b), depth + 1));
                true
            }
            _ => flat(cx, &a, &b)?,
        };
        if !equal {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Values without parts.
#[expect(clippy::float_cmp, reason = "Go compares floats exactly")]
fn flat(cx: &Cx<'_>, a: &Val<'_>, b: &Val<'_>) -> Result<bool> {
    Ok(match (a, b) {
        (Val::Missing | Val::Nil, Val::Missing | Val::Nil) => true,
        (Val::Bool(a), Val::Bool(b)) => a == b,
        (Val::Int(a), Val::Int(b)) | (Val::Int64(a), Val::Int64(b)) => a == b,
        (Val::Uint64(a), Val::Uint64(b)) => a == b,
        (Val::Uint32(a), Val::Uint32(b)) => a == b,
        (Val::Uint8(a), Val::Uint8(b)) => a == b,
        (Val::Float(a), Val::Float(b)) => a == b,
        (Val::Complex(a, ai), Val::Complex(b, bi)) => a == b && ai == bi,
        (Val::Text(a), Val::Text(b)) => {
            cx.spend(a.len() / 256)?;
            a == b
        }
        (Val::Context, Val::Context) => true,
        (Val::Time(a), Val::Time(b)) => a == b,
        (Val::Duration(a), Val::Duration(b)) => a == b,
        (Val::Month(a), Val::Month(b)) => a == b,
        (Val::Weekday(a), Val::Weekday(b)) => a == b,
        (Val::Version(a), Val::Version(b)) => a == b,
        (Val::Certificate(a), Val::Certificate(b)) => a == b,
        _ => false,
    })
}

fn lists<'a>(a: &List<'a>, b: &List<'a>, depth: usize, left: &mut Vec<Pair<'a>>) -> bool {
    let (a_kind, b_kind) = (a.kind(), b.kind());
    if a_kind.type_name() != b_kind.type_name()
        || a_kind.is_nil() != b_kind.is_nil()
        || a.len() != b.len()
    {
        return false;
    }
    left.extend(a.iter().zip(b.iter()).rev().map(|(a, b)| (a, b, depth + 1)));
    true
}

fn maps<'a>(
    cx: &Cx<'a>,
    a: Map<'a>,
    b: Map<'a>,
    depth: usize,
    left: &mut Vec<Pair<'a>>,
) -> Result<bool> {
    if a.holds_texts() != b.holds_texts()
        || matches!(a, Map::Nil) != matches!(b, Map::Nil)
        || cx.len(a) != cx.len(b)
    {
        return Ok(false);
    }
    let (a, b) = (cx.entries(a)?, cx.entries(b)?);
    if a.iter().zip(&b).any(|((key, _), (other, _))| key != other) {
        return Ok(false);
    }
    left.extend(a.into_iter().zip(b).rev().map(|((_, a), (_, b))| (a, b, depth + 1)));
    Ok(true)
}
