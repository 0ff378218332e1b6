//! Type inference, as far as OPA refuses programs for their types.
//!
//! Types are inferred forwards through ordered bodies. Nothing is known about `input` and base
//! documents, so only what literals, built-ins and rules say can contradict.

mod infer;

use std::collections::BTreeMap;

use modgate_value::Value;

use super::{
    errors::Errors,
    hir::{
        Body, Callee, Collect, Comprehension, Expr, ExprKind, Root, Term, TermKind, Var, Vars,
        WithTarget, WithValue,
    },
    symbols::Symbols,
};
use crate::{
    ast::Span,
    builtins,
    error::Code,
    ir::{
        ConstId, GroupId, NodeId,
        types::{Environment, Key, Type},
    },
    mistake::{Detail, Mistake, Side},
};

impl Environment {
    fn put(&mut self, node: NodeId, ty: Type) {
        let before = self.nodes.remove(&node).unwrap_or(Type::Unknown);
        self.nodes.insert(node, before.merge(ty).bounded());
    }

    /// The type of everything at a node of the tree.
    fn extent(&self, symbols: &Symbols, node: NodeId, depth: usize) -> Type {
        if let Some(ty) = self.nodes.get(&node) {
            return ty.clone();
        }
        let mut fixed = BTreeMap::new();
        let children = symbols.node(node).map(|node| &node.children);
        if depth < 16 {
            for (key, child) in children.into_iter().flatten() {
                if let Some(key) = symbols.constants.get(*key) {
                    fixed.insert(Key::of(key), self.extent(symbols, *child, depth + 1));
                }
            }
        }
        Type::Object { fixed, rest: Some(Box::new((Type::String, Type::ANY))) }.bounded()
    }
}

/// A branch of a rule, as the checker sees it.
pub(super) struct Checked<'r> {
    pub(super) group: GroupId,
    pub(super) node: NodeId,
    pub(super) vars: &'r Vars,
    pub(super) args: &'r [Term],
    pub(super) keys: &'r [Term],
    pub(super) body: &'r Body,
    pub(super) leaf: &'r Term,
    pub(super) is_member: bool,
    pub(super) is_function: bool,
}

/// Infers the types of one branch and adds what it produces to the environment.
pub(super) fn check_rule(
    symbols: &Symbols,
    environment: &mut Environment,
    rule: &Checked<'_>,
    errors: &mut Errors<'_>,
) {
    let mut checker = Checker::new(symbols, environment, rule.vars);
    checker.body(rule.body, true);
    let failed = !checker.errors.is_empty();
    rule.args.iter().for_each(|arg| checker.fill(arg));
    let args: Vec<Type> = rule.args.iter().map(|arg| checker.of(arg)).collect();
    let leaf = checker.of(rule.leaf);
    let keys: Vec<Type> = rule.keys.iter().map(|key| checker.of(key)).collect();
    for (span, mistake, details) in checker.errors {
        errors.push_with(Code::Type, span, mistake, details);
    }
    if rule.is_function {
        let (args, result) =
            if failed { (vec![Type::ANY; args.len()], Type::ANY) } else { (args, leaf) };
        match environment.functions.get_mut(&rule.group) {
            Some((known, known_result)) => {
                for (known, arg) in known.iter_mut().zip(args) {
                    *known = std::mem::replace(known, Type::Unknown).or(arg).bounded();
                }
                *known_result = std::mem::replace(known_result, Type::Unknown).or(result).bounded();
            }
            None => {
                environment.functions.insert(rule.group, (args, result));
            }
        }
        return;
    }
    if failed {
        if rule.keys.is_empty() {
            environment.put(rule.node, Type::ANY);
        }
        return;
    }
    let mut ty = leaf;
    if ty == Type::Unknown {
        return;
    }
    if rule.is_member {
        ty = Type::Set(Box::new(ty));
    }
    for key in keys.into_iter().rev() {
        if key == Type::Unknown {
            return;
        }
        ty = Type::Object { fixed: BTreeMap::new(), rest: Some(Box::new((key, ty))) };
    }
    environment.put(rule.node, ty);
}

