//! Constraints that find the same in every object.
//!
//! Many constraints have the policy and the parameters of another one: they apply to other namespaces, or only warn
//! until they deny. For an object, the policy is evaluated for one of them. Each pays as if it had been evaluated for
//! it.

use std::{cell::RefCell, collections::BTreeMap, sync::Arc};

use modgate_value::Budget;

use super::{driver::RawViolation, evaluate::Cause};

/// The findings of so many are kept.
const MOST: usize = 1024;

/// The same for constraints that find the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Twins(usize);

impl Twins {
    /// Of the constraints that have this in common; `None` if only one has it.
    pub(super) fn of<T>(common: &Arc<T>) -> Option<Self> {
        (Arc::strong_count(common) > 1).then(|| Self(Arc::as_ptr(common).addr()))
    }
}

/// The violations that twins find in one object.
#[derive(Debug, Default)]
pub(super) struct Findings(RefCell<BTreeMap<Twins, Finding>>);

#[derive(Debug)]
struct Finding {
    violations: Vec<RawViolation>,
    steps: u64,
    bytes: u64,
    /// Bytes that it took for a time.
    released: u64,
}

impl Findings {
    /// The violations that one of them has found, paid for; `None` if none has been evaluated, or
    /// too little is left to pay.
    pub(super) fn of(&self, twins: Twins, budget: &Budget<'_>) -> Option<Vec<RawViolation>> {
        let all = self.0.borrow();
        let found = all.get(&twins)?;
        budget.pay(found.steps, found.bytes, found.released).then(|| found.violations.clone())
    }

    /// Keeps what the first of them has found and paid. That a policy failed may be due to the budget of one.
    pub(super) fn keep(&self, twins: Twins, violations: &[RawViolation], budget: &Budget<'_>) {
        let mut all = self.0.borrow_mut();
        let failed = violations.iter().any(|violation| violation.cause != Cause::Policy);
        if failed || budget.ran_out() || all.len() >= MOST {
            return;
        }
        all.entry(twins).or_insert_with(|| Finding {
            violations: violations.to_vec(),
            steps: budget.steps_spent(),
            bytes: budget.bytes_spent(),
            released: budget.bytes_released(),
        });
    }
}
