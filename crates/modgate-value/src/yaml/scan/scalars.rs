//! Scalars: plain, quoted and block.

use std::borrow::Cow;

use super::{Kind, Mark, Problem, Scanner, hex};

impl<'a> Scanner<'a> {
    pub(super) fn fetch_block_scalar(&mut self, literal: bool) -> Result<(), Box<Problem>> {
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        let start = self.mark;
        self.skip();
        let mut chomping = None;
        let mut increment = None;
        for _ in 0..2 {
            match self.byte(0) {
                Some(sign @ (b'+' | b'-')) if chomping.is_none() => {
                    chomping = Some(sign);
                    self.skip();
                }
                Some(b'0') if increment.is_none() => {
                    let message = "found an indentation indicator equal to 0";
                    return Err(self.problem(start, message));
                }
                Some(digit @ b'1'..=b'9') if increment.is_none() => {
                    increment = Some(usize::from(digit - b'0'));
                    self.skip();
                }
                _ => break,
            }
        }
        self.end_of_line(start)?;
        let mut end = self.mark;
        let mut indent = increment.map(|by| self.indent.unwrap_or(0) + by);
        let mut text = String::new();
        // The break that ends the last line of text, and those of the empty lines after it.
        let mut last_break = String::new();
        let mut breaks = String::new();
        self.block_scalar_breaks(&mut indent, &mut breaks, start, &mut end)?;
        let mut after_blank = false;
        while Some(self.mark.column) == indent && self.byte(0).is_some() {
            let blank = self.blank(0);
            if !literal && !after_blank && !blank && last_break.starts_with('\n') {
                if breaks.is_empty() {
                    text.push(' ');
                }
            } else {
                text.push_str(&last_break);
            }
            last_break.clear();
            text.push_str(&breaks);
            breaks.clear();
            after_blank = blank;
            let from = self.mark.offset;
            while !self.break_or_end(0) {
                self.skip();
            }
            text.push_str(self.since(from));
            self.read_line(&mut last_break);
            self.block_scalar_breaks(&mut indent, &mut breaks, start, &mut end)?;
        }
        if chomping != Some(b'-') {
            text.push_str(&last_break);
        }
        if chomping == Some(b'+') {
            text.push_str(&breaks);
        }
        self.push(Kind::Scalar { text: text.into(), plain: false }, start, end);
        Ok(())
    }

    /// Skips indentation and empty lines; finds the indentation if the header does not give it.
    pub(super) fn block_scalar_breaks(
        &mut self,
        indent: &mut Option<usize>,
        breaks: &mut String,
        start: Mark,
        end: &mut Mark,
    ) -> Result<(), Box<Problem>> {
        *end = self.mark;
        let mut deepest = 0;
        loop {
            let inside = |column: usize| indent.is_none_or(|indent| column < indent);
            while inside(self.mark.column) && self.byte(0) == Some(b' ') {
                self.skip();
            }
            deepest = deepest.max(self.mark.column);
            if inside(self.mark.column) && self.byte(0) == Some(b'\t') {
                let message = "found a tab character where an indentation space is expected";
                return Err(self.problem(start, message));
            }
            if self.break_length(0) == 0 {
                break;
            }
            self.read_line(breaks);
            *end = self.mark;
        }
        if indent.is_none() {
            *indent = Some(deepest.max(self.indent.map_or(0, |indent| indent + 1)).max(1));
        }
        Ok(())
    }

    pub(super) fn fetch_quoted(&mut self, single: bool) -> Result<(), Box<Problem>> {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        let start = self.mark;
        let quote = if single { b'\'' } else { b'"' };
        self.skip();
        // Most quoted scalars are one line without escapes and can be borrowed.
        let from = self.mark.offset;
        let plain = self.rest().bytes().position(|byte| {
            byte == quote || !(b' '..0x7F).contains(&byte) || (byte == b'\\' && !single)
        });
        if let Some(length) = plain
            && self.byte(length) == Some(quote)
            && !(single && self.byte(length + 1) == Some(quote))
        {
            self.skip_ascii(length);
            let text = Cow::Borrowed(self.since(from));
            self.skip();
            self.push(Kind::Scalar { text, plain: false }, start, self.mark);
            return Ok(());
        }
        let text = self.quoted(single, quote, start)?;
        self.push(Kind::Scalar { text: text.into(), plain: false }, start, self.mark);
        Ok(())
    }

