//! Outcomes that the evaluations of one request share.
//!
//! Policies repeat one another: the lists of containers, the exemptions, the parameters that are not
//! given. An expression whose text is the same, and that reads the same, has the same outcome for
//! one object. Who shares a memo gives such expressions the same [`Key`], and the first evaluation
//! leaves its outcome for the others.
//!
//! # Budgets
//!
//! Each evaluation pays for an outcome as if it had computed it: the cost, the steps and the bytes
//! of the expression itself, and then every variable that it read is read again, which pays for
//! that variable where this evaluation has not done so yet. So what an evaluation spends does not
//! depend on which evaluation came first, and replicas that evaluate policies in another order come
//! to the same verdict. Where too little is left to pay at once, the memo is not used, and the
//! evaluation ends where it would end without. (An evaluation that ends this way may have been charged
//! for more bytes than it would have been: it pays for an outcome before the variables.)

use std::{
    cell::RefCell,
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

use modgate_value::Budget;

use crate::{error::EvalError, value::Val};

/// Most outcomes that a memo keeps; later ones are not shared.
const MAX_OUTCOMES: usize = 4096;

/// Equal for expressions that have the same outcome in all evaluations that share a memo; a digest,
/// so that no two others are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Key(u128);

impl Key {
    /// The key of an expression that is not shared.
    pub const NONE: Self = Self(0);

    /// By a digest of the expression and everything that it reads.
    pub fn new(digest: u128) -> Self {
        Self(digest)
    }

    /// Its source.
    pub fn digest(self) -> u128 {
        self.0
    }

    /// Whether the expression is not shared.
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }
}

/// The keys of a policy's variables, in their order.
#[derive(Debug, Clone, Default)]
pub struct VariableKeys {
    /// Of their names.
    names: Box<[Key]>,
    values: Box<[Key]>,
}

/// Variables beyond this number are not shared, nor is anything else of their policy.
pub const MAX_SHARED_VARIABLES: usize = 64;

impl VariableKeys {
    /// A name's digest and the key of the value, for each variable; `None` for too many.
    pub fn new(keys: impl IntoIterator<Item = (Key, Key)>) -> Option<Self> {
        let (names, values): (Vec<Key>, Vec<Key>) = keys.into_iter().unzip();
        let few = names.len() <= MAX_SHARED_VARIABLES;
        few.then(|| Self { names: names.into(), values: values.into() })
    }

    pub(crate) fn of_value(&self, index: usize) -> Key {
        self.values.get(index).copied().unwrap_or(Key::NONE)
    }

    pub(crate) fn named(&self, name: Key) -> Option<usize> {
        self.names.iter().position(|known| *known == name)
    }

    /// The names in a set of variables.
    pub(crate) fn names(&self, mut set: u64) -> impl Iterator<Item = Key> {
        std::iter::from_fn(move || {
            let index = usize::try_from(set.trailing_zeros()).ok()?;
            // Without its lowest member.
            set &= set.checked_sub(1)?;
            Some(self.names.get(index).copied().unwrap_or_default())
        })
    }
}

/// Outcomes by key, for one request.
#[derive(Debug, Default)]
pub struct Memo<'a> {
    outcomes: RefCell<HashMap<Key, Shared<'a>, BuildHasherDefault<Digests>>>,
}

/// An outcome, and what it took.
#[derive(Debug, Clone)]
pub(crate) struct Shared<'a> {
    pub(crate) result: Result<Val<'a>, EvalError>,
    pub(crate) spent: Spent,
    /// The names of the variables that were read.
    pub(crate) read: &'a [Key],
}

/// The cost of an expression itself, without the variables that it read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spent {
    pub(crate) cost: u64,
    pub(crate) steps: u64,
    pub(crate) bytes: u64,
}

impl Spent {
    /// The spent part so far.
    pub(crate) fn so_far(budget: &Budget<'_>) -> Self {
        Self { cost: 0, steps: budget.steps_spent(), bytes: budget.bytes_spent() }
    }
}

impl<'a> Memo<'a> {
    /// Without any outcome.
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn get(&self, key: Key) -> Option<Shared<'a>> {
        self.outcomes.borrow().get(&key).cloned()
    }

    pub(crate) fn put(&self, key: Key, shared: Shared<'a>) {
        let mut outcomes = self.outcomes.borrow_mut();
        if outcomes.len() < MAX_OUTCOMES {
            outcomes.insert(key, shared);
        }
    }
}

/// Digests are as good as their hashes.
#[derive(Default)]
struct Digests(u64);

impl Hasher for Digests {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u128(&mut self, digest: u128) {
        #[expect(clippy::cast_possible_truncation, reason = "half of a digest is one, too")]
        let half = digest as u64;
        self.0 = half;
    }
}
