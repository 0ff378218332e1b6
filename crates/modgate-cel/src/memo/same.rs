//! Values that are the same.

use modgate_value::{Object, Spelling, Value as Json};

use crate::value::Val;

/// Whether two values are made of the same parts in the same way, so that whatever is done with them comes to
/// the same and costs the same. `left` bounds the number of parts that are looked at.
pub(crate) fn is_same(a: Val<'_>, b: Val<'_>, left: &mut u32) -> bool {
    let Some(less) = left.checked_sub(1) else { return false };
    *left = less;
    match (a, b) {
        (Val::Null, Val::Null) | (Val::Variables, Val::Variables) => true,
        (Val::Bool(a), Val::Bool(b)) => a == b,
        (Val::Int(a), Val::Int(b)) | (Val::Duration(a), Val::Duration(b)) => a == b,
        (Val::Uint(a), Val::Uint(b)) => a == b,
        (Val::Double(a), Val::Double(b)) => a.to_bits() == b.to_bits(),
        (Val::String(a), Val::String(b)) => is_short(a.len(), left) && a == b,
        (Val::Bytes(a), Val::Bytes(b)) => is_short(a.len(), left) && a == b,
        (Val::Type(a), Val::Type(b)) => a == b,
        (Val::JsonList(a), Val::JsonList(b)) => is_same_list(a, b, left),
        (Val::JsonMap(a), Val::JsonMap(b)) => is_same_object(a, b, left),
        (Val::List(a), Val::List(b)) => {
            std::ptr::eq(a, b)
                || a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(*a, *b, left))
        }
        (Val::Map(a), Val::Map(b)) => {
            let mut pairs = a.iter().zip(b);
            std::ptr::eq(a, b)
                || a.len() == b.len()
                    && pairs.all(|(a, b)| is_same(a.0, b.0, left) && is_same(a.1, b.1, left))
        }
        (Val::OwnedList(a), Val::OwnedList(b)) => {
            let mut pairs = a.iter().zip(b);
            std::ptr::eq(a, b)
                || a.len() == b.len() && pairs.all(|(a, b)| is_same(a.value(), b.value(), left))
        }
        (Val::OwnedMap(a), Val::OwnedMap(b)) => {
            let mut pairs = a.iter().zip(b);
            std::ptr::eq(a, b)
                || a.len() == b.len()
                    && pairs.all(|(a, b)| {
                        is_same(a.0.value(), b.0.value(), left)
                            && is_same(a.1.value(), b.1.value(), left)
                    })
        }
        (Val::Optional(a), Val::Optional(b)) => match (a, b) {
            (Some(a), Some(b)) => is_same(*a, *b, left),
            (a, b) => a.is_none() && b.is_none(),
        },
        _ => false,
    }
}

/// Pays for a look at a text.
pub(crate) fn is_short(length: usize, left: &mut u32) -> bool {
    let cost = u32::try_from(length / 64).unwrap_or(u32::MAX);
    let enough = left.checked_sub(cost);
    *left = enough.unwrap_or(0);
    enough.is_some()
}

fn is_same_list(a: &[Json], b: &[Json], left: &mut u32) -> bool {
    std::ptr::eq(a, b)
        || a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same_json(a, b, left))
}

fn is_same_object(a: &Object, b: &Object, left: &mut u32) -> bool {
    let mut pairs = a.iter().zip(b.iter());
    std::ptr::eq(a, b)
        || a.len() == b.len() && pairs.all(|(a, b)| a.0 == b.0 && is_same_json(&a.1, &b.1, left))
}

fn is_same_json(a: &Json, b: &Json, left: &mut u32) -> bool {
    let Some(less) = left.checked_sub(1) else { return false };
    *left = less;
    match (a, b) {
        (Json::Null, Json::Null) => true,
        (Json::Bool(a), Json::Bool(b)) => a == b,
        (Json::String(a), Json::String(b)) => is_short(a.len(), left) && a == b,
        (Json::Number(a), Json::Number(b)) => match (a.spelling(), b.spelling()) {
            (Spelling::Int(a), Spelling::Int(b)) => a == b,
            (Spelling::Float(a), Spelling::Float(b)) => a.to_bits() == b.to_bits(),
            _ => false,
        },
        (Json::Array(a), Json::Array(b)) => is_same_list(a, b, left),
        (Json::Object(a), Json::Object(b)) => is_same_object(a, b, left),
        _ => false,
    }
}
