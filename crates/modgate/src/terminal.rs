//! Output for people: colours where they help, diagnostics with their source underlined.

use std::{
    env, fmt,
    io::{self, IsTerminal as _, Write as _},
    sync::{Arc, Mutex, PoisonError},
};

use modgate_engine::Position;
use modgate_report::snippet;
pub(crate) use modgate_report::{one_line, printable};
use modgate_value::diag::{Diagnostic, Severity};

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

/// The role of a text, which decides its colour.
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
        let message = without_numbers(&diagnostic.message);
        let diagnostic = &Diagnostic { message, ..diagnostic.clone() };
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(heard) = heard.as_mut() {
            heard.push(diagnostic.clone());
        }
        drop(heard);
        if self.quiet && diagnostic.severity != Severity::Error {
            return;
        }
        let rendered = snippet(diagnostic, self.stderr_colour);
        // If standard error is closed, the error cannot be reported.
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
        let _ = writeln!(io::stderr(), "{}", without_numbers(&line.to_string()));
    }
}

/// A message without the numbers of the system's errors: `(os error 2)` says nothing that its text does not.
fn without_numbers(message: &str) -> String {
    let mut parts = message.split(" (os error ");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once(')').map_or("", |(_, rest)| rest));
    }
    plain
}

/// Whether the user asked for no colours: <https://no-color.org>.
pub(crate) fn no_color() -> bool {
    env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// `file:line:column` on one line, as far as it is known.
pub(crate) fn place(file: &str, position: Option<Position>) -> String {
    one_line(&modgate_audit::place(file, position))
}

/// Longest text shown of one value, in characters.
pub(crate) const MAX_SHOWN: usize = 200;

/// The text on one line, cut where it gets long.
pub(crate) fn shorten(text: &str) -> String {
    let text = one_line(text);
    match text.char_indices().nth(MAX_SHOWN) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text,
    }
}
