//! Documents that the evaluations for one input share.
//!
//! # Budgets
//!
//! Each evaluation pays for a shared document as if it had computed it: the steps and bytes of the
//! document itself, and then every document that it read is read again, which pays for that one
//! where this evaluation has not done so yet. So what an evaluation spends does not depend on which
//! evaluation came first. A shared call of a function, which reads no document, is paid for as a whole.
//! To the same end other calls of functions are remembered while one such document or call is
//! computed, not beyond. What one rule adds to a set is such a document, too
//! ([`GroupKind::Part`](crate::ir::GroupKind)). Where too little is left to pay at once, the document is computed, and
//! the evaluation ends where it would end without sharing. That includes the bytes that the document took for a time. Of a
//! document that reads others, what was left when it took them depends on the order, so there must be enough left for
//! all that the evaluation had taken which computed it.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

use modgate_value::Budget;

use super::{
    Machine, Stop,
    document::{CALL_ARGS, Calls},
    hash::Seed,
    room::Room,
};
use crate::{
    ir::{GroupId, shared::Key},
    value::{Identity, Value},
};

/// Most documents that are kept; later ones are not shared.
const MAX_DOCUMENTS: usize = 4096;

/// How many places and calls there is room for at first.
const ROOM: usize = 112;

/// How many documents there is room for at first: several hundred constraints have two hundred.
const DOCUMENTS: usize = 2 * ROOM;

/// Most calls that are kept; later ones are not shared.
const MAX_CALLS: usize = 16_384;

/// Most places in the input that are kept; later ones are looked up each time.
const MAX_PLACES: usize = 4096;

/// A document that reads more than this is not shared.
const MAX_READS: usize = 256;

/// How many of the latest reads a new one is compared with.
const MAX_COMPARED: usize = 16;

/// Documents by key, for the evaluations of one input.
///
/// The inputs may differ in the member that the programs were
/// [specialized](crate::specialize) for, and in nothing else; hosts, base documents and the strictness
/// of errors are the same.
pub struct Memo<'a> {
    documents: RefCell<HashMap<Key, &'a Shared<'a>, BuildHasherDefault<Digests>>>,
    /// The values at places in the input.
    places: RefCell<HashMap<Key, Option<Value<'a>>, BuildHasherDefault<Digests>>>,
    calls: RefCell<HashMap<SharedCall<'a>, Paid<'a>, Seed>>,
    /// The memory of the evaluation before.
    room: Cell<Option<Room<'a>>>,
    spared: Cell<u64>,
}

/// A function and its arguments.
type SharedCall<'a> = (Key, [Identity<'a>; CALL_ARGS]);

/// The value of a call, and what it took.
type Paid<'a> = (Option<Value<'a>>, Spent);

impl Default for Memo<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> Memo<'a> {
    /// Without any document.
    pub fn new() -> Self {
        Self {
            documents: RefCell::new(HashMap::with_capacity_and_hasher(
                DOCUMENTS,
                Default::default(),
            )),
            places: RefCell::new(HashMap::with_capacity_and_hasher(ROOM, Default::default())),
            calls: RefCell::new(HashMap::with_capacity_and_hasher(ROOM, Seed::default())),
            room: Cell::default(),
            spared: Cell::default(),
        }
    }

    /// The steps that evaluations have paid for and not taken, because others had taken them.
    pub fn spared(&self) -> u64 {
        self.spared.get()
    }

    fn spare(&self, spent: Spent) {
        self.spared.set(self.spared.get().saturating_add(spent.steps));
    }

    /// Memory for an evaluation.
    pub(super) fn take_room(&self) -> Room<'a> {
        self.room.take().unwrap_or_default()
    }

    /// Keeps it for the next one.
    pub(super) fn put_room(&self, room: Room<'a>) {
        self.room.set(Some(room));
    }

    /// The value at a place in the input, if it has been looked up.
    pub(super) fn place(&self, key: Key) -> Option<Option<Value<'a>>> {
        self.places.borrow().get(&key).copied()
    }

    /// Keeps what has been found at a place.
    pub(super) fn keep_place(&self, key: Key, found: Option<Value<'a>>) {
        let mut places = self.places.borrow_mut();
        if places.len() < MAX_PLACES {
            places.insert(key, found);
        }
    }
}

/// Digests are as good as their hashes.
#[derive(Default)]
struct Digests(u64);

impl Hasher for Digests {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    #[inline]
    fn write_u128(&mut self, digest: u128) {
        #[expect(clippy::cast_possible_truncation, reason = "half of a digest is one, too")]
        let half = digest as u64;
        self.0 = half;
    }
}

impl std::fmt::Debug for Memo<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memo").finish_non_exhaustive()
    }
}

