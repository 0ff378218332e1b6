//! JSON patches as the API server applies them (RFC 6902, `evanphx/json-patch` v4).

use modgate_value::{MAX_DEPTH, Object, Value, pointer};

/// How many values `copy` may add in one patch.
const MAX_COPIED: usize = 1_000_000;

/// An entry of a patch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Operation {
    pub(super) op: String,
    pub(super) path: String,
    /// Empty for none.
    pub(super) from: String,
    pub(super) value: Option<Value>,
}

/// Why a patch was not applied.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PatchFailure {
    /// A `test` was not met: the object stays as it was.
    Test,
    /// The API server's text.
    Error(String),
}

fn failed<T>(message: impl Into<String>) -> Result<T, PatchFailure> {
    Err(PatchFailure::Error(message.into()))
}

/// The document with all operations applied.
///
/// # Errors
///
/// At the first operation that does not apply.
pub(super) fn apply(document: &Value, operations: &[Operation]) -> Result<Value, PatchFailure> {
    let mut document = document.clone();
    let mut copied = 0;
    for operation in operations {
        let Operation { op, path, from, value } = operation;
        let new = || value.clone().unwrap_or_default();
        match op.as_str() {
            "add" => insert("add", &mut document, path, new())?,
            "remove" => {
                remove(&mut document, path).map_err(|problem| match problem {
                    Problem::NoParent => PatchFailure::Error(format!(
                        "remove operation does not apply: doc is missing path: \"{path}\": \
                         missing value"
                    )),
                    Problem::Other(message) => PatchFailure::Error(format!(
                        "error in remove for path: '{path}': {message}"
                    )),
                })?;
            }
            "replace" => replace(&mut document, path, new())?,
            "move" => {
                let found = source("move", &document, from)?;
                remove(&mut document, from).map_err(|problem| {
                    let (key, message) = (last(from), problem.message());
                    PatchFailure::Error(format!("error in move for path: '{key}': {message}"))
                })?;
                insert("move", &mut document, path, found)?;
            }
            "copy" => {
                let found = source("copy", &document, from)?;
                copied += count(&found, MAX_COPIED.saturating_sub(copied));
                if copied >= MAX_COPIED {
                    return failed(format!("a patch copies more than {MAX_COPIED} values"));
                }
                insert("copy", &mut document, path, found)?;
            }
            "test" => test(&document, path, value.as_ref())?,
            other => return failed(format!("Unexpected kind: {other}")),
        }
    }
    Ok(document)
}

/// How many values there are, counted up to `most`.
fn count(value: &Value, most: usize) -> usize {
    let mut found = 1;
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        match value {
            Value::Array(items) => waiting.extend(items.iter()),
            Value::Object(members) => waiting.extend(members.values()),
            _ => {}
        }
        found += 1;
        if found > most {
            return found;
        }
    }
    found
}

enum Problem {
    NoParent,
    Other(String),
}

impl Problem {
    fn message(self) -> String {
        match self {
            Self::NoParent => "missing value".to_owned(),
            Self::Other(message) => message,
        }
    }
}

/// The segments of a pointer; `None` where it has none.
fn segments(path: &str) -> Option<Vec<String>> {
    let (_, rest) = path.split_once('/')?;
    Some(rest.split('/').map(|part| pointer::unescape(part).into_owned()).collect())
}

/// The member that a path ends in.
fn last(path: &str) -> String {
    segments(path).and_then(|mut all| all.pop()).unwrap_or_default()
}

/// The place of a list that an index means; `len` is how many there are.
fn place(key: &str, len: usize) -> Result<usize, String> {
    let index: i64 =
        key.parse().map_err(|_| format!("strconv.Atoi: parsing {key:?}: invalid syntax"))?;
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    let at = if index < 0 { index + len } else { index };
    match usize::try_from(at) {
        Ok(found) if at < len => Ok(found),
        _ => Err(format!("Unable to access invalid index: {index}: invalid index referenced")),
    }
}

fn child<'v>(parent: &'v Value, key: &str) -> Option<&'v Value> {
    match parent {
        Value::Object(members) => members.get(key),
        Value::Array(items) => items.get(place(key, items.len()).ok()?),
        _ => None,
    }
}

/// The value a path leads to; the inner `None` for a member that is not there.
fn find<'v>(document: &'v Value, path: &str) -> Result<Option<&'v Value>, Problem> {
    let segments = segments(path).ok_or(Problem::NoParent)?;
    let Some((last, parents)) = segments.split_last() else { return Err(Problem::NoParent) };
    let mut parent = document;
    for key in parents {
        parent = child(parent, key).ok_or(Problem::NoParent)?;
    }
    match parent {
        Value::Object(members) => Ok(members.get(last).filter(|value| !value.is_null())),
        Value::Array(items) => {
            let at = place(last, items.len()).map_err(Problem::Other)?;
            Ok(items.get(at).filter(|value| !value.is_null()))
        }
        _ => Err(Problem::NoParent),
    }
}

/// Changes the list or map that a path ends in.
fn change(
    document: &mut Value,
    path: &str,
    work: impl FnOnce(&mut Value, &str) -> Result<(), String>,
) -> Result<(), Problem> {
    let segments = segments(path).ok_or(Problem::NoParent)?;
    let Some((last, parents)) = segments.split_last() else { return Err(Problem::NoParent) };
    let mut parent = document;
    for key in parents {
        let next = match parent {
            Value::Object(members) => members.get_mut(key),
            Value::Array(items) => {
                let at = place(key, items.len()).map_err(|_| Problem::NoParent)?;
                items.make_mut().get_mut(at)
            }
            _ => None,
        };
        parent = next.ok_or(Problem::NoParent)?;
    }
    match parent {
        Value::Object(_) | Value::Array(_) => work(parent, last).map_err(Problem::Other),
        _ => Err(Problem::NoParent),
    }
}

