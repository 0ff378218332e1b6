//! Text into tokens.

use modgate_value::diag::Span;

use crate::{
    ast::Literal,
    issue::{Issue, Mistake, SyntaxError},
};

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    Literal(Literal),
    /// An integer too large for its type unless a minus precedes it.
    HugeInt,
    Ident(String),
    /// A name in backticks.
    Quoted(String),
    /// An operator or bracket, or the keyword `in`.
    Symbol(&'static str),
    End,
}

const SYMBOLS: [&str; 26] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",",
    "(", ")", "[", "]", "{", "}", ";", "=",
];

const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Whether a name is one that CEL keeps for itself or for languages that it is translated to.
pub fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// The escapes that may follow a backslash.
const ESCAPES: &str = "abfnrtv\\'\"`?xXuU0123";

/// The tokens of `text`, the last one [`Token::End`]; what cannot be read is reported and skipped.
pub(crate) fn tokens(text: &str) -> (Vec<(Token, Span)>, Vec<Issue>) {
    let mut lexer = Lexer { text, at: 0, issues: Vec::new() };
    let mut out = Vec::new();
    loop {
        lexer.skip_blank();
        let start = lexer.at;
        let Some(first) = lexer.rest().chars().next() else {
            out.push((Token::End, Span::new(start, start)));
            return (out, lexer.issues);
        };
        let token = lexer.token(first);
        let span = Span::new(start, lexer.at);
        if let Some(token) = token {
            out.push((token, span));
        }
    }
}

/// The text of an expression without blanks and comments between its tokens: expressions that read the same by it
/// are the same program.
pub fn canonical(text: &str) -> String {
    let mut whole = String::with_capacity(text.len());
    for (_, span) in tokens(text).0 {
        // Between two tokens there may be a line break.
        whole.push_str(text.get(span.start..span.end).unwrap_or_default());
        whole.push('\n');
    }
    whole
}

struct Lexer<'t> {
    text: &'t str,
    at: usize,
    issues: Vec<Issue>,
}

impl<'t> Lexer<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip_blank(&mut self) {
        loop {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r', '\x0c']).len();
            self.at += blank;
            let rest = self.rest();
            if rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if blank == 0 {
                return;
            }
        }
    }

    fn fail(&mut self, start: usize, mistake: impl Into<Mistake>) {
        self.issues.push(Issue::new(Span::new(start, self.at), mistake));
    }

    /// Reports what was read since `start` as no token.
    fn no_token(&mut self, start: usize) {
        let seen = self.text.get(start..self.at).unwrap_or_default();
        self.fail(start, SyntaxError::Token(seen.to_owned()));
    }

    fn token(&mut self, first: char) -> Option<Token> {
        let start = self.at;
        if let Some(token) = self.string() {
            return token;
        }
        let rest = self.rest();
        if first == '_' || first.is_ascii_alphabetic() {
            let end = rest
                .find(|next: char| next != '_' && !next.is_ascii_alphanumeric())
                .unwrap_or(rest.len());
            self.at += end;
            return Some(match rest.get(..end).unwrap_or_default() {
                "true" => Token::Literal(Literal::Bool(true)),
                "false" => Token::Literal(Literal::Bool(false)),
                "null" => Token::Literal(Literal::Null),
                "in" => Token::Symbol("in"),
                name => Token::Ident(name.to_owned()),
            });
        }
        let dotted = first == '.'
            && rest.get(1..).is_some_and(|r| r.starts_with(|c: char| c.is_ascii_digit()));
        if first.is_ascii_digit() || dotted {
            return self.number();
        }
        if first == '`' {
            let inner = rest.get(1..).unwrap_or_default();
            if let Some(end) = inner.find('`')
                && let Some(name) = inner.get(..end)
                && !name.is_empty()
                && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-/ ".contains(c))
            {
                self.at += end + 2;
                return Some(Token::Quoted(name.to_owned()));
            }
        }
        for symbol in SYMBOLS {
            if rest.starts_with(symbol) && !matches!(symbol, ";" | "=") {
                self.at += symbol.len();
                return Some(Token::Symbol(symbol));
            }
        }
        self.at += first.len_utf8();
        if matches!(first, '=' | '&' | '|') {
            // The second half of an operator was looked for.
            self.at += self.rest().chars().next().map_or(0, char::len_utf8);
        }
        self.no_token(start);
        None
    }

    fn number(&mut self) -> Option<Token> {
        let start = self.at;
        let rest = self.rest();
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        if let Some(hex) = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")) {
            let length = hex.bytes().take_while(u8::is_ascii_hexdigit).count();
            if length > 0 {
                let body = hex.get(..length).unwrap_or_default();
                self.at += 2 + length;
                return self.integer(start, body, 16);
            }
        }
        let whole = digits(rest);
        let mut length = whole;
        let mut float = false;
        if let Some(fraction) = rest.get(length..).and_then(|r| r.strip_prefix('.')) {
            let count = digits(fraction);
            if count > 0 {
                length += 1 + count;
                float = true;
            }
        }
        if let Some(exponent) = rest.get(length..).and_then(|r| r.strip_prefix(['e', 'E'])) {
            let sign = usize::from(exponent.starts_with(['+', '-']));
            let count = digits(exponent.get(sign..).unwrap_or_default());
            if count > 0 {
                length += 1 + sign + count;
                float = true;
            }
        }
        self.at += length;
        let body = rest.get(..length).unwrap_or_default();
        if !float {
            return self.integer(start, body, 10);
        }
        match body.parse::<f64>() {
            Ok(value) if value.is_finite() => Some(Token::Literal(Literal::Double(value))),
            _ => {
                self.fail(start, Mistake::InvalidLiteral("double"));
                None
            }
        }
    }

    fn integer(&mut self, start: usize, body: &str, radix: u32) -> Option<Token> {
        if self.rest().starts_with(['u', 'U']) {
            self.at += 1;
            let Ok(value) = u64::from_str_radix(body, radix) else {
                self.fail(start, Mistake::InvalidLiteral("uint"));
                return None;
            };
            return Some(Token::Literal(Literal::Uint(value)));
        }
        Some(match i64::from_str_radix(body, radix) {
            Ok(value) => Token::Literal(Literal::Int(value)),
            Err(_) if u64::from_str_radix(body, radix) == Ok(1 << 63) => Token::HugeInt,
            Err(_) => {
                self.fail(start, Mistake::InvalidLiteral("int"));
                return None;
            }
        })
    }

    /// A string or bytes literal if one starts here; the inner `None` if it is broken.
    fn string(&mut self) -> Option<Option<Token>> {
        let start = self.at;
        let rest = self.rest();
        let prefix = rest.bytes().take(2).take_while(|b| b"rRbB".contains(b)).count();
        let (marks, body) = rest.split_at_checked(prefix)?;
        let marks = marks.to_ascii_lowercase();
        if marks == "rr" || marks == "bb" {
            return None;
        }
        let (raw, bytes) = (marks.contains('r'), marks.contains('b'));
        let quote =
            ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| body.starts_with(quote))?;
        let inner = body.get(quote.len()..)?;
        let mut at = 0;
        let closed = loop {
            let Some(left) = inner.get(at..) else { break None };
            if left.starts_with(quote) {
                break Some(at);
            }
            match left.chars().next() {
                None => break None,
                Some('\n' | '\r') if quote.len() == 1 => break None,
                Some('\\') if !raw => {
                    let escaped = left.chars().nth(1);
                    at += 1 + escaped.map_or(0, char::len_utf8);
                    if escaped.is_some_and(|escaped| !ESCAPES.contains(escaped)) {
                        self.at += prefix + quote.len() + at;
                        self.no_token(start);
                        return Some(None);
                    }
                }
                Some(character) => at += character.len_utf8(),
            }
        };
        let Some(end) = closed else {
            let seen = body.split_inclusive('\n').next().unwrap_or_default();
            self.at += prefix + seen.len();
            self.no_token(start);
            return Some(None);
        };
        self.at += prefix + quote.len() * 2 + end;
        let content = inner.get(..end).unwrap_or_default();
        Some(match unescape(content, raw, bytes) {
            Some(literal) => Some(Token::Literal(literal)),
            None => {
                let kind = if bytes { "bytes" } else { "string" };
                self.fail(start, Mistake::InvalidLiteral(kind));
                None
            }
        })
    }
}

