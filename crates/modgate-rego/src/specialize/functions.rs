//! Rules of a function that begin alike.
//!
//! The rules of a function often take cases apart: each begins with the same tests as the one before. Such
//! rules become one, which runs these once and then the rest of each.
//!
//! Of values that are equal the first one counts, and `1` and `1.0` are equal, so the order stays: only rules
//! that follow one another become one, and only what holds once is shared.

use crate::ir::{
    Body, Branch, Builtin, Constant, Group, GroupKind, Leaf, Pattern, Rule, RuleId, Slot, Source,
    Stmt, StmtKind, Term,
    effects::{Raises, holds_once},
    slots,
};

/// Functions of more rules are left alone.
const MAX_RULES: usize = 64;

/// How deep bodies may branch.
const MAX_DEPTH: u32 = 16;

/// A rule with its variables numbered in the order in which they occur.
struct Draft {
    id: RuleId,
    frame: u32,
    args: Vec<Pattern>,
    body: Body,
    value: Term,
}

/// Merges the rules of functions.
pub(super) fn merge(
    constants: &[Constant],
    builtins: &[Builtin],
    rules: &mut Vec<Rule>,
    groups: &mut [Group],
) {
    let mut known = vec![None; groups.len()];
    for index in 0..groups.len() {
        let Some(group) = groups.get(index) else { continue };
        let is_function = matches!(group.kind, GroupKind::Function { .. });
        let few = (2..=MAX_RULES).contains(&group.rules.len());
        if !is_function || !few || group.index.is_some() {
            continue;
        }
        let mut raises = Raises { constants, rules, groups, builtins, known, depth: 0 };
        // Where none raises a conflict, those behind the first that succeeds need not run.
        let early = group.exits_early || !raises.rules(&group.rules);
        known = raises.known;
        let merged = merged(&group.rules, early, builtins, rules);
        if let Some(group) = groups.get_mut(index) {
            group.rules = merged;
        }
    }
}

/// The rules with those that begin alike as one.
fn merged(ids: &[RuleId], early: bool, builtins: &[Builtin], rules: &mut Vec<Rule>) -> Vec<RuleId> {
    let mut left = Vec::with_capacity(ids.len());
    let mut alike: Vec<Draft> = Vec::new();
    for id in ids {
        let draft = rules.get(id.0 as usize).and_then(|rule| Draft::of(*id, rule));
        let goes_on = match (&draft, alike.first()) {
            (Some(draft), Some(first)) => {
                first.args == draft.args && common(&[&first.body, &draft.body], builtins) > 0
            }
            _ => false,
        };
        if !goes_on {
            left.extend(one(&std::mem::take(&mut alike), early, builtins, rules));
        }
        match draft {
            Some(draft) => alike.push(draft),
            None => left.push(*id),
        }
    }
    left.extend(one(&alike, early, builtins, rules));
    left
}

/// One rule for all of these, which begin alike. `early` is whether the first that succeeds decides.
fn one(
    drafts: &[Draft],
    early: bool,
    builtins: &[Builtin],
    rules: &mut Vec<Rule>,
) -> Option<RuleId> {
    let first = drafts.first()?;
    let old = rules.get(first.id.0 as usize)?;
    let next = u32::try_from(rules.len()).ok()?;
    if drafts.len() == 1 {
        return Some(first.id);
    }
    let frame = drafts.iter().map(|draft| draft.frame).max().unwrap_or(0);
    let constant = match &first.value {
        constant @ Term::Const(_) if early && drafts.iter().all(|it| it.value == *constant) => {
            Some(constant.clone())
        }
        _ => None,
    };
    let into = match constant {
        Some(_) => None,
        None => Some(Slot(frame)),
    };
    let bodies: Vec<(&[Stmt], &Draft)> =
        drafts.iter().map(|draft| (draft.body.as_slice(), draft)).collect();
    let body = body_of(&bodies, into, builtins, 0);
    let value = constant.unwrap_or(Term::Local(Slot(frame)));
    let rule = Rule {
        frame: frame.saturating_add(1),
        args: first.args.clone(),
        branches: vec![Branch { body, leaf: Leaf::Value(value), span: old.span }],
        names: Vec::new(),
        ..old.clone()
    };
    rules.push(rule);
    Some(RuleId(next))
}

/// The rest of these bodies, which begin alike. Binds `into`, or without it holds if one of them
/// does.
fn body_of(
    drafts: &[(&[Stmt], &Draft)],
    into: Option<Slot>,
    builtins: &[Builtin],
    depth: u32,
) -> Body {
    let all: Vec<&[Stmt]> = drafts.iter().map(|(body, _)| *body).collect();
    let Some((first, draft)) = drafts.first() else { return Body::new() };
    if drafts.len() == 1 {
        let mut body = first.to_vec();
        if let Some(into) = into {
            let span = body.last().map(|stmt| stmt.span).unwrap_or_default();
            let kind = StmtKind::Match(Source::Term(draft.value.clone()), Pattern::Bind(into));
            body.push(Stmt { kind, span, generated: true });
        }
        return body;
    }
    let shared = common(&all, builtins);
    let mut body: Body = first.iter().take(shared).cloned().collect();
    let mut parts: Vec<Vec<(&[Stmt], &Draft)>> = Vec::new();
    for (rest, draft) in drafts {
        let rest = rest.get(shared..).unwrap_or_default();
        match parts.last_mut() {
            Some(part)
                if depth < MAX_DEPTH
                    && part
                        .first()
                        .is_some_and(|(other, _)| common(&[*other, rest], builtins) > 0) =>
            {
                part.push((rest, *draft));
            }
            _ => parts.push(vec![(rest, *draft)]),
        }
    }
    let bodies = parts.iter().map(|part| body_of(part, into, builtins, depth + 1)).collect();
    let span = body.last().map(|stmt| stmt.span).unwrap_or_default();
    let kind = if into.is_some() { StmtKind::Each(bodies) } else { StmtKind::Any(bodies) };
    body.push(Stmt { kind, span, generated: true });
    body
}

/// How many statements all of these begin with, as far as each of them holds once.
fn common(bodies: &[&[Stmt]], builtins: &[Builtin]) -> usize {
    let Some((first, others)) = bodies.split_first() else { return 0 };
    let is_common = |(index, stmt): (usize, &Stmt)| {
        others.iter().all(|other| other.get(index) == Some(stmt))
            && holds_once(builtins, std::slice::from_ref(stmt))
    };
    first.iter().enumerate().take_while(|it| is_common(*it)).count()
}

impl Draft {
    /// `None` if the rule cannot become part of another one.
    fn of(id: RuleId, rule: &Rule) -> Option<Self> {
        let [Branch { body, leaf: Leaf::Value(value), span: _ }] = rule.branches.as_slice() else {
            return None;
        };
        let (mut args, mut body, mut value) = (rule.args.clone(), body.clone(), value.clone());
        let mut numbers = slots::Numbers::default();
        let mut number = |slot: &mut Slot| numbers.renumber(slot);
        args.iter_mut().for_each(|arg| slots::each_in_pattern(arg, &mut number));
        slots::each_in_body(&mut body, &mut number);
        slots::each_in_term(&mut value, &mut number);
        let frame = u32::try_from(numbers.len()).ok()?;
        Some(Self { id, frame, args, body, value })
    }
}
