//! The tree between syntax and program: names are resolved, the order is still the author's.

use crate::{
    ast::Span,
    ir::{BuiltinId, ConstId, GroupId},
};

/// A variable of one rule.
pub(super) type Var = u32;

pub(super) type Body = Vec<Expr>;

#[derive(Debug, Clone)]
pub(super) struct Expr {
    pub(super) kind: ExprKind,
    pub(super) negated: bool,
    pub(super) with: Vec<With>,
    pub(super) span: Span,
    pub(super) generated: bool,
}

#[derive(Debug, Clone)]
pub(super) enum ExprKind {
    Term(Term),
    /// Unification. After `:=` the left side is only ever bound, never read.
    Eq {
        left: Term,
        right: Term,
        assign: bool,
    },
    /// One argument more than the callee takes is where its result goes.
    Call(Callee, Vec<Term>),
    Every(Box<Every>),
    Not(Body),
}

#[derive(Debug, Clone)]
pub(super) struct Every {
    pub(super) key: Option<Term>,
    pub(super) value: Term,
    pub(super) domain: Term,
    pub(super) body: Body,
}

#[derive(Debug, Clone)]
pub(super) struct With {
    pub(super) target: WithTarget,
    pub(super) value: WithValue,
    pub(super) span: Span,
}

#[derive(Debug, Clone)]
pub(super) enum WithTarget {
    Input(Vec<ConstId>),
    Data(Vec<ConstId>),
    Callee(Callee),
}

#[derive(Debug, Clone)]
pub(super) enum WithValue {
    Term(Term),
    Callee(Callee),
}

#[derive(Debug, Clone)]
pub(super) struct Term {
    pub(super) kind: TermKind,
    pub(super) span: Span,
}

#[derive(Debug, Clone)]
pub(super) enum TermKind {
    Const(ConstId),
    Var(Var),
    Array(Vec<Term>),
    Set(Vec<Term>),
    Object(Vec<(Term, Term)>),
    Ref(Root, Vec<Term>),
    Comprehension(Box<Comprehension>),
    Call(Callee, Vec<Term>),
}

/// The start of a reference.
#[derive(Debug, Clone)]
pub(super) enum Root {
    Input,
    Data,
    Var(Var),
    /// Gone after expansion.
    Term(Box<Term>),
}

#[derive(Debug, Clone)]
pub(super) struct Comprehension {
    pub(super) head: Collect,
    pub(super) body: Body,
}

#[derive(Debug, Clone)]
pub(super) enum Collect {
    Array(Term),
    Set(Term),
    Object(Term, Term),
}

/// A function that is called, and how many arguments it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Callee {
    Builtin(BuiltinId, u32),
    Function(GroupId, u32),
}

impl Callee {
    pub(super) fn arity(self) -> usize {
        match self {
            Self::Builtin(_, arity) | Self::Function(_, arity) => arity as usize,
        }
    }
}

/// The facts about a variable.
#[derive(Debug, Clone)]
pub(super) struct VarInfo {
    /// The name as written; empty when the compiler made it up.
    pub(super) name: modgate_value::Str,
    /// How often it is read or matched after its declaration.
    pub(super) uses: u32,
}

/// The variables of a rule.
#[derive(Debug, Default, Clone)]
pub(super) struct Vars(pub(super) Vec<VarInfo>);

impl Vars {
    pub(super) fn add(&mut self, name: modgate_value::Str) -> Var {
        let var = Var::try_from(self.0.len()).unwrap_or(Var::MAX);
        self.0.push(VarInfo { name, uses: 0 });
        var
    }

    /// A variable the author did not write.
    pub(super) fn temporary(&mut self, span: Span) -> Term {
        Term { kind: TermKind::Var(self.add(modgate_value::Str::default())), span }
    }

    pub(super) fn get(&self, var: Var) -> Option<&VarInfo> {
        self.0.get(var as usize)
    }

    pub(super) fn used(&mut self, var: Var) {
        if let Some(info) = self.0.get_mut(var as usize) {
            info.uses += 1;
        }
    }

    /// The name for messages; wildcards are `_`.
    pub(super) fn name(&self, var: Var) -> &str {
        match self.get(var) {
            Some(info) if info.name.starts_with('$') => "_",
            Some(info) => &info.name,
            None => "",
        }
    }

