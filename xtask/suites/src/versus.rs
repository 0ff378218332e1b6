//! `cargo xtask versus`: the originals' own programs and modgate do the same work in turn.
//!
//! Nothing here builds or fetches an original. A program that is not given leaves its rows out, and the report says which
//! flag takes it. Each part compares the answers of both sides; its figures are printed in any case, but are only
//! written where all answers are equal, or differ as `docs/compatibility.md` declares. The sides of a part run one
//! after the other, and share the machine with a control plane of `tests/cluster` and with the generator.

mod audit;
mod commands;
mod page;
mod webhooks;

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum as _;
use modgate_e2e::originals::Library;
use modgate_testkit::{
    cluster::{Cluster, Options},
    corpus,
};
use modgate_value::Value;

use crate::{
    load::{cpu_model, library::pod_named},
    program::ProgramArgs,
    throughput::{self, Creation, Decider},
};

/// Options of `cargo xtask versus`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Gatekeeper's program, `manager`: its webhook and its audit.
    #[arg(long, value_name = "PROGRAM")]
    gatekeeper: Option<PathBuf>,
    /// Gatekeeper's command line: `verify` and `test`.
    #[arg(long, value_name = "PROGRAM")]
    gator: Option<PathBuf>,
    /// KubeMod's program: its webhook. It listens on port 9443.
    #[arg(long, value_name = "PROGRAM")]
    kubemod: Option<PathBuf>,
    #[command(flatten)]
    program: ProgramArgs,
    /// Run these parts only; repeat, or separate with commas.
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    only: Vec<Part>,
    /// How long each load of a webhook takes, after a second of warming up.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Instead of a comparison: modgate's first audit of a cluster of so many Pods under the library, every violation
    /// logged. Nothing but modgate and the control plane should run.
    #[arg(long, value_name = "N", conflicts_with_all = ["only", "write", "gatekeeper", "gator", "kubemod"])]
    pods: Option<usize>,
    /// Write the report into `docs/performance.md`, and its plot.
    #[arg(long, conflicts_with = "only")]
    write: bool,
}

/// A part of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Gatekeeper's webhook with the library.
    Webhook,
    /// KubeMod's webhook with 10 and 100 rules.
    Modrules,
    /// Pods created under ValidatingAdmissionPolicies.
    Vap,
    /// gator's `verify` and `test`.
    Commands,
    /// Gatekeeper's first audit of a cluster.
    Audit,
}

/// Connections of the generator.
const CONNECTIONS: usize = 8;
const NO_LIBRARY: &str = "Gatekeeper's library is not here, MODGATE_CONFORMANCE names its place";

/// A figure of both sides. With a unit per second, more is better; with any other, less.
#[derive(Debug)]
struct Row {
    original: &'static str,
    work: String,
    unit: &'static str,
    theirs: f64,
    ours: f64,
}

impl Row {
    /// How many times better modgate is.
    fn ratio(&self) -> f64 {
        if self.unit == "/s" { self.ours / self.theirs } else { self.theirs / self.ours }
    }

    /// A figure of this row, with its unit.
    fn figure(&self, number: f64) -> String {
        let space = if self.unit == "/s" { "" } else { " " };
        format!("{}{space}{}", rounded(number), self.unit)
    }
}

/// Three digits that count.
fn rounded(number: f64) -> String {
    match number {
        it if it >= 100.0 => format!("{number:.0}"),
        it if it >= 10.0 => format!("{number:.1}"),
        it if it >= 1.0 => format!("{number:.2}"),
        _ => format!("{number:.3}"),
    }
}

/// How the answers of both sides to the same questions compare.
#[derive(Debug)]
struct Answers {
    of: String,
    equal: usize,
    /// How many differ as a row of `docs/compatibility.md` says, by its id.
    declared: BTreeMap<&'static str, usize>,
    different: Vec<String>,
}

impl Answers {
    fn of(what: &str) -> Self {
        let declared = BTreeMap::new();
        Self { of: what.to_owned(), equal: 0, declared, different: Vec::new() }
    }

    /// Compares lists whose order says nothing.
    fn unordered(what: &str, mut theirs: Vec<String>, mut ours: Vec<String>) -> Self {
        let mut answers = Self::of(what);
        theirs.sort_unstable();
        ours.sort_unstable();
        let mut ours = ours.into_iter().peekable();
        for one in theirs {
            while let Some(other) = ours.next_if(|other| *other < one) {
                answers.different.push(format!("only modgate: {other}"));
            }
            match ours.next_if_eq(&one) {
                Some(_) => answers.equal += 1,
                None => answers.different.push(format!("only the original: {one}")),
            }
        }
        answers.different.extend(ours.map(|other| format!("only modgate: {other}")));
        answers
    }
}

