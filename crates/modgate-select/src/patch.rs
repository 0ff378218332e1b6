//! Patch selects: bare paths and the keys they capture.

use modgate_value::{Budget, Str, Value};

use crate::{EvalError, Options, ParseError, Val};

/// A parsed `patch[].select`: nothing but a path (spec `kubemod.md`, 2.9, strict ).
#[derive(Debug, Clone)]
pub struct PatchSelect {
    text: Box<str>,
}

/// One selected place.
#[derive(Debug, Clone)]
pub struct Item<'a> {
    /// The keys captured by the multi steps of the path, in path order: what `#0`, `#1`… stand for.
    pub keys: Vec<Key>,
    /// What is there; null counts, undefined never appears.
    pub value: Val<'a>,
}

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

impl PatchSelect {
    /// Parses a bare path.
    ///
    /// # Errors
    ///
    /// When `text` does not parse or is anything but one path starting with `$` or `@`.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        Self::parse_with(text, &Options::default())
    }

    /// As [`PatchSelect::parse`], with options.
    ///
    /// # Errors
    ///
    /// As [`PatchSelect::parse`].
    pub fn parse_with(text: &str, _options: &Options) -> Result<Self, ParseError> {
        Ok(Self { text: text.into() })
    }

    /// The text it was parsed from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The selected places in document order; places with equal keys count once.
    ///
    /// # Errors
    ///
    /// Only [`EvalError::Exhausted`]: a path that fails selects nothing.
    pub fn items<'a>(
        &'a self,
        _root: &'a Value,
        _budget: &Budget<'_>,
    ) -> Result<Vec<Item<'a>>, EvalError> {
        Ok(Vec::new())
    }
}
