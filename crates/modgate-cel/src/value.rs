//! Values of one evaluation: borrowed from documents and programs, or built in its arena.

use std::cmp::Ordering;

use modgate_value::{
    Object, Spelling, Value as Json,
    gotime::{Time, Zone},
};

use crate::{
    library::Opaque,
    types::{JSON_PATCH, OBJECT},
};

/// A CEL value: three words, `Copy`, owning nothing.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Val<'a> {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A 64-bit float.
    Double(f64),
    /// Text.
    String(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
    /// A type, by name.
    Type(&'static str),
    /// A list of a document.
    JsonList(&'a [Json]),
    /// A list.
    List(&'a [Val<'a>]),
    /// A list of a program.
    #[doc(hidden)]
    OwnedList(&'a [Owned]),
    /// A map of a document.
    JsonMap(&'a Object),
    /// A map, in the order it was written.
    Map(&'a [(Val<'a>, Val<'a>)]),
    /// A map of a program.
    #[doc(hidden)]
    OwnedMap(&'a [(Owned, Owned)]),
    /// An optional.
    Optional(Option<&'a Val<'a>>),
    /// An instant.
    Timestamp(Timestamp),
    /// A span of time in nanoseconds.
    Duration(i64),
    /// A value of Kubernetes' own types.
    Opaque(&'a Opaque<'a>),
    /// The policy's variables.
    Variables,
    /// An object that a mutation builds.
    Built(&'a Built<'a>),
}

/// An object that a mutation builds.
#[derive(Debug, Clone, Copy)]
pub struct Built<'a> {
    /// The name of its type.
    pub name: &'a str,
    /// Its fields.
    pub fields: &'a [(&'a str, Val<'a>)],
}

impl<'a> Built<'a> {
    /// The field `name`.
    pub fn field(&self, name: &str) -> Option<Val<'a>> {
        self.fields.iter().rev().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

/// An instant.
#[derive(Debug, Clone, Copy)]
pub struct Timestamp {
    /// Seconds since the Unix epoch.
    pub seconds: i64,
    /// Nanoseconds of that second.
    pub nanos: u32,
    /// Seconds east of UTC, as it was written; for printing only.
    pub offset: i32,
}

impl Timestamp {
    /// For the calendar.
    pub fn time(self) -> Time {
        let mut time = Time::at_unix(self.seconds, Zone::utc());
        time.nanos = self.nanos;
        time
    }

    /// For printing.
    pub fn written(self) -> Time {
        let time = self.time();
        if self.offset == 0 {
            return time;
        }
        time.in_zone(Zone::Fixed(self.offset.into(), "".into()))
    }
}

/// By the instant alone.
impl PartialEq for Timestamp {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Timestamp {}

impl PartialOrd for Timestamp {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timestamp {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.seconds, self.nanos).cmp(&(other.seconds, other.nanos))
    }
}

impl<'a> Val<'a> {
    /// Whether values of this type can be less or greater than each other.
    pub(crate) fn has_order(self) -> bool {
        matches!(
            self,
            Val::Bool(_)
                | Val::Int(_)
                | Val::Uint(_)
                | Val::Double(_)
                | Val::String(_)
                | Val::Bytes(_)
                | Val::Timestamp(_)
                | Val::Duration(_)
        )
    }

    /// A document, or a part of one; numbers written as integers are integers.
    pub fn json(value: &'a Json) -> Self {
        match value {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(*value),
            Json::Number(number) => match number.spelling() {
                Spelling::Int(value) => Self::Int(value),
                Spelling::Float(value) if number.is_integer_text() => {
                    number.as_i64().map_or(Self::Double(value), Self::Int)
                }
                _ => Self::Double(number.as_f64()),
            },
            Json::String(text) => Self::String(text.as_str()),
            Json::Array(items) => Self::JsonList(items),
            Json::Object(object) => Self::JsonMap(object),
        }
    }

    /// The name of its type.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Type(_) => "type",
            Self::JsonList(_) | Self::List(_) | Self::OwnedList(_) => "list",
            Self::JsonMap(_) | Self::Map(_) | Self::OwnedMap(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Opaque(opaque) => opaque.type_name(),
            Self::Variables => "kubernetes.variables",
            Self::Built(built) if built.name == JSON_PATCH => JSON_PATCH,
            Self::Built(_) => OBJECT,
        }
    }

    /// The text, if it is one.
    pub fn as_str(self) -> Option<&'a str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// How many characters, bytes or entries it has.
    pub fn size(self) -> Option<usize> {
        Some(match self {
            Self::String(text) if text.is_ascii() => text.len(),
            Self::String(text) => text.chars().count(),
            Self::Bytes(bytes) => bytes.len(),
            _ => return self.entries(),
        })
    }

    /// The bytes of a text or of bytes.
    pub(crate) fn length(self) -> usize {
        match self {
            Self::String(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            _ => 0,
        }
    }

    /// How many entries a list or map has.
    pub(crate) fn entries(self) -> Option<usize> {
        Some(match self {
            Self::JsonList(items) => items.len(),
            Self::List(items) => items.len(),
            Self::OwnedList(items) => items.len(),
            Self::JsonMap(object) => object.len(),
            Self::Map(entries) => entries.len(),
            Self::OwnedMap(entries) => entries.len(),
            _ => return None,
        })
    }

    /// The entry at `index`: position and element of a list, key and value of a map.
    pub fn entry(self, index: usize) -> Option<(Self, Self)> {
        match self {
            Self::JsonMap(object) => {
                let (key, value) = object.as_slice().get(index)?;
                Some((Self::String(key.as_str()), Self::json(value)))
            }
            Self::Map(entries) => entries.get(index).copied(),
            Self::OwnedMap(entries) => {
                entries.get(index).map(|(key, value)| (key.value(), value.value()))
            }
            _ => {
                let position = Self::Int(i64::try_from(index).unwrap_or(i64::MAX));
                self.item(index).map(|item| (position, item))
            }
        }
    }

    /// An element of a list.
    #[inline]
    pub(crate) fn item(self, index: usize) -> Option<Self> {
        match self {
            Self::JsonList(items) => items.get(index).map(Self::json),
            Self::List(items) => items.get(index).copied(),
            Self::OwnedList(items) => items.get(index).map(Owned::value),
            _ => None,
        }
    }

    /// The elements of a list; nothing of anything else.
    pub(crate) fn items(self) -> impl Iterator<Item = Self> {
        let size = if self.is_list() { self.entries().unwrap_or(0) } else { 0 };
        (0..size).filter_map(move |index| self.item(index))
    }

    #[inline]
    pub(crate) fn is_list(self) -> bool {
        matches!(self, Self::JsonList(_) | Self::List(_) | Self::OwnedList(_))
    }

    #[inline]
    pub(crate) fn is_map(self) -> bool {
        matches!(self, Self::JsonMap(_) | Self::Map(_) | Self::OwnedMap(_))
    }
}

/// Whether a value can be an index or a key in brackets.
pub(crate) fn qualifies(key: Val<'_>) -> bool {
    matches!(key, Val::Bool(_) | Val::Int(_) | Val::Uint(_) | Val::Double(_) | Val::String(_))
}

/// The name that cel-go's implementation gives to the type of a value.
pub(crate) fn go_type(value: Val<'_>) -> &'static str {
    match value {
        Val::Null => "types.Null",
        Val::Bool(_) => "types.Bool",
        Val::Int(_) => "types.Int",
        Val::Uint(_) => "types.Uint",
        Val::Double(_) => "types.Double",
        Val::String(_) => "types.String",
        Val::Bytes(_) => "types.Bytes",
        Val::Type(_) => "*types.Type",
        Val::Optional(_) => "*types.Optional",
        Val::Timestamp(_) => "types.Timestamp",
        Val::Duration(_) => "types.Duration",
        other => other.type_name(),
    }
}

/// A constant of a program.
#[derive(Debug, Clone, PartialEq)]
pub enum Owned {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Box<str>),
    Bytes(Box<[u8]>),
    Type(&'static str),
    List(Box<[Owned]>),
    Map(Box<[(Owned, Owned)]>),
    Timestamp(Timestamp),
    Duration(i64),
}

impl Owned {
    #[inline]
    pub(crate) fn value(&self) -> Val<'_> {
        match self {
            Self::Null => Val::Null,
            Self::Bool(value) => Val::Bool(*value),
            Self::Int(value) => Val::Int(*value),
            Self::Uint(value) => Val::Uint(*value),
            Self::Double(value) => Val::Double(*value),
            Self::String(text) => Val::String(text),
            Self::Bytes(bytes) => Val::Bytes(bytes),
            Self::Type(name) => Val::Type(name),
            Self::List(items) => Val::OwnedList(items),
            Self::Map(entries) => Val::OwnedMap(entries),
            Self::Timestamp(at) => Val::Timestamp(*at),
            Self::Duration(nanos) => Val::Duration(*nanos),
        }
    }

    /// A copy of a value that can be a constant.
    pub(crate) fn of(value: Val<'_>) -> Option<Self> {
        Some(match value {
            Val::Null => Self::Null,
            Val::Bool(value) => Self::Bool(value),
            Val::Int(value) => Self::Int(value),
            Val::Uint(value) => Self::Uint(value),
            Val::Double(value) => Self::Double(value),
            Val::String(text) => Self::String(text.into()),
            Val::Bytes(bytes) => Self::Bytes(bytes.into()),
            Val::Type(name) => Self::Type(name),
            Val::Timestamp(at) => Self::Timestamp(at),
            Val::Duration(nanos) => Self::Duration(nanos),
            Val::OwnedList(items) => Self::List(items.into()),
            Val::OwnedMap(entries) => Self::Map(entries.into()),
            _ => return None,
        })
    }
}
