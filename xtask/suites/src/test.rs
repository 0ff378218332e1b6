//! `cargo xtask test`: everything that proves the project right, in one command.

use std::{
    env,
    ffi::OsString,
    io::{BufRead as _, BufReader},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result};
use modgate_testkit::{Roots, Run, cluster, corpus};
use modgate_value::Value;

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
    let mistakes = tests.success && cargo().args(["xtask", "mistakes"]).status()?.success();
    let passed = runs && builds && tests.success && report.is_success() && mistakes;
    println!();
    print!("{}", report.table(!report.is_success()));
    println!();
    println!("the slowest {SLOWEST} tests, in seconds:");
    for Timed { seconds, name } in tests.slowest() {
        println!("{seconds:>9.1}  {name}");
    }
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

/// Whether the README's first command can work: plain `cargo run` has to find the one binary. That the
/// binary works is for its own tests.
#[expect(clippy::print_stdout, reason = "results go there")]
fn cargo_run_means_modgate() -> Result<bool> {
    let metadata = cargo()
        .args(["metadata", "--format-version", "1", "--no-deps", "--locked"])
        .output()
        .context("cannot run cargo")?;
    let metadata = Value::from_json(&metadata.stdout)?;
    let binaries = binaries(&metadata).context("unexpected form of cargo metadata")?;
    let works = binaries == ["modgate"];
    if !works {
        println!("FAILED `cargo run` means {binaries:?}");
    }
    Ok(works)
}

/// The programs of the default members.
fn binaries(metadata: &Value) -> Option<Vec<String>> {
    let defaults = metadata.get("workspace_default_members")?.as_array()?;
    let mut binaries = Vec::new();
    for package in metadata.get("packages")?.as_array()? {
        if !defaults.iter().any(|id| Some(id) == package.get("id")) {
            continue;
        }
        for target in package.get("targets")?.as_array()? {
            if target.get("kind")?.as_array()?.iter().any(|kind| kind.as_str() == Some("bin")) {
                binaries.push(target.get("name")?.as_str()?.to_owned());
            }
        }
    }
    Some(binaries)
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

/// How many of the slowest tests are printed.
const SLOWEST: usize = 10;

#[derive(Default)]
struct Tests {
    success: bool,
    passed: u64,
    failed: u64,
    ignored: u64,
    /// The program whose lines are being read.
    program: String,
    timed: Vec<Timed>,
}

/// A test and how long it took.
#[derive(Debug, Clone, PartialEq)]
struct Timed {
    seconds: f64,
    name: String,
}

/// What the runner of tests is called with, and prints before the name of each program.
const RUNNER: &str = "run-test";
const PROGRAM: &str = "test program ";

/// Arguments of the task that cargo runs in place of each program of tests.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    program: PathBuf,
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Becomes a program of tests that prints how long each one took.
#[expect(clippy::print_stdout, reason = "`cargo_test` reads it")]
pub(crate) fn run_program(args: &RunArgs) -> Result<bool> {
    let mut program = Command::new(&args.program);
    program.args(&args.arguments);
    // Programs of documentation tests are elsewhere, and know no such flag.
    let folder = args.program.parent().and_then(Path::file_name);
    if folder.is_some_and(|folder| folder == "deps") {
        let name = args.program.file_name().unwrap_or_default().to_string_lossy();
        println!("{PROGRAM}{}", name.rsplit_once('-').map_or(&*name, |(name, _)| name));
        // libtest takes its unstable flags from a stable compiler only with an option.
        program.env("RUSTC_BOOTSTRAP", "1").args(["-Zunstable-options", "--report-time"]);
    }
    Err(program.exec()).with_context(|| args.program.display().to_string())
}

#[expect(clippy::print_stdout, reason = "cargo's own output is passed on")]
fn cargo_test(arguments: &[String]) -> Result<Tests> {
    let runner = [env::current_exe()?.display().to_string(), RUNNER.to_owned()];
    let mut child = cargo()
        .args(["test", "--workspace", "--no-fail-fast", "--config"])
        .arg(format!("target.'cfg(unix)'.runner = {runner:?}"))
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
        if tests.is_news(&line) {
            println!("{line}");
        }
    }
    tests.success = child.wait()?.success();
    Ok(tests)
}

impl Tests {
    /// Takes in a line; whether a reader wants to see it: tests that pass are only counted.
    fn is_news(&mut self, line: &str) -> bool {
        if let Some(program) = line.strip_prefix(PROGRAM) {
            program.clone_into(&mut self.program);
            return false;
        }
        self.count(line);
        if let Some(timed) = self.timed(line) {
            self.timed.push(timed);
            return line.contains(" ... FAILED <");
        }
        let is_silent = line.is_empty()
            || line.starts_with("running ")
            || line.starts_with("test result: ok. ")
            || line.starts_with("test ") && line.ends_with(" ... ok");
        !is_silent
    }

    /// Of `test some::name ... ok <1.234s>`.
    fn timed(&self, line: &str) -> Option<Timed> {
        let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
        let seconds = rest.rsplit_once('<')?.1.strip_suffix("s>")?.parse().ok()?;
        Some(Timed { seconds, name: format!("{}: {name}", self.program) })
    }

    fn slowest(&self) -> Vec<Timed> {
        let mut timed = self.timed.clone();
        timed.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        timed.truncate(SLOWEST);
        timed
    }

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
    fn only_default_members_are_run() {
        let metadata = br#"{"workspace_default_members": ["a", "b"], "packages": [
            {"id": "a", "targets": [{"kind": ["lib"], "name": "l"}, {"kind": ["bin"], "name": "m"}]},
            {"id": "b", "targets": [{"kind": ["bench"], "name": "n"}]},
            {"id": "c", "targets": [{"kind": ["bin"], "name": "xtask"}]}]}"#;
        let metadata = Value::from_json(metadata).expect("JSON");
        assert_eq!(binaries(&metadata), Some(vec!["m".to_owned()]));
    }

    #[test]
    fn totals() {
        let mut tests = Tests::default();
        tests.count("test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out");
        tests.count("test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured");
        tests.count("test something ... ok");
        assert_eq!((tests.passed, tests.failed, tests.ignored), (14, 3, 1));
    }

    #[test]
    fn the_slowest_come_first() {
        let mut tests = Tests::default();
        let lines = [
            ("test program router", false),
            ("running 2 tests", false),
            ("test a::quick ... ok <0.001s>", false),
            ("test a::slow ... ok <12.500s>", false),
            ("test a::wrong ... FAILED <0.100s>", true),
            ("---- a::wrong stdout ----", true),
            ("test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured", true),
        ];
        for (line, is_news) in lines {
            assert_eq!(tests.is_news(line), is_news, "{line}");
        }
        let names: Vec<String> = tests.slowest().into_iter().map(|timed| timed.name).collect();
        assert_eq!(names, ["router: a::slow", "router: a::wrong", "router: a::quick"]);
        assert_eq!((tests.passed, tests.failed), (2, 1));
    }
}
