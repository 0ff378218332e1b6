//! Exit codes.

use std::{io, process::ExitCode};

/// The exit codes, the same for every verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// 0: every object is allowed; the server stopped gracefully.
    Success,
    /// 1: an object is denied; the server received two signals to stop.
    Denied,
    /// 2: arguments, files, policies or objects are not valid; the server could not start, or could not
    /// go on. Nothing can be concluded about the objects.
    BadInput,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Success => 0,
            Exit::Denied => 1,
            Exit::BadInput => 2,
        })
    }
}

/// Whether the reader of our output has closed it: `modgate review … | head`. That is no error.
pub(crate) fn is_closed(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// For `--help`.
pub(crate) const TABLE: &str = "\
Exit codes:
  0  every object is allowed
  1  at least one object is denied
  2  arguments, files, policies or objects are not valid";
