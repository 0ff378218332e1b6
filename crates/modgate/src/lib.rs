//! `modgate`: Kubernetes admission policies, on the command line and as a webhook.
//!
//! Every verb is the same three steps: arguments to typed configuration, run, [`Exit`]. Decisions
//! come from `modgate-engine`, files from `modgate-policies`, sockets from `modgate-server`. The verbs of `gator` are
//! `modgate-gator`'s, which reads their arguments itself; called as `gator`, this is nothing else.

mod args;
mod audit;
mod compare;
mod constraints;
mod exit;
mod explain;
mod gator;
mod inputs;
mod lint;
mod migrate;
mod page;
mod plan;
mod progress;
mod render;
mod review;
mod select;
mod serve;
mod terminal;

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use clap::CommandFactory as _;

use crate::{
    args::{Args, Verb},
    exit::Exit,
    terminal::Terminal,
};

/// Runs the command line of this process; the whole of the binary.
pub fn main() -> ExitCode {
    if let Some(code) = gator::answer() {
        return code;
    }
    let args = args::parsed();
    let terminal = Terminal::detect();
    let done = match args.verb {
        Verb::Serve(args) => serve::run(*args, &terminal),
        Verb::Review(args) => review::run(&args, &terminal),
        Verb::Explain(args) => explain::run(&args, &terminal),
        Verb::Plan(args) => plan::run(&args, &terminal),
        Verb::Audit(args) => audit::run(&args, &terminal),
        Verb::Compare(args) => compare::run(&args, &terminal),
        Verb::Lint(args) => lint::run(&args, &terminal),
        Verb::Select(args) => select::run(&args, &terminal),
        Verb::Render(verb) => render::run(&verb, &terminal),
        Verb::Migrate(args) => migrate::run(&args, &terminal),
        Verb::Gator(_) => return gator::run(),
        Verb::Version => version(),
        Verb::Metrics => metrics(),
        Verb::Completion { shell } => completion(shell),
    };
    done.unwrap_or_else(|error| exit_of(&error, &terminal)).into()
}

fn version() -> anyhow::Result<Exit> {
    writeln!(io::stdout(), "modgate {}", env!("CARGO_PKG_VERSION"))?;
    Ok(Exit::Success)
}

/// What `cargo xtask codegen` makes docs/metrics.md of.
fn metrics() -> anyhow::Result<Exit> {
    let page = modgate_telemetry::metrics::Metrics::new().documentation();
    io::stdout().write_all(page.as_bytes())?;
    Ok(Exit::Success)
}

fn completion(shell: clap_complete::Shell) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "modgate", &mut script);
    io::stdout().write_all(&script)?;
    Ok(Exit::Success)
}

fn exit_of(error: &anyhow::Error, terminal: &Terminal) -> Exit {
    // Whoever reads our output has seen enough: `modgate review … | head`.
    let closed = error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
    if closed {
        return Exit::Success;
    }
    terminal.error(&format!("{error:#}"));
    Exit::BadInput
}
