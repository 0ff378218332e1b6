//! Names to what they mean, rule by rule.
//!
//! A name is a local variable, a rule of the package, an import, or a variable of the whole rule.
//! Scopes follow OPA's two passes: what a body declares anywhere hides rules and imports in all of
//! it, but a declared variable can be used only after its declaration.

mod call;
mod names;
mod with;

use std::collections::{BTreeMap, BTreeSet};

use modgate_value::{Str, Value};

use self::{
    call::call_kind,
    names::{declared_names, pattern_names},
};
use super::{
    errors::{Errors, Late, Later},
    hir::{
        Body, Callee, Collect, Comprehension, Every, Expr, ExprKind, Root, Term, TermKind, Var,
        Vars,
    },
    symbols::{Symbols, scalar},
};
use crate::{
    ast::{self, Module, Span, TemplatePart, operator_name},
    error::Code,
    ir::ConstId,
    mistake::Mistake,
};

/// The meaning of a name outside any rule: `data` or `input`, and a path.
#[derive(Debug, Clone)]
struct Global {
    input: bool,
    path: Vec<ConstId>,
}

/// The names that are known throughout a module.
#[derive(Debug, Default)]
pub(super) struct Globals(BTreeMap<Str, Global>);

impl Globals {
    pub(super) fn new(symbols: &mut Symbols, modules: &[Module], module: &Module) -> Self {
        let mut globals = BTreeMap::new();
        let package: Vec<ConstId> =
            module.package.iter().map(|name| symbols.constants.string(name)).collect();
        for other in modules.iter().filter(|other| other.package == module.package) {
            for rule in &other.rules {
                if let Some(ast::Term { kind: ast::TermKind::Var(name), .. }) =
                    rule.head.name.first()
                {
                    let mut path = package.clone();
                    path.push(symbols.constants.string(name));
                    globals.insert(name.clone(), Global { input: false, path });
                }
            }
        }
        for import in &module.imports {
            let path =
                import.path.iter().skip(1).map(|name| symbols.constants.string(name)).collect();
            let input = import.path.first().is_some_and(|root| root == "input");
            globals.insert(Str::from(import.name()), Global { input, path });
        }
        Self(globals)
    }
}

/// How a name first occurred in a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Occurrence {
    Arg,
    Seen,
    Assigned,
    Declared,
}

#[derive(Debug, Default)]
struct Scope {
    names: BTreeMap<Str, (Var, Occurrence)>,
    /// Names that the scope's body declares somewhere: these are never rules or imports.
    hides: BTreeSet<Str>,
    /// Variables that have to be used, and where they were declared.
    declared: Vec<(Var, Span)>,
}

/// Resolves the names of one rule.
pub(super) struct Resolver<'c, 'm> {
    symbols: &'c mut Symbols,
    globals: &'c Globals,
    errors: &'c mut Errors<'m>,
    /// Errors of a later stage, worth reporting only when there are no earlier ones.
    late: &'c mut Later,
    vars: Vars,
    scopes: Vec<Scope>,
    /// Variables that were never declared: one per name in the whole rule.
    plain: BTreeMap<Str, Var>,
    module: u32,
    deprecated_allowed: bool,
    /// In how many bodies of `every` we are.
    in_every: usize,
    /// Errors that are reported only when the rule has no others.
    unused: Vec<(Span, String)>,
    failed: bool,
}

/// A branch of a rule, resolved.
#[derive(Debug)]
pub(super) struct Branch {
    pub(super) body: Body,
    pub(super) keys: Vec<Term>,
    /// The value, or the member.
    pub(super) leaf: Term,
}

impl<'c, 'm> Resolver<'c, 'm> {
    pub(super) fn new(
        symbols: &'c mut Symbols,
        globals: &'c Globals,
        errors: &'c mut Errors<'m>,
        late: &'c mut Later,
        module: u32,
        deprecated_allowed: bool,
    ) -> Self {
        Self {
            symbols,
            globals,
            errors,
            late,
            vars: Vars::default(),
            scopes: vec![Scope::default()],
            plain: BTreeMap::new(),
            module,
            deprecated_allowed,
            in_every: 0,
            unused: Vec::new(),
            failed: false,
        }
    }

