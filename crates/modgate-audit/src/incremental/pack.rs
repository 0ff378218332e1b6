//! PackedViolations of objects of one kind, compressed by what they have in common.

use std::sync::Arc;

use lz4_flex::block::{
    compress_into_with_dict, decompress_into_with_dict, get_maximum_output_size,
};

/// Bytes that violations of a kind often have in common.
#[derive(Debug, Default)]
pub(super) struct Dictionary(Box<[u8]>);

/// A dictionary is no longer than this: each compression looks at all of it.
const MAX_DICTIONARY: usize = 16 << 10;
/// And grows by at least this, since what is packed keeps the dictionary it was packed with.
const STEP: usize = 4 << 10;
/// A text that takes more than one byte of this many has parts that the dictionary lacks.
const NOVEL: usize = 3;

/// Packs violations; what it sees makes it better.
#[derive(Debug, Default)]
pub(super) struct Packer {
    dictionary: Arc<Dictionary>,
    learned: Vec<u8>,
    /// Kept for its capacity.
    scratch: Vec<u8>,
}

impl Packer {
    /// Appends the bytes, packed, to `out`; returns what [`unpack`] needs beside them.
    pub(super) fn pack(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Arc<Dictionary> {
        self.scratch.resize(get_maximum_output_size(bytes.len()), 0);
        let done = compress_into_with_dict(bytes, &mut self.scratch, &self.dictionary.0);
        // It cannot fail into a buffer of this size.
        let packed = done.ok().and_then(|length| self.scratch.get(..length)).unwrap_or_default();
        out.extend_from_slice(packed);
        let dictionary = Arc::clone(&self.dictionary);
        let is_novel = packed.len() * NOVEL > bytes.len();
        if self.scratch.capacity() > 1 << 20 {
            self.scratch = Vec::new();
        }
        if is_novel {
            self.learn(bytes);
        }
        dictionary
    }

    /// Forgets what violations had in common: they will be others.
    pub(super) fn renew(&mut self) {
        *self = Self::default();
    }

    fn learn(&mut self, bytes: &[u8]) {
        let known = &self.dictionary.0;
        let room = MAX_DICTIONARY.saturating_sub(known.len() + self.learned.len());
        if room == 0 {
            return;
        }
        self.learned.extend(bytes.iter().take(room));
        if self.learned.len() >= STEP || room <= bytes.len() {
            let longer = [known, self.learned.as_slice()].concat();
            self.dictionary = Arc::new(Dictionary(longer.into()));
            self.learned = Vec::new();
        }
    }
}

/// The `length` bytes that were packed; nothing if these are not what [`Packer::pack`] gave.
pub(super) fn unpack(packed: &[u8], length: usize, dictionary: &Dictionary) -> Option<Vec<u8>> {
    // No byte of LZ4 stands for more than 255; wrong lengths take no memory.
    if length > packed.len().saturating_mul(255) {
        return None;
    }
    let mut bytes = vec![0; length];
    let done = decompress_into_with_dict(packed, &mut bytes, &dictionary.0).ok()?;
    (done == length).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violation(number: u32) -> Vec<u8> {
        let words = ["privileged", "hostPath", "runAsUser", "latest", "capabilities"];
        let lines = words.iter().map(|word| {
            format!("container <main-{number}> of object-{number}: {word} is not allowed; ")
        });
        lines.collect::<String>().into_bytes()
    }

    #[test]
    fn what_is_common_is_kept_once() {
        let mut packer = Packer::default();
        let mut sizes = Vec::new();
        for number in 0..1000 {
            let (bytes, mut out) = (violation(number), Vec::new());
            let dictionary = packer.pack(&bytes, &mut out);
            assert_eq!(unpack(&out, bytes.len(), &dictionary).as_deref(), Some(&*bytes));
            assert!(dictionary.0.len() <= MAX_DICTIONARY);
            sizes.push(out.len());
        }
        let (first, last) = (sizes[0], sizes[999]);
        assert!(last * 2 < first, "{first} bytes become {last}");
    }

    #[test]
    fn noise() {
        let mut packer = Packer::default();
        let mut state = 1_u64;
        for length in [0, 1, 3, 4, 100, 5000, 70_000] {
            let bytes: Vec<u8> = (0..length)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    state.to_be_bytes()[0]
                })
                .collect();
            let mut out = Vec::new();
            let dictionary = packer.pack(&bytes, &mut out);
            assert_eq!(unpack(&out, length, &dictionary), Some(bytes));
        }
        assert_eq!(packer.dictionary.0.len(), MAX_DICTIONARY);
        packer.renew();
        assert_eq!(packer.dictionary.0.len(), 0);
    }

    #[test]
    fn broken_bytes() {
        let mut packer = Packer::default();
        for number in 0..100 {
            packer.pack(&violation(number), &mut Vec::new());
        }
        let (bytes, mut out) = (violation(7), Vec::new());
        let dictionary = packer.pack(&bytes, &mut out);
        assert_eq!(unpack(&out, bytes.len() + 1, &dictionary), None);
        assert_eq!(unpack(&out, usize::MAX, &dictionary), None);
        assert_eq!(unpack(&out, bytes.len() - 1, &dictionary), None);
        for end in 0..out.len() {
            assert_eq!(unpack(&out[..end], bytes.len(), &dictionary), None, "{end}");
        }
        for at in 0..out.len() {
            for bit in 0..8 {
                let mut broken = out.clone();
                broken[at] ^= 1 << bit;
                // Other bytes or none, but no panic.
                let _ = unpack(&broken, bytes.len(), &dictionary);
            }
        }
    }
}
