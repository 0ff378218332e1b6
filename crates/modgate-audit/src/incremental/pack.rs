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

/// Has the dictionary for the violations of a kind; what it learns makes it better.
#[derive(Debug, Default)]
pub(super) struct Packer {
    dictionary: Arc<Dictionary>,
    learned: Vec<u8>,
}

impl Dictionary {
    /// Appends the bytes, packed, to `out`, from which [`unpack`] reads them with this dictionary. Whether they have parts
    /// that it lacks.
    pub(super) fn pack(&self, bytes: &[u8], out: &mut Vec<u8>) -> bool {
        let start = out.len();
        out.resize(start + get_maximum_output_size(bytes.len()), 0);
        let room = out.get_mut(start..).unwrap_or_default();
        // It cannot fail into a buffer of this size.
        let length = compress_into_with_dict(bytes, room, &self.0).unwrap_or_default();
        out.truncate(start + length);
        length * NOVEL > bytes.len()
    }
}

impl Packer {
    /// The dictionary to pack with.
    pub(super) fn dictionary(&self) -> &Arc<Dictionary> {
        &self.dictionary
    }

    /// Forgets what violations had in common: they will be others.
    pub(super) fn renew(&mut self) {
        *self = Self::default();
    }

    /// Takes words that the dictionary they were packed with lacks, if any.
    pub(super) fn learn(&mut self, lacking: &Arc<Dictionary>, words: Option<&[u8]>) {
        // One that has come since may have them.
        let Some(bytes) = words.filter(|_| Arc::ptr_eq(lacking, &self.dictionary)) else { return };
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

/// Puts the `length` bytes that were packed into `bytes`; nothing if these are not what [`Dictionary::pack`] gave.
pub(super) fn unpack(
    packed: &[u8],
    length: usize,
    dictionary: &Dictionary,
    bytes: &mut Vec<u8>,
) -> Option<()> {
    // No byte of LZ4 stands for more than 255; wrong lengths take no memory.
    if length > packed.len().saturating_mul(255) {
        return None;
    }
    bytes.clear();
    bytes.resize(length, 0);
    let done = decompress_into_with_dict(packed, bytes, &dictionary.0).ok()?;
    (done == length).then_some(())
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

    fn pack(packer: &mut Packer, bytes: &[u8], out: &mut Vec<u8>) -> Arc<Dictionary> {
        let dictionary = Arc::clone(packer.dictionary());
        let is_novel = dictionary.pack(bytes, out);
        packer.learn(&dictionary, is_novel.then_some(bytes));
        dictionary
    }

    fn unpack(packed: &[u8], length: usize, dictionary: &Dictionary) -> Option<Vec<u8>> {
        let mut bytes = b"what was there before".to_vec();
        super::unpack(packed, length, dictionary, &mut bytes).map(|()| bytes)
    }

    #[test]
    fn what_is_common_is_kept_once() {
        let mut packer = Packer::default();
        let mut sizes = Vec::new();
        for number in 0..1000 {
            let (bytes, mut out) = (violation(number), Vec::new());
            let dictionary = pack(&mut packer, &bytes, &mut out);
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
            let dictionary = pack(&mut packer, &bytes, &mut out);
            assert_eq!(unpack(&out, length, &dictionary), Some(bytes));
        }
        assert_eq!(packer.dictionary.0.len(), MAX_DICTIONARY);
        packer.renew();
        assert_eq!(packer.dictionary.0.len(), 0);
    }

    #[test]
    fn words_that_a_newer_dictionary_may_have_are_not_learned() {
        let mut packer = Packer::default();
        let old = Arc::clone(packer.dictionary());
        for number in 0..100 {
            pack(&mut packer, &violation(number), &mut Vec::new());
        }
        let (length, waiting) = (packer.dictionary.0.len(), packer.learned.len());
        assert!(length > 0);
        packer.learn(&old, Some(&[7; MAX_DICTIONARY]));
        assert_eq!((packer.dictionary.0.len(), packer.learned.len()), (length, waiting));
    }

    #[test]
    fn broken_bytes() {
        let mut packer = Packer::default();
        for number in 0..100 {
            pack(&mut packer, &violation(number), &mut Vec::new());
        }
        let (bytes, mut out) = (violation(7), Vec::new());
        let dictionary = pack(&mut packer, &bytes, &mut out);
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