    /// The rule's variables, when all of it has been resolved.
    pub(super) fn finish(self) -> Vars {
        if !self.failed {
            for (span, message) in self.unused {
                self.errors.push(Code::Compile, span, message);
            }
        }
        self.vars
    }

    /// The arguments of a function; their variables are known in all its branches.
    pub(super) fn args(&mut self, args: &[ast::Term]) -> Vec<Term> {
        let mut names = BTreeSet::new();
        for arg in args {
            self.arg_names(arg, &mut names);
        }
        if let Some(scope) = self.scopes.last_mut() {
            scope.hides = names;
        }
        args.iter().map(|arg| self.arg(arg)).collect()
    }

    fn arg_names(&mut self, term: &ast::Term, names: &mut BTreeSet<Str>) {
        match &term.kind {
            ast::TermKind::Var(name) => {
                names.insert(name.clone());
            }
            ast::TermKind::Array(items) => {
                items.iter().for_each(|item| self.arg_names(item, names));
            }
            ast::TermKind::Object(pairs) => {
                pairs.iter().for_each(|(_, value)| self.arg_names(value, names));
            }
            ast::TermKind::Ref(parts) => {
                if let [ast::Term { kind: ast::TermKind::Var(name), .. }] = parts.as_slice() {
                    let message =
                        format!("args must not shadow {name} (use a different variable name)");
                    self.error(Code::Compile, term.span, message);
                }
            }
            _ => {}
        }
    }

    fn arg(&mut self, term: &ast::Term) -> Term {
        let span = self.at(term.span);
        let kind = match &term.kind {
            ast::TermKind::Var(name) => {
                let known = self.scopes.last().and_then(|scope| scope.names.get(name));
                let var = match known {
                    Some((var, _)) => *var,
                    None => {
                        let var = self.vars.add(name.clone());
                        if let Some(scope) = self.scopes.last_mut() {
                            scope.names.insert(name.clone(), (var, Occurrence::Arg));
                        }
                        var
                    }
                };
                TermKind::Var(var)
            }
            ast::TermKind::Array(items) => {
                TermKind::Array(items.iter().map(|item| self.arg(item)).collect())
            }
            ast::TermKind::Object(pairs) => TermKind::Object(
                pairs.iter().map(|(key, value)| (self.term(key), self.arg(value))).collect(),
            ),
            ast::TermKind::Call(..) => {
                self.error(Code::Compile, term.span, "rule arguments cannot contain calls");
                return Term { kind: TermKind::Array(Vec::new()), span };
            }
            ast::TermKind::Ref(parts) => {
                // OPA takes the root of the reference for a parameter that nothing binds.
                let root = match self.reference(parts, span).kind {
                    TermKind::Ref(Root::Input, _) => "input",
                    _ => "data",
                };
                self.late.calls.push(Late {
                    code: Code::UnsafeVar,
                    span,
                    mistake: Mistake::UnsafeVariable { name: root.to_owned(), is_keyword: false },
                    details: Vec::new(),
                    help: None,
                });
                return Term { kind: TermKind::Array(Vec::new()), span };
            }
            _ => return self.term(term),
        };
        Term { kind, span }
    }

    /// One branch: its body in a scope of its own, then what the head says about it.
    pub(super) fn branch(
        &mut self,
        body: &[ast::Expr],
        keys: &[ast::Term],
        leaf: &ast::Term,
    ) -> Branch {
        let mut scope = Scope::default();
        // The scope is the arguments' own, so that they cannot be declared again.
        if let Some(args) = self.scopes.first() {
            scope.names.clone_from(&args.names);
            scope.hides.clone_from(&args.hides);
        }
        declared_names(body, &mut scope.hides);
        self.scopes.push(scope);
        let body = self.body(body);
        let keys = keys.iter().map(|key| self.term(key)).collect();
        let leaf = self.term(leaf);
        self.leave();
        Branch { body, keys, leaf }
    }

