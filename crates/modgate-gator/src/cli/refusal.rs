//! Errors for command lines that do not parse, with the texts of gator's parser.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use modgate_value::near;

use crate::{Io, VerbFailure};

/// The answer to an error of clap; help is no failure.
pub(super) fn of_clap(
    error: &clap::Error,
    root: &clap::Command,
    program: &str,
    words: &[&str],
    io: &mut Io<'_>,
) -> Result<u8, VerbFailure> {
    if matches!(error.kind(), ErrorKind::DisplayHelp) {
        return io.print(&error.render().to_string()).map(|()| 0);
    }
    let (path, command) = addressed(root, words);
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        Some(ContextValue::Strings(texts)) => texts.first().map(String::as_str),
        _ => None,
    };
    let argument = context(ContextKind::InvalidArg).unwrap_or_default();
    // `--name <VALUE>` or `--name[=<VALUE>]`.
    let flag = argument.split([' ', '[', '=']).next().unwrap_or_default();
    let text = match error.kind() {
        ErrorKind::UnknownArgument if flag.starts_with("--") => {
            let flags = command.get_arguments().filter_map(clap::Arg::get_long);
            let near = near::nearest(flag.trim_start_matches('-'), flags);
            // gator has no tips for flags.
            match near.filter(|_| program != "gator") {
                Some(near) => format!("unknown flag: {flag}; did you mean `--{near}`?"),
                None => format!("unknown flag: {flag}"),
            }
        }
        ErrorKind::UnknownArgument => {
            let letter = flag.trim_start_matches('-');
            let group = words.iter().find(|word| word.starts_with('-') && word.contains(letter));
            format!("unknown shorthand flag: '{letter}' in {}", group.copied().unwrap_or(flag))
        }
        ErrorKind::InvalidSubcommand | ErrorKind::MissingSubcommand => {
            let word = context(ContextKind::InvalidSubcommand).unwrap_or_default();
            let known = prefixed(program, &path);
            let verbs = command.get_subcommands().map(clap::Command::get_name);
            let tip = match near::nearest(word, verbs) {
                Some(near) => format!("\n\nDid you mean this?\n\t{near}\n"),
                None => String::new(),
            };
            return Err(VerbFailure::error(format!(
                "unknown command {word:?} for {known:?}{tip}\nRun '{known} --help' for usage."
            )));
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            let value = context(ContextKind::InvalidValue).unwrap_or_default();
            match value {
                "" => format!("flag needs an argument: {flag}"),
                value => {
                    let why = std::error::Error::source(error)
                        .map(|source| format!(": {}", in_words(&source.to_string())))
                        .unwrap_or_default();
                    format!("invalid argument {value:?} for {:?} flag{why}", both(command, flag))
                }
            }
        }
        _ => {
            let rendered = error.render().to_string();
            let first = rendered.lines().next().unwrap_or_default();
            first.trim_start_matches("error: ").to_owned()
        }
    };
    Err(usage(root, program, &path, &text))
}

/// The reason of Rust's library why a text is no number, in words for people.
fn in_words(reason: &str) -> &str {
    match reason {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            "it is a whole number"
        }
        "number too large to fit in target type" => "the number is too large",
        "invalid float literal" => "it is a number",
        other => other,
    }
}

/// Whether the words after `help` name a command.
pub(super) fn is_topic(root: &clap::Command, topic: &[&str]) -> bool {
    let (path, _) = addressed(root, topic);
    path.split_whitespace().count() == topic.len() || topic.iter().any(|it| it.starts_with('-'))
}

/// The answer to `help` for a command that does not exist, with the one that is near.
pub(super) fn unknown_topic(root: &mut clap::Command, topic: &[&str]) -> String {
    let (path, command) = addressed(root, topic);
    let word = topic.get(path.split_whitespace().count()).copied().unwrap_or_default();
    let verbs = command.get_subcommands().map(clap::Command::get_name);
    let tip = match near::nearest(word, verbs) {
        Some(near) => {
            let verb = [path.as_str(), near].join(" ");
            format!("\nDid you mean this?\n\t{}\n\n", verb.trim())
        }
        None => String::new(),
    };
    let help = root.render_help();
    format!("Unknown help topic [`{}`]\n{tip}{}", topic.join("` `"), help.to_string().trim_end())
}

/// `Error: <text>` and how the command is used.
pub(super) fn usage(root: &clap::Command, program: &str, path: &str, text: &str) -> VerbFailure {
    let words: Vec<&str> = path.split(' ').filter(|word| !word.is_empty()).collect();
    let (_, command) = addressed(root, &words);
    let flags = command
        .clone()
        .disable_help_subcommand(true)
        .help_template("{options}")
        .render_help()
        .to_string();
    let known = prefixed(program, path);
    VerbFailure::error(format!("{text}\nUsage:\n  {known} [flags]\n\nFlags:\n{flags}"))
}

/// The command that the words name, and its path without the program's name.
fn addressed<'c>(root: &'c clap::Command, words: &[&str]) -> (String, &'c clap::Command) {
    let mut command = root;
    let mut path = Vec::new();
    for word in words {
        let Some(next) = command.find_subcommand(word) else { break };
        command = next;
        path.push(*word);
    }
    (path.join(" "), command)
}

fn prefixed(program: &str, path: &str) -> String {
    if path.is_empty() { program.to_owned() } else { format!("{program} {path}") }
}

/// `-v, --verbose`, as the original names flags that have a letter.
fn both(command: &clap::Command, flag: &str) -> String {
    let name = flag.trim_start_matches('-');
    let found = command.get_arguments().find(|arg| arg.get_long() == Some(name));
    match found.and_then(clap::Arg::get_short) {
        Some(letter) => format!("-{letter}, --{name}"),
        None => flag.to_owned(),
    }
}
