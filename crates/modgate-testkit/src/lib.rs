//! The suites that prove modgate right: the corpus runner, its reports, and the list of deliberate
//! differences.
//!
//! A *corpus* is a folder of engine-neutral JSON files, each a table of inputs and the results the
//! original programs gave. [`Run`] finds the corpora, gives every file to the suite that knows its
//! shape ([`suites`]) and returns a [`Report`]. `cargo xtask conformance` prints it; the tests of
//! this crate run the same thing.
//!
//! Read [`Run`] and [`Verdict`] first. A case either passes, differs by a [`Decision`] that applies
//! to its input and prescribes the result, or fails; there is no list of exempt cases. A file, a
//! case or a member of a case that no suite recognises fails the run.
//!
//! This crate is never shipped.

pub mod client;
pub mod cluster;
mod compare;
pub mod fuzz;
pub mod gatekeeper;
mod kubemod;
mod languages;
pub mod steps;
pub mod suites;

pub use modgate_corpus::{
    Case, Decision, FileReport, Report, Roots, Verdict, corpus, decision, members, pages, program,
    report,
};
pub use modgate_rego_corpora as rego;
pub use suites::Run;

/// Random ModRules beside the original: what of a difference is decided.
pub mod modrules {
    pub use crate::kubemod::decided::{Answered, decided, decided_rules};
}
