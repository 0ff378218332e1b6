//! Tokens. Mirrors Go's `text/template/parse/lex.go` in what it accepts and how it says no.

use crate::{text::quote_rune, unicode};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Error,
    Eof,
    Text,
    LeftDelim,
    RightDelim,
    Space,
    Assign,
    Declare,
    Pipe,
    LeftParen,
    RightParen,
    /// Any other ASCII character; only `,` has a meaning.
    Char,
    Bool,
    CharConstant,
    Complex,
    Number,
    Dot,
    Field,
    Identifier,
    Variable,
    QuotedString,
    RawString,
    Nil,
    // Keywords from here on.
    Block,
    Break,
    Continue,
    Define,
    Else,
    End,
    If,
    Range,
    Template,
    With,
}

impl Kind {
    pub(super) fn is_keyword(self) -> bool {
        matches!(
            self,
            Self::Nil
                | Self::Dot
                | Self::Block
                | Self::Break
                | Self::Continue
                | Self::Define
                | Self::Else
                | Self::End
                | Self::If
                | Self::Range
                | Self::Template
                | Self::With
        )
    }
}

#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) line: usize,
    /// The message of an [`Kind::Error`].
    pub(super) message: Option<String>,
}

pub(super) struct Lexer<'t> {
    text: &'t str,
    /// Start of the token being read.
    start: usize,
    at: usize,
    /// Line of `start`, from 1.
    line: usize,
    inside_action: bool,
    parens: usize,
    failed: bool,
}

