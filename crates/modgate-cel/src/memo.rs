//! Outcomes that the evaluations of one request share.
//!
//! Policies repeat one another: the lists of containers, the exemptions, the parameters that are not
//! given. An expression whose text is the same, and that reads the same, has the same outcome for
//! one object. Who shares a memo gives such expressions the same [`Key`], and the first evaluation
//! leaves its outcome for the others.
//!
//! The values of a policy's variables are no part of a key. An outcome lists the variables that were read, one
//! after the other, and their values. Another evaluation reads them in that order, too, as long as their values
//! are the same. If all of them are, it has the same outcome. So constraints whose parameters differ share
//! everything behind the first variable that has the same value for both.
//!
//! Most variables need not be read for that: the key determines the values of those that read inputs alone, and
//! variables that are known ahead have a digest. An evaluation pays for them, and reads them only if it needs their
//! values. Variables of inputs alone have the same values for all constraints of a policy, which therefore find them by
//! their places (`InCommon`), and pay for several at once.
//!
//! # Budgets
//!
//! Each evaluation pays for an outcome as if it had computed it: the cost, the steps and the bytes
//! of the expression itself, and of every variable that it read and has not been paid for yet, with all that this
//! one read. So what an evaluation spends does not
//! depend on which evaluation came first, and replicas that evaluate policies in another order come
//! to the same verdict. Where too little is left to pay at once, the memo is not used, and the
//! evaluation ends where it would end without. (An evaluation that ends this way may have been charged
//! for more bytes than it would have been: it pays for an outcome before it computes others.)

mod ahead;

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

use modgate_value::{Budget, Exhausted, Object, Spelling, Value as Json};

pub use self::ahead::Ahead;
pub(crate) use self::ahead::Known;
use crate::{error::EvalError, program::Arena, value::Val};

/// Most outcomes that a memo keeps; later ones are not shared.
const MAX_OUTCOMES: usize = 4096;

/// Most outcomes of one key that are kept.
const MAX_OTHERS: usize = 8;

/// How many parts of a variable's values are compared, before they count as different.
pub(crate) const MAX_COMPARED: u32 = 256;

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
    /// The exact keys ([`VariableKey::exact`]).
    exact: Box<[Key]>,
    /// The variables that keys say enough about, by their places.
    keyed: u64,
    /// Those of inputs alone.
    common: u64,
    /// The values of variables that are known.
    ahead: Ahead,
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
        Self { ahead, ..self }
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

/// How much of a usual request there is room for at first.
const ROOM: usize = 448;

/// Outcomes by key, for one request.
#[derive(Debug)]
pub struct Memo<'a> {
    outcomes: RefCell<HashMap<Key, &'a Shared<'a>, BuildHasherDefault<Digests>>>,
    /// Of the policy that was evaluated last, which has this address.
    in_common: Cell<Option<(usize, &'a InCommon<'a>)>>,
}

/// The variables of a policy that read inputs alone, by their places: all of its constraints have them in common.
#[derive(Debug)]
pub(crate) struct InCommon<'a> {
    all: &'a [Cell<Option<Common<'a>>>],
    /// Several that were paid for at once: another constraint pays for the same, mostly.
    last: Cell<(u64, Spent)>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Common<'a> {
    pub(crate) shared: &'a Shared<'a>,
    /// It and all that it reads, by their places.
    pub(crate) behind: u64,
}

impl<'a> InCommon<'a> {
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<Common<'a>> {
        self.all.get(index)?.get()
    }

    pub(crate) fn keep(&self, index: usize, common: Common<'a>) {
        if let Some(place) = self.all.get(index) {
            place.set(Some(common));
        }
    }

    /// The cost of these variables, given by their places.
    pub(crate) fn spent(&self, places: u64) -> Spent {
        let (known, spent) = self.last.get();
        if known == places {
            return spent;
        }
        let (mut left, mut sum) = (places, Spent::default());
        while left != 0 {
            let common = self.get(left.trailing_zeros() as usize);
            sum.add(common.map_or(Spent::default(), |common| common.shared.spent));
            left &= left - 1;
        }
        self.last.set((places, sum));
        sum
    }
}

