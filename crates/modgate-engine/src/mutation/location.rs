//! The location language: where a mutator acts (spec `gatekeeper-mutation…`, section 2).

use std::fmt;

use modgate_value::{Str, Value};

/// A parsed location: a path of fields and keyed lists.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Location(pub(super) Vec<Node>);

/// One step of a [`Location`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Node {
    /// A member of an object.
    Field(Str),
    /// Elements of a list of objects.
    List {
        /// The member that tells the elements apart.
        key: Str,
        /// Which elements.
        elements: Elements,
    },
}

/// Which elements of a list a [`Node::List`] means.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Elements {
    /// `[key: *]`: every one.
    All,
    /// `[key: text]`
    Text(Str),
    /// `[key: 8080]`
    Integer(i64),
}

/// Why a text is not a location; the message is the original's (2.3).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LocationError {
    /// Something else was expected here.
    #[error("unexpected token: expected {expected}, got: {found}")]
    Unexpected {
        /// The expected syntax.
        expected: String,
        /// The token that is there, with its type.
        found: String,
        /// Where it starts, in bytes.
        offset: usize,
    },
    /// The text ends in a separator.
    #[error("trailing separators are forbidden")]
    TrailingSeparator,
    /// A list key that does not fit 64 bits.
    #[error(
        "invalid integer: overflow in integer string: {digits}: parsing key value for key: {key}"
    )]
    IntegerOverflow {
        /// The digits.
        digits: String,
        /// The key they belong to.
        key: Str,
    },
}

impl Location {
    /// Reads a location. The empty text is the empty location, which every mutator refuses.
    ///
    /// # Errors
    ///
    /// The first place where the text stops being a location.
    pub fn parse(text: &str) -> Result<Self, LocationError> {
        Parser { lexer: Lexer { text, at: 0 }, token: Token::EOF }.path()
    }

    /// The steps, outermost first.
    pub fn nodes(&self) -> &[Node] {
        &self.0
    }

    /// The location of this many of the steps.
    pub fn beginning(&self, steps: usize) -> Self {
        Self(self.0.iter().take(steps).cloned().collect())
    }

    /// Whether `self` is the beginning of `location`, or all of it.
    pub fn is_prefix_of(&self, location: &Self) -> bool {
        location.0.starts_with(&self.0)
    }
}

impl Elements {
    /// Whether a list element with this value under the key is meant.
    pub(crate) fn include(&self, key_value: &Value) -> bool {
        match self {
            Self::All => true,
            Self::Text(text) => key_value.as_str() == Some(text),
            Self::Integer(integer) => key_value.as_i64() == Some(*integer),
        }
    }

    /// The value an element made for this step gets under its key.
    pub(super) fn value(&self) -> Option<Value> {
        match self {
            Self::All => None,
            Self::Text(text) => Some(text.clone().into()),
            Self::Integer(integer) => Some((*integer).into()),
        }
    }
}

/// The canonical text (2.4), used inside messages.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, node) in self.0.iter().enumerate() {
            if index > 0 && matches!(node, Node::Field(_)) {
                f.write_str(".")?;
            }
            node.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => Name(name).fmt(f),
            Self::List { key, elements } => write!(f, "[{}: {elements}]", Name(key)),
        }
    }
}

impl fmt::Display for Elements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("*"),
            Self::Text(text) => Name(text).fmt(f),
            Self::Integer(integer) => integer.fmt(f),
        }
    }
}

/// A name, quoted where the grammar needs it.
struct Name<'a>(&'a str);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SPECIAL: [char; 12] =
            ['\'', '"', '\\', '*', '[', ']', ':', '.', ' ', '\t', '\n', '\r'];
        let bare = !self.0.is_empty()
            && !self.0.starts_with(|first: char| first.is_ascii_digit())
            && !self.0.contains(SPECIAL);
        if bare {
            return f.write_str(self.0);
        }
        write!(f, "\"{}\"", self.0.replace('\\', "\\\\").replace('"', "\\\""))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Token {
    kind: Kind,
    literal: String,
    offset: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Ident,
    Int,
    Separator,
    LeftBracket,
    RightBracket,
    Glob,
    Colon,
    Eof,
    Error,
}

