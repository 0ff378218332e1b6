//! JSON text (RFC 8259) to [`Value`](crate::Value) and back.
//!
//! Reading is ours rather than `serde_json`'s because numbers must keep their text (`1.0`, `1e3`
//! and integers beyond 64 bits reach Rego and the user unchanged), and because building the tree,
//! not scanning, is what costs: this one allocates once per container and, for short text, not at
//! all.

mod peek;
mod read;
mod write;

pub use peek::peek_text;
pub(crate) use read::lossy;
pub use read::{ParseError, ParseErrorKind, parse, parse_nested};
pub use write::{Escape, write, write_pretty, write_string};
