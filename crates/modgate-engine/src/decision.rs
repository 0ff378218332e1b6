//! The result of a run of stages.

use std::{collections::BTreeMap, fmt};

use modgate_api::{constraints::EnforcementAction, meta::Operation};
use modgate_value::{Str, Value};
use serde::{Serialize, Serializer};

use crate::{
    HostError,
    admissionpolicy::{Denial, ValidationAction},
    constraint::{AdmissionError, Violation},
    expansion::ExpansionError,
    guidance::Guidance,
    jsonpatch::PatchOperation,
    mutation::{Mutated, MutationError},
};

/// The answer to a review.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Whether the request may go on.
    pub allowed: bool,
    /// `status.code` of the response, an HTTP status.
    pub code: u16,
    /// The text of the answer, in the words of the last stage that has any: KubeMod's (spec
    /// `kubemod.md`, 5.6 and 7.2), or Gatekeeper's message.
    pub reason: String,
    /// One per Reject rule that rejects, in order.
    pub rejections: Vec<Rejection>,
    /// Every violation of a constraint, in the order in which they are shown; also those that lead to
    /// nothing.
    pub violations: Vec<Violation>,
    /// Every reason of one of the cluster's own policies to deny the request; the first is what the
    /// API server answers.
    pub denials: Vec<Denial>,
    /// Findings that only warn, or that are written into the audit event.
    pub remarks: Vec<(ValidationAction, Denial)>,
    /// Annotations of the audit event.
    pub audit_annotations: BTreeMap<String, String>,
    /// For the user who made the request, one line each.
    pub warnings: Vec<String>,
    /// The changes from the object as sent to the patched one; empty when denied.
    pub patch: Vec<PatchOperation>,
    /// The object with the patch applied, also when the request is denied.
    pub object: Value,
    /// Rules that could not do their work, for the operator's log.
    pub failures: Vec<RuleFailure>,
    /// The results of the mutators that ran: for the log and the metrics.
    pub mutated: Option<Mutated>,
    /// The result of each stage.
    pub stages: StageReports,
    /// Why a stage of Gatekeeper came to no end; the request is not allowed then, and `reason` is the
    /// text.
    pub failure: Option<Box<Failure>>,
}

/// Why a stage of Gatekeeper came to no end. The texts are those of its webhooks.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The request has no object to mutate.
    #[error("failed to decode the object of the request")]
    NoObject,
    /// The mutators need the object's Namespace.
    #[error("{0}")]
    MutatorsNamespace(HostError),
    /// A mutator failed.
    #[error("{0}")]
    Mutation(MutationError),
    /// The constraints need the object's Namespace.
    #[error("failed to create augmentedReview: {0}")]
    ConstraintsNamespace(HostError),
    /// The cluster's own policies need the object's Namespace.
    #[error("{0}")]
    PoliciesNamespace(String),
    /// There is nothing to review.
    #[error("error reviewing resource {name}: {error}")]
    Admission {
        /// The name in the request.
        name: Str,
        /// The cause.
        error: AdmissionError,
    },
    /// The object cannot be expanded.
    #[error("unable to expand object: {0}")]
    Expansion(ExpansionError),
}

impl Failure {
    /// Whether the failure is ours, not one of the request or of a policy.
    fn is_ours(&self) -> bool {
        matches!(
            self,
            Self::MutatorsNamespace(_) | Self::ConstraintsNamespace(_) | Self::PoliciesNamespace(_)
        )
    }
}

/// The result of each stage.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StageReports {
    /// MutatingAdmissionPolicies.
    pub mutating_policies: StageReport,
    /// ValidatingAdmissionPolicies.
    pub validating_policies: StageReport,
    /// Gatekeeper's mutators.
    pub mutators: StageReport,
    /// KubeMod's ModRules.
    pub modrules: StageReport,
    /// The checks of Gatekeeper's own resources.
    pub checks: StageReport,
    /// The resultants of the object.
    pub expansion: StageReport,
    /// The constraints.
    pub constraints: StageReport,
}

impl StageReports {
    /// The stages by name that were not evaluated although they were wanted, and why.
    pub fn skipped(&self) -> impl Iterator<Item = (&'static str, &Skipped)> {
        let stages = [
            ("mutators", &self.mutators),
            ("modrules", &self.modrules),
            ("constraints", &self.constraints),
        ];
        stages.into_iter().filter_map(|(name, report)| match report {
            StageReport::Skipped(why) => Some((name, why)),
            _ => None,
        })
    }
}

