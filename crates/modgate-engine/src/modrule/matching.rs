//! Whether a rule matches a document (section 3).

use std::ops::ControlFlow;

use modgate_select::{EvalError, Shape};
use modgate_value::{Budget, Exhausted, Value};

use super::compile::{CompiledModRule, Criterion, Quantifier, Test};

/// Whether every criteria item is positive.
///
/// Items that only depend on the kind come first: when one of them is negative the rule does not
/// match, whatever the others would cost. That is what lets the index leave such rules out.
///
/// # Errors
///
/// When the budget runs out before the rule is decided.
pub(super) fn matches(
    rule: &CompiledModRule,
    document: &Value,
    budget: &Budget<'_>,
) -> Result<bool, Exhausted> {
    let (first, rest): (Vec<&Criterion>, Vec<&Criterion>) =
        rule.criteria.iter().partition(|criterion| criterion.kinds.is_some());
    for criterion in first.into_iter().chain(rest) {
        if !is_positive(criterion, document, budget)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether one criteria item is positive (3.2).
///
/// # Errors
///
/// When the budget runs out.
pub(super) fn is_positive(
    criterion: &Criterion,
    document: &Value,
    budget: &Budget<'_>,
) -> Result<bool, Exhausted> {
    let negate = criterion.negate;
    let (mut seen, mut any, mut all) = (false, false, true);
    let mut spent = Ok(());
    let shape = criterion.select.for_each_value(document, budget, &mut |value| {
        seen = true;
        let hit = match &criterion.test {
            Test::None => true,
            Test::Value(expected) => value.text() == expected.as_str(),
            Test::OneOf(expected) => expected.contains(value.text().as_ref()),
            Test::Regex(regex) => {
                let text = value.text();
                spent = budget.spend(1 + text.len() as u64 / 16);
                regex.is_match(&text)
            }
        };
        any |= hit;
        all &= hit;
        let decided = match criterion.quantifier {
            Quantifier::Any => any,
            Quantifier::All => !all,
        };
        if decided || spent.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    spent?;
    let shape = match shape {
        Ok(shape) => shape,
        Err(EvalError::Failed { .. }) => return Ok(negate),
        Err(EvalError::Exhausted(exhausted)) => return Err(exhausted),
    };
    let hit = match shape {
        Shape::Absent => false,
        Shape::Bool(value) => value,
        Shape::Single | Shape::List { .. } if !seen => false,
        Shape::List { dropped_undefined: true } if criterion.quantifier == Quantifier::All => false,
        Shape::Single | Shape::List { .. } => match criterion.quantifier {
            Quantifier::Any => any,
            Quantifier::All => all,
        },
    };
    Ok(hit != negate)
}
