//! Methods of the values that have some: those of `time.Time`, `time.Duration`, `time.Month`,
//! `time.Weekday` and `*semver.Version` that a template can make use of.

use std::cmp::Ordering;

use crate::{
    cx::{Cx, Fault, Result},
    funcs::{Args, Function, Ty},
    semver::Version,
    time::{Duration, HOUR, MINUTE, Month, SECOND, Time, Zone},
    val::Val,
};

/// The method `name` of `receiver`, whose first argument is the receiver.
pub(crate) fn method(receiver: &Val<'_>, name: &str) -> Option<&'static Function> {
    let methods = match receiver {
        Val::Time(_) => TIME,
        Val::Duration(_) => DURATION,
        Val::Month(_) | Val::Weekday(_) => NAMED,
        Val::Version(_) => VERSION,
        _ => return None,
    };
    methods.iter().find(|method| method.name == name)
}

macro_rules! int {
    ($name:literal, $value:expr) => {
        Function::new($name, &[], |_, args| {
            let value: fn(&Time) -> i64 = $value;
            Ok(Val::Int(value(&time(args, 0))))
        })
    };
}

pub(super) const TIME: &[Function] = &[
    Function::new("Add", &[Ty::Duration], |_, args| {
        Ok(Val::Time(time(args, 0).add(duration(args, 1)).into()))
    }),
    Function::new("AddDate", &[Ty::Int, Ty::Int, Ty::Int], add_date),
    Function::new("After", &[Ty::Time], |_, args| order(args, Ordering::is_gt)),
    Function::new("Before", &[Ty::Time], |_, args| order(args, Ordering::is_lt)),
    int!("Day", |time| time.civil().day.into()),
    Function::new("Equal", &[Ty::Time], |_, args| order(args, Ordering::is_eq)),
    Function::new("Format", &[Ty::Text], |cx, args| {
        let layout = args.str(1);
        cx.spend(layout.len())?;
        cx.allocate(layout.len().saturating_mul(4))?;
        cx.text(time(args, 0).format(&layout))
    }),
    int!("Hour", |time| time.civil().hour.into()),
    Function::new("IsZero", &[], |_, args| {
        Ok(Val::Bool(time(args, 0).instant() == Time::zero().instant()))
    }),
    Function::new("Local", &[], |cx, args| {
        let local = Zone::load("Local", cx.env.host.local_zone()).unwrap_or(Zone::utc());
        Ok(Val::Time(time(args, 0).in_zone(local).into()))
    }),
    int!("Minute", |time| time.civil().minute.into()),
    Function::new("Month", &[], |_, args| Ok(Val::Month(Month(time(args, 0).civil().month)))),
    int!("Nanosecond", |time| time.nanos.into()),
    Function::new("Round", &[Ty::Duration], |_, args| Ok(rounded(args, true))),
    int!("Second", |time| time.civil().second.into()),
    Function::new("String", &[], |cx, args| cx.text(time(args, 0).to_string())),
    Function::new("Sub", &[Ty::Time], |_, args| {
        Ok(Val::Duration(time(args, 0).since(&time(args, 1))))
    }),
    Function::new("Truncate", &[Ty::Duration], |_, args| Ok(rounded(args, false))),
    Function::new("UTC", &[], |_, args| Ok(Val::Time(time(args, 0).in_zone(Zone::utc()).into()))),
    Function::new("Unix", &[], |_, args| Ok(Val::Int64(time(args, 0).unix))),
    Function::new("UnixMicro", &[], |_, args| Ok(Val::Int64(since_epoch(args, 1_000)))),
    Function::new("UnixMilli", &[], |_, args| Ok(Val::Int64(since_epoch(args, 1_000_000)))),
    Function::new("UnixNano", &[], |_, args| Ok(Val::Int64(since_epoch(args, 1)))),
    Function::new("Weekday", &[], |_, args| Ok(Val::Weekday(time(args, 0).civil().weekday))),
    int!("Year", |time| time.civil().year),
    int!("YearDay", |time| time.civil().year_day.into()),
];

pub(super) const DURATION: &[Function] = &[
    Function::new("Hours", &[], |_, args| Ok(Val::Float(units(args, HOUR)))),
    Function::new("Microseconds", &[], |_, args| Ok(Val::Int64(duration(args, 0).0 / 1_000))),
    Function::new("Milliseconds", &[], |_, args| Ok(Val::Int64(duration(args, 0).0 / 1_000_000))),
    Function::new("Minutes", &[], |_, args| Ok(Val::Float(units(args, MINUTE)))),
    Function::new("Nanoseconds", &[], |_, args| Ok(Val::Int64(duration(args, 0).0))),
    Function::new("Round", &[Ty::Duration], |_, args| {
        Ok(Val::Duration(duration(args, 0).round(duration(args, 1).0)))
    }),
    Function::new("Seconds", &[], |_, args| Ok(Val::Float(units(args, SECOND)))),
    Function::new("String", &[], |cx, args| cx.text(duration(args, 0).to_string())),
    Function::new("Truncate", &[Ty::Duration], |_, args| {
        let (value, unit) = (duration(args, 0).0, duration(args, 1).0);
        Ok(Val::Duration(Duration(if unit <= 0 { value } else { value - value % unit })))
    }),
];

pub(super) const NAMED: &[Function] =
    &[Function::new("String", &[], |cx, args| match args.get(0) {
        Val::Month(month) => cx.text(month.name().to_owned()),
        Val::Weekday(day) => cx.text(day.name().to_owned()),
        _ => Err(Fault::new("not a month or weekday")),
    })];

pub(super) const VERSION: &[Function] = &[
    Function::new("Compare", &[Ty::Version], |_, args| {
        Ok(Val::Int(match compare(args)? {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        }))
    }),
    Function::new("Equal", &[Ty::Version], |_, args| Ok(Val::Bool(compare(args)?.is_eq()))),
    Function::new("GreaterThan", &[Ty::Version], |_, args| Ok(Val::Bool(compare(args)?.is_gt()))),
    Function::new("IncMajor", &[], |_, args| next(args, Version::next_major)),
    Function::new("IncMinor", &[], |_, args| next(args, Version::next_minor)),
    Function::new("IncPatch", &[], |_, args| next(args, Version::next_patch)),
    Function::new("LessThan", &[Ty::Version], |_, args| Ok(Val::Bool(compare(args)?.is_lt()))),
    Function::new("Major", &[], |_, args| Ok(Val::Uint64(version(args, 0)?.major))),
    Function::new("Metadata", &[], |cx, args| cx.text(version(args, 0)?.metadata.clone())),
    Function::new("Minor", &[], |_, args| Ok(Val::Uint64(version(args, 0)?.minor))),
    Function::new("Original", &[], |cx, args| cx.text(version(args, 0)?.original.clone())),
    Function::new("Patch", &[], |_, args| Ok(Val::Uint64(version(args, 0)?.patch))),
    Function::new("Prerelease", &[], |cx, args| cx.text(version(args, 0)?.pre.clone())),
    Function::new("String", &[], |cx, args| cx.text(version(args, 0)?.to_string())),
];

fn time(args: Args<'_, '_>, index: usize) -> Time {
    match args.get(index) {
        Val::Time(time) => (**time).clone(),
        _ => Time::zero(),
    }
}

fn duration(args: Args<'_, '_>, index: usize) -> Duration {
    match args.get(index) {
        Val::Duration(duration) => *duration,
        _ => Duration(0),
    }
}

fn order<'a>(args: Args<'_, 'a>, holds: fn(Ordering) -> bool) -> Result<Val<'a>> {
    Ok(Val::Bool(holds(time(args, 0).instant().cmp(&time(args, 1).instant()))))
}

/// Units of `nanos` nanoseconds since the epoch.
/// `Time.Round` to the nearest multiple of a duration since the zero time, or `Time.Truncate` to the
/// one before.
fn rounded<'a>(args: Args<'_, 'a>, nearest: bool) -> Val<'a> {
    let (time, unit) = (time(args, 0), duration(args, 1).0);
    if unit <= 0 {
        return Val::Time(time.into());
    }
    let (seconds, nanos) = time.instant();
    let since_zero = i128::from(seconds) - i128::from(Time::zero().instant().0);
    let past = (since_zero * i128::from(SECOND) + i128::from(nanos)).rem_euclid(unit.into());
    let up = nearest && past * 2 >= i128::from(unit);
    let change = if up { i128::from(unit) - past } else { -past };
    Val::Time(time.add(Duration(i64::try_from(change).unwrap_or(0))).into())
}

fn since_epoch(args: Args<'_, '_>, nanos: i64) -> i64 {
    let time = time(args, 0);
    time.unix.wrapping_mul(SECOND / nanos).wrapping_add(i64::from(time.nanos) / nanos)
}

#[expect(clippy::cast_precision_loss, reason = "as Go's Duration.Hours")]
fn units(args: Args<'_, '_>, unit: i64) -> f64 {
    let nanos = duration(args, 0).0;
    (nanos / unit) as f64 + (nanos % unit) as f64 / unit as f64
}

/// `AddDate(years, months, days)`, with Go's normalisation of what overflows.
fn add_date<'a>(_: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let time = time(args, 0);
    let civil = time.civil();
    let months = i64::from(civil.month - 1).saturating_add(args.int(2));
    let year = civil.year.saturating_add(args.int(1)).saturating_add(months.div_euclid(12));
    let month = u8::try_from(months.rem_euclid(12) + 1).unwrap_or(1);
    let days = (i64::from(civil.day) - 1).saturating_add(args.int(3));
    let of_day =
        (i64::from(civil.hour) * 60 + i64::from(civil.minute)) * 60 + i64::from(civil.second);
    let seconds = days.saturating_mul(86_400).saturating_add(of_day);
    let moved = Time::at_civil(year, month, 1, seconds, time.nanos, time.zone.clone());
    Ok(Val::Time(moved.into()))
}

fn version<'r>(args: Args<'r, '_>, index: usize) -> Result<&'r Version> {
    match args.get(index) {
        Val::Version(version) => Ok(version),
        _ => Err(Fault::new("runtime error: invalid memory address or nil pointer dereference")),
    }
}

fn compare(args: Args<'_, '_>) -> Result<Ordering> {
    Ok(version(args, 0)?.compare(version(args, 1)?))
}

fn next<'a>(args: Args<'_, 'a>, next: fn(&Version) -> Version) -> Result<Val<'a>> {
    Ok(Val::Version(next(version(args, 0)?).into()))
}
