//! Parts of a larger term that may be undefined become variables in front of the expression.
//!
//! After this, references and comprehensions stand only as whole expressions, as a side of an
//! equation, or as what an equation was made for; everything else in a body always has a value.
//! It comes after ordering, so what is hoisted stands directly before the expression it is from,
//! under the same `with` but never under the `not`: an undefined argument makes the body undefined.

use super::hir::{Body, Callee, Comprehension, Expr, ExprKind, Term, TermKind, Vars, With};

/// Hoists in every expression of a body. `is_equal` tells the operator `==`, whose operands are
/// left in place like those of `=`.
pub(super) fn body(vars: &mut Vars, body: &mut Body, is_equal: &dyn Fn(Callee) -> bool) {
    let mut hoister = Hoister { vars, is_equal };
    hoister.body(body);
}

struct Hoister<'h> {
    vars: &'h mut Vars,
    is_equal: &'h dyn Fn(Callee) -> bool,
}

impl Hoister<'_> {
    fn body(&mut self, body: &mut Body) {
        let mut out = Vec::with_capacity(body.len());
        for mut expr in std::mem::take(body) {
            self.expr(&mut expr, &mut out);
            out.push(expr);
        }
        *body = out;
    }

    fn expr(&mut self, expr: &mut Expr, out: &mut Body) {
        let with = std::mem::take(&mut expr.with);
        match &mut expr.kind {
            ExprKind::Term(term) => self.shallow(term, &with, out),
            ExprKind::Eq { left, right, .. } => {
                self.shallow(left, &with, out);
                self.shallow(right, &with, out);
            }
            ExprKind::Call(callee, args) => match args.as_mut_slice() {
                [left, right] if (self.is_equal)(*callee) => {
                    self.shallow(left, &with, out);
                    self.shallow(right, &with, out);
                }
                args => args.iter_mut().for_each(|arg| self.flat(arg, &with, out)),
            },
            ExprKind::Every(every) => {
                self.flat(&mut every.domain, &with, out);
                self.body(&mut every.body);
            }
            ExprKind::Not(inner) => self.body(inner),
        }
        expr.with = with;
    }

    /// Leaves a reference or comprehension where it is, but makes its parts plain.
    fn shallow(&mut self, term: &mut Term, with: &[With], out: &mut Body) {
        match &mut term.kind {
            TermKind::Ref(_, path) => {
                path.iter_mut().for_each(|part| self.flat(part, with, out));
            }
            TermKind::Comprehension(inner) => self.comprehension(inner),
            _ => self.flat(term, with, out),
        }
    }

    fn comprehension(&mut self, comprehension: &mut Comprehension) {
        self.body(&mut comprehension.body);
    }

    fn flat(&mut self, term: &mut Term, with: &[With], out: &mut Body) {
        match &mut term.kind {
            TermKind::Const(_) | TermKind::Var(_) => return,
            TermKind::Array(items) | TermKind::Set(items) => {
                items.iter_mut().for_each(|item| self.flat(item, with, out));
                return;
            }
            TermKind::Object(pairs) => {
                for (key, value) in pairs {
                    self.flat(key, with, out);
                    self.flat(value, with, out);
                }
                return;
            }
            TermKind::Ref(..) | TermKind::Comprehension(_) => self.shallow(term, with, out),
            // Expansion has left none.
            TermKind::Call(_, args) => args.iter_mut().for_each(|arg| self.flat(arg, with, out)),
        }
        let span = term.span;
        let local = self.vars.temporary(span);
        let right = std::mem::replace(term, local.clone());
        let kind = ExprKind::Eq { left: local, right, assign: false };
        let mut hoisted = Expr::generated(kind, span);
        hoisted.with = with.to_vec();
        out.push(hoisted);
    }
}
