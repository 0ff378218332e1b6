//! The cluster's own policies: ValidatingAdmissionPolicy and its bindings.
//!
//! [`CompiledPolicy`] and [`CompiledBinding`] are what the API server accepts, compiled once.
//! [`PolicySet::evaluate`] decides one request as the API server does
//! (`apiserver/pkg/admission/plugin/policy/validating`, Kubernetes 1.36): the same matching, one
//! evaluation per binding and parameter, the same texts, reasons, warnings, audit annotations and
//! cost budgets. Where the API server's order is that of a hash map, this one sorts by name.
//!
//! One thing differs: an object is evaluated as it was given. The API server evaluates it with its
//! defaults.

mod audit;
mod compile;
mod convert;
mod coverage;
mod evaluate;
mod matching;
mod merge;
mod mutate;
mod outcome;
mod params;
mod patch;
mod set;
mod trace;
mod typecheck;
mod types;

pub use audit::Finding;
pub use compile::{
    CompiledBinding, CompiledMutatingPolicy, CompiledPolicy, PolicyError, PolicyProblem,
};
pub use matching::{Matched, ResourceMatcher};
pub use modgate_cel::{Access, Action, Authorizer};
pub use mutate::{AppliedMutation, Mutated, MutationStep};
pub use outcome::{Denial, PolicyDecision, PolicyKind, Reason, ValidationAction};
pub use params::{NoParams, ParamObjects, ParamScope, Params, selects};
pub use set::{Bindings, NoAuthorizer, PolicySet, Surroundings};
pub use trace::{ChangeTrace, MutatingOutcome, MutatingPolicyTrace, MutationTrace};
pub use typecheck::{ExpressionWarning, Quantities, expression_warnings};
pub(crate) use types::Unknown;
pub use types::{ScalarShape, Shape, Types};
