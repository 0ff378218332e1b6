//! The text that is scanned, byte by byte.

use super::{Mark, Problem, Scanner};

impl<'a> Scanner<'a> {
    pub(super) fn rest(&self) -> &'a str {
        self.text.get(self.mark.offset..).unwrap_or_default()
    }

    pub(super) fn since(&self, offset: usize) -> &'a str {
        self.text.get(offset..self.mark.offset).unwrap_or_default()
    }

    #[inline]
    pub(super) fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.mark.offset + ahead).copied()
    }

    pub(super) fn blank(&self, ahead: usize) -> bool {
        matches!(self.byte(ahead), Some(b' ' | b'\t'))
    }

    /// How many bytes the line break at this place has; 0 if there is none.
    #[inline]
    pub(super) fn break_length(&self, ahead: usize) -> usize {
        match self.byte(ahead) {
            Some(b'\r') if self.byte(ahead + 1) == Some(b'\n') => 2,
            Some(b'\r' | b'\n') => 1,
            Some(0xC2) if self.byte(ahead + 1) == Some(0x85) => 2,
            Some(0xE2)
                if self.byte(ahead + 1) == Some(0x80)
                    && matches!(self.byte(ahead + 2), Some(0xA8 | 0xA9)) =>
            {
                3
            }
            _ => 0,
        }
    }

    pub(super) fn break_or_end(&self, ahead: usize) -> bool {
        self.byte(ahead).is_none() || self.break_length(ahead) > 0
    }

    pub(super) fn blank_or_end(&self, ahead: usize) -> bool {
        self.blank(ahead) || self.break_or_end(ahead)
    }

    pub(super) fn at_document_indicator(&self) -> bool {
        self.mark.column == 0
            && (self.rest().starts_with("---") || self.rest().starts_with("..."))
            && self.blank_or_end(3)
    }

    /// One character on the same line.
    #[inline]
    pub(super) fn skip(&mut self) {
        let width = match self.byte(0) {
            None => return,
            Some(0..0x80) => 1,
            Some(0x80..0xE0) => 2,
            Some(0xE0..0xF0) => 3,
            Some(0xF0..) => 4,
        };
        self.mark.offset += width;
        self.mark.index += 1;
        self.mark.column += 1;
    }

    /// `count` characters that are known to be ASCII.
    pub(super) fn skip_ascii(&mut self, count: usize) {
        self.mark.offset += count;
        self.mark.index += count;
        self.mark.column += count;
    }

    pub(super) fn skip_blanks(&mut self) {
        while self.blank(0) {
            self.skip();
        }
    }

    /// The line break here, if any.
    pub(super) fn skip_line(&mut self) {
        let length = self.break_length(0);
        if length > 0 {
            self.mark.index += if self.byte(0) == Some(b'\r') { length } else { 1 };
            self.mark.offset += length;
            self.mark.column = 0;
            self.mark.line += 1;
        }
    }

    pub(super) fn read(&mut self, out: &mut String) {
        let from = self.mark.offset;
        self.skip();
        out.push_str(self.since(from));
    }

    /// The line break here, if any, as YAML normalises it.
    pub(super) fn read_line(&mut self, out: &mut String) {
        let from = self.mark.offset;
        self.skip_line();
        match self.since(from) {
            "" => {}
            separator @ ("\u{2028}" | "\u{2029}") => out.push_str(separator),
            _ => out.push('\n'),
        }
    }

    /// A run of letters, digits, `_` and `-`.
    pub(super) fn word(&mut self) -> &'a str {
        let from = self.mark.offset;
        while self.byte(0).is_some_and(is_word) {
            self.skip();
        }
        self.since(from)
    }

    pub(super) fn problem(&self, context: Mark, message: &'static str) -> Box<Problem> {
        let message = message.into();
        Box::new(Problem { message, at: Some(self.mark), context, scanner: true })
    }

    pub(super) fn reader_problem(&self, message: &'static str) -> Box<Problem> {
        let message = message.into();
        Box::new(Problem { message, at: None, context: Mark::default(), scanner: false })
    }
}

pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// Offset of the first character that YAML 1.1 does not allow (section 5.1).
pub(super) fn first_unprintable(text: &str) -> Option<usize> {
    let suspicious = |byte: u8| {
        (byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r'))
            || matches!(byte, 0x7F | 0xC2 | 0xEF)
    };
    // Without an early exit, so that many bytes are looked at at once.
    if !text.bytes().fold(false, |found, byte| found | suspicious(byte)) {
        return None;
    }
    text.char_indices().find_map(|(at, character)| {
        let allowed = matches!(character,
            '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{d7ff}'
            | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
        (!allowed).then_some(at)
    })
}
