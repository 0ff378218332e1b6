//! `cargo xtask fuzz`: libFuzzer on every target, on the toolchain of this repository.
//!
//! `modgate-fuzz` is built with the coverage instrumentation of LLVM, which needs no nightly compiler and
//! no `cargo-fuzz`, but a C++ compiler for libFuzzer itself. Corpora grow in
//! `fuzz/corpus`; an input that breaks a target is in `fuzz/artifacts` and belongs into
//! `fuzz/regressions`, from where every run of the tests replays it.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result, ensure};
use modgate_e2e::fuzz::{named, targets};
use modgate_testkit::{
    Roots, corpus,
    fuzz::{Mutations, Target},
    program,
};
use modgate_value::Value;

/// Options of `cargo xtask fuzz`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How long each target runs.
    #[arg(long, default_value_t = 1)]
    minutes: u64,
    /// How many targets run at a time. Default: as many as there are processors.
    #[arg(long)]
    jobs: Option<usize>,
    /// An input that takes longer is a finding; more for a machine that is busy.
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    timeout: u64,
    /// A folder of policies to load besides those of this repository, for the targets `review` and
    /// `http`.
    #[arg(long, value_name = "DIR")]
    policies: Option<PathBuf>,
    /// Without libFuzzer and its build: mutations of the seeds by chance, one target after the other,
    /// as the tests do it but for longer. Coverage is not known then.
    #[arg(long, conflicts_with_all = ["jobs", "policies", "timeout"])]
    plain: bool,
    /// Only write the inputs to start from.
    #[arg(long)]
    seeds: bool,
    /// The targets. Default: all.
    #[arg(value_parser = target)]
    targets: Vec<&'static str>,
}

fn target(name: &str) -> Result<&'static str, String> {
    named(name).map(|target| target.name).ok_or_else(|| {
        let names: Vec<&str> = targets().map(|target| target.name).collect();
        format!("the targets are {}", names.join(", "))
    })
}

/// The most memory of a run, corpus included.
const MEMORY_MB: u32 = 2048;

/// Runs the targets; false when one of them found something.
#[expect(clippy::print_stdout, reason = "results go there")]
pub(crate) fn run(args: &Args) -> Result<bool> {
    let targets: Vec<&Target> = targets()
        .filter(|target| args.targets.is_empty() || args.targets.contains(&target.name))
        .collect();
    let folder = corpus::repository().join("fuzz");
    let roots = Roots::discover();
    if args.plain {
        return plain(&targets, &folder, &roots, args);
    }
    for target in &targets {
        let corpus = folder.join("corpus").join(target.name);
        fs::create_dir_all(&corpus)?;
        for (index, seed) in target.sample(&roots)?.iter().enumerate() {
            fs::write(corpus.join(format!("seed-{index:05}")), seed)?;
        }
    }
    if args.seeds {
        return Ok(true);
    }
    let program = build(&folder)?;
    let jobs = args.jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    let open = Mutex::new(targets.iter().rev().copied().collect::<Vec<_>>());
    println!("{HEAD}");
    let results = thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.max(1))
            .map(|_| {
                scope.spawn(|| {
                    let mut results = Vec::new();
                    while let Some(target) = next(&open) {
                        let result = fuzz(&program, &folder, target, args)?;
                        let mut out = std::io::stdout().lock();
                        writeln!(out, "{}", result.line())?;
                        results.push(result);
                    }
                    Ok(results)
                })
            })
            .collect();
        let results = workers
            .into_iter()
            .map(|worker| worker.join().map_err(|_| anyhow::anyhow!("a worker panicked"))?)
            .collect::<Result<Vec<_>>>();
        results.map(|results| results.into_iter().flatten().collect::<Vec<_>>())
    })?;
    let executions: u64 = results.iter().map(|result| result.executions).sum();
    let broken = results.iter().filter(|result| result.finding.is_some()).count();
    println!("{} targets, {executions} executions, {broken} with findings", results.len());
    Ok(broken == 0)
}

