//! The values a running template handles, with the Go types they have.

use std::rc::Rc;

use modgate_value::{Object, Value};

use crate::{
    pki::Certificate,
    semver::Version,
    text::Text,
    time::{Duration, Month, Time, Weekday},
};

/// One value of a running template.
///
/// JSON data is wrapped one level at a time and never copied. Maps that the template makes or
/// changes live in the [`Cx`](crate::cx::Cx), so that, as in Go, every holder of a map sees a
/// change to it; that also keeps values free of reference cycles.
#[derive(Debug, Clone)]
pub(crate) enum Val<'a> {
    /// No value at all: a missing map key. Go's zero `reflect.Value`.
    Missing,
    /// A nil `interface{}`.
    Nil,
    Bool(bool),
    /// `int`
    Int(i64),
    /// `int64`
    Int64(i64),
    /// `uint64`
    Uint64(u64),
    /// `uint32`
    Uint32(u32),
    /// `uint8`
    Uint8(u8),
    /// `float64`
    Float(f64),
    /// `complex128`
    Complex(f64, f64),
    Text(Text<'a>),
    List(List<'a>),
    Map(Map<'a>),
    /// `*interface {}`, which is how KubeMod hands in `.Target`.
    Pointer(&'a Value),
    /// The struct at the top of a KubeMod template; its fields are the data's.
    Context,
    Time(Rc<Time>),
    Duration(Duration),
    Month(Month),
    Weekday(Weekday),
    Version(Rc<Version>),
    Certificate(Rc<Certificate>),
}

/// A slice.
#[derive(Debug, Clone)]
pub(crate) enum List<'a> {
    Json(&'a [Value]),
    Own(Rc<Items<'a>>),
}

/// A slice the template made.
#[derive(Debug)]
pub(crate) struct Items<'a> {
    pub(crate) items: Vec<Val<'a>>,
    pub(crate) kind: ListKind,
    /// Nested lists below this one, itself included; bounded so that dropping can recurse.
    pub(crate) depth: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListKind {
    /// `[]interface {}`
    Any,
    /// A nil `[]interface {}`
    Nil,
    /// `[]string`
    Texts,
    /// A nil `[]string`
    NilTexts,
    /// `[]int`
    Ints,
    /// `[][]interface {}`
    Lists,
}

impl ListKind {
    pub(crate) fn is_nil(self) -> bool {
        matches!(self, Self::Nil | Self::NilTexts)
    }

    pub(crate) fn type_name(self) -> &'static str {
        match self {
            Self::Any | Self::Nil => "[]interface {}",
            Self::Texts | Self::NilTexts => "[]string",
            Self::Ints => "[]int",
            Self::Lists => "[][]interface {}",
        }
    }
}

/// A map with string keys.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Map<'a> {
    Json(&'a Object),
    /// Made or changed by the template; held by the [`Cx`](crate::cx::Cx).
    Own(MapId, MapKind),
    /// A nil `map[string]interface {}`.
    Nil,
}

/// Which of the maps a [`Cx`](crate::cx::Cx) holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MapId(pub(crate) usize);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MapKind {
    /// `map[string]interface {}`
    Any,
    /// `map[string]string`
    Texts,
}

/// Go's kinds, as far as templates meet them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Invalid,
    Bool,
    Int,
    Int64,
    Uint8,
    Uint32,
    Uint64,
    Float64,
    Complex128,
    String,
    Slice,
    Map,
    Pointer,
    Struct,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Int64 => "int64",
            Self::Uint8 => "uint8",
            Self::Uint32 => "uint32",
            Self::Uint64 => "uint64",
            Self::Float64 => "float64",
            Self::Complex128 => "complex128",
            Self::String => "string",
            Self::Slice => "slice",
            Self::Map => "map",
            Self::Pointer => "ptr",
            Self::Struct => "struct",
        }
    }
}

