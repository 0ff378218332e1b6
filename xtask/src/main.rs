//! Project automation: `cargo xtask <TASK>`.
//!
//! Every task is what a person runs and what `.ci/run` runs; there is no other way in.

mod codegen;
mod conformance;
mod docs;
mod fuzz_seeds;
mod layers;
mod load;
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
    /// Run the conformance corpora and print a table per file.
    Conformance(conformance::Args),
    /// Write the files that are made from code.
    Codegen(codegen::Args),
    /// Find ids of rules and relative links that lead nowhere.
    Docs(docs::Args),
    /// Fill `fuzz/corpus` from the conformance corpora.
    FuzzSeeds,
    /// Hold the crates to the layering of docs/architecture.md.
    Layers(layers::Args),
    /// Drive a webhook over TLS on loopback and check every answer; print rate and latencies.
    Load(load::Args),
}

fn main() -> ExitCode {
    let result = match Args::parse().task {
        Task::Test(args) => test::run(&args),
        Task::Conformance(args) => conformance::run(&args),
        Task::Codegen(args) => codegen::run(&args),
        Task::Docs(args) => docs::run(&args),
        Task::FuzzSeeds => fuzz_seeds::run(),
        Task::Layers(args) => layers::run(&args),
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
