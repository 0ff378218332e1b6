//! Errors of policies, before they run and while they do.

use std::fmt;

use modgate_value::Str;

use crate::{
    ast::Span,
    mistake::{Detail, Mistake},
};

/// The kind of an [`Error`]; the codes are OPA's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Code {
    /// The text is not Rego.
    Parse,
    /// The rules contradict the language or one another.
    Compile,
    /// A call or reference cannot be well typed.
    Type,
    /// A variable is not bound by anything.
    UnsafeVar,
    /// A rule depends on itself.
    Recursion,
    /// Rules, functions or comprehensions disagree about a value.
    Conflict,
    /// A built-in failed, and errors of built-ins end the evaluation.
    Builtin,
    /// A built-in was called with a value of a type it does not take.
    Operand,
    /// A `with` cannot put its value there.
    WithMerge,
    /// A budget is spent, or the evaluation nests too deep.
    Cancel,
}

impl Code {
    /// The code as OPA spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Parse => "rego_parse_error",
            Self::Compile => "rego_compile_error",
            Self::Type => "rego_type_error",
            Self::UnsafeVar => "rego_unsafe_var_error",
            Self::Recursion => "rego_recursion_error",
            Self::Conflict => "eval_conflict_error",
            Self::Builtin => "eval_builtin_error",
            Self::Operand => "eval_type_error",
            Self::WithMerge => "eval_with_merge_error",
            Self::Cancel => "eval_cancel_error",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error in a policy or of an evaluation, and its place.
///
/// Displays as one line in OPA's form, `file:line: code: message`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub struct Error {
    /// The kind.
    pub code: Code,
    /// The mistake; displays as OPA's message.
    pub mistake: Box<Mistake>,
    /// The module's name; empty where the place is not known.
    pub file: Str,
    /// The line, from 1; 0 where the place is not known.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
    /// The bytes of the module's text that the error points at.
    pub span: Option<Span>,
    /// Lines that say more: the offending line and a caret, or types that do not fit.
    pub details: Vec<Detail>,
    /// Advice, such as a known name that is close to an unknown one.
    pub help: Option<Box<str>>,
}

impl Error {
    /// An error at a place of `text`.
    pub(crate) fn at(
        code: Code,
        file: &Str,
        text: &str,
        span: Span,
        mistake: impl Into<Mistake>,
    ) -> Self {
        let (line, column, _) = locate(text, span.start as usize);
        Self {
            code,
            mistake: Box::new(mistake.into()),
            file: file.clone(),
            line,
            column,
            span: Some(span),
            details: Vec::new(),
            help: None,
        }
    }

    /// The error of a call of a function that is known and not available.
    pub fn of_disabled_call(
        file: &Str,
        text: &str,
        span: Span,
        function: String,
        help: &str,
    ) -> Self {
        let mistake = Mistake::DisabledFunction(function);
        Self { help: Some(help.into()), ..Self::at(Code::Type, file, text, span, mistake) }
    }

    /// With the line it is in and a caret below the place.
    pub(crate) fn with_excerpt(mut self, text: &str) -> Self {
        let lines = excerpt(text, self.span.map_or(0, |span| span.start as usize));
        self.details = lines.into_iter().map(Detail::Line).collect();
        self
    }

    /// The whole error as OPA prints it: one line, then the details, each behind a tab.
    pub fn detailed(&self) -> String {
        let mut text = self.to_string();
        for detail in &self.details {
            text.push_str(&format!("\n\t{detail}"));
        }
        text
    }
}

/// Longer lines are shown in part.
const MAX_EXCERPT: usize = 1000;

/// The line of an offset and a caret below it; white space belongs to what stands before it.
fn excerpt(text: &str, offset: usize) -> Vec<String> {
    let bytes = text.as_bytes();
    let mut at = offset.min(bytes.len().saturating_sub(1));
    while at > 0 && bytes.get(at).is_some_and(u8::is_ascii_whitespace) {
        at -= 1;
    }
    let is_break = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let before = bytes.get(..at).unwrap_or(bytes);
    let begin = before.iter().rposition(is_break).map_or(0, |newline| newline + 1);
    let after = bytes.get(at..).unwrap_or(&[]);
    let end = at + after.iter().position(is_break).unwrap_or(after.len());
    let whole = text.get(begin..end).unwrap_or("");
    let line = whole.trim_start_matches('\t');
    let indent = (at - begin).saturating_sub(whole.len() - line.len());
    if line.len() > MAX_EXCERPT {
        // The part around the place is all a reader can use.
        let from = line.floor_char_boundary(indent.saturating_sub(MAX_EXCERPT / 2));
        let to = line.floor_char_boundary(from + MAX_EXCERPT);
        let indent = indent.saturating_sub(from);
        let part = line.get(from..to.max(from)).unwrap_or("");
        return vec![part.to_owned(), format!("{:indent$}^", "")];
    }
    vec![line.to_owned(), format!("{:indent$}^", "")]
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.file.is_empty() {
            write!(f, "{}:{}: ", self.file, self.line)?;
        } else if self.line > 0 {
            write!(f, "{}:{}: ", self.line, self.column)?;
        }
        write!(f, "{}: {}", self.code, self.mistake)
    }
}

/// Line and column (both from 1, the column in characters) of a byte offset, and the line's text.
pub(crate) fn locate(text: &str, offset: usize) -> (u32, u32, &str) {
    let offset = offset.min(text.len());
    let before = text.get(..offset).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
    let column = before.get(start..).map_or(0, |part| part.chars().count()) + 1;
    let rest = text.get(start..).unwrap_or("");
    let excerpt = rest.split(['\n', '\r']).next().unwrap_or("");
    (u32::try_from(line).unwrap_or(u32::MAX), u32::try_from(column).unwrap_or(u32::MAX), excerpt)
}
