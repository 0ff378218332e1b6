//! The difference between two documents, to the last digit of their numbers.

use modgate_value::Value;

use super::{Op, PatchOperation, writer::Writer};

/// The operations that turn `from` into exactly `to`, in the plain sense of RFC 6902.
///
/// Where [`diff`](super::diff) writes what KubeMod would, with its numbers as 64-bit floats, this
/// one keeps every number: Gatekeeper's mutators may set integers that are no floats
/// (`fix-numbers`). Numbers of the same value are the same, however they are written. What differs
/// deeper than [`MAX_DEPTH`](modgate_value::MAX_DEPTH) levels is replaced at that level.
pub fn diff_exact(from: &Value, to: &Value) -> Vec<PatchOperation> {
    let mut out = Writer::default();
    values(&mut out, from, to);
    out.patch
}

fn values(out: &mut Writer, from: &Value, to: &Value) {
    match (from, to) {
        (Value::Object(a), Value::Object(b)) if a.ptr_eq(b) => {}
        (Value::Array(a), Value::Array(b)) if a.ptr_eq(b) => {}
        (Value::Object(a), Value::Object(b)) if out.descends() => {
            for key in a.keys().filter(|key| !b.contains_key(key)) {
                out.at_key(key, |out| out.emit(Op::Remove, None));
            }
            for (key, member) in b {
                out.at_key(key, |out| match a.get(key) {
                    None => out.emit(Op::Add, Some(member.clone())),
                    Some(before) => values(out, before, member),
                });
            }
        }
        (Value::Array(a), Value::Array(b)) if out.descends() => lists(out, a, b),
        _ if from != to => out.emit(Op::Replace, Some(to.clone())),
        _ => {}
    }
}

/// The common beginning and end of both lists stay; between them, elements are compared by position.
fn lists(out: &mut Writer, a: &[Value], b: &[Value]) {
    let start = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let rest_a = a.get(start..).unwrap_or_default();
    let rest_b = b.get(start..).unwrap_or_default();
    let end = rest_a.iter().rev().zip(rest_b.iter().rev()).take_while(|(x, y)| x == y).count();
    let middle_a = rest_a.get(..rest_a.len() - end).unwrap_or_default();
    let middle_b = rest_b.get(..rest_b.len() - end).unwrap_or_default();
    let common = middle_a.len().min(middle_b.len());
    for (index, (before, after)) in middle_a.iter().zip(middle_b).enumerate() {
        out.at_index(start + index, |out| values(out, before, after));
    }
    for index in (common..middle_a.len()).rev() {
        out.at_index(start + index, |out| out.emit(Op::Remove, None));
    }
    for (index, element) in middle_b.iter().enumerate().skip(common) {
        out.at_index(start + index, |out| out.emit(Op::Add, Some(element.clone())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(from: &str, to: &str, expected: &str) {
        let parse = |text: &str| Value::from_json(text.as_bytes()).expect(text);
        let patch = diff_exact(&parse(from), &parse(to));
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
        check(r#"{"a": null}"#, r#"{"a": {"b": 1}}"#, r#"replace /a {"b":1}"#);
        check(r#"{"a": 1, "b": 2}"#, r#"{"b": null}"#, "remove /a; replace /b null");
        check(
            r#"{"a": 9007199254740992}"#,
            r#"{"a": 9007199254740993}"#,
            "replace /a 9007199254740993",
        );
    }

    #[test]
    fn elements() {
        check("[1, 2]", "[1, 2, 3]", "add /2 3");
        check("[1, 2, 3]", "[1, 3]", "remove /1");
        check("[1, 2, 3, 4]", "[4]", "remove /2; remove /1; remove /0");
        check("[1, 9]", "[1, 2, 3, 9]", "add /1 2; add /2 3");
        check(r#"[{"a": 1}, 2]"#, r#"[{"a": 3}, 2]"#, "replace /0/a 3");
        check("[1, 2]", "[3]", "replace /0 3; remove /1");
        check("[1, 1]", "[1]", "remove /1");
    }
}
