//! The difference between two documents as a JSON Patch (spec `kubemod.md`, 4.10).
//!
//! The algorithm is that of gomodules.xyz/jsonpatch, whose output KubeMod users see, with members
//! visited in key order instead of at random, null list elements replaced instead of inserted
//! (Q-61) and paths always valid JSON (Q-62). As there, numbers are 64-bit floats.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use modgate_value::{Number, Object, Value};

use super::{Op, PatchOperation, writer::Writer};

/// Beyond this many cells of its edit-distance table a list is compared position by position.
const MAX_CELLS: usize = 1 << 18;

/// The same for all lists of a document together.
const MAX_ALL_CELLS: usize = 4 * MAX_CELLS;

/// The operations that turn `from` into `to`.
///
/// Numbers count as equal, and are written, as 64-bit floats. What differs deeper than
/// [`MAX_DEPTH`](modgate_value::MAX_DEPTH) levels is replaced at that level.
pub fn diff(from: &Value, to: &Value) -> Vec<PatchOperation> {
    let mut out = Writer::default();
    values(&mut out, from, to, Parent::Object);
    out.patch
}

/// The parent of the compared value: in a list `add` would insert.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parent {
    Object,
    Array,
}

fn values(out: &mut Writer, from: &Value, to: &Value, parent: Parent) {
    match (from, to) {
        (Value::Null, Value::Null) => {}
        (Value::Null, _) if parent == Parent::Object => out.emit(Op::Add, Some(as_floats(to))),
        (Value::Object(a), Value::Object(b)) if a.ptr_eq(b) => {}
        (Value::Array(a), Value::Array(b)) if a.ptr_eq(b) => {}
        (Value::Object(a), Value::Object(b)) if out.descends() => members(out, a, b),
        (Value::Array(a), Value::Array(b)) if out.descends() => arrays(out, a, b),
        _ => {
            if !equal(from, to) {
                out.emit(Op::Replace, Some(as_floats(to)));
            }
        }
    }
}

/// Most members of most objects are the same, and found at once: no pointer is written for them.
fn members(out: &mut Writer, a: &Object, b: &Object) {
    let mut rest = a.iter().peekable();
    let mut common = 0;
    for (key, member) in b {
        while rest.next_if(|(name, _)| name < key).is_some() {}
        match rest.next_if(|(name, _)| name == key) {
            None => out.at_key(key, |out| out.emit(Op::Add, Some(as_floats(member)))),
            Some((_, before)) => {
                common += 1;
                if !is_untouched(before, member) {
                    out.at_key(key, |out| values(out, before, member, Parent::Object));
                }
            }
        }
    }
    if common < a.len() {
        for key in a.keys().filter(|key| !b.contains_key(key)) {
            out.at_key(key, |out| out.emit(Op::Remove, None));
        }
    }
}

/// Whether both are the same at first sight. What is not may be the same all the same.
fn is_untouched(from: &Value, to: &Value) -> bool {
    match (from, to) {
        (Value::Object(a), Value::Object(b)) => a.ptr_eq(b),
        (Value::Array(a), Value::Array(b)) => a.ptr_eq(b),
        (Value::String(a), Value::String(b)) => a == b,
        (Value::Null, Value::Null) => true,
        _ => false,
    }
}

fn arrays(out: &mut Writer, a: &[Value], b: &[Value]) {
    let cells = (a.len() + 1).saturating_mul(b.len() + 1);
    let fits = cells <= MAX_CELLS && out.cells + cells <= MAX_ALL_CELLS;
    if fits && is_simple(a) && is_simple(b) {
        out.cells += cells;
        return edit_distance(out, a, b);
    }
    let common = a.len().min(b.len());
    for index in (common..a.len()).rev() {
        out.at_index(index, |out| out.emit(Op::Remove, None));
    }
    for (index, element) in b.iter().enumerate().skip(common) {
        out.at_index(index, |out| out.emit(Op::Add, Some(as_floats(element))));
    }
    let both = a.iter().zip(b).enumerate();
    for (index, (before, after)) in both.filter(|(_, (a, b))| !is_untouched(a, b)) {
        out.at_index(index, |out| values(out, before, after, Parent::Array));
    }
}

