//! Errors of parsing and of evaluating.

use modgate_value::{Exhausted, diag::Span};

/// Why a text is not an expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ParseError {
    /// KubeMod's text: `parsing error: <expression>\t:<line>:<column> - <line>:<column> <detail>`
    /// (spec `kubemod.md`, 1.5).
    pub message: String,
    /// The last part of the message alone, such as `unexpected EOF while scanning extensions`.
    pub detail: String,
    /// The offending stretch of the expression, in bytes; empty at its end.
    pub span: Span,
    /// A correction the author could make.
    pub help: Option<&'static str>,
}

/// Why an expression has no value for a document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// The language says so: an index out of range, a lookup inside a text, operands that do not
    /// fit. A criteria item is then negative, or positive when negated (spec `kubemod.md`, 3.2).
    #[error("{message}")]
    Failed {
        /// KubeMod's text, such as `index 4 out of bounds`.
        message: String,
        /// The part of the expression that failed.
        span: Span,
    },
    /// The budget ran out; nothing is known about the value.
    #[error(transparent)]
    Exhausted(#[from] Exhausted),
}

impl EvalError {
    /// The part of the expression that failed; `None` when the budget ran out.
    pub fn span(&self) -> Option<Span> {
        match self {
            Self::Failed { span, .. } => Some(*span),
            Self::Exhausted(_) => None,
        }
    }
}
