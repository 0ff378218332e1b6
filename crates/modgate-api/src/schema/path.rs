//! Field paths that cost nothing until they are read.

use std::fmt;

/// A place in a schema or a value, as a list from the leaf to the root.
#[derive(Clone, Copy)]
pub(super) enum Path<'a> {
    Root(&'a str),
    /// `parent.name`
    Child(&'a Path<'a>, &'a str),
    /// `parent[key]`
    Key(&'a Path<'a>, &'a str),
    /// `parent[0]`
    Index(&'a Path<'a>, usize),
    /// `parent.name`, or only `name` below an empty root.
    Property(&'a Path<'a>, &'a str),
}

impl<'a> Path<'a> {
    pub(super) fn child(&'a self, name: &'a str) -> Self {
        Self::Child(self, name)
    }

    pub(super) fn key(&'a self, key: &'a str) -> Self {
        Self::Key(self, key)
    }

    pub(super) fn index(&'a self, index: usize) -> Self {
        Self::Index(self, index)
    }

    pub(super) fn property(&'a self, name: &'a str) -> Self {
        Self::Property(self, name)
    }

    fn is_empty(&self) -> bool {
        matches!(self, Self::Root(""))
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Bounded: a path is as long as the schema or the value is deep.
        match self {
            Self::Root(text) => f.write_str(text),
            Self::Property(parent, name) if parent.is_empty() => f.write_str(name),
            Self::Child(parent, name) | Self::Property(parent, name) => {
                write!(f, "{parent}.{name}")
            }
            Self::Key(parent, key) => write!(f, "{parent}[{key}]"),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}
