//! Sets of which rules ask for some members only.
//!
//! A policy may collect findings about every field of a Pod in a set, and then take those of
//! `{"field": "containers", "msg": msg}`. OPA evaluates the set's rules with the part that is asked for. So
//! does this: a set that is only asked for members whose field is a constant text is replaced by one
//! set for each such text, whose rules give these members alone. What is asked for is still held against
//! the pattern.
//!
//! The new sets have no member in common, and each of their rules begins with the text, so that together
//! they take no more steps than the set in which they were.

use std::collections::BTreeMap;

use modgate_value::Value as Json;

use crate::ir::{
    Base, Collect, ConstId, Constant, DataBase, Group, GroupId, GroupKind, Leaf, Operand, Pattern,
    Ref, Rule, RuleId, Slot, Source, Stmt, StmtKind, Term,
};

/// Most rules that a program has with those that are added.
const MAX_RULES: usize = 256;

/// Most sets that replace one.
const MAX_SETS: usize = 4;

/// A field of members, and its value.
type Field = (ConstId, ConstId);

/// Adds sets of what is asked for, and lets references ask them.
pub(super) fn narrow(constants: &[Constant], rules: &mut Vec<Rule>, groups: &mut Vec<Group>) {
    let mut asked: BTreeMap<GroupId, Option<BTreeMap<Field, GroupId>>> = BTreeMap::new();
    for_each_reference(rules, &mut |reference| {
        let Base::Data { at: DataBase::Group(group), .. } = reference.base else { return };
        // A single member is looked up without the others.
        if matches!(reference.path.first(), Some(Operand::Key(_))) {
            return;
        }
        let fields = asked.entry(group).or_insert_with(|| Some(BTreeMap::new()));
        match (field(constants, reference), fields) {
            (Some(field), Some(fields)) => {
                fields.insert(field, group);
            }
            (_, fields) => *fields = None,
        }
    });
    for (id, fields) in &mut asked {
        let Some(known) = fields.take().filter(|known| known.len() <= MAX_SETS) else { continue };
        *fields = sets(*id, known.into_keys(), constants, rules, groups);
    }
    for_each_reference(rules, &mut |reference| {
        let field = field(constants, reference);
        let Base::Data { at: DataBase::Group(group), .. } = &mut reference.base else { return };
        let sets = asked.get(group).and_then(Option::as_ref);
        if let (Some(sets), Some(field)) = (sets, field)
            && let Some(set) = sets.get(&field)
        {
            *group = *set;
        }
    });
}

/// The field that the members of a reference have.
fn field(constants: &[Constant], reference: &Ref) -> Option<Field> {
    let Some(Operand::Each(Pattern::Object(entries))) = reference.path.first() else { return None };
    entries.iter().find_map(|(key, pattern)| match (key, pattern) {
        (Term::Const(key), Pattern::Equal(Term::Const(value))) => {
            let text = matches!(constants.get(value.0 as usize), Some(Json::String(_)));
            text.then_some((*key, *value))
        }
        _ => None,
    })
}

/// Adds a set for each field; `None` if a rule's members are not known before its body.
fn sets(
    id: GroupId,
    fields: impl Iterator<Item = Field>,
    constants: &[Constant],
    rules: &mut Vec<Rule>,
    groups: &mut Vec<Group>,
) -> Option<BTreeMap<Field, GroupId>> {
    let group = groups.get(id.0 as usize)?.clone();
    let most = rules.len() + group.rules.len() * MAX_SETS;
    if group.kind != GroupKind::Set || most > MAX_RULES {
        return None;
    }
    let whole: Vec<Rule> = group
        .rules
        .iter()
        .map(|rule| rules.get(rule.0 as usize).cloned())
        .collect::<Option<_>>()?;
    let mut sets = BTreeMap::new();
    let (mut more_rules, mut more_groups) = (Vec::new(), Vec::new());
    for field in fields {
        let set = GroupId(u32::try_from(groups.len() + more_groups.len()).ok()?);
        let mut ids = Vec::new();
        for rule in &whole {
            if let Some(rule) = narrowed(rule, field, constants)? {
                ids.push(RuleId(u32::try_from(rules.len() + more_rules.len()).ok()?));
                // Nothing asks it for single members.
                more_rules.push(Rule { group: set, keyed: Vec::new(), ..rule });
            }
        }
        more_groups.push(Group { rules: ids, default: None, index: None, ..group.clone() });
        sets.insert(field, set);
    }
    rules.extend(more_rules);
    groups.extend(more_groups);
    Some(sets)
}