/// A document, and what it took.
#[derive(Clone, Copy)]
struct Shared<'a> {
    value: Option<Value<'a>>,
    /// Without those of the documents that were read.
    spent: Spent,
    reads: &'a [NotedRead<'a>],
    /// At most so many bytes are taken for it and for all that it reads, in any order.
    reach: u64,
}

/// A document, or its entry under a key, that another one reads.
pub(super) type NotedRead<'a> = (Key, Option<Value<'a>>);

#[derive(Clone, Copy, Default)]
struct Spent {
    steps: u64,
    bytes: u64,
    /// Bytes that were given back.
    released: u64,
}

impl Spent {
    fn add(&mut self, more: Self) {
        self.steps = self.steps.saturating_add(more.steps);
        self.bytes = self.bytes.saturating_add(more.bytes);
        self.released = self.released.saturating_add(more.released);
    }

    fn without(self, less: Self) -> Self {
        Self {
            steps: self.steps.saturating_sub(less.steps),
            bytes: self.bytes.saturating_sub(less.bytes),
            released: self.released.saturating_sub(less.released),
        }
    }

    /// The bytes that suffice, those that are taken for a time included.
    fn most_bytes(self) -> u64 {
        self.bytes.saturating_add(self.released)
    }

    /// Whether enough is left to do what takes this much.
    fn fits(self, budget: &Budget<'_>) -> bool {
        self.steps <= budget.steps_left() && self.most_bytes() <= budget.bytes_left()
    }
}

/// The reads and costs that are noted while a shared document is computed.
#[derive(Clone, Copy, Default)]
pub(super) struct Notes {
    /// Where the reads of this document begin among those that the machine has noted.
    start: usize,
    /// Whether these are not all.
    incomplete: bool,
    /// The cost of these.
    elsewhere: Spent,
}

impl<'a> Machine<'a> {
    /// The key of a group whose document may be shared here.
    pub(super) fn shared_key(&self, id: GroupId) -> Option<Key> {
        // The first overlay changes nothing, so the evaluations share it.
        self.memo.filter(|_| self.overlay == 0).and_then(|_| self.program.shared.of_group(id))
    }

    /// Notes that a document, or its entry under `key`, is read.
    pub(super) fn note(&mut self, id: GroupId, key: Option<Value<'a>>) {
        let Some(notes) = &mut self.notes else { return };
        let Some(group) = self.program.shared.of_group(id) else { return };
        let same = |(other, entry): &(Key, Option<Value<'a>>)| {
            *other == group
                && match (entry, key) {
                    (Some(a), Some(b)) => a.is_identical(b),
                    (a, b) => a.is_none() && b.is_none(),
                }
        };
        let reads = self.reads.get(notes.start..).unwrap_or_default();
        if !reads.iter().rev().take(MAX_COMPARED).any(same) {
            notes.incomplete |= reads.len() >= MAX_READS;
            if !notes.incomplete {
                self.reads.push((group, key));
            }
        }
    }

    /// Notes that something is read in a way that cannot be repeated: what reads it is not shared.
    pub(super) fn note_other(&mut self) {
        if let Some(notes) = &mut self.notes {
            notes.incomplete = true;
        }
    }

    /// Computes `inner` with calls and notes of its own, which come to the same whatever was computed
    /// before. `noting` is whether what it reads is noted.
    pub(super) fn apart<T>(
        &mut self,
        noting: bool,
        inner: impl FnOnce(&mut Self) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        let calls = self.fresh_calls();
        let start = self.reads.len();
        let notes = noting.then(|| Notes { start, ..Notes::default() });
        let outer = std::mem::replace(&mut self.notes, notes);
        let before = self.spent();
        let result = inner(self);
        let spent = self.spent().without(before);
        self.put_calls_back(calls);
        self.reads.truncate(start);
        self.notes = outer;
        if let Some(notes) = &mut self.notes {
            notes.elsewhere.add(spent);
        }
        result
    }

