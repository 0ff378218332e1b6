//! Texts of others in logs: bounded, and without what a terminal would act on.

use std::fmt::{self, Write};

use tracing::field::Field;
use tracing_subscriber::fmt::format::Writer;

/// Bytes of one field of a log line; names and annotations may have megabytes.
pub(super) const FIELD_BYTES: usize = 4 << 10;

/// At most [`FIELD_BYTES`] of what something shows, and how much more there is.
pub(super) fn limited(value: impl fmt::Display) -> String {
    let mut out = Limited { out: String::new(), more: 0, escapes: false };
    // Writing to a string does not fail, and what a value itself fails to write is left out.
    let _ = write!(out, "{value}");
    out.finish()
}

/// The same with control characters escaped, so that one line stays one line.
fn escaped(value: &dyn fmt::Debug) -> String {
    let mut out = Limited { out: String::new(), more: 0, escapes: true };
    let _ = write!(out, "{value:?}");
    out.finish()
}

/// Writes one field of a line of text, as `tracing_subscriber` does by default.
pub(super) fn text_field(
    writer: &mut Writer<'_>,
    field: &Field,
    value: &dyn fmt::Debug,
) -> fmt::Result {
    let value = escaped(value);
    match (field.name(), writer.has_ansi_escapes()) {
        ("message", _) => writer.write_str(&value),
        (name, true) => write!(writer, "\u{1b}[3m{name}\u{1b}[0m\u{1b}[2m=\u{1b}[0m{value}"),
        (name, false) => write!(writer, "{name}={value}"),
    }
}

struct Limited {
    out: String,
    /// Bytes that were left out.
    more: usize,
    escapes: bool,
}

impl Limited {
    fn finish(mut self) -> String {
        if self.more > 0 {
            let _ = write!(self.out, "... and {} more bytes", self.more);
        }
        self.out
    }
}

impl Write for Limited {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let fits = self.more == 0 && self.out.len() + text.len() <= FIELD_BYTES;
        if fits && (!self.escapes || text.bytes().all(|byte| matches!(byte, b' '..=b'~'))) {
            self.out.push_str(text);
            return Ok(());
        }
        for character in text.chars() {
            if self.more > 0 || self.out.len() >= FIELD_BYTES {
                self.more += character.len_utf8();
            } else if self.escapes && is_harmful(character) {
                self.out.extend(character.escape_default());
            } else {
                self.out.push(character);
            }
        }
        Ok(())
    }
}

/// Whether a character may do something to a line or a terminal rather than stand in it: control
/// characters, and those that end lines or change the direction of text.
fn is_harmful(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_end_early_and_say_so() {
        let short = "a\nb".repeat(10);
        assert_eq!(limited(&short), short);
        let long = limited("é".repeat(FIELD_BYTES));
        let expected = format!("{}... and {FIELD_BYTES} more bytes", "é".repeat(FIELD_BYTES / 2));
        assert_eq!(long, expected);
    }

    #[test]
    fn control_characters_are_escaped_in_text() {
        let text = format_args!("a\nb\u{1b}[31m\r\u{9b}\u{202e}é\t\u{7f}").to_string();
        let shown = escaped(&format_args!("{text}"));
        assert_eq!(shown, "a\\nb\\u{1b}[31m\\r\\u{9b}\\u{202e}é\\t\\u{7f}");
    }
}
