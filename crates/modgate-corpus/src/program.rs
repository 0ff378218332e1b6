//! The modgate of this checkout, as a person runs it.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use anyhow::{Context as _, Result, ensure};
use modgate_value::Value;

use crate::corpus;

/// Builds the program, once in a process; where it is.
///
/// # Errors
///
/// Cargo cannot run, or it does not build.
pub fn built() -> Result<&'static Path> {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    if let Some(path) = BUILT.get() {
        return Ok(path);
    }
    let built = build()?;
    Ok(BUILT.get_or_init(|| built))
}

fn build() -> Result<PathBuf> {
    // With the testkit, so that dependencies have the features that they have in tests: alone, tokio and all
    // that depends on it would be compiled again.
    let output = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet", "--package", "modgate", "--package", "modgate-testkit"])
        .args(["--message-format", "json-render-diagnostics"])
        .current_dir(corpus::repository())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    ensure!(output.status.success(), "modgate does not build");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut executables = text.lines().filter_map(|line| {
        let message = Value::from_json(line.as_bytes()).ok()?;
        Some(PathBuf::from(message.get("executable")?.as_str()?))
    });
    executables
        .find(|path| path.file_stem().is_some_and(|name| name == "modgate"))
        .context("cargo built no `modgate`")
}
