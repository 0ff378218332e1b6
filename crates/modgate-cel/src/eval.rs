//! The evaluator: walks the code, builds in an arena, charges a cost and a budget.
//!
//! Costs fall where cel-go's do, also for what ends in an error that `&&`, `||` or a quantifier
//! then passes over.

mod ahead;
mod call;
pub(crate) mod compose;
mod fold;
mod sum;

use bumpalo::collections::Vec as BumpVec;
use modgate_value::Hint;

use self::compose::Evaluation;
use crate::{
    code::{Attribute, Base, Key, Node, Observed, OptionalMap, Qualifier, Set, SortBy},
    cost,
    error::{EvalError, Result, failed},
    heap::{Heap, hashable, shown, whole},
    library::{self, Message},
    value::{Val, go_type, qualifies},
};

/// A name's value.
#[derive(Clone, Copy)]
enum Local<'a> {
    Value(Val<'a>),
    /// Not computed before it is read; reading costs what the call of `value` on an optional does,
    /// or nothing beside the expression itself.
    Delayed {
        node: &'a Node,
        unwrap: bool,
    },
}

pub(crate) struct Machine<'e, 'a> {
    evaluation: &'e Evaluation<'a>,
    heap: Heap<'a>,
    cost: u64,
    limit: u64,
    locals: BumpVec<'a, Local<'a>>,
}

impl<'e, 'a> Machine<'e, 'a> {
    pub(crate) fn new(evaluation: &'e Evaluation<'a>, limit: u64) -> Self {
        let heap = Heap::new(&evaluation.arena.0, evaluation.budget);
        Self { evaluation, heap, cost: 0, limit, locals: BumpVec::new_in(heap.arena) }
    }

