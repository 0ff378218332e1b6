//! Computing the parts of a program that do not depend on the rest of the input.

use std::{collections::BTreeSet, time::Duration};

use modgate_value::{Budget, Limits};

use super::{Fact, Specializer, known::Known};
use crate::{
    ast::Span,
    builtins::Isolated,
    eval,
    ir::{
        Base, Callee, Collect, GroupId, Leaf, Operand, Pattern, Program, Query, Ref, Rule, Slot,
        Source, Stmt, StmtKind, Term,
    },
    value::{Arena, Heap, Value},
};

/// The limits of one computation.
pub(super) const LIMITS: Limits = Limits { steps: 100_000, bytes: 1 << 20, time: Duration::MAX };

/// The result of a computation.
pub(super) enum Folded {
    /// It has no value.
    Undefined,
    /// It has this one.
    One(Known),
    /// It failed, or gave what cannot stand in a program.
    Unknown,
}

impl Specializer<'_> {
    /// The value of a source that reads nothing unknown, in a frame of so many slots.
    pub(super) fn evaluate(&self, source: &Source, frame: u32) -> Folded {
        let slot = Slot(frame);
        let kind = StmtKind::Match(source.clone(), Pattern::Bind(slot));
        let query = Query {
            program: self.so_far(),
            body: vec![Stmt { kind, span: Span::default(), generated: true }],
            frame: frame.saturating_add(1),
            outputs: vec![("".into(), slot)],
        };
        let budget = self.budget.child(LIMITS);
        let arena = Arena::new();
        match eval::query(&query, self.context(&arena, &budget)).as_deref() {
            Ok([]) => Folded::Undefined,
            Ok([row]) => {
                let value = row.first().and_then(|value| Known::of(*value, &budget));
                value.map_or(Folded::Unknown, Folded::One)
            }
            Ok(_) | Err(_) => Folded::Unknown,
        }
    }

    /// The document of a group that reads nothing unknown; `None` when it cannot be computed.
    pub(super) fn document(&self, id: GroupId) -> Option<Option<Known>> {
        let program = self.so_far();
        let budget = self.budget.child(LIMITS);
        let arena = Arena::new();
        match eval::document(&program, id, self.context(&arena, &budget)) {
            Ok(Some(value)) => Known::of(value, &budget).map(Some),
            Ok(None) => Some(None),
            Err(_) => None,
        }
    }

    /// The original program, with every constant found so far. Whatever is computed needs one.
    fn so_far(&self) -> Program {
        let copied = self.constants.values().len() + self.sets.len();
        // A spent budget shows in what is computed next.
        let _ = self.budget.spend((copied / 16) as u64);
        Program {
            constants: self.constants.values().into(),
            sets: self.sets.as_slice().into(),
            ..self.original.clone()
        }
    }

    fn context<'a>(&'a self, arena: &'a Arena, budget: &'a Budget<'a>) -> eval::Context<'a> {
        eval::Context {
            input: Some(Value::json(&self.input)),
            data: None,
            heap: Heap::new(arena, budget),
            host: &Isolated,
            // Statements that fail are left to fail when the program runs, strictly or not.
            strict_builtin_errors: true,
            tracer: None,
        }
    }

    /// Whether what a rule gives depends on its arguments alone.
    pub(super) fn is_closed_rule(&mut self, rule: &Rule) -> bool {
        rule.branches.iter().all(|branch| self.are_closed(&branch.body))
    }

    /// Whether a source reads nothing but constants and what it binds itself.
    pub(super) fn is_closed(&mut self, source: &Source) -> bool {
        let mut slots = Slots::default();
        slots.source(source);
        slots.read.is_subset(&slots.bound) && self.reads_nothing(source)
    }

    fn are_closed(&mut self, body: &[Stmt]) -> bool {
        body.iter().all(|stmt| match &stmt.kind {
            StmtKind::Test(source) | StmtKind::Match(source, _) => self.reads_nothing(source),
            StmtKind::Not(body) => self.are_closed(body),
            StmtKind::Every(every) => self.are_closed(&every.body),
            StmtKind::Any(bodies) | StmtKind::Each(bodies) => {
                bodies.iter().all(|body| self.are_closed(body))
            }
            StmtKind::With(..) => false,
        })
    }

    /// Whether a source reads neither input nor base documents nor the outside.
    fn reads_nothing(&mut self, source: &Source) -> bool {
        match source {
            Source::Term(_) => true,
            // Documents that could be computed have been put in their place already.
            Source::Ref(reference) => matches!(reference.base, Base::Term(_)),
            Source::Comprehension(comprehension) => self.are_closed(&comprehension.body),
            Source::Call(call) => match call.callee {
                Callee::Function(group) => {
                    matches!(self.fact(group), Fact::Dynamic { closed: true })
                }
                Callee::Builtin(id) => {
                    let builtin = self.original.builtins.get(id.0 as usize);
                    let run = builtin.and_then(|builtin| builtin.run);
                    run.is_some_and(|run| run.is_pure() && !run.relation)
                }
            },
        }
    }

    /// Drops statements that only fetch the whole input, when no other statement uses it.
    pub(super) fn drop_unused_inputs(&self, rule: &mut Rule) {
        let mut slots = Slots::default();
        rule.args.iter().for_each(|pattern| slots.pattern(pattern));
        rule.keys.iter().for_each(|key| slots.term(key));
        for branch in &rule.branches {
            slots.body(&branch.body);
            let (Leaf::Value(term) | Leaf::Member(term)) = &branch.leaf;
            slots.term(term);
        }
        for branch in &mut rule.branches {
            branch.body.retain(|stmt| match &stmt.kind {
                StmtKind::Match(
                    Source::Ref(Ref { base: Base::Input, path }),
                    Pattern::Bind(slot),
                ) => !path.is_empty() || slots.read.contains(slot),
                _ => true,
            });
        }
    }
}

