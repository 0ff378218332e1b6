//! Values that are known before a program runs.

use std::sync::Arc;

use modgate_value::{Budget, Value as Json};

use crate::{
    ir::{Slot, Term},
    value::{Value, View, json_number},
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

    /// A copy that `budget` pays for: parts that a computed value shares are copied each time they
    /// occur. `None` for values with sets inside, and when the budget is spent.
    pub(super) fn of(value: Value<'_>, budget: &Budget<'_>) -> Option<Self> {
        match value.view() {
            View::Set(set) => {
                let items = set.iter().map(|item| copied(item, budget));
                items.collect::<Option<Arc<[Json]>>>().map(Self::Set)
            }
            _ => copied(value, budget).map(Self::Json),
        }
    }

    /// How many bytes the value has as JSON, roughly; `None` if those are more than `limit`.
    pub(super) fn size(&self, limit: usize) -> Option<usize> {
        let mut left = limit;
        match self {
            Self::Json(json) => measure(json, &mut left)?,
            Self::Set(items) => items.iter().try_for_each(|item| measure(item, &mut left))?,
        }
        Some(limit - left)
    }

    /// The value of a reference to `key` inside; `None` when undefined.
    pub(super) fn get(&self, key: &Self, budget: &Budget<'_>) -> Option<Self> {
        match (self, key) {
            // Shared rather than copied.
            (Self::Json(Json::Object(object)), Self::Json(Json::String(name))) => {
                object.get(name).cloned().map(Self::Json)
            }
            (Self::Json(Json::Array(items)), Self::Json(Json::Number(_))) => {
                let index = usize::try_from(key.value().as_number()?.as_int()?).ok()?;
                items.get(index).cloned().map(Self::Json)
            }
            _ => Self::of(self.value().get(key.value())?, budget),
        }
    }

    /// How many entries iterating over it gives.
    pub(super) fn entry_count(&self) -> usize {
        self.value().entry_count().unwrap_or(0)
    }

    /// The first entry, as key and value.
    pub(super) fn first_entry(&self, budget: &Budget<'_>) -> Option<(Self, Self)> {
        let (key, value) = self.value().entry(0)?;
        Some((Self::of(key, budget)?, Self::of(value, budget)?))
    }

    pub(super) fn is_false(&self) -> bool {
        self.value().is_false()
    }
}

/// The memory that a node of a document takes at least.
const NODE: usize = size_of::<Json>();

fn copied(value: Value<'_>, budget: &Budget<'_>) -> Option<Json> {
    budget.spend(1).ok()?;
    budget.allocate(NODE).ok()?;
    let text = |value: Value<'_>| {
        let text = value.as_utf8()?;
        budget.allocate(text.len()).ok()?;
        Some(text.to_owned())
    };
    Some(match value.view() {
        View::Null => Json::Null,
        View::Bool(value) => value.into(),
        View::Number(number) => json_number(number),
        View::String(_) => text(value)?.into(),
        View::Array(array) => {
            array.iter().map(|item| copied(item, budget)).collect::<Option<Vec<_>>>()?.into()
        }
        View::Object(object) => object
            .iter()
            .map(|(key, value)| Some((text(key)?, copied(value, budget)?)))
            .collect::<Option<Vec<_>>>()?
            .into_iter()
            .collect(),
        View::Set(_) => return None,
    })
}

/// Takes the size of a document from `left`; `None` when there is too little.
fn measure(value: &Json, left: &mut usize) -> Option<()> {
    let mut take = |bytes: usize| {
        *left = left.checked_sub(bytes)?;
        Some(())
    };
    take(NODE)?;
    match value {
        Json::String(text) => take(text.len()),
        Json::Array(items) => items.iter().try_for_each(|item| measure(item, left)),
        Json::Object(members) => members.iter().try_for_each(|(key, value)| {
            *left = left.checked_sub(key.len())?;
            measure(value, left)
        }),
        Json::Null | Json::Bool(_) | Json::Number(_) => Some(()),
    }
}

/// The known facts about a variable.
#[derive(Debug, Clone)]
pub(super) enum Variable {
    /// It has this value.
    Known(Known),
    /// It is the whole input.
    Input,
    /// It has the value of another variable.
    Alias(Slot),
}

/// The known facts about the variables of a rule.
#[derive(Debug, Clone)]
pub(super) struct Env(Vec<Option<Variable>>);

impl Env {
    pub(super) fn new(frame: u32) -> Self {
        Self(vec![None; frame as usize])
    }

    pub(super) fn frame(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    /// Makes room for so many more variables; the first of them.
    pub(super) fn grow(&mut self, slots: u32) -> u32 {
        let first = self.frame();
        self.0.resize(self.0.len() + slots as usize, None);
        first
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
