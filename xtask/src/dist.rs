//! `cargo xtask dist`: what ships, and what it is made of.

use std::{path::PathBuf, process::Command};

use anyhow::{Context as _, Result};
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
    let bill = folder.join("modgate.cdx.json");
    let allowed = supply::write_bill(&corpus::repository().join(&bill))?;
    println!("{}\n{}", folder.join("modgate").display(), bill.display());
    Ok(allowed)
}
