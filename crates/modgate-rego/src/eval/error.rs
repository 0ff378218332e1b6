//! What can go wrong while a program runs.

use std::fmt;

use modgate_value::Str;

use crate::{ast::Span, builtins::BuiltinError, error::locate, ir::Program, value::Limit};

/// What kind of failure an [`EvalError`] is; the codes are OPA's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EvalCode {
    /// Rules, functions or comprehensions disagree about a value.
    Conflict,
    /// A built-in failed, and errors of built-ins were to end the evaluation.
    Builtin,
    /// A built-in was given a value of a type it does not take.
    Type,
    /// A `with` cannot put its value there.
    WithMerge,
    /// A budget is spent, or the evaluation nests too deep.
    Cancel,
}

impl EvalCode {
    /// The code as OPA spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Conflict => "eval_conflict_error",
            Self::Builtin => "eval_builtin_error",
            Self::Type => "eval_type_error",
            Self::WithMerge => "eval_with_merge_error",
            Self::Cancel => "eval_cancel_error",
        }
    }
}

impl fmt::Display for EvalCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A failed evaluation, and the expression it failed in.
///
/// Displays as one line in OPA's form, `file:line: code: message`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub struct EvalError {
    /// What kind of failure.
    pub code: EvalCode,
    /// What happened, in OPA's words.
    pub message: String,
    /// The module's name; empty when the place is not known.
    pub file: Str,
    /// The line, from 1; 0 when the place is not known.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
    /// The expression.
    pub span: Option<Span>,
}

impl EvalError {
    pub(crate) fn new(code: EvalCode, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, message, file: Str::default(), line: 0, column: 0, span: None }
    }

    pub(super) fn nesting() -> Self {
        Self::new(EvalCode::Cancel, "evaluation nests too deep")
    }

    /// The error of a built-in.
    pub(super) fn builtin(name: &str, error: &BuiltinError) -> Self {
        let code = match error {
            BuiltinError::Operand(_) => EvalCode::Type,
            BuiltinError::Conflict(_) => EvalCode::Conflict,
            _ => EvalCode::Builtin,
        };
        Self::new(code, format!("{name}: {error}"))
    }

    /// The error of two rules that disagree.
    pub(super) fn conflict(message: &str, span: Span) -> Self {
        Self { span: Some(span), ..Self::new(EvalCode::Conflict, message) }
    }

    /// The error with its place filled in: its own span, or else `current`.
    pub(super) fn at(mut self, program: &Program, current: Option<Span>) -> Self {
        self.span = self.span.or(current);
        let source = self.span.and_then(|span| {
            program.modules.get(span.module as usize).map(|source| (source, span))
        });
        if let Some((source, span)) = source {
            let (line, column, _) = locate(&source.text, span.start as usize);
            (self.line, self.column) = (line, column);
            self.file = source.name.clone();
        }
        self
    }
}

impl From<Limit> for EvalError {
    fn from(limit: Limit) -> Self {
        Self::new(EvalCode::Cancel, limit.to_string())
    }
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.file.is_empty() {
            write!(f, "{}:{}: ", self.file, self.line)?;
        } else if self.line > 0 {
            write!(f, "{}:{}: ", self.line, self.column)?;
        }
        write!(f, "{}: {}", self.code, self.message)
    }
}
