//! Timestamps, as `date()` reads and `%v` prints them.

use std::fmt;

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
/// Equal only when written in the same kind of zone: KubeMod compares timestamps structurally.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Time {
    /// Seconds since 1970-01-01 00:00:00 UTC.
    seconds: i64,
    nanoseconds: u32,
    place: Place,
}

/// Where a timestamp is from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// Written with `Z` or `UTC`.
    Utc,
    /// Written without a zone, or with the offset or name of the local zone.
    Local(Zone),
    /// Any other offset or name; Go gives unknown names the offset 0.
    Fixed(Zone),
}

impl Place {
    fn zone(&self) -> (&str, i32) {
        match self {
            Self::Utc => ("UTC", 0),
            Self::Local(zone) | Self::Fixed(zone) => (&zone.name, zone.offset),
        }
    }
}

/// The layouts in the order they are tried (spec `kubemod.md`, 2.6). Seconds always take a fraction,
/// so the layouts that differ only in spelling one out are left out.
const LAYOUTS: [&[Part]; 12] = {
    use Part::{
        Clock12, Colon, Day, DayPadded, Hour, Letter, Meridiem, Minute, Month, MonthName, Offset,
        OffsetOrZ, Second, Space, Weekday, Year, ZoneName,
    };
    const DATE: [Part; 5] = [Year, Letter('-'), Month, Letter('-'), Day];
    const COMPACT: Part = OffsetOrZ { colon: false };
    [
        &[
            Weekday, Space, MonthName, Space, DayPadded, Space, Hour, Colon, Minute, Colon, Second,
            Space, Year,
        ],
        &[
            Weekday, Space, MonthName, Space, DayPadded, Space, Hour, Colon, Minute, Colon, Second,
            Space, ZoneName, Space, Year,
        ],
        &[
            Weekday,
            Space,
            MonthName,
            Space,
            Day,
            Space,
            Hour,
            Colon,
            Minute,
            Colon,
            Second,
            Space,
            Offset { colon: false },
            Space,
            Year,
        ],
        &[Clock12, Colon, Minute, Meridiem],
        &[
            DATE[0],
            DATE[1],
            DATE[2],
            DATE[3],
            DATE[4],
            Letter('T'),
            Hour,
            Colon,
            Minute,
            Colon,
            Second,
            OffsetOrZ { colon: true },
        ],
        &DATE,
        &[DATE[0], DATE[1], DATE[2], DATE[3], DATE[4], Space, Hour, Colon, Minute],
        &[DATE[0], DATE[1], DATE[2], DATE[3], DATE[4], Space, Hour, Colon, Minute, Colon, Second],
        &[
            DATE[0],
            DATE[1],
            DATE[2],
            DATE[3],
            DATE[4],
            Space,
            Hour,
            Colon,
            Minute,
            Colon,
            Second,
            Offset { colon: true },
        ],
        &[DATE[0], DATE[1], DATE[2], DATE[3], DATE[4], Letter('T'), Hour, COMPACT],
        &[DATE[0], DATE[1], DATE[2], DATE[3], DATE[4], Letter('T'), Hour, Colon, Minute, COMPACT],
        &[
            DATE[0],
            DATE[1],
            DATE[2],
            DATE[3],
            DATE[4],
            Letter('T'),
            Hour,
            Colon,
            Minute,
            Colon,
            Second,
            COMPACT,
        ],
    ]
};

/// One part of a layout.
#[derive(Debug, Clone, Copy)]
enum Part {
    /// Three letters, any case; not compared with the date.
    Weekday,
    MonthName,
    /// Four digits.
    Year,
    /// Two digits.
    Month,
    /// Two digits.
    Day,
    /// One or two digits, perhaps behind a blank.
    DayPadded,
    /// One or two digits.
    Hour,
    /// One or two digits up to 12.
    Clock12,
    /// Two digits.
    Minute,
    /// Two digits, then perhaps a fraction.
    Second,
    /// `AM` or `PM`.
    Meridiem,
    /// `+0200` or `+02:00`
    Offset {
        colon: bool,
    },
    /// The same or `Z`.
    OffsetOrZ {
        colon: bool,
    },
    /// An abbreviation such as `CET`.
    ZoneName,
    Letter(char),
    Colon,
    /// Any number of blanks.
    Space,
}

