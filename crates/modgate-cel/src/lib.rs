//! CEL as Kubernetes speaks it: the language, its type checker and an evaluator.
//!
//! An [`Expression`] is compiled once and evaluated against JSON documents:
//!
//! ```
//! use modgate_cel::Expression;
//! use modgate_value::Value;
//!
//! let expression = Expression::compile("object.spec.replicas > 3", &["object"])?;
//! let object = Value::from_json(br#"{"spec": {"replicas": 5}}"#)?;
//! assert!(expression.holds(&[("object", &object)])?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Beneath it, a [`Program`] is compiled for an [`Env`], which declares the names it may use and their
//! types: variables come from an [`Activation`], which may compute them when they are read; values
//! are built in an [`Arena`], and steps and bytes are charged to a budget. [`ast`] is the syntax.
//!
//! The functions are those of Kubernetes 1.36, as [`signatures`] lists them. Who
//! answers the authorizer's is an [`Authorizer`]. Costs are Kubernetes' own. Which function a call means is
//! found by the types that the checker knows, and again by the types of the values when it is
//! evaluated, as cel-go does.
//!
//! # Policies
//!
//! The expressions of a policy share [`Variables`], which are evaluated when they are first read.
//! An [`Evaluation`] remembers them and accounts for what everything costs together.
//!
//! ```
//! use modgate_cel::{Activation, Arena, CostLimits, Env, Evaluation, Program, Type, Val, Variables};
//! use modgate_value::{Budget, Value};
//! # struct Review(Value);
//! # impl Activation for Review {
//! #     fn variable<'a>(&'a self, name: &str) -> Option<Val<'a>> {
//! #         (name == "object").then(|| Val::json(&self.0))
//! #     }
//! # }
//!
//! let env = Env::new().with("object", Type::Dyn);
//! let mut variables = Variables::new();
//! variables.add("images", "object.spec.containers.map(c, c.image)", &env)?;
//! let env = variables.declare(&env);
//! let text = "variables.images.all(i, !i.endsWith(':latest'))";
//! let validation = Program::compile_to(&Type::BOOL, text, &env)?;
//!
//! let review = Review(Value::from_json(br#"{"spec": {"containers": [{"image": "a:1"}]}}"#)?);
//! let (arena, budget) = (Arena::new(), Budget::unlimited());
//! let limits = CostLimits::VALIDATIONS;
//! let evaluation = Evaluation::new(&review, &variables, &arena, &budget, limits);
//! assert!(matches!(evaluation.evaluate(&validation)?, Val::Bool(true)));
//! assert!(evaluation.remaining() < limits.total);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Limits
//!
//! An expression has at most [`MAX_SIZE`] characters and nests at most [`MAX_DEPTH`] levels, of
//! which at most [`MAX_NESTING`] are brackets.

pub mod ast;
mod brief;
mod check;
mod code;
mod cost;
mod error;
mod eval;
mod expression;
mod functions;
mod heap;
mod issue;
mod lexer;
mod library;
mod lower;
mod memo;
mod names;
mod parser;
mod probe;
mod program;
mod reads;
mod release;
mod structpb;
mod types;
mod value;

pub use check::{Checked, Env, check};
pub use error::{Errors, EvalError};
pub use eval::compose::{Activation, CostLimits, Evaluation, Variables};
pub use expression::Expression;
pub use functions::{Signature, signatures};
pub use issue::{Expected, Issue, Mistake, SyntaxError};
pub use lexer::{canonical, is_reserved};
pub use library::{Access, Action, Asked, Authorization, Authorizer};

pub use library::{Cidr, Ip, NamedFormat, Opaque, Quantity, Semver, Url};
pub use memo::{Ahead, Key, MAX_SHARED_VARIABLES, Memo, VariableKey, VariableKeys};
pub use names::{free_names, with_input};
pub use parser::{MAX_DEPTH, MAX_NESTING, MAX_SIZE, parse};
pub use probe::Place;
pub use program::{Arena, CompileError, Program};
pub use reads::Read;
pub use release::Release;
pub use types::{ObjectType, Type};
pub use value::{Built, Timestamp, Val};
