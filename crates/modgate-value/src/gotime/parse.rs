//! Reading dates by layout: `time.ParseInLocation`.

use super::{
    Element, MONTHS, Time, WEEKDAYS, Zone, days_before, days_in,
    format::{Offset, next_element},
    is_leap,
};
use crate::gofmt::quote;

/// Why one element of a value cannot be read.
enum Wrong {
    /// It does not look like what the layout asks for.
    Form,
    /// It is out of range; the name of the part.
    Range(&'static str),
}

type Step<T> = Result<T, Wrong>;

#[derive(Default)]
struct Parts {
    year: i64,
    month: Option<u8>,
    day: Option<i64>,
    year_day: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    nanos: u32,
    pm: Option<bool>,
    zone: Option<Zone>,
    offset: Option<i64>,
    zone_name: String,
}

/// Why a value does not fit a layout.
enum Misfit<'v, 'l> {
    /// The rest of the value does not begin with this part of the layout.
    Unlike(&'v str, &'l str),
    /// A part of this name is out of range.
    Range(&'static str),
    /// The layout ends before the value.
    Extra(&'v str),
    /// The parts name no instant.
    Time(&'static str),
}

/// Reads `value` by `layout`; a value that names no zone is in `local`.
///
/// # Errors
///
/// Go's text.
pub fn parse(layout: &str, value: &str, local: &Zone) -> Result<Time, String> {
    read(layout, value, local).map_err(|misfit| {
        let parsing = format!("parsing time {}", quote(value));
        match misfit {
            Misfit::Unlike(found, expected) => format!(
                "{parsing} as {}: cannot parse {} as {}",
                quote(layout),
                quote(found),
                quote(expected)
            ),
            Misfit::Range(part) => format!("{parsing}: {part} out of range"),
            Misfit::Extra(rest) => format!("{parsing}: extra text: {}", quote(rest)),
            Misfit::Time(problem) => format!("{parsing}: {problem}"),
        }
    })
}

/// Reads `value` by the first of `layouts` it fits.
pub fn parse_any(layouts: &[&str], value: &str, local: &Zone) -> Option<Time> {
    layouts.iter().find_map(|layout| read(layout, value, local).ok())
}

fn read<'v, 'l>(layout: &'l str, value: &'v str, local: &Zone) -> Result<Time, Misfit<'v, 'l>> {
    let mut parts = Parts::default();
    let mut rest = value;
    let mut layout_rest = layout;
    loop {
        let (before, element, after) = next_element(layout_rest);
        rest = skip(rest, before).map_err(|found| Misfit::Unlike(found, before))?;
        let Some(element) = element else {
            if rest.is_empty() {
                return parts.time(local).map_err(Misfit::Time);
            }
            return Err(Misfit::Extra(rest));
        };
        let hold = rest;
        parts.read(element, &mut rest, after).map_err(|wrong| match wrong {
            Wrong::Form => {
                let text = layout_rest.get(before.len()..layout_rest.len() - after.len());
                Misfit::Unlike(hold, text.unwrap_or_default())
            }
            Wrong::Range(part) => Misfit::Range(part),
        })?;
        layout_rest = after;
    }
}

/// Steps over literal text; a run of spaces matches any run of spaces.
fn skip<'v>(value: &'v str, prefix: &str) -> Result<&'v str, &'v str> {
    let (mut value, mut prefix) = (value, prefix);
    while let Some(first) = prefix.chars().next() {
        if first == ' ' {
            if !value.is_empty() && !value.starts_with(' ') {
                return Err(value);
            }
            prefix = prefix.trim_start_matches(' ');
            value = value.trim_start_matches(' ');
            continue;
        }
        value = value.strip_prefix(first).ok_or(value)?;
        prefix = prefix.strip_prefix(first).unwrap_or_default();
    }
    Ok(value)
}

impl Parts {
    fn read(&mut self, element: Element, rest: &mut &str, layout_after: &str) -> Step<()> {
        use Element as E;
        match element {
            E::Year => {
                let year = take(rest, 2).and_then(number).ok_or(Wrong::Form)?;
                self.year = if year >= 69 { 1900 + year } else { 2000 + year };
            }
            E::LongYear => {
                if !rest.starts_with(|first: char| first.is_ascii_digit()) {
                    return Err(Wrong::Form);
                }
                self.year = take(rest, 4).and_then(number).ok_or(Wrong::Form)?;
            }
            E::Month => self.month = Some(name(rest, &MONTHS, 3)? + 1),
            E::LongMonth => self.month = Some(name(rest, &MONTHS, usize::MAX)? + 1),
            E::NumMonth | E::ZeroMonth => {
                let month = two_digits(rest, element == E::ZeroMonth)?;
                let month = u8::try_from(month).ok().filter(|month| (1..=12).contains(month));
                self.month = Some(month.ok_or(Wrong::Range("month"))?);
            }
            E::Weekday => {
                name(rest, &WEEKDAYS, 3)?;
            }
            E::LongWeekday => {
                name(rest, &WEEKDAYS, usize::MAX)?;
            }
            E::Day | E::SpaceDay | E::ZeroDay => {
                if element == E::SpaceDay {
                    *rest = rest.strip_prefix(' ').unwrap_or(rest);
                }
                self.day = Some(two_digits(rest, element == E::ZeroDay)?);
            }
            E::SpaceYearDay | E::ZeroYearDay => {
                for _ in 0..2 {
                    if element == E::SpaceYearDay {
                        *rest = rest.strip_prefix(' ').unwrap_or(rest);
                    }
                }
                let digits = rest.bytes().take(3).take_while(u8::is_ascii_digit).count();
                if digits == 0 || (element == E::ZeroYearDay && digits != 3) {
                    return Err(Wrong::Form);
                }
                self.year_day = take(rest, digits).and_then(number);
            }
            E::Hour => self.hour = within(two_digits(rest, false)?, 23, "hour")?,
            E::Hour12 | E::ZeroHour12 => {
                self.hour = within(two_digits(rest, element == E::ZeroHour12)?, 12, "hour")?;
            }
            E::Minute | E::ZeroMinute => {
                self.minute = within(two_digits(rest, element == E::ZeroMinute)?, 59, "minute")?;
            }
            E::Second | E::ZeroSecond => {
                self.second = within(two_digits(rest, element == E::ZeroSecond)?, 59, "second")?;
                // A fraction may follow although the layout has none.
                let layout_has_one = matches!(
                    next_element(layout_after).1,
                    Some(E::Fraction(..) | E::TrimmedFraction(..))
                );
                if !layout_has_one {
                    self.optional_fraction(rest)?;
                }
            }
            E::UpperPm | E::LowerPm => {
                let (am, pm) = if element == E::UpperPm { ("AM", "PM") } else { ("am", "pm") };
                self.pm = match take(rest, 2) {
                    Some(half) if half == pm => Some(true),
                    Some(half) if half == am => Some(false),
                    _ => return Err(Wrong::Form),
                };
            }
            E::Offset(form) => self.read_offset(form, rest)?,
            E::ZoneName => {
                if let Some(after) = rest.strip_prefix("UTC") {
                    *rest = after;
                    self.zone = Some(Zone::utc());
                } else {
                    let length = zone_name_length(rest).ok_or(Wrong::Form)?;
                    self.zone_name = take(rest, length).ok_or(Wrong::Form)?.to_owned();
                }
            }
            E::Fraction(digits, _) => {
                let text = take(rest, digits + 1).ok_or(Wrong::Form)?;
                self.nanos = nanos(text)?;
            }
            E::TrimmedFraction(..) => self.optional_fraction(rest)?,
        }
        Ok(())
    }

    fn optional_fraction(&mut self, rest: &mut &str) -> Step<()> {
        let Some(after) = rest.strip_prefix(['.', ',']) else {
            return Ok(());
        };
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            self.nanos = nanos(take(rest, digits + 1).ok_or(Wrong::Form)?)?;
        }
        Ok(())
    }

    fn read_offset(&mut self, form: Offset, rest: &mut &str) -> Step<()> {
        if form.iso
            && let Some(after) = rest.strip_prefix('Z')
        {
            *rest = after;
            self.zone = Some(Zone::utc());
            return Ok(());
        }
        let negative = match take(rest, 1) {
            Some("+") => false,
            Some("-") => true,
            _ => return Err(Wrong::Form),
        };
        let mut part = |wanted: bool, colon: bool, limit: i64, range: &'static str| {
            if !wanted {
                return Ok(0);
            }
            if colon {
                *rest = rest.strip_prefix(':').ok_or(Wrong::Form)?;
            }
            within(two_digits(rest, true)?, limit, range)
        };
        let hours = part(true, false, 24, "time zone offset hour")?;
        let minutes = part(form.minutes, form.colons, 60, "time zone offset minute")?;
        let seconds = part(form.seconds, form.colons, 60, "time zone offset second")?;
        let offset = (hours * 60 + minutes) * 60 + seconds;
        self.offset = Some(if negative { -offset } else { offset });
        Ok(())
    }

