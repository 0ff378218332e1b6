//! Layouts: which part of a date a piece of `2006-01-02` stands for, and printing by layout.

use super::{Month, Time};

/// One element of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Element {
    LongMonth,
    Month,
    NumMonth,
    ZeroMonth,
    LongWeekday,
    Weekday,
    Day,
    SpaceDay,
    ZeroDay,
    SpaceYearDay,
    ZeroYearDay,
    Hour,
    Hour12,
    ZeroHour12,
    Minute,
    ZeroMinute,
    Second,
    ZeroSecond,
    LongYear,
    Year,
    UpperPm,
    LowerPm,
    ZoneName,
    Offset(Offset),
    /// `.000`: that many digits, always.
    Fraction(usize, char),
    /// `.999`: at most that many digits, trailing zeros left out.
    TrimmedFraction(usize, char),
}

/// The form of a numeric zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Offset {
    /// `Z` for UTC.
    pub(super) iso: bool,
    pub(super) colons: bool,
    pub(super) minutes: bool,
    pub(super) seconds: bool,
}

/// Splits a layout at its first element: the text before, the element, the text after.
pub(super) fn next_element(layout: &str) -> (&str, Option<Element>, &str) {
    for (at, _) in layout.char_indices() {
        let rest = layout.get(at..).unwrap_or_default();
        if let Some((element, skipped, length)) = element_at(rest) {
            let before = layout.get(..at + skipped).unwrap_or_default();
            let after = rest.get(skipped + length..).unwrap_or_default();
            return (before, Some(element), after);
        }
    }
    (layout, None, "")
}

/// The element `rest` begins with, what of `rest` is literal before it, and its length.
fn element_at(rest: &str) -> Option<(Element, usize, usize)> {
    use Element as E;
    let plain = |element, text: &str| Some((element, 0, text.len()));
    let lower_follows =
        |length: usize| rest.as_bytes().get(length).is_some_and(u8::is_ascii_lowercase);
    const FIXED: [(&str, Element); 10] = [
        ("January", E::LongMonth),
        ("Monday", E::LongWeekday),
        ("MST", E::ZoneName),
        ("002", E::ZeroYearDay),
        ("01", E::ZeroMonth),
        ("02", E::ZeroDay),
        ("03", E::ZeroHour12),
        ("04", E::ZeroMinute),
        ("05", E::ZeroSecond),
        ("06", E::Year),
    ];
    for (text, element) in FIXED {
        if rest.starts_with(text) {
            return plain(element, text);
        }
    }
    const OFFSETS: [(&str, bool, bool, bool); 5] = [
        // text after the first character, colons, minutes, seconds
        ("070000", false, true, true),
        ("07:00:00", true, true, true),
        ("0700", false, true, false),
        ("07:00", true, true, false),
        ("07", false, false, false),
    ];
    match rest.as_bytes() {
        [b'J', b'a', b'n', ..] if !lower_follows(3) => Some((E::Month, 0, 3)),
        [b'M', b'o', b'n', ..] if !lower_follows(3) => Some((E::Weekday, 0, 3)),
        [b'1', b'5', ..] => Some((E::Hour, 0, 2)),
        [b'1', ..] => Some((E::NumMonth, 0, 1)),
        [b'2', b'0', b'0', b'6', ..] => Some((E::LongYear, 0, 4)),
        [b'2', ..] => Some((E::Day, 0, 1)),
        [b'_', b'2', b'0', b'0', b'6', ..] => Some((E::LongYear, 1, 4)),
        [b'_', b'2', ..] => Some((E::SpaceDay, 0, 2)),
        [b'_', b'_', b'2', ..] => Some((E::SpaceYearDay, 0, 3)),
        [b'3', ..] => Some((E::Hour12, 0, 1)),
        [b'4', ..] => Some((E::Minute, 0, 1)),
        [b'5', ..] => Some((E::Second, 0, 1)),
        [b'P', b'M', ..] => Some((E::UpperPm, 0, 2)),
        [b'p', b'm', ..] => Some((E::LowerPm, 0, 2)),
        [first @ (b'-' | b'Z'), ..] => {
            let after = rest.get(1..)?;
            let (text, colons, minutes, seconds) =
                OFFSETS.into_iter().find(|(text, ..)| after.starts_with(text))?;
            let offset = Offset { iso: *first == b'Z', colons, minutes, seconds };
            Some((E::Offset(offset), 0, 1 + text.len()))
        }
        [first @ (b'.' | b','), digit @ (b'0' | b'9'), ..] => {
            let after = rest.get(1..)?;
            let digits = after.bytes().take_while(|byte| byte == digit).count();
            if after.as_bytes().get(digits).is_some_and(u8::is_ascii_digit) {
                return None;
            }
            let separator = char::from(*first);
            let element = if *digit == b'0' {
                E::Fraction(digits, separator)
            } else {
                E::TrimmedFraction(digits, separator)
            };
            Some((element, 0, 1 + digits))
        }
        _ => None,
    }
}

