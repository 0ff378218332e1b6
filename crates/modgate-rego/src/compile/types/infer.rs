//! The types of terms, and what unification and calls add to them.

use std::collections::BTreeMap;

use modgate_value::Value as Json;

use super::{
    super::hir::{Callee, Root, Term, TermKind},
    Checker,
};
use crate::{
    ast::Span,
    builtins,
    ir::{
        NodeId,
        types::{Key, Type},
    },
    mistake::{Detail, Mistake},
    value::Value,
};

impl<'c> Checker<'c> {
    /// The type of a term, as far as it is known.
    pub(super) fn of(&self, term: &Term) -> Type {
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

    pub(super) fn of_ref(&self, root: &Root, path: &[Term]) -> Type {
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

    pub(super) fn unify_both(&mut self, a: &Term, type_a: &Type, b: &Term, type_b: &Type) -> bool {
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
    pub(super) fn unify_one(&mut self, term: &Term, ty: &Type, union: bool) -> bool {
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
                // In OPA's order: what comes before a member that does not fit gives types to variables.
                let (known, open): (Vec<_>, Vec<_>) =
                    pairs.iter().partition(|(key, _)| matches!(key.kind, TermKind::Const(_)));
                let mut known: Vec<(Option<&Json>, &Term)> = known
                    .into_iter()
                    .map(|(key, value)| match &key.kind {
                        TermKind::Const(id) => (self.constant(*id), value),
                        _ => (None, value),
                    })
                    .collect();
                known.sort_by_key(|(key, _)| key.map(Value::json));
                let known: Vec<(Option<Type>, &Term)> = known
                    .into_iter()
                    .map(|(key, value)| (key.and_then(|key| ty.select(key)), value))
                    .collect();
                let fits = known.into_iter().all(|(child, value)| {
                    child.is_some_and(|child| self.unify_one(value, &child, union))
                });
                if fits {
                    for (_, value) in open {
                        self.unify_one(value, &Type::ANY, union);
                    }
                }
                fits
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

    pub(super) fn call(&mut self, callee: Callee, args: &[Term], span: Span, nested: bool) {
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
                        let mistake = Mistake::UndefinedFunction(name);
                        self.errors.push((span, mistake, Vec::new()));
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
            let details = Detail::of_call(&have, &want);
            self.errors.push((span, Mistake::Arguments(name.to_string()), details));
            return;
        }
    }
}
