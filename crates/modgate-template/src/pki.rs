//! Keys and certificates, as Sprig makes them with Go's `crypto` packages.
//!
//! Everything random comes from the host, and the search for primes spends the budget, so that a
//! template cannot hold up a request. RSA is not protected from timing attacks; its module says why
//! that is acceptable.

mod certificate;
mod der;
mod dsa;
mod key;
mod prime;
mod rsa;

pub(crate) use certificate::{Authority, Request, check_certificate};
pub(crate) use key::{Key, KeyKind};

/// A certificate and its key, both PEM: Sprig's `certificate` struct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Certificate {
    /// `.Cert`
    pub(crate) certificate: String,
    /// `.Key`
    pub(crate) key: String,
}
