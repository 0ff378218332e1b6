//! Text to tokens: YAML 1.1 as libyaml, and with it go-yaml v2, tokenises it.
//!
//! The algorithm is libyaml's, because its corner cases are what users' files depend on: a stack of
//! indentations, and for each open level the place where a *simple key* (`key: value` without `?`)
//! may have started, so that a `:` found later can put a key token in front of it. Differences from
//! libyaml are go-yaml's: a version number has at most two digits, a tag ends only at white space,
//! and `/` is not an escape. Nothing here can panic: all reading is bounds-checked, and every loop
//! moves forward in the text.

mod reader;
mod scalars;

use std::{borrow::Cow, collections::VecDeque};

use self::reader::{first_unprintable, is_word};
use super::{Error, Position};

/// A place while scanning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// Byte offset.
    pub(super) offset: usize,
    /// Characters before it, for the bound on the length of simple keys.
    index: usize,
    /// Line from 0.
    pub(super) line: usize,
    /// Column in characters from 0.
    pub(super) column: usize,
}

impl Mark {
    pub(super) fn position(self) -> Position {
        Position { line: self.line + 1, column: self.column + 1, offset: self.offset }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind<'a>,
    pub(super) start: Mark,
    pub(super) end: Mark,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    StreamEnd,
    Version { major: u32, minor: u32 },
    TagDirective { handle: &'a str, prefix: Cow<'a, str> },
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(&'a str),
    Anchor(&'a str),
    Tag { handle: &'a str, suffix: Cow<'a, str> },
    Scalar { text: Cow<'a, str>, plain: bool },
}

/// A syntax error with the marks that decide the line Go prints.
#[derive(Debug, Clone)]
pub(super) struct Problem {
    pub(super) message: Cow<'static, str>,
    pub(super) at: Option<Mark>,
    pub(super) context: Mark,
    /// Whether the scanner found it: Go counts its lines differently.
    pub(super) scanner: bool,
}

impl From<Box<Problem>> for Error {
    /// go-yaml counts lines from zero, corrects that for scanner errors only, and leaves line 0 out.
    fn from(problem: Box<Problem>) -> Self {
        let at = problem.at.unwrap_or_default().line;
        let line = if at != 0 { at + usize::from(problem.scanner) } else { problem.context.line };
        // Go names no line of an alias.
        let is_alias = problem.message.starts_with("unknown anchor");
        let place = if line == 0 || is_alias { String::new() } else { format!("line {line}: ") };
        // A quote that is not closed is found at the end, and mended where it is opened.
        let unclosed = problem.message == "found unexpected end of stream";
        let at = if unclosed || is_alias { Some(problem.context) } else { problem.at };
        Self {
            message: format!("yaml: {place}{}", problem.message),
            position: at.map(Mark::position),
        }
    }
}

/// A place where a simple key may have started.
#[derive(Debug, Clone, Copy, Default)]
struct SimpleKey {
    possible: bool,
    /// In block context at the current indentation nothing but a key can stand.
    required: bool,
    token: usize,
    mark: Mark,
}

/// A simple key is at most this many characters long (YAML 1.1, section 9.2.1).
const SIMPLE_KEY_LENGTH: usize = 1024;

/// go-yaml reads its input in pieces of this many bytes, and finds unprintable characters then.
const READ_SIZE: usize = 512;

pub(super) struct Scanner<'a> {
    text: &'a str,
    mark: Mark,
    /// Whether a character that YAML does not allow follows `text`.
    cut: bool,
    tokens: VecDeque<Token<'a>>,
    /// Tokens handed out so far.
    taken: usize,
    indents: Vec<Option<usize>>,
    /// The current block indentation; `None` outside of any block collection.
    indent: Option<usize>,
    flow_level: usize,
    simple_key_allowed: bool,
    /// One per flow level, and one for the block context below them.
    simple_keys: Vec<SimpleKey>,
    /// Token number and level of the simple keys that are still possible, in order of both.
    pending_keys: VecDeque<(usize, usize)>,
    ended: bool,
    /// Whether escapes are JSON's: `\/`, and pairs of surrogates.
    json: bool,
}

impl<'a> Scanner<'a> {
    /// Scans JSON text from byte `offset` on, which is `column` characters into `line`, both from 0.
    pub(super) fn json(text: &'a str, offset: usize, line: usize, column: usize) -> Self {
        let mut scanner = Self::new(text, offset, line);
        scanner.json = true;
        scanner.mark.column = column;
        scanner
    }

    /// Scans `text` from byte `offset`, which is the start of a line, on; `line` counts from 0.
    pub(super) fn new(text: &'a str, offset: usize, line: usize) -> Self {
        let bad = first_unprintable(text.get(offset..).unwrap_or_default());
        let readable = match bad {
            None => text,
            Some(at) => {
                let mut end = offset + at / READ_SIZE * READ_SIZE;
                while !text.is_char_boundary(end) {
                    end -= 1;
                }
                text.get(..end).unwrap_or_default()
            }
        };
        let mut scanner = Self {
            text: readable,
            mark: Mark { offset, index: 0, line, column: 0 },
            cut: bad.is_some(),
            tokens: VecDeque::new(),
            taken: 0,
            indents: Vec::new(),
            indent: None,
            flow_level: 0,
            simple_key_allowed: true,
            simple_keys: vec![SimpleKey::default()],
            pending_keys: VecDeque::new(),
            ended: false,
            json: false,
        };
        if scanner.rest().starts_with('\u{feff}') {
            scanner.mark.offset += '\u{feff}'.len_utf8();
        }
        scanner
    }

    /// Where the scanner stands, for going on after an error.
    pub(super) fn mark(&self) -> Mark {
        self.mark
    }

    /// The next token; at the end of the text `StreamEnd` again and again.
    pub(super) fn peek(&mut self) -> Result<&Token<'a>, Box<Problem>> {
        self.fill()?;
        match self.tokens.front() {
            Some(token) => Ok(token),
            None => Err(self.reader_problem("unexpected end of the token queue")),
        }
    }

    /// Takes the token that [`Scanner::peek`] showed.
    pub(super) fn take(&mut self) -> Result<Token<'a>, Box<Problem>> {
        self.fill()?;
        let end = Token { kind: Kind::StreamEnd, start: self.mark, end: self.mark };
        if self.tokens.len() == 1 && matches!(self.tokens.front(), Some(t) if t.kind == end.kind) {
            return Ok(end);
        }
        self.taken += 1;
        Ok(self.tokens.pop_front().unwrap_or(end))
    }

    /// Scans on until the first token in the queue is final: no key token can still be put in front
    /// of it.
    fn fill(&mut self) -> Result<(), Box<Problem>> {
        loop {
            if !self.tokens.is_empty() {
                match self.pending_keys.front().copied() {
                    Some((token, level)) if token == self.taken => {
                        if !self.still_possible(level)? {
                            return Ok(());
                        }
                    }
                    _ => return Ok(()),
                }
            }
            if self.ended {
                return Ok(());
            }
            let fetched = self.fetch();
            // Within a few bytes of the end everything the scanner needs to see next is missing.
            if self.cut && self.mark.offset + 4 >= self.text.len() {
                return Err(self.reader_problem("control characters are not allowed"));
            }
            fetched?;
        }
    }

    fn fetch(&mut self) -> Result<(), Box<Problem>> {
        self.skip_to_token();
        self.unroll_indent(Some(self.mark.column));
        let Some(byte) = self.byte(0) else {
            return self.fetch_stream_end();
        };
        if self.mark.column == 0 {
            if byte == b'%' {
                return self.fetch_directive();
            }
            if self.at_document_indicator() {
                let kind = if byte == b'-' { Kind::DocumentStart } else { Kind::DocumentEnd };
                return self.fetch_document_indicator(kind);
            }
        }
        let in_flow = self.flow_level > 0;
        match byte {
            b'[' => self.fetch_flow_start(Kind::FlowSequenceStart),
            b'{' => self.fetch_flow_start(Kind::FlowMappingStart),
            b']' => self.fetch_flow_end(Kind::FlowSequenceEnd),
            b'}' => self.fetch_flow_end(Kind::FlowMappingEnd),
            b',' => self.fetch_flow_entry(),
            b'-' if self.blank_or_end(1) => self.fetch_block_entry(),
            b'?' if in_flow || self.blank_or_end(1) => self.fetch_key(),
            b':' if in_flow || self.blank_or_end(1) => self.fetch_value(),
            b'*' => self.fetch_anchor(true),
            b'&' => self.fetch_anchor(false),
            b'!' => self.fetch_tag(),
            b'|' if !in_flow => self.fetch_block_scalar(true),
            b'>' if !in_flow => self.fetch_block_scalar(false),
            b'\'' => self.fetch_quoted(true),
            b'"' => self.fetch_quoted(false),
            b'#' | b'|' | b'>' | b'%' | b'@' | b'`' | b'\t' => self.cannot_start(),
            _ => self.fetch_plain(),
        }
    }

    fn cannot_start(&self) -> Result<(), Box<Problem>> {
        Err(self.problem(self.mark, "found character that cannot start any token"))
    }

    // White space and comments between tokens, and the bookkeeping of indentation and keys.

    fn skip_to_token(&mut self) {
        loop {
            // In block context a tab cannot indent, so it is an error wherever a key may start.
            let spaces = self.rest().bytes().take_while(|byte| *byte == b' ').count();
            self.skip_ascii(spaces);
            while let Some(byte) = self.byte(0)
                && (byte == b' '
                    || (byte == b'\t' && (self.flow_level > 0 || !self.simple_key_allowed)))
            {
                self.skip();
            }
            if self.byte(0) == Some(b'#') {
                while !self.break_or_end(0) {
                    self.skip();
                }
            }
            if self.break_length(0) == 0 {
                return;
            }
            self.skip_line();
            if self.flow_level == 0 {
                self.simple_key_allowed = true;
            }
        }
    }

    /// Closes the block collections that are indented more than `column`; `None` closes all.
    fn unroll_indent(&mut self, column: Option<usize>) {
        if self.flow_level > 0 {
            return;
        }
        while self.indent > column {
            self.push(Kind::BlockEnd, self.mark, self.mark);
            self.indent = self.indents.pop().flatten();
        }
    }

    /// Opens a block collection at `column` if it is indented more than the current one; its token
    /// goes in front of token number `before`, or at the end.
    fn roll_indent(&mut self, column: usize, before: Option<usize>, kind: Kind<'a>, mark: Mark) {
        if self.flow_level > 0 || self.indent >= Some(column) {
            return;
        }
        self.indents.push(self.indent);
        self.indent = Some(column);
        self.insert(before, Token { kind, start: mark, end: mark });
    }

    fn insert(&mut self, before: Option<usize>, token: Token<'a>) {
        match before.and_then(|number| number.checked_sub(self.taken)) {
            Some(at) if at <= self.tokens.len() => self.tokens.insert(at, token),
            _ => self.tokens.push_back(token),
        }
    }

    fn push(&mut self, kind: Kind<'a>, start: Mark, end: Mark) {
        self.tokens.push_back(Token { kind, start, end });
    }

    /// Notes that a simple key may start here.
    fn save_simple_key(&mut self) -> Result<(), Box<Problem>> {
        if !self.simple_key_allowed {
            return Ok(());
        }
        self.remove_simple_key()?;
        let required = self.flow_level == 0 && self.indent == Some(self.mark.column);
        let token = self.taken + self.tokens.len();
        let level = self.simple_keys.len().saturating_sub(1);
        if let Some(key) = self.simple_keys.last_mut() {
            *key = SimpleKey { possible: true, required, token, mark: self.mark };
            self.pending_keys.push_back((token, level));
        }
        Ok(())
    }

    /// Gives up the simple key of the current level.
    fn remove_simple_key(&mut self) -> Result<(), Box<Problem>> {
        if let Some(key) = self.simple_keys.last_mut()
            && key.possible
        {
            let SimpleKey { required, mark, token, .. } = *key;
            key.possible = false;
            self.forget(token);
            if required {
                return Err(self.problem(mark, "could not find expected ':'"));
            }
        }
        Ok(())
    }

    /// Strikes a key off the list of those still possible. It is the first or the last one there.
    fn forget(&mut self, token: usize) {
        if self.pending_keys.back().is_some_and(|(pending, _)| *pending == token) {
            self.pending_keys.pop_back();
        } else if self.pending_keys.front().is_some_and(|(pending, _)| *pending == token) {
            self.pending_keys.pop_front();
        }
    }

    /// Whether the key at `level` can still be one; it must end on its line and not be too long.
    fn still_possible(&mut self, level: usize) -> Result<bool, Box<Problem>> {
        let Some(key) = self.simple_keys.get_mut(level) else {
            return Ok(false);
        };
        if !key.possible {
            return Ok(false);
        }
        let SimpleKey { required, mark, token, .. } = *key;
        if mark.line == self.mark.line && mark.index + SIMPLE_KEY_LENGTH >= self.mark.index {
            return Ok(true);
        }
        key.possible = false;
        self.forget(token);
        if required {
            return Err(self.problem(mark, "could not find expected ':'"));
        }
        Ok(false)
    }

    // One function per kind of token.

    fn fetch_stream_end(&mut self) -> Result<(), Box<Problem>> {
        if self.mark.column != 0 {
            self.mark.column = 0;
            self.mark.line += 1;
        }
        self.unroll_indent(None);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        self.push(Kind::StreamEnd, self.mark, self.mark);
        self.ended = true;
        Ok(())
    }

    fn fetch_directive(&mut self) -> Result<(), Box<Problem>> {
        self.unroll_indent(None);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        let start = self.mark;
        self.skip();
        let name = self.word();
        if name.is_empty() {
            return Err(self.problem(start, "could not find expected directive name"));
        }
        if !self.blank_or_end(0) {
            return Err(self.problem(start, "found unexpected non-alphabetical character"));
        }
        let kind = match name {
            "YAML" => {
                self.skip_blanks();
                let major = self.version_number(start)?;
                if self.byte(0) != Some(b'.') {
                    return Err(self.problem(start, "did not find expected digit or '.' character"));
                }
                self.skip();
                Kind::Version { major, minor: self.version_number(start)? }
            }
            "TAG" => {
                self.skip_blanks();
                let handle = self.tag_handle(true, start)?;
                if !self.blank(0) {
                    return Err(self.problem(start, "did not find expected whitespace"));
                }
                self.skip_blanks();
                let prefix = self.tag_uri("", start)?;
                if !self.blank_or_end(0) {
                    let message = "did not find expected whitespace or line break";
                    return Err(self.problem(start, message));
                }
                Kind::TagDirective { handle, prefix }
            }
            _ => return Err(self.problem(start, "found unknown directive name")),
        };
        let end = self.mark;
        self.end_of_line(start)?;
        self.push(kind, start, end);
        Ok(())
    }

    /// White space, a comment and the line break after a directive or a block scalar's header.
    fn end_of_line(&mut self, start: Mark) -> Result<(), Box<Problem>> {
        self.skip_blanks();
        if self.byte(0) == Some(b'#') {
            while !self.break_or_end(0) {
                self.skip();
            }
        }
        if !self.break_or_end(0) {
            return Err(self.problem(start, "did not find expected comment or line break"));
        }
        self.skip_line();
        Ok(())
    }

    fn version_number(&mut self, start: Mark) -> Result<u32, Box<Problem>> {
        let mut value = 0;
        let mut length = 0;
        while let Some(digit @ b'0'..=b'9') = self.byte(0) {
            length += 1;
            if length > 2 {
                return Err(self.problem(start, "found extremely long version number"));
            }
            value = value * 10 + u32::from(digit - b'0');
            self.skip();
        }
        if length == 0 {
            return Err(self.problem(start, "did not find expected version number"));
        }
        Ok(value)
    }

    fn fetch_document_indicator(&mut self, kind: Kind<'a>) -> Result<(), Box<Problem>> {
        self.unroll_indent(None);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        let start = self.mark;
        self.skip_ascii(3);
        self.push(kind, start, self.mark);
        Ok(())
    }

    fn fetch_flow_start(&mut self, kind: Kind<'a>) -> Result<(), Box<Problem>> {
        self.save_simple_key()?;
        let token = self.taken + self.tokens.len();
        self.simple_keys.push(SimpleKey { token, ..SimpleKey::default() });
        self.flow_level += 1;
        self.simple_key_allowed = true;
        self.push_indicator(kind);
        Ok(())
    }

    fn fetch_flow_end(&mut self, kind: Kind<'a>) -> Result<(), Box<Problem>> {
        self.remove_simple_key()?;
        if self.flow_level > 0 {
            self.flow_level -= 1;
            // An odd corner of go-yaml: a level in which no key was ever possible still has the
            // number of its own bracket, so that an empty `{}` or `[]` cannot be a simple key.
            if let Some(SimpleKey { token, .. }) = self.simple_keys.pop() {
                self.forget(token);
            }
        }
        self.simple_key_allowed = false;
        self.push_indicator(kind);
        Ok(())
    }

    fn fetch_flow_entry(&mut self) -> Result<(), Box<Problem>> {
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        self.push_indicator(Kind::FlowEntry);
        Ok(())
    }

    fn fetch_block_entry(&mut self) -> Result<(), Box<Problem>> {
        if self.flow_level == 0 {
            if !self.simple_key_allowed {
                let message = "block sequence entries are not allowed in this context";
                return Err(self.problem(self.mark, message));
            }
            self.roll_indent(self.mark.column, None, Kind::BlockSequenceStart, self.mark);
        }
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        self.push_indicator(Kind::BlockEntry);
        Ok(())
    }

    fn fetch_key(&mut self) -> Result<(), Box<Problem>> {
        if self.flow_level == 0 {
            if !self.simple_key_allowed {
                let message = "mapping keys are not allowed in this context";
                return Err(self.problem(self.mark, message));
            }
            self.roll_indent(self.mark.column, None, Kind::BlockMappingStart, self.mark);
        }
        self.remove_simple_key()?;
        self.simple_key_allowed = self.flow_level == 0;
        self.push_indicator(Kind::Key);
        Ok(())
    }

    fn fetch_value(&mut self) -> Result<(), Box<Problem>> {
        let level = self.simple_keys.len().saturating_sub(1);
        if self.still_possible(level)? {
            let key = self.simple_keys.last().copied().unwrap_or_default();
            let token = Token { kind: Kind::Key, start: key.mark, end: key.mark };
            self.insert(Some(key.token), token);
            let kind = Kind::BlockMappingStart;
            self.roll_indent(key.mark.column, Some(key.token), kind, key.mark);
            if let Some(key) = self.simple_keys.last_mut() {
                key.possible = false;
            }
            self.forget(key.token);
            self.simple_key_allowed = false;
        } else {
            if self.flow_level == 0 {
                if !self.simple_key_allowed {
                    let message = "mapping values are not allowed in this context";
                    return Err(self.problem(self.mark, message));
                }
                self.roll_indent(self.mark.column, None, Kind::BlockMappingStart, self.mark);
            }
            self.simple_key_allowed = self.flow_level == 0;
        }
        self.push_indicator(Kind::Value);
        Ok(())
    }

    fn push_indicator(&mut self, kind: Kind<'a>) {
        let start = self.mark;
        self.skip_ascii(1);
        self.push(kind, start, self.mark);
    }

    fn fetch_anchor(&mut self, alias: bool) -> Result<(), Box<Problem>> {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        let start = self.mark;
        self.skip();
        let name = self.word();
        let ended = self.blank_or_end(0)
            || matches!(self.byte(0), Some(b'?' | b':' | b',' | b']' | b'}' | b'%' | b'@' | b'`'));
        if name.is_empty() || !ended {
            let message = "did not find expected alphabetic or numeric character";
            return Err(self.problem(start, message));
        }
        self.push(if alias { Kind::Alias(name) } else { Kind::Anchor(name) }, start, self.mark);
        Ok(())
    }

    fn fetch_tag(&mut self) -> Result<(), Box<Problem>> {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        let start = self.mark;
        let (handle, suffix) = if self.byte(1) == Some(b'<') {
            self.skip_ascii(2);
            let suffix = self.tag_uri("", start)?;
            if self.byte(0) != Some(b'>') {
                return Err(self.problem(start, "did not find the expected '>'"));
            }
            self.skip();
            ("", suffix)
        } else {
            let handle = self.tag_handle(false, start)?;
            if handle.len() > 1 && handle.ends_with('!') {
                (handle, self.tag_uri("", start)?)
            } else {
                // Not a handle after all but the beginning of a local tag.
                match self.tag_uri(handle, start)? {
                    suffix if suffix.is_empty() => ("", Cow::Borrowed("!")),
                    suffix => ("!", suffix),
                }
            }
        };
        if !self.blank_or_end(0) {
            return Err(self.problem(start, "did not find expected whitespace or line break"));
        }
        self.push(Kind::Tag { handle, suffix }, start, self.mark);
        Ok(())
    }

    /// `!`, `!!` or `!name!`; without the final `!` only where no directive asks for a handle.
    fn tag_handle(&mut self, directive: bool, start: Mark) -> Result<&'a str, Box<Problem>> {
        let from = self.mark.offset;
        if self.byte(0) != Some(b'!') {
            return Err(self.problem(start, "did not find expected '!'"));
        }
        self.skip();
        self.word();
        if self.byte(0) == Some(b'!') {
            self.skip();
        } else if directive && self.since(from) != "!" {
            return Err(self.problem(start, "did not find expected '!'"));
        }
        Ok(self.since(from))
    }

