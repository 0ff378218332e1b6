//! A Pod's report on each policy: one entry of `status.byPod` (RM-23). No IO here.
//!
//! Entries are made of the snapshot, not of what was found when a policy was loaded: a conflict, a
//! cycle or a missing template comes and goes with other policies.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use modgate_engine::{
    Problem, Severity, Snapshot,
    api::{config, externaldata::Provider, mutations::MutatorKind},
    constraint::{CompiledTemplate, ConstraintError, ConstraintKey},
    expansion,
    mutation::{CompiledMutator, MutatorId},
};
use modgate_value::{Object, Str, Value};

use super::subject::Subject;
use crate::{
    kinds::Kind,
    object::Key,
    operations::Operations,
    reports::{AllReports, Report, ReportedError},
    state::{Loaded, State},
};

/// Errors shown of one policy, and bytes of each: a status is part of an object that the API server
/// limits to 1.5 MB.
const MAX_ERRORS: usize = 32;
const MAX_MESSAGE: usize = 8 << 10;

/// A policy, with what it is to statuses.
pub(crate) type About = (Subject, Kind, Key);

/// Makes the entries of one Pod.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    /// Why templates do not load: found by compiling them again, and kept with the version it is
    /// about.
    templates: BTreeMap<Key, (Arc<Loaded>, Vec<ReportedError>)>,
}

/// The common members of all entries of a Pod.
struct Pod<'a> {
    id: &'a str,
    operations: Value,
}

impl Entries {
    /// The entry of every policy that Pods report on.
    pub(crate) fn of(
        &mut self,
        state: &State,
        reports: &AllReports,
        pod: &str,
        operations: &Operations,
    ) -> BTreeMap<About, Value> {
        let pod = Pod { id: pod, operations: operations.names().map(Value::from).collect() };
        let snapshot = &state.current.snapshot;
        let mutators: BTreeSet<&MutatorId> =
            snapshot.mutators().mutators().iter().map(|mutator| mutator.id()).collect();
        let mut entries = BTreeMap::new();
        let mut broken = BTreeMap::new();
        for (kind, policies) in &state.policies {
            let Some(subject) = Subject::of(kind).filter(|it| is_used(*it, snapshot)) else {
                continue;
            };
            for (key, loaded) in policies.iter() {
                let (members, errors) = match subject {
                    Subject::Config if key.name != config::NAME => continue,
                    Subject::Config => (vec![], config(state, loaded)),
                    Subject::Connection => (vec![], of_problems(loaded, true)),
                    Subject::Constraint => constraint(snapshot, kind, key, loaded),
                    Subject::Expansion => (vec![], of_expansion(snapshot, key, loaded)),
                    Subject::Mutator => mutator(snapshot, &mutators, kind, key, loaded),
                    Subject::Provider => provider(snapshot, key, loaded),
                    Subject::Template => {
                        let errors = self.template(snapshot, key, loaded);
                        if !errors.is_empty() {
                            broken.insert(key.clone(), (Arc::clone(loaded), errors.clone()));
                        }
                        (vec![], errors)
                    }
                };
                let about = (kind.clone(), key.clone());
                let said = reports.get(&about).into_iter().flat_map(BTreeMap::values);
                let entry = pod.entry(subject, loaded, members, errors, said);
                entries.insert((subject, about.0, about.1), entry);
            }
        }
        self.templates = broken;
        entries
    }

    /// Why the newest version of a template is not in force (TC-40), or can only fail.
    fn template(&self, snapshot: &Snapshot, key: &Key, loaded: &Arc<Loaded>) -> Vec<ReportedError> {
        let store = snapshot.constraints();
        let in_force = store.template_source(&key.name);
        if in_force.is_some_and(|source| source.object == loaded.object) {
            return of_problems(loaded, true)
                .into_iter()
                .map(|error| ReportedError { code: INGEST, message: ingest(&error.message) })
                .collect();
        }
        // In front, because the column of `kubectl get` shows the first line.
        let kept = in_force.map_or(String::new(), |source| {
            let generation = source.object.path(&["metadata", "generation"]);
            let generation = generation.and_then(Value::as_i64).unwrap_or_default();
            format!("generation {generation} of the template stays in force; ")
        });
        match self.templates.get(key) {
            Some((known, errors)) if known.object == loaded.object => errors.clone(),
            _ => match CompiledTemplate::compile(&loaded.object, &snapshot.config().templates) {
                Ok(_) => Vec::new(),
                Err(error) if error.is_of_source() => {
                    vec![ReportedError { code: INGEST, message: ingest(&format!("{kept}{error}")) }]
                }
                Err(error) => {
                    vec![ReportedError { code: "create_error", message: format!("{kept}{error}") }]
                }
            },
        }
    }
}

const INGEST: &str = "ingest_error";

