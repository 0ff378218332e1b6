//! Whether a rule matches a document (section 3).

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
    ops::ControlFlow,
};

use modgate_select::{EvalError, Shape};
use modgate_value::{Budget, Exhausted, Value};

use super::{
    compile::{CompiledModRule, Criterion, Quantifier, Test},
    references::{Reference, ReferenceError},
    store::Entry,
};

/// Outcomes of criteria items for one document, shared by the rules that have the same item.
///
/// An outcome is charged like its evaluation, so that a rule is decided alike with and without.
#[derive(Debug, Default)]
pub(super) struct Memo {
    outcomes: HashMap<u32, MemoEntry, BuildHasherDefault<Numbers>>,
}

/// Spreads small numbers, which are ours.
#[derive(Debug, Default)]
struct Numbers(u64);

impl Hasher for Numbers {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

#[derive(Debug, Clone, Copy)]
struct MemoEntry {
    positive: bool,
    steps: u64,
    bytes: u64,
    /// Bytes that it took for a time.
    released: u64,
}

impl Memo {
    /// Forgets everything: the document has changed.
    pub(super) fn clear(&mut self) {
        self.outcomes.clear();
    }

    fn is_positive(
        &mut self,
        id: u32,
        criterion: &Criterion,
        document: &Value,
        budget: &Budget<'_>,
    ) -> Result<bool, Exhausted> {
        // With too little left it ends where it would end.
        if let Some(MemoEntry { positive, steps, bytes, released }) =
            self.outcomes.get(&id).copied()
            && budget.pay(steps, bytes, released)
        {
            return Ok(positive);
        }
        let spent = || (budget.steps_spent(), budget.bytes_spent(), budget.bytes_released());
        let before = spent();
        let positive = is_positive(criterion, document, budget)?;
        let now = spent();
        let outcome = MemoEntry {
            positive,
            steps: now.0.saturating_sub(before.0),
            bytes: now.1.saturating_sub(before.1),
            released: now.2.saturating_sub(before.2),
        };
        self.outcomes.insert(id, outcome);
        Ok(positive)
    }
}

/// Why a rule cannot be decided.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Undecided {
    #[error(transparent)]
    Exhausted(#[from] Exhausted),
    /// It looks at a reference that could not be read.
    #[error("{0}")]
    Unread(String),
}

/// Whether every criteria item is positive where some reference could not be read: an item that does
/// not look at it may still rule the object out.
///
/// # Errors
///
/// When it takes an item that looks at what could not be read, or the budget runs out.
pub(super) fn matches_unread(
    rule: &CompiledModRule,
    document: &Value,
    unread: &[(Reference, ReferenceError)],
    budget: &Budget<'_>,
) -> Result<bool, Undecided> {
    let mut looks = None;
    for criterion in &rule.criteria {
        match unread.iter().find(|(reference, _)| criterion.reads.contains(*reference)) {
            Some((_, error)) => looks = Some(error),
            None if is_positive(criterion, document, budget)? => {}
            None => return Ok(false),
        }
    }
    looks.map_or(Ok(true), |error| Err(Undecided::Unread(error.to_string())))
}

/// Whether every criteria item is positive.
///
/// # Errors
///
/// When the budget runs out before the rule is decided.
pub(super) fn matches(
    rule: &CompiledModRule,
    document: &Value,
    budget: &Budget<'_>,
) -> Result<bool, Exhausted> {
    for criterion in &rule.criteria {
        if !is_positive(criterion, document, budget)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// [`matches`] for a rule the index found for documents of this kind.
///
/// # Errors
///
/// As [`matches`].
pub(super) fn matches_indexed(
    entry: &Entry,
    document: &Value,
    budget: &Budget<'_>,
    memo: &mut Memo,
) -> Result<bool, Exhausted> {
    for (criterion, id) in entry.criteria() {
        let positive = match id {
            Some(id) => memo.is_positive(id, criterion, document, budget)?,
            None => is_positive(criterion, document, budget)?,
        };
        if !positive {
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
                let found = budget
                    .spend(1 + text.len() as u64 / 16)
                    .and_then(|()| regex.matches(&text, budget));
                found.unwrap_or_else(|exhausted| {
                    spent = Err(exhausted);
                    false
                })
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
