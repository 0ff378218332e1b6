//! The bytes that cannot stand in a JSON string as they are.

/// How many bytes precede the first quote, backslash or control character; with `HTML` also the
/// first that Go escapes for HTML, or that begins a character which it may.
///
/// Most texts are short: the first bytes are looked at in words, and only what goes on in blocks.
pub(super) fn plain_length<const HTML: bool>(text: &[u8]) -> usize {
    let near = text.get(..NEAR).unwrap_or(text);
    let length = plain_in_words::<HTML>(near);
    if length < near.len() || near.len() == text.len() {
        return length;
    }
    let far = text.get(NEAR..).unwrap_or_default();
    NEAR + if HTML { plain_in_blocks(far) } else { Specials::default().next(far, 0) }
}

/// The bytes that are looked at in words.
const NEAR: usize = 16;

/// Finds the quotes, backslashes and control characters of a text, one after the other: those of a block at a time, so that
/// short strings cost little.
#[derive(Debug)]
pub(super) struct Specials {
    /// Where the block begins that was looked at last.
    block: usize,
    /// A bit for each special byte in it, the lowest for the first byte.
    found: u64,
}

impl Default for Specials {
    fn default() -> Self {
        Self { block: usize::MAX, found: 0 }
    }
}

impl Specials {
    /// The place of the first special byte from `at` on; the length of the text if there is none.
    ///
    /// The text is the same in each call.
    #[inline]
    pub(super) fn next(&mut self, text: &[u8], at: usize) -> usize {
        let mut block = at & !(BLOCK - 1);
        let mut ahead = u64::MAX << (at & (BLOCK - 1));
        loop {
            if block >= text.len() {
                return text.len();
            }
            if block != self.block {
                self.found = specials(text.get(block..).unwrap_or_default());
                self.block = block;
            }
            let found = self.found & ahead;
            if found != 0 {
                return block + usize::try_from(found.trailing_zeros()).unwrap_or(0);
            }
            let is_long = self.found == 0;
            block += BLOCK;
            ahead = u64::MAX;
            if is_long {
                block += plain_blocks::<BLOCK, false>(text.get(block..).unwrap_or_default());
            }
        }
    }
}

/// The bytes that are looked at together: as many as a word has bits.
const BLOCK: usize = 64;

/// A bit for each special byte among the first of a text.
#[inline]
fn specials(text: &[u8]) -> u64 {
    match text.first_chunk() {
        Some(block) => specials_of_block(block),
        None => {
            let mut block = [b' '; BLOCK];
            for (to, byte) in block.iter_mut().zip(text) {
                *to = *byte;
            }
            specials_of_block(&block)
        }
    }
}

/// Without branches, so that the compiler looks at many bytes at a time.
#[inline]
fn specials_of_block(block: &[u8; BLOCK]) -> u64 {
    let mut flags = [0; BLOCK];
    for (flag, byte) in flags.iter_mut().zip(block) {
        *flag = u8::from(is_special::<false>(*byte));
    }
    let (words, _) = flags.as_chunks::<8>();
    words.iter().enumerate().fold(0, |found, (index, word)| {
        // The product has the flags of all bytes side by side in its highest byte.
        let bits = u64::from_le_bytes(*word).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        found | bits << (8 * index)
    })
}

/// [`plain_length`] of a long text with HTML.
fn plain_in_blocks(text: &[u8]) -> usize {
    let plain = plain_blocks::<32, true>(text);
    plain + plain_in_words::<true>(text.get(plain..).unwrap_or_default())
}

/// The bytes in the blocks at the front of a text that have no special byte.
fn plain_blocks<const SIZE: usize, const HTML: bool>(text: &[u8]) -> usize {
    let (blocks, _) = text.as_chunks::<SIZE>();
    let is_plain = |block: &&[u8; SIZE]| {
        !block.iter().fold(false, |found, byte| found | is_special::<HTML>(*byte))
    };
    blocks.iter().take_while(is_plain).count() * SIZE
}

fn is_special<const HTML: bool>(byte: u8) -> bool {
    let html = HTML && HTML_BYTES.iter().fold(false, |found, other| found | (byte == *other));
    (byte < 0x20) | (byte == b'"') | (byte == b'\\') | html
}

/// [`plain_length`], eight bytes at a time: in a word with a byte below `n`, subtracting `n` from every
/// byte borrows into that byte's top bit, and the lowest such bit is the first such byte.
fn plain_in_words<const HTML: bool>(text: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 0xFF;
    const TOPS: u64 = ONES << 7;
    let below = |word: u64, n: u64| word.wrapping_sub(ONES * n) & !word & TOPS;
    let equal = |word: u64, byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    let (words, rest) = text.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let mut found = equal(word, b'"') | equal(word, b'\\') | below(word, 0x20);
        if HTML {
            found |= HTML_BYTES.into_iter().fold(0, |found, byte| found | equal(word, byte));
        }
        if found != 0 {
            return index * 8 + usize::try_from(found.trailing_zeros() / 8).unwrap_or(0);
        }
    }
    let special = |byte: &u8| is_special::<HTML>(*byte);
    words.len() * 8 + rest.iter().position(special).unwrap_or(rest.len())
}

/// `<`, `>`, `&`, and what U+2028 and U+2029 begin with.
const HTML_BYTES: [u8; 4] = [b'<', b'>', b'&', 0xE2];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specials_are_found_wherever_they_stand() {
        for special in ['"', '\\', '\0', '\u{1f}', '\n'] {
            for before in
                ["", "a", "abcdefg", "!!!!!!!!", "#####################", "\u{7f}é\u{80}ÿ[]"]
                    .into_iter()
                    .flat_map(|text| [1, 7, 29, 290].map(|times| text.repeat(times)))
            {
                for after in ["", "b", "\u{1}\"\\", "cdefghijklmno"] {
                    let text = format!("{before}{special}{after}");
                    assert_eq!(plain_length::<false>(text.as_bytes()), before.len(), "{text:?}");
                }
                assert_eq!(plain_length::<false>(before.as_bytes()), before.len(), "{before:?}");
            }
        }
    }

    #[test]
    fn every_special_of_a_text_is_found_from_everywhere() {
        let text: Vec<u8> = (0..=255).chain(b"0123\"".repeat(20)).chain(0..=255).collect();
        let mut specials = Specials::default();
        for at in 0..=text.len() + BLOCK {
            let rest = text.get(at..).unwrap_or_default();
            let expected = rest.iter().position(|byte| is_special::<false>(*byte));
            let expected = expected.map_or(text.len(), |length| at + length);
            assert_eq!(specials.next(&text, at), expected, "{at}");
        }
    }
}
