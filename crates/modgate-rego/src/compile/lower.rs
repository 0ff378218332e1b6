//! Ordered bodies to the statements an evaluator runs.
//!
//! Here it is decided, for every variable in every place, whether it is bound, and unifications of
//! two patterns are taken apart until each is a value against a pattern.

use modgate_value::{Object, Value};

use super::{
    hir::{self, Callee, ExprKind, Root, Term, TermKind, Var, Vars, Visit, walk_term},
    safety::VarSet,
    symbols::Symbols,
};
use crate::{
    ast::Span,
    error::Code,
    ir::{
        self, Base, Collect, Comprehension, ConstId, DataBase, Every, GroupKind, NodeId, Operand,
        Pattern, Slot, Source, Stmt, StmtKind, With, WithTarget, WithValue,
    },
    mistake::Mistake,
    value::sorted_set,
};

/// Lowers the bodies of one rule or query.
pub(super) struct Lowerer<'c> {
    pub(super) symbols: &'c mut Symbols,
    pub(super) vars: &'c mut Vars,
    /// In a query `==` stays a built-in call, as in OPA.
    pub(super) query: bool,
    pub(super) errors: Vec<(Code, Span, Mistake)>,
    pub(super) replaces_functions: bool,
    pub(super) replaces_data: bool,
    /// The variables bound so far, in order; closures remove their own.
    log: Vec<Var>,
}

impl<'c> Lowerer<'c> {
    pub(super) fn new(symbols: &'c mut Symbols, vars: &'c mut Vars, query: bool) -> Self {
        Self {
            symbols,
            vars,
            query,
            errors: Vec::new(),
            replaces_functions: false,
            replaces_data: false,
            log: Vec::new(),
        }
    }

    /// Runs `inner`; what it binds is not bound afterwards.
    fn closure<T>(
        &mut self,
        bound: &mut VarSet,
        inner: impl FnOnce(&mut Self, &mut VarSet) -> T,
    ) -> T {
        let mark = self.log.len();
        let result = inner(self, bound);
        while self.log.len() > mark {
            if let Some(var) = self.log.pop() {
                bound.remove(&var);
            }
        }
        result
    }

    /// The statements of a body; `bound` grows by what it binds.
    pub(super) fn body(&mut self, body: &[hir::Expr], bound: &mut VarSet) -> ir::Body {
        let mut out = Vec::new();
        for expr in body {
            self.expr(expr, bound, &mut out);
        }
        out
    }

    fn unsafe_expr(&mut self, span: Span) {
        self.errors.push((Code::UnsafeVar, span, Mistake::UnsafeExpression));
    }

    fn expr(&mut self, expr: &hir::Expr, bound: &mut VarSet, out: &mut ir::Body) {
        let mut main = Vec::new();
        let span = expr.span;
        match &expr.kind {
            ExprKind::Term(term) => {
                if let Some(source) = self.source(term, bound)
                    && !self.is_truthy(&source)
                {
                    main.push(StmtKind::Test(source));
                }
            }
            ExprKind::Eq { left, right, .. } => {
                self.equation(left, right, span, bound, &mut main);
            }
            ExprKind::Call(callee, args) => match args.as_slice() {
                [left, right] if !self.query && self.is_equal(*callee) => {
                    self.equation(left, right, span, bound, &mut main);
                }
                _ => self.call(*callee, args, span, bound, &mut main),
            },
            ExprKind::Every(every) => {
                let Some(domain) = self.value(&every.domain, bound) else {
                    return self.unsafe_expr(span);
                };
                let every = self.closure(bound, |this, within| {
                    let key = match &every.key {
                        Some(key) => this.pattern(key, within),
                        None => Pattern::Any,
                    };
                    let value = this.pattern(&every.value, within);
                    let body = this.body(&every.body, within);
                    Every { domain, key, value, body }
                });
                main.push(StmtKind::Every(Box::new(every)));
            }
            ExprKind::Not(body) => {
                let body = self.closure(bound, |this, within| this.body(body, within));
                main.push(StmtKind::Not(body));
            }
        }
        let stmt = |kind| Stmt { kind, span, generated: expr.generated };
        let mut main: Vec<Stmt> = main.into_iter().map(stmt).collect();
        if expr.negated {
            // A trace has the result of the whole expression, not of its negated part.
            main.iter_mut().for_each(|stmt| stmt.generated = true);
            main = vec![stmt(StmtKind::Not(main))];
        }
        if expr.with.is_empty() {
            out.extend(main);
            return;
        }
        let withs: Vec<With> = expr.with.iter().filter_map(|with| self.with(with, bound)).collect();
        // Statements hoisted from an expression share its `with`.
        if let Some(Stmt { kind: StmtKind::With(before, body), .. }) = out.last_mut()
            && *before == withs
        {
            body.extend(main);
            return;
        }
        out.push(stmt(StmtKind::With(withs, main)));
    }

