//! JSON text (RFC 8259) to [`Value`](crate::Value) and back.
//!
//! Reading is ours rather than `serde_json`'s because numbers must keep their text (`1.0`, `1e3`
//! and integers beyond 64 bits reach Rego and the user unchanged), and because building the tree,
//! not scanning, is what costs: this one allocates once per container and, for short text, not at
//! all.

mod peek;
mod plain;
mod read;
mod write;

use std::fmt;

use crate::Value;

pub use peek::peek_text;
pub(crate) use read::lossy;
pub use read::{
    Bounds, OBJECT_VALUES, ParseError, ParseErrorKind, Partial, parse, parse_nested, parse_within,
};
pub use write::{Escape, write, write_pretty, write_string};

/// How many bytes at the front of a text may stand in a JSON string as they are: those before the first
/// quote, backslash or control character.
pub fn plain_length(text: &[u8]) -> usize {
    plain::plain_length::<false>(text)
}

impl Value {
    /// Reads one JSON document. See [`parse`].
    ///
    /// # Errors
    ///
    /// When `text` is not one JSON document or nests deeper than [`crate::MAX_DEPTH`].
    pub fn from_json(text: &[u8]) -> Result<Self, ParseError> {
        parse(text)
    }

    /// Reads one JSON document that may nest up to `max_depth` levels. See [`parse_nested`].
    ///
    /// # Errors
    ///
    /// When `text` is not one JSON document or nests deeper.
    pub fn from_json_nested(text: &[u8], max_depth: usize) -> Result<Self, ParseError> {
        parse_nested(text, max_depth)
    }

    /// Compact JSON with sorted keys.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        write(self, &mut out, Escape::Minimal);
        out
    }
}

/// JSON, for reading in tests and debuggers.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_json())
    }
}

/// Compact JSON with sorted keys.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_json())
    }
}
