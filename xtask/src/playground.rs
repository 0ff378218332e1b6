//! `cargo xtask playground`: builds the playground, which the next build of modgate contains.

use std::{env, process::Command};

use anyhow::{Context as _, Result};
use modgate_corpus::{corpus, program};

const TARGET: &str = "wasm32-unknown-unknown";
const PROFILE: &str = "page";
/// The stack of the module, in bytes: recursion is bounded for that of a thread.
const STACK: u32 = 4 << 20;

/// Options of `cargo xtask playground`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Build the page alone, with the engine as it was built last.
    #[arg(long)]
    page: bool,
}

/// Builds the engine as WebAssembly, then the page.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let root = corpus::repository();
    if !args.page {
        let mut build = program::cargo();
        build
            .args(["rustc", "--package", "modgate-playground-wasm", "--lib"])
            .args(["--crate-type", "cdylib", "--target", TARGET, "--profile", PROFILE])
            .arg("--")
            .args(["-C", &format!("link-arg=-zstack-size={STACK}")]);
        if !build.status().context("cannot run cargo")?.success() {
            return Ok(false);
        }
    }
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    let module = target.join(TARGET).join(PROFILE).join("modgate_playground_wasm.wasm");
    let mut page = Command::new("npm");
    page.args(["run", "--silent", "playground", "--"]).arg(module).current_dir(root.join("ui"));
    Ok(page
        .status()
        .context("cannot run npm: install Node 20 or later, then run `npm ci` in ui/")?
        .success())
}
