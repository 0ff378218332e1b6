//! The mistakes in a module or an evaluation, as data. The texts are OPA's.

use std::fmt;

/// A mistake and its data. Displays as OPA's message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Mistake {
    /// The text is not Rego.
    #[error("{error}{}", Hints(hints))]
    Syntax {
        /// The mistake at the place of the error.
        error: SyntaxError,
        /// Advice that OPA adds.
        hints: Vec<&'static str>,
    },
    /// A variable that no expression binds.
    #[error("var {name} is unsafe{}", Import { name, is_keyword: *is_keyword })]
    UnsafeVariable {
        /// The variable.
        name: String,
        /// Whether it is a keyword that the module does not import, and OPA says so.
        is_keyword: bool,
    },
    /// An expression with parts that nothing binds.
    #[error("expression is unsafe")]
    UnsafeExpression,
    /// A variable that `:=` gives a value twice.
    #[error("var {0} assigned above")]
    AssignedAbove(String),
    /// A function of a name that is not known.
    #[error("undefined function {0}")]
    UndefinedFunction(String),
    /// A function that the installation does not grant.
    #[error("undefined function {0}: it is switched off (REGO-8)")]
    DisabledFunction(String),
    /// A built-in that version 1 does not have.
    #[error("deprecated built-in function calls in expression: {0}")]
    Deprecated(String),
    /// A function with another number of arguments.
    #[error("{0}: arity mismatch")]
    Arity(String),
    /// A function with arguments of other types.
    #[error("{0}: invalid argument(s)")]
    Arguments(String),
    /// A function that is read as if it were a value.
    #[error("function {0} used as reference, not called")]
    NotCalled(String),
    /// Rules of one name that are of several kinds.
    #[error("conflicting rules {0} found")]
    ConflictingRules(String),
    /// A reference to something that does not exist.
    #[error("undefined ref: {0}")]
    UndefinedReference(String),
    /// Two sides that are never equal.
    #[error("match error")]
    Mismatch,
    /// Another mistake.
    #[error("{0}")]
    Other(String),
}

impl From<String> for Mistake {
    fn from(message: String) -> Self {
        Self::Other(message)
    }
}

impl From<&str> for Mistake {
    fn from(message: &str) -> Self {
        Self::Other(message.to_owned())
    }
}

/// Why a text is not Rego. Displays as OPA's message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SyntaxError {
    /// Characters that are no token.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// A token that stands in no place like this.
    #[error(
        "unexpected {name} {}{}{note}",
        if *is_keyword { "keyword" } else { "token" },
        if note.is_empty() { "" } else { ": " }
    )]
    Unexpected {
        /// OPA's name of the token, or the keyword.
        name: &'static str,
        /// Whether it is a keyword.
        is_keyword: bool,
        /// The reason; may be empty.
        note: String,
    },
    /// A module that does not start with its package.
    #[error("package expected")]
    PackageExpected,
    /// A rule of version 1 without a keyword that it needs.
    #[error("`{keyword}` keyword is required {place}")]
    KeywordRequired {
        /// The keyword.
        keyword: &'static str,
        /// Where it has to stand.
        place: String,
    },
    /// A module without anything in it.
    #[error("empty module")]
    EmptyModule,
    /// Another mistake.
    #[error("{0}")]
    Other(String),
}

impl From<String> for SyntaxError {
    fn from(message: String) -> Self {
        Self::Other(message)
    }
}

impl From<&str> for SyntaxError {
    fn from(message: &str) -> Self {
        Self::Other(message.to_owned())
    }
}

/// Why characters are no token. Displays as OPA's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// A character that begins no token.
    #[error("illegal token")]
    Illegal,
    /// A string without an end.
    #[error("non-terminated string")]
    UnterminatedString,
    /// A `!` that no `=` follows.
    #[error("illegal ! character")]
    Exclamation,
    /// A `$` that no string follows.
    #[error("illegal $ character")]
    Dollar,
    /// The character 0.
    #[error("illegal null character")]
    Null,
    /// A byte-order mark that is not at the beginning.
    #[error("illegal byte-order mark")]
    ByteOrderMark,
    /// A number without digits behind its point.
    #[error("expected fraction")]
    Fraction,
    /// Both of a number: OPA reports them one by one.
    #[error("expected fraction\nillegal number format")]
    FractionAndNumber,
    /// A number without digits behind its `e`.
    #[error("expected exponent")]
    Exponent,
    /// A number with letters behind it.
    #[error("illegal number format")]
    Number,
    /// A backslash before a letter that it gives no meaning.
    #[error("illegal escape sequence")]
    Escape,
}

