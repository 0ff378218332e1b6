//! The actions of mutators and the reasons, for explanations.

use modgate_value::{Str, Value};
use serde::{Serialize, Serializer};

use super::{
    CompiledMutator, Conflict, MutatorId,
    error::{ApplyError, MutationError},
    location::{Elements, Node},
    path_test::Condition,
    system::Mutated,
    walk::Walked,
};
use crate::matching::Criterion;

/// How [`MutationSystem::mutate`](super::MutationSystem::mutate) came to its result.
#[derive(Debug, Clone)]
pub struct MutationExplanation {
    /// The result.
    pub result: Result<Mutated, MutationError>,
    /// The actions of each mutator, pass by pass, in the order in which they run. A pass that failed
    /// ends with the mutator that failed it.
    pub passes: Vec<Vec<MutatorTrace>>,
}

/// The actions of one mutator in one pass.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MutatorTrace {
    /// Which mutator.
    #[serde(serialize_with = "as_text")]
    pub mutator: MutatorId,
    /// Its result.
    pub outcome: MutatorOutcome,
    /// The result at each place of its location.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
}

fn as_text<S: Serializer>(id: &MutatorId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(id)
}

/// The result of a mutator in one pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "result", content = "cause")]
#[non_exhaustive]
pub enum MutatorOutcome {
    /// Skipped, because its location contradicts those of others.
    Conflicting(String),
    /// `applyTo` names no such kind, or not this operation.
    NotAppliedTo,
    /// The first criterion of its match block that excludes the object.
    NoMatch(String),
    /// It matched, and the walk along its location was stopped everywhere.
    Stopped,
    /// It was applied, and everything was as it wants it already.
    Unchanged,
    /// It was applied and changed the object.
    Changed,
    /// It failed, and with it the request.
    Failed(String),
}

/// Why a mutator is not about an object.
pub(super) enum Mismatch {
    ApplyTo,
    Criterion(Criterion),
}

impl MutatorTrace {
    fn of(mutator: &CompiledMutator, outcome: MutatorOutcome) -> Self {
        Self { mutator: mutator.id().clone(), outcome, notes: Vec::new() }
    }

    pub(super) fn conflicting(mutator: &CompiledMutator, conflict: &Conflict) -> Self {
        Self::of(mutator, MutatorOutcome::Conflicting(conflict.to_string()))
    }

    pub(super) fn unmatched(
        mutator: &CompiledMutator,
        mismatch: &Result<Option<Mismatch>, MutationError>,
    ) -> Self {
        Self::of(
            mutator,
            match mismatch {
                Ok(Some(Mismatch::Criterion(criterion))) => {
                    MutatorOutcome::NoMatch(criterion.as_str().to_owned())
                }
                Ok(_) => MutatorOutcome::NotAppliedTo,
                Err(error) => MutatorOutcome::Failed(error.to_string()),
            },
        )
    }

    pub(super) fn walked(
        mutator: &CompiledMutator,
        outcome: &Result<Walked, ApplyError>,
        trail: Trail,
    ) -> Self {
        let became = match outcome {
            Err(error) => MutatorOutcome::Failed(error.to_string()),
            Ok(outcome) if outcome.new.is_some() => MutatorOutcome::Changed,
            Ok(outcome) if outcome.applied => MutatorOutcome::Unchanged,
            Ok(_) => MutatorOutcome::Stopped,
        };
        Self { notes: trail.notes, ..Self::of(mutator, became) }
    }
}

/// The result at one place of the object.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Note {
    /// The place: the location with the list elements that were met.
    pub at: String,
    /// The result there.
    #[serde(flatten)]
    pub what: What,
}

/// The result at a place, and its cause.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", tag = "effect")]
#[non_exhaustive]
pub enum What {
    /// Nothing is there and a path test says `MustExist`.
    Missing,
    /// Something is there and a path test says `MustNotExist`.
    Present,
    /// The value is none of `assignIf.in`.
    NotListed {
        /// The value; absent when there is none.
        value: Option<Value>,
    },
    /// The value is one of `assignIf.notIn`.
    Excluded {
        /// The value.
        value: Value,
    },
    /// A glob over a list without elements.
    NoElements,
    /// Nothing is there that could be pruned, or the mutator has no values.
    Nothing,
    /// A provider supplies the value once the object has converged.
    Asked {
        /// Which provider.
        provider: Str,
        /// The key of the request.
        key: Str,
    },
    /// The wanted value is there already.
    Same,
    /// The value was set.
    Set {
        /// The value before.
        before: Option<Value>,
        /// The value after the change.
        after: Value,
    },
}

impl What {
    pub(super) fn failed_test(condition: Condition) -> Self {
        match condition {
            Condition::MustExist => Self::Missing,
            Condition::MustNotExist => Self::Present,
        }
    }
}

/// Where a walk is, and its notes so far.
#[derive(Default)]
pub(super) struct Trail {
    here: Vec<String>,
    notes: Vec<Note>,
}

impl Trail {
    pub(super) fn enter(&mut self, node: &Node, element: Option<(usize, &Value)>) {
        let step = match (node, element) {
            (Node::Field(_), _) if self.here.is_empty() => node.to_string(),
            (Node::Field(_), _) => format!(".{node}"),
            (Node::List { .. }, None) => node.to_string(),
            (Node::List { key, .. }, Some((index, element))) => match element.get(key) {
                Some(Value::String(text)) => {
                    let elements = Elements::Text(text.clone());
                    Node::List { key: key.clone(), elements }.to_string()
                }
                _ => format!("[{index}]"),
            },
        };
        self.here.push(step);
    }

    pub(super) fn leave(&mut self) {
        self.here.pop();
    }

    pub(super) fn note(&mut self, what: What) {
        self.notes.push(Note { at: self.here.concat(), what });
    }
}
