use std::{borrow::Cow, fmt};

use super::plain::Specials;
use crate::{
    MAX_DEPTH, Number, Str, Value,
    value::{Object, sort_last_wins},
};

/// Why a text is not one JSON document, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} at line {line}, column {column}")]
pub struct ParseError {
    /// The kind of mistake.
    pub kind: ParseErrorKind,
    /// Line of the offending byte, from 1.
    pub line: usize,
    /// Column of the offending byte in its line, in bytes from 1.
    pub column: usize,
    /// Offset of the offending byte from the start.
    pub offset: usize,
}

/// A kind of mistake in a JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// The text ends inside a value.
    UnexpectedEnd,
    /// A character that cannot stand here.
    Unexpected(char),
    /// A control character inside a string.
    ControlCharacter,
    /// A backslash followed by something JSON has no escape for.
    InvalidEscape,
    /// Digits that are not a JSON number.
    InvalidNumber,
    /// More than one value.
    TrailingText,
    /// Containers nested more than this many levels deep.
    TooDeep(usize),
    /// More than this many values, an object counting as [`OBJECT_VALUES`].
    TooMany(usize),
}

impl fmt::Display for ParseErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnexpectedEnd => f.write_str("unexpected end of JSON"),
            Self::Unexpected(found) => write!(f, "unexpected {found:?}"),
            Self::ControlCharacter => f.write_str("control character in a string"),
            Self::InvalidEscape => f.write_str("invalid escape in a string"),
            Self::InvalidNumber => f.write_str("invalid number"),
            Self::TrailingText => f.write_str("text after the end of the document"),
            Self::TooDeep(limit) => write!(f, "more than {limit} nested levels"),
            Self::TooMany(limit) => write!(f, "more than {limit} values"),
        }
    }
}

/// Reads exactly one JSON document.
///
/// As Go's `encoding/json` does, bytes that are not UTF-8 and unpaired surrogate escapes become
/// U+FFFD, and of duplicate keys the last one counts.
///
/// # Errors
///
/// When the text is not JSON, holds more than one document, or nests deeper than [`MAX_DEPTH`].
pub fn parse(text: &[u8]) -> Result<Value, ParseError> {
    parse_nested(text, MAX_DEPTH)
}

/// As [`parse`], of documents that may nest up to `max_depth` levels:
/// [`MAX_JSON_DEPTH`](crate::MAX_JSON_DEPTH) for what comes from an API server.
///
/// # Errors
///
/// When the text is not JSON, holds more than one document, or nests deeper than `max_depth`.
pub fn parse_nested(text: &[u8], max_depth: usize) -> Result<Value, ParseError> {
    let bounds = Bounds { max_depth, max_values: usize::MAX, left_out: &[] };
    parse_within(text, &bounds).map(|read| read.value)
}

/// An object takes as much memory as this many other values.
pub const OBJECT_VALUES: usize = 5;

/// Bounds on a document, and what of it is not built.
#[derive(Debug, Clone, Copy)]
pub struct Bounds<'p> {
    /// The levels that containers may nest.
    pub max_depth: usize,
    /// The values that the document may have, built or not: its commas, arrays, and [`OBJECT_VALUES`] for each object.
    pub max_values: usize,
    /// Values at these paths through objects are read, so they must be JSON, and not built.
    pub left_out: &'p [&'p [&'p str]],
}

/// A document, perhaps without some of its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partial {
    /// It, with null in place of what was left out.
    pub value: Value,
    /// Whether nothing was.
    pub is_whole: bool,
}

