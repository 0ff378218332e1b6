//! Types, as the checker computes them.

use std::{collections::BTreeMap, fmt, sync::Arc};

/// The type of an expression; prints as cel-go does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// Anything, known only when it is evaluated.
    Dyn,
    /// The type of an expression whose error is already reported.
    Error,
    /// `null`
    Null,
    /// A type by its name: `int`, `string`, `duration`, `kubernetes.Quantity`, …
    Plain(&'static str),
    /// A list and its elements.
    List(Arc<Type>),
    /// A map, its keys and its values.
    Map(Arc<(Type, Type)>),
    /// An optional and what it may hold.
    Optional(Arc<Type>),
    /// The type of types.
    Type(Arc<Type>),
    /// An object with declared fields.
    Object(Arc<ObjectType>),
    /// An object that a mutation builds: `Object`, `Object.spec`, … or `JSONPatch`.
    Built(Arc<str>),
    /// A type still to be found, by number.
    #[doc(hidden)]
    Param(usize),
}

/// The type whose fields are those of an entry of a JSON patch.
pub(crate) const JSON_PATCH: &str = "JSONPatch";

/// The type of an object that is built; those of its fields are `Object.field`, …
pub(crate) const OBJECT: &str = "Object";

/// An object type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectType {
    /// How it prints.
    pub name: Arc<str>,
    /// Its fields; others are errors.
    pub fields: BTreeMap<Arc<str>, Type>,
}

impl Type {
    /// `bool`
    pub const BOOL: Self = Self::Plain("bool");
    pub(crate) const INT: Self = Self::Plain("int");
    pub(crate) const UINT: Self = Self::Plain("uint");
    pub(crate) const DOUBLE: Self = Self::Plain("double");
    /// `string`
    pub const STRING: Self = Self::Plain("string");
    pub(crate) const BYTES: Self = Self::Plain("bytes");

    /// The type of every entry of a JSON patch.
    pub fn json_patch() -> Self {
        Self::Built(JSON_PATCH.into())
    }

    /// The type of an apply configuration.
    pub fn apply_configuration() -> Self {
        Self::Built(OBJECT.into())
    }

    /// A list of elements of this type.
    pub fn list(element: Self) -> Self {
        Self::List(Arc::new(element))
    }

    pub(crate) fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new((key, value)))
    }

    pub(crate) fn optional(inner: Self) -> Self {
        Self::Optional(Arc::new(inner))
    }

    /// The name of the type without its parameters, as a value of it would tell.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Dyn | Self::Param(_) | Self::Error => "dyn",
            Self::Null => "null_type",
            Self::Plain("timestamp") => "google.protobuf.Timestamp",
            Self::Plain("duration") => "google.protobuf.Duration",
            Self::Plain(name) => name,
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Object(_) => "kubernetes.variables",
            Self::Built(name) if &**name == JSON_PATCH => JSON_PATCH,
            Self::Built(_) => OBJECT,
        }
    }

    /// The type a variable of this type is declared with: Kubernetes forgets all but the basic ones.
    ///
    /// So that variables cannot deepen one another's types without an end, we forget what is
    /// nested more than a few dozen levels too.
    pub(crate) fn declared(&self) -> Self {
        self.declared_within(32)
    }

    fn declared_within(&self, levels: u8) -> Self {
        let Some(levels) = levels.checked_sub(1) else { return Self::Dyn };
        match self {
            Self::Plain(
                "bool" | "bytes" | "double" | "duration" | "int" | "string" | "timestamp",
            )
            | Self::Plain("uint")
            | Self::Null => self.clone(),
            Self::List(element) => Self::list(element.declared_within(levels)),
            Self::Map(entry) => {
                Self::map(entry.0.declared_within(levels), entry.1.declared_within(levels))
            }
            _ => Self::Dyn,
        }
    }

    fn is_any(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn | Self::Param(_) => f.write_str("dyn"),
            Self::Error => f.write_str("!error!"),
            Self::Null => f.write_str("null"),
            Self::Plain(name) => f.write_str(name),
            Self::List(element) => write!(f, "list({element})"),
            Self::Map(entry) => write!(f, "map({}, {})", entry.0, entry.1),
            Self::Optional(inner) => write!(f, "optional_type({inner})"),
            Self::Type(inner) => write!(f, "type({inner})"),
            Self::Object(object) => f.write_str(&object.name),
            Self::Built(name) => f.write_str(name),
        }
    }
}

/// The types that type parameters stand for so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Solution(Vec<Option<Type>>);

impl Solution {
    pub(crate) fn fresh(&mut self) -> Type {
        self.0.push(None);
        Type::Param(self.0.len() - 1)
    }

    /// `ty` with its parameters replaced; unknown ones by `dyn` if `close`.
    pub(crate) fn resolve(&self, ty: &Type, close: bool) -> Type {
        match ty {
            Type::Param(number) => match self.0.get(*number) {
                Some(Some(bound)) => self.resolve(bound, close),
                _ if close => Type::Dyn,
                _ => ty.clone(),
            },
            Type::List(element) => Type::list(self.resolve(element, close)),
            Type::Map(entry) => {
                Type::map(self.resolve(&entry.0, close), self.resolve(&entry.1, close))
            }
            Type::Optional(inner) => Type::optional(self.resolve(inner, close)),
            Type::Type(inner) => Type::Type(Arc::new(self.resolve(inner, close))),
            other => other.clone(),
        }
    }

    /// Makes a parameter that stands for a type stand for any.
    fn generalize(&mut self, parameter: &Type) {
        let Type::Param(mut number) = *parameter else { return };
        while let Some(Some(Type::Param(next))) = self.0.get(number) {
            number = *next;
        }
        if let Some(slot) = self.0.get_mut(number) {
            *slot = Some(Type::Dyn);
        }
    }

    /// Whether a value of type `from` may stand where `to` is wanted, solving parameters.
    pub(crate) fn assign(&mut self, to: &Type, from: &Type) -> bool {
        let parameter = to;
        let (to, from) = (self.resolve(to, false), self.resolve(from, false));
        if matches!(from, Type::Dyn) && !matches!(to, Type::Param(_)) {
            // Of the types a parameter stands for the most general one counts.
            self.generalize(parameter);
            return true;
        }
        match (&to, &from) {
            (Type::Param(a), Type::Param(b)) if a == b => true,
            (Type::Param(number), other) | (other, Type::Param(number)) => {
                if mentions(other, *number) {
                    return false;
                }
                if let Some(slot) = self.0.get_mut(*number) {
                    *slot = Some(other.clone());
                }
                true
            }
            (a, b) if a.is_any() || b.is_any() => true,
            (Type::Null, other) | (other, Type::Null) => match other {
                Type::Null | Type::Optional(_) | Type::Object(_) | Type::Built(_) => true,
                Type::Plain(name) => {
                    !["bool", "int", "uint", "double", "string", "bytes"].contains(name)
                }
                _ => false,
            },
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => {
                self.assign(a, b)
            }
            (Type::Map(a), Type::Map(b)) => self.assign(&a.0, &b.0) && self.assign(&a.1, &b.1),
            (Type::Type(_), Type::Type(_)) => true,
            (a, b) => a == b,
        }
    }
}

fn mentions(ty: &Type, number: usize) -> bool {
    match ty {
        Type::Param(other) => *other == number,
        Type::List(inner) | Type::Optional(inner) | Type::Type(inner) => mentions(inner, number),
        Type::Map(entry) => mentions(&entry.0, number) || mentions(&entry.1, number),
        _ => false,
    }
}
