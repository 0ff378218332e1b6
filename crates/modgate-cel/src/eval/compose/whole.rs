//! The outcome of all validations of a constraint, taken from another constraint of the policy.
//!
//! Most constraints of a policy differ in parameters that few variables read: which images are exempt, say. What these
//! variables come to differs less: no image is. A constraint that is the same but for such *variables at the bottom*
//! reads them, in the order in which the other one did, and if they come to the same, everything does. It pays for all
//! that it would read, as always.

use bumpalo::collections::Vec as BumpVec;

use super::{Evaluation, share::Bill};
use crate::memo::{InCommon, Key, MAX_COMPARED, Spent, VariableKeys, Whole};

/// The most of a policy that are kept.
const MOST: usize = 8;

impl<'a> Evaluation<'a> {
    /// The result that [`keep_alike`](Self::keep_alike) has kept of another evaluation with the same `rest`, if it would be
    /// that of this one, which then has paid for it. The first that an evaluation is asked.
    ///
    /// `rest` is the key of all expressions together with all that they and the variables read, but for what variables
    /// [at the bottom](VariableKeys::with_bottom) do.
    pub fn alike(&self, rest: Key) -> Option<u64> {
        let ((_, keys), in_common) = (self.sharing?, self.in_common?);
        self.begun.set(Some(Spent::so_far(self.budget)));
        let mut next = in_common.wholes();
        while let Some(whole) = next {
            next = whole.next;
            if whole.rest == rest && self.reads_bottom(whole) && self.pays_whole(whole, keys) {
                return Some(whole.result);
            }
        }
        None
    }

    /// Whether the variables at the bottom come to the same here.
    fn reads_bottom(&self, whole: &Whole<'a>) -> bool {
        let mut left = MAX_COMPARED;
        let mut bottom = whole.bottom.iter();
        bottom
            .all(|(index, there)| self.outcome(*index).is_ok_and(|here| there.is(here, &mut left)))
    }

    /// Pays for what has not been read yet; says whether that can be done here and now.
    fn pays_whole(&self, whole: &Whole<'a>, keys: &'a VariableKeys) -> bool {
        if self.paid.get() != whole.behind {
            return false;
        }
        let mut bill = Bill::default();
        bill.add(whole.spent, whole.paid);
        let Some(ahead) = self.spent_ahead(whole.ahead, keys) else { return false };
        bill.add(ahead, 0);
        let cost = bill.spent.cost.saturating_add(self.unsettled.get());
        let Some(left) = self.remaining.get().checked_sub(cost) else { return false };
        let Spent { cost: _, steps, bytes, released } = bill.spent;
        if !self.budget.pay(steps, bytes, released) {
            return false;
        }
        self.unsettled.set(0);
        self.remaining.set(left);
        self.paid.set(whole.paid);
        let mut between = whole.between;
        while between != 0 {
            let index = between.trailing_zeros() as usize;
            if let (Some(here), Some(there)) = (self.values.get(index), whole.values.get(index)) {
                here.set(there.get());
            }
            between &= between - 1;
        }
        true
    }

    /// The cost of variables that are known ahead; `None` if one is not.
    fn spent_ahead(&self, places: u64, keys: &'a VariableKeys) -> Option<Spent> {
        let (mut left, mut sum) = (places, Spent::default());
        while left != 0 {
            sum.add(self.ahead(keys, left.trailing_zeros() as usize)?.spent);
            left &= left - 1;
        }
        Some(sum)
    }

    /// Keeps the result of all expressions of this evaluation, which [`alike`](Self::alike) has not found. None of them may
    /// have failed.
    pub fn keep_alike(&self, rest: Key, result: u64) {
        if let (Some((_, keys)), Some(in_common)) = (self.sharing, self.in_common)
            && let Some(whole) = self.whole(rest, result, keys, in_common)
        {
            in_common.keep_whole(self.arena.0.alloc(whole));
        }
    }

    fn whole(
        &self,
        rest: Key,
        result: u64,
        keys: &'a VariableKeys,
        in_common: &'a InCommon<'a>,
    ) -> Option<Whole<'a>> {
        let next = in_common.wholes();
        let count = next.map_or(0, |next| next.count) + 1;
        if count > MOST || self.budget.ran_out() {
            return None;
        }
        let (mut behind, mut ahead) = (0, 0);
        let mut spent = Spent::default();
        let mut bottom = BumpVec::with_capacity_in(self.bottom.length.get(), &self.arena.0);
        for index in self.bottom.since(0) {
            let slot = self.values.get(index)?.get()?;
            let shared = slot.shared.filter(|shared| shared.basis.read.is_empty())?;
            bottom.push((index, slot.value));
            spent.add(shared.spent);
            behind |= super::place(index) | self.behind(in_common, shared, keys)?;
            for read in shared.basis.ahead {
                let index = keys.named(read.name, read.place)?;
                ahead |= self.ahead(keys, index)?.behind;
            }
        }
        spent.add(in_common.spent(behind & keys.all_common()));
        behind |= ahead;
        let paid = self.paid.get();
        let known = keys.all_ahead() & paid;
        spent.add(self.spent_ahead(known, keys)?);
        let so_far = Spent {
            cost: self.limits.total.checked_sub(self.remaining.get())?,
            ..Spent::so_far(self.budget).without(self.begun.get()?)?
        };
        if behind & !paid != 0 {
            return None;
        }
        Some(Whole {
            rest,
            bottom: bottom.into_bump_slice(),
            behind,
            paid,
            ahead: known & !behind,
            spent: so_far.without(spent)?,
            between: paid & !behind & !known & !keys.all_common(),
            values: self.values,
            result,
            next,
            count,
        })
    }
}
