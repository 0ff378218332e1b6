//! All mutators together, and the loop that applies them until nothing changes (4.1, 4.3).

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use modgate_api::meta::{GroupVersionKind, Operation};
use modgate_value::{Budget, Object, Str, Value};

use super::{
    CompiledMutator, MutatorId, Providers,
    error::{MutationError, describe},
    external::Placeholders,
    schema::{self, Conflict},
    trace::{Mismatch, MutationExplanation, MutatorTrace, Trail},
    walk::{self, Run, Walked},
};
use crate::{
    cost::Cost,
    matching::{Matchable, Source},
};

/// Every mutator there is, in the order in which they run. Never changed, only replaced.
#[derive(Debug, Clone, Default)]
pub struct MutationSystem {
    /// Sorted by id.
    mutators: Vec<Arc<CompiledMutator>>,
    conflicts: BTreeMap<MutatorId, Conflict>,
    /// Positions in `mutators` of those that can only be about objects of one kind's name.
    by_kind: HashMap<Str, Vec<usize>>,
    /// Positions of the others.
    any_kind: Vec<usize>,
}

/// One object to be mutated.
pub struct MutationRequest<'a> {
    /// The object, with the namespace of the request filled in.
    pub object: &'a Value,
    /// Its Namespace, where there is one and it is known.
    pub namespace: Option<&'a Value>,
    /// The operation on it; `None` in an audit or expansion.
    pub operation: Option<Operation>,
    /// Where it came from; `None` when that is not known.
    pub source: Option<Source>,
    /// The user.
    pub username: &'a str,
    /// Whether to leave annotations about what was done (`--mutation-annotations`).
    pub annotate: bool,
    /// A fresh random UUID for this run; asked for when one is needed.
    pub run_id: &'a dyn Fn() -> String,
    /// Where `externalData` comes from.
    pub providers: &'a dyn Providers,
    /// Pays for the passes.
    pub budget: &'a Budget<'a>,
    /// Which of the mutators' counters are used, see [`Meter::shard`](crate::cost::Meter::shard).
    pub shard: usize,
}

/// The result of [`MutationSystem::mutate`].
#[derive(Debug, Clone, PartialEq)]
pub struct Mutated {
    /// The object afterwards; `None` when no mutator changed anything.
    pub object: Option<Value>,
    /// The mutators that were applied, pass by pass.
    pub passes: Vec<Vec<MutatorId>>,
    /// The pass that found nothing to change any more, for the metric; 0 when that was the first.
    pub iterations: usize,
    /// The id of the run, where one was needed.
    pub run: Option<String>,
}

impl MutationSystem {
    /// The system of these mutators; of two with the same id the later one counts.
    pub fn new(mutators: impl IntoIterator<Item = Arc<CompiledMutator>>) -> Self {
        let by_id: BTreeMap<MutatorId, Arc<CompiledMutator>> =
            mutators.into_iter().map(|mutator| (mutator.id.clone(), mutator)).collect();
        let mutators: Vec<Arc<CompiledMutator>> = by_id.into_values().collect();
        let borrowed: Vec<&CompiledMutator> = mutators.iter().map(AsRef::as_ref).collect();
        let conflicts: BTreeMap<MutatorId, Conflict> = schema::conflicts(&borrowed)
            .into_iter()
            .filter_map(|(index, conflict)| Some((borrowed.get(index)?.id.clone(), conflict)))
            .collect();
        let mut by_kind: HashMap<Str, Vec<usize>> = HashMap::new();
        let mut any_kind = Vec::new();
        for (index, mutator) in mutators.iter().enumerate() {
            if conflicts.contains_key(&mutator.id) {
                continue;
            }
            match kinds(mutator) {
                Some(kinds) => {
                    for kind in kinds {
                        by_kind.entry(kind).or_default().push(index);
                    }
                }
                None => any_kind.push(index),
            }
        }
        Self { mutators, conflicts, by_kind, any_kind }
    }

    /// The mutators in the order in which they run, conflicting ones included.
    pub fn mutators(&self) -> &[Arc<CompiledMutator>] {
        &self.mutators
    }

    /// The mutators that are skipped because of others, and why.
    pub fn conflicts(&self) -> &BTreeMap<MutatorId, Conflict> {
        &self.conflicts
    }

    /// Whether there is nothing to run.
    pub fn is_empty(&self) -> bool {
        self.mutators.is_empty()
    }

    /// Applies the mutators until a pass changes nothing.
    ///
    /// # Errors
    ///
    /// When a match block cannot be decided, a location does not fit the object, the mutators do
    /// not converge, a provider fails, or the budget is spent. Any of these denies the request.
    pub fn mutate(&self, request: &MutationRequest<'_>) -> Result<Mutated, MutationError> {
        self.converge(request, None)
    }

