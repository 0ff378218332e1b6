//! Variables that are computed before there is a request.
//!
//! Much of a policy reads nothing but the parameters of a constraint: the images that are exempt, the prefixes to
//! compare with. What such variables come to is known as soon as the constraint is, with its cost.
//! Evaluations pay for it when they first read it, as if they had computed it, and go on with the value.

use modgate_value::Value as Json;

use super::{Kept, Key, Shared, Spent};
use crate::{
    error::EvalError,
    program::Arena,
    value::{Owned, Val},
};

/// Values of more parts are computed by each evaluation.
const MAX_PARTS: usize = 256;

/// So are those of more bytes of text.
const MAX_BYTES: usize = 8192;

/// The values of variables, by their places, as far as they are known.
#[derive(Debug, Clone, Default)]
pub struct Ahead(Box<[Option<Known>]>);

/// The value of a variable, and its cost.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    result: Result<Fixed, EvalError>,
    /// Without the variables that it reads.
    pub(crate) spent: Spent,
    /// The variable and all that it reads, by their places.
    pub(crate) behind: u64,
    /// A digest of the result: equal for the same parts, put together in the same way.
    pub(crate) same: Key,
}

impl FromIterator<Option<Known>> for Ahead {
    fn from_iter<I: IntoIterator<Item = Option<Known>>>(known: I) -> Self {
        Self(known.into_iter().collect())
    }
}

impl Ahead {
    /// A digest of what the variable number `index` comes to, if that is known.
    pub fn digest(&self, index: usize) -> Option<Key> {
        self.get(index).map(|known| known.same)
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Known> {
        self.0.get(index)?.as_ref()
    }
}

impl Known {
    /// The result of an evaluation; `None` if it is too large, or has no owned form. `digest` gives
    /// texts their keys.
    pub(crate) fn of(
        shared: &Shared<'_>,
        behind: u64,
        digest: &dyn Fn(&str) -> Key,
    ) -> Option<Self> {
        let result = match shared.result {
            Kept::Value(value) => Ok(Fixed::of(value, &mut Room::default())?),
            other => Err(other.result().err()?),
        };
        let same = digest(&text_of(&result));
        Some(Self { result, spent: shared.spent, behind, same })
    }

    pub(crate) fn outcome<'a>(&'a self, arena: &'a Arena) -> Kept<'a> {
        match &self.result {
            Ok(value) => Kept::Value(value.val(arena)),
            Err(error) => Kept::new(&Err(error.clone()), arena),
        }
    }
}

/// A text that differs where results do.
fn text_of(result: &Result<Fixed, EvalError>) -> String {
    let mut text = String::new();
    match result {
        Ok(value) => value.write_to(&mut text),
        Err(error) => text = format!("error {error:?}"),
    }
    text
}

/// A value that outlives its arena, made of the same parts: whatever is done with it costs the same.
#[derive(Debug, Clone)]
enum Fixed {
    Owned(Owned),
    Json(Json),
    List(Box<[Fixed]>),
    Map(Box<[(Fixed, Fixed)]>),
    Optional(Option<Box<Fixed>>),
}

/// The rest of the bounds.
struct Room {
    parts: usize,
    bytes: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self { parts: MAX_PARTS, bytes: MAX_BYTES }
    }
}

impl Room {
    fn take(&mut self, text: &str) -> Option<()> {
        self.parts = self.parts.checked_sub(1)?;
        self.bytes = self.bytes.checked_sub(text.len())?;
        Some(())
    }

    /// As deep as there is room for parts.
    fn take_json(&mut self, value: &Json) -> Option<()> {
        match value {
            Json::String(text) => self.take(text),
            Json::Array(items) => {
                self.take("")?;
                items.iter().try_for_each(|item| self.take_json(item))
            }
            Json::Object(members) => {
                self.take("")?;
                members.iter().try_for_each(|(name, value)| {
                    self.take(name)?;
                    self.take_json(value)
                })
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => self.take(""),
        }
    }
}

impl Fixed {
    /// `None` for a value that is too large, or of a type that has no owned form.
    fn of(value: Val<'_>, room: &mut Room) -> Option<Self> {
        room.take(value.as_str().unwrap_or_default())?;
        Some(match value {
            Val::JsonList(items) => {
                items.iter().try_for_each(|item| room.take_json(item))?;
                Self::Json(items.iter().cloned().collect())
            }
            // Not copied, but shared with the document.
            Val::JsonMap(members) => Self::Json(members.clone().into()),
            Val::List(items) => {
                Self::List(items.iter().map(|item| Self::of(*item, room)).collect::<Option<_>>()?)
            }
            Val::Map(entries) => {
                let entries = entries
                    .iter()
                    .map(|(key, value)| Some((Self::of(*key, room)?, Self::of(*value, room)?)));
                Self::Map(entries.collect::<Option<_>>()?)
            }
            Val::Optional(inner) => Self::Optional(match inner {
                Some(inner) => Some(Box::new(Self::of(*inner, room)?)),
                None => None,
            }),
            Val::OwnedList(items) if items.len() > room.parts => return None,
            other => Self::Owned(Owned::of(other)?),
        })
    }

    fn write_to(&self, text: &mut String) {
        let count = |text: &mut String, what: &str, count: usize| {
            text.push_str(&format!("{what} {count};"));
        };
        match self {
            Self::Owned(value) => text.push_str(&format!("{value:?};")),
            Self::Json(value) => {
                let value = value.to_json();
                count(text, "json", value.len());
                text.push_str(&value);
            }
            Self::List(items) => {
                count(text, "list", items.len());
                items.iter().for_each(|item| item.write_to(text));
            }
            Self::Map(entries) => {
                count(text, "map", entries.len());
                for (key, value) in entries {
                    key.write_to(text);
                    value.write_to(text);
                }
            }
            Self::Optional(inner) => {
                count(text, "optional", inner.iter().count());
                inner.iter().for_each(|inner| inner.write_to(text));
            }
        }
    }

    fn val<'a>(&'a self, arena: &'a Arena) -> Val<'a> {
        match self {
            Self::Owned(value) => value.value(),
            Self::Json(value) => Val::json(value),
            Self::List(items) => {
                let item = |at: usize| items.get(at).map_or(Val::Null, |item| item.val(arena));
                Val::List(arena.0.alloc_slice_fill_with(items.len(), item))
            }
            Self::Map(entries) => {
                let entry = |at: usize| match entries.get(at) {
                    Some((key, value)) => (key.val(arena), value.val(arena)),
                    None => (Val::Null, Val::Null),
                };
                Val::Map(arena.0.alloc_slice_fill_with(entries.len(), entry))
            }
            Self::Optional(inner) => Val::Optional(match inner {
                Some(inner) => Some(arena.0.alloc(inner.val(arena))),
                None => None,
            }),
        }
    }
}