    fn with(&mut self, with: &hir::With, bound: &VarSet) -> Option<With> {
        let target = match &with.target {
            hir::WithTarget::Input(path) => WithTarget::Input(path.clone()),
            hir::WithTarget::Data(path) => {
                self.replaces_data = true;
                WithTarget::Data(path.clone())
            }
            hir::WithTarget::Callee(callee) => {
                self.replaces_functions = true;
                WithTarget::Callee(lower_callee(*callee))
            }
        };
        let value = match &with.value {
            hir::WithValue::Callee(callee) => WithValue::Callee(lower_callee(*callee)),
            hir::WithValue::Term(term) => match self.value(term, bound) {
                Some(term) => WithValue::Term(term),
                None => {
                    self.unsafe_expr(with.span);
                    return None;
                }
            },
        };
        Some(With { target, value, span: with.span })
    }

    fn is_equal(&self, callee: Callee) -> bool {
        let Callee::Builtin(id, _) = callee else { return false };
        self.symbols.builtins.get(id.0 as usize).is_some_and(|builtin| builtin.name == "equal")
    }

    /// Whether testing a source is pointless.
    fn is_truthy(&self, source: &Source) -> bool {
        match source {
            Source::Term(ir::Term::Const(id)) => {
                self.symbols.constants.get(*id) != Some(&Value::Bool(false))
            }
            _ => false,
        }
    }

    // Expressions.

    fn equation(
        &mut self,
        left: &Term,
        right: &Term,
        span: Span,
        bound: &mut VarSet,
        main: &mut Vec<StmtKind>,
    ) {
        match (is_source(left), is_source(right)) {
            (true, true) => {
                let local = self.vars.temporary(span);
                let Some(first) = self.source(left, bound) else { return };
                let bind = self.pattern(&local, bound);
                main.push(StmtKind::Match(first, bind));
                let Some(second) = self.source(right, bound) else { return };
                let check = self.pattern(&local, bound);
                main.push(StmtKind::Match(second, check));
            }
            (true, false) => {
                let Some(source) = self.source(left, bound) else { return };
                let pattern = self.pattern(right, bound);
                main.push(StmtKind::Match(source, pattern));
            }
            (false, true) => {
                let Some(source) = self.source(right, bound) else { return };
                let pattern = self.pattern(left, bound);
                main.push(StmtKind::Match(source, pattern));
            }
            (false, false) => self.unify(left.clone(), right.clone(), span, bound, main),
        }
    }

