//! The cluster's own policies: ValidatingAdmissionPolicy and its bindings.
//!
//! [`CompiledPolicy`] and [`CompiledBinding`] are what the API server accepts, compiled once.
//! [`PolicySet::evaluate`] decides one request as the API server does
//! (`apiserver/pkg/admission/plugin/policy/validating`, Kubernetes 1.36): the same matching, one
//! evaluation per binding and parameter, the same texts, reasons, warnings, audit annotations and
//! cost budgets. Where the API server's order is that of a hash map, this one sorts by name.
//!
//! What differs: `authorizer` is not available to expressions, and an object is evaluated as it
//! was given. The API server evaluates it with its defaults.

mod compile;
mod evaluate;
mod matching;
mod outcome;
mod params;

pub use compile::{CompiledBinding, CompiledPolicy, PolicyError, PolicyProblem};
pub use evaluate::PolicySet;
pub use matching::{Attributes, Matched, ResourceMatcher};
pub use outcome::{Denial, PolicyDecision, Reason, ValidationAction};
pub use params::{ParamScope, Params};