/// As [`parse_nested`], within these bounds.
///
/// # Errors
///
/// Those of [`parse_nested`], and when the document has too many values.
pub fn parse_within(text: &[u8], bounds: &Bounds<'_>) -> Result<Partial, ParseError> {
    let text = lossy(text);
    let mut reader = Reader {
        text: &text,
        at: 0,
        specials: Specials::default(),
        max_depth: bounds.max_depth,
        max_values: bounds.max_values,
        values_left: bounds.max_values,
        left_out: bounds.left_out,
        is_whole: true,
        members: Vec::with_capacity(ROOM.min(text.len() / 8)),
        elements: Vec::with_capacity(ROOM.min(text.len() / 8)),
        text_read: String::new(),
    };
    let result = reader.document();
    result.map(|value| Partial { value, is_whole: reader.is_whole }).map_err(|kind| {
        let before = text.as_bytes().get(..reader.at).unwrap_or_default();
        let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        ParseError {
            kind,
            line: before.iter().filter(|byte| **byte == b'\n').count() + 1,
            column: before.len() - line_start + 1,
            offset: before.len(),
        }
    })
}

/// Members and elements of open containers that there is room for from the start, in all but short texts.
const ROOM: usize = 32;

/// Text with U+FFFD for each byte that is not UTF-8. (Rust's own conversion has one for each run of
/// bytes that could have begun a character.)
pub(crate) fn lossy(text: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(text) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Cow::Owned(out)
}

struct Reader<'a> {
    text: &'a str,
    /// Offset of the next byte; always on a character boundary when a slice is taken.
    at: usize,
    specials: Specials,
    max_depth: usize,
    max_values: usize,
    /// The values that may still come.
    values_left: usize,
    /// Paths of what is not built.
    left_out: &'a [&'a [&'a str]],
    /// Whether there was nothing at them.
    is_whole: bool,
    /// Members and elements of the containers being read, innermost last: each container takes its
    /// own off the end in one allocation of the exact size.
    members: Vec<(Str, Value)>,
    elements: Vec<Value>,
    /// Where texts with escapes are put together. Their [`Str`] is one allocation of the exact size.
    text_read: String,
}

/// A text that was read: a part of the document where it has no escapes.
enum Text<'a> {
    Plain(&'a str),
    Unescaped(Str),
}

impl Text<'_> {
    fn as_str(&self) -> &str {
        match self {
            Self::Plain(text) => text,
            Self::Unescaped(text) => text,
        }
    }

    #[inline]
    fn into_str(self) -> Str {
        match self {
            Self::Plain(text) => Str::new(text),
            Self::Unescaped(text) => text,
        }
    }
}

/// A container being read: where its parts start among those of the reader.
enum Open<'a> {
    Array {
        start: usize,
    },
    Object {
        start: usize,
        /// The key whose value is being read.
        key: Text<'a>,
    },
}

impl<'a> Reader<'a> {
    fn document(&mut self) -> Result<Value, ParseErrorKind> {
        let value = self.value()?;
        self.skip_space();
        match self.peek() {
            None => Ok(value),
            Some(_) => Err(ParseErrorKind::TrailingText),
        }
    }

    /// One value with all that is inside of it. Does not recurse: the stack is shorter than
    /// documents are deep.
    fn value(&mut self) -> Result<Value, ParseErrorKind> {
        let mut open: Vec<Open<'a>> = Vec::new();
        loop {
            self.skip_space();
            let mut value = match self.peek() {
                _ if self.is_left_out(&open) => {
                    self.skip(open.len())?;
                    self.is_whole = false;
                    Value::Null
                }
                Some(b'{') => {
                    self.enter(open.len(), OBJECT_VALUES)?;
                    if !self.take(b'}') {
                        let key = self.key()?;
                        open.push(Open::Object { start: self.members.len(), key });
                        continue;
                    }
                    Value::Object(Object::default())
                }
                Some(b'[') => {
                    self.enter(open.len(), 1)?;
                    if !self.take(b']') {
                        open.push(Open::Array { start: self.elements.len() });
                        continue;
                    }
                    Value::Array(Vec::new().into())
                }
                Some(b'"') => Value::String(self.string()?.into_str()),
                Some(b'-' | b'0'..=b'9') => self.number()?,
                Some(b't') => self.word("true", Value::Bool(true))?,
                Some(b'f') => self.word("false", Value::Bool(false))?,
                Some(b'n') => self.word("null", Value::Null)?,
                _ => return Err(self.unexpected()),
            };
            // The value is complete: its container takes it, and may be complete then too.
            loop {
                let Some(innermost) = open.last_mut() else { return Ok(value) };
                value = match innermost {
                    Open::Array { start } => {
                        self.elements.push(value);
                        if self.goes_on(b']')? {
                            break;
                        }
                        Value::Array(self.elements.drain(*start..).collect())
                    }
                    Open::Object { start, key } => {
                        let key_read = std::mem::replace(key, Text::Plain(""));
                        self.members.push((key_read.into_str(), value));
                        if self.goes_on(b'}')? {
                            self.skip_space();
                            *key = self.key()?;
                            break;
                        }
                        self.object(*start)
                    }
                };
                open.pop();
            }
        }
    }