/// What has been read of a timestamp.
#[derive(Debug, Default)]
struct Fields {
    year: i64,
    month: u32,
    day: u32,
    hour: u32,
    minute: u32,
    second: u32,
    nanoseconds: u32,
    afternoon: Option<bool>,
    utc: bool,
    offset: Option<i32>,
    zone: Option<Str>,
}

impl Time {
    pub(crate) fn parse(text: &str, local: &Zone) -> Option<Self> {
        LAYOUTS.iter().find_map(|layout| {
            // A time without a date is on the first day of year 0.
            let mut fields = Fields { month: 1, day: 1, ..Fields::default() };
            let rest = layout.iter().try_fold(text, |rest, part| part.read(rest, &mut fields))?;
            if rest.is_empty() { fields.finish(local) } else { None }
        })
    }
}

impl Part {
    fn read<'t>(self, text: &'t str, fields: &mut Fields) -> Option<&'t str> {
        match self {
            Self::Weekday => {
                const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
                name(text, &DAYS).map(|(_, rest)| rest)
            }
            Self::MonthName => {
                const MONTHS: [&str; 12] = [
                    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov",
                    "dec",
                ];
                let (index, rest) = name(text, &MONTHS)?;
                fields.month = u32::try_from(index).ok()? + 1;
                Some(rest)
            }
            Self::Year => {
                let (year, rest) = digits(text, 4, 4)?;
                fields.year = i64::from(year);
                Some(rest)
            }
            Self::Month => {
                let rest;
                (fields.month, rest) = digits(text, 2, 2)?;
                (1..=12).contains(&fields.month).then_some(rest)
            }
            Self::Day => {
                let rest;
                (fields.day, rest) = digits(text, 2, 2)?;
                Some(rest)
            }
            Self::DayPadded => {
                let rest;
                (fields.day, rest) = digits(text.strip_prefix(' ').unwrap_or(text), 1, 2)?;
                Some(rest)
            }
            Self::Hour => {
                let rest;
                (fields.hour, rest) = digits(text, 1, 2)?;
                (fields.hour < 24).then_some(rest)
            }
            Self::Clock12 => {
                let rest;
                (fields.hour, rest) = digits(text, 1, 2)?;
                (fields.hour <= 12).then_some(rest)
            }
            Self::Minute => {
                let rest;
                (fields.minute, rest) = digits(text, 2, 2)?;
                (fields.minute < 60).then_some(rest)
            }
            Self::Second => {
                let mut rest;
                (fields.second, rest) = digits(text, 2, 2)?;
                if let Some(fraction) = rest.strip_prefix(['.', ',']) {
                    let width = fraction.bytes().take_while(u8::is_ascii_digit).count();
                    let (fraction, behind) = fraction.split_at_checked(width)?;
                    // Digits beyond nanoseconds are read and dropped.
                    let padded = format!("{fraction:0<9}");
                    fields.nanoseconds = padded.get(..9)?.parse().ok()?;
                    if width > 0 {
                        rest = behind;
                    }
                }
                (fields.second < 60).then_some(rest)
            }
            Self::Meridiem => {
                fields.afternoon = Some(text.starts_with("PM"));
                text.strip_prefix("PM").or_else(|| text.strip_prefix("AM"))
            }
            Self::OffsetOrZ { .. } if text.starts_with('Z') => {
                fields.utc = true;
                text.strip_prefix('Z')
            }
            Self::Offset { colon } | Self::OffsetOrZ { colon } => {
                let sign = if text.starts_with('-') { -1 } else { 1 };
                let (hours, rest) = digits(text.strip_prefix(['+', '-'])?, 2, 2)?;
                let rest = if colon { rest.strip_prefix(':')? } else { rest };
                let (minutes, rest) = digits(rest, 2, 2)?;
                let seconds = i32::try_from(hours * 3600 + minutes * 60).ok()?;
                fields.offset = Some(sign * seconds);
                (hours <= 24 && minutes < 60).then_some(rest)
            }
            Self::ZoneName => {
                if let Some(rest) = text.strip_prefix("UTC") {
                    fields.utc = true;
                    return Some(rest);
                }
                let (name, rest) = text.split_at_checked(zone_name_length(text)?)?;
                fields.zone = Some(name.into());
                Some(rest)
            }
            Self::Letter(letter) => text.strip_prefix(letter),
            Self::Colon => text.strip_prefix(':'),
            Self::Space => {
                (text.is_empty() || text.starts_with(' ')).then(|| text.trim_start_matches(' '))
            }
        }
    }
}

