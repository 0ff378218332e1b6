//! Ordering bodies so that everything is bound before it is read.
//!
//! Expressions keep their order as far as possible: again and again, every expression whose
//! inputs are bound by then is taken, first to last. What is left over in the end is unsafe.

use std::collections::{BTreeMap, BTreeSet};

use super::hir::{
    Body, Collect, Expr, ExprKind, Root, Term, TermKind, Var, Vars, Visit, WithValue,
    walk_closures, walk_expr, walk_term, walk_withs,
};
use crate::{ast::Span, error::Code, mistake::Mistake};

pub(super) type VarSet = BTreeSet<Var>;

/// Variables and where each stands first.
type Places = BTreeMap<Var, Span>;

/// How many expressions may be looked at while bodies of one rule are put in order.
///
/// Ordinary bodies are in order already and need one look each; one written back to front needs
/// as many passes as it has expressions.
const MAX_LOOKS: usize = 1_000_000;

/// The variables of expressions that could not be made safe.
#[derive(Debug, Default)]
pub(super) struct Unsafe {
    /// Expressions, and where in them each variable is.
    found: Vec<(Span, Places)>,
    looks: usize,
}

impl Unsafe {
    /// The errors to report: the variables that have names, or else the expressions.
    pub(super) fn errors(&self, vars: &Vars) -> Vec<(Code, Span, Mistake)> {
        if self.looks > MAX_LOOKS {
            let span = self.found.first().map_or_else(Span::default, |(span, _)| *span);
            let message = "rule takes too long to put in a safe order".into();
            return vec![(Code::Compile, span, message)];
        }
        let mut named: BTreeMap<Var, Span> = BTreeMap::new();
        for (_, places) in &self.found {
            for (var, span) in places.iter().filter(|(var, _)| !vars.is_temporary(**var)) {
                let place = named.entry(*var).or_insert(*span);
                *place = (*place).min(*span);
            }
        }
        if !named.is_empty() {
            let mut named: Vec<(Span, &str)> =
                named.into_iter().map(|(var, span)| (span, vars.name(var))).collect();
            named.sort_unstable();
            return named
                .into_iter()
                .map(|(span, name)| {
                    let is_keyword = matches!(name, "in" | "every" | "contains" | "if");
                    let name = name.to_owned();
                    (Code::UnsafeVar, span, Mistake::UnsafeVariable { name, is_keyword })
                })
                .collect();
        }
        self.found
            .iter()
            .map(|(span, _)| (Code::UnsafeVar, *span, Mistake::UnsafeExpression))
            .collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty() && self.looks <= MAX_LOOKS
    }
}

/// Puts a body in a safe order, the bodies inside it too. `bound` is what is known before.
pub(super) fn order(body: Body, bound: &VarSet, found: &mut Unsafe) -> Body {
    let mut here = VarSet::new();
    body.iter().for_each(|expr| {
        walk_expr(expr, Visit::OUTER, &mut |var, _| {
            here.insert(var);
        });
    });
    let mut safe = bound.clone();
    let mut waiting: Vec<(Expr, Needs)> =
        body.into_iter().map(|expr| (Needs::of(&expr, &here), expr)).map(|(n, e)| (e, n)).collect();
    let mut ordered = Vec::with_capacity(waiting.len());
    found.looks += bound.len();
    loop {
        let before = ordered.len();
        let mut left = Vec::new();
        for (expr, needs) in waiting {
            found.looks += 1;
            if found.looks > MAX_LOOKS {
                left.push((expr, needs));
                continue;
            }
            let outputs = outputs(&expr, &safe);
            let ready = needs.closures.is_subset(&safe)
                && needs.outer.iter().all(|var| safe.contains(var) || outputs.contains(var));
            if ready {
                safe.extend(outputs);
                ordered.push(expr);
            } else {
                left.push((expr, needs));
            }
        }
        waiting = left;
        if waiting.is_empty() || ordered.len() == before {
            break;
        }
    }
    let placed = ordered.len();
    for (expr, needs) in waiting {
        let outputs = outputs(&expr, &safe);
        let is_missing = |var: &Var| {
            (needs.outer.contains(var) && !safe.contains(var) && !outputs.contains(var))
                || (needs.closures.contains(var) && !safe.contains(var))
        };
        let mut missing = Places::new();
        let mut note = |var: Var, span: Span| {
            if is_missing(&var) {
                let place = missing.entry(var).or_insert(span);
                *place = (*place).min(span);
            }
        };
        walk_expr(&expr, Visit::OUTER, &mut note);
        walk_closures(&expr, &mut note);
        found.found.push((expr.span, missing));
        ordered.push(expr);
    }
    let mut known = bound.clone();
    for expr in ordered.iter_mut().take(placed) {
        closures(expr, &known, found);
        walk_expr(expr, Visit::OUTER, &mut |var, _| {
            known.insert(var);
        });
    }
    ordered
}

/// The variables that an expression touches.
struct Needs {
    outer: VarSet,
    /// Those inside closures that the body around them has too.
    closures: VarSet,
}

