//! Corpora: where they are, how their files are read, and how a run is reported.
//!
//! A *corpus* is a folder of engine-neutral JSON files, each a table of inputs and the results the
//! original programs gave. A suite reads one kind of file and turns each case into a [`Verdict`].
//! The suites stand with what they test: those of a language beside its crate, the others in
//! `modgate-testkit`, which runs all of them.
//!
//! Tests that measure processor time do it with [`time`].
//!
//! This crate is never shipped.

pub mod clock;
pub mod corpus;
pub mod decision;
pub mod members;
pub mod pages;
pub mod program;
pub mod report;
pub mod suite;
pub mod time;

pub use clock::CountingClock;
pub use corpus::{CorpusFile, Roots};
pub use decision::Decision;
pub use members::Members;
pub use report::{Case, FileReport, Report, Verdict};
pub use suite::Suite;
pub use time::{allowed, spent};
