//! `cargo xtask test`: everything that proves the project right, in one command.

use std::{
    env,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result};
use modgate_testkit::{Roots, Run, cluster, corpus};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Passed on to `cargo test`, for example `-- --nocapture`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    cargo: Vec<String>,
}

/// Whether all tests and all corpora passed.
#[expect(clippy::print_stdout, reason = "results go there")]
pub(crate) fn run(args: &Args) -> Result<bool> {
    let runs = cargo_run_means_modgate()?;
    let builds = cluster_builds();
    let tests = cargo_test(&args.cargo)?;
    let report = Run { roots: Roots::discover(), filter: None }.execute()?;
    let passed = runs && builds && tests.success && report.is_success();
    println!();
    print!("{}", report.table(!report.is_success()));
    println!();
    println!("tests: {} passed, {} failed, {} ignored", tests.passed, tests.failed, tests.ignored);
    let counts = report.counts();
    println!(
        "corpora: {} cases, {} passed, {} differing by decision, {} failed",
        counts.total(),
        counts.passed,
        counts.differing,
        counts.failed
    );
    println!("{}", if passed { "all passed" } else { "FAILED" });
    Ok(passed)
}

/// Whether the README's first command can work: plain `cargo run` has to find the one binary.
#[expect(clippy::print_stdout, reason = "cargo's own output is passed on")]
fn cargo_run_means_modgate() -> Result<bool> {
    let output =
        cargo().args(["run", "--quiet", "--", "version"]).output().context("cannot run cargo")?;
    let version = String::from_utf8_lossy(&output.stdout);
    let works = output.status.success() && version.contains("modgate");
    if !works {
        println!(
            "FAILED cargo run -- version\n{version}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(works)
}

/// Builds the test cluster, if it is to be built: here it can say how far it is, while tests that
/// build it only seem to hang.
#[expect(clippy::print_stdout, reason = "results go there")]
fn cluster_builds() -> bool {
    if env::var_os(cluster::ASSETS).is_some() || !cluster::build::has_go() {
        return true;
    }
    match cluster::build::with_progress() {
        Ok(_) => true,
        Err(error) => {
            println!("FAILED test cluster\n{error:#}");
            false
        }
    }
}

/// Cargo, in the repository.
fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(corpus::repository());
    cargo
}

#[derive(Default)]
struct Tests {
    success: bool,
    passed: u64,
    failed: u64,
    ignored: u64,
}

#[expect(clippy::print_stdout, reason = "cargo's own output is passed on")]
fn cargo_test(arguments: &[String]) -> Result<Tests> {
    let mut child = cargo()
        .args(["test", "--workspace", "--no-fail-fast", "--quiet"])
        .args(arguments)
        // Tests of what a terminal is not shown.
        .env_remove("CLICOLOR_FORCE")
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run cargo")?;
    let mut tests = Tests::default();
    let stdout = child.stdout.take().context("no output of cargo")?;
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        println!("{line}");
        tests.count(&line);
    }
    tests.success = child.wait()?.success();
    Ok(tests)
}

impl Tests {
    /// Adds up `test result: ok. 3 passed; 0 failed; 1 ignored; ...`.
    fn count(&mut self, line: &str) {
        let Some(result) = line.trim_start().strip_prefix("test result: ") else { return };
        let (_, numbers) = result.split_once(". ").unwrap_or(("", result));
        for part in numbers.split("; ") {
            let Some((number, what)) = part.split_once(' ') else { continue };
            let Ok(number) = number.parse::<u64>() else { continue };
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals() {
        let mut tests = Tests::default();
        tests.count("test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out");
        tests.count("test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured");
        tests.count("test something ... ok");
        assert_eq!((tests.passed, tests.failed, tests.ignored), (14, 3, 1));
    }
}