    /// A query: a body whose variables are its result.
    pub(super) fn query(&mut self, body: &[ast::Expr]) -> (Body, Vec<(Str, Var)>) {
        let mut scope = Scope::default();
        declared_names(body, &mut scope.hides);
        self.scopes.push(scope);
        let body = self.body(body);
        let mut outputs: BTreeMap<Str, Var> = BTreeMap::new();
        if let Some(scope) = self.scopes.last() {
            for (name, (var, _)) in &scope.names {
                if !name.starts_with('$') {
                    outputs.insert(name.clone(), *var);
                }
            }
        }
        self.leave();
        (body, outputs.into_iter().collect())
    }

    fn at(&self, span: Span) -> Span {
        Span { module: self.module, ..span }
    }

    fn error(&mut self, code: Code, span: Span, mistake: impl Into<Mistake>) {
        let span = self.at(span);
        self.failed = true;
        self.errors.push(code, span, mistake);
    }

    fn leave(&mut self) {
        let Some(scope) = self.scopes.pop() else { return };
        for (var, span) in scope.declared {
            if self.vars.get(var).is_some_and(|info| info.uses == 0) {
                let message = format!("declared var {} unused", self.vars.name(var));
                self.unused.push((span, message));
            }
        }
    }

    // Names.

    fn declared(&self, name: &str) -> Option<(Var, Occurrence)> {
        self.scopes.iter().rev().find_map(|scope| scope.names.get(name).copied())
    }

    fn global(&self, name: &str) -> Option<&Global> {
        if self.scopes.iter().any(|scope| scope.hides.contains(name)) {
            return None;
        }
        self.globals.0.get(name)
    }

    /// The variable a name means here, when it is one.
    fn variable(&mut self, name: &Str) -> Option<Var> {
        if let Some((var, _)) = self.declared(name) {
            self.vars.used(var);
            return Some(var);
        }
        if self.global(name).is_some() {
            return None;
        }
        let var = match self.plain.get(name) {
            Some(var) => *var,
            None => {
                let var = self.vars.add(name.clone());
                self.plain.insert(name.clone(), var);
                var
            }
        };
        self.vars.used(var);
        if let Some(scope) = self.scopes.last_mut() {
            scope.names.insert(name.clone(), (var, Occurrence::Seen));
        }
        Some(var)
    }

    fn declare(&mut self, name: &Str, span: Span, occurrence: Occurrence) -> Var {
        let known = self.scopes.last().and_then(|scope| scope.names.get(name)).copied();
        if let Some((var, before)) = known {
            let mistake = match before {
                Occurrence::Seen => format!("var {name} referenced above").into(),
                Occurrence::Assigned => Mistake::AssignedAbove(name.to_string()),
                Occurrence::Declared => format!("var {name} declared above").into(),
                Occurrence::Arg => format!("arg {name} redeclared").into(),
            };
            self.error(Code::Compile, span, mistake);
            return var;
        }
        let var = self.vars.add(name.clone());
        if let Some(scope) = self.scopes.last_mut() {
            scope.names.insert(name.clone(), (var, occurrence));
        }
        var
    }

    fn constant(&mut self, value: Value, span: Span) -> Term {
        Term { kind: TermKind::Const(self.symbols.constants.add(value)), span: self.at(span) }
    }

    // Bodies.

    fn body(&mut self, body: &[ast::Expr]) -> Body {
        let mut out = Vec::new();
        for expr in body {
            if let Some(expr) = self.expr(expr) {
                out.push(expr);
            }
        }
        if out.is_empty() {
            let span = body.first().map_or_else(Span::default, |expr| expr.span);
            let kind = ExprKind::Term(self.constant(Value::Bool(true), span));
            out.push(Expr::generated(kind, self.at(span)));
        }
        out
    }

