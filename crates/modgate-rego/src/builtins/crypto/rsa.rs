//! RSA signatures (RFC 8017), checking only: everything here is public.

use num_bigint::BigUint;

use super::Hash;

/// An RSA public key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct RsaKey {
    pub(in super::super) modulus: BigUint,
    pub(in super::super) exponent: BigUint,
}

/// Longer moduli than Go's own limit for TLS, doubled, are not worth their time.
const MAX_BITS: u64 = 16_384;

impl RsaKey {
    /// The signature raised to the exponent, as long as the modulus.
    fn open(&self, signature: &[u8]) -> Option<Vec<u8>> {
        let bits = self.modulus.bits();
        let length = usize::try_from(bits.div_ceil(8)).ok()?;
        let fits = (1024..=MAX_BITS).contains(&bits)
            && self.modulus.bit(0)
            && (2..=31).contains(&self.exponent.bits())
            && signature.len() == length;
        let signature = BigUint::from_bytes_be(signature);
        if !fits || signature >= self.modulus {
            return None;
        }
        let opened = signature.modpow(&self.exponent, &self.modulus).to_bytes_be();
        let mut padded = vec![0; length.checked_sub(opened.len())?];
        padded.extend(opened);
        Some(padded)
    }

    /// RSASSA-PKCS1-v1_5, section 8.2.2.
    pub(super) fn verify_pkcs1(&self, hash: Hash, digest: &[u8], signature: &[u8]) -> bool {
        // DER of an algorithm identifier and the beginning of an octet string.
        let prefix: &[u8] = match hash {
            Hash::Sha1 => b"\x30\x21\x30\x09\x06\x05\x2b\x0e\x03\x02\x1a\x05\x00\x04\x14",
            Hash::Sha256 => {
                b"\x30\x31\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x01\x05\x00\x04\x20"
            }
            Hash::Sha384 => {
                b"\x30\x41\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x02\x05\x00\x04\x30"
            }
            Hash::Sha512 => {
                b"\x30\x51\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x03\x05\x00\x04\x40"
            }
        };
        let Some(opened) = self.open(signature) else { return false };
        let Some(padding) = opened.len().checked_sub(3 + prefix.len() + digest.len()) else {
            return false;
        };
        let mut expected = vec![0, 1];
        expected.extend(std::iter::repeat_n(0xff, padding));
        expected.push(0);
        expected.extend(prefix);
        expected.extend(digest);
        padding >= 8 && opened == expected
    }

    /// RSASSA-PSS, section 8.1.2, with a salt of any length.
    pub(super) fn verify_pss(&self, hash: Hash, digest: &[u8], signature: &[u8]) -> bool {
        let Some(opened) = self.open(signature) else { return false };
        self.pss(hash, digest, &opened).unwrap_or(false)
    }

    fn pss(&self, hash: Hash, digest: &[u8], opened: &[u8]) -> Option<bool> {
        let bits = usize::try_from(self.modulus.bits()).ok()? - 1;
        let length = bits.div_ceil(8);
        // Where the bits end at a byte, the first byte is not part of the message.
        let (extra, message) = opened.split_at_checked(opened.len().checked_sub(length)?)?;
        let (message, trailer) = message.split_at_checked(length.checked_sub(1)?)?;
        let (masked, expected) = message.split_at_checked(message.len() - digest.len())?;
        let high_bits = high_bits(length * 8 - bits);
        if trailer != [0xbc]
            || extra.iter().any(|byte| *byte != 0)
            || masked.first()? & high_bits != 0
        {
            return Some(false);
        }
        let mut block: Vec<u8> = masked.to_vec();
        for (counter, chunk) in (0u32..).zip(block.chunks_mut(digest.len())) {
            let mut seed = expected.to_vec();
            seed.extend(counter.to_be_bytes());
            chunk.iter_mut().zip(hash.of(&seed)).for_each(|(byte, mask)| *byte ^= mask);
        }
        *block.first_mut()? &= !high_bits;
        let one = block.iter().position(|byte| *byte != 0)?;
        let (padding, salt) = block.split_at_checked(one + 1)?;
        if padding.last() != Some(&1) {
            return Some(false);
        }
        let mut input = vec![0; 8];
        input.extend(digest);
        input.extend(salt);
        Some(hash.of(&input) == expected)
    }
}

/// A byte with its `count` highest bits set.
fn high_bits(count: usize) -> u8 {
    !0xffu8.checked_shr(u32::try_from(count).unwrap_or(8)).unwrap_or(0)
}
