//! Times and dates.

use modgate_value::gotime::{Duration, Time, Zone, days_in, parse};

use super::{Builtin, BuiltinError, Context, Outcome, operand};
use crate::value::{Value, View};

pub(super) const BUILTINS: &[Builtin] = &[
    Builtin::new("time.now_ns", "() => now: number", now_ns).nondeterministic(),
    Builtin::new("time.parse_ns", "(layout: string, value: string) => ns: number", parse_ns),
    Builtin::new("time.parse_rfc3339_ns", "(value: string) => ns: number", parse_rfc3339_ns),
    Builtin::new("time.parse_duration_ns", "(duration: string) => ns: number", parse_duration_ns),
    Builtin::new(
        "time.format",
        "(x: any<number, array<number, string>, array<number, string, string>>) => formatted timestamp: string",
        format,
    ),
    Builtin::new(
        "time.date",
        "(x: any<number, array<number, string>>) => date: array<number, number, number>",
        date,
    ),
    Builtin::new(
        "time.clock",
        "(x: any<number, array<number, string>>) => output: array<number, number, number>",
        clock,
    ),
    Builtin::new("time.weekday", "(x: any<number, array<number, string>>) => day: string", weekday),
    Builtin::new(
        "time.add_date",
        "(ns: number, years: number, months: number, days: number) => output: number",
        add_date,
    ),
    Builtin::new(
        "time.diff",
        "(ns1: any<number, array<number, string>>, ns2: any<number, array<number, string>>) => output: array<number, number, number, number, number, number>",
        diff,
    ),
];

const NANOS: i64 = 1_000_000_000;
const RFC3339: &str = "2006-01-02T15:04:05Z07:00";
const RFC3339_NANO: &str = "2006-01-02T15:04:05.999999999Z07:00";

/// A layout by the name that Go's `time` has for it, or the layout itself.
fn layout(name: &str) -> &str {
    match name {
        "" | "RFC3339Nano" => RFC3339_NANO,
        "ANSIC" => "Mon Jan _2 15:04:05 2006",
        "UnixDate" => "Mon Jan _2 15:04:05 MST 2006",
        "RubyDate" => "Mon Jan 02 15:04:05 -0700 2006",
        "RFC822" => "02 Jan 06 15:04 MST",
        "RFC822Z" => "02 Jan 06 15:04 -0700",
        "RFC850" => "Monday, 02-Jan-06 15:04:05 MST",
        "RFC1123" => "Mon, 02 Jan 2006 15:04:05 MST",
        "RFC1123Z" => "Mon, 02 Jan 2006 15:04:05 -0700",
        "RFC3339" => RFC3339,
        other => other,
    }
}

fn now_ns<'a>(context: &mut Context<'a>, _: &[Value<'a>]) -> Outcome<'a> {
    Ok(Some(Value::int(context.now_ns()?)))
}

/// Nanoseconds since 1970, if they fit.
fn nanoseconds<'a>(time: &Time) -> Outcome<'a> {
    let total = i128::from(time.unix) * i128::from(NANOS) + i128::from(time.nanos);
    match i64::try_from(total) {
        Ok(nanos) => Ok(Some(Value::int(nanos))),
        Err(_) => Err(BuiltinError::failed("time outside of valid range")),
    }
}

fn read<'a>(context: &Context<'a>, layout: &str, text: &str) -> Outcome<'a> {
    context.spend(layout.len().saturating_mul(8).saturating_add(text.len()))?;
    nanoseconds(&parse(layout, text, &Zone::Utc).map_err(BuiltinError::Failed)?)
}

fn parse_ns<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let (name, text) = (operand::string(args, 0)?, operand::string(args, 1)?);
    // The empty layout is the empty layout here.
    read(context, if name.is_empty() { name } else { layout(name) }, text)
}

fn parse_rfc3339_ns<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    read(context, RFC3339, operand::string(args, 0)?)
}

/// Go's durations, and days, weeks and years of 24, 168 and 8760 hours.
fn parse_duration_ns<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let text = operand::string(args, 0)?;
    context.scan(text)?;
    let duration = if text.contains(['d', 'w', 'y']) {
        let quoted = modgate_value::gofmt::quote(text);
        let invalid = || BuiltinError::failed(format!("time: invalid duration {quoted}"));
        let hours = in_hours(text).ok_or_else(invalid)?;
        Duration::parse(&hours).map_err(|message| {
            let problem = message.rsplit_once(' ').map_or(message.as_str(), |(start, _)| start);
            BuiltinError::failed(format!("{problem} {quoted}"))
        })?
    } else {
        Duration::parse(text).map_err(BuiltinError::Failed)?
    };
    Ok(Some(Value::int(duration.0)))
}

