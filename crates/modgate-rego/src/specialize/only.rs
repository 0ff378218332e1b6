//! A program without what one document does not need.
//!
//! A specialized program still has the rules that were computed ahead or put in the place of their calls, and each
//! rule has what only traces and single members of sets need. A program stands for every constraint in force, so
//! this is most of what constraints take.

use std::{collections::BTreeSet, sync::Arc};

use super::uses_with;
use crate::ir::{
    Base, Call, Callee, DataBase, Group, GroupId, Index, NodeId, Program, Rule, RuleId, Source,
    Stmt, StmtKind, Whole, types::Environment,
};

/// The same program for evaluations of the document of `root` alone: every other document that it does not lead to
/// is undefined, queries cannot be compiled, and traces have no names.
pub(super) fn only(program: Program, root: GroupId) -> Program {
    // What is replaced with `with` is named by its path.
    if program.rules.iter().any(uses_with) {
        return program;
    }
    // Nothing asks for single members of the root, so of two forms of its rules one is left.
    let is_whole = |id: GroupId, group: &Group| id == root && group.whole.is_some();
    let mut needed = Needed::of(&program, root);
    needed.group(root);
    while let Some(id) = needed.open.pop() {
        needed.rules_of(id);
    }
    let Needed { groups: kept, referenced, rules: kept_rules, .. } = needed;
    let mut numbers = vec![None; program.rules.len()];
    let mut rules = Vec::with_capacity(kept_rules.len());
    for old in kept_rules {
        let Some(rule) = program.rules.get(old.0 as usize) else { continue };
        if let Some(number) = numbers.get_mut(old.0 as usize) {
            // There are no more than before.
            *number = Some(RuleId(u32::try_from(rules.len()).unwrap_or(u32::MAX)));
        }
        let keyed = match referenced.contains(&rule.group) {
            true => rule.keyed.clone(),
            false => Vec::new(),
        };
        let Rule { group, frame, span, .. } = *rule;
        let (args, keys, branches) = (rule.args.clone(), rule.keys.clone(), rule.branches.clone());
        rules.push(Rule { group, frame, args, keys, branches, keyed, names: Vec::new(), span });
    }
    let number = |id: &RuleId| numbers.get(id.0 as usize).copied().flatten();
    let list = |ids: &[RuleId]| ids.iter().filter_map(number).collect::<Vec<_>>();
    let ids = (0..u32::try_from(program.groups.len()).unwrap_or(u32::MAX)).map(GroupId);
    let groups = ids.zip(program.groups.iter()).map(|(id, group)| {
        let is_kept = kept.contains(&id);
        let index = group.index.as_ref().filter(|_| is_kept).map(|index| Index {
            arg: index.arg,
            by_text: index.by_text.iter().map(|(text, ids)| (text.clone(), list(ids))).collect(),
        });
        let whole = group.whole.as_ref().filter(|_| is_kept);
        Group {
            path: if is_kept { group.path.clone() } else { Vec::new() },
            kind: group.kind,
            rules: if is_kept && !is_whole(id, group) { list(&group.rules) } else { Vec::new() },
            exits_early: group.exits_early,
            default: group.default.filter(|_| is_kept).as_ref().and_then(number),
            index,
            whole: whole.map(|Whole { part, rules }| Whole { part: *part, rules: list(rules) }),
        }
    });
    let groups: Arc<[Group]> = groups.collect();
    let shared = program.shared.only(&kept, &referenced).into();
    let types = Arc::<Environment>::default();
    Program { rules: rules.into(), groups, shared, types, ..program }
}

/// The groups that the document of a group leads to.
struct Needed<'p> {
    program: &'p Program,
    root: GroupId,
    groups: BTreeSet<GroupId>,
    /// Groups that a rule refers to as documents.
    referenced: BTreeSet<GroupId>,
    rules: BTreeSet<RuleId>,
    /// Groups whose rules are to be looked at.
    open: Vec<GroupId>,
}

impl<'p> Needed<'p> {
    fn of(program: &'p Program, root: GroupId) -> Self {
        let (groups, referenced, rules) = Default::default();
        Self { program, root, groups, referenced, rules, open: Vec::new() }
    }

    fn group(&mut self, id: GroupId) {
        if self.groups.insert(id) {
            self.open.push(id);
        }
    }

    fn document(&mut self, id: GroupId) {
        self.referenced.insert(id);
        self.group(id);
    }

    /// The documents of a node and of all below it.
    fn node(&mut self, id: NodeId) {
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            let Some(node) = self.program.nodes.get(id.0 as usize) else { continue };
            if let Some(group) = node.group {
                self.document(group);
            }
            open.extend(node.children.values().copied());
        }
    }

    fn rules_of(&mut self, id: GroupId) {
        let Some(group) = self.program.groups.get(id.0 as usize) else { return };
        let whole = group.whole.as_ref();
        if let Some(part) = whole.and_then(|whole| whole.part) {
            self.document(part);
        }
        let more = whole.map_or(&[][..], |whole| &whole.rules);
        let written = if id == self.root && whole.is_some() { &[][..] } else { &group.rules };
        for rule in written.iter().chain(more).chain(&group.default) {
            if self.rules.insert(*rule) {
                self.rule(*rule);
            }
        }
    }

    fn rule(&mut self, id: RuleId) {
        let Some(rule) = self.program.rules.get(id.0 as usize) else { return };
        rule.branches.iter().for_each(|branch| self.body(&branch.body));
        rule.keyed.iter().for_each(|keyed| self.body(&keyed.body));
    }

    fn body(&mut self, body: &[Stmt]) {
        for stmt in body {
            match &stmt.kind {
                StmtKind::Test(source) | StmtKind::Match(source, _) => self.source(source),
                StmtKind::Not(body) | StmtKind::With(_, body) => self.body(body),
                StmtKind::Any(bodies) | StmtKind::Each(bodies) => {
                    bodies.iter().for_each(|body| self.body(body));
                }
                StmtKind::Every(every) => self.body(&every.body),
            }
        }
    }

    fn source(&mut self, source: &Source) {
        match source {
            Source::Ref(reference) => match reference.base {
                Base::Data { at: DataBase::Group(id), .. } => self.document(id),
                Base::Data { at: DataBase::Node(id), .. } => self.node(id),
                Base::Data { at: DataBase::Document, .. }
                | Base::Term(_)
                | Base::Input
                | Base::InputAt(_) => {}
            },
            Source::Comprehension(comprehension) => self.body(&comprehension.body),
            Source::Call(Call { callee: Callee::Function(id), .. }) => self.group(*id),
            Source::Call(_) | Source::Term(_) => {}
        }
    }
}
