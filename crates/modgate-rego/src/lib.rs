//! Rego, versions 0 and 1: parser, compiler and evaluator.
//!
//! A policy is compiled once into an immutable [`Program`](ir::Program) that any number of threads
//! evaluate at the same time. Behaviour follows OPA 1.17.1, which Gatekeeper's current release
//! ships, up to the words of errors; OPA's own compliance corpus and recordings of it are the
//! measure (`tests/conformance.rs`).
//!
//! Read [`parser::parse_module`], [`ir::Program::compile`] and [`eval::document`] first.
//!
//! ```
//! use modgate_rego::{
//!     Capabilities, ast::RegoVersion, builtins::Isolated, eval, ir::Program, parser,
//!     value::{Arena, Heap, Value},
//! };
//! use modgate_value::Budget;
//!
//! let source = "package example\n violation[msg] { msg := input.name; msg != \"ok\" }";
//! let module = parser::parse_module("example.rego", source, RegoVersion::V0).expect("parses");
//! let program = Program::compile(&[module], &Capabilities::default()).expect("compiles");
//! let violation = program.group(&["example", "violation"]).expect("is defined");
//!
//! let input = modgate_value::Value::from_json(br#"{"name": "bad"}"#).expect("JSON");
//! let (budget, arena) = (Budget::unlimited(), Arena::new());
//! let context = eval::Context {
//!     input: Some(Value::json(&input)),
//!     data: None,
//!     heap: Heap::new(&arena, &budget),
//!     host: &Isolated,
//!     strict_builtin_errors: false,
//!     tracer: None,
//! };
//! let found = eval::document(&program, violation, context).expect("evaluates");
//! assert_eq!(found.expect("defined").to_text(&budget).expect("text"), r#"{"bad"}"#);
//! ```
//!
//! This crate does no IO and reads no clock: what a policy may ask of the outside comes in through
//! [`builtins::Host`], and every evaluation spends a [`modgate_value::Budget`].
//!
//! # Limits
//!
//! A module has at most [`parser::MAX_TEXT`] bytes and nests at most [`parser::MAX_NESTING`]
//! levels; an evaluation nests at most [`eval::MAX_NESTING`] levels and uses at most
//! [`eval::MAX_STACK`] bytes of stack. What goes beyond is an error, as is a spent budget.

pub mod ast;
mod lexer;
pub mod parser;

pub mod error;

mod compile;
pub mod ir;

pub mod builtins;
pub mod eval;
pub mod number;
pub mod reads;
mod specialize;
pub mod value;

pub use compile::Capabilities;
pub use specialize::specialize;

/// About where the native stack is now; how far apart two such positions are bounds recursion.
#[inline(always)]
fn stack_position() -> usize {
    let here = 0_u8;
    std::ptr::from_ref(&here).addr()
}
