//! Sets whose members another set takes.
//!
//! Policies collect what they find about containers in one set, and take members of it into another one:
//! `violation[{"msg": msg}] { general_violation[{"msg": msg, "field": "containers"}] }`. If nothing else asks for
//! the first set, the second one has its rules: no member is made, sorted and held against a pattern for nothing.
//!
//! The rules of the first set run where the second set asks for it, all of them, so they raise the conflicts that they
//! raised. What stands in front runs before each of them, so nothing but a few looks at the input may.

use std::collections::{BTreeMap, BTreeSet};

use super::Spelling;
use crate::ir::{
    Base, Branch, DataBase, Group, GroupId, GroupKind, Leaf, Operand, Pattern, Ref, Rule, RuleId,
    Slot, Source, Stmt, StmtKind, Term, slots,
};

/// Most statements in front.
const MAX_BEFORE: usize = 4;

/// Most rules that a set takes.
const MAX_TAKEN: usize = 32;

/// A frame of more slots gets no further ones.
const MAX_FRAME: u32 = 256;

/// The sets that take members of others.
#[derive(Default)]
pub(super) struct Absorbed {
    /// The rules that such sets have then.
    pub(super) rules: BTreeMap<GroupId, Vec<RuleId>>,
    /// The sets that nothing else asks for.
    pub(super) groups: BTreeSet<GroupId>,
}

/// Finds such sets. Their new rules come to those of the program, as rules of no group yet.
pub(super) fn absorbed(
    groups: &[Group],
    spelling: &Spelling<'_>,
    rules: &mut Vec<Rule>,
) -> Absorbed {
    let asked = asked(groups, rules);
    let is_asked_once = |id: &GroupId| asked.get(id) == Some(&1);
    let mut absorbed = Absorbed::default();
    for (id, group) in (0..).map(GroupId).zip(groups) {
        if group.kind != GroupKind::Set || absorbed.groups.contains(&id) {
            continue;
        }
        let (mut ids, mut more, mut taken) = (Vec::new(), Vec::new(), Vec::new());
        for rule in &group.rules {
            let found = rules.get(rule.0 as usize).and_then(|rule| {
                let from = taken_from(rule).filter(is_asked_once)?;
                let group = groups.get(from.0 as usize)?;
                Some((from, in_place(rule, group, rules, spelling)?))
            });
            match found {
                Some((from, new)) => {
                    taken.push(from);
                    for rule in new {
                        ids.push(RuleId(
                            u32::try_from(rules.len() + more.len()).unwrap_or(u32::MAX),
                        ));
                        more.push(rule);
                    }
                }
                None => ids.push(*rule),
            }
        }
        if !taken.is_empty() {
            rules.append(&mut more);
            absorbed.rules.insert(id, ids);
            absorbed.groups.extend(taken);
        }
    }
    absorbed
}

/// How often the rules of groups ask for each document, single members left out.
fn asked(groups: &[Group], rules: &[Rule]) -> BTreeMap<GroupId, usize> {
    let mut asked = BTreeMap::new();
    let ids = groups.iter().flat_map(|group| group.rules.iter().chain(&group.default));
    for rule in ids.filter_map(|id| rules.get(id.0 as usize)) {
        for branch in &rule.branches {
            count(&branch.body, &mut asked);
        }
    }
    asked
}

fn count(body: &[Stmt], asked: &mut BTreeMap<GroupId, usize>) {
    for stmt in body {
        match &stmt.kind {
            StmtKind::Test(source) | StmtKind::Match(source, _) => match source {
                Source::Ref(Ref { base: Base::Data { at: DataBase::Group(id), .. }, .. }) => {
                    *asked.entry(*id).or_default() += 1;
                }
                Source::Comprehension(comprehension) => count(&comprehension.body, asked),
                Source::Ref(_) | Source::Term(_) | Source::Call(_) => {}
            },
            StmtKind::Not(body) | StmtKind::With(_, body) => count(body, asked),
            StmtKind::Any(bodies) | StmtKind::Each(bodies) => {
                bodies.iter().for_each(|body| count(body, asked));
            }
            StmtKind::Every(every) => count(&every.body, asked),
        }
    }
}

/// The set of which a rule takes members, if its body ends with that.
fn taken_from(rule: &Rule) -> Option<GroupId> {
    let [Branch { body, .. }] = rule.branches.as_slice() else { return None };
    let (last, before) = body.split_last()?;
    let (from, _) = taken(last)?;
    (before.len() <= MAX_BEFORE && before.iter().all(is_look)).then_some(from)
}