    fn expr(&mut self, expr: &ast::Expr) -> Option<Expr> {
        let span = self.at(expr.span);
        let mut with = None;
        let kind = match &expr.kind {
            ast::ExprKind::Some(names) => {
                for (name, name_span) in names {
                    let var = self.declare(name, expr.span, Occurrence::Declared);
                    let span = self.at(*name_span);
                    if let Some(scope) = self.scopes.last_mut()
                        && !name.starts_with('$')
                    {
                        scope.declared.push((var, span));
                    }
                }
                return None;
            }
            ast::ExprKind::SomeIn { key, value, domain } => self.some_in(expr, key, value, domain),
            ast::ExprKind::Every { key, value, domain, body } => {
                self.every(expr.span, key, value, domain, body)
            }
            ast::ExprKind::Not(body) => {
                self.scopes.push(Scope::default());
                let body = self.body(body);
                self.leave();
                ExprKind::Not(body)
            }
            ast::ExprKind::Term(term) => match &term.kind {
                ast::TermKind::Call(operator, args) => {
                    match (operator_name(operator), args.as_slice()) {
                        (Some("assign"), [left, right]) => {
                            if expr.negated {
                                let message = "cannot assign vars inside negated expression";
                                self.error(Code::Compile, expr.span, message);
                                return None;
                            }
                            let right = self.term(right);
                            with = Some(self.withs(&expr.with));
                            let left = self.assignee(left);
                            ExprKind::Eq { left, right, assign: true }
                        }
                        (Some("eq"), [left, right]) => {
                            let left = self.term(left);
                            let right = self.term(right);
                            ExprKind::Eq { left, right, assign: false }
                        }
                        (Some("print"), _)
                            if self.symbols.print && self.global("print").is_none() =>
                        {
                            self.print(args, term.span)
                        }
                        (Some("print"), _) if self.global("print").is_none() => {
                            // Erased, as in OPA's default configuration; names still count.
                            let late = self.late.mark();
                            for arg in args {
                                self.term(arg);
                            }
                            self.late.rewind(late);
                            return None;
                        }
                        _ => {
                            let args: Vec<Term> = args.iter().map(|arg| self.term(arg)).collect();
                            match self.callee(operator, &args, true, term.span) {
                                Some(callee) => call_kind(callee, args),
                                None => return None,
                            }
                        }
                    }
                }
                _ => ExprKind::Term(self.term(term)),
            },
        };
        let with = match with {
            Some(with) => with,
            None => self.withs(&expr.with),
        };
        Some(Expr { kind, negated: expr.negated, with, span, generated: expr.generated })
    }

    fn every(
        &mut self,
        place: Span,
        key: &Option<ast::Term>,
        value: &ast::Term,
        domain: &ast::Term,
        body: &ast::Body,
    ) -> ExprKind {
        let domain = self.term(domain);
        let mut scope = Scope::default();
        for term in key.iter().chain([value]) {
            if let ast::TermKind::Var(name) = &term.kind {
                scope.hides.insert(name.clone());
            }
        }
        self.scopes.push(scope);
        let mut binder = |term: &ast::Term| match &term.kind {
            ast::TermKind::Var(name) => {
                let var = self.declare(name, place, Occurrence::Declared);
                let span = self.at(place);
                if let Some(scope) = self.scopes.last_mut()
                    && !name.starts_with('$')
                {
                    scope.declared.push((var, span));
                }
                Term { kind: TermKind::Var(var), span: self.at(term.span) }
            }
            _ => self.term(term),
        };
        let key = key.as_ref().map(&mut binder);
        let value = binder(value);
        self.in_every += 1;
        let body = self.body(body);
        self.in_every -= 1;
        self.leave();
        ExprKind::Every(Box::new(Every { key, value, domain, body }))
    }

    /// `some k, v in xs` is `v = xs[k]`, with the new variables of both patterns declared.
    fn some_in(
        &mut self,
        expr: &ast::Expr,
        key: &Option<ast::Term>,
        value: &ast::Term,
        domain: &ast::Term,
    ) -> ExprKind {
        let domain = self.term(domain);
        let mut patterns = BTreeSet::new();
        for term in key.iter().chain([value]) {
            pattern_names(term, &mut patterns);
        }
        for name in patterns {
            self.declare(&name, expr.span, Occurrence::Declared);
        }
        let value = self.term(value);
        let key = match key {
            Some(key) => self.term(key),
            None => {
                let span = value.span;
                self.vars.temporary(span)
            }
        };
        let span = domain.span;
        let kind = match domain.kind {
            TermKind::Ref(root, mut path) => {
                path.push(key);
                TermKind::Ref(root, path)
            }
            TermKind::Var(var) => TermKind::Ref(Root::Var(var), vec![key]),
            _ => TermKind::Ref(Root::Term(Box::new(domain)), vec![key]),
        };
        ExprKind::Eq { left: value, right: Term { kind, span }, assign: false }
    }

