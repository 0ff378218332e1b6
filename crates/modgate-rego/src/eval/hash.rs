//! Hashes of values in tables that live as long as an evaluation.
//!
//! A multiplication for each word takes a fraction of the time that the standard library's hash takes. The
//! seed is the standard library's, so that an attacker cannot choose texts that all have the same hash.

use std::hash::{BuildHasher, Hasher, RandomState};

/// A factor with as many ones as zeros, in no order.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Makes the hashes of one table.
#[derive(Clone, Copy)]
pub(super) struct Seed {
    start: u64,
    factor: u64,
}

impl Default for Seed {
    fn default() -> Self {
        let random = RandomState::new();
        // A factor is odd, so that no word is lost.
        Self { start: random.hash_one(0_u8), factor: random.hash_one(1_u8) | 1 }
    }
}

impl BuildHasher for Seed {
    type Hasher = Folded;

    #[inline]
    fn build_hasher(&self) -> Folded {
        Folded { state: self.start, factor: self.factor }
    }
}

/// The hash of one value so far.
pub(super) struct Folded {
    state: u64,
    factor: u64,
}

/// Both halves of the product.
#[expect(clippy::cast_possible_truncation, reason = "the halves of the product")]
#[inline]
fn folded(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

impl Hasher for Folded {
    #[inline]
    fn finish(&self) -> u64 {
        folded(self.state, FACTOR)
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.write_u64(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            // Zeros at the end count.
            self.write_u64(u64::from_le_bytes(word) ^ (rest.len() as u64) << 56);
        }
    }

    #[inline]
    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }

    #[inline]
    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        self.state = folded(self.state ^ value, self.factor);
    }

    #[expect(clippy::cast_possible_truncation, reason = "the halves of the value")]
    fn write_u128(&mut self, value: u128) {
        self.write_u64(value as u64);
        self.write_u64((value >> 64) as u64);
    }

    #[inline]
    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn values_that_differ_have_different_hashes() {
        let seed = Seed::default();
        let mut texts: Vec<Vec<u8>> = (0..40).map(|length| vec![0; length]).collect();
        texts.extend((0..10_000_u32).map(|number| format!("text {number}").into_bytes()));
        texts.extend((0..256_u32).map(|bit| {
            let mut text = vec![0; 32];
            text[bit as usize / 8] = 1 << (bit % 8);
            text
        }));
        let hashes: HashSet<u64> = texts.iter().map(|text| seed.hash_one(text)).collect();
        assert_eq!(hashes.len(), texts.len());
        // Tables look at the lower bits first.
        let low: HashSet<u64> = hashes.iter().map(|hash| hash % (1 << 20)).collect();
        assert!(low.len() > texts.len() * 95 / 100, "{}", low.len());
        assert_ne!(Seed::default().hash_one(1), seed.hash_one(1));
    }
}
