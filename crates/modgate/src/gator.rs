//! The verbs of `gator`.

mod cluster;

use std::{
    env,
    ffi::OsString,
    io::{self, Read},
    path::{Path, PathBuf},
    process::ExitCode,
};

use modgate_gator::{Io, is_verb};

/// The name by which this program is `gator` and nothing else.
const NAME: &str = "gator";

/// Answers as `gator` does, if that is what was called: by that name, or with one of its verbs.
pub(crate) fn answer() -> Option<ExitCode> {
    let mut args = env::args_os();
    let program = args.next().unwrap_or_default();
    let is_gator = Path::new(&program).file_stem().is_some_and(|name| name == NAME);
    let verb = args.next();
    let is_ours = is_gator || verb.as_deref().and_then(|verb| verb.to_str()).is_some_and(is_verb);
    is_ours.then(run)
}

/// Runs the command line of this process.
pub(crate) fn run() -> ExitCode {
    let args: Vec<OsString> = env::args_os().collect();
    ExitCode::from(run_line(&without_color(args)))
}

/// The line without `--color`: these verbs print no colours, and gator has no such flag.
fn without_color(args: Vec<OsString>) -> Vec<OsString> {
    let is_gator =
        args.first().is_some_and(|name| Path::new(name).file_stem() == Some(NAME.as_ref()));
    if is_gator {
        return args;
    }
    let mut out = Vec::with_capacity(args.len());
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        let known = |value: &str| ["auto", "always", "never"].contains(&value);
        match arg.to_str() {
            Some("--") => {
                out.push(arg);
                break;
            }
            Some("--color") => match args.next() {
                Some(value) if value.to_str().is_some_and(known) => {}
                value => out.extend([arg].into_iter().chain(value)),
            },
            Some(text) if text.strip_prefix("--color=").is_some_and(known) => {}
            _ => out.push(arg),
        }
    }
    out.extend(args);
    out
}

/// Runs a command line, whose first word is the name of the program, and returns its exit code.
pub(crate) fn run_line(args: &[OsString]) -> u8 {
    let directory = env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    let mut stdin = io::stdin();
    let mut io = Io {
        stdin: (!stdin_is_character_device()).then_some(&mut stdin as &mut dyn Read),
        stdout: &mut io::stdout().lock(),
        stderr: &mut io::stderr(),
        directory: &directory,
        env: &|name| env::var(name).ok(),
        connect: cluster::connect,
    };
    modgate_gator::run(args, &mut io)
}

/// A terminal or the null device, which gator does not read.
#[cfg(unix)]
fn stdin_is_character_device() -> bool {
    use std::{
        fs::File,
        os::{fd::AsFd as _, unix::fs::FileTypeExt as _},
    };
    let Ok(descriptor) = io::stdin().as_fd().try_clone_to_owned() else { return true };
    File::from(descriptor).metadata().is_ok_and(|metadata| metadata.file_type().is_char_device())
}

/// A terminal, which gator does not read.
#[cfg(not(unix))]
fn stdin_is_character_device() -> bool {
    use std::io::IsTerminal as _;
    io::stdin().is_terminal()
}
