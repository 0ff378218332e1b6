//! The ground all of modgate's languages share.
//!
//! One immutable JSON [`Value`], parsed once per request, cheap to share between threads and to
//! index by key; numbers that keep what their author wrote; the text forms Go prints; the
//! [`Budget`] that every evaluation spends.
//!
//! This crate deliberately knows no Kubernetes, files, sockets or clocks. Read [`Value`]
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
//! Requests of an API server nest up to [`MAX_JSON_DEPTH`] levels, too deep for recursion.
//! Nothing in this crate recurses over a value without a bound: reading, dropping, comparing,
//! hashing and printing keep a list instead, and what goes through serde ends in an error beyond
//! [`MAX_DEPTH`]. So must everything that takes values it did not make: [`Value::walk`] and
//! [`Value::map_scalars`] go through them without recursion, [`Value::check_depth`] is what a
//! recursive function asks first. YAML, and whatever patches and evaluators build, keep to
//! [`MAX_DEPTH`].

pub mod budget;
mod de;
pub mod diag;
pub mod go;
pub mod gofloat;
pub mod gofmt;
pub mod gotime;
pub mod json;
pub mod near;
mod number;
pub mod odd;
pub mod pointer;
pub mod regex;
mod ser;
mod value;
pub mod yaml;

pub use budget::{Budget, Clock, Exhausted, Limits};
pub use de::DecodeError;
pub use number::{Number, Spelling};
pub use smol_str::{SmolStr as Str, format_smolstr};
pub use value::{
    Array, Object, Value,
    hint::Hint,
    walk::{TooDeep, Visit, Walk},
};

/// How many containers may be nested inside one another where functions recurse: in YAML, in values
/// that policies build, and in JSON unless its reader allows more.
///
/// Kubernetes' deepest objects (CustomResourceDefinitions) stay below a tenth of this.
pub const MAX_DEPTH: usize = 512;

/// How many containers an API server allows to be nested inside one another, which is how many
/// Go's `encoding/json` reads.
pub const MAX_JSON_DEPTH: usize = 10_000;
