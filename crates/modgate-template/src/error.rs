//! Errors at parse time and at run time.

use std::ops::Range;

use modgate_value::Exhausted;

/// Why a text is not a template.
///
/// The message is worded as Go's `text/template` words it, because KubeMod users know it that way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("template: {name}:{line}: {message}")]
pub struct ParseError {
    /// The name given to [`Template::parse`](crate::Template::parse).
    pub name: String,
    /// Line of the offending token, from 1.
    pub line: usize,
    /// The message.
    pub message: String,
    /// Byte range of the offending token in the text.
    pub span: Range<usize>,
}

/// Why rendering a template gave no text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RenderError {
    /// The template asked for something that cannot be done.
    #[error("{message}")]
    Failed {
        /// Go's sentence: ``template: NAME:LINE:COLUMN: executing "NAME" at <NODE>: …``.
        message: String,
        /// Byte range of the expression in the template text.
        span: Range<usize>,
    },
    /// The template spent more than it was given.
    #[error("template `{name}`: {exhausted}")]
    Exhausted {
        /// The template's name.
        name: String,
        /// Which ceiling was reached.
        exhausted: Exhausted,
        /// Byte range of the expression in the template text.
        span: Range<usize>,
    },
    /// The output is not UTF-8 (for example `b64dec` of binary data); see
    /// [`Template::render_bytes`](crate::Template::render_bytes).
    #[error("template `{name}`: output is not valid UTF-8")]
    NotUtf8 {
        /// The template's name.
        name: String,
    },
}