/// An outcome, and what it took.
#[derive(Debug)]
pub(crate) struct Shared<'a> {
    pub(crate) result: Kept<'a>,
    pub(crate) spent: Spent,
    pub(crate) basis: Basis<'a>,
    /// The outcome of an evaluation before this one, for which variables came to something else.
    pub(crate) other: Option<&'a Shared<'a>>,
    /// How many of these there are.
    others: usize,
    /// The variables of inputs alone that it reads, with all that they read, by their places in a policy.
    behind: Cell<(usize, u64)>,
}

impl Shared<'_> {
    /// The variables of inputs alone behind it, if they are known for this policy.
    pub(crate) fn behind(&self, in_common: &InCommon<'_>) -> Option<u64> {
        let (policy, behind) = self.behind.get();
        (policy == in_common.address()).then_some(behind)
    }

    pub(crate) fn keep_behind(&self, in_common: &InCommon<'_>, behind: u64) {
        self.behind.set((in_common.address(), behind));
    }
}

/// The variables that determine an outcome: where they are the same, the outcome is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Basis<'a> {
    /// The variables that read inputs alone, which need not be compared.
    pub(crate) inputs: &'a [Input<'a>],
    /// Those that are known ahead.
    pub(crate) ahead: &'a [ReadAhead],
    /// The others, in the order in which they were read.
    pub(crate) read: &'a [Read<'a>],
}

/// A variable that reads inputs alone, which all evaluations have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input<'a> {
    /// The digest of its name.
    pub(crate) name: Key,
    /// Its place in the policy that read it, which is its place in most others.
    pub(crate) place: usize,
    pub(crate) of: &'a Shared<'a>,
}

/// A variable that is known ahead.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadAhead {
    /// The digest of its name.
    pub(crate) name: Key,
    /// Its place in the policy that read it, which is its place in most others.
    pub(crate) place: usize,
    /// The digest of what it has to come to; [`Key::NONE`] for anything.
    pub(crate) same: Key,
}

/// A variable that was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Read<'a> {
    /// The digest of its name.
    pub(crate) name: Key,
    /// Its place in the policy that read it, which is its place in most others.
    pub(crate) place: usize,
    /// The value that it must have; `None` for any.
    pub(crate) value: Option<Kept<'a>>,
}

/// A result, in an arena.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kept<'a> {
    Value(Val<'a>),
    Failed(&'a str),
    NoOverload,
    Cost,
    OutOfBudget,
    /// The evaluation has spent its budget, which says nothing about others.
    Exhausted(Exhausted),
}

impl<'a> Kept<'a> {
    pub(crate) fn new(result: &Result<Val<'a>, EvalError>, arena: &'a Arena) -> Self {
        match result {
            Ok(value) => Self::Value(*value),
            Err(EvalError::Failed(message)) => Self::Failed(arena.0.alloc_str(message)),
            Err(EvalError::NoOverload) => Self::NoOverload,
            Err(EvalError::Cost) => Self::Cost,
            Err(EvalError::OutOfBudget) => Self::OutOfBudget,
            Err(EvalError::Exhausted(exhausted)) => Self::Exhausted(*exhausted),
        }
    }

    #[inline]
    pub(crate) fn result(self) -> Result<Val<'a>, EvalError> {
        match self {
            Self::Value(value) => Ok(value),
            Self::Failed(message) => Err(EvalError::Failed(message.to_owned())),
            Self::NoOverload => Err(EvalError::NoOverload),
            Self::Cost => Err(EvalError::Cost),
            Self::OutOfBudget => Err(EvalError::OutOfBudget),
            Self::Exhausted(exhausted) => Err(EvalError::Exhausted(exhausted)),
        }
    }

    /// Whether this is the same result; `left` is that of [`is_same`].
    pub(crate) fn is(self, other: Kept<'_>, left: &mut u32) -> bool {
        match (self, other) {
            (Self::Value(a), Kept::Value(b)) => is_same(a, b, left),
            (Self::Failed(a), Kept::Failed(b)) => is_short(a.len(), left) && a == b,
            (Self::NoOverload, Kept::NoOverload)
            | (Self::Cost, Kept::Cost)
            | (Self::OutOfBudget, Kept::OutOfBudget) => true,
            _ => false,
        }
    }
}