fn insert(op: &str, document: &mut Value, path: &str, value: Value) -> Result<(), PatchFailure> {
    let levels = path.matches('/').count() + value.depth();
    if levels > MAX_DEPTH {
        return failed(format!("the object would nest more than {MAX_DEPTH} levels"));
    }
    let done = change(document, path, |parent, key| match parent {
        Value::Object(members) => {
            members.insert(key, value);
            Ok(())
        }
        Value::Array(items) => {
            let mut all = items.to_vec();
            let at = match key {
                "-" => all.len(),
                key => place(key, all.len() + 1).map_err(|message| {
                    if message.starts_with("strconv") {
                        format!("value was not a proper array index: '{key}': {message}")
                    } else {
                        message
                    }
                })?,
            };
            all.insert(at, value);
            *items = all.into();
            Ok(())
        }
        _ => Ok(()),
    });
    done.map_err(|problem| {
        PatchFailure::Error(match (problem, op) {
            (Problem::NoParent, "add") => format!(
                "add operation does not apply: doc is missing path: \"{path}\": missing value"
            ),
            (Problem::NoParent, op) => format!(
                "{op} operation does not apply: doc is missing destination path: {path}: missing \
                 value"
            ),
            (Problem::Other(message), "copy") => {
                format!("error while adding value during copy: {message}")
            }
            (Problem::Other(message), op) => {
                format!("error in {op} for path: '{path}': {message}")
            }
        })
    })
}

fn remove(document: &mut Value, path: &str) -> Result<(), Problem> {
    change(document, path, |parent, key| match parent {
        Value::Object(members) => match members.remove(key) {
            Some(_) => Ok(()),
            None => Err(format!("Unable to remove nonexistent key: {key}: missing value")),
        },
        Value::Array(items) => {
            let at = place(key, items.len())?;
            let mut all = items.to_vec();
            all.remove(at);
            *items = all.into();
            Ok(())
        }
        _ => Ok(()),
    })
}

fn replace(document: &mut Value, path: &str, value: Value) -> Result<(), PatchFailure> {
    if path.is_empty() {
        if !matches!(value, Value::Object(_) | Value::Array(_)) {
            return failed("replace operation value must be object or array: %!w(<nil>)");
        }
        *document = value;
        return Ok(());
    }
    if path.matches('/').count() + value.depth() > MAX_DEPTH {
        return failed(format!("the object would nest more than {MAX_DEPTH} levels"));
    }
    let done = change(document, path, |parent, key| {
        match parent {
            // A member that is not there is added, as the original does.
            Value::Object(members) => {
                members.insert(key, value);
            }
            Value::Array(items) => {
                let at = place(key, items.len())?;
                if let Some(slot) = items.make_mut().get_mut(at) {
                    *slot = value;
                }
            }
            _ => {}
        }
        Ok(())
    });
    done.map_err(|problem| {
        let what = match problem {
            Problem::NoParent => "path",
            Problem::Other(_) => "key",
        };
        PatchFailure::Error(format!(
            "replace operation does not apply: doc is missing {what}: {path}: missing value"
        ))
    })
}

fn source(op: &str, document: &Value, from: &str) -> Result<Value, PatchFailure> {
    if from.is_empty() {
        return failed(format!(
            "{op} operation failed to decode from: operation, missing from field: missing value"
        ));
    }
    match find(document, from) {
        Ok(found) => Ok(found.cloned().unwrap_or_default()),
        Err(Problem::NoParent) => failed(format!(
            "{op} operation does not apply: doc is missing from path: {from}: missing value"
        )),
        Err(Problem::Other(message)) if op == "copy" => {
            failed(format!("error in copy for from: '{from}': {message}"))
        }
        Err(Problem::Other(message)) => {
            failed(format!("error in {op} for path: '{}': {message}", last(from)))
        }
    }
}

fn test(document: &Value, path: &str, wanted: Option<&Value>) -> Result<(), PatchFailure> {
    if path.is_empty() {
        return if Some(document) == wanted { Ok(()) } else { Err(PatchFailure::Test) };
    }
    match find(document, path) {
        Ok(None) if wanted.is_none() => Ok(()),
        Ok(Some(found)) if Some(found) == wanted => Ok(()),
        Ok(_) => Err(PatchFailure::Test),
        Err(Problem::NoParent) => {
            failed(format!("test operation does not apply: is missing path: {path}: missing value"))
        }
        Err(Problem::Other(message)) => {
            failed(format!("error in test for path: '{path}': {message}"))
        }
    }
}

/// Without members that are null, which a typed object does not have.
pub(super) fn without_nulls(value: &Value, depth: usize) -> Value {
    match value {
        _ if depth > MAX_DEPTH => value.clone(),
        Value::Object(members) => {
            let kept = members.iter().filter(|(_, value)| !value.is_null());
            let kept = kept.map(|(key, value)| (key.clone(), without_nulls(value, depth + 1)));
            Object::from_entries(kept.collect()).into()
        }
        Value::Array(items) => items.iter().map(|item| without_nulls(item, depth + 1)).collect(),
        scalar => scalar.clone(),
    }
}
