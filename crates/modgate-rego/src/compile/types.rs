//! Type inference, as far as OPA refuses programs for their types.
//!
//! Types are inferred forwards through ordered bodies. Nothing is known about `input` and base
//! documents, so only what literals, built-ins and rules say can contradict.

use std::{collections::BTreeMap, fmt};

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
    ir::{ConstId, GroupId, NodeId},
};

/// Types with more parts than this are not tracked.
const MAX_SIZE: usize = 1000;

/// More than these many alternatives might as well be anything.
const MAX_ALTERNATIVES: usize = 50;

/// A type; [`Type::Unknown`] where nothing has been inferred yet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Type {
    Unknown,
    Null,
    Boolean,
    Number,
    String,
    Array {
        fixed: Vec<Type>,
        rest: Option<Box<Type>>,
    },
    Object {
        /// By the JSON text of the key.
        fixed: BTreeMap<Key, Type>,
        rest: Option<Box<(Type, Type)>>,
    },
    Set(Box<Type>),
    /// One of these; anything when empty.
    Any(Vec<Type>),
}

/// A constant key, ordered by its JSON text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    text: String,
    kind: KeyKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum KeyKind {
    Null,
    Boolean,
    Number,
    String,
    Other,
}

impl Key {
    fn of(value: &Value) -> Self {
        let kind = match value {
            Value::Null => KeyKind::Null,
            Value::Bool(_) => KeyKind::Boolean,
            Value::Number(_) => KeyKind::Number,
            Value::String(_) => KeyKind::String,
            _ => KeyKind::Other,
        };
        Self { text: value.to_json(), kind }
    }

    fn ty(&self) -> Type {
        match self.kind {
            KeyKind::Null => Type::Null,
            KeyKind::Boolean => Type::Boolean,
            KeyKind::Number => Type::Number,
            KeyKind::String => Type::String,
            KeyKind::Other => Type::ANY,
        }
    }
}

impl Type {
    const ANY: Self = Self::Any(Vec::new());

