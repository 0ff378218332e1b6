//! The ground all of modgate's languages share.
//!
//! One immutable JSON [`Value`], parsed once per request, cheap to share between threads and to
//! index by key; numbers that keep what their author wrote; the text forms Go prints; the
//! [`Budget`] that every evaluation spends.
//!
//! What this crate deliberately does not know: Kubernetes, files, sockets, clocks. Read [`Value`]
//! and [`Budget`] first.
//!
//! ```
//! use modgate_value::Value;
//!
//! let pod = Value::from_json(br#"{"kind": "Pod", "spec": {"replicas": 3}}"#)?;
//! assert_eq!(pod.get("kind").and_then(Value::as_str), Some("Pod"));
//! assert_eq!(pod.pointer("/spec/replicas"), Some(&Value::from(3)));
//! # Ok::<(), modgate_value::json::ParseError>(())
//! ```
//!
//! # Limits
//!
//! A document nests at most [`MAX_DEPTH`] levels. Dropping, comparing and printing a value recurse
//! once per level, so whatever builds values (patches, evaluators) keeps to the same bound.

pub mod budget;
mod de;
pub mod diag;
pub mod gofloat;
pub mod gofmt;
pub mod gotime;
pub mod json;
mod number;
pub mod regex;
mod ser;
mod value;
pub mod yaml;

pub use budget::{Budget, Clock, Exhausted, Limits};
pub use de::DecodeError;
pub use number::{Number, Spelling};
pub use smol_str::{SmolStr as Str, format_smolstr};
pub use value::{Array, Object, Value};

/// How many containers may be nested inside one another in a document.
///
/// Kubernetes' deepest objects (CustomResourceDefinitions) stay below a tenth of this.
pub const MAX_DEPTH: usize = 512;
