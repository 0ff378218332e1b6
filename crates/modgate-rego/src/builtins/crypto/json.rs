//! Documents as Go's `encoding/json` would write them.

use modgate_value::{
    Number, Value as Json,
    go::base64::Alphabet,
    gotime::{Time, Zone},
};
use num_bigint::{BigInt, BigUint};

/// An object.
pub(super) fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
    members.into_iter().collect()
}

/// Bytes are base64 and `null` when there are none.
pub(super) fn bytes(bytes: &[u8]) -> Json {
    if bytes.is_empty() { Json::Null } else { Alphabet::Standard.encode(bytes).into() }
}

/// Bytes as JOSE has them.
pub(super) fn url_bytes(bytes: &[u8]) -> Json {
    Alphabet::Url.encode_unpadded(bytes).into()
}

/// A list is `null` when it is empty.
pub(super) fn list(items: Vec<Json>) -> Json {
    if items.is_empty() { Json::Null } else { items.into() }
}

pub(super) fn texts(items: &[String]) -> Json {
    list(items.iter().map(|item| item.as_str().into()).collect())
}

pub(super) fn number(value: &BigInt) -> Json {
    Number::from_json_text(&value.to_string()).map_or(Json::Null, Json::Number)
}

pub(super) fn unsigned(value: &BigUint) -> Json {
    number(&BigInt::from(value.clone()))
}

/// Seconds since 1970 as RFC 3339.
pub(super) fn time(unix: i64) -> Json {
    Time::at_unix(unix, Zone::Utc).format("2006-01-02T15:04:05Z07:00").into()
}
