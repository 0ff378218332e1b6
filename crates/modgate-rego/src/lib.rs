//! Rego, versions 0 and 1: parser, compiler and evaluator.
//!
//! A [`Policy`] is compiled once and evaluated for any number of inputs, by any number of threads:
//!
//! ```
//! use modgate_rego::{Policy, RegoVersion};
//! use modgate_value::Value;
//!
//! let source = "package example\nviolation[msg] { msg := input.name; msg != \"ok\" }";
//! let policy = Policy::compile(&[("example.rego", source)], RegoVersion::V0).expect("compiles");
//!
//! let input = Value::from_json(br#"{"name": "bad"}"#).expect("JSON");
//! let violations = policy.evaluate("example.violation", &input).expect("evaluates");
//! assert_eq!(violations.expect("is defined").to_json(), r#"["bad"]"#);
//! ```
//!
//! Beneath it, [`parse_module`] reads a [`Module`](ast::Module), [`Program::compile`] compiles
//! modules, and [`eval::document`] evaluates a document, with data, a [`Host`](builtins::Host), a
//! budget and a tracer of the caller's choice. [`specialize`] compiles a program further for known
//! parameters; [`Program::reads`] tells
//! which parts of the data a program can look at.
//!
//! Behaviour follows OPA 1.17.1, which Gatekeeper's current release ships, up to the words of errors;
//! OPA's own compliance corpus and recordings of it are the measure (`tests/conformance.rs`).
//!
//! This crate does no IO and reads no clock: time, chance and the network come in through
//! [`builtins::Host`], and every evaluation spends a [`modgate_value::Budget`].
//!
//! # Limits
//!
//! A module has at most [`MAX_TEXT`] bytes and nests at most [`MAX_NESTING`]
//! levels; an evaluation nests at most [`eval::MAX_NESTING`] levels and uses at most
//! [`eval::MAX_STACK`] bytes of stack. More is an error, as is a spent budget.

pub mod ast;
mod error;
mod lexer;
mod mistake;
mod parser;

mod compile;
mod ir;

pub mod builtins;
pub mod eval;
mod number;
mod policy;
mod reads;
mod share;
mod specialize;
pub mod value;

pub use ast::RegoVersion;
pub use compile::Capabilities;
pub use error::{Code, Error};
pub use ir::{GroupId, Program, Query, SourceText};
pub use mistake::{Detail, Mistake, Side, SyntaxError, TokenError};
pub use parser::{MAX_NESTING, MAX_TEXT, parse_module, parse_query};
pub use policy::Policy;
pub use reads::Reads;
pub use specialize::{specialize, specialize_for};

/// About where the native stack is now; how far apart two such positions are bounds recursion.
#[inline(always)]
fn stack_position() -> usize {
    let here = 0_u8;
    std::ptr::from_ref(&here).addr()
}