/// The value of what stands between the quotes.
fn unescape(content: &str, raw: bool, bytes: bool) -> Option<Literal> {
    // Newlines count as one character however they were written.
    let content = content.replace("\r\n", "\n").replace('\r', "\n");
    if raw {
        return Some(if bytes {
            Literal::Bytes(content.into_bytes())
        } else {
            Literal::String(content)
        });
    }
    let mut text = String::new();
    let mut out = Vec::new();
    let mut rest = content.as_str();
    while let Some(character) = rest.chars().next() {
        rest = rest.get(character.len_utf8()..)?;
        let mut push = |character: char| {
            if bytes {
                out.extend(character.encode_utf8(&mut [0; 4]).bytes());
            } else {
                text.push(character);
            }
        };
        if character != '\\' {
            push(character);
            continue;
        }
        let escape = rest.chars().next()?;
        rest = rest.get(escape.len_utf8()..)?;
        let (length, radix) = match escape {
            'a' => {
                push('\x07');
                continue;
            }
            'b' => {
                push('\x08');
                continue;
            }
            'f' => {
                push('\x0c');
                continue;
            }
            'n' => {
                push('\n');
                continue;
            }
            'r' => {
                push('\r');
                continue;
            }
            't' => {
                push('\t');
                continue;
            }
            'v' => {
                push('\x0b');
                continue;
            }
            '\\' | '\'' | '"' | '`' | '?' => {
                push(escape);
                continue;
            }
            'x' | 'X' => (2, 16),
            'u' if !bytes => (4, 16),
            'U' if !bytes => (8, 16),
            '0'..='3' => (2, 8),
            _ => return None,
        };
        let digits = rest.get(..length)?;
        rest = rest.get(length..)?;
        if digits.starts_with('+') {
            return None;
        }
        let mut value = u32::from_str_radix(digits, radix).ok()?;
        if radix == 8 {
            value += escape.to_digit(8)? * 64;
        }
        if bytes {
            out.push(u8::try_from(value).ok()?);
        } else {
            text.push(char::from_u32(value)?);
        }
    }
    Some(if bytes { Literal::Bytes(out) } else { Literal::String(text) })
}
