//! Reading operands, with OPA's words when they are not what they should be
//! (`v1/topdown/builtins/builtins.go`).

use num_bigint::BigInt;

use super::BuiltinError;
use crate::{
    number::Num,
    value::{Array, Items, Object, Set, Value, View},
};

/// The operand at `index`; `null` if the compiler let a call with too few through.
#[inline]
pub(super) fn any<'a>(args: &[Value<'a>], index: usize) -> Value<'a> {
    args.get(index).copied().unwrap_or_default()
}

/// `operand 1 must be one of {a, b} but got c`
#[cold]
pub(super) fn wrong_type(index: usize, got: Value<'_>, expected: &[&str]) -> BuiltinError {
    let position = index + 1;
    let got = got.type_name();
    BuiltinError::Operand(match expected {
        [one] => format!("operand {position} must be {one} but got {got}"),
        many => format!("operand {position} must be one of {{{}}} but got {got}", many.join(", ")),
    })
}

/// `operand 1 {problem}`
#[cold]
pub(super) fn wrong(index: usize, problem: &str) -> BuiltinError {
    BuiltinError::Operand(format!("operand {} {problem}", index + 1))
}

/// `operand 1 must be array of strings but got array containing number`
#[cold]
pub(super) fn wrong_element(
    index: usize,
    composite: Value<'_>,
    got: Value<'_>,
    expected: &[&str],
) -> BuiltinError {
    let position = index + 1;
    let (kind, got) = (composite.type_name(), got.type_name());
    BuiltinError::Operand(match expected {
        [one] => {
            format!("operand {position} must be {kind} of {one}s but got {kind} containing {got}")
        }
        many => format!(
            "operand {position} must be {kind} of (any of) {{{}}} but got {kind} containing {got}",
            many.join(", ")
        ),
    })
}

#[inline]
pub(super) fn string<'a>(args: &[Value<'a>], index: usize) -> Result<&'a str, BuiltinError> {
    let value = any(args, index);
    value.as_str().ok_or_else(|| wrong_type(index, value, &["string"]))
}

/// The bytes of a string, which need not be UTF-8.
#[inline]
pub(super) fn bytes<'a>(args: &[Value<'a>], index: usize) -> Result<&'a [u8], BuiltinError> {
    let value = any(args, index);
    value.as_bytes().ok_or_else(|| wrong_type(index, value, &["string"]))
}

#[inline]
pub(super) fn number<'a>(args: &[Value<'a>], index: usize) -> Result<Num<'a>, BuiltinError> {
    let value = any(args, index);
    value.as_number().ok_or_else(|| wrong_type(index, value, &["number"]))
}

#[inline]
pub(super) fn array<'a>(args: &[Value<'a>], index: usize) -> Result<Array<'a>, BuiltinError> {
    let value = any(args, index);
    value.as_array().ok_or_else(|| wrong_type(index, value, &["array"]))
}

#[inline]
pub(super) fn object<'a>(args: &[Value<'a>], index: usize) -> Result<Object<'a>, BuiltinError> {
    let value = any(args, index);
    value.as_object().ok_or_else(|| wrong_type(index, value, &["object"]))
}

#[inline]
pub(super) fn set<'a>(args: &[Value<'a>], index: usize) -> Result<Set<'a>, BuiltinError> {
    let value = any(args, index);
    value.as_set().ok_or_else(|| wrong_type(index, value, &["set"]))
}

/// A 64-bit integer written as one.
pub(super) fn int(args: &[Value<'_>], index: usize) -> Result<i64, BuiltinError> {
    number(args, index)?.as_int().ok_or_else(|| not_an_integer(index))
}

/// An integer of any size, however it is written, rounded to 64 bits of mantissa.
pub(super) fn integer(args: &[Value<'_>], index: usize) -> Result<BigInt, BuiltinError> {
    let value = any(args, index);
    let number = value.as_number().ok_or_else(|| wrong_type(index, value, &["integer"]))?;
    number.to_rounded_integer()?.ok_or_else(|| not_an_integer(index))
}

#[cold]
fn not_an_integer(index: usize) -> BuiltinError {
    wrong(index, "must be integer number but got floating-point number")
}

/// The elements of an array or set.
pub(super) fn elements<'a>(
    args: &[Value<'a>],
    index: usize,
    expected: &[&str],
) -> Result<Items<'a>, BuiltinError> {
    let value = any(args, index);
    match value.view() {
        View::Array(array) => Ok(array.iter()),
        View::Set(set) => Ok(set.iter()),
        _ => Err(wrong_type(index, value, expected)),
    }
}

/// The strings of an array or set of them, as bytes.
pub(super) fn byte_strings<'a>(
    args: &[Value<'a>],
    index: usize,
    expected: &[&str],
) -> Result<Vec<&'a [u8]>, BuiltinError> {
    let value = any(args, index);
    elements(args, index, expected)?
        .map(|item| item.as_bytes().ok_or_else(|| wrong_element(index, value, item, &["string"])))
        .collect()
}