const LEFT: &str = "{{";
const RIGHT: &str = "}}";
const SPACE: [char; 4] = [' ', '\t', '\r', '\n'];

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, start: 0, at: 0, line: 1, inside_action: false, parens: 0, failed: false }
    }

    pub(super) fn next_token(&mut self) -> Token {
        if self.failed {
            return self.token(Kind::Eof);
        }
        if self.inside_action { self.action() } else { self.plain() }
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn accept(&mut self, valid: &str) -> bool {
        let found = self.peek().is_some_and(|next| valid.contains(next));
        self.at += usize::from(found); // everything in `valid` is ASCII
        found
    }

    fn accept_run(&mut self, valid: &str) {
        while self.accept(valid) {}
    }

    fn token(&mut self, kind: Kind) -> Token {
        let token = Token { kind, start: self.start, end: self.at, line: self.line, message: None };
        self.skip();
        token
    }

    /// Moves the start of the next token here.
    fn skip(&mut self) {
        let passed = self.text.get(self.start..self.at).unwrap_or_default();
        self.line += passed.bytes().filter(|byte| *byte == b'\n').count();
        self.start = self.at;
    }

    fn error(&mut self, message: impl Into<String>) -> Token {
        self.failed = true;
        Token {
            kind: Kind::Error,
            start: self.start,
            end: self.at,
            line: self.line,
            message: Some(message.into()),
        }
    }

    /// Text up to the next action.
    fn plain(&mut self) -> Token {
        loop {
            let rest = self.rest();
            let Some(length) = rest.find(LEFT) else {
                self.at = self.text.len();
                let kind = if self.at > self.start { Kind::Text } else { Kind::Eof };
                return self.token(kind);
            };
            let (before, action) = rest.split_at(length);
            let after = action.get(LEFT.len()..).unwrap_or_default();
            let trims = has_left_trim(after);
            if !before.is_empty() {
                let kept = if trims { before.trim_end_matches(SPACE) } else { before };
                self.at += kept.len();
                let text = (!kept.is_empty()).then(|| self.token(Kind::Text));
                self.at += before.len() - kept.len();
                self.skip();
                if let Some(text) = text {
                    return text;
                }
            }
            let marker = if trims { 2 } else { 0 };
            if after.get(marker..).is_some_and(|after| after.starts_with("/*")) {
                self.at += LEFT.len() + marker;
                self.skip();
                if let Err(error) = self.comment() {
                    return error;
                }
                continue;
            }
            self.at += LEFT.len();
            let delim = self.token(Kind::LeftDelim);
            self.inside_action = true;
            self.parens = 0;
            self.at += marker;
            self.skip();
            return delim;
        }
    }

    fn comment(&mut self) -> Result<(), Token> {
        let Some(end) = self.rest().get(2..).and_then(|body| body.find("*/")) else {
            self.at = (self.at + 2).min(self.text.len());
            return Err(self.error("unclosed comment"));
        };
        self.at += 2 + end + 2;
        let Some(trims) = self.right_delim() else {
            return Err(self.error("comment ends before closing delimiter"));
        };
        self.leave(trims);
        self.skip();
        Ok(())
    }

    /// Whether an action ends here, and if so whether with a trim marker.
    fn right_delim(&self) -> Option<bool> {
        let rest = self.rest();
        if has_right_trim(rest) && rest.get(2..).is_some_and(|rest| rest.starts_with(RIGHT)) {
            return Some(true);
        }
        rest.starts_with(RIGHT).then_some(false)
    }

    /// Steps over a right delimiter and the space it trims.
    fn leave(&mut self, trims: bool) {
        if trims {
            self.at += 2 + RIGHT.len();
            self.at += self.rest().len() - self.rest().trim_start_matches(SPACE).len();
        } else {
            self.at += RIGHT.len();
        }
    }

    fn end_of_action(&mut self, trims: bool) -> Token {
        if trims {
            self.at += 2;
            self.skip();
        }
        self.at += RIGHT.len();
        let token = self.token(Kind::RightDelim);
        if trims {
            self.at += self.rest().len() - self.rest().trim_start_matches(SPACE).len();
            self.skip();
        }
        self.inside_action = false;
        token
    }

    fn action(&mut self) -> Token {
        if let Some(trims) = self.right_delim() {
            if self.parens == 0 {
                return self.end_of_action(trims);
            }
            return self.error("unclosed left paren");
        }
        let Some(next) = self.bump() else {
            return self.error("unclosed action");
        };
        match next {
            _ if SPACE.contains(&next) => self.space(),
            '=' => self.token(Kind::Assign),
            ':' => {
                if self.bump() == Some('=') {
                    self.token(Kind::Declare)
                } else {
                    self.error("expected :=")
                }
            }
            '|' => self.token(Kind::Pipe),
            '"' => self.quoted('"', Kind::QuotedString, "unterminated quoted string"),
            '\'' => self.quoted('\'', Kind::CharConstant, "unterminated character constant"),
            '`' => self.raw_string(),
            '$' => self.field_or_variable(Kind::Variable),
            '.' if !self.rest().starts_with(|next: char| next.is_ascii_digit())
                && !self.rest().is_empty() =>
            {
                self.field_or_variable(Kind::Field)
            }
            '.' | '+' | '-' | '0'..='9' => {
                self.at -= 1;
                self.number()
            }
            _ if is_alphanumeric(next) => self.identifier(),
            '(' => {
                self.parens += 1;
                self.token(Kind::LeftParen)
            }
            ')' => match self.parens.checked_sub(1) {
                Some(parens) => {
                    self.parens = parens;
                    self.token(Kind::RightParen)
                }
                None => self.error("unexpected right paren"),
            },
            ' '..='~' => self.token(Kind::Char),
            _ => self.error(format!("unrecognized character in action: {}", quote_rune(next))),
        }
    }

    /// The first space character has been read.
    fn space(&mut self) -> Token {
        let mut count = 1;
        while self.peek().is_some_and(|next| SPACE.contains(&next)) {
            self.at += 1;
            count += 1;
        }
        // The last space may belong to a trim marker.
        let from_last = self.text.get(self.at - 1..).unwrap_or_default();
        if has_right_trim(from_last)
            && from_last.get(2..).is_some_and(|rest| rest.starts_with(RIGHT))
        {
            self.at -= 1;
            if count == 1 {
                return self.end_of_action(true);
            }
        }
        self.token(Kind::Space)
    }

    fn identifier(&mut self) -> Token {
        while self.peek().is_some_and(is_alphanumeric) {
            self.bump();
        }
        if !self.at_terminator() {
            return self.bad_character();
        }
        let kind = match self.text.get(self.start..self.at).unwrap_or_default() {
            "true" | "false" => Kind::Bool,
            "nil" => Kind::Nil,
            "block" => Kind::Block,
            "break" => Kind::Break,
            "continue" => Kind::Continue,
            "define" => Kind::Define,
            "else" => Kind::Else,
            "end" => Kind::End,
            "if" => Kind::If,
            "range" => Kind::Range,
            "template" => Kind::Template,
            "with" => Kind::With,
            _ => Kind::Identifier,
        };
        self.token(kind)
    }

    fn field_or_variable(&mut self, kind: Kind) -> Token {
        if self.at_terminator() {
            let alone = if kind == Kind::Variable { Kind::Variable } else { Kind::Dot };
            return self.token(alone);
        }
        while self.peek().is_some_and(is_alphanumeric) {
            self.bump();
        }
        if !self.at_terminator() {
            return self.bad_character();
        }
        self.token(kind)
    }

    fn bad_character(&mut self) -> Token {
        let next = self.peek().unwrap_or(char::REPLACEMENT_CHARACTER);
        self.error(format!("bad character {}", quote_rune(next)))
    }

    /// Whether the next character may follow an identifier.
    fn at_terminator(&self) -> bool {
        match self.peek() {
            None | Some(' ' | '\t' | '\r' | '\n' | '.' | ',' | '|' | ':' | ')' | '(') => true,
            Some(_) => self.rest().starts_with(RIGHT),
        }
    }

    fn quoted(&mut self, quote: char, kind: Kind, unterminated: &str) -> Token {
        loop {
            match self.bump() {
                Some('\\') => {
                    if matches!(self.bump(), None | Some('\n')) {
                        return self.error(unterminated);
                    }
                }
                None | Some('\n') => return self.error(unterminated),
                Some(next) if next == quote => return self.token(kind),
                Some(_) => {}
            }
        }
    }

    fn raw_string(&mut self) -> Token {
        match self.rest().find('`') {
            Some(length) => {
                self.at += length + 1;
                self.token(Kind::RawString)
            }
            None => {
                self.at = self.text.len();
                self.error("unterminated raw quoted string")
            }
        }
    }

    fn number(&mut self) -> Token {
        if !self.scan_number() {
            return self.bad_number();
        }
        if matches!(self.peek(), Some('+' | '-')) {
            // A complex constant, `1+2i`: no spaces, and it must end in `i`.
            if !self.scan_number()
                || !self.text.get(..self.at).is_some_and(|read| read.ends_with('i'))
            {
                return self.bad_number();
            }
            return self.token(Kind::Complex);
        }
        self.token(Kind::Number)
    }

    fn bad_number(&mut self) -> Token {
        let text = self.text.get(self.start..self.at).unwrap_or_default();
        self.error(format!("bad number syntax: {}", crate::text::quote(text.as_bytes())))
    }

    /// Not a perfect scanner: what it wrongly lets pass the number parser refuses.
    fn scan_number(&mut self) -> bool {
        self.accept("+-");
        let mut digits = "0123456789_";
        let mut hex = false;
        if self.accept("0") {
            if self.accept("xX") {
                digits = "0123456789abcdefABCDEF_";
                hex = true;
            } else if self.accept("oO") {
                digits = "01234567_";
            } else if self.accept("bB") {
                digits = "01_";
            }
        }
        self.accept_run(digits);
        if self.accept(".") {
            self.accept_run(digits);
        }
        if (digits.len() == 11 && self.accept("eE")) || (hex && self.accept("pP")) {
            self.accept("+-");
            self.accept_run("0123456789_");
        }
        self.accept("i");
        if self.peek().is_some_and(is_alphanumeric) {
            self.bump();
            return false;
        }
        true
    }
}

fn is_alphanumeric(character: char) -> bool {
    character == '_' || unicode::is_letter(character) || unicode::is_digit(character)
}

fn has_left_trim(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next() == Some('-') && chars.next().is_some_and(|next| SPACE.contains(&next))
}

fn has_right_trim(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|next| SPACE.contains(&next)) && chars.next() == Some('-')
}
