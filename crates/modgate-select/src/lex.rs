//! Tokens, cut as Go's `text/scanner` cuts them with its Go settings.
//!
//! KubeMod tokenises with that package, and where a token ends decides what parses: `.5` is a float
//! even behind a key, `1p3` is one (bad) number, an unterminated string swallows its line.

use std::sync::LazyLock;

use modgate_value::{
    diag::{Location, Span},
    regex::GoRegex,
};

/// The kinds of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token {
    Eof,
    Ident,
    Int,
    Float,
    /// `'…'`
    Char,
    /// `"…"`
    String,
    /// `` `…` ``
    RawString,
    /// Any other character.
    Mark(char),
}

/// A cursor over the text, standing behind the last token.
#[derive(Debug, Clone)]
pub(crate) struct Lexer<'t> {
    text: &'t str,
    at: usize,
    /// Where the last token stands.
    token: Span,
}

impl<'t> Lexer<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        // A byte order mark is skipped at the very start only.
        let at = if text.starts_with('\u{FEFF}') { '\u{FEFF}'.len_utf8() } else { 0 };
        Self { text, at, token: Span::at(at) }
    }

    /// The character behind the last token.
    pub(crate) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// The text behind the last token.
    pub(crate) fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Lengthens the last token by `bytes`, which must end on a character.
    pub(crate) fn extend(&mut self, bytes: usize) {
        self.at += bytes;
        self.token.end = self.at;
    }

    /// Shortens the last token by `bytes`, to be read again.
    pub(crate) fn retract(&mut self, bytes: usize) {
        self.at -= bytes;
        self.token.end = self.at;
    }

    pub(crate) fn span(&self) -> Span {
        self.token
    }

    /// The last token's text.
    pub(crate) fn token_text(&self) -> &'t str {
        self.text.get(self.token.start..self.token.end).unwrap_or_default()
    }

    /// The reader's position, which is behind the last token.
    pub(crate) fn location(&self) -> Location {
        Location::of(self.text, self.at)
    }

    /// The last token's position.
    pub(crate) fn token_location(&self) -> Location {
        Location::of(self.text, self.token.start)
    }

    fn bump(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn bump_while(&mut self, accept: impl Fn(char) -> bool) {
        while self.peek().is_some_and(&accept) {
            self.bump();
        }
    }

    /// Reads the next token.
    pub(crate) fn scan(&mut self) -> Token {
        self.skip_blank();
        let start = self.at;
        let token = self.read();
        self.token = Span::new(start, self.at);
        token
    }

    /// White space and comments. An unterminated comment ends with the text.
    fn skip_blank(&mut self) {
        loop {
            self.bump_while(|c| matches!(c, ' ' | '\t' | '\r' | '\n'));
            let rest = self.rest();
            if rest.starts_with("//") {
                self.bump_while(|c| c != '\n');
            } else if let Some(comment) = rest.strip_prefix("/*") {
                self.at += comment.find("*/").map_or(rest.len(), |end| end + 4);
            } else {
                return;
            }
        }
    }

    fn read(&mut self) -> Token {
        let Some(first) = self.bump() else {
            return Token::Eof;
        };
        match first {
            _ if is_letter(first) => {
                self.bump_while(|c| is_letter(c) || is_digit(c));
                Token::Ident
            }
            '0'..='9' => self.number(first),
            '.' if self.peek().is_some_and(|c| c.is_ascii_digit()) => {
                self.digits(10);
                self.exponent();
                Token::Float
            }
            '"' => {
                self.string('"');
                Token::String
            }
            '\'' => {
                self.string('\'');
                Token::Char
            }
            '`' => {
                self.bump_while(|c| c != '`');
                self.bump();
                Token::RawString
            }
            other => Token::Mark(other),
        }
    }

    fn number(&mut self, first: char) -> Token {
        let mut base = 10;
        if first == '0' {
            base = match self.peek() {
                Some('x' | 'X') => 16,
                Some('o' | 'O' | 'b' | 'B') => 8,
                _ => 10,
            };
            if base != 10 {
                self.bump();
            }
        }
        self.digits(base);
        let point = self.peek() == Some('.');
        if point {
            self.bump();
            self.digits(base);
        }
        if self.exponent() || point { Token::Float } else { Token::Int }
    }

    fn digits(&mut self, base: u32) {
        self.bump_while(|c| c == '_' || c.is_digit(base.max(10)));
    }

    fn exponent(&mut self) -> bool {
        if !matches!(self.peek(), Some('e' | 'E' | 'p' | 'P')) {
            return false;
        }
        self.bump();
        if matches!(self.peek(), Some('+' | '-')) {
            self.bump();
        }
        self.digits(10);
        true
    }

    /// Reads behind the opening quote up to the closing one, or the end of the line.
    fn string(&mut self, quote: char) {
        loop {
            match self.bump() {
                None | Some('\n') => return,
                Some(c) if c == quote => return,
                // Escapes are read later; here they only hide a quote.
                Some('\\') if self.peek().is_some_and(|c| c == '\\' || c == quote) => {
                    self.bump();
                }
                Some(_) => {}
            }
        }
    }
}

/// Whether `text` would be read as one identifier.
pub(crate) fn is_identifier(text: &str) -> bool {
    text.starts_with(is_letter) && text.chars().all(|c| is_letter(c) || is_digit(c))
}

