//! The policy engine: compile once, evaluate many.
//!
//! [`Snapshot`] holds compiled policies and never changes; [`Snapshot::apply`] makes the next one
//! from a list of [`Change`]s. A [`Review`] goes into [`Snapshot::decide`], a [`Decision`] comes out,
//! and an [`Observer`] sees how it came about. Read those first.
//!
//! ```
//! use modgate_engine::{
//!     Change, EngineConfig, Evaluation, Host, HostError, OnError, PolicySource, Review, NoopObserver,
//!     Snapshot, Stages, api::meta::Operation,
//!     constraint::{Arena, Inventory},
//! };
//! use modgate_value::{Clock, Value, budget::Frozen, yaml};
//!
//! /// A host without a cluster, for which every namespace exists.
//! struct NoCluster;
//!
//! impl Host for NoCluster {
//!     fn clock(&self) -> &dyn Clock {
//!         &Frozen
//!     }
//!     fn namespace(&self, name: &str) -> Result<Value, HostError> {
//!         let metadata: Value = [("name", name.into())].into_iter().collect();
//!         Ok([("metadata", metadata)].into_iter().collect())
//!     }
//!     fn node(&self, name: &str) -> Result<Value, HostError> {
//!         Err(HostError::NotFound(format!("nodes \"{name}\" not found")))
//!     }
//! }
//!
//! let rule = yaml::value("
//! apiVersion: api.kubemod.io/v1beta1
//! kind: ModRule
//! metadata: {name: no-latest, namespace: shop}
//! spec:
//!   type: Reject
//!   match:
//!   - {select: $.kind, matchValue: Pod}
//!   - {select: '$.spec.containers[*].image', matchRegex: ':latest$'}
//! ")?;
//! let change = Change::Upsert(PolicySource::of_object(rule));
//! let update = Snapshot::new(EngineConfig::default()).apply(vec![change], OnError::Unload);
//! assert!(!update.has_errors());
//!
//! let pod = yaml::value("
//! apiVersion: v1
//! kind: Pod
//! metadata: {name: web, namespace: shop}
//! spec: {containers: [{name: web, image: 'web:latest'}]}
//! ")?;
//! let review = Review::of_object(pod, Operation::Create, "default");
//! let (inventory, mut arena) = (Inventory::default(), Arena::new());
//! let mut evaluation = Evaluation::new(&NoCluster, &inventory, &mut arena);
//! let decision = update.snapshot.decide(&review, Stages::ALL, &mut evaluation, &mut NoopObserver);
//! assert!(!decision.allowed);
//! assert_eq!(decision.rejections[0].rule, "shop/no-latest");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The engine deliberately does no IO, writes no logs and reads no clock. A [`Host`] gives it what
//! it needs from outside.
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
mod code;
mod config;
pub mod constraint;
pub mod cost;
pub mod coverage;
mod decide;
mod decision;
mod evaluation;
pub mod expansion;
pub mod explain;
mod fault;
mod faults;
pub mod gatekeeper;
pub mod guidance;
mod host;
pub mod jsonpatch;
pub mod lint;
pub mod matching;
pub mod modrule;
pub mod mutation;
mod policy;
pub mod provider;
mod review;
mod snapshot;
pub mod sync_data;

pub use code::Code;
pub use config::{
    EngineConfig, Lookup, MissingReference, NodeReferences, NodeView, ServedPolicies,
};
pub use decide::{
    DryRunError, NoopObserver, Observer, Plan, PlannedConstraint, PlannedResultant, Scope, Stage,
    Stages, Trace, UnsentByDefault, dry_run, lacks_template,
};
pub use decision::{
    AdmissionStatus, Decision, Failure, FailureKind, MutationStatus, Rejection, RuleFailure,
    Skipped, StageReport, StageReports,
};
pub use evaluation::Evaluation;
pub use faults::Faults;
pub use host::{Host, HostError};
pub use modgate_api as api;
pub use modgate_rego as rego;
pub use modgate_template as template;
pub use policy::{Change, OnError, PolicyId, PolicySource, Position, Problem, Severity};
pub use review::{CONTENTS, Review};
pub use snapshot::{Compiled, Expansion, Snapshot, Update};
