//! All templates together, and the expansion of one object (5.2 to 5.4).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use modgate_api::{constraints::EnforcementAction, meta::GroupVersionKind};
use modgate_value::{Budget, Exhausted, Str, Value, gofmt};

use super::{
    build::{build, text},
    compile::CompiledTemplate,
    cycle::on_cycles,
};
use crate::{
    matching::Source,
    mutation::{MutationError, MutationExplanation, MutationRequest, MutationSystem, Providers},
};

/// Every expansion template there is, those on a cycle set apart. Never changed, only replaced.
#[derive(Debug, Clone, Default)]
pub struct ExpansionSystem {
    /// Sorted by name.
    templates: Vec<Arc<CompiledTemplate>>,
    cyclic: BTreeSet<Str>,
    /// Positions in `templates` of those that are enabled, by the names of the kinds they expand.
    by_kind: BTreeMap<Str, Vec<usize>>,
}

/// How many levels of resultants an object may have.
const MAX_LEVELS: usize = 30;

/// How many resultants an object may have.
const MAX_RESULTANTS: usize = 1000;

/// The error of a template on a cycle.
pub const CYCLE: &str = "template forms expansion cycle";

/// One object to be expanded.
#[derive(Clone, Copy)]
pub struct ExpansionRequest<'a> {
    /// The generator, with its kind and the namespace of the request filled in.
    pub object: &'a Value,
    /// Its Namespace, where there is one and it is known.
    pub namespace: Option<&'a Value>,
    /// The user.
    pub username: &'a str,
    /// The mutators for resultants.
    pub mutators: &'a MutationSystem,
    /// Whether mutators leave annotations.
    pub annotate: bool,
    /// A fresh random UUID.
    pub run_id: &'a dyn Fn() -> String,
    /// Where mutators' `externalData` comes from.
    pub providers: &'a dyn Providers,
    /// Pays for all of it.
    pub budget: &'a Budget<'a>,
}

/// A resource the cluster would make of a generator.
#[derive(Debug, Clone)]
pub struct Resultant {
    /// The resource, mutated.
    pub object: Value,
    /// The template that made it.
    pub template: Arc<CompiledTemplate>,
    /// The explanation of its mutators, if the caller wants it.
    pub mutation: Option<MutationExplanation>,
}

impl Resultant {
    /// A violation's message as it is charged to the generator (5.6).
    pub fn implied(&self, message: &str) -> String {
        format!("[Implied by {}] {message}", self.template.name())
    }

    /// The action for its violations, whatever the constraint says.
    pub fn action(&self) -> Option<EnforcementAction> {
        self.template.action()
    }
}

/// Why an object cannot be expanded; the texts are the original's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExpansionError {
    /// Resultants within resultants.
    #[error("maximum recursion depth of {MAX_LEVELS} reached")]
    TooDeep,
    /// More resultants than anyone can want.
    #[error("more than {MAX_RESULTANTS} resultants")]
    TooMany,
    /// An object without a kind.
    #[error("cannot expand resource {0} with empty GVK")]
    NoKind(Str),
    /// The generator lacks the source.
    #[error("could not find source field {} in resource {parent}", gofmt::quote(source_path))]
    NoSource {
        /// `templateSource`.
        source_path: Str,
        /// The generator's name.
        parent: Str,
    },
    /// The source, or a field on the way, is no object.
    #[error(
        "could not extract source field from unstructured: {path} accessor error: {value} is of \
         the type {found}, expected map[string]interface{{}}"
    )]
    SourceType {
        /// The fields up to the one that could not be read.
        path: String,
        /// The value found.
        value: String,
        /// The Go name of its type.
        found: &'static str,
    },
    /// The generator's namespace is no text.
    #[error(
        "could not extract namespace field {} in parent resource {parent}",
        gofmt::quote(source_path)
    )]
    ParentNamespace {
        /// `templateSource`.
        source_path: Str,
        /// The generator's name.
        parent: Str,
    },
    /// A mutator failed on a resultant.
    #[error("failed to mutate resultant resource {resultant}: {source}")]
    Mutation {
        /// The resultant's name.
        resultant: Str,
        /// Why.
        source: Box<MutationError>,
    },
    /// The request's budget is spent.
    #[error(transparent)]
    Exhausted(#[from] Exhausted),
}

impl ExpansionSystem {
    /// The system of these templates; of two with the same name the later one counts.
    pub fn new(templates: impl IntoIterator<Item = Arc<CompiledTemplate>>) -> Self {
        let by_name: BTreeMap<Str, Arc<CompiledTemplate>> =
            templates.into_iter().map(|template| (template.name().clone(), template)).collect();
        let templates: Vec<Arc<CompiledTemplate>> = by_name.into_values().collect();
        let mut by_kind: BTreeMap<Str, Vec<usize>> = BTreeMap::new();
        for (index, template) in templates.iter().enumerate() {
            let names: BTreeSet<&Str> = template.kind_names().collect();
            for name in names {
                by_kind.entry(name.clone()).or_default().push(index);
            }
        }
        // Edges are a set (`fix-duplicate-edges`).
        let edges: Vec<Vec<usize>> = templates
            .iter()
            .map(|template| {
                let fed = by_kind.get(&template.generated().kind).into_iter().flatten().copied();
                let is_fed = |index: &usize| {
                    templates.get(*index).is_some_and(|fed| fed.applies_to(template.generated()))
                };
                fed.filter(is_fed).collect()
            })
            .collect();
        let on_cycles = on_cycles(&edges);
        for positions in by_kind.values_mut() {
            positions.retain(|position| !on_cycles.contains(position));
        }
        let cyclic = on_cycles
            .into_iter()
            .filter_map(|index| templates.get(index))
            .map(|template| template.name().clone())
            .collect();
        Self { templates, cyclic, by_kind }
    }