impl Fields {
    fn finish(mut self, local: &Zone) -> Option<Time> {
        match self.afternoon {
            Some(true) if self.hour < 12 => self.hour += 12,
            Some(false) if self.hour == 12 => self.hour = 0,
            _ => {}
        }
        if self.day < 1 || self.day > days_in(self.year, self.month) {
            return None;
        }
        let clock = self.hour * 3600 + self.minute * 60 + self.second;
        let wall = days_since_1970(self.year, self.month, self.day) * 86_400 + i64::from(clock);
        let (seconds, place) = if self.utc {
            (wall, Place::Utc)
        } else if let Some(offset) = self.offset {
            let zone = if offset == local.offset {
                Place::Local(local.clone())
            } else {
                Place::Fixed(Zone { name: offset_text(offset).into(), offset })
            };
            (wall - i64::from(offset), zone)
        } else if let Some(name) = self.zone.filter(|name| *name != local.name) {
            // `GMT-3` is the one form of unknown name that carries an offset, and Go only shows
            // it: the clock is read as UTC's.
            let hours = name.strip_prefix("GMT").and_then(|hours| hours.parse::<i32>().ok());
            (wall, Place::Fixed(Zone { name, offset: hours.unwrap_or(0) * 3600 }))
        } else {
            (wall - i64::from(local.offset), Place::Local(local.clone()))
        };
        Some(Time { seconds, nanoseconds: self.nanoseconds, place })
    }
}

impl fmt::Display for Time {
    /// `2006-01-02 15:04:05.999999999 -0700 MST`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, offset) = self.place.zone();
        let wall = self.seconds + i64::from(offset);
        let (year, month, day) = date_of(wall.div_euclid(86_400));
        let clock = wall.rem_euclid(86_400);
        let (hour, minute, second) = (clock / 3600, clock / 60 % 60, clock % 60);
        if year < 0 {
            write!(f, "-{:04}", -year)?;
        } else {
            write!(f, "{year:04}")?;
        }
        write!(f, "-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")?;
        if self.nanoseconds > 0 {
            let digits = format!("{:09}", self.nanoseconds);
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        write!(f, " {} {name}", offset_text(offset))
    }
}

/// `+0200`
fn offset_text(offset: i32) -> String {
    let sign = if offset < 0 { '-' } else { '+' };
    let minutes = offset.unsigned_abs() / 60;
    format!("{sign}{:02}{:02}", minutes / 60, minutes % 60)
}

/// Which of `names` the first three letters are.
fn name<'t>(text: &'t str, names: &[&str]) -> Option<(usize, &'t str)> {
    let (name, rest) = text.split_at_checked(3)?;
    Some((names.iter().position(|candidate| name.eq_ignore_ascii_case(candidate))?, rest))
}

/// At least `min` and at most `max` digits.
fn digits(text: &str, min: usize, max: usize) -> Option<(u32, &str)> {
    let count = text.bytes().take(max).take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at_checked(count)?;
    if count < min { None } else { Some((number.parse().ok()?, rest)) }
}

