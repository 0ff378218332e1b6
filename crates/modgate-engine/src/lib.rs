//! The policy engine: compile once, evaluate many.
//!
//! [`Snapshot`] holds compiled policies and never changes; [`Snapshot::apply`] makes the next one
//! from a list of [`Change`]s. A [`Review`] goes into [`Snapshot::decide`], a [`Decision`] comes out,
//! and an [`Observer`] sees how it came about. Read those first.
//!
//! What the engine deliberately does not do: IO, logging, reading clocks. What it needs from
//! outside it asks of a [`Host`].
//!
//! # One request
//!
//! [`Snapshot::decide`] runs the stages of a request in order (`decide.rs`): mutators
//! ([`mutation`]), ModRules ([`modrule`]), constraints ([`constraint`]) on the object and on what it
//! expands to ([`expansion`]). No stage knows another.
//!
//! # Limits
//!
//! Every request has one budget and every rule or constraint a share of it ([`EngineConfig`]). What
//! cannot be decided within it is refused if it is a Reject rule, dropped with a warning if it is a
//! Patch rule, and a violation that says so if it is a constraint.

pub mod admissionpolicy;
mod config;
pub mod constraint;
pub mod cost;
mod decide;
pub mod expansion;
pub mod explain;
pub mod gatekeeper;
mod host;
pub mod jsonpatch;
pub mod matching;
pub mod modrule;
pub mod mutation;
mod policy;
pub mod provider;
mod review;
mod snapshot;

pub use config::{EngineConfig, Lookup, MissingReference, NodeReferences, NodeView};
pub use decide::{
    AdmissionStatus, Decision, DryRunError, Evaluation, Failure, FailureKind, MutationStatus,
    Observer, Plan, PlannedConstraint, PlannedResultant, Rejection, RuleFailure, Scope, Silent,
    Skipped, Stage, StageReport, StageReports, Stages, Trace, dry_run,
};
pub use explain::Explanation;
pub use host::{Host, HostError};
pub use modgate_api as api;
pub use modgate_rego as rego;
pub use modgate_template as template;
pub use policy::{Change, OnError, PolicyId, PolicySource, Position, Problem, Severity};
pub use review::Review;
pub use snapshot::{Compiled, Expansion, Snapshot, Update};