    /// The instant the parts name, or what does not fit together.
    fn time(mut self, local: &Zone) -> Result<Time, &'static str> {
        match self.pm {
            Some(true) if self.hour < 12 => self.hour += 12,
            Some(false) if self.hour == 12 => self.hour = 0,
            _ => {}
        }
        let (month, day) = self.month_and_day()?;
        let day =
            u8::try_from(day).ok().filter(|day| (1..=days_in(month, self.year)).contains(day));
        let day = day.ok_or("day out of range")?;
        let second_of_day = (self.hour * 60 + self.minute) * 60 + self.second;
        let at =
            |zone: Zone| Time::at_civil(self.year, month, day, second_of_day, self.nanos, zone);
        if let Some(zone) = self.zone.clone() {
            return Ok(at(zone));
        }
        if let Some(offset) = self.offset {
            let utc = at(Zone::utc());
            let unix = utc.unix.saturating_sub(offset);
            // Where the local zone had that offset then, it is meant.
            let is_local = local.offset_at(unix) == offset
                && (self.zone_name.is_empty() || local.abbreviation_at(unix) == self.zone_name);
            let zone =
                if is_local { local.clone() } else { Zone::Fixed(offset, self.zone_name.into()) };
            return Ok(Time { unix, zone, ..utc });
        }
        if !self.zone_name.is_empty() {
            let utc = at(Zone::utc());
            if let Some(offset) = local.offset_of(&self.zone_name, utc.unix) {
                let unix = utc.unix.saturating_sub(offset);
                return Ok(Time { unix, zone: local.clone(), ..utc });
            }
            // An abbreviation that is not local says nothing about the offset, but for `GMT+3`.
            let hours = self.zone_name.strip_prefix("GMT").and_then(|hours| hours.parse().ok());
            let offset = hours.unwrap_or(0i64) * 3600;
            return Ok(Time { zone: Zone::Fixed(offset, self.zone_name.into()), ..utc });
        }
        Ok(at(local.clone()))
    }