/// The cost of an expression itself, without the variables that it read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spent {
    pub(crate) cost: u64,
    pub(crate) steps: u64,
    pub(crate) bytes: u64,
    /// Bytes that were given back.
    pub(crate) released: u64,
}

impl Spent {
    pub(crate) fn add(&mut self, more: Self) {
        self.cost = self.cost.saturating_add(more.cost);
        self.steps = self.steps.saturating_add(more.steps);
        self.bytes = self.bytes.saturating_add(more.bytes);
        self.released = self.released.saturating_add(more.released);
    }

    /// The spent part so far.
    pub(crate) fn so_far(budget: &Budget<'_>) -> Self {
        Self {
            cost: 0,
            steps: budget.steps_spent(),
            bytes: budget.bytes_spent(),
            released: budget.bytes_released(),
        }
    }
}

impl Default for Memo<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> Memo<'a> {
    /// Without any outcome.
    pub fn new() -> Self {
        let room = HashMap::with_capacity_and_hasher(ROOM, BuildHasherDefault::default());
        Self { outcomes: RefCell::new(room), in_common: Cell::default() }
    }

    /// The values that the constraints of a policy share, given by the address of its variables,
    /// and how many it has.
    pub(crate) fn in_common(
        &self,
        policy: usize,
        count: usize,
        arena: &'a Arena,
    ) -> &'a InCommon<'a> {
        if let Some((known, in_common)) = self.in_common.get()
            && known == policy
        {
            return in_common;
        }
        let all = arena.0.alloc_slice_fill_with(count, |_| Cell::new(None));
        let in_common = &*arena.0.alloc(InCommon { all, last: Cell::default() });
        self.in_common.set(Some((policy, in_common)));
        in_common
    }

    /// The latest outcome with this key.
    #[inline]
    pub(crate) fn get(&self, key: Key) -> Option<&'a Shared<'a>> {
        if key.is_none() {
            return None;
        }
        self.outcomes.borrow().get(&key).copied()
    }

    /// Gives an outcome another key.
    #[inline]
    pub(crate) fn alias(&self, exact: Key, shared: &'a Shared<'a>) {
        if exact.is_none() {
            return;
        }
        let mut outcomes = self.outcomes.borrow_mut();
        if outcomes.len() < MAX_OUTCOMES {
            outcomes.insert(exact, shared);
        }
    }

    /// Keeps an outcome beside the others that have this key, and by an exact key that no other has, as long as
    /// there is room.
    pub(crate) fn put(
        &self,
        (key, exact): (Key, Key),
        (result, spent): (Kept<'a>, Spent),
        basis: Basis<'a>,
        arena: &'a Arena,
    ) -> Option<&'a Shared<'a>> {
        let mut outcomes = self.outcomes.borrow_mut();
        let other = outcomes.get(&key).copied();
        let others = other.map_or(0, |other| other.others + 1);
        let has_room = outcomes.len() < MAX_OUTCOMES;
        let is_kept = others < MAX_OTHERS && (others > 0 || has_room);
        let is_exact = !exact.is_none() && has_room;
        if !is_kept && !is_exact {
            return None;
        }
        let other = other.filter(|_| is_kept);
        let behind = Cell::new((0, 0));
        let shared = &*arena.0.alloc(Shared { result, spent, basis, other, others, behind });
        if is_kept {
            outcomes.insert(key, shared);
        }
        if is_exact {
            outcomes.insert(exact, shared);
        }
        Some(shared)
    }
}

