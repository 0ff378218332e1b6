//! The webhooks that evaluate no policy: one checks which Namespaces have an ignore label, one whether
//! a ModRule loads.
//!
//! The API server calls them beside the webhook of the constraints. A command in its place makes the
//! same checks before the constraints.

use modgate_api::{meta::GroupVersionKind, modrule};

use super::{Observer, Run};
use crate::{
    Skipped, StageReport,
    gatekeeper::{admit_label, kind_of},
    modrule::validate_modrule,
};

impl<O: Observer> Run<'_, '_, O> {
    /// Whether these webhooks admit the request, which reaches Gatekeeper's stages or not.
    pub(super) fn passes_webhooks_without_policies(
        &mut self,
        reached: &Result<(), Skipped>,
    ) -> bool {
        let request = self.review.request();
        if !request.operation.is_write() || !request.sub_resource.is_empty() {
            return true;
        }
        let kind = kind_of(request);
        if kind.is_namespace() {
            return *reached == Err(Skipped::OwnNamespace) || self.may_be_labelled();
        }
        !is_modrule(&kind) || self.loads_as_modrule()
    }

    /// Whether the Namespace may have the ignore labels that it has.
    fn may_be_labelled(&mut self) -> bool {
        let installation = &self.snapshot.config().installation;
        let answer = admit_label(self.review.request(), installation);
        if !answer.allowed {
            self.refuse(answer.code, answer.reason);
        }
        answer.allowed
    }

    /// Whether the ModRule loads.
    fn loads_as_modrule(&mut self) -> bool {
        let object = self.review.request().object.clone().unwrap_or_default();
        match validate_modrule(&object, self.snapshot.config()) {
            Ok(warnings) => {
                self.decision.warnings.extend(warnings);
                true
            }
            Err(denied) => {
                self.refuse(denied.code, denied.reason);
                self.decision.warnings.extend(self.snapshot.advice(&object));
                false
            }
        }
    }

    fn refuse(&mut self, code: u16, reason: String) {
        self.decision.deny(code, reason);
        self.decision.stages.checks = StageReport::Denied;
    }
}

fn is_modrule(kind: &GroupVersionKind) -> bool {
    kind.kind == modrule::KIND && kind.api_version() == modrule::API_VERSION
}
