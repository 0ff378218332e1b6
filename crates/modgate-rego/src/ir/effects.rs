//! Effects of statements that hold: some hold several times, some end the evaluation with a conflict.
//!
//! Rules that give several values for one document, or for one call, end an evaluation with an error. A statement
//! that leads to such rules has to run even where a later one is known to be false. What is said here is on the
//! safe side: a part that is said to raise need not.

use super::{
    Base, Body, Builtin, Call, Callee, Collect, Comprehension, Constant, DataBase, Group, GroupId,
    GroupKind, Leaf, Operand, Pattern, Ref, Rule, RuleId, Slot, Source, Stmt, StmtKind, Term,
    slots,
};

/// How deep rules may lead to one another; what is deeper may raise.
const MAX_DEPTH: u32 = 64;

/// Of more rules it is not asked whether they exclude one another.
const MAX_RULES: usize = 64;

/// Whether a body succeeds once at most.
pub(crate) fn holds_once(builtins: &[Builtin], body: &[Stmt]) -> bool {
    body.iter().all(|stmt| match &stmt.kind {
        StmtKind::Test(source) | StmtKind::Match(source, _) => match source {
            Source::Term(_) | Source::Comprehension(_) => true,
            Source::Ref(reference) => {
                !reference.path.iter().any(|step| matches!(step, Operand::Each(_)))
            }
            Source::Call(call) => match call.callee {
                Callee::Function(_) => true,
                Callee::Builtin(id) => {
                    let run = builtins.get(id.0 as usize).and_then(|builtin| builtin.run);
                    run.is_some_and(|run| !run.relation)
                }
            },
        },
        StmtKind::Not(_) | StmtKind::Any(_) | StmtKind::Every(_) => true,
        StmtKind::With(..) | StmtKind::Each(_) => false,
    })
}

/// Whether no rule of a group can produce anything but one and the same constant.
pub(crate) fn always_same_constant(group: &Group, rules: &[Rule]) -> bool {
    let mut leaves = group.rules.iter().flat_map(|id| leaves_of(*id, rules));
    let first = leaves.next().flatten();
    first.is_some() && leaves.all(|constant| constant == first)
}

fn leaves_of(id: RuleId, rules: &[Rule]) -> impl Iterator<Item = Option<super::ConstId>> {
    let branches = rules.get(id.0 as usize).into_iter().flat_map(|rule| &rule.branches);
    branches.map(|branch| match branch.leaf {
        Leaf::Value(Term::Const(id)) => Some(id),
        _ => None,
    })
}

/// Tells which parts of a program may raise a conflict.
pub(crate) struct Raises<'p> {
    pub(crate) constants: &'p [Constant],
    pub(crate) rules: &'p [Rule],
    pub(crate) groups: &'p [Group],
    pub(crate) builtins: &'p [Builtin],
    /// By group, once it has been looked at.
    pub(crate) known: Vec<Option<bool>>,
    pub(crate) depth: u32,
}