fn is_letter(c: char) -> bool {
    c == '_' || c.is_ascii_alphabetic() || (!c.is_ascii() && in_class(&LETTER, c))
}

fn is_digit(c: char) -> bool {
    c.is_ascii_digit() || (!c.is_ascii() && in_class(&DIGIT, c))
}

// Go's `unicode.IsLetter` and `unicode.IsDigit`; the standard library's classes are wider.
static LETTER: LazyLock<Option<GoRegex>> = LazyLock::new(|| GoRegex::new(r"\pL").ok());
static DIGIT: LazyLock<Option<GoRegex>> = LazyLock::new(|| GoRegex::new(r"\p{Nd}").ok());

fn in_class(class: &LazyLock<Option<GoRegex>>, c: char) -> bool {
    class.as_ref().is_some_and(|class| class.is_match(c.encode_utf8(&mut [0; 4])))
}

/// The value of a quoted literal, quotes included: Go's `strconv.Unquote`, except that single
/// quotes may hold any number of characters (Q-11). `None` for invalid syntax.
pub(crate) fn unquote(literal: &str) -> Option<String> {
    let quote = literal.chars().next()?;
    let body = literal.get(1..)?.strip_suffix(quote)?;
    if quote == '`' {
        return Some(body.replace('\r', ""));
    }
    // `\xHH` and octal escapes are bytes, so text is only checked at the end.
    let mut out = Vec::with_capacity(body.len());
    let mut rest = body.chars();
    while let Some(c) = rest.next() {
        match c {
            '\n' => return None,
            '\\' => escape(&mut rest, quote, &mut out)?,
            c if c == quote => return None,
            c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Some(match String::from_utf8(out) {
        Ok(text) => text,
        // Go strings may hold any bytes; JSON text cannot, and shows them as replacements.
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

fn escape(rest: &mut std::str::Chars<'_>, quote: char, out: &mut Vec<u8>) -> Option<()> {
    let c = rest.next()?;
    let byte = match c {
        'a' => 0x07,
        'b' => 0x08,
        'f' => 0x0C,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 0x0B,
        '\\' => b'\\',
        'x' => u8::try_from(digits(rest, 16, 2)?).ok()?,
        '0'..='7' => {
            let high = c.to_digit(8)? * 64;
            u8::try_from(high + digits(rest, 8, 2)?).ok()?
        }
        'u' | 'U' => {
            let code = digits(rest, 16, if c == 'u' { 4 } else { 8 })?;
            let c = char::from_u32(code)?;
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            return Some(());
        }
        c if c == quote => {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            return Some(());
        }
        _ => return None,
    };
    out.push(byte);
    Some(())
}

fn digits(rest: &mut std::str::Chars<'_>, base: u32, count: usize) -> Option<u32> {
    let mut value: u32 = 0;
    for _ in 0..count {
        value = value.checked_mul(base)?.checked_add(rest.next()?.to_digit(base)?)?;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<(Token, &str)> {
        let mut lexer = Lexer::new(text);
        let mut out = Vec::new();
        loop {
            match lexer.scan() {
                Token::Eof => return out,
                token => out.push((token, lexer.token_text())),
            }
        }
    }

    #[test]
    fn cuts() {
        use Token::{Char, Float, Ident, Int, Mark, RawString, String};
        for (text, expected) in [
            ("$.a", vec![(Mark('$'), "$"), (Mark('.'), "."), (Ident, "a")]),
            ("a.5", vec![(Ident, "a"), (Float, ".5")]),
            ("1.x", vec![(Float, "1."), (Ident, "x")]),
            ("1p3 1e+5_0", vec![(Float, "1p3"), (Float, "1e+5_0")]),
            ("0x1F 0x1p4", vec![(Int, "0x1F"), (Float, "0x1p4")]),
            ("\u{feff}мир_1 é", vec![(Ident, "мир_1"), (Ident, "é")]),
            ("// x\n1 /* 2 */ 3 /* 4", vec![(Int, "1"), (Int, "3")]),
            (
                r#""a\"b" 'c' `d\`"#,
                vec![(String, r#""a\"b""#), (Char, "'c'"), (RawString, r"`d\`")],
            ),
            ("\"a\nb", vec![(String, "\"a\n"), (Ident, "b")]),
            ("`a", vec![(RawString, "`a")]),
            (r#""\'"x"#, vec![(String, r#""\'""#), (Ident, "x")]),
            ("²", vec![(Mark('²'), "²")]),
            ("a٣", vec![(Ident, "a٣")]),
        ] {
            assert_eq!(tokens(text), expected, "{text}");
        }
    }

    #[test]
    fn unquoting() {
        for (literal, expected) in [
            (r#""a\n\x41\u00e9\101""#, Some("a\nAéA")),
            (r#""\xc3\xa9""#, Some("é")),
            (r#""\'""#, None),
            (r#"'\''"#, Some("'")),
            (r#"'\"'"#, None),
            (r#"'say "hi"'"#, Some("say \"hi\"")),
            ("''", Some("")),
            (r#""\.""#, None),
            (r#""\ud800""#, None),
            (r#""\400""#, None),
            ("\"a\n\"", None),
            ("\"", None),
            ("`a\r\n\\`", Some("a\n\\")),
            ("`a", None),
        ] {
            assert_eq!(unquote(literal).as_deref(), expected, "{literal}");
        }
    }
}