    pub(super) fn quoted(
        &mut self,
        single: bool,
        quote: u8,
        start: Mark,
    ) -> Result<String, Box<Problem>> {
        let mut text = String::new();
        let mut blanks = String::new();
        let mut first_break = String::new();
        let mut breaks = String::new();
        loop {
            if self.mark.column == 0 && self.at_document_indicator() {
                return Err(self.problem(start, "found unexpected document indicator"));
            }
            if self.byte(0).is_none() {
                return Err(self.problem(start, "found unexpected end of stream"));
            }
            let mut on_new_line = false;
            while !self.blank_or_end(0) {
                match self.byte(0) {
                    Some(b'\'') if single && self.byte(1) == Some(b'\'') => {
                        text.push('\'');
                        self.skip_ascii(2);
                    }
                    Some(byte) if byte == quote => break,
                    Some(b'\\') if !single && self.break_length(1) > 0 => {
                        self.skip();
                        self.skip_line();
                        on_new_line = true;
                        break;
                    }
                    Some(b'\\') if !single => text.push(self.escape(start)?),
                    _ => self.read(&mut text),
                }
            }
            if self.byte(0) == Some(quote) {
                self.skip();
                return Ok(text);
            }
            loop {
                if self.blank(0) {
                    if on_new_line {
                        self.skip();
                    } else {
                        self.read(&mut blanks);
                    }
                } else if self.break_length(0) > 0 {
                    if on_new_line {
                        self.read_line(&mut breaks);
                    } else {
                        blanks.clear();
                        self.read_line(&mut first_break);
                        on_new_line = true;
                    }
                } else {
                    break;
                }
            }
            if on_new_line {
                fold(&mut text, &mut first_break, &mut breaks);
            } else {
                text.push_str(&blanks);
            }
            blanks.clear();
        }
    }

    pub(super) fn escape(&mut self, start: Mark) -> Result<char, Box<Problem>> {
        let digits = match self.byte(1) {
            Some(b'x') => 2,
            Some(b'u') => 4,
            Some(b'U') => 8,
            other => {
                let character = match other {
                    Some(b'0') => '\0',
                    Some(b'a') => '\x07',
                    Some(b'b') => '\x08',
                    Some(b't' | b'\t') => '\t',
                    Some(b'n') => '\n',
                    Some(b'v') => '\x0b',
                    Some(b'f') => '\x0c',
                    Some(b'r') => '\r',
                    Some(b'e') => '\x1b',
                    Some(byte @ (b' ' | b'"' | b'\'' | b'\\')) => char::from(byte),
                    Some(b'N') => '\u{85}',
                    Some(b'_') => '\u{a0}',
                    Some(b'L') => '\u{2028}',
                    Some(b'P') => '\u{2029}',
                    Some(b'/') if self.json => '/',
                    _ => return Err(self.problem(start, "found unknown escape character")),
                };
                self.skip_ascii(2);
                return Ok(character);
            }
        };
        self.skip_ascii(2);
        let mut code = 0_u32;
        for at in 0..digits {
            let Some(digit) = hex(self.byte(at)) else {
                return Err(self.problem(start, "did not find expected hexdecimal number"));
            };
            code = code << 4 | digit;
        }
        let character = match char::from_u32(code) {
            Some(character) => character,
            None if self.json => {
                self.skip_ascii(digits);
                return Ok(self.surrogate(code));
            }
            None => {
                return Err(self.problem(start, "found invalid Unicode character escape code"));
            }
        };
        self.skip_ascii(digits);
        Ok(character)
    }

