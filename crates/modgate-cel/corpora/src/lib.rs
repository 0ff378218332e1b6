//! The suites of `modgate-cel`: recorded expressions, and the CEL of the public
//! Gatekeeper library.
//!
//! [`SUITES`] names the files of a corpus and what runs them; the tests of `modgate-cel` run them,
//! and so does `cargo xtask conformance`. This crate is never shipped.

mod functions;
pub mod library;
mod pairs;
mod recorded;

pub use functions::functions;
pub use pairs::{kubernetes, pairs, typings};
pub use recorded::{costs, expressions};

use modgate_corpus::Suite;

/// The files of a corpus that hold CEL.
pub const SUITES: &[Suite] = &[
    Suite { name: "languages/cel.json", run: expressions },
    Suite { name: "languages/cel-costs.json", run: costs },
    Suite { name: "languages/cel-libraries.json", run: costs },
    Suite { name: "languages/cel-functions.json", run: functions },
    Suite { name: "languages/cel-pairs-*.json", run: pairs },
    Suite { name: "languages/cel-typings.json", run: typings },
    Suite { name: "languages/cel-calls.json", run: typings },
    Suite { name: "languages/cel-kubernetes.json", run: kubernetes },
];
