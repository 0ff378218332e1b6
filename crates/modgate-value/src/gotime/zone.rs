//! Time zones.

use std::sync::LazyLock;

use jiff::{
    Timestamp,
    tz::{TimeZone, TimeZoneDatabase},
};

/// The tables that are part of this program; the machine's own are not looked at.
static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// `*time.Location`
#[derive(Debug, Clone, PartialEq)]
pub enum Zone {
    /// `UTC`
    Utc,
    /// An offset in seconds east of UTC, perhaps with an abbreviation.
    Fixed(i64, Box<str>),
    /// A zone of the time zone database.
    Named(TimeZone),
}

impl Zone {
    /// `time.UTC`
    pub fn utc() -> Self {
        Self::Utc
    }

    /// `time.LoadLocation`: names are case-sensitive, `""` is UTC, `Local` is `local`.
    pub fn load(name: &str, local: &str) -> Option<Self> {
        let name = if name == "Local" { local } else { name };
        if matches!(name, "" | "UTC" | "Local") {
            return Some(Self::Utc);
        }
        let zone = ZONES.get(name).ok()?;
        (zone.iana_name() == Some(name)).then_some(Self::Named(zone))
    }

    /// Seconds east of UTC at an instant.
    pub fn offset_at(&self, unix: i64) -> i64 {
        match self {
            Self::Utc => 0,
            Self::Fixed(offset, _) => *offset,
            Self::Named(zone) => zone.to_offset(timestamp(unix)).seconds().into(),
        }
    }

    /// The abbreviation at an instant; empty where there is none.
    pub fn abbreviation_at(&self, unix: i64) -> String {
        match self {
            Self::Utc => "UTC".to_owned(),
            Self::Fixed(_, name) => name.to_string(),
            Self::Named(zone) => zone.to_offset_info(timestamp(unix)).abbreviation().to_owned(),
        }
    }

    /// The offset that `abbreviation` stands for in this zone, for a time of day given as if it
    /// were UTC.
    pub fn offset_of(&self, abbreviation: &str, unix: i64) -> Option<i64> {
        let zone = match self {
            Self::Utc => return None,
            Self::Fixed(offset, name) => return (**name == *abbreviation).then_some(*offset),
            Self::Named(zone) => zone,
        };
        let at = timestamp(unix);
        let near = zone.preceding(at).take(4).chain(zone.following(at).take(4));
        let mut offsets: Vec<i64> = near
            .filter(|transition| transition.abbreviation() == abbreviation)
            .map(|transition| transition.offset().seconds().into())
            .collect();
        // The one in effect at that time of day, if any; else the nearest known.
        let in_effect = offsets
            .iter()
            .position(|offset| self.abbreviation_at(unix.saturating_sub(*offset)) == abbreviation);
        if in_effect.is_none() && self.abbreviation_at(unix) == abbreviation {
            return Some(self.offset_at(unix));
        }
        (!offsets.is_empty()).then(|| offsets.swap_remove(in_effect.unwrap_or(0)))
    }
}

/// The nearest instant the tables know.
fn timestamp(unix: i64) -> Timestamp {
    let seconds = unix.clamp(Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
    Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH)
}