    /// As [`MutationSystem::mutate`], with the actions of each mutator.
    pub fn explain(&self, request: &MutationRequest<'_>) -> MutationExplanation {
        let mut passes = Vec::new();
        let result = self.converge(request, Some(&mut passes));
        if result.is_ok()
            && let Some(first) = passes.first_mut()
        {
            self.add_bystanders(first, request);
        }
        for pass in &mut passes {
            pass.sort_by(|a, b| a.mutator.cmp(&b.mutator));
        }
        MutationExplanation { result, passes }
    }

    fn converge(
        &self,
        request: &MutationRequest<'_>,
        trace: Option<&mut Vec<Vec<MutatorTrace>>>,
    ) -> Result<Mutated, MutationError> {
        let mut shared = Passes {
            request,
            run: LazyRun { id: std::cell::OnceCell::new(), make: request.run_id },
            placeholders: None,
            trace,
        };
        let mut object = request.object.clone();
        let mut passes: Vec<Vec<MutatorId>> = Vec::new();
        for pass in 1..=self.mutators.len() + 1 {
            let before = object.clone();
            let mut applied = Vec::new();
            if let Some(trace) = &mut shared.trace {
                trace.push(Vec::new());
            }
            let mut kind = GroupVersionKind::of_object(&object);
            let mut candidates = self.candidates(&kind.kind, 0);
            while let Some(index) = candidates.next() {
                let Some(mutator) = self.mutators.get(index).map(AsRef::as_ref) else { break };
                request.budget.spend(1)?;
                let mismatch = self.first_mismatch(mutator, &object, &kind, request);
                if !matches!(mismatch, Ok(None)) {
                    shared.record(|| MutatorTrace::unmatched(mutator, &mismatch));
                }
                if mismatch?.is_some() {
                    continue;
                }
                let outcome = shared.apply(mutator, &object)?;
                if outcome.applied {
                    applied.push(mutator.id.clone());
                }
                if let Some(new) = outcome.new {
                    object = new;
                    let changed = GroupVersionKind::of_object(&object);
                    if changed != kind {
                        candidates = self.candidates(&changed.kind, index + 1);
                        kind = changed;
                    }
                }
            }
            if applied.is_empty() || object == before {
                if pass == 1 {
                    return Ok(Mutated {
                        object: None,
                        passes: vec![applied],
                        iterations: 0,
                        run: shared.run.made(),
                    });
                }
                passes.push(applied);
                if let Some(placeholders) = &shared.placeholders {
                    object = placeholders
                        .resolve(&object, request.providers)
                        .map_err(MutationError::ExternalData)?;
                }
                if request.annotate {
                    object = self.annotate(object, shared.run.id(), &passes);
                }
                return Ok(Mutated {
                    object: Some(object),
                    passes,
                    iterations: pass,
                    run: shared.run.made(),
                });
            }
            passes.push(applied);
        }
        Err(MutationError::NotConverging {
            run: shared.run.id().to_owned(),
            object: describe(request.object),
            passes,
        })
    }

    /// Whether any mutator may be about objects of this kind's name.
    pub(crate) fn may_concern(&self, kind: &str) -> bool {
        self.candidates(kind, 0).next().is_some()
    }

    /// Positions, from `from` on, of the mutators that may be about objects of this kind's name.
    fn candidates(&self, kind: &str, from: usize) -> Merged<'_> {
        fn rest(positions: &[usize], from: usize) -> &[usize] {
            let at = positions.partition_point(|position| *position < from);
            positions.get(at..).unwrap_or_default()
        }
        let of_kind = self.by_kind.get(kind).map_or(&[][..], Vec::as_slice);
        Merged { a: rest(of_kind, from), b: rest(&self.any_kind, from) }
    }

    fn first_mismatch(
        &self,
        mutator: &CompiledMutator,
        object: &Value,
        kind: &GroupVersionKind,
        request: &MutationRequest<'_>,
    ) -> Result<Option<Mismatch>, MutationError> {
        if !mutator.applies_to(kind, request.operation) {
            return Ok(Some(Mismatch::ApplyTo));
        }
        let subject =
            Matchable { object, kind, namespace: request.namespace, source: request.source };
        match mutator.criteria.first_mismatch(subject) {
            Ok(mismatch) => Ok(mismatch.map(Mismatch::Criterion)),
            Err(source) => Err(MutationError::Match {
                mutator: Box::new(mutator.id.clone()),
                object: describe(object),
                source,
            }),
        }
    }

    /// Adds to a pass the mutators that were no candidates, and why.
    fn add_bystanders(&self, pass: &mut Vec<MutatorTrace>, request: &MutationRequest<'_>) {
        let kind = GroupVersionKind::of_object(request.object);
        for mutator in &self.mutators {
            if pass.iter().any(|trace| trace.mutator == mutator.id) {
                continue;
            }
            pass.push(match self.conflicts.get(&mutator.id) {
                Some(conflict) => MutatorTrace::conflicting(mutator, conflict),
                None => {
                    let mismatch = self.first_mismatch(mutator, request.object, &kind, request);
                    MutatorTrace::unmatched(mutator, &mismatch)
                }
            });
        }
    }

    fn annotate(&self, object: Value, run: &str, passes: &[Vec<MutatorId>]) -> Value {
        let distinct: BTreeSet<&MutatorId> = passes.iter().flatten().collect();
        let mut shown: Vec<String> = distinct
            .into_iter()
            .map(|id| {
                let generation = self.find(id).map_or(0, |mutator| mutator.generation);
                format!("{}/{}/{}:{generation}", id.kind.as_str(), id.namespace, id.name)
            })
            .collect();
        shown.sort();
        let object_of =
            |value: Option<&Value>| value.and_then(Value::as_object).cloned().unwrap_or_default();
        let mut root = object_of(Some(&object));
        let mut metadata = object_of(root.get("metadata"));
        let mut annotations = object_of(metadata.get("annotations"));
        annotations.insert("gatekeeper.sh/mutation-id", run.into());
        annotations.insert("gatekeeper.sh/mutations", shown.join(", ").into());
        metadata.insert("annotations", annotations.into());
        root.insert("metadata", Object::into(metadata));
        root.into()
    }

    fn find(&self, id: &MutatorId) -> Option<&CompiledMutator> {
        let index = self.mutators.binary_search_by(|mutator| mutator.id.cmp(id)).ok()?;
        self.mutators.get(index).map(AsRef::as_ref)
    }
}

