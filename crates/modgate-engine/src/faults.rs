//! The fields at fault of an object, as its policies' reads show them.

use std::collections::{BTreeMap, BTreeSet};

use modgate_api::constraints::{self, EnforcementPoint};

use crate::{
    Evaluation, PolicyId, Review, Snapshot,
    admissionpolicy::PolicyKind,
    constraint::{self, ConstraintKey},
    decide::constraint_admission,
    modrule,
};

/// The fields at fault: for policies and their messages the pointer (RFC 6901) of a field of the object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    by_policy: BTreeMap<PolicyId, Vec<(String, String)>>,
}

impl Faults {
    /// The field that a message of a policy points out, if that is known. A ModRule has one for all
    /// of its messages.
    pub fn field(&self, policy: &PolicyId, message: &str) -> Option<&str> {
        let known = self.by_policy.get(policy)?;
        let of_message = known.iter().find(|(said, _)| said.is_empty() || said == message);
        of_message.map(|(_, pointer)| pointer.as_str())
    }
}

impl Snapshot {
    /// The fields at fault of an object, by the reads of these policies: constraints, ModRules that reject
    /// it, ValidatingAdmissionPolicies. They are evaluated once more, each on a budget of its own.
    /// An object that expansion built has none.
    pub fn faults(
        &self,
        review: &Review,
        policies: &BTreeSet<PolicyId>,
        evaluation: &mut Evaluation<'_>,
    ) -> Faults {
        let mut by_policy = BTreeMap::new();
        let keys: Vec<ConstraintKey> = policies
            .iter()
            .filter(|id| id.group == constraints::GROUP)
            .map(|id| ConstraintKey { kind: id.kind.clone(), name: id.name.clone() })
            .collect();
        if !keys.is_empty()
            && let Ok(admission) = constraint_admission(review, evaluation.host)
        {
            let point = EnforcementPoint::Webhook;
            let found = self.of_constraints(point, evaluation, |store, asked, arena| {
                constraint::faults(store, &keys, &admission, asked, arena)
            });
            by_policy.extend(found);
        }
        let rules: Vec<&PolicyId> = policies.iter().filter(|id| id.kind == "ModRule").collect();
        if !rules.is_empty() {
            let outside = (evaluation.host, evaluation.meter);
            let found = modrule::faults(self.modrules(), self.config(), review, outside);
            by_policy.extend(found.into_iter().filter(|(id, _)| rules.contains(&id)));
        }
        if let Some(object) = review.object() {
            for id in policies.iter().filter(|id| id.kind == PolicyKind::Validating.as_str()) {
                let found = self.cluster_policies().faults(&id.name, object);
                by_policy.insert(id.clone(), found);
            }
        }
        Faults { by_policy }
    }
}
