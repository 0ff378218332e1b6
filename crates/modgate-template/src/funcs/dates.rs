//! Sprig's dates.

use crate::{
    cx::{Cx, Fault, Result},
    funcs::{Args, Function, Ty},
    number::{IntError, parse_int},
    time::{self, Duration, HOUR, MINUTE, SECOND, Time, Zone},
    val::Val,
};

use Ty::{Any, Text as S, Time as T};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("ago", &[Any], |cx, args| {
        let now = now(cx)?;
        let then = match args.get(0) {
            Val::Time(time) => (**time).clone(),
            Val::Int(unix) | Val::Int64(unix) => Time::at_unix(*unix, Zone::utc()),
            _ => now.clone(),
        };
        cx.text(now.since(&then).round(SECOND).to_string())
    })
    .impure(),
    Function::new("date", &[S, Any], |cx, args| in_zone(cx, &args.str(0), args.get(1), "Local")),
    Function::new("dateInZone", &[S, Any, S], |cx, args| {
        in_zone(cx, &args.str(0), args.get(1), &args.str(2))
    }),
    Function::new("dateModify", &[S, T], modify),
    Function::new("date_in_zone", &[S, Any, S], |cx, args| {
        in_zone(cx, &args.str(0), args.get(1), &args.str(2))
    }),
    Function::new("date_modify", &[S, T], modify),
    Function::new("duration", &[Any], |cx, args| {
        let seconds = match args.get(0) {
            Val::Text(text) => integer(&text.lossy()),
            Val::Int64(seconds) => *seconds,
            _ => 0,
        };
        cx.text(Duration(seconds.wrapping_mul(SECOND)).to_string())
    }),
    Function::new("durationRound", &[Any], duration_round),
    Function::new("htmlDate", &[Any], |cx, args| in_zone(cx, "2006-01-02", args.get(0), "Local")),
    Function::new("htmlDateInZone", &[Any, S], |cx, args| {
        in_zone(cx, "2006-01-02", args.get(0), &args.str(1))
    }),
    Function::new("mustDateModify", &[S, T], must_modify),
    Function::new("mustToDate", &[S, S], read),
    Function::new("must_date_modify", &[S, T], must_modify),
    Function::new("now", &[], |cx, _| Ok(Val::Time(now(cx)?.into()))).impure(),
    Function::new("toDate", &[S, S], |cx, args| match read(cx, args) {
        Err(Fault::Failed(_)) => Ok(Val::Time(Time::zero().into())),
        other => other,
    }),
    Function::new("unixEpoch", &[T], |cx, args| cx.text(time_of(args, 0)?.unix.to_string())),
];

fn local(cx: &Cx<'_>) -> Zone {
    Zone::load("Local", cx.env.host.local_zone()).unwrap_or(Zone::utc())
}

/// The host's clock; an error where templates may not look at it.
fn now(cx: &Cx<'_>) -> Result<Time> {
    let since_epoch = cx.env.host.now()?;
    let unix = i64::try_from(since_epoch.as_secs()).unwrap_or(i64::MAX);
    Ok(Time { unix, nanos: since_epoch.subsec_nanos(), zone: local(cx) })
}

fn time_of(args: Args<'_, '_>, index: usize) -> Result<Time> {
    match args.get(index) {
        Val::Time(time) => Ok((**time).clone()),
        _ => Err(Fault::new("not a time")),
    }
}

/// `strconv.ParseInt(text, 10, 64)` without its error.
fn integer(text: &str) -> i64 {
    match parse_int(text, 10) {
        Ok(value) => value,
        Err(IntError::Syntax) => 0,
        Err(IntError::Range) if text.starts_with('-') => i64::MIN,
        Err(IntError::Range) => i64::MAX,
    }
}

/// Formats a date in a zone; an unknown zone is UTC, and what is no date is now.
fn in_zone<'a>(cx: &mut Cx<'a>, layout: &str, date: &Val<'a>, zone: &str) -> Result<Val<'a>> {
    let time = match date {
        Val::Time(time) => (**time).clone(),
        Val::Int(unix) | Val::Int64(unix) => Time::at_unix(*unix, Zone::utc()),
        _ => now(cx)?,
    };
    let zone = Zone::load(zone, cx.env.host.local_zone()).unwrap_or(Zone::utc());
    // No element of a layout prints more than some twenty bytes for each of its own.
    cx.allocate(layout.len().saturating_mul(4))?;
    cx.spend(layout.len())?;
    cx.text(time.in_zone(zone).format(layout))
}

fn modify<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    match must_modify(cx, args) {
        Err(Fault::Failed(_)) => Ok(args.get(1).clone()),
        other => other,
    }
}

fn must_modify<'a>(_: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let duration = Duration::parse(&args.str(0)).map_err(Fault::new)?;
    Ok(Val::Time(time_of(args, 1)?.add(duration).into()))
}

fn read<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let (layout, value) = (args.str(0), args.str(1));
    cx.spend(layout.len() + value.len())?;
    let time = time::parse(&layout, &value, &local(cx)).map_err(Fault::new)?;
    Ok(Val::Time(time.into()))
}

/// A duration to its largest unit: `2d`, `3mo`.
fn duration_round<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let duration = match args.get(0) {
        Val::Text(text) => Duration::parse(&text.lossy()).unwrap_or(Duration(0)),
        Val::Int64(nanos) => Duration(*nanos),
        Val::Time(time) => now(cx)?.since(time),
        _ => Duration(0),
    };
    let nanos = duration.0.unsigned_abs();
    let units = [
        (HOUR * 24 * 365, "y"),
        (HOUR * 24 * 30, "mo"),
        (HOUR * 24, "d"),
        (HOUR, "h"),
        (MINUTE, "m"),
        (SECOND, "s"),
    ];
    let unit = units.into_iter().find(|(unit, _)| nanos > unit.unsigned_abs());
    cx.text(match unit {
        Some((unit, name)) => format!("{}{name}", nanos / unit.unsigned_abs()),
        None => "0s".to_owned(),
    })
}