    /// Two plain terms against one another.
    fn unify(
        &mut self,
        left: Term,
        right: Term,
        span: Span,
        bound: &mut VarSet,
        main: &mut Vec<StmtKind>,
    ) {
        let mut pairs = vec![(left, right)];
        while !pairs.is_empty() {
            let mut stuck = Vec::new();
            let mut progress = false;
            for (left, right) in pairs {
                if let Some(value) = self.value(&left, bound) {
                    let pattern = self.pattern(&right, bound);
                    main.push(StmtKind::Match(Source::Term(value), pattern));
                } else if let Some(value) = self.value(&right, bound) {
                    let pattern = self.pattern(&left, bound);
                    main.push(StmtKind::Match(Source::Term(value), pattern));
                } else {
                    match split(&left, &right) {
                        Split::Pairs(more) => stuck.extend(more),
                        Split::Never => {
                            let never = self.symbols.constants.add(Value::Bool(false));
                            main.push(StmtKind::Test(Source::Term(ir::Term::Const(never))));
                        }
                        Split::Wait => {
                            stuck.push((left, right));
                            continue;
                        }
                    }
                }
                progress = true;
            }
            if !progress {
                return self.unsafe_expr(span);
            }
            pairs = stuck;
        }
    }

    fn call(
        &mut self,
        callee: Callee,
        args: &[Term],
        span: Span,
        bound: &mut VarSet,
        main: &mut Vec<StmtKind>,
    ) {
        let (inputs, outputs) = args.split_at_checked(callee.arity()).unwrap_or((args, &[]));
        let mut values = Vec::with_capacity(inputs.len());
        for input in inputs {
            match self.value(input, bound) {
                Some(value) => values.push(value),
                None => return self.unsafe_expr(span),
            }
        }
        let source = match callee {
            // `f()` may be any rule.
            Callee::Function(group, 0)
                if self
                    .symbols
                    .groups
                    .get(group.0 as usize)
                    .is_some_and(|group| !matches!(group.kind, GroupKind::Function { .. })) =>
            {
                let prefix = self
                    .symbols
                    .groups
                    .get(group.0 as usize)
                    .map_or_else(Vec::new, |group| group.path.clone());
                let base = Base::Data { prefix, at: DataBase::Group(group) };
                Source::Ref(ir::Ref { base, path: Vec::new() })
            }
            _ => Source::Call(ir::Call { callee: lower_callee(callee), args: values }),
        };
        main.push(match outputs.first() {
            Some(output) => StmtKind::Match(source, self.pattern(output, bound)),
            None => StmtKind::Test(source),
        });
    }

    // Terms.

    fn slot(var: Var) -> Slot {
        Slot(var)
    }

    /// The source of a plain term, reference or comprehension. Operands may bind variables.
    fn source(&mut self, term: &Term, bound: &mut VarSet) -> Option<Source> {
        match &term.kind {
            TermKind::Ref(root, path) => {
                let reference = self.reference(root, path, term.span, bound)?;
                Some(Source::Ref(reference))
            }
            TermKind::Comprehension(inner) => {
                let (head, body) = self.closure(bound, |this, within| {
                    let body = this.body(&inner.body, within);
                    let mut head = |term: &Term| {
                        let value = this.value(term, within);
                        if value.is_none() {
                            this.unsafe_expr(term.span);
                        }
                        value
                    };
                    let head = match &inner.head {
                        hir::Collect::Array(term) => Collect::Array(head(term)?),
                        hir::Collect::Set(term) => Collect::Set(head(term)?),
                        hir::Collect::Object(key, value) => {
                            Collect::Object(head(key)?, head(value)?)
                        }
                    };
                    Some((head, body))
                })?;
                let mut captured = VarSet::new();
                walk_term(term, Visit::ALL, &mut |var, _| {
                    if bound.contains(&var) {
                        captured.insert(var);
                    }
                });
                let captures = captured.into_iter().map(Slot).collect();
                Some(Source::Comprehension(Box::new(Comprehension { head, body, captures })))
            }
            TermKind::Call(callee, args) => {
                let args = args.iter().map(|arg| self.value(arg, bound)).collect::<Option<_>>()?;
                Some(Source::Call(ir::Call { callee: lower_callee(*callee), args }))
            }
            _ => {
                let value = self.value(term, bound);
                if value.is_none() {
                    self.unsafe_expr(term.span);
                }
                value.map(Source::Term)
            }
        }
    }

