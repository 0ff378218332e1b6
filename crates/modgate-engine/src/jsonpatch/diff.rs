//! The difference between two documents as a JSON Patch (spec `kubemod.md`, 4.10).
//!
//! The algorithm is that of gomodules.xyz/jsonpatch, whose output KubeMod users see, with members
//! visited in key order instead of at random, null list elements replaced instead of inserted
//! (Q-61) and paths always valid JSON (Q-62). As there, numbers are 64-bit floats.

use modgate_value::{Number, Value};

use super::{
    Op, PatchOperation,
    pointer::{with_index, with_key},
};

/// Beyond this many cells of the edit-distance table lists are compared position by position.
const MAX_CELLS: usize = 1 << 18;

/// The operations that turn `from` into `to`.
///
/// Numbers count as equal, and are written, as 64-bit floats.
pub fn diff(from: &Value, to: &Value) -> Vec<PatchOperation> {
    let mut patch = Vec::new();
    let mut path = String::new();
    values(from, to, Parent::Object, &mut path, &mut patch);
    patch
}

/// What holds the value being compared: in a list `add` would insert.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parent {
    Object,
    Array,
}

fn values(
    from: &Value,
    to: &Value,
    parent: Parent,
    path: &mut String,
    patch: &mut Vec<PatchOperation>,
) {
    match (from, to) {
        (Value::Null, Value::Null) => {}
        (Value::Null, _) if parent == Parent::Object => emit(patch, Op::Add, path, Some(to)),
        (Value::Object(a), Value::Object(b)) if a.ptr_eq(b) => {}
        (Value::Array(a), Value::Array(b)) if a.ptr_eq(b) => {}
        (Value::Object(a), Value::Object(b)) => {
            for (key, member) in b {
                with_key(path, key, |path| match a.get(key) {
                    None => emit(patch, Op::Add, path, Some(member)),
                    Some(before) => values(before, member, Parent::Object, path, patch),
                });
            }
            for key in a.keys().filter(|key| !b.contains_key(key)) {
                with_key(path, key, |path| emit(patch, Op::Remove, path, None));
            }
        }
        (Value::Array(a), Value::Array(b)) => arrays(a, b, path, patch),
        _ => {
            if !equal(from, to) {
                emit(patch, Op::Replace, path, Some(to));
            }
        }
    }
}

fn arrays(a: &[Value], b: &[Value], path: &mut String, patch: &mut Vec<PatchOperation>) {
    let cells = (a.len() + 1).saturating_mul(b.len() + 1);
    if is_simple(a) && is_simple(b) && cells <= MAX_CELLS {
        return edit_distance(a, b, path, patch);
    }
    let common = a.len().min(b.len());
    for index in (common..a.len()).rev() {
        with_index(path, index, |path| emit(patch, Op::Remove, path, None));
    }
    for (index, element) in b.iter().enumerate().skip(common) {
        with_index(path, index, |path| emit(patch, Op::Add, path, Some(element)));
    }
    for (index, (before, after)) in a.iter().zip(b).enumerate() {
        with_index(path, index, |path| values(before, after, Parent::Array, path, patch));
    }
}

/// Strings, numbers and booleans, or objects of which the first has nothing but those and nulls:
/// the lists edit distance is used for.
fn is_simple(list: &[Value]) -> bool {
    let scalar =
        |value: &Value| matches!(value, Value::String(_) | Value::Number(_) | Value::Bool(_));
    match list.iter().find(|element| !scalar(element)) {
        None => true,
        Some(Value::Object(first)) => first.values().all(|value| value.is_null() || scalar(value)),
        Some(_) => false,
    }
}

/// Unit-cost edit distance, emitted from the tail to the head: remove before add before replace.
fn edit_distance(a: &[Value], b: &[Value], path: &mut String, patch: &mut Vec<PatchOperation>) {
    let width = b.len() + 1;
    let mut table: Vec<u32> = vec![0; (a.len() + 1) * width];
    let cell = |table: &[u32], i: usize, j: usize| table.get(i * width + j).copied().unwrap_or(0);
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            let cost = match (i.checked_sub(1), j.checked_sub(1)) {
                (None, None) => 0,
                (Some(above), None) => cell(&table, above, 0) + 1,
                (None, Some(left)) => cell(&table, 0, left) + 1,
                (Some(above), Some(left)) => match (a.get(above), b.get(left)) {
                    (Some(x), Some(y)) if equal(x, y) => cell(&table, above, left),
                    _ => {
                        1 + cell(&table, above, left)
                            .min(cell(&table, above, j))
                            .min(cell(&table, i, left))
                    }
                },
            };
            if let Some(slot) = table.get_mut(i * width + j) {
                *slot = cost;
            }
        }
    }
    let whole = !matches!(a.first(), Some(Value::Object(_)));
    let (mut i, mut j) = (a.len(), b.len());
    loop {
        let here = cell(&table, i, j);
        if i > 0 && cell(&table, i - 1, j) + 1 == here {
            with_index(path, i - 1, |path| emit(patch, Op::Remove, path, None));
            i -= 1;
        } else if j > 0 && cell(&table, i, j - 1) + 1 == here {
            with_index(path, i, |path| emit(patch, Op::Add, path, b.get(j - 1)));
            j -= 1;
        } else if let (Some(above), Some(left)) = (i.checked_sub(1), j.checked_sub(1)) {
            if cell(&table, above, left) != here
                && let (Some(before), Some(after)) = (a.get(above), b.get(left))
            {
                with_index(path, above, |path| {
                    if whole {
                        emit(patch, Op::Replace, path, Some(after));
                    } else {
                        values(before, after, Parent::Array, path, patch);
                    }
                });
            }
            (i, j) = (above, left);
        } else {
            return;
        }
    }
}

