//! Partial evaluation: a program of which part of the input is known before it runs.
//!
//! The parameters of a constraint are the same in every review, and much of a policy reads nothing
//! else: the allowed values as a set, the prefixes to compare with, whether there are exemptions at
//! all. [`specialize`] computes those parts once and leaves a smaller program, in which statements
//! that always hold are gone and rules that never hold are not tried.
//!
//! # What stays the same
//!
//! Every document and every function has the value it has in the original program for every input
//! that holds the known value, but for members of sets that no rule asks for, and ends with a conflict where the
//! original does: what may raise one is kept in front of a statement that never holds. Four things may differ:
//! fewer steps are spent, a trace shows the specialized program (so trace the original),
//! an error of a member that no rule asks for is not met, as in OPA, and of several errors another one may be the
//! first (so ask the original).
//!
//! Only what succeeds within its budget is computed ahead; what is kept of it is bounded, too, and
//! where there is too much of it the original program is used. Whatever fails, depends on the outside
//! or replaces something with `with` is left as it is, to happen or not when the program runs.

mod body;
mod demand;
mod fold;
mod functions;
mod inline;
mod known;
mod merge;
mod once;
mod only;
mod paths;
mod split;

use std::sync::Arc;

use modgate_value::{Budget, Value as Json};

use self::known::{Env, Known};
use crate::{
    compile::{self, Constants},
    ir::{
        Base, Branch, DataBase, Group, GroupId, GroupKind, Leaf, Program, Query, Rule, RuleId,
        Source, Stmt, StmtKind, Term, effects,
    },
    share,
};

/// How many bytes of values a specialised program may hold beyond the original's.
const MAX_KEPT: usize = 1 << 20;

/// How deep rules may lead to one another before the rest is left as it is.
const MAX_DEPTH: u32 = 64;

impl Query {
    /// The query with its program specialized.
    #[must_use]
    pub fn specialize(&self, key: &str, value: &Json, budget: &Budget<'_>) -> Self {
        Self { program: specialize(&self.program, key, value, budget), ..self.clone() }
    }
}

/// The program for inputs whose member `key` is `value`.
///
/// `budget` pays for what is computed ahead and for what is kept of it. When it is spent, or when
/// the new program would hold more than [`MAX_KEPT`] bytes, this is the original program.
#[must_use]
pub fn specialize(program: &Program, key: &str, value: &Json, budget: &Budget<'_>) -> Program {
    if program.rules.iter().any(uses_with) {
        return program.clone();
    }
    let mut specializer = Specializer {
        original: program,
        key,
        value,
        input: [(key, value.clone())].into_iter().collect(),
        budget,
        constants: Constants::from_values(&program.constants),
        sets: program.sets.to_vec(),
        rules: program.rules.to_vec(),
        groups: program.groups.to_vec(),
        facts: vec![None; program.groups.len()],
        raising: vec![None; program.groups.len()],
        depth: 0,
        inlined: 0,
        tried: 0,
        kept: 0,
        spent: false,
    };
    for index in 0..program.groups.len() {
        if let Ok(index) = u32::try_from(index) {
            specializer.fact(GroupId(index));
        }
    }
    if specializer.is_spent() {
        return program.clone();
    }
    let Specializer { constants, sets, mut rules, mut groups, .. } = specializer;
    let constants = constants.into_values();
    demand::narrow(&constants, &mut rules, &mut groups);
    rules.iter_mut().for_each(|rule| once::rule(rule, &program.builtins));
    functions::merge(&constants, &program.builtins, &mut rules, &mut groups);
    merge::merge(program, key, &constants, &mut rules, &mut groups);
    let special = Program {
        constants: constants.into(),
        sets: sets.into(),
        rules: rules.into(),
        groups: groups.into(),
        ..program.clone()
    };
    let shared = share::keys(&special, key, value).into();
    paths::numbered(read_once(Program { shared, ..special }), key)
}

