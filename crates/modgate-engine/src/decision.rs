//! What a review comes to.

use modgate_value::Value;

use crate::jsonpatch::PatchOperation;

/// The answer to a review.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Whether the request may go on.
    pub allowed: bool,
    /// `status.code` of the response, an HTTP status.
    pub code: u16,
    /// `status.reason` of the response: KubeMod's texts (spec `kubemod.md`, 5.6 and 7.2).
    pub reason: String,
    /// One entry per rule that rejects, in order: `ns/name` or `ns/name: "message"`.
    pub rejections: Vec<String>,
    /// For the user who made the request, one line each.
    pub warnings: Vec<String>,
    /// What changes the object as sent into the patched one; empty when denied.
    pub patch: Vec<PatchOperation>,
    /// The object with the patch applied, also when the request is denied.
    pub object: Value,
    /// Rules that could not do their work, for the operator's log.
    pub failures: Vec<RuleFailure>,
}

/// A rule that could not do its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleFailure {
    /// What failed.
    pub kind: FailureKind,
    /// `namespace/name` of the rule; empty when the failure is not of one rule.
    pub rule: String,
    /// The cause.
    pub message: String,
}

/// What failed, hence which line KubeMod's log has for it (spec `kubemod.md`, 7.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureKind {
    /// The working document could not be made.
    References,
    /// A rule's operations could not be calculated; its patch is dropped.
    CalculatePatch,
    /// A rule's operations could not be applied; its patch is dropped.
    ApplyPatch,
    /// A rule's operations do not fit the last-applied annotation, which stays as it was.
    LastApplied,
    /// A reject message could not be rendered; the rejection stands without it.
    RejectMessage,
    /// A Patch rule on DELETE wanted to change the object; dropped.
    PatchOnDelete,
    /// A rule could not be decided within its budget.
    Budget,
    /// The pod of a binding could not be given its node's name.
    PodBinding,
}

impl FailureKind {
    /// The `msg` of KubeMod's log line where it has one.
    pub fn log_message(self) -> &'static str {
        match self {
            Self::References => "Failed to inject syntheticRefs into object manifest",
            Self::CalculatePatch => "failed calculating patch for ModRule",
            Self::ApplyPatch => "failed applying patch for ModRule",
            Self::LastApplied => {
                "failed applying patch for ModRule to last-applied-configuration annotation"
            }
            Self::RejectMessage => "invalid rejectMessage template",
            Self::PatchOnDelete => "dropped patch of ModRule on DELETE",
            Self::Budget => "ModRule exceeded its budget",
            Self::PodBinding => "failed to inject the node's name into a pod",
        }
    }
}

/// Reasons KubeMod gives (spec `kubemod.md`, 7.2).
pub(crate) mod reason {
    pub(crate) const UNCHANGED: &str = "non-patched ok";
    pub(crate) const PATCHED: &str = "patched ok";
    pub(crate) const NO_REFERENCES: &str = "failed to inject syntheticRefs into object manifest";
    pub(crate) const REJECTED: &str = "operation rejected by the following ModRule(s): ";
}

impl Decision {
    /// Allowed, object unchanged.
    pub(crate) fn unchanged(object: Value) -> Self {
        Self {
            allowed: true,
            code: 200,
            reason: reason::UNCHANGED.to_owned(),
            rejections: Vec::new(),
            warnings: Vec::new(),
            patch: Vec::new(),
            object,
            failures: Vec::new(),
        }
    }
}
