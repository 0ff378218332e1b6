//! Lists of variables joined, once for all expressions of a request that do.

use super::Machine;
use crate::{
    code::{Call, Node},
    error::Result,
    lower::MAX_PARTS,
    memo::{Joined, Spent},
    value::Val,
};

/// More than a sum may cost, reading the variables left out: with less left, they are read one after the other, as one
/// may be the last.
const MOST: u64 = 64;

impl<'a> Machine<'_, 'a> {
    /// The sum of a few variables.
    #[inline(never)]
    pub(super) fn sum(&mut self, call: &'a Call) -> Result<Val<'a>> {
        let memo = self.evaluation.memo().filter(|_| self.limit.saturating_sub(self.cost) >= MOST);
        let Some(memo) = memo else { return self.plain_call(call) };
        let mut parts = [Val::Null; MAX_PARTS];
        // From here on the variables have been read, and paid for.
        if self.parts(&call.args, &mut parts).is_none() {
            return self.plain_call(call);
        }
        let budget = self.heap.budget;
        if let Some(joined) = memo.joined(&parts) {
            let Spent { cost, steps, bytes, released } = joined.spent;
            if budget.pay(steps, bytes, released) {
                self.charge(cost)?;
                return Ok(joined.result);
            }
            return self.plain_call(call);
        }
        let before = Spent { cost: self.cost, ..Spent::so_far(budget) };
        let result = self.plain_call(call)?;
        let now = Spent { cost: self.cost, ..Spent::so_far(budget) };
        if let Some(spent) = now.without(before).filter(|spent| spent.cost < MOST) {
            memo.keep_joined(Joined { parts, result, spent }, self.evaluation.arena);
        }
        Ok(result)
    }

    /// The values of the variables in their order, if all are lists. Returns how many there are.
    fn parts(&self, args: &'a [Node], parts: &mut [Val<'a>; MAX_PARTS]) -> Option<usize> {
        let [first, second] = args else { return None };
        let count = match first {
            Node::Call(call) => self.parts(&call.args, parts)?,
            variable => self.part(variable, 0, parts)?,
        };
        self.part(second, count, parts)
    }

    fn part(&self, node: &'a Node, at: usize, parts: &mut [Val<'a>; MAX_PARTS]) -> Option<usize> {
        let (name, hint) = node.as_variable()?;
        let value = match self.evaluation.known_variable(name, hint) {
            Some(value) => value,
            None => {
                let index = self.evaluation.position_near(name, hint)?;
                self.evaluation.variable(index).ok()?
            }
        };
        *parts.get_mut(at)? = value;
        value.is_list().then_some(at + 1)
    }
}
