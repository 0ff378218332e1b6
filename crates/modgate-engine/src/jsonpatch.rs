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

use modgate_value::{Object, Str, Value};

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

/// A patch document: the list of its operations.
pub fn to_value(patch: &[PatchOperation]) -> Value {
    patch.iter().map(PatchOperation::to_value).collect()
}
