//! Named expressions that others read as `variables.NAME`, and evaluations that compute each of
//! them at most once.

mod share;
mod whole;

use std::{cell::Cell, collections::BTreeMap, sync::Arc};

use modgate_value::{Budget, Hint, MAX_DEPTH};

use self::share::Bill;
use super::Machine;
use crate::{
    check::Env,
    error::EvalError,
    memo::{InCommon, Kept, Key, Known, MAX_SHARED_VARIABLES, Memo, Slot, Spent, VariableKeys},
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
    /// The values of variables, by their places.
    values: &'a [Cell<Option<Slot<'a>>>],
    /// Their values in the evaluation before this one.
    before: &'a [Cell<Option<Slot<'a>>>],
    /// The variables that were paid for, by their places; only while sharing. Those that are known ahead may have no
    /// value yet.
    paid: Cell<u64>,
    limits: CostLimits,
    remaining: Cell<u64>,
    /// The cost of variables since the last expression was settled.
    unsettled: Cell<u64>,
    depth: Cell<u32>,
    sharing: Option<(&'a Memo<'a>, &'a VariableKeys)>,
    /// The values that it shares with other constraints of the policy; only while sharing.
    in_common: Option<&'a InCommon<'a>>,
    /// The variables that what is running has read, by their places; only while sharing.
    read: Cell<u64>,
    /// The same in their order, after those that what is around it has read.
    order: Order,
    /// The part of the budget that the variables it read took.
    elsewhere: Cell<Spent>,
    /// Variables at the bottom in the order in which they were first read.
    bottom: Order,
    /// The steps and bytes spent before, if the outcome of all of it may be kept.
    begun: Cell<Option<Spent>>,
}

/// Variables in the order in which they were read. There are no more than 64 of them while outcomes are shared.
struct Order {
    places: [Cell<u8>; MAX_SHARED_VARIABLES],
    length: Cell<usize>,
}

impl Default for Order {
    fn default() -> Self {
        Self { places: [const { Cell::new(0) }; MAX_SHARED_VARIABLES], length: Cell::new(0) }
    }
}

impl Order {
    #[inline]
    fn push(&self, index: usize) {
        let length = self.length.get();
        if let (Some(slot), Ok(index)) = (self.places.get(length), u8::try_from(index)) {
            slot.set(index);
            self.length.set(length + 1);
        }
    }

