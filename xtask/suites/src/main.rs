//! The project tasks that are built with modgate: suites, generated files, load. `cargo xtask` builds and
//! runs this.

mod codegen;
mod conformance;
mod content;
#[expect(clippy::indexing_slicing, reason = "a generator picks from lists it has made")]
mod differential;
mod fuzz;
mod load;
mod program;
mod scale;
mod soak;
mod test;
mod throughput;
mod train;
mod versus;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
    /// Ask an original's own packages and modgate the same random programs; print what differs.
    Differential(differential::Args),
    /// Write the files that are made from code.
    Codegen(codegen::Args),
    /// Run libFuzzer on the fuzz targets; print executions, coverage and findings.
    Fuzz(fuzz::Args),
    /// Attack a server and change its policies while it answers; check every answer.
    Soak(soak::Args),
    /// Drive a webhook over TLS on loopback and check every answer; print rate and latencies.
    Load(load::Args),
    /// Create Pods with the same policies in the API server and in modgate's webhook; print rates and costs.
    Throughput(throughput::Args),
    /// Count how often each piece of modgate runs, for the build of what ships.
    Train(train::Args),
    /// Fill a cluster with objects and policies; print start, memory, times and costs.
    Scale(scale::Args),
    /// Let the originals' programs and modgate do the same work in turn; compare answers and print figures.
    Versus(versus::Args),
}

fn main() -> ExitCode {
    let result = match Args::parse().task {
        Task::Test(args) => test::run(&args),
        Task::Conformance(args) => conformance::run(&args),
        Task::Differential(args) => differential::run(&args),
        Task::Codegen(args) => codegen::run(&args),
        Task::Fuzz(args) => fuzz::run(&args),
        Task::Soak(args) => soak::run(&args),
        Task::Load(args) => load::run(&args),
        Task::Throughput(args) => throughput::run(&args),
        Task::Train(args) => train::run(&args),
        Task::Scale(args) => scale::run(&args),
        Task::Versus(args) => versus::run(&args),
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
