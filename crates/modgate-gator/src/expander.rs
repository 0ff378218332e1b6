//! Mutators, ExpansionTemplates and Namespaces of an input, and what they make of an object (7.4,
//! 7.5).

use std::{collections::BTreeMap, sync::Arc};

use modgate_api::{expansion as wire, meta::GroupVersionKind, mutations};
use modgate_engine::{
    expansion::{CompiledTemplate, ExpansionRequest, ExpansionSystem, Resultant},
    matching::Source,
    mutation::{CompiledMutator, MutationRequest, MutationSystem, NoProviders, Options},
};
use modgate_value::{Budget, Str, Value};

use crate::{
    outside::{OBJECT, WallClock, uuid},
    read::metadata,
};

/// What expands objects.
#[derive(Debug, Default)]
pub(crate) struct Expander {
    mutators: MutationSystem,
    templates: ExpansionSystem,
    namespaces: BTreeMap<Str, Value>,
    /// What objects without a namespace get, and those of an unknown `default`.
    nameless: Value,
    default: Value,
}

impl Expander {
    /// Takes what it knows out of an input.
    ///
    /// The error is gator's, without the prefix of the verb.
    pub(crate) fn of<'o>(objects: impl Iterator<Item = &'o Value> + Clone) -> Result<Self, String> {
        let mut mutators = Vec::new();
        let mut templates = Vec::new();
        let mut namespaces = BTreeMap::new();
        for object in objects {
            let kind = GroupVersionKind::of_object(object);
            // gator passes by what is in the group and no mutator.
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
                namespaces.insert(metadata(object, "name").into(), object.clone());
            }
        }
        let templates = expansion_templates(&templates)
            .map_err(|(name, error)| format!("error upserting template {name}: {error}"))?;
        let mutators = mutation_system(&mutators)
            .map_err(|error| format!("error upserting mutator: {error}"))?;
        Ok(Self {
            mutators,
            templates,
            namespaces,
            nameless: namespace(""),
            default: namespace("default"),
        })
    }

    /// The Namespace that match blocks are asked about.
    ///
    /// An object without a namespace counts as one whose namespace was left out, unless its kind
    /// cannot have one (`fix-gator-scope`).
    pub(crate) fn namespace_of(&self, object: &Value) -> Option<&Value> {
        match metadata(object, "namespace") {
            "" if GroupVersionKind::of_object(object).is_cluster_scoped() => None,
            "" => Some(&self.nameless),
            name => {
                self.namespaces.get(name).or_else(|| (name == "default").then_some(&self.default))
            }
        }
    }

    /// Mutates an object and builds what the cluster would make of it.
    pub(crate) fn expand(&self, object: &Value) -> Result<Vec<Resultant>, String> {
        let kind = GroupVersionKind::of_object(object);
        if self.templates.is_empty() && self.mutators.is_empty() {
            return Ok(Vec::new());
        }
        let name = metadata(object, "name");
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            format!("error {what} resource {name}: {error}")
        };
        let budget = Budget::new(OBJECT, &WallClock);
        let namespace = self.namespace_of(object);
        let request = MutationRequest {
            shard: 0,
            object,
            namespace,
            operation: None,
            source: Some(Source::Original),
            username: "",
            annotate: false,
            run_id: &uuid,
            providers: &NoProviders,
            budget: &budget,
        };
        let mutated =
            self.mutators.mutate(&request).map_err(|error| failed("mutating base", &error))?.object;
        if !self.templates.expands(&kind) && mutated.is_none() {
            return Ok(Vec::new());
        }
        let base = mutated.as_ref().unwrap_or(object);
        let request = ExpansionRequest {
            object: base,
            namespace,
            username: "",
            mutators: &self.mutators,
            annotate: false,
            run_id: &uuid,
            providers: &NoProviders,
            budget: &budget,
        };
        self.templates.expand(&request).map_err(|error| failed("expanding", &error))
    }
}

/// Compiles expansion templates; a refused one, or the one that closes a circle, is named.
pub(crate) fn expansion_templates(resources: &[&Value]) -> Result<ExpansionSystem, (Str, String)> {
    const CYCLE: &str = "template forms expansion cycle";
    let mut templates = Vec::new();
    for resource in resources {
        let template = CompiledTemplate::compile(resource)
            .map_err(|error| (metadata(resource, "name").into(), error.to_string()))?;
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

/// All mutators; a conflict between them is refused as it appears when they come one by one.
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
