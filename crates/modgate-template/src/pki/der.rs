//! The little of ASN.1 DER that keys and certificates need.

use num_bigint::BigUint;

pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const OBJECT_ID: u8 = 0x06;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;

/// The constructed, context-specific tag `[number]`.
pub(super) const fn context(number: u8) -> u8 {
    0xA0 | number
}

/// One element.
pub(super) fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let length = content.len();
    match u8::try_from(length) {
        Ok(short @ 0..0x80) => out.push(short),
        _ => {
            let bytes = length.to_be_bytes();
            let digits: Vec<u8> = bytes.into_iter().skip_while(|byte| *byte == 0).collect();
            out.push(0x80 | u8::try_from(digits.len()).unwrap_or(8));
            out.extend(digits);
        }
    }
    out.extend(content);
    out
}

/// A `SEQUENCE` of elements.
pub(super) fn sequence(elements: &[&[u8]]) -> Vec<u8> {
    element(SEQUENCE, &elements.concat())
}

/// A non-negative `INTEGER`.
pub(super) fn integer(value: &BigUint) -> Vec<u8> {
    let mut bytes = value.to_bytes_be();
    if bytes.first().is_some_and(|first| *first >= 0x80) {
        bytes.insert(0, 0);
    }
    element(INTEGER, &bytes)
}

/// A `BIT STRING` of whole bytes.
pub(super) fn bit_string(bytes: &[u8]) -> Vec<u8> {
    element(BIT_STRING, &[&[0], bytes].concat())
}

/// An `OBJECT IDENTIFIER` whose content is already encoded.
pub(super) fn object_id(encoded: &[u8]) -> Vec<u8> {
    element(OBJECT_ID, encoded)
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

/// What is wrong with an encoding.
pub(super) const TRUNCATED: &str = "asn1: syntax error: truncated tag or length";
const STRUCTURE: &str = "asn1: structure error: tags don't match";

/// Reads elements one after the other.
#[derive(Clone, Copy)]
pub(super) struct Reader<'d>(pub(super) &'d [u8]);

impl<'d> Reader<'d> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next element: tag, content, and the whole encoding.
    pub(super) fn any(&mut self) -> Result<(u8, &'d [u8], &'d [u8]), String> {
        let all = self.0;
        let [tag, first, rest @ ..] = all else {
            return Err(TRUNCATED.to_owned());
        };
        let (length, rest) = if *first < 0x80 {
            (usize::from(*first), rest)
        } else {
            let count = usize::from(*first & 0x7F);
            let (digits, rest) = rest.split_at_checked(count).ok_or(TRUNCATED)?;
            if !(1..=4).contains(&count) {
                return Err("asn1: structure error: length too large".to_owned());
            }
            let length = digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit));
            (length, rest)
        };
        let (content, after) =
            rest.split_at_checked(length).ok_or("asn1: syntax error: data truncated")?;
        let whole = all.get(..all.len() - after.len()).unwrap_or_default();
        self.0 = after;
        Ok((*tag, content, whole))
    }

    /// The content of the next element, which must have this tag.
    pub(super) fn expect(&mut self, tag: u8) -> Result<&'d [u8], String> {
        match self.any()? {
            (found, content, _) if found == tag => Ok(content),
            _ => Err(STRUCTURE.to_owned()),
        }
    }

    /// The content of the next element if it has this tag.
    pub(super) fn optional(&mut self, tag: u8) -> Result<Option<&'d [u8]>, String> {
        if self.0.first() == Some(&tag) { self.expect(tag).map(Some) } else { Ok(None) }
    }

    pub(super) fn sequence(&mut self) -> Result<Self, String> {
        self.expect(SEQUENCE).map(Self)
    }

    /// A non-negative integer.
    pub(super) fn integer(&mut self) -> Result<BigUint, String> {
        let bytes = self.expect(INTEGER)?;
        match bytes.first() {
            None => Err("asn1: structure error: empty integer".to_owned()),
            Some(0x80..) => Err("asn1: structure error: negative integer".to_owned()),
            Some(_) => Ok(BigUint::from_bytes_be(bytes)),
        }
    }

    /// The bytes of a bit string of whole bytes.
    pub(super) fn bit_string(&mut self) -> Result<&'d [u8], String> {
        match self.expect(BIT_STRING)? {
            [0, bytes @ ..] => Ok(bytes),
            _ => Err("asn1: syntax error: invalid padding bits in BIT STRING".to_owned()),
        }
    }
}
