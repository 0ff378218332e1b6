//! Statements, terms and patterns.

use super::{Flow, Machine, Next, Stop, Yield, document::Walked, trace::EventKind, with::Mock};
use crate::{
    builtins::BuiltinError,
    error::{Code, Error},
    ir::{
        Body, Builtin, BuiltinId, Call, Callee, Collect, Comprehension, Every, Pattern, Source,
        Stmt, StmtKind, Term,
    },
    value::{Array, Value, View},
};

/// Up to this many operands and members are gathered on the stack.
const FEW: usize = 6;

/// Room for the members of a usual comprehension.
const SOME: usize = 8;

/// The value of a source without iterating.
enum Values<'a> {
    /// Undefined.
    None,
    /// One value.
    One(Value<'a>),
    /// Possibly several; ask [`Machine::each`].
    Several(Several<'a>),
}

/// Where several values come from.
enum Several<'a> {
    /// What a reference finds from there.
    Ref(Walked<'a>),
    /// The rows of a relation.
    Rows(Array<'a>),
}

impl<'a> Machine<'a> {
    /// Runs `next` once for every way in which all of `body` holds.
    pub(super) fn run(&mut self, body: &'a [Stmt], next: Next<'_, 'a>) -> Flow {
        self.nested(|machine| machine.run_here(body, next))
    }

    fn run_here(&mut self, body: &'a [Stmt], next: Next<'_, 'a>) -> Flow {
        let mut left = body;
        while let Some((stmt, rest)) = left.split_first() {
            // It takes no step, so that rules in it take no more than they took alone.
            if let StmtKind::Each(bodies) = &stmt.kind {
                return self.each_body(bodies, rest, next);
            }
            self.spend(1)?;
            self.span = Some(stmt.span);
            let holds = match &stmt.kind {
                StmtKind::Test(source) => match self.values(source)? {
                    Values::None => false,
                    Values::One(value) => !value.is_false(),
                    Values::Several(several) => {
                        return self.each_reported(stmt, several, &mut |machine, value| {
                            if value.is_false() {
                                return Ok(false);
                            }
                            machine.report(EventKind::Succeeded, stmt.span, stmt.generated);
                            machine.run(rest, next).map(|()| true)
                        });
                    }
                },
                StmtKind::Match(source, pattern) => match self.values(source)? {
                    Values::None => false,
                    Values::One(value) => self.matches(pattern, value)?,
                    Values::Several(several) => {
                        return self.each_reported(stmt, several, &mut |machine, value| {
                            if !machine.matches(pattern, value)? {
                                return Ok(false);
                            }
                            machine.report(EventKind::Succeeded, stmt.span, stmt.generated);
                            machine.run(rest, next).map(|()| true)
                        });
                    }
                },
                StmtKind::Not(body) => !self.succeeds(body)?,
                StmtKind::Every(every) => self.every(every)?,
                StmtKind::Any(bodies) => self.any(bodies)?,
                StmtKind::With(with, body) => return self.run_with(with, body, rest, next),
                StmtKind::Each(bodies) => return self.each_body(bodies, rest, next),
            };
            let kind = if holds { EventKind::Succeeded } else { EventKind::Failed };
            self.report(kind, stmt.span, stmt.generated);
            if !holds {
                return Ok(());
            }
            left = rest;
        }
        next(self)
    }

    /// Runs `on` for each value of a source with several; reports a failure if none was taken.
    fn each_reported(
        &mut self,
        stmt: &'a Stmt,
        several: Several<'a>,
        on: &mut dyn FnMut(&mut Self, Value<'a>) -> Result<bool, Stop>,
    ) -> Flow {
        let mut any = false;
        self.each(several, &mut |machine, value| {
            machine.span = Some(stmt.span);
            any |= on(machine, value)?;
            Ok(())
        })?;
        if !any {
            self.report(EventKind::Failed, stmt.span, stmt.generated);
        }
        Ok(())
    }

    /// Whether `body` holds in at least one way.
    pub(super) fn succeeds(&mut self, body: &'a [Stmt]) -> Result<bool, Stop> {
        match self.run(body, &mut |_| Err(Stop::Enough)) {
            Ok(()) => Ok(false),
            Err(Stop::Enough) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Runs `rest` for each success of each body.
    fn each_body(&mut self, bodies: &'a [Body], rest: &'a [Stmt], next: Next<'_, 'a>) -> Flow {
        for body in bodies {
            match rest {
                [] => self.run(body, next)?,
                _ => self.run(body, &mut |machine| machine.run(rest, next))?,
            }
        }
        Ok(())
    }

    /// Whether one of the bodies holds.
    fn any(&mut self, bodies: &'a [Body]) -> Result<bool, Stop> {
        for body in bodies {
            if self.succeeds(body)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn every(&mut self, every: &'a Every) -> Result<bool, Stop> {
        let domain = self.term(&every.domain)?;
        // Nothing holds for every member of what has no members to speak of.
        let Some(count) = domain.entry_count() else { return Ok(false) };
        for index in 0..count {
            self.spend(1)?;
            let Some((key, value)) = domain.entry(index) else { break };
            let fits = self.matches(&every.key, key)? && self.matches(&every.value, value)?;
            if fits && !self.succeeds(&every.body)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn values(&mut self, source: &'a Source) -> Result<Values<'a>, Stop> {
        match source {
            Source::Term(term) => self.term(term).map(Values::One),
            Source::Ref(reference) => Ok(match self.walk(reference)? {
                Walked::Done(value) => Values::One(value),
                Walked::Undefined => Values::None,
                each @ Walked::Each(..) => Values::Several(Several::Ref(each)),
            }),
            Source::Call(call) => {
                let value = self.call(call)?;
                if self.is_relation(call) {
                    let rows = value.and_then(Value::as_array);
                    return Ok(rows.map_or(Values::None, |it| Values::Several(Several::Rows(it))));
                }
                Ok(value.map_or(Values::None, Values::One))
            }
            Source::Comprehension(comprehension) => {
                self.comprehension(comprehension).map(Values::One)
            }
        }
    }

    /// Runs `on` for each of several values.
    fn each(&mut self, several: Several<'a>, on: Yield<'_, 'a>) -> Flow {
        match several {
            Several::Ref(walked) => self.each_of(walked, on),
            Several::Rows(rows) => {
                for row in rows {
                    self.spend(1)?;
                    on(self, row)?;
                }
                Ok(())
            }
        }
    }

    /// The value of a term, which always has one.
    #[inline]
    pub(super) fn term(&mut self, term: &'a Term) -> Result<Value<'a>, Stop> {
        match term {
            Term::Const(id) => Ok(self.constant(*id)),
            Term::Local(slot) => Ok(self.slot(*slot)),
            Term::ConstSet(id) => Ok(self.constant_set(*id)),
            built => self.build(built),
        }
    }

    fn build(&mut self, term: &'a Term) -> Result<Value<'a>, Stop> {
        match term {
            Term::Const(_) | Term::ConstSet(_) | Term::Local(_) => self.term(term),
            Term::Array(items) => {
                self.with_terms(items, |machine, items| Ok(machine.heap.array(items)?))
            }
            Term::Set(items) => {
                self.with_terms(items, |machine, items| Ok(machine.heap.set(items.to_vec())?))
            }
            Term::Object(entries) => self.object(entries),
        }
    }

    /// Evaluates terms and hands their values on; a few need no allocation.
    fn with_terms<T>(
        &mut self,
        terms: &'a [Term],
        then: impl Fn(&mut Self, &[Value<'a>]) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        match terms {
            [] => return then(self, &[]),
            [term] => {
                let value = self.term(term)?;
                return then(self, &[value]);
            }
            [first, second] => {
                let values = [self.term(first)?, self.term(second)?];
                return then(self, &values);
            }
            _ => {}
        }
        let mut few = [Value::NULL; FEW];
        let mut many = Vec::new();
        let values = match few.get_mut(..terms.len()) {
            Some(values) => values,
            None => {
                many.resize(terms.len(), Value::NULL);
                many.as_mut_slice()
            }
        };
        for (value, term) in values.iter_mut().zip(terms) {
            *value = self.term(term)?;
        }
        then(self, values)
    }

    fn object(&mut self, entries: &'a [(Term, Term)]) -> Result<Value<'a>, Stop> {
        let mut few = [(Value::NULL, Value::NULL); FEW];
        let mut many = Vec::new();
        let values = match few.get_mut(..entries.len()) {
            Some(values) => values,
            None => {
                many.resize(entries.len(), (Value::NULL, Value::NULL));
                many.as_mut_slice()
            }
        };
        for (value, (key, member)) in values.iter_mut().zip(entries) {
            let key = self.term(key)?;
            if key.is_composite() {
                self.heap.charge_walk([key])?;
            }
            *value = (key, self.term(member)?);
        }
        values.sort_by_key(|(key, _)| *key);
        if values.is_sorted_by(|(a, _), (b, _)| a < b) {
            return Ok(self.heap.object_from_sorted(values)?);
        }
        // Of keys that turn out equal the last counts; only comprehensions insist.
        Ok(self.heap.object(values.to_vec())?)
    }

    /// Matches a value, binding the variables of the pattern.
    #[inline]
    pub(super) fn matches(&mut self, pattern: &'a Pattern, value: Value<'a>) -> Result<bool, Stop> {
        match pattern {
            Pattern::Any => Ok(true),
            Pattern::Bind(slot) => {
                self.bind(*slot, value);
                Ok(true)
            }
            other => self.matches_parts(other, value),
        }
    }

    fn matches_parts(&mut self, pattern: &'a Pattern, value: Value<'a>) -> Result<bool, Stop> {
        match pattern {
            Pattern::Any | Pattern::Bind(_) => self.matches(pattern, value),
            Pattern::Equal(term) => {
                let expected = self.term(term)?;
                if expected.is_composite() {
                    self.heap.charge_walk([expected])?;
                }
                Ok(expected == value)
            }
            Pattern::Array(items) => {
                let View::Array(array) = value.view() else { return Ok(false) };
                if array.len() != items.len() {
                    return Ok(false);
                }
                for (item, value) in items.iter().zip(array) {
                    if !self.matches(item, value)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Pattern::Object(entries) => {
                let View::Object(object) = value.view() else { return Ok(false) };
                if object.len() != entries.len() {
                    return Ok(false);
                }
                for (key, pattern) in entries {
                    let key = self.term(key)?;
                    let Some(value) = object.get(key) else { return Ok(false) };
                    if !self.matches(pattern, value)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    fn comprehension(&mut self, comprehension: &'a Comprehension) -> Result<Value<'a>, Stop> {
        match &comprehension.head {
            Collect::Array(head) => {
                let items = self.collect(&comprehension.body, |machine| machine.term(head))?;
                Ok(self.heap.array(&items)?)
            }
            Collect::Set(head) => {
                let items = self.collect(&comprehension.body, |machine| machine.term(head))?;
                Ok(self.heap.set(items)?)
            }
            Collect::Object(key, value) => {
                let entries = self.collect(&comprehension.body, |machine| {
                    Ok((machine.term(key)?, machine.term(value)?))
                })?;
                match self.heap.object_unless_conflict(entries)? {
                    Some(object) => Ok(object),
                    None => Err(Error::new(Code::Conflict, KEYS_NOT_UNIQUE).into()),
                }
            }
        }
    }

    fn collect<T>(
        &mut self,
        body: &'a [Stmt],
        head: impl Fn(&mut Self) -> Result<T, Stop>,
    ) -> Result<Vec<T>, Stop> {
        let mut collected = Vec::with_capacity(SOME);
        self.run(body, &mut |machine| {
            machine.heap.budget().allocate(size_of::<T>())?;
            collected.push(head(machine)?);
            Ok(())
        })?;
        Ok(collected)
    }

    /// The value of a call, or the rows of a relation as an array.
    fn call(&mut self, call: &'a Call) -> Result<Option<Value<'a>>, Stop> {
        self.with_terms(&call.args, |machine, args| machine.call_with(call.callee, args))
    }

    fn call_with(&mut self, callee: Callee, args: &[Value<'a>]) -> Result<Option<Value<'a>>, Stop> {
        match self.mock(callee) {
            Some(Mock::Value(value)) => Ok(Some(value)),
            Some(Mock::Callee(other)) => {
                self.without_mocks(|machine| machine.call_unmocked(other, args))
            }
            None => self.call_unmocked(callee, args),
        }
    }

    fn call_unmocked(
        &mut self,
        callee: Callee,
        args: &[Value<'a>],
    ) -> Result<Option<Value<'a>>, Stop> {
        match callee {
            Callee::Function(group) => self.call_function(group, args),
            Callee::Builtin(id) => self.call_builtin(id, args),
        }
    }

    fn builtin(&self, id: BuiltinId) -> Option<&'a Builtin> {
        self.program.builtins.get(id.0 as usize)
    }

    fn is_relation(&self, call: &Call) -> bool {
        match call.callee {
            Callee::Builtin(id) => {
                let run = self.builtin(id).and_then(|builtin| builtin.run);
                run.is_some_and(|run| run.relation) && self.mock(call.callee).is_none()
            }
            Callee::Function(_) => false,
        }
    }

    fn call_builtin(
        &mut self,
        id: BuiltinId,
        args: &[Value<'a>],
    ) -> Result<Option<Value<'a>>, Stop> {
        let Some(builtin) = self.builtin(id) else { return Ok(None) };
        let outcome = match builtin.run {
            Some(run) => (run.eval)(&mut self.builtins, args),
            None => self.builtins.call_host_function(&builtin.name, args),
        };
        outcome.or_else(|error| self.builtin_failed(builtin, error))
    }

    #[cold]
    fn builtin_failed(
        &self,
        builtin: &Builtin,
        error: BuiltinError,
    ) -> Result<Option<Value<'a>>, Stop> {
        match error {
            BuiltinError::Limit(limit) => Err(limit.into()),
            BuiltinError::Conflict(_) => Err(Error::builtin(&builtin.name, &error).into()),
            _ if self.strict_builtin_errors => Err(Error::builtin(&builtin.name, &error).into()),
            _ => Ok(None),
        }
    }
}

/// OPA's error for an object with two values for a key.
pub(super) const KEYS_NOT_UNIQUE: &str = "object keys must be unique";
