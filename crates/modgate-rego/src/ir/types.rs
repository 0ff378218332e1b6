//! Inferred types, and how they relate.

use std::{collections::BTreeMap, fmt};

use modgate_value::Value;

use super::{GroupId, NodeId};
use crate::builtins;

/// Types with more parts than this are not tracked.
pub(crate) const MAX_SIZE: usize = 1000;

/// More than these many alternatives might as well be anything.
pub(crate) const MAX_ALTERNATIVES: usize = 50;

/// The types of the documents and functions of a program.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    pub(crate) nodes: BTreeMap<NodeId, Type>,
    pub(crate) functions: BTreeMap<GroupId, (Vec<Type>, Type)>,
}

/// A type; [`Type::Unknown`] where nothing has been inferred yet.
///
/// Alternatives are listed in the order of the variants and their members, which is OPA's: open arrays and
/// objects come after closed ones.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Type {
    Unknown,
    Null,
    Boolean,
    Number,
    String,
    Array {
        rest: Option<Box<Type>>,
        fixed: Vec<Type>,
    },
    Object {
        rest: Option<Box<(Type, Type)>>,
        /// By the JSON text of the key.
        fixed: BTreeMap<Key, Type>,
    },
    Set(Box<Type>),
    /// One of these; anything when empty.
    Any(Vec<Type>),
}

/// A constant key, ordered by its JSON text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    text: String,
    kind: KeyKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum KeyKind {
    Null,
    Boolean,
    Number,
    String,
    Other,
}

pub(crate) fn list(f: &mut fmt::Formatter<'_>, types: &[Type]) -> fmt::Result {
    for (index, ty) in types.iter().enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{ty}")?;
    }
    Ok(())
}

impl Key {
    pub(crate) fn of(value: &Value) -> Self {
        let kind = match value {
            Value::Null => KeyKind::Null,
            Value::Bool(_) => KeyKind::Boolean,
            Value::Number(_) => KeyKind::Number,
            Value::String(_) => KeyKind::String,
            _ => KeyKind::Other,
        };
        Self { text: value.to_json(), kind }
    }

    pub(crate) fn ty(&self) -> Type {
        match self.kind {
            KeyKind::Null => Type::Null,
            KeyKind::Boolean => Type::Boolean,
            KeyKind::Number => Type::Number,
            KeyKind::String => Type::String,
            KeyKind::Other => Type::ANY,
        }
    }
}

impl Type {
    pub(crate) const ANY: Self = Self::Any(Vec::new());