    fn since(&self, start: usize) -> impl Iterator<Item = usize> {
        let order = self.places.get(start..self.length.get()).unwrap_or_default();
        order.iter().map(|index| usize::from(index.get()))
    }
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
            values: arena.0.alloc_slice_fill_with(variables.all.len(), |_| Cell::new(None)),
            before: &[],
            paid: Cell::new(0),
            limits,
            remaining: Cell::new(limits.total),
            unsettled: Cell::new(0),
            depth: Cell::new(0),
            sharing: None,
            in_common: None,
            read: Cell::new(0),
            order: Order::default(),
            elsewhere: Cell::new(Spent::default()),
            bottom: Order::default(),
            begun: Cell::new(None),
        }
    }

    /// Shares outcomes with the other evaluations that use the memo: those of variables whose key
    /// is not [`Key::NONE`], and of [`Evaluation::evaluate_shared`].
    #[must_use]
    pub fn sharing(self, memo: &'a Memo<'a>, keys: &'a VariableKeys) -> Self {
        let policy = std::ptr::from_ref(self.variables).addr();
        let in_common = Some(memo.in_common(policy, self.variables.all.len(), self.arena));
        Self { sharing: Some((memo, keys)), in_common, ..self }
    }

    /// Pays for variables again, and does not look again for what they came to in another evaluation of the same
    /// inputs with the same keys. Says nothing unless outcomes are shared.
    #[must_use]
    pub fn after(self, before: &Self) -> Self {
        Self { before: before.values, ..self }
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
        let run = || program.run(self, self.limits.expression);
        let (result, cost) = match self.sharing {
            Some((memo, keys)) => {
                let found = self.shared((memo, keys), (key, Key::NONE), run);
                (found.value.result(), found.cost)
            }
            None => run(),
        };
        let cost = cost.saturating_add(self.unsettled.take());
        let Some(left) = self.remaining.get().checked_sub(cost) else {
            self.remaining.set(0);
            return Err(EvalError::OutOfBudget);
        };
        self.remaining.set(left);
        result
    }

    /// The memo that it shares with other evaluations.
    pub(crate) fn memo(&self) -> Option<&'a Memo<'a>> {
        self.sharing.map(|(memo, _)| memo)
    }

    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.variables.position(name)
    }

    /// As [`position`](Self::position), looked for first where it was found before.
    #[inline]
    pub(crate) fn position_near(&self, name: &str, hint: &Hint) -> Option<usize> {
        let near = hint.place();
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
            Kept::Value(value) => Ok(value),
            failed => failed.result(),
        }
    }

    /// The value of the variable of that name, looked for first where it was found before; `None` where that has to be
    /// computed or is an error.
    #[inline]
    pub(crate) fn known_variable(&self, name: &str, hint: &Hint) -> Option<Val<'a>> {
        let index = self.position_near(name, hint)?;
        let Slot { value: Kept::Value(value), .. } = self.values.get(index)?.get()? else {
            return None;
        };
        if self.sharing.is_some() {
            self.note(index);
        }
        Some(value)
    }

    /// As [`variable`](Self::variable), as it is kept.
    #[inline]
    fn outcome(&self, index: usize) -> Result<Kept<'a>, EvalError> {
        let Some(slot) = self.values.get(index) else { return Err(no_such_variable(index)) };
        if self.sharing.is_some() {
            self.note(index);
        }
        if let Some(known) = slot.get() {
            return Ok(known.value);
        }
        let found = self.at_once(index).unwrap_or_else(|| self.first_outcome(index));
        slot.set(Some(found));
        Ok(found.value)
    }

    #[inline(never)]
    fn first_outcome(&self, index: usize) -> Slot<'a> {
        let Some(variable) = self.variables.all.get(index) else {
            let error = no_such_variable(index);
            return Slot { value: Kept::new(&Err(error), self.arena), shared: None };
        };
        let name = &variable.name;
        let failed = |message: String| Kept::new(&Err(EvalError::Failed(message)), self.arena);
        let program = match &variable.program {
            Err(error) => {
                let message = format!("composited variable \"{name}\" fails to compile: {error}");
                return Slot { value: failed(message), shared: None };
            }
            Ok(program) => program,
        };
        let ready = self.ready(index).or_else(|| self.common(index));
        let slot = ready.or_else(|| self.again(index)).unwrap_or_else(|| {
            let Some((memo, keys)) = self.sharing else {
                let (result, cost) = self.compute(program);
                self.unsettled.set(self.unsettled.get().saturating_add(cost));
                return Slot { value: Kept::new(&result, self.arena), shared: None };
            };
            if keys.is_bottom(index) && self.begun.get().is_some() {
                self.bottom.push(index);
            }
            let key = (keys.of_value(index), keys.exact(index));
            let found = self.shared((memo, keys), key, || self.compute(program));
            self.unsettled.set(self.unsettled.get().saturating_add(found.cost));
            self.paid.set(self.paid.get() | place(index));
            if let (Some(in_common), Some(shared)) = (self.in_common, found.shared) {
                self.keep_common(in_common, index, shared, keys);
            }
            Slot { value: found.value, shared: found.shared }
        });
        // The outcome may come from a variable of another name, or from a validation.
        if matches!(slot.value, Kept::Value(_) | Kept::Exhausted(_)) {
            return slot;
        }
        let error = slot.value.result().map_or_else(|error| error.to_string(), |_| String::new());
        let message = format!("composited variable \"{name}\" fails to evaluate: {error}");
        Slot { value: failed(message), ..slot }
    }

    /// The variable number `index`, if it is known ahead.
    fn ready(&self, index: usize) -> Option<Slot<'a>> {
        let (_, keys) = self.sharing?;
        let known = self.ahead(keys, index)?;
        if self.paid.get() & place(index) == 0 {
            let mut bill = Bill::default();
            self.add_ahead(&mut bill, keys, known);
            if let Err(exhausted) = self.settle(&bill)? {
                return Some(Slot { value: Kept::Exhausted(exhausted), shared: None });
            }
        }
        Some(Slot { value: known.outcome(self.arena), shared: None })
    }

    /// The value of a variable, if it is known. It was computed with the limits of validations.
    #[inline]
    fn ahead(&self, keys: &'a VariableKeys, index: usize) -> Option<&'a Known> {
        if self.known_ahead(keys) & place(index) == 0 {
            return None;
        }
        keys.ahead(index)
    }

    /// The variables whose values are known, by their places.
    #[inline]
    fn known_ahead(&self, keys: &VariableKeys) -> u64 {
        let is_limited_alike = self.limits.expression == CostLimits::VALIDATIONS.expression;
        if is_limited_alike { keys.all_ahead() } else { 0 }
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
        let result = result.and_then(|value| match value {
            // What has parts is no result of a validation or a message. Others cost no more than there, as they are shared.
            Val::List(_) | Val::Map(_) | Val::Optional(Some(_)) => {
                self.nests(value, MAX_DEPTH).map(|()| value)
            }
            value => Ok(value),
        });
        (result, cost)
    }
}

/// A variable as a bit. There are no more than 64 while outcomes are shared.
#[inline]
fn place(index: usize) -> u64 {
    1 << (index % 64)
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
