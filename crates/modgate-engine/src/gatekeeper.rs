//! What Gatekeeper's webhooks do with a request (spec `gatekeeper-validation`, section 6).
//!
//! [`admit`] is the whole of `/v1/admit` but its HTTP, and [`admit_label`] that of
//! `/v1/admitlabel`; read those first. [`check_resource`] judges the objects an installation is
//! made of, [`Exclusions`] says which namespaces its Config leaves alone.

mod admit;
mod exclusion;
mod label;
mod mutate;
mod resources;

pub(crate) use self::mutate::{run_id, with_namespace};
pub use self::{
    admit::{Answer, Installation, Outcome, admit},
    exclusion::{Exclusions, subject_namespace},
    label::{ExemptNamespaces, IGNORE_LABEL, admit_label},
    mutate::{Mutation, MutationStatus, explain_mutation, mutate},
    resources::{check_resource, lacks_template},
};

use modgate_api::{admission::AdmissionRequest, meta::GroupVersionKind};

use crate::constraint::Verdict;

/// The kind a request is about: as the API server says, or else as the object does.
fn kind_of(request: &AdmissionRequest) -> GroupVersionKind {
    if !request.kind.kind.is_empty() {
        return request.kind.clone();
    }
    let object = request.object.as_ref().or(request.old_object.as_ref());
    object.map(GroupVersionKind::of_object).unwrap_or_default()
}

fn is_core_namespace(kind: &GroupVersionKind) -> bool {
    kind.group.is_empty() && kind.kind == "Namespace"
}

fn allowed(message: impl Into<String>) -> Verdict {
    Verdict { allowed: true, code: 200, reason: "", message: message.into(), warnings: Vec::new() }
}

/// Without a reason, as all answers but those of policies.
fn refused(code: u16, message: String) -> Verdict {
    Verdict { allowed: false, code, reason: "", message, warnings: Vec::new() }
}
