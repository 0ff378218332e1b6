//! Named expressions that others read as `variables.NAME`, and evaluations that compute each of
//! them at most once.

use std::{
    cell::{Cell, OnceCell},
    collections::BTreeMap,
    sync::Arc,
};

use modgate_value::{Budget, MAX_DEPTH};

use crate::{
    check::Env,
    eval::{Activation, EvalError},
    program::{Arena, CompileError, Program},
    types::{ObjectType, Type},
    value::Val,
};

/// The costs that Kubernetes allows the expressions of one policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CostLimits {
    /// The cost limit of one expression, and of one variable.
    pub expression: u64,
    /// The cost limit of all expressions of an [`Evaluation`], variables included.
    pub total: u64,
}

impl CostLimits {
    /// For validations and the expressions of their messages (CE-21, Q-11).
    pub const VALIDATIONS: Self = Self { expression: 1_000_000, total: 10_000_000 };

    /// For match conditions (CE-21).
    pub const MATCH_CONDITIONS: Self = Self { expression: 1_000_000, total: 2_500_000 };
}

/// The compiled variables of a policy, in the order they were added.
#[derive(Debug, Clone, Default)]
pub struct Variables {
    all: Vec<Variable>,
    fields: BTreeMap<Arc<str>, Type>,
}

#[derive(Debug, Clone)]
struct Variable {
    name: Arc<str>,
    program: Result<Program, CompileError>,
}

impl Variables {
    /// None yet.
    pub fn new() -> Self {
        Self::none()
    }

    pub(crate) const fn none() -> Self {
        Self { all: Vec::new(), fields: BTreeMap::new() }
    }

    /// Compiles `text` in `env`, where the variables added before are visible, and keeps it as
    /// `name`.
    ///
    /// One that does not compile is kept too: its type is dynamic, and reading it fails.
    ///
    /// # Errors
    ///
    /// Why it does not compile.
    pub fn add(&mut self, name: &str, text: &str, env: &Env) -> Result<(), CompileError> {
        let program = Program::compile(text, &self.declare(env));
        let error = program.as_ref().err().cloned();
        let ty = program.as_ref().map_or(Type::Dyn, |program| program.ty().declared());
        let name: Arc<str> = name.into();
        self.fields.insert(name.clone(), ty);
        self.all.retain(|variable| variable.name != name);
        self.all.push(Variable { name, program });
        error.map_or(Ok(()), Err)
    }

    /// `env` with these as `variables`.
    #[must_use]
    pub fn declare(&self, env: &Env) -> Env {
        let fields = self.fields.clone();
        let object = ObjectType { name: "kubernetes.variables".into(), fields };
        env.clone().with("variables", Type::Object(Arc::new(object)))
    }

    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.all.iter().position(|variable| &*variable.name == name)
    }
}

/// The result of a variable.
type Outcome<'a> = Result<Val<'a>, EvalError>;

/// The evaluation of several expressions against the same inputs.
///
/// Every variable is evaluated when it is first read and remembered, its error too. Kubernetes
/// makes one of these for all validations of a policy, another for the expressions of their
/// messages, and another for match conditions; the one for messages gets what the first left
/// ([`Evaluation::remaining`]).
pub struct Evaluation<'a> {
    pub(crate) activation: &'a dyn Activation,
    pub(crate) arena: &'a Arena,
    pub(crate) budget: &'a Budget<'a>,
    variables: &'a Variables,
    values: Box<[OnceCell<Outcome<'a>>]>,
    limits: CostLimits,
    remaining: Cell<u64>,
    /// The cost of variables since the last expression was settled.
    unsettled: Cell<u64>,
    depth: Cell<u32>,
}

/// How deeply variables may read one another, in levels of their expressions.
const MAX_VARIABLE_DEPTH: u32 = 500;