impl Raises<'_> {
    pub(crate) fn body(&mut self, body: &[Stmt]) -> bool {
        body.iter().any(|stmt| self.stmt(stmt))
    }

    pub(crate) fn stmt(&mut self, stmt: &Stmt) -> bool {
        match &stmt.kind {
            StmtKind::Test(source) | StmtKind::Match(source, _) => self.source(source),
            StmtKind::Not(body) => self.body(body),
            StmtKind::Every(every) => self.body(&every.body),
            StmtKind::Any(bodies) | StmtKind::Each(bodies) => {
                bodies.iter().any(|body| self.body(body))
            }
            // It may replace anything.
            StmtKind::With(..) => true,
        }
    }

    fn source(&mut self, source: &Source) -> bool {
        match source {
            Source::Term(_) => false,
            Source::Ref(Ref { base: Base::Data { at, .. }, .. }) => match at {
                DataBase::Group(group) => self.group(*group),
                DataBase::Node(_) => true,
                DataBase::Document => false,
            },
            Source::Ref(_) => false,
            Source::Comprehension(comprehension) => {
                self.body(&comprehension.body) || self.repeats_keys(comprehension)
            }
            Source::Call(Call { callee, .. }) => match callee {
                Callee::Function(group) => self.group(*group),
                Callee::Builtin(id) => {
                    let builtin = self.builtins.get(id.0 as usize);
                    builtin.is_none_or(|builtin| builtin.name == "internal.template_string")
                }
            },
        }
    }

    /// Whether an object may get two values for a key.
    fn repeats_keys(&self, comprehension: &Comprehension) -> bool {
        let Collect::Object(key, value) = &comprehension.head else { return false };
        if matches!(value, Term::Const(_)) || holds_once(self.builtins, &comprehension.body) {
            return false;
        }
        // The keys of one collection differ.
        let Term::Local(key) = key else { return true };
        let mut iterating = comprehension
            .body
            .iter()
            .filter(|stmt| !holds_once(self.builtins, std::slice::from_ref(stmt)));
        let (Some(stmt), None) = (iterating.next(), iterating.next()) else { return true };
        let (StmtKind::Test(Source::Ref(reference)) | StmtKind::Match(Source::Ref(reference), _)) =
            &stmt.kind
        else {
            return true;
        };
        let mut each = reference.path.iter().filter(|step| matches!(step, Operand::Each(_)));
        let first = each.next();
        let by_key = matches!(first, Some(Operand::Each(Pattern::Bind(slot))) if slot == key);
        !by_key || each.next().is_some()
    }

    /// Whether the document or a call of a group may raise a conflict.
    pub(crate) fn group(&mut self, id: GroupId) -> bool {
        if let Some(Some(known)) = self.known.get(id.0 as usize) {
            return *known;
        }
        let groups = self.groups;
        let Some(group) = groups.get(id.0 as usize) else { return true };
        if self.depth >= MAX_DEPTH {
            return true;
        }
        self.depth += 1;
        let raises = self.conflicts(group)
            || self.rules(&group.rules)
            || self.rules(group.default.as_slice());
        self.depth -= 1;
        if let Some(place) = self.known.get_mut(id.0 as usize) {
            *place = Some(raises);
        }
        raises
    }

    /// Whether the bodies of rules may raise a conflict.
    pub(crate) fn rules(&mut self, ids: &[RuleId]) -> bool {
        let rules = self.rules;
        ids.iter().any(|id| {
            rules.get(id.0 as usize).is_none_or(|rule| {
                rule.branches.iter().any(|branch| self.body(&branch.body))
                    || rule.keyed.iter().any(|keyed| self.body(&keyed.body))
            })
        })
    }

    /// Whether the rules of a group may disagree.
    fn conflicts(&self, group: &Group) -> bool {
        match group.kind {
            GroupKind::Set | GroupKind::Part => false,
            GroupKind::Object => !group.rules.is_empty(),
            GroupKind::Complete | GroupKind::Function { .. } => {
                !always_same_constant(group, self.rules) && !self.agree(&group.rules)
            }
        }
    }

    /// Whether rules cannot disagree.
    fn agree(&self, ids: &[RuleId]) -> bool {
        let rules: Option<Vec<&Rule>> =
            ids.iter().map(|id| self.rules.get(id.0 as usize)).collect();
        let Some(rules) = rules.filter(|rules| rules.len() <= MAX_RULES) else { return false };
        if !rules.iter().all(|rule| self.has_one_value(rule)) {
            return false;
        }
        let drafts: Vec<Numbered> = rules.iter().map(|rule| Numbered::of(rule)).collect();
        drafts
            .iter()
            .enumerate()
            .all(|(at, one)| drafts.iter().skip(at + 1).all(|other| self.exclude(one, other)))
    }

    fn has_one_value(&self, rule: &Rule) -> bool {
        rule.branches.iter().all(|branch| {
            matches!(branch.leaf, Leaf::Value(Term::Const(_)))
                || holds_once(self.builtins, &branch.body)
        })
    }

    /// Whether two rules cannot both succeed.
    fn exclude(&self, one: &Numbered, other: &Numbered) -> bool {
        if one.args.iter().zip(&other.args).any(|(a, b)| self.differ(a, b)) {
            return true;
        }
        let ([body], [with]) = (one.bodies.as_slice(), other.bodies.as_slice()) else {
            return false;
        };
        if one.args != other.args {
            return false;
        }
        let common = body.iter().zip(with).take_while(|(a, b)| a == b).count();
        let (start, rest) = body.split_at(common);
        let (_, with) = with.split_at(common);
        holds_once(self.builtins, start)
            && (is_denied(rest, with)
                || is_denied(with, rest)
                || self.is_undefined(rest, with)
                || self.is_undefined(with, rest)
                || match (rest.first(), with.first()) {
                    (Some(a), Some(b)) => match (&a.kind, &b.kind) {
                        (StmtKind::Match(a, first), StmtKind::Match(b, second)) => {
                            a == b
                                && holds_once(self.builtins, rest.get(..1).unwrap_or_default())
                                && self.differ(first, second)
                        }
                        _ => false,
                    },
                    _ => false,
                })
    }

    /// Whether a body begins with denials of all that another one begins with can find: `not x.y` and
    /// `not x.y == false`, where the other one begins with `z := x.y`.
    fn is_undefined(&self, body: &[Stmt], other: &[Stmt]) -> bool {
        let Some(StmtKind::Test(found) | StmtKind::Match(found, _)) =
            other.first().map(|it| &it.kind)
        else {
            return false;
        };
        if !is_one_place(found) {
            return false;
        }
        let (mut no_false, mut no_other) = (false, false);
        for stmt in body {
            let StmtKind::Not(denied) = &stmt.kind else { break };
            let Some(denied) = self.denied(denied, found) else { continue };
            no_false |= denied != Denied::Others;
            no_other |= denied != Denied::False;
        }
        no_false && no_other
    }

    /// The values of a source that the denial of a body leaves out.
    fn denied(&self, body: &[Stmt], of: &Source) -> Option<Denied> {
        let (first, rest) = body.split_first()?;
        match (&first.kind, rest) {
            (StmtKind::Test(source), []) if source == of => Some(Denied::Others),
            (StmtKind::Match(source, pattern), []) if source == of => match pattern {
                Pattern::Any | Pattern::Bind(_) => Some(Denied::All),
                pattern => self.is_false(pattern).then_some(Denied::False),
            },
            (StmtKind::Match(source, Pattern::Bind(slot)), [then]) if source == of => {
                match &then.kind {
                    StmtKind::Test(Source::Term(Term::Local(read))) if read == slot => {
                        Some(Denied::Others)
                    }
                    StmtKind::Match(Source::Term(Term::Local(read)), pattern) if read == slot => {
                        self.is_false(pattern).then_some(Denied::False)
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn is_false(&self, pattern: &Pattern) -> bool {
        let Pattern::Equal(Term::Const(id)) = pattern else { return false };
        self.constants.get(id.0 as usize).and_then(Constant::as_bool) == Some(false)
    }

    /// Whether two patterns require different texts.
    fn differ(&self, one: &Pattern, other: &Pattern) -> bool {
        let text = |pattern: &Pattern| match pattern {
            Pattern::Equal(Term::Const(id)) => {
                self.constants.get(id.0 as usize).and_then(Constant::as_str).map(|_| *id)
            }
            _ => None,
        };
        // Each constant is there once.
        matches!((text(one), text(other)), (Some(one), Some(other)) if one != other)
    }
}

/// The values that a denial leaves out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Denied {
    False,
    /// All but `false`.
    Others,
    All,
}

/// Whether a source is what is at one place of the input or of a variable, which is the same whenever it is read.
fn is_one_place(source: &Source) -> bool {
    let Source::Ref(Ref { base: Base::Term(_) | Base::Input, path }) = source else { return false };
    path.iter().all(|step| matches!(step, Operand::Key(_)))
}

/// Whether a body begins with the denial of what another one begins with.
fn is_denied(body: &[Stmt], other: &[Stmt]) -> bool {
    let Some(Stmt { kind: StmtKind::Not(denied), .. }) = body.first() else { return false };
    !denied.is_empty() && other.starts_with(denied)
}

/// The parts of a rule with its variables numbered in the order in which they occur.
struct Numbered {
    args: Vec<Pattern>,
    bodies: Vec<Body>,
}

impl Numbered {
    fn of(rule: &Rule) -> Self {
        // An argument that a rule does not read is one nevertheless.
        let named = |(index, pattern): (u32, &Pattern)| match pattern {
            Pattern::Any => Pattern::Bind(Slot(u32::MAX - index)),
            pattern => pattern.clone(),
        };
        let mut args: Vec<Pattern> = (0..).zip(&rule.args).map(named).collect();
        let mut bodies: Vec<Body> = rule.branches.iter().map(|it| it.body.clone()).collect();
        let mut numbers = slots::Numbers::default();
        let mut number = |slot: &mut Slot| numbers.renumber(slot);
        args.iter_mut().for_each(|arg| slots::each_in_pattern(arg, &mut number));
        bodies.iter_mut().for_each(|body| slots::each_in_body(body, &mut number));
        Self { args, bodies }
    }
}
