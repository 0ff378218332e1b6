//! One mutator on one object (3.2 to 3.9).

use modgate_api::mutations::MutatorKind;
use modgate_value::{Array, MAX_DEPTH, Object, Str, Value};

use super::{
    Action, AssignFrom, CompiledMutator,
    error::ApplyError,
    external::{DataSource, External, Placeholders},
    location::{Elements, Node},
};

/// What a mutator did to a value.
pub(super) struct Outcome {
    /// Whether the walk got to its end, even if that changed nothing.
    pub(super) applied: bool,
    /// The value afterwards, if it is another one.
    pub(super) new: Option<Value>,
}

impl Outcome {
    const UNCHANGED: Self = Self { applied: false, new: None };

    /// The end was reached and `new` stands where `present` stood.
    fn set(present: Option<&Value>, new: Value) -> Self {
        let same = present.is_some_and(|present| identical(present, &new));
        Self { applied: true, new: (!same).then_some(new) }
    }
}

/// Equal, and printed alike: an assigned `1` still replaces a present `1.0`.
fn identical(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b && a.to_string() == b.to_string(),
        _ => a == b,
    }
}

/// What a run knows beside the object.
pub(super) struct Run<'a> {
    /// `metadata.name` and `metadata.namespace` of the object at this moment.
    pub(super) name: Str,
    pub(super) namespace: Str,
    pub(super) username: &'a str,
    pub(super) placeholders: &'a mut Placeholders,
}

/// Applies `mutator` to `object`.
pub(super) fn apply(
    mutator: &CompiledMutator,
    object: &Value,
    run: &mut Run<'_>,
) -> Result<Outcome, ApplyError> {
    if matches!(mutator.action, Action::Nothing) {
        return Ok(Outcome::UNCHANGED);
    }
    // The object's own depth was bounded when it was read.
    if mutator.location.nodes().len() > MAX_DEPTH / 2 {
        return Err(ApplyError::TooDeep);
    }
    Walk { mutator, run }.step(object, 0)
}

struct Walk<'w, 'r> {
    mutator: &'w CompiledMutator,
    run: &'w mut Run<'r>,
}

