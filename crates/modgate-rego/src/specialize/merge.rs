//! Rules of a set that begin alike.
//!
//! A policy may have ten rules about each container of a Pod, and each rule visits all containers. Rules
//! that begin with the same statements become one rule, which runs these once and then the rest of each.
//!
//! Of the rules of a set some depend on the parameters and most do not. Evaluations of several constraints
//! of a template share what the latter add to the set, as a document of its own. They also share how far
//! the former get before the first statement that depends on the parameters, as rows of values.
//!
//! The members of a set are sorted, so the order in which they are found does not show. But of equal members the
//! first one is kept, and `1` and `1.0` are equal: only rules whose members have one spelling become one
//! rule.

mod absorb;
mod steps;

use std::collections::BTreeSet;

use modgate_value::Value as Json;

use super::{inline, once};
use crate::{
    builtins::Type,
    ir::{
        Base, Body, Branch, Callee, Collect, Constant, DataBase, Group, GroupId, GroupKind, Leaf,
        Operand, Pattern, Program, Ref, Rule, RuleId, Slot, Source, Stmt, StmtKind, Term, Whole,
        slots,
    },
};

/// A document of fewer statements is as soon evaluated as looked up.
const MIN_STATEMENTS: usize = 3;

/// Sets of more rules are left alone.
const MAX_RULES: usize = 128;

/// Most variables that a row of such a document has.
const MAX_LIVE: usize = 6;

/// Most groups that a program has with those that are added.
const MAX_GROUPS: usize = 512;

/// How deep bodies may branch.
const MAX_DEPTH: u32 = 16;

/// How deep rules may lead to one another where that matters.
const MAX_LED: u32 = 64;

/// Lets sets of a program that was specialized for the member `known` of the input be computed in this
/// way. `original` is the program before that.
pub(super) fn merge(
    original: &Program,
    known: &str,
    constants: &[Constant],
    rules: &mut Vec<Rule>,
    groups: &mut Vec<Group>,
) {
    let absorbed = absorb::absorbed(groups, &Spelling { original, constants }, rules);
    let mut more = More { groups: groups.len(), documents: Vec::new() };
    let forms: Vec<(GroupId, Form)> = {
        let mut dependence = Dependence {
            known,
            original,
            constants,
            rules,
            groups,
            groups_known: vec![None; groups.len()],
            depth: 0,
        };
        let sets = (0..).map(GroupId).zip(&*groups);
        let sets = sets
            .filter(|(id, group)| group.kind == GroupKind::Set && !absorbed.groups.contains(id));
        sets.filter_map(|(id, group)| {
            let (ids, is_new) = match absorbed.rules.get(&id) {
                Some(ids) => (ids, true),
                None => (&group.rules, false),
            };
            let (spelling, rules) = (Spelling { original, constants }, &*rules);
            Some((id, form((ids, is_new), &spelling, rules, &mut dependence, &mut more)?))
        })
        .collect()
    };
    for (id, Form { part, own }) in forms {
        let own = added(own, id, rules);
        if let Some(group) = groups.get_mut(id.0 as usize) {
            group.whole = Some(Whole { part, rules: own });
        }
    }
    // In the order of their ids.
    for entries in more.documents {
        let id = GroupId(u32::try_from(groups.len()).unwrap_or(u32::MAX));
        let rules = added(entries, id, rules);
        let (path, kind) = (Vec::new(), GroupKind::Part);
        groups.push(Group {
            path,
            kind,
            rules,
            default: None,
            exits_early: false,
            index: None,
            whole: None,
        });
    }
}

/// Documents that come to those of a program.
struct More {
    /// How many groups the program has.
    groups: usize,
    documents: Vec<Vec<Entry>>,
}

impl More {
    fn is_full(&self) -> bool {
        self.groups + self.documents.len() >= MAX_GROUPS
    }

    fn add(&mut self, entries: Vec<Entry>) -> GroupId {
        let id = self.groups + self.documents.len();
        self.documents.push(entries);
        GroupId(u32::try_from(id).unwrap_or(u32::MAX))
    }
}

/// The form that replaces the rules of a set.
struct Form {
    /// The part that does not depend on the known member of the input.
    part: Option<GroupId>,
    own: Vec<Entry>,
}

enum Entry {
    Old(RuleId),
    New(Box<Rule>),
}

/// The ids of rules, of which some are new.
fn added(entries: Vec<Entry>, group: GroupId, rules: &mut Vec<Rule>) -> Vec<RuleId> {
    let id = |entry| match entry {
        Entry::Old(id) => Some(id),
        Entry::New(rule) => {
            let id = u32::try_from(rules.len()).ok()?;
            rules.push(Rule { group, ..*rule });
            Some(RuleId(id))
        }
    };
    entries.into_iter().filter_map(id).collect()
}