/// The same program, which reads one of the documents that are the same: an evaluation pays once for what it reads.
fn read_once(program: Program) -> Program {
    if !program.shared.has_equal() {
        return program;
    }
    let (mut rules, mut groups) = (program.rules.to_vec(), program.groups.to_vec());
    demand::for_each_reference(&mut rules, &mut |reference| {
        if let Base::Data { at: DataBase::Group(id), .. } = &mut reference.base {
            *id = program.shared.first(*id);
        }
    });
    let parts = groups.iter_mut().filter_map(|group| group.whole.as_mut()?.part.as_mut());
    parts.for_each(|part| *part = program.shared.first(*part));
    Program { rules: rules.into(), groups: groups.into(), ..program }
}

/// As [`specialize`], for evaluations of one document alone: without what it does not need, which is most of a program.
/// The program has no types for queries and no names for traces.
#[must_use]
pub fn specialize_for(
    document: GroupId,
    program: &Program,
    (key, value): (&str, &Json),
    budget: &Budget<'_>,
) -> Program {
    only::only(specialize(program, key, value, budget), document)
}

/// Facts about a group of rules.
#[derive(Debug, Clone)]
enum Fact {
    /// It has no value, for any arguments, and raises no conflict.
    Never,
    /// It has this value.
    Known(Known),
    /// Its value depends on the input, the base documents or its arguments; on the arguments alone
    /// if it is `closed`.
    Dynamic { closed: bool },
}

/// The specialised body.
enum Left {
    /// It never succeeds, and raises no conflict.
    Never,
    /// It succeeds as often as these do, all of them.
    Stmts(Vec<Stmt>),
}

struct Specializer<'p> {
    original: &'p Program,
    /// The member of the input that is known, and its value.
    key: &'p str,
    value: &'p Json,
    /// An input that holds nothing else.
    input: Json,
    budget: &'p Budget<'p>,
    constants: Constants,
    sets: Vec<Arc<[Json]>>,
    rules: Vec<Rule>,
    groups: Vec<Group>,
    /// By group, once it has been looked at.
    facts: Vec<Option<Fact>>,
    /// By group: whether its rules may raise a conflict, where a body in front of what never holds leads to it.
    raising: Vec<Option<bool>>,
    depth: u32,
    /// How many functions around what is looked at have been put in the place of their calls.
    inlined: u32,
    /// How many rules have been tried for the arguments of calls.
    tried: u32,
    /// Bytes of values that are new in the program.
    kept: usize,
    /// Whether the budget is spent, or too much is kept.
    spent: bool,
}