    /// Whether the value that comes next is not built.
    #[inline]
    fn is_left_out(&self, open: &[Open<'a>]) -> bool {
        !self.left_out.is_empty() && self.left_out.iter().any(|path| is_at(open, path))
    }

    /// Takes one value inside of so many containers.
    fn skip(&mut self, depth: usize) -> Result<(), ParseErrorKind> {
        let mut closing = Vec::new();
        loop {
            self.skip_space();
            match self.peek() {
                Some(b'{') => {
                    self.enter(depth + closing.len(), OBJECT_VALUES)?;
                    if !self.take(b'}') {
                        self.skip_key()?;
                        closing.push(b'}');
                        continue;
                    }
                }
                Some(b'[') => {
                    self.enter(depth + closing.len(), 1)?;
                    if !self.take(b']') {
                        closing.push(b']');
                        continue;
                    }
                }
                Some(b'"') => self.skip_string()?,
                Some(b'-' | b'0'..=b'9') => drop(self.number()?),
                Some(b't') => drop(self.word("true", Value::Null)?),
                Some(b'f') => drop(self.word("false", Value::Null)?),
                Some(b'n') => drop(self.word("null", Value::Null)?),
                _ => return Err(self.unexpected()),
            }
            loop {
                let Some(close) = closing.last().copied() else { return Ok(()) };
                if self.goes_on(close)? {
                    if close == b'}' {
                        self.skip_space();
                        self.skip_key()?;
                    }
                    break;
                }
                closing.pop();
            }
        }
    }

    fn skip_key(&mut self) -> Result<(), ParseErrorKind> {
        if self.peek() != Some(b'"') {
            return Err(self.unexpected());
        }
        self.skip_string()?;
        self.skip_space();
        if self.take(b':') { Ok(()) } else { Err(self.unexpected()) }
    }

    fn skip_string(&mut self) -> Result<(), ParseErrorKind> {
        self.at += 1;
        loop {
            self.take_plain();
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => drop(self.escape()?),
                Some(_) => return Err(ParseErrorKind::ControlCharacter),
                None => return Err(ParseErrorKind::UnexpectedEnd),
            }
        }
    }

    /// Takes what stands for itself of the string that goes on here.
    #[inline]
    fn take_plain(&mut self) {
        self.at = self.specials.next(self.text.as_bytes(), self.at);
    }

    #[inline]
    fn count(&mut self, values: usize) -> Result<(), ParseErrorKind> {
        let left = self.values_left.checked_sub(values);
        self.values_left = left.ok_or(ParseErrorKind::TooMany(self.max_values))?;
        Ok(())
    }

    /// Takes the opening bracket of so many values, and the space behind it.
    #[inline]
    fn enter(&mut self, depth: usize, values: usize) -> Result<(), ParseErrorKind> {
        if depth >= self.max_depth {
            return Err(ParseErrorKind::TooDeep(self.max_depth));
        }
        self.count(values)?;
        self.at += 1;
        self.skip_space();
        Ok(())
    }

