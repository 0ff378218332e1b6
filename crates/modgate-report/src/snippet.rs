//! Diagnostics for people, with the lines that they point at.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use modgate_value::diag::{Diagnostic, Severity, Span};

/// A finding with its lines, as rustc prints them.
pub fn snippet(diagnostic: &Diagnostic, colour: bool) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Note => Level::NOTE,
    };
    let name = diagnostic.source.as_ref().map(|it| one_line(&it.name)).unwrap_or_default();
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
            .path((!name.is_empty()).then_some(&*name))
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

/// Text from files and objects must not steer the terminal, nor change the direction of what follows it.
pub fn printable(text: &str) -> String {
    escaped(text, |character| character != '\n' && is_steering(character))
}

/// As [`printable`], on one line: names have no further ones, and a line of its own could be a command to the
/// program that reads the output, such as `::error::`.
pub fn one_line(text: &str) -> String {
    escaped(text, is_steering)
}

/// Control characters, and those that change the direction of text.
fn is_steering(character: char) -> bool {
    character.is_control() || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escaped(text: &str, steers: impl Fn(char) -> bool) -> String {
    let plain = |character: char| !steers(character);
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
            snippet(&finding, false),
            "error: unexpected end\n --> rule.yaml:2:12\n  |\n2 | select: $.b[\n  |            ^\n  |\n  \
             = help: close the `[`"
        );
    }

    #[test]
    fn control_characters_are_shown_not_obeyed() {
        assert_eq!(printable("a\u{1b}[31mb\n\u{e9}"), "a\\u{1b}[31mb\n\u{e9}");
        assert_eq!(one_line("a\n::error::\u{202e}\u{e9}"), "a\\n::error::\\u{202e}\u{e9}");
    }

    #[test]
    fn the_name_of_a_file_is_one_line() {
        let source = Source::new("a\n::error::\u{1b}[31m.yaml", "x");
        let shown = snippet(&Diagnostic::error("wrong").at(source, 0..1), false);
        assert!(shown.contains(" --> a\\n::error::\\u{1b}[31m.yaml:1:1\n"), "{shown}");
    }

    #[test]
    fn spans_outside_of_the_text_are_no_panic() {
        let source = Source::new("x", "é");
        for (start, end) in [(0, 1), (1, 1), (5, 9), (9, 5)] {
            let finding = Diagnostic::error("x").at(source.clone(), Span { start, end });
            assert!(snippet(&finding, false).contains("error: x"));
        }
    }
}
