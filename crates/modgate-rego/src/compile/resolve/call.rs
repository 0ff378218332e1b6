//! The functions that calls name.

use super::{
    super::{
        errors::Late,
        hir::{Callee, Collect, Comprehension, Expr, ExprKind, Term, TermKind},
        symbols::scalar,
    },
    Occurrence, Resolver, Scope,
    names::{dotted, nearest},
};

use crate::{
    ast::{self, Span},
    builtins,
    error::Code,
    ir::GroupKind,
    mistake::{Detail, Mistake},
};

impl Resolver<'_, '_> {
    /// `print`: the set of the values of each operand, which is empty where it is undefined.
    pub(super) fn print(&mut self, args: &[ast::Term], span: Span) -> ExprKind {
        let mut sets = Vec::with_capacity(args.len());
        for arg in args {
            self.scopes.push(Scope::default());
            let value = self.term(arg);
            self.leave();
            let at = self.at(arg.span);
            let head = self.vars.temporary(at);
            let capture = ExprKind::Eq { left: head.clone(), right: value, assign: false };
            let kind = TermKind::Comprehension(Box::new(Comprehension {
                head: Collect::Set(head),
                body: vec![Expr::generated(capture, at)],
            }));
            sets.push(Term { kind, span: at });
        }
        let id = self.symbols.builtin("internal.print", 1);
        let sets = Term { kind: TermKind::Array(sets), span: self.at(span) };
        ExprKind::Call(Callee::Builtin(id, 1), vec![sets])
    }

    /// The function that an operator calls; `None` when that is an error.
    pub(super) fn callee(
        &mut self,
        operator: &ast::Term,
        args: &[Term],
        output: bool,
        span: Span,
    ) -> Option<Callee> {
        let parts = match &operator.kind {
            ast::TermKind::Ref(parts) => parts.as_slice(),
            _ => std::slice::from_ref(operator),
        };
        let name = dotted(parts);
        let head = match parts.first().map(|head| &head.kind) {
            Some(ast::TermKind::Var(head)) => head.clone(),
            _ => {
                self.late(span, Mistake::UndefinedFunction(name));
                return None;
            }
        };
        if self.declared(&head).is_some_and(|(_, occurrence)| occurrence != Occurrence::Seen) {
            if output {
                self.late(span, Mistake::UndefinedFunction(name));
            } else {
                self.error(Code::Compile, span, format!("called function {name} shadowed"));
            }
            return None;
        }
        let path = match (head.as_str(), self.global(&head)) {
            ("data", _) => Some(Vec::new()),
            (_, Some(global)) if !global.input => Some(global.path.clone()),
            _ => None,
        };
        let Some(mut path) = path else { return self.builtin(&name, args, output, span) };
        for part in parts.iter().skip(1) {
            match scalar(&part.kind) {
                Some(value) => path.push(self.symbols.constants.add(value)),
                None => {
                    self.late(span, Mistake::UndefinedFunction(name));
                    return None;
                }
            }
        }
        let group = self.symbols.group_at(&path);
        let kind = group
            .and_then(|group| self.symbols.groups.get(group.0 as usize))
            .map(|group| group.kind);
        let arity = match kind {
            Some(GroupKind::Function { arity }) => arity,
            // `f() = 1` is a rule; whether it may be called is up to the type checker.
            Some(_) => 0,
            None => {
                let text = self.symbols.path_text(&path);
                let known = self.symbols.function_paths();
                let help = nearest(&text, known.iter().map(String::as_str));
                self.late_with(span, Mistake::UndefinedFunction(text), Vec::new(), help);
                return None;
            }
        };
        let text = self.symbols.path_text(&path);
        let count = args.len();
        if count != arity && !(output && count == arity + 1) {
            let plural = if count == 1 { "" } else { "s" };
            self.late(
                span,
                format!("function {text} has arity {arity}, got {count} argument{plural}"),
            );
            return None;
        }
        Some(Callee::Function(group?, u32::try_from(arity).unwrap_or(u32::MAX)))
    }

    pub(super) fn builtin(
        &mut self,
        name: &str,
        args: &[Term],
        output: bool,
        span: Span,
    ) -> Option<Callee> {
        let Some(signature) = self.symbols.signature(name) else {
            let own = self.symbols.function_paths();
            let own = own.iter().filter_map(|path| path.rsplit('.').next());
            let help = nearest(name, builtins::all().map(|builtin| builtin.name).chain(own));
            let mistake = Mistake::UndefinedFunction(name.to_owned());
            self.late_with(span, mistake, Vec::new(), help);
            return None;
        };
        let arity = signature.arity as usize;
        if args.len() != arity && !(output && args.len() == arity + 1) {
            let details = super::super::types::arity_details(self.symbols, name, args, !output);
            self.late_with(span, Mistake::Arity(name.to_owned()), details, None);
            return None;
        }
        if signature.deprecated {
            self.late.is_deprecated_checked |= self.in_every == 0;
            if !self.deprecated_allowed {
                self.late.deprecated.push(Late {
                    code: Code::Type,
                    span: self.at(span),
                    mistake: Mistake::Deprecated(name.to_owned()),
                    details: Vec::new(),
                    help: None,
                });
            }
        }
        let id = self.symbols.builtin(name, signature.arity);
        Some(Callee::Builtin(id, signature.arity))
    }

    pub(super) fn late(&mut self, span: Span, mistake: impl Into<Mistake>) {
        self.late_with(span, mistake.into(), Vec::new(), None);
    }

    pub(super) fn late_with(
        &mut self,
        span: Span,
        mistake: Mistake,
        details: Vec<Detail>,
        help: Option<String>,
    ) {
        let span = self.at(span);
        self.late.calls.push(Late { code: Code::Type, span, mistake, details, help });
    }
}

pub(super) fn call_kind(callee: Callee, args: Vec<Term>) -> ExprKind {
    ExprKind::Call(callee, args)
}
