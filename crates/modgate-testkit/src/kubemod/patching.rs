//! A second, plain reading of how KubeMod applies operations (spec `kubemod.md`, 4.5 to 4.7).
//!
//! Written to be compared with the specification line by line, and unlike the engine's in every
//! respect but the result: it rebuilds the document instead of changing it.

use modgate_value::{Array, Object, Str, Value, pointer};

/// How the original strays from the specification, where asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Defect {
    /// Q-29: missing parents whose name is escaped cannot be made.
    EscapedParent,
    /// Q-31: going below a null made by the same rule crashes.
    BelowNewNull,
    /// Q-77: any number of nulls fits before an index.
    Padding,
}

/// Why a document was not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The operation does not apply.
    DoesNotApply,
    /// The original would crash.
    Crash,
}

/// One operation with its path complete.
#[derive(Debug, Clone)]
pub(super) struct Operation {
    pub(super) op: String,
    pub(super) path: String,
    pub(super) value: Value,
}

/// The most nulls one `add` may put before an index (Q-77).
const MAX_PADDING: usize = 1000;
/// Maximum number of nulls to create when comparing the original's answer with ours.
const PADDING_OF_ORIGINAL: usize = 100_000;

/// `document` after `operations`, all or none.
pub(super) fn apply_all(
    document: &Value,
    operations: &[Operation],
    defect: Option<Defect>,
) -> Result<Value, Fault> {
    let context = Context { start: document, defect };
    let mut current = document.clone();
    for operation in operations {
        current = context.apply(&current, operation)?;
    }
    Ok(current)
}

struct Context<'a> {
    /// The document before the rule.
    start: &'a Value,
    defect: Option<Defect>,
}

impl Context<'_> {
    fn apply(&self, document: &Value, operation: &Operation) -> Result<Value, Fault> {
        // What stands before the first slash is dropped (Q-24).
        let segments: Vec<&str> = operation.path.split('/').skip(1).collect();
        match (operation.op.as_str(), segments.is_empty()) {
            ("remove", true) => Ok(document.clone()),
            ("remove", false) => remove(document, &segments),
            ("add", false) => self.add(document, "", &segments, &operation.value),
            ("replace", false) => replace(document, &segments, &operation.value),
            _ => Err(Fault::DoesNotApply),
        }
    }

    fn add(&self, node: &Value, at: &str, path: &[&str], value: &Value) -> Result<Value, Fault> {
        let Some((segment, rest)) = path.split_first() else { return Ok(value.clone()) };
        let below = format!("{at}/{segment}");
        match node {
            Value::Object(members) => {
                let key = unescape(segment);
                let child = match members.get(&key) {
                    _ if rest.is_empty() => value.clone(),
                    Some(Value::Null) => {
                        self.check_null(&below)?;
                        self.add(&self.container(rest)?, &below, rest, value)?
                    }
                    Some(child) => self.add(child, &below, rest, value)?,
                    None if self.defect == Some(Defect::EscapedParent) && key != *segment => {
                        return Err(Fault::DoesNotApply);
                    }
                    None => self.add(&self.container(rest)?, &below, rest, value)?,
                };
                let mut members = members.clone();
                members.insert(key, child);
                Ok(members.into())
            }
            Value::Array(elements) => self.add_to_list(elements, &below, path, value),
            _ => Err(Fault::DoesNotApply),
        }
    }

    fn add_to_list(
        &self,
        elements: &Array,
        below: &str,
        path: &[&str],
        value: &Value,
    ) -> Result<Value, Fault> {
        let Some((segment, rest)) = path.split_first() else { return Ok(value.clone()) };
        let mut elements = elements.to_vec();
        let len = to_index(elements.len());
        if rest.is_empty() {
            let place = if *segment == "-" { len } else { insertion(integer(segment)?, len) };
            elements.insert(within(place, elements.len())?, value.clone());
            return Ok(elements.into());
        }
        let index = integer(segment)?;
        let existing = existing(index, len).and_then(|at| elements.get_mut(at));
        if let Some(element) = existing.filter(|element| !element.is_null()) {
            *element = self.add(element, below, rest, value)?;
            return Ok(elements.into());
        }
        if existing_is_null(&elements, index) {
            self.check_null(below)?;
        }
        // Missing, or null, next to which the new container is put (Q-32).
        if index > len {
            self.pad(&mut elements, index)?;
        }
        let place = within(insertion(index, to_index(elements.len())), elements.len())?;
        elements.insert(place, self.add(&self.container(rest)?, below, rest, value)?);
        Ok(elements.into())
    }

    /// The container that is created where a parent of `path` is missing: a list if an index comes
    /// next.
    fn container(&self, path: &[&str]) -> Result<Value, Fault> {
        let next = path.first().copied().unwrap_or_default();
        match next.parse::<i64>() {
            Err(_) => Ok(Object::default().into()),
            Ok(index) if index < -1 => Err(Fault::DoesNotApply),
            Ok(index) => {
                let mut elements = Vec::new();
                self.pad(&mut elements, index.max(0))?;
                Ok(elements.into())
            }
        }
    }

    fn pad(&self, elements: &mut Vec<Value>, length: i64) -> Result<(), Fault> {
        let length = usize::try_from(length).map_err(|_| Fault::DoesNotApply)?;
        let nulls = length.saturating_sub(elements.len());
        let most = match self.defect {
            Some(Defect::Padding) => PADDING_OF_ORIGINAL,
            _ => MAX_PADDING,
        };
        if nulls > most {
            let original = self.defect == Some(Defect::Padding);
            return Err(if original { Fault::Crash } else { Fault::DoesNotApply });
        }
        elements.resize(elements.len() + nulls, Value::Null);
        Ok(())
    }

    /// Nulls count as missing; the original crashes on those the same rule made (Q-31).
    fn check_null(&self, pointer: &str) -> Result<(), Fault> {
        let ours = self.start.pointer(pointer).is_none_or(|value| !value.is_null());
        if ours && self.defect == Some(Defect::BelowNewNull) {
            return Err(Fault::Crash);
        }
        Ok(())
    }
}

