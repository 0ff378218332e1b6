//! The mistakes in an expression, as data. The texts are cel-go's.

use std::fmt;

use modgate_value::diag::Span;

use crate::types::Type;

/// One mistake in an expression. Displays as cel-go's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    /// Where, in bytes of the expression.
    pub span: Span,
    /// The mistake.
    pub mistake: Mistake,
}

impl Issue {
    pub(crate) fn new(span: Span, mistake: impl Into<Mistake>) -> Self {
        Self { span, mistake: mistake.into() }
    }
}

impl fmt::Display for Issue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.mistake.fmt(f)
    }
}

/// A mistake and its data. Displays as cel-go's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Mistake {
    /// The tokens make no expression.
    #[error("Syntax error: {0}")]
    Syntax(#[from] SyntaxError),
    /// A keyword of another language, as a name.
    #[error("reserved identifier: {0}")]
    Reserved(String),
    /// A name or a function that the environment does not have.
    #[error("undeclared reference to '{0}' (in container '')")]
    Undeclared(String),
    /// A field that an object does not have.
    #[error("undefined field '{0}'")]
    UndefinedField(String),
    /// A function that does not take these arguments.
    #[error(
        "found no matching overload for '{function}' applied to '{}'",
        Applied { target: target.as_ref(), arguments }
    )]
    NoOverload {
        /// The function; operators have names such as `_+_` and `@in`.
        function: String,
        /// The type of the value in front of the dot, if the call has one.
        target: Option<Type>,
        /// The types in parentheses.
        arguments: Vec<Type>,
    },
    /// A constant that a function cannot read, such as a pattern that is none.
    #[error("invalid {function} argument")]
    InvalidArgument {
        /// The function.
        function: String,
        /// The text, if it is one.
        argument: String,
    },
    /// `has` of something that is no field.
    #[error("invalid argument to has() macro")]
    HasWithoutField,
    /// A value of another type than its place has.
    #[error("expected type '{wanted}' but found '{found}'")]
    WrongType {
        /// The type of the place.
        wanted: Type,
        /// The type of the value.
        found: Type,
    },
    /// A field of a message with a value of another type.
    #[error("expected type of field '{field}' is '{wanted}' but provided type is '{found}'")]
    WrongFieldType {
        /// The field.
        field: String,
        /// Its type.
        wanted: Type,
        /// The type of the value.
        found: Type,
    },
    /// A field of a value that has none.
    #[error("type '{0}' does not support field selection")]
    NoFields(Type),
    /// A field of a type of Kubernetes that has only functions.
    #[error("unexpected failed resolution of '{0}'")]
    Unresolved(&'static str),
    /// A macro over something that has no elements.
    #[error(
        "expression of type '{0}' cannot be range of a comprehension (must be list, map, or \
         dynamic)"
    )]
    NoElements(Type),
    /// A literal with the name of a type that is no message.
    #[error("'{0}' is not a message type")]
    NoMessage(String),
    /// Two variables of one macro with the same name.
    #[error("duplicate variable name: {0}")]
    DuplicateVariable(String),
    /// A literal that is no value of its type.
    #[error("invalid {0} literal")]
    InvalidLiteral(&'static str),
    /// An expression that nests too deep.
    #[error("expression recursion limit exceeded: {0}")]
    TooDeep(u16),
    /// An expression that is too long.
    #[error("expression code point size exceeds limit: size: {size}, limit {limit}")]
    TooLong {
        /// Its characters.
        size: usize,
        /// The most that it may have.
        limit: usize,
    },
    /// A form that this release of cel-go, or this place, does not have.
    #[error("{0}")]
    Unsupported(&'static str),
    /// A format whose clauses do not fit their arguments.
    #[error("{0}")]
    Format(String),
}

/// Why tokens make no expression. Displays as ANTLR's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SyntaxError {
    /// Characters that begin no token.
    #[error("token recognition error at: '{0}'")]
    Token(String),
    /// A token without which the text would go on.
    #[error("extraneous input '{found}' expecting {expected}")]
    Extraneous {
        /// The token as it is written.
        found: String,
        /// The token or form that could stand there.
        expected: Expected,
    },
    /// A token where another one must stand.
    #[error("mismatched input '{found}' expecting {expected}")]
    Mismatched {
        /// The token as it is written.
        found: String,
        /// The token or form that could stand there.
        expected: Expected,
    },
    /// A symbol that is not there.
    #[error("missing '{symbol}' at '{found}'")]
    Missing {
        /// The symbol.
        symbol: &'static str,
        /// The token behind its place, as it is written.
        found: String,
    },
    /// A text that begins no form of the language.
    #[error("no viable alternative at input '{0}'")]
    NoAlternative(String),
}