/// Checks a query.
pub(super) fn check_query(
    symbols: &Symbols,
    environment: &Environment,
    vars: &Vars,
    body: &Body,
    errors: &mut Errors<'_>,
) {
    let mut checker = Checker::new(symbols, environment, vars);
    checker.query = true;
    checker.body(body, true);
    for (span, mistake, details) in checker.errors {
        errors.push_with(Code::Type, span, mistake, details);
    }
}

/// The types given to a built-in and those it takes, for errors about their number.
pub(super) fn arity_details(
    symbols: &Symbols,
    name: &str,
    args: &[Term],
    output: bool,
) -> Vec<Detail> {
    let environment = Environment::default();
    let vars = Vars::default();
    let checker = Checker::new(symbols, &environment, &vars);
    let mut have: Vec<String> = args
        .iter()
        .map(|arg| match &arg.kind {
            TermKind::Var(_) | TermKind::Call(..) => Type::Unknown.to_string(),
            _ => checker.of(arg).to_string(),
        })
        .collect();
    if output {
        have.push(Type::Unknown.to_string());
    }
    let Some(builtin) = builtins::find(name) else { return Vec::new() };
    let want: Vec<String> = builtin
        .declaration()
        .args
        .iter()
        .map(|arg| {
            let ty = Type::declared(&arg.ty);
            if arg.name.is_empty() { ty.to_string() } else { format!("{}: {ty}", arg.name) }
        })
        .collect();
    Detail::of_call(&have, &want)
}

struct Checker<'c> {
    query: bool,
    symbols: &'c Symbols,
    environment: &'c Environment,
    names: &'c Vars,
    vars: Vec<Type>,
    /// The types of variables before the closure being checked.
    undo: Vec<(Var, Type)>,
    /// The types of comprehensions seen already, by address: they live as long as the rule.
    comprehensions: BTreeMap<*const Comprehension, Type>,
    errors: Vec<(Span, Mistake, Vec<Detail>)>,
}

impl<'c> Checker<'c> {
    fn new(symbols: &'c Symbols, environment: &'c Environment, names: &'c Vars) -> Self {
        Self {
            query: false,
            symbols,
            environment,
            names,
            vars: vec![Type::Unknown; names.len()],
            undo: Vec::new(),
            comprehensions: BTreeMap::new(),
            errors: Vec::new(),
        }
    }

    fn var(&self, var: Var) -> Type {
        self.vars.get(var as usize).cloned().unwrap_or(Type::ANY)
    }

    fn set(&mut self, var: Var, ty: Type) {
        if let Some(slot) = self.vars.get_mut(var as usize) {
            let before = std::mem::replace(slot, ty.bounded());
            self.undo.push((var, before));
        }
    }

