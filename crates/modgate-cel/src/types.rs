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

    /// The name of the type without its parameters, as `type()` prints it.
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

    pub(crate) fn is_any(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// Whether this type is `other`, or `other` with some of its parts replaced by `dyn`.
    pub(crate) fn is_no_more_specific_than(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dyn | Self::Param(_), _) => true,
            (_, Self::Dyn | Self::Param(_)) => false,
            (Self::List(a), Self::List(b)) | (Self::Optional(a), Self::Optional(b)) => {
                a.is_no_more_specific_than(b)
            }
            (Self::Map(a), Self::Map(b)) => {
                a.0.is_no_more_specific_than(&b.0) && a.1.is_no_more_specific_than(&b.1)
            }
            (Self::Type(_), Self::Type(_)) => true,
            (a, b) => a == b,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Param(number) => write!(f, "_var{number}"),
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

    /// Whether `left` and `right` can be one type, as cel-go unifies them (`checker/types.go`). Parameters
    /// that have to stand for a type for that stand for it afterwards; if the types differ, nothing
    /// changes.
    pub(crate) fn unify(&mut self, left: &Type, right: &Type) -> bool {
        self.unify_all([(left, right)])
    }

    /// Whether the types of each pair can be one type, all at once.
    pub(crate) fn unify_all<'t>(
        &mut self,
        pairs: impl IntoIterator<Item = (&'t Type, &'t Type)>,
    ) -> bool {
        let mut trial = self.clone();
        let fits = pairs.into_iter().all(|(left, right)| trial.agree(left, right, 0));
        if fits {
            *self = trial;
        }
        fits
    }

    fn agree(&mut self, left: &Type, right: &Type, depth: usize) -> bool {
        if depth > MAX_UNIFICATION {
            return false;
        }
        if let Type::Param(number) = *right {
            match self.bind(left, number, depth) {
                Bound::Fits => return true,
                Bound::Differs => return false,
                // The other side may stand for this one.
                Bound::Occurs => {}
            }
        }
        if let Type::Param(number) = *left {
            return matches!(self.bind(right, number, depth), Bound::Fits);
        }
        match (left, right) {
            (a, b) if a.is_any() || b.is_any() => true,
            (Type::Null, other) | (other, Type::Null) => match other {
                Type::Null | Type::Optional(_) | Type::Object(_) | Type::Built(_) => true,
                Type::Plain(name) => {
                    !["bool", "int", "uint", "double", "string", "bytes"].contains(name)
                }
                _ => false,
            },
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => {
                self.agree(a, b, depth + 1)
            }
            (Type::Map(a), Type::Map(b)) => {
                self.agree(&a.0, &b.0, depth + 1) && self.agree(&a.1, &b.1, depth + 1)
            }
            (Type::Type(_), Type::Type(_)) => true,
            (a, b) => a == b,
        }
    }

    /// Lets the parameter `number` stand for `ty`, or for the more general of `ty` and the type for
    /// which it stands already.
    fn bind(&mut self, ty: &Type, number: usize, depth: usize) -> Bound {
        if *ty == Type::Param(number) {
            return Bound::Fits;
        }
        let Some(before) = self.0.get(number).cloned().flatten() else {
            if self.mentions(ty, number, depth) {
                return Bound::Occurs;
            }
            self.set(number, ty.clone());
            return Bound::Fits;
        };
        if *ty == before {
            return Bound::Fits;
        }
        if !self.agree(ty, &before, depth + 1) {
            return Bound::Differs;
        }
        let general = if ty.is_no_more_specific_than(&before) { ty.clone() } else { before };
        if !self.mentions(&general, number, depth) {
            self.set(number, general);
        }
        Bound::Fits
    }

    fn set(&mut self, number: usize, ty: Type) {
        if let Some(slot) = self.0.get_mut(number) {
            *slot = Some(ty);
        }
    }

    /// Whether the parameter `number` is part of `ty`.
    fn mentions(&self, ty: &Type, number: usize, depth: usize) -> bool {
        if depth > MAX_UNIFICATION {
            return true;
        }
        match ty {
            Type::Param(other) if *other == number => true,
            Type::Param(other) => match self.0.get(*other) {
                Some(Some(bound)) => self.mentions(bound, number, depth + 1),
                _ => false,
            },
            Type::List(inner) | Type::Optional(inner) | Type::Type(inner) => {
                self.mentions(inner, number, depth + 1)
            }
            Type::Map(entry) => {
                self.mentions(&entry.0, number, depth + 1)
                    || self.mentions(&entry.1, number, depth + 1)
            }
            _ => false,
        }
    }
}

/// How a parameter came to stand for a type.
enum Bound {
    /// It does.
    Fits,
    /// It stands for another one.
    Differs,
    /// The type contains the parameter.
    Occurs,
}

/// Parameters stand for each other in chains of at most this length; types nest less deep.
const MAX_UNIFICATION: usize = 800;
