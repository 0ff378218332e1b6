//! Why a function has no result.

use modgate_value::Exhausted;

use crate::Refused;

/// Why a function has no result.
#[derive(Debug)]
pub(crate) enum Fault {
    /// Go's error text, without the place.
    Failed(String),
    Exhausted(Exhausted),
}

impl Fault {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self::Failed(message.into())
    }
}

impl From<Exhausted> for Fault {
    fn from(exhausted: Exhausted) -> Self {
        Self::Exhausted(exhausted)
    }
}

impl From<Refused> for Fault {
    fn from(refused: Refused) -> Self {
        Self::Failed(refused.to_string())
    }
}

pub(crate) type Result<T, E = Fault> = std::result::Result<T, E>;
