//! `cargo xtask test`: everything that proves the project right, in one command.

use std::{
    collections::VecDeque,
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow};
use modgate_testkit::{cluster, program::cargo, report};
use modgate_value::Value;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Passed on to `cargo test`, and after `--` to each program of tests, for example `-p modgate -- audit`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    cargo: Vec<String>,
}

/// Whether all tests and all corpora passed.
#[expect(clippy::print_stdout, reason = "results go there")]
pub(crate) fn run(args: &Args) -> Result<bool> {
    let runs = cargo_run_means_modgate()?;
    let builds = cluster_builds();
    let folder = tempfile::tempdir()?;
    let corpora = folder.path().join("corpora.txt");
    let mut tests = cargo_test(&args.cargo, &corpora)?;
    let others = [(runs, "cargo run"), (builds, "test cluster")];
    let others = others.into_iter().filter(|(passed, _)| !passed);
    tests.unsuccessful.extend(others.map(|(_, name)| name.to_owned()));
    let corpora = fs::read_to_string(&corpora).ok();
    if let Some(corpora) = &corpora {
        println!("\n{corpora}");
    }
    println!("the slowest {SLOWEST} tests, in seconds:");
    for Timed { seconds, name } in tests.slowest() {
        println!("{seconds:>9.1}  {name}");
    }
    println!();
    println!("tests: {} passed, {} failed, {} ignored", tests.passed, tests.failed, tests.ignored);
    match corpora.as_deref().and_then(|text| text.lines().next_back()) {
        Some(counts) => println!("{counts}"),
        None => println!("corpora: their program is not among these tests"),
    }
    match &*tests.unsuccessful {
        [] => println!("all passed"),
        names => println!("FAILED: {}", names.join(", ")),
    }
    Ok(tests.unsuccessful.is_empty())
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

/// How many of the slowest tests are printed.
const SLOWEST: usize = 10;

/// Packages whose tests wait for an API server most of their time. Three of their programs run beside one that
/// computes.
const WAITING: [&str; 2] = ["modgate-e2e", "modgate-testkit"];

#[derive(Default)]
struct Tests {
    passed: u64,
    failed: u64,
    ignored: u64,
    /// The parts of the run that failed: programs, mostly.
    unsuccessful: Vec<String>,
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

/// A program of tests, as cargo has built it.
#[derive(Debug, Clone, PartialEq)]
struct Program {
    package: String,
    name: String,
    executable: PathBuf,
    /// The folder of the package, in which cargo runs its tests.
    folder: PathBuf,
}

/// A job of the run.
enum Job {
    Program(Program),
    /// The examples of documentation, which cargo itself compiles and runs.
    Examples,
    /// `cargo xtask mistakes`.
    Mistakes,
}

impl Job {
    fn name(&self) -> &str {
        match self {
            Self::Program(program) => &program.name,
            Self::Examples => "examples",
            Self::Mistakes => "mistakes",
        }
    }

    fn waits(&self) -> bool {
        matches!(self, Self::Program(program) if WAITING.contains(&&*program.package))
    }
}

/// How long each job took the last time, in a folder beside the programs: one file for each, with milliseconds.
struct Durations(PathBuf);

impl Durations {
    fn of(programs: &[Program]) -> Self {
        let beside = programs.first().and_then(|program| program.executable.parent());
        Self(beside.unwrap_or(Path::new("")).join("durations"))
    }

    fn file(&self, job: &Job) -> PathBuf {
        let package = if let Job::Program(program) = job { &program.package } else { "" };
        self.0.join(format!("{package}-{}", job.name()))
    }

    /// In milliseconds; 0 if that is not known.
    fn read(&self, job: &Job) -> u128 {
        fs::read_to_string(self.file(job)).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// Without it the next run only takes the jobs in another order.
    fn write(&self, job: &Job, took: Duration) {
        let _ = fs::create_dir_all(&self.0);
        let _ = fs::write(self.file(job), took.as_millis().to_string());
    }

    /// The jobs that wait at the front, those that compute at the back, and the longest of each outermost.
    fn in_order(&self, programs: Vec<Program>) -> VecDeque<Job> {
        let others = [Job::Examples, Job::Mistakes];
        let mut jobs: Vec<Job> = programs.into_iter().map(Job::Program).chain(others).collect();
        jobs.sort_by_cached_key(|job| self.read(job));
        let mut ordered = VecDeque::new();
        for job in jobs {
            if job.waits() {
                ordered.push_front(job);
            } else {
                ordered.push_back(job);
            }
        }
        ordered
    }
}

/// Builds all programs of tests, then runs four at a time, those first that took longest the last time. The one that
/// runs the corpora writes its report to the file `corpora`.
#[expect(clippy::print_stdout, reason = "the tests' own output is passed on")]
fn cargo_test(arguments: &[String], corpora: &Path) -> Result<Tests> {
    let split = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    let (for_cargo, for_programs) = arguments.split_at(split);
    let for_programs = for_programs.get(1..).unwrap_or_default();
    let Some(programs) = build_programs(for_cargo)? else {
        return Ok(Tests { unsuccessful: vec!["build".to_owned()], ..Tests::default() });
    };
    let durations = Durations::of(&programs);
    let jobs = Mutex::new(durations.in_order(programs));
    let tests = Mutex::new(Tests::default());
    let work = |next: fn(&mut VecDeque<Job>) -> Option<Job>| -> Result<()> {
        loop {
            let job = next(&mut *jobs.lock().map_err(|_| anyhow!("another worker failed"))?);
            let Some(job) = job else { return Ok(()) };
            let started = Instant::now();
            let (name, output) = (
                job.name().to_owned(),
                match &job {
                    Job::Program(program) => program.run(for_programs, corpora)?,
                    Job::Examples => examples(for_cargo, for_programs)?,
                    Job::Mistakes => mistakes()?,
                },
            );
            durations.write(&job, started.elapsed());
            let mut tests = tests.lock().map_err(|_| anyhow!("another worker failed"))?;
            if !output.status.success() {
                tests.unsuccessful.push(name.clone());
            }
            tests.program = name;
            for line in String::from_utf8_lossy(&output.stdout).lines() {
                if tests.is_news(line) {
                    println!("{line}");
                }
            }
        }
    };
    // Three workers begin with the programs that wait, one with those that compute.
    thread::scope(|scope| {
        let waiting = [(); 3].map(|()| scope.spawn(|| work(VecDeque::pop_front)));
        work(VecDeque::pop_back)?;
        waiting
            .into_iter()
            .try_for_each(|worker| worker.join().map_err(|_| anyhow!("a worker panicked"))?)
    })?;
    tests.into_inner().map_err(|_| anyhow!("a worker panicked"))
}

/// The programs of tests; none if they do not compile.
fn build_programs(arguments: &[String]) -> Result<Option<Vec<Program>>> {
    let output = cargo()
        .args(["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"])
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    let messages = output.stdout.split(|byte| *byte == b'\n');
    let values = messages.filter_map(|line| Value::from_json(line).ok());
    let programs = values.filter_map(|message| Program::of_message(&message)).collect();
    Ok(output.status.success().then_some(programs))
}

/// Compiles and runs the examples of documentation.
fn examples(for_cargo: &[String], for_programs: &[String]) -> Result<Output> {
    cargo()
        .args(["test", "--workspace", "--doc", "--no-fail-fast"])
        .args(for_cargo)
        .arg("--")
        .args(for_programs)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")
}

/// Makes authors' mistakes.
fn mistakes() -> Result<Output> {
    cargo()
        .args(["xtask", "mistakes"])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")
}

impl Program {
    /// Of a line of `cargo --message-format=json`, if it describes such a program.
    fn of_message(message: &Value) -> Option<Self> {
        let is_test = message.get("profile")?.get("test")?.as_bool()?;
        let folder = Path::new(message.get("manifest_path")?.as_str()?).parent()?.to_owned();
        let id = message.get("package_id")?.as_str()?;
        // `path+file:///folder/name#0.1.0`, or `path+file:///folder#name@0.1.0`.
        let (path, rest) = id.rsplit_once('#')?;
        let package = match rest.split_once('@') {
            Some((name, _)) => name,
            None => path.rsplit('/').next()?,
        };
        let program = Self {
            package: package.to_owned(),
            name: message.get("target")?.get("name")?.as_str()?.to_owned(),
            executable: message.get("executable")?.as_str()?.into(),
            folder,
        };
        is_test.then_some(program)
    }

    fn run(&self, arguments: &[String], corpora: &Path) -> Result<Output> {
        Command::new(&self.executable)
            .current_dir(&self.folder)
            .env(report::VARIABLE, corpora)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            // Tests of what a terminal is not shown.
            .env_remove("CLICOLOR_FORCE")
            // libtest takes its unstable flags from a stable compiler only with this.
            .env("RUSTC_BOOTSTRAP", "1")
            .args(["-Zunstable-options", "--report-time"])
            .args(arguments)
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| self.executable.display().to_string())
    }
}

impl Tests {
    /// Takes in a line; whether a reader wants to see it: tests that pass are only counted.
    fn is_news(&mut self, line: &str) -> bool {
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
    fn programs_of_tests_are_told_from_others() {
        let message = |executable: &str, test: bool| {
            let text = format!(
                r#"{{"reason": "compiler-artifact", "package_id": "path+file:///p/modgate-e2e#0.1.0",
                "manifest_path": "/p/modgate-e2e/Cargo.toml", "target": {{"name": "status"}},
                "profile": {{"test": {test}}}, "executable": {executable}}}"#
            );
            Program::of_message(&Value::from_json(text.as_bytes()).expect("JSON"))
        };
        let program = Program {
            package: "modgate-e2e".to_owned(),
            name: "status".to_owned(),
            executable: "/t/status-1".into(),
            folder: "/p/modgate-e2e".into(),
        };
        assert_eq!(message("\"/t/status-1\"", true), Some(program));
        assert_eq!(message("null", true), None, "a library");
        assert_eq!(message("\"/t/modgate\"", false), None, "a binary");
    }

    #[test]
    fn what_took_longest_comes_first() {
        let folder = tempfile::tempdir().expect("folder");
        let durations = Durations(folder.path().join("durations"));
        let program = |package: &str, name: &str| Program {
            package: package.to_owned(),
            name: name.to_owned(),
            executable: PathBuf::new(),
            folder: PathBuf::new(),
        };
        let programs = || {
            [
                ("modgate-e2e", "a"),
                ("modgate-e2e", "b"),
                ("modgate-rego", "a"),
                ("modgate-rego", "b"),
            ]
            .map(|(package, name)| program(package, name))
            .to_vec()
        };
        for (job, seconds) in [
            (Job::Program(program("modgate-e2e", "a")), 3),
            (Job::Program(program("modgate-e2e", "b")), 200),
            (Job::Program(program("modgate-rego", "a")), 9),
            (Job::Program(program("modgate-rego", "b")), 2),
            (Job::Examples, 5),
            (Job::Mistakes, 1),
        ] {
            durations.write(&job, Duration::from_secs(seconds));
        }
        let ordered = durations.in_order(programs());
        let names: Vec<_> = ordered.iter().map(|job| (job.waits(), job.name())).collect();
        let computing = ["mistakes", "b", "examples", "a"].map(|name| (false, name));
        assert_eq!(names, [&[(true, "b"), (true, "a")][..], &computing].concat());
        // Nothing is left out where nothing is known.
        let unknown = Durations(folder.path().join("none"));
        assert_eq!(unknown.in_order(programs()).len(), 6);
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
        let mut tests = Tests { program: "router".to_owned(), ..Tests::default() };
        let lines = [
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
