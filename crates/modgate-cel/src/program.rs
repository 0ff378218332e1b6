//! Compiled expressions.

use std::sync::Arc;

use bumpalo::Bump;

use crate::{
    check::{Env, check},
    code::Node,
    error::Errors,
    lower::lower,
    probe::{Place, Probe},
    types::Type,
};

/// The memory of one evaluation, given back all at once.
#[derive(Debug, Default)]
pub struct Arena(pub(crate) Bump);

impl Arena {
    /// An arena that holds nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets everything that was built.
    pub fn reset(&mut self) {
        self.0.reset();
    }

    /// Bytes held from the system.
    pub fn allocated_bytes(&self) -> usize {
        self.0.allocated_bytes()
    }

    /// Keeps something as long as what is built here. It is not dropped.
    pub fn keep<T>(&self, value: T) -> &T {
        self.0.alloc(value)
    }
}

/// Why an expression cannot be made a [`Program`]; prints as Kubernetes does.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// It cannot be read, or its types do not agree.
    #[error("compilation failed: {0}")]
    Check(Errors),
    /// A constant part of it cannot be evaluated.
    #[error("program instantiation failed: {0}")]
    Constant(String),
    /// It gives something else than it must.
    #[error("must evaluate to {wanted} but got {found}")]
    Result {
        /// The type it must have.
        wanted: Type,
        /// The type it has.
        found: Type,
    },
}

/// A compiled expression: immutable, cheap to clone, shared between threads.
#[derive(Debug, Clone)]
pub struct Program(Arc<Compiled>);

#[derive(Debug)]
struct Compiled {
    code: Node,
    probes: Box<[Arc<Probe>]>,
    ty: Type,
    depth: u16,
}

impl Program {
    /// Reads, checks and prepares `text`.
    ///
    /// # Errors
    ///
    /// The messages of cel-go and Kubernetes.
    pub fn compile(text: &str, env: &Env) -> Result<Self, CompileError> {
        let checked = check(text, env).map_err(CompileError::Check)?;
        let (code, probes) = lower(&checked, env).map_err(CompileError::Constant)?;
        let probes = probes.into();
        Ok(Self(Arc::new(Compiled { code, probes, ty: checked.ty, depth: checked.expr.depth })))
    }

    /// As [`Program::compile`], and the result must have exactly this type.
    ///
    /// # Errors
    ///
    /// Also if it has another type, which includes one known only when it is evaluated.
    pub fn compile_to(wanted: &Type, text: &str, env: &Env) -> Result<Self, CompileError> {
        let program = Self::compile(text, env)?;
        if program.ty() == wanted {
            return Ok(program);
        }
        let (wanted, found) = (wanted.clone(), program.ty().clone());
        Err(CompileError::Result { wanted, found })
    }

    /// The type of the result.
    pub fn ty(&self) -> &Type {
        &self.0.ty
    }

    /// The places of the text, the whole first and then in order, with what evaluations reached so far; none unless the
    /// environment is [observed](Env::observed).
    pub fn places(&self) -> impl Iterator<Item = Place> {
        self.0.probes.iter().map(|probe| probe.place())
    }

    pub(crate) fn code(&self) -> &Node {
        &self.0.code
    }

    /// How many levels it nests.
    pub(crate) fn depth(&self) -> u16 {
        self.0.depth
    }
}
