//! What proves modgate right: the corpus runner, its reports, and the list of deliberate
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

pub mod cel_library;
pub mod cluster;
mod compare;
pub mod corpus;
pub mod decision;
pub mod fuzz;
pub mod gatekeeper;
mod kubemod;
mod languages;
mod members;
pub mod rego;
pub mod report;
pub mod suites;

pub use corpus::Roots;
pub use decision::Decision;
pub use report::{Case, FileReport, Report, Verdict};
pub use suites::Run;