    fn assignee(&mut self, term: &ast::Term) -> Term {
        let span = self.at(term.span);
        let kind = match &term.kind {
            ast::TermKind::Var(name) => {
                TermKind::Var(self.declare(name, term.span, Occurrence::Assigned))
            }
            ast::TermKind::Ref(parts) => match parts.as_slice() {
                [ast::Term { kind: ast::TermKind::Var(name), .. }] => {
                    TermKind::Var(self.declare(name, term.span, Occurrence::Assigned))
                }
                _ => return self.cannot_assign(term),
            },
            ast::TermKind::Array(items) => {
                TermKind::Array(items.iter().map(|item| self.assignee(item)).collect())
            }
            ast::TermKind::Object(pairs) => TermKind::Object(
                pairs.iter().map(|(key, value)| (self.term(key), self.assignee(value))).collect(),
            ),
            _ => return self.cannot_assign(term),
        };
        Term { kind, span }
    }

    fn cannot_assign(&mut self, term: &ast::Term) -> Term {
        let message = format!("cannot assign to {}", term.kind.type_name());
        self.error(Code::Compile, term.span, message);
        self.constant(Value::Null, term.span)
    }

    // Terms.

    fn term(&mut self, term: &ast::Term) -> Term {
        let span = self.at(term.span);
        let kind = match &term.kind {
            ast::TermKind::Null
            | ast::TermKind::Bool(_)
            | ast::TermKind::Number(_)
            | ast::TermKind::String(_) => {
                return self.constant(scalar(&term.kind).unwrap_or(Value::Null), term.span);
            }
            ast::TermKind::Var(name) => match self.variable(name) {
                Some(var) => TermKind::Var(var),
                None => self.global_ref(name, term.span, Vec::new()),
            },
            ast::TermKind::Ref(parts) => return self.reference(parts, span),
            ast::TermKind::Array(items) => {
                TermKind::Array(items.iter().map(|item| self.term(item)).collect())
            }
            ast::TermKind::Set(items) => {
                TermKind::Set(items.iter().map(|item| self.term(item)).collect())
            }
            ast::TermKind::Object(pairs) => self.object(pairs),
            ast::TermKind::ArrayComprehension(head, body) => {
                let (head, body) = self.closure(body, |this| this.term(head));
                let head = Collect::Array(head);
                TermKind::Comprehension(Box::new(Comprehension { head, body }))
            }
            ast::TermKind::SetComprehension(head, body) => {
                let (head, body) = self.closure(body, |this| this.term(head));
                let head = Collect::Set(head);
                TermKind::Comprehension(Box::new(Comprehension { head, body }))
            }
            ast::TermKind::ObjectComprehension(head, body) => {
                let ((key, value), body) =
                    self.closure(body, |this| (this.term(&head.0), this.term(&head.1)));
                let head = Collect::Object(key, value);
                TermKind::Comprehension(Box::new(Comprehension { head, body }))
            }
            ast::TermKind::Call(operator, args) => {
                let args: Vec<Term> = args.iter().map(|arg| self.term(arg)).collect();
                match self.callee(operator, &args, false, term.span) {
                    Some(callee) => TermKind::Call(callee, args),
                    None => return self.constant(Value::Null, term.span),
                }
            }
            ast::TermKind::Template(parts) => self.template(parts, term.span),
        };
        Term { kind, span }
    }

    /// Of members with the same key only the last is there at all.
    fn object(&mut self, pairs: &[(ast::Term, ast::Term)]) -> TermKind {
        let mut places: BTreeMap<(bool, u32), usize> = BTreeMap::new();
        let mut out: Vec<(Term, &ast::Term)> = Vec::with_capacity(pairs.len());
        for (key, value) in pairs {
            let key = self.term(key);
            let same = match key.kind {
                TermKind::Const(id) => Some((true, id.0)),
                TermKind::Var(var) => Some((false, var)),
                _ => None,
            };
            let place = same.and_then(|same| places.get(&same)).copied();
            match place.and_then(|place| out.get_mut(place)) {
                Some(before) => before.1 = value,
                None => {
                    places.extend(same.map(|same| (same, out.len())));
                    out.push((key, value));
                }
            }
        }
        TermKind::Object(out.into_iter().map(|(key, value)| (key, self.term(value))).collect())
    }