    fn of_constant(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Boolean,
            Value::Number(_) => Self::Number,
            Value::String(_) => Self::String,
            Value::Array(_) | Value::Object(_) => Self::ANY,
        }
    }

    fn declared(ty: &builtins::Type) -> Self {
        match ty {
            builtins::Type::Null => Self::Null,
            builtins::Type::Boolean => Self::Boolean,
            builtins::Type::Number => Self::Number,
            builtins::Type::String => Self::String,
            builtins::Type::Array { fixed, rest } => Self::Array {
                fixed: fixed.iter().map(Self::declared).collect(),
                rest: rest.as_deref().map(|ty| Box::new(Self::declared(ty))),
            },
            builtins::Type::Object { fixed, rest } => Self::Object {
                fixed: fixed
                    .iter()
                    .map(|(key, ty)| (Key::of(&Value::from(key.as_str())), Self::declared(ty)))
                    .collect(),
                rest: rest
                    .as_deref()
                    .map(|(key, value)| Box::new((Self::declared(key), Self::declared(value)))),
            },
            builtins::Type::Set(of) => Self::Set(Box::new(Self::declared(of))),
            builtins::Type::Any(of) => Self::Any(of.iter().map(Self::declared).collect()),
        }
    }

    /// How many parts it has, counted no further than the limit.
    fn size(&self) -> usize {
        fn count(ty: &Type, left: &mut usize) {
            if *left == 0 {
                return;
            }
            *left -= 1;
            match ty {
                Type::Array { fixed, rest } => {
                    fixed.iter().for_each(|ty| count(ty, left));
                    if let Some(ty) = rest {
                        count(ty, left);
                    }
                }
                Type::Object { fixed, rest } => {
                    fixed.values().for_each(|ty| count(ty, left));
                    if let Some(rest) = rest {
                        count(&rest.0, left);
                        count(&rest.1, left);
                    }
                }
                Type::Set(of) => count(of, left),
                Type::Any(of) => of.iter().for_each(|ty| count(ty, left)),
                _ => {}
            }
        }
        let mut left = MAX_SIZE + 1;
        count(self, &mut left);
        MAX_SIZE + 1 - left
    }

    fn bounded(self) -> Self {
        if self.size() > MAX_SIZE { Self::ANY } else { self }
    }

    /// Whether any part of it has not been inferred.
    fn is_unknown(&self) -> bool {
        match self {
            Self::Unknown => true,
            Self::Array { fixed, rest } => {
                fixed.iter().any(Self::is_unknown) || rest.as_deref().is_some_and(Self::is_unknown)
            }
            Self::Object { fixed, rest } => {
                fixed.values().any(Self::is_unknown)
                    || rest
                        .as_deref()
                        .is_some_and(|(key, value)| key.is_unknown() || value.is_unknown())
            }
            Self::Set(of) => of.is_unknown(),
            Self::Any(of) => of.iter().any(Self::is_unknown),
            _ => false,
        }
    }

    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unknown, other) | (other, Self::Unknown) => other,
            (left, right) if left == right => left,
            (Self::Any(of), _) | (_, Self::Any(of)) if of.is_empty() => Self::ANY,
            (left, right) => {
                let mut all = Vec::new();
                for ty in [left, right] {
                    match ty {
                        Self::Any(of) => all.extend(of),
                        other => all.push(other),
                    }
                }
                all.sort();
                all.dedup();
                if all.len() > MAX_ALTERNATIVES { Self::ANY } else { Self::Any(all) }
            }
        }
    }

    /// The type that two rules of the same document define together.
    fn merge(self, other: Self) -> Self {
        match (self, other) {
            (Self::Set(a), Self::Set(b)) => Self::Set(Box::new(a.or(*b))),
            (
                Self::Object { fixed: a, rest: Some(first) },
                Self::Object { fixed: b, rest: Some(second) },
            ) if a.is_empty() && b.is_empty() => {
                let (key, value) = (first.0.or(second.0), first.1.merge(second.1));
                Self::Object { fixed: BTreeMap::new(), rest: Some(Box::new((key, value))) }
            }
            (a, b) => a.or(b),
        }
    }

    /// The type of its keys; `None` when it has none.
    fn keys(&self) -> Option<Self> {
        match self {
            Self::Array { .. } => Some(Self::Number),
            Self::Object { fixed, rest } => {
                let mut keys = rest.as_deref().map_or(Self::Unknown, |(key, _)| key.clone());
                for key in fixed.keys() {
                    keys = keys.or(key.ty());
                }
                Some(keys)
            }
            Self::Set(of) => Some((**of).clone()),
            Self::Any(of) if of.is_empty() => Some(Self::ANY),
            Self::Any(of) => of.iter().filter_map(Self::keys).reduce(Self::or),
            _ => None,
        }
    }

    fn values(&self) -> Option<Self> {
        match self {
            Self::Array { fixed, rest } => Some(
                fixed.iter().cloned().chain(rest.as_deref().cloned()).fold(Self::Unknown, Self::or),
            ),
            Self::Object { fixed, rest } => Some(
                fixed
                    .values()
                    .cloned()
                    .chain(rest.as_deref().map(|(_, value)| value.clone()))
                    .fold(Self::Unknown, Self::or),
            ),
            Self::Set(of) => Some((**of).clone()),
            Self::Any(of) if of.is_empty() => Some(Self::ANY),
            Self::Any(of) => of.iter().filter_map(Self::values).reduce(Self::or),
            _ => None,
        }
    }

    /// The type under a constant key; `None` when there can be no value.
    fn select(&self, key: &Value) -> Option<Self> {
        match self {
            Self::Array { fixed, rest } => {
                // `1.0` is not an index.
                let index: usize = key.as_number()?.to_string().parse().ok()?;
                fixed.get(index).cloned().or_else(|| rest.as_deref().cloned())
            }
            Self::Object { fixed, rest } => {
                let found = fixed.get(&Key::of(key)).cloned();
                found.or_else(|| {
                    let (keys, value) = rest.as_deref()?;
                    keys.contains(&Self::of_constant(key)).then(|| value.clone())
                })
            }
            Self::Set(of) => {
                let ty = Self::of_constant(key);
                of.contains(&ty).then_some(ty)
            }
            Self::Any(of) if of.is_empty() => Some(Self::ANY),
            Self::Any(of) => of.iter().filter_map(|ty| ty.select(key)).reduce(Self::or),
            Self::Unknown => Some(Self::ANY),
            _ => None,
        }
    }

    /// The JSON texts of the keys that are known.
    fn known_keys(&self, out: &mut Vec<String>) {
        match self {
            Self::Object { fixed, .. } => out.extend(fixed.keys().map(|key| key.text.clone())),
            Self::Any(of) => of.iter().for_each(|ty| ty.known_keys(out)),
            _ => {}
        }
    }

    fn contains(&self, other: &Self) -> bool {
        match self {
            Self::Any(of) => of.is_empty() || of.iter().any(|ty| ty.contains(other)),
            Self::Unknown => true,
            _ => self == other || *other == Self::ANY,
        }
    }

    /// Whether some value can have both types.
    fn unifies(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unknown, _) | (_, Self::Unknown) => false,
            (Self::Any(of), other) | (other, Self::Any(of)) => {
                of.is_empty()
                    || of.iter().any(|ty| ty.unifies(other))
                    || matches!(other, Self::Any(of) if of.is_empty())
            }
            (Self::Null, Self::Null)
            | (Self::Boolean, Self::Boolean)
            | (Self::Number, Self::Number)
            | (Self::String, Self::String) => true,
            (Self::Array { fixed: a, rest: more_a }, Self::Array { fixed: b, rest: more_b }) => {
                let at = |fixed: &'_ [Self], rest: &'_ Option<Box<Self>>, index: usize| {
                    fixed.get(index).cloned().or_else(|| rest.as_deref().cloned())
                };
                let fixed = (0..a.len().max(b.len())).all(|index| {
                    match (at(a, more_a, index), at(b, more_b, index)) {
                        (Some(a), Some(b)) => a.unifies(&b),
                        _ => false,
                    }
                });
                fixed
                    && match (more_a, more_b) {
                        (Some(a), Some(b)) => a.unifies(b),
                        _ => true,
                    }
            }
            (Self::Object { fixed: a, rest: more_a }, Self::Object { fixed: b, rest: more_b }) => {
                let open = more_a.is_some() || more_b.is_some();
                let one_way = |a: &BTreeMap<Key, Self>,
                               b: &BTreeMap<Key, Self>,
                               rest: &Option<Box<(Self, Self)>>| {
                    a.iter().all(|(key, ty)| {
                        let other = b.get(key).cloned().or_else(|| {
                            let (keys, value) = rest.as_deref()?;
                            keys.contains(&key.ty()).then(|| value.clone())
                        });
                        other.map_or(open, |other| ty.unifies(&other))
                    })
                };
                one_way(a, b, more_b)
                    && one_way(b, a, more_a)
                    && match (more_a.as_deref(), more_b.as_deref()) {
                        (Some((_, a)), Some((_, b))) => a.unifies(b),
                        _ => true,
                    }
            }
            (Self::Set(a), Self::Set(b)) => a.unifies(b),
            _ => false,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("???"),
            Self::Null => f.write_str("null"),
            Self::Boolean => f.write_str("boolean"),
            Self::Number => f.write_str("number"),
            Self::String => f.write_str("string"),
            Self::Array { fixed, rest } => {
                f.write_str("array")?;
                if !fixed.is_empty() || rest.is_none() {
                    f.write_str("<")?;
                    list(f, fixed)?;
                    f.write_str(">")?;
                }
                match rest {
                    Some(rest) => write!(f, "[{rest}]"),
                    None => Ok(()),
                }
            }
            Self::Object { fixed, rest } => {
                f.write_str("object")?;
                if !fixed.is_empty() {
                    f.write_str("<")?;
                    for (index, (key, ty)) in fixed.iter().enumerate() {
                        if index > 0 {
                            f.write_str(", ")?;
                        }
                        write!(f, "{}: {ty}", key.text.trim_matches('"'))?;
                    }
                    f.write_str(">")?;
                }
                match rest.as_deref() {
                    Some((key, value)) => write!(f, "[{key}: {value}]"),
                    None => Ok(()),
                }
            }
            Self::Set(of) => write!(f, "set[{of}]"),
            Self::Any(of) if of.is_empty() => f.write_str("any"),
            Self::Any(of) => {
                f.write_str("any<")?;
                list(f, of)?;
                f.write_str(">")
            }
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, types: &[Type]) -> fmt::Result {
    for (index, ty) in types.iter().enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{ty}")?;
    }
    Ok(())
}

