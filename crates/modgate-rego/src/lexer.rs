//! Text to tokens.
//!
//! A token knows whether white space or a line break stands before it, because both mean
//! something: a reference ends at white space, an expression at a line break. Keywords are plain
//! identifiers here; which of them are keywords depends on a module's imports, so the parser tells.

use crate::mistake::TokenError;

/// The kinds of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tok {
    Illegal,
    Eof,
    /// Where white space may not stand.
    Whitespace,
    Ident,
    /// A keyword, decided by the parser.
    Keyword(Keyword),
    Number,
    String,
    RawString,
    /// A piece of a template string that an expression follows.
    TemplatePart {
        raw: bool,
    },
    /// The last piece of a template string.
    TemplateEnd {
        raw: bool,
    },
    LBrack,
    RBrack,
    LBrace,
    RBrace,
    LParen,
    RParen,
    Comma,
    Colon,
    Add,
    Sub,
    Mul,
    Quo,
    Rem,
    And,
    Or,
    Unify,
    Equal,
    Assign,
    Neq,
    Gt,
    Lt,
    Gte,
    Lte,
    Dot,
    Semicolon,
}

/// The words that can be keywords.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keyword {
    Package,
    Import,
    As,
    Default,
    Else,
    Not,
    Some,
    With,
    Null,
    True,
    False,
    In,
    Every,
    Contains,
    If,
}

impl Keyword {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Package => "package",
            Self::Import => "import",
            Self::As => "as",
            Self::Default => "default",
            Self::Else => "else",
            Self::Not => "not",
            Self::Some => "some",
            Self::With => "with",
            Self::Null => "null",
            Self::True => "true",
            Self::False => "false",
            Self::In => "in",
            Self::Every => "every",
            Self::Contains => "contains",
            Self::If => "if",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "package" => Self::Package,
            "import" => Self::Import,
            "as" => Self::As,
            "default" => Self::Default,
            "else" => Self::Else,
            "not" => Self::Not,
            "some" => Self::Some,
            "with" => Self::With,
            "null" => Self::Null,
            "true" => Self::True,
            "false" => Self::False,
            "in" => Self::In,
            "every" => Self::Every,
            "contains" => Self::Contains,
            "if" => Self::If,
            _ => return None,
        })
    }

    /// Whether version 0 knows the word only after an import.
    pub(crate) fn is_future(self) -> bool {
        matches!(self, Self::In | Self::Every | Self::Contains | Self::If)
    }
}

impl Tok {
    /// The name that errors use.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Illegal => "illegal",
            Self::Eof => "eof",
            Self::Whitespace => "whitespace",
            Self::Ident => "identifier",
            Self::Keyword(keyword) => keyword.name(),
            Self::Number => "number",
            Self::String | Self::RawString => "string",
            Self::TemplatePart { raw: false } => "template-string-part",
            Self::TemplateEnd { raw: false } => "template-string-end",
            Self::TemplatePart { raw: true } => "raw-template-string-part",
            Self::TemplateEnd { raw: true } => "raw-template-string-end",
            Self::LBrack => "[",
            Self::RBrack => "]",
            Self::LBrace => "{",
            Self::RBrace => "}",
            Self::LParen => "(",
            Self::RParen => ")",
            Self::Comma => ",",
            Self::Colon => ":",
            Self::Add => "plus",
            Self::Sub => "minus",
            Self::Mul => "mul",
            Self::Quo => "div",
            Self::Rem => "rem",
            Self::And => "and",
            Self::Or => "or",
            Self::Unify => "eq",
            Self::Equal => "equal",
            Self::Assign => "assign",
            Self::Neq => "neq",
            Self::Gt => "gt",
            Self::Lt => "lt",
            Self::Gte => "gte",
            Self::Lte => "lte",
            Self::Dot => ".",
            Self::Semicolon => ";",
        }
    }
}

