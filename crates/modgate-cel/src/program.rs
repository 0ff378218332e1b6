//! Compiled expressions.

use std::{cell::Cell, sync::Arc};

use bumpalo::Bump;
use modgate_value::Budget;

use crate::{
    check::{Checked, Env, check},
    error::Errors,
    eval::{Activation, EvalError, Machine},
    types::Type,
    value::Val,
};

/// The memory of one evaluation, given back all at once.
#[derive(Debug, Default)]
pub struct Arena(Bump);

impl Arena {
    /// An arena that holds nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets everything that was built.
    pub fn reset(&mut self) {
        self.0.reset();
    }
}

/// A compiled expression: immutable, cheap to clone, shared between threads.
#[derive(Debug, Clone)]
pub struct Program(Arc<Checked>);

impl Program {
    /// Reads and checks `text`.
    ///
    /// # Errors
    ///
    /// What is wrong with it, in cel-go's words.
    pub fn compile(text: &str, env: &Env) -> Result<Self, Errors> {
        check(text, env).map(|checked| Self(Arc::new(checked)))
    }

    /// The type of the result.
    pub fn ty(&self) -> &Type {
        &self.0.ty
    }

    /// The result, and its cost in Kubernetes' units.
    ///
    /// # Errors
    ///
    /// Any [`EvalError`].
    pub fn eval<'a>(
        &'a self,
        activation: &'a dyn Activation,
        arena: &'a Arena,
        budget: &'a Budget<'a>,
        cost_limit: u64,
    ) -> Result<(Val<'a>, u64), EvalError> {
        let mut machine = Machine {
            activation,
            arena: &arena.0,
            budget,
            cost: Cell::new(0),
            limit: cost_limit,
            locals: Vec::new(),
        };
        let value = machine.eval(&self.0.expr)?;
        Ok((value, machine.cost.get()))
    }
}
