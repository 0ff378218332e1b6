//! Coverage of the cluster's own policies.

use super::{
    CompiledMutatingPolicy, CompiledPolicy, PolicyKind, PolicySet,
    compile::{Base, PatchType},
};
use crate::{
    PolicyId,
    coverage::{Coverage, Hits, PlaceKind},
};

impl CompiledPolicy {
    /// The places of its expressions and messages, with what evaluations reached; empty unless it
    /// was [compiled for it](Self::compile_as_is).
    pub fn coverage(&self) -> Coverage {
        let mut coverage = self.base.coverage();
        for (index, validation) in self.validations.iter().enumerate() {
            let field = |part: &str| format!("spec.validations[{index}].{part}");
            let program = validation.expression.program();
            let whole = coverage.expression(&field("expression"), program);
            match &validation.message_expression {
                Some(made) => coverage.message(&field("messageExpression"), made.program()),
                None if self.base.observed && !validation.message.is_empty() => {
                    let hits = Hits::plain(whole.failed);
                    coverage.field(field("message"), PlaceKind::Message, hits);
                }
                None => {}
            }
        }
        for (index, annotation) in self.audit_annotations.iter().enumerate() {
            let field = format!("spec.auditAnnotations[{index}].valueExpression");
            coverage.expression(&field, annotation.value.program());
        }
        coverage
    }
}

impl CompiledMutatingPolicy {
    /// As [`CompiledPolicy::coverage`].
    pub fn coverage(&self) -> Coverage {
        let mut coverage = self.base.coverage();
        for (index, mutation) in self.mutations.iter().enumerate() {
            let part = match mutation.patch {
                PatchType::ApplyConfiguration => "applyConfiguration",
                PatchType::JsonPatch => "jsonPatch",
            };
            let field = format!("spec.mutations[{index}].{part}.expression");
            coverage.expression(&field, mutation.expression.program());
        }
        coverage
    }
}

impl PolicySet {
    /// The places of each policy that was compiled for it; see [`CompiledPolicy::coverage`].
    pub fn coverage(&self) -> impl Iterator<Item = Coverage> {
        let mutating = self.mutating.policies.values().map(|policy| policy.coverage());
        mutating.chain(self.validating.policies.values().map(|policy| policy.coverage()))
    }
}

impl PolicySet {
    /// The places of the policy of this id, if it is one of them; see [`CompiledPolicy::coverage`].
    pub(crate) fn coverage_of(&self, id: &PolicyId) -> Option<Coverage> {
        if *id == PolicyKind::Mutating.id(&id.name) {
            return self.mutating.policies.get(&id.name).map(|policy| policy.coverage());
        }
        let policy = self.validating.policies.get(&id.name);
        policy.filter(|_| *id == PolicyKind::Validating.id(&id.name)).map(|it| it.coverage())
    }
}

impl Base {
    /// The coverage of a policy of either kind.
    fn coverage(&self) -> Coverage {
        let mut coverage = Coverage::default();
        for (index, (_, program)) in self.variables.iter().enumerate() {
            coverage.expression(&format!("spec.variables[{index}].expression"), program);
        }
        for (index, condition) in self.conditions.iter().enumerate() {
            let field = format!("spec.matchConditions[{index}].expression");
            coverage.expression(&field, condition.program());
        }
        coverage
    }
}
