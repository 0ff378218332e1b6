//! CEL as Kubernetes speaks it: the language and its type checker.
//!
//! [`check`] reads an expression and finds its type; [`ast`] is its syntax, [`Env`] what it may
//! name. Expressions cannot be evaluated yet.
//!
//! ```
//! use modgate_cel::{Env, Type, check};
//!
//! let env = Env::new().with("object", Type::Dyn);
//! assert_eq!(check("object.spec.replicas > 3", &env)?.ty.to_string(), "bool");
//! assert!(check("1 == 'a'", &env).is_err());
//! # Ok::<(), modgate_cel::Errors>(())
//! ```
//!
//! # Limits
//!
//! An expression has at most [`MAX_SIZE`] characters and nests at most [`MAX_DEPTH`] levels, of
//! which at most [`MAX_NESTING`] are brackets.

pub mod ast;
mod check;
mod error;
mod functions;
mod lexer;
mod parser;
mod types;

pub use check::{Checked, Env, check};
pub use error::{Errors, Issue};
pub use parser::{MAX_DEPTH, MAX_NESTING, MAX_SIZE, parse};
pub use types::Type;
