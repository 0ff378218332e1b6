//! Watching a run.

use crate::{
    admissionpolicy::MutatingPolicyTrace,
    constraint::ConstraintTrace,
    expansion::Resultant,
    explain::RuleTrace,
    mutation::{MutationExplanation, MutatorTrace},
};

use super::plan::PlannedResultant;

/// Watches a run of [`Snapshot::decide`](crate::Snapshot::decide). The decision does not depend on the
/// observer. Stages explain themselves only where [`EXPLAINS`](Self::EXPLAINS) is set.
pub trait Observer {
    /// Whether the stages explain what they do.
    const EXPLAINS: bool;

    /// The actions of MutatingAdmissionPolicies.
    fn mutating_policies(&mut self, _traces: Vec<MutatingPolicyTrace>) {}

    /// The actions of the mutators.
    fn mutators(&mut self, _explanation: MutationExplanation) {}

    /// The actions of every ModRule.
    fn modrules(&mut self, _rules: Vec<RuleTrace>) {}

    /// How every one of the cluster's own policies decides about the object.
    fn policies(&mut self, _traces: Vec<ConstraintTrace>) {}

    /// How every constraint decides about the object.
    fn constraints(&mut self, _traces: Vec<ConstraintTrace>) {}

    /// A resultant of the object, and the decision of every constraint about it.
    fn resultant(&mut self, _resultant: &Resultant, _traces: Vec<ConstraintTrace>) {}

    /// The constraints have reviewed the object or one of its resultants; also where nothing is
    /// explained.
    fn reviewed(&mut self, _resultant: Option<&Resultant>) {}

    /// The resultants of the object, once the run is over; also where nothing is explained.
    fn expanded(&mut self, _resultants: Vec<Resultant>) {}
}

/// Ignores everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoopObserver;

impl Observer for NoopObserver {
    const EXPLAINS: bool = false;
}

/// Keeps everything.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// MutatingAdmissionPolicies about the object, with their bindings, in order.
    pub mutating_policies: Vec<MutatingPolicyTrace>,
    /// Gatekeeper's mutators, pass by pass.
    pub mutators: Vec<Vec<MutatorTrace>>,
    /// Every ModRule, in the order in which they are visited.
    pub modrules: Vec<RuleTrace>,
    /// ValidatingAdmissionPolicies with their bindings, then every constraint about the object, by
    /// kind, then name.
    pub constraints: Vec<ConstraintTrace>,
    /// The resultants of the object, in the order in which they are reviewed.
    pub resultants: Vec<PlannedResultant>,
}

impl Observer for Trace {
    const EXPLAINS: bool = true;

    fn mutating_policies(&mut self, traces: Vec<MutatingPolicyTrace>) {
        self.mutating_policies = traces;
    }

    fn mutators(&mut self, explanation: MutationExplanation) {
        self.mutators = explanation.passes;
    }

    fn modrules(&mut self, rules: Vec<RuleTrace>) {
        self.modrules = rules;
    }

    fn policies(&mut self, traces: Vec<ConstraintTrace>) {
        self.constraints = traces;
    }

    fn constraints(&mut self, traces: Vec<ConstraintTrace>) {
        self.constraints.extend(traces);
    }

    fn resultant(&mut self, resultant: &Resultant, traces: Vec<ConstraintTrace>) {
        self.resultants.push(PlannedResultant::of(resultant, traces));
    }
}