    /// The cost so far.
    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }

    #[inline]
    fn charge(&mut self, cost: u64) -> Result<()> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit { Err(EvalError::Cost) } else { Ok(()) }
    }

    /// Charges for what was done whether or not it gave a value.
    #[inline]
    fn after<T>(&mut self, result: Result<T>, cost: u64) -> Result<T> {
        match result {
            Ok(value) => {
                self.charge(cost)?;
                Ok(value)
            }
            Err(error) => Err(self.after_error(error, cost)),
        }
    }

    #[cold]
    fn after_error(&mut self, error: EvalError, cost: u64) -> EvalError {
        if error.is_value() {
            return self.charge(cost).err().unwrap_or(error);
        }
        error
    }

    /// Only dispatches: its frame is on the stack once for every level of an expression, and all that it calls
    /// has a frame of its own, which most nodes do not pay for.
    pub(crate) fn eval(&mut self, node: &'a Node) -> Result<Val<'a>> {
        self.heap.budget.spend(1)?;
        match node {
            Node::Constant(value) => Ok(value.value()),
            Node::Attribute(attribute) => self.charged_attribute(attribute),
            Node::Logic { stop, terms } => self.logic(*stop, terms).map(Val::Bool),
            Node::Not(node) => self.negation(node).map(Val::Bool),
            Node::Equal { negated, sides } => self.equality(*negated, sides).map(Val::Bool),
            Node::Call(call) => self.call(call),
            Node::InSet { item, set } => self.membership(item, set).map(Val::Bool),
            Node::OrElse { value, any, sides } => self.or_else(*value, *any, sides),
            Node::List(elements) => self.elements(elements),
            Node::Map(entries) => self.entries(entries),
            Node::Message { which, fields } => self.message(which, fields),
            Node::Fold(_) | Node::OptionalMap(_) | Node::SortBy(_) => self.scoped(node),
            Node::Probe(part) => self.observed(part),
        }
    }

    #[inline(never)]
    fn observed(&mut self, part: &'a Observed) -> Result<Val<'a>> {
        part.probe.reach();
        let value = self.eval(&part.node)?;
        part.probe.result(value);
        Ok(value)
    }

    /// Forgets the names that a macro brings into scope.
    #[inline(never)]
    fn scoped(&mut self, node: &'a Node) -> Result<Val<'a>> {
        let depth = self.locals.len();
        let result = match node {
            Node::Fold(fold) => self.fold(fold),
            Node::OptionalMap(map) => self.optional_map(map),
            Node::SortBy(sort) => self.sort_by(sort),
            _ => Err(EvalError::NoOverload),
        };
        self.locals.truncate(depth);
        result
    }

    #[inline(never)]
    fn charged_attribute(&mut self, attribute: &'a Attribute) -> Result<Val<'a>> {
        if let Base::Local(index) = attribute.base
            && let Some(Local::Value(value)) = self.locals.get(index)
        {
            let result = self.walk(*value, &attribute.path, attribute.test);
            return self.after(result, u64::from(!attribute.test));
        }
        // What most others are: a variable that has been read before, or a part of it.
        if let Base::Variables(hint) = &attribute.base
            && let Some((Qualifier { key: Key::Field(name), optional: false, .. }, rest)) =
                attribute.path.split_first()
            && !(attribute.test && rest.is_empty())
            && let Some(value) = self.evaluation.known_variable(name, hint)
            // A test does not look into an optional here.
            && !(attribute.test && matches!(value, Val::Optional(_)))
        {
            self.charge(1)?;
            let result =
                if rest.is_empty() { Ok(value) } else { self.walk(value, rest, attribute.test) };
            return self.after(result, u64::from(!attribute.test));
        }
        let result = self.attribute(attribute);
        let free = attribute.test || matches!(attribute.base, Base::Choice(_));
        self.after(result, u64::from(!free))
    }

    #[inline(never)]
    fn negation(&mut self, node: &'a Node) -> Result<bool> {
        let truth = self.truth(node);
        Ok(!self.after(truth, 1)?)
    }

    #[inline(never)]
    fn equality(&mut self, negated: bool, sides: &'a [Node; 2]) -> Result<bool> {
        let [left, right] = sides;
        let left = self.value(left)?;
        let right = self.value(right)?;
        let seen = |side: &Result<Val<'a>>| side.as_ref().map_or(Val::Null, |side| *side);
        self.charge(cost::equality(negated, seen(&left), seen(&right)))?;
        match self.heap.equal(left?, right?) {
            // Values that cannot be compared are an error with `==`, and different with `!=`.
            Err(EvalError::NoOverload) if negated => Ok(true),
            same => Ok(same? != negated),
        }
    }

    #[inline(never)]
    fn membership(&mut self, item: &'a Node, set: &'a Set) -> Result<bool> {
        let item = self.eval(item)?;
        hashable(item)?;
        match (set, item) {
            (Set::Strings(all), Val::String(text)) => {
                Ok(all.binary_search_by(|other| (**other).cmp(text)).is_ok())
            }
            (Set::Strings(_), _) => Ok(false),
            (Set::Other(all), item) => self.heap.contains(all.value(), item),
        }
    }

    #[inline(never)]
    fn or_else(&mut self, value: bool, any: bool, sides: &'a [Node; 2]) -> Result<Val<'a>> {
        let [first, second] = sides;
        match (self.eval(first)?, value) {
            (Val::Optional(Some(inner)), true) => Ok(*inner),
            (first @ Val::Optional(Some(_)), false) => Ok(first),
            (Val::Optional(None), _) => self.eval(second),
            (first, _) if any => Ok(first),
            _ => Err(EvalError::NoOverload),
        }
    }

    #[inline(never)]
    fn message(
        &mut self,
        which: &'a Message,
        fields: &'a [(Box<str>, Node, bool)],
    ) -> Result<Val<'a>> {
        let mut values = Vec::with_capacity(fields.len());
        for (name, value, optional) in fields {
            match (self.eval(value)?, optional) {
                (Val::Optional(None), true) => {}
                (Val::Optional(Some(value)), true) => values.push((&**name, *value)),
                (value, _) => values.push((&**name, value)),
            }
        }
        self.charge(cost::MESSAGE)?;
        library::message(self.heap, which, &values)
    }

    /// The value or an error that is one; other errors end the evaluation.
    #[inline]
    fn value(&mut self, node: &'a Node) -> Result<Result<Val<'a>>> {
        match self.eval(node) {
            Err(error) if !error.is_value() => Err(error),
            result => Ok(result),
        }
    }

    /// An attribute's value, without what the attribute itself costs.
    fn attribute(&mut self, attribute: &'a Attribute) -> Result<Val<'a>> {
        let mut path = attribute.path.as_slice();
        let value = match &attribute.base {
            Base::Local(index) => self.local(*index)?,
            Base::Input(name) => match self.evaluation.activation.variable(name) {
                Some(input) => input,
                None => return failed(format!("no such attribute(s): {name}")),
            },
            Base::Variables(hint) => match path.split_first() {
                Some((first, rest)) if !attribute.test && !first.optional => {
                    let Key::Field(name) = &first.key else { return Err(EvalError::NoOverload) };
                    path = rest;
                    let result = self.variable(name, hint);
                    self.after(result, 1)?
                }
                _ => Val::Variables,
            },
            Base::Computed(node) => self.eval(node)?,
            Base::Choice(parts) => self.choice(parts)?,
        };
        self.walk(value, path, attribute.test)
    }

    fn choice(&mut self, parts: &'a [Node; 3]) -> Result<Val<'a>> {
        let [condition, yes, no] = parts;
        let mut chosen = if self.truth(condition)? { yes } else { no };
        if let Node::Probe(part) = chosen {
            part.probe.reach();
            chosen = &part.node;
        }
        // cel-go does not charge for an attribute that is a branch.
        match chosen {
            Node::Attribute(branch) => {
                self.heap.budget.spend(1)?;
                self.attribute(branch)
            }
            other => self.eval(other),
        }
    }

    /// The value that a path leads to; with `test`, whether its last step leads anywhere.
    fn walk(&mut self, value: Val<'a>, path: &'a [Qualifier], test: bool) -> Result<Val<'a>> {
        let (mut value, mut path) = (value, path);
        // What most steps are: a field of an object of a document, or of a map that was built.
        while let [step, rest @ ..] = path {
            let (Key::Field(name), false) = (&step.key, step.optional) else {
                return self.walk_any(value, path, test);
            };
            let member = match value {
                Val::JsonMap(object) => {
                    self.charge(1)?;
                    step.hint.member(object, name).map(Val::json)
                }
                Val::Map(entries) => {
                    let member = self.heap.find_text(entries, name);
                    self.after(member, 1)?
                }
                _ => return self.walk_any(value, path, test),
            };
            if test && rest.is_empty() {
                return Ok(Val::Bool(member.is_some()));
            }
            value = match member {
                Some(member) => member,
                None => return missing(value, Val::String(name)),
            };
            path = rest;
        }
        Ok(value)
    }

    /// As [`walk`](Self::walk), through anything.
    fn walk_any(&mut self, value: Val<'a>, path: &'a [Qualifier], test: bool) -> Result<Val<'a>> {
        let mut value = value;
        let Some((last, before)) = path.split_last() else { return Ok(value) };
        let mut optional = false;
        if let Val::Optional(inner) = value {
            match inner {
                Some(inner) => value = *inner,
                None if test => return Ok(Val::Bool(false)),
                None => return Ok(value),
            }
            optional = true;
        }
        let steps = if test { before } else { path };
        for step in steps {
            optional |= step.optional;
            let key = match &step.key {
                Key::Field(name) => Val::String(name),
                Key::Constant(key) => key.value(),
                // cel-go does not charge for an attribute that is an index.
                Key::Computed(Node::Attribute(index)) => {
                    let key = self.attribute(index);
                    match key {
                        Err(error) if !optional => return self.after(Err(error), 1),
                        key => key?,
                    }
                }
                Key::Computed(index) => self.eval(index)?,
            };
            let found = self.find(value, key, optional);
            if !optional {
                let found = self.after(found, 1)?;
                value = match found {
                    Some(found) => found,
                    None => return missing(value, key),
                };
                continue;
            }
            match found {
                Ok(None) => {
                    return Ok(if test { Val::Bool(false) } else { Val::Optional(None) });
                }
                Ok(Some(found)) => {
                    self.charge(1)?;
                    value = found;
                }
                Err(error) => return Err(error),
            }
        }
        if test {
            let Key::Field(name) = &last.key else { return Err(EvalError::NoOverload) };
            let found = self.find(value, Val::String(name), true);
            let cost = u64::from(!optional || matches!(found, Ok(Some(_))));
            return Ok(Val::Bool(self.after(found, cost)?.is_some()));
        }
        if optional { self.heap.some(value) } else { Ok(value) }
    }

    fn variable(&self, name: &str, hint: &Hint) -> Result<Val<'a>> {
        match self.evaluation.position_near(name, hint) {
            Some(index) => self.evaluation.variable(index),
            None => failed(format!("no such key: {name}")),
        }
    }

    fn local(&mut self, index: usize) -> Result<Val<'a>> {
        match self.locals.get(index) {
            Some(Local::Value(value)) => Ok(*value),
            Some(Local::Delayed { node, unwrap }) => {
                let (node, unwrap) = (*node, *unwrap);
                // It was written where the names from here on were not known.
                let inner: Vec<Local<'a>> = self.locals.drain(index..).collect();
                let result = self.eval(node);
                self.locals.truncate(index);
                self.locals.extend(inner);
                let result = result.and_then(|value| match (value, unwrap) {
                    (value, false) => Ok(value),
                    (Val::Optional(Some(inner)), true) => Ok(*inner),
                    (Val::Optional(None), true) => failed("optional.none() dereference"),
                    _ => Err(EvalError::NoOverload),
                });
                let value = self.after(result, u64::from(unwrap))?;
                if let Some(slot) = self.locals.get_mut(index) {
                    *slot = Local::Value(value);
                }
                Ok(value)
            }
            None => failed("no such attribute(s)"),
        }
    }

    /// The entry `key`; `None` if a list or map has none, or if `lenient` and it has no entries.
    fn find(&self, value: Val<'a>, key: Val<'a>, lenient: bool) -> Result<Option<Val<'a>>> {
        if !qualifies(key) {
            return failed(format!("invalid qualifier type: {}", go_type(key)));
        }
        if value.is_list() {
            let whole = match key {
                Val::Int(index) => Some(index),
                Val::Uint(index) => i64::try_from(index).ok(),
                Val::Double(index) => whole(index).and_then(|index| i64::try_from(index).ok()),
                _ => {
                    return failed(format!("unsupported index type '{}' in list", key.type_name()));
                }
            };
            let Some(index) = whole else {
                return failed(format!("unsupported index value {} in list", shown(key)));
            };
            return Ok(usize::try_from(index).ok().and_then(|index| value.item(index)));
        }
        match (value, key) {
            (Val::Variables, Val::String(name)) => match self.evaluation.position(name) {
                Some(index) => self.evaluation.variable(index).map(Some),
                None => Ok(None),
            },
            _ if value.is_map() => self.heap.find(value, key),
            _ if lenient => Ok(None),
            (_, key) => missing(value, key),
        }
    }

    /// The truth of a condition. The usual ones give no value that would have to be looked at.
    fn truth(&mut self, node: &'a Node) -> Result<bool> {
        match node {
            Node::Logic { stop, terms } => {
                self.heap.budget.spend(1)?;
                self.logic(*stop, terms)
            }
            Node::Not(node) => {
                self.heap.budget.spend(1)?;
                self.negation(node)
            }
            Node::Equal { negated, sides } => {
                self.heap.budget.spend(1)?;
                self.equality(*negated, sides)
            }
            _ => match self.eval(node)? {
                Val::Bool(value) => Ok(value),
                _ => Err(EvalError::NoOverload),
            },
        }
    }

    /// `&&` or `||`: an error counts only if nothing decides.
    #[inline(never)]
    fn logic(&mut self, stop: bool, terms: &'a [Node; 2]) -> Result<bool> {
        let [first, second] = terms;
        match self.truth(first) {
            Ok(value) if value == stop => Ok(stop),
            Ok(_) => self.truth(second),
            Err(error) => self.logic_after(error, stop, second),
        }
    }

    #[cold]
    fn logic_after(&mut self, error: EvalError, stop: bool, second: &'a Node) -> Result<bool> {
        if !error.is_value() {
            return Err(error);
        }
        match self.truth(second) {
            Ok(value) if value == stop => Ok(stop),
            Err(found) if !found.is_value() => Err(found),
            _ => Err(error),
        }
    }

    #[inline(never)]
    fn elements(&mut self, elements: &'a [(Node, bool)]) -> Result<Val<'a>> {
        let mut items = Vec::with_capacity(elements.len());
        for (element, optional) in elements {
            match self.value(element)? {
                Ok(Val::Optional(inner)) if *optional => items.extend(inner.copied()),
                Ok(_) if *optional => {
                    self.charge(cost::LIST)?;
                    return failed("cannot initialize optional list element");
                }
                Ok(value) => items.push(value),
                Err(error) => return self.charge(cost::LIST).and(Err(error)),
            }
        }
        self.charge(cost::LIST)?;
        self.heap.list(&items)
    }

    #[inline(never)]
    fn entries(&mut self, parts: &'a [(Node, Node, bool)]) -> Result<Val<'a>> {
        let mut entries = Vec::with_capacity(parts.len());
        for (key, value, optional) in parts {
            let pair = match self.value(key)? {
                Ok(key) => self.value(value)?.map(|value| (key, value)),
                Err(error) => Err(error),
            };
            match pair {
                Ok((key, Val::Optional(None))) if *optional => {
                    self.heap.remove(&mut entries, key)?;
                }
                Ok((key, Val::Optional(Some(value)))) if *optional => {
                    self.heap.put(&mut entries, key, *value)?;
                }
                Ok(_) if *optional => {
                    self.charge(cost::MAP)?;
                    return failed("cannot initialize optional entry");
                }
                Ok((key, value)) => self.heap.put(&mut entries, key, value)?,
                Err(error) => return self.charge(cost::MAP).and(Err(error)),
            }
        }
        self.charge(cost::MAP)?;
        self.heap.map(&entries)
    }

    fn optional_map(&mut self, map: &'a OptionalMap) -> Result<Val<'a>> {
        let target = self.eval(&map.target);
        let target = self.after(target, 1)?;
        match target {
            Val::Optional(None) => {
                self.charge(1)?;
                Ok(Val::Optional(None))
            }
            Val::Optional(Some(_)) => {
                self.locals.push(Local::Delayed { node: &map.target, unwrap: true });
                let value = self.eval(&map.body);
                if map.wrap {
                    let value = self.after(value, 1)?;
                    self.heap.some(value)
                } else {
                    value
                }
            }
            other => Err(library::no_overload("hasValue", &[other])),
        }
    }

    fn sort_by(&mut self, sort: &'a SortBy) -> Result<Val<'a>> {
        let list = self.eval(&sort.list)?;
        // Reading the list twice.
        self.charge(2)?;
        let depth = self.locals.len();
        let mut keys = Vec::new();
        // The list has a name of its own, and so does each element.
        self.locals.push(Local::Value(list));
        if !list.is_list() && !list.is_map() {
            return Err(EvalError::NoOverload);
        }
        for index in 0..list.entries().unwrap_or(0) {
            let Some((key, value)) = list.entry(index) else { break };
            self.locals.truncate(depth + 1);
            self.locals.push(Local::Value(if list.is_list() { value } else { key }));
            let key = self.eval(&sort.key)?;
            self.charge(if matches!(sort.key, Node::Constant(_)) { 2 } else { 2 + cost::LIST })?;
            self.heap.push(&mut keys, key)?;
        }
        self.charge(1)?;
        let keys = self.heap.list(&keys)?;
        let cost = sort.cost.of(self.heap, &[list, keys], Val::Null)?;
        self.charge(cost)?;
        if !list.is_list() {
            return Err(library::no_overload("@sortByAssociatedKeys", &[list, keys]));
        }
        library::sorted_by(self.heap, list, keys)
    }
}

/// The error of looking for `key` in a value that does not have it.
fn missing<'a, T>(value: Val<'a>, key: Val<'a>) -> Result<T> {
    let key = shown(key);
    failed(if value.is_list() {
        format!("index out of bounds: {key}")
    } else {
        format!("no such key: {key}")
    })
}
