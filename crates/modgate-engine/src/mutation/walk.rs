//! One mutator on one object (3.2 to 3.9).

use modgate_value::{Array, Budget, Object, Str, Value};

use super::{
    Action, AssignFrom, CompiledMutator, Constant, Constants,
    error::ApplyError,
    external::{DataSource, External, Placeholders},
    location::{Elements, Node},
    trace::{Trail, What},
};

/// The effect of a mutator on a value.
pub(super) struct Walked {
    /// Whether the walk got to its end, even if that changed nothing.
    pub(super) applied: bool,
    /// The value afterwards, if it is another one.
    pub(super) new: Option<Value>,
}

impl Walked {
    const UNCHANGED: Self = Self { applied: false, new: None };
}

/// Equal, and printed alike: an assigned `1` still replaces a present `1.0`.
fn identical(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b && a.to_string() == b.to_string(),
        _ => a == b,
    }
}

/// The context of a run beside the mutator.
pub(super) struct Run<'a> {
    /// The whole object at this moment.
    pub(super) object: &'a Value,
    pub(super) username: &'a str,
    pub(super) placeholders: &'a mut Placeholders,
    pub(super) budget: &'a Budget<'a>,
    /// Where the walk leaves its notes, if it is explained.
    pub(super) trail: Option<&'a mut Trail>,
}

/// Applies `mutator` to the object of `run`.
pub(super) fn apply(mutator: &CompiledMutator, run: &mut Run<'_>) -> Result<Walked, ApplyError> {
    let object = run.object;
    Walk { mutator, run }.step(object, 0)
}

struct Walk<'w, 'r> {
    mutator: &'w CompiledMutator,
    run: &'w mut Run<'r>,
}