impl Time {
    /// `time.Time.Format`
    pub fn format(&self, layout: &str) -> String {
        use Element as E;
        let civil = self.civil();
        let offset = self.zone.offset_at(self.unix);
        let hour12 = match civil.hour % 12 {
            0 => 12,
            hour => hour,
        };
        let month = Month(civil.month).name();
        let weekday = civil.weekday.name();
        let short = |name: &'static str| name.get(..3).unwrap_or(name);
        let mut out = String::with_capacity(layout.len() + 8);
        let mut rest = layout;
        loop {
            let (before, element, after) = next_element(rest);
            out.push_str(before);
            let Some(element) = element else {
                return out;
            };
            rest = after;
            let piece = match element {
                E::LongMonth => month.to_owned(),
                E::Month => short(month).to_owned(),
                E::NumMonth => civil.month.to_string(),
                E::ZeroMonth => format!("{:02}", civil.month),
                E::LongWeekday => weekday.to_owned(),
                E::Weekday => short(weekday).to_owned(),
                E::Day => civil.day.to_string(),
                E::SpaceDay => format!("{:2}", civil.day),
                E::ZeroDay => format!("{:02}", civil.day),
                E::SpaceYearDay => format!("{:3}", civil.year_day),
                E::ZeroYearDay => format!("{:03}", civil.year_day),
                E::Hour => format!("{:02}", civil.hour),
                E::Hour12 => hour12.to_string(),
                E::ZeroHour12 => format!("{hour12:02}"),
                E::Minute => civil.minute.to_string(),
                E::ZeroMinute => format!("{:02}", civil.minute),
                E::Second => civil.second.to_string(),
                E::ZeroSecond => format!("{:02}", civil.second),
                E::LongYear if civil.year < 0 => format!("-{:04}", civil.year.unsigned_abs()),
                E::LongYear => format!("{:04}", civil.year),
                E::Year => format!("{:02}", civil.year.max(0) % 100),
                E::UpperPm => if civil.hour >= 12 { "PM" } else { "AM" }.to_owned(),
                E::LowerPm => if civil.hour >= 12 { "pm" } else { "am" }.to_owned(),
                E::ZoneName => match self.zone.abbreviation_at(self.unix) {
                    name if name.is_empty() => numeric_zone(offset, Offset::PLAIN),
                    name => name,
                },
                E::Offset(form) => numeric_zone(offset, form),
                E::Fraction(digits, separator) => {
                    format!("{separator}{}", fraction(self.nanos, digits))
                }
                E::TrimmedFraction(digits, separator) => {
                    let all = fraction(self.nanos, digits);
                    match all.trim_end_matches('0') {
                        "" => String::new(),
                        some => format!("{separator}{some}"),
                    }
                }
            };
            out.push_str(&piece);
        }
    }
}

impl Offset {
    /// `-0700`
    const PLAIN: Self = Self { iso: false, colons: false, minutes: true, seconds: false };
}

fn fraction(nanos: u32, digits: usize) -> String {
    let all = format!("{nanos:09}");
    match all.get(..digits) {
        Some(some) => some.to_owned(),
        // A layout with more than nine digits pads.
        None => format!("{all}{}", "0".repeat(digits - 9)),
    }
}

fn numeric_zone(offset: i64, form: Offset) -> String {
    if form.iso && offset == 0 {
        return "Z".to_owned();
    }
    let sign = if offset < 0 { '-' } else { '+' };
    let seconds = offset.unsigned_abs();
    let colon = if form.colons { ":" } else { "" };
    let mut out = format!("{sign}{:02}", seconds / 3600);
    if form.minutes {
        out.push_str(&format!("{colon}{:02}", seconds / 60 % 60));
    }
    if form.seconds {
        out.push_str(&format!("{colon}{:02}", seconds % 60));
    }
    out
}