/// The rule for members with a field; `Some(None)` if it gives no such members, `None` if that is
/// not known.
fn narrowed(rule: &Rule, (key, value): Field, constants: &[Constant]) -> Option<Option<Rule>> {
    let [branch] = rule.branches.as_slice() else { return None };
    let entries = match &branch.leaf {
        Leaf::Member(Term::Object(entries)) => entries,
        Leaf::Member(Term::Const(id)) => {
            let name = constants.get(key.0 as usize)?.as_str()?;
            let field = constants.get(id.0 as usize)?.get(name)?;
            let text = matches!(field, Json::String(_));
            return text
                .then(|| (constants.get(value.0 as usize) == Some(field)).then(|| rule.clone()));
        }
        Leaf::Member(_) | Leaf::Value(_) => return None,
    };
    let mut named =
        entries.iter().filter(|(name, _)| matches!(name, Term::Const(id) if *id == key));
    let (Some((_, field)), None) = (named.next(), named.next()) else { return None };
    match field {
        // Each constant is there once, so equal texts are the same constant.
        Term::Const(id) => {
            let text = matches!(constants.get(id.0 as usize), Some(Json::String(_)));
            text.then(|| (*id == value).then(|| rule.clone()))
        }
        Term::Local(slot) => {
            let mut rule = rule.clone();
            let branch = rule.branches.first_mut()?;
            let mut fixed = Fixed { slot: *slot, value, bound: 0 };
            // The first statement binds it, or this is not worth it.
            if let Some(
                StmtKind::Match(Source::Ref(reference), _) | StmtKind::Test(Source::Ref(reference)),
            ) = branch.body.first_mut().map(|stmt| &mut stmt.kind)
            {
                fixed.reference(reference);
            }
            if fixed.bound != 1 {
                return None;
            }
            fixed.body(&mut branch.body);
            if let Leaf::Member(term) = &mut branch.leaf {
                fixed.term(term);
            }
            (fixed.bound == 1).then_some(Some(rule))
        }
        _ => None,
    }
}

/// Shows every reference of rules.
pub(super) fn for_each_reference(rules: &mut [Rule], on: &mut dyn FnMut(&mut Ref)) {
    for rule in rules {
        rule.branches.iter_mut().for_each(|branch| references(&mut branch.body, on));
        rule.keyed.iter_mut().for_each(|keyed| references(&mut keyed.body, on));
    }
}

fn references(body: &mut [Stmt], on: &mut dyn FnMut(&mut Ref)) {
    for stmt in body {
        match &mut stmt.kind {
            StmtKind::Test(source) | StmtKind::Match(source, _) => match source {
                Source::Ref(reference) => on(reference),
                Source::Comprehension(comprehension) => references(&mut comprehension.body, on),
                Source::Term(_) | Source::Call(_) => {}
            },
            StmtKind::Not(body) | StmtKind::With(_, body) => references(body, on),
            StmtKind::Any(bodies) | StmtKind::Each(bodies) => {
                bodies.iter_mut().for_each(|body| references(body, on));
            }
            StmtKind::Every(every) => references(&mut every.body, on),
        }
    }
}

/// Puts a constant in the place of a variable.
struct Fixed {
    slot: Slot,
    value: ConstId,
    /// How often the variable was bound.
    bound: usize,
}

impl Fixed {
    fn constant(&self) -> Term {
        Term::Const(self.value)
    }

    fn body(&mut self, body: &mut [Stmt]) {
        for stmt in body {
            match &mut stmt.kind {
                StmtKind::Test(source) => self.source(source),
                StmtKind::Match(source, pattern) => {
                    self.source(source);
                    self.pattern(pattern);
                }
                StmtKind::Not(body) => self.body(body),
                StmtKind::Any(bodies) | StmtKind::Each(bodies) => {
                    bodies.iter_mut().for_each(|body| self.body(body));
                }
                StmtKind::Every(every) => {
                    self.term(&mut every.domain);
                    self.pattern(&mut every.key);
                    self.pattern(&mut every.value);
                    self.body(&mut every.body);
                }
                // Programs with such statements are left alone.
                StmtKind::With(..) => self.bound += 1,
            }
        }
    }

    fn source(&mut self, source: &mut Source) {
        match source {
            Source::Term(term) => self.term(term),
            Source::Ref(reference) => self.reference(reference),
            Source::Comprehension(comprehension) => {
                self.body(&mut comprehension.body);
                match &mut comprehension.head {
                    Collect::Array(term) | Collect::Set(term) => self.term(term),
                    Collect::Object(key, value) => {
                        self.term(key);
                        self.term(value);
                    }
                }
                comprehension.captures.retain(|slot| *slot != self.slot);
            }
            Source::Call(call) => call.args.iter_mut().for_each(|arg| self.term(arg)),
        }
    }

    fn reference(&mut self, Ref { base, path }: &mut Ref) {
        if let Base::Term(term) = base {
            self.term(term);
        }
        let document = matches!(base, Base::Data { .. });
        for step in path {
            match step {
                Operand::Key(term) => self.term(term),
                // Asking for a text finds what trying every key for one that is this text finds.
                Operand::Each(Pattern::Bind(slot)) if *slot == self.slot && !document => {
                    self.bound += 1;
                    *step = Operand::Key(self.constant());
                }
                Operand::Each(pattern) => self.pattern(pattern),
            }
        }
    }

    fn pattern(&mut self, pattern: &mut Pattern) {
        match pattern {
            Pattern::Bind(slot) if *slot == self.slot => {
                self.bound += 1;
                *pattern = Pattern::Equal(self.constant());
            }
            Pattern::Any | Pattern::Bind(_) => {}
            Pattern::Equal(term) => self.term(term),
            Pattern::Array(items) => items.iter_mut().for_each(|item| self.pattern(item)),
            Pattern::Object(entries) => {
                for (key, item) in entries {
                    self.term(key);
                    self.pattern(item);
                }
            }
        }
    }

    fn term(&mut self, term: &mut Term) {
        match term {
            Term::Local(slot) if *slot == self.slot => *term = self.constant(),
            Term::Const(_) | Term::ConstSet(_) | Term::Local(_) => {}
            Term::Array(items) | Term::Set(items) => {
                items.iter_mut().for_each(|item| self.term(item));
            }
            Term::Object(entries) => {
                for (key, value) in entries {
                    self.term(key);
                    self.term(value);
                }
            }
        }
    }
}
