//! Outcomes that an evaluation takes from others of the same request, and leaves for them.

use std::cell::Cell;

use bumpalo::collections::Vec as BumpVec;
use modgate_value::Exhausted;

use super::{Evaluation, Outcome, Slot, place};
use crate::memo::{
    Basis, Kept, Key, Known, MAX_COMPARED, Memo, Part, Read as Seen, Shared, Source, Spent,
    VariableKeys,
};

/// An outcome that was computed or known.
pub(super) struct Found<'a> {
    pub(super) value: Kept<'a>,
    /// Its cost without the variables that it reads.
    pub(super) cost: u64,
    /// Where the memo has it.
    pub(super) shared: Option<&'a Shared<'a>>,
}

/// The costs that an outcome charges.
#[derive(Default)]
pub(super) struct Bill {
    /// The cost is that of variables alone.
    spent: Spent,
    /// These variables, by their places.
    places: u64,
}

impl Bill {
    fn add(&mut self, spent: Spent, place: u64) {
        self.spent.cost = self.spent.cost.saturating_add(spent.cost);
        self.spent.steps = self.spent.steps.saturating_add(spent.steps);
        self.spent.bytes = self.spent.bytes.saturating_add(spent.bytes);
        self.places |= place;
    }
}

impl<'a> Evaluation<'a> {
    /// Notes that what is running reads a variable.
    pub(super) fn note(&self, index: usize) {
        let known = self.read.get();
        let read = known | place(index);
        if read != known {
            self.read.set(read);
            self.order.push(index, self.arena);
        }
    }

