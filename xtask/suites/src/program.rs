//! The program that a task runs and measures.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use modgate_testkit::corpus;

#[derive(Debug, clap::Args)]
pub(crate) struct ProgramArgs {
    /// The program of modgate. Default: `target/dist/modgate`, which must have been built.
    #[arg(long, value_name = "PROGRAM")]
    binary: Option<PathBuf>,
}

impl ProgramArgs {
    /// Where the program is, wherever the caller's folder is.
    ///
    /// # Errors
    ///
    /// It has not been built.
    pub(crate) fn path(&self) -> Result<PathBuf> {
        let built = || corpus::repository().join("target/dist/modgate");
        let program = self.binary.clone().unwrap_or_else(built);
        ensure!(
            program.is_file(),
            "there is no program `{}`; `cargo build --profile dist` makes it, `--binary` names another",
            program.display()
        );
        Ok(program.canonicalize()?)
    }
}