/// Which slots something binds and reads.
#[derive(Default)]
struct Slots {
    bound: BTreeSet<Slot>,
    read: BTreeSet<Slot>,
}

impl Slots {
    fn body(&mut self, body: &[Stmt]) {
        for stmt in body {
            match &stmt.kind {
                StmtKind::Test(source) => self.source(source),
                StmtKind::Match(source, pattern) => {
                    self.source(source);
                    self.pattern(pattern);
                }
                StmtKind::Not(body) => self.body(body),
                StmtKind::Any(bodies) | StmtKind::Each(bodies) => {
                    bodies.iter().for_each(|body| self.body(body));
                }
                StmtKind::Every(every) => {
                    self.term(&every.domain);
                    self.pattern(&every.key);
                    self.pattern(&every.value);
                    self.body(&every.body);
                }
                StmtKind::With(_, body) => self.body(body),
            }
        }
    }

    fn source(&mut self, source: &Source) {
        match source {
            Source::Term(term) => self.term(term),
            Source::Ref(reference) => {
                if let Base::Term(term) = &reference.base {
                    self.term(term);
                }
                for step in &reference.path {
                    match step {
                        Operand::Key(term) => self.term(term),
                        Operand::Each(pattern) => self.pattern(pattern),
                    }
                }
            }
            Source::Comprehension(comprehension) => {
                self.body(&comprehension.body);
                match &comprehension.head {
                    Collect::Array(term) | Collect::Set(term) => self.term(term),
                    Collect::Object(key, value) => {
                        self.term(key);
                        self.term(value);
                    }
                }
            }
            Source::Call(call) => call.args.iter().for_each(|arg| self.term(arg)),
        }
    }

    fn pattern(&mut self, pattern: &Pattern) {
        match pattern {
            Pattern::Any => {}
            Pattern::Bind(slot) => {
                self.bound.insert(*slot);
            }
            Pattern::Equal(term) => self.term(term),
            Pattern::Array(items) => items.iter().for_each(|item| self.pattern(item)),
            Pattern::Object(entries) => {
                for (key, item) in entries {
                    self.term(key);
                    self.pattern(item);
                }
            }
        }
    }

    fn term(&mut self, term: &Term) {
        match term {
            Term::Const(_) | Term::ConstSet(_) => {}
            Term::Local(slot) => {
                self.read.insert(*slot);
            }
            Term::Array(items) | Term::Set(items) => items.iter().for_each(|item| self.term(item)),
            Term::Object(entries) => {
                for (key, value) in entries {
                    self.term(key);
                    self.term(value);
                }
            }
        }
    }
}