    /// The outcome that the memo has under this key, or that of `compute`.
    pub(super) fn shared(
        &self,
        (memo, keys): (&'a Memo<'a>, &'a VariableKeys),
        (key, exact): (Key, Key),
        compute: impl FnOnce() -> (Outcome<'a>, u64),
    ) -> Found<'a> {
        // Most read nothing that has to be compared.
        if let Some(shared) = memo.get(exact)
            && shared.basis.read.is_empty()
            && let Some(found) = self.paid(shared, shared.basis, keys)
        {
            return found;
        }
        let first = memo.get(key);
        if let Some(first) = first
            && let basis = first.roots.unwrap_or(first.basis)
            && basis.read.is_empty()
            && self.agrees(basis, keys)
            && let Some(found) = self.paid(first, basis, keys)
        {
            memo.alias(exact, first);
            return found;
        }
        let outside = (self.read.replace(0), self.elsewhere.replace(Spent::default()));
        let start = self.order.length.get();
        let before = Spent::so_far(self.budget);
        let found = self.known(first, keys).unwrap_or_else(|| {
            // Only what is read now counts.
            self.read.set(0);
            self.order.length.set(start);
            let (result, cost) = compute();
            let value = Kept::new(&result, self.arena);
            if key.is_none() || matches!(value, Kept::Exhausted(_)) {
                return Found { value, cost, shared: None };
            }
            let elsewhere = self.elsewhere.get();
            let now = Spent::so_far(self.budget);
            let spent = Spent {
                cost,
                steps: now.steps.saturating_sub(before.steps + elsewhere.steps),
                bytes: now.bytes.saturating_sub(before.bytes + elsewhere.bytes),
            };
            let basis = self.read_since(start, keys);
            let basis = (basis, self.roots(basis, keys));
            let shared = memo.put((key, exact), (value, spent), basis, self.arena);
            Found { value, cost, shared }
        });
        self.order.length.set(start);
        let now = Spent::so_far(self.budget);
        let (read, elsewhere) = outside;
        self.read.set(read);
        self.elsewhere.set(Spent {
            cost: 0,
            steps: elsewhere.steps + now.steps.saturating_sub(before.steps),
            bytes: elsewhere.bytes + now.bytes.saturating_sub(before.bytes),
        });
        found
    }

    /// The variables that were read since then: those that need no comparison, and the others, with what they
    /// came to.
    fn read_since(&self, start: usize, keys: &'a VariableKeys) -> Basis<'a> {
        let count = self.order.length.get() - start;
        let arena = &self.arena.0;
        let mut parts = BumpVec::with_capacity_in(count, arena);
        let mut left = 0;
        for index in self.order.since(start) {
            match self.source(index, keys) {
                Some(source) => parts.push(Part { name: keys.name(index), place: index, source }),
                None => left |= place(index),
            }
        }
        // What may differ elsewhere is looked at first.
        parts.sort_unstable_by_key(|part| matches!(part.source, Source::Inputs(_)));
        if left == 0 {
            return Basis { parts: parts.into_bump_slice(), read: &[] };
        }
        let mut read = BumpVec::with_capacity_in(count - parts.len(), arena);
        for index in self.order.since(start).filter(|index| left & place(*index) != 0) {
            let slot = self.values.get(index).and_then(Cell::get);
            let value = slot.filter(|_| !keys.is_told(index)).map(|slot| slot.value);
            read.push(Seen { name: keys.name(index), place: index, value });
        }
        Basis { parts: parts.into_bump_slice(), read: read.into_bump_slice() }
    }

    /// The roots of an outcome with this basis: in place of variables that depend on parameters
    /// through other variables only, these others. `None` if it reads no such variable.
    fn roots(&self, basis: Basis<'a>, keys: &'a VariableKeys) -> Option<Basis<'a>> {
        let mut inner = basis.read.iter().map(|seen| self.inner(seen));
        if !inner.any(|it| it.is_some()) {
            return None;
        }
        let arena = &self.arena.0;
        let mut parts = BumpVec::from_iter_in(basis.parts.iter().copied(), arena);
        let mut read: BumpVec<'_, Seen<'a>> = BumpVec::new_in(arena);
        for seen in basis.read {
            let Some(of) = self.inner(seen) else {
                add(&mut read, seen, |it| it.name);
                continue;
            };
            let key = keys.of_value(seen.place);
            let source = Source::Computed { of, key };
            add(&mut parts, &Part { name: seen.name, place: seen.place, source }, |it| it.name);
            let below = of.roots.unwrap_or(of.basis);
            // What comes from inputs alone is paid for with it.
            let is_told = |part: &&Part<'a>| matches!(part.source, Source::Inputs(_));
            below.parts.iter().filter(|part| !is_told(part)).for_each(|part| {
                add(&mut parts, part, |it| it.name);
            });
            below.read.iter().for_each(|seen| add(&mut read, seen, |it| it.name));
        }
        Some(Basis { parts: parts.into_bump_slice(), read: read.into_bump_slice() })
    }

    /// Where the memo has a variable, unless it depends on what is known ahead: then others had better compare what
    /// it comes to.
    fn inner(&self, seen: &Seen<'a>) -> Option<&'a Shared<'a>> {
        let slot = self.values.get(seen.place).and_then(Cell::get)?;
        let of = slot.shared.filter(|_| matches!(slot.value, Kept::Value(_)))?;
        let depends =
            |part: &Part<'_>| matches!(part.source, Source::Ahead(same) if !same.is_none());
        (!of.basis.parts.iter().any(depends)).then_some(of)
    }

    /// Where a variable's value comes from, if that need not be compared.
    fn source(&self, index: usize, keys: &'a VariableKeys) -> Option<Source<'a>> {
        let is_told = keys.is_told(index);
        if let Some(known) = self.ahead(keys, index) {
            return Some(Source::Ahead(if is_told { Key::NONE } else { known.same }));
        }
        let slot = self.values.get(index).and_then(Cell::get)?;
        let shared = slot.shared.filter(|shared| is_told && shared.basis.read.is_empty())?;
        matches!(slot.value, Kept::Value(_)).then_some(Source::Inputs(shared))
    }

    /// An outcome of the memo, paid for as if it had been computed here; `None` where there is none
    /// or too little is left to pay for it.
    fn known(&self, first: Option<&'a Shared<'a>>, keys: &'a VariableKeys) -> Option<Found<'a>> {
        let mut next = first;
        while let Some(shared) = next {
            next = shared.other;
            for basis in shared.roots.into_iter().chain([shared.basis]) {
                // Variables are read last, because others might not be read.
                if !self.agrees(basis, keys) {
                    continue;
                }
                match self.reads_same(basis.read, keys) {
                    Ok(false) => {}
                    Ok(true) => return self.paid(shared, basis, keys),
                    Err(exhausted) => {
                        let value = Kept::Exhausted(exhausted);
                        return Some(Found { value, cost: shared.spent.cost, shared: None });
                    }
                }
            }
        }
        None
    }

    /// Whether what an outcome depends on comes to the same here, as far as that is known ahead.
    fn agrees(&self, basis: Basis<'a>, keys: &'a VariableKeys) -> bool {
        basis.parts.iter().all(|part| match part.source {
            Source::Inputs(_) => true,
            Source::Computed { key, .. } => {
                let index = keys.named(part.name, part.place);
                index.is_some_and(|index| keys.of_value(index) == key)
            }
            Source::Ahead(same) => {
                let index = keys.named(part.name, part.place);
                let known = index.and_then(|index| self.ahead(keys, index));
                known.is_some_and(|known| same.is_none() || known.same == same)
            }
        })
    }

    /// Whether the variables that an outcome depends on come to the same here.
    fn reads_same(&self, read: &[Seen<'a>], keys: &VariableKeys) -> Result<bool, Exhausted> {
        let mut left = MAX_COMPARED;
        for read in read {
            let Some(index) = keys.named(read.name, read.place) else { return Ok(false) };
            let Ok(here) = self.outcome(index) else { return Ok(false) };
            if let Kept::Exhausted(exhausted) = here {
                return Err(exhausted);
            }
            if read.value.is_some_and(|there| !there.is(here, &mut left)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// An outcome whose dependencies are the same here, when it is paid for; `None` where too little is left.
    fn paid(
        &self,
        shared: &'a Shared<'a>,
        basis: Basis<'a>,
        keys: &'a VariableKeys,
    ) -> Option<Found<'a>> {
        let mut bill = Bill::default();
        let Spent { cost, steps, bytes } = shared.spent;
        bill.add(Spent { cost: 0, steps, bytes }, 0);
        self.add_parts(&mut bill, basis, keys);
        let value = match self.settle(&bill)? {
            Ok(()) => shared.result,
            Err(exhausted) => Kept::Exhausted(exhausted),
        };
        Some(Found { value, cost, shared: Some(shared) })
    }

    /// Adds the parts of an outcome that were not paid for yet: what has been paid for has been with all that it
    /// reads.
    fn add_parts(&self, bill: &mut Bill, basis: Basis<'a>, keys: &'a VariableKeys) {
        for part in basis.parts {
            let Some(index) = keys.named(part.name, part.place) else { continue };
            if (self.paid.get() | bill.places) & place(index) != 0 {
                continue;
            }
            match part.source {
                Source::Inputs(of) | Source::Computed { of, .. } => {
                    bill.add(of.spent, place(index));
                    let slot = Slot { value: of.result, shared: Some(of) };
                    if let Some(value) = self.values.get(index) {
                        value.set(Some(slot));
                    }
                    self.add_parts(bill, of.basis, keys);
                }
                Source::Ahead(_) => {
                    let known = self.ahead(keys, index);
                    known.into_iter().for_each(|known| self.add_ahead(bill, keys, known));
                }
            }
        }
    }

    /// The variable number `index`, if the evaluation before this one has it.
    pub(super) fn again(&self, index: usize) -> Option<Slot<'a>> {
        let (_, keys) = self.sharing?;
        let slot = self.before.get(index)?.get()?;
        let mut bill = Bill::default();
        if !self.add_again(&mut bill, index, keys) {
            self.forget(&bill);
            return None;
        }
        Some(match self.settle(&bill)? {
            Ok(()) => slot,
            Err(exhausted) => Slot { value: Kept::Exhausted(exhausted), shared: None },
        })
    }

    /// Adds a variable that the evaluation before this one has, with all that it reads, as far as it was not paid for
    /// yet. Says whether that is known.
    fn add_again(&self, bill: &mut Bill, index: usize, keys: &'a VariableKeys) -> bool {
        if (self.paid.get() | bill.places) & place(index) != 0 {
            return true;
        }
        if let Some(known) = self.ahead(keys, index) {
            self.add_ahead(bill, keys, known);
            return true;
        }
        let slot = self.before.get(index).and_then(Cell::get);
        let Some(slot @ Slot { value: Kept::Value(_), shared: Some(of) }) = slot else {
            return false;
        };
        bill.add(of.spent, place(index));
        if let Some(value) = self.values.get(index) {
            value.set(Some(slot));
        }
        self.add_parts(bill, of.basis, keys);
        of.basis.read.iter().all(|read| {
            let index = keys.named(read.name, read.place);
            index.is_some_and(|index| self.add_again(bill, index, keys))
        })
    }

    /// Adds a variable that is known ahead, and what it reads.
    pub(super) fn add_ahead(&self, bill: &mut Bill, keys: &'a VariableKeys, known: &Known) {
        let mut left = known.behind & !self.paid.get() & !bill.places;
        while left != 0 {
            let index = left.trailing_zeros() as usize;
            let spent = self.ahead(keys, index).map_or(Spent::default(), |known| known.spent);
            bill.add(spent, place(index));
            left &= left - 1;
        }
    }

    /// Takes values back: variables have none before they are paid for.
    fn forget(&self, bill: &Bill) {
        for (index, value) in self.values.iter().enumerate() {
            if bill.places & place(index) != 0 {
                value.set(None);
            }
        }
    }

    /// Pays; `None` where too little is left.
    pub(super) fn settle(&self, bill: &Bill) -> Option<Result<(), Exhausted>> {
        let Spent { cost, steps, bytes } = bill.spent;
        if steps > self.budget.steps_left() || bytes > self.budget.bytes_left() {
            self.forget(bill);
            return None;
        }
        self.paid.set(self.paid.get() | bill.places);
        self.unsettled.set(self.unsettled.get().saturating_add(cost));
        let elsewhere = self.elsewhere.get();
        self.elsewhere.set(Spent {
            cost: 0,
            steps: elsewhere.steps + steps,
            bytes: elsewhere.bytes + bytes,
        });
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        Some(self.budget.spend(steps).and_then(|()| self.budget.allocate(bytes)))
    }
}

/// Adds what is not there by name.
fn add<T: Copy>(all: &mut BumpVec<'_, T>, more: &T, name: impl Fn(&T) -> Key) {
    if !all.iter().any(|known| name(known) == name(more)) {
        all.push(*more);
    }
}
