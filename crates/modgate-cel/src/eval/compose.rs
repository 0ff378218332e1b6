//! Named expressions that others read as `variables.NAME`, and evaluations that compute each of
//! them at most once.

use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::BTreeMap,
    sync::Arc,
};

use modgate_value::{Budget, MAX_DEPTH};

use super::Machine;
use crate::{
    check::Env,
    code::Hint,
    error::EvalError,
    memo::{self, Kept, Key, Known, MAX_COMPARED, Memo, Shared, Spent, VariableKeys},
    program::{Arena, CompileError, Program},
    reads::Read,
    types::{ObjectType, Type},
    value::Val,
};

/// The values of an expression's variables.
pub trait Activation {
    /// The variable `name`.
    fn variable<'a>(&'a self, name: &str) -> Option<Val<'a>>;
}

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

    /// The name and the compiled form of each, in order; `None` for one that does not compile.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<&Program>)> {
        self.all.iter().map(|variable| (&*variable.name, variable.program.as_ref().ok()))
    }

    /// Whether variables may read one another so deeply that the order in which they are read decides
    /// whether one has a value.
    pub fn may_be_too_deep(&self) -> bool {
        let mut levels: BTreeMap<&str, u32> = BTreeMap::new();
        for (name, program) in self.iter() {
            let Some(program) = program else { continue };
            let deepest = levels.values().copied().max().unwrap_or(0);
            let mut below = 0;
            program.reads(&mut |read| {
                below = below.max(match read {
                    Read::Input(_) => 0,
                    Read::Variable { name, .. } => levels.get(name).copied().unwrap_or(0),
                    Read::Variables => deepest,
                });
            });
            let level = u32::from(program.depth()).saturating_add(below);
            if level > MAX_VARIABLE_DEPTH {
                return true;
            }
            levels.insert(name, level);
        }
        false
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
    sharing: Option<(&'a Memo<'a>, &'a VariableKeys)>,
    /// The variables that what is running has read, by their places; only while sharing.
    read: Cell<u64>,
    /// The same in their order, after those that what is around it has read.
    order: RefCell<Vec<usize>>,
    /// The part of the budget that the variables it read took.
    elsewhere: Cell<Spent>,
}

/// Room for what the expressions of a usual policy read.
const ROOM: usize = 32;

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
            sharing: None,
            read: Cell::new(0),
            order: RefCell::default(),
            elsewhere: Cell::new(Spent::default()),
        }
    }

    /// Shares outcomes with the other evaluations that use the memo: those of variables whose key
    /// is not [`Key::NONE`], and of [`Evaluation::evaluate_shared`].
    #[must_use]
    pub fn sharing(self, memo: &'a Memo<'a>, keys: &'a VariableKeys) -> Self {
        Self { sharing: Some((memo, keys)), ..self }
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
        self.evaluate_shared(program, Key::NONE)
    }

    /// As [`evaluate`](Self::evaluate), for an expression with a key.
    ///
    /// # Errors
    ///
    /// The same.
    pub fn evaluate_shared(&self, program: &'a Program, key: Key) -> Result<Val<'a>, EvalError> {
        let (result, cost) = self.shared(key, None, || program.run(self, self.limits.expression));
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

    /// As [`position`](Self::position), looked for first where it was found before.
    #[inline]
    pub(crate) fn position_near(&self, name: &str, hint: &Hint) -> Option<usize> {
        let near = hint.get();
        if self.variables.all.get(near).is_some_and(|variable| &*variable.name == name) {
            return Some(near);
        }
        let found = self.position(name)?;
        hint.found(found);
        Some(found)
    }

    /// The variable number `index`, computed when it is first read.
    #[inline]
    pub(crate) fn variable(&self, index: usize) -> Outcome<'a> {
        match self.outcome(index)? {
            Ok(value) => Ok(*value),
            Err(error) => Err(error.clone()),
        }
    }

    /// What [`variable`](Self::variable) gives, where it is kept.
    fn outcome(&self, index: usize) -> Result<&Outcome<'a>, EvalError> {
        let Some(value) = self.values.get(index) else { return Err(no_such_variable(index)) };
        if self.sharing.is_some() {
            self.note(index);
        }
        if let Some(known) = value.get() {
            return Ok(known);
        }
        let outcome = self.first_outcome(index);
        Ok(value.get_or_init(|| outcome))
    }

    #[inline(never)]
    fn first_outcome(&self, index: usize) -> Outcome<'a> {
        let Some(variable) = self.variables.all.get(index) else {
            return Err(no_such_variable(index));
        };
        let name = &variable.name;
        match &variable.program {
            Err(error) => {
                let message = format!("composited variable \"{name}\" fails to compile: {error}");
                Err(EvalError::Failed(message))
            }
            Ok(program) => {
                let (key, ahead) = self.sharing.map_or((Key::NONE, None), |(_, keys)| {
                    (keys.of_value(index), keys.ahead(index))
                });
                let (outcome, cost) = self.shared(key, ahead, || self.compute(program));
                self.unsettled.set(self.unsettled.get().saturating_add(cost));
                // The outcome may come from a variable of another name, or from a validation.
                outcome.map_err(|error| match error {
                    EvalError::Exhausted(_) => error,
                    error => EvalError::Failed(format!(
                        "composited variable \"{name}\" fails to evaluate: {error}"
                    )),
                })
            }
        }
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

    /// Notes that what is running reads a variable.
    fn note(&self, index: usize) {
        let known = self.read.get();
        let read = known | 1 << (index % 64);
        if read != known {
            self.read.set(read);
            let mut order = self.order.borrow_mut();
            if order.capacity() == 0 {
                order.reserve(ROOM);
            }
            order.push(index);
        }
    }

    /// The outcome that is known `ahead`, the one that the memo has under this key, or that of `compute`, and
    /// what it costs without the variables that it read.
    fn shared(
        &self,
        key: Key,
        ahead: Option<&'a Known>,
        compute: impl FnOnce() -> (Outcome<'a>, u64),
    ) -> (Outcome<'a>, u64) {
        let Some((memo, keys)) = self.sharing else { return compute() };
        let outside = (self.read.replace(0), self.elsewhere.replace(Spent::default()));
        let start = self.order.borrow().len();
        let before = Spent::so_far(self.budget);
        let limits = CostLimits::VALIDATIONS;
        let known = match ahead.filter(|_| self.limits.expression == limits.expression) {
            Some(ahead) => self.read_ahead(ahead),
            None if key.is_none() => None,
            None => self.known(memo, keys, key),
        };
        let (result, cost) = known.unwrap_or_else(|| {
            let (result, cost) = compute();
            if let Some(kept) = Kept::new(&result, self.arena).filter(|_| !key.is_none()) {
                let elsewhere = self.elsewhere.get();
                let now = Spent::so_far(self.budget);
                let spent = Spent {
                    cost,
                    steps: now.steps.saturating_sub(before.steps + elsewhere.steps),
                    bytes: now.bytes.saturating_sub(before.bytes + elsewhere.bytes),
                };
                memo.put(key, kept, spent, self.read_since(start, keys), self.arena);
            }
            (result, cost)
        });
        self.order.borrow_mut().truncate(start);
        let now = Spent::so_far(self.budget);
        let (read, elsewhere) = outside;
        self.read.set(read);
        self.elsewhere.set(Spent {
            cost: 0,
            steps: elsewhere.steps + now.steps.saturating_sub(before.steps),
            bytes: elsewhere.bytes + now.bytes.saturating_sub(before.bytes),
        });
        (result, cost)
    }

    /// The variables that were read since then, and what they came to.
    fn read_since(&self, start: usize, keys: &VariableKeys) -> &'a [memo::Read<'a>] {
        let order = self.order.borrow();
        let order = order.get(start..).unwrap_or_default();
        let read = |at: usize| {
            let place = order.get(at).copied().unwrap_or(usize::MAX);
            let value = self.values.get(place).and_then(OnceCell::get);
            let value = value.filter(|_| !keys.is_told(place));
            let value = value.and_then(|value| Kept::new(value, self.arena));
            memo::Read { name: keys.name(place), place, value, same: keys.digest_of(place) }
        };
        self.arena.0.alloc_slice_fill_with(order.len(), read)
    }

    /// An outcome of the memo, paid for as if it had been computed here; `None` where there is none
    /// or too little is left to pay for it.
    fn known(&self, memo: &Memo<'a>, keys: &VariableKeys, key: Key) -> Option<(Outcome<'a>, u64)> {
        let mut next = memo.get(key);
        while let Some(shared) = next {
            match self.reads_same(shared, keys) {
                Ok(false) => next = shared.other,
                Ok(true) => return self.paid(shared.spent, || shared.result.result()),
                Err(error) => return Some((Err(error), shared.spent.cost)),
            }
        }
        None
    }

    /// Whether the variables that an outcome depends on come to the same here.
    fn reads_same(&self, shared: &Shared<'a>, keys: &VariableKeys) -> Result<bool, EvalError> {
        let mut left = MAX_COMPARED;
        for read in shared.read {
            let Some(index) = keys.named(read.name, read.place) else { return Ok(false) };
            let here = self.outcome(index)?;
            if let Err(error @ EvalError::Exhausted(_)) = here {
                return Err(error.clone());
            }
            let Some(there) = read.value else { continue };
            let same = read.is_same(keys.digest_of(index));
            if !same.unwrap_or_else(|| there.is(here, &mut left)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// An outcome that is known, paid for as if it had been computed here; `None` where too little is left.
    fn read_ahead(&self, known: &'a Known) -> Option<(Outcome<'a>, u64)> {
        for index in &known.read {
            let error = match self.outcome(*index) {
                Err(error) => error,
                Ok(Err(error @ EvalError::Exhausted(_))) => error.clone(),
                Ok(_) => continue,
            };
            return Some((Err(error), known.spent.cost));
        }
        self.paid(known.spent, || known.outcome(self.arena))
    }

    /// An outcome, paid for without the variables that it reads; `None` where too little is left.
    fn paid(
        &self,
        spent: Spent,
        outcome: impl FnOnce() -> Outcome<'a>,
    ) -> Option<(Outcome<'a>, u64)> {
        let Spent { cost, steps, bytes } = spent;
        if steps > self.budget.steps_left() || bytes > self.budget.bytes_left() {
            return None;
        }
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        match self.budget.spend(steps).and_then(|()| self.budget.allocate(bytes)) {
            Ok(()) => Some((outcome(), cost)),
            Err(exhausted) => Some((Err(exhausted.into()), cost)),
        }
    }

    fn compute(&self, program: &'a Program) -> (Outcome<'a>, u64) {
        let before = self.depth.get();
        let depth = before.saturating_add(u32::from(program.depth()));
        if before > 0 && depth > MAX_VARIABLE_DEPTH {
            let message = format!(
                "variables refer to one another more than {MAX_VARIABLE_DEPTH} levels deep"
            );
            return (Err(EvalError::Failed(message)), 0);
        }
        self.depth.set(depth);
        let (result, cost) = program.run(self, self.limits.expression);
        self.depth.set(before);
        (result.and_then(|value| self.nests(value, MAX_DEPTH).map(|()| value)), cost)
    }
}

fn no_such_variable(index: usize) -> EvalError {
    EvalError::Failed(format!("no such attribute(s): variables.{index}"))
}

impl Program {
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
        static NONE: Variables = Variables::none();
        let limits = CostLimits { expression: cost_limit, total: u64::MAX };
        let evaluation = Evaluation::new(activation, &NONE, arena, budget, limits);
        let (result, cost) = self.run(&evaluation, cost_limit);
        result.map(|value| (value, cost))
    }

    /// The result, and what was spent on it in any case.
    pub(crate) fn run<'a>(
        &'a self,
        evaluation: &Evaluation<'a>,
        limit: u64,
    ) -> (Result<Val<'a>, EvalError>, u64) {
        let mut machine = Machine::new(evaluation, limit);
        let result = machine.eval(self.code());
        (result, machine.cost())
    }
}
