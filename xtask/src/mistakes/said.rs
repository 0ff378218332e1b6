//! The output of a program: its messages, with place, code and advice.

use std::fmt;

/// One error or warning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Message {
    /// `error`, `warning` or `note`.
    level: String,
    /// The text in brackets behind the level.
    pub(super) code: Option<String>,
    text: String,
    /// `file:line:column`.
    pub(super) place: Option<String>,
    help: Vec<String>,
}

impl Message {
    /// Whether it is the note on how many policies apply to the objects.
    pub(super) fn is_count(&self) -> bool {
        self.level == "note" && self.text.starts_with("0 of ")
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.level)?;
        if let Some(code) = &self.code {
            write!(f, "[{code}]")?;
        }
        write!(f, " {} {}", self.place.as_deref().unwrap_or("-"), self.text)?;
        for help in &self.help {
            write!(f, " | {help}")?;
        }
        Ok(())
    }
}

/// Words of the language and of the libraries that the program is made of. No user knows them.
const LEAKS: [&str; 42] = [
    "i8",
    "i16",
    "i32",
    "i64",
    "isize",
    "u8",
    "u16",
    "u32",
    "u64",
    "usize",
    "f64",
    "NaiveDate",
    "os error",
    "serde",
    "serde_json",
    "serde_yaml",
    "invalid type:",
    "invalid value:",
    "missing field `",
    "unknown variant",
    "EOF while parsing",
    "None",
    "Some",
    "Ok(",
    "Err(",
    "Utf8Error",
    "ParseIntError",
    "invalid digit found",
    "unwrap",
    "panicked",
    "RUST_BACKTRACE",
    "rustls",
    "reqwest",
    "hyper",
    "tokio",
    "kube::",
    "io::Error",
    "libyaml",
    "globset",
    "clap",
    "anyhow",
    "thiserror",
];

/// The words of the program's own making in a text.
pub(super) fn leaks(text: &str) -> Vec<&'static str> {
    let is_part = |letter: Option<char>| letter.is_some_and(|it| it.is_alphanumeric() || it == '_');
    let is_there = |leak: &&&str| {
        text.match_indices(**leak).any(|(at, _)| {
            let before = text.get(..at).and_then(|text| text.chars().next_back());
            let after = text.get(at + leak.len()..).and_then(|text| text.chars().next());
            !is_part(before) && (leak.ends_with(['(', ':', '`']) || !is_part(after))
        })
    };
    LEAKS.iter().filter(is_there).copied().collect()
}

/// The messages on standard error.
pub(super) fn messages(text: &str) -> Vec<Message> {
    let mut messages: Vec<Message> = Vec::new();
    for line in text.lines() {
        if let Some(message) = head(line) {
            messages.push(message);
            continue;
        }
        let Some(last) = messages.last_mut() else {
            if !line.trim().is_empty() {
                messages.push(Message {
                    level: "text".into(),
                    text: line.into(),
                    ..Message::default()
                });
            }
            continue;
        };
        let trimmed = line.trim_start();
        let place = trimmed.strip_prefix("--> ").or_else(|| trimmed.strip_prefix("::: "));
        if let Some(place) = place {
            last.place.get_or_insert_with(|| place.trim().to_owned());
        } else if let Some(help) =
            trimmed.strip_prefix("= help: ").or_else(|| trimmed.strip_prefix("tip: "))
        {
            last.help.push(help.to_owned());
        }
    }
    messages
}

/// The first line of a message: `warning[code]: text`.
fn head(line: &str) -> Option<Message> {
    for level in ["error", "Error", "warning", "note"] {
        let Some(rest) = line.strip_prefix(level) else { continue };
        let (code, rest) = match rest.strip_prefix('[') {
            Some(rest) => {
                let (code, rest) = rest.split_once(']')?;
                (Some(code.to_owned()), rest)
            }
            None => (None, rest),
        };
        let text = rest.strip_prefix(": ")?;
        return Some(Message {
            level: level.to_lowercase(),
            code,
            text: text.to_owned(),
            ..Message::default()
        });
    }
    None
}

/// The messages among the results: what `verify` says of a suite, and what a review warns of.
pub(super) fn on_stdout(text: &str) -> Vec<Message> {
    let is_message = |line: &&str| {
        let line = line.trim_start();
        line.starts_with("warning: ") || line.starts_with("note: ")
    };
    let lines = text.lines().filter(is_message);
    lines.filter_map(|line| head(line.trim_start())).collect()
}

/// Whether the results themselves say that something is wrong.
pub(super) fn is_verdict(exit: Option<i32>, stdout: &str) -> bool {
    exit != Some(0) && !stdout.trim().is_empty()
}
