//! Instants and spans of time.

use std::borrow::Cow;

use modgate_value::gotime::{Duration, HOUR, MINUTE, SECOND, Time, Zone, parse};

use super::Table;
use crate::{
    brief::{brief, quote},
    error::{EvalError, Result, failed},
    value::{Timestamp, Val},
};

/// The years from 1 to 9999.
const RANGE: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

const RFC3339: &str = "2006-01-02T15:04:05Z07:00";

pub(super) const FUNCTIONS: Table = &[
    ("getFullYear", |_, args| part(args, |time| time.civil().year)),
    ("getMonth", |_, args| part(args, |time| i64::from(time.civil().month) - 1)),
    ("getDayOfYear", |_, args| part(args, |time| i64::from(time.civil().year_day) - 1)),
    ("getDayOfMonth", |_, args| part(args, |time| i64::from(time.civil().day) - 1)),
    ("getDate", |_, args| part(args, |time| i64::from(time.civil().day))),
    ("getDayOfWeek", |_, args| part(args, |time| i64::from(time.civil().weekday.0))),
    ("getHours", |_, args| match args {
        [Val::Duration(nanos)] => Ok(Val::Int(nanos / HOUR)),
        _ => part(args, |time| i64::from(time.civil().hour)),
    }),
    ("getMinutes", |_, args| match args {
        [Val::Duration(nanos)] => Ok(Val::Int(nanos / MINUTE)),
        _ => part(args, |time| i64::from(time.civil().minute)),
    }),
    ("getSeconds", |_, args| match args {
        [Val::Duration(nanos)] => Ok(Val::Int(nanos / SECOND)),
        _ => part(args, |time| i64::from(time.civil().second)),
    }),
    ("getMilliseconds", |_, args| match args {
        [Val::Duration(nanos)] => Ok(Val::Int(nanos / (SECOND / 1000))),
        _ => part(args, |time| i64::from(time.nanos / 1_000_000)),
    }),
];

/// A part of an instant's calendar, in UTC or in the zone that the second argument names.
fn part<'a>(args: &[Val<'a>], of: impl Fn(&Time) -> i64) -> Result<Val<'a>> {
    match args {
        [Val::Timestamp(at)] => Ok(Val::Int(of(&at.time()))),
        [Val::Timestamp(at), Val::String(zone)] => {
            Ok(Val::Int(of(&at.time().in_zone(named(zone)?))))
        }
        _ => Err(EvalError::NoOverload),
    }
}