/// The result of a stage.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum StageReport {
    /// It was not wanted, or the request was denied before.
    #[default]
    NotRun,
    /// The request does not reach it.
    Skipped(Skipped),
    /// It was evaluated.
    Done,
    /// It denied the request, or failed, which denies it too. No later stage was run.
    Denied,
}

impl StageReport {
    const fn of(allowed: bool) -> Self {
        if allowed { Self::Done } else { Self::Denied }
    }
}

/// How a request to `/v1/admit` is counted: `admission_status` in Gatekeeper's metrics (ME-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdmissionStatus {
    /// Allowed, with or without warnings.
    Allow,
    /// Denied by policies.
    Deny,
    /// Denied because something went wrong.
    Error,
}

impl AdmissionStatus {
    /// The value of the label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Error => "error",
        }
    }
}

/// How a request to `/v1/mutate` is counted: `mutation_status` in Gatekeeper's metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MutationStatus {
    /// Decided.
    Success,
    /// In a namespace that is excluded.
    Skip,
    /// Failed (`fix-metric-error`).
    Error,
}

impl MutationStatus {
    /// The value of the label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Skip => "skip",
            Self::Error => "error",
        }
    }
}

/// A Reject rule's rejection of a request. It is shown as `ns/name` or `ns/name: "message"`,
/// with the guidance behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// `namespace/name` of the rule.
    pub rule: Str,
    /// Its message, if it has one.
    pub message: Option<String>,
    /// The owner of the rule, and what to do.
    pub guidance: Guidance,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.message {
            None => f.write_str(&self.rule)?,
            Some(message) => write!(f, "{}: \"{message}\"", self.rule)?,
        }
        self.guidance.fmt(f)
    }
}

impl Serialize for Rejection {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A rule that could not do its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleFailure {
    /// The failures.
    pub kind: FailureKind,
    /// `namespace/name` of the rule; empty when the failure is not of one rule.
    pub rule: String,
    /// The cause.
    pub message: String,
}

/// The kind of a failure, which decides the line in KubeMod's log (spec `kubemod.md`, 7.8).
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
    pub fn unchanged(object: Value) -> Self {
        Self {
            allowed: true,
            code: 200,
            reason: reason::UNCHANGED.to_owned(),
            rejections: Vec::new(),
            denials: Vec::new(),
            remarks: Vec::new(),
            audit_annotations: BTreeMap::new(),
            warnings: Vec::new(),
            violations: Vec::new(),
            patch: Vec::new(),
            object,
            failures: Vec::new(),
            mutated: None,
            stages: StageReports::default(),
            failure: None,
        }
    }

    /// Allowed without a word: the answer of a webhook that has nothing to decide.
    pub fn allowed() -> Self {
        Self { reason: String::new(), ..Self::unchanged(Value::Null) }
    }

    /// The decision to which constraints alone come.
    pub fn of_violations(violations: Vec<Violation>) -> Self {
        let mut decision = Self::allowed();
        decision.conclude(violations);
        decision
    }

    /// How `/v1/admit` counts it; `None` for what Gatekeeper does not count.
    pub fn admission_status(&self) -> Option<AdmissionStatus> {
        match (&self.stages.constraints, self.allowed) {
            (StageReport::NotRun | StageReport::Skipped(Skipped::OwnAccount), _) => None,
            (_, true) => Some(AdmissionStatus::Allow),
            (_, false) if self.code == 403 => Some(AdmissionStatus::Deny),
            (_, false) => Some(AdmissionStatus::Error),
        }
    }

    /// How `/v1/mutate` counts it; `None` for what Gatekeeper does not count.
    pub fn mutation_status(&self) -> Option<MutationStatus> {
        match &self.stages.mutators {
            StageReport::NotRun => None,
            StageReport::Skipped(Skipped::Excluded) => Some(MutationStatus::Skip),
            StageReport::Skipped(_) => None,
            StageReport::Done => Some(MutationStatus::Success),
            StageReport::Denied => Some(MutationStatus::Error),
        }
    }

    /// A stage that the request does not reach.
    pub(crate) fn skip(&mut self, why: &Skipped) {
        let answer = why.answer();
        if !answer.is_empty() {
            self.reason = answer.to_owned();
        }
    }

    /// A denial that no policy causes.
    pub(crate) fn deny(&mut self, code: u16, message: String) {
        self.allowed = false;
        self.code = code;
        self.reason = message;
        self.patch.clear();
    }