/// `None` if the set stays as it is. `ids` are its rules, which need not be those that it has had.
fn form(
    (ids, is_new): (&[RuleId], bool),
    spelling: &Spelling<'_>,
    rules: &[Rule],
    dependence: &mut Dependence<'_>,
    more: &mut More,
) -> Option<Form> {
    if ids.is_empty() || ids.len() > MAX_RULES {
        return None;
    }
    let (mut shared, mut own) = (Vec::new(), Vec::new());
    // Of these the order counts, so they stay together.
    let mut ordered = Vec::new();
    for id in ids {
        let rule = rules.get(id.0 as usize)?;
        match Draft::of(*id, rule, spelling) {
            Some(draft) if dependence.rule(rule) => own.push(draft),
            Some(draft) => shared.push(draft),
            None => ordered.push(*id),
        }
    }
    let dependent: Vec<bool> = ordered
        .iter()
        .map(|id| rules.get(id.0 as usize).is_none_or(|it| dependence.rule(it)))
        .collect();
    let any_dependent = dependent.iter().any(|it| *it) || !own.is_empty();
    let (shared_ordered, own_ordered) = match dependent.iter().all(|it| !it) {
        true => (ordered, Vec::new()),
        false => (Vec::new(), ordered),
    };
    let before = shared.len() + own.len();
    let mut shared = merged(shared, rules);
    let (mut cut, own) = cut_all(own, rules, dependence, more);
    let mut own = merged(own, rules);
    let fewer = is_new || !cut.is_empty() || shared.len() + own.len() < before;
    own.append(&mut cut);
    shared.extend(shared_ordered.into_iter().map(Entry::Old));
    own.extend(own_ordered.into_iter().map(Entry::Old));
    let mut part = None;
    if any_dependent && is_worth_it(&shared, rules) && !more.is_full() {
        part = Some(more.add(shared));
    } else {
        own.splice(0..0, shared);
    }
    (fewer || part.is_some()).then_some(Form { part, own })
}

/// Makes documents of the beginnings of rules that do not depend on the known member of the input; the
/// rules that then begin with such a document, and those that stay.
fn cut_all(
    drafts: Vec<Draft>,
    rules: &[Rule],
    dependence: &mut Dependence<'_>,
    more: &mut More,
) -> (Vec<Entry>, Vec<Draft>) {
    let (mut cut, mut left) = (Vec::new(), Vec::new());
    for draft in drafts {
        let rule = rules.get(draft.id.0 as usize);
        match rule.and_then(|rule| draft.cut(rule, dependence, more)) {
            Some(rule) => cut.push(Entry::New(Box::new(rule))),
            None => left.push(draft),
        }
    }
    (cut, left)
}

/// Whether rules may take much longer than to look up what they add.
fn is_worth_it(entries: &[Entry], rules: &[Rule]) -> bool {
    let bodies = || {
        entries.iter().flat_map(|entry| {
            let rule = match entry {
                Entry::Old(id) => rules.get(id.0 as usize),
                Entry::New(rule) => Some(&**rule),
            };
            rule.into_iter().flat_map(|rule| &rule.branches).map(|branch| &branch.body)
        })
    };
    let statements: usize = bodies().map(|body| inline::count(body)).sum();
    statements >= MIN_STATEMENTS && bodies().flatten().any(iterates)
}

fn iterates(stmt: &Stmt) -> bool {
    match &stmt.kind {
        StmtKind::Test(Source::Ref(reference)) | StmtKind::Match(Source::Ref(reference), _) => {
            reference.path.iter().any(|step| matches!(step, Operand::Each(_)))
        }
        StmtKind::Each(bodies) => bodies.iter().flatten().any(iterates),
        _ => false,
    }
}

/// A rule with its variables numbered in the order in which they occur.
#[derive(Clone)]
struct Draft {
    id: RuleId,
    frame: u32,
    body: Body,
    member: Term,
}