impl Needs {
    fn of(expr: &Expr, body: &VarSet) -> Self {
        let mut outer = VarSet::new();
        walk_expr(expr, Visit::OUTER, &mut |var, _| {
            outer.insert(var);
        });
        let mut closures = VarSet::new();
        walk_closures(expr, &mut |var, _| {
            if body.contains(&var) {
                closures.insert(var);
            }
        });
        Self { outer, closures }
    }
}

/// Orders the bodies inside an expression.
fn closures(expr: &mut Expr, bound: &VarSet, found: &mut Unsafe) {
    match &mut expr.kind {
        ExprKind::Term(term) => in_term(term, bound, expr.span, found),
        ExprKind::Eq { left, right, .. } => {
            in_term(left, bound, expr.span, found);
            in_term(right, bound, expr.span, found);
        }
        ExprKind::Call(_, args) => {
            args.iter_mut().for_each(|arg| in_term(arg, bound, expr.span, found));
        }
        ExprKind::Every(every) => {
            in_term(&mut every.domain, bound, expr.span, found);
            let mut inner = bound.clone();
            for term in every.key.iter().chain([&every.value]) {
                walk_term(term, Visit::ALL, &mut |var, _| {
                    inner.insert(var);
                });
            }
            every.body = order(std::mem::take(&mut every.body), &inner, found);
        }
        ExprKind::Not(body) => *body = order(std::mem::take(body), bound, found),
    }
    for with in &mut expr.with {
        if let WithValue::Term(term) = &mut with.value {
            in_term(term, bound, expr.span, found);
        }
    }
}

fn in_term(term: &mut Term, bound: &VarSet, span: Span, found: &mut Unsafe) {
    match &mut term.kind {
        TermKind::Const(_) | TermKind::Var(_) => {}
        TermKind::Array(items) | TermKind::Set(items) => {
            items.iter_mut().for_each(|item| in_term(item, bound, span, found));
        }
        TermKind::Object(pairs) => {
            for (key, value) in pairs {
                in_term(key, bound, span, found);
                in_term(value, bound, span, found);
            }
        }
        TermKind::Ref(_, path) => path.iter_mut().for_each(|t| in_term(t, bound, span, found)),
        TermKind::Call(_, args) => args.iter_mut().for_each(|t| in_term(t, bound, span, found)),
        TermKind::Comprehension(inner) => {
            let mut known = bound.clone();
            for expr in &inner.body {
                walk_expr(expr, Visit::OUTER, &mut |var, _| {
                    known.insert(var);
                });
            }
            let mut missing = Places::new();
            let mut check = |term: &Term| {
                walk_term(term, Visit::ALL, &mut |var, span| {
                    if !known.contains(&var) {
                        missing.entry(var).or_insert(span);
                    }
                });
            };
            match &inner.head {
                Collect::Array(term) | Collect::Set(term) => check(term),
                Collect::Object(key, value) => {
                    check(key);
                    check(value);
                }
            }
            if !missing.is_empty() {
                found.found.push((span, missing));
            }
            inner.body = order(std::mem::take(&mut inner.body), bound, found);
        }
    }
}

/// The variables that an expression binds when those in `safe` are bound.
pub(super) fn outputs(expr: &Expr, safe: &VarSet) -> VarSet {
    let mut out = VarSet::new();
    if expr.negated {
        return out;
    }
    let mut ready = true;
    walk_withs(&expr.with, Visit::OUTER, &mut |var, _| ready &= safe.contains(&var));
    if !ready {
        return out;
    }
    match &expr.kind {
        ExprKind::Term(term) => of_refs(term, safe, &mut out),
        ExprKind::Eq { left, right, assign } => {
            of_refs(left, safe, &mut out);
            of_refs(right, safe, &mut out);
            let mut assigned = VarSet::new();
            if *assign {
                walk_term(left, Visit::ALL, &mut |var, _| {
                    assigned.insert(var);
                });
            }
            let unified = VarSet::new();
            let mut unifier = Unifier { safe, outputs: &out, assigned, unified, waits: Vec::new() };
            unifier.unify(left, right);
            unifier.settle();
            let unified = unifier.unified;
            out.extend(unified);
        }
        ExprKind::Call(callee, args) => {
            args.iter().for_each(|arg| of_refs(arg, safe, &mut out));
            if let Some((inputs, outputs)) = args.split_at_checked(callee.arity())
                && !outputs.is_empty()
            {
                let mut ready = true;
                for input in inputs {
                    walk_term(input, Visit::BINDABLE, &mut |var, _| {
                        ready &= safe.contains(&var) || out.contains(&var);
                    });
                }
                if !ready {
                    return VarSet::new();
                }
                for output in outputs {
                    walk_term(output, Visit::BINDABLE, &mut |var, _| {
                        out.insert(var);
                    });
                }
            }
        }
        ExprKind::Every(every) => of_refs(&every.domain, safe, &mut out),
        ExprKind::Not(_) => {}
    }
    out
}