    /// Whether nothing was decided for a failure of ours, as opposed to one of the request or of a
    /// policy: the `failurePolicy` of the webhook is for that.
    pub fn is_undecided(&self) -> bool {
        self.failure.as_ref().is_some_and(|failure| failure.is_ours())
    }

    /// A stage that came to no end: a denial with code 500 (GR-8).
    pub(crate) fn fail(&mut self, failure: Failure) {
        self.deny(500, failure.to_string());
        self.failure = Some(Box::new(failure));
    }

    /// Warnings of a stage that allows the request.
    pub(crate) fn warn(&mut self, warnings: Vec<String>) {
        if !warnings.is_empty() {
            self.code = 299;
            self.warnings.extend(warnings);
        }
    }

    /// The decision of ModRules about the object as the mutators left it.
    pub(crate) fn add_modrules(&mut self, decided: Self) {
        let Self {
            allowed, code, mut reason, rejections, warnings, patch, object, failures, ..
        } = decided;
        if reason == reason::UNCHANGED && !self.patch.is_empty() {
            reason = reason::PATCHED.to_owned();
        }
        if allowed {
            // One patch after the other is a patch.
            self.patch.extend(patch);
        } else {
            self.patch.clear();
        }
        self.allowed = allowed;
        self.code = code;
        self.reason = reason;
        self.rejections = rejections;
        self.warnings.extend(warnings);
        self.object = object;
        self.failures.extend(failures);
        self.stages.modrules = StageReport::of(allowed);
    }

    /// Violations of constraints, in the order in which they are shown. A violation may both deny and
    /// warn (EA-2).
    pub(crate) fn conclude(&mut self, violations: Vec<Violation>) {
        let meant = |action: EnforcementAction| {
            violations.iter().filter(move |violation| violation.actions.contains(&action))
        };
        self.warn(meant(EnforcementAction::Warn).map(Violation::line).collect());
        let denials = || meant(EnforcementAction::Deny);
        // Most lines have no guidance.
        let room = |it: &Violation| it.constraint.len() + it.message.len() + 4;
        let mut reason = String::with_capacity(denials().map(room).sum());
        for (index, violation) in denials().enumerate() {
            if index > 0 {
                reason.push('\n');
            }
            violation.add_line(&mut reason);
        }
        if denials().next().is_some() {
            self.deny(403, reason);
        }
        self.stages.constraints = StageReport::of(self.allowed);
        self.violations = violations;
    }
}

/// Why a stage is not evaluated for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Skipped {
    /// The namespace carries the label that says so.
    IgnoreLabel(&'static str),
    /// The object is in the namespace that the engine runs in.
    OwnNamespace,
    /// The webhook does not receive requests of this operation.
    Operation(Operation),
    /// The webhook does not receive requests for subresources, such as this one.
    SubResource(Str),
    /// The webhook does not receive requests for this kind.
    Kind(Str),
    /// No webhook receives requests for this kind.
    ExemptKind(Str),
    /// The engine itself makes the request (GR-1).
    OwnAccount,
    /// Only what is created or updated is mutated.
    NotWritten,
    /// Objects of Gatekeeper's own groups are not mutated.
    OwnResource,
    /// The Config excludes the namespace (6.7).
    Excluded,
}

impl Skipped {
    /// The answer of Gatekeeper's webhooks; empty for requests that they never receive.
    pub(crate) fn answer(&self) -> &'static str {
        match self {
            Self::OwnAccount => "Gatekeeper does not self-manage",
            Self::NotWritten => "Mutating only on create or update",
            Self::OwnResource => "Not mutating gatekeeper resources",
            Self::Excluded => "Namespace is set to be ignored by Gatekeeper config",
            _ => "",
        }
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IgnoreLabel(label) => write!(f, "the namespace has the label `{label}`"),
            Self::OwnNamespace => f.write_str("it is the namespace of modgate itself"),
            Self::Operation(operation) => {
                write!(f, "the webhook does not receive {operation} requests")
            }
            Self::SubResource(name) => {
                write!(
                    f,
                    "the webhook does not receive requests for subresources, such as `{name}`"
                )
            }
            Self::ExemptKind(kind) => write!(f, "the API server sends `{kind}` to no webhook"),
            Self::Kind(kind) => write!(f, "`{kind}` is not among the kinds of the webhook"),
            Self::OwnAccount | Self::NotWritten | Self::OwnResource | Self::Excluded => {
                f.write_str(self.answer())
            }
        }
    }
}
