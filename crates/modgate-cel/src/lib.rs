//! CEL as Kubernetes speaks it: the language, its type checker and its libraries.
//!
//! An expression is read by [`parse`], the syntax is in [`ast`].
//!
//! # Limits
//!
//! An expression has at most [`MAX_SIZE`] characters and nests at most [`MAX_DEPTH`] levels, of
//! which at most [`MAX_NESTING`] are brackets.

pub mod ast;
mod error;
mod lexer;
mod parser;

pub use error::{Errors, Issue};
pub use parser::{MAX_DEPTH, MAX_NESTING, MAX_SIZE, parse};
