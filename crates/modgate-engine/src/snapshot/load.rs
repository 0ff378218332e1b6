//! Changes to policies, kind by kind.

use std::{collections::BTreeMap, sync::Arc};

use modgate_api::{
    admissionregistration as registration,
    config::{self, Config},
    constraints, expansion as expansions,
    externaldata::{self, Provider},
    modrule::{self as api, ModRule},
    mutations::{self, MutatorKind},
    templates,
};
use modgate_value::{DecodeError, Str, Value, near};

use super::{Snapshot, bound::without_effect};
use crate::{
    Change, Code, EngineConfig, OnError, PolicyId, PolicySource, Problem, Severity,
    admissionpolicy::{
        CompiledBinding, CompiledMutatingPolicy, CompiledPolicy, PolicyError, PolicyKind, PolicySet,
    },
    constraint::{self, CompiledTemplate, ConstraintKey, Inserted, TemplateProblem},
    expansion::{self, ExpansionSystem},
    gatekeeper::Exclusions,
    lint,
    modrule::{self, CompiledModRule},
    mutation::{CompileError, CompiledMutator, MutationSystem, MutatorId},
    provider::CompiledProvider,
};

/// The kind of policy of an object or id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    ModRule,
    Template,
    Constraint,
    Mutator(MutatorKind),
    Expansion,
    Config,
    Provider,
    Policy(PolicyKind),
    Binding(PolicyKind),
}

