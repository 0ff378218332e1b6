//! Small functions in the place of their calls.
//!
//! A call costs more than the few statements that many functions consist of, and statements that know
//! the arguments may be known themselves.

use super::{Left, Specializer, known::Env};
use crate::{
    ast::Span,
    ir::{
        Body, Call, Callee, Group, GroupKind, Leaf, Pattern, Rule, Slot, Source, Stmt, StmtKind,
        Term, effects::holds_once, slots,
    },
};

/// A function of more statements is called.
const MAX_STATEMENTS: usize = 8;

/// A frame of more slots gets no further ones.
const MAX_FRAME: u32 = 256;

/// How many rules are tried for the constants among the arguments of calls.
const MAX_TRIED: u32 = 256;

/// How deep calls in the place of calls may nest.
const MAX_DEPTH: u32 = 16;

impl Specializer<'_> {
    /// The statements in place of a call that has to hold; `None` if it stays a call.
    pub(super) fn inlined_test(&mut self, call: &Call, span: Span, env: &mut Env) -> Option<Left> {
        let rules = self.small_function(call, span, env)?;
        if rules.is_empty() {
            return Some(Left::Never);
        }
        let body = if rules.iter().all(|rule| self.gives_true(rule)) {
            // If a rule that gives something else has been left out, all that are left run.
            let early = rules.len() < 2 || self.group_of(call).is_some_and(|it| it.exits_early);
            let mut bodies = rules.iter().flat_map(|rule| &rule.branches).map(|it| &it.body);
            if !early && bodies.any(|body| self.raises(body)) {
                return None;
            }
            self.some_rule(call, rules, span, env)?
        } else {
            let (mut body, leaf) = self.only_rule(call, rules, span, env)?;
            body.push(generated(StmtKind::Test(Source::Term(leaf)), span));
            body
        };
        Some(self.again(&body, env))
    }

    /// The statements in place of a call whose value is matched; `None` if it stays a call.
    pub(super) fn inlined_match(
        &mut self,
        call: &Call,
        pattern: &Pattern,
        span: Span,
        env: &mut Env,
    ) -> Option<Left> {
        let rules = self.small_function(call, span, env)?;
        if rules.is_empty() {
            return Some(Left::Never);
        }
        let (mut body, leaf) = self.only_rule(call, rules, span, env)?;
        body.push(generated(StmtKind::Match(Source::Term(leaf), pattern.clone()), span));
        Some(self.again(&body, env))
    }

    /// Specializes what has been put in a place.
    fn again(&mut self, body: &Body, env: &mut Env) -> Left {
        self.inlined += 1;
        let left = self.body(body, env);
        self.inlined -= 1;
        left
    }

    /// The rules of a function that is worth it, specialized; without those that never hold for the constants
    /// among the arguments.
    fn small_function(&mut self, call: &Call, span: Span, env: &Env) -> Option<Vec<Rule>> {
        let group = self.group_of(call)?;
        // Tables are looked up.
        let plain = matches!(group.kind, GroupKind::Function { .. })
            && group.default.is_none()
            && group.index.is_none();
        if !plain || self.inlined >= MAX_DEPTH {
            return None;
        }
        let mut rules = Vec::with_capacity(group.rules.len());
        for id in &group.rules {
            let rule = self.rules.get(id.0 as usize)?;
            if rule.branches.len() != 1 {
                return None;
            }
            rules.push(rule.clone());
        }
        if call.args.iter().any(|arg| self.known(arg).is_some()) {
            rules.retain(|rule| self.may_hold(call, rule, span, env));
        }
        let bodies = rules.iter().flat_map(|rule| &rule.branches);
        let statements: usize = bodies.map(|branch| count(&branch.body)).sum();
        (statements <= MAX_STATEMENTS).then_some(rules)
    }

    /// Whether a rule of a function may hold for these arguments.
    fn may_hold(&mut self, call: &Call, rule: &Rule, span: Span, env: &Env) -> bool {
        if self.tried >= MAX_TRIED {
            return true;
        }
        self.tried += 1;
        let mut env = env.clone();
        match here(call, rule.clone(), span, &mut env) {
            Some((body, _)) => !matches!(self.again(&body, &mut env), Left::Never),
            None => true,
        }
    }

    /// The rules of a function as far as they have been specialized.
    fn group_of(&self, call: &Call) -> Option<&Group> {
        let Callee::Function(id) = call.callee else { return None };
        self.groups.get(id.0 as usize)
    }

    fn gives_true(&self, rule: &Rule) -> bool {
        rule.branches.iter().all(|branch| match &branch.leaf {
            Leaf::Value(Term::Const(id)) => {
                self.constants.get(*id).is_some_and(|value| value.as_bool() == Some(true))
            }
            Leaf::Value(_) | Leaf::Member(_) => false,
        })
    }

    /// Holds if some rule of a function does that gives nothing but `true`.
    fn some_rule(&self, call: &Call, rules: Vec<Rule>, span: Span, env: &mut Env) -> Option<Body> {
        let mut bodies = Vec::with_capacity(rules.len());
        for rule in rules {
            bodies.push(here(call, rule, span, env)?.0);
        }
        match bodies.as_mut_slice() {
            [body] if holds_once(&self.original.builtins, body) => Some(std::mem::take(body)),
            _ => Some(vec![generated(StmtKind::Any(bodies), span)]),
        }
    }

    /// The body and the value of a function's one rule, if it has one value at most.
    fn only_rule(
        &self,
        call: &Call,
        rules: Vec<Rule>,
        span: Span,
        env: &mut Env,
    ) -> Option<(Body, Term)> {
        let [rule] = <[_; 1]>::try_from(rules).ok()?;
        if !rule.branches.iter().all(|branch| holds_once(&self.original.builtins, &branch.body)) {
            return None;
        }
        let (body, leaf) = here(call, rule, span, env)?;
        match leaf {
            Leaf::Value(term) => Some((body, term)),
            Leaf::Member(_) => None,
        }
    }
}