impl Draft {
    /// `None` if the rule cannot become part of another one.
    fn of(id: RuleId, rule: &Rule, spelling: &Spelling<'_>) -> Option<Self> {
        let [Branch { body, leaf: Leaf::Member(member), span: _ }] = rule.branches.as_slice()
        else {
            return None;
        };
        if !spelling.is_of_one(member, body) {
            return None;
        }
        let (mut body, mut member) = (body.clone(), member.clone());
        once::body(&mut body, &mut member, &spelling.original.builtins);
        let mut body = steps::split(&body, rule.frame);
        let mut numbers: Vec<Slot> = Vec::new();
        let mut number = |slot: &mut Slot| {
            let at = numbers.iter().position(|known| known == slot).unwrap_or_else(|| {
                numbers.push(*slot);
                numbers.len() - 1
            });
            *slot = Slot(u32::try_from(at).unwrap_or(u32::MAX));
        };
        slots::each_in_body(&mut body, &mut number);
        slots::each_in_term(&mut member, &mut number);
        let frame = u32::try_from(numbers.len()).ok()?;
        Some(Self { id, frame, body, member })
    }

    /// The rule that begins with a document of what does not depend on the known member of the input;
    /// `None` if that is not worth it. `rule` is what it was made of.
    fn cut(&self, rule: &Rule, dependence: &mut Dependence<'_>, more: &mut More) -> Option<Rule> {
        let independent =
            self.body.iter().take_while(|stmt| !dependence.stmt(stmt) && !reads_base(stmt)).count();
        let (start, end) = self.body.split_at(independent);
        if !start.iter().any(iterates) || more.is_full() {
            return None;
        }
        let (mut start, mut end, mut member) = (start.to_vec(), end.to_vec(), self.member.clone());
        let (mut before, mut after) = (BTreeSet::new(), BTreeSet::new());
        slots::each_in_body(&mut start, &mut |slot| {
            before.insert(*slot);
        });
        slots::each_in_body(&mut end, &mut |slot| {
            after.insert(*slot);
        });
        slots::each_in_term(&mut member, &mut |slot| {
            after.insert(*slot);
        });
        let live: Vec<Slot> = before.intersection(&after).copied().collect();
        let mut read = Vec::new();
        slots::each_in_term(&mut member, &mut |slot| read.push(*slot));
        steps::join(&mut start, &live);
        steps::join(&mut end, &read);
        if live.len() > MAX_LIVE || start.len() < MIN_STATEMENTS {
            return None;
        }
        let span = start.first().map(|stmt| stmt.span).unwrap_or_default();
        let of = |body: Body, member: Term| Rule {
            frame: self.frame,
            branches: vec![Branch { body, leaf: Leaf::Member(member), span: rule.span }],
            keyed: Vec::new(),
            names: Vec::new(),
            ..rule.clone()
        };
        let row = Term::Array(live.iter().copied().map(Term::Local).collect());
        let rows = more.add(vec![Entry::New(Box::new(of(start, row)))]);
        let base = Base::Data { prefix: Vec::new(), at: DataBase::Group(rows) };
        let each = Ref { base, path: vec![Operand::Each(Pattern::Any)] };
        let live = Pattern::Array(live.into_iter().map(Pattern::Bind).collect());
        let kind = StmtKind::Match(Source::Ref(each), live);
        end.insert(0, Stmt { kind, span, generated: true });
        Some(of(end, member))
    }
}

/// Whether a statement reads base documents, whose values are not shared.
fn reads_base(stmt: &Stmt) -> bool {
    let (StmtKind::Test(source) | StmtKind::Match(source, _)) = &stmt.kind else { return false };
    let Source::Ref(Ref { base: Base::Data { at, .. }, .. }) = source else { return false };
    !matches!(at, DataBase::Group(_))
}

/// The rules with those that begin alike as one.
fn merged(drafts: Vec<Draft>, rules: &[Rule]) -> Vec<Entry> {
    let frame = drafts.iter().map(|draft| draft.frame).max().unwrap_or(0);
    let member = Slot(frame);
    let drafts: Vec<(&[Stmt], &Draft)> =
        drafts.iter().map(|draft| (draft.body.as_slice(), draft)).collect();
    let entry = |alike: Vec<(&[Stmt], &Draft)>| {
        let (_, first) = *alike.first()?;
        let old = rules.get(first.id.0 as usize)?;
        if alike.len() == 1 {
            return Some(Entry::Old(first.id));
        }
        let body = body_of(&alike, member, 0);
        let leaf = Leaf::Member(Term::Local(member));
        Some(Entry::New(Box::new(Rule {
            frame: frame.saturating_add(1),
            branches: vec![Branch { body, leaf, span: old.span }],
            keyed: Vec::new(),
            names: Vec::new(),
            ..old.clone()
        })))
    };
    alike(&drafts).into_iter().filter_map(entry).collect()
}