fn replace(node: &Value, path: &[&str], value: &Value) -> Result<Value, Fault> {
    let Some((segment, rest)) = path.split_first() else { return Ok(value.clone()) };
    match node {
        Value::Object(members) => {
            let key = unescape(segment);
            let child = members.get(&key).ok_or(Fault::DoesNotApply)?;
            let child = replace(child, rest, value)?;
            let mut members = members.clone();
            members.insert(key, child);
            Ok(members.into())
        }
        Value::Array(elements) => {
            let at = existing(integer(segment)?, to_index(elements.len()));
            let mut elements = elements.to_vec();
            let element = at.and_then(|at| elements.get_mut(at)).ok_or(Fault::DoesNotApply)?;
            *element = replace(element, rest, value)?;
            Ok(elements.into())
        }
        _ => Err(Fault::DoesNotApply),
    }
}

fn remove(node: &Value, path: &[&str]) -> Result<Value, Fault> {
    let Some((segment, rest)) = path.split_first() else { return Ok(node.clone()) };
    match node {
        Value::Object(members) => {
            let key = unescape(segment);
            let mut members = members.clone();
            if rest.is_empty() {
                members.remove(&key);
            } else if let Some(child) = members.get_mut(&key) {
                *child = remove(child, rest)?;
            }
            Ok(members.into())
        }
        Value::Array(elements) => {
            let index = match integer(segment) {
                Ok(index) => index,
                Err(fault) if rest.is_empty() => return Err(fault),
                Err(_) => return Ok(node.clone()),
            };
            let mut elements = elements.to_vec();
            let Some(at) = existing(index, to_index(elements.len())) else {
                return Ok(node.clone());
            };
            if rest.is_empty() {
                elements.remove(at);
            } else if let Some(element) = elements.get_mut(at) {
                *element = remove(element, rest)?;
            }
            Ok(elements.into())
        }
        _ => Ok(node.clone()),
    }
}

/// The position of an element that is there.
fn existing(index: i64, len: i64) -> Option<usize> {
    let at = if index < 0 { index.checked_add(len)? } else { index };
    usize::try_from(at).ok().filter(|_| at < len)
}

fn existing_is_null(elements: &[Value], index: i64) -> bool {
    existing(index, to_index(elements.len()))
        .and_then(|at| elements.get(at))
        .is_some_and(Value::is_null)
}

/// The position in front of which `add` inserts: -1 appends, -2 is before the last.
fn insertion(index: i64, len: i64) -> i64 {
    if index < 0 { len.saturating_add(1).saturating_add(index) } else { index }
}

fn within(place: i64, len: usize) -> Result<usize, Fault> {
    usize::try_from(place).ok().filter(|place| *place <= len).ok_or(Fault::DoesNotApply)
}

fn integer(segment: &str) -> Result<i64, Fault> {
    segment.parse().map_err(|_| Fault::DoesNotApply)
}

fn to_index(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}

fn unescape(segment: &str) -> Str {
    pointer::unescape(segment).as_ref().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Value {
        Value::from_json(text.as_bytes()).expect(text)
    }

    fn apply(document: &str, op: &str, path: &str) -> Result<String, Fault> {
        let operation =
            Operation { op: op.to_owned(), path: path.to_owned(), value: Value::from("v") };
        apply_all(&json(document), &[operation], None).map(|value| value.to_json())
    }

    #[test]
    fn the_table_of_indexes() {
        let list = r#"["a","b"]"#;
        let document = format!(r#"{{"l":{list}}}"#);
        for (op, path, expected) in [
            ("add", "/l/0", Some(r#"["v","a","b"]"#)),
            ("add", "/l/2", Some(r#"["a","b","v"]"#)),
            ("add", "/l/3", None),
            ("add", "/l/-", Some(r#"["a","b","v"]"#)),
            ("add", "/l/-1", Some(r#"["a","b","v"]"#)),
            ("add", "/l/-2", Some(r#"["a","v","b"]"#)),
            ("add", "/l/-3", Some(r#"["v","a","b"]"#)),
            ("add", "/l/-4", None),
            ("add", "/l/01", Some(r#"["a","v","b"]"#)),
            ("replace", "/l/-1", Some(r#"["a","v"]"#)),
            ("replace", "/l/2", None),
            ("remove", "/l/-2", Some(r#"["b"]"#)),
            ("remove", "/l/2", Some(list)),
            ("remove", "/l/x", None),
            ("remove", "/l/x/y", Some(list)),
            ("add", "/l/2/x", Some(r#"["a","b",{"x":"v"}]"#)),
            ("add", "/l/3/x", Some(r#"["a","b",null,{"x":"v"}]"#)),
            ("add", "/l/-3/x", Some(r#"[{"x":"v"},"a","b"]"#)),
            ("add", "/l/0/x", None),
        ] {
            let expected = expected.map(|list| format!(r#"{{"l":{list}}}"#));
            assert_eq!(apply(&document, op, path).ok(), expected, "{op} {path}");
        }
    }
}
