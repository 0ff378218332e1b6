//! Formats that Go's standard library reads and writes, with its errors.
//!
//! The languages of modgate are Go programs in their originals, and show Go's results and error
//! texts to users. What [`gofmt`](crate::gofmt) and [`gotime`](crate::gotime) are for printing and
//! for time, these modules are for encodings and addresses.

pub mod base64;
pub mod cutset;
pub mod der;
pub mod hex;
pub mod netip;
pub mod pem;
pub mod semver;
pub mod url;
