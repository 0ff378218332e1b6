//! Audits: what policies say of the objects that exist (spec `gatekeeper-validation`, section 7).
//!
//! [`Policies`] are evaluated for objects. [`audit`] evaluates every object of a source as it
//! arrives, on all cores, and keeps nothing of it: what comes out is a [`Report`], and each
//! [`Violation`] on its way there goes to a [`Sink`]. [`Incremental`] gives the same report again and
//! again and evaluates only what may have changed.
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
    object::Item,
    pass::{AuditOptions, Source, audit},
    policies::{Options, Policies},
    reference::{ObjectRef, PolicyRef},
    report::{Counts, MAX_ERRORS, ObjectError, PolicySummary, Report, Totals, place},
    rules::{AUDIT, DENY, MUTATE, PATCH, REJECT, WARN},
    sink::Sink,
    violation::{SCOPED, Violation},
};
