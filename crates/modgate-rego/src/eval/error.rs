//! Errors of a running program.

use modgate_value::Str;

use crate::{
    ast::Span,
    builtins::BuiltinError,
    error::{Code, Error, locate},
    ir::Program,
    mistake::Mistake,
    value::Limit,
};

impl Error {
    pub(crate) fn new(code: Code, mistake: impl Into<Mistake>) -> Self {
        Self {
            code,
            mistake: Box::new(mistake.into()),
            file: Str::default(),
            line: 0,
            column: 0,
            span: None,
            details: Vec::new(),
            help: None,
        }
    }

    pub(super) fn nesting() -> Self {
        Self::new(Code::Cancel, "evaluation nests too deep")
    }

    /// The error of a built-in.
    pub(super) fn builtin(name: &str, error: &BuiltinError) -> Self {
        let code = match error {
            BuiltinError::Operand(_) => Code::Operand,
            BuiltinError::Conflict(_) => Code::Conflict,
            _ => Code::Builtin,
        };
        Self::new(code, format!("{name}: {error}"))
    }

    /// The error of two rules that disagree.
    pub(super) fn conflict(message: &str, span: Span) -> Self {
        Self { span: Some(span), ..Self::new(Code::Conflict, message) }
    }

    /// The error with its place filled in: its own span, or else `current`.
    pub(super) fn located(mut self, program: &Program, current: Option<Span>) -> Self {
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

impl From<Limit> for Error {
    fn from(limit: Limit) -> Self {
        Self::new(Code::Cancel, limit.to_string())
    }
}
