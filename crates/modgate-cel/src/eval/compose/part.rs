//! Parts of expressions that constraints of a policy have in common.
//!
//! An expression that reads parameters is evaluated for each constraint, but not all of it depends on them: a policy filters
//! the list of all containers by its exemptions, and joins that list first. Calls that read nothing but variables
//! of inputs alone have the same value for all constraints of the policy. An evaluation pays for one as if it had
//! evaluated it: its own cost, and the variables that are not paid for yet. It also notes what it reads.

use bumpalo::collections::Vec as BumpVec;
use modgate_value::Exhausted;

use super::{Evaluation, Slot, share::Bill};
use crate::{
    code::{Call, Node},
    memo::{Part, Spent},
    value::Val,
};

impl<'a> Evaluation<'a> {
    /// The value of a call that another evaluation has left, paid for; `None` if there is none, or if too little is
    /// left to pay for it. `left` is the cost that the expression may still have.
    pub(in crate::eval) fn known_part(
        &self,
        call: &'a Call,
        left: u64,
    ) -> Option<Result<&'a Part<'a>, Exhausted>> {
        let ((memo, _), in_common) = (self.sharing?, self.in_common?);
        let part = memo.part(std::ptr::from_ref(call).addr())?;
        let Spent { cost, steps, bytes, released } = part.spent;
        if cost > left {
            return None;
        }
        let mut behind = 0;
        for index in part.reads {
            behind |= in_common.get(*index)?.behind;
        }
        let mut bill = Bill::default();
        self.add_common(&mut bill, in_common, behind);
        if let Err(exhausted) = self.settle(&bill)? {
            return Some(Err(exhausted));
        }
        let most = bytes.saturating_add(released);
        if steps > self.budget.steps_left() || most > self.budget.bytes_left() {
            return None;
        }
        for index in part.reads {
            self.note(*index);
            if let (Some(slot), Some(common)) = (self.values.get(*index), in_common.get(*index))
                && slot.get().is_none()
            {
                slot.set(Some(Slot { value: common.shared.result, shared: Some(common.shared) }));
            }
        }
        let paid = self.budget.spend(steps);
        let paid = paid.and_then(|()| self.budget.allocate_again(bytes, released));
        Some(paid.map(|()| part))
    }

    /// The part of the budget that went to what is running, without the variables that it read.
    pub(in crate::eval) fn own_spent(&self) -> Spent {
        let (all, elsewhere) = (Spent::so_far(self.budget), self.elsewhere.get());
        Spent {
            cost: 0,
            steps: all.steps.saturating_sub(elsewhere.steps),
            bytes: all.bytes.saturating_sub(elsewhere.bytes),
            released: all.released.saturating_sub(elsewhere.released),
        }
    }

    /// Leaves the value of a call for other evaluations, if it reads nothing but what they have in common. It
    /// took this `cost`, and what was spent since `before`.
    pub(in crate::eval) fn keep_part(
        &self,
        call: &'a Call,
        value: Val<'a>,
        cost: u64,
        before: Spent,
    ) {
        let (Some((memo, _)), Some(in_common)) = (self.sharing, self.in_common) else { return };
        let mut reads = BumpVec::new_in(&self.arena.0);
        let is_common = self.add_reads(&call.args, &mut reads)
            && reads.iter().all(|index| in_common.get(*index).is_some());
        if !is_common {
            return;
        }
        let now = self.own_spent();
        let spent = Spent {
            cost,
            steps: now.steps.saturating_sub(before.steps),
            bytes: now.bytes.saturating_sub(before.bytes),
            released: now.released.saturating_sub(before.released),
        };
        let part = Part { value, spent, reads: reads.into_bump_slice() };
        memo.keep_part(std::ptr::from_ref(call).addr(), part, self.arena);
    }

    /// Adds the variables that arguments read; whether they are known.
    fn add_reads(&self, args: &'a [Node], reads: &mut BumpVec<'a, usize>) -> bool {
        args.iter().all(|arg| match arg {
            Node::Attribute(attribute) => {
                let found = attribute.variable();
                let found = found.and_then(|(name, hint)| self.position_near(name, hint));
                reads.extend(found);
                found.is_some()
            }
            Node::Call(call) => self.add_reads(&call.args, reads),
            Node::Constant(_) => true,
            _ => false,
        })
    }
}
