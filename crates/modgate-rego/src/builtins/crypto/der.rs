//! Numbers and object identifiers in DER.

use modgate_value::go::der::Reader;
use num_bigint::BigInt;

/// The number that the next element is.
pub(super) fn integer(reader: &mut Reader<'_>) -> Option<BigInt> {
    reader.integer().ok().map(BigInt::from_signed_bytes_be)
}

/// An object identifier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Oid(pub(super) Vec<u64>);

impl Oid {
    /// The identifier that the next element is.
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let content = reader.object_id().ok()?;
        let mut arcs = Vec::new();
        let mut arc: u64 = 0;
        for byte in content {
            arc = arc.checked_mul(128)?.checked_add(u64::from(byte & 0x7f))?;
            if byte & 0x80 == 0 {
                if arcs.is_empty() {
                    // The first two arcs share a number.
                    let first = (arc / 40).min(2);
                    arcs.push(first);
                    arc -= first * 40;
                }
                arcs.push(arc);
                arc = 0;
            }
        }
        let complete = content.last().is_some_and(|byte| byte & 0x80 == 0);
        complete.then_some(Self(arcs))
    }

    pub(super) fn is(&self, arcs: &[u64]) -> bool {
        self.0 == arcs
    }
}

impl std::fmt::Display for Oid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let arcs: Vec<String> = self.0.iter().map(u64::to_string).collect();
        f.write_str(&arcs.join("."))
    }
}