/// Unit-cost edit distance, emitted from the tail to the head: remove before add before replace.
fn edit_distance(out: &mut Writer, a: &[Value], b: &[Value]) {
    let table = distances(a, b);
    let width = b.len() + 1;
    let cell = |i: usize, j: usize| table.get(i * width + j).copied().unwrap_or(0);
    let whole = !matches!(a.first(), Some(Value::Object(_)));
    let (mut i, mut j) = (a.len(), b.len());
    loop {
        let here = cell(i, j);
        if i > 0 && cell(i - 1, j) + 1 == here {
            out.at_index(i - 1, |out| out.emit(Op::Remove, None));
            i -= 1;
        } else if j > 0 && cell(i, j - 1) + 1 == here {
            out.at_index(i, |out| out.emit(Op::Add, b.get(j - 1).map(as_floats)));
            j -= 1;
        } else if let (Some(above), Some(left)) = (i.checked_sub(1), j.checked_sub(1)) {
            if cell(above, left) != here
                && let (Some(before), Some(after)) = (a.get(above), b.get(left))
            {
                out.at_index(above, |out| {
                    if whole {
                        out.emit(Op::Replace, Some(as_floats(after)));
                    } else {
                        values(out, before, after, Parent::Array);
                    }
                });
            }
            (i, j) = (above, left);
        } else {
            return;
        }
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

/// The table of edit distances: row `i`, column `j` is that between the first `i` of `a` and the
/// first `j` of `b`.
fn distances(a: &[Value], b: &[Value]) -> Vec<u32> {
    let (a, b) = classes(a, b);
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
                    (Some(x), Some(y)) if x == y => cell(&table, above, left),
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
    table
}

/// A number for each element, the same for those that are [`equal`]: elements may be large, and each
/// is in as many cells as the other list has elements.
fn classes(a: &[Value], b: &[Value]) -> (Vec<usize>, Vec<usize>) {
    let mut known: BTreeMap<u64, Vec<(usize, &Value)>> = BTreeMap::new();
    let mut next = 0;
    let mut class = |value| {
        let alike = known.entry(digest(value)).or_default();
        if let Some((class, _)) = alike.iter().find(|(_, other)| equal(value, other)) {
            return *class;
        }
        next += 1;
        alike.push((next, value));
        next
    };
    let a = a.iter().map(&mut class).collect();
    (a, b.iter().map(class).collect())
}

/// The same for values that are [`equal`].
fn digest(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    for visit in value.walk() {
        visit.key.map(|key| key.as_str()).hash(&mut hasher);
        match visit.value {
            Value::Null => 0_u8.hash(&mut hasher),
            Value::Bool(value) => value.hash(&mut hasher),
            // Both zeros are equal.
            Value::Number(number) => (number.as_f64() + 0.0).to_bits().hash(&mut hasher),
            Value::String(text) => text.as_str().hash(&mut hasher),
            Value::Array(elements) => elements.len().hash(&mut hasher),
            Value::Object(members) => members.len().hash(&mut hasher),
        }
    }
    hasher.finish()
}

/// Equality with numbers as 64-bit floats. Does not recurse: documents are deep.
fn equal(a: &Value, b: &Value) -> bool {
    #[expect(clippy::float_cmp, reason = "the very float is what counts")]
    let alike = |a: &Value, b: &Value| match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len(),
        (Value::Object(a), Value::Object(b)) => a.len() == b.len(),
        _ => a == b,
    };
    match (a, b) {
        (Value::Array(a), Value::Array(b)) if a.ptr_eq(b) => true,
        (Value::Object(a), Value::Object(b)) if a.ptr_eq(b) => true,
        // Containers of the same lengths all the way keep both walks in step.
        _ => a.walk().zip(b.walk()).all(|(a, b)| a.key == b.key && alike(a.value, b.value)),
    }
}

/// The value with its numbers as 64-bit floats print; shared where nothing changes.
fn as_floats(value: &Value) -> Value {
    let rounded = |value: &Value| value.as_number().and_then(rounded).map(Value::from);
    if value.walk().any(|visit| rounded(visit.value).is_some()) {
        value.map_scalars(rounded)
    } else {
        value.clone()
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
    use modgate_value::{Budget, MAX_DEPTH, MAX_JSON_DEPTH};

    use super::*;
    use crate::jsonpatch::{Tree, apply, diff_exact};

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

    /// As deep as an API server sends documents, on half the stack that threads have by default.
    #[test]
    fn deep_documents() {
        let test = || {
            for (open, close) in [("[", "]"), (r#"{"a":"#, "}"), (r#"[{"a":"#, "}]")] {
                let levels = MAX_JSON_DEPTH / open.matches(['[', '{']).count();
                let document = |inner: &str| {
                    let text = format!("{}{inner}{}", open.repeat(levels), close.repeat(levels));
                    Value::from_json_nested(text.as_bytes(), MAX_JSON_DEPTH).expect("JSON")
                };
                let (one, other) = (document("1"), document("2"));
                assert!(diff(&one, &document("1.0")).is_empty());
                assert!(diff_exact(&one, &document("1.0")).is_empty());
                for patch in [diff(&one, &other), diff_exact(&one, &other)] {
                    let [operation] = patch.as_slice() else { panic!("{}", patch.len()) };
                    assert_eq!(operation.path.matches('/').count(), MAX_DEPTH);
                    let below = operation.value.as_ref().map(Value::depth);
                    assert_eq!(below, Some(MAX_JSON_DEPTH - MAX_DEPTH));
                }
                let budget = Budget::unlimited();
                for op in [Op::Add, Op::Replace, Op::Remove] {
                    for length in [1, MAX_DEPTH - 1, MAX_DEPTH, MAX_JSON_DEPTH] {
                        let path = open.replace('[', "/0").replace(r#"{"a":"#, "/a");
                        let path =
                            path.repeat(levels).split_inclusive('/').take(length + 1).collect();
                        let path: String = path;
                        let path = path.trim_end_matches('/').to_owned();
                        for value in [None, Some(Value::from(2)), Some(one.clone())] {
                            let mut tree = Tree::from(one.clone());
                            let operation = PatchOperation { op, path: path.clone(), value };
                            let _ = apply(&mut tree, &operation, &budget);
                            tree.write(&mut String::new());
                            let _ = tree.into_value().depth();
                        }
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(test);
        thread.expect("a thread").join().expect("no overflow");
    }
}