/// A zone by its name in the database, or by its distance from UTC.
fn named(name: &str) -> Result<Zone> {
    // No zone is called that.
    if name.len() > 256 {
        return failed(format!("unknown time zone {}", brief(name)));
    }
    let Some((hours, minutes)) = name.split_once(':') else {
        return Zone::load(name, "UTC")
            .map_or_else(|| failed(format!("unknown time zone {}", brief(name))), Ok);
    };
    let number = |text: &str| {
        text.parse::<i64>().map_err(|_| {
            EvalError::Failed(format!("strconv.Atoi: parsing {}: invalid syntax", quote(text)))
        })
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let minutes = if name.starts_with('-') { -minutes } else { minutes };
    let offset = hours.checked_mul(60).and_then(|hours| hours.checked_add(minutes));
    match offset.and_then(|offset| offset.checked_mul(60)) {
        Some(seconds) if seconds.abs() < 1_000_000_000 => Ok(Zone::Fixed(seconds, "".into())),
        _ => failed("timestamp overflow"),
    }
}

/// An instant that CEL can hold.
pub(crate) fn timestamp(seconds: i64, nanos: u32, offset: i32) -> Result<Timestamp> {
    if RANGE.contains(&seconds) {
        Ok(Timestamp { seconds, nanos, offset })
    } else {
        failed("timestamp overflow")
    }
}

/// `at`, so many nanoseconds later.
pub(super) fn add(at: Timestamp, nanos: i128) -> Result<Timestamp> {
    let second = i128::from(SECOND);
    let total = i128::from(at.seconds) * second + i128::from(at.nanos) + nanos;
    let seconds = i64::try_from(total.div_euclid(second));
    let nanos = u32::try_from(total.rem_euclid(second));
    match (seconds, nanos) {
        (Ok(seconds), Ok(nanos)) => timestamp(seconds, nanos, at.offset),
        _ => failed("timestamp overflow"),
    }
}

/// The instant that `text` writes in RFC 3339.
pub(crate) fn read_timestamp(text: &str) -> Result<Timestamp> {
    if !is_strict(text) {
        return failed(format!("invalid RFC 3339 timestamp {}", quote(text)));
    }
    lenient(text)
}

/// As Go reads RFC 3339: also hours of one digit, a comma before fractions, an offset of 24 hours.
pub(crate) fn lenient(text: &str) -> Result<Timestamp> {
    let (seconds, fraction) = text.split_once(',').unwrap_or((text, ""));
    let mut text = Cow::Borrowed(text);
    if fraction.starts_with(|first: char| first.is_ascii_digit()) {
        text = Cow::Owned(format!("{seconds}.{fraction}"));
    }
    let mut day = 0;
    for (sign, whole_day) in [("+", 86_400), ("-", -86_400)] {
        if let Some((time, minutes)) = text.rsplit_once(&format!("{sign}24:")) {
            day = whole_day;
            text = Cow::Owned(format!("{time}{sign}00:{minutes}"));
        }
    }
    match parse(RFC3339, &text, &Zone::utc()) {
        Ok(time) => {
            let offset = i32::try_from(time.zone.offset_at(time.unix)).unwrap_or(0);
            timestamp(time.unix - i64::from(day), time.nanos, offset + day)
        }
        Err(_) => failed("type conversion error from 'string' to 'google.protobuf.Timestamp'"),
    }
}

/// Whether `text` has the form of RFC 3339: two digits for each part, a point before fractions, and an
/// offset of at most 23:59. Go reads more than that.
fn is_strict(text: &str) -> bool {
    let bytes = text.as_bytes();
    let number = |at: usize, digits: usize, most: u32| {
        let part =
            text.get(at..at + digits).filter(|part| part.bytes().all(|b| b.is_ascii_digit()));
        part.and_then(|part| part.parse().ok()).is_some_and(|value: u32| value <= most)
    };
    let is = |at: usize, wanted: u8| bytes.get(at).is_some_and(|b| b.eq_ignore_ascii_case(&wanted));
    let positive = |at: usize| text.get(at..at + 2).is_some_and(|part| part != "00");
    let date = number(0, 4, 9999) && number(5, 2, 12) && number(8, 2, 31) && is(4, b'-');
    let time = number(11, 2, 23) && number(14, 2, 59) && number(17, 2, 60) && is(7, b'-');
    if !(date && time && positive(5) && positive(8) && is(10, b't') && is(13, b':') && is(16, b':'))
    {
        return false;
    }
    let mut zone = 19;
    if is(zone, b'.') {
        let digits = bytes.iter().skip(zone + 1).take_while(|b| b.is_ascii_digit()).count();
        if digits == 0 {
            return false;
        }
        zone += 1 + digits;
    }
    let utc = is(zone, b'z') && bytes.len() == zone + 1;
    let signed = (is(zone, b'+') || is(zone, b'-')) && bytes.len() == zone + 6;
    utc || (signed && number(zone + 1, 2, 23) && is(zone + 3, b':') && number(zone + 4, 2, 59))
}

/// The nanoseconds that `text` writes as `1h30m`.
pub(crate) fn read_duration(text: &str) -> Result<i64> {
    match Duration::parse(text) {
        Ok(duration) => Ok(duration.0),
        Err(_) => failed("type conversion error from 'string' to 'google.protobuf.Duration'"),
    }
}

/// An instant as CEL prints it.
pub(crate) fn timestamp_text(at: Timestamp) -> String {
    at.written().format("2006-01-02T15:04:05.999999999Z07:00")
}

/// A span as CEL prints it: seconds.
pub(crate) fn duration_text(nanos: i64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "as the original does")]
    let seconds = (nanos / SECOND) as f64 + (nanos % SECOND) as f64 / 1e9;
    format!("{}s", modgate_value::gofloat::plain(seconds))
}
