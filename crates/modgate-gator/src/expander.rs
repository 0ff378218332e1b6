//! Mutators, ExpansionTemplates and Namespaces of an input (7.4, 7.5).

use std::{collections::BTreeMap, sync::Arc};

use modgate_api::meta::ObjectExt as _;
use modgate_api::{expansion as wire, meta::GroupVersionKind, mutations};
use modgate_engine::{
    Snapshot,
    expansion::{CompiledTemplate, ExpansionSystem},
    mutation::{CompiledMutator, MutationSystem, Options},
};
use modgate_value::{Str, Value};

use crate::policies::Policies;

/// All policies of an input, and the Namespaces in it.
#[derive(Debug)]
pub(crate) struct Expander {
    pub(crate) snapshot: Snapshot,
    namespaces: BTreeMap<Str, Value>,
    /// The Namespace of objects without a namespace, and an unknown `default`.
    nameless: Value,
    default: Value,
}

impl Expander {
    /// Adds the mutators, ExpansionTemplates and Namespaces of an input to its constraints.
    ///
    /// The error is gator's, without the prefix of the verb.
    pub(crate) fn of<'o>(
        objects: impl Iterator<Item = &'o Value> + Clone,
        policies: &Policies,
    ) -> Result<Self, String> {
        let mut mutators = Vec::new();
        let mut templates = Vec::new();
        let mut namespaces = BTreeMap::new();
        for object in objects {
            let kind = GroupVersionKind::of_object(object);
            // gator ignores other kinds of the group.
            if kind.group == mutations::GROUP {
                if mutations::MutatorKind::from_name(&kind.kind).is_none() {
                    continue;
                }
                let mutator = CompiledMutator::compile(object, Options::default())
                    .map_err(|error| format!("error parsing resources: {error}"))?;
                mutators.push(Arc::new(mutator));
            } else if wire::ExpansionTemplate::is_expansion_template(object) {
                templates.push(object);
            } else if kind.group.is_empty() && kind.kind == "Namespace" {
                namespaces.insert(object.name().into(), object.clone());
            }
        }
        let templates = expansion_templates(&templates)
            .map_err(|(name, error)| format!("error upserting template {name}: {error}"))?;
        let mutators = mutation_system(&mutators)
            .map_err(|error| format!("error upserting mutator: {error}"))?;
        Ok(Self {
            snapshot: policies.snapshot(mutators, templates),
            namespaces,
            nameless: namespace(""),
            default: namespace("default"),
        })
    }

    /// The Namespace of an object, as match blocks see it.
    ///
    /// An object without a namespace counts as one whose namespace was left out, unless its kind
    /// cannot have one (`fix-gator-scope`).
    pub(crate) fn namespace_of(&self, object: &Value) -> Option<&Value> {
        match object.namespace() {
            "" if GroupVersionKind::of_object(object).is_cluster_scoped() => None,
            "" => Some(&self.nameless),
            name => {
                self.namespaces.get(name).or_else(|| (name == "default").then_some(&self.default))
            }
        }
    }

    /// Whether that Namespace is assumed, as no file describes it: gator shows expressions none.
    pub(crate) fn assumes_namespace_of(&self, object: &Value) -> bool {
        !self.namespaces.contains_key(object.namespace())
    }
}

/// Compiles expansion templates; a refused one, or the one that closes a circle, is named.
pub(crate) fn expansion_templates(resources: &[&Value]) -> Result<ExpansionSystem, (Str, String)> {
    const CYCLE: &str = "template forms expansion cycle";
    let mut templates = Vec::new();
    for resource in resources {
        let template = CompiledTemplate::compile(resource)
            .map_err(|error| (resource.name().into(), error.to_string()))?;
        templates.push(Arc::new(template));
    }
    let system = |count: usize| ExpansionSystem::new(templates.iter().take(count).cloned());
    let all = system(templates.len());
    if all.cyclic().is_empty() {
        return Ok(all);
    }
    let first = first_bad(templates.len(), |count| !system(count).cyclic().is_empty());
    let name = templates.get(first).map(|template| template.name().clone()).unwrap_or_default();
    Err((name, CYCLE.to_owned()))
}

/// Adds all mutators; refuses the one that causes a conflict when they are added in order.
pub(crate) fn mutation_system(mutators: &[Arc<CompiledMutator>]) -> Result<MutationSystem, String> {
    let system = |count: usize| MutationSystem::new(mutators.iter().take(count).cloned());
    let all = system(mutators.len());
    if all.conflicts().is_empty() {
        return Ok(all);
    }
    let first = first_bad(mutators.len(), |count| !system(count).conflicts().is_empty());
    let conflicting = system(first + 1);
    let conflict = mutators.get(first).and_then(|last| conflicting.conflicts().get(last.id()));
    let conflict = conflict.or_else(|| conflicting.conflicts().values().next());
    Err(conflict.map(ToString::to_string).unwrap_or_default())
}

/// The index of the first item with which a list of `count` is bad; it stays bad with more.
fn first_bad(count: usize, is_bad: impl Fn(usize) -> bool) -> usize {
    let (mut good, mut bad) = (0, count);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if is_bad(middle) { bad = middle } else { good = middle }
    }
    good
}

fn namespace(name: &str) -> Value {
    let metadata: Value = match name {
        "" => Value::Object(modgate_value::Object::default()),
        name => [("name", Value::from(name))].into_iter().collect(),
    };
    [("apiVersion", "v1".into()), ("kind", "Namespace".into()), ("metadata", metadata)]
        .into_iter()
        .collect()
}
