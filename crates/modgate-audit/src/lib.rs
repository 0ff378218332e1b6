//! Audits: what policies say of the objects that exist (spec `gatekeeper-validation`, section 7).
//!
//! [`Policies`] are evaluated for objects. [`audit`] evaluates every object of a source as it
//! arrives, on all cores, and keeps nothing of it: what comes out is a [`Report`], and each
//! [`Violation`] on its way there goes to a [`Sink`]. [`Incremental`] gives the same report again and
//! again and evaluates only what may have changed.
//!
//! ```
//! use std::sync::{Arc, atomic::AtomicBool};
//! use modgate_audit::{AuditOptions, Item, Options, ObjectRef, Policies, Sink, Violation, audit};
//! use modgate_engine::{
//!     Change, EngineConfig, Host, HostError, OnError, PolicySource, Snapshot, constraint::Inventory,
//! };
//! use modgate_value::{Clock, Value, budget::Frozen, yaml};
//! # struct NoCluster;
//! # impl Host for NoCluster {
//! #     fn clock(&self) -> &dyn Clock {
//! #         &Frozen
//! #     }
//! #     fn namespace(&self, name: &str) -> Result<Value, HostError> {
//! #         let metadata: Value = [("name", name.into())].into_iter().collect();
//! #         Ok([("metadata", metadata)].into_iter().collect())
//! #     }
//! #     fn node(&self, name: &str) -> Result<Value, HostError> {
//! #         Err(HostError::NotFound(format!("nodes \"{name}\" not found")))
//! #     }
//! # }
//!
//! /// Leaves every violation to the report.
//! struct ReportOnly;
//!
//! impl Sink for ReportOnly {
//!     fn violation(&self, _: &str, _: &Violation) {}
//! }
//!
//! let rule = yaml::value("
//! apiVersion: api.kubemod.io/v1beta1
//! kind: ModRule
//! metadata: {name: no-latest, namespace: shop}
//! spec:
//!   type: Reject
//!   match: [{select: '$.spec.containers[*].image', matchRegex: ':latest$'}]
//! ")?;
//! let pod = yaml::value("
//! apiVersion: v1
//! kind: Pod
//! metadata: {name: web, namespace: shop}
//! spec: {containers: [{name: web, image: 'web:latest'}]}
//! ")?;
//! let change = Change::Upsert(PolicySource::of_object(rule));
//! let snapshot = Snapshot::new(EngineConfig::default()).apply(vec![change], OnError::Unload).snapshot;
//! let policies = Policies::new(snapshot, Inventory::default(), Options::default());
//! let mut objects = vec![vec![Item::new(pod)]];
//! let stop = AtomicBool::new(false);
//! let options = AuditOptions { threads: 1, limit: 20, stop: &stop, statistics: None };
//! let report = audit("now", &policies, &mut || objects.pop(), &NoCluster, &ReportOnly, options);
//! assert_eq!(report.expect("not stopped").totals.sum(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What this crate deliberately does not do: list objects, write statuses, read clocks.
//!
//! # Limits
//!
//! Each constraint may spend on each object what
//! [`EngineConfig::constraint_limits`](modgate_engine::EngineConfig) allows, whatever the others
//! spend. A source hands out objects some at a time; in memory are those in the hands of a thread.

mod evaluate;
mod host;
mod incremental;
pub mod message;
mod object;
mod pass;
mod policies;
mod reference;
mod report;
mod rules;
mod sink;
mod unit;
mod violation;

pub use self::{
    incremental::{Incremental, Stale},
    object::{IntoItem, Item},
    pass::{AuditOptions, Source, audit},
    policies::{Options, Policies},
    reference::{ObjectRef, PolicyRef},
    report::{Audited, Counts, MAX_ERRORS, ObjectError, PolicySummary, Report, Totals, place},
    rules::{AUDIT, DENY, MUTATE, PATCH, REJECT, WARN},
    sink::{Sink, Texts, Told},
    violation::{SCOPED, Violation},
};
