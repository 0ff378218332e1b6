//! JSON Patch: RFC 6902 operations, KubeMod's extended way of applying them, and the difference
//! between two documents.
//!
//! [`apply`] works on a [`Tree`], which opens a document only where an operation touches it: the
//! rest stays shared with the original, so that [`diff`] can skip it without looking, and a text
//! such as the last-applied annotation keeps the bytes that no operation changed.

mod apply;
mod diff;
mod exact;
mod find;
mod pointer;
mod tree;
mod writer;

use modgate_value::{Object, Str, Value, json};

pub(crate) use apply::apply_in;
pub use apply::{ApplyError, MAX_PADDING, apply};
pub use diff::diff;
pub use exact::diff_exact;
pub(crate) use find::{find, first_keys, parent_len};
pub(crate) use tree::Editor;
pub use tree::Tree;

/// One RFC 6902 operation of the kinds modgate makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchOperation {
    /// The advice.
    pub op: Op,
    /// RFC 6901 pointer.
    pub path: String,
    /// The value of `add` and `replace`.
    pub value: Option<Value>,
}

/// The operations modgate makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Op {
    /// `add`
    Add,
    /// `replace`
    Replace,
    /// `remove`
    Remove,
}

impl Op {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Add, Self::Replace, Self::Remove];

    /// The name in a patch document.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Replace => "replace",
            Self::Remove => "remove",
        }
    }
}

impl PatchOperation {
    /// The operation as a member of a patch document.
    pub fn to_value(&self) -> Value {
        let mut members: Vec<(Str, Value)> = vec![
            ("op".into(), self.op.as_str().into()),
            ("path".into(), self.path.as_str().into()),
        ];
        if let Some(value) = &self.value {
            members.push(("value".into(), value.clone()));
        }
        Object::from_entries(members).into()
    }
}

/// The text of a patch document, as that of [`to_value`].
pub fn to_json(patch: &[PatchOperation]) -> String {
    let mut out = String::with_capacity(patch.iter().map(|it| it.path.len() + 64).sum());
    out.push('[');
    for (index, operation) in patch.iter().enumerate() {
        out.push_str(if index > 0 { ",{\"op\":\"" } else { "{\"op\":\"" });
        out.push_str(operation.op.as_str());
        out.push_str("\",\"path\":");
        json::write_string(&operation.path, &mut out, json::Escape::Minimal);
        if let Some(value) = &operation.value {
            out.push_str(",\"value\":");
            json::write(value, &mut out, json::Escape::Minimal);
        }
        out.push('}');
    }
    out.push(']');
    out
}

/// A patch document: the list of its operations.
pub fn to_value(patch: &[PatchOperation]) -> Value {
    patch.iter().map(PatchOperation::to_value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_patch_is_that_of_its_value() {
        let value = |text: &str| Value::from_json(text.as_bytes()).expect(text);
        let operation = |op, path: &str, value| PatchOperation { op, path: path.to_owned(), value };
        let patch = [
            operation(
                Op::Add,
                "/a~1b/\"\\\n<é>",
                Some(value(r#"{"b": [1.50, null], "a": "\u0001<"}"#)),
            ),
            operation(Op::Replace, "/0", Some("text".into())),
            operation(Op::Remove, "", None),
        ];
        for part in [&patch[..], &patch[..1], &patch[2..], &[]] {
            assert_eq!(to_json(part), to_value(part).to_json());
        }
    }
}
