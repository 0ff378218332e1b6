//! Go's `time.Time`, `time.Duration` and layouts, shared by templates and Rego.
//!
//! Nothing here knows what time it is; zones come from tables that are part of this program.

mod duration;
mod format;
mod parse;
mod zone;

pub use duration::{Duration, HOUR, MINUTE, SECOND};
use format::Element;
pub use parse::{parse, parse_any};
pub use zone::Zone;

use std::fmt;

const SECONDS_PER_DAY: i64 = 86_400;

/// Seconds from the year 1, where Go's zero time is, to 1970.
const UNIX_OF_ZERO: i64 = -62_135_596_800;

/// An instant and the zone it is shown in.
#[derive(Debug, Clone, PartialEq)]
pub struct Time {
    /// Seconds since the Unix epoch.
    pub unix: i64,
    /// Nanoseconds of that second.
    pub nanos: u32,
    /// The zone it is shown in.
    pub zone: Zone,
}

/// A calendar date and time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Civil {
    /// The astronomical year: 0 is the one before 1.
    pub year: i64,
    /// From 1.
    pub month: u8,
    /// From 1.
    pub day: u8,
    /// From 0 to 23.
    pub hour: u8,
    /// From 0 to 59.
    pub minute: u8,
    /// From 0 to 59.
    pub second: u8,
    /// From 1.
    pub year_day: u16,
    /// The day of the week.
    pub weekday: Weekday,
}

/// `time.Month`, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Month(pub u8);

/// `time.Weekday`, from 0 for Sunday.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weekday(pub u8);

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

impl Month {
    /// The English name; empty if out of range.
    pub fn name(self) -> &'static str {
        usize::from(self.0).checked_sub(1).and_then(|index| MONTHS.get(index)).unwrap_or(&"")
    }
}

impl Weekday {
    /// The English name; empty if out of range.
    pub fn name(self) -> &'static str {
        WEEKDAYS.get(usize::from(self.0)).unwrap_or(&"")
    }
}

impl Time {
    /// `time.Time{}`: midnight of the first day of the year 1, UTC.
    pub fn zero() -> Self {
        Self { unix: UNIX_OF_ZERO, nanos: 0, zone: Zone::utc() }
    }

    /// The beginning of a second of the Unix epoch.
    pub fn at_unix(unix: i64, zone: Zone) -> Self {
        Self { unix, nanos: 0, zone }
    }

    /// The instant that `civil` names in `zone`, as `time.Date` resolves gaps and overlaps.
    pub fn at_civil(
        year: i64,
        month: u8,
        day: u8,
        seconds_of_day: i64,
        nanos: u32,
        zone: Zone,
    ) -> Self {
        let days = days_from_civil(year, month, day);
        let mut unix = days.saturating_mul(SECONDS_PER_DAY).saturating_add(seconds_of_day);
        let guess = zone.offset_at(unix);
        if guess != 0 {
            unix = unix.saturating_sub(zone.offset_at(unix.saturating_sub(guess)));
        }
        Self { unix, nanos, zone }
    }

    /// The same instant shown in another zone.
    pub fn in_zone(&self, zone: Zone) -> Self {
        Self { zone, ..self.clone() }
    }

    /// The date and time of day in its zone.
    pub fn civil(&self) -> Civil {
        let local = self.unix.saturating_add(self.zone.offset_at(self.unix));
        let days = local.div_euclid(SECONDS_PER_DAY);
        let second_of_day = local.rem_euclid(SECONDS_PER_DAY);
        let (year, month, day) = civil_from_days(days);
        let small = |value: i64| u8::try_from(value).unwrap_or(0);
        Civil {
            year,
            month,
            day,
            hour: small(second_of_day / 3600),
            minute: small(second_of_day / 60 % 60),
            second: small(second_of_day % 60),
            year_day: days_before(month, year) + u16::from(day),
            // The epoch was a Thursday.
            weekday: Weekday(small((days + 4).rem_euclid(7))),
        }
    }

    /// The instant a while later.
    pub fn add(&self, duration: Duration) -> Self {
        let nanos = i64::from(self.nanos) + duration.0 % SECOND;
        let unix =
            self.unix.saturating_add(duration.0 / SECOND).saturating_add(nanos.div_euclid(SECOND));
        let nanos = u32::try_from(nanos.rem_euclid(SECOND)).unwrap_or(0);
        Self { unix, nanos, zone: self.zone.clone() }
    }

    /// `self.Sub(earlier)`, clamped to what a duration holds.
    pub fn since(&self, earlier: &Self) -> Duration {
        let seconds = i128::from(self.unix) - i128::from(earlier.unix);
        let nanos = i128::from(self.nanos) - i128::from(earlier.nanos);
        let total = seconds * i128::from(SECOND) + nanos;
        let clamped = total.clamp(i64::MIN.into(), i64::MAX.into());
        Duration(i64::try_from(clamped).unwrap_or(i64::MAX))
    }

    /// The instant without its zone, for comparing.
    pub fn instant(&self) -> (i64, u32) {
        (self.unix, self.nanos)
    }
}

/// `2006-01-02 15:04:05.999999999 -0700 MST`
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.format("2006-01-02 15:04:05.999999999 -0700 MST"))
    }
}

/// Whether a year has a 29th of February.
pub fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// How many days a month has.
pub fn days_in(month: u8, year: i64) -> u8 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days of the year before the first of `month`.
fn days_before(month: u8, year: i64) -> u16 {
    (1..month).map(|month| u16::from(days_in(month, year))).sum()
}

/// Days from 1970-01-01 to a date of the Gregorian calendar, extended to all years.
fn days_from_civil(year: i64, month: u8, day: u8) -> i64 {
    // Years that begin in March, so that the leap day comes last; in eras of 400 years.
    let year = year.clamp(-100_000_000_000, 100_000_000_000) - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted_month = (i64::from(month) + 9) % 12;
    let day_of_year = (153 * shifted_month + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn civil_from_days(days: i64) -> (i64, u8, u8) {
    let days = days.saturating_add(719_468);
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, u8::try_from(month).unwrap_or(1), u8::try_from(day).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_days() {
        for (year, month, day, days) in [
            (1970, 1, 1, 0),
            (1969, 12, 31, -1),
            (2000, 2, 29, 11_016),
            (1, 1, 1, -719_162),
            (0, 3, 1, -719_468),
            (-1, 12, 31, -719_529),
            (9999, 12, 31, 2_932_896),
        ] {
            assert_eq!(days_from_civil(year, month, day), days);
            assert_eq!(civil_from_days(days), (year, month, day));
        }
    }

    #[test]
    fn extreme_instants_do_not_overflow() {
        for unix in [i64::MIN, i64::MIN / 2, i64::MAX / 2, i64::MAX] {
            for zone in [Zone::utc(), Zone::load("Europe/Berlin", "UTC").expect("zone")] {
                let time = Time::at_unix(unix, zone);
                assert!(!time.to_string().is_empty());
                time.add(Duration(i64::MAX));
                time.add(Duration(i64::MIN));
                time.since(&Time::zero());
            }
        }
    }
}