    /// Forgets the calls for now, and gives them.
    fn fresh_calls(&mut self) -> Calls<'a> {
        let fresh = self.spare_calls.pop().unwrap_or_default();
        std::mem::replace(self.calls_mut(), fresh)
    }

    fn put_calls_back(&mut self, calls: Calls<'a>) {
        let mut spare = std::mem::replace(self.calls_mut(), calls);
        spare.clear();
        self.spare_calls.push(spare);
    }

    /// The document of a group with a key: another evaluation's, or that of `compute`.
    pub(super) fn shared_document(
        &mut self,
        key: Key,
        compute: impl FnOnce(&mut Self) -> Result<Option<Value<'a>>, Stop>,
    ) -> Result<Option<Value<'a>>, Stop> {
        let known = self.memo.and_then(|memo| memo.documents.borrow().get(&key).copied());
        if let Some(known) = known
            && let Some(value) = self.paid_at_once(known)?
        {
            return Ok(value);
        }
        self.apart(true, |machine| {
            if let Some(known) = known
                && let Some(value) = machine.known_document(known)?
            {
                return Ok(value);
            }
            let before = machine.spent();
            let value = compute(machine)?;
            let all = machine.spent().without(before);
            if let (Some(memo), Some(notes)) = (machine.memo, machine.notes.take()) {
                let spent = all.without(notes.elsewhere);
                let mut documents = memo.documents.borrow_mut();
                let reads = machine.reads.get(notes.start..).unwrap_or_default();
                if documents.len() < MAX_DOCUMENTS && !notes.incomplete {
                    let reads = machine.heap.kept_slice(reads);
                    let reach = machine.spent().most_bytes();
                    let shared = Shared { value, spent, reads, reach };
                    documents.insert(key, machine.heap.kept(shared));
                }
            }
            Ok(value)
        })
    }

    /// The value of a document of the memo, if it reads nothing which this evaluation would still have to pay for: most
    /// do not.
    fn paid_at_once(&mut self, known: &Shared<'a>) -> Result<Option<Option<Value<'a>>>, Stop> {
        let Some(memo) = self.memo else { return Ok(None) };
        let Shared { value, spent, reads, reach: _ } = *known;
        let is_paid = |(group, entry): &NotedRead<'a>| {
            entry.is_none()
                && self
                    .program
                    .shared
                    .find(*group)
                    .is_none_or(|group| self.cache().document(group).is_some())
        };
        if !reads.iter().all(is_paid) || !self.pay(memo, spent)? {
            return Ok(None);
        }
        if let Some(notes) = &mut self.notes {
            notes.elsewhere.add(spent);
        }
        Ok(Some(value))
    }

    /// Pays for what another evaluation has computed, if enough is left.
    fn pay(&self, memo: &Memo<'a>, spent: Spent) -> Result<bool, Stop> {
        let budget = self.heap.budget();
        if !spent.fits(budget) {
            return Ok(false);
        }
        budget.spend(spent.steps)?;
        memo.spare(spent);
        budget.allocate_again(spent.bytes, spent.released)?;
        Ok(true)
    }

    /// A document of the memo, paid for as if it had been computed here; `None` where too little is left to pay for
    /// it.
    fn known_document(&mut self, shared: &Shared<'a>) -> Result<Option<Option<Value<'a>>>, Stop> {
        let Some(memo) = self.memo else { return Ok(None) };
        if shared.reach > self.heap.budget().bytes_left() || !self.pay(memo, shared.spent)? {
            return Ok(None);
        }
        for (group, entry) in shared.reads {
            // Groups with equal keys lead to groups with equal keys, so this program has the group.
            let Some(group) = self.program.shared.find(*group) else { continue };
            match entry {
                None => self.group_value(group)?,
                Some(entry) => self.entries_at(group, &[*entry])?,
            };
        }
        Ok(Some(shared.value))
    }

    /// The key of a call of a function, if its value is shared.
    pub(super) fn shared_call_key(
        &self,
        id: GroupId,
        args: [Value<'a>; CALL_ARGS],
    ) -> Option<SharedCall<'a>> {
        self.memo.filter(|_| self.overlay == 0)?;
        let key = self.program.shared.of_function(id)?;
        let [first, second] = args;
        Some((key, [first.identity()?, second.identity()?]))
    }

    /// The value of a call of a function that is shared: another evaluation's, or that of `compute`.
    pub(super) fn shared_call(
        &mut self,
        call: SharedCall<'a>,
        compute: impl FnOnce(&mut Self) -> Result<Option<Value<'a>>, Stop>,
    ) -> Result<Option<Value<'a>>, Stop> {
        let known = self.memo.and_then(|memo| Some((memo, *memo.calls.borrow().get(&call)?)));
        if let Some((memo, (value, spent))) = known
            && self.pay(memo, spent)?
        {
            return Ok(value);
        }
        let before = self.spent();
        let calls = self.fresh_calls();
        let outer = self.memo.take();
        let value = compute(self);
        self.memo = outer;
        self.put_calls_back(calls);
        let value = value?;
        let spent = self.spent().without(before);
        if let Some(memo) = self.memo {
            let mut calls = memo.calls.borrow_mut();
            if calls.len() < MAX_CALLS {
                calls.insert(call, (value, spent));
            }
        }
        Ok(value)
    }

    fn spent(&self) -> Spent {
        let budget = self.heap.budget();
        Spent {
            steps: budget.steps_spent(),
            bytes: budget.bytes_spent(),
            released: budget.bytes_released(),
        }
    }
}
