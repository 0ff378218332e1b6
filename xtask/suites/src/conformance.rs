//! `cargo xtask conformance`: the corpora, from the command line.

use std::path::PathBuf;

use anyhow::Result;
use clap::ValueEnum;
use modgate_testkit::{Roots, Run};
use modgate_value::json;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run what is in this folder only. Default: the folder `MODGATE_CONFORMANCE` names,
    /// `conformance/`, and `../shared/conformance`, as far as they exist; a file with the same
    /// content in several of them runs once.
    folder: Option<PathBuf>,
    /// Run only files whose name, or cases whose `file#id`, contains this.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Print every failing case with what was expected and what came out.
    #[arg(long, short)]
    verbose: bool,
    /// How to print the result.
    #[arg(long, short, value_enum, default_value_t)]
    output: Output,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Output {
    #[default]
    Text,
    Json,
}

/// Whether every case passed or differs by decision.
#[expect(clippy::print_stdout, reason = "results go there")]
pub(crate) fn run(args: &Args) -> Result<bool> {
    let roots = match &args.folder {
        Some(folder) => Roots::only(folder.clone())?,
        None => Roots::discover(),
    };
    let report = Run { roots, filter: args.filter.clone() }.execute()?;
    match args.output {
        Output::Text => print!("{}", report.table(args.verbose)),
        Output::Json => {
            let mut text = String::new();
            json::write_pretty(&report.to_json(), &mut text, "  ", json::Escape::Minimal);
            println!("{text}");
        }
    }
    Ok(report.is_success())
}
