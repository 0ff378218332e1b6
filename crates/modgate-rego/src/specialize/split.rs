//! Rules that iterate over a few constants.
//!
//! `field := ["runAsUser", "fsGroup"][_]` makes one rule out of several. Where it is several rules again, each
//! knows its constant, and calls and conditions that depend on it may be known, too.

use modgate_value::Value as Json;

use super::{
    Left, Specializer, inline,
    known::{Env, Known},
};
use crate::ir::{
    Base, Branch, Leaf, Operand, Pattern, Ref, Rule, Source, Stmt, StmtKind, Term,
    effects::holds_once,
};

/// Longer lists are iterated over.
const MAX_ELEMENTS: usize = 8;

/// Rules of more statements stay one rule.
const MAX_STATEMENTS: usize = 64;

impl Specializer<'_> {
    /// A rule of a set once for each constant that it iterates over; `None` if it stays one rule, because there
    /// would be more to do.
    ///
    /// Members come in the order in which the one rule has them.
    pub(super) fn split(&mut self, rule: &Rule) -> Option<Vec<Rule>> {
        let [Branch { body, leaf, span }] = rule.branches.as_slice() else { return None };
        let statements = inline::count(body);
        let at = body.iter().position(|stmt| self.elements(stmt).is_some())?;
        let (before, rest) = body.split_at_checked(at)?;
        if statements > MAX_STATEMENTS || !holds_once(&self.original.builtins, before) {
            return None;
        }
        let (stmt, after) = rest.split_first()?;
        let (elements, pattern) = self.elements(stmt)?;
        let mut rules = Vec::with_capacity(elements.len());
        for element in elements {
            let element = self.constant(Known::Json(element));
            let kind = StmtKind::Match(Source::Term(element), pattern.clone());
            let stmt = Stmt { kind, span: stmt.span, generated: stmt.generated };
            let all: Vec<Stmt> = before.iter().chain([&stmt]).chain(after).cloned().collect();
            let mut env = Env::new(rule.frame);
            let Left::Stmts(body) = self.body(&all, &mut env) else { continue };
            let leaf = match leaf {
                Leaf::Value(term) => Leaf::Value(self.term(term, &env)),
                Leaf::Member(term) => Leaf::Member(self.term(term, &env)),
            };
            let keys = rule.keys.iter().map(|key| self.term(key, &env)).collect();
            let mut one = Rule {
                frame: env.frame(),
                keys,
                branches: vec![Branch { body, leaf, span: *span }],
                // The first one answers for all where keys are known.
                keyed: if rules.is_empty() { rule.keyed.clone() } else { Vec::new() },
                ..rule.clone()
            };
            self.drop_unused_inputs(&mut one);
            rules.push(one);
        }
        let bodies = rules.iter().flat_map(|rule| &rule.branches);
        let left: usize = bodies.map(|branch| inline::count(&branch.body)).sum();
        (left <= 2 * statements).then_some(rules)
    }

    /// As [`body`](Self::body), where it counts only whether the body holds. One that iterates over a few
    /// constants is several bodies, of which one has to hold: most of them are short.
    pub(super) fn condition(&mut self, body: &[Stmt], env: &mut Env) -> Left {
        match self.body(body, env) {
            Left::Stmts(body) => self.alternatives(body, env),
            Left::Never => Left::Never,
        }
    }

    fn alternatives(&mut self, body: Vec<Stmt>, env: &mut Env) -> Left {
        let Some(at) = body.iter().position(|stmt| self.elements(stmt).is_some()) else {
            return Left::Stmts(body);
        };
        let (before, rest) = body.split_at(at);
        let Some((stmt, after)) = rest.split_first() else { return Left::Stmts(body) };
        let Some((elements, pattern)) = self.elements(stmt) else { return Left::Stmts(body) };
        let few = elements.len() * inline::count(after) <= MAX_STATEMENTS;
        if !few || !holds_once(&self.original.builtins, before) {
            return Left::Stmts(body);
        }
        let mut bodies = Vec::with_capacity(elements.len());
        for element in elements {
            let element = self.constant(Known::Json(element));
            let kind = StmtKind::Match(Source::Term(element), pattern.clone());
            let first = Stmt { kind, span: stmt.span, generated: stmt.generated };
            let all: Vec<Stmt> = [&first].into_iter().chain(after).cloned().collect();
            let mut inner = env.clone();
            if let Left::Stmts(body) = self.body(&all, &mut inner) {
                bodies.push(body);
            }
            env.grow(inner.frame().saturating_sub(env.frame()));
        }
        let mut left = before.to_vec();
        let Some(mut bodies) = self.some_of(bodies) else { return Left::Stmts(left) };
        match bodies.as_mut_slice() {
            [] => return self.never_behind(left),
            [body] => left.append(body),
            _ => {
                let kind = self.one_of(std::mem::take(&mut bodies));
                left.push(Stmt { kind, span: stmt.span, generated: true });
            }
        }
        Left::Stmts(left)
    }

    /// The constants that a statement iterates over, if it does, and their pattern.
    fn elements(&self, stmt: &Stmt) -> Option<(Vec<Json>, Pattern)> {
        let StmtKind::Match(Source::Ref(Ref { base, path }), pattern) = &stmt.kind else {
            return None;
        };
        let (Base::Term(Term::Const(id)), [Operand::Each(Pattern::Any)]) = (base, path.as_slice())
        else {
            return None;
        };
        let Json::Array(items) = self.constants.get(*id)? else { return None };
        (2..=MAX_ELEMENTS).contains(&items.len()).then(|| (items.to_vec(), pattern.clone()))
    }
}
