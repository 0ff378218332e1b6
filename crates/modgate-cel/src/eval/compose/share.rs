//! Outcomes that an evaluation takes from others of the same request, and leaves for them.

use std::cell::Cell;

use bumpalo::collections::Vec as BumpVec;
use modgate_value::Exhausted;

use super::{Evaluation, Outcome, place};
use crate::memo::{
    Basis, Common, InCommon, Input, Kept, Key, Known, MAX_COMPARED, Memo, Read as Seen, ReadAhead,
    Shared, Slot, Spent, VariableKeys,
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
    pub(super) spent: Spent,
    /// These variables, by their places.
    places: u64,
}

impl Bill {
    pub(super) fn add(&mut self, spent: Spent, places: u64) {
        self.spent.add(spent);
        self.places |= places;
    }
}

/// The places that these bits stand for.
fn places(bits: u64) -> impl Iterator<Item = usize> {
    let mut left = bits;
    std::iter::from_fn(move || {
        let index = left.trailing_zeros() as usize;
        left &= left.checked_sub(1)?;
        Some(index)
    })
}

impl<'a> Evaluation<'a> {
    /// Notes that what is running reads a variable.
    #[inline]
    pub(super) fn note(&self, index: usize) {
        let known = self.read.get();
        let read = known | place(index);
        if read != known {
            self.read.set(read);
            self.order.push(index);
        }
    }

