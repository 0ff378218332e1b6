//! Rules: what a group of them defines.

use std::collections::BTreeMap;

use super::{Flow, MAX_NESTING, Machine, Stop, document::Call, run::KEYS_NOT_UNIQUE};
use crate::{
    error::Error,
    ir::{
        Base, Branch, Group, GroupId, GroupKind, Keyed, Leaf, Operand, PathId, Pattern, Rule,
        RuleId, Source, Stmt, StmtKind, Term,
    },
    value::{Heap, Limit, Value, Values, View},
};

const DOCUMENT_CONFLICT: &str = "complete rules must not produce multiple outputs";
const FUNCTION_CONFLICT: &str = "functions must not produce multiple outputs for same inputs";

impl<'a> Machine<'a> {
    /// The whole document that a group defines; `None` when undefined. Computed once per overlay.
    pub(super) fn group_value(&mut self, id: GroupId) -> Result<Option<Value<'a>>, Stop> {
        self.note(id, None);
        if let Some(known) = self.cache().document(id) {
            return Ok(known);
        }
        let Some(group) = self.group(id) else { return Ok(None) };
        let value = match self.shared_key(id) {
            Some(key) => self.shared_document(key, |machine| machine.compute(group))?,
            None => self.compute(group)?,
        };
        self.cache_mut().set_document(id, value);
        Ok(value)
    }

    fn compute(&mut self, group: &'a Group) -> Result<Option<Value<'a>>, Stop> {
        match group.kind {
            GroupKind::Complete => self.agreed(group, &[], DOCUMENT_CONFLICT),
            GroupKind::Set => self.set_document(group).map(Some),
            GroupKind::Object => self.partial_document(group).map(Some),
            GroupKind::Part => self.part_members(group).map(Some),
            GroupKind::Function { .. } => Ok(None),
        }
    }

    /// The value of a function for these arguments.
    pub(super) fn call_function(
        &mut self,
        id: GroupId,
        args: &[Value<'a>],
    ) -> Result<Option<Value<'a>>, Stop> {
        // A trace shows every call.
        let call = if self.tracer.is_none() { Call::new(id, args) } else { None };
        if let Some(call) = &call
            && let Some(known) = self.cache().calls.get(call)
        {
            return Ok(known);
        }
        let Some(group) = self.group(id) else { return Ok(None) };
        let shared = call.as_ref().and_then(|call| self.shared_call_key(id, call.args()));
        let value = match shared {
            Some(shared) => {
                self.shared_call(shared, |machine| machine.agreed(group, args, FUNCTION_CONFLICT))?
            }
            None => self.agreed(group, args, FUNCTION_CONFLICT)?,
        };
        if let Some(call) = call {
            self.cache_mut().calls.put(call, value);
        }
        Ok(value)
    }

    /// The one value on which all rules that succeed agree, or the default.
    fn agreed(
        &mut self,
        group: &'a Group,
        args: &[Value<'a>],
        conflict: &str,
    ) -> Result<Option<Value<'a>>, Stop> {
        let mut agreed: Option<Value<'a>> = None;
        for id in candidates(group, args) {
            let Some(rule) = self.rule(*id) else { continue };
            if !self.may_take(rule, args) {
                continue;
            }
            if is_constant(rule) {
                let found = self.in_frame(rule, |machine| machine.constant_of(rule, args))?;
                let Some(value) = found else { continue };
                if agreed.is_some_and(|known| known != value) {
                    return Err(Error::conflict(conflict, rule.span).into());
                }
                agreed = agreed.or(found);
                if group.exits_early {
                    break;
                }
                continue;
            }
            let flow = self.rule_values(rule, args, &mut |machine, branch| {
                let (Leaf::Value(term) | Leaf::Member(term)) = &branch.leaf;
                let value = machine.term(term)?;
                match agreed {
                    Some(known) if known != value => {
                        return Err(Error::conflict(conflict, rule.span).into());
                    }
                    Some(_) => {}
                    None => agreed = Some(value),
                }
                // A constant cannot come out differently in another way through the body.
                if matches!(term, Term::Const(_)) { Err(Stop::Enough) } else { Ok(()) }
            });
            match flow {
                Ok(()) | Err(Stop::Enough) => {}
                Err(error) => return Err(error),
            }
        }
        match (agreed, group.default.and_then(|id| self.rule(id))) {
            (None, Some(default)) => {
                self.rule_values(default, args, &mut |machine, branch| {
                    let (Leaf::Value(term) | Leaf::Member(term)) = &branch.leaf;
                    agreed = Some(machine.term(term)?);
                    Ok(())
                })?;
                Ok(agreed)
            }
            (value, _) => Ok(value),
        }
    }

    /// Whether the constants among a function's parameters let these arguments through. Functions
    /// that are tables (`f("Ki") = 1024`) have many clauses that this alone rules out.
    fn may_take(&self, rule: &'a Rule, args: &[Value<'a>]) -> bool {
        rule.args.iter().enumerate().all(|(index, pattern)| match (pattern, args.get(index)) {
            (Pattern::Equal(Term::Const(id)), Some(value)) => self.constant(*id) == *value,
            _ => true,
        })
    }

    /// The constant of the first branch that succeeds.
    fn constant_of(
        &mut self,
        rule: &'a Rule,
        args: &[Value<'a>],
    ) -> Result<Option<Value<'a>>, Stop> {
        if !self.takes(rule, args)? {
            return Ok(None);
        }
        for branch in &rule.branches {
            // It cannot come out differently in another way through the body.
            if self.succeeds(&branch.body)? {
                self.report_value(branch.span);
                let (Leaf::Value(term) | Leaf::Member(term)) = &branch.leaf;
                return self.term(term).map(Some);
            }
        }
        Ok(None)
    }

    /// Binds a function's parameters; whether it takes these arguments.
    #[inline]
    fn takes(&mut self, rule: &'a Rule, args: &[Value<'a>]) -> Result<bool, Stop> {
        for (index, pattern) in rule.args.iter().enumerate() {
            if let Some(value) = args.get(index)
                && !self.matches(pattern, *value)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Runs `on` for every success of the first branch of a rule that has any.
    fn rule_values(
        &mut self,
        rule: &'a Rule,
        args: &[Value<'a>],
        on: &mut dyn FnMut(&mut Self, &'a Branch) -> Flow,
    ) -> Flow {
        self.in_frame(rule, |machine| {
            if !machine.takes(rule, args)? {
                return Ok(());
            }
            for branch in &rule.branches {
                let mut any = false;
                machine.run(&branch.body, &mut |machine| {
                    any = true;
                    machine.report_value(branch.span);
                    on(machine, branch)
                })?;
                if any {
                    break;
                }
            }
            Ok(())
        })
    }

    #[inline]
    fn in_frame<T>(
        &mut self,
        rule: &'a Rule,
        inner: impl FnOnce(&mut Self) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        // Making a large frame takes its time.
        if rule.frame >= 64 {
            self.spend(u64::from(rule.frame) / 64)?;
        }
        let caller = (self.base, self.top, self.rule, self.span);
        self.base = self.top;
        self.top += rule.frame as usize;
        self.rule = Some(rule);
        self.reach();
        let result = self.nested(inner);
        (self.base, self.top, self.rule, _) = caller;
        // On an error the span stays where it happened.
        if !matches!(result, Err(Stop::Error(_))) {
            self.span = caller.3;
        }
        result
    }

    #[inline(never)]
    fn partial_document(&mut self, group: &'a Group) -> Result<Value<'a>, Stop> {
        let mut document = Partial::new(group.kind);
        for id in &group.rules {
            let Some(rule) = self.rule(*id) else { continue };
            self.rule_values(rule, &[], &mut |machine, branch| {
                machine.add(&mut document, rule, &rule.keys, &branch.leaf)
            })?;
        }
        Ok(document.build(self.heap)?)
    }

    #[inline(never)]
    fn set_document(&mut self, group: &'a Group) -> Result<Value<'a>, Stop> {
        let mut members = Values::new();
        let rules = match &group.whole {
            Some(whole) => {
                if let Some(part) = whole.part {
                    self.add_part(part, &mut members)?;
                }
                &whole.rules
            }
            None => &group.rules,
        };
        self.add_members(rules, &mut members)?;
        Ok(self.heap.set_of(members.as_mut_slice())?)
    }

    /// Adds the members of a set that rules produce.
    fn add_members(&mut self, rules: &'a [RuleId], members: &mut Values<'a>) -> Flow {
        for id in rules {
            let Some(rule) = self.rule(*id) else { continue };
            if let Some((place, stmt)) = elements_of(rule)
                && self.tracer.is_none()
                && self.nesting < MAX_NESTING - ELEMENTS_NESTING
            {
                self.add_elements(place, rule, stmt, members)?;
                continue;
            }
            self.rule_values(rule, &[], &mut |machine, branch| {
                machine.heap.budget().allocate(2 * size_of::<Value<'_>>())?;
                let (Leaf::Value(term) | Leaf::Member(term)) = &branch.leaf;
                members.push(machine.term(term)?);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Adds the elements of what is at a place, which takes as much as to run the rule that says so.
    fn add_elements(
        &mut self,
        place: PathId,
        rule: &'a Rule,
        stmt: &'a Stmt,
        members: &mut Values<'a>,
    ) -> Flow {
        let caller = self.span;
        self.spend(u64::from(rule.frame) / 64)?;
        self.spend(1)?;
        self.span = Some(&stmt.span);
        if let Some(value) = self.input_at(place) {
            for index in 0..value.entry_count().unwrap_or(0) {
                self.spend(1)?;
                let Some(element) = value.element(index) else { break };
                self.heap.budget().allocate(2 * size_of::<Value<'_>>())?;
                members.push(element);
            }
        }
        self.span = caller;
        Ok(())
    }

    /// Adds what is part of a set under any parameters.
    fn add_part(&mut self, id: GroupId, members: &mut Values<'a>) -> Flow {
        if self.shared_key(id).is_some() {
            let part = self.group_value(id)?.and_then(Value::as_array);
            part.into_iter().flatten().for_each(|member| members.push(member));
            return Ok(());
        }
        match self.group(id) {
            Some(part) => self.add_members(&part.rules, members),
            None => Ok(()),
        }
    }

    /// The members that rules add to their set, which pays for them.
    #[inline(never)]
    fn part_members(&mut self, group: &'a Group) -> Result<Value<'a>, Stop> {
        let mut members = Values::new();
        self.add_members(&group.rules, &mut members)?;
        Ok(self.heap.charged_array(members.as_mut_slice()))
    }

    /// The part of a partial document under known leading keys (at least one), evaluating only
    /// what can produce them.
    pub(super) fn group_at(
        &mut self,
        id: GroupId,
        keys: &[Value<'a>],
    ) -> Result<Option<Value<'a>>, Stop> {
        // Keys are compared with what is there, and hashed.
        for key in keys.iter().filter(|key| key.is_composite()) {
            self.charge_whole(*key)?;
        }
        match keys {
            [key] => self.note(id, Some(*key)),
            _ => self.note_other(),
        }
        self.entries_at(id, keys)
    }

    /// The same, without what the keys cost.
    pub(super) fn entries_at(
        &mut self,
        id: GroupId,
        keys: &[Value<'a>],
    ) -> Result<Option<Value<'a>>, Stop> {
        if let Some(whole) = self.cache().document(id) {
            return Ok(whole.and_then(|whole| descend(whole, keys)));
        }
        let single = match keys {
            [key] => Some(*key),
            _ => None,
        };
        if let Some(known) = single.and_then(|key| self.cache().entry(id, key)) {
            return Ok(known);
        }
        let Some(group) = self.group(id) else { return Ok(None) };
        let compute = |machine: &mut Self| {
            let found = machine.compute_at(group, keys)?;
            if single.is_some() {
                machine.heap.budget().allocate(4 * size_of::<Value<'_>>())?;
            }
            Ok(found)
        };
        let found = match self.shared_key(id) {
            Some(_) => self.apart(false, compute)?,
            None => compute(self)?,
        };
        if let Some(key) = single {
            self.cache_mut().set_entry(id, key, found);
        }
        Ok(found)
    }

    fn compute_at(
        &mut self,
        group: &'a Group,
        keys: &[Value<'a>],
    ) -> Result<Option<Value<'a>>, Stop> {
        let mut document = Partial::new(group.kind);
        for id in &group.rules {
            let Some(rule) = self.rule(*id) else { continue };
            let known = keys.len().min(rule.keyed.len());
            let (Some(keyed), Some(branch)) =
                (known.checked_sub(1).and_then(|at| rule.keyed.get(at)), rule.branches.first())
            else {
                continue;
            };
            self.keyed_values(rule, keyed, keys, &mut |machine| {
                machine.report_value(branch.span);
                machine.add(&mut document, rule, &keyed.keys, &keyed.leaf)
            })?;
        }
        Ok(document.take(keys, self.heap)?)
    }

    /// Charges for a walk over all of a value, parts of documents included.
    fn charge_whole(&self, value: Value<'a>) -> Result<(), Stop> {
        self.heap.charge_walk([value])?;
        match value.view() {
            View::Array(items) => items
                .iter()
                .filter(|item| item.is_composite())
                .try_for_each(|item| self.charge_whole(item)),
            View::Set(items) => items
                .iter()
                .filter(|item| item.is_composite())
                .try_for_each(|item| self.charge_whole(item)),
            View::Object(members) => members.iter().try_for_each(|(key, member)| {
                self.charge_whole(key)?;
                self.charge_whole(member)
            }),
            _ => Ok(()),
        }
    }

    fn keyed_values(
        &mut self,
        rule: &'a Rule,
        keyed: &'a Keyed,
        keys: &[Value<'a>],
        on: &mut dyn FnMut(&mut Self) -> Flow,
    ) -> Flow {
        self.in_frame(rule, |machine| {
            for (pattern, key) in keyed.patterns.iter().zip(keys) {
                if !machine.matches(pattern, *key)? {
                    return Ok(());
                }
            }
            machine.run(&keyed.body, on)
        })
    }

    /// Adds what one success of a rule produces.
    fn add(
        &mut self,
        document: &mut Partial<'a>,
        rule: &'a Rule,
        keys: &'a [Term],
        leaf: &'a Leaf,
    ) -> Flow {
        self.heap.budget().allocate(2 * size_of::<Value<'_>>())?;
        let mut place = document;
        for key in keys {
            let key = self.term(key)?;
            let Some(inner) = place.child(key) else {
                return Err(Error::conflict(KEYS_NOT_UNIQUE, rule.span).into());
            };
            place = inner;
        }
        let added = match leaf {
            Leaf::Value(term) => place.set_value(self.term(term)?),
            Leaf::Member(term) => place.add_member(self.term(term)?),
        };
        if added { Ok(()) } else { Err(Error::conflict(KEYS_NOT_UNIQUE, rule.span).into()) }
    }

    fn rule(&self, id: RuleId) -> Option<&'a Rule> {
        self.program.rules.get(id.0 as usize)
    }
}

/// The levels of nesting that a rule takes if it is evaluated without [`elements_of`].
const ELEMENTS_NESTING: u32 = 4;

/// The place in the input whose elements are the members that a rule adds, if it says no more than that.
fn elements_of(rule: &Rule) -> Option<(PathId, &Stmt)> {
    let [branch] = rule.branches.as_slice() else { return None };
    let ([stmt], Leaf::Member(Term::Local(member))) = (branch.body.as_slice(), &branch.leaf) else {
        return None;
    };
    let StmtKind::Match(Source::Ref(reference), Pattern::Bind(bound)) = &stmt.kind else {
        return None;
    };
    let (Base::InputAt(place), [Operand::Each(Pattern::Any)]) =
        (&reference.base, reference.path.as_slice())
    else {
        return None;
    };
    (bound == member && rule.args.is_empty()).then_some((*place, stmt))
}

/// Whether a rule has one constant for each branch.
fn is_constant(rule: &Rule) -> bool {
    rule.branches.iter().all(|branch| matches!(branch.leaf, Leaf::Value(Term::Const(_))))
}

/// The rules that these arguments leave, in their order.
fn candidates<'g>(group: &'g Group, args: &[Value<'_>]) -> &'g [RuleId] {
    let Some(index) = &group.index else { return &group.rules };
    let text = args.get(index.arg).and_then(|arg| arg.as_utf8());
    text.and_then(|text| index.by_text.get(text)).map_or(&[], Vec::as_slice)
}

fn descend<'a>(value: Value<'a>, keys: &[Value<'a>]) -> Option<Value<'a>> {
    keys.iter().try_fold(value, |value, key| value.get(*key))
}

/// A partial document while its rules run.
enum Partial<'a> {
    /// Nothing has been put here yet.
    Empty,
    Value(Value<'a>),
    Set(Vec<Value<'a>>),
    Object(BTreeMap<Value<'a>, Partial<'a>>),
}

impl<'a> Partial<'a> {
    fn new(kind: GroupKind) -> Self {
        match kind {
            GroupKind::Set => Self::Set(Vec::new()),
            _ => Self::Object(BTreeMap::new()),
        }
    }

    /// The place under `key`; `None` when this is a value or a set already.
    fn child(&mut self, key: Value<'a>) -> Option<&mut Self> {
        if matches!(self, Self::Empty) {
            *self = Self::Object(BTreeMap::new());
        }
        match self {
            Self::Object(members) => Some(members.entry(key).or_insert(Self::Empty)),
            _ => None,
        }
    }

    /// Whether `value` can stand here beside what stands here already.
    fn set_value(&mut self, value: Value<'a>) -> bool {
        match self {
            Self::Empty => {
                *self = Self::Value(value);
                true
            }
            Self::Value(known) => *known == value,
            Self::Set(_) | Self::Object(_) => false,
        }
    }

    /// Whether a member can be added here.
    fn add_member(&mut self, member: Value<'a>) -> bool {
        match self {
            Self::Empty => *self = Self::Set(vec![member]),
            Self::Set(members) => members.push(member),
            Self::Value(_) | Self::Object(_) => return false,
        }
        true
    }

    fn build(self, heap: Heap<'a>) -> Result<Value<'a>, Limit> {
        match self {
            Self::Empty => Ok(Value::EMPTY_OBJECT),
            Self::Value(value) => Ok(value),
            Self::Set(members) => heap.set(members),
            Self::Object(members) => {
                let entries = members
                    .into_iter()
                    .map(|(key, member)| Ok((key, member.build(heap)?)))
                    .collect::<Result<Vec<_>, Limit>>()?;
                heap.object_from_sorted(&entries)
            }
        }
    }

    /// The value under `keys`.
    fn take(self, keys: &[Value<'a>], heap: Heap<'a>) -> Result<Option<Value<'a>>, Limit> {
        match (self, keys) {
            (Self::Object(mut members), [key, rest @ ..]) => match members.remove(key) {
                Some(member) => member.take(rest, heap),
                None => Ok(None),
            },
            (whole, keys) => Ok(descend(whole.build(heap)?, keys)),
        }
    }
}
