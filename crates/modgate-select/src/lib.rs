//! KubeMod's `select` language: expressions over a JSON document.
//!
//! One language serves the criteria of a ModRule (`match[].select`, any expression: [`Expr`]) and
//! its patches (`patch[].select`, a bare path whose captured keys fill the placeholders of `path`:
//! [`PatchSelect`]). The law is section 2 of the specification `kubemod.md`; its 737 recorded
//! expressions are this crate's corpus. Read [`Expr`] and [`Val`] first.

mod analysis;
mod ast;
mod error;
mod expr;
mod lex;
mod lint;
mod num;
mod ops;
mod parse;
mod patch;
mod plain;
mod print;
mod stream;
mod time;
mod val;

pub use analysis::Requirement;
pub use error::{EvalError, ParseError};
pub use expr::{Expr, Observation, Options, Shape};
pub use lint::{Lint, exponent_text};
pub use patch::{Item, Key, KeyPart, PatchSelect};
pub use time::{Time, Zone};
pub use val::{List, Map, Val};
