//! Which expressions of constraints have the same outcome for one object.
//!
//! The key of an expression is a digest of its text without blanks and comments, of the texts of the variables that it reads, and of the
//! parameters that it reads itself: inputs are the same for all constraints, and a parameter is known when the
//! constraint is. So expressions of different templates share an outcome, and those of constraints
//! that differ only in parameters the expression does not read. What variables come to shows when they are read.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use modgate_cel::{Activation, Key, Program, Read, Val, VariableKey, VariableKeys, canonical};
use modgate_value::{Budget, Value, budget::Frozen};
use sha2::{Digest as _, Sha256};

use super::{super::driver::SPECIALIZING, CelDriver, Expression, INJECTED};

/// The keys of the expressions of one constraint.
#[derive(Debug, Clone)]
pub(in crate::constraint) struct Keys {
    pub(super) variables: VariableKeys,
    conditions: Box<[Key]>,
    validations: Box<[(Key, Key)]>,
    /// Of everything; [`Key::NONE`] if an expression has no key.
    whole: Key,
    /// Of all that validations read, but for what variables at the bottom do; constraints of the policy for which that is
    /// the same share it. `None` if an expression has no key.
    rest: Option<Arc<Key>>,
}

impl Keys {
    pub(super) fn of_condition(&self, index: usize) -> Key {
        self.conditions.get(index).copied().unwrap_or_default()
    }

    /// Of the expression and of that of the message.
    pub(super) fn of_validation(&self, index: usize) -> (Key, Key) {
        self.validations.get(index).copied().unwrap_or_default()
    }

    /// By what validations of other constraints may come to the same; `None` if there are none.
    pub(super) fn rest(&self) -> Option<Key> {
        self.rest.as_ref().filter(|rest| Arc::strong_count(rest) > 1).map(|rest| **rest)
    }

    /// Whether all that is read of the constraint is in them.
    pub(in crate::constraint) fn are_whole(&self) -> bool {
        !self.whole.is_none()
    }
}

/// Inputs that are the same for every constraint of a review.
const INPUTS: [&str; 4] = ["object", "oldObject", "request", "namespaceObject"];

/// The variable that holds the constraint's parameters.
const PARAMS: &str = "params";

impl CelDriver {
    /// The keys for a constraint, given with the defaults of its parameters; `None` where their
    /// names do not distinguish the variables. Constraints of which the same is read share them.
    pub(in crate::constraint) fn keys(&self, constraint: &Value) -> Option<Arc<Keys>> {
        let mut keys = self.keys_of(constraint)?;
        if let Some(rest) = keys.rest.take() {
            keys.rest = Some(one(&self.rests, *rest, || rest));
        }
        if !keys.are_whole() {
            return Some(keys.into());
        }
        Some(one(&self.keys, keys.whole, || Arc::new(keys)))
    }

    fn keys_of(&self, constraint: &Value) -> Option<Keys> {
        if self.variables.may_be_too_deep() {
            return None;
        }
        let declared = self.source.variables.iter().flatten();
        let declared = declared.map(|variable| (&*variable.name, &*variable.expression));
        let mut texts = BTreeMap::new();
        for (name, text) in INJECTED.into_iter().chain(declared) {
            if texts.insert(name, text).is_some() {
                return None;
            }
        }
        let mut known = Known {
            parameters: Parameters::of(constraint),
            texts: BTreeMap::new(),
            of_inputs: BTreeSet::new(),
        };
        let budget = Budget::new(SPECIALIZING, &Frozen);
        let digest = |text: &str| Digest::of("value").text(text).key();
        let ahead = self.variables.ahead(PARAMS, &Constraint(constraint), &budget, &digest);
        let mut variables = Vec::new();
        // The digests of those that are known ahead.
        let mut values = BTreeMap::new();
        for (index, (name, program)) in self.variables.iter().enumerate() {
            // A variable that reads inputs alone has the same value for every constraint with its key.
            let of_inputs = program.is_some_and(|program| {
                program.reads_only(
                    |name| INPUTS.contains(&name),
                    |name| known.of_inputs.contains(name),
                )
            });
            if of_inputs {
                known.of_inputs.insert(name);
            }
            let keyed = name == PARAMS || of_inputs;
            let (value, of_text) = match (program, texts.get(name)) {
                _ if name == PARAMS => (known.parameters.key(), Digest::of("params").key()),
                (Some(program), Some(text)) => {
                    (known.key(text, program, true), known.key(text, program, false))
                }
                _ => (Key::NONE, Key::NONE),
            };
            known.texts.insert(name, of_text);
            let exact = program.and_then(|program| known.exact(value, program, &values));
            if let Some(digest) = ahead.digest(index) {
                values.insert(name, digest);
            }
            let name = Digest::of("name").text(name).key();
            let exact = exact.unwrap_or_default();
            variables.push(VariableKey { name, value, exact, keyed, common: of_inputs });
        }
        let key = |expression: &Expression| {
            let program = expression.program();
            program.map_or(Key::NONE, |program| known.key(&expression.text, program, true))
        };
        let messages = self.validations.iter().map(|it| it.message_expression.as_ref());
        let expressions = self.conditions.iter().map(Some);
        let expressions = expressions.chain(self.validations.iter().map(|it| Some(&it.expression)));
        let mut whole = Whole::default();
        for expression in expressions.chain(messages.clone()) {
            whole.add(expression.and_then(Expression::program), expression.map(key));
        }
        for ((name, program), variable) in self.variables.iter().zip(&variables) {
            // Each expression that reads parameters says which.
            if name != PARAMS {
                whole.add(program, Some(variable.value));
            }
        }
        let rest = self.rest(&known, &variables, &values);
        let validations = self.validations.iter().zip(messages);
        let validations =
            validations.map(|(it, message)| (key(&it.expression), message.map_or(Key::NONE, key)));
        Some(Keys {
            conditions: self.conditions.iter().map(key).collect(),
            validations: validations.collect(),
            whole: whole.key(),
            rest: rest.map(|(rest, _)| Arc::new(rest)),
            variables: VariableKeys::new(variables)?
                .with_ahead(ahead)
                .with_bottom(rest.map_or(0, |(_, bottom)| bottom)),
        })
    }