impl Specializer<'_> {
    fn is_spent(&self) -> bool {
        self.spent
    }

    /// Charges for a look at all of a value, and gives its size.
    fn charge(&mut self, value: &Known) -> usize {
        let size = value.size(MAX_KEPT);
        let steps = size.map_or(u64::MAX, |size| size as u64 / 16 + 1);
        self.spent |= self.budget.spend(steps).is_err();
        size.unwrap_or(MAX_KEPT)
    }

    /// Charges for bytes that the program will hold.
    fn keep(&mut self, bytes: usize) {
        self.kept = self.kept.saturating_add(bytes);
        self.spent |= self.kept > MAX_KEPT || self.budget.allocate(bytes).is_err();
    }

    /// Facts about a group, whose rules are rewritten on the way.
    fn fact(&mut self, id: GroupId) -> Fact {
        if let Some(Some(fact)) = self.facts.get(id.0 as usize) {
            return fact.clone();
        }
        if self.depth >= MAX_DEPTH || self.is_spent() {
            return Fact::Dynamic { closed: false };
        }
        self.depth += 1;
        let fact = self.look_at(id).unwrap_or(Fact::Dynamic { closed: false });
        self.depth -= 1;
        if let Some(place) = self.facts.get_mut(id.0 as usize) {
            *place = Some(fact.clone());
        }
        fact
    }

    fn look_at(&mut self, id: GroupId) -> Option<Fact> {
        let mut group = self.original.groups.get(id.0 as usize)?.clone();
        let mut closed = true;
        let mut live = Vec::with_capacity(group.rules.len());
        for rule in &group.rules {
            if let Some(left) = self.rule(*rule) {
                closed &= self.is_closed_rule(&left);
                let parts = match group.kind {
                    GroupKind::Set => self.split(&left),
                    _ => None,
                };
                let mut parts = parts.unwrap_or_else(|| vec![left]).into_iter();
                let Some(first) = parts.next() else { continue };
                *self.rules.get_mut(rule.0 as usize)? = first;
                live.push(*rule);
                for part in parts {
                    live.push(RuleId(u32::try_from(self.rules.len()).ok()?));
                    self.rules.push(part);
                }
            }
        }
        if let Some(default) = group.default {
            match self.rule(default) {
                Some(left) => {
                    closed &= self.is_closed_rule(&left);
                    *self.rules.get_mut(default.0 as usize)? = left;
                }
                None => group.default = None,
            }
        }
        group.rules = live;
        if !group.exits_early && effects::always_same_constant(&group, &self.rules) {
            let rules = group.rules.iter().filter_map(|id| self.rules.get(id.0 as usize)).cloned();
            let branches: Vec<Branch> = rules.flat_map(|rule| rule.branches).collect();
            group.exits_early = !branches.iter().any(|branch| self.raises(&branch.body));
        }
        group.index = compile::index(&group, &self.rules, self.constants.values());
        let nothing = group.rules.is_empty() && group.default.is_none();
        let kind = group.kind;
        *self.groups.get_mut(id.0 as usize)? = group;
        Some(match kind {
            GroupKind::Complete | GroupKind::Function { .. } if nothing => Fact::Never,
            GroupKind::Function { .. } => Fact::Dynamic { closed },
            GroupKind::Part => Fact::Dynamic { closed: false },
            GroupKind::Complete | GroupKind::Set | GroupKind::Object if closed => {
                match self.document(id) {
                    Some(Some(value)) => Fact::Known(value),
                    Some(None) => Fact::Never,
                    None => Fact::Dynamic { closed: false },
                }
            }
            _ => Fact::Dynamic { closed: false },
        })
    }

    /// The specialised rule; `None` when it never succeeds.
    fn rule(&mut self, id: RuleId) -> Option<Rule> {
        let rule = self.original.rules.get(id.0 as usize)?;
        let mut left = rule.clone();
        left.branches.clear();
        let mut env = Env::new(rule.frame);
        left.args = rule.args.iter().map(|pattern| self.pattern(pattern, &env)).collect();
        for (index, branch) in rule.branches.iter().enumerate() {
            let body = match &branch.leaf {
                // Such a rule has its value as soon as the body holds.
                Leaf::Value(Term::Const(_)) if rule.keys.is_empty() => {
                    self.condition(&branch.body, &mut env)
                }
                _ => self.body(&branch.body, &mut env),
            };
            let Left::Stmts(body) = body else { continue };
            let always = body.is_empty();
            let leaf = match &branch.leaf {
                Leaf::Value(term) => Leaf::Value(self.term(term, &env)),
                Leaf::Member(term) => Leaf::Member(self.term(term, &env)),
            };
            if index == 0 {
                left.keys = rule.keys.iter().map(|key| self.term(key, &env)).collect();
            }
            left.branches.push(Branch { body, leaf, span: branch.span });
            if always {
                break;
            }
        }
        // The keyed bodies stay whole: they bind what keys and leaf may read, in their own way.
        left.frame = left.frame.max(env.frame());
        self.drop_unused_inputs(&mut left);
        if left.branches.is_empty() { None } else { Some(left) }
    }
}

/// Whether a rule replaces something with `with`.
fn uses_with(rule: &Rule) -> bool {
    let whole = rule.branches.iter().any(|branch| body_uses_with(&branch.body));
    whole || rule.keyed.iter().any(|keyed| body_uses_with(&keyed.body))
}

fn body_uses_with(body: &[Stmt]) -> bool {
    body.iter().any(|stmt| match &stmt.kind {
        StmtKind::With(..) => true,
        StmtKind::Not(body) => body_uses_with(body),
        StmtKind::Every(every) => body_uses_with(&every.body),
        StmtKind::Any(bodies) | StmtKind::Each(bodies) => {
            bodies.iter().any(|body| body_uses_with(body))
        }
        StmtKind::Test(source) | StmtKind::Match(source, _) => match source {
            Source::Comprehension(comprehension) => body_uses_with(&comprehension.body),
            Source::Term(_) | Source::Ref(_) | Source::Call(_) => false,
        },
    })
}