impl<'a> Val<'a> {
    /// A JSON value as `encoding/json` decodes it, one level deep.
    pub(crate) fn of_json(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Nil,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => Self::Float(number.as_f64()),
            Value::String(text) => Self::Text(Text::Ref(text)),
            Value::Array(elements) => Self::List(List::Json(elements)),
            Value::Object(members) => Self::Map(Map::Json(members)),
        }
    }

    pub(crate) fn text(text: impl Into<Text<'a>>) -> Self {
        Self::Text(text.into())
    }

    /// Bytes that may not be UTF-8, as a string.
    pub(crate) fn bytes(bytes: Vec<u8>) -> Self {
        Self::Text(Text::of_bytes(bytes))
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Missing | Self::Nil => Kind::Invalid,
            Self::Bool(_) => Kind::Bool,
            Self::Int(_) | Self::Month(_) | Self::Weekday(_) => Kind::Int,
            Self::Int64(_) | Self::Duration(_) => Kind::Int64,
            Self::Uint64(_) => Kind::Uint64,
            Self::Uint32(_) => Kind::Uint32,
            Self::Uint8(_) => Kind::Uint8,
            Self::Float(_) => Kind::Float64,
            Self::Complex(..) => Kind::Complex128,
            Self::Text(_) => Kind::String,
            Self::List(_) => Kind::Slice,
            Self::Map(_) => Kind::Map,
            Self::Pointer(_) | Self::Version(_) => Kind::Pointer,
            Self::Context | Self::Time(_) | Self::Certificate(_) => Kind::Struct,
        }
    }

    /// The Go type, as `%T` prints it.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Missing | Self::Nil => "<nil>",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Int64(_) => "int64",
            Self::Uint64(_) => "uint64",
            Self::Uint32(_) => "uint32",
            Self::Uint8(_) => "uint8",
            Self::Float(_) => "float64",
            Self::Complex(..) => "complex128",
            Self::Text(_) => "string",
            Self::List(list) => list.kind().type_name(),
            Self::Map(Map::Own(_, MapKind::Texts)) => "map[string]string",
            Self::Map(_) => "map[string]interface {}",
            Self::Pointer(_) => "*interface {}",
            Self::Context => "core.TemplateContext",
            Self::Time(_) => "time.Time",
            Self::Duration(_) => "time.Duration",
            Self::Month(_) => "time.Month",
            Self::Weekday(_) => "time.Weekday",
            Self::Version(_) => "*semver.Version",
            Self::Certificate(_) => "sprig.certificate",
        }
    }

    /// A signed integer of any type.
    pub(crate) fn as_signed(&self) -> Option<i64> {
        match self {
            Self::Int(value) | Self::Int64(value) => Some(*value),
            Self::Duration(value) => Some(value.0),
            Self::Month(value) => Some(value.0.into()),
            Self::Weekday(value) => Some(value.0.into()),
            _ => None,
        }
    }

    /// An unsigned integer of any type.
    pub(crate) fn as_unsigned(&self) -> Option<u64> {
        match self {
            Self::Uint64(value) => Some(*value),
            Self::Uint32(value) => Some((*value).into()),
            Self::Uint8(value) => Some((*value).into()),
            _ => None,
        }
    }

    /// The value that a pointer points to.
    pub(crate) fn pointed(&self) -> Self {
        match self {
            Self::Pointer(value) => Self::of_json(value),
            other => other.clone(),
        }
    }
}

impl Map<'_> {
    /// Whether this is a `map[string]string`.
    pub(crate) fn holds_texts(&self) -> bool {
        matches!(self, Self::Own(_, MapKind::Texts))
    }
}

impl<'a> List<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Json(elements) => elements.len(),
            Self::Own(list) => list.items.len(),
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<Val<'a>> {
        match self {
            Self::Json(elements) => elements.get(index).map(Val::of_json),
            Self::Own(list) => list.items.get(index).cloned(),
        }
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = Val<'a>> + ExactSizeIterator + '_ {
        (0..self.len()).map(|index| self.get(index).unwrap_or(Val::Missing))
    }

    /// A nil `[]interface {}`.
    pub(crate) fn nil() -> Self {
        Self::Own(Items { items: Vec::new(), kind: ListKind::Nil, depth: 1 }.into())
    }

    pub(crate) fn kind(&self) -> ListKind {
        match self {
            Self::Json(_) => ListKind::Any,
            Self::Own(list) => list.kind,
        }
    }
}