    /// The key of all that validations read but for what variables at the bottom do, and the places of these.
    fn rest(
        &self,
        known: &Known<'_>,
        variables: &[VariableKey],
        values: &BTreeMap<&str, Key>,
    ) -> Option<(Key, u64)> {
        let all: Vec<(&str, Option<&Program>)> = self.variables.iter().collect();
        let place = |name: &str| all.iter().position(|(known, _)| *known == name);
        let mut digest = Digest::of("rest");
        let mut unread: Vec<&Program> = Vec::new();
        for validation in &self.validations {
            let program = validation.expression.program()?;
            digest = digest.inner(some(known.key(&validation.expression.text, program, true))?);
            unread.push(program);
        }
        let is_input = |name: &str| INPUTS.contains(&name);
        let (mut seen, mut bottom, mut ahead) = (BTreeSet::new(), 0, BTreeMap::new());
        while let Some(program) = unread.pop() {
            let mut names = BTreeSet::new();
            program.reads(&mut |read| {
                if let Read::Variable { name, .. } = read {
                    names.insert(name);
                }
            });
            for name in names {
                if let Some(value) = values.get(name) {
                    // Which parameters are read is part of the key of what reads them.
                    let value = if name == PARAMS { Key::NONE } else { *value };
                    ahead.insert(name, value);
                } else if !known.of_inputs.contains(name) && seen.insert(name) {
                    let place = place(name)?;
                    let (_, program) = all.get(place)?;
                    let key = some(variables.get(place)?.value)?;
                    let is_bottom = (*program)?.reads_only(is_input, |name| {
                        known.of_inputs.contains(name) || values.contains_key(name)
                    });
                    if is_bottom {
                        bottom |= 1_u64.checked_shl(u32::try_from(place).ok()?)?;
                        digest = digest.text("bottom").text(name);
                    } else {
                        digest = digest.text(name).inner(key);
                        unread.extend(*program);
                    }
                }
            }
        }
        for (name, value) in ahead {
            digest = digest.text("ahead").text(name).inner(value);
        }
        Some((digest.key(), bottom))
    }
}

/// A key, if it is one.
fn some(key: Key) -> Option<Key> {
    (!key.is_none()).then_some(key)
}

/// The one value with this key that is in use.
fn one<T>(all: &Mutex<BTreeMap<u128, Weak<T>>>, key: Key, new: impl FnOnce() -> Arc<T>) -> Arc<T> {
    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = all.get(&key.digest()).and_then(Weak::upgrade) {
        return known;
    }
    if all.len().is_power_of_two() {
        all.retain(|_, known| known.strong_count() > 0);
    }
    let new = new();
    all.insert(key.digest(), Arc::downgrade(&new));
    new
}

/// The parameters of a constraint, the only input that is known before a request.
struct Constraint<'a>(&'a Value);

impl Activation for Constraint<'_> {
    fn variable<'a>(&'a self, name: &str) -> Option<Val<'a>> {
        (name == PARAMS).then(|| Val::json(self.0))
    }
}

