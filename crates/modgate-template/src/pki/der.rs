//! The numbers and object identifiers of keys and certificates in DER.

use modgate_value::go::der::{INTEGER, Malformed, Reader, element};
use num_bigint::BigUint;

/// A non-negative `INTEGER`.
pub(super) fn integer(value: &BigUint) -> Vec<u8> {
    let mut bytes = value.to_bytes_be();
    if bytes.first().is_some_and(|first| *first >= 0x80) {
        bytes.insert(0, 0);
    }
    element(INTEGER, &bytes)
}

/// Reads a non-negative `INTEGER`.
pub(super) fn number(reader: &mut Reader<'_>) -> Result<BigUint, Malformed> {
    reader.unsigned().map(BigUint::from_bytes_be)
}

/// Object identifiers, encoded.
pub(super) mod oid {
    pub(in crate::pki) const RSA: &[u8] = &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 1, 1];
    pub(in crate::pki) const RSA_SHA256: &[u8] = &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 1, 11];
    pub(in crate::pki) const SHA256: &[u8] = &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1];
    pub(in crate::pki) const EC: &[u8] = &[0x2A, 0x86, 0x48, 0xCE, 0x3D, 2, 1];
    pub(in crate::pki) const P256: &[u8] = &[0x2A, 0x86, 0x48, 0xCE, 0x3D, 3, 1, 7];
    pub(in crate::pki) const ECDSA_SHA256: &[u8] = &[0x2A, 0x86, 0x48, 0xCE, 0x3D, 4, 3, 2];
    pub(in crate::pki) const ED25519: &[u8] = &[0x2B, 0x65, 0x70];
    pub(in crate::pki) const COMMON_NAME: &[u8] = &[0x55, 4, 3];
    pub(in crate::pki) const SUBJECT_KEY_ID: &[u8] = &[0x55, 0x1D, 14];
    pub(in crate::pki) const KEY_USAGE: &[u8] = &[0x55, 0x1D, 15];
    pub(in crate::pki) const ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1D, 17];
    pub(in crate::pki) const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1D, 19];
    pub(in crate::pki) const AUTHORITY_KEY_ID: &[u8] = &[0x55, 0x1D, 35];
    pub(in crate::pki) const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1D, 37];
    pub(in crate::pki) const SERVER_AUTH: &[u8] = &[0x2B, 6, 1, 5, 5, 7, 3, 1];
    pub(in crate::pki) const CLIENT_AUTH: &[u8] = &[0x2B, 6, 1, 5, 5, 7, 3, 2];
}