    pub(super) fn is_temporary(&self, var: Var) -> bool {
        self.get(var).is_none_or(|info| info.name.is_empty())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

impl Expr {
    /// An expression that the compiler made.
    pub(super) fn generated(kind: ExprKind, span: Span) -> Self {
        Self { kind, negated: false, with: Vec::new(), span, generated: true }
    }
}

impl Term {
    /// Whether it is a reference, comprehension or call, or has one in it.
    pub(super) fn is_dynamic(&self) -> bool {
        match &self.kind {
            TermKind::Const(_) | TermKind::Var(_) => false,
            TermKind::Array(items) | TermKind::Set(items) => items.iter().any(Self::is_dynamic),
            TermKind::Object(pairs) => {
                pairs.iter().any(|(key, value)| key.is_dynamic() || value.is_dynamic())
            }
            TermKind::Ref(..) | TermKind::Comprehension(_) | TermKind::Call(..) => true,
        }
    }
}

/// Which variables [`walk_term`] visits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Visit {
    /// Go into comprehensions, `every` bodies and `not` bodies.
    pub(super) closures: bool,
    /// Go into sets and object keys.
    pub(super) keys: bool,
    /// Visit the variables that references start from.
    pub(super) roots: bool,
}

impl Visit {
    /// Every variable.
    pub(super) const ALL: Self = Self { closures: true, keys: true, roots: true };
    /// Every variable of the expression itself.
    pub(super) const OUTER: Self = Self { closures: false, keys: true, roots: true };
    /// Those that unification can bind.
    pub(super) const BINDABLE: Self = Self { closures: false, keys: false, roots: false };
}

pub(super) fn walk_term(term: &Term, visit: Visit, f: &mut dyn FnMut(Var, Span)) {
    match &term.kind {
        TermKind::Const(_) => {}
        TermKind::Var(var) => f(*var, term.span),
        TermKind::Array(items) => items.iter().for_each(|item| walk_term(item, visit, f)),
        TermKind::Set(items) if visit.keys => {
            items.iter().for_each(|item| walk_term(item, visit, f));
        }
        TermKind::Set(_) => {}
        TermKind::Object(pairs) => {
            for (key, value) in pairs {
                if visit.keys {
                    walk_term(key, visit, f);
                }
                walk_term(value, visit, f);
            }
        }
        TermKind::Ref(root, path) => {
            match root {
                Root::Var(var) if visit.roots => f(*var, term.span),
                Root::Term(term) => walk_term(term, visit, f),
                _ => {}
            }
            path.iter().for_each(|term| walk_term(term, visit, f));
        }
        TermKind::Comprehension(comprehension) if visit.closures => {
            match &comprehension.head {
                Collect::Array(term) | Collect::Set(term) => walk_term(term, visit, f),
                Collect::Object(key, value) => {
                    walk_term(key, visit, f);
                    walk_term(value, visit, f);
                }
            }
            walk_body(&comprehension.body, visit, f);
        }
        TermKind::Comprehension(_) => {}
        TermKind::Call(_, args) => args.iter().for_each(|arg| walk_term(arg, visit, f)),
    }
}

pub(super) fn walk_body(body: &[Expr], visit: Visit, f: &mut dyn FnMut(Var, Span)) {
    body.iter().for_each(|expr| walk_expr(expr, visit, f));
}

pub(super) fn walk_expr(expr: &Expr, visit: Visit, f: &mut dyn FnMut(Var, Span)) {
    match &expr.kind {
        ExprKind::Term(term) => walk_term(term, visit, f),
        ExprKind::Eq { left, right, .. } => {
            walk_term(left, visit, f);
            walk_term(right, visit, f);
        }
        ExprKind::Call(_, args) => args.iter().for_each(|arg| walk_term(arg, visit, f)),
        ExprKind::Every(every) => {
            walk_term(&every.domain, visit, f);
            if visit.closures {
                if let Some(key) = &every.key {
                    walk_term(key, visit, f);
                }
                walk_term(&every.value, visit, f);
                walk_body(&every.body, visit, f);
            }
        }
        ExprKind::Not(body) if visit.closures => walk_body(body, visit, f),
        ExprKind::Not(_) => {}
    }
    walk_withs(&expr.with, visit, f);
}

pub(super) fn walk_withs(withs: &[With], visit: Visit, f: &mut dyn FnMut(Var, Span)) {
    for with in withs {
        if let WithValue::Term(term) = &with.value {
            walk_term(term, visit, f);
        }
    }
}

/// Visits every variable inside a closure of the expression.
pub(super) fn walk_closures(expr: &Expr, f: &mut dyn FnMut(Var, Span)) {
    match &expr.kind {
        ExprKind::Term(term) => closures_of_term(term, f),
        ExprKind::Eq { left, right, .. } => {
            closures_of_term(left, f);
            closures_of_term(right, f);
        }
        ExprKind::Call(_, args) => args.iter().for_each(|arg| closures_of_term(arg, f)),
        ExprKind::Every(every) => {
            closures_of_term(&every.domain, f);
            walk_body(&every.body, Visit::ALL, f);
        }
        ExprKind::Not(body) => walk_body(body, Visit::ALL, f),
    }
    for with in &expr.with {
        if let WithValue::Term(term) = &with.value {
            closures_of_term(term, f);
        }
    }
}

fn closures_of_term(term: &Term, f: &mut dyn FnMut(Var, Span)) {
    match &term.kind {
        TermKind::Const(_) | TermKind::Var(_) => {}
        TermKind::Array(items) | TermKind::Set(items) => {
            items.iter().for_each(|item| closures_of_term(item, f));
        }
        TermKind::Object(pairs) => {
            for (key, value) in pairs {
                closures_of_term(key, f);
                closures_of_term(value, f);
            }
        }
        TermKind::Ref(root, path) => {
            if let Root::Term(term) = root {
                closures_of_term(term, f);
            }
            path.iter().for_each(|term| closures_of_term(term, f));
        }
        TermKind::Comprehension(_) => walk_term(term, Visit::ALL, f),
        TermKind::Call(_, args) => args.iter().for_each(|arg| closures_of_term(arg, f)),
    }
}
