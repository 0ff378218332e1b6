//! What people see: colours where they help, diagnostics with their source underlined.

use std::{
    env, fmt,
    io::{self, IsTerminal as _, Write as _},
    sync::{Arc, Mutex, PoisonError},
};

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use modgate_value::diag::{Diagnostic, Severity, Span};

/// When text is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Color {
    /// On terminals, unless NO_COLOR is set or TERM is `dumb`; everywhere with FORCE_COLOR or
    /// CLICOLOR_FORCE.
    #[default]
    Auto,
    /// Always, also in pipes.
    Always,
    /// Never.
    Never,
}

impl Color {
    /// Whether a stream is coloured.
    fn is_on(self, is_terminal: bool) -> bool {
        let is_set = |name: &str| env::var_os(name).is_some_and(|it| !it.is_empty() && it != "0");
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto if no_color() => false,
            Self::Auto if is_set("FORCE_COLOR") || is_set("CLICOLOR_FORCE") => true,
            Self::Auto => is_terminal && env::var_os("TERM").is_none_or(|it| it != "dumb"),
        }
    }
}

/// The two streams and whether each takes colours.
#[derive(Debug)]
pub(crate) struct Terminal {
    stdout_colour: bool,
    stderr_colour: bool,
    /// Whether warnings and notes are left out.
    quiet: bool,
    /// Printed diagnostics, for reports; `None` if no report collects them.
    heard: Arc<Mutex<Option<Vec<Diagnostic>>>>,
}

/// What a stretch of text is, hence its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Bad,
    Notice,
    Heading,
    Faint,
}

impl Tone {
    /// The ANSI code.
    const fn code(self) -> &'static str {
        match self {
            Self::Good => "32",
            Self::Bad => "31",
            Self::Notice => "33",
            Self::Heading => "1",
            Self::Faint => "2",
        }
    }
}

/// Text in a colour.
pub(crate) struct Painted<T> {
    text: T,
    tone: Option<Tone>,
}

impl<T: fmt::Display> fmt::Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tone {
            Some(tone) => write!(f, "\x1b[{}m{}\x1b[0m", tone.code(), self.text),
            None => self.text.fmt(f),
        }
    }
}

impl Terminal {
    /// The streams of this process.
    pub(crate) fn new(color: Color) -> Self {
        Self {
            stdout_colour: color.is_on(io::stdout().is_terminal()),
            stderr_colour: color.is_on(io::stderr().is_terminal()),
            quiet: false,
            heard: Arc::default(),
        }
    }

    /// The same for another owner.
    pub(crate) fn again(&self) -> Self {
        Self { heard: Arc::clone(&self.heard), ..*self }
    }

    /// The same without colours on standard output: for files.
    pub(crate) fn plain(&self) -> Self {
        Self { stdout_colour: false, ..self.again() }
    }

    /// The same that keeps its diagnostics for [`heard`](Self::heard), and prints no warnings and notes
    /// if `quiet`.
    pub(crate) fn recording(&self, quiet: bool) -> Self {
        Self { quiet, heard: Arc::new(Mutex::new(Some(Vec::new()))), ..*self }
    }

    /// The diagnostics so far.
    pub(crate) fn heard(&self) -> Vec<Diagnostic> {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// `text` for standard output.
    pub(crate) fn paint<T: fmt::Display>(&self, tone: Tone, text: T) -> Painted<T> {
        Painted { text, tone: self.stdout_colour.then_some(tone) }
    }

    /// Prints a finding on standard error.
    pub(crate) fn diagnostic(&self, diagnostic: &Diagnostic) {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(heard) = heard.as_mut() {
            heard.push(diagnostic.clone());
        }
        drop(heard);
        if self.quiet && diagnostic.severity != Severity::Error {
            return;
        }
        let rendered = render(diagnostic, self.stderr_colour);
        // Nobody is left to tell if standard error is closed.
        let _ = writeln!(io::stderr(), "{rendered}");
    }

    /// Prints an error without a place on standard error.
    pub(crate) fn error(&self, message: &str) {
        self.diagnostic(&Diagnostic::error(message));
    }

    /// Prints a line on standard error, unless it is to be quiet.
    pub(crate) fn note(&self, line: impl fmt::Display) {
        if !self.quiet {
            self.line(line);
        }
    }

    /// Prints a line on standard error.
    pub(crate) fn line(&self, line: impl fmt::Display) {
        let _ = writeln!(io::stderr(), "{line}");
    }
}

/// Whether the user asked for no colours: <https://no-color.org>.
pub(crate) fn no_color() -> bool {
    env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// A finding with the lines it is about, as rustc prints them.
fn render(diagnostic: &Diagnostic, colour: bool) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Note => Level::NOTE,
    };
    let title = level.primary_title(printable(&diagnostic.message));
    let mut group = Group::with_title(match diagnostic.code {
        Some(code) => title.id(code),
        None => title,
    });
    if let Some(source) = &diagnostic.source {
        let primary = AnnotationKind::Primary.span(within(&source.text, diagnostic.span).into());
        let labels = diagnostic.labels.iter().map(|label| {
            AnnotationKind::Context
                .span(within(&source.text, label.span).into())
                .label(printable(&label.message))
        });
        let snippet = Snippet::source(&*source.text)
            .path((!source.name.is_empty()).then_some(&*source.name))
            .annotation(primary)
            .annotations(labels);
        group = group.element(snippet);
    }
    if let Some(help) = &diagnostic.help {
        group = group.element(Level::HELP.message(printable(help)));
    }
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    renderer.render(&[group])
}

/// The span, kept to the text's characters.
fn within(text: &str, span: Span) -> Span {
    let start = text.floor_char_boundary(span.start);
    Span { start, end: text.ceil_char_boundary(span.end.max(start)) }
}

/// Text from files and objects must not steer the terminal.
pub(crate) fn printable(text: &str) -> String {
    let plain = |character: char| !character.is_control() || character == '\n';
    if text.chars().all(plain) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if plain(character) {
            out.push(character);
        } else {
            out.extend(character.escape_default());
        }
    }
    out
}

/// Longest text shown of one value, in characters.
pub(crate) const MAX_SHOWN: usize = 200;

/// The text on one line, cut where it gets long.
pub(crate) fn shorten(text: &str) -> String {
    let text = printable(text).replace('\n', "\\n");
    match text.char_indices().nth(MAX_SHOWN) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use modgate_value::diag::Source;

    use super::*;

    #[test]
    fn a_finding_shows_its_line() {
        let source = Source::new("rule.yaml", "a: 1\nselect: $.b[\n");
        let finding = Diagnostic::error("unexpected end").at(source, 16..17).help("close the `[`");
        assert_eq!(
            render(&finding, false),
            "error: unexpected end\n --> rule.yaml:2:12\n  |\n2 | select: $.b[\n  |            ^\n  |\n  \
             = help: close the `[`"
        );
    }

    #[test]
    fn control_characters_are_shown_not_obeyed() {
        assert_eq!(printable("a\u{1b}[31mb\n\u{e9}"), "a\\u{1b}[31mb\n\u{e9}");
    }

    #[test]
    fn spans_outside_of_the_text_are_no_panic() {
        let source = Source::new("x", "é");
        for (start, end) in [(0, 1), (1, 1), (5, 9), (9, 5)] {
            let finding = Diagnostic::error("x").at(source.clone(), Span { start, end });
            assert!(render(&finding, false).contains("error: x"));
        }
    }
}
