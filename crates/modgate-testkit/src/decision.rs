//! The deliberate differences: where modgate answers otherwise than the original.
//!
//! Only spec rows with verdict F (fix) or S (superset) may excuse a different result; the type has
//! no other verdicts. *Whether* a decision applies to a case is computed from the case's input by
//! the suites, together with the result it requires; nothing here names a case.

use std::fmt;

/// One deliberate difference.
#[derive(PartialEq, Eq)]
pub struct Decision {
    /// The row of the specification, as in `docs/compatibility.md`.
    pub id: &'static str,
    /// Why the result may differ.
    pub kind: Kind,
    /// What modgate does.
    pub summary: &'static str,
}

/// Why a result may differ from the original's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The original is wrong and no rule in use can depend on it (F).
    Fix,
    /// We accept what the original refuses (S).
    Superset,
}

impl fmt::Debug for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id)
    }
}
