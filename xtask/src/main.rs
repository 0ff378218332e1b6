//! Project automation: `cargo xtask <TASK>`.
//!
//! Every task is what a person runs and what `.ci/run` runs; there is no other way in.

mod codegen;
mod conformance;
#[expect(clippy::indexing_slicing, reason = "a generator picks from lists it has made")]
mod differential;
mod dist;
mod docs;
mod fuzz;
mod layers;
mod load;
mod mistakes;
mod soak;
mod supply;
mod test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
    Test(test::Args),
    /// Run one program of tests, in place of it.
    #[command(hide = true)]
    RunTest(test::RunArgs),
    /// Run the conformance corpora and print a table per file.
    Conformance(conformance::Args),
    /// Ask Gatekeeper's own packages and modgate the same random programs; print what differs.
    Differential(differential::Args),
    /// Write the files that are made from code.
    Codegen(codegen::Args),
    /// Make authors' mistakes and compare what the binary says of them with what it should say.
    Mistakes(mistakes::Args),
    /// Find ids of rules and relative links that lead nowhere.
    Docs(docs::Args),
    /// Run libFuzzer on the fuzz targets; print executions, coverage and findings.
    Fuzz(fuzz::Args),
    /// Hold the crates to the layering of docs/architecture.md.
    Layers(layers::Args),
    /// Build what ships, the same bytes in any folder, with its bill of materials.
    Dist(dist::Args),
    /// Hold what ships to the licenses and sources of deny.toml, or write its bill of materials.
    Supply(supply::Args),
    /// Attack a server and change its policies while it answers; check every answer.
    Soak(soak::Args),
    /// Drive a webhook over TLS on loopback and check every answer; print rate and latencies.
    Load(load::Args),
}

fn main() -> ExitCode {
    let result = match Args::parse().task {
        Task::Test(args) => test::run(&args),
        Task::RunTest(args) => test::run_program(&args),
        Task::Conformance(args) => conformance::run(&args),
        Task::Differential(args) => differential::run(&args),
        Task::Codegen(args) => codegen::run(&args),
        Task::Mistakes(args) => mistakes::run(&args),
        Task::Docs(args) => docs::run(&args),
        Task::Fuzz(args) => fuzz::run(&args),
        Task::Layers(args) => layers::run(&args),
        Task::Dist(args) => dist::run(&args),
        Task::Supply(args) => supply::run(&args),
        Task::Soak(args) => soak::run(&args),
        Task::Load(args) => load::run(&args),
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
