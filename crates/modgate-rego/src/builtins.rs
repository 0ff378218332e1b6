//! The built-in functions, one module per group.
//!
//! # How to call one
//!
//! The compiler asks [`find`] for a name, checks the arguments against [`Builtin::declaration`]
//! and keeps the `&'static Builtin`. The evaluator makes one [`Context`] per evaluation and calls
//! `(builtin.eval)(&mut context, &arguments)` with as many arguments as declared:
//!
//! - `Ok(Some(value))`: the result. A relation ([`Builtin::relation`](field@Builtin::relation)) returns an array of all its results,
//!   each of which the call yields in turn.
//! - `Ok(None)`: the call is undefined.
//! - `Err(BuiltinError::Limit(_))` ends the evaluation, as does `Err(BuiltinError::Conflict(_))`.
//! - Any other error makes the call undefined, unless built-in errors are strict; then it is
//!   reported as `{code}: {name}: {error}` with [`BuiltinError::code`].
//!
//! Long work charges the budget as it goes. What needs the outside asks the [`Host`], and fails
//! with an error that says so when the host does not grant it. A
//! [`nondeterministic`](field@Builtin::nondeterministic) built-in gives the same result for the same
//! arguments throughout one [`Context`].
//!
//! Error texts are OPA's (`v1/topdown/*.go`).

mod aggregates;
mod arithmetic;
mod arrays;
mod comparison;
mod crypto;
mod declaration;
mod edits;
mod encoding;
mod host;
mod net;
mod objects;
mod operand;
mod patterns;
mod schema;
mod sets;
mod strings;
mod time;
mod tokens;
mod types;
mod units;
mod versions;

use std::{fmt, sync::LazyLock};

use modgate_value::{Exhausted, go::base64::Corrupt};

pub(crate) use comparison::Comparison;
pub use crypto::is_certificate;
pub use declaration::{Argument, Declaration, Type};
pub use host::{Host, Isolated};
pub(crate) use strings::{Format, Printing};

use crate::{
    number::{ArithmeticError, Computed},
    value::{Heap, Limit, Value},
};

/// The result of a call: a value, nothing (undefined), or an error.
pub type Outcome<'a> = Result<Option<Value<'a>>, BuiltinError>;

/// The function that runs a call.
pub type Eval = for<'a> fn(&mut Context<'a>, &[Value<'a>]) -> Outcome<'a>;

/// One built-in function.
#[derive(Clone, Copy)]
pub struct Builtin {
    /// Its full name, such as `object.get`; infix operators have names too (`plus`).
    pub name: &'static str,
    /// Runs a call; see the [module](self).
    pub eval: Eval,
    /// Whether it yields any number of results, as `walk` does.
    pub relation: bool,
    /// Whether only version 0 of the language has it.
    pub deprecated: bool,
    /// Whether its result depends on more than its arguments.
    pub nondeterministic: bool,
    signature: &'static str,
}

impl Builtin {
    const fn new(name: &'static str, signature: &'static str, eval: Eval) -> Self {
        Self { name, eval, relation: false, deprecated: false, nondeterministic: false, signature }
    }

    const fn relation(self) -> Self {
        Self { relation: true, ..self }
    }

    const fn deprecated(self) -> Self {
        Self { deprecated: true, ..self }
    }

    const fn nondeterministic(self) -> Self {
        Self { nondeterministic: true, ..self }
    }

    /// Whether a call does nothing but give a result, which depends on its arguments alone.
    pub(crate) fn is_pure(&self) -> bool {
        !self.nondeterministic && !matches!(self.name, "trace" | "print" | "internal.print")
    }

    /// The types of its arguments and result, for the type checker.
    pub fn declaration(&self) -> Declaration {
        Declaration::parse(self.signature)
    }
}

/// Two are the same when their names are.
impl PartialEq for Builtin {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Builtin {}

impl fmt::Debug for Builtin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.name, self.signature)
    }
}

static REGISTRY: LazyLock<Vec<&'static Builtin>> = LazyLock::new(|| {
    let mut all: Vec<&'static Builtin> = GROUPS.iter().copied().flatten().collect();
    all.sort_by_key(|builtin| builtin.name);
    all
});

