//! Command lines as Go programs take them, with one dash or two.
//!
//! Manifests of KubeMod and Gatekeeper are written for such programs.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::{
    Command, CommandFactory as _, FromArgMatches as _,
    error::{ContextKind, ContextValue, ErrorKind},
};
use modgate_value::near;

use super::Args;
use crate::args::Program;

/// The verb that runs in images of the originals.
const SERVE: &str = "serve";

/// The name by which this program is the plugin `kubectl modgate`.
const PLUGIN: &str = "kubectl-modgate";

/// The command line of this process. Help, and what is wrong with it, end the process.
pub(crate) fn parsed() -> Args {
    let line: Vec<OsString> = env::args_os().collect();
    parse(line).unwrap_or_else(|error| error.exit())
}

fn parse(line: Vec<OsString>) -> Result<Args, clap::Error> {
    let program = line.first().map(PathBuf::from).unwrap_or_default();
    let words = line.len();
    let line = rewritten(line);
    let mut command = Args::command();
    if program.file_stem().is_some_and(|name| name == PLUGIN) {
        command = command.bin_name("kubectl modgate");
    }
    if line.len() > words {
        // The verb stands in the name already.
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let usage = format!("{name} [OPTIONS]");
        command = command.mut_subcommand(SERVE, |serve| serve.override_usage(usage));
    }
    let matches = command.try_get_matches_from_mut(line);
    let mut matches = matches.map_err(|error| advised(error, &command))?;
    Args::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

/// Names under which people look for flags.
const OTHER_NAMES: [(&str, &str); 8] = [
    ("--policy", "--rule"),
    ("--policies", "--filename"),
    ("--policy", "--filename"),
    ("--rules", "--filename"),
    ("--file", "--filename"),
    ("--format", "--output"),
    ("--references", "--objects"),
    ("--ignore", "--exclude"),
];

/// The error with near names where clap has none: of verbs behind `help`, and of flags that are called
/// otherwise here.
fn advised(mut error: clap::Error, command: &Command) -> clap::Error {
    let text = |error: &clap::Error, kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    };
    if error.kind() == ErrorKind::InvalidSubcommand {
        let name = text(&error, ContextKind::InvalidSubcommand);
        // The usage names the command whose verb is unknown: `modgate policy [OPTIONS] <COMMAND>`.
        let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
        let mut parent = command;
        for word in usage.split_whitespace().skip_while(|it| it.ends_with(':')).skip(1) {
            let Some(next) = parent.find_subcommand(word) else { break };
            parent = next;
        }
        let known = parent.get_subcommands().filter(|verb| !verb.is_hide_set());
        if let Some(near) = near::nearest(&name, known.map(Command::get_name)) {
            let near = ContextValue::Strings(vec![near.to_owned()]);
            error.insert(ContextKind::SuggestedSubcommand, near);
        }
    }
    if error.kind() == ErrorKind::UnknownArgument {
        // What looks like a flag is one: no verb takes such a value.
        error.remove(ContextKind::Suggested);
    }
    if error.kind() == ErrorKind::ValueValidation {
        return in_words(error);
    }
    if error.kind() == ErrorKind::UnknownArgument {
        let name = text(&error, ContextKind::InvalidArg);
        // The usage has the flags of the verb, or stands for all of them.
        let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
        let (mut verb, mut words) = (None, Vec::new());
        for word in usage.split_whitespace().skip(1) {
            match verb.unwrap_or(command).find_subcommand(word) {
                Some(next) => verb = Some(next),
                None if verb.is_some() => break,
                // The name of the program.
                None => {}
            }
            words.push(word);
        }
        // Without a verb, the flag is one of the program.
        let Some(verb) = verb else { return error };
        let flags = verb.get_arguments();
        let global = command.get_arguments().filter(|flag| flag.is_global_set());
        let flags = flags.chain(global).filter(|flag| !flag.is_hide_set());
        let flags: Vec<&str> = flags.filter_map(clap::Arg::get_long).collect();
        let plain = name.trim_start_matches('-');
        let other = OTHER_NAMES
            .iter()
            .find(|(other, flag)| *other == name && flags.contains(&flag.trim_start_matches('-')));
        // The beginning of a name stands for it, its last letter apart.
        let (start, _) = plain.split_at(plain.floor_char_boundary(plain.len().saturating_sub(1)));
        let begun = || flags.iter().copied().find(|it| start.len() > 3 && it.starts_with(start));
        let meant = match other {
            Some((_, flag)) => Some(flag.trim_start_matches('-')),
            None => near::nearest(plain, flags.iter().copied()).or_else(begun),
        };
        // The parser takes names for near that have little in common, and the usage names them.
        if let Some(ContextValue::String(taken)) = error.remove(ContextKind::SuggestedArg)
            && meant != Some(taken.trim_start_matches('-'))
        {
            let usage = verb.clone().bin_name(words.join(" ")).render_usage();
            error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
        }
        if let Some(flag) = meant.filter(|_| name.starts_with("--")) {
            error.insert(ContextKind::SuggestedArg, ContextValue::String(format!("--{flag}")));
        }
    }
    error
}

/// Messages of Rust's library about texts that are no numbers, and their meaning.
const OF_NUMBERS: [(&str, &str); 6] = [
    ("invalid digit found in string", "it is a whole number"),
    ("cannot parse integer from empty string", "it is a whole number"),
    ("number too large to fit in target type", "the number is too large"),
    ("number too small to fit in target type", "the number is too small"),
    ("invalid float literal", "it is a number"),
    ("cannot parse float from empty string", "it is a number"),
];

