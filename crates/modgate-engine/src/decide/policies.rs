//! The cluster's own policies as stages.

use super::{Failure, Observer, Run, StageReport};
use crate::{
    HostError,
    admissionpolicy::{Denial, Surroundings, Types},
    jsonpatch,
};

impl<O: Observer> Run<'_, '_, O> {
    /// MutatingAdmissionPolicies.
    pub(super) fn mutating_policies(&mut self) {
        let (snapshot, host, meter) = (self.snapshot, self.evaluation.host, self.evaluation.meter);
        if snapshot.cluster_policies().is_empty() {
            return;
        }
        let namespace = self.review.store_namespace().to_owned();
        let read = || namespace_of(host, &namespace);
        let types = Types::kubernetes();
        let surroundings = Surroundings {
            namespace: &read,
            params: host.parameters(),
            authorizer: host.authorizer(),
            types: &types,
            conditions_see_namespace: false,
        };
        let budget = meter.budget(snapshot.config().constraint_limits, host.uptime(), host.clock());
        let mutated = match snapshot.cluster_policies().mutate(&self.review, &surroundings, &budget)
        {
            Ok(mutated) => mutated,
            Err(message) => return self.unread(message, true),
        };
        if !mutated.denials.is_empty() {
            self.decision.stages.mutating_policies = StageReport::Denied;
            return self.denied(mutated.denials);
        }
        self.decision.stages.mutating_policies = StageReport::Done;
        if let Some(object) = mutated.object {
            let before = self.review.object().cloned().unwrap_or_default();
            self.decision.patch = jsonpatch::diff(&before, &object);
            self.hand_on(object);
        }
    }

    /// ValidatingAdmissionPolicies.
    pub(super) fn validating_policies(&mut self) {
        let (snapshot, host, meter) = (self.snapshot, self.evaluation.host, self.evaluation.meter);
        if snapshot.cluster_policies().is_empty() {
            return;
        }
        let namespace = self.review.store_namespace().to_owned();
        let read = || namespace_of(host, &namespace);
        let types = Types::kubernetes();
        let surroundings = Surroundings {
            namespace: &read,
            params: host.parameters(),
            authorizer: host.authorizer(),
            types: &types,
            conditions_see_namespace: false,
        };
        let budget = meter.budget(snapshot.config().constraint_limits, host.uptime(), host.clock());
        let policies = snapshot.cluster_policies();
        let decided = match policies.validate(&self.review, &surroundings, &budget) {
            Ok(decided) => decided,
            Err(message) => return self.unread(message, false),
        };
        if O::EXPLAINS {
            let traces = policies.explain(&self.review, &surroundings, &budget);
            self.observer.policies(traces);
        }
        self.decision.warn(decided.warnings);
        self.decision.audit_annotations = decided.audit_annotations;
        if decided.denials.is_empty() {
            self.decision.stages.validating_policies = StageReport::Done;
        } else {
            self.decision.stages.validating_policies = StageReport::Denied;
            self.denied(decided.denials);
        }
    }

    fn denied(&mut self, denials: Vec<Denial>) {
        if let Some(first) = denials.first() {
            self.decision.deny(first.code(), first.to_string());
        }
        self.decision.denials = denials;
    }

    fn unread(&mut self, message: String, mutating: bool) {
        let stages = &mut self.decision.stages;
        let stage = match mutating {
            true => &mut stages.mutating_policies,
            false => &mut stages.validating_policies,
        };
        *stage = StageReport::Denied;
        self.decision.fail(Failure::PoliciesNamespace(message));
    }
}

/// The Namespace that a policy looks at.
fn namespace_of(
    host: &dyn crate::Host,
    name: &str,
) -> Result<Option<modgate_value::Value>, String> {
    if name.is_empty() {
        return Ok(None);
    }
    host.namespace(name).map(Some).map_err(|error: HostError| error.to_string())
}