    fn closure<T>(&mut self, body: &[ast::Expr], head: impl FnOnce(&mut Self) -> T) -> (T, Body) {
        let mut scope = Scope::default();
        declared_names(body, &mut scope.hides);
        self.scopes.push(scope);
        // OPA checks the types of comprehensions wherever they are.
        let in_every = std::mem::take(&mut self.in_every);
        let body = self.body(body);
        let head = head(self);
        self.in_every = in_every;
        self.leave();
        (head, body)
    }

    fn global_ref(&mut self, name: &str, span: Span, rest: Vec<Term>) -> TermKind {
        let Some(global) = self.global(name) else { return TermKind::Ref(Root::Data, rest) };
        let root = if global.input { Root::Input } else { Root::Data };
        let span = self.at(span);
        let mut path: Vec<Term> =
            global.path.iter().map(|key| Term { kind: TermKind::Const(*key), span }).collect();
        path.extend(rest);
        TermKind::Ref(root, path)
    }

    fn reference(&mut self, parts: &[ast::Term], span: Span) -> Term {
        let Some((head, rest)) = parts.split_first() else {
            return self.constant(Value::Null, span);
        };
        let kind = match &head.kind {
            ast::TermKind::Var(name) => {
                // Declared variables and, in version 0, rules may hide even `input` and `data`.
                let root = (name == "input" || name == "data") && self.global(name).is_none();
                let local = self
                    .declared(name)
                    .filter(|(_, occurrence)| !root || *occurrence != Occurrence::Seen);
                if local.is_none() && root {
                    let path = rest.iter().map(|part| self.term(part)).collect();
                    let root = if name == "input" { Root::Input } else { Root::Data };
                    TermKind::Ref(root, path)
                } else {
                    let var = self.variable(name);
                    let path: Vec<Term> = rest.iter().map(|part| self.term(part)).collect();
                    match var {
                        Some(var) if path.is_empty() => TermKind::Var(var),
                        Some(var) => TermKind::Ref(Root::Var(var), path),
                        None => self.global_ref(name, head.span, path),
                    }
                }
            }
            _ => {
                let head = self.term(head);
                let path = rest.iter().map(|part| self.term(part)).collect();
                TermKind::Ref(Root::Term(Box::new(head)), path)
            }
        };
        Term { kind, span }
    }

    fn template(&mut self, parts: &[TemplatePart], span: Span) -> TermKind {
        let mut items = Vec::new();
        for part in parts {
            let expr = match part {
                TemplatePart::Text(text) => {
                    items.push(self.constant(Value::String(text.clone()), span));
                    continue;
                }
                TemplatePart::Expr(expr) => expr,
            };
            let ast::ExprKind::Term(term) = &expr.kind else { continue };
            if let Some(value) = scalar(&term.kind) {
                items.push(self.constant(value, term.span));
                continue;
            }
            self.scopes.push(Scope::default());
            let value = self.term(term);
            let with = self.withs(&expr.with);
            self.leave();
            let at = self.at(term.span);
            let kind = if matches!(value.kind, TermKind::Var(_)) {
                TermKind::Set(vec![value])
            } else {
                let head = self.vars.temporary(at);
                let capture = ExprKind::Eq { left: head.clone(), right: value, assign: false };
                let mut capture = Expr::generated(capture, at);
                capture.with = with;
                TermKind::Comprehension(Box::new(Comprehension {
                    head: Collect::Set(head),
                    body: vec![capture],
                }))
            };
            items.push(Term { kind, span: at });
        }
        let at = self.at(span);
        let id = self.symbols.builtin("internal.template_string", 1);
        let parts = Term { kind: TermKind::Array(items), span: at };
        TermKind::Call(Callee::Builtin(id, 1), vec![parts])
    }

    // Calls.
}
