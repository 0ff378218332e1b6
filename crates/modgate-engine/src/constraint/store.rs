//! Templates and constraints as they come and go, and which of them concern an admission.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use modgate_rego::Reads;
use modgate_value::{Str, Value};

use super::{
    admission::Admission,
    compile::{CompiledConstraint, ConstraintError, ConstraintOptions},
    driver::Driver,
    template::CompiledTemplate,
};
use crate::PolicySource;

/// Every template and constraint there is.
///
/// They may come in any order: a constraint whose template is missing waits for it. A clone copies
/// lists of names and shares everything compiled, so that one can be changed while reviews go on
/// with the other.
#[derive(Debug, Clone, Default)]
pub struct Store {
    /// By name in lower case, which is the lower case of the constraints' kind, too.
    templates: BTreeMap<Str, Arc<CompiledTemplate>>,
    /// Where templates came from, as far as that was said, by the same names.
    template_sources: BTreeMap<Str, PolicySource>,
    /// By kind, then name: the order in which equal results are shown.
    constraints: BTreeMap<ConstraintKey, Stored>,
    /// Constraints that can only be about objects of one kind's name, in the same order.
    by_kind: BTreeMap<Str, Vec<Arc<CompiledConstraint>>>,
    /// The others.
    any_kind: Vec<Arc<CompiledConstraint>>,
}

/// Which constraint.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConstraintKey {
    /// Its kind.
    pub kind: Str,
    /// Its name.
    pub name: Str,
}

#[derive(Debug, Clone)]
struct Stored {
    /// As it was last given, valid or not.
    source: PolicySource,
    /// The last valid version; `None` while there is none, or no template.
    compiled: Option<Arc<CompiledConstraint>>,
}

/// The state of a constraint that was inserted into a [`Store`].
#[derive(Debug, Clone)]
pub enum Inserted {
    /// It is in force.
    Live(Arc<CompiledConstraint>),
    /// It waits for its template.
    Waiting,
}

impl ConstraintKey {
    /// The key of a constraint object, from its `kind` and `metadata.name`.
    pub fn of_object(object: &Value) -> Self {
        let text =
            |path: &[&str]| object.path(path).and_then(Value::as_str).unwrap_or_default().into();
        Self { kind: text(&["kind"]), name: text(&["metadata", "name"]) }
    }
}

impl Store {
    /// The parts of `data.inventory` that all templates together can read.
    pub fn inventory_reads(&self) -> Reads {
        let mut all = Reads::default();
        let drivers = self.templates.values().map(|template| template.driver());
        drivers.filter_map(Driver::inventory_reads).for_each(|reads| all.merge(reads));
        all
    }

    /// Adds a template or replaces the one of its name, and gives it its constraints: those that
    /// were waiting or refused are compiled, those in force go on with the new policy (TC-3).
    ///
    /// Returns the constraints that the template does not accept. One that was in force before
    /// stays so, with the new policy.
    pub fn insert_template(
        &mut self,
        template: Arc<CompiledTemplate>,
        options: &ConstraintOptions,
    ) -> Vec<(PolicySource, ConstraintError)> {
        let id = template_id(template.name());
        // The kind may be spelt differently than before.
        let before = self.templates.insert(id, Arc::clone(&template));
        if let Some(before) = before.filter(|before| before.kind() != template.kind()) {
            self.suspend(before.kind());
        }
        let mut refused = Vec::new();
        let keys = self.keys_of(template.kind());
        let is_done = !keys.is_empty();
        for key in keys {
            let Some(stored) = self.constraints.get(&key) else { continue };
            let compiled =
                CompiledConstraint::compile(&stored.source.object, Arc::clone(&template), options);
            let compiled = match compiled {
                Ok(compiled) => Some(compiled),
                Err(error) => {
                    refused.push((stored.source.clone(), error));
                    let before = stored.compiled.as_deref();
                    before.map(|before| before.with_template(Arc::clone(&template)))
                }
            };
            self.set(&key, compiled.map(CompiledConstraint::in_force));
        }
        // Its constraints may still be on their way.
        if is_done {
            template.rest();
        }
        refused
    }

    /// Forgets what only compiling constraints needs, until the next one comes.
    pub(crate) fn rest(&self) {
        self.templates().for_each(|template| template.rest());
    }

    /// Notes where the template of that name came from, for explanations.
    pub(crate) fn set_template_source(&mut self, source: PolicySource) {
        let id = template_id(&source.id().name);
        self.template_sources.insert(id, source);
    }