/// Equality with numbers as 64-bit floats.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        #[expect(clippy::float_cmp, reason = "the very float is what counts")]
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.ptr_eq(b) || (a.len() == b.len() && a.iter().zip(b).all(|(x, y)| equal(x, y)))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.ptr_eq(b)
                || (a.len() == b.len()
                    && a.iter().zip(b).all(|((k, x), (l, y))| k == l && equal(x, y)))
        }
        _ => a == b,
    }
}

fn emit(patch: &mut Vec<PatchOperation>, op: Op, path: &str, value: Option<&Value>) {
    patch.push(PatchOperation { op, path: path.to_owned(), value: value.map(as_floats) });
}

/// The value with its numbers as 64-bit floats print; shared where nothing changes.
fn as_floats(value: &Value) -> Value {
    match value {
        Value::Number(number) => rounded(number).map_or_else(|| value.clone(), Value::from),
        Value::Array(elements) if elements.iter().any(needs_rounding) => {
            elements.iter().map(as_floats).collect()
        }
        Value::Object(members) if members.values().any(needs_rounding) => {
            members.iter().map(|(key, member)| (key.clone(), as_floats(member))).collect()
        }
        _ => value.clone(),
    }
}

fn needs_rounding(value: &Value) -> bool {
    match value {
        Value::Number(number) => rounded(number).is_some(),
        Value::Array(elements) => elements.iter().any(needs_rounding),
        Value::Object(members) => members.values().any(needs_rounding),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

/// The number as a float prints, where that differs from how it is written.
fn rounded(number: &Number) -> Option<Number> {
    // Every integer of up to 2^53 is its own float.
    if number.is_integer_text() && number.as_i64().is_some_and(|int| int.unsigned_abs() <= 1 << 53)
    {
        return None;
    }
    let float = Number::from_f64(number.as_f64())?;
    (float.to_string() != number.to_string()).then_some(float)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(from: &str, to: &str, expected: &str) {
        let parse = |text: &str| Value::from_json(text.as_bytes()).expect(text);
        let patch = diff(&parse(from), &parse(to));
        let lines: Vec<String> = patch
            .iter()
            .map(|op| {
                let value = op.value.as_ref().map(|value| format!(" {value}")).unwrap_or_default();
                format!("{} {}{value}", op.op.as_str(), op.path)
            })
            .collect();
        assert_eq!(lines.join("; "), expected, "{from} -> {to}");
    }

    #[test]
    fn members() {
        check(r#"{"a": 1}"#, r#"{"a": 1.0}"#, "");
        check(r#"{"a": 1}"#, r#"{"a": 2, "b/c": 3}"#, "replace /a 2; add /b~1c 3");
        check(r#"{"a": 1, "b": 2}"#, r#"{"b": null}"#, "replace /b null; remove /a");
        check(r#"{"a": null}"#, r#"{"a": {"b": 1}}"#, r#"add /a {"b":1}"#);
        check(r#"{"a": {"b": 1}}"#, r#"{"a": [1]}"#, "replace /a [1]");
        check(r#"{}"#, r#"{"a\"\\~": 1}"#, r#"add /a"\~0 1"#);
    }

    #[test]
    fn simple_lists() {
        check(r#"["a","b","c"]"#, r#"["a","c"]"#, "remove /1");
        check(r#"["a","b","c"]"#, r#"["x","a","b","c"]"#, r#"add /0 "x""#);
        check(r#"["a","b"]"#, r#"["a","c"]"#, r#"replace /1 "c""#);
        check(r#"["s0","s1","s2","s3","s4"]"#, r#"["s0","s2","s4"]"#, "remove /3; remove /1");
        check(r#"[{"n":"a"},{"n":"b"}]"#, r#"[{"n":"q"},{"n":"b"}]"#, r#"replace /0/n "q""#);
        check(r#"[{"n":"a"}]"#, r#"[{"n":"q"},{"n":"a"}]"#, r#"add /0 {"n":"q"}"#);
    }

    #[test]
    fn other_lists() {
        check(
            r#"[{"p":[1]},{"p":[2]}]"#,
            r#"[{"p":[1]},{"p":[3]},{"p":[4]}]"#,
            r#"add /2 {"p":[4]}; replace /1/p/0 3"#,
        );
        check("[null, 1]", "[2, 1]", "replace /0 2");
        check("[[1], [2]]", "[[1]]", "remove /1");
    }

    #[test]
    fn numbers_are_floats() {
        check(r#"{}"#, r#"{"a": 12345678901234567890}"#, "add /a 12345678901234567000");
        check(r#"{}"#, r#"{"a": [1.50, {"b": 1e3}]}"#, r#"add /a [1.5,{"b":1000}]"#);
        check(r#"{"a": 9007199254740992}"#, r#"{"a": 9007199254740993}"#, "");
    }
}
