//! Values of one evaluation: borrowed from documents, or built in its arena.

use modgate_value::{Object, Spelling, Value as Json};

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
    /// A map of a document.
    JsonMap(&'a Object),
    /// A map, in the order it was written.
    Map(&'a [(Val<'a>, Val<'a>)]),
    /// An optional.
    Optional(Option<&'a Val<'a>>),
    /// The policy's variables.
    Variables,
}

impl<'a> Val<'a> {
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
            Self::JsonList(_) | Self::List(_) => "list",
            Self::JsonMap(_) | Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Variables => "kubernetes.variables",
        }
    }

    /// How many characters, bytes or entries it has.
    pub fn size(self) -> Option<usize> {
        Some(match self {
            Self::String(text) => text.chars().count(),
            Self::Bytes(bytes) => bytes.len(),
            Self::JsonList(items) => items.len(),
            Self::List(items) => items.len(),
            Self::JsonMap(object) => object.len(),
            Self::Map(entries) => entries.len(),
            _ => return None,
        })
    }

    /// The entry at `index`: position and element of a list, key and value of a map.
    pub fn entry(self, index: usize) -> Option<(Self, Self)> {
        let position = || Self::Int(i64::try_from(index).unwrap_or(i64::MAX));
        match self {
            Self::JsonList(items) => items.get(index).map(|item| (position(), Self::json(item))),
            Self::List(items) => items.get(index).map(|item| (position(), *item)),
            Self::JsonMap(object) => {
                let (key, value) = object.as_slice().get(index)?;
                Some((Self::String(key.as_str()), Self::json(value)))
            }
            Self::Map(entries) => entries.get(index).copied(),
            _ => None,
        }
    }

    pub(crate) fn is_list(self) -> bool {
        matches!(self, Self::JsonList(_) | Self::List(_))
    }

    pub(crate) fn is_map(self) -> bool {
        matches!(self, Self::JsonMap(_) | Self::Map(_))
    }
}