    fn reference(
        &mut self,
        root: &Root,
        path: &[Term],
        span: Span,
        bound: &mut VarSet,
    ) -> Option<ir::Ref> {
        let mut rest = path;
        let base = match root {
            Root::Input => Base::Input,
            Root::Var(var) if bound.contains(var) => Base::Term(ir::Term::Local(Self::slot(*var))),
            Root::Var(_) | Root::Term(_) => {
                self.unsafe_expr(span);
                return None;
            }
            Root::Data => {
                let mut prefix: Vec<ConstId> = Vec::new();
                let mut at = DataBase::Node(NodeId(0));
                while let DataBase::Node(id) = at {
                    if let Some(group) = self.symbols.node(id).and_then(|node| node.group) {
                        at = DataBase::Group(group);
                        break;
                    }
                    let Some((Term { kind: TermKind::Const(key), .. }, tail)) = rest.split_first()
                    else {
                        break;
                    };
                    at = match self.symbols.child(id, *key) {
                        Some(child) => DataBase::Node(child),
                        None => DataBase::Document,
                    };
                    prefix.push(*key);
                    rest = tail;
                }
                Base::Data { prefix, at }
            }
        };
        let path = rest
            .iter()
            .map(|part| match self.value(part, bound) {
                Some(value) => Operand::Key(value),
                None => Operand::Each(self.pattern(part, bound)),
            })
            .collect();
        Some(ir::Ref { base, path })
    }

    /// A term all of whose variables are bound.
    pub(super) fn value(&mut self, term: &Term, bound: &VarSet) -> Option<ir::Term> {
        Some(match &term.kind {
            TermKind::Const(id) => ir::Term::Const(*id),
            TermKind::Var(var) if bound.contains(var) => ir::Term::Local(Self::slot(*var)),
            TermKind::Array(items) => {
                let items: Vec<ir::Term> =
                    items.iter().map(|item| self.value(item, bound)).collect::<Option<_>>()?;
                match self.constants(&items) {
                    Some(values) => {
                        let array = Value::Array(values.into_iter().collect());
                        ir::Term::Const(self.symbols.constants.add(array))
                    }
                    None => ir::Term::Array(items),
                }
            }
            TermKind::Set(items) => {
                let items: Vec<ir::Term> =
                    items.iter().map(|item| self.value(item, bound)).collect::<Option<_>>()?;
                match self.constants(&items) {
                    Some(values) => {
                        let id = u32::try_from(self.symbols.sets.len()).unwrap_or(u32::MAX);
                        self.symbols.sets.push(sorted_set(values));
                        ir::Term::ConstSet(ir::SetId(id))
                    }
                    None => ir::Term::Set(items),
                }
            }
            TermKind::Object(pairs) => {
                let mut entries: Vec<(ir::Term, ir::Term)> = Vec::with_capacity(pairs.len());
                for (key, value) in pairs {
                    entries.push((self.value(key, bound)?, self.value(value, bound)?));
                }
                match self.constant_object(&entries) {
                    Some(object) => ir::Term::Const(self.symbols.constants.add(object)),
                    None => ir::Term::Object(entries),
                }
            }
            _ => return None,
        })
    }

    fn constant(&self, term: &ir::Term) -> Option<&Value> {
        match term {
            ir::Term::Const(id) => self.symbols.constants.get(*id),
            _ => None,
        }
    }

    fn constants(&self, items: &[ir::Term]) -> Option<Vec<Value>> {
        items.iter().map(|item| self.constant(item).cloned()).collect()
    }

    fn constant_object(&self, entries: &[(ir::Term, ir::Term)]) -> Option<Value> {
        let mut object = Object::default();
        for (key, value) in entries {
            let Value::String(key) = self.constant(key)? else { return None };
            object.insert(key.clone(), self.constant(value)?.clone());
        }
        Some(Value::Object(object))
    }