/// Those that begin with the same statement, together.
fn alike<'d>(drafts: &[(&'d [Stmt], &'d Draft)]) -> Vec<Vec<(&'d [Stmt], &'d Draft)>> {
    let mut all: Vec<Vec<(&[Stmt], &Draft)>> = Vec::new();
    for draft in drafts {
        let first = draft.0.first();
        let same = all.iter_mut().find(|others| {
            first.is_some() && others.first().and_then(|(body, _)| body.first()) == first
        });
        match same {
            Some(others) => others.push(*draft),
            None => all.push(vec![*draft]),
        }
    }
    all
}

/// The rest of these bodies, which begin alike. Binds `member`.
fn body_of(drafts: &[(&[Stmt], &Draft)], member: Slot, depth: u32) -> Body {
    let Some((first, others)) = drafts.split_first() else { return Body::new() };
    let common = others.iter().fold(first.0.len(), |common, (body, _)| {
        let same = first.0.iter().zip(*body).take(common);
        same.take_while(|(a, b)| a == b).count()
    });
    let (start, end) = first.0.split_at(common);
    let mut body = start.to_vec();
    if others.is_empty() {
        let span = end.last().or(start.last()).map(|stmt| stmt.span).unwrap_or_default();
        let kind = StmtKind::Match(Source::Term(first.1.member.clone()), Pattern::Bind(member));
        body.push(Stmt { kind, span, generated: true });
        steps::join(&mut body, &[]);
        return body;
    }
    let rests: Vec<(&[Stmt], &Draft)> = drafts
        .iter()
        .map(|(body, draft)| (body.get(common..).unwrap_or_default(), *draft))
        .collect();
    let parts = if depth < MAX_DEPTH {
        alike(&rests)
    } else {
        rests.iter().map(|rest| vec![*rest]).collect()
    };
    let bodies: Vec<Body> = parts.iter().map(|part| body_of(part, member, depth + 1)).collect();
    let span = start.last().map(|stmt| stmt.span).unwrap_or_default();
    body.push(Stmt { kind: StmtKind::Each(bodies), span, generated: true });
    steps::join(&mut body, &[]);
    body
}

/// Tells which values have one spelling: equal ones are the same.
struct Spelling<'p> {
    original: &'p Program,
    constants: &'p [Constant],
}

impl Spelling<'_> {
    /// Whether the members that a rule adds do.
    fn is_of_one(&self, member: &Term, body: &[Stmt]) -> bool {
        self.is_never(body) || self.is_single(member, body)
    }

    /// Whether a body ends with a statement that never holds: then nothing reads the member, and it need not be bound.
    fn is_never(&self, body: &[Stmt]) -> bool {
        let Some(Stmt { kind: StmtKind::Test(Source::Term(Term::Const(id))), .. }) = body.last()
        else {
            return false;
        };
        self.constants.get(id.0 as usize).and_then(Json::as_bool) == Some(false)
    }

    /// Whether a term after a body does.
    fn is_single(&self, term: &Term, body: &[Stmt]) -> bool {
        match term {
            Term::Const(id) => self.constants.get(id.0 as usize).is_some_and(has_no_number),
            Term::ConstSet(_) | Term::Set(_) => false,
            Term::Local(slot) => body.iter().any(|stmt| self.makes_text(stmt, *slot)),
            Term::Array(items) => items.iter().all(|item| self.is_single(item, body)),
            Term::Object(entries) => entries
                .iter()
                .all(|(key, value)| self.is_single(key, body) && self.is_single(value, body)),
        }
    }

    /// Whether a statement binds a variable to what a built-in gives that gives nothing but text.
    fn makes_text(&self, stmt: &Stmt, slot: Slot) -> bool {
        let StmtKind::Match(Source::Call(call), Pattern::Bind(bound)) = &stmt.kind else {
            return false;
        };
        if *bound != slot {
            return false;
        }
        let Callee::Builtin(id) = call.callee else { return false };
        let run = self.original.builtins.get(id.0 as usize).and_then(|builtin| builtin.run);
        let result = run.and_then(|run| run.declaration().result);
        result.is_some_and(|result| result.ty == Type::String)
    }
}

/// Objects that a rule makes are sorted by key, so constants may nest as deep as documents: the text of
/// a policy bounds it.
fn has_no_number(value: &Json) -> bool {
    match value {
        Json::Null | Json::Bool(_) | Json::String(_) => true,
        Json::Number(_) => false,
        Json::Array(items) => items.is_empty(),
        Json::Object(members) => members.values().all(|member| matches!(member, Json::String(_))),
    }
}

