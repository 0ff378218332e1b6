//! `cargo xtask dist`: what ships, and what it is made of.

use std::{env, fs, path::PathBuf, process::Command};

use anyhow::{Context as _, Result, ensure};
use modgate_corpus::corpus;

use crate::supply;

/// Options of `cargo xtask dist`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The target to build for, such as `x86_64-unknown-linux-musl`. Default: this machine.
    #[arg(long, value_name = "TARGET")]
    target: Option<String>,
}

/// Builds the program as the image has it, and writes its bill of materials beside it.
#[expect(clippy::print_stdout, reason = "results go there")]
pub(crate) fn run(args: &Args) -> Result<bool> {
    let mut build = Command::new(corpus::repository().join("deploy/build"));
    if let Some(target) = &args.target {
        build.args(["--target", target]);
    }
    if !build.status().context("cannot run deploy/build")?.success() {
        return Ok(false);
    }
    let folder: PathBuf =
        ["target"].into_iter().chain(args.target.as_deref()).chain(["dist"]).collect();
    let program = folder.join("modgate");
    let bytes = fs::read(corpus::repository().join(&program))
        .with_context(|| program.display().to_string())?;
    let found = folders_in(&bytes, &folders_of_this_machine());
    ensure!(
        found.is_empty(),
        "`{}` names folders of this machine ({}), so another machine builds other bytes",
        program.display(),
        found.join(", ")
    );
    let bill = folder.join("modgate.cdx.json");
    let allowed = supply::write_bill(&corpus::repository().join(&bill))?;
    println!("{}\n{}", program.display(), bill.display());
    Ok(allowed)
}

/// Folders that differ between machines, and that no program may name: the repository, the home of the user,
/// and those of Cargo and rustup.
fn folders_of_this_machine() -> Vec<String> {
    let variables = ["HOME", "CARGO_HOME", "RUSTUP_HOME", "CARGO_TARGET_DIR"];
    let mut folders: Vec<String> =
        variables.into_iter().filter_map(|name| env::var(name).ok()).collect();
    folders.extend(corpus::repository().to_str().map(str::to_owned));
    // Shorter ones, such as `/`, say nothing about a machine.
    folders.retain(|folder| folder.len() > 3);
    folders
}

/// Those of the folders that occur in a program as the beginning of a path.
fn folders_in(program: &[u8], folders: &[String]) -> Vec<String> {
    let occurs = |folder: &&String| {
        let start = format!("{}/", folder.trim_end_matches('/'));
        program.windows(start.len()).any(|window| window == start.as_bytes())
    };
    folders.iter().filter(occurs).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_found_in_a_program() {
        let folders =
            ["/home/ann/src".to_owned(), "/home/ann/.cargo/".to_owned(), "/opt/x".to_owned()];
        let program = b"\0panicked at /home/ann/src/crates/a.rs\0/cargo/registry\0/opt/xy\0";
        assert_eq!(folders_in(program, &folders), ["/home/ann/src"]);
        assert!(folders_in(b"/src/crates/a.rs", &folders).is_empty());
    }
}
