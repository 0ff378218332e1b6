//! Keys that a path captures.

use modgate_value::{Str, format_smolstr};

/// A key captured on the way: exactly the document's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// The position in a list.
    Index(usize),
    /// The key in a map, unescaped.
    Name(Str),
}

/// A key as a template's `.SelectKeyParts` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPart<'k> {
    /// List positions, and map keys that are canonical decimals of 64 bits.
    Int(i64),
    /// Any other map key.
    Text(&'k str),
}

impl Key {
    /// The key as a text, as it stands in the document.
    pub fn text(&self) -> Str {
        match self {
            Self::Index(index) => format_smolstr!("{index}"),
            Self::Name(name) => name.clone(),
        }
    }

    /// The key as `.SelectKeyParts` shows it.
    pub fn part(&self) -> KeyPart<'_> {
        match self {
            Self::Index(index) => KeyPart::Int(i64::try_from(*index).unwrap_or(i64::MAX)),
            Self::Name(name) => match name.parse::<i64>() {
                // Canonical only: `007` and `+5` stay what they are.
                Ok(int) if int.to_string() == name.as_str() => KeyPart::Int(int),
                _ => KeyPart::Text(name),
            },
        }
    }
}