/// The context in which the keys of an expression are made.
struct Known<'a> {
    parameters: Parameters<'a>,
    /// The variables so far that read nothing but inputs that are the same for every constraint, and one another.
    of_inputs: BTreeSet<&'a str>,
    /// Digests of the texts of the variables so far, with those of the variables that they read.
    texts: BTreeMap<&'a str, Key>,
}

impl Known<'_> {
    /// The key of an expression; without `values` a digest of texts alone.
    fn key(&self, text: &str, program: &Program, values: bool) -> Key {
        let mut reads = BTreeSet::new();
        program.reads(&mut |read| {
            reads.insert(read);
        });
        let mut digest = Digest::of("expression").text(&canonical(text));
        for read in reads {
            digest = match read {
                Read::Input(name) if INPUTS.contains(&name) => digest,
                Read::Variable { name: PARAMS, .. } if !values => digest,
                Read::Variable { name: PARAMS, member: Some(member) } => {
                    digest.text(member).text(&self.parameters.member(member))
                }
                Read::Variable { name: PARAMS, member: None } => {
                    digest.inner(self.parameters.key())
                }
                Read::Variable { name, .. } => match self.texts.get(name) {
                    Some(key) if !key.is_none() => digest.text(name).inner(*key),
                    _ => return Key::NONE,
                },
                Read::Input(_) | Read::Variables => return Key::NONE,
            };
        }
        digest.key()
    }
}

impl Known<'_> {
    /// The key of a variable together with the values of the variables that it reads. `None` if one of these neither
    /// reads inputs alone nor has a value that is known ahead, or if none has such a value.
    fn exact(&self, key: Key, program: &Program, values: &BTreeMap<&str, Key>) -> Option<Key> {
        let mut read = BTreeMap::new();
        let is_exact = program.reads_only(
            |name| INPUTS.contains(&name),
            |name| self.of_inputs.contains(name) || values.contains_key(name),
        );
        program.reads(&mut |it| {
            if let Read::Variable { name, .. } = it
                && name != PARAMS
                && let Some(value) = values.get(name)
            {
                read.insert(name, *value);
            }
        });
        if !is_exact || read.is_empty() || key.is_none() {
            return None;
        }
        let mut digest = Digest::of("exact").inner(key);
        for (name, value) in read {
            digest = digest.text(name).inner(value);
        }
        Some(digest.key())
    }
}

/// The source of the variable `params`.
struct Parameters<'a> {
    has_spec: bool,
    value: Option<&'a Value>,
}

impl<'a> Parameters<'a> {
    fn of(constraint: &'a Value) -> Self {
        let spec = constraint.get("spec");
        Self { has_spec: spec.is_some(), value: spec.and_then(|spec| spec.get("parameters")) }
    }

    fn key(&self) -> Key {
        Digest::of("params").text(&self.shape()).text(&text_of(self.value)).key()
    }

    /// Which way the expression of the variable goes, which is part of what reading it costs.
    fn shape(&self) -> String {
        format!("{} {}", self.has_spec, self.value.is_some())
    }

    /// The dependencies of reading one member.
    fn member(&self, name: &str) -> String {
        let read = match self.value {
            Some(Value::Object(members)) => text_of(members.get(name)),
            other => format!("of {}", text_of(other)),
        };
        format!("{} {read}", self.shape())
    }
}

fn text_of(value: Option<&Value>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| format!("some {}", value.to_json()))
}

/// The key of a whole policy.
struct Whole {
    digest: Digest,
    is_known: bool,
}

impl Default for Whole {
    fn default() -> Self {
        Self { digest: Digest::of("whole"), is_known: true }
    }
}

impl Whole {
    /// Adds an expression with its key. What does not compile fails alike for all constraints.
    fn add(&mut self, program: Option<&Program>, key: Option<Key>) {
        let key = key.unwrap_or_default();
        self.is_known &= program.is_none() || !key.is_none();
        self.digest.0.update(key.digest().to_le_bytes());
    }

    fn key(self) -> Key {
        if self.is_known { self.digest.key() } else { Key::NONE }
    }
}

/// Texts whose digest differs whatever they hold.
struct Digest(Sha256);

impl Digest {
    fn of(what: &str) -> Self {
        Self(Sha256::new()).text(what)
    }

    fn text(mut self, text: &str) -> Self {
        self.0.update((text.len() as u64).to_le_bytes());
        self.0.update(text.as_bytes());
        self
    }

    fn inner(mut self, key: Key) -> Self {
        self.0.update(key.digest().to_le_bytes());
        self
    }

    fn key(self) -> Key {
        let digest = self.0.finalize();
        let half = digest.first_chunk().copied().unwrap_or_default();
        Key::new(u128::from_le_bytes(half))
    }
}
