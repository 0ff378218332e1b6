//! Go strings: bytes that are usually UTF-8, and how Go quotes them.

use std::{borrow::Cow, rc::Rc};

pub(crate) use modgate_value::gofmt::quote_bytes as quote;

use crate::unicode;

/// A Go string. Nearly always UTF-8; `b64dec` and byte slicing can make it anything.
#[derive(Debug, Clone)]
pub(crate) enum Text<'a> {
    Ref(&'a str),
    Own(Rc<str>),
    /// Not UTF-8.
    RawRef(&'a [u8]),
    /// Not UTF-8.
    Raw(Rc<[u8]>),
}

/// The text with U+FFFD for each byte that is not UTF-8.
///
/// Rust's own conversion has one U+FFFD for each run of bytes that could have begun a character.
pub(crate) fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Cow::Owned(out)
}

impl<'a> Text<'a> {
    pub(crate) fn of_bytes(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self::Own(text.into()),
            Err(error) => Self::Raw(error.into_bytes().into()),
        }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Ref(text) => text.as_bytes(),
            Self::Own(text) => text.as_bytes(),
            Self::RawRef(bytes) => bytes,
            Self::Raw(bytes) => bytes,
        }
    }

    /// The text with U+FFFD for each byte that is not UTF-8, which is how Go's rune functions see it.
    pub(crate) fn lossy(&self) -> Cow<'_, str> {
        match self {
            Self::Ref(text) => Cow::Borrowed(text),
            Self::Own(text) => Cow::Borrowed(text),
            Self::RawRef(bytes) => lossy(bytes),
            Self::Raw(bytes) => lossy(bytes),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.as_bytes().len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.as_bytes().is_empty()
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Self::Own(text.into())
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self::Ref(text)
    }
}

/// `%#U` of a character: `U+002D '-'`.
pub(crate) fn quote_rune(character: char) -> String {
    let code = u32::from(character);
    if unicode::is_print(character) {
        format!("U+{code:04X} '{character}'")
    } else {
        format!("U+{code:04X}")
    }
}

/// `strconv.Unquote` of a quoted or raw string constant; bytes where escapes make it not UTF-8.
pub(crate) fn unquote(text: &str) -> Option<Result<String, Vec<u8>>> {
    if let Some(raw) = text.strip_prefix('`') {
        return Some(Ok(raw.strip_suffix('`')?.replace('\r', "")));
    }
    let mut rest = text.strip_prefix('"')?.strip_suffix('"')?;
    let mut out = Vec::with_capacity(rest.len());
    while !rest.is_empty() {
        let (unit, tail) = next_unit(rest, '"')?;
        match unit {
            Unit::Char(character) => {
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            Unit::Byte(byte) => out.push(byte),
        }
        rest = tail;
    }
    Some(String::from_utf8(out).map_err(std::string::FromUtf8Error::into_bytes))
}

/// The character of a character constant, quotes included.
pub(crate) fn unquote_char(text: &str) -> Option<char> {
    let (unit, rest) = next_unit(text.strip_prefix('\'')?, '\'')?;
    if rest != "'" {
        return None;
    }
    match unit {
        Unit::Char(character) => Some(character),
        Unit::Byte(byte) => Some(char::from(byte)),
    }
}

enum Unit {
    Char(char),
    /// A `\x` or octal escape, which names a byte.
    Byte(u8),
}

fn next_unit(text: &str, quote: char) -> Option<(Unit, &str)> {
    let mut chars = text.chars();
    let first = chars.next()?;
    if first == quote || first == '\n' {
        return None;
    }
    if first != '\\' {
        return Some((Unit::Char(first), chars.as_str()));
    }
    let kind = chars.next()?;
    let rest = chars.as_str();
    let plain = match kind {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        '\\' => '\\',
        '\'' | '"' if kind == quote => kind,
        'x' => {
            let (code, rest) = digits(rest, 2, 16)?;
            return Some((Unit::Byte(u8::try_from(code).ok()?), rest));
        }
        'u' | 'U' => {
            let (code, rest) = digits(rest, if kind == 'u' { 4 } else { 8 }, 16)?;
            return Some((Unit::Char(char::from_u32(code)?), rest));
        }
        '0'..='7' => {
            let (code, rest) = digits(text.get(1..)?, 3, 8)?;
            return Some((Unit::Byte(u8::try_from(code).ok()?), rest));
        }
        _ => return None,
    };
    Some((Unit::Char(plain), rest))
}

fn digits(text: &str, count: usize, base: u32) -> Option<(u32, &str)> {
    let (digits, rest) = text.split_at_checked(count)?;
    if !digits.chars().all(|digit| digit.is_digit(base)) {
        return None;
    }
    Some((u32::from_str_radix(digits, base).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting() {
        for (text, expected) in [
            ("", r#""""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\n\t\0\u{7f}", r#""\n\t\x00\x7f""#),
            ("é\u{a0}\u{200b}\u{e000}", r#""é\u00a0\u200b\ue000""#),
            ("😀\u{e0001}", r#""😀\U000e0001""#),
        ] {
            assert_eq!(quote(text.as_bytes()), expected);
        }
        assert_eq!(quote(b"a\xffb"), r#""a\xffb""#);
    }

    #[test]
    fn unquoting() {
        for (text, expected) in [
            (r#""a\tb""#, Some(Ok("a\tb"))),
            (r#""\u00e9\x41\101""#, Some(Ok("éAA"))),
            (r#""\'""#, None),
            (r#""\q""#, None),
            (r#""\400""#, None),
            (r#""\ud800""#, None),
            ("`a\\n\r`", Some(Ok("a\\n"))),
            (r#""\xff""#, Some(Err(&b"\xff"[..]))),
        ] {
            let expected = expected.map(|result: Result<&str, &[u8]>| {
                result.map(str::to_owned).map_err(<[u8]>::to_vec)
            });
            assert_eq!(unquote(text), expected, "{text}");
        }
        assert_eq!(unquote_char(r"'\''"), Some('\''));
        assert_eq!(unquote_char("'é'"), Some('é'));
        assert_eq!(unquote_char("'ab'"), None);
        assert_eq!(unquote_char("''"), None);
    }
}
