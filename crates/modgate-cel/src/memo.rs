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
//! Constraints that differ in what a few variables read of their parameters share what all validations come to, where these
//! variables come to the same (`Whole`). Lists of variables that many policies join are joined once (`Joined`).
//!
//! # Budgets
//!
//! Each evaluation pays for an outcome as if it had computed it: the cost, the steps and the bytes
//! of the expression itself, and of every variable that it read and has not been paid for yet, with all that this
//! one read. So what an evaluation spends does not
//! depend on which evaluation came first, and replicas that evaluate policies in another order come
//! to the same verdict. Where too little is left to pay at once, the memo is not used. An evaluation
//! that runs out this way may have paid for an outcome before it computed others, so that another expression has no
//! value than without a memo. A caller that needs the exact outcome evaluates everything again, without one.

mod ahead;
mod keys;
mod same;

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

use modgate_value::{Budget, Exhausted};

pub use self::{
    ahead::Ahead,
    keys::{MAX_SHARED_VARIABLES, VariableKey, VariableKeys},
};
pub(crate) use self::{
    ahead::Known,
    same::{is_same, is_short},
};
use crate::{error::EvalError, lower::MAX_PARTS, program::Arena, value::Val};

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

/// How much of a usual request there is room for at first.
const ROOM: usize = 448;

/// Outcomes by key, for one request.
#[derive(Debug)]
pub struct Memo<'a> {
    outcomes: RefCell<HashMap<Key, &'a Shared<'a>, BuildHasherDefault<Digests>>>,
    joined: [Cell<Option<&'a Joined<'a>>>; MAX_JOINED],
    /// Of the policy that was evaluated last, which has this address.
    in_common: Cell<Option<(usize, &'a InCommon<'a>)>>,
}

/// So many joined lists are kept.
const MAX_JOINED: usize = 4;

/// Lists of variables that were joined: most policies about containers begin with all of them.
#[derive(Debug)]
pub(crate) struct Joined<'a> {
    /// The lists, which are parts of what the memo has; the rest is null.
    pub(crate) parts: [Val<'a>; MAX_PARTS],
    pub(crate) result: Val<'a>,
    /// The steps and bytes that joining them took, reading the variables left out.
    pub(crate) spent: Spent,
}

/// The variables of a policy that read inputs alone, by their places: all of its constraints have them in common.
#[derive(Debug)]
pub(crate) struct InCommon<'a> {
    all: &'a [Cell<Option<Common<'a>>>],
    /// Several that were paid for at once: another constraint pays for the same, mostly.
    last: Cell<(u64, Spent)>,
    /// The outcomes of all validations of constraints, the latest first.
    wholes: Cell<Option<&'a Whole<'a>>>,
}

/// The outcome of all validations of a constraint, for others that are the same but for what variables at the bottom
/// read.
#[derive(Debug)]
pub(crate) struct Whole<'a> {
    /// Of all but the variables at the bottom.
    pub(crate) rest: Key,
    /// These in the order in which they are read, with what they come to.
    pub(crate) bottom: &'a [(usize, Kept<'a>)],
    /// These and all that they read, by their places.
    pub(crate) behind: u64,
    /// All that was paid for, by the places.
    pub(crate) paid: u64,
    /// The part of it that is known ahead, but for what is behind variables at the bottom.
    pub(crate) ahead: u64,
    /// The cost without these two.
    pub(crate) spent: Spent,
    /// The variables between, by their places.
    pub(crate) between: u64,
    pub(crate) values: &'a [Cell<Option<Slot<'a>>>],
    /// The result.
    pub(crate) result: u64,
    /// The one before.
    pub(crate) next: Option<&'a Whole<'a>>,
    /// How many these are.
    pub(crate) count: usize,
}

/// The value of a variable.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot<'a> {
    pub(crate) value: Kept<'a>,
    /// Where the memo has it.
    pub(crate) shared: Option<&'a Shared<'a>>,
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

    pub(crate) fn wholes(&self) -> Option<&'a Whole<'a>> {
        self.wholes.get()
    }

    pub(crate) fn keep_whole(&self, whole: &'a Whole<'a>) {
        self.wholes.set(Some(whole));
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

    /// Without a part of it; `None` if that is not a part.
    pub(crate) fn without(self, part: Self) -> Option<Self> {
        Some(Self {
            cost: self.cost.checked_sub(part.cost)?,
            steps: self.steps.checked_sub(part.steps)?,
            bytes: self.bytes.checked_sub(part.bytes)?,
            released: self.released.checked_sub(part.released)?,
        })
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
        let (in_common, joined) = (Cell::default(), Default::default());
        Self { outcomes: RefCell::new(room), joined, in_common }
    }

    /// These lists joined, if they have been.
    pub(crate) fn joined(&self, parts: &[Val<'a>; MAX_PARTS]) -> Option<&'a Joined<'a>> {
        let all = self.joined.iter().map_while(Cell::get);
        let is_it = |joined: &&Joined<'_>| {
            parts.iter().zip(&joined.parts).all(|(here, there)| is_one_list(*here, *there))
        };
        all.into_iter().find(is_it)
    }

    pub(crate) fn keep_joined(&self, joined: Joined<'a>, arena: &'a Arena) {
        if let Some(place) = self.joined.iter().find(|place| place.get().is_none()) {
            place.set(Some(arena.0.alloc(joined)));
        }
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
        let (last, wholes) = (Cell::default(), Cell::default());
        let in_common = &*arena.0.alloc(InCommon { all, last, wholes });
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

    /// Keeps an outcome beside the others that have this key, or by an exact key that no other has, as long as
    /// there is room.
    pub(crate) fn put(
        &self,
        (key, exact): (Key, Key),
        (result, spent): (Kept<'a>, Spent),
        basis: Basis<'a>,
        arena: &'a Arena,
    ) -> Option<&'a Shared<'a>> {
        let mut outcomes = self.outcomes.borrow_mut();
        let has_room = outcomes.len() < MAX_OUTCOMES;
        let key = if exact.is_none() { key } else { exact };
        let other = if exact.is_none() { outcomes.get(&key).copied() } else { None };
        let others = other.map_or(0, |other| other.others + 1);
        if others >= MAX_OTHERS || others == 0 && !has_room {
            return None;
        }
        let behind = Cell::new((0, 0));
        let shared = &*arena.0.alloc(Shared { result, spent, basis, other, others, behind });
        outcomes.insert(key, shared);
        Some(shared)
    }
}

/// Whether two are the same list in the same place, or both null.
fn is_one_list(a: Val<'_>, b: Val<'_>) -> bool {
    match (a, b) {
        (Val::Null, Val::Null) => true,
        (Val::JsonList(a), Val::JsonList(b)) => std::ptr::eq(a, b),
        (Val::List(a), Val::List(b)) => std::ptr::eq(a, b),
        (Val::OwnedList(a), Val::OwnedList(b)) => std::ptr::eq(a, b),
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
