//! Asks constraints about one object (spec 3.4 to 3.6).

use modgate_api::constraints::{EnforcementAction, EnforcementPoint};
use modgate_value::{Budget, Limits, Str, Value};

use super::{
    admission::Admission,
    compile::CompiledConstraint,
    driver::{Arena, Violation, World},
};
use crate::cost::{Cost, Meter};

/// How a review is done.
#[derive(Clone, Copy)]
pub struct Evaluation<'a> {
    /// Where it is asked.
    pub point: EnforcementPoint,
    /// What policies may see.
    pub world: World<'a>,
    /// Pays for the whole review.
    pub budget: &'a Budget<'a>,
    /// What one constraint may spend of it.
    pub limits: Limits,
    /// Where it is counted what each constraint cost.
    pub meter: Meter<'a>,
}

/// One violation of one constraint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The constraint's kind.
    pub kind: Str,
    /// The constraint's name.
    pub constraint: Str,
    /// Its `enforcementAction`.
    pub action: Str,
    /// What the violation leads to at the enforcement point, sorted; empty when the action is one
    /// nobody knows.
    pub actions: Vec<EnforcementAction>,
    /// The policy's message, or why there is none.
    pub message: String,
    /// Goes to logs and exports only (EV-35).
    pub details: Value,
    /// The constraint's annotations, an object; null where it has none. For exports (XP-2).
    pub annotations: Value,
}

impl Finding {
    /// The line users see (RS-1).
    pub fn line(&self) -> String {
        format!("[{}] {}", self.constraint, self.message)
    }
}

/// Every violation, in the order in which they are shown (EV-40).
///
/// A constraint that cannot be matched or evaluated has one finding that says why, with its own
/// action, so that a deny constraint denies (EV-21, EV-34). `arena` is emptied before each
/// constraint and may be used again afterwards.
pub fn review<'c>(
    constraints: impl IntoIterator<Item = &'c CompiledConstraint>,
    admission: &Admission,
    evaluation: Evaluation<'_>,
    arena: &mut Arena,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    // One look at the clock ends one constraint and begins the next.
    let mut mark = evaluation.budget.now();
    for constraint in constraints {
        // Only requests have an operation that could be excluded.
        if evaluation.point == EnforcementPoint::Webhook
            && !constraint.template().covers(admission.operation())
        {
            continue;
        }
        let Some(actions) = constraint.enforcement().at(evaluation.point) else { continue };
        let violations = match constraint.matches(admission, evaluation.world.inventory) {
            Ok(false) => continue,
            Ok(true) => {
                arena.reset();
                let limits = constraint.limits(evaluation.limits, evaluation.meter);
                let budget = evaluation.budget.child_since(limits, mark);
                let driver = constraint.template().driver();
                let violations =
                    driver.violations(constraint, admission, evaluation.world, arena, &budget);
                let now = budget.now();
                constraint.spent(Cost::of(&budget, now.saturating_sub(mark)), evaluation.meter);
                constraint.ended(evaluation, &budget, now.saturating_sub(mark));
                mark = now;
                violations
            }
            Err(message) => vec![Violation::failure(message)],
        };
        findings.extend(violations.into_iter().map(|violation| Finding {
            kind: constraint.kind().clone(),
            constraint: constraint.name().clone(),
            action: constraint.enforcement().name().clone(),
            actions: actions.to_vec(),
            message: violation.message,
            details: violation.details,
            annotations: constraint.annotations(),
        }));
    }
    findings.sort_by(|a, b| order(a).cmp(&order(b)));
    findings
}

fn order(finding: &Finding) -> [&str; 4] {
    [&finding.action, &finding.message, &finding.kind, &finding.constraint]
}