    /// Takes what follows a part of a container: a comma, or the bracket that closes it.
    #[inline]
    fn goes_on(&mut self, close: u8) -> Result<bool, ParseErrorKind> {
        self.skip_space();
        if self.take(b',') {
            self.count(1)?;
            return Ok(true);
        }
        if self.take(close) { Ok(false) } else { Err(self.unexpected()) }
    }

    /// A key and its colon.
    fn key(&mut self) -> Result<Text<'a>, ParseErrorKind> {
        if self.peek() != Some(b'"') {
            return Err(self.unexpected());
        }
        let key = self.string()?;
        self.skip_space();
        if self.take(b':') { Ok(key) } else { Err(self.unexpected()) }
    }

    /// The object of the members from `start` on.
    fn object(&mut self, start: usize) -> Value {
        let own = self.members.get_mut(start..).unwrap_or_default();
        if !own.is_sorted_by(|(a, _), (b, _)| a < b) {
            own.sort_by(|(a, _), (b, _)| a.cmp(b));
            if !own.is_sorted_by(|(a, _), (b, _)| a < b) {
                let mut own = self.members.split_off(start);
                sort_last_wins(&mut own);
                return Value::Object(Object::from_sorted(own.into_iter()));
            }
        }
        Value::Object(Object::from_sorted(self.members.drain(start..)))
    }

    /// A string's text. It becomes a [`Str`] only where that will stay: moving one costs more than
    /// moving a slice.
    fn string(&mut self) -> Result<Text<'a>, ParseErrorKind> {
        self.at += 1;
        let start = self.at;
        self.take_plain();
        match self.peek() {
            Some(b'"') => {
                let text = self.text.get(start..self.at).unwrap_or_default();
                self.at += 1;
                Ok(Text::Plain(text))
            }
            Some(b'\\') => self.string_with_escapes(start).map(Text::Unescaped),
            Some(_) => Err(ParseErrorKind::ControlCharacter),
            None => Err(ParseErrorKind::UnexpectedEnd),
        }
    }

    #[cold]
    fn string_with_escapes(&mut self, start: usize) -> Result<Str, ParseErrorKind> {
        let mut out = std::mem::take(&mut self.text_read);
        out.clear();
        out.push_str(self.text.get(start..self.at).unwrap_or_default());
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    let text = Str::new(&out);
                    self.text_read = out;
                    return Ok(text);
                }
                Some(b'\\') => out.push(self.escape()?),
                Some(_) => return Err(ParseErrorKind::ControlCharacter),
                None => return Err(ParseErrorKind::UnexpectedEnd),
            }
            let plain = self.at;
            self.take_plain();
            out.push_str(self.text.get(plain..self.at).unwrap_or_default());
        }
    }

    fn escape(&mut self) -> Result<char, ParseErrorKind> {
        self.at += 1;
        let plain = match self.peek() {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                let first = self.hex4()?;
                return Ok(self.character(first));
            }
            Some(_) => return Err(ParseErrorKind::InvalidEscape),
            None => return Err(ParseErrorKind::UnexpectedEnd),
        };
        self.at += 1;
        Ok(plain)
    }

    /// The character of a `\u` escape, which may be the first half of a surrogate pair.
    fn character(&mut self, first: u32) -> char {
        if (0xD800..0xDC00).contains(&first) {
            let resume = self.at;
            if self.text.get(self.at..).is_some_and(|rest| rest.starts_with("\\u")) {
                self.at += 2;
                if let Ok(second @ 0xDC00..0xE000) = self.hex4() {
                    let code = 0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00);
                    return char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
                }
            }
            self.at = resume;
        }
        char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER)
    }

    fn hex4(&mut self) -> Result<u32, ParseErrorKind> {
        let digits = self.text.get(self.at..self.at + 4).ok_or(ParseErrorKind::InvalidEscape)?;
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(ParseErrorKind::InvalidEscape);
        }
        self.at += 4;
        u32::from_str_radix(digits, 16).map_err(|_| ParseErrorKind::InvalidEscape)
    }

    fn number(&mut self) -> Result<Value, ParseErrorKind> {
        let start = self.at;
        while let Some(b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        let text = self.text.get(start..self.at).unwrap_or_default();
        Number::from_json_text(text).map(Value::Number).ok_or_else(|| {
            self.at = start;
            ParseErrorKind::InvalidNumber
        })
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, ParseErrorKind> {
        if self.text.get(self.at..).is_some_and(|rest| rest.starts_with(word)) {
            self.at += word.len();
            Ok(value)
        } else {
            Err(self.unexpected())
        }
    }

    fn unexpected(&self) -> ParseErrorKind {
        match self.text.get(self.at..).and_then(|rest| rest.chars().next()) {
            Some(found) => ParseErrorKind::Unexpected(found),
            None => ParseErrorKind::UnexpectedEnd,
        }
    }

    #[inline]
    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    #[inline]
    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }
}

