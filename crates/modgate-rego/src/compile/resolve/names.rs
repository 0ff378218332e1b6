//! The names that terms contain.

use std::collections::BTreeSet;

use modgate_value::{Str, near};

use crate::ast::{self, operator_name};

/// The names a body declares with `:=` and `some`, its comprehensions left out.
pub(super) fn declared_names(body: &[ast::Expr], names: &mut BTreeSet<Str>) {
    for expr in body {
        match &expr.kind {
            ast::ExprKind::Some(vars) => names.extend(vars.iter().map(|(name, _)| name.clone())),
            ast::ExprKind::SomeIn { key, value, .. } => {
                key.iter().chain([value]).for_each(|term| all_names(term, names));
            }
            ast::ExprKind::Every { body, .. } | ast::ExprKind::Not(body) => {
                declared_names(body, names);
            }
            ast::ExprKind::Term(term) => {
                if let ast::TermKind::Call(operator, args) = &term.kind
                    && operator_name(operator) == Some("assign")
                    && let [left, _] = args.as_slice()
                {
                    all_names(left, names);
                }
            }
        }
    }
}

/// Every variable name in a term, the roots of references included.
pub(super) fn all_names(term: &ast::Term, names: &mut BTreeSet<Str>) {
    match &term.kind {
        ast::TermKind::Var(name) => {
            names.insert(name.clone());
        }
        ast::TermKind::Array(items) | ast::TermKind::Set(items) | ast::TermKind::Ref(items) => {
            items.iter().for_each(|item| all_names(item, names));
        }
        ast::TermKind::Object(pairs) => {
            for (key, value) in pairs {
                all_names(key, names);
                all_names(value, names);
            }
        }
        _ => {}
    }
}

/// The names that `some .. in` binds: variables in places that can be matched.
pub(super) fn pattern_names(term: &ast::Term, names: &mut BTreeSet<Str>) {
    match &term.kind {
        ast::TermKind::Var(name) => {
            names.insert(name.clone());
        }
        ast::TermKind::Array(items) => items.iter().for_each(|item| pattern_names(item, names)),
        ast::TermKind::Object(pairs) => {
            pairs.iter().for_each(|(_, value)| pattern_names(value, names));
        }
        _ => {}
    }
}

/// An operator as it is written.
pub(super) fn dotted(parts: &[ast::Term]) -> String {
    let mut name = String::new();
    for part in parts {
        match &part.kind {
            ast::TermKind::Var(text) | ast::TermKind::String(text) => {
                if !name.is_empty() {
                    name.push('.');
                }
                name.push_str(text);
            }
            _ => name.push_str("[_]"),
        }
    }
    name
}

/// Advice about a name that does not exist, when a known one is near.
pub(super) fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<String> {
    near::did_you_mean(name, known.filter(|candidate| !candidate.starts_with("internal.")))
}
