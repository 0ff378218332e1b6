//! The replacements of `with`.

use super::{
    super::{
        hir::{Callee, With, WithTarget, WithValue},
        symbols::scalar,
    },
    Occurrence, Resolver,
    names::dotted,
};

use crate::{ast, error::Code, ir::GroupKind};

impl Resolver<'_, '_> {
    pub(super) fn withs(&mut self, withs: &[ast::With]) -> Vec<With> {
        withs.iter().filter_map(|with| self.with(with)).collect()
    }

    pub(super) fn with(&mut self, with: &ast::With) -> Option<With> {
        let target = self.with_target(with)?;
        let value = match self.with_callee(&with.value, &target) {
            Some(callee) => WithValue::Callee(callee),
            None => WithValue::Term(self.term(&with.value)),
        };
        Some(With { target, value, span: self.at(with.span) })
    }

    pub(super) fn with_target(&mut self, with: &ast::With) -> Option<WithTarget> {
        let term = &with.target;
        let invalid = |this: &mut Self| {
            let message = "with keyword target must reference existing input, data, or a function";
            this.error(Code::Type, term.span, message);
            None
        };
        let parts = match &term.kind {
            ast::TermKind::Ref(parts) => parts.as_slice(),
            _ => std::slice::from_ref(term),
        };
        let Some((ast::Term { kind: ast::TermKind::Var(head), .. }, rest)) = parts.split_first()
        else {
            return invalid(self);
        };
        let mut path = Vec::new();
        for part in rest {
            match scalar(&part.kind) {
                Some(value) => path.push(self.symbols.constants.add(value)),
                None => return invalid(self),
            }
        }
        let (input, path) = match head.as_str() {
            "input" => (true, path),
            "data" => (false, path),
            _ => match self.global(head) {
                Some(global) => {
                    let mut whole = global.path.clone();
                    let input = global.input;
                    whole.extend(path);
                    (input, whole)
                }
                None => {
                    let name = dotted(parts);
                    let Some(signature) = self.symbols.signature(&name) else {
                        return invalid(self);
                    };
                    let refusal = if matches!(
                        name.as_str(),
                        "eq" | "rego.metadata.chain" | "rego.metadata.rule"
                    ) {
                        format!("replacement of {name:?} invalid")
                    } else if name.starts_with("internal.") {
                        format!("replacement of internal function {name:?} invalid")
                    } else if signature.relation {
                        "target must not be a relation".to_owned()
                    } else if signature.void {
                        "target must not be a void function".to_owned()
                    } else {
                        let id = self.symbols.builtin(&name, signature.arity);
                        return Some(WithTarget::Callee(Callee::Builtin(id, signature.arity)));
                    };
                    let message = format!("with keyword replacing built-in function: {refusal}");
                    self.error(Code::Compile, term.span, message);
                    return None;
                }
            },
        };
        if input {
            return Some(WithTarget::Input(path));
        }
        if let Some(group) = self.symbols.group_at(&path)
            && let Some(GroupKind::Function { arity }) =
                self.symbols.groups.get(group.0 as usize).map(|group| group.kind)
        {
            let arity = u32::try_from(arity).unwrap_or(u32::MAX);
            return Some(WithTarget::Callee(Callee::Function(group, arity)));
        }
        // Below a rule there is nothing to replace piecemeal.
        for length in 1..path.len() {
            if path.get(..length).is_some_and(|part| self.symbols.group_at(part).is_some()) {
                let message = "with keyword cannot partially replace virtual document(s)";
                self.error(Code::Compile, term.span, message);
                return None;
            }
        }
        Some(WithTarget::Data(path))
    }

    /// The function that a `with` puts in place of another.
    pub(super) fn with_callee(&mut self, value: &ast::Term, target: &WithTarget) -> Option<Callee> {
        let WithTarget::Callee(_) = target else { return None };
        let parts = match &value.kind {
            ast::TermKind::Ref(parts) => parts.as_slice(),
            ast::TermKind::Var(_) => std::slice::from_ref(value),
            _ => return None,
        };
        let Some((ast::Term { kind: ast::TermKind::Var(head), .. }, rest)) = parts.split_first()
        else {
            return None;
        };
        if self.declared(head).is_some_and(|(_, occurrence)| occurrence != Occurrence::Seen) {
            return None;
        }
        let mut path = match (head.as_str(), self.global(head)) {
            ("data", _) => Vec::new(),
            (_, Some(global)) if !global.input => global.path.clone(),
            _ => {
                let name = dotted(parts);
                let signature = self.symbols.signature(&name)?;
                let id = self.symbols.builtin(&name, signature.arity);
                return Some(Callee::Builtin(id, signature.arity));
            }
        };
        for part in rest {
            path.push(self.symbols.constants.add(scalar(&part.kind)?));
        }
        let group = self.symbols.group_at(&path)?;
        match self.symbols.groups.get(group.0 as usize)?.kind {
            GroupKind::Function { arity } => {
                Some(Callee::Function(group, u32::try_from(arity).unwrap_or(u32::MAX)))
            }
            // A rule: what it produces is the value.
            _ => None,
        }
    }
}
