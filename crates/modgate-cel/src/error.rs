//! Errors of expressions, with cel-go's messages.

use std::fmt;

use modgate_value::{Exhausted, diag::Location};

use crate::{brief::excerpt, issue::Issue};

/// Why an expression does not compile; at least one issue, in the order of the text.
///
/// Prints as cel-go does: `ERROR: <input>:1:3: text` and the line with a caret under the place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Errors {
    /// The expression.
    pub text: std::sync::Arc<str>,
    /// Its mistakes.
    pub issues: Vec<Issue>,
}

impl Errors {
    pub(crate) fn new(text: &str, mut issues: Vec<Issue>) -> Self {
        issues.sort_by_key(|issue| issue.span.start);
        Self { text: text.into(), issues }
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, issue) in self.issues.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            // The original knows no place in an empty text, and shows no line of it.
            if self.text.is_empty() {
                write!(f, "ERROR: <input>:1:0: {issue}")?;
                continue;
            }
            let place = Location::of(&self.text, issue.span.start);
            let line = self.text.split('\n').nth(place.line - 1).unwrap_or_default();
            let (line, column) = excerpt(&line.replace('\t', " "), place.column);
            write!(f, "ERROR: <input>:{place}: {issue}\n | {line}\n | ")?;
            let mut characters = line.chars();
            for _ in 1..column {
                let wide = characters.next().is_some_and(|next| !next.is_ascii());
                f.write_str(if wide { "．" } else { "." })?;
            }
            let wide = characters.next().is_some_and(|next| !next.is_ascii());
            f.write_str(if wide { "＾" } else { "^" })?;
        }
        Ok(())
    }
}

/// Why an evaluation gave no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvalError {
    /// An error of the expression, in cel-go's words.
    #[error("{0}")]
    Failed(String),
    /// No way of calling a function fits its arguments.
    #[error("no such overload")]
    NoOverload,
    /// More than one expression may cost.
    #[error("operation cancelled: actual cost limit exceeded")]
    Cost,
    /// More than all expressions together may cost.
    #[error(
        "validation failed due to running out of cost budget, no further validation rules will be \
         run"
    )]
    OutOfBudget,
    /// The budget is spent.
    #[error(transparent)]
    Exhausted(#[from] Exhausted),
}

pub(crate) type Result<T> = std::result::Result<T, EvalError>;

pub(crate) fn failed<T>(message: impl Into<String>) -> Result<T> {
    Err(EvalError::Failed(message.into()))
}

impl EvalError {
    /// Whether it is a value of the language, which `&&` and `||` may pass over.
    pub(crate) fn is_value(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::NoOverload)
    }
}
