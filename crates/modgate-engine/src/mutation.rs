//! Gatekeeper's mutators: Assign, AssignMetadata, ModifySet, AssignImage
//! (spec `gatekeeper-mutation…`, sections 1 to 4).
//!
//! A [`CompiledMutator`] is one mutator, checked; a [`MutationSystem`] is all of them in the one
//! order in which they run, without those whose locations contradict each other. Its
//! [`mutate`](MutationSystem::mutate) applies them to an object until nothing changes any more.
//!
//! The object is never copied: a mutator that changes something makes new containers along its
//! location and shares the rest, one that changes nothing makes nothing.

mod admission;
mod compile;
mod error;
mod external;
mod image;
pub mod location;
mod path_test;
mod schema;
mod system;
mod trace;
mod walk;

use std::fmt;

use modgate_api::{
    meta::{GroupVersionKind, Operation},
    mutations::{ApplyTo, GROUP, MutatorKind},
};
use modgate_value::{Str, Value};

pub(crate) use self::{admission::check_name, error::go_type};
pub use self::{
    admission::{Refusal, validate},
    compile::{CompileError, Options},
    error::MutationError,
    external::{Answer, Answers, Item, NO_CLIENT_CERTIFICATE, NoProviders, Providers},
    image::ImageReference,
    location::Location,
    schema::Conflict,
    system::{Mutated, MutationRequest, MutationSystem},
    trace::{MutationExplanation, MutatorOutcome, MutatorTrace, Note, What},
};
use self::{external::External, image::ImageParts, path_test::PathTests};
use crate::{
    PolicyId,
    cost::{Cost, Usage},
    matching::Criteria,
};

/// Which mutator; ordered as mutators run (4.1).
///
/// Prints as `Assign.mutations.gatekeeper.sh /name`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MutatorId {
    /// Its kind.
    pub kind: MutatorKind,
    /// Empty: mutators are cluster-scoped.
    pub namespace: Str,
    /// Its name.
    pub name: Str,
}

impl From<&MutatorId> for PolicyId {
    fn from(id: &MutatorId) -> Self {
        Self {
            group: GROUP.into(),
            kind: id.kind.as_str().into(),
            namespace: id.namespace.clone(),
            name: id.name.clone(),
        }
    }
}

impl fmt::Display for MutatorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{GROUP} {}/{}", self.kind.as_str(), self.namespace, self.name)
    }
}

/// A mutator that is ready to run. Holding one is the proof that its policy is valid.
#[derive(Debug, Clone)]
pub struct CompiledMutator {
    id: MutatorId,
    generation: i64,
    /// `None` for AssignMetadata, which considers everything.
    apply_to: Option<Vec<ApplyTo>>,
    criteria: Criteria,
    location: Location,
    tests: PathTests,
    action: Action,
    warnings: Vec<String>,
    usage: Usage,
}

/// The action of a mutator at the end of its location.
#[derive(Debug, Clone)]
enum Action {
    /// Assign and AssignMetadata.
    Assign {
        from: AssignFrom,
        /// Upheld for the present value; empty lists impose nothing.
        one_of: Vec<Value>,
        none_of: Vec<Value>,
    },
    Merge(Constants),
    Prune(Constants),
    /// A ModifySet without a list.
    Nothing,
    Image(ImageParts),
}

#[derive(Debug, Clone)]
enum AssignFrom {
    Value(Constant),
    /// A member of the object's metadata.
    Metadata(&'static str),
    External(External),
}

/// A value of a policy, and how long it is when printed.
#[derive(Debug, Clone)]
struct Constant {
    value: Value,
    bytes: usize,
}

impl Constant {
    fn new(value: Value) -> Self {
        Self { bytes: value.to_json().len(), value }
    }
}

/// Values of a policy, and how long they are when printed.
#[derive(Debug, Clone)]
struct Constants {
    values: Vec<Value>,
    bytes: usize,
}

impl Constants {
    fn new(values: Vec<Value>) -> Self {
        Self { bytes: values.iter().map(|value| value.to_json().len()).sum(), values }
    }
}

impl CompiledMutator {
    /// Which mutator this is.
    pub fn id(&self) -> &MutatorId {
        &self.id
    }

    /// Its cost since it was compiled; the time for finding that it does not match is not
    /// counted.
    pub fn cost(&self) -> Cost {
        self.usage.total()
    }

    /// Its `metadata.generation`.
    pub fn generation(&self) -> i64 {
        self.generation
    }

    /// Where it acts.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// Its match block.
    pub fn criteria(&self) -> &Criteria {
        &self.criteria
    }

    /// Warnings for its author; it is valid.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Whether `applyTo` covers objects of this kind in this operation (1.2).
    pub(crate) fn applies_to(&self, kind: &GroupVersionKind, operation: Option<Operation>) -> bool {
        let Some(entries) = &self.apply_to else { return true };
        entries.iter().any(|entry| entry.names(kind) && entry.covers(operation))
    }

    /// Whether nothing may go deeper than its location (4.2).
    fn must_terminate(&self) -> bool {
        matches!(
            self.action,
            Action::Image(_) | Action::Assign { from: AssignFrom::External(_), .. }
        )
    }
}
