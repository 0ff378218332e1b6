//! What people see: colours where they help, diagnostics with their source underlined.

use std::{
    env, fmt,
    io::{self, IsTerminal as _, Write as _},
};

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use modgate_value::diag::{Diagnostic, Severity, Span};

/// The two streams and whether each takes colours.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terminal {
    stdout_colour: bool,
    stderr_colour: bool,
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
    /// Colours on terminals, unless `NO_COLOR` is set.
    pub(crate) fn detect() -> Self {
        let wanted = !no_color();
        Self {
            stdout_colour: wanted && io::stdout().is_terminal(),
            stderr_colour: wanted && io::stderr().is_terminal(),
        }
    }

    /// `text` for standard output.
    pub(crate) fn paint<T: fmt::Display>(&self, tone: Tone, text: T) -> Painted<T> {
        Painted { text, tone: self.stdout_colour.then_some(tone) }
    }

    /// Prints a finding on standard error.
    pub(crate) fn diagnostic(&self, diagnostic: &Diagnostic) {
        let rendered = render(diagnostic, self.stderr_colour);
        // Nobody is left to tell if standard error is closed.
        let _ = writeln!(io::stderr(), "{rendered}");
    }

    /// Prints an error without a place on standard error.
    pub(crate) fn error(&self, message: &str) {
        self.diagnostic(&Diagnostic::error(message));
    }

    /// Prints a line on standard error.
    pub(crate) fn note(&self, line: impl fmt::Display) {
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