impl Token {
    const EOF: Self = Self { kind: Kind::Eof, literal: String::new(), offset: 0 };
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Ident => "IDENT",
            Kind::Int => "INT",
            Kind::Separator => "SEPARATOR",
            Kind::LeftBracket => "LBRACKET",
            Kind::RightBracket => "RBRACKET",
            Kind::Glob => "GLOB",
            Kind::Colon => "COLON",
            Kind::Eof => "EOF",
            Kind::Error => "ERROR",
        };
        write!(f, "{kind}: {}", modgate_value::gofmt::quote(&self.literal))
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl Lexer<'_> {
    fn next(&mut self) -> Token {
        while self.peek().is_some_and(|c| matches!(c, ' ' | '\t' | '\r' | '\n')) {
            self.at += 1;
        }
        let offset = self.at;
        let token = |kind, literal: String| Token { kind, literal, offset };
        let Some(first) = self.peek() else { return token(Kind::Eof, String::new()) };
        let single = match first {
            '.' => Some(Kind::Separator),
            '[' => Some(Kind::LeftBracket),
            ']' => Some(Kind::RightBracket),
            '*' => Some(Kind::Glob),
            ':' => Some(Kind::Colon),
            _ => None,
        };
        if let Some(kind) = single {
            self.at += 1;
            return token(kind, first.into());
        }
        match first {
            '\'' | '"' => {
                let (kind, literal) = self.quoted(first);
                token(kind, literal)
            }
            '0'..='9' => token(Kind::Int, self.run(|c| c.is_ascii_digit())),
            'A'..='Z' | 'a'..='z' | '_' | '-' => {
                token(Kind::Ident, self.run(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'))
            }
            other => {
                self.at += other.len_utf8();
                token(Kind::Error, other.into())
            }
        }
    }

    /// A backslash makes the next character literal; only the opening quote closes.
    fn quoted(&mut self, quote: char) -> (Kind, String) {
        self.at += 1;
        let mut literal = String::new();
        let mut escaped = false;
        while let Some(c) = self.peek() {
            self.at += c.len_utf8();
            match c {
                _ if escaped => {
                    literal.push(c);
                    escaped = false;
                }
                '\\' => escaped = true,
                _ if c == quote => return (Kind::Ident, literal),
                _ => literal.push(c),
            }
        }
        (Kind::Error, literal)
    }

    fn run(&mut self, belongs: impl Fn(char) -> bool) -> String {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let run = rest.split(|c| !belongs(c)).next().unwrap_or_default();
        self.at += run.len();
        run.to_owned()
    }

    fn peek(&self) -> Option<char> {
        self.text.get(self.at..)?.chars().next()
    }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    token: Token,
}

impl Parser<'_> {
    fn path(mut self) -> Result<Location, LocationError> {
        self.advance();
        let mut nodes = Vec::new();
        if self.token.kind == Kind::Eof {
            return Ok(Location(nodes));
        }
        loop {
            let field = self.expect(Kind::Ident, || "field name or eof".into())?;
            nodes.push(Node::Field(field.into()));
            if self.token.kind == Kind::LeftBracket {
                self.advance();
                nodes.push(self.list()?);
            }
            match self.token.kind {
                Kind::Eof => return Ok(Location(nodes)),
                Kind::Separator => self.advance(),
                _ => return Err(self.unexpected("'.' or eof".into())),
            };
            if self.token.kind == Kind::Eof {
                return Err(LocationError::TrailingSeparator);
            }
        }
    }

    fn list(&mut self) -> Result<Node, LocationError> {
        let key: Str = self.expect(Kind::Ident, || "keyField in listSpec".into())?.into();
        self.expect(Kind::Colon, || format!("':' following keyField {key}"))?;
        let elements = match self.token.kind {
            Kind::Glob => Elements::All,
            Kind::Ident => Elements::Text(self.token.literal.as_str().into()),
            Kind::Int => {
                let digits = &self.token.literal;
                let overflow =
                    |_| LocationError::IntegerOverflow { digits: digits.clone(), key: key.clone() };
                Elements::Integer(digits.parse().map_err(overflow)?)
            }
            _ => return Err(self.unexpected("key value or glob in listSpec".into())),
        };
        self.advance();
        self.expect(Kind::RightBracket, || "']' following listSpec".into())?;
        Ok(Node::List { key, elements })
    }

    fn expect(
        &mut self,
        kind: Kind,
        expected: impl FnOnce() -> String,
    ) -> Result<String, LocationError> {
        if self.token.kind != kind {
            return Err(self.unexpected(expected()));
        }
        Ok(self.advance().literal)
    }

    /// The current token, after reading the next one.
    fn advance(&mut self) -> Token {
        let next = self.lexer.next();
        std::mem::replace(&mut self.token, next)
    }

    fn unexpected(&self, expected: String) -> LocationError {
        LocationError::Unexpected {
            expected,
            found: self.token.to_string(),
            offset: self.token.offset,
        }
    }
}
