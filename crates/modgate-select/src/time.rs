//! Timestamps, as `date()` reads and `%v` prints them.

use modgate_value::Str;

/// The zone that `date()` reads texts without a zone in: KubeMod's process-local zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    /// The abbreviation it prints as, such as `UTC` or `CET`.
    pub name: Str,
    /// Seconds east of UTC.
    pub offset: i32,
}

impl Default for Zone {
    fn default() -> Self {
        Self { name: Str::new_static("UTC"), offset: 0 }
    }
}

/// A point in time and the zone it was written in.
///
/// Equal only with the same kind of zone: KubeMod compares timestamps structurally.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Time;

impl Time {
    pub(crate) fn parse(_text: &str, _zone: &Zone) -> Option<Self> {
        None
    }
}
impl std::fmt::Display for Time {
    fn fmt(&self, _f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Ok(())
    }
}