/// The duration with days, weeks and years rewritten as hours; `None` if it is not made of numbers
/// with units.
fn in_hours(text: &str) -> Option<String> {
    let (sign, mut rest) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.get(..1)?, rest),
        None => ("", text),
    };
    let mut out = sign.to_owned();
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(digits);
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        rest = after;
        let hours = match unit {
            "d" => 24.0,
            "w" => 168.0,
            "y" => 8760.0,
            "ns" | "us" | "µs" | "μs" | "ms" | "s" | "m" | "h" if !number.is_empty() => {
                out.push_str(number);
                out.push_str(unit);
                continue;
            }
            _ => return None,
        };
        let number: f64 = number.parse().ok()?;
        out.push_str(&modgate_value::gofloat::plain(number * hours));
        out.push('h');
    }
    Some(out)
}

/// A moment as operands name it: nanoseconds since 1970, or those with a zone and a layout.
fn moment<'a>(value: Value<'a>) -> Result<(Time, &'a str), BuiltinError> {
    let wrong =
        || operand::wrong_type(0, value, &["either number (ns) or [number (ns), string (tz)]"]);
    let (number, zone, layout) = match value.view() {
        View::Number(number) => (number, "", ""),
        View::Array(parts) if !parts.is_empty() => {
            let parts: Vec<_> = parts.iter().take(3).collect();
            let text = |index: usize| match parts.get(index) {
                Some(part) => operand::string(&[*part], 0),
                None => Ok(""),
            };
            (operand::number(&parts, 0)?, text(1)?, text(2)?)
        }
        _ => return Err(wrong()),
    };
    let zone = Zone::load(zone, "UTC")
        .ok_or_else(|| BuiltinError::failed(format!("unknown time zone {zone}")))?;
    let nanos = match number.as_int() {
        Some(nanos) => nanos,
        None => {
            let exact = number.to_integer()?.and_then(|integer| i64::try_from(integer).ok());
            exact.ok_or_else(|| BuiltinError::failed("timestamp too big"))?
        }
    };
    let nanos_of_second = u32::try_from(nanos.rem_euclid(NANOS)).unwrap_or(0);
    Ok((Time { unix: nanos.div_euclid(NANOS), nanos: nanos_of_second, zone }, layout))
}

fn format<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let (time, name) = moment(operand::any(args, 0))?;
    let layout = layout(name);
    context.spend(layout.len().saturating_mul(8))?;
    // No element prints as more than ten times its own length.
    context.allocate(layout.len().saturating_mul(10))?;
    context.string(&time.format(layout))
}

fn date<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let civil = moment(operand::any(args, 0))?.0.civil();
    let parts = [civil.year, civil.month.into(), civil.day.into()];
    context.array(&parts.map(Value::int))
}

fn clock<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let civil = moment(operand::any(args, 0))?.0.civil();
    let parts = [civil.hour, civil.minute, civil.second];
    context.array(&parts.map(|part| Value::int(part.into())))
}

fn weekday<'a>(_: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let civil = moment(operand::any(args, 0))?.0.civil();
    Ok(Some(Value::str(civil.weekday.name())))
}

/// Years, months and days later; a day that the month lacks runs over into the next.
fn add_date<'a>(_: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let (time, _) = moment(operand::any(args, 0))?;
    let (years, months) = (operand::int(args, 1)?, operand::int(args, 2)?);
    let days = operand::int(args, 3)?;
    let outside = || BuiltinError::failed("time outside of valid range");
    let civil = time.civil();
    let month = (i64::from(civil.month) - 1).checked_add(months).ok_or_else(outside)?;
    let year = civil
        .year
        .checked_add(years)
        .and_then(|year| year.checked_add(month.div_euclid(12)))
        .ok_or_else(outside)?;
    let month = u8::try_from(month.rem_euclid(12) + 1).unwrap_or(1);
    // Days are counted from the first of the month, as seconds of that day.
    let days = days.checked_add(i64::from(civil.day) - 1).ok_or_else(outside)?;
    let of_day = i64::from(civil.hour) * 3600 + i64::from(civil.minute) * 60;
    let seconds = days
        .checked_mul(86_400)
        .and_then(|seconds| seconds.checked_add(of_day + i64::from(civil.second)))
        .ok_or_else(outside)?;
    nanoseconds(&Time::at_civil(year, month, 1, seconds, time.nanos, time.zone))
}

/// Years, months, days, hours, minutes and seconds between two moments, in the zone of the first.
fn diff<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let (first, _) = moment(operand::any(args, 0))?;
    let (second, _) = moment(operand::any(args, 1))?;
    let second = second.in_zone(first.zone.clone());
    let swapped = second.instant() < first.instant();
    let (from, to) = if swapped { (second, first) } else { (first, second) };
    let (from, to) = (from.civil(), to.civil());
    let between = |later: u8, earlier: u8| i64::from(later) - i64::from(earlier);
    let mut parts = [
        to.year - from.year,
        between(to.month, from.month),
        between(to.day, from.day),
        between(to.hour, from.hour),
        between(to.minute, from.minute),
        between(to.second, from.second),
    ];
    let month = i64::from(days_in(from.month, from.year));
    let mut borrow = 0;
    // A unit below zero borrows from the next larger unit.
    for (part, unit) in parts.iter_mut().rev().zip([60, 60, 24, month, 12, i64::MAX]) {
        *part -= borrow;
        borrow = i64::from(*part < 0);
        *part += borrow * unit;
    }
    context.array(&parts.map(Value::int))
}
