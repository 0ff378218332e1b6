//! Go's time, which the value crate keeps for every language.

pub(crate) use modgate_value::gotime::{
    Duration, HOUR, MINUTE, Month, SECOND, Time, Weekday, Zone, parse,
};