    /// The templates by name, those on a cycle included.
    pub fn templates(&self) -> &[Arc<CompiledTemplate>] {
        &self.templates
    }

    /// Whether there is nothing to expand with.
    pub fn is_empty(&self) -> bool {
        self.templates.is_empty()
    }

    /// The names of the templates that are disabled because they feed each other in a circle.
    pub fn cyclic(&self) -> &BTreeSet<Str> {
        &self.cyclic
    }

    /// Whether some enabled template expands objects of this kind.
    pub fn expands(&self, kind: &GroupVersionKind) -> bool {
        self.for_kind(kind).next().is_some()
    }

    /// The enabled templates that expand objects of this kind, by name (`fix-expansion-order`).
    pub(crate) fn for_kind(
        &self,
        kind: &GroupVersionKind,
    ) -> impl Iterator<Item = &Arc<CompiledTemplate>> {
        let positions = self.by_kind.get(&kind.kind).into_iter().flatten();
        positions
            .filter_map(|index| self.templates.get(*index))
            .filter(move |template| template.applies_to(kind))
    }

    /// Every resultant of an object, mutated; those of a resultant stand before it.
    ///
    /// # Errors
    ///
    /// When one of them cannot be made; there is no partial result.
    pub fn expand(&self, request: &ExpansionRequest<'_>) -> Result<Vec<Resultant>, ExpansionError> {
        self.resultants(request, ExpandOptions::default())
    }

    /// As [`ExpansionSystem::expand`], with the actions of mutators on each resultant.
    ///
    /// # Errors
    ///
    /// The same.
    pub fn explain(
        &self,
        request: &ExpansionRequest<'_>,
    ) -> Result<Vec<Resultant>, ExpansionError> {
        self.resultants(request, ExpandOptions { explain: true, ..ExpandOptions::default() })
    }

    pub(crate) fn resultants(
        &self,
        request: &ExpansionRequest<'_>,
        options: ExpandOptions<'_>,
    ) -> Result<Vec<Resultant>, ExpansionError> {
        let mut count = 0;
        Expansion { system: self, request, options, count: &mut count }.of(request.object, 0)
    }
}

/// How an expansion is done.
#[derive(Clone, Copy, Default)]
pub(crate) struct ExpandOptions<'a> {
    /// Whether to keep what mutators had to do with each resultant.
    pub(crate) explain: bool,
    /// Further changes of a resultant, after the mutators.
    pub(crate) post_process: Option<PostProcess<'a>>,
}

/// Gives a changed resultant, or nothing where it stays as it is.
pub(crate) type PostProcess<'a> = &'a dyn Fn(&Value) -> Option<Value>;

struct Expansion<'a> {
    system: &'a ExpansionSystem,
    request: &'a ExpansionRequest<'a>,
    options: ExpandOptions<'a>,
    /// How many resultants there are so far.
    count: &'a mut usize,
}

/// The kind of an object, by which templates are found.
///
/// # Errors
///
/// When it has none. Of `a/b/c` Gatekeeper reads neither group nor kind.
pub fn expandable(object: &Value) -> Result<GroupVersionKind, ExpansionError> {
    let kind = GroupVersionKind::of_object(object);
    match kind == GroupVersionKind::default() || kind.version.contains('/') {
        true => Err(ExpansionError::NoKind(text(object, "name").into())),
        false => Ok(kind),
    }
}

impl Expansion<'_> {
    fn of(&mut self, parent: &Value, level: usize) -> Result<Vec<Resultant>, ExpansionError> {
        if level == MAX_LEVELS {
            return Err(ExpansionError::TooDeep);
        }
        let kind = expandable(parent)?;
        let mut direct = Vec::new();
        for template in self.system.for_kind(&kind) {
            self.request.budget.spend(1)?;
            *self.count += 1;
            if *self.count > MAX_RESULTANTS {
                return Err(ExpansionError::TooMany);
            }
            let object = build(parent, self.request.namespace, template)?;
            direct.push(Resultant { object, template: Arc::clone(template), mutation: None });
        }
        for resultant in &mut direct {
            self.mutate(resultant)?;
            if let Some(change) = self.options.post_process {
                // It has a budget of its own for each resultant.
                self.request.budget.check_time()?;
                if let Some(object) = change(&resultant.object) {
                    resultant.object = object;
                }
            }
        }
        let mut all = Vec::new();
        for resultant in &direct {
            all.append(&mut self.of(&resultant.object, level + 1)?);
        }
        all.append(&mut direct);
        Ok(all)
    }

    fn mutate(&self, resultant: &mut Resultant) -> Result<(), ExpansionError> {
        let ExpansionRequest { namespace, username, mutators, annotate, .. } = *self.request;
        if mutators.is_empty() {
            return Ok(());
        }
        let request = MutationRequest {
            shard: 0,
            object: &resultant.object,
            namespace,
            // A resultant is not created or updated by a request (5.4).
            operation: None,
            source: Some(Source::Generated),
            username,
            annotate,
            run_id: self.request.run_id,
            providers: self.request.providers,
            budget: self.request.budget,
        };
        let mutated = if self.options.explain {
            let explanation = mutators.explain(&request);
            let result = explanation.result.clone();
            resultant.mutation = Some(explanation);
            result
        } else {
            mutators.mutate(&request)
        };
        let mutated = mutated.map_err(|source| ExpansionError::Mutation {
            resultant: text(&resultant.object, "name").into(),
            source: Box::new(source),
        })?;
        if let Some(object) = mutated.object {
            resultant.object = object;
        }
        Ok(())
    }
}
