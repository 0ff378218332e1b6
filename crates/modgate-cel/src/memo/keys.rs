//! The keys of a policy's variables.

use super::{Ahead, Key, Known};

/// The keys of a policy's variables, in their order.
#[derive(Debug, Clone, Default)]
pub struct VariableKeys {
    /// Of their names.
    names: Box<[Key]>,
    values: Box<[Key]>,
    /// The exact keys ([`VariableKey::exact`]).
    exact: Box<[Key]>,
    /// The variables that keys say enough about, by their places.
    keyed: u64,
    /// Those of inputs alone.
    common: u64,
    /// Those that depend on the parameters and read nothing else that does and is not known ahead.
    bottom: u64,
    /// The values of variables that are known.
    ahead: Ahead,
    /// The places of these.
    known: u64,
}

/// Variables beyond this number are not shared, nor is anything else of their policy.
pub const MAX_SHARED_VARIABLES: usize = 64;

/// A variable, for [`VariableKeys::new`].
#[derive(Debug, Clone, Copy)]
pub struct VariableKey {
    /// A digest of its name.
    pub name: Key,
    /// The key of its expression.
    pub value: Key,
    /// The same key together with the values of the variables that the expression reads, if each of these reads
    /// inputs alone or is known ahead. [`Key::NONE`] if not, or if none is known ahead.
    pub exact: Key,
    /// Whether each expression that reads it has in its own key all that the parts depend on that it reads. The
    /// whole value then need not be the same.
    pub keyed: bool,
    /// Whether it reads inputs alone, so that it comes to the same for all keys of the policy.
    pub common: bool,
}

impl VariableKeys {
    /// The keys of these variables; `None` for too many.
    pub fn new(keys: impl IntoIterator<Item = VariableKey>) -> Option<Self> {
        let mut all = Self::default();
        let (mut names, mut values, mut exacts) = (Vec::new(), Vec::new(), Vec::new());
        for VariableKey { name, value, exact, keyed, common } in keys {
            if names.len() >= MAX_SHARED_VARIABLES {
                return None;
            }
            all.keyed |= u64::from(keyed) << names.len();
            all.common |= u64::from(common) << names.len();
            names.push(name);
            values.push(value);
            exacts.push(exact);
        }
        let (names, values, exact) = (names.into(), values.into(), exacts.into());
        Some(Self { names, values, exact, ..all })
    }

    /// With what variables are known to come to.
    #[must_use]
    pub fn with_ahead(self, ahead: Ahead) -> Self {
        let places = (0..self.names.len()).filter(|index| ahead.get(*index).is_some());
        let known = places.fold(0, |known, index| known | 1 << index);
        Self { ahead, known, ..self }
    }

    /// With the variables, by their places, that read no others but those of inputs alone and those that are known
    /// ahead, and are neither themselves ([`Evaluation::alike`](crate::Evaluation::alike)).
    #[must_use]
    pub fn with_bottom(self, bottom: u64) -> Self {
        Self { bottom, ..self }
    }

    /// Whether a variable is one of those at the bottom.
    pub(crate) fn is_bottom(&self, index: usize) -> bool {
        index < MAX_SHARED_VARIABLES && self.bottom >> index & 1 == 1
    }

    /// The variables of inputs alone, by their places.
    pub(crate) fn all_common(&self) -> u64 {
        self.common
    }

    /// The variables that are known ahead, by their places.
    pub(crate) fn all_ahead(&self) -> u64 {
        self.known
    }

    /// The variables that keys say enough about, by their places.
    pub(crate) fn all_keyed(&self) -> u64 {
        self.keyed
    }

    /// The value of a variable, if it is known.
    pub(crate) fn ahead(&self, index: usize) -> Option<&Known> {
        self.ahead.get(index)
    }

    /// The digest of a variable's name.
    pub(crate) fn name(&self, index: usize) -> Key {
        self.names.get(index).copied().unwrap_or(Key::NONE)
    }

    /// Whether what a variable comes to does not count beside the keys.
    pub(crate) fn is_keyed(&self, index: usize) -> bool {
        index < MAX_SHARED_VARIABLES && self.keyed >> index & 1 == 1
    }

    /// Whether a variable comes to the same for all keys of the policy.
    pub(crate) fn is_common(&self, index: usize) -> bool {
        index < MAX_SHARED_VARIABLES && self.common >> index & 1 == 1
    }

    pub(crate) fn of_value(&self, index: usize) -> Key {
        self.values.get(index).copied().unwrap_or(Key::NONE)
    }

    pub(crate) fn exact(&self, index: usize) -> Key {
        self.exact.get(index).copied().unwrap_or_default()
    }

    /// The variable of that name, which is looked for at `near` first.
    #[inline]
    pub(crate) fn named(&self, name: Key, near: usize) -> Option<usize> {
        match self.names.get(near) {
            Some(known) if *known == name => Some(near),
            _ => self.names.iter().position(|known| *known == name),
        }
    }
}
