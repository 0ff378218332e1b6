//! Calls of functions that evaluate all of their arguments.

use super::Machine;
use crate::{
    code::{Call, Usual},
    cost::CallCost,
    error::{EvalError, Result},
    library,
    value::Val,
};

/// How many arguments a call has at most.
const MOST: usize = 4;

impl<'a> Machine<'_, 'a> {
    #[inline]
    pub(super) fn call(&mut self, call: &'a Call) -> Result<Val<'a>> {
        if call.of_variables { self.sum(call) } else { self.plain_call(call) }
    }

    #[inline(never)]
    pub(super) fn plain_call(&mut self, call: &'a Call) -> Result<Val<'a>> {
        let none = Val::Null;
        match &*call.args {
            [first] => match self.eval(first) {
                Ok(value) => self.called(call, &[value]),
                Err(error) => self.call_after(error, call, 0, [none; MOST]),
            },
            [first, second] => {
                let value = match self.eval(first) {
                    Ok(value) => value,
                    Err(error) => return self.call_after(error, call, 0, [none; MOST]),
                };
                match self.eval(second) {
                    Ok(other) => self.called(call, &[value, other]),
                    Err(error) => self.call_after(error, call, 1, [value, none, none, none]),
                }
            }
            args => {
                let mut values = [none; MOST];
                for (index, arg) in args.iter().enumerate() {
                    match self.eval(arg) {
                        Ok(value) => {
                            if let Some(slot) = values.get_mut(index) {
                                *slot = value;
                            }
                        }
                        Err(error) => return self.call_after(error, call, index, values),
                    }
                }
                self.called(call, values.get(..args.len()).unwrap_or_default())
            }
        }
    }

    /// A call with these arguments.
    #[inline]
    fn called(&mut self, call: &'a Call, values: &[Val<'a>]) -> Result<Val<'a>> {
        match (call.usual, values) {
            (Some(Usual::StartsWith), [Val::String(text), Val::String(start)]) => {
                self.charge(call.cost.of(self.heap, values, Val::Null)?)?;
                self.heap.read(start.len().min(text.len()))?;
                Ok(Val::Bool(text.starts_with(start)))
            }
            (Some(Usual::In), [item, list]) if list.is_list() => {
                self.charge(call.cost.of(self.heap, values, Val::Null)?)?;
                self.heap.contains(*list, *item).map(Val::Bool)
            }
            (Some(Usual::Text), [text @ Val::String(_)]) => {
                self.charge(1)?;
                Ok(*text)
            }
            _ => self.any_call(call, values),
        }
    }

    #[inline(never)]
    fn any_call(&mut self, call: &'a Call, values: &[Val<'a>]) -> Result<Val<'a>> {
        // Costs that do not depend on the result are charged before the work is done.
        let after = matches!(call.cost, CallCost::Result | CallCost::Build);
        if !after {
            let cost = call.cost.of(self.heap, values, Val::Null)?;
            self.charge(cost)?;
        }
        let text = || values.first().copied().map(library::loose).and_then(Val::as_str);
        let result = if let Some(regex) = &call.regex
            && let Some(text) = text()
        {
            library::with_pattern(self.heap, &call.name, regex, text, values)
        } else if call.guard.accepts(values) {
            (call.native)(self.heap, values)
        } else {
            Err(EvalError::NoOverload)
        };
        let result = match result {
            // With its constant pattern compiled, the original's function names no types.
            Err(EvalError::NoOverload) if call.regex.is_none() => {
                Err(library::no_overload(&call.name, values))
            }
            result => result,
        };
        if after {
            let given = result.as_ref().map_or(Val::Null, |value| *value);
            let cost = call.cost.of(self.heap, values, given)?;
            return self.after(result, cost);
        }
        result
    }

    /// A call with an argument that is an error: the others are evaluated, and it costs what it would.
    #[cold]
    fn call_after(
        &mut self,
        error: EvalError,
        call: &'a Call,
        index: usize,
        mut values: [Val<'a>; MOST],
    ) -> Result<Val<'a>> {
        let count = call.args.len();
        // With more than two arguments cel-go stops here, and charges nothing unless this is the last.
        if !error.is_value() || count > 2 && index + 1 < count {
            return Err(error);
        }
        for (index, arg) in call.args.iter().enumerate().skip(index + 1) {
            if let (Ok(value), Some(slot)) = (self.value(arg)?, values.get_mut(index)) {
                *slot = value;
            }
        }
        let cost = call.cost.of(self.heap, values.get(..count).unwrap_or_default(), Val::Null)?;
        self.charge(cost)?;
        Err(error)
    }
}