/// Whether the value that comes next is at a path through objects.
fn is_at(open: &[Open<'_>], path: &[&str]) -> bool {
    let is_key = |(open, name): (&Open<'_>, &&str)| match open {
        Open::Object { key, .. } => key.as_str() == *name,
        Open::Array { .. } => false,
    };
    open.len() == path.len() && open.iter().zip(path).all(is_key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts() {
        for (text, printed) in [
            ("null", "null"),
            (" [1 , 2.0,\t\"a\"]\n", r#"[1,2.0,"a"]"#),
            ("{}", "{}"),
            ("[]", "[]"),
            (r#"{"b": {"z": 1, "a": []}, "a": true}"#, r#"{"a":true,"b":{"a":[],"z":1}}"#),
            (r#""\u00e9\ud83d\ude00\n\/""#, "\"é😀\\n/\""),
            (r#""\ud83d""#, "\"\u{FFFD}\""),
            (r#""\ud83dA""#, "\"\u{FFFD}A\""),
            (r#""\ude00x""#, "\"\u{FFFD}x\""),
        ] {
            assert_eq!(parse(text.as_bytes()).expect(text).to_json(), printed);
        }
    }

    #[test]
    fn invalid_utf8_is_replaced() {
        assert_eq!(parse(b"\"a\xffb\"").expect("lossy").as_str(), Some("a\u{FFFD}b"));
        // The first two bytes of a euro sign.
        assert_eq!(parse(b"\"\xe2\x82\"").expect("lossy").as_str(), Some("\u{FFFD}\u{FFFD}"));
    }

    #[test]
    fn rejects_with_a_position() {
        use ParseErrorKind as K;
        for (text, kind, line, column) in [
            ("", K::UnexpectedEnd, 1, 1),
            ("{\n  \"a\" 1}", K::Unexpected('1'), 2, 7),
            ("[1,]", K::Unexpected(']'), 1, 4),
            ("{\"a\":1,}", K::Unexpected('}'), 1, 8),
            ("nul", K::Unexpected('n'), 1, 1),
            ("1 2", K::TrailingText, 1, 3),
            ("\"a", K::UnexpectedEnd, 1, 3),
            ("\"a\nb\"", K::ControlCharacter, 1, 3),
            ("\"\\x\"", K::InvalidEscape, 1, 3),
            ("\"\\u12g4\"", K::InvalidEscape, 1, 4),
            ("[01]", K::InvalidNumber, 1, 2),
            ("{a: 1}", K::Unexpected('a'), 1, 2),
            ("\u{feff}{}", K::Unexpected('\u{feff}'), 1, 1),
        ] {
            let error = parse(text.as_bytes()).expect_err(text);
            assert_eq!((error.kind, error.line, error.column), (kind, line, column), "{text}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |levels| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(parse(nested(MAX_DEPTH).as_bytes()).is_ok());
        let error = parse(nested(MAX_DEPTH + 1).as_bytes()).expect_err("too deep");
        assert_eq!(error.kind, ParseErrorKind::TooDeep(MAX_DEPTH));
        assert!(parse("[".repeat(1_000_000).as_bytes()).is_err());
    }
}
