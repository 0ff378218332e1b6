//! Calls, and heads that have to be evaluated, become expressions of their own.
//!
//! After this, a call stands only as an expression, a reference starts at a document or a
//! variable, and the head of a comprehension or rule is a plain term. What an expression needs is
//! put in front of it, outside its `not`: an undefined argument makes the body undefined.

use super::hir::{
    Body, Collect, Comprehension, Expr, ExprKind, Root, Term, TermKind, Vars, WithValue,
};

/// Expands every expression of a body.
pub(super) fn body(vars: &mut Vars, body: Body) -> Body {
    let mut out = Vec::with_capacity(body.len());
    for one in body {
        expr(vars, one, &mut out);
    }
    out
}

/// Makes a head term plain, adding to the body what that takes.
pub(super) fn head(vars: &mut Vars, term: &mut Term, out: &mut Body) {
    let mut support = Vec::new();
    self::term(vars, term, &mut support);
    if term.is_dynamic() {
        hoist(vars, term, &mut support);
    }
    append(out, support);
}

/// Adds expressions to a body; a body that only says `true` is replaced.
pub(super) fn append(out: &mut Body, more: Body) {
    if more.is_empty() {
        return;
    }
    if matches!(out.as_slice(), [only] if only.generated && is_constant(only)) {
        out.clear();
    }
    out.extend(more);
}

fn is_constant(expr: &Expr) -> bool {
    matches!(&expr.kind, ExprKind::Term(term) if matches!(term.kind, TermKind::Const(_)))
        && !expr.negated
}

/// Replaces a term by a variable and adds the equation of the variable.
fn hoist(vars: &mut Vars, term: &mut Term, out: &mut Body) {
    let span = term.span;
    let local = vars.temporary(span);
    let value = std::mem::replace(term, local.clone());
    let kind = ExprKind::Eq { left: local, right: value, assign: false };
    out.push(Expr::generated(kind, span));
}

fn expr(vars: &mut Vars, mut expr: Expr, out: &mut Body) {
    // Values of `with` are evaluated outside it.
    for with in &mut expr.with {
        if let WithValue::Term(value) = &mut with.value {
            term(vars, value, out);
            if value.is_dynamic() {
                hoist(vars, value, out);
            }
        }
    }
    let mut support = Vec::new();
    match &mut expr.kind {
        ExprKind::Term(value) => {
            // A call may be the whole expression.
            if let TermKind::Call(..) = value.kind {
                let whole = std::mem::replace(&mut value.kind, TermKind::Array(Vec::new()));
                if let TermKind::Call(callee, mut args) = whole {
                    args.iter_mut().for_each(|arg| term(vars, arg, &mut support));
                    expr.kind = ExprKind::Call(callee, args);
                }
            } else {
                term(vars, value, &mut support);
            }
        }
        ExprKind::Eq { left, right, .. } => {
            term(vars, left, &mut support);
            term(vars, right, &mut support);
        }
        ExprKind::Call(_, args) => args.iter_mut().for_each(|arg| term(vars, arg, &mut support)),
        ExprKind::Every(every) => {
            term(vars, &mut every.domain, &mut support);
            hoist(vars, &mut every.domain, &mut support);
            every.body = body(vars, std::mem::take(&mut every.body));
        }
        ExprKind::Not(inner) => *inner = body(vars, std::mem::take(inner)),
    }
    for mut one in support {
        one.with.clone_from(&expr.with);
        out.push(one);
    }
    out.push(expr);
}

fn term(vars: &mut Vars, term: &mut Term, out: &mut Body) {
    match &mut term.kind {
        TermKind::Const(_) | TermKind::Var(_) => {}
        TermKind::Array(items) | TermKind::Set(items) => {
            items.iter_mut().for_each(|item| self::term(vars, item, out));
        }
        TermKind::Object(pairs) => {
            for (key, value) in pairs {
                self::term(vars, key, out);
                self::term(vars, value, out);
            }
        }
        TermKind::Ref(root, path) => {
            if let Root::Term(head) = root {
                self::term(vars, head, out);
            }
            path.iter_mut().for_each(|part| self::term(vars, part, out));
            if let Root::Term(head) = root {
                if !matches!(head.kind, TermKind::Var(_)) {
                    hoist(vars, head, out);
                }
                if let TermKind::Var(var) = head.kind {
                    *root = Root::Var(var);
                }
            }
        }
        TermKind::Comprehension(inner) => comprehension(vars, inner),
        TermKind::Call(callee, args) => {
            args.iter_mut().for_each(|arg| self::term(vars, arg, out));
            let span = term.span;
            let output = vars.temporary(span);
            let mut args = std::mem::take(args);
            args.push(output.clone());
            out.push(Expr::generated(ExprKind::Call(*callee, args), span));
            *term = output;
        }
    }
}

fn comprehension(vars: &mut Vars, comprehension: &mut Comprehension) {
    let mut inner = body(vars, std::mem::take(&mut comprehension.body));
    match &mut comprehension.head {
        Collect::Array(term) | Collect::Set(term) => head(vars, term, &mut inner),
        Collect::Object(key, value) => {
            head(vars, key, &mut inner);
            head(vars, value, &mut inner);
        }
    }
    comprehension.body = inner;
}