/// The operands of references that start from something bound.
fn of_refs(term: &Term, safe: &VarSet, out: &mut VarSet) {
    match &term.kind {
        TermKind::Const(_) | TermKind::Var(_) | TermKind::Comprehension(_) => {}
        TermKind::Array(items) | TermKind::Set(items) => {
            items.iter().for_each(|item| of_refs(item, safe, out));
        }
        TermKind::Object(pairs) => {
            for (key, value) in pairs {
                of_refs(key, safe, out);
                of_refs(value, safe, out);
            }
        }
        TermKind::Call(_, args) => args.iter().for_each(|arg| of_refs(arg, safe, out)),
        TermKind::Ref(root, path) => {
            let bound = match root {
                Root::Input | Root::Data => true,
                Root::Var(var) => safe.contains(var),
                Root::Term(_) => false,
            };
            if !bound {
                return;
            }
            let visit = Visit { closures: false, keys: true, roots: false };
            for part in path {
                walk_term(part, visit, &mut |var, _| {
                    out.insert(var);
                });
            }
            path.iter().for_each(|part| of_refs(part, safe, out));
        }
    }
}

/// Finds what a unification binds.
struct Unifier<'s> {
    safe: &'s VarSet,
    /// The variables that references in the expression bind.
    outputs: &'s VarSet,
    /// The variables that `:=` binds: never safe before.
    assigned: VarSet,
    unified: VarSet,
    /// A variable against a term: what the term binds once the variable is bound, and what has
    /// to be bound for the term to bind the variable.
    waits: Vec<(Var, VarSet, VarSet)>,
}

impl Unifier<'_> {
    fn is_safe(&self, var: Var) -> bool {
        self.unified.contains(&var)
            || (!self.assigned.contains(&var)
                && (self.safe.contains(&var) || self.outputs.contains(&var)))
    }

    fn mark(&mut self, term: &Term) {
        walk_term(term, Visit::BINDABLE, &mut |var, _| {
            self.unified.insert(var);
        });
    }

    fn unify(&mut self, left: &Term, right: &Term) {
        match (&left.kind, &right.kind) {
            (TermKind::Var(left), TermKind::Var(right)) => {
                self.waits.push((*left, VarSet::from([*right]), VarSet::from([*right])));
            }
            (TermKind::Var(var), TermKind::Array(_) | TermKind::Object(_))
            | (TermKind::Array(_) | TermKind::Object(_), TermKind::Var(var)) => {
                let composite = if matches!(left.kind, TermKind::Var(_)) { right } else { left };
                let mut inside = VarSet::new();
                walk_term(composite, Visit::BINDABLE, &mut |var, _| {
                    inside.insert(var);
                });
                let mut needed = VarSet::new();
                let visit = Visit { closures: false, keys: true, roots: false };
                walk_term(composite, visit, &mut |var, _| {
                    needed.insert(var);
                });
                self.waits.push((*var, inside, needed));
            }
            (TermKind::Ref(root, _), _) if self.is_bound(root) => self.mark(right),
            (_, TermKind::Ref(root, _)) if self.is_bound(root) => self.mark(left),
            (TermKind::Ref(..), _) | (_, TermKind::Ref(..)) => {}
            (TermKind::Comprehension(_), _) => self.mark(right),
            (_, TermKind::Comprehension(_)) => self.mark(left),
            (TermKind::Var(_), _) => self.mark(left),
            (_, TermKind::Var(_)) => self.mark(right),
            (TermKind::Array(left), TermKind::Array(right)) if left.len() == right.len() => {
                left.iter().zip(right).for_each(|(left, right)| self.unify(left, right));
            }
            (TermKind::Object(left), TermKind::Object(right)) if left.len() == right.len() => {
                for (key, value) in left {
                    if let Some((_, other)) = right.iter().find(|(other, _)| same(key, other)) {
                        self.unify(value, other);
                    }
                }
            }
            _ => {}
        }
    }

    fn is_bound(&self, root: &Root) -> bool {
        match root {
            Root::Input | Root::Data => true,
            Root::Var(var) => self.is_safe(*var),
            Root::Term(_) => false,
        }
    }

    /// Follows the waiting pairs until nothing changes.
    fn settle(&mut self) {
        let mut waits = std::mem::take(&mut self.waits);
        loop {
            let before = waits.len();
            let mut left = Vec::new();
            for (var, inside, needed) in waits {
                if self.is_safe(var) {
                    self.unified.extend(inside);
                } else if needed.iter().all(|other| self.is_safe(*other)) {
                    self.unified.insert(var);
                } else {
                    left.push((var, inside, needed));
                }
            }
            if left.len() == before {
                break;
            }
            waits = left;
        }
    }
}

/// Whether two keys are the same constant or variable.
fn same(left: &Term, right: &Term) -> bool {
    match (&left.kind, &right.kind) {
        (TermKind::Const(left), TermKind::Const(right)) => left == right,
        (TermKind::Var(left), TermKind::Var(right)) => left == right,
        _ => false,
    }
}