/// A line that says more about a mistake. Displays as OPA's.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Detail {
    /// A line of the module, a caret below one, or a list of what could stand there.
    Line(String),
    /// A type or a value that does not fit another one.
    Side {
        /// The spaces in front of it.
        indent: usize,
        /// Which one it is.
        side: Side,
        /// The type or the value.
        value: String,
    },
}

impl Detail {
    pub(crate) fn side(side: Side, value: impl Into<String>) -> Self {
        Self::Side { indent: 0, side, value: value.into() }
    }

    /// The types of the arguments that a call has and wants.
    pub(crate) fn of_call(have: &[String], want: &[String]) -> Vec<Self> {
        let list = |types: &[String]| format!("({})", types.join(", "));
        vec![Self::side(Side::Have, list(have)), Self::side(Side::Want, list(want))]
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => f.write_str(line),
            Self::Side { indent, side, value } => {
                let name = side.as_str();
                // OPA aligns the two sides of an equation.
                let width = if matches!(side, Side::Left | Side::Right) { 6 } else { 0 };
                write!(f, "{:indent$}{name:width$}: {value}", "")
            }
        }
    }
}

/// The part of an expression that a [`Detail::Side`] describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The arguments of a call, or a key.
    Have,
    /// The arguments that a function takes.
    Want,
    /// The left side of an equation.
    Left,
    /// The right side of an equation.
    Right,
}

impl Side {
    /// The side as OPA spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Have => "have",
            Self::Want => "want",
            Self::Left => "left",
            Self::Right => "right",
        }
    }
}

struct Hints<'h>(&'h [&'static str]);

impl fmt::Display for Hints<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => Ok(()),
            [hint] => write!(f, " (hint: {hint})"),
            hints => write!(f, " (hints: {})", hints.join(", ")),
        }
    }
}

struct Import<'n> {
    name: &'n str,
    is_keyword: bool,
}

impl fmt::Display for Import<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_keyword {
            return Ok(());
        }
        let name = self.name;
        write!(f, " (hint: `import future.keywords.{name}` to import a future keyword)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Code, Policy, RegoVersion, parse_module};

    fn compiled(body: &str) -> crate::Error {
        let text = format!("package a\np {{ {body} }}\n");
        Policy::compile(&[("a", &text)], RegoVersion::V0).expect_err(body).remove(0)
    }

    #[test]
    fn mistakes_carry_names_and_types() {
        let error = compiled("x == 1");
        let name = "x".to_owned();
        assert_eq!(*error.mistake, Mistake::UnsafeVariable { name, is_keyword: false });
        let error = compiled("lengt(1)");
        assert_eq!(*error.mistake, Mistake::UndefinedFunction("lengt".to_owned()));
        let error = compiled("1 == \"a\"");
        assert_eq!((error.code, &*error.mistake), (Code::Type, &Mistake::Mismatch));
        let sides = error.details.iter().map(Detail::to_string);
        assert_eq!(sides.collect::<Vec<_>>(), ["left  : number", "right : string"]);
    }

    #[test]
    fn syntax_errors_say_what_stands_there() {
        let error = |text: &str| {
            let errors = parse_module("", text, RegoVersion::V0).expect_err(text);
            *errors.first().expect("an error").mistake.clone()
        };
        let syntax = |error: SyntaxError| Mistake::Syntax { error, hints: Vec::new() };
        assert_eq!(error("p { true }"), syntax(SyntaxError::PackageExpected));
        let unterminated = syntax(TokenError::UnterminatedString.into());
        assert_eq!(error("package a\np { x := \"b\n}"), unterminated);
        let unexpected =
            SyntaxError::Unexpected { name: "else", is_keyword: true, note: String::new() };
        assert_eq!(unexpected.to_string(), "unexpected else keyword");
        let hints = vec!["a", "b"];
        let hinted = Mistake::Syntax { error: unexpected, hints };
        assert_eq!(hinted.to_string(), "unexpected else keyword (hints: a, b)");
    }
}
