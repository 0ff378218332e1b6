//! The cluster's own policies as stages.

use super::{Failure, Observer, Run, StageReport};
use crate::{
    Evaluation, HostError,
    admissionpolicy::{Bindings, Denial, MutatingPolicyTrace, Surroundings},
    jsonpatch,
};
use modgate_value::Budget;

impl<O: Observer> Run<'_, '_, O> {
    /// MutatingAdmissionPolicies.
    pub(super) fn mutating_policies(&mut self) {
        let policies = self.snapshot.cluster_policies();
        let Some(bindings) = self.bindings() else { return };
        let mutated = self.with_surroundings(bindings, |surroundings, budget| {
            policies.mutate(&self.review, surroundings, budget)
        });
        let mutated = match mutated {
            Ok(mutated) => mutated,
            Err(message) => return self.unread(message, true),
        };
        if O::EXPLAINS {
            let traces = mutated.steps.iter().map(MutatingPolicyTrace::of);
            self.observer.mutating_policies(traces.collect());
        }
        if !mutated.denials.is_empty() {
            self.decision.stages.mutating_policies = StageReport::Denied;
            return self.denied(mutated.denials);
        }
        self.decision.stages.mutating_policies = StageReport::Done;
        if let Some(object) = mutated.object {
            let before = self.review.object().cloned().unwrap_or_default();
            self.decision.patch = jsonpatch::diff_exact(&before, &object);
            self.hand_on(object);
        }
    }

    /// ValidatingAdmissionPolicies.
    pub(super) fn validating_policies(&mut self) {
        let policies = self.snapshot.cluster_policies();
        let Some(bindings) = self.bindings() else { return };
        let (decided, traces) = self.with_surroundings(bindings, |surroundings, budget| {
            let decided = policies.validate(&self.review, surroundings, budget);
            let explains = O::EXPLAINS && decided.is_ok();
            (decided, explains.then(|| policies.explain(&self.review, surroundings, budget)))
        });
        let decided = match decided {
            Ok(decided) => decided,
            Err(message) => return self.unread(message, false),
        };
        if let Some(traces) = traces {
            self.observer.policies(traces);
        }
        self.decision.warn(decided.warnings);
        self.decision.remarks = decided.remarks;
        self.decision.audit_annotations = decided.audit_annotations;
        if decided.denials.is_empty() {
            self.decision.stages.validating_policies = StageReport::Done;
        } else {
            self.decision.stages.validating_policies = StageReport::Denied;
            self.denied(decided.denials);
        }
    }

    /// Which bindings count; `None` where there is nothing to evaluate.
    fn bindings(&self) -> Option<Bindings> {
        let bindings = self.stages.bindings(self.snapshot.config().admission_policies);
        bindings.filter(|_| !self.snapshot.cluster_policies().is_empty())
    }

    /// Evaluates with what policies may look at, on a budget of their own.
    fn with_surroundings<T>(
        &self,
        bindings: Bindings,
        evaluate: impl FnOnce(&Surroundings<'_>, &Budget<'_>) -> T,
    ) -> T {
        let Evaluation { host, meter, .. } = *self.evaluation;
        // The API server reports a Namespace as living in itself, and looks its labels up unless it is written.
        let name = self.review.request().namespace.as_str();
        let namespace = || namespace_of(host, name);
        let surroundings = Surroundings {
            namespace: &namespace,
            params: host.parameters(),
            authorizer: host.authorizer(),
            meter,
            bindings,
            types: host.types(),
            assumes_namespace: host.assumes_namespace(name),
            conditions_see_namespace: false,
        };
        let limits = self.snapshot.config().constraint_limits;
        evaluate(&surroundings, &meter.budget(limits, host.uptime(), host.clock()))
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
