//! A difference by decision.

use serde::Serialize;

use crate::object::Subject;

/// An object that a decision is known to be about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Difference {
    /// The object.
    pub object: Subject,
    /// The row of `docs/compatibility.md`.
    pub decision: &'static str,
    /// The field that shows it, as Kubernetes writes paths; empty for the whole.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
    /// Where that stands: `file:line:column`, or the URL of the cluster.
    pub place: String,
    /// The behaviour now, and before.
    pub sentence: String,
}