    pub(crate) fn of_constant(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Boolean,
            Value::Number(_) => Self::Number,
            Value::String(_) => Self::String,
            Value::Array(_) | Value::Object(_) => Self::ANY,
        }
    }

    pub(crate) fn declared(ty: &builtins::Type) -> Self {
        match ty {
            builtins::Type::Null => Self::Null,
            builtins::Type::Boolean => Self::Boolean,
            builtins::Type::Number => Self::Number,
            builtins::Type::String => Self::String,
            builtins::Type::Array { fixed, rest } => Self::Array {
                fixed: fixed.iter().map(Self::declared).collect(),
                rest: rest.as_deref().map(|ty| Box::new(Self::declared(ty))),
            },
            builtins::Type::Object { fixed, rest } => Self::Object {
                fixed: fixed
                    .iter()
                    .map(|(key, ty)| (Key::of(&Value::from(key.as_str())), Self::declared(ty)))
                    .collect(),
                rest: rest
                    .as_deref()
                    .map(|(key, value)| Box::new((Self::declared(key), Self::declared(value)))),
            },
            builtins::Type::Set(of) => Self::Set(Box::new(Self::declared(of))),
            builtins::Type::Any(of) => Self::Any(of.iter().map(Self::declared).collect()),
        }
    }

    /// How many parts it has, counted no further than the limit.
    pub(crate) fn size(&self) -> usize {
        fn count(ty: &Type, left: &mut usize) {
            if *left == 0 {
                return;
            }
            *left -= 1;
            match ty {
                Type::Array { fixed, rest } => {
                    fixed.iter().for_each(|ty| count(ty, left));
                    if let Some(ty) = rest {
                        count(ty, left);
                    }
                }
                Type::Object { fixed, rest } => {
                    fixed.values().for_each(|ty| count(ty, left));
                    if let Some(rest) = rest {
                        count(&rest.0, left);
                        count(&rest.1, left);
                    }
                }
                Type::Set(of) => count(of, left),
                Type::Any(of) => of.iter().for_each(|ty| count(ty, left)),
                _ => {}
            }
        }
        let mut left = MAX_SIZE + 1;
        count(self, &mut left);
        MAX_SIZE + 1 - left
    }

    pub(crate) fn bounded(self) -> Self {
        if self.size() > MAX_SIZE { Self::ANY } else { self }
    }

    /// Whether any part of it has not been inferred.
    pub(crate) fn is_unknown(&self) -> bool {
        match self {
            Self::Unknown => true,
            Self::Array { fixed, rest } => {
                fixed.iter().any(Self::is_unknown) || rest.as_deref().is_some_and(Self::is_unknown)
            }
            Self::Object { fixed, rest } => {
                fixed.values().any(Self::is_unknown)
                    || rest
                        .as_deref()
                        .is_some_and(|(key, value)| key.is_unknown() || value.is_unknown())
            }
            Self::Set(of) => of.is_unknown(),
            Self::Any(of) => of.iter().any(Self::is_unknown),
            _ => false,
        }
    }

    pub(crate) fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unknown, other) | (other, Self::Unknown) => other,
            (left, right) if left == right => left,
            (Self::Any(of), _) | (_, Self::Any(of)) if of.is_empty() => Self::ANY,
            (left, right) => {
                let mut all = Vec::new();
                for ty in [left, right] {
                    match ty {
                        Self::Any(of) => all.extend(of),
                        other => all.push(other),
                    }
                }
                all.sort();
                all.dedup();
                if all.len() > MAX_ALTERNATIVES { Self::ANY } else { Self::Any(all) }
            }
        }
    }

    /// The type that two rules of the same document define together.
    pub(crate) fn merge(self, other: Self) -> Self {
        match (self, other) {
            (Self::Set(a), Self::Set(b)) => Self::Set(Box::new(a.or(*b))),
            (
                Self::Object { fixed: a, rest: Some(first) },
                Self::Object { fixed: b, rest: Some(second) },
            ) if a.is_empty() && b.is_empty() => {
                let (key, value) = (first.0.or(second.0), first.1.merge(second.1));
                Self::Object { fixed: BTreeMap::new(), rest: Some(Box::new((key, value))) }
            }
            (a, b) => a.or(b),
        }
    }

    /// The type of its keys; `None` when it has none.
    pub(crate) fn keys(&self) -> Option<Self> {
        match self {
            Self::Array { .. } => Some(Self::Number),
            Self::Object { fixed, rest } => {
                let mut keys = rest.as_deref().map_or(Self::Unknown, |(key, _)| key.clone());
                for key in fixed.keys() {
                    keys = keys.or(key.ty());
                }
                Some(keys)
            }
            Self::Set(of) => Some((**of).clone()),
            Self::Any(of) if of.is_empty() => Some(Self::ANY),
            Self::Any(of) => of.iter().filter_map(Self::keys).reduce(Self::or),
            _ => None,
        }
    }

    pub(crate) fn values(&self) -> Option<Self> {
        match self {
            Self::Array { fixed, rest } => Some(
                fixed.iter().cloned().chain(rest.as_deref().cloned()).fold(Self::Unknown, Self::or),
            ),
            Self::Object { fixed, rest } => Some(
                fixed
                    .values()
                    .cloned()
                    .chain(rest.as_deref().map(|(_, value)| value.clone()))
                    .fold(Self::Unknown, Self::or),
            ),
            Self::Set(of) => Some((**of).clone()),
            Self::Any(of) if of.is_empty() => Some(Self::ANY),
            Self::Any(of) => of.iter().filter_map(Self::values).reduce(Self::or),
            _ => None,
        }
    }

    /// The type under a constant key; `None` when there can be no value.
    pub(crate) fn select(&self, key: &Value) -> Option<Self> {
        match self {
            Self::Array { fixed, rest } => {
                // `1.0` is not an index.
                let index: usize = key.as_number()?.to_string().parse().ok()?;
                fixed.get(index).cloned().or_else(|| rest.as_deref().cloned())
            }
            Self::Object { fixed, rest } => {
                let found = fixed.get(&Key::of(key)).cloned();
                found.or_else(|| {
                    let (keys, value) = rest.as_deref()?;
                    keys.contains(&Self::of_constant(key)).then(|| value.clone())
                })
            }
            Self::Set(of) => {
                let ty = Self::of_constant(key);
                of.contains(&ty).then_some(ty)
            }
            Self::Any(of) if of.is_empty() => Some(Self::ANY),
            Self::Any(of) => of.iter().filter_map(|ty| ty.select(key)).reduce(Self::or),
            Self::Unknown => Some(Self::ANY),
            _ => None,
        }
    }

    /// The JSON texts of the keys that are known.
    pub(crate) fn known_keys(&self, out: &mut Vec<String>) {
        match self {
            Self::Object { fixed, .. } => out.extend(fixed.keys().map(|key| key.text.clone())),
            Self::Any(of) => of.iter().for_each(|ty| ty.known_keys(out)),
            _ => {}
        }
    }

    pub(crate) fn contains(&self, other: &Self) -> bool {
        match self {
            Self::Any(of) => of.is_empty() || of.iter().any(|ty| ty.contains(other)),
            Self::Unknown => true,
            _ => self == other || *other == Self::ANY,
        }
    }

    /// Whether some value can have both types.
    pub(crate) fn unifies(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unknown, _) | (_, Self::Unknown) => false,
            (Self::Any(of), other) | (other, Self::Any(of)) => {
                of.is_empty()
                    || of.iter().any(|ty| ty.unifies(other))
                    || matches!(other, Self::Any(of) if of.is_empty())
            }
            (Self::Null, Self::Null)
            | (Self::Boolean, Self::Boolean)
            | (Self::Number, Self::Number)
            | (Self::String, Self::String) => true,
            (Self::Array { fixed: a, rest: more_a }, Self::Array { fixed: b, rest: more_b }) => {
                let at = |fixed: &'_ [Self], rest: &'_ Option<Box<Self>>, index: usize| {
                    fixed.get(index).cloned().or_else(|| rest.as_deref().cloned())
                };
                let fixed = (0..a.len().max(b.len())).all(|index| {
                    match (at(a, more_a, index), at(b, more_b, index)) {
                        (Some(a), Some(b)) => a.unifies(&b),
                        _ => false,
                    }
                });
                fixed
                    && match (more_a, more_b) {
                        (Some(a), Some(b)) => a.unifies(b),
                        _ => true,
                    }
            }
            (Self::Object { fixed: a, rest: more_a }, Self::Object { fixed: b, rest: more_b }) => {
                let open = more_a.is_some() || more_b.is_some();
                let one_way = |a: &BTreeMap<Key, Self>,
                               b: &BTreeMap<Key, Self>,
                               rest: &Option<Box<(Self, Self)>>| {
                    a.iter().all(|(key, ty)| {
                        let other = b.get(key).cloned().or_else(|| {
                            let (keys, value) = rest.as_deref()?;
                            keys.contains(&key.ty()).then(|| value.clone())
                        });
                        other.map_or(open, |other| ty.unifies(&other))
                    })
                };
                one_way(a, b, more_b)
                    && one_way(b, a, more_a)
                    && match (more_a.as_deref(), more_b.as_deref()) {
                        (Some((_, a)), Some((_, b))) => a.unifies(b),
                        _ => true,
                    }
            }
            (Self::Set(a), Self::Set(b)) => a.unifies(b),
            _ => false,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("???"),
            Self::Null => f.write_str("null"),
            Self::Boolean => f.write_str("boolean"),
            Self::Number => f.write_str("number"),
            Self::String => f.write_str("string"),
            Self::Array { fixed, rest } => {
                f.write_str("array")?;
                if !fixed.is_empty() || rest.is_none() {
                    f.write_str("<")?;
                    list(f, fixed)?;
                    f.write_str(">")?;
                }
                match rest {
                    Some(rest) => write!(f, "[{rest}]"),
                    None => Ok(()),
                }
            }
            Self::Object { fixed, rest } => {
                f.write_str("object")?;
                if !fixed.is_empty() {
                    f.write_str("<")?;
                    for (index, (key, ty)) in fixed.iter().enumerate() {
                        if index > 0 {
                            f.write_str(", ")?;
                        }
                        write!(f, "{}: {ty}", key.text.trim_matches('"'))?;
                    }
                    f.write_str(">")?;
                }
                match rest.as_deref() {
                    Some((key, value)) => write!(f, "[{key}: {value}]"),
                    None => Ok(()),
                }
            }
            Self::Set(of) => write!(f, "set[{of}]"),
            Self::Any(of) if of.is_empty() => f.write_str("any"),
            Self::Any(of) => {
                f.write_str("any<")?;
                list(f, of)?;
                f.write_str(">")
            }
        }
    }
}
