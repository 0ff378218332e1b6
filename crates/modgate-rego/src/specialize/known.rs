//! Values that are known before a program runs.

use std::sync::Arc;

use modgate_value::Value as Json;

use crate::{
    ir::{Slot, Term},
    value::{Ground, Value},
};

/// A value that can stand in a program: JSON, or a set of JSON values in order.
#[derive(Debug, Clone)]
pub(super) enum Known {
    Json(Json),
    Set(Arc<[Json]>),
}

impl Known {
    /// The value as an evaluation sees it.
    pub(super) fn value(&self) -> Value<'_> {
        match self {
            Self::Json(json) => Value::json(json),
            Self::Set(items) => Value::json_set(items),
        }
    }

    /// `None` for values with sets inside.
    pub(super) fn of(value: Value<'_>) -> Option<Self> {
        match Ground::from(value) {
            Ground::Json(json) => Some(Self::Json(json)),
            Ground::Set(items) => {
                let items = items.into_iter().map(|item| match item {
                    Ground::Json(json) => Some(json),
                    _ => None,
                });
                items.collect::<Option<Arc<[Json]>>>().map(Self::Set)
            }
            Ground::Array(_) | Ground::Object(_) => None,
        }
    }

    /// What a reference to `key` inside gives; `None` when undefined.
    pub(super) fn get(&self, key: &Self) -> Option<Self> {
        match (self, key) {
            // Shared rather than copied.
            (Self::Json(Json::Object(object)), Self::Json(Json::String(name))) => {
                object.get(name).cloned().map(Self::Json)
            }
            (Self::Json(Json::Array(items)), Self::Json(Json::Number(_))) => {
                let index = usize::try_from(key.value().as_number()?.as_int()?).ok()?;
                items.get(index).cloned().map(Self::Json)
            }
            _ => self.value().get(key.value()).and_then(Self::of),
        }
    }

    /// How many entries iterating over it gives.
    pub(super) fn entry_count(&self) -> usize {
        self.value().entry_count().unwrap_or(0)
    }

    /// The first entry, as key and value.
    pub(super) fn first_entry(&self) -> Option<(Self, Self)> {
        let (key, value) = self.value().entry(0)?;
        Some((Self::of(key)?, Self::of(value)?))
    }

    pub(super) fn is_false(&self) -> bool {
        self.value().is_false()
    }
}

/// What is known about a variable.
#[derive(Debug, Clone)]
pub(super) enum Variable {
    /// It has this value.
    Known(Known),
    /// It is the whole input.
    Input,
    /// It has the value of another variable.
    Alias(Slot),
}

/// What is known about the variables of a rule.
#[derive(Debug)]
pub(super) struct Env(Vec<Option<Variable>>);

impl Env {
    pub(super) fn new(frame: u32) -> Self {
        Self(vec![None; frame as usize])
    }

    pub(super) fn frame(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn get(&self, slot: Slot) -> Option<&Variable> {
        self.0.get(slot.0 as usize)?.as_ref()
    }

    pub(super) fn set(&mut self, slot: Slot, variable: Option<Variable>) {
        if let Some(place) = self.0.get_mut(slot.0 as usize) {
            *place = variable;
        }
    }

    /// Whether `term` is the whole input.
    pub(super) fn is_input(&self, term: &Term) -> bool {
        matches!(term, Term::Local(slot) if matches!(self.get(*slot), Some(Variable::Input)))
    }
}