    /// Whether a pattern can bind every unbound variable of a term: not inside sets and keys.
    pub(super) fn can_match(&self, term: &Term, bound: &VarSet) -> bool {
        let mut outside = VarSet::new();
        walk_term(term, Visit::BINDABLE, &mut |var, _| {
            outside.insert(var);
        });
        let mut all = true;
        walk_term(term, Visit::ALL, &mut |var, _| {
            all &= bound.contains(&var) || outside.contains(&var);
        });
        all
    }

    /// The pattern of a term; unbound variables in it are bound from here on.
    pub(super) fn pattern(&mut self, term: &Term, bound: &mut VarSet) -> Pattern {
        match &term.kind {
            TermKind::Var(var) if !bound.contains(var) => {
                let wildcard = self
                    .vars
                    .get(*var)
                    .is_some_and(|info| info.name.starts_with('$') && info.uses <= 1);
                bound.insert(*var);
                self.log.push(*var);
                if wildcard { Pattern::Any } else { Pattern::Bind(Self::slot(*var)) }
            }
            TermKind::Array(items) if !is_bound(term, bound) => {
                Pattern::Array(items.iter().map(|item| self.pattern(item, bound)).collect())
            }
            TermKind::Object(pairs) if !is_bound(term, bound) => {
                let mut entries = Vec::with_capacity(pairs.len());
                for (key, value) in pairs {
                    let Some(key) = self.value(key, bound) else {
                        self.unsafe_expr(key.span);
                        continue;
                    };
                    entries.push((key, self.pattern(value, bound)));
                }
                Pattern::Object(entries)
            }
            _ => match self.value(term, bound) {
                Some(value) => Pattern::Equal(value),
                None => {
                    self.unsafe_expr(term.span);
                    Pattern::Any
                }
            },
        }
    }
}

fn is_bound(term: &Term, bound: &VarSet) -> bool {
    let mut all = true;
    walk_term(term, Visit::ALL, &mut |var, _| all &= bound.contains(&var));
    all
}

fn is_source(term: &Term) -> bool {
    matches!(term.kind, TermKind::Ref(..) | TermKind::Comprehension(_) | TermKind::Call(..))
}

fn lower_callee(callee: Callee) -> ir::Callee {
    match callee {
        Callee::Builtin(id, _) => ir::Callee::Builtin(id),
        Callee::Function(group, _) => ir::Callee::Function(group),
    }
}

/// The statements that unify two terms which both have unbound variables.
enum Split {
    Pairs(Vec<(Term, Term)>),
    /// They can never be equal.
    Never,
    /// One side has to be bound first.
    Wait,
}

fn split(left: &Term, right: &Term) -> Split {
    match (&left.kind, &right.kind) {
        (TermKind::Var(left), TermKind::Var(right)) if left == right => Split::Pairs(Vec::new()),
        (TermKind::Array(left), TermKind::Array(right)) => {
            if left.len() != right.len() {
                return Split::Never;
            }
            Split::Pairs(left.iter().cloned().zip(right.iter().cloned()).collect())
        }
        (TermKind::Object(left), TermKind::Object(right)) => {
            let mut pairs = Vec::new();
            for (key, value) in left {
                let TermKind::Const(key) = key.kind else { return Split::Wait };
                let other = right.iter().find(
                    |(other, _)| matches!(other.kind, TermKind::Const(other) if other == key),
                );
                match other {
                    Some((_, other)) => pairs.push((value.clone(), other.clone())),
                    None if right.iter().all(|(k, _)| matches!(k.kind, TermKind::Const(_))) => {
                        return Split::Never;
                    }
                    None => return Split::Wait,
                }
            }
            if left.len() == right.len() { Split::Pairs(pairs) } else { Split::Never }
        }
        (TermKind::Array(_), TermKind::Object(_)) | (TermKind::Object(_), TermKind::Array(_)) => {
            Split::Never
        }
        _ => Split::Wait,
    }
}