/// How many bytes of `text` Go takes for a zone abbreviation.
fn zone_name_length(text: &str) -> Option<usize> {
    for special in ["ChST", "MeST"] {
        if text.starts_with(special) {
            return Some(4);
        }
    }
    if let Some(rest) = text.strip_prefix("GMT") {
        // Perhaps `GMT+3`: a sign and an hour of at most 23.
        let signed = rest.strip_prefix(['+', '-']).unwrap_or("");
        let width = signed.bytes().take_while(u8::is_ascii_digit).count();
        let hour = signed.get(..width).and_then(|hour| hour.parse::<u32>().ok());
        return Some(if hour.is_some_and(|hour| hour <= 23) { 4 + width } else { 3 });
    }
    if text.starts_with(['+', '-']) {
        let signed = text.get(1..)?;
        let width = signed.bytes().take_while(u8::is_ascii_digit).count();
        let hour: u32 = signed.get(..width)?.parse().ok()?;
        return (hour <= 23).then_some(1 + width);
    }
    let upper = text.bytes().take(6).take_while(u8::is_ascii_uppercase).count();
    match upper {
        3 => Some(3),
        4 if text.as_bytes().get(3) == Some(&b'T') || text.starts_with("WITA") => Some(4),
        5 if text.as_bytes().get(4) == Some(&b'T') => Some(5),
        _ => None,
    }
}

fn days_in(year: i64, month: u32) -> u32 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 in the proleptic Gregorian calendar, counted in years that start in March.
fn days_since_1970(year: i64, month: u32, day: u32) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month = i64::from((month + 9) % 12);
    let day_of_year = (153 * month + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The inverse of [`days_since_1970`].
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    let calendar_month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(calendar_month <= 2), calendar_month, day_of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str, zone: &Zone) -> Option<String> {
        Time::parse(text, zone).map(|time| time.to_string())
    }

    /// All recorded from Go 1.27 with the same layouts.
    #[test]
    fn layouts() {
        for (input, expected) in [
            ("Mon Jan  2 15:04:05 2006", Some("2006-01-02 15:04:05 +0000 UTC")),
            ("mon JAN 2 15:04:05.25 2006", Some("2006-01-02 15:04:05.25 +0000 UTC")),
            ("Mon Jan 2 15:04:05 CET 2006", Some("2006-01-02 15:04:05 +0000 CET")),
            ("Mon Jan 2 15:04:05 GMT-3 2006", Some("2006-01-02 12:04:05 -0300 GMT-3")),
            ("Mon Jan 02 15:04:05 -0700 2006", Some("2006-01-02 15:04:05 -0700 -0700")),
            ("12:30AM", Some("0000-01-01 00:30:00 +0000 UTC")),
            ("2020-02-29T10:00:00.123456789123Z", Some("2020-02-29 10:00:00.123456789 +0000 UTC")),
            ("2020-01-01T10:00:00+02:00", Some("2020-01-01 10:00:00 +0200 +0200")),
            ("2020-01-01T10:00:00+0200", Some("2020-01-01 10:00:00 +0200 +0200")),
            ("2020-01-01 9:04", Some("2020-01-01 09:04:00 +0000 UTC")),
            ("2020-01-01  10:04:05-07:00", Some("2020-01-01 10:04:05 -0700 -0700")),
            ("2020-01-01T10Z", Some("2020-01-01 10:00:00 +0000 UTC")),
            ("2019-02-29", None),
            ("2020-1-1", None),
            ("2020-01-01T10:00:00", None),
            ("2020-01-01T24:00:00Z", None),
            ("13:00PM", None),
            ("", None),
        ] {
            assert_eq!(text(input, &Zone::default()).as_deref(), expected, "{input}");
        }
    }

    #[test]
    fn zones() {
        let local = Zone { name: "CET".into(), offset: 3600 };
        for (input, expected) in [
            ("2020-01-01", "2020-01-01 00:00:00 +0100 CET"),
            ("2020-01-01T10:00:00Z", "2020-01-01 10:00:00 +0000 UTC"),
            ("2020-01-01T10:00:00+01:00", "2020-01-01 10:00:00 +0100 CET"),
            ("2020-01-01T10:00:00+00:00", "2020-01-01 10:00:00 +0000 +0000"),
        ] {
            assert_eq!(text(input, &local).as_deref(), Some(expected), "{input}");
        }
        // Compared as Go compares the structures: the same instant told differently is not equal.
        let utc = Zone::default();
        assert_ne!(Time::parse("2020-01-01", &utc), Time::parse("2020-01-01T00:00:00Z", &utc));
        assert_eq!(Time::parse("2020-01-01", &utc), Time::parse("2020-01-01T00:00:00+00:00", &utc));
    }
}
