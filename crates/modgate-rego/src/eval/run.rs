//! Statements, terms and patterns.

use modgate_value::Value as Json;

use super::{Flow, Machine, Next, Stop, with::Mock};
use crate::{
    builtins::BuiltinError,
    error::{Code, Error},
    ir::{
        Body, Builtin, BuiltinId, Call, Callee, Collect, Comprehension, Every, Operand, Pattern,
        Source, Stmt, StmtKind, Term,
    },
    value::{Array, Value, Values, View},
};

/// Up to this many operands and members are gathered on the stack.
const FEW: usize = 6;

/// Room for the members of a usual comprehension.
const SOME: usize = 8;

/// The value of a source without iterating.
pub(super) enum Found<'a> {
    /// Undefined.
    None,
    /// One value.
    One(Value<'a>),
    /// Possibly several, from where [`Machine::pending`] says.
    Several,
}

/// Where several values come from.
#[derive(Clone, Copy)]
pub(super) enum Pending<'a> {
    /// The entries of a collection that the pattern matches, and then the rest of the path.
    Entries(Value<'a>, &'a Pattern, &'a [Operand]),
    /// The rows of a relation.
    Rows(Array<'a>),
}

impl Pending<'_> {
    /// From nowhere.
    pub(super) const NONE: Self = Self::Entries(Value::NULL, &Pattern::Any, &[]);
}

/// The work that is left for each of several values.
struct Rest<'n, 'a> {
    /// The statement with several values.
    stmt: &'a Stmt,
    /// The pattern that the values are matched with; otherwise they are tested.
    pattern: Option<&'a Pattern>,
    /// The statements after it.
    body: &'a [Stmt],
    next: Next<'n, 'a>,
    /// Whether the statement held for any value.
    held: bool,
}

impl<'a> Machine<'a> {
    /// Runs `next` once for every way in which all of `body` holds.
    pub(super) fn run(&mut self, body: &'a [Stmt], next: Next<'_, 'a>) -> Flow {
        self.nested(|machine| machine.run_here(body, next))
    }

    fn run_here(&mut self, body: &'a [Stmt], next: Next<'_, 'a>) -> Flow {
        let mut left = body.iter();
        while let Some(stmt) = left.next() {
            match self.holds(stmt)? {
                Some(true) => {}
                Some(false) => return Ok(()),
                None => return self.each_way(stmt, left.as_slice(), next),
            }
        }
        next(self)
    }

    /// Whether a statement holds; `None` if it may do so in several ways.
    #[inline(always)]
    fn holds(&mut self, stmt: &'a Stmt) -> Result<Option<bool>, Stop> {
        // It takes no step, so that rules in it take no more than they took alone.
        if let StmtKind::Each(_) = &stmt.kind {
            return Ok(None);
        }
        self.spend(1)?;
        self.span = Some(&stmt.span);
        let holds = match &stmt.kind {
            StmtKind::Test(source) => match self.compared(source)? {
                Some(holds) => holds,
                None => match self.value(source)? {
                    Found::None => false,
                    Found::One(value) => !value.is_false(),
                    Found::Several => return Ok(None),
                },
            },
            StmtKind::Match(source, pattern) => match self.value(source)? {
                Found::None => false,
                Found::One(value) => self.matches(pattern, value)?,
                Found::Several => return Ok(None),
            },
            StmtKind::Not(body) => !self.succeeds(body)?,
            StmtKind::Every(every) => self.every(every)?,
            StmtKind::Any(bodies) => self.any(bodies)?,
            StmtKind::With(..) | StmtKind::Each(_) => return Ok(None),
        };
        self.report(holds, stmt);
        Ok(Some(holds))
    }

    /// Whether a comparison holds; `None` if it is none.
    #[inline]
    fn compared(&mut self, source: &'a Source) -> Result<Option<bool>, Stop> {
        if let Source::Call(Call { callee: Callee::Builtin(id), args }) = source
            && let [first, second] = args.as_slice()
            && let Some(comparison) = self.builtin(*id).and_then(|builtin| builtin.compares)
            && !self.program.replaces_functions
        {
            let (first, second) = (self.term(first)?, self.term(second)?);
            return Ok(Some(comparison.holds(self.heap, first, second)?));
        }
        Ok(None)
    }