    /// Where a template came from, if that was said.
    pub fn template_source(&self, name: &str) -> Option<&PolicySource> {
        self.template_sources.get(template_id(name).as_str())
    }

    /// Removes a template; its constraints wait for another of its name. Says whether there was
    /// one.
    pub(crate) fn remove_template(&mut self, name: &str) -> bool {
        let Some(template) = self.templates.remove(template_id(name).as_str()) else {
            return false;
        };
        self.template_sources.remove(template_id(name).as_str());
        self.suspend(template.kind());
        true
    }

    /// Adds a constraint or replaces the one of its kind and name.
    ///
    /// # Errors
    ///
    /// Why it is not valid. It is tried again when its template changes; until then the version
    /// before stays in force, if there is one (ST-21).
    pub fn insert_constraint(
        &mut self,
        source: PolicySource,
        options: &ConstraintOptions,
    ) -> Result<Inserted, ConstraintError> {
        let key = ConstraintKey::of_object(&source.object);
        let compiled = match self.template(&key.kind) {
            Some(template) => {
                CompiledConstraint::compile(&source.object, Arc::clone(template), options).map(Some)
            }
            None => Ok(None),
        };
        let compiled = compiled.map(|compiled| compiled.map(CompiledConstraint::in_force));
        match self.constraints.get_mut(&key) {
            Some(stored) => stored.source = source,
            None if key.name.is_empty() => {}
            None => {
                self.constraints.insert(key.clone(), Stored { source, compiled: None });
            }
        }
        let compiled = compiled?;
        self.set(&key, compiled.clone());
        Ok(compiled.map_or(Inserted::Waiting, Inserted::Live))
    }

    /// Removes a constraint; says whether there was one.
    pub(crate) fn remove_constraint(&mut self, key: &ConstraintKey) -> bool {
        self.set(key, None);
        self.constraints.remove(key).is_some()
    }

    /// Compiles a constraint without keeping it: what an admission check does (AD-30 to AD-33).
    ///
    /// # Errors
    ///
    /// Why it is not valid, which includes that there is no template for it.
    pub fn compile_constraint(
        &self,
        resource: &Value,
        options: &ConstraintOptions,
    ) -> Result<CompiledConstraint, ConstraintError> {
        let kind = resource.get("kind").and_then(Value::as_str).unwrap_or_default();
        let template = self
            .template(kind)
            .ok_or_else(|| ConstraintError::NoTemplate { template: kind.to_lowercase() })?;
        CompiledConstraint::compile(resource, Arc::clone(template), options)
    }

    /// The templates, by name.
    pub fn templates(&self) -> impl Iterator<Item = &Arc<CompiledTemplate>> {
        self.templates.values()
    }

    /// The template of a constraint kind.
    pub fn template(&self, kind: &str) -> Option<&Arc<CompiledTemplate>> {
        self.templates.get(template_id(kind).as_str()).filter(|template| template.kind() == kind)
    }

    /// The constraints in force, by kind, then name.
    pub fn constraints(&self) -> impl Iterator<Item = &Arc<CompiledConstraint>> {
        self.constraints.values().filter_map(|stored| stored.compiled.as_ref())
    }

