//! What operators see: logs on standard error, metrics on `/metrics`.

mod limited;
mod log;
pub mod metrics;
pub mod otlp;

#[cfg(test)]
pub(crate) use log::capture;
pub use log::{LevelEncoder, LogConfig, LogError, LogFormat, TimeEncoding, init_logs, log_finding};

use std::{error::Error, fmt};

/// An error with its causes on one line.
pub(crate) struct Chain<'a>(pub(crate) &'a dyn Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}