impl<'w> Walk<'w, '_> {
    fn step(&mut self, value: &Value, depth: usize) -> Result<Outcome, ApplyError> {
        match self.node(depth) {
            Some(node @ Node::Field(name)) => {
                let Value::Object(object) = value else {
                    return Err(ApplyError::mismatch("object", value, node));
                };
                self.field(object, name, depth)
            }
            Some(node @ Node::List { key, elements }) => {
                let Value::Array(list) = value else {
                    return Err(ApplyError::mismatch("List", value, node));
                };
                if self.node(depth + 1).is_none() {
                    self.terminal_list(list, key, elements, depth)
                } else {
                    self.list(list, key, elements, depth)
                }
            }
            None => Ok(Outcome::UNCHANGED),
        }
    }

    fn node(&self, depth: usize) -> Option<&'w Node> {
        self.mutator.location.nodes().get(depth)
    }

    /// Prune never makes what it could only leave empty.
    fn creates(&self) -> bool {
        !matches!(self.mutator.action, Action::Prune(_))
    }

    fn field(&mut self, object: &Object, name: &Str, depth: usize) -> Result<Outcome, ApplyError> {
        let present = object.get(name);
        if !self.mutator.tests.allow(depth, present.is_some()) {
            return Ok(Outcome::UNCHANGED);
        }
        let inner = match (self.node(depth + 1), present) {
            (None, present) => self.set(present)?,
            (Some(_), Some(member)) => self.step(member, depth + 1)?,
            (Some(_), None) if !self.creates() => Outcome::UNCHANGED,
            (Some(next), None) => {
                let provisional = match next {
                    Node::Field(_) => Value::Object(Object::default()),
                    Node::List { .. } => Value::Array(Vec::new().into()),
                };
                self.step(&provisional, depth + 1)?
            }
        };
        Ok(Outcome {
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
        key: &Str,
        elements: &Elements,
        depth: usize,
    ) -> Result<Outcome, ApplyError> {
        let test = self.mutator.tests.at(depth);
        let all = *elements == Elements::All;
        let included: Vec<bool> =
            list.iter().map(|element| includes(element, key, elements)).collect();
        let exists = all || included.contains(&true);
        if test.is_some_and(|test| !test.allows(exists)) {
            return Ok(Outcome::UNCHANGED);
        }
        let mut applied = false;
        let mut changed: Option<Vec<Value>> = None;
        for (index, (element, included)) in list.iter().zip(included).enumerate() {
            if !all && !included {
                continue;
            }
            let inner = self.step(element, depth + 1)?;
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
            let inner = self.step(&made, depth + 1)?;
            applied |= inner.applied;
            if inner.applied {
                changed.get_or_insert_with(|| list.to_vec()).push(inner.new.unwrap_or(made));
            }
        }
        Ok(Outcome { applied, new: changed.map(Value::from) })
    }

    fn terminal_list(
        &mut self,
        list: &Array,
        key: &Str,
        elements: &Elements,
        depth: usize,
    ) -> Result<Outcome, ApplyError> {
        let Action::Assign { from: AssignFrom::Value(value), .. } = &self.mutator.action else {
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
        if !self.mutator.tests.allow(depth, found.is_some()) {
            return Ok(Outcome::UNCHANGED);
        }
        let same = found.is_some_and(|(_, element)| identical(element, value));
        let new = (!same).then(|| {
            let mut copy = list.to_vec();
            match found.and_then(|(index, _)| copy.get_mut(index)) {
                Some(slot) => *slot = value.clone(),
                None => copy.push(value.clone()),
            }
            Value::from(copy)
        });
        Ok(Outcome { applied: true, new })
    }

    /// Sets the member at the end of the location.
    fn set(&mut self, present: Option<&Value>) -> Result<Outcome, ApplyError> {
        let mutator = self.mutator;
        match &mutator.action {
            Action::Assign { from, one_of, none_of } => {
                if !one_of.is_empty() && !present.is_some_and(|value| one_of.contains(value)) {
                    return Ok(Outcome::UNCHANGED);
                }
                if present.is_some_and(|value| none_of.contains(value)) {
                    return Ok(Outcome::UNCHANGED);
                }
                Ok(match from {
                    AssignFrom::Value(value) => match present {
                        Some(present) if identical(present, value) => {
                            Outcome { applied: true, new: None }
                        }
                        _ => Outcome { applied: true, new: Some(value.clone()) },
                    },
                    AssignFrom::MetadataName => Outcome::set(present, self.run.name.clone().into()),
                    AssignFrom::MetadataNamespace => {
                        Outcome::set(present, self.run.namespace.clone().into())
                    }
                    AssignFrom::External(external) => {
                        Outcome::set(present, self.placeholder(external, present)?)
                    }
                })
            }
            Action::Merge(values) => match present {
                None => Ok(Outcome { applied: true, new: Some(values.clone().into()) }),
                Some(Value::Array(list)) => {
                    let mut merged: Option<Vec<Value>> = None;
                    for value in values {
                        if !merged.as_deref().unwrap_or(list).contains(value) {
                            merged.get_or_insert_with(|| list.to_vec()).push(value.clone());
                        }
                    }
                    Ok(Outcome { applied: true, new: merged.map(Value::from) })
                }
                Some(other) => Err(ApplyError::not_a_set(other)),
            },
            Action::Prune(values) => match present {
                None => Ok(Outcome::UNCHANGED),
                Some(Value::Array(list)) => {
                    let pruned = list.iter().any(|element| values.contains(element)).then(|| {
                        list.iter().filter(|element| !values.contains(element)).cloned().collect()
                    });
                    Ok(Outcome { applied: true, new: pruned })
                }
                Some(other) => Err(ApplyError::not_a_set(other)),
            },
            Action::Image(parts) => {
                let reference = match present {
                    None => "",
                    Some(Value::String(text))
                        if self.run.placeholders.remembered(text).is_none() =>
                    {
                        text
                    }
                    Some(other) => return Err(ApplyError::not_an_image(other)),
                };
                Ok(Outcome::set(present, parts.apply(reference).into()))
            }
            Action::Nothing => Ok(Outcome::UNCHANGED),
        }
    }

    fn placeholder(
        &mut self,
        external: &External,
        present: Option<&Value>,
    ) -> Result<Value, ApplyError> {
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
        Ok(self.run.placeholders.place(external, key, at_location))
    }
}

/// Whether a list element has the key that a step names.
fn includes(element: &Value, key: &str, elements: &Elements) -> bool {
    element.get(key).is_some_and(|own| elements.include(own))
}

impl CompiledMutator {
    /// Whether this kind adds and never replaces.
    pub fn only_adds(&self) -> bool {
        self.id.kind == MutatorKind::AssignMetadata
    }
}
