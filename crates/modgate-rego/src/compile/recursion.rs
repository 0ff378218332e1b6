//! Rules that depend on themselves.

use std::collections::{BTreeSet, VecDeque};

use super::{
    errors::Errors,
    hir::{Body, Callee, Collect, Expr, ExprKind, Root, Term, TermKind, WithTarget, WithValue},
    symbols::Symbols,
};
use crate::{
    ast::Module,
    error::Code,
    ir::{ConstId, GroupId, NodeId, RuleId},
};

/// The rules that a rule reads.
#[derive(Debug, Default, Clone)]
pub(super) struct Dependencies(pub(super) BTreeSet<RuleId>);

impl Dependencies {
    pub(super) fn body(&mut self, symbols: &Symbols, body: &Body) {
        body.iter().for_each(|expr| self.expr(symbols, expr));
    }

    fn expr(&mut self, symbols: &Symbols, expr: &Expr) {
        match &expr.kind {
            ExprKind::Term(term) => self.term(symbols, term),
            ExprKind::Eq { left, right, .. } => {
                self.term(symbols, left);
                self.term(symbols, right);
            }
            ExprKind::Call(callee, args) => {
                self.callee(symbols, *callee);
                args.iter().for_each(|arg| self.term(symbols, arg));
            }
            ExprKind::Every(every) => {
                self.term(symbols, &every.domain);
                self.body(symbols, &every.body);
            }
            ExprKind::Not(body) => self.body(symbols, body),
        }
        for with in &expr.with {
            match &with.value {
                WithValue::Term(term) => self.term(symbols, term),
                WithValue::Callee(callee) => self.callee(symbols, *callee),
            }
            if let WithTarget::Callee(callee) = &with.target {
                self.callee(symbols, *callee);
            }
        }
    }

    fn callee(&mut self, symbols: &Symbols, callee: Callee) {
        if let Callee::Function(group, _) = callee {
            self.group(symbols, group);
        }
    }

    fn group(&mut self, symbols: &Symbols, group: GroupId) {
        if let Some(group) = symbols.groups.get(group.0 as usize) {
            self.0.extend(group.rules.iter().chain(&group.default));
        }
    }

    pub(super) fn term(&mut self, symbols: &Symbols, term: &Term) {
        match &term.kind {
            TermKind::Const(_) | TermKind::Var(_) => {}
            TermKind::Array(items) | TermKind::Set(items) => {
                items.iter().for_each(|item| self.term(symbols, item));
            }
            TermKind::Object(pairs) => {
                for (key, value) in pairs {
                    self.term(symbols, key);
                    self.term(symbols, value);
                }
            }
            TermKind::Ref(root, path) => {
                match root {
                    Root::Data => {
                        let keys: Vec<Option<ConstId>> = path
                            .iter()
                            .map(|part| match part.kind {
                                TermKind::Const(key) => Some(key),
                                _ => None,
                            })
                            .collect();
                        self.path(symbols, &keys);
                    }
                    Root::Term(term) => self.term(symbols, term),
                    Root::Input | Root::Var(_) => {}
                }
                path.iter().for_each(|part| self.term(symbols, part));
            }
            TermKind::Comprehension(inner) => {
                match &inner.head {
                    Collect::Array(term) | Collect::Set(term) => self.term(symbols, term),
                    Collect::Object(key, value) => {
                        self.term(symbols, key);
                        self.term(symbols, value);
                    }
                }
                self.body(symbols, &inner.body);
            }
            TermKind::Call(callee, args) => {
                self.callee(symbols, *callee);
                args.iter().for_each(|arg| self.term(symbols, arg));
            }
        }
    }

    /// Every rule on the way to a path of `data`, and below its end.
    fn path(&mut self, symbols: &Symbols, keys: &[Option<ConstId>]) {
        let mut nodes = vec![NodeId(0)];
        for key in keys {
            let mut next = Vec::new();
            for id in nodes {
                let Some(node) = symbols.node(id) else { continue };
                match key {
                    Some(key) => next.extend(node.children.get(key)),
                    None => next.extend(node.children.values()),
                }
            }
            for id in &next {
                self.0.extend(symbols.own(*id));
            }
            nodes = next;
        }
        while let Some(id) = nodes.pop() {
            self.0.extend(symbols.own(id));
            nodes.extend(symbols.node(id).into_iter().flat_map(|node| node.children.values()));
        }
    }
}

/// How many pairs of a rule and another that it may read a program may have.
pub(super) const MAX_DEPENDENCIES: usize = 1_000_000;

/// Reports every rule that can reach itself; otherwise gives an order in which every rule comes
/// after those it reads.
pub(super) fn check(
    symbols: &Symbols,
    modules: &[Module],
    dependencies: &[Dependencies],
    errors: &mut Errors<'_>,
) -> Vec<usize> {
    // Rules that depend on nothing unresolved cannot be part of a cycle; take them away until
    // nothing changes.
    let count = dependencies.len();
    let mut open: Vec<usize> = dependencies.iter().map(|rule| rule.0.len()).collect();
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (user, rule) in dependencies.iter().enumerate() {
        for used in &rule.0 {
            if let Some(users) = users.get_mut(used.0 as usize) {
                users.push(user);
            }
        }
    }
    let mut ready: Vec<usize> =
        open.iter().enumerate().filter(|(_, open)| **open == 0).map(|(rule, _)| rule).collect();
    let mut order = Vec::with_capacity(count);
    while let Some(rule) = ready.pop() {
        order.push(rule);
        for user in users.get(rule).into_iter().flatten() {
            if let Some(open) = open.get_mut(*user) {
                *open -= 1;
                if *open == 0 {
                    ready.push(*user);
                }
            }
        }
    }
    let mut reported = 0;
    for (rule, _) in open.iter().enumerate().filter(|(_, open)| **open > 0) {
        if reported == 10 {
            break;
        }
        let Some(path) = path_to_itself(rule, dependencies) else { continue };
        reported += 1;
        let id = |rule: usize| RuleId(u32::try_from(rule).unwrap_or(u32::MAX));
        let name = symbols.rule_text(modules, id(rule));
        let path: Vec<String> =
            path.into_iter().map(|rule| symbols.rule_text(modules, id(rule))).collect();
        errors.push(
            Code::Recursion,
            symbols.span(modules, id(rule)),
            format!("rule {name} is recursive: {}", path.join(" -> ")),
        );
    }
    order
}

fn path_to_itself(start: usize, dependencies: &[Dependencies]) -> Option<Vec<usize>> {
    let mut came_from: Vec<Option<usize>> = vec![None; dependencies.len()];
    let mut queue = VecDeque::from([start]);
    while let Some(rule) = queue.pop_front() {
        for next in dependencies.get(rule)?.0.iter().map(|next| next.0 as usize) {
            let from = came_from.get_mut(next)?;
            if from.is_some() {
                continue;
            }
            *from = Some(rule);
            if next == start {
                let mut path = vec![start];
                let mut at = rule;
                while at != start {
                    path.push(at);
                    at = came_from.get(at).copied().flatten()?;
                }
                path.push(start);
                path.reverse();
                return Some(path);
            }
            queue.push_back(next);
        }
    }
    None
}
