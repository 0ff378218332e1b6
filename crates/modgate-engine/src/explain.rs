//! How a decision came about, as data for the edge to render.

use modgate_value::Value;
use serde::Serialize;

use crate::{PolicyId, Position, Rejection};

/// The actions of one rule.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleTrace {
    /// Which rule.
    pub policy: PolicyId,
    /// `Patch` or `Reject`.
    pub rule_type: String,
    /// File or object the rule came from.
    pub origin: String,
    /// Where it starts in its file.
    pub position: Option<Position>,
    /// Its tier.
    pub tier: i16,
    /// Its result.
    pub outcome: RuleOutcome,
    /// Its criteria items, as far as they were evaluated.
    pub criteria: Vec<CriterionTrace>,
    /// Its patch operations.
    pub operations: Vec<OperationTrace>,
}

/// The result of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "result", content = "cause")]
#[non_exhaustive]
pub enum RuleOutcome {
    /// Not a candidate: why.
    NotCandidate(String),
    /// A criteria item was negative.
    NoMatch,
    /// Every criteria item was positive.
    Matched,
    /// A Patch rule that matched and was applied.
    Patched,
    /// A Reject rule that matched.
    Rejected(Rejection),
    /// The rule matched but could not do its work: why.
    Failed(String),
}

/// How one criteria item was decided.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CriterionTrace {
    /// Index in `spec.match`.
    pub index: usize,
    /// The expression.
    pub select: String,
    /// The expected result, in words: `matchValue "Pod"`.
    pub test: String,
    /// Where the item starts in its file.
    pub position: Option<Position>,
    /// The texts the expression yielded, in order.
    pub values: Vec<String>,
    /// Why the item came out as it did.
    pub explanation: String,
    /// Whether the item is positive.
    pub positive: bool,
}

/// The effect of one operation of a patch on one selected item.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OperationTrace {
    /// Index in `spec.patch`.
    pub index: usize,
    /// `add`, `replace` or `remove`.
    pub op: String,
    /// Where the operation starts in its file.
    pub position: Option<Position>,
    /// The path with its placeholders filled in.
    pub path: String,
    /// The value rendered, before it is read as YAML; absent where none was given.
    pub rendered: Option<String>,
    /// The value put in place.
    pub value: Option<Value>,
    /// The value before the change.
    pub before: Option<Value>,
    /// The effect: `added`, `replaced`, `removed`, `nothing to remove`, or why it failed.
    pub effect: String,
}