/// The prefix is the same for CEL sources.
fn ingest(message: &str) -> String {
    format!("Could not ingest Rego: {message}")
}

/// Kinds that are switched off are not followed, so there are no entries for them.
fn is_used(subject: Subject, snapshot: &Snapshot) -> bool {
    match subject {
        Subject::Expansion => snapshot.config().expansion,
        Subject::Provider => snapshot.config().templates.external_data,
        _ => true,
    }
}

type Members = Vec<(&'static str, Value)>;

/// A version that is refused leaves the one before in force (ST-21); which one that is, is said
/// where they differ.
fn constraint(
    snapshot: &Snapshot,
    kind: &Kind,
    key: &Key,
    loaded: &Loaded,
) -> (Members, Vec<ReportedError>) {
    let store = snapshot.constraints();
    let id = ConstraintKey { kind: kind.kind.as_str().into(), name: key.name.clone() };
    let mut members = Members::new();
    if let Some(compiled) = store.constraint(&id) {
        members.push(("enforced", true.into()));
        if *compiled.resource() == loaded.object {
            return (members, Vec::new());
        }
        if compiled.generation() != loaded.generation() {
            members.push(("enforcedGeneration", compiled.generation().into()));
        }
    }
    let refused = store.compile_constraint(&loaded.object, &snapshot.config().constraints).err();
    let error = refused.map(|error| {
        let what = match error {
            ConstraintError::Action(_) => "could not validate enforcement actions",
            _ => "could not cache constraint",
        };
        ReportedError { code: "", message: format!("{what}: {error}") }
    });
    (members, error.into_iter().collect())
}

fn mutator(
    snapshot: &Snapshot,
    loaded_mutators: &BTreeSet<&MutatorId>,
    kind: &Kind,
    key: &Key,
    loaded: &Loaded,
) -> (Members, Vec<ReportedError>) {
    let id = MutatorKind::from_name(&kind.kind).map(|kind| MutatorId {
        kind,
        namespace: key.namespace.clone(),
        name: key.name.clone(),
    });
    let known = id.as_ref().filter(|id| loaded_mutators.contains(id));
    let errors = match known {
        Some(id) => {
            let conflict = snapshot.mutators().conflicts().get(id);
            let error = conflict.map(|conflict| ReportedError {
                code: "ErrConflictingSchema",
                message: conflict.to_string(),
            });
            error.into_iter().collect()
        }
        None => match CompiledMutator::compile(&loaded.object, snapshot.config().mutators) {
            // In Gatekeeper's words, without the field that modgate knows beside them.
            Err(error) => vec![ReportedError { code: "", message: error.to_string() }],
            Ok(_) => of_problems(loaded, true),
        },
    };
    (vec![("enforced", (known.is_some() && errors.is_empty()).into())], errors)
}

/// Synced kinds that cannot be listed are reported on the Config, also where a SyncSet asks for it, as these
/// have no status (ST-34).
fn config(state: &State, loaded: &Loaded) -> Vec<ReportedError> {
    let mut errors = of_problems(loaded, true);
    errors.extend(state.synced.iter().filter_map(|(kind, synced)| {
        let problem = synced.problem.as_ref()?;
        Some(ReportedError { code: "sync", message: format!("{kind}: {problem}") })
    }));
    errors
}

fn of_expansion(snapshot: &Snapshot, key: &Key, loaded: &Loaded) -> Vec<ReportedError> {
    let expansions = snapshot.expansions();
    if expansions.cyclic().contains(&key.name) {
        return vec![ReportedError { code: "", message: expansion::CYCLE.to_owned() }];
    }
    if expansions.templates().iter().any(|template| *template.name() == key.name) {
        return Vec::new();
    }
    of_problems(loaded, true)
}

fn provider(snapshot: &Snapshot, key: &Key, loaded: &Loaded) -> (Members, Vec<ReportedError>) {
    let active = snapshot.providers().contains_key(&key.name);
    if active {
        return (vec![("active", true.into())], Vec::new());
    }
    let unreadable = Provider::from_value(&loaded.object).is_err();
    let code = if unreadable { "Conversion" } else { "UpsertCache" };
    let errors = of_problems(loaded, unreadable).into_iter();
    let errors = errors.map(|error| ReportedError { code, ..error }).collect();
    (vec![("active", false.into())], errors)
}

/// The first error found when this version was loaded: there is at most one at a time.
fn of_problems(loaded: &Loaded, with_field: bool) -> Vec<ReportedError> {
    let error = first_error(loaded).map(|problem| {
        let Problem { field, message, .. } = problem;
        let message = match with_field && !field.is_empty() {
            true => format!("{field}: {message}"),
            false => message.clone(),
        };
        ReportedError { code: "", message }
    });
    error.into_iter().collect()
}

fn first_error(loaded: &Loaded) -> Option<&Problem> {
    loaded.problems.iter().find(|problem| problem.severity == Severity::Error)
}

/// The warnings found when this version was loaded, each with its code (`docs/warnings.md`).
fn warnings(loaded: &Loaded) -> Value {
    let warnings = loaded.problems.iter().filter(|it| it.severity == Severity::Warning);
    let warnings = warnings.take(MAX_ERRORS).map(|problem| {
        let mut members = Object::default();
        if let Some(code) = problem.code {
            members.insert("code", code.as_str().into());
        }
        if let Some(place) = place(problem) {
            members.insert("location", place.into());
        }
        let help = problem.help.as_ref().map_or(String::new(), |help| format!("; {help}"));
        let message = format!("{}{help}", problem.message).replace('\n', " ");
        members.insert("message", shortened(&message).into());
        Value::from(members)
    });
    warnings.collect()
}

/// Where the first error of this version is.
fn location(subject: Subject, loaded: &Loaded) -> Option<String> {
    let mut errors = loaded.problems.iter().filter(|it| it.severity == Severity::Error);
    let problem = match subject {
        // What was wrong before may be right since its template has come.
        Subject::Constraint => errors.next_back(),
        _ => errors.next(),
    };
    problem.and_then(place)
}

/// The field, and the line and column in its text.
fn place(problem: &Problem) -> Option<String> {
    if problem.field.is_empty() {
        return None;
    }
    let place = problem.text.as_deref().zip(problem.span).and_then(|(text, span)| {
        let before = text.get(..span.start)?;
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next()?.chars().count() + 1;
        Some(format!(":{line}:{column}"))
    });
    Some(format!("{}{}", problem.field, place.unwrap_or_default()))
}

impl Pod<'_> {
    fn entry<'r>(
        &self,
        subject: Subject,
        loaded: &Loaded,
        members: Members,
        mut errors: Vec<ReportedError>,
        said: impl Iterator<Item = &'r Report>,
    ) -> Value {
        let mut entry: Object = members.into_iter().collect();
        entry.insert("id", self.id.into());
        entry.insert(subject.uid_member(), loaded.uid().into());
        entry.insert("operations", self.operations.clone());
        entry.insert("observedGeneration", loaded.generation().into());
        let location = (!errors.is_empty()).then(|| location(subject, loaded)).flatten();
        let of_loading = errors.len();
        let mut points = Vec::new();
        for report in said {
            errors.extend(report.errors.iter().cloned());
            points.extend(&report.points);
            if let Some(generation) = &report.generation {
                let mut members: Object = [
                    ("state", generation.state.into()),
                    ("observedGeneration", generation.observed_generation.into()),
                ]
                .into_iter()
                .collect();
                if !generation.warning.is_empty() {
                    members.insert("warning", generation.warning.as_str().into());
                }
                entry.insert("vapGenerationStatus", members.into());
            }
            for (member, value) in &report.members {
                entry.insert(*member, value.clone());
            }
        }
        if !points.is_empty() {
            points.sort_by_key(|point| point.point);
            let points = points.into_iter().map(|point| {
                let mut members: Object = [
                    ("enforcementPoint", point.point.into()),
                    ("state", point.state.into()),
                    ("observedGeneration", point.observed_generation.into()),
                ]
                .into_iter()
                .collect();
                if !point.message.is_empty() {
                    members.insert("message", point.message.as_str().into());
                }
                Value::from(members)
            });
            entry.insert("enforcementPointsStatus", points.collect());
        }
        let errors: Value = errors
            .iter()
            .enumerate()
            .take(MAX_ERRORS)
            .map(|(index, found)| {
                error(subject, found, location.as_deref().filter(|_| index < of_loading))
            })
            .collect();
        if errors.at(0).is_some() {
            entry.insert("errors", errors);
        }
        let warnings = warnings(loaded);
        if warnings.at(0).is_some() {
            entry.insert("warnings", warnings);
        }
        entry.into()
    }
}

fn error(subject: Subject, error: &ReportedError, location: Option<&str>) -> Value {
    let mut members = Object::default();
    members.insert("message", shortened(&error.message).into());
    match subject {
        Subject::Constraint | Subject::Template => {
            members.insert("code", error.code.into());
            if let Some(location) = location {
                members.insert("location", location.into());
            }
        }
        Subject::Provider => {
            members.insert("type", error.code.into());
            members.insert("retryable", true.into());
        }
        _ if error.code.is_empty() => {}
        _ => {
            members.insert("type", error.code.into());
        }
    }
    members.into()
}

/// The beginning of a long text.
pub(crate) fn shortened(text: &str) -> Str {
    if text.len() <= MAX_MESSAGE {
        return text.into();
    }
    let mut end = MAX_MESSAGE - 3;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}...", text.get(..end).unwrap_or_default()).into()
}