/// The types of the documents and functions of a program.
#[derive(Debug)]
pub(crate) struct Environment {
    nodes: BTreeMap<NodeId, Type>,
    functions: BTreeMap<GroupId, (Vec<Type>, Type)>,
}

impl Environment {
    pub(super) fn new() -> Self {
        Self { nodes: BTreeMap::new(), functions: BTreeMap::new() }
    }

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
    for (span, message, details) in checker.errors {
        errors.push_with(Code::Type, span, message, details);
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
    for (span, message, details) in checker.errors {
        errors.push_with(Code::Type, span, message, details);
    }
}

/// The types given to a built-in and those it takes, for errors about their number.
pub(super) fn arity_details(
    symbols: &Symbols,
    name: &str,
    args: &[Term],
    output: bool,
) -> Vec<String> {
    let environment = Environment::new();
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
    vec![format!("have: ({})", have.join(", ")), format!("want: ({})", want.join(", "))]
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
    errors: Vec<(Span, String, Vec<String>)>,
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
        self.each_term(expr, &mut |this, term| this.closures(term));
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
                // OPA looks at the references of the body only.
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
            let details = vec![format!("left  : {a}"), format!("right : {b}")];
            self.errors.push((span, "match error".to_owned(), details));
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
                let details = vec![
                    format!("have: ({})", given.join(", ")),
                    format!("want: ({})", wanted.join(", ")),
                ];
                self.errors.push((with.span, format!("{name}: arity mismatch"), details));
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
                if let Some((message, details)) = problem {
                    self.errors.push((term.span, message, details));
                }
            }
        }
    }

    fn data_ref(&mut self, path: &[Term]) -> Option<(String, Vec<String>)> {
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
                        let have = format!("have: ({}) => {result}", args.join(", "));
                        let (text, details) =
                            self.undefined(&Root::Data, path, index + 1, &have, true);
                        let text = text.trim_start_matches("undefined ref: ");
                        let message = format!("function {text} used as reference, not called");
                        return Some((message, details));
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
    ) -> Option<(String, Vec<String>)> {
        let mut ty = ty.clone();
        for (index, key) in path.iter().enumerate().skip(from) {
            let Some(keys) = ty.keys() else {
                return Some(self.undefined(root, whole, index, &format!("have: {ty}"), true));
            };
            let wrong = |this: &Self, have: String| {
                let mut one_of = Vec::new();
                ty.known_keys(&mut one_of);
                one_of.sort();
                one_of.dedup();
                let want = if one_of.is_empty() {
                    format!("want (type): {keys}")
                } else {
                    format!("want (one of): [{}]", one_of.join(" "))
                };
                let (message, mut details) = this.undefined(root, whole, index, &have, false);
                let pad = details.get(1).map_or(0, |caret| caret.len().saturating_sub(1));
                details.push(format!("{:pad$}{want}", ""));
                Some((message, details))
            };
            match &key.kind {
                TermKind::Const(id) => {
                    let value = self.constant(*id)?;
                    match ty.select(value) {
                        Some(next) => ty = next,
                        None => return wrong(self, format!("have: {}", value.to_json())),
                    }
                    continue;
                }
                TermKind::Var(var) => match self.var(*var) {
                    Type::Unknown => self.set(*var, keys.clone()),
                    known if !known.unifies(&keys) => {
                        return wrong(self, format!("have (type): {known}"));
                    }
                    _ => {}
                },
                TermKind::Ref(..) => {
                    let known = self.of(key);
                    if known != Type::Unknown && !known.unifies(&keys) {
                        return wrong(self, format!("have (type): {known}"));
                    }
                }
                _ => {
                    if !self.unify_one(key, &keys, false) {
                        let known = self.of(key);
                        return wrong(self, format!("have (type): {known}"));
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

    fn undefined(
        &self,
        root: &Root,
        path: &[Term],
        index: usize,
        have: &str,
        whole: bool,
    ) -> (String, Vec<String>) {
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
        let at = at.unwrap_or(text.len());
        let details = if whole {
            vec![text.clone(), "^".repeat(at), have.to_owned()]
        } else {
            let pad = at + 1;
            vec![text.clone(), format!("{:pad$}^", ""), format!("{:pad$}{have}", "")]
        };
        (format!("undefined ref: {text}"), details)
    }

    /// The type of a term, as far as it is known.
    fn of(&self, term: &Term) -> Type {
        match &term.kind {
            TermKind::Const(id) => self.constant(*id).map_or(Type::ANY, Type::of_constant),
            TermKind::Var(var) => self.var(*var),
            TermKind::Array(items) => {
                let fixed: Vec<Type> = items.iter().map(|item| self.of(item)).collect();
                let rest = fixed.is_empty().then(|| Box::new(Type::ANY));
                Type::Array { fixed, rest }.bounded()
            }
            TermKind::Set(items) => {
                let of = items.iter().map(|item| self.of(item)).fold(Type::Unknown, Type::or);
                let of = if items.is_empty() { Type::ANY } else { of };
                Type::Set(Box::new(of)).bounded()
            }
            TermKind::Object(pairs) => {
                let mut fixed = BTreeMap::new();
                let mut rest = None;
                for (key, value) in pairs {
                    let value = self.of(value);
                    match &key.kind {
                        TermKind::Const(id) => {
                            if let Some(key) = self.constant(*id) {
                                fixed.insert(Key::of(key), value);
                            }
                        }
                        _ => rest = Some(Box::new((self.of(key), value))),
                    }
                }
                if pairs.is_empty() {
                    rest = Some(Box::new((Type::ANY, Type::ANY)));
                }
                Type::Object { fixed, rest }.bounded()
            }
            TermKind::Comprehension(inner) => self
                .comprehensions
                .get(&std::ptr::from_ref(inner.as_ref()))
                .cloned()
                .unwrap_or(Type::ANY),
            TermKind::Ref(root, path) => self.of_ref(root, path),
            TermKind::Call(..) => Type::ANY,
        }
    }

    fn of_ref(&self, root: &Root, path: &[Term]) -> Type {
        let (mut ty, from) = match root {
            Root::Input | Root::Term(_) => return Type::ANY,
            Root::Var(var) => (self.var(*var), 0),
            Root::Data => {
                let mut node = NodeId(0);
                let mut from = 0;
                loop {
                    if let Some(ty) = self.environment.nodes.get(&node) {
                        let below = self.symbols.node(node).is_some_and(|n| !n.children.is_empty());
                        if below {
                            return Type::ANY;
                        }
                        break (ty.clone(), from);
                    }
                    match path.get(from).map(|part| &part.kind) {
                        Some(TermKind::Const(id)) => match self.symbols.child(node, *id) {
                            Some(child) => node = child,
                            None => return Type::ANY,
                        },
                        _ => break (self.environment.extent(self.symbols, node, 0), from),
                    }
                    from += 1;
                }
            }
        };
        for part in path.iter().skip(from) {
            let next = match &part.kind {
                TermKind::Const(id) => self.constant(*id).and_then(|key| ty.select(key)),
                _ => ty.values(),
            };
            match next {
                Some(next) => ty = next,
                None => return Type::Unknown,
            }
        }
        ty
    }

    fn unify_both(&mut self, a: &Term, type_a: &Type, b: &Term, type_b: &Type) -> bool {
        match (type_a.is_unknown(), type_b.is_unknown()) {
            (true, false) => return self.unify_one(a, type_b, false),
            (false, true) => return self.unify_one(b, type_a, false),
            (false, false) => return type_a.unifies(type_b),
            (true, true) => {}
        }
        match (&a.kind, &b.kind) {
            (TermKind::Array(left), TermKind::Array(right)) => {
                left.len() == right.len()
                    && left.iter().zip(right).all(|(left, right)| {
                        let (a, b) = (self.of(left), self.of(right));
                        self.unify_both(left, &a, right, &b)
                    })
            }
            (TermKind::Object(left), TermKind::Object(right)) => {
                left.len() == right.len()
                    && left.iter().all(|(key, value)| {
                        let TermKind::Const(key) = key.kind else { return true };
                        let other = right.iter().find(
                            |(k, _)| matches!(k.kind, TermKind::Const(other) if other == key),
                        );
                        other.is_some_and(|(_, other)| {
                            let (a, b) = (self.of(value), self.of(other));
                            self.unify_both(value, &a, other, &b)
                        })
                    })
            }
            (TermKind::Var(_), TermKind::Var(_)) => {
                self.unify_one(a, &Type::ANY, false) && {
                    let ty = self.of(a);
                    self.unify_one(b, &ty, false)
                }
            }
            (TermKind::Var(_), TermKind::Array(_) | TermKind::Object(_)) => {
                self.unify_one(b, &Type::ANY, false) && {
                    let ty = self.of(b);
                    self.unify_one(a, &ty, false)
                }
            }
            (TermKind::Array(_) | TermKind::Object(_), TermKind::Var(_)) => {
                self.unify_one(a, &Type::ANY, false) && {
                    let ty = self.of(a);
                    self.unify_one(b, &ty, false)
                }
            }
            // A variable against something only partly known.
            (TermKind::Var(_), _) if *type_a == Type::Unknown && *type_b != Type::Unknown => {
                self.unify_one(a, type_b, false)
            }
            (_, TermKind::Var(_)) if *type_b == Type::Unknown && *type_a != Type::Unknown => {
                self.unify_one(b, type_a, false)
            }
            _ => false,
        }
    }

    /// Makes a term have a type; false when it cannot.
    fn unify_one(&mut self, term: &Term, ty: &Type, union: bool) -> bool {
        match (&term.kind, ty) {
            (TermKind::Var(var), _) => {
                let known = self.var(*var);
                if union {
                    self.set(*var, known.or(ty.clone()));
                } else if known != Type::Unknown {
                    return known.unifies(ty);
                } else {
                    self.set(*var, ty.clone());
                }
                true
            }
            (TermKind::Array(items), Type::Array { fixed, rest }) => {
                if items.len() != fixed.len() && rest.is_none() {
                    return false;
                }
                items.iter().enumerate().all(|(index, item)| {
                    let of = fixed.get(index).or(rest.as_deref());
                    of.is_some_and(|of| self.unify_one(item, of, union))
                })
            }
            (TermKind::Set(items), Type::Set(of)) => {
                items.iter().all(|item| self.unify_one(item, of, union))
            }
            (TermKind::Object(pairs), Type::Object { fixed, rest }) => {
                if pairs.len() != fixed.len() && rest.is_none() {
                    return false;
                }
                pairs.iter().all(|(key, value)| match &key.kind {
                    TermKind::Const(id) => {
                        let child = self.constant(*id).and_then(|key| ty.select(key));
                        child.is_some_and(|child| self.unify_one(value, &child, union))
                    }
                    _ => {
                        self.unify_one(value, &Type::ANY, union);
                        true
                    }
                })
            }
            (TermKind::Array(items) | TermKind::Set(items), Type::Any(of)) if of.is_empty() => {
                for item in items {
                    self.unify_one(item, &Type::ANY, true);
                }
                true
            }
            (TermKind::Object(pairs), Type::Any(of)) if of.is_empty() => {
                for (key, value) in pairs {
                    self.unify_one(key, &Type::ANY, true);
                    self.unify_one(value, &Type::ANY, true);
                }
                true
            }
            (TermKind::Array(_) | TermKind::Set(_) | TermKind::Object(_), Type::Any(of)) => {
                let mut any = false;
                for ty in of {
                    any |= self.unify_one(term, ty, true);
                }
                any
            }
            (TermKind::Array(_) | TermKind::Set(_) | TermKind::Object(_), _) => false,
            _ => self.of(term).unifies(ty),
        }
    }

    fn call(&mut self, callee: Callee, args: &[Term], span: Span, nested: bool) {
        let (name, wanted, result, names) = match callee {
            Callee::Builtin(id, _) => {
                let Some(builtin) = self.symbols.builtins.get(id.0 as usize) else { return };
                let name = builtin.name.to_string();
                let Some(builtin) = builtins::find(&name) else {
                    // A function of the host takes and gives anything.
                    args.iter().for_each(|arg| self.fill(arg));
                    return;
                };
                let declaration = builtin.declaration();
                if declaration.variadic.is_some() {
                    return;
                }
                let wanted: Vec<Type> =
                    declaration.args.iter().map(|arg| Type::declared(&arg.ty)).collect();
                let result = declaration.result.as_ref().map(|result| Type::declared(&result.ty));
                let names: Vec<String> = declaration
                    .args
                    .iter()
                    .chain(&declaration.result)
                    .map(|arg| arg.name.clone())
                    .collect();
                (name, wanted, result, names)
            }
            Callee::Function(group, _) => {
                let Some((args, result)) = self.environment.functions.get(&group) else {
                    // Like OPA, let a rule be called only when nothing is known about its value.
                    let path = self.symbols.groups.get(group.0 as usize).map(|g| g.path.as_slice());
                    let node = path.and_then(|path| self.symbols.find(path));
                    let known = node.and_then(|node| self.environment.nodes.get(&node));
                    if known.is_some_and(|ty| *ty != Type::ANY) {
                        let name = self.symbols.path_text(path.unwrap_or(&[]));
                        let message = format!("undefined function {name}");
                        self.errors.push((span, message, Vec::new()));
                    }
                    for arg in args {
                        self.unify_one(arg, &Type::ANY, false);
                    }
                    return;
                };
                let name = self
                    .symbols
                    .groups
                    .get(group.0 as usize)
                    .map_or(String::new(), |group| self.symbols.path_text(&group.path));
                (name, args.clone(), Some(result.clone()), Vec::new())
            }
        };
        let all: Vec<Type> = wanted.into_iter().chain(result).collect();
        let before: Vec<Type> = args.iter().map(|arg| self.of(arg)).collect();
        for ((arg, want), have) in args.iter().zip(&all).zip(&before) {
            if *want == Type::Unknown {
                continue;
            }
            let fits = have.is_unknown() || have.unifies(want);
            if fits && self.unify_one(arg, want, false) {
                continue;
            }
            let have: Vec<Type> =
                if fits { args.iter().map(|arg| self.of(arg)).collect() } else { before.clone() };
            if nested && have.iter().any(Type::is_unknown) {
                return;
            }
            let have: Vec<String> = have.iter().map(Type::to_string).collect();
            let want: Vec<String> = all
                .iter()
                .enumerate()
                .map(|(index, ty)| match names.get(index) {
                    Some(name) if !name.is_empty() => format!("{name}: {ty}"),
                    _ => ty.to_string(),
                })
                .collect();
            let details = vec![
                format!("have: ({})", have.join(", ")),
                format!("want: ({})", want.join(", ")),
            ];
            self.errors.push((span, format!("{name}: invalid argument(s)"), details));
            return;
        }
    }
}