    /// The outcome that the memo has under this key, or that of `compute`.
    pub(super) fn shared(
        &self,
        (memo, keys): (&'a Memo<'a>, &'a VariableKeys),
        (key, exact): (Key, Key),
        compute: impl FnOnce() -> (Outcome<'a>, u64),
    ) -> Found<'a> {
        // What has an exact key reads nothing that has to be compared, mostly.
        let first = memo.get(if exact.is_none() { key } else { exact });
        if let Some(first) = first
            && first.basis.read.is_empty()
            && (!exact.is_none() || self.agrees(first, keys))
            && let Some(found) = self.paid(first, keys)
        {
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
                released: now.released.saturating_sub(before.released + elsewhere.released),
            };
            let basis = self.read_since(start, keys);
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
            released: elsewhere.released + now.released.saturating_sub(before.released),
        });
        found
    }

    /// The variables that were read since then.
    fn read_since(&self, start: usize, keys: &'a VariableKeys) -> Basis<'a> {
        let read = self.read.get();
        let ahead = read & self.known_ahead(keys);
        let (mut inputs, mut left) = (0_u64, read & !ahead & keys.all_keyed());
        while left != 0 {
            let index = left.trailing_zeros() as usize;
            if self.of_inputs(index, keys).is_some() {
                inputs |= place(index);
            }
            left &= left - 1;
        }
        let others = read & !ahead & !inputs;
        let input = |index: usize| {
            let of = self.of_inputs(index, keys)?;
            Some(Input { name: keys.name(index), place: index, of })
        };
        let known = |index: usize| ReadAhead {
            name: keys.name(index),
            place: index,
            same: self.digest_ahead(keys, index),
        };
        let seen = |index: usize| {
            let slot = self.values.get(index).and_then(Cell::get);
            let value = slot.filter(|_| !keys.is_keyed(index)).map(|slot| slot.value);
            Seen { name: keys.name(index), place: index, value }
        };
        Basis {
            inputs: self.collected(inputs, places(inputs).filter_map(input)),
            ahead: self.collected(ahead, places(ahead).map(known)),
            read: self.collected(
                others,
                self.order.since(start).filter(|index| others & place(*index) != 0).map(seen),
            ),
        }
    }

    /// As many of these as there are places.
    fn collected<T: Copy + 'a>(&self, places: u64, all: impl Iterator<Item = T>) -> &'a [T] {
        if places == 0 {
            return &[];
        }
        let mut some = BumpVec::with_capacity_in(places.count_ones() as usize, &self.arena.0);
        all.for_each(|each| some.push(each));
        some.into_bump_slice()
    }

    /// Where the memo has a variable that reads inputs alone.
    fn of_inputs(&self, index: usize, keys: &VariableKeys) -> Option<&'a Shared<'a>> {
        let slot = self.values.get(index).and_then(Cell::get)?;
        let shared = slot.shared.filter(|it| keys.is_keyed(index) && it.basis.read.is_empty())?;
        matches!(slot.value, Kept::Value(_)).then_some(shared)
    }

    /// The value that a variable known ahead must have elsewhere; [`Key::NONE`] for any.
    fn digest_ahead(&self, keys: &'a VariableKeys, index: usize) -> Key {
        let known = self.ahead(keys, index).filter(|_| !keys.is_keyed(index));
        known.map_or(Key::NONE, |known| known.same)
    }

    /// An outcome of the memo, paid for as if it had been computed here; `None` where there is none
    /// or too little is left to pay for it.
    fn known(&self, first: Option<&'a Shared<'a>>, keys: &'a VariableKeys) -> Option<Found<'a>> {
        let mut next = first;
        while let Some(shared) = next {
            next = shared.other;
            // Variables are read last, because others might not be read.
            if !self.agrees(shared, keys) {
                continue;
            }
            match self.reads_same(shared, keys) {
                Ok(false) => {}
                Ok(true) => return self.paid(shared, keys),
                Err(exhausted) => {
                    let value = Kept::Exhausted(exhausted);
                    return Some(Found { value, cost: shared.spent.cost, shared: None });
                }
            }
        }
        None
    }

    /// Whether what an outcome depends on comes to the same here, as far as that is known ahead.
    fn agrees(&self, shared: &Shared<'a>, keys: &'a VariableKeys) -> bool {
        shared.basis.ahead.iter().all(|read| {
            let index = keys.named(read.name, read.place);
            let known = index.and_then(|index| self.ahead(keys, index));
            known.is_some_and(|known| read.same.is_none() || known.same == read.same)
        })
    }

    /// Whether the variables that an outcome depends on come to the same here.
    fn reads_same(&self, shared: &Shared<'a>, keys: &VariableKeys) -> Result<bool, Exhausted> {
        let mut left = MAX_COMPARED;
        for read in shared.basis.read {
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
    fn paid(&self, shared: &'a Shared<'a>, keys: &'a VariableKeys) -> Option<Found<'a>> {
        let mut bill = Bill::default();
        let cost = shared.spent.cost;
        bill.add(Spent { cost: 0, ..shared.spent }, 0);
        self.add_basis(&mut bill, shared, keys);
        let value = match self.settle(&bill)? {
            Ok(()) => shared.result,
            Err(exhausted) => Kept::Exhausted(exhausted),
        };
        Some(Found { value, cost, shared: Some(shared) })
    }

    /// Adds the variables that an outcome reads, without those that have to be compared, and all that they read, as
    /// far as they were not paid for yet: what has been paid for has been with all that it reads.
    fn add_basis(&self, bill: &mut Bill, shared: &'a Shared<'a>, keys: &'a VariableKeys) {
        match self
            .in_common
            .and_then(|in_common| Some((in_common, self.behind(in_common, shared, keys)?)))
        {
            Some((in_common, behind)) => self.add_common(bill, in_common, behind),
            None => self.add_inputs(bill, shared.basis.inputs, keys),
        }
        for read in shared.basis.ahead {
            let index = keys.named(read.name, read.place);
            let known = index.and_then(|index| self.ahead(keys, index));
            known.into_iter().for_each(|known| self.add_ahead(bill, keys, known));
        }
    }

    /// Adds variables of inputs alone one by one, and gives them their values.
    fn add_inputs(&self, bill: &mut Bill, inputs: &'a [Input<'a>], keys: &'a VariableKeys) {
        for Input { name, place: near, of } in inputs {
            let Some(index) = keys.named(*name, *near) else { continue };
            if (self.paid.get() | bill.places) & place(index) != 0 {
                continue;
            }
            bill.add(of.spent, place(index));
            if let Some(value) = self.values.get(index) {
                value.set(Some(Slot { value: of.result, shared: Some(*of) }));
            }
            self.add_inputs(bill, of.basis.inputs, keys);
            for read in of.basis.ahead {
                let index = keys.named(read.name, read.place);
                let known = index.and_then(|index| self.ahead(keys, index));
                known.into_iter().for_each(|known| self.add_ahead(bill, keys, known));
            }
        }
    }

    /// Adds variables of inputs alone that the constraints of this policy have in common.
    fn add_common(&self, bill: &mut Bill, in_common: &InCommon<'a>, behind: u64) {
        let missing = behind & !self.paid.get() & !bill.places;
        if missing != 0 {
            bill.add(in_common.spent(missing), missing);
        }
    }

    /// The variables of inputs alone that an outcome reads, with all that they read, by their places; `None` if they
    /// are not all in common.
    pub(super) fn behind(
        &self,
        in_common: &'a InCommon<'a>,
        shared: &'a Shared<'a>,
        keys: &'a VariableKeys,
    ) -> Option<u64> {
        if let Some(known) = shared.behind(in_common) {
            return Some(known);
        }
        let mut behind = 0;
        for Input { name, place: near, of } in shared.basis.inputs {
            behind |= self.keep_common(in_common, keys.named(*name, *near)?, of, keys)?;
        }
        shared.keep_behind(in_common, behind);
        Some(behind)
    }

    /// Keeps a variable of inputs alone for the other constraints of the policy. Returns it and all that it reads, by
    /// their places; `None` if it cannot be in common.
    pub(super) fn keep_common(
        &self,
        in_common: &'a InCommon<'a>,
        index: usize,
        of: &'a Shared<'a>,
        keys: &'a VariableKeys,
    ) -> Option<u64> {
        if let Some(known) = in_common.get(index) {
            return Some(known.behind);
        }
        let Basis { inputs: _, ahead, read } = of.basis;
        let is_value = matches!(of.result, Kept::Value(_));
        if !keys.is_common(index) || !ahead.is_empty() || !read.is_empty() || !is_value {
            return None;
        }
        let behind = place(index) | self.behind(in_common, of, keys)?;
        in_common.keep(index, Common { shared: of, behind });
        Some(behind)
    }

    /// The variable number `index`, if its value is known and there is nothing to pay but for itself or for variables in
    /// common: what most first reads are.
    #[inline(never)]
    pub(super) fn at_once(&self, index: usize) -> Option<Slot<'a>> {
        let ((_, keys), in_common) = (self.sharing?, self.in_common?);
        let (here, paid) = (place(index), self.paid.get());
        let (slot, spent, missing) = if let Some(known) = self.ahead(keys, index) {
            let missing = known.behind & !paid;
            let value = known.outcome(self.arena);
            if missing & !here != 0 || !matches!(value, Kept::Value(_)) {
                return None;
            }
            (Slot { value, shared: None }, known.spent, missing)
        } else {
            let Common { shared, behind } = in_common.get(index)?;
            let missing = behind & !paid;
            let spent = match missing {
                0 => Spent::default(),
                missing if missing == here => shared.spent,
                missing => in_common.spent(missing),
            };
            (Slot { value: shared.result, shared: Some(shared) }, spent, missing)
        };
        if missing == 0 {
            return Some(slot);
        }
        let Spent { cost, steps, bytes, released } = spent;
        if !self.budget.pay(steps, bytes, released) {
            return None;
        }
        self.paid.set(paid | missing);
        self.unsettled.set(self.unsettled.get().saturating_add(cost));
        let mut elsewhere = self.elsewhere.get();
        elsewhere.add(Spent { cost: 0, ..spent });
        self.elsewhere.set(elsewhere);
        Some(slot)
    }

    /// The variable number `index`, if it is in common with the constraints of this policy before this one.
    pub(super) fn common(&self, index: usize) -> Option<Slot<'a>> {
        let in_common = self.in_common?;
        let Common { shared, behind } = in_common.get(index)?;
        let slot = Slot { value: shared.result, shared: Some(shared) };
        let mut bill = Bill::default();
        self.add_common(&mut bill, in_common, behind);
        if bill.places == 0 {
            return Some(slot);
        }
        Some(match self.settle(&bill)? {
            Ok(()) => slot,
            Err(exhausted) => Slot { value: Kept::Exhausted(exhausted), shared: None },
        })
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
        self.add_basis(bill, of, keys);
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
        let Spent { cost, steps, bytes, released } = bill.spent;
        let most = bytes.saturating_add(released);
        if steps > self.budget.steps_left() || most > self.budget.bytes_left() {
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
            released: elsewhere.released + released,
        });
        let spent = self.budget.spend(steps);
        Some(spent.and_then(|()| self.budget.allocate_again(bytes, released)))
    }
}