    /// Runs `rest` for each way in which a statement holds that may do so in several.
    #[inline(never)]
    fn each_way(&mut self, stmt: &'a Stmt, rest: &'a [Stmt], next: Next<'_, 'a>) -> Flow {
        match &stmt.kind {
            StmtKind::Match(_, pattern) => self.several(stmt, Some(pattern), rest, next),
            StmtKind::With(with, body) => self.run_with(with, body, rest, next),
            StmtKind::Each(bodies) => self.each_body(bodies, rest, next),
            _ => self.several(stmt, None, rest, next),
        }
    }

    /// Runs `body` for each of several values of a statement that holds; reports a failure if it held
    /// for none.
    #[inline]
    fn several(
        &mut self,
        stmt: &'a Stmt,
        pattern: Option<&'a Pattern>,
        body: &'a [Stmt],
        next: Next<'_, 'a>,
    ) -> Flow {
        let mut rest = Rest { stmt, pattern, body, next, held: false };
        match self.pending {
            Pending::Entries(collection, key, path) => {
                self.each_entry(collection, key, path, &mut rest)?;
            }
            Pending::Rows(rows) => {
                for row in rows {
                    self.spend(1)?;
                    self.go_on(row, &mut rest)?;
                }
            }
        }
        if !rest.held {
            self.report(false, stmt);
        }
        Ok(())
    }

    fn each_entry(
        &mut self,
        collection: Value<'a>,
        key: &'a Pattern,
        path: &'a [Operand],
        rest: &mut Rest<'_, 'a>,
    ) -> Flow {
        let count = collection.entry_count().unwrap_or(0);
        self.nested(|machine| {
            for index in 0..count {
                machine.spend(1)?;
                let value = match key {
                    Pattern::Any => collection.element(index),
                    pattern => match collection.entry(index) {
                        Some((key, value)) if machine.matches(pattern, key)? => Some(value),
                        Some(_) => continue,
                        None => None,
                    },
                };
                let Some(value) = value else { break };
                if path.is_empty() {
                    machine.go_on(value, rest)?;
                    continue;
                }
                match machine.follow(value, path)? {
                    Found::None => {}
                    Found::One(value) => machine.go_on(value, rest)?,
                    Found::Several => {
                        if let Pending::Entries(collection, key, path) = machine.pending {
                            machine.each_entry(collection, key, path, rest)?;
                        }
                    }
                }
            }
            Ok(())
        })
    }

    /// Runs what is behind a statement with several values for one of them.
    #[inline]
    fn go_on(&mut self, value: Value<'a>, rest: &mut Rest<'_, 'a>) -> Flow {
        self.span = Some(&rest.stmt.span);
        let holds = match rest.pattern {
            None => !value.is_false(),
            Some(pattern) => self.matches(pattern, value)?,
        };
        if !holds {
            return Ok(());
        }
        rest.held = true;
        self.report(true, rest.stmt);
        self.run(rest.body, rest.next)
    }

    /// Whether `body` holds in at least one way.
    pub(super) fn succeeds(&mut self, body: &'a [Stmt]) -> Result<bool, Stop> {
        self.nested(|machine| machine.succeeds_here(body))
    }