/// All that a run found.
#[derive(Debug, Default)]
struct Report {
    /// The programs and the machine.
    about: Vec<String>,
    rows: Vec<Row>,
    answers: Vec<Answers>,
    /// The measurements that were left out, and why.
    left_out: Vec<String>,
    failed: Vec<String>,
}

impl Report {
    fn row(
        &mut self,
        original: &'static str,
        work: &str,
        unit: &'static str,
        (theirs, ours): (f64, f64),
    ) {
        self.rows.push(Row { original, work: work.to_owned(), unit, theirs, ours });
    }

    fn is_good(&self) -> bool {
        self.failed.is_empty() && self.answers.iter().all(|it| it.different.is_empty())
    }
}

/// Runs it; false where answers differ and no row of `docs/compatibility.md` declares it, or where a part failed.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let repository = corpus::repository();
    let binary = args.program.path()?;
    for program in [&args.gatekeeper, &args.gator, &args.kubemod].into_iter().flatten() {
        ensure!(program.is_file(), "there is no program `{}`", program.display());
    }
    let library = Library::read()?;
    if let Some(pods) = args.pods {
        return audit::alone(&binary, &library.context(NO_LIBRARY)?, pods).map(|()| true);
    }
    let mut report = Report::default();
    report.about.push(about(&binary)?);
    for part in Part::value_variants() {
        if !args.only.is_empty() && !args.only.contains(part) {
            continue;
        }
        say(&format!("{part:?}"));
        if let Err(error) = compare(*part, args, &binary, library.as_ref(), &mut report) {
            say(&format!("{part:?} failed: {error:#}"));
            report.failed.push(format!("{part:?}: {error:#}"));
        }
    }
    report.about.push(format!("{}, `cargo xtask versus --seconds {}`", cpu_model(), args.seconds));
    let mut out = io::stdout().lock();
    writeln!(out, "{}", page::section(&report))?;
    for different in report.answers.iter().flat_map(|it| it.different.iter().take(5)) {
        writeln!(out, "DIFFERENT: {different}")?;
    }
    for failed in &report.failed {
        writeln!(out, "FAILED: {failed}")?;
    }
    if args.write {
        page::write(&repository, &report)?;
    }
    Ok(report.is_good())
}

fn compare(
    part: Part,
    args: &Args,
    binary: &Path,
    library: Option<&Library>,
    report: &mut Report,
) -> Result<()> {
    let (what, flag, program) = match part {
        Part::Webhook => ("Gatekeeper's webhook", "--gatekeeper", &args.gatekeeper),
        Part::Modrules => ("KubeMod's webhook", "--kubemod", &args.kubemod),
        Part::Vap => ("ValidatingAdmissionPolicies", "", &None),
        Part::Commands => ("gator", "--gator", &args.gator),
        Part::Audit => ("Gatekeeper's audit", "--gatekeeper", &args.gatekeeper),
    };
    let missing = match (program, library) {
        (None, _) if part != Part::Vap => Some(format!("`{flag}` takes its program")),
        (_, None) if part != Part::Modrules => Some(NO_LIBRARY.to_owned()),
        _ => None,
    };
    if let Some(missing) = missing {
        say(&format!("left out: {missing}"));
        report.left_out.push(format!("{what}: {missing}"));
        return Ok(());
    }
    if let Some(program) = program {
        let module = match part {
            Part::Modrules => "github.com/kubemod/kubemod",
            _ => "github.com/open-policy-agent/gatekeeper/v3",
        };
        let name = what.split_once('\'').map_or(what, |(name, _)| name);
        let about = format!("{name} {}", version(program, module));
        if !report.about.contains(&about) {
            report.about.push(about);
        }
    }
    match (part, program, library) {
        (Part::Webhook, Some(program), Some(library)) => {
            webhooks::gatekeeper(args.seconds, program, binary, library, report)
        }
        (Part::Modrules, Some(program), _) => {
            webhooks::kubemod(args.seconds, program, binary, report)
        }
        (Part::Commands, Some(program), Some(library)) => {
            commands::run(program, binary, library, report)
        }
        (Part::Audit, Some(program), Some(library)) => audit::run(program, binary, library, report),
        (_, _, Some(library)) => admission_policies(args.seconds, binary, library, report),
        _ => Ok(()),
    }
}