/// The names of the kinds a mutator can be about; `None` when it may be about any.
fn kinds(mutator: &CompiledMutator) -> Option<BTreeSet<Str>> {
    match &mutator.apply_to {
        Some(entries) => {
            Some(entries.iter().flat_map(|entry| entry.kinds.iter().flatten()).cloned().collect())
        }
        None => mutator.criteria.kind_names(),
    }
}

impl CompiledMutator {
    fn asks_provider(&self) -> bool {
        matches!(self.action, super::Action::Assign { from: super::AssignFrom::External(_), .. })
    }
}

/// The state that all passes over the mutators share.
struct Passes<'r, 't> {
    request: &'r MutationRequest<'r>,
    run: LazyRun<'r>,
    placeholders: Option<Placeholders>,
    /// The actions of each mutator, by pass.
    trace: Option<&'t mut Vec<Vec<MutatorTrace>>>,
}

impl Passes<'_, '_> {
    fn record(&mut self, trace: impl FnOnce() -> MutatorTrace) {
        if let Some(last) = self.trace.as_mut().and_then(|passes| passes.last_mut()) {
            last.push(trace());
        }
    }

    /// Applies one mutator, and counts its cost.
    fn apply(
        &mut self,
        mutator: &CompiledMutator,
        object: &Value,
    ) -> Result<Walked, MutationError> {
        let request = self.request;
        let placeholders = match &mut self.placeholders {
            Some(placeholders) => placeholders,
            // Only mutators with external data make placeholders, and only those need
            // the id of the run before there is something to report.
            None if mutator.asks_provider() => {
                self.placeholders.insert(Placeholders::new(self.run.id()))
            }
            None => &mut Placeholders::default(),
        };
        let mut trail = self.trace.is_some().then(Trail::default);
        let mut context = Run {
            object,
            username: request.username,
            placeholders,
            budget: request.budget,
            trail: trail.as_mut(),
        };
        let (steps, bytes) = (request.budget.steps_spent(), request.budget.bytes_spent());
        let started = request.budget.now();
        let outcome = walk::apply(mutator, &mut context);
        let cost = Cost {
            evaluations: 1,
            time: request.budget.now().saturating_sub(started),
            steps: request.budget.steps_spent().saturating_sub(steps),
            bytes: request.budget.bytes_spent().saturating_sub(bytes),
        };
        mutator.usage.add(request.shard, cost);
        if let Some(trail) = trail {
            self.record(|| MutatorTrace::walked(mutator, &outcome, trail));
        }
        outcome.map_err(|source| MutationError::Apply {
            run: self.run.id().to_owned(),
            mutator: Box::new(mutator.id.clone()),
            object: describe(object),
            source: Box::new(source),
        })
    }
}

/// The id of a run, made when somebody wants to see it.
struct LazyRun<'a> {
    id: std::cell::OnceCell<String>,
    make: &'a dyn Fn() -> String,
}

impl LazyRun<'_> {
    fn id(&self) -> &str {
        self.id.get_or_init(|| (self.make)())
    }

    /// The id, if there is one by now.
    fn made(&self) -> Option<String> {
        self.id.get().cloned()
    }
}

/// Two ascending lists of positions as one.
struct Merged<'a> {
    a: &'a [usize],
    b: &'a [usize],
}

impl Iterator for Merged<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let take_a = match (self.a.first(), self.b.first()) {
            (Some(a), Some(b)) => a <= b,
            (a, _) => a.is_some(),
        };
        let list = if take_a { &mut self.a } else { &mut self.b };
        let (first, rest) = list.split_first()?;
        *list = rest;
        Some(*first)
    }
}
