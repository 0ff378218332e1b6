//! Many JSON lines of one kind, made on any threads and written together.

use std::{
    fs::File,
    io,
    sync::{Mutex, OnceLock, PoisonError},
};

use modgate_value::json::{Escape, write_string};
use tracing::Level;

use crate::log::{JsonLine, put_key, put_text};

/// Where log lines go. Nothing stands between the bytes of one call.
#[derive(Debug)]
pub(crate) enum Destination {
    StandardError,
    File(Mutex<File>),
}

impl io::Write for &Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Destination::StandardError => io::stderr().write(bytes),
            Destination::File(file) => {
                file.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
            }
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Destination::StandardError => io::stderr().write_all(bytes),
            Destination::File(file) => {
                file.lock().unwrap_or_else(PoisonError::into_inner).write_all(bytes)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

static IN_USE: OnceLock<BulkLog> = OnceLock::new();

/// The JSON lines of this process, for those that log so many of one kind that an event for each would take too long. The
/// lines are those that events with the same fields make.
#[derive(Debug)]
pub struct BulkLog {
    form: JsonLine,
    to: std::sync::Arc<Destination>,
}

impl BulkLog {
    /// The log of this process; nothing if [`init_logs`](crate::init_logs) did not choose JSON lines.
    pub fn in_use() -> Option<&'static Self> {
        IN_USE.get()
    }

    pub(crate) fn new(form: JsonLine, to: std::sync::Arc<Destination>) -> Self {
        Self { form, to }
    }

    pub(crate) fn use_it(self) {
        // Logging is set up once.
        let _ = IN_USE.set(self);
    }

    /// How lines look unless a flag says otherwise, on standard error: for tests.
    pub fn by_default() -> Self {
        Self::new(JsonLine::default(), Destination::StandardError.into())
    }

    /// Begins lines of now: the members in front of those that [`BulkLog::text`] and its like add.
    pub fn start(&self, level: Level, logger: &str) -> String {
        let mut line = String::with_capacity(128);
        // Writing to a string does not fail.
        let _ = self.form.start(level, logger, &mut line);
        line
    }

    /// Adds a member, as a field of an event of which `name` is not one of those that hold JSON.
    pub fn text(line: &mut String, name: &str, value: &str) {
        put_text(line, name, value);
    }

    /// Adds a text alone.
    pub fn string(line: &mut String, value: &str) {
        write_string(value, line, Escape::Minimal);
    }

    /// Adds a member whose value is JSON.
    pub fn literal(line: &mut String, name: &str, json: &str) {
        put_key(line, name);
        line.push_str(json);
    }

    /// Ends a line.
    pub fn end(line: &mut String) {
        line.push_str("}\n");
    }

    /// Writes whole lines. As with any line, that this fails is not reported.
    pub fn write(&self, lines: &str) {
        let _ = io::Write::write_all(&mut &*self.to, lines.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{FIELD_BYTES, capture};

    /// Everything behind the time.
    fn fields(line: &str) -> &str {
        line.split_once(",\"logger\"").expect("a logger").1
    }

    #[test]
    fn lines_are_those_of_events() {
        let long = "é".repeat(FIELD_BYTES);
        for text in ["plain", "a \"b\"\n\u{1b}", &long] {
            let logged = capture(|| {
                tracing::info!(target: "l", shown = %text, text, details = "[1]", semantic = true, "{text}");
            });
            let mut line = BulkLog::by_default().start(Level::INFO, "l");
            BulkLog::text(&mut line, "message", text);
            BulkLog::text(&mut line, "shown", text);
            BulkLog::text(&mut line, "text", text);
            BulkLog::text(&mut line, "details", "[1]");
            BulkLog::literal(&mut line, "semantic", "true");
            BulkLog::end(&mut line);
            assert_eq!(fields(&line), fields(&logged));
            assert!(line.starts_with("{\"level\":\"info\",\"ts\":\"2"), "{line}");
        }
    }
}
