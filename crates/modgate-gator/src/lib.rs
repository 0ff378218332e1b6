//! The `gator` command line: Gatekeeper's offline tool, on modgate's engine
//! (spec `gatekeeper-mutation…`, section 7).
//!
//! [`run`] is the whole of it: arguments and an [`Io`] in, an exit code out. Nothing else of the
//! process is touched, so that the conformance corpora run it many times over in one process. The
//! binary embeds the same verbs (`modgate test`) and answers as `gator` when called by that name.
//!
//! Each verb is a module: [`test`](mod@test), [`verify`], [`expand`], [`sync`]. They share reading
//! (`read`), the policies of an input (`policies`) and how things are printed (`print`).

//!
//! ```
//! use modgate_gator::{Io, no_cluster, run};
//!
//! let (mut results, mut notes) = (Vec::new(), Vec::new());
//! let mut io = Io {
//!     stdin: None,
//!     stdout: &mut results,
//!     stderr: &mut notes,
//!     directory: ".".as_ref(),
//!     env: &|_| None,
//!     connect: no_cluster,
//! };
//! let code = run(&["gator".into(), "verify".into(), "no-such-folder".into()], &mut io);
//! assert_eq!(code, 1);
//! assert!(String::from_utf8_lossy(&notes).contains("no-such-folder"));
//! ```

mod args;
mod bench;
mod cli;
mod expand;
mod expander;
mod files;
mod finding;
pub mod flags;
mod help;
mod object;
mod oci;
mod outside;
mod policies;
mod policy;
mod print;
pub mod progress;
mod read;
mod review;
mod sync;
mod test;
pub mod verify;
mod work;

use std::{
    ffi::OsString,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

pub use self::{
    cli::{OPA, Verb, is_verb},
    oci::{pull, unpack},
    policy::{Cluster, Connect, no_cluster},
};

/// The streams, folder and environment of a run.
pub struct Io<'a> {
    /// Standard input; `None` if it is a character device, which gator does not read (7.2).
    pub stdin: Option<&'a mut dyn Read>,
    /// Results.
    pub stdout: &'a mut dyn Write,
    /// Everything else.
    pub stderr: &'a mut dyn Write,
    /// The folder to which relative paths refer.
    pub directory: &'a Path,
    /// Environment variables by name.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// Connects to the cluster that `policy` installs into.
    pub connect: Connect,
}

impl Io<'_> {
    /// A path of the command line, resolved against the folder.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.directory.join(path)
    }

    /// A line on standard output.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), VerbFailure> {
        self.print(text)?;
        self.print("\n")
    }

    /// Text on standard output.
    pub(crate) fn print(&mut self, text: &str) -> Result<(), VerbFailure> {
        self.stdout.write_all(text.as_bytes()).map_err(VerbFailure::output)
    }

    /// A line on standard error; a failure cannot be reported.
    pub(crate) fn note(&mut self, text: &str) {
        let _ = writeln!(self.stderr, "{text}");
    }
}

/// Why a verb ends early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VerbFailure {
    /// The message for standard error, without the last line break; `None` if it has been printed.
    pub(crate) message: Option<String>,
    /// The exit code.
    pub(crate) code: u8,
    /// Whether the verb did its work and this is the result, such as a failed test.
    pub(crate) is_result: bool,
}

impl VerbFailure {
    /// `<text>`, exit code 1: how `test`, `expand`, `sync test` and `bench` fail.
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self { message: Some(text.into()), code: 1, is_result: false }
    }

    /// `Error: <text>`, exit code 1: how `verify` and `policy` fail.
    pub(crate) fn error(text: impl AsRef<str>) -> Self {
        Self::plain(format!("Error: {}", text.as_ref()))
    }

    /// The same text for the result of a verb that did its work.
    pub(crate) fn result(self) -> Self {
        Self { is_result: true, ..self }
    }

    /// This exit code without another word.
    pub(crate) fn silent(code: u8) -> Self {
        Self { message: None, code, is_result: false }
    }

    /// Standard output failed. If its reader closed it, that is no error.
    fn output(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::silent(0),
            _ => Self::plain(format!("writing output: {}", files::os_text(&error))),
        }
    }
}

/// Runs a command line, whose first argument is the name the program was called by, and returns
/// its exit code (7.1).
pub fn run(args: &[OsString], io: &mut Io<'_>) -> u8 {
    let done = cli::dispatch(args, io);
    let flushed = io.stdout.flush().map_err(VerbFailure::output);
    match done.and_then(|code| flushed.map(|()| code)) {
        Ok(code) => code,
        Err(VerbFailure { message, code, is_result }) => {
            if let Some(message) = message {
                io.note(&message);
            }
            // gator has one code for results and for what is not valid; `policy` has its own codes.
            let is_ours = !cli::is_gator(args) && args.get(1).is_none_or(|verb| verb != "policy");
            if code == 1 && is_ours && !is_result { 2 } else { code }
        }
    }
}