impl Kind {
    fn of(id: &PolicyId) -> Option<Self> {
        match (id.group.as_str(), id.kind.as_str()) {
            (api::GROUP, api::KIND) => Some(Self::ModRule),
            (templates::GROUP, templates::KIND) => Some(Self::Template),
            (constraints::GROUP, kind) if !kind.is_empty() => Some(Self::Constraint),
            (mutations::GROUP, kind) => MutatorKind::from_name(kind).map(Self::Mutator),
            (expansions::GROUP, expansions::KIND) => Some(Self::Expansion),
            (externaldata::GROUP, externaldata::KIND) => Some(Self::Provider),
            (config::GROUP, config::KIND) => Some(Self::Config),
            (registration::GROUP, kind) => match kind {
                registration::POLICY_KIND => Some(Self::Policy(PolicyKind::Validating)),
                registration::BINDING_KIND => Some(Self::Binding(PolicyKind::Validating)),
                registration::MUTATING_POLICY_KIND => Some(Self::Policy(PolicyKind::Mutating)),
                registration::MUTATING_BINDING_KIND => Some(Self::Binding(PolicyKind::Mutating)),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Whether an object is a policy of a kind the engine evaluates.
pub(super) fn is_policy(object: &Value) -> bool {
    Kind::of(&PolicyId::of_object(object)).is_some()
}

/// The error about a policy without a name, or with one that is no text.
fn nameless(id: &PolicyId, source: &PolicySource) -> Problem {
    let name = source.object.path(&["metadata", "name"]);
    let is_scalar = matches!(name, Some(Value::Number(_) | Value::Bool(_)));
    let help = is_scalar.then(|| "a name is a text: put it in quotes".to_owned());
    let message = "required: a policy must have a name".to_owned();
    Problem { help, ..problem(id, source, "metadata.name", message) }
}

/// The next snapshot in the making. Parts without a change stay shared.
pub(super) struct Loader<'s> {
    before: &'s Snapshot,
    on_error: OnError,
    problems: Vec<Problem>,
    modrules: Vec<(PolicyId, Option<Arc<CompiledModRule>>)>,
    constraints: Option<constraint::Store>,
    mutators: Option<BTreeMap<MutatorId, Arc<CompiledMutator>>>,
    expansions: Option<BTreeMap<Str, Arc<expansion::CompiledTemplate>>>,
    exclusions: Option<Exclusions>,
    traces: Option<Vec<config::Trace>>,
    providers: Option<BTreeMap<Str, Arc<CompiledProvider>>>,
    policies: Option<PolicySet>,
    /// The mutators and expansion templates that are new, with their places.
    placed: BTreeMap<PolicyId, PolicySource>,
    /// The policies and bindings of the cluster's own that are new.
    seen: Vec<(PolicyId, PolicySource)>,
    /// The templates that are new.
    templates: Vec<PolicySource>,
    /// The template of the constraint before.
    latest: Option<Arc<CompiledTemplate>>,
}

impl<'s> Loader<'s> {
    pub(super) fn new(before: &'s Snapshot, on_error: OnError) -> Self {
        Self {
            before,
            on_error,
            problems: Vec::new(),
            modrules: Vec::new(),
            constraints: None,
            mutators: None,
            expansions: None,
            providers: None,
            policies: None,
            placed: BTreeMap::new(),
            seen: Vec::new(),
            templates: Vec::new(),
            latest: None,
            exclusions: None,
            traces: None,
        }
    }

    /// Returns whether there was nothing wrong with it.
    pub(super) fn change(&mut self, change: Change) -> bool {
        let known = self.problems.len();
        match change {
            Change::Remove(id) => self.remove(id),
            Change::Upsert(source) => {
                self.upsert(source.clone());
                self.lint(&source, known);
            }
        }
        let found = self.problems.get(known..).unwrap_or_default();
        found.iter().all(|problem| problem.severity != Severity::Error)
    }

    /// The snapshot, and everything wrong with the policies that changed.
    pub(super) fn finish(mut self) -> (Snapshot, Vec<Problem>) {
        let before = self.before;
        let mut next = before.clone();
        if !self.modrules.is_empty() {
            let namespaces = &before.config.cluster_rules_namespaces;
            next.modrules = before.modrules.with(self.modrules, namespaces).into();
        }
        if let Some(store) = self.constraints {
            let waiting = still_waiting(&before.constraints, &store, &self.problems);
            self.problems.extend(waiting);
            let matched = matched(&self.templates, &store, before.definitions());
            self.problems.extend(matched);
            store.rest();
            next.constraints = store.into();
        }
        if let Some(mutators) = self.mutators {
            let system = MutationSystem::new(mutators.into_values());
            self.problems.extend(new_conflicts(&before.mutators, &system, &self.placed));
            next.mutators = system.into();
        }
        if let Some(templates) = self.expansions {
            let system = ExpansionSystem::new(templates.into_values());
            self.problems.extend(new_cycles(&before.expansions, &system, &self.placed));
            next.expansions = system.into();
        }
        if let Some(exclusions) = self.exclusions {
            next.exclusions = exclusions.into();
        }
        if let Some(traces) = self.traces {
            next.traces = traces.into();
        }
        if let Some(providers) = self.providers {
            next.providers = providers.into();
        }
        if let Some(policies) = self.policies {
            let mut found = without_effect(&policies, &self.seen, &self.problems);
            lint::checked_once(&mut found, &mut self.problems);
            self.problems.extend(found);
            next.policies = policies.into();
        }
        lint::refused_once(&mut self.problems);
        (next, self.problems)
    }

    fn config(&self) -> &'s EngineConfig {
        &self.before.config
    }

    fn constraints(&mut self) -> &mut constraint::Store {
        self.constraints.get_or_insert_with(|| constraint::Store::clone(&self.before.constraints))
    }

    fn mutators(&mut self) -> &mut BTreeMap<MutatorId, Arc<CompiledMutator>> {
        self.mutators.get_or_insert_with(|| {
            let mutators = self.before.mutators.mutators().iter();
            mutators.map(|mutator| (mutator.id().clone(), Arc::clone(mutator))).collect()
        })
    }

    fn expansions(&mut self) -> &mut BTreeMap<Str, Arc<expansion::CompiledTemplate>> {
        self.expansions.get_or_insert_with(|| {
            let templates = self.before.expansions.templates().iter();
            templates.map(|template| (template.name().clone(), Arc::clone(template))).collect()
        })
    }

    fn providers(&mut self) -> &mut BTreeMap<Str, Arc<CompiledProvider>> {
        self.providers.get_or_insert_with(|| BTreeMap::clone(&self.before.providers))
    }

    fn policies(&mut self) -> &mut PolicySet {
        self.policies.get_or_insert_with(|| PolicySet::clone(&self.before.policies))
    }

    fn remove(&mut self, id: PolicyId) {
        match Kind::of(&id) {
            Some(Kind::ModRule) => self.modrules.push((id, None)),
            Some(Kind::Template) => {
                self.constraints().remove_template(&id.name);
            }
            Some(Kind::Constraint) => {
                let key = ConstraintKey { kind: id.kind, name: id.name };
                self.constraints().remove_constraint(&key);
            }
            Some(Kind::Mutator(kind)) => {
                let id = MutatorId { kind, namespace: id.namespace, name: id.name };
                self.mutators().remove(&id);
            }
            Some(Kind::Expansion) => {
                self.expansions().remove(&id.name);
            }
            Some(Kind::Config) if id.name == config::NAME && self.is_installations(&id) => {
                self.exclusions = Some(Exclusions::default());
                self.traces = Some(Vec::new());
            }
            Some(Kind::Config) => {}
            Some(Kind::Provider) => {
                self.providers().remove(&id.name);
            }
            Some(Kind::Policy(kind)) => self.policies().remove_policy(kind, &id.name),
            Some(Kind::Binding(kind)) => self.policies().remove_binding(kind, &id.name),
            None => {}
        }
    }

    /// The id of a policy: ModRules and Configs that name no namespace are in one nevertheless.
    fn id(&self, source: &PolicySource) -> PolicyId {
        let mut id = source.id();
        if id.namespace.is_empty() {
            let namespace = match Kind::of(&id) {
                Some(Kind::ModRule) => &self.before.config.default_namespace,
                Some(Kind::Config) => &self.before.config.installation.namespace,
                _ => return id,
            };
            id.namespace.clone_from(namespace);
        }
        id
    }

    fn upsert(&mut self, source: PolicySource) {
        let id = self.id(&source);
        let Some(kind) = Kind::of(&id) else {
            let known = format!(
                "expected kind `{}` of `{}`, or a template, constraint or mutator of Gatekeeper",
                api::KIND,
                api::API_VERSION
            );
            let message = format!("not a policy: {known}");
            self.problems.push(problem(&id, &source, "", message));
            return;
        };
        match kind {
            Kind::ModRule => self.upsert_modrule(&source),
            _ if id.name.is_empty() => {
                self.problems.push(nameless(&id, &source));
            }
            Kind::Template => self.upsert_template(&id, &source),
            Kind::Constraint => self.upsert_constraint(&id, source),
            Kind::Mutator(kind) => self.upsert_mutator(&id, kind, &source),
            Kind::Expansion => self.upsert_expansion(&id, &source),
            Kind::Provider => self.upsert_provider(&id, &source),
            Kind::Config => self.upsert_config(&id, &source),
            Kind::Policy(_) | Kind::Binding(_) => self.upsert_policy(&id, kind, source),
        }
    }

    /// Policies that load and do not do what their authors intend, unless these allow it.
    fn lint(&mut self, source: &PolicySource, first: usize) {
        let id = self.id(source);
        let definitions = self.before.definitions();
        let mut found = self.problems.split_off(first);
        lint::retain(&source.object, &mut found, 0);
        for problem in found.iter_mut().filter(|problem| problem.policy == id) {
            lint::advise_types(problem, source);
        }
        // A template brings the errors of its constraints with it.
        let is_refused = |it: &Problem| it.severity == Severity::Error && it.policy == id;
        if !found.iter().any(is_refused) {
            found.extend(lint::lint(&id, source, definitions));
            if Kind::of(&id) == Some(Kind::Template) {
                self.templates.push(source.clone());
            }
        } else {
            // What is missing may only be misspelt. One cause is reported once.
            let refused: Vec<String> = found.iter().map(|problem| problem.field.clone()).collect();
            let unread = lint::unread(&id, source, definitions).into_iter();
            found.extend(unread.filter(|it| it.field.is_empty() || !refused.contains(&it.field)));
            lint::misspelt_once(&mut found);
        }
        lint::unseen_once(&mut found);
        lint::near_values(&mut found);
        self.problems.append(&mut found);
    }

    /// Whether it is in the namespace of the installation, or in none.
    fn is_installations(&self, id: &PolicyId) -> bool {
        id.namespace.is_empty() || id.namespace == self.config().installation.namespace
    }

    /// Of Configs the one with the fixed name counts (ST-30).
    fn upsert_config(&mut self, id: &PolicyId, source: &PolicySource) {
        if id.name != config::NAME {
            let message = "config resource must have name 'config'".to_owned();
            let help = Some(format!("name it `{}`", config::NAME));
            let found = problem(id, source, "metadata.name", message);
            self.problems.push(Problem { help, ..found });
            return;
        }
        if !self.is_installations(id) {
            let installation = &self.config().installation.namespace;
            let message = format!(
                "it has no effect: only the Config in the namespace of the installation, \
                 `{installation}`, counts"
            );
            let help = Some("if modgate runs elsewhere, set `--installation-namespace`".to_owned());
            let found = problem(id, source, "metadata.namespace", message);
            self.problems.push(warned(Code::NoEffect, Problem { help, ..found }));
            return;
        }
        match Config::from_value(&source.object) {
            Ok(config) => {
                self.exclusions = Some(Exclusions::of_config(&config));
                self.traces = Some(config.spec.validation.traces.unwrap_or_default());
            }
            Err(DecodeError { path, message }) => {
                self.problems.push(problem(id, source, &path, message));
            }
        }
    }

    fn upsert_modrule(&mut self, source: &PolicySource) {
        let (id, compiled, mut found) = compile_modrule(source, self.config());
        self.problems.append(&mut found);
        match (compiled, self.on_error) {
            (Some(rule), _) => self.modrules.push((id, Some(Arc::new(rule)))),
            (None, OnError::Unload) => self.modrules.push((id, None)),
            (None, OnError::Keep) => {}
        }
    }

    /// A template that does not compile leaves the one before in force, whatever `on_error` says
    /// (TC-3).
    fn upsert_template(&mut self, id: &PolicyId, source: &PolicySource) {
        let config = self.config();
        match CompiledTemplate::compile(&source.object, &config.templates) {
            Ok(template) => {
                let found = template.problems().iter().cloned();
                self.problems.extend(found.map(|found| template_problem(id, source, found)));
                let store = self.constraints();
                store.set_template_source(source.clone());
                let refused = store.insert_template(template.into(), &config.constraints);
                for (source, error) in refused {
                    let mut found = constraint_problem(&source.id(), &source, &error);
                    let template = self.constraints().template(&found.policy.kind).cloned();
                    lint::advise_constraint(&mut found, &source, template.as_deref(), &error);
                    lint::advise_types(&mut found, &source);
                    self.problems.push(found);
                }
            }
            Err(error) => {
                let store = self.constraints.as_ref().unwrap_or(&self.before.constraints);
                let is_kept = store.template_source(&id.name).is_some();
                let found = error.problems(&source.object).into_iter();
                let found = found.map(|found| template_problem(id, source, found));
                self.problems.extend(
                    found.enumerate().map(
                        |(index, found)| {
                            if is_kept && index == 0 { kept(found) } else { found }
                        },
                    ),
                );
            }
        }
    }

    /// As [`upsert_template`](Self::upsert_template) (ST-21). That a template is missing is only
    /// said at the end, for it may be among the next changes.
    fn upsert_constraint(&mut self, id: &PolicyId, source: PolicySource) {
        let options = self.config().constraints;
        let key = ConstraintKey { kind: id.kind.clone(), name: id.name.clone() };
        let is_kept = self.constraints().constraint(&key).is_some();
        match self.constraints().insert_constraint(source.clone(), &options) {
            Ok(Inserted::Live(constraint)) => {
                let template = constraint.template();
                if self.latest.as_ref().is_none_or(|latest| !Arc::ptr_eq(latest, template)) {
                    let before = self.latest.replace(Arc::clone(template));
                    before.inspect(|before| before.rest());
                }
                for warning in constraint.warnings() {
                    let found = problem(id, &source, "spec", warning.clone());
                    self.problems.push(warned(Code::EnforcementAction, found));
                }
            }
            Ok(Inserted::Waiting) => {}
            Err(error) => {
                let mut found = constraint_problem(id, &source, &error);
                let template = self.constraints().template(&id.kind).cloned();
                lint::advise_constraint(&mut found, &source, template.as_deref(), &error);
                self.problems.push(if is_kept { kept(found) } else { found });
            }
        }
    }

    /// A mutator that is not valid any more does not run any more either (`fix-stale-version`).
    fn upsert_mutator(&mut self, id: &PolicyId, kind: MutatorKind, source: &PolicySource) {
        match CompiledMutator::compile(&source.object, self.config().mutators) {
            Ok(mutator) => {
                for warning in mutator.warnings() {
                    let found = problem(id, source, "spec", warning.clone());
                    self.problems.push(warned(Code::Deprecated, found));
                }
                self.placed.insert(PolicyId::from(mutator.id()), source.clone());
                self.mutators().insert(mutator.id().clone(), Arc::new(mutator));
            }
            Err(error) => {
                let message = match &error {
                    CompileError::Decode(DecodeError { message, .. }) => message.clone(),
                    error => error.to_string(),
                };
                let mut found = problem(id, source, error.field(), message);
                lint::advise_mutator(&mut found, source);
                self.problems.push(found);
                if self.on_error == OnError::Unload {
                    let PolicyId { namespace, name, .. } = id.clone();
                    self.mutators().remove(&MutatorId { kind, namespace, name });
                }
            }
        }
    }

    /// As [`upsert_mutator`](Self::upsert_mutator).
    fn upsert_expansion(&mut self, id: &PolicyId, source: &PolicySource) {
        match expansion::CompiledTemplate::compile(&source.object) {
            Ok(template) => {
                if template.generated().kind.is_empty() {
                    let field = "spec.generatedGVK.kind";
                    let message = "the generated objects have no kind, so every constraint with a match \
                                   block refuses them";
                    let found = problem(id, source, field, message.to_owned());
                    self.problems.push(warned(Code::GeneratedKind, found));
                }
                self.placed.insert(template.id(), source.clone());
                self.expansions().insert(template.name().clone(), Arc::new(template));
            }
            Err(error) => {
                let message = match &error {
                    expansion::CompileError::Decode(DecodeError { message, .. }) => message.clone(),
                    error => error.to_string(),
                };
                let found = problem(id, source, error.field(), message);
                self.problems.push(Problem { help: error.help(), ..found });
                if self.on_error == OnError::Unload {
                    self.expansions().remove(&id.name);
                }
            }
        }
    }

    /// One of the cluster's own policies, or a binding; the API server stores only valid ones.
    fn upsert_policy(&mut self, id: &PolicyId, kind: Kind, source: PolicySource) {
        let object = &source.object;
        let observed = self.before.config.templates.observed;
        let set = self.policies();
        let compiled = match kind {
            Kind::Policy(PolicyKind::Mutating) => {
                CompiledMutatingPolicy::compile_counting(object, observed)
                    .map(|policy| set.add_mutating_policy(policy))
            }
            Kind::Policy(_) => CompiledPolicy::compile_counting(object, observed)
                .map(|policy| set.add_policy(policy)),
            Kind::Binding(PolicyKind::Mutating) => CompiledBinding::compile_mutating(object)
                .map(|binding| set.add_mutating_binding(binding)),
            _ => CompiledBinding::compile(object).map(|binding| set.add_binding(binding)),
        };
        match compiled {
            Ok(()) => self.seen.push((id.clone(), source)),
            Err(error) => {
                if self.on_error == OnError::Unload {
                    self.remove(id.clone());
                }
                self.problems.extend(policy_problems(id, &source, error));
            }
        }
    }

    /// A Provider that is not valid any more is not asked any more either (`fix-stale-version`).
    fn upsert_provider(&mut self, id: &PolicyId, source: &PolicySource) {
        let compiled = match Provider::from_value(&source.object) {
            Ok(provider) => CompiledProvider::compile(&provider)
                .map_err(|error| (error.field().to_owned(), error.to_string())),
            Err(DecodeError { path, message }) => Err((path, message)),
        };
        match (compiled, self.on_error) {
            (Ok(provider), _) => {
                self.providers().insert(id.name.clone(), Arc::new(provider));
            }
            (Err((field, message)), on_error) => {
                self.problems.push(problem(id, source, &field, message));
                if on_error == OnError::Unload {
                    self.providers().remove(&id.name);
                }
            }
        }
    }
}

/// As a warning of this code.
pub(super) fn warned(code: Code, problem: Problem) -> Problem {
    Problem { severity: Severity::Warning, code: Some(code), ..problem }
}

pub(super) fn problem(
    id: &PolicyId,
    source: &PolicySource,
    field: &str,
    message: String,
) -> Problem {
    Problem {
        severity: Severity::Error,
        code: None,
        policy: id.clone(),
        origin: source.origin.clone(),
        position: source.position(field),
        field: field.to_owned(),
        text: None,
        span: None,
        message,
        help: None,
        missing: None,
    }
}

/// The error of a version that does not replace the one before (TC-3, ST-21).
fn kept(found: Problem) -> Problem {
    let advice = "the previous version stays in force";
    let help = match found.help {
        Some(help) => format!("{advice}; {help}"),
        None => advice.to_owned(),
    };
    Problem { help: Some(help), ..found }
}

fn template_problem(id: &PolicyId, source: &PolicySource, found: TemplateProblem) -> Problem {
    let mut problem = problem(id, source, &found.field, found.message);
    problem.severity = found.severity;
    problem.code = found.code;
    if found.code == Some(Code::UnknownField) {
        problem.position = source.key_position(&found.field);
    }
    problem.text = found.text;
    problem.span = found.span;
    problem.help = found.help;
    problem
}

fn constraint_problem(
    id: &PolicyId,
    source: &PolicySource,
    error: &constraint::ConstraintError,
) -> Problem {
    problem(id, source, error.field(), error.message())
}

fn policy_problems(id: &PolicyId, source: &PolicySource, error: PolicyError) -> Vec<Problem> {
    match error {
        PolicyError::Decode(DecodeError { path, message }) => {
            vec![problem(id, source, &path, message)]
        }
        PolicyError::Invalid(found) => found
            .into_iter()
            .map(|found| {
                let mut problem = problem(id, source, &found.field, found.message);
                problem.help = found.help;
                if let Some((text, span)) = found.expression {
                    problem.text = Some(text);
                    problem.span = span;
                }
                problem
            })
            .collect(),
    }
}

/// Warnings about fields that new templates read and that no object has that their constraints
/// match.
fn matched(
    templates: &[PolicySource],
    store: &constraint::Store,
    definitions: &lint::Definitions,
) -> Vec<Problem> {
    let mut found = Vec::new();
    for source in templates {
        let names = ["spec", "crd", "spec", "names", "kind"];
        let Some(kind) = source.object.path(&names).and_then(Value::as_str) else { continue };
        let constraints: Vec<&Value> = store.of_kind(kind).map(|it| it.resource()).collect();
        if !constraints.is_empty() {
            found.extend(lint::matched_by_constraints(source, &constraints, definitions));
        }
    }
    found
}

/// The error of a constraint whose template is broken; the template's own errors have the details.
const REFUSED_TEMPLATE: &str = "its template has errors of its own";

impl Problem {
    /// Whether it follows from another problem that was found with it: one cause is said once.
    pub fn is_consequence(&self) -> bool {
        self.help.as_deref() == Some(REFUSED_TEMPLATE)
    }
}

/// The constraints that wait for a template and did not wait for it before, or are new.
fn still_waiting(
    before: &constraint::Store,
    after: &constraint::Store,
    problems: &[Problem],
) -> Vec<Problem> {
    let is_new = |source: &&PolicySource| {
        let key = ConstraintKey::of_object(&source.object);
        let same = before.source(&key).is_some_and(|known| known.object == source.object);
        !same || before.template(&key.kind).is_some()
    };
    // A template whose name is wrong is broken by that, too.
    let broken: Vec<&str> = problems
        .iter()
        .filter(|it| it.severity == Severity::Error && it.policy.kind == templates::KIND)
        .map(|problem| problem.policy.name.as_str())
        .collect();
    let refused = |template: &str| {
        broken.contains(&template) || near::nearest(template, broken.iter().copied()).is_some()
    };
    after
        .waiting()
        .filter(is_new)
        .map(|source| {
            let kind = source.object.get("kind").and_then(Value::as_str).unwrap_or_default();
            let template = kind.to_lowercase();
            let kinds = after.templates().map(|template| template.kind().as_str());
            let help = if refused(&template) {
                REFUSED_TEMPLATE.to_owned()
            } else if let Some(near) = near::did_you_mean(kind, kinds) {
                near
            } else {
                lint::WAITS_FOR_TEMPLATE.to_owned()
            };
            let missing = Some(template.as_str().into());
            let error = constraint::ConstraintError::NoTemplate { template };
            let found = constraint_problem(&source.id(), source, &error);
            Problem { help: Some(help), missing, ..found }
        })
        .collect()
}

/// A policy with its place, if that is known.
fn place_of(placed: &BTreeMap<PolicyId, PolicySource>, id: &PolicyId) -> PolicySource {
    placed.get(id).cloned().unwrap_or_else(|| PolicySource {
        origin: id.to_string().into(),
        object: Value::Null,
        positions: None,
    })
}

/// Places that one message names.
const MAX_PLACES: usize = 5;

/// The mutators that conflict and did not before. Each is `placed` where it is new, and names the places of the
/// others.
fn new_conflicts(
    before: &MutationSystem,
    after: &MutationSystem,
    placed: &BTreeMap<PolicyId, PolicySource>,
) -> Vec<Problem> {
    const FIELD: &str = "spec.location";
    let place = |other: &MutatorId| {
        let source = placed.get(&PolicyId::from(other))?;
        let position = source.position(FIELD)?;
        Some(format!("{} ({}:{position})", PolicyId::from(other), source.origin))
    };
    let new = after.conflicts().iter().filter(|(id, _)| !before.conflicts().contains_key(*id));
    new.map(|(id, conflict)| {
        let policy = PolicyId::from(id);
        let others = conflict.parties().into_iter().filter(|other| *other != id).filter_map(place);
        let others: Vec<String> = others.take(MAX_PLACES).collect();
        let mut help = "none of them is applied until they agree".to_owned();
        if !others.is_empty() {
            help.push_str(&format!("; see {}", others.join(", ")));
        }
        let source = place_of(placed, &policy);
        Problem { help: Some(help), ..problem(&policy, &source, FIELD, conflict.to_string()) }
    })
    .collect()
}

/// The templates that are on a cycle and were not before.
fn new_cycles(
    before: &ExpansionSystem,
    after: &ExpansionSystem,
    placed: &BTreeMap<PolicyId, PolicySource>,
) -> Vec<Problem> {
    const FIELD: &str = "spec.generatedGVK";
    let new = after.cyclic().difference(before.cyclic());
    let templates = new.filter_map(|name| after.templates().iter().find(|it| it.name() == name));
    templates
        .map(|template| {
            let help = Some("none of the cycle expands anything until it is broken".to_owned());
            let id = template.id();
            let source = place_of(placed, &id);
            Problem { help, ..problem(&id, &source, FIELD, expansion::CYCLE.to_owned()) }
        })
        .collect()
}

fn compile_modrule(
    source: &PolicySource,
    config: &EngineConfig,
) -> (PolicyId, Option<CompiledModRule>, Vec<Problem>) {
    let mut id = source.id();
    if id.namespace.is_empty() {
        id.namespace = config.default_namespace.clone();
    }
    if id.name.is_empty() {
        let found = nameless(&id, source);
        return (id, None, vec![found]);
    }
    let rule = match ModRule::from_value(&source.object) {
        Ok(rule) => rule,
        Err(DecodeError { path, message }) => {
            let help = modrule::decoding_advice(&source.object, &path, &message);
            let found = problem(&id, source, &path, message);
            return (id, None, vec![Problem { help, ..found }]);
        }
    };
    let mut problems = modrule::unknown_fields(&id, source);
    match modrule::compile(&rule, &id, source, config) {
        Ok((compiled, warnings)) => {
            problems.extend(warnings);
            (id, Some(compiled), problems)
        }
        Err(mut errors) => {
            if errors.iter().any(modrule::FieldError::is_of_type) {
                errors.retain(|error| !error.follows_from_type());
            }
            problems.extend(errors.into_iter().map(|error| error.into_problem(&id, source)));
            (id, None, problems)
        }
    }
}
