//! `reflect.DeepEqual`.

use crate::{
    cx::{Cx, Result, check_depth},
    val::{List, Map, Val},
};

/// Whether two values have the same type and the same content.
pub(crate) fn deep_equal<'a>(cx: &Cx<'a>, a: &Val<'a>, b: &Val<'a>) -> Result<bool> {
    equal_at(cx, a, b, 0)
}

#[expect(clippy::float_cmp, reason = "Go compares floats exactly")]
fn equal_at<'a>(cx: &Cx<'a>, a: &Val<'a>, b: &Val<'a>, depth: usize) -> Result<bool> {
    cx.spend(1)?;
    check_depth(depth)?;
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
        (Val::List(a), Val::List(b)) => lists(cx, a, b, depth)?,
        (Val::Map(a), Val::Map(b)) => maps(cx, *a, *b, depth)?,
        (Val::Pointer(a), Val::Pointer(b)) => {
            equal_at(cx, &Val::of_json(a), &Val::of_json(b), depth + 1)?
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

fn lists<'a>(cx: &Cx<'a>, a: &List<'a>, b: &List<'a>, depth: usize) -> Result<bool> {
    let (a_kind, b_kind) = (a.kind(), b.kind());
    if a_kind.type_name() != b_kind.type_name()
        || a_kind.is_nil() != b_kind.is_nil()
        || a.len() != b.len()
    {
        return Ok(false);
    }
    for (a, b) in a.iter().zip(b.iter()) {
        if !equal_at(cx, &a, &b, depth + 1)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn maps<'a>(cx: &Cx<'a>, a: Map<'a>, b: Map<'a>, depth: usize) -> Result<bool> {
    if a.holds_texts() != b.holds_texts()
        || matches!(a, Map::Nil) != matches!(b, Map::Nil)
        || cx.len(a) != cx.len(b)
    {
        return Ok(false);
    }
    for ((a_key, a), (b_key, b)) in cx.entries(a)?.into_iter().zip(cx.entries(b)?) {
        if a_key != b_key || !equal_at(cx, &a, &b, depth + 1)? {
            return Ok(false);
        }
    }
    Ok(true)
}
