//! The explanations of `explain`: which policies they have, and their JSON.

use std::collections::BTreeMap;

use modgate_engine::{
    Decision, Plan, PolicyId, Snapshot, Trace,
    constraint::{ConstraintOutcome, ConstraintTrace},
    explain::{RuleOutcome, RuleTrace},
};
use modgate_value::{Value, diag::Source};

use crate::{
    decision::{result, stages},
    subject::Subject,
};

/// Which policies an explanation has.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shown<'a> {
    /// Policies by name, `namespace/name` or `Kind/name`; if empty, those that matter to the object.
    pub named: &'a [String],
    /// Whether it also has policies that are satisfied, do not match, or do not apply to the object.
    pub all: bool,
    /// Whether it leaves satisfied constraints out, as text does.
    pub folds: bool,
}

impl Shown<'_> {
    /// Rules asked for by name; otherwise the candidates, or all.
    pub fn rule(&self, rule: &RuleTrace) -> bool {
        if self.named.is_empty() {
            return self.all || !matches!(rule.outcome, RuleOutcome::NotCandidate(_));
        }
        let PolicyId { kind, namespace, name, .. } = &rule.policy;
        self.named.iter().any(|wanted| is_named(wanted, kind, namespace, name))
    }

    /// Constraints that are named; otherwise those whose match block selects the object, or all.
    pub fn constraint(&self, trace: &ConstraintTrace) -> bool {
        if self.named.is_empty() {
            let is_folded = is_satisfied(trace) && self.folds;
            let is_excluded = matches!(trace.outcome, ConstraintOutcome::Excluded(_));
            return self.all || !(is_folded || is_excluded);
        }
        self.cluster_scoped(&trace.policy)
    }

    /// Leaves the other policies out of a plan.
    pub fn limit(&self, plan: &mut Plan) {
        plan.mutating_policies
            .steps
            .retain(|trace| self.named.is_empty() || self.cluster_scoped(&trace.policy));
        for resultant in &mut plan.resultants.steps {
            resultant.constraints.retain(|trace| self.constraint(trace));
        }
    }

    fn cluster_scoped(&self, id: &PolicyId) -> bool {
        self.named.iter().any(|wanted| is_named(wanted, &id.kind, "", &id.name))
    }
}

/// The result of a review with its explanation, for machines.
///
/// # Errors
///
/// When a trace has a value that JSON cannot have.
pub fn explained(
    subject: &Subject,
    decision: &Decision,
    trace: &Trace,
    plan: &Plan,
    snapshot: &Snapshot,
    shown: &Shown<'_>,
) -> Result<Value, serde_json::Error> {
    let rules: Vec<_> = trace.modrules.iter().filter(|rule| shown.rule(rule)).collect();
    let constraints: Vec<_> =
        trace.constraints.iter().filter(|trace| shown.constraint(trace)).collect();
    let mut members = result(subject, decision, snapshot).as_object().cloned().unwrap_or_default();
    for (stage, traces) in stages(&rules, &constraints, plan)? {
        members.insert(stage, traces);
    }
    Ok(members.into())
}

/// Whether a constraint has nothing against the object.
pub fn is_satisfied(trace: &ConstraintTrace) -> bool {
    matches!(trace.outcome, ConstraintOutcome::Satisfied)
}

/// Whether `name`, `namespace/name`, `Kind/name` or `Kind/namespace/name` names a policy.
pub fn is_named(wanted: &str, kind: &str, namespace: &str, name: &str) -> bool {
    match wanted.rsplit_once('/') {
        Some((before, wanted)) => {
            let is_it = before == namespace || before == kind;
            (is_it || before == format!("{kind}/{namespace}")) && wanted == name
        }
        None => wanted == name,
    }
}

/// The engine knows the lines of expressions in a template's file; the file itself, which `read` returns
/// by its name, has the columns.
pub fn set_columns(
    traces: &mut [ConstraintTrace],
    files: &mut BTreeMap<String, Option<Source>>,
    read: impl Fn(&str) -> Option<Source>,
) {
    for trace in traces {
        let path = &trace.template_origin;
        let file = files.entry(path.clone()).or_insert_with(|| read(path));
        let Some(source) = file else { continue };
        for expression in &mut trace.expressions {
            let Some(position) = expression.position.as_mut().filter(|it| it.column == 1) else {
                continue;
            };
            let index = usize::try_from(position.line).unwrap_or_default().saturating_sub(1);
            let line = source.text.lines().nth(index).unwrap_or_default();
            let text = expression.text.lines().next().unwrap_or_default();
            let indent = line.len() - line.trim_start().len();
            let before = line.get(..line.find(text).unwrap_or(indent)).unwrap_or_default();
            position.column = u32::try_from(before.chars().count() + 1).unwrap_or(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (wanted, expected) in [
            ("a", true),
            ("ns/a", true),
            ("K/a", true),
            ("K/ns/a", true),
            ("other/a", false),
            ("K/other/a", false),
            ("b", false),
        ] {
            assert_eq!(is_named(wanted, "K", "ns", "a"), expected, "{wanted}");
        }
    }
}