    /// The characters of a tag, `%` escapes decoded. `head` is what was read of it already, with
    /// its `!`.
    fn tag_uri(&mut self, head: &'a str, start: Mark) -> Result<Cow<'a, str>, Box<Problem>> {
        let from = self.mark.offset - head.len().saturating_sub(1).min(self.mark.offset);
        let mut decoded: Option<Vec<u8>> = None;
        while let Some(byte) = self.byte(0)
            && (is_word(byte) || b";/?:@&=+$,.%!~*'()[]".contains(&byte))
        {
            if byte == b'%' {
                let mut bytes = decoded.unwrap_or_else(|| self.since(from).as_bytes().to_vec());
                self.uri_escape(start, &mut bytes)?;
                decoded = Some(bytes);
            } else {
                if let Some(bytes) = &mut decoded {
                    bytes.push(byte);
                }
                self.skip();
            }
        }
        let text = match decoded {
            None => Cow::Borrowed(self.since(from)),
            Some(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        };
        if text.is_empty() && head.is_empty() {
            return Err(self.problem(start, "did not find expected tag URI"));
        }
        Ok(text)
    }

    /// One character as a run of `%` escapes, each one byte of its UTF-8.
    fn uri_escape(&mut self, start: Mark, out: &mut Vec<u8>) -> Result<(), Box<Problem>> {
        let mut missing = 0;
        loop {
            let octet = match (self.byte(0), hex(self.byte(1)), hex(self.byte(2))) {
                (Some(b'%'), Some(high), Some(low)) => high << 4 | low,
                _ => return Err(self.problem(start, "did not find URI escaped octet")),
            };
            if missing == 0 {
                missing = match octet {
                    0..0x80 => 1,
                    0xC0..0xE0 => 2,
                    0xE0..0xF0 => 3,
                    0xF0..0xF8 => 4,
                    _ => {
                        let message = "found an incorrect leading UTF-8 octet";
                        return Err(self.problem(start, message));
                    }
                };
            } else if octet & 0xC0 != 0x80 {
                return Err(self.problem(start, "found an incorrect trailing UTF-8 octet"));
            }
            out.push(u8::try_from(octet).unwrap_or_default());
            self.skip_ascii(3);
            missing -= 1;
            if missing == 0 {
                return Ok(());
            }
        }
    }

    // The text under the scanner.
}

fn hex(byte: Option<u8>) -> Option<u32> {
    char::from(byte?).to_digit(16)
}