impl<'w> Walk<'w, '_> {
    fn step(&mut self, value: &Value, depth: usize) -> Result<Walked, ApplyError> {
        match self.node(depth) {
            Some(node @ Node::Field(name)) => {
                self.enter(node, None);
                let Value::Object(object) = value else {
                    return Err(ApplyError::mismatch("object", value, node));
                };
                let outcome = self.field(object, name, depth)?;
                self.leave();
                Ok(outcome)
            }
            Some(node @ Node::List { key, elements }) => {
                let Value::Array(list) = value else {
                    return Err(ApplyError::mismatch("List", value, node));
                };
                self.run.budget.spend(u64::try_from(list.len()).unwrap_or(u64::MAX))?;
                if self.node(depth + 1).is_none() {
                    self.enter(node, None);
                    let outcome = self.terminal_list(list, key, elements, depth)?;
                    self.leave();
                    Ok(outcome)
                } else {
                    self.list(list, node, key, elements, depth)
                }
            }
            None => Ok(Walked::UNCHANGED),
        }
    }

    fn enter(&mut self, node: &Node, element: Option<(usize, &Value)>) {
        if let Some(trail) = &mut self.run.trail {
            trail.enter(node, element);
        }
    }

    fn leave(&mut self) {
        if let Some(trail) = &mut self.run.trail {
            trail.leave();
        }
    }

    fn note(&mut self, what: impl FnOnce() -> What) {
        if let Some(trail) = &mut self.run.trail {
            trail.note(what());
        }
    }

    /// Whether the path test at `depth` lets the walk go on.
    fn allowed(&mut self, depth: usize, exists: bool) -> bool {
        match self.mutator.tests.at(depth) {
            Some(condition) if !condition.allows(exists) => {
                self.note(|| What::failed_test(condition));
                false
            }
            _ => true,
        }
    }

    /// The end was reached where `present` stands; `new` makes what is wanted there if that is
    /// something else.
    fn put(&mut self, present: Option<&Value>, new: Option<Value>) -> Walked {
        self.note(|| match &new {
            None => What::Same,
            Some(after) => What::Set { before: present.cloned(), after: after.clone() },
        });
        Walked { applied: true, new }
    }

    fn node(&self, depth: usize) -> Option<&'w Node> {
        self.mutator.location.nodes().get(depth)
    }

    /// Prune never makes what it could only leave empty.
    fn creates(&self) -> bool {
        !matches!(self.mutator.action, Action::Prune(_))
    }

    fn field(&mut self, object: &Object, name: &Str, depth: usize) -> Result<Walked, ApplyError> {
        let present = object.get(name);
        if !self.allowed(depth, present.is_some()) {
            return Ok(Walked::UNCHANGED);
        }
        let inner = match (self.node(depth + 1), present) {
            (None, present) => self.set(present)?,
            (Some(_), Some(member)) => self.step(member, depth + 1)?,
            (Some(_), None) if !self.creates() => {
                self.note(|| What::Nothing);
                Walked::UNCHANGED
            }
            (Some(next), None) => {
                let provisional = match next {
                    Node::Field(_) => Value::Object(Object::default()),
                    Node::List { .. } => Value::Array(Vec::new().into()),
                };
                self.step(&provisional, depth + 1)?
            }
        };
        Ok(Walked {
            applied: inner.applied,
            new: inner.new.map(|member| {
                let mut changed = object.clone();
                changed.insert(name.clone(), member);
                changed.into()
            }),
        })
    }

    fn list(
        &mut self,
        list: &Array,
        node: &Node,
        key: &Str,
        elements: &Elements,
        depth: usize,
    ) -> Result<Walked, ApplyError> {
        let all = *elements == Elements::All;
        let exists = all || list.iter().any(|element| includes(element, key, elements));
        if self.mutator.tests.at(depth).is_some_and(|test| !test.allows(exists)) {
            self.enter(node, None);
            self.allowed(depth, exists);
            self.leave();
            return Ok(Walked::UNCHANGED);
        }
        if all && list.is_empty() {
            self.enter(node, None);
            self.note(|| What::NoElements);
            self.leave();
        }
        let mut applied = false;
        let mut changed: Option<Vec<Value>> = None;
        for (index, element) in list.iter().enumerate() {
            if !all && !includes(element, key, elements) {
                continue;
            }
            self.enter(node, Some((index, element)));
            let inner = self.step(element, depth + 1)?;
            self.leave();
            applied |= inner.applied;
            if let Some(new) = inner.new {
                let copy = changed.get_or_insert_with(|| list.to_vec());
                if let Some(slot) = copy.get_mut(index) {
                    *slot = new;
                }
            }
        }
        if !exists && self.creates() {
            let made: Value =
                elements.value().map(|value| (key.clone(), value)).into_iter().collect();
            self.enter(node, None);
            let inner = self.step(&made, depth + 1)?;
            self.leave();
            applied |= inner.applied;
            if inner.applied {
                changed.get_or_insert_with(|| list.to_vec()).push(inner.new.unwrap_or(made));
            }
        }
        Ok(Walked { applied, new: changed.map(Value::from) })
    }

    fn terminal_list(
        &mut self,
        list: &Array,
        key: &Str,
        elements: &Elements,
        depth: usize,
    ) -> Result<Walked, ApplyError> {
        let mutator = self.mutator;
        let Action::Assign { from: AssignFrom::Value(constant), .. } = &mutator.action else {
            return Err(ApplyError::KeyedList);
        };
        let mut found = None;
        for (index, element) in list.iter().enumerate() {
            let Value::Object(members) = element else {
                return Err(ApplyError::Element(super::error::go_type(element)));
            };
            if members.get(key).is_some_and(|own| elements.include(own)) {
                found = Some((index, element));
                break;
            }
        }
        if !self.allowed(depth, found.is_some()) {
            return Ok(Walked::UNCHANGED);
        }
        let present = found.map(|(_, element)| element);
        let element = self.constant(constant, present)?;
        let outcome = self.put(present, element);
        let new = outcome.new.map(|element| {
            let mut copy = list.to_vec();
            match found.and_then(|(index, _)| copy.get_mut(index)) {
                Some(slot) => *slot = element,
                None => copy.push(element),
            }
            Value::from(copy)
        });
        Ok(Walked { applied: true, new })
    }

    /// The constant, unless it is there already.
    fn constant(
        &self,
        constant: &Constant,
        present: Option<&Value>,
    ) -> Result<Option<Value>, ApplyError> {
        if present.is_some_and(|present| identical(present, &constant.value)) {
            return Ok(None);
        }
        // Copies share memory, but not when the object is printed.
        self.run.budget.allocate(constant.bytes)?;
        Ok(Some(constant.value.clone()))
    }

    /// Sets the member at the end of the location.
    fn set(&mut self, present: Option<&Value>) -> Result<Walked, ApplyError> {
        let mutator = self.mutator;
        match &mutator.action {
            Action::Assign { from, one_of, none_of } => {
                if !one_of.is_empty() && !present.is_some_and(|value| one_of.contains(value)) {
                    self.note(|| What::NotListed { value: present.cloned() });
                    return Ok(Walked::UNCHANGED);
                }
                if let Some(value) = present.filter(|value| none_of.contains(value)) {
                    self.note(|| What::Excluded { value: value.clone() });
                    return Ok(Walked::UNCHANGED);
                }
                let new = match from {
                    AssignFrom::Value(constant) => self.constant(constant, present)?,
                    AssignFrom::Metadata(field) => {
                        let text = self.run.object.path(&["metadata", field]);
                        let text = text.and_then(Value::as_str).unwrap_or_default();
                        (present.and_then(Value::as_str) != Some(text)).then(|| text.into())
                    }
                    AssignFrom::External(external) => return self.ask(external, present),
                };
                Ok(self.put(present, new))
            }
            Action::Merge(list) => self.merge(list, present),
            Action::Prune(list) => self.prune(list, present),
            Action::Image(parts) => {
                let reference = match present {
                    None => None,
                    Some(Value::String(text))
                        if self.run.placeholders.remembered(text).is_none() =>
                    {
                        Some(text)
                    }
                    Some(other) => return Err(ApplyError::not_an_image(other)),
                };
                let same = reference.is_some_and(|reference| parts.are_in(reference));
                let new = (!same)
                    .then(|| parts.apply(reference.map(Str::as_str).unwrap_or_default()).into());
                Ok(self.put(present, new))
            }
            Action::Nothing => {
                self.note(|| What::Nothing);
                Ok(Walked::UNCHANGED)
            }
        }
    }

    fn merge(&mut self, wanted: &Constants, present: Option<&Value>) -> Result<Walked, ApplyError> {
        let Some(present) = present else {
            self.run.budget.allocate(wanted.bytes)?;
            return Ok(self.put(None, Some(wanted.values.clone().into())));
        };
        let Value::Array(list) = present else { return Err(ApplyError::not_a_set(present)) };
        self.compare(list, wanted)?;
        let mut merged: Option<Vec<Value>> = None;
        for value in &wanted.values {
            if !merged.as_deref().unwrap_or(list).contains(value) {
                merged.get_or_insert_with(|| list.to_vec()).push(value.clone());
            }
        }
        if merged.is_some() {
            self.run.budget.allocate(wanted.bytes)?;
        }
        Ok(self.put(Some(present), merged.map(Value::from)))
    }

    fn prune(
        &mut self,
        unwanted: &Constants,
        present: Option<&Value>,
    ) -> Result<Walked, ApplyError> {
        let Some(present) = present else {
            self.note(|| What::Nothing);
            return Ok(Walked::UNCHANGED);
        };
        let Value::Array(list) = present else { return Err(ApplyError::not_a_set(present)) };
        self.compare(list, unwanted)?;
        let listed = |element: &Value| unwanted.values.contains(element);
        let pruned = list
            .iter()
            .any(listed)
            .then(|| list.iter().filter(|element| !listed(element)).cloned().collect());
        Ok(self.put(Some(present), pruned))
    }

    /// Pays for comparing every element with every value.
    fn compare(&self, list: &Array, values: &Constants) -> Result<(), ApplyError> {
        let pairs = list.len().saturating_mul(values.values.len());
        Ok(self.run.budget.spend(u64::try_from(pairs).unwrap_or(u64::MAX))?)
    }

    /// Puts a placeholder where a provider's answer will stand.
    fn ask(&mut self, external: &External, present: Option<&Value>) -> Result<Walked, ApplyError> {
        let at_location: Str = match present {
            None => Str::default(),
            Some(Value::String(text)) => {
                self.run.placeholders.remembered(text).unwrap_or(text).clone()
            }
            Some(other) => return Err(ApplyError::not_a_key(other)),
        };
        let key = match external.source {
            DataSource::ValueAtLocation => at_location.clone(),
            DataSource::Username => self.run.username.into(),
        };
        self.note(|| What::Asked { provider: external.provider.clone(), key: key.clone() });
        let placeholder = self.run.placeholders.place(external, key, at_location);
        let new = (present != Some(&placeholder)).then_some(placeholder);
        Ok(Walked { applied: true, new })
    }
}

/// Whether a list element has the key that a step names.
fn includes(element: &Value, key: &str, elements: &Elements) -> bool {
    element.get(key).is_some_and(|own| elements.include(own))
}
