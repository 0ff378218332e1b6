//! Project automation: `cargo xtask <TASK>`.
//!
//! Every task is what a person runs and what `.ci/run` runs; there is no other way in. Tasks that read files
//! are here. Those that need modgate itself are in `xtask-suites`, which is built when one of them is run.

mod dist;
mod docs;
mod layers;
mod links;
mod mistakes;
mod pair;
mod playground;
mod site;
mod supply;
mod words;

use std::{
    env,
    ffi::OsString,
    process::{ExitCode, exit},
};

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use modgate_corpus::{corpus, program};

/// modgate's project tasks.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Run every test of the workspace, then every corpus; print the totals.
    Test(Rest),
    /// Run the conformance corpora and print a table per file.
    Conformance(Rest),
    /// Ask an original's own packages and modgate the same random programs; print what differs.
    Differential(Rest),
    /// Write the files that are made from code.
    Codegen(Rest),
    /// Make authors' mistakes and compare what the binary says of them with what it should say.
    Mistakes(mistakes::Args),
    /// Find ids of rules and relative links that lead nowhere.
    Docs(docs::Args),
    /// Build the site: pages, examples and playground; follow every link of it.
    Site(site::Args),
    /// Run libFuzzer on the fuzz targets; print executions, coverage and findings.
    Fuzz(Rest),
    /// Hold the crates to the layering of docs/architecture.md.
    Layers(layers::Args),
    /// Make a release: programs, image, chart, their digests, signatures, provenance and notes.
    Dist(dist::Args),
    /// Run two builds of a bench in turn; print the ratio of each pair.
    Pair(pair::Args),
    /// Build the playground, which the next build of modgate contains; needs Node.
    Playground(playground::Args),
    /// Hold what ships to the licenses and sources of deny.toml, or write its bill of materials.
    Supply(supply::Args),
    /// Attack a server and change its policies while it answers; check every answer.
    Soak(Rest),
    /// Drive a webhook over TLS on loopback and check every answer; print rate and latencies.
    Load(Rest),
    /// Create Pods with the same policies in the API server and in modgate's webhook; print rates and costs.
    Throughput(Rest),
    /// Count how often each piece of modgate runs, for the build of what ships.
    Train(Rest),
    /// Fill a cluster with objects and policies; print start, memory, times and costs.
    Scale(Rest),
    /// Let the originals' programs and modgate do the same work in turn; compare answers and print figures.
    Versus(Rest),
}

/// The arguments of a task of `xtask-suites`, its options included.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
struct Rest {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

fn main() -> ExitCode {
    let result = match Args::parse().task {
        Task::Mistakes(args) => mistakes::run(&args),
        Task::Docs(args) => docs::run(&args),
        Task::Site(args) => site::run(&args),
        Task::Layers(args) => layers::run(&args),
        Task::Dist(args) => dist::run(&args),
        Task::Pair(args) => pair::run(&args),
        Task::Playground(args) => playground::run(&args),
        Task::Supply(args) => supply::run(&args),
        Task::Test(_)
        | Task::Conformance(_)
        | Task::Differential(_)
        | Task::Codegen(_)
        | Task::Fuzz(_)
        | Task::Soak(_)
        | Task::Load(_)
        | Task::Throughput(_)
        | Task::Train(_)
        | Task::Scale(_)
        | Task::Versus(_) => suites(),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            report(&error);
            ExitCode::from(2)
        }
    }
}

#[expect(clippy::print_stderr, reason = "a command line's errors go there")]
fn report(error: &anyhow::Error) {
    eprintln!("error: {error:#}");
}

/// Builds `xtask-suites` and runs it with the arguments of this process.
fn suites() -> Result<bool> {
    let manifest = corpus::repository().join("Cargo.toml");
    let status = program::cargo()
        .args(["run", "--quiet", "--package", "xtask-suites", "--manifest-path"])
        .arg(manifest)
        .arg("--")
        .args(env::args_os().skip(1))
        .status()
        .context("cannot run cargo")?;
    match status.code() {
        Some(code @ (0 | 1)) => Ok(code == 0),
        // It has reported why.
        _ => exit(status.code().unwrap_or(2)),
    }
}
