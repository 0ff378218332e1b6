//! `modgate`: Kubernetes admission policies, on the command line and as webhooks.
//!
//! Every verb is the same three steps: arguments to typed configuration, run, [`Exit`]. Decisions
//! come from `modgate-engine`, files from `modgate-policies`, sockets from `modgate-server`. The verbs of `gator` are
//! `modgate-gator`'s, which reads their arguments itself; called as `gator`, this is nothing else.

mod args;
mod audit;
mod check;
mod cli;
mod cluster;
mod codes;
mod compare;
mod constraints;
mod convert;
mod decision;
mod exit;
mod explain;
mod findings;
mod fmt;
mod gator;
mod init;
mod inputs;
mod lines;
mod lint;
mod live;
mod migrate;
mod outputs;
mod page;
mod paths;
mod plan;
mod playground;
mod probe;
mod render;
mod review;
mod select;
mod serve;
mod terminal;

use std::{
    env,
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
};

use clap::CommandFactory as _;
use modgate_value::Value;

use crate::{
    args::TextOrJson,
    cli::{Args, CompletionTarget, Verb},
    exit::{Exit, is_closed},
    terminal::Terminal,
};

/// Runs the command line of this process; the whole of the binary.
pub fn main() -> ExitCode {
    if let Some(code) = gator::answer() {
        return code;
    }
    if let Some(code) = codes::answer() {
        return code;
    }
    let args = cli::parsed();
    let terminal = Terminal::new(args.color);
    let done = match args.verb {
        Verb::Serve(args) => serve::run(*args, &terminal),
        Verb::Review(args) => review::run(&args, &terminal),
        Verb::Explain(args) => explain::run(&args, &terminal),
        Verb::Playground(args) => playground::run(&args),
        Verb::Why(args) => live::why(&args, &terminal),
        Verb::Ui(args) => live::ui(&args, &terminal),
        Verb::Status(args) => live::status(&args, &terminal),
        Verb::Probe(args) => probe::run(&args, &terminal),
        Verb::Plan(args) => plan::run(&args, &terminal),
        Verb::Audit(args) => audit::run(&args, &terminal),
        Verb::Compare(args) => compare::run(&args, &terminal),
        Verb::Convert(args) => convert::run(&args, &terminal),
        Verb::Lint(args) => lint::run(&args, &terminal),
        Verb::Fmt(args) => fmt::run(&args, &terminal),
        Verb::Select(args) => select::run(&args, &terminal),
        Verb::Render(verb) => render::run(&verb, &terminal),
        Verb::Migrate(args) => migrate::run(&args, &terminal),
        Verb::Gator(_) => return gator::run(),
        Verb::Check(args) => check::run(&args, &terminal),
        Verb::Init(args) => init::run(&args),
        Verb::Version { output } => version(output),
        Verb::Metrics => metrics(),
        Verb::Completion { target, folder } => completion(target, &folder),
    };
    done.unwrap_or_else(|error| exit_of(&error, &terminal)).into()
}

fn version(output: TextOrJson) -> anyhow::Result<Exit> {
    let version = env!("CARGO_PKG_VERSION");
    match output {
        TextOrJson::Text => writeln!(io::stdout(), "modgate {version}")?,
        TextOrJson::Json => {
            let platform = format!("{}/{}", env::consts::OS, env::consts::ARCH);
            let members = [
                ("version", Value::from(version)),
                ("opa", modgate_gator::OPA.into()),
                ("platform", platform.into()),
            ];
            outputs::print_json(&mut io::stdout(), &members.into_iter().collect())?;
        }
    }
    Ok(Exit::Success)
}

/// The page docs/metrics.md, for `cargo xtask codegen`.
fn metrics() -> anyhow::Result<Exit> {
    let page = modgate_telemetry::metrics::Metrics::new().documentation();
    io::stdout().write_all(page.as_bytes())?;
    Ok(Exit::Success)
}

fn completion(target: CompletionTarget, folder: &Path) -> anyhow::Result<Exit> {
    use clap_complete::Shell;
    let shell = match target {
        CompletionTarget::Bash => Shell::Bash,
        CompletionTarget::Elvish => Shell::Elvish,
        CompletionTarget::Fish => Shell::Fish,
        CompletionTarget::PowerShell => Shell::PowerShell,
        CompletionTarget::Zsh => Shell::Zsh,
        CompletionTarget::Man => {
            std::fs::create_dir_all(folder)?;
            clap_mangen::generate_to(Args::command(), folder)?;
            return Ok(Exit::Success);
        }
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "modgate", &mut script);
    io::stdout().write_all(&script)?;
    Ok(Exit::Success)
}

fn exit_of(error: &anyhow::Error, terminal: &Terminal) -> Exit {
    if is_closed(error) {
        return Exit::Success;
    }
    terminal.error(&format!("{error:#}"));
    Exit::BadInput
}