    fn month_and_day(&self) -> Result<(u8, i64), &'static str> {
        let Some(year_day) = self.year_day else {
            return Ok((self.month.unwrap_or(1), self.day.unwrap_or(1)));
        };
        let last = if is_leap(self.year) { 366 } else { 365 };
        if !(1..=last).contains(&year_day) {
            return Err("day-of-year out of range");
        }
        let before = |month: u8| i64::from(days_before(month, self.year));
        let month = (1..=12).rev().find(|month| before(*month) < year_day).unwrap_or(1);
        let day = year_day - before(month);
        if self.month.is_some_and(|given| given != month) {
            return Err("day-of-year does not match month");
        }
        if self.day.is_some_and(|given| given != day) {
            return Err("day-of-year does not match day");
        }
        Ok((month, day))
    }
}

fn take<'v>(rest: &mut &'v str, length: usize) -> Option<&'v str> {
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}

/// Decimal digits with an optional sign.
fn number(text: &str) -> Option<i64> {
    text.parse().ok()
}

fn within(value: i64, limit: i64, range: &'static str) -> Step<i64> {
    if value <= limit { Ok(value) } else { Err(Wrong::Range(range)) }
}

/// Two digits, or one where that is not `fixed`.
fn two_digits(rest: &mut &str, fixed: bool) -> Step<i64> {
    let digits = rest.bytes().take(2).take_while(u8::is_ascii_digit).count();
    if digits == 0 || (fixed && digits == 1) {
        return Err(Wrong::Form);
    }
    take(rest, digits).and_then(number).ok_or(Wrong::Form)
}

/// Index of the name the value begins with, ignoring case; names are cut to `length`.
fn name(rest: &mut &str, names: &[&str], length: usize) -> Step<u8> {
    for (index, name) in (0u8..).zip(names) {
        let name = name.get(..length).unwrap_or(name);
        if let Some((start, after)) = rest.split_at_checked(name.len())
            && start.eq_ignore_ascii_case(name)
        {
            *rest = after;
            return Ok(index);
        }
    }
    Err(Wrong::Form)
}

/// `.5`, `,123456789`; digits beyond the ninth are dropped.
fn nanos(text: &str) -> Step<u32> {
    let digits = text.strip_prefix(['.', ',']).ok_or(Wrong::Form)?;
    let digits = digits.get(..9).unwrap_or(digits);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Wrong::Form);
    }
    format!("{digits:0<9}").parse().map_err(|_| Wrong::Form)
}

/// Length of the zone abbreviation the value begins with.
fn zone_name_length(value: &str) -> Option<usize> {
    let bytes = value.as_bytes();
    if value.starts_with("ChST") || value.starts_with("MeST") {
        return Some(4);
    }
    if let Some(after) = value.strip_prefix("GMT") {
        return Some(3 + signed_offset_length(after).unwrap_or(0));
    }
    if matches!(bytes.first(), Some(b'+' | b'-')) && bytes.len() >= 3 {
        return signed_offset_length(value);
    }
    let upper = bytes.iter().take(6).take_while(|byte| byte.is_ascii_uppercase()).count();
    match upper {
        3 => Some(3),
        4 if bytes.get(3) == Some(&b'T') || value.starts_with("WITA") => Some(4),
        5 if bytes.get(4) == Some(&b'T') => Some(5),
        _ => None,
    }
}

/// Length of `+3` or `-03`.
fn signed_offset_length(value: &str) -> Option<usize> {
    let after = value.strip_prefix(['+', '-'])?;
    let digits = after.bytes().take_while(u8::is_ascii_digit).count();
    let hours: u64 = after.get(..digits)?.parse().ok()?;
    (hours <= 23).then_some(1 + digits)
}