    #[inline(never)]
    fn succeeds_here(&mut self, body: &'a [Stmt]) -> Result<bool, Stop> {
        let mut left = body.iter();
        while let Some(stmt) = left.next() {
            match self.holds(stmt)? {
                Some(true) => {}
                Some(false) => return Ok(false),
                None => {
                    let flow = self.each_way(stmt, left.as_slice(), &mut |_| Err(Stop::Enough));
                    return match flow {
                        Ok(()) => Ok(false),
                        Err(Stop::Enough) => Ok(true),
                        Err(error) => Err(error),
                    };
                }
            }
        }
        Ok(true)
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

    #[inline(always)]
    fn value(&mut self, source: &'a Source) -> Result<Found<'a>, Stop> {
        match source {
            Source::Ref(reference) => self.walk(reference),
            Source::Call(call) => self.called(call),
            Source::Term(term) => self.term(term).map(Found::One),
            Source::Comprehension(comprehension) => {
                self.comprehension(comprehension).map(Found::One)
            }
        }
    }

    /// The value of a term, which always has one.
    #[inline(always)]
    pub(super) fn term(&mut self, term: &'a Term) -> Result<Value<'a>, Stop> {
        match term {
            Term::Local(slot) => Ok(self.slot(*slot)),
            Term::Const(id) => Ok(self.constant(*id)),
            built => self.build(built),
        }
    }

    #[inline(never)]
    pub(super) fn build(&mut self, term: &'a Term) -> Result<Value<'a>, Stop> {
        match term {
            Term::Const(id) => Ok(self.constant(*id)),
            Term::Local(slot) => Ok(self.slot(*slot)),
            Term::ConstSet(id) => Ok(self.constant_set(*id)),
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
    pub(super) fn with_terms<T>(
        &mut self,
        terms: &'a [Term],
        then: impl FnOnce(&mut Self, &[Value<'a>]) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        let mut few = [Value::NULL; FEW];
        let mut many = Vec::new();
        let values = match few.get_mut(..terms.len()) {
            Some(values) => values,
            None => {
                many.resize(terms.len(), Value::NULL);
                many.as_mut_slice()
            }
        };
        for (index, term) in terms.iter().enumerate() {
            let value = self.term(term)?;
            if let Some(place) = values.get_mut(index) {
                *place = value;
            }
        }
        then(self, values)
    }

    fn object(&mut self, entries: &'a [(Term, Term)]) -> Result<Value<'a>, Stop> {
        // What most policies report has one member.
        if let [entry] = entries {
            let entry = self.entry(entry)?;
            return Ok(self.heap.object_from_sorted(&[entry])?);
        }
        if let [first, second] = entries {
            let mut both = [self.entry(first)?, self.entry(second)?];
            return self.object_of(&mut both);
        }
        let mut few = [(Value::NULL, Value::NULL); FEW];
        let mut many = Vec::new();
        let values = match few.get_mut(..entries.len()) {
            Some(values) => values,
            None => {
                many.resize(entries.len(), (Value::NULL, Value::NULL));
                many.as_mut_slice()
            }
        };
        for (value, entry) in values.iter_mut().zip(entries) {
            *value = self.entry(entry)?;
        }
        self.object_of(values)
    }

    #[inline]
    fn entry(&mut self, (key, member): &'a (Term, Term)) -> Result<(Value<'a>, Value<'a>), Stop> {
        let key = self.term(key)?;
        if key.is_composite() {
            self.heap.charge_walk([key])?;
        }
        Ok((key, self.term(member)?))
    }

    #[inline]
    fn object_of(&mut self, values: &mut [(Value<'a>, Value<'a>)]) -> Result<Value<'a>, Stop> {
        if !values.is_sorted_by(|(a, _), (b, _)| a < b) {
            values.sort_by_key(|(key, _)| *key);
        }
        if values.is_sorted_by(|(a, _), (b, _)| a < b) {
            return Ok(self.heap.object_from_sorted(values)?);
        }
        // Of keys that turn out equal the last counts; only comprehensions insist.
        Ok(self.heap.object(values.to_vec())?)
    }

    /// Matches a value, binding the variables of the pattern.
    #[inline(always)]
    pub(super) fn matches(&mut self, pattern: &'a Pattern, value: Value<'a>) -> Result<bool, Stop> {
        match pattern {
            Pattern::Any => Ok(true),
            Pattern::Bind(slot) => {
                self.bind(*slot, value);
                Ok(true)
            }
            Pattern::Equal(Term::Const(id)) => match self.constants.get(id.0 as usize) {
                // No other string is equal to one that is UTF-8.
                Some(Json::String(text)) => Ok(value.as_utf8() == Some(text.as_str())),
                Some(Json::Bool(expected)) => Ok(value.as_bool() == Some(*expected)),
                _ => self.matches_parts(pattern, value),
            },
            other => self.matches_parts(other, value),
        }
    }

    #[inline(never)]
    fn matches_parts(&mut self, pattern: &'a Pattern, value: Value<'a>) -> Result<bool, Stop> {
        match pattern {
            Pattern::Any => Ok(true),
            Pattern::Bind(slot) => {
                self.bind(*slot, value);
                Ok(true)
            }
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

    #[inline(never)]
    fn comprehension(&mut self, comprehension: &'a Comprehension) -> Result<Value<'a>, Stop> {
        let mut items = Values::new();
        match &comprehension.head {
            Collect::Array(head) => {
                self.collect(&comprehension.body, head, &mut items)?;
                Ok(self.heap.array(items.as_mut_slice())?)
            }
            Collect::Set(head) => {
                self.collect(&comprehension.body, head, &mut items)?;
                Ok(self.heap.set_of(items.as_mut_slice())?)
            }
            Collect::Object(key, value) => {
                let mut entries = Vec::with_capacity(SOME);
                self.run(&comprehension.body, &mut |machine| {
                    machine.heap.budget().allocate(size_of::<(Value<'_>, Value<'_>)>())?;
                    entries.push((machine.term(key)?, machine.term(value)?));
                    Ok(())
                })?;
                match self.heap.object_unless_conflict(entries)? {
                    Some(object) => Ok(object),
                    None => Err(Error::new(Code::Conflict, KEYS_NOT_UNIQUE).into()),
                }
            }
        }
    }

    fn collect(&mut self, body: &'a [Stmt], head: &'a Term, collected: &mut Values<'a>) -> Flow {
        self.run(body, &mut |machine| {
            machine.heap.budget().allocate(size_of::<Value<'_>>())?;
            collected.push(machine.term(head)?);
            Ok(())
        })
    }

    /// The value of a call.
    #[inline(never)]
    fn called(&mut self, call: &'a Call) -> Result<Found<'a>, Stop> {
        match call.args.as_slice() {
            [Term::Const(format), Term::Array(items)] => self.printed(call.callee, *format, items),
            [first] => {
                let args = [self.term(first)?];
                self.called_with(call.callee, &args)
            }
            [first, second] => {
                let args = [self.term(first)?, self.term(second)?];
                self.called_with(call.callee, &args)
            }
            args => self.called_with_many(call.callee, args),
        }
    }

    #[inline(never)]
    fn called_with_many(&mut self, callee: Callee, args: &'a [Term]) -> Result<Found<'a>, Stop> {
        self.with_terms(args, |machine, args| machine.called_with(callee, args))
    }

    #[inline(always)]
    pub(super) fn called_with(
        &mut self,
        callee: Callee,
        args: &[Value<'a>],
    ) -> Result<Found<'a>, Stop> {
        if self.program.replaces_functions
            && let Some(mock) = self.mock(callee)
        {
            let value = match mock {
                Mock::Value(value) => Some(value),
                Mock::Callee(other) => {
                    self.without_mocks(|machine| machine.call_unmocked(other, args))?
                }
            };
            return Ok(value.map_or(Found::None, Found::One));
        }
        let value = match callee {
            Callee::Function(group) => self.call_function(group, args)?,
            Callee::Builtin(id) => {
                let Some(builtin) = self.builtin(id) else { return Ok(Found::None) };
                let value = self.call_builtin(builtin, args)?;
                if builtin.run.is_some_and(|run| run.relation) {
                    let rows = value.and_then(Value::as_array);
                    return Ok(rows.map_or(Found::None, |rows| {
                        self.pending = Pending::Rows(rows);
                        Found::Several
                    }));
                }
                value
            }
        };
        Ok(value.map_or(Found::None, Found::One))
    }

    fn call_unmocked(
        &mut self,
        callee: Callee,
        args: &[Value<'a>],
    ) -> Result<Option<Value<'a>>, Stop> {
        match callee {
            Callee::Function(group) => self.call_function(group, args),
            Callee::Builtin(id) => match self.builtin(id) {
                Some(builtin) => self.call_builtin(builtin, args),
                None => Ok(None),
            },
        }
    }

    #[inline]
    pub(super) fn builtin(&self, id: BuiltinId) -> Option<&'a Builtin> {
        self.program.builtins.get(id.0 as usize)
    }

    #[inline]
    fn call_builtin(
        &mut self,
        builtin: &'a Builtin,
        args: &[Value<'a>],
    ) -> Result<Option<Value<'a>>, Stop> {
        let outcome = match builtin.run {
            Some(run) => (run.eval)(&mut self.builtins, args),
            None => self.builtins.call_host_function(&builtin.name, args),
        };
        match outcome {
            Ok(value) => Ok(value),
            Err(error) => self.builtin_failed(builtin, error),
        }
    }

    #[cold]
    pub(super) fn builtin_failed(
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
