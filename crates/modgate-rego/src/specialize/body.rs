//! Statements, one after the other, with what is known so far.

use modgate_value::{Object, Value as Json};

use super::{
    Fact, Left, Specializer,
    fold::{Folded, LIMITS},
    known::{Env, Known, Variable},
};
use crate::{
    ir::{
        Base, Body, Call, Callee, Collect, Comprehension, DataBase, Every, Operand, Pattern, Ref,
        SetId, Slot, Source, Stmt, StmtKind, Term, effects::Raises,
    },
    value::sorted_set,
};

/// Fewer texts are as soon compared one after the other.
const MIN_MEMBERS: usize = 3;

/// A source after specialization.
enum Found {
    /// It is undefined.
    Nothing,
    /// It has one value, and this is it.
    One(Known),
    /// Whatever this gives.
    Some(Source),
}

/// The result of following a path from a known value.
enum Followed<'i> {
    Nothing,
    One(Known),
    /// The rest of the path needs the program to run.
    Open(Known, &'i [Operand]),
}

impl Specializer<'_> {
    /// The specialised body, under the bindings in `env`, to which the body's own are added.
    pub(super) fn body(&mut self, body: &[Stmt], env: &mut Env) -> Left {
        let mut left = Vec::with_capacity(body.len());
        for stmt in body {
            let kind = match &stmt.kind {
                StmtKind::Test(source) => match self.source(source, env) {
                    Found::Nothing => return self.never_behind(left),
                    Found::One(value) if value.is_false() => return self.never_behind(left),
                    Found::One(_) => continue,
                    Found::Some(Source::Call(call)) => {
                        match self.inlined_test(&call, stmt.span, env) {
                            Some(Left::Never) => return self.never_behind(left),
                            Some(Left::Stmts(more)) => {
                                left.extend(more);
                                if self.ends(&left) {
                                    return Left::Stmts(left);
                                }
                                continue;
                            }
                            None => StmtKind::Test(Source::Call(call)),
                        }
                    }
                    Found::Some(source) => StmtKind::Test(source),
                },
                StmtKind::Match(source, pattern) => match self.source(source, env) {
                    Found::Nothing => return self.never_behind(left),
                    Found::One(value) => match self.match_known(pattern, &value, env) {
                        Some(true) => continue,
                        Some(false) => return self.never_behind(left),
                        None => {
                            let pattern = self.pattern(pattern, env);
                            StmtKind::Match(Source::Term(self.constant(value)), pattern)
                        }
                    },
                    Found::Some(source) => {
                        if let Source::Call(call) = &source {
                            match self.inlined_match(call, pattern, stmt.span, env) {
                                Some(Left::Never) => return self.never_behind(left),
                                Some(Left::Stmts(more)) => {
                                    left.extend(more);
                                    if self.ends(&left) {
                                        return Left::Stmts(left);
                                    }
                                    continue;
                                }
                                None => {}
                            }
                        }
                        let pattern = self.pattern(pattern, env);
                        if let (Source::Term(Term::Local(of)), Pattern::Bind(slot)) =
                            (&source, &pattern)
                            && !matches!(env.get(*of), Some(Variable::Input))
                        {
                            env.set(*slot, Some(Variable::Alias(*of)));
                            continue;
                        }
                        if let Pattern::Bind(slot) = &pattern {
                            let is_input = match &source {
                                Source::Ref(Ref { base: Base::Input, path }) => path.is_empty(),
                                Source::Term(term) => env.is_input(term),
                                _ => false,
                            };
                            env.set(*slot, is_input.then_some(Variable::Input));
                        }
                        StmtKind::Match(source, pattern)
                    }
                },
                StmtKind::Not(body) => match self.condition(body, env) {
                    Left::Never => continue,
                    Left::Stmts(body) if body.is_empty() => return self.never_behind(left),
                    Left::Stmts(mut body) => match body.as_mut_slice() {
                        [Stmt { kind: StmtKind::Any(bodies), .. }] if bodies.len() <= 2 => {
                            let none = std::mem::take(bodies).into_iter().map(StmtKind::Not);
                            let Stmt { span, generated, .. } = *stmt;
                            left.extend(none.map(|kind| Stmt { kind, span, generated }));
                            continue;
                        }
                        _ => StmtKind::Not(body),
                    },
                },
                StmtKind::Any(bodies) => match self.any(bodies, env) {
                    Some(some) if some.is_empty() => return self.never_behind(left),
                    Some(some) => self.one_of(some),
                    None => continue,
                },
                StmtKind::Every(every) => match self.every(every, env) {
                    Some(every) => StmtKind::Every(Box::new(every)),
                    None => continue,
                },
                // Programs with the former are left alone, and the latter are made of what is specialized.
                StmtKind::With(..) | StmtKind::Each(_) => stmt.kind.clone(),
            };
            left.push(Stmt { kind, span: stmt.span, generated: stmt.generated });
        }
        Left::Stmts(left)
    }

    /// The bodies of which one has to hold, as [`some_of`](Self::some_of) has them.
    fn any(&mut self, bodies: &[Body], env: &mut Env) -> Option<Vec<Body>> {
        let mut some = Vec::with_capacity(bodies.len());
        for body in bodies {
            if let Left::Stmts(body) = self.condition(body, env) {
                some.push(body);
            }
        }
        self.some_of(some)
    }

    /// The bodies of which one has to hold, up to the first that always does; `None` if nothing has to be run.
    pub(super) fn some_of(&mut self, mut bodies: Vec<Body>) -> Option<Vec<Body>> {
        if let Some(always) = bodies.iter().position(Vec::is_empty) {
            bodies.truncate(always);
            if !bodies.iter().any(|body| self.raises(body)) {
                return None;
            }
            bodies.push(Body::new());
        }
        Some(bodies)
    }

    /// The statement that holds if one of the bodies does. Where each asks whether the same variable is another text, a set of
    /// these is asked.
    pub(super) fn one_of(&mut self, bodies: Vec<Body>) -> StmtKind {
        let flat = bodies.into_iter().flat_map(|mut body| match body.as_mut_slice() {
            [Stmt { kind: StmtKind::Any(inner), .. }] => std::mem::take(inner),
            _ => vec![body],
        });
        let bodies: Vec<Body> = flat.collect();
        let Some((slot, members)) = self.members(&bodies) else { return StmtKind::Any(bodies) };
        let base = Base::Term(self.constant(Known::Set(sorted_set(members))));
        let path = vec![Operand::Key(Term::Local(slot))];
        StmtKind::Match(Source::Ref(Ref { base, path }), Pattern::Any)
    }

    /// The variable that each body compares with a text, and the texts.
    fn members(&self, bodies: &[Body]) -> Option<(Slot, Vec<Json>)> {
        let compared = |body: &Body| {
            let [Stmt { kind: StmtKind::Match(source, pattern), .. }] = body.as_slice() else {
                return None;
            };
            let (slot, id) = match (source, pattern) {
                (Source::Term(Term::Local(slot)), Pattern::Equal(Term::Const(id)))
                | (Source::Term(Term::Const(id)), Pattern::Equal(Term::Local(slot))) => {
                    (*slot, *id)
                }
                _ => return None,
            };
            let value = self.constants.get(id)?;
            matches!(value, Json::String(_)).then(|| (slot, value.clone()))
        };
        let all: Vec<(Slot, Json)> = bodies.iter().map(compared).collect::<Option<_>>()?;
        let slot = all.first()?.0;
        let same = all.len() >= MIN_MEMBERS && all.iter().all(|(other, _)| *other == slot);
        same.then(|| (slot, all.into_iter().map(|(_, value)| value).collect()))
    }

    /// The rest of a body that does not succeed, behind these statements: those of them that may raise a conflict.
    pub(super) fn never_behind(&mut self, mut left: Vec<Stmt>) -> Left {
        let raising = |stmt: &Stmt| self.raises(std::slice::from_ref(stmt));
        let Some(last) = left.iter().rposition(raising) else { return Left::Never };
        left.truncate(last + 1);
        let never = self.never(left.last());
        left.push(never);
        Left::Stmts(left)
    }

    /// Whether statements end with one that never holds.
    fn ends(&self, body: &[Stmt]) -> bool {
        let Some(Stmt { kind: StmtKind::Test(Source::Term(term)), .. }) = body.last() else {
            return false;
        };
        self.known(term).is_some_and(|value| value.is_false())
    }

    /// Whether a specialized body may raise a conflict.
    pub(super) fn raises(&mut self, body: &[Stmt]) -> bool {
        let mut raises = Raises {
            constants: self.constants.values(),
            rules: &self.rules,
            groups: &self.groups,
            builtins: &self.original.builtins,
            known: std::mem::take(&mut self.raising),
            depth: 0,
        };
        let found = raises.body(body);
        self.raising = raises.known;
        found
    }

    /// `None` when it always holds.
    fn every(&mut self, every: &Every, env: &mut Env) -> Option<Every> {
        let domain = self.term(&every.domain, env);
        if let Some(domain) = self.known(&domain)
            && domain.value().entry_count() == Some(0)
        {
            return None;
        }
        let key = self.pattern(&every.key, env);
        let value = self.pattern(&every.value, env);
        let body = match self.body(&every.body, env) {
            Left::Never => vec![self.never(every.body.first())],
            Left::Stmts(body) => body,
        };
        Some(Every { domain, key, value, body })
    }

    /// A statement that never succeeds, in the place of another.
    fn never(&mut self, instead: Option<&Stmt>) -> Stmt {
        let no = self.constant(Known::Json(Json::Bool(false)));
        let span = instead.map(|stmt| stmt.span).unwrap_or_default();
        Stmt { kind: StmtKind::Test(Source::Term(no)), span, generated: true }
    }

    fn source(&mut self, source: &Source, env: &mut Env) -> Found {
        match source {
            Source::Term(term) => {
                let term = self.term(term, env);
                match self.known(&term) {
                    Some(value) => Found::One(value),
                    None => Found::Some(Source::Term(term)),
                }
            }
            Source::Ref(reference) => self.reference(reference, env),
            Source::Comprehension(comprehension) => self.comprehension(comprehension, env),
            Source::Call(call) => self.call(call, env),
        }
    }

    fn reference(&mut self, reference: &Ref, env: &mut Env) -> Found {
        let path: Vec<Operand> = reference
            .path
            .iter()
            .map(|step| match step {
                Operand::Key(term) => Operand::Key(self.term(term, env)),
                Operand::Each(pattern) => Operand::Each(self.pattern(pattern, env)),
            })
            .collect();
        let base = match &reference.base {
            Base::Term(term) if env.is_input(term) => Base::Input,
            Base::Term(term) => Base::Term(self.term(term, env)),
            other => other.clone(),
        };
        let followed = match &base {
            Base::Term(term) => match self.known(term) {
                Some(value) => self.follow(value, &path, env),
                None => return Found::Some(Source::Ref(Ref { base, path })),
            },
            Base::Input => match path.split_first() {
                Some((Operand::Key(key), rest)) if self.is_known_member(key) => {
                    self.follow(Known::Json(self.value.clone()), rest, env)
                }
                _ => return Found::Some(Source::Ref(Ref { base, path })),
            },
            Base::Data { at: DataBase::Group(group), .. } => match self.fact(*group) {
                Fact::Never => return Found::Nothing,
                Fact::Known(value) => self.follow(value, &path, env),
                Fact::Dynamic { .. } => return Found::Some(Source::Ref(Ref { base, path })),
            },
            // Only programs that are specialized have the former.
            Base::InputAt(_) | Base::Data { .. } => {
                return Found::Some(Source::Ref(Ref { base, path }));
            }
        };
        match followed {
            Followed::Nothing => Found::Nothing,
            Followed::One(value) => Found::One(value),
            Followed::Open(value, rest) => {
                let base = Base::Term(self.constant(value));
                Found::Some(Source::Ref(Ref { base, path: rest.to_vec() }))
            }
        }
    }

    fn follow<'i>(&mut self, mut value: Known, path: &'i [Operand], env: &mut Env) -> Followed<'i> {
        let mut rest = path;
        while let Some((step, after)) = rest.split_first() {
            let next = match step {
                Operand::Key(key) => match self.known(key) {
                    Some(key) => value.get(&key, self.budget),
                    None => return Followed::Open(value, rest),
                },
                Operand::Each(pattern) => match value.entry_count() {
                    0 => None,
                    1 => {
                        let Some((key, member)) = value.first_entry(self.budget) else {
                            return Followed::Open(value, rest);
                        };
                        match self.match_known(pattern, &key, env) {
                            Some(true) => Some(member),
                            Some(false) => None,
                            None => return Followed::Open(value, rest),
                        }
                    }
                    _ => return Followed::Open(value, rest),
                },
            };
            let Some(next) = next else { return Followed::Nothing };
            value = next;
            rest = after;
        }
        Followed::One(value)
    }

    fn comprehension(&mut self, comprehension: &Comprehension, env: &mut Env) -> Found {
        let Left::Stmts(body) = self.body(&comprehension.body, env) else {
            return Found::One(match comprehension.head {
                Collect::Array(_) => Known::Json(Vec::<Json>::new().into_iter().collect()),
                Collect::Set(_) => Known::Set(sorted_set(Vec::new())),
                Collect::Object(..) => Known::Json(Object::default().into()),
            });
        };
        let head = match &comprehension.head {
            Collect::Array(term) => Collect::Array(self.term(term, env)),
            Collect::Set(term) => Collect::Set(self.term(term, env)),
            Collect::Object(key, value) => {
                Collect::Object(self.term(key, env), self.term(value, env))
            }
        };
        let mut captures: Vec<Slot> = comprehension
            .captures
            .iter()
            .filter_map(|slot| match env.get(*slot) {
                Some(Variable::Known(_)) => None,
                Some(Variable::Alias(of)) => Some(*of),
                Some(Variable::Input) | None => Some(*slot),
            })
            .collect();
        captures.sort_unstable();
        captures.dedup();
        let left = Source::Comprehension(Box::new(Comprehension { head, body, captures }));
        self.folded(left, env)
    }

    fn call(&mut self, call: &Call, env: &mut Env) -> Found {
        let mut args: Vec<Term> = call.args.iter().map(|arg| self.term(arg, env)).collect();
        match call.callee {
            Callee::Function(group) => {
                if matches!(self.fact(group), Fact::Never) {
                    return Found::Nothing;
                }
            }
            Callee::Builtin(id) => {
                // Policies ask for parameters in this way when there may be none.
                let name = self.original.builtins.get(id.0 as usize).map(|it| it.name.as_str());
                if let (Some("object.get"), [object, key, default]) = (name, args.as_slice())
                    && env.is_input(object)
                    && let Some(found) = self.get_from_input(key, default)
                {
                    return found;
                }
                if let (Some("sprintf"), [_, Term::Array(items)]) = (name, args.as_mut_slice()) {
                    self.print(items);
                }
            }
        }
        self.folded(Source::Call(Call { callee: call.callee, args }), env)
    }

    /// Puts their text in the place of known values that `sprintf` prints as texts.
    fn print(&mut self, items: &mut [Term]) {
        for item in items {
            let is_new = match item {
                Term::Const(id) => id.0 as usize >= self.original.constants.len(),
                Term::ConstSet(id) => id.0 as usize >= self.original.sets.len(),
                _ => false,
            };
            let Some(value) = self.known(item).filter(|_| is_new) else { continue };
            if !value.value().is_composite() {
                continue;
            }
            let budget = self.budget.child(LIMITS);
            if let Ok(text) = value.value().to_text(&budget) {
                *item = self.constant(Known::Json(text.as_str().into()));
            }
        }
    }

    /// `object.get(input, key, default)`, if that can be known.
    fn get_from_input(&mut self, key: &Term, default: &Term) -> Option<Found> {
        let path = match self.known(key)? {
            Known::Json(Json::Array(path)) => path.to_vec(),
            Known::Json(key @ Json::String(_)) => vec![key],
            Known::Json(_) | Known::Set(_) => return None,
        };
        let (first, rest) = path.split_first()?;
        if first.as_str() != Some(self.key) {
            return None;
        }
        let mut value = Some(Known::Json(self.value.clone()));
        for key in rest {
            value = value.and_then(|value| value.get(&Known::Json(key.clone()), self.budget));
        }
        Some(match value {
            Some(value) => Found::One(value),
            None => match self.known(default) {
                Some(default) => Found::One(default),
                None => Found::Some(Source::Term(default.clone())),
            },
        })
    }

    /// The value of a source that reads nothing unknown, or the source.
    fn folded(&mut self, source: Source, env: &Env) -> Found {
        if !self.is_closed(&source) {
            return Found::Some(source);
        }
        match self.evaluate(&source, env.frame()) {
            Folded::Undefined => Found::Nothing,
            Folded::One(value) => Found::One(value),
            Folded::Unknown => Found::Some(source),
        }
    }

    /// Whether a known value matches, if that can be known; what is bound is then known.
    fn match_known(&mut self, pattern: &Pattern, value: &Known, env: &mut Env) -> Option<bool> {
        match pattern {
            Pattern::Any => Some(true),
            Pattern::Bind(slot) => {
                env.set(*slot, Some(Variable::Known(value.clone())));
                Some(true)
            }
            Pattern::Equal(term) => {
                let term = self.term(term, env);
                let other = self.known(&term)?;
                self.charge(&other);
                self.charge(value);
                Some(!self.is_spent() && other.value() == value.value())
            }
            Pattern::Array(items) => {
                let Known::Json(Json::Array(values)) = value else { return Some(false) };
                if items.len() != values.len() {
                    return Some(false);
                }
                for (item, value) in items.iter().zip(values.iter()) {
                    if !self.match_known(item, &Known::Json(value.clone()), env)? {
                        return Some(false);
                    }
                }
                Some(true)
            }
            Pattern::Object(entries) => {
                let Known::Json(Json::Object(object)) = value else { return Some(false) };
                if object.len() != entries.len() {
                    return Some(false);
                }
                for (key, pattern) in entries {
                    let key = self.term(key, env);
                    let Some(member) = value.get(&self.known(&key)?, self.budget) else {
                        return Some(false);
                    };
                    if !self.match_known(pattern, &member, env)? {
                        return Some(false);
                    }
                }
                Some(true)
            }
        }
    }

    pub(super) fn pattern(&mut self, pattern: &Pattern, env: &Env) -> Pattern {
        match pattern {
            Pattern::Any | Pattern::Bind(_) => pattern.clone(),
            Pattern::Equal(term) => Pattern::Equal(self.term(term, env)),
            Pattern::Array(items) => {
                Pattern::Array(items.iter().map(|item| self.pattern(item, env)).collect())
            }
            Pattern::Object(entries) => Pattern::Object(
                entries
                    .iter()
                    .map(|(key, item)| (self.term(key, env), self.pattern(item, env)))
                    .collect(),
            ),
        }
    }

    /// The term with what is known put in its place.
    pub(super) fn term(&mut self, term: &Term, env: &Env) -> Term {
        match term {
            Term::Const(_) | Term::ConstSet(_) => term.clone(),
            Term::Local(slot) => match env.get(*slot) {
                Some(Variable::Known(value)) => {
                    let value = value.clone();
                    self.constant(value)
                }
                Some(Variable::Alias(of)) => Term::Local(*of),
                Some(Variable::Input) | None => term.clone(),
            },
            Term::Array(items) => {
                let items: Vec<Term> = items.iter().map(|item| self.term(item, env)).collect();
                match self.all_json(&items) {
                    Some(values) => self.constant(Known::Json(values.into_iter().collect())),
                    None => Term::Array(items),
                }
            }
            Term::Set(items) => {
                let items: Vec<Term> = items.iter().map(|item| self.term(item, env)).collect();
                match self.all_json(&items) {
                    Some(values) => self.constant(Known::Set(sorted_set(values))),
                    None => Term::Set(items),
                }
            }
            Term::Object(entries) => {
                let entries: Vec<(Term, Term)> = entries
                    .iter()
                    .map(|(key, value)| (self.term(key, env), self.term(value, env)))
                    .collect();
                let members: Option<Vec<(String, Json)>> = entries
                    .iter()
                    .map(|(key, value)| match (self.known(key)?, self.known(value)?) {
                        (Known::Json(Json::String(key)), Known::Json(value)) => {
                            Some((key.as_str().to_owned(), value))
                        }
                        _ => None,
                    })
                    .collect();
                match members {
                    Some(members) => self.constant(Known::Json(members.into_iter().collect())),
                    None => Term::Object(entries),
                }
            }
        }
    }

    fn all_json(&self, items: &[Term]) -> Option<Vec<Json>> {
        items
            .iter()
            .map(|item| match self.known(item)? {
                Known::Json(json) => Some(json),
                Known::Set(_) => None,
            })
            .collect()
    }

    /// The value of a constant term.
    pub(super) fn known(&self, term: &Term) -> Option<Known> {
        match term {
            Term::Const(id) => self.constants.get(*id).cloned().map(Known::Json),
            Term::ConstSet(id) => self.sets.get(id.0 as usize).cloned().map(Known::Set),
            _ => None,
        }
    }

    /// A term for a value. The value is part of the program from then on, which is paid for.
    pub(super) fn constant(&mut self, value: Known) -> Term {
        let size = self.charge(&value);
        if self.is_spent() {
            // This program is dropped.
            return Term::Const(self.constants.add(Json::Null));
        }
        let known = self.constants.values().len();
        let term = match value {
            Known::Json(json) => Term::Const(self.constants.add(json)),
            Known::Set(items) => {
                self.sets.push(items);
                Term::ConstSet(SetId(u32::try_from(self.sets.len() - 1).unwrap_or(u32::MAX)))
            }
        };
        if matches!(term, Term::ConstSet(_)) || self.constants.values().len() > known {
            self.keep(size);
        }
        term
    }

    /// Whether a key of the input is the known one.
    fn is_known_member(&self, key: &Term) -> bool {
        matches!(self.known(key), Some(Known::Json(Json::String(name))) if name == self.key)
    }
}
