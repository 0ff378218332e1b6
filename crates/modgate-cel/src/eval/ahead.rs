//! Computing variables before there is a request.

use modgate_value::Budget;

use super::compose::{Activation, CostLimits, Evaluation, Variables};
use crate::{
    memo::{Ahead, Key, Known, Memo, VariableKey, VariableKeys},
    program::Arena,
};

impl Variables {
    /// The values of those that read nothing but `input`, whose value `activation` has, and one another. `digest`
    /// gives texts their keys.
    pub fn ahead(
        &self,
        input: &str,
        activation: &dyn Activation,
        budget: &Budget<'_>,
        digest: &dyn Fn(&str) -> Key,
    ) -> Ahead {
        let names: Vec<&str> = self.iter().map(|(name, _)| name).collect();
        let mut closed: Vec<bool> = Vec::with_capacity(names.len());
        for (_, program) in self.iter() {
            let is_closed = |name: &str| {
                let at = names.iter().position(|known| *known == name);
                at.and_then(|at| closed.get(at)).is_some_and(|it| *it)
            };
            closed.push(program.is_some_and(|it| it.reads_only(|name| name == input, is_closed)));
        }
        // Each variable has a key of its own.
        let key = |number: usize| Key::new(number as u128 + 1);
        let numbered = (0..names.len()).map(|at| VariableKey {
            name: key(at),
            value: key(at),
            exact: Key::NONE,
            keyed: true,
            common: false,
        });
        let Some(keys) = VariableKeys::new(numbered) else { return Ahead::default() };
        let arena = Arena::new();
        let memo = Memo::new();
        let evaluation = Evaluation::new(activation, self, &arena, budget, CostLimits::VALIDATIONS)
            .sharing(&memo, &keys);
        let mut all: Vec<Option<Known>> = Vec::with_capacity(closed.len());
        for (at, closed) in closed.iter().enumerate() {
            let known = |at: usize| {
                if evaluation.variable(at).is_err_and(|error| !error.is_value()) {
                    return None;
                }
                let shared = memo.get(key(at))?;
                let inputs = shared.basis.inputs.iter().map(|input| input.place);
                let mut behind = 1 << at;
                for place in inputs.chain(shared.basis.read.iter().map(|read| read.place)) {
                    behind |= all.get(place)?.as_ref()?.behind;
                }
                Known::of(shared, behind, digest)
            };
            let known = closed.then(|| known(at)).flatten();
            all.push(known);
        }
        all.into_iter().collect()
    }
}
