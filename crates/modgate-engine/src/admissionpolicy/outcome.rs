//! The result of evaluating policies against one request.

use std::{collections::BTreeMap, fmt, str::FromStr};

use modgate_value::Str;

use crate::PolicyId;

/// The action of a binding for a validation that is false.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ValidationAction {
    /// The request is denied.
    Deny,
    /// The user gets a warning.
    Warn,
    /// The audit event gets an annotation.
    Audit,
}

impl ValidationAction {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Audit, Self::Deny, Self::Warn];

    /// Its name in `validationActions`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deny => "Deny",
            Self::Warn => "Warn",
            Self::Audit => "Audit",
        }
    }
}

impl fmt::Display for ValidationAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ValidationAction {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|action| action.as_str() == text).ok_or(())
    }
}

/// The `reason` of the status that a denial is answered with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Reason {
    /// 403
    Forbidden,
    /// 422
    #[default]
    Invalid,
    /// 413
    RequestEntityTooLarge,
    /// 500: a mutation made something that is not an object of its kind.
    InternalError,
    /// 503: the types of the kind are not known.
    ServiceUnavailable,
}

impl Reason {
    /// The reasons that a validation may name, sorted.
    pub const ALL: [Self; 3] = [Self::Forbidden, Self::Invalid, Self::RequestEntityTooLarge];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Forbidden => "Forbidden",
            Self::Invalid => "Invalid",
            Self::RequestEntityTooLarge => "RequestEntityTooLarge",
            Self::InternalError => "InternalError",
            Self::ServiceUnavailable => "ServiceUnavailable",
        }
    }

    /// The HTTP status.
    pub fn code(self) -> u16 {
        match self {
            Self::Forbidden => 403,
            Self::Invalid => 422,
            Self::RequestEntityTooLarge => 413,
            Self::InternalError => 500,
            Self::ServiceUnavailable => 503,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Reason {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text).ok_or(())
    }
}

/// The kinds of policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyKind {
    /// MutatingAdmissionPolicy.
    Mutating,
    /// ValidatingAdmissionPolicy.
    Validating,
}

impl PolicyKind {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mutating => modgate_api::admissionregistration::MUTATING_POLICY_KIND,
            Self::Validating => modgate_api::admissionregistration::POLICY_KIND,
        }
    }

    /// The id of a policy of this kind.
    pub fn id(self, name: &Str) -> PolicyId {
        PolicyId {
            group: modgate_api::admissionregistration::GROUP.into(),
            kind: self.as_str().into(),
            namespace: Str::default(),
            name: name.clone(),
        }
    }
}

/// One reason to deny a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// The kind of the policy.
    pub kind: PolicyKind,
    /// The policy's name.
    pub policy: Str,
    /// The binding's name; `None` where the policy itself is configured wrongly.
    pub binding: Option<Str>,
    /// The position in `spec.validations`; `None` where the request was denied before or after them.
    pub validation: Option<usize>,
    /// The status reason.
    pub reason: Reason,
    /// The validation's message, or the error.
    pub message: String,
}

impl Denial {
    /// The HTTP status. The API server answers every failure of a policy that mutates with 403.
    pub fn code(&self) -> u16 {
        match (self.kind, self.reason) {
            (PolicyKind::Mutating, Reason::Invalid) => Reason::Forbidden.code(),
            (_, reason) => reason.code(),
        }
    }
}

impl fmt::Display for Denial {
    /// As the API server words it, without the object in front.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { policy, binding, message, .. } = self;
        match (self.kind, self.reason, binding) {
            (_, Reason::InternalError | Reason::ServiceUnavailable, _) => f.write_str(message),
            (PolicyKind::Validating, _, None) => {
                write!(f, "ValidatingAdmissionPolicy '{policy}' denied request: {message}")
            }
            (PolicyKind::Validating, _, Some(binding)) => write!(
                f,
                "ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: \
                 {message}"
            ),
            (PolicyKind::Mutating, _, None) => {
                write!(f, "policy {:?} denied request: {message}", policy.as_str())
            }
            (PolicyKind::Mutating, _, Some(binding)) => {
                write!(f, "policy '{policy}' with binding '{binding}' denied request: {message}")
            }
        }
    }
}

/// Characters of all warnings about a request, beyond which each is cut
/// (`apiserver/pkg/endpoints/filters/warning.go`).
const MAX_WARNINGS: usize = 4096;

/// Characters of a warning that is cut.
const MAX_CUT_WARNING: usize = 256;

/// Whether the API server drops a warning with this text: an HTTP header has no control characters.
pub(super) fn is_dropped(warning: &str) -> bool {
    warning.contains(char::is_control)
}

/// The decision of policies about a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyDecision {
    /// Every reason to deny it, in the order of policies, bindings, parameters and validations.
    /// The API server reports the first one only.
    pub denials: Vec<Denial>,
    /// Validations that failed and do not deny, with what their binding does above all.
    pub remarks: Vec<(ValidationAction, Denial)>,
    /// For the user, one line each.
    pub warnings: Vec<String>,
    /// Annotations of the audit event.
    pub audit_annotations: BTreeMap<String, String>,
    /// How many pairs of policy and binding were evaluated.
    pub evaluated: usize,
}

impl PolicyDecision {
    /// Whether the request may go on.
    pub fn allowed(&self) -> bool {
        self.denials.is_empty()
    }

    /// Adds a warning; the API server gives each once, and none that no HTTP header can have.
    pub(super) fn warn(&mut self, warning: String) {
        if !is_dropped(&warning) && !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// Cuts warnings as the API server does once they are too long together.
    pub(super) fn cut_warnings(&mut self) {
        let length = |text: &String| text.chars().count();
        if self.warnings.iter().map(length).sum::<usize>() <= MAX_WARNINGS {
            return;
        }
        let mut written = 0;
        self.warnings.retain_mut(|warning| {
            let fits = written < MAX_WARNINGS;
            if let Some((end, _)) = warning.char_indices().nth(MAX_CUT_WARNING) {
                warning.truncate(end);
            }
            written += length(warning);
            fits
        });
    }

    /// Adds an annotation; a key keeps its first value, as in the API server.
    pub(super) fn annotate(&mut self, key: String, value: String) {
        self.audit_annotations.entry(key).or_insert(value);
    }
}