/// A token and its place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token {
    pub(crate) kind: Tok,
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// White space or a comment stands before it.
    pub(crate) space: bool,
    /// A line break stands before it.
    pub(crate) newline: bool,
    /// Why it is [`Tok::Illegal`], when there is more to say than that.
    pub(crate) problem: Option<TokenError>,
}

/// Reads tokens from an offset on. It has no state of its own, which makes backing up free.
#[derive(Clone, Copy)]
pub(crate) struct Lexer<'t> {
    text: &'t str,
}

impl<'t> Lexer<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text }
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    /// The token at or after `from`.
    pub(crate) fn next(&self, from: usize) -> Token {
        let mut at = from;
        let mut space = false;
        let mut newline = false;
        loop {
            match self.byte(at) {
                Some(b' ' | b'\t' | b'\r') => space = true,
                Some(b'\n') => {
                    space = true;
                    newline = true;
                }
                Some(b'#') => {
                    space = true;
                    while self.byte(at + 1).is_some_and(|byte| byte != b'\n') {
                        at += 1;
                    }
                }
                _ => break,
            }
            at += 1;
        }
        let (kind, end, problem) = self.token(at);
        Token { kind, start: at, end, space, newline, problem }
    }

    /// The next piece of a template string, whose expression ended just before `from`.
    pub(crate) fn next_template(&self, from: usize, raw: bool) -> Token {
        let (kind, end, problem) = self.template(from, raw);
        Token { kind, start: from, end, space: false, newline: false, problem }
    }

    fn token(&self, at: usize) -> (Tok, usize, Option<TokenError>) {
        let Some(first) = self.byte(at) else { return (Tok::Eof, at, None) };
        let second = self.byte(at + 1);
        let either = |next: u8, long: Tok, short: Tok| {
            if second == Some(next) { (long, at + 2, None) } else { (short, at + 1, None) }
        };
        let single = |kind: Tok| (kind, at + 1, None);
        match first {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => (Tok::Ident, self.word_end(at), None),
            b'0'..=b'9' => self.number(at),
            b'"' => self.string(at),
            b'`' => match self.text.get(at + 1..).and_then(|rest| rest.find('`')) {
                Some(length) => (Tok::RawString, at + length + 2, None),
                None => (Tok::Illegal, self.text.len(), Some(TokenError::UnterminatedString)),
            },
            b'[' => single(Tok::LBrack),
            b']' => single(Tok::RBrack),
            b'{' => single(Tok::LBrace),
            b'}' => single(Tok::RBrace),
            b'(' => single(Tok::LParen),
            b')' => single(Tok::RParen),
            b',' => single(Tok::Comma),
            b':' => either(b'=', Tok::Assign, Tok::Colon),
            b'+' => single(Tok::Add),
            b'-' => single(Tok::Sub),
            b'*' => single(Tok::Mul),
            b'/' => single(Tok::Quo),
            b'%' => single(Tok::Rem),
            b'&' => single(Tok::And),
            b'|' => single(Tok::Or),
            b'=' => either(b'=', Tok::Equal, Tok::Unify),
            b'>' => either(b'=', Tok::Gte, Tok::Gt),
            b'<' => either(b'=', Tok::Lte, Tok::Lt),
            b'!' if second == Some(b'=') => (Tok::Neq, at + 2, None),
            b'!' => (Tok::Illegal, at + 1, Some(TokenError::Exclamation)),
            b';' => single(Tok::Semicolon),
            b'.' => single(Tok::Dot),
            b'$' => match second {
                Some(b'"') => self.template(at + 2, false),
                Some(b'`') => self.template(at + 2, true),
                _ => (Tok::Illegal, at + 1, Some(TokenError::Dollar)),
            },
            0 => (Tok::Illegal, at + 1, Some(TokenError::Null)),
            _ => {
                let width = self.text.get(at..).and_then(|rest| rest.chars().next());
                let problem = (width == Some('\u{feff}')).then_some(TokenError::ByteOrderMark);
                (Tok::Illegal, at + width.map_or(1, char::len_utf8), problem)
            }
        }
    }

    fn word_end(&self, at: usize) -> usize {
        let rest = self.text.get(at..).unwrap_or("");
        let length = rest
            .char_indices()
            .find(|(_, c)| !(c.is_ascii_alphanumeric() || *c == '_' || is_unicode_digit(*c)))
            .map_or(rest.len(), |(index, _)| index);
        at + length
    }

    fn digits(&self, mut at: usize) -> usize {
        while self.byte(at).is_some_and(|byte| byte.is_ascii_digit()) {
            at += 1;
        }
        at
    }

    fn number(&self, start: usize) -> (Tok, usize, Option<TokenError>) {
        let mut at = self.digits(start);
        let mut problem = None;
        if self.byte(at) == Some(b'.') {
            let end = self.digits(at + 1);
            if end == at + 1 {
                problem = Some(TokenError::Fraction);
            }
            at = end;
        }
        if matches!(self.byte(at), Some(b'e' | b'E')) {
            at += 1;
            if matches!(self.byte(at), Some(b'+' | b'-')) {
                at += 1;
            }
            let end = self.digits(at);
            if end == at {
                problem = problem.or(Some(TokenError::Exponent));
            }
            at = end;
        }
        if self.byte(at).is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_') {
            problem = Some(match problem {
                Some(TokenError::Fraction) => TokenError::FractionAndNumber,
                problem => problem.unwrap_or(TokenError::Number),
            });
            at = self.word_end(at);
        }
        (if problem.is_some() { Tok::Illegal } else { Tok::Number }, at, problem)
    }

    fn string(&self, start: usize) -> (Tok, usize, Option<TokenError>) {
        let mut at = start + 1;
        let mut problem = None;
        loop {
            match self.byte(at) {
                None | Some(b'\n') => {
                    return (Tok::Illegal, at, Some(TokenError::UnterminatedString));
                }
                Some(b'"') => {
                    let kind = if problem.is_some() { Tok::Illegal } else { Tok::String };
                    return (kind, at + 1, problem);
                }
                Some(b'\\') => {
                    if !is_escape(self.byte(at + 1)) {
                        problem = Some(TokenError::Escape);
                        at += 1;
                        continue;
                    }
                    at += 2;
                }
                Some(_) => at += 1,
            }
        }
    }

    /// A piece of a template string, from after its `$"` or after an expression's `}`.
    fn template(&self, start: usize, raw: bool) -> (Tok, usize, Option<TokenError>) {
        let mut at = start;
        let mut problem = None;
        let finish = |kind: Tok, end: usize, problem: Option<TokenError>| {
            (if problem.is_some() { Tok::Illegal } else { kind }, end, problem)
        };
        loop {
            match self.byte(at) {
                None => return (Tok::Illegal, at, Some(TokenError::UnterminatedString)),
                Some(b'\n') if !raw => {
                    return (Tok::Illegal, at, Some(TokenError::UnterminatedString));
                }
                Some(b'"') if !raw => return finish(Tok::TemplateEnd { raw }, at + 1, problem),
                Some(b'`') if raw => return finish(Tok::TemplateEnd { raw }, at + 1, problem),
                Some(b'{') => return finish(Tok::TemplatePart { raw }, at + 1, problem),
                Some(b'\\') => {
                    let next = self.byte(at + 1);
                    if next == Some(b'{') {
                        at += 2;
                    } else if raw {
                        at += 1;
                    } else if is_escape(next) {
                        at += 2;
                    } else {
                        problem = Some(TokenError::Escape);
                        at += 1;
                    }
                }
                Some(_) => at += 1,
            }
        }
    }
}

fn is_escape(byte: Option<u8>) -> bool {
    matches!(byte, Some(b'\\' | b'"' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' | b'u'))
}

/// A decimal digit outside ASCII, which OPA lets stand in a name.
fn is_unicode_digit(c: char) -> bool {
    !c.is_ascii() && c.is_numeric() && !c.is_alphabetic()
}