/// The body of a function's rule with variables of its own in another frame, and its value.
fn here(call: &Call, mut rule: Rule, span: Span, env: &mut Env) -> Option<(Body, Leaf)> {
    if env.frame().saturating_add(rule.frame) > MAX_FRAME {
        return None;
    }
    let first = env.grow(rule.frame);
    let mut moved = |slot: &mut Slot| *slot = Slot(slot.0.saturating_add(first));
    let mut branch = rule.branches.pop()?;
    slots::each_in_body(&mut branch.body, &mut moved);
    let (Leaf::Value(term) | Leaf::Member(term)) = &mut branch.leaf;
    slots::each_in_term(term, &mut moved);
    let mut body = Vec::with_capacity(rule.args.len() + branch.body.len());
    for (mut pattern, arg) in rule.args.into_iter().zip(&call.args) {
        slots::each_in_pattern(&mut pattern, &mut moved);
        body.push(generated(StmtKind::Match(Source::Term(arg.clone()), pattern), span));
    }
    body.extend(branch.body);
    Some((body, branch.leaf))
}

fn generated(kind: StmtKind, span: Span) -> Stmt {
    Stmt { kind, span, generated: true }
}

/// How many statements a body has, with those inside.
pub(super) fn count(body: &[Stmt]) -> usize {
    body.iter()
        .map(|stmt| match &stmt.kind {
            StmtKind::Test(source) | StmtKind::Match(source, _) => match source {
                Source::Comprehension(comprehension) => 1 + count(&comprehension.body),
                Source::Term(_) | Source::Ref(_) | Source::Call(_) => 1,
            },
            StmtKind::Not(body) | StmtKind::With(_, body) => 1 + count(body),
            StmtKind::Every(every) => 1 + count(&every.body),
            StmtKind::Any(bodies) | StmtKind::Each(bodies) => {
                1 + bodies.iter().map(|body| count(body)).sum::<usize>()
            }
        })
        .sum()
}
