//! Conditions that come before everything else.
//!
//! OPA's index of rules compares places in the input, and the arguments of functions, with constants before it
//! runs a rule: a rule that cannot hold is not run, so no statement of it raises a conflict. Statements here run in
//! their order. So where one that may raise a conflict stands in front of such conditions, they are tested
//! before it as well. The index knows a few more: patterns of `glob.match`, and places that are members of constants.

use std::collections::BTreeSet;

use crate::ir::{
    Base, Builtin, Call, Callee, Constant, Group, Operand, Pattern, Ref, Rule, Slot, Source, Stmt,
    StmtKind, Term, effects::Raises,
};

/// Adds the conditions to rules.
pub(super) fn conditions(
    constants: &[Constant],
    groups: &[Group],
    builtins: &[Builtin],
    rules: &mut [Rule],
) {
    let known = vec![None; groups.len()];
    let mut raises = Raises { constants, rules: &*rules, groups, builtins, known, depth: 0 };
    let conditions = Conditions { constants, builtins };
    let mut ahead = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        let args: BTreeSet<Slot> = rule.args.iter().filter_map(bound).collect();
        let branches = rule.branches.iter().map(|branch| &branch.body);
        let bodies = branches.chain(rule.keyed.iter().map(|keyed| &keyed.body));
        for (place, body) in bodies.enumerate() {
            let Some(at) = body.iter().position(|stmt| raises.stmt(stmt)) else { continue };
            let found = conditions.of(body, &args, at);
            if !found.is_empty() {
                ahead.push((index, place, at, found));
            }
        }
    }
    for (index, place, at, found) in ahead {
        let Some(rule) = rules.get_mut(index) else { continue };
        let branches = rule.branches.iter_mut().map(|branch| &mut branch.body);
        let mut bodies = branches.chain(rule.keyed.iter_mut().map(|keyed| &mut keyed.body));
        if let Some(body) = bodies.nth(place) {
            body.splice(at..at, found);
        }
    }
}

fn bound(pattern: &Pattern) -> Option<Slot> {
    match pattern {
        Pattern::Bind(slot) => Some(*slot),
        _ => None,
    }
}

struct Conditions<'p> {
    constants: &'p [Constant],
    builtins: &'p [Builtin],
}

impl Conditions<'_> {
    /// The conditions of a body that stand behind a statement.
    fn of(&self, body: &[Stmt], args: &BTreeSet<Slot>, behind: usize) -> Vec<Stmt> {
        // Rules that print are not left out.
        if body.iter().any(|stmt| self.calls(stmt, "internal.print").is_some()) {
            return Vec::new();
        }
        let mut places = args.clone();
        let mut found = Vec::new();
        for (index, stmt) in body.iter().enumerate() {
            if let Some(kind) = self.condition(stmt, &mut places)
                && index > behind
            {
                found.push(Stmt { kind, span: stmt.span, generated: true });
            }
        }
        found
    }

    /// The condition that a statement is, or contains. `places` are the variables that stand for places in the input
    /// and arguments.
    fn condition(&self, stmt: &Stmt, places: &mut BTreeSet<Slot>) -> Option<StmtKind> {
        let (source, pattern) = match &stmt.kind {
            StmtKind::Match(source, pattern) => (source, pattern),
            StmtKind::Test(source) => {
                if let Some([item, Term::Local(slot)]) = self.calls(stmt, "internal.member_2") {
                    let known = self.is_plain(&Pattern::Equal(item.clone()));
                    return (known && places.contains(slot)).then(|| stmt.kind.clone());
                }
                return match source {
                    Source::Ref(reference) if is_place(reference) => {
                        Some(StmtKind::Match(source.clone(), Pattern::Any))
                    }
                    _ => None,
                };
            }
            _ => return None,
        };
        match source {
            Source::Ref(reference) if is_place(reference) => match pattern {
                Pattern::Bind(slot) => {
                    places.insert(*slot);
                    Some(stmt.kind.clone())
                }
                Pattern::Equal(Term::Local(_)) | Pattern::Any => {
                    Some(StmtKind::Match(source.clone(), Pattern::Any))
                }
                pattern => self.is_plain(pattern).then(|| stmt.kind.clone()),
            },
            Source::Ref(Ref { base, path }) => {
                let (Operand::Each(_), start) = path.split_last()? else { return None };
                let whole = Ref { base: base.clone(), path: start.to_vec() };
                if !is_place(&whole) || !self.is_plain(pattern) {
                    return None;
                }
                let mut path = start.to_vec();
                path.push(Operand::Each(Pattern::Any));
                let each = Source::Ref(Ref { base: base.clone(), path });
                let kind = StmtKind::Match(each, pattern.clone());
                let stmt = Stmt { kind, span: stmt.span, generated: true };
                Some(StmtKind::Any(vec![vec![stmt]]))
            }
            Source::Term(Term::Local(slot)) if places.contains(slot) => {
                self.is_plain(pattern).then(|| stmt.kind.clone())
            }
            Source::Term(constant @ Term::Const(_)) => match pattern {
                Pattern::Equal(Term::Local(slot)) if places.contains(slot) => {
                    let same = self.is_plain(&Pattern::Equal(constant.clone()));
                    same.then(|| stmt.kind.clone())
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether a pattern is a constant without objects inside.
    fn is_plain(&self, pattern: &Pattern) -> bool {
        let Pattern::Equal(Term::Const(id)) = pattern else { return false };
        let is_scalar =
            |value: &Constant| value.as_array().is_none() && value.as_object().is_none();
        self.constants.get(id.0 as usize).is_some_and(|value| match value.as_array() {
            Some(items) => items.iter().all(is_scalar),
            None => is_scalar(value),
        })
    }

    /// The arguments of a call of a built-in that has to hold.
    fn calls<'s>(&self, stmt: &'s Stmt, name: &str) -> Option<&'s [Term]> {
        let StmtKind::Test(Source::Call(Call { callee: Callee::Builtin(id), args })) = &stmt.kind
        else {
            return None;
        };
        let builtin = self.builtins.get(id.0 as usize)?;
        (builtin.name == name).then_some(args.as_slice())
    }
}

/// Whether a reference leads to one place in the input.
fn is_place(reference: &Ref) -> bool {
    matches!(reference.base, Base::Input)
        && !reference.path.is_empty()
        && reference.path.iter().all(|step| matches!(step, Operand::Key(Term::Const(_))))
}
