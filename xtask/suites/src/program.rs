//! The program that a task runs and measures.

use std::{env, path::PathBuf};

use anyhow::{Result, ensure};
use modgate_testkit::corpus;

#[derive(Debug, clap::Args)]
pub(crate) struct ProgramArgs {
    /// The program of modgate. Default: `dist/modgate` in Cargo's target folder, which must have been built.
    #[arg(long, value_name = "PROGRAM")]
    binary: Option<PathBuf>,
}

/// The folder of what Cargo builds.
pub(crate) fn targets() -> PathBuf {
    let named = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    named.unwrap_or_else(|| corpus::repository().join("target"))
}

impl ProgramArgs {
    /// Where the program is, wherever the caller's folder is.
    ///
    /// # Errors
    ///
    /// It has not been built.
    pub(crate) fn path(&self) -> Result<PathBuf> {
        let built = || targets().join("dist/modgate");
        let program = self.binary.clone().unwrap_or_else(built);
        ensure!(
            program.is_file(),
            "there is no program `{}`; `cargo build --profile dist` makes it, `--binary` names another",
            program.display()
        );
        Ok(program.canonicalize()?)
    }
}