impl<'a> Evaluation<'a> {
    /// Nothing evaluated yet.
    pub fn new(
        activation: &'a dyn Activation,
        variables: &'a Variables,
        arena: &'a Arena,
        budget: &'a Budget<'a>,
        limits: CostLimits,
    ) -> Self {
        Self {
            activation,
            arena,
            budget,
            variables,
            values: variables.all.iter().map(|_| OnceCell::new()).collect(),
            limits,
            remaining: Cell::new(limits.total),
            unsettled: Cell::new(0),
            depth: Cell::new(0),
        }
    }

    /// The remaining part of [`CostLimits::total`].
    pub fn remaining(&self) -> u64 {
        self.remaining.get()
    }

    /// The value of an expression that was compiled in [`Variables::declare`]'s environment.
    ///
    /// # Errors
    ///
    /// Any [`EvalError`]; after [`EvalError::OutOfBudget`] nothing further should be evaluated.
    pub fn evaluate(&self, program: &'a Program) -> Result<Val<'a>, EvalError> {
        let (result, cost) = program.run(self, self.limits.expression);
        let cost = cost.saturating_add(self.unsettled.take());
        let Some(left) = self.remaining.get().checked_sub(cost) else {
            self.remaining.set(0);
            return Err(EvalError::OutOfBudget);
        };
        self.remaining.set(left);
        result
    }

    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.variables.position(name)
    }

    /// The variable number `index`, computed when it is first read.
    pub(crate) fn variable(&self, index: usize) -> Outcome<'a> {
        let (Some(variable), Some(value)) = (self.variables.all.get(index), self.values.get(index))
        else {
            return Err(EvalError::Failed(format!("no such attribute(s): variables.{index}")));
        };
        if let Some(value) = value.get() {
            return value.clone();
        }
        let name = &variable.name;
        let outcome = match &variable.program {
            Err(error) => {
                let message = format!("composited variable \"{name}\" fails to compile: {error}");
                Err(EvalError::Failed(message))
            }
            Ok(program) => self.compute(name, program),
        };
        value.get_or_init(|| outcome).clone()
    }

    /// Variables may not build deeper values than documents have, or one could deepen another's
    /// without an end.
    fn nests(&self, value: Val<'a>, left: usize) -> Result<(), EvalError> {
        self.budget.spend(1)?;
        let parts: &[Val<'a>] = match value {
            Val::List(items) => items,
            Val::Optional(Some(inner)) => std::slice::from_ref(inner),
            Val::Map(entries) => {
                return entries.iter().try_for_each(|(_, value)| self.nested(*value, left));
            }
            _ => return Ok(()),
        };
        parts.iter().try_for_each(|part| self.nested(*part, left))
    }

    fn nested(&self, value: Val<'a>, left: usize) -> Result<(), EvalError> {
        match left.checked_sub(1) {
            Some(left) => self.nests(value, left),
            None => {
                let message = format!("a variable's value nests more than {MAX_DEPTH} levels");
                Err(EvalError::Failed(message))
            }
        }
    }

    fn compute(&self, name: &str, program: &'a Program) -> Outcome<'a> {
        let before = self.depth.get();
        let depth = before.saturating_add(u32::from(program.depth()));
        if before > 0 && depth > MAX_VARIABLE_DEPTH {
            let message = format!(
                "composited variable \"{name}\" fails to evaluate: variables refer to one \
                 another more than {MAX_VARIABLE_DEPTH} levels deep"
            );
            return Err(EvalError::Failed(message));
        }
        self.depth.set(depth);
        let (result, cost) = program.run(self, self.limits.expression);
        self.depth.set(before);
        self.unsettled.set(self.unsettled.get().saturating_add(cost));
        match result {
            Err(error @ EvalError::Exhausted(_)) => Err(error),
            Err(error) => {
                let message = format!("composited variable \"{name}\" fails to evaluate: {error}");
                Err(EvalError::Failed(message))
            }
            Ok(value) => {
                self.nests(value, MAX_DEPTH)?;
                Ok(value)
            }
        }
    }
}