const GROUPS: &[&[Builtin]] = &[
    aggregates::BUILTINS,
    arithmetic::BUILTINS,
    arrays::BUILTINS,
    comparison::BUILTINS,
    crypto::BUILTINS,
    edits::BUILTINS,
    encoding::BUILTINS,
    host::BUILTINS,
    net::BUILTINS,
    objects::BUILTINS,
    patterns::BUILTINS,
    schema::BUILTINS,
    sets::BUILTINS,
    strings::BUILTINS,
    time::BUILTINS,
    tokens::BUILTINS,
    types::BUILTINS,
    units::BUILTINS,
    versions::BUILTINS,
];

/// The built-in called `name`.
pub fn find(name: &str) -> Option<&'static Builtin> {
    let index = REGISTRY.binary_search_by_key(&name, |builtin| builtin.name).ok()?;
    REGISTRY.get(index).copied()
}

/// Every built-in, sorted by name.
pub fn all() -> impl Iterator<Item = &'static Builtin> {
    REGISTRY.iter().copied()
}

/// The state that the built-ins of one evaluation share.
pub struct Context<'a> {
    heap: Heap<'a>,
    host: &'a dyn Host,
    /// Results of nondeterministic calls, by name and arguments.
    settled: Vec<(modgate_value::Str, Value<'a>, Value<'a>)>,
}

impl<'a> Context<'a> {
    /// A context for one evaluation that builds in `heap` and may ask `host`.
    pub fn new(heap: Heap<'a>, host: &'a dyn Host) -> Self {
        Self { heap, host, settled: Vec::new() }
    }

    fn spend(&self, steps: usize) -> Result<(), BuiltinError> {
        Ok(self.heap.budget().spend(u64::try_from(steps).unwrap_or(u64::MAX))?)
    }

    /// Charges for building `bytes` bytes outside the heap.
    fn allocate(&self, bytes: usize) -> Result<(), BuiltinError> {
        Ok(self.heap.budget().allocate(bytes)?)
    }

    fn string(&self, text: &str) -> Outcome<'a> {
        Ok(Some(self.heap.string(text)?))
    }

    fn array(&self, items: &[Value<'a>]) -> Outcome<'a> {
        Ok(Some(self.heap.array(items)?))
    }

    fn computed(&self, number: &Computed) -> Outcome<'a> {
        Ok(Some(match number {
            Computed::Int(int) => Value::int(*int),
            Computed::Text(_) => self.heap.number(number.as_num())?,
        }))
    }
}

fn yes_or_no<'a>(value: bool) -> Outcome<'a> {
    Ok(Some(Value::bool(value)))
}

/// Why a call has no result.
///
/// Displays as what OPA puts after the built-in's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuiltinError {
    /// An operand of the wrong type or shape.
    #[error("{0}")]
    Operand(String),
    /// Anything else that went wrong.
    #[error("{0}")]
    Failed(String),
    /// More than one result where only one may be; ends the evaluation.
    #[error("{0}")]
    Conflict(String),
    /// A limit of the evaluation; ends it.
    #[error(transparent)]
    Limit(#[from] Limit),
}

impl BuiltinError {
    fn failed(message: impl Into<String>) -> Self {
        Self::Failed(message.into())
    }

    /// OPA's code for the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Operand(_) => "eval_type_error",
            Self::Failed(_) | Self::Limit(_) => "eval_builtin_error",
            Self::Conflict(_) => "eval_conflict_error",
        }
    }
}

impl From<Corrupt> for BuiltinError {
    fn from(corrupt: Corrupt) -> Self {
        Self::Failed(corrupt.to_string())
    }
}

impl From<Exhausted> for BuiltinError {
    fn from(exhausted: Exhausted) -> Self {
        Self::Limit(exhausted.into())
    }
}

impl From<ArithmeticError> for BuiltinError {
    fn from(error: ArithmeticError) -> Self {
        Self::Failed(error.to_string())
    }
}

#[cfg(test)]
mod tests;
