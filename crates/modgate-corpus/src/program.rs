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

/// Cargo, in the repository, with the environment of a person's shell: cargo tells a task that it runs what package
/// that is, and build scripts that read this (ring's does) would run again, with all that depends on them.
pub fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // `cargo xtask test` sets it for the programs of tests alone.
    cargo.current_dir(corpus::repository()).env_remove("RUSTC_BOOTSTRAP");
    for (name, _) in env::vars_os() {
        let of_package =
            |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
        if name.to_str().is_some_and(of_package) {
            cargo.env_remove(name);
        }
    }
    cargo
}

/// Builds the program, once in a process; where it is.
///
/// # Errors
///
/// Cargo cannot run, or it does not build.
pub fn built() -> Result<&'static Path> {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    // With the testkit, so that dependencies have the features that they have in tests: alone, tokio and all
    // that depends on it would be compiled again.
    once(&BUILT, "modgate", &["--package", "modgate", "--package", "modgate-testkit"])
}

/// Builds `cargo xtask`, once in a process; where it is. Started with `cargo run` by a test, it would be compiled again
/// with all that reads the variables that the test sets for it.
///
/// # Errors
///
/// Cargo cannot run, or it does not build.
pub fn task() -> Result<&'static Path> {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    once(&BUILT, "xtask", &["--package", "xtask"])
}

fn once(built: &'static OnceLock<PathBuf>, name: &str, packages: &[&str]) -> Result<&'static Path> {
    if let Some(path) = built.get() {
        return Ok(path);
    }
    let path = build(name, packages)?;
    Ok(built.get_or_init(|| path))
}

fn build(name: &str, packages: &[&str]) -> Result<PathBuf> {
    let output = cargo()
        .args(["build", "--quiet", "--message-format", "json-render-diagnostics"])
        .args(packages)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    ensure!(output.status.success(), "{name} does not build");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut executables = text.lines().filter_map(|line| {
        let message = Value::from_json(line.as_bytes()).ok()?;
        Some(PathBuf::from(message.get("executable")?.as_str()?))
    });
    executables
        .find(|path| path.file_stem().is_some_and(|stem| stem == name))
        .with_context(|| format!("cargo built no `{name}`"))
}