/// The library's policies in the API server and in modgate's webhook, as `cargo xtask throughput` has them, but with
/// bindings that warn: the warnings for the Pods among the library's samples are the answers.
fn admission_policies(
    seconds: u64,
    binary: &Path,
    library: &Library,
    report: &mut Report,
) -> Result<()> {
    let is_pod = |object: &Value| object.get("kind").and_then(Value::as_str) == Some("Pod");
    let objects = library.samples()?.into_iter().filter_map(|it| {
        let object = it.path(&["request", "object"])?;
        let spec = object.get("spec").filter(|_| is_pod(object))?.clone();
        let mut pod = pod_named("sample").as_object().cloned()?;
        pod.insert("spec", spec);
        Some(Value::from(pod))
    });
    let pods: Vec<Value> = objects.collect();
    let creation = Creation { connections: CONNECTIONS, seconds, pods: &pods };
    let measure = |decider| {
        say(&format!("Pods, policies {decider}"));
        throughput::warned(binary, &creation, decider)
    };
    let (theirs, ours) = (measure(Decider::ApiServer)?, measure(Decider::Webhook)?);
    let mut answers = Answers::of("ValidatingAdmissionPolicies, warnings for the samples' Pods");
    for ((pod, theirs), ours) in pods.iter().zip(&theirs.said).zip(&ours.said) {
        if theirs == ours {
            answers.equal += 1;
        } else {
            let different = format!("{pod}\n  API server: {theirs}\n  modgate:    {ours}");
            answers.different.push(different);
        }
    }
    ensure!(theirs.said.iter().any(|it| it.contains("299")), "the API server warns of nothing");
    report.answers.push(answers);
    let about = format!("API server {}", theirs.kubernetes);
    report.about.push(about);
    let work = "16 policies, Pods created";
    report.row("API server", work, "/s", (theirs.rate(), ours.rate()));
    let pair = (theirs.processor_ms(), ours.processor_ms());
    report.row("API server", &format!("{work}, processor time of each"), "ms", pair);
    Ok(())
}

/// A control plane of its own.
fn cluster() -> Result<Cluster> {
    Cluster::start(&Options::default())?
        .context("there is no Go toolchain to build the control plane with")
}

/// modgate's version, and how it was built.
fn about(binary: &Path) -> Result<String> {
    let output = Command::new(binary).arg("--version").output()?;
    let version = String::from_utf8_lossy(&output.stdout);
    let version = version.lines().next().unwrap_or_default();
    let folder = binary.parent().and_then(Path::file_name).unwrap_or_default();
    Ok(match folder.to_str() {
        Some(profile @ ("release" | "dist" | "debug")) => {
            format!("{version} (profile `{profile}`)")
        }
        _ => version.to_owned(),
    })
}

/// The version of a module in a program, as `go version -m` prints it.
fn version(program: &Path, module: &str) -> String {
    let output = Command::new("go").args(["version", "-m"]).arg(program).output();
    let text = output.map(|it| String::from_utf8_lossy(&it.stdout).into_owned());
    let text = text.unwrap_or_default();
    let found = text.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip_while(|word| *word != module);
        words.nth(1).map(str::to_owned)
    });
    found.unwrap_or_else(|| "of an unknown version".to_owned())
}

/// Says on standard error what goes on.
#[expect(clippy::print_stderr, reason = "the report goes to standard output")]
fn say(what: &str) {
    eprintln!("versus: {what}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_says_how_many_times_better_modgate_is() {
        let mut report = Report::default();
        report.row("a", "rate", "/s", (40.0, 2000.0));
        report.row("a", "memory", "MB", (200.0, 25.0));
        let ratios: Vec<f64> = report.rows.iter().map(Row::ratio).collect();
        assert!((ratios[0] - 50.0).abs() < 1e-9 && (ratios[1] - 8.0).abs() < 1e-9, "{ratios:?}");
        assert_eq!(report.rows[0].figure(40.0), "40.0/s");
        assert_eq!(report.rows[1].figure(0.25), "0.250 MB");
    }

    #[test]
    fn lists_are_compared_as_multisets() {
        let list = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let answers = Answers::unordered("lines", list("d b a b"), list("d b c d"));
        assert_eq!(answers.equal, 2);
        let expected =
            ["only the original: a", "only the original: b", "only modgate: c", "only modgate: d"];
        assert_eq!(answers.different, expected);
        let mut report = Report::default();
        assert!(report.is_good());
        report.answers.push(answers);
        assert!(!report.is_good());
    }
}