/// Whether two values are made of the same parts in the same way, so that whatever is done with them comes to
/// the same and costs the same. `left` bounds the number of parts that are looked at.
pub(crate) fn is_same(a: Val<'_>, b: Val<'_>, left: &mut u32) -> bool {
    let Some(less) = left.checked_sub(1) else { return false };
    *left = less;
    match (a, b) {
        (Val::Null, Val::Null) | (Val::Variables, Val::Variables) => true,
        (Val::Bool(a), Val::Bool(b)) => a == b,
        (Val::Int(a), Val::Int(b)) | (Val::Duration(a), Val::Duration(b)) => a == b,
        (Val::Uint(a), Val::Uint(b)) => a == b,
        (Val::Double(a), Val::Double(b)) => a.to_bits() == b.to_bits(),
        (Val::String(a), Val::String(b)) => is_short(a.len(), left) && a == b,
        (Val::Bytes(a), Val::Bytes(b)) => is_short(a.len(), left) && a == b,
        (Val::Type(a), Val::Type(b)) => a == b,
        (Val::JsonList(a), Val::JsonList(b)) => is_same_list(a, b, left),
        (Val::JsonMap(a), Val::JsonMap(b)) => is_same_object(a, b, left),
        (Val::List(a), Val::List(b)) => {
            std::ptr::eq(a, b)
                || a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(*a, *b, left))
        }
        (Val::Map(a), Val::Map(b)) => {
            let mut pairs = a.iter().zip(b);
            std::ptr::eq(a, b)
                || a.len() == b.len()
                    && pairs.all(|(a, b)| is_same(a.0, b.0, left) && is_same(a.1, b.1, left))
        }
        (Val::OwnedList(a), Val::OwnedList(b)) => {
            let mut pairs = a.iter().zip(b);
            std::ptr::eq(a, b)
                || a.len() == b.len() && pairs.all(|(a, b)| is_same(a.value(), b.value(), left))
        }
        (Val::OwnedMap(a), Val::OwnedMap(b)) => {
            let mut pairs = a.iter().zip(b);
            std::ptr::eq(a, b)
                || a.len() == b.len()
                    && pairs.all(|(a, b)| {
                        is_same(a.0.value(), b.0.value(), left)
                            && is_same(a.1.value(), b.1.value(), left)
                    })
        }
        (Val::Optional(a), Val::Optional(b)) => match (a, b) {
            (Some(a), Some(b)) => is_same(*a, *b, left),
            (a, b) => a.is_none() && b.is_none(),
        },
        _ => false,
    }
}

/// Pays for a look at a text.
fn is_short(length: usize, left: &mut u32) -> bool {
    let cost = u32::try_from(length / 64).unwrap_or(u32::MAX);
    let enough = left.checked_sub(cost);
    *left = enough.unwrap_or(0);
    enough.is_some()
}

fn is_same_list(a: &[Json], b: &[Json], left: &mut u32) -> bool {
    std::ptr::eq(a, b)
        || a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same_json(a, b, left))
}

fn is_same_object(a: &Object, b: &Object, left: &mut u32) -> bool {
    let mut pairs = a.iter().zip(b.iter());
    std::ptr::eq(a, b)
        || a.len() == b.len() && pairs.all(|(a, b)| a.0 == b.0 && is_same_json(&a.1, &b.1, left))
}

fn is_same_json(a: &Json, b: &Json, left: &mut u32) -> bool {
    let Some(less) = left.checked_sub(1) else { return false };
    *left = less;
    match (a, b) {
        (Json::Null, Json::Null) => true,
        (Json::Bool(a), Json::Bool(b)) => a == b,
        (Json::String(a), Json::String(b)) => is_short(a.len(), left) && a == b,
        (Json::Number(a), Json::Number(b)) => match (a.spelling(), b.spelling()) {
            (Spelling::Int(a), Spelling::Int(b)) => a == b,
            (Spelling::Float(a), Spelling::Float(b)) => a.to_bits() == b.to_bits(),
            _ => false,
        },
        (Json::Array(a), Json::Array(b)) => is_same_list(a, b, left),
        (Json::Object(a), Json::Object(b)) => is_same_object(a, b, left),
        _ => false,
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