fn next<'t>(open: &Mutex<Vec<&'t Target>>) -> Option<&'t Target> {
    open.lock().unwrap_or_else(PoisonError::into_inner).pop()
}

/// Runs the targets in this process.
#[expect(clippy::print_stdout, reason = "results go there")]
fn plain(targets: &[&Target], folder: &Path, roots: &Roots, args: &Args) -> Result<bool> {
    println!("target          executions  slowest ms  finding");
    let mut broken = 0;
    for target in targets {
        let seeds = target.sample(roots)?;
        let start = Instant::now();
        // Other inputs each time.
        let seed = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let (mut executions, mut slowest, mut finding) = (0_u64, Duration::ZERO, None);
        for input in Mutations::of(&seeds, seed) {
            if start.elapsed() >= Duration::from_secs(args.minutes * 60) {
                break;
            }
            let began = Instant::now();
            let attempt = target.attempt(&input);
            slowest = slowest.max(began.elapsed());
            executions += 1;
            if let Err(message) = attempt {
                let artifacts = folder.join("artifacts").join(target.name);
                fs::create_dir_all(&artifacts)?;
                fs::write(artifacts.join(format!("plain-{seed}-{executions}")), &input)?;
                finding = message.lines().next().map(str::to_owned);
                broken += 1;
                break;
            }
        }
        println!(
            "{:<15} {executions:>10}  {:>10}  {}",
            target.name,
            slowest.as_millis(),
            finding.as_deref().unwrap_or("none")
        );
    }
    Ok(broken == 0)
}

/// Builds the program with libFuzzer, its crates of this workspace with coverage, and says where it is.
fn build(folder: &Path) -> Result<PathBuf> {
    let output = program::cargo()
        .args(["build", "--package", "modgate-e2e", "--bin", "modgate-fuzz"])
        .args(["--features", "libfuzzer", "--message-format", "json-render-diagnostics"])
        .env("RUSTC_WORKSPACE_WRAPPER", folder.join("rustc.sh"))
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "2")
        .env("CARGO_INCREMENTAL", "0")
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    ensure!(
        output.status.success(),
        "the fuzzer does not build; it needs a C++ compiler. `--plain` runs the targets without it"
    );
    let messages = String::from_utf8(output.stdout)?;
    let mut executables = messages
        .lines()
        .filter_map(|line| Value::from_json(line.as_bytes()).ok()?.get("executable").cloned());
    let path = executables.find_map(|path| path.as_str().map(PathBuf::from));
    path.context("cargo names no executable")
}

/// The result of one target.
#[derive(Debug, Default)]
struct Outcome {
    name: String,
    executions: u64,
    /// Edges and features after the inputs it started from, and at the end.
    coverage: Option<(Coverage, Coverage)>,
    /// Processor time, in seconds; 0 where the system does not say.
    processor: u64,
    /// The first line of what is wrong.
    finding: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Coverage {
    edges: u64,
    features: u64,
}

const HEAD: &str =
    "target          executions     edges         features      processor s  finding";

impl Outcome {
    fn line(&self) -> String {
        let growth = |value: fn(Coverage) -> u64| match self.coverage {
            Some((first, last)) => format!("{} -> {}", value(first), value(last)),
            None => "-".to_owned(),
        };
        format!(
            "{:<15} {:>10}  {:>15}  {:>17}  {:>11}  {}",
            self.name,
            self.executions,
            growth(|coverage| coverage.edges),
            growth(|coverage| coverage.features),
            self.processor,
            self.finding.as_deref().unwrap_or("none")
        )
    }