    /// The character of an escape that may be the first half of a pair.
    pub(super) fn surrogate(&mut self, first: u32) -> char {
        let second = (2..6).try_fold(0, |code, at| Some(code << 4 | hex(self.byte(at))?));
        match (self.byte(0), self.byte(1), second) {
            (Some(b'\\'), Some(b'u'), Some(second @ 0xdc00..0xe000)) if first < 0xdc00 => {
                self.skip_ascii(6);
                let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            _ => char::REPLACEMENT_CHARACTER,
        }
    }

    pub(super) fn fetch_plain(&mut self) -> Result<(), Box<Problem>> {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        let start = self.mark;
        let indent = self.indent.map_or(0, |indent| indent + 1);
        let mut text = Cow::Borrowed("");
        let mut end = start;
        let mut first_break = String::new();
        let mut breaks = String::new();
        let mut on_new_line = false;
        // Offset of the blanks read since the last piece of text.
        let mut blanks_from = self.mark.offset;
        let mut blanks_to = blanks_from;
        loop {
            if self.mark.column == 0 && self.at_document_indicator() {
                break;
            }
            if self.byte(0) == Some(b'#') {
                break;
            }
            let from = self.mark.offset;
            self.skip_plain();
            if self.mark.offset > from {
                let piece = self.since(from);
                if on_new_line {
                    on_new_line = false;
                    fold(text.to_mut(), &mut first_break, &mut breaks);
                    text.to_mut().push_str(piece);
                } else if text.is_empty() {
                    text = Cow::Borrowed(piece);
                } else if let Cow::Borrowed(_) = text {
                    // Pieces and the blanks between them lie side by side in the text.
                    text = Cow::Borrowed(self.since(start.offset));
                } else {
                    let blanks = self.text.get(blanks_from..blanks_to).unwrap_or_default();
                    text.to_mut().push_str(blanks);
                    text.to_mut().push_str(piece);
                }
                end = self.mark;
            }
            if !self.blank(0) && self.break_length(0) == 0 {
                break;
            }
            blanks_from = self.mark.offset;
            blanks_to = blanks_from;
            loop {
                if self.blank(0) {
                    if on_new_line && self.mark.column < indent && self.byte(0) == Some(b'\t') {
                        let message = "found a tab character that violates indentation";
                        return Err(self.problem(start, message));
                    }
                    self.skip();
                    if !on_new_line {
                        blanks_to = self.mark.offset;
                    }
                } else if self.break_length(0) > 0 {
                    if on_new_line {
                        self.read_line(&mut breaks);
                    } else {
                        self.read_line(&mut first_break);
                        on_new_line = true;
                    }
                } else {
                    break;
                }
            }
            if self.flow_level == 0 && self.mark.column < indent {
                break;
            }
        }
        self.push(Kind::Scalar { text, plain: true }, start, end);
        if on_new_line {
            self.simple_key_allowed = true;
        }
        Ok(())
    }

    /// Moves to the end of a run of text within a plain scalar.
    pub(super) fn skip_plain(&mut self) {
        while let Some(byte) = self.byte(0) {
            let run = self.rest().bytes().take_while(|byte| is_plain(*byte)).count();
            if run > 0 {
                self.skip_ascii(run);
                continue;
            }
            match byte {
                b' ' | b'\t' => return,
                b':' if self.blank_or_end(1) => return,
                b',' | b'?' | b'[' | b']' | b'{' | b'}' if self.flow_level > 0 => return,
                b'\n' | b'\r' => return,
                0x80.. if self.break_length(0) > 0 => return,
                _ => self.skip(),
            }
        }
    }
}

/// Line breaks within a scalar: one becomes a space, of several the first one is dropped.
pub(super) fn fold(text: &mut String, first_break: &mut String, breaks: &mut String) {
    if first_break.starts_with('\n') {
        if breaks.is_empty() {
            text.push(' ');
        }
    } else {
        text.push_str(first_break);
    }
    text.push_str(breaks);
    first_break.clear();
    breaks.clear();
}

/// The bytes that can stand anywhere in a plain scalar.
pub(super) fn is_plain(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'_' | b'.' | b'/' | b'$' | b'(' | b')')
}