    /// The constraints of a kind in force.
    pub(crate) fn of_kind<'s>(
        &'s self,
        kind: &'s str,
    ) -> impl Iterator<Item = &'s Arc<CompiledConstraint>> {
        self.constraints().filter(move |constraint| *constraint.kind() == kind)
    }

    /// A constraint in force.
    pub fn constraint(&self, key: &ConstraintKey) -> Option<&Arc<CompiledConstraint>> {
        self.constraints.get(key)?.compiled.as_ref()
    }

    /// Where a constraint came from, in force or not.
    pub fn source(&self, key: &ConstraintKey) -> Option<&PolicySource> {
        Some(&self.constraints.get(key)?.source)
    }

    /// The constraints that have no template, by kind, then name.
    pub fn waiting(&self) -> impl Iterator<Item = &PolicySource> {
        let waiting = self.constraints.iter().filter(|(key, _)| self.template(&key.kind).is_none());
        waiting.map(|(_, stored)| &stored.source)
    }

    /// The constraints whose newest version is not in force: it was refused, or has no template.
    pub fn outdated(&self) -> impl Iterator<Item = &PolicySource> {
        let outdated = self.constraints.values().filter(|stored| {
            let compiled = stored.compiled.as_ref();
            compiled.is_none_or(|compiled| *compiled.resource() != stored.source.object)
        });
        outdated.map(|stored| &stored.source)
    }

    /// The constraints that an admission may concern, by kind, then name: without those whose match
    /// block names other kinds of objects only.
    pub fn candidates<'s>(&'s self, admission: &Admission) -> Vec<&'s CompiledConstraint> {
        let kinds: BTreeSet<&Str> = admission.kinds().map(|kind| &kind.kind).collect();
        if kinds.is_empty() || admission.lacks_kind() {
            // Nothing to match is an error of every match block (EV-22), and so is something of no
            // kind.
            return self.constraints().map(AsRef::as_ref).collect();
        }
        let of_kinds = kinds.iter().filter_map(|kind| self.by_kind.get(*kind));
        let of_kinds: Vec<&[_]> = of_kinds.map(Vec::as_slice).collect();
        // Each list is in order.
        if let [] | [_] = *of_kinds {
            return merged(of_kinds.first().copied().unwrap_or_default(), &self.any_kind);
        }
        let all = of_kinds.into_iter().flatten().chain(&self.any_kind);
        let mut found: Vec<&CompiledConstraint> = all.map(AsRef::as_ref).collect();
        found.sort_by(|a, b| order(a).cmp(&order(b)));
        found.dedup_by(|a, b| order(a) == order(b));
        found
    }

    fn keys_of(&self, kind: &Str) -> Vec<ConstraintKey> {
        let first = ConstraintKey { kind: kind.clone(), name: Str::default() };
        let all = self.constraints.range(first..).map(|(key, _)| key);
        all.take_while(|key| key.kind == *kind).cloned().collect()
    }

    /// Takes the constraints of a kind out of force.
    fn suspend(&mut self, kind: &Str) {
        for key in self.keys_of(kind) {
            self.set(&key, None);
        }
    }

    /// Puts a version of a stored constraint in force, or none.
    fn set(&mut self, key: &ConstraintKey, compiled: Option<Arc<CompiledConstraint>>) {
        let Some(stored) = self.constraints.get_mut(key) else { return };
        let before = std::mem::replace(&mut stored.compiled, compiled.clone());
        if let Some(before) = before {
            self.index(&before, |list, at| {
                if let Ok(at) = at {
                    list.remove(at);
                }
            });
        }
        if let Some(compiled) = compiled {
            self.index(&compiled, |list, at| match at {
                Ok(_) => {}
                Err(at) => list.insert(at, Arc::clone(&compiled)),
            });
        }
    }

    /// Shows every list of the index a constraint belongs in, and its place there.
    fn index(
        &mut self,
        constraint: &CompiledConstraint,
        change: impl Fn(&mut Vec<Arc<CompiledConstraint>>, Result<usize, usize>),
    ) {
        let place = |list: &[Arc<CompiledConstraint>]| {
            list.binary_search_by(|other| order(other).cmp(&order(constraint)))
        };
        match constraint.criteria().and_then(crate::matching::Criteria::kind_names) {
            None => {
                let at = place(&self.any_kind);
                change(&mut self.any_kind, at);
            }
            Some(kinds) => {
                for kind in kinds {
                    let list = self.by_kind.entry(kind.clone()).or_default();
                    let at = place(list);
                    change(list, at);
                    if list.is_empty() {
                        self.by_kind.remove(&kind);
                    }
                }
            }
        }
    }
}

/// A template's name in lower case.
fn template_id(name: &str) -> Str {
    if name.bytes().any(|byte| !byte.is_ascii() || byte.is_ascii_uppercase()) {
        return name.to_lowercase().into();
    }
    name.into()
}

/// Two lists in order as one. One of them is short, mostly: its members are looked for in the other one.
fn merged<'s>(
    one: &'s [Arc<CompiledConstraint>],
    other: &'s [Arc<CompiledConstraint>],
) -> Vec<&'s CompiledConstraint> {
    let (mut long, short) = if one.len() < other.len() { (other, one) } else { (one, other) };
    let mut found: Vec<&CompiledConstraint> = Vec::with_capacity(one.len() + other.len());
    for constraint in short {
        let at = long.partition_point(|other| order(other) < order(constraint));
        let (before, after) = long.split_at_checked(at).unwrap_or((long, &[]));
        found.extend(before.iter().map(AsRef::as_ref));
        found.push(constraint);
        long = after;
    }
    found.extend(long.iter().map(AsRef::as_ref));
    found
}

fn order(constraint: &CompiledConstraint) -> (&Str, &Str) {
    (constraint.kind(), constraint.name())
}