/// The token or form that could stand at the place of a syntax error. Displays as ANTLR's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expected {
    /// An expression.
    Expression,
    /// A name.
    Identifier,
    /// The end of the text.
    End,
    /// This symbol.
    Symbol(&'static str),
    /// This symbol or a comma.
    SymbolOrComma(&'static str),
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expression => f.write_str(
                "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, \
                 NUM_UINT, STRING, BYTES, IDENTIFIER}",
            ),
            Self::Identifier => f.write_str("IDENTIFIER"),
            Self::End => f.write_str("<EOF>"),
            Self::Symbol(symbol) => write!(f, "'{symbol}'"),
            Self::SymbolOrComma(symbol) => write!(f, "{{'{symbol}', ','}}"),
        }
    }
}

/// The types of a call: `string.(int, int)`.
struct Applied<'t> {
    target: Option<&'t Type>,
    arguments: &'t [Type],
}

impl fmt::Display for Applied<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(target) = self.target {
            write!(f, "{target}.")?;
        }
        f.write_str("(")?;
        for (index, argument) in self.arguments.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{argument}")?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Env, check};

    fn mistake(text: &str) -> Mistake {
        let environment = Env::new().with("object", Type::Dyn);
        let errors = check(text, &environment).expect_err(text);
        errors.issues.first().expect("an issue").mistake.clone()
    }

    #[test]
    fn mistakes_carry_names_and_types() {
        for (text, expected) in [
            ("objekt.a", Mistake::Undeclared("objekt".to_owned())),
            ("while", Mistake::Reserved("while".to_owned())),
            (
                "'a'.contains(1)",
                Mistake::NoOverload {
                    function: "contains".to_owned(),
                    target: Some(Type::STRING),
                    arguments: vec![Type::INT],
                },
            ),
            ("1 && true", Mistake::WrongType { wanted: Type::BOOL, found: Type::INT }),
            (
                "object.a.matches('(')",
                Mistake::InvalidArgument {
                    function: "matches".to_owned(),
                    argument: "(".to_owned(),
                },
            ),
            (
                "(1 2",
                SyntaxError::Mismatched { found: "2".to_owned(), expected: Expected::Symbol(")") }
                    .into(),
            ),
        ] {
            assert_eq!(mistake(text), expected, "{text}");
        }
    }

    #[test]
    fn texts_are_those_of_the_originals() {
        let arguments = vec![Type::INT, Type::list(Type::STRING)];
        let call = |target| Mistake::NoOverload {
            function: "f".to_owned(),
            target,
            arguments: arguments.clone(),
        };
        let text = "found no matching overload for 'f' applied to";
        assert_eq!(call(None).to_string(), format!("{text} '(int, list(string))'"));
        assert_eq!(call(Some(Type::Dyn)).to_string(), format!("{text} 'dyn.(int, list(string))'"));
        let error = SyntaxError::Extraneous {
            found: "x".to_owned(),
            expected: Expected::SymbolOrComma("]"),
        };
        let text = "Syntax error: extraneous input 'x' expecting {']', ','}";
        assert_eq!(Mistake::from(error).to_string(), text);
    }
}
