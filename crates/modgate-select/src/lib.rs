//! KubeMod's `select` language: expressions over a JSON document.
//!
//! One language serves the criteria of a ModRule (`match[].select`, any expression: [`Expr`]) and
//! its patches (`patch[].select`, a bare path whose captured keys fill the placeholders of `path`:
//! [`PatchSelect`]). The law is section 2 of the specification `kubemod.md`; its 737 recorded
//! expressions are this crate's corpus. Read [`Expr`] and [`Val`] first.
//!
//! What this crate deliberately does not know: what a criteria item makes of the values (`matchFor`,
//! `negate`), paths of patch operations, Kubernetes.
//!
//! ```
//! use modgate_select::{Expr, PatchSelect, Val};
//! use modgate_value::{Budget, Value};
//!
//! let pod = Value::from_json(
//!     br#"{"kind": "Pod", "spec": {"containers": [{"image": "a:1"}, {"image": "b:2"}]}}"#,
//! )?;
//! let budget = Budget::unlimited();
//!
//! let is_pod = Expr::parse(r#"$.kind == "Pod""#)?;
//! assert!(matches!(is_pod.eval(&pod, &budget)?, Val::Bool(true)));
//!
//! let images = PatchSelect::parse("$.spec.containers[*].image")?;
//! let items = images.items(&pod, &budget)?;
//! assert_eq!(items[1].value.text(), "b:2");
//! assert_eq!(items[1].keys[0].text(), "1");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Two evaluators
//!
//! The plain one follows the specification sentence by sentence and is the oracle; the streaming
//! one serves requests and is held to it by `tests/differential.rs`. Watching an evaluation
//! ([`Expr::trace`]) uses the plain one.
//!
//! # Limits
//!
//! An expression has at most 64 KiB and 64 levels of nesting. Evaluating spends the caller's
//! [`modgate_value::Budget`] for every part evaluated, every element visited and everything built;
//! recursion is bounded by those levels and by [`modgate_value::MAX_DEPTH`].

mod analysis;
mod ast;
mod error;
mod expr;
#[cfg(test)]
mod hostile;
mod key;
mod lex;
mod lint;
mod num;
mod ops;
mod parse;
mod patch;
mod plain;
mod print;
mod reads;
mod stream;
mod time;
mod val;

pub use analysis::Requirement;
pub use error::{EvalError, ParseError};
pub use expr::{Expr, Shape};
pub use key::{Key, KeyPart};
pub use lint::{Lint, exponent_text};
pub use patch::{Item, PatchSelect};
pub use plain::Observation;
pub use reads::{Read, ReadStep};
pub use val::{List, Map, Val};