/// The set that a statement takes members of, and their pattern.
fn taken(stmt: &Stmt) -> Option<(GroupId, &Pattern)> {
    let (StmtKind::Test(Source::Ref(reference))
    | StmtKind::Match(Source::Ref(reference), Pattern::Any)) = &stmt.kind
    else {
        return None;
    };
    match (&reference.base, reference.path.as_slice()) {
        (Base::Data { at: DataBase::Group(from), .. }, [Operand::Each(pattern)]) => {
            Some((*from, pattern))
        }
        _ => None,
    }
}

/// Whether a statement does no more than look at places of the input. It holds once at most.
fn is_look(stmt: &Stmt) -> bool {
    match &stmt.kind {
        StmtKind::Test(source) | StmtKind::Match(source, _) => match source {
            Source::Term(_) => true,
            Source::Ref(Ref { base: Base::Term(_) | Base::Input, path }) => {
                path.iter().all(|step| matches!(step, Operand::Key(_)))
            }
            Source::Ref(_) | Source::Comprehension(_) | Source::Call(_) => false,
        },
        StmtKind::Not(body) => body.len() <= MAX_BEFORE && body.iter().all(is_look),
        _ => false,
    }
}

/// The rules that give what a rule does that takes members of a set; `None` if there are no such rules.
fn in_place(
    rule: &Rule,
    set: &Group,
    rules: &[Rule],
    spelling: &Spelling<'_>,
) -> Option<Vec<Rule>> {
    let [Branch { body, leaf: Leaf::Member(member), span }] = rule.branches.as_slice() else {
        return None;
    };
    let (last, before) = body.split_last()?;
    let (_, pattern) = taken(last)?;
    if set.kind != GroupKind::Set || set.rules.len() > MAX_TAKEN {
        return None;
    }
    let mut new = Vec::with_capacity(set.rules.len());
    for id in &set.rules {
        let inner = rules.get(id.0 as usize)?;
        let [Branch { body: inside, leaf: Leaf::Member(Term::Object(entries)), .. }] =
            inner.branches.as_slice()
        else {
            return None;
        };
        let frame = rule.frame.checked_add(inner.frame).filter(|frame| *frame <= MAX_FRAME)?;
        let mut moved = |slot: &mut Slot| *slot = Slot(slot.0.saturating_add(rule.frame));
        let (mut inside, mut found) = (inside.clone(), Term::Object(entries.clone()));
        slots::each_in_body(&mut inside, &mut moved);
        slots::each_in_term(&mut found, &mut moved);
        let mut member = member.clone();
        for (slot, value) in bound(pattern, &found)? {
            put(&mut member, slot, value);
        }
        let mut body = before.to_vec();
        body.append(&mut inside);
        // Of equal members the first is kept, and the order is another one.
        if !spelling.is_of_one(&member, &body) {
            return None;
        }
        new.push(Rule {
            frame,
            branches: vec![Branch { body, leaf: Leaf::Member(member), span: *span }],
            keyed: Vec::new(),
            names: Vec::new(),
            ..rule.clone()
        });
    }
    Some(new)
}

/// The variables that a pattern binds for a member, if it matches each such member.
fn bound<'t>(pattern: &Pattern, member: &'t Term) -> Option<Vec<(Slot, &'t Term)>> {
    match (pattern, member) {
        (Pattern::Bind(slot), member) => Some(vec![(*slot, member)]),
        (Pattern::Object(patterns), Term::Object(entries)) if patterns.len() == entries.len() => {
            let mut bound = Vec::with_capacity(patterns.len());
            for (key, pattern) in patterns {
                let Term::Const(_) = key else { return None };
                let mut values = entries.iter().filter(|(name, _)| name == key);
                let (Some((_, value)), None) = (values.next(), values.next()) else { return None };
                match (pattern, value) {
                    (Pattern::Any, _) => {}
                    (Pattern::Bind(slot), value) => bound.push((*slot, value)),
                    // Each constant is there once.
                    (Pattern::Equal(Term::Const(a)), Term::Const(b)) if a == b => {}
                    _ => return None,
                }
            }
            Some(bound)
        }
        _ => None,
    }
}

/// Puts a term in the place of a variable.
fn put(term: &mut Term, slot: Slot, value: &Term) {
    match term {
        Term::Local(read) if *read == slot => *term = value.clone(),
        Term::Const(_) | Term::ConstSet(_) | Term::Local(_) => {}
        Term::Array(items) | Term::Set(items) => {
            items.iter_mut().for_each(|item| put(item, slot, value));
        }
        Term::Object(entries) => {
            for (key, member) in entries {
                put(key, slot, value);
                put(member, slot, value);
            }
        }
    }
}
