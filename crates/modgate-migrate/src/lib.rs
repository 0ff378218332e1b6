//! The effect on an installation of KubeMod or Gatekeeper when modgate takes over.
//!
//! [`check`] reads a list of objects, from a cluster or from files, and returns a [`Report`]: the
//! policies that run unchanged, those that differ by a decision of `docs/compatibility.md` with the
//! evidence, the flags whose meaning changes, and the commands of the switch. It is pure: callers read
//! objects and print reports.
//!
//! ```
//! use modgate_engine::EngineConfig;
//! use modgate_migrate::{Chart, check};
//!
//! // No flag of the originals is refused or without effect.
//! let accepts = |_: &str| -> Result<Option<String>, String> { Ok(None) };
//! let report = check(&[], &EngineConfig::default(), &accepts, Chart::default());
//! assert!(report.originals.is_empty());
//! ```
//!
//! This crate deliberately does not list every decision for every user. A decision is named where an
//! object shows that it is affected ([`Difference`]), and nowhere else.
//!
//! # Invariants
//!
//! - Policies are checked by the engine that will run them, never by a copy of its rules.
//! - No command deletes a CRD, or a namespace that holds a policy, or a bundle of objects that
//!   might contain one.

mod arguments;
mod carry;
mod detect;
mod difference;
mod flags;
mod helm;
mod installation;
mod object;
mod places;
mod policies;
mod report;
mod steps;
mod values;

pub use self::{
    carry::{Carried, Lost},
    difference::Difference,
    flags::{Accepts, Fate, Flag},
    helm::Left,
    installation::{Original, Part, Workload, parts},
    object::{GROUPS, InstalledObject, Subject},
    policies::{Evaluator, OwnPolicy, RESOURCES},
    report::{Chart, Installed, Remark, Report, Unset, check},
    steps::Step,
};
