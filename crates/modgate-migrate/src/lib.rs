//! The effect on an installation of KubeMod or Gatekeeper when modgate takes over.
//!
//! [`check`] reads a list of objects, from a cluster or from files, and makes a [`Report`] of it:
//! which policies run unchanged, which differ by a decision of `docs/compatibility.md` and why it
//! is known that *they* do, which flags mean something else, and how to switch, command by command.
//! It is pure: reading objects and printing reports is for others.
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
    object::{Found, GROUPS, Subject},
    policies::{Evaluator, OwnPolicy, RESOURCES},
    report::{Chart, Installed, Remark, Report, Unset, check},
    steps::Step,
};
