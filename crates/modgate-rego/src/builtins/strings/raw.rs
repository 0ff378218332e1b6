//! Strings that are not UTF-8: what Go does to their bytes.

use std::collections::BTreeSet;

use crate::value::Value;

/// Whether an operand is a string that is not UTF-8.
pub(in super::super) fn any(args: &[Value<'_>]) -> bool {
    args.iter().any(|arg| arg.as_utf8().is_none() && arg.as_bytes().is_some())
}

/// Where `part` begins in `text`.
pub(super) fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    if part.is_empty() {
        return Some(0);
    }
    text.windows(part.len()).position(|window| window == part)
}

/// Steps that [`find`] and [`split`] may take.
pub(super) fn find_cost(text: &[u8], part: &[u8]) -> usize {
    text.len().saturating_mul(part.len() / 16 + 1) / 4 + 1
}

/// The parts between separators, which are not empty.
pub(super) fn split<'t>(text: &'t [u8], separator: &[u8]) -> Vec<&'t [u8]> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(at) = find(rest, separator) {
        parts.push(rest.get(..at).unwrap_or_default());
        rest = rest.get(at + separator.len()..).unwrap_or_default();
    }
    parts.push(rest);
    parts
}

/// The characters with their bytes; a byte that is not part of one is U+FFFD.
pub(super) fn characters(text: &[u8]) -> impl DoubleEndedIterator<Item = (&[u8], char)> {
    let mut found = Vec::new();
    let mut at = 0;
    let mut push = |length: usize, c: char| {
        found.push((text.get(at..at + length).unwrap_or_default(), c));
        at += length;
    };
    for chunk in text.utf8_chunks() {
        chunk.valid().chars().for_each(|c| push(c.len_utf8(), c));
        chunk.invalid().iter().for_each(|_| push(1, char::REPLACEMENT_CHARACTER));
    }
    found.into_iter()
}

/// The text without the characters at its ends that `is_cut`.
pub(super) fn trim(text: &[u8], is_cut: impl Fn(char) -> bool, start: bool, end: bool) -> &[u8] {
    let cut = |characters: &mut dyn Iterator<Item = (&[u8], char)>| -> usize {
        characters.take_while(|(_, c)| is_cut(*c)).map(|(bytes, _)| bytes.len()).sum()
    };
    let from = if start { cut(&mut characters(text)) } else { 0 };
    let rest = text.get(from..).unwrap_or_default();
    let to = if end { cut(&mut characters(rest).rev()) } else { 0 };
    rest.get(..rest.len() - to).unwrap_or_default()
}

/// Characters that stand for bytes which are no part of a character.
#[derive(Default)]
pub(in super::super) struct StandIn {
    /// Which of the [`BLOCKS`] the operands use.
    used: BTreeSet<u32>,
}

/// Each block of private characters has one for each byte.
const BLOCKS: u32 = 0x10_0000;

impl StandIn {
    /// Keeps away from the characters of `text`.
    pub(in super::super) fn avoid(&mut self, text: &[u8]) {
        let private = characters(text).filter_map(|(_, c)| u32::from(c).checked_sub(BLOCKS));
        self.used.extend(private.map(|c| c / 256));
    }

    fn first(&self) -> u32 {
        let free = (0..256).find(|block| !self.used.contains(block));
        BLOCKS + free.unwrap_or(0) * 256
    }

    /// The text with a character for each wrong byte.
    pub(in super::super) fn characters(&self, text: &[u8]) -> String {
        let mut out = String::with_capacity(text.len());
        let first = self.first();
        for chunk in text.utf8_chunks() {
            out.push_str(chunk.valid());
            let stand_in = |byte: &u8| char::from_u32(first + u32::from(*byte));
            out.extend(chunk.invalid().iter().filter_map(stand_in));
        }
        out
    }

    /// The characters for verbs such as `%x` and `%q`, which write the bytes.
    pub(super) fn unescaped(&self, text: String) -> String {
        let first = self.first();
        let mut text = text;
        for byte in 0x80..=0xff_u32 {
            let Some(c) = char::from_u32(first + byte) else { continue };
            let mut hex = String::new();
            c.encode_utf8(&mut [0; 4])
                .bytes()
                .for_each(|byte| hex.push_str(&format!("{byte:02x} ")));
            let spaced = hex.trim_end();
            let plain = spaced.replace(' ', "");
            let quoted = format!("\\U{:08x}", u32::from(c));
            for (written, meant) in [
                (spaced.to_uppercase(), format!("{byte:02X}")),
                (plain.to_uppercase(), format!("{byte:02X}")),
                (spaced.to_owned(), format!("{byte:02x}")),
                (plain, format!("{byte:02x}")),
                (quoted, format!("\\x{byte:02x}")),
            ] {
                if text.contains(&written) {
                    text = text.replace(&written, &meant);
                }
            }
        }
        text
    }

    /// The bytes again.
    pub(in super::super) fn bytes(&self, text: &str) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len());
        let first = self.first();
        for c in text.chars() {
            match u32::from(c).checked_sub(first).and_then(|byte| u8::try_from(byte).ok()) {
                Some(byte) => out.push(byte),
                None => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        out
    }
}
