//! Diagnostics: a problem and its place, as data that the edge renders.
//!
//! A [`Diagnostic`] points into a [`Source`] with byte [`Span`]s. The terminal, the admission
//! response and `status` each render the same data in their own way; `Display` is the plain line
//! `file:line:column: message` that all of them may fall back to.

use std::{fmt, ops::Range, sync::Arc};

use crate::Str;

/// A named text that spans point into: a file, a template's Rego, a ModRule's expression.
///
/// Cloning costs two reference counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The name users know the text by, such as a file name; may be empty.
    pub name: Arc<str>,
    /// The text itself.
    pub text: Arc<str>,
}

impl Source {
    /// A source of this name and text.
    pub fn new(name: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), text: text.into() }
    }

    /// The text a span covers; empty where the span does not fall on the text's characters.
    pub fn slice(&self, span: Span) -> &str {
        self.text.get(span.start..span.end).unwrap_or_default()
    }

    /// Line and column of a byte offset. Use a [`LineIndex`] for more than a few.
    pub fn location(&self, offset: usize) -> Location {
        Location::of(&self.text, offset)
    }
}

/// A stretch of a text in bytes, end excluded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// Offset of the first byte.
    pub start: usize,
    /// Offset after the last byte.
    pub end: usize,
}

impl Span {
    /// From `start` up to but without `end`.
    pub const fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// The empty span at `offset`.
    pub const fn at(offset: usize) -> Self {
        Self { start: offset, end: offset }
    }

    /// How many bytes it covers.
    pub const fn len(self) -> usize {
        self.end.saturating_sub(self.start)
    }

    /// Whether it covers nothing.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The smallest span that covers both.
    pub fn to(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// The same stretch in a text that has `offset` bytes in front of this one.
    pub const fn shifted(self, offset: usize) -> Self {
        Self { start: self.start.saturating_add(offset), end: self.end.saturating_add(offset) }
    }
}

impl From<Range<usize>> for Span {
    fn from(range: Range<usize>) -> Self {
        Self { start: range.start, end: range.end }
    }
}

impl From<Span> for Range<usize> {
    fn from(span: Span) -> Self {
        span.start..span.end
    }
}

/// A place in a text as people count: lines from 1, columns in characters from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

impl Location {
    /// Where the byte at `offset` stands; offsets past the end count as the end.
    pub fn of(text: &str, offset: usize) -> Self {
        let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
        let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        Self { line, column: column(before.get(line_start..).unwrap_or_default()) }
    }
}

impl fmt::Display for Location {
    /// `line:column`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// The column after the bytes that precede it in its line: every byte that does not continue a
/// character starts one.
fn column(before: &[u8]) -> usize {
    before.iter().filter(|byte| **byte & 0xC0 != 0x80).count() + 1
}

/// Where each line of a text starts, for turning many offsets into locations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineIndex {
    starts: Vec<usize>,
}

impl LineIndex {
    /// Finds the lines of `text`.
    pub fn new(text: &str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self { starts: std::iter::once(0).chain(breaks.map(|(at, _)| at + 1)).collect() }
    }

    /// How many lines there are; an empty text has one.
    pub fn lines(&self) -> usize {
        self.starts.len()
    }

    /// Offset of the first byte of `line`, counted from 1.
    pub fn line_start(&self, line: usize) -> Option<usize> {
        self.starts.get(line.checked_sub(1)?).copied()
    }

    /// Where the byte at `offset` stands in `text`, which must be the text this was made from.
    pub fn location(&self, text: &str, offset: usize) -> Location {
        let offset = offset.min(text.len());
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = self.line_start(line).unwrap_or(0);
        Location { line, column: column(text.as_bytes().get(start..offset).unwrap_or_default()) }
    }
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; nothing is wrong.
    Note,
    /// Probably not what the author meant; it still loads.
    Warning,
    /// It does not load or cannot be decided.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// A secondary place that helps to understand the primary one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// Where, in the diagnostic's own source.
    pub span: Span,
    /// The text of the label.
    pub message: String,
}

/// One finding about a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// The stable name of its cause, such as `never-matches`.
    pub code: Option<&'static str>,
    /// Lower-case fragment without final stop; user text in backticks.
    pub message: String,
    /// The text the spans point into, where there is one.
    pub source: Option<Source>,
    /// The offending stretch of the source.
    pub span: Span,
    /// Further places.
    pub labels: Vec<Label>,
    /// Advice to the user.
    pub help: Option<String>,
    /// The name of an object whose absence this is: where it is found after all, nothing is wrong.
    pub missing: Option<Str>,
}

impl Diagnostic {
    /// An error without a place.
    pub fn error(message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            code: None,
            message: message.into(),
            source: None,
            span: Span::default(),
            labels: Vec::new(),
            help: None,
            missing: None,
        }
    }

    /// A warning without a place.
    pub fn warning(message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(message) }
    }

    /// Sets the stable name of its cause.
    #[must_use]
    pub fn code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    /// Sets the place.
    #[must_use]
    pub fn at(mut self, source: Source, span: impl Into<Span>) -> Self {
        self.source = Some(source);
        self.span = span.into();
        self
    }

    /// Adds a secondary place.
    #[must_use]
    pub fn label(mut self, span: impl Into<Span>, message: impl Into<String>) -> Self {
        self.labels.push(Label { span: span.into(), message: message.into() });
        self
    }

    /// Sets the advice.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Line and column of the span's start, where there is a source.
    pub fn location(&self) -> Option<Location> {
        self.source.as_ref().map(|source| source.location(self.span.start))
    }
}

impl fmt::Display for Diagnostic {
    /// `file:line:column: message`; without a source just the message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(source) = &self.source {
            if !source.name.is_empty() {
                write!(f, "{}:", source.name)?;
            }
            write!(f, "{}: ", source.location(self.span.start))?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Diagnostic {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_count_characters() {
        let text = "a\nβγ δ\n\nx";
        let index = LineIndex::new(text);
        assert_eq!(index.lines(), 4);
        for (offset, line, column) in [
            (0, 1, 1),
            (1, 1, 2),
            (2, 2, 1),
            (4, 2, 2),
            (7, 2, 4),
            (10, 3, 1),
            (11, 4, 1),
            (99, 4, 2),
        ] {
            let expected = Location { line, column };
            assert_eq!(index.location(text, offset), expected, "{offset}");
            assert_eq!(Location::of(text, offset), expected, "{offset}");
        }
    }

    #[test]
    fn one_line() {
        let source = Source::new("rule.yaml", "a: 1\nb: [\n");
        let found = Diagnostic::error("unclosed list")
            .at(source.clone(), 8..9)
            .label(0..1, "in this map")
            .help("add a `]`");
        assert_eq!(found.to_string(), "rule.yaml:2:4: unclosed list");
        assert_eq!(source.slice(found.span), "[");
        assert_eq!(Diagnostic::warning("odd").to_string(), "odd");
        assert_eq!(Diagnostic::error("x").at(Source::new("", "y"), 0..1).to_string(), "1:1: x");
    }

    #[test]
    fn spans() {
        assert_eq!(Span::new(3, 5).to(Span::at(1)), Span::new(1, 5));
        assert_eq!(Span::new(3, 5).shifted(2), Span::new(5, 7));
        assert_eq!(Span::new(5, 3).len(), 0);
    }
}