    fn constant(&self, id: ConstId) -> Option<&'c Value> {
        self.symbols.constants.get(id)
    }

    /// Variables that nothing was learned about can be anything.
    fn fill(&mut self, term: &Term) {
        super::hir::walk_term(term, super::hir::Visit::ALL, &mut |var, _| {
            if let Some(slot) = self.vars.get_mut(var as usize)
                && *slot == Type::Unknown
            {
                *slot = Type::ANY;
            }
        });
    }

    fn body(&mut self, body: &Body, report: bool) {
        for expr in body {
            self.expr(expr, report);
        }
    }

    fn expr(&mut self, expr: &Expr, report: bool) {
        let before = self.errors.len();
        self.bodies(expr);
        self.each_term(expr, &mut |this, term| this.refs(term));
        let nested = self.errors.len() > before;
        self.replacements(expr);
        match &expr.kind {
            ExprKind::Eq { left, right, .. } => self.equation(left, right, expr.span, nested),
            ExprKind::Call(callee, args) => match args.as_slice() {
                [left, right] if !self.query && self.is_equal(*callee) => {
                    self.equation(left, right, expr.span, nested);
                }
                _ => self.call(*callee, args, expr.span, nested),
            },
            ExprKind::Every(every) => {
                // OPA looks at the references and comprehensions of the body only.
                for expr in &every.body {
                    self.each_term(expr, &mut |this, term| this.refs(term));
                }
            }
            ExprKind::Not(body) => {
                let mark = self.undo.len();
                self.body(body, report);
                self.rewind(mark);
            }
            ExprKind::Term(_) => {}
        }
    }

    fn is_equal(&self, callee: Callee) -> bool {
        let Callee::Builtin(id, _) = callee else { return false };
        self.symbols.builtins.get(id.0 as usize).is_some_and(|builtin| builtin.name == "equal")
    }

    fn equation(&mut self, left: &Term, right: &Term, span: Span, nested: bool) {
        let (a, b) = (self.of(left), self.of(right));
        if self.unify_both(left, &a, right, &b) {
            return;
        }
        if !(nested && (a.is_unknown() || b.is_unknown())) {
            let sides = [(Side::Left, a), (Side::Right, b)];
            let details = sides.map(|(side, ty)| Detail::side(side, ty.to_string())).into();
            self.errors.push((span, Mistake::Mismatch, details));
        }
    }

    /// Functions that a `with` puts in place of others have to take the same arguments.
    fn replacements(&mut self, expr: &Expr) {
        for with in &expr.with {
            let (WithTarget::Callee(target), WithValue::Callee(value)) =
                (&with.target, &with.value)
            else {
                continue;
            };
            let (Some((name, wanted)), Some((_, given))) =
                (self.parameters(*target), self.parameters(*value))
            else {
                continue;
            };
            let fit = wanted.len() == given.len()
                && wanted.iter().zip(&given).all(|((_, a), (_, b))| a.unifies(b));
            if !fit {
                let given: Vec<String> = given.iter().map(|(_, ty)| ty.to_string()).collect();
                let wanted: Vec<String> = wanted
                    .iter()
                    .map(|(name, ty)| match name.as_str() {
                        "" => ty.to_string(),
                        name => format!("{name}: {ty}"),
                    })
                    .collect();
                let details = Detail::of_call(&given, &wanted);
                self.errors.push((with.span, Mistake::Arity(name), details));
            }
        }
    }

    fn parameters(&self, callee: Callee) -> Option<(String, Vec<(String, Type)>)> {
        match callee {
            Callee::Builtin(id, _) => {
                let name = &self.symbols.builtins.get(id.0 as usize)?.name;
                let declaration = builtins::find(name)?.declaration();
                let args = declaration.args.iter();
                Some((
                    name.to_string(),
                    args.map(|arg| (arg.name.clone(), Type::declared(&arg.ty))).collect(),
                ))
            }
            Callee::Function(group, _) => {
                let (args, _) = self.environment.functions.get(&group)?;
                let path = &self.symbols.groups.get(group.0 as usize)?.path;
                let args = args.iter().map(|ty| (String::new(), ty.clone())).collect();
                Some((self.symbols.path_text(path), args))
            }
        }
    }

    fn rewind(&mut self, mark: usize) {
        while self.undo.len() > mark {
            if let Some((var, ty)) = self.undo.pop()
                && let Some(slot) = self.vars.get_mut(var as usize)
            {
                *slot = ty;
            }
        }
    }

    fn each_term(&mut self, expr: &Expr, f: &mut dyn FnMut(&mut Self, &Term)) {
        match &expr.kind {
            ExprKind::Term(term) => f(self, term),
            ExprKind::Eq { left, right, .. } => {
                f(self, left);
                f(self, right);
            }
            ExprKind::Call(_, args) => args.iter().for_each(|arg| f(self, arg)),
            ExprKind::Every(every) => f(self, &every.domain),
            ExprKind::Not(_) => {}
        }
    }

    /// Checks the bodies of the comprehensions in an expression, those in bodies of `every` included.
    fn bodies(&mut self, expr: &Expr) {
        self.each_term(expr, &mut |this, term| this.closures(term));
        if let ExprKind::Every(every) = &expr.kind {
            every.body.iter().for_each(|expr| self.bodies(expr));
        }
    }

    /// Checks the bodies of the comprehensions in a term.
    fn closures(&mut self, term: &Term) {
        match &term.kind {
            TermKind::Const(_) | TermKind::Var(_) => {}
            TermKind::Array(items) | TermKind::Set(items) => {
                items.iter().for_each(|item| self.closures(item));
            }
            TermKind::Object(pairs) => {
                for (key, value) in pairs {
                    self.closures(key);
                    self.closures(value);
                }
            }
            TermKind::Ref(_, path) => path.iter().for_each(|part| self.closures(part)),
            TermKind::Call(_, args) => args.iter().for_each(|arg| self.closures(arg)),
            TermKind::Comprehension(inner) => {
                let mark = self.undo.len();
                let before = self.errors.len();
                self.body(&inner.body, true);
                let ty = if self.errors.len() > before {
                    Type::Unknown
                } else {
                    match &inner.head {
                        Collect::Array(term) => {
                            Type::Array { fixed: Vec::new(), rest: Some(Box::new(self.of(term))) }
                        }
                        Collect::Set(term) => Type::Set(Box::new(self.of(term))),
                        Collect::Object(key, value) => Type::Object {
                            fixed: BTreeMap::new(),
                            rest: Some(Box::new((self.of(key), self.of(value)))),
                        },
                    }
                };
                self.rewind(mark);
                self.comprehensions.insert(std::ptr::from_ref(inner.as_ref()), ty.bounded());
            }
        }
    }

    /// Checks the references in a term, and learns what their variables are.
    fn refs(&mut self, term: &Term) {
        match &term.kind {
            TermKind::Const(_) | TermKind::Var(_) | TermKind::Comprehension(_) => {}
            TermKind::Array(items) | TermKind::Set(items) => {
                items.iter().for_each(|item| self.refs(item));
            }
            TermKind::Object(pairs) => {
                for (key, value) in pairs {
                    self.refs(key);
                    self.refs(value);
                }
            }
            TermKind::Call(_, args) => args.iter().for_each(|arg| self.refs(arg)),
            TermKind::Ref(root, path) => {
                path.iter().for_each(|part| self.refs(part));
                let problem = match root {
                    Root::Input | Root::Term(_) => self.apply(&Type::ANY, path, 0, path, root),
                    Root::Var(var) => {
                        if self.var(*var) == Type::Unknown {
                            self.set(*var, Type::ANY);
                        }
                        let ty = self.var(*var);
                        self.apply(&ty, path, 0, path, root)
                    }
                    Root::Data => self.data_ref(path),
                };
                if let Some((mistake, details)) = problem {
                    self.errors.push((term.span, mistake, details));
                }
            }
        }
    }

    fn data_ref(&mut self, path: &[Term]) -> Option<(Mistake, Vec<Detail>)> {
        let mut node = NodeId(0);
        for (index, key) in path.iter().enumerate() {
            match &key.kind {
                TermKind::Const(id) => {
                    let Some(child) = self.symbols.child(node, *id) else {
                        return self.apply(&Type::ANY, path, index + 1, path, &Root::Data);
                    };
                    let group = self.symbols.node(child).and_then(|node| node.group);
                    if let Some(group) = group
                        && let Some((args, result)) = self.environment.functions.get(&group)
                    {
                        let args: Vec<String> = args.iter().map(Type::to_string).collect();
                        let have = format!("({}) => {result}", args.join(", "));
                        let have = Detail::side(Side::Have, have);
                        let undefined = self.undefined(&Root::Data, path, index + 1);
                        let details = undefined.details(have);
                        return Some((Mistake::NotCalled(undefined.text), details));
                    }
                    if let Some(ty) = self.environment.nodes.get(&child) {
                        // Rules further down may say more than the object here.
                        let below =
                            self.symbols.node(child).is_some_and(|n| !n.children.is_empty());
                        let ty = if below { Type::ANY } else { ty.clone() };
                        return self.apply(&ty, path, index + 1, path, &Root::Data);
                    }
                    if group.is_some() {
                        return self.apply(&Type::ANY, path, index + 1, path, &Root::Data);
                    }
                    node = child;
                }
                TermKind::Var(var) => {
                    if self.var(*var) == Type::Unknown {
                        self.set(*var, Type::String);
                    }
                    for later in path.iter().skip(index + 1) {
                        self.fill_var(later);
                    }
                    return None;
                }
                _ => return None,
            }
        }
        None
    }

    fn fill_var(&mut self, term: &Term) {
        if let TermKind::Var(var) = term.kind
            && self.var(var) == Type::Unknown
        {
            self.set(var, Type::ANY);
        }
    }

    /// Follows a path from a type on; a problem when it leads nowhere.
    fn apply(
        &mut self,
        ty: &Type,
        path: &[Term],
        from: usize,
        whole: &[Term],
        root: &Root,
    ) -> Option<(Mistake, Vec<Detail>)> {
        let mut ty = ty.clone();
        for (index, key) in path.iter().enumerate().skip(from) {
            let Some(keys) = ty.keys() else {
                let undefined = self.undefined(root, whole, index);
                let details = undefined.details(Detail::side(Side::Have, ty.to_string()));
                return Some((Mistake::UndefinedReference(undefined.text), details));
            };
            let wrong = |this: &Self, have: Detail| {
                let mut one_of = Vec::new();
                ty.known_keys(&mut one_of);
                one_of.sort();
                one_of.dedup();
                let want = if one_of.is_empty() {
                    format!("want (type): {keys}")
                } else {
                    format!("want (one of): [{}]", one_of.join(" "))
                };
                let undefined = this.undefined(root, whole, index);
                let details = undefined.details_of_key(have, &want);
                Some((Mistake::UndefinedReference(undefined.text), details))
            };
            match &key.kind {
                TermKind::Const(id) => {
                    let value = self.constant(*id)?;
                    match ty.select(value) {
                        Some(next) => ty = next,
                        None => return wrong(self, Detail::side(Side::Have, value.to_json())),
                    }
                    continue;
                }
                TermKind::Var(var) => match self.var(*var) {
                    Type::Unknown => self.set(*var, keys.clone()),
                    known if !known.unifies(&keys) => {
                        return wrong(self, Detail::Line(format!("have (type): {known}")));
                    }
                    _ => {}
                },
                TermKind::Ref(..) => {
                    let known = self.of(key);
                    if known != Type::Unknown && !known.unifies(&keys) {
                        return wrong(self, Detail::Line(format!("have (type): {known}")));
                    }
                }
                _ => {
                    if !self.unify_one(key, &keys, false) {
                        let known = self.of(key);
                        return wrong(self, Detail::Line(format!("have (type): {known}")));
                    }
                }
            }
            ty = ty.values().unwrap_or(Type::ANY);
            if ty == Type::Unknown {
                ty = Type::ANY;
            }
        }
        None
    }

    /// The reference of this path, which is undefined from the part `index` on.
    fn undefined(&self, root: &Root, path: &[Term], index: usize) -> Undefined {
        let mut text = match root {
            Root::Input => "input".to_owned(),
            Root::Data => "data".to_owned(),
            Root::Var(var) if !self.names.is_temporary(*var) => self.names.name(*var).to_owned(),
            _ => "__local0__".to_owned(),
        };
        let mut at = None;
        for (position, part) in path.iter().enumerate() {
            if position == index {
                at = Some(text.len());
            }
            match &part.kind {
                TermKind::Const(id) => match self.constant(*id) {
                    Some(Value::String(name))
                        if name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') =>
                    {
                        text.push('.');
                        text.push_str(name);
                    }
                    Some(value) => text.push_str(&format!("[{}]", value.to_json())),
                    None => {}
                },
                TermKind::Var(var) if !self.names.is_temporary(*var) => {
                    text.push_str(&format!("[{}]", self.names.name(*var)));
                }
                _ => text.push_str("[__local0__]"),
            }
        }
        Undefined { at: at.unwrap_or(text.len()), text }
    }
}

/// A reference as it is written, and the offset of the part that is undefined.
struct Undefined {
    text: String,
    at: usize,
}

impl Undefined {
    /// The lines about a value that has no parts.
    fn details(&self, have: Detail) -> Vec<Detail> {
        let (text, carets) = (self.text.clone(), "^".repeat(self.at));
        vec![Detail::Line(text), Detail::Line(carets), have]
    }

    /// The lines about a key that the value does not have.
    fn details_of_key(&self, have: Detail, want: &str) -> Vec<Detail> {
        let indent = self.at + 1;
        let line = |text: &str| Detail::Line(format!("{:indent$}{text}", ""));
        let have = match have {
            Detail::Line(have) => line(&have),
            Detail::Side { side, value, .. } => Detail::Side { indent, side, value },
        };
        vec![Detail::Line(self.text.clone()), line("^"), have, line(want)]
    }
}