/// Tells which rules depend on the known member of the input: those with constants that the original
/// program does not have, and what leads to them. What that gets wrong costs time.
struct Dependence<'p> {
    known: &'p str,
    original: &'p Program,
    constants: &'p [Constant],
    rules: &'p [Rule],
    groups: &'p [Group],
    /// By group, once it has been looked at.
    groups_known: Vec<Option<bool>>,
    depth: u32,
}

impl Dependence<'_> {
    fn rule(&mut self, rule: &Rule) -> bool {
        rule.branches.iter().any(|branch| {
            let (Leaf::Value(term) | Leaf::Member(term)) = &branch.leaf;
            self.term(term) || self.body(&branch.body)
        }) || rule.args.iter().any(|pattern| self.pattern(pattern))
            || rule.keys.iter().any(|key| self.term(key))
    }

    fn group(&mut self, id: GroupId) -> bool {
        if let Some(Some(known)) = self.groups_known.get(id.0 as usize) {
            return *known;
        }
        let groups = self.groups;
        let Some(group) = groups.get(id.0 as usize) else { return true };
        if self.depth >= MAX_LED {
            return true;
        }
        self.depth += 1;
        let all = group.rules.iter().chain(&group.default);
        let rules = self.rules;
        let depends =
            all.into_iter().any(|id| rules.get(id.0 as usize).is_none_or(|it| self.rule(it)));
        self.depth -= 1;
        if let Some(place) = self.groups_known.get_mut(id.0 as usize) {
            *place = Some(depends);
        }
        depends
    }

    fn body(&mut self, body: &[Stmt]) -> bool {
        body.iter().any(|stmt| self.stmt(stmt))
    }

    fn stmt(&mut self, stmt: &Stmt) -> bool {
        match &stmt.kind {
            StmtKind::Test(source) => self.source(source),
            StmtKind::Match(source, pattern) => self.source(source) || self.pattern(pattern),
            StmtKind::Not(body) => self.body(body),
            StmtKind::Any(bodies) | StmtKind::Each(bodies) => {
                bodies.iter().any(|body| self.body(body))
            }
            StmtKind::Every(every) => {
                self.term(&every.domain)
                    || self.pattern(&every.key)
                    || self.pattern(&every.value)
                    || self.body(&every.body)
            }
            StmtKind::With(..) => true,
        }
    }

    fn source(&mut self, source: &Source) -> bool {
        match source {
            Source::Term(term) => self.term(term),
            Source::Ref(reference) => {
                let base = match &reference.base {
                    Base::Term(term) => self.term(term),
                    Base::Input => self.is_known(reference.path.first()),
                    Base::InputAt(_) => true,
                    Base::Data { at: DataBase::Group(group), .. } => self.group(*group),
                    Base::Data { .. } => false,
                };
                base || reference.path.iter().any(|step| match step {
                    Operand::Key(term) => self.term(term),
                    Operand::Each(pattern) => self.pattern(pattern),
                })
            }
            Source::Comprehension(comprehension) => {
                self.body(&comprehension.body)
                    || match &comprehension.head {
                        Collect::Array(term) | Collect::Set(term) => self.term(term),
                        Collect::Object(key, value) => self.term(key) || self.term(value),
                    }
            }
            Source::Call(call) => {
                let callee = match call.callee {
                    Callee::Function(group) => self.group(group),
                    Callee::Builtin(_) => false,
                };
                callee || call.args.iter().any(|arg| self.term(arg))
            }
        }
    }

    /// Whether the first step from the input leads to the known member, or may.
    fn is_known(&self, first: Option<&Operand>) -> bool {
        match first {
            Some(Operand::Key(Term::Const(id))) => {
                let name = self.constants.get(id.0 as usize).and_then(Json::as_str);
                name.is_none_or(|name| name == self.known)
            }
            _ => true,
        }
    }

    fn pattern(&self, pattern: &Pattern) -> bool {
        match pattern {
            Pattern::Any | Pattern::Bind(_) => false,
            Pattern::Equal(term) => self.term(term),
            Pattern::Array(items) => items.iter().any(|item| self.pattern(item)),
            Pattern::Object(entries) => {
                entries.iter().any(|(key, item)| self.term(key) || self.pattern(item))
            }
        }
    }

    fn term(&self, term: &Term) -> bool {
        match term {
            Term::Const(id) => id.0 as usize >= self.original.constants.len(),
            Term::ConstSet(id) => id.0 as usize >= self.original.sets.len(),
            Term::Local(_) => false,
            Term::Array(items) | Term::Set(items) => items.iter().any(|item| self.term(item)),
            Term::Object(entries) => {
                entries.iter().any(|(key, value)| self.term(key) || self.term(value))
            }
        }
    }
}
