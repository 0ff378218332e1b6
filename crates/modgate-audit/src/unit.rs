//! Violations as a unit reports them: without the policy and the object, which the unit knows.

use std::sync::Arc;

use modgate_engine::api::constraints::EnforcementAction;
use modgate_value::{Str, Value};

use crate::reference::PolicyRef;

/// One violation, without what the unit says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnitViolation {
    /// Cut.
    pub(crate) message: Str,
    pub(crate) details: Value,
    pub(crate) attribution: Attribution,
}

/// Which policy a violation is of, and what it leads to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Attribution {
    /// As the constraint says.
    Constraint,
    /// As the expansion template says instead.
    Overridden(EnforcementAction),
    /// A ModRule, a mutator or one of the cluster's own policies, and what it would do.
    Rule(Arc<PolicyRef>, &'static str),
}