/// The error about a value, in words for people.
fn in_words(error: clap::Error) -> clap::Error {
    let text = error.render().to_string();
    let Some((of_library, words)) = OF_NUMBERS.iter().find(|(it, _)| text.contains(it)) else {
        return error;
    };
    let text = text.replace(of_library, words);
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    clap::Error::raw(ErrorKind::ValueValidation, text)
}

pub(super) fn rewritten(mut args: Vec<OsString>) -> Vec<OsString> {
    let program = args.first().map(|path| Program::of(Path::new(path))).unwrap_or_default();
    let is_verb = |arg: &OsString| arg.to_str().is_some_and(|arg| !arg.starts_with('-'));
    if program != Program::Modgate && !args.get(1).is_some_and(is_verb) {
        args.insert(1.min(args.len()), SERVE.into());
    }
    if args.get(1).is_some_and(|verb| verb == "help") {
        // The help of a verb is what `help VERB` prints already.
        args.retain(|arg| arg != "--help" && arg != "-h");
    }
    if args.get(1).is_none_or(|verb| verb != SERVE) {
        return args;
    }
    let command = Args::command();
    match command.find_subcommand(SERVE) {
        Some(serve) => go_style(args, serve),
        None => args,
    }
}

fn go_style(args: Vec<OsString>, serve: &Command) -> Vec<OsString> {
    let mut out = Vec::with_capacity(args.len());
    let mut args = args.into_iter();
    out.extend(args.by_ref().take(2));
    while let Some(arg) = args.next() {
        let Some(flag) = arg.to_str().and_then(|text| Flag::of(text, serve)) else {
            let is_end = arg == "--";
            out.push(arg);
            if is_end {
                break;
            }
            continue;
        };
        out.push(flag.text.into());
        if flag.takes_next {
            out.extend(args.next());
        }
    }
    out.extend(args);
    out
}

struct Flag {
    text: String,
    /// Whether its value is the argument behind it.
    takes_next: bool,
}

impl Flag {
    /// A flag that is known by its long name, whatever its dashes.
    fn of(text: &str, serve: &Command) -> Option<Self> {
        let body = text.strip_prefix("--").or_else(|| text.strip_prefix('-'))?;
        let (name, value) = match body.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (body, None),
        };
        let is_it = |arg: &&clap::Arg| {
            let aliases = arg.get_all_aliases().unwrap_or_default();
            arg.get_long() == Some(name) || aliases.contains(&name)
        };
        let arg = serve.get_arguments().find(is_it)?;
        let is_boolean = arg.is_require_equals_set();
        let text = match value {
            Some(value) => format!("--{name}={value}"),
            None => format!("--{name}"),
        };
        let takes_next = value.is_none() && !is_boolean && arg.get_action().takes_values();
        Some(Self { text, takes_next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: &str) {
        let args = line.split(' ').map(OsString::from).collect();
        let got: Vec<_> =
            rewritten(args).into_iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
        assert_eq!(got.join(" "), expected, "{line}");
    }

    #[test]
    fn dashes_and_booleans() {
        for (line, expected) in [
            ("modgate serve -port 8443", "modgate serve --port 8443"),
            ("modgate serve -v=4 -logtostderr", "modgate serve --v=4 --logtostderr"),
            ("modgate serve -n x", "modgate serve -n x"),
            ("modgate serve -log-denies=T", "modgate serve --log-denies=T"),
            ("modgate serve --log-denies=0", "modgate serve --log-denies=0"),
            ("modgate serve --log-denies=maybe", "modgate serve --log-denies=maybe"),
            ("modgate serve --host -port", "modgate serve --host -port"),
            ("modgate serve -unknown", "modgate serve -unknown"),
            ("modgate serve -- -port", "modgate serve -- -port"),
            ("modgate review -port", "modgate review -port"),
            ("modgate review --help", "modgate review --help"),
            ("modgate help --help", "modgate help"),
            ("modgate help review -h", "modgate help review"),
            ("modgate", "modgate"),
        ] {
            check(line, expected);
        }
    }

    #[test]
    fn usage_has_the_name_that_was_called() {
        for (line, expected) in [
            ("/kubemod -h", "Usage: kubemod [OPTIONS]\n"),
            ("/manager --foo", "Usage: manager [OPTIONS]\n"),
            ("/manager serve --foo", "Usage: manager serve [OPTIONS]\n"),
            ("modgate serve --foo", "Usage: modgate serve [OPTIONS]\n"),
            (
                "/kubemod review -h",
                "Usage: kubemod review [OPTIONS] --filename <PATH> [OBJECT]...\n",
            ),
        ] {
            let words = line.split(' ').map(OsString::from).collect();
            let said = parse(words).expect_err(line).to_string();
            assert!(said.contains(expected), "{line}: {said}");
        }
    }

    #[test]
    fn near_names() {
        for (line, expected) in [
            ("modgate help reviw", "'review'"),
            ("modgate help nothing-like-it", ""),
            ("modgate review --policies x y", "'--filename'"),
            ("modgate audit --format json -f x", "'--output'"),
            ("modgate review --filenam x", "'--filename'"),
            ("modgate migrate --policies x", ""),
            ("modgate reveiw", "'review'"),
            ("modgate review -p x", ""),
        ] {
            let words = line.split(' ').map(OsString::from).collect();
            let said = parse(words).expect_err(line).to_string();
            assert!(said.contains(expected), "{line}: {said}");
            assert_eq!(said.contains("a similar"), !expected.is_empty(), "{line}: {said}");
        }
    }

    #[test]
    fn by_other_names() {
        for (line, expected) in [
            ("/kubemod -operator -webapp", "/kubemod serve --operator --webapp"),
            ("/manager --port=8443", "/manager serve --port=8443"),
            ("/manager", "/manager serve"),
            ("/manager serve -port 1", "/manager serve --port 1"),
            ("/manager version", "/manager version"),
        ] {
            check(line, expected);
        }
    }
}
