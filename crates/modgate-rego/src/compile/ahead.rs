//! Conditions that come before everything else.
//!
//! OPA's index of rules compares places in the input, and the arguments of functions, with constants before it
//! runs a rule: a rule that cannot hold is not run, so no statement of it raises a conflict. Statements here run in
//! their order. So where one that may raise a conflict stands in front of such conditions, they are tested
//! before it as well. The index knows a few more: patterns of `glob.match`, and places that are members of constants.

use std::collections::{BTreeMap, BTreeSet};

use crate::ir::{
    Base, Builtin, Call, Callee, ConstId, Constant, Group, Operand, Pattern, Ref, Rule, Slot,
    Source, Stmt, StmtKind, Term, effects::Raises,
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

/// Variables that stand for something that is known before a rule runs.
struct Variables {
    /// Places in the input, and arguments.
    places: BTreeSet<Slot>,
    constants: BTreeMap<Slot, ConstId>,
}

impl Variables {
    /// The constant that a term stands for, or the term.
    fn constant(&self, term: &Term) -> Term {
        let known = match term {
            Term::Local(slot) => self.constants.get(slot).copied(),
            _ => None,
        };
        known.map_or_else(|| term.clone(), Term::Const)
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
        let mut known = Variables { places: args.clone(), constants: BTreeMap::new() };
        let mut found = Vec::new();
        for (index, stmt) in body.iter().enumerate() {
            let next = body.get(index + 1);
            let before = index.checked_sub(1).and_then(|index| body.get(index));
            if next.is_some_and(|next| compare_places(stmt, next))
                || before.is_some_and(|before| compare_places(before, stmt))
            {
                continue;
            }
            if let Some(kind) = self.condition(stmt, &mut known)
                && index > behind
            {
                found.push(Stmt { kind, span: stmt.span, generated: true });
            }
        }
        found
    }

    /// The condition that a statement is, or contains.
    fn condition(&self, stmt: &Stmt, known: &mut Variables) -> Option<StmtKind> {
        let (source, pattern) = match &stmt.kind {
            StmtKind::Match(source, pattern) => (source, pattern),
            StmtKind::Test(source) => {
                if let Some([item, Term::Local(slot)]) = self.calls(stmt, "internal.member_2") {
                    let plain = self.is_plain(item);
                    return (plain && known.places.contains(slot)).then(|| stmt.kind.clone());
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
            Source::Ref(reference) if is_place(reference) => {
                if let Pattern::Bind(slot) = pattern {
                    known.places.insert(*slot);
                    return Some(stmt.kind.clone());
                }
                let pattern = match (pattern, self.indexed(pattern, known)) {
                    (_, Some(pattern)) => pattern,
                    (Pattern::Equal(Term::Local(_)) | Pattern::Any, None) => Pattern::Any,
                    _ => return None,
                };
                Some(StmtKind::Match(source.clone(), pattern))
            }
            Source::Ref(Ref { base, path }) => {
                let (Operand::Each(_), start) = path.split_last()? else { return None };
                let whole = Ref { base: base.clone(), path: start.to_vec() };
                let pattern = self.indexed(pattern, known).filter(|it| self.is_scalar(it))?;
                if !is_place(&whole) {
                    return None;
                }
                let mut path = start.to_vec();
                path.push(Operand::Each(Pattern::Any));
                let each = Source::Ref(Ref { base: base.clone(), path });
                let kind = StmtKind::Match(each, pattern);
                let stmt = Stmt { kind, span: stmt.span, generated: true };
                Some(StmtKind::Any(vec![vec![stmt]]))
            }
            Source::Term(Term::Local(slot)) if known.places.contains(slot) => {
                let pattern = self.indexed(pattern, known)?;
                Some(StmtKind::Match(source.clone(), pattern))
            }
            Source::Term(term @ Term::Const(id)) => match pattern {
                Pattern::Bind(slot) => {
                    known.constants.insert(*slot, *id);
                    None
                }
                Pattern::Equal(Term::Local(slot)) if known.places.contains(slot) => {
                    self.is_plain(term).then(|| stmt.kind.clone())
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// The part of a pattern that the index compares: a constant, or a list of scalars and variables.
    fn indexed(&self, pattern: &Pattern, known: &Variables) -> Option<Pattern> {
        match pattern {
            Pattern::Equal(term) => {
                let term = known.constant(term);
                self.is_plain(&term).then_some(Pattern::Equal(term))
            }
            Pattern::Array(items) => {
                let item = |item: &Pattern| match item {
                    Pattern::Any | Pattern::Bind(_) | Pattern::Equal(Term::Local(_)) => {
                        Some(Pattern::Any)
                    }
                    item => self.is_scalar(item).then(|| item.clone()),
                };
                items.iter().map(item).collect::<Option<_>>().map(Pattern::Array)
            }
            _ => None,
        }
    }

    fn is_scalar(&self, pattern: &Pattern) -> bool {
        let Pattern::Equal(Term::Const(id)) = pattern else { return false };
        self.constants.get(id.0 as usize).is_some_and(is_scalar)
    }

    /// Whether a term is a constant without objects or lists in lists.
    fn is_plain(&self, term: &Term) -> bool {
        let Term::Const(id) = term else { return false };
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

/// Whether these two statements are one comparison of two references, of which the index knows nothing.
fn compare_places(first: &Stmt, second: &Stmt) -> bool {
    match (&first.kind, &second.kind) {
        (
            StmtKind::Match(Source::Ref(_), Pattern::Bind(slot)),
            StmtKind::Match(Source::Ref(_), Pattern::Equal(Term::Local(read))),
        ) => slot == read && first.span == second.span,
        _ => false,
    }
}

fn is_scalar(value: &Constant) -> bool {
    value.as_array().is_none() && value.as_object().is_none()
}

/// Whether a reference leads to one place in the input.
fn is_place(reference: &Ref) -> bool {
    matches!(reference.base, Base::Input)
        && !reference.path.is_empty()
        && reference.path.iter().all(|step| matches!(step, Operand::Key(Term::Const(_))))
}
