//! When two values count as the same.

use modgate_value::Value;

/// Whether two documents agree once every number has passed through a 64-bit float, which is what
/// Go's `encoding/json` does to recorded results.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().zip(b.iter()).all(|((k, a), (l, b))| k == l && same(a, b))
        }
        _ => a == b,
    }
}

/// As [`same`]; two lists agree in any order of their elements.
pub(crate) fn same_in_any_order(a: &Value, b: &Value) -> bool {
    let (Value::Array(a), Value::Array(b)) = (a, b) else { return same(a, b) };
    let mut left: Vec<&Value> = b.iter().collect();
    a.len() == b.len()
        && a.iter().all(|a| {
            let twin = left.iter().position(|b| same(a, b));
            twin.map(|at| left.swap_remove(at)).is_some()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Value {
        Value::from_json(text.as_bytes()).expect(text)
    }

    #[test]
    fn numbers_compare_as_floats() {
        assert!(same(&json("[12345678901234567890]"), &json("[12345678901234567000]")));
        assert!(same(&json(r#"{"a": 1.0}"#), &json(r#"{"a": 1}"#)));
        assert!(!same(&json("1"), &json(r#""1""#)));
        assert!(!same(&json(r#"{"a": 1}"#), &json(r#"{"b": 1}"#)));
    }

    #[test]
    fn multisets() {
        assert!(same_in_any_order(&json("[1, 2, 1]"), &json("[1, 1, 2]")));
        assert!(!same_in_any_order(&json("[1, 2, 2]"), &json("[1, 1, 2]")));
        assert!(!same_in_any_order(&json("[1]"), &json("[1, 1]")));
    }
}