    /// Takes in one line that libFuzzer prints.
    fn read(&mut self, line: &str) {
        if let Some(coverage) = Coverage::of(line) {
            let is_start = line.contains("INITED");
            let first = self.coverage.filter(|_| !is_start).map_or(coverage, |(first, _)| first);
            self.coverage = Some((first, coverage));
        }
        if let Some(number) = line.strip_prefix("stat::number_of_executed_units:") {
            self.executions = number.trim().parse().unwrap_or_default();
        } else if let Some((number, _)) =
            line.strip_prefix('#').and_then(|rest| rest.split_once(|c: char| !c.is_ascii_digit()))
        {
            self.executions = self.executions.max(number.parse().unwrap_or_default());
        }
        let is_finding = line.contains("panicked at") || line.contains("ERROR: libFuzzer");
        if is_finding && self.finding.is_none() {
            self.finding = Some(line.to_owned());
        }
    }
}

impl Coverage {
    /// Of a line such as `#123 NEW cov: 456 ft: 789 corp: ...`.
    fn of(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix('#')?.split_whitespace();
        let mut after = |key: &str| -> Option<u64> {
            words.find(|word| *word == key)?;
            words.next()?.parse().ok()
        };
        Some(Self { edges: after("cov:")?, features: after("ft:")? })
    }
}

fn fuzz(program: &Path, folder: &Path, target: &Target, args: &Args) -> Result<Outcome> {
    let artifacts = folder.join("artifacts").join(target.name);
    fs::create_dir_all(&artifacts)?;
    let mut command = Command::new(program);
    command
        .arg(format!("-max_total_time={}", args.minutes * 60))
        .arg(format!("-timeout={}", args.timeout))
        .arg(format!("-rss_limit_mb={MEMORY_MB}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .args(["-print_final_stats=1", "-detect_leaks=0"])
        .arg(folder.join("corpus").join(target.name));
    let regressions = folder.join("regressions").join(target.name);
    if regressions.is_dir() {
        command.arg(regressions);
    }
    if let Some(policies) = &args.policies {
        command.env("MODGATE_FUZZ_POLICIES", fs::canonicalize(policies)?);
    }
    let mut child = command
        .env("MODGATE_FUZZ_TARGET", target.name)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| program.display().to_string())?;
    let mut outcome = Outcome { name: target.name.to_owned(), ..Outcome::default() };
    let mut log = fs::File::create(artifacts.join("log"))?;
    let stderr = child.stderr.take().context("no output of the fuzzer")?;
    for line in BufReader::new(stderr).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        writeln!(log, "{line}")?;
        outcome.read(&line);
    }
    // It has ended, and is there until it is waited for.
    outcome.processor = processor_seconds(child.id());
    if !child.wait()?.success() && outcome.finding.is_none() {
        outcome.finding = Some("it ended with an error".to_owned());
    }
    Ok(outcome)
}

/// The processor time of a process: fields 14 and 15 of its `stat`, in hundredths of a second.
fn processor_seconds(id: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    // Field 2, the name of the program, ends with the last parenthesis.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum::<u64>() / 100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_fuzzer_prints_is_read() {
        let mut outcome = Outcome::default();
        for line in [
            "#2\tINITED cov: 10 ft: 20 corp: 2/2b exec/s: 0 rss: 30Mb",
            "#77\tNEW    cov: 11 ft: 25 corp: 3/9b lim: 4 exec/s: 0 rss: 30Mb L: 7/7 MS: 1 CopyPart-",
            "stat::number_of_executed_units: 1234",
        ] {
            outcome.read(line);
        }
        let coverage = (Coverage { edges: 10, features: 20 }, Coverage { edges: 11, features: 25 });
        assert_eq!((outcome.executions, outcome.coverage), (1234, Some(coverage)));
        assert_eq!(outcome.finding, None);
        outcome.read("thread '<unnamed>' panicked at src/lib.rs:1:1:");
        outcome.read("==1== ERROR: libFuzzer: deadly signal");
        assert_eq!(
            outcome.finding.as_deref(),
            Some("thread '<unnamed>' panicked at src/lib.rs:1:1:")
        );
    }
}
