//! The decisions of Gatekeeper's webhooks about a request (spec `gatekeeper-validation`, section 6).
//!
//! [`Snapshot::decide`](crate::Snapshot::decide) runs them; here is what is Gatekeeper's own.
//! [`Exclusions`] are the namespaces its Config leaves alone, [`admit_label`] answers `/v1/admitlabel`.

mod exclusion;
mod installation;
mod label;
mod run;

pub use self::{
    exclusion::Exclusions,
    installation::Installation,
    label::{ExemptNamespaces, admit_label},
};
pub(crate) use self::{
    exclusion::subject_namespace,
    label::{IGNORE_LABEL, MODRULE_IGNORE_LABEL},
    run::{run_id, with_namespace},
};

use modgate_api::{admission::AdmissionRequest, meta::GroupVersionKind};

/// The kind of a request: that of the request itself, or else that of its object.
pub(crate) fn kind_of(request: &AdmissionRequest) -> GroupVersionKind {
    if !request.kind.kind.is_empty() {
        return request.kind.clone();
    }
    let object = request.object.as_ref().or(request.old_object.as_ref());
    object.map(GroupVersionKind::of_object).unwrap_or_default()
}
