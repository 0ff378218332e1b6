//! Calls of `sprintf` whose format has been read ahead.

use super::{Machine, Stop, run::Found};
use crate::{
    builtins,
    ir::{Callee, ConstId, Format, Term},
};

impl<'a> Machine<'a> {
    /// The value of a call with a constant and an array, such as that of `sprintf` mostly is. The array is not
    /// built where nothing but the text comes of it; it is paid for.
    pub(super) fn printed(
        &mut self,
        callee: Callee,
        format: ConstId,
        items: &'a [Term],
    ) -> Result<Found<'a>, Stop> {
        let known = self.format(callee, format);
        self.with_terms(items, |machine, items| {
            let first = machine.constant(format);
            if let Some(known) = known
                && let Some(text) = first.as_utf8()
                && let Some(plan) =
                    builtins::Printing::new(&known.read, items, machine.heap.budget())
            {
                machine.heap.charge_array(items)?;
                let text = match plan.print(text, &mut machine.builtins, &mut machine.text) {
                    Ok(text) => Some(text),
                    Err(error) => match machine.builtin(known.callee) {
                        Some(builtin) => machine.builtin_failed(builtin, error)?,
                        None => None,
                    },
                };
                return Ok(text.map_or(Found::None, Found::One));
            }
            let array = machine.heap.array(items)?;
            machine.called_with(callee, &[first, array])
        })
    }

    /// The format of a call, if it is one of `sprintf` that nothing replaces.
    fn format(&self, callee: Callee, format: ConstId) -> Option<&'a Format> {
        let Callee::Builtin(callee) = callee else { return None };
        let formats = &self.program.formats;
        let at = formats.binary_search_by_key(&format, |known| known.constant).ok()?;
        let known = formats.get(at)?;
        (known.callee == callee && !self.program.replaces_functions).then_some(known)
    }
}
