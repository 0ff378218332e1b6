//! Counting what evaluations of a program reach.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

use super::{Event, EventKind, Tracer};
use crate::{
    ast::Span,
    ir::{Body, GroupId, Program, Rule, Source, Stmt, StmtKind},
};

/// A place of a program that evaluations reach or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The expression, or the rule or `else` branch.
    pub span: Span,
    /// The kind of the place.
    pub kind: PlaceKind,
    /// The rules that a rule belongs to.
    pub group: Option<GroupId>,
    /// How often it held; of a rule: how often it produced a value.
    pub held: u64,
    /// How often it was tried and did not hold.
    pub failed: u64,
}

/// The kinds of places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlaceKind {
    /// A rule or an `else` branch, which produces values.
    Rule,
    /// An expression that can only fail where it is undefined: an assignment.
    Assignment,
    /// An expression that decides whether a body holds.
    Test,
}

/// Counts for the expressions and rules of one program, for any number of evaluations and threads.
#[derive(Debug, Default)]
pub struct Coverage {
    places: BTreeMap<(Span, PlaceKind), Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    group: Option<GroupId>,
    held: AtomicU64,
    failed: AtomicU64,
}

impl Coverage {
    /// Nothing reached yet.
    pub fn new(program: &Program) -> Self {
        let mut coverage = Self::default();
        for rule in &*program.rules {
            coverage.rule(rule);
        }
        coverage
    }

    /// The places, by module and then in the order in which they stand.
    pub fn places(&self) -> impl Iterator<Item = Place> {
        let mut places: Vec<Place> = self
            .places
            .iter()
            .map(|((span, kind), counts)| Place {
                span: *span,
                kind: *kind,
                group: counts.group,
                held: counts.held.load(Ordering::Relaxed),
                failed: counts.failed.load(Ordering::Relaxed),
            })
            .collect();
        places.sort_by_key(|place| (place.span.module, place.span.start, place.kind));
        places.into_iter()
    }

    /// Receives the events of one evaluation.
    pub fn tracer(&self) -> CoverageTracer<'_> {
        CoverageTracer(self)
    }

    fn rule(&mut self, rule: &Rule) {
        for branch in &rule.branches {
            let counts = Counts { group: Some(rule.group), ..Counts::default() };
            self.places.insert((branch.span, PlaceKind::Rule), counts);
            self.body(&branch.body);
        }
    }

    fn body(&mut self, body: &Body) {
        body.iter().for_each(|stmt| self.stmt(stmt));
    }

    fn stmt(&mut self, stmt: &Stmt) {
        let kind = match &stmt.kind {
            StmtKind::Match(source, _) => {
                self.source(source);
                PlaceKind::Assignment
            }
            StmtKind::Test(source) => {
                self.source(source);
                PlaceKind::Test
            }
            StmtKind::Not(body) => {
                self.body(body);
                PlaceKind::Test
            }
            StmtKind::Every(every) => {
                self.body(&every.body);
                PlaceKind::Test
            }
            // What it modifies has the same place.
            StmtKind::With(_, body) => return self.body(body),
            // What is inside has places of its own.
            StmtKind::Any(bodies) | StmtKind::Each(bodies) => {
                return bodies.iter().for_each(|body| self.body(body));
            }
        };
        if !stmt.generated {
            self.places.entry((stmt.span, kind)).or_default();
        }
    }

    fn source(&mut self, source: &Source) {
        if let Source::Comprehension(comprehension) = source {
            self.body(&comprehension.body);
        }
    }

    fn count(&self, span: Span, kind: PlaceKind, holds: bool) {
        if let Some(counts) = self.places.get(&(span, kind)) {
            let count = if holds { &counts.held } else { &counts.failed };
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Counts the events of one evaluation.
#[derive(Debug)]
pub struct CoverageTracer<'c>(&'c Coverage);

impl Tracer for CoverageTracer<'_> {
    fn event(&mut self, event: Event<'_, '_>) {
        let holds = event.kind == EventKind::Succeeded;
        self.0.count(event.span, PlaceKind::Assignment, holds);
        self.0.count(event.span, PlaceKind::Test, holds);
    }

    fn produced(&mut self, branch: Span) {
        self.0.count(branch, PlaceKind::Rule, true);
    }
}
