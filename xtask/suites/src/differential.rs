//! `cargo xtask differential`: asks an original's own packages and modgate the same random programs.
//!
//! Of Gatekeeper, a program is a file of templates in Rego and CEL, constraints, mutators, expansion and
//! objects; of KubeMod, ModRules, the objects they refer to, and requests. The original answers through
//! a program of its packages, modgate as the binary that ships. A program on which they differ is made
//! small and printed with both answers. The same seed gives the same programs.

mod cel;
mod gatekeeper;
mod kubemod;
mod modrules;
mod objects;
mod peers;
mod program;
mod random;
mod rego;
mod selects;
mod shrink;
mod tables;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Map, Value};

use self::{peers::Answer, random::Random};

/// Options of `cargo xtask differential`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The original.
    #[arg(long, default_value = "gatekeeper")]
    of: Of,
    /// How long to go on.
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// Which programs are made.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The first program of the seed: with `--programs 1` the one that a run named.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Stop after this many programs.
    #[arg(long)]
    programs: Option<u64>,
    /// The original's program, if it is built already; otherwise Go builds it.
    #[arg(long, value_name = "FILE")]
    peer: Option<PathBuf>,
    /// A checkout of KubeMod, to build its program from: the Go proxy does not serve its module.
    #[arg(long, value_name = "DIR")]
    kubemod: Option<PathBuf>,
    /// The modgate to ask; otherwise Cargo builds one.
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Write each differing program, made small, into this folder.
    #[arg(long, value_name = "DIR")]
    write: Option<PathBuf>,
    /// Let other words of a refusal be a difference, too.
    #[arg(long)]
    texts: bool,
    /// Stop at this many differences.
    #[arg(long, default_value_t = 10)]
    differences: usize,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Of {
    Gatekeeper,
    Kubemod,
}

/// A random program.
struct Program {
    /// The command that is given it.
    verb: &'static str,
    /// The documents in its files.
    documents: Vec<Value>,
}

/// An original and modgate, side by side.
trait Desk {
    /// A random program that both can answer.
    fn program(&self, random: &mut Random) -> Program;

    /// The answers of the original and of modgate, without the parts that differ by a decision.
    ///
    /// # Errors
    ///
    /// A program cannot be started, or its answer cannot be read.
    fn ask(&mut self, verb: &'static str, documents: &[Value]) -> Result<(Answer, Answer)>;

    /// Further counts.
    fn counts(&self) -> Vec<(String, u64)> {
        Vec::new()
    }
}

/// How often something came out.
#[derive(Default)]
struct Counts(BTreeMap<&'static str, u64>);

impl Counts {
    fn add(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }
}

/// Runs the programs; false when an answer differs and no decision says why.
#[expect(clippy::print_stdout, reason = "a task reports on stdout")]
pub(crate) fn run(args: &Args) -> Result<bool> {
    let folder = tempfile::tempdir().context("make a folder")?;
    let binary = binary(args.binary.as_deref())?;
    let mut desk: Box<dyn Desk> = match args.of {
        Of::Gatekeeper => {
            let peer = args.peer.clone().map_or_else(build_peer, Ok)?;
            Box::new(gatekeeper::Gatekeeper::new(&peer, &binary, folder.path())?)
        }
        Of::Kubemod => {
            let peer = match (&args.peer, &args.kubemod) {
                (Some(peer), _) => peer.clone(),
                (None, Some(checkout)) => kubemod::build(checkout)?,
                (None, None) => bail!(
                    "give `--kubemod`, a checkout of KubeMod, or `--peer`, a program that is built"
                ),
            };
            Box::new(kubemod::Kubemod::new(&peer, &binary, folder.path()))
        }
    };
    let end = Instant::now() + Duration::from_secs_f64(args.minutes * 60.0);
    let last = args.programs.map_or(u64::MAX, |programs| args.first.saturating_add(programs));
    let mut counts = Counts::default();
    let mut differences = 0;
    let mut at = args.first;
    while at < last && Instant::now() < end && differences < args.differences {
        let Program { verb, documents } = desk.program(&mut Random::new(args.seed, at));
        let (original, ours) = desk.ask(verb, &documents)?;
        let outcome = compare(&original, &ours);
        counts.add(outcome.name());
        if outcome.differs(args.texts) {
            differences += 1;
            let difference = (outcome, traits(&original, &ours));
            let small = shrink::shrink(documents, |documents| {
                desk.ask(verb, documents).is_ok_and(|(original, ours)| {
                    (compare(&original, &ours), traits(&original, &ours)) == difference
                })
            });
            let (original, ours) = desk.ask(verb, &small)?;
            println!("\nprogram {at} of seed {}, `{verb}`: {}", args.seed, outcome.name());
            println!("{}", render(&small));
            println!("original: {}\nmodgate:  {}", show(&original, &ours), show(&ours, &original));
            if let Some(folder) = &args.write {
                fs::create_dir_all(folder)?;
                fs::write(folder.join(format!("{}-{at}.yaml", args.seed)), render(&small))?;
            }
        }
        at += 1;
    }
    println!("\nseed {}: {} programs", args.seed, at - args.first);
    for (what, count) in &counts.0 {
        println!("{count:>9}  {what}");
    }
    for (what, count) in desk.counts() {
        println!("{count:>9}  {what}");
    }
    Ok(differences == 0)
}

/// How two answers compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Nothing,
    Found,
    Refused,
    /// Both refuse, with other words.
    Worded,
    OriginalFailed,
    Other,
    OnlyOursRefuses,
    OnlyOriginalRefuses,
    Failed,
}

impl Outcome {
    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "equal, nothing found",
            Self::Found => "equal",
            Self::Refused => "equal refusals",
            Self::Worded => "DIFFERENT: refused in other words",
            Self::OriginalFailed => "not compared: the original crashes or does not end",
            Self::Other => "DIFFERENT: other results",
            Self::OnlyOursRefuses => "DIFFERENT: only modgate refuses",
            Self::OnlyOriginalRefuses => "DIFFERENT: only the original refuses",
            Self::Failed => "DIFFERENT: modgate failed",
        }
    }

    fn differs(self, texts: bool) -> bool {
        match self {
            Self::Other | Self::OnlyOursRefuses | Self::OnlyOriginalRefuses | Self::Failed => true,
            Self::Worded => texts,
            Self::Nothing | Self::Found | Self::Refused | Self::OriginalFailed => false,
        }
    }
}

fn compare(original: &Answer, ours: &Answer) -> Outcome {
    match (original, ours) {
        (_, Answer::Failed(_)) => Outcome::Failed,
        (Answer::Failed(_), _) => Outcome::OriginalFailed,
        (Answer::Found(theirs), Answer::Found(found)) if theirs == found => {
            if found.is_empty() {
                Outcome::Nothing
            } else {
                Outcome::Found
            }
        }
        (Answer::Found(_), Answer::Found(_)) => Outcome::Other,
        (Answer::Found(_), Answer::Refused(_)) => Outcome::OnlyOursRefuses,
        (Answer::Refused(_), Answer::Found(_)) => Outcome::OnlyOriginalRefuses,
        (Answer::Refused(theirs), Answer::Refused(text)) => {
            if theirs == text {
                Outcome::Refused
            } else {
                Outcome::Worded
            }
        }
    }
}

/// The parts in which the answers differ: a smaller program has to differ in the same.
fn traits(original: &Answer, ours: &Answer) -> Vec<String> {
    match (original, ours) {
        (Answer::Found(theirs), Answer::Found(found)) => {
            let left = theirs.iter().find(|result| !found.contains(result));
            let right = found.iter().find(|result| !theirs.contains(result));
            let (Some(Value::Object(left)), Some(Value::Object(right))) = (left, right) else {
                return vec![if left.is_some() {
                    "only original".into()
                } else {
                    "only modgate".into()
                }];
            };
            different_members(left, right)
        }
        (Answer::Refused(text), Answer::Found(_)) | (Answer::Found(_), Answer::Refused(text)) => {
            vec![kind_of(text)]
        }
        (Answer::Refused(left), Answer::Refused(right)) => vec![kind_of(left), kind_of(right)],
        _ => Vec::new(),
    }
}

/// The members in which two results differ; in an answer to a request, those of the answer.
fn different_members(left: &Map<String, Value>, right: &Map<String, Value>) -> Vec<String> {
    if let (Some(Value::Object(left)), Some(Value::Object(right))) =
        (left.get("answer"), right.get("answer"))
    {
        return different_members(left, right);
    }
    let names = left.keys().chain(right.keys()).filter(|name| left.get(*name) != right.get(*name));
    let mut names: Vec<String> = names.cloned().collect();
    names.sort();
    names.dedup();
    names
}

/// A refusal without its names and numbers.
fn kind_of(text: &str) -> String {
    let words =
        text.split_whitespace().filter(|word| word.chars().all(|c| c.is_alphabetic() || c == ':'));
    words.collect::<Vec<_>>().join(" ")
}

/// The program as a file; Rego stands in it line by line.
fn render(documents: &[Value]) -> String {
    let mut text = String::new();
    for document in documents {
        text.push_str("---\n");
        // JSON is YAML.
        text.push_str(&serde_json::to_string_pretty(document).unwrap_or_default());
        text.push('\n');
    }
    text
}

/// An answer, without the results that the other one has too.
fn show(answer: &Answer, other: &Answer) -> String {
    match (answer, other) {
        (Answer::Found(found), Answer::Found(others)) => {
            let only: Vec<String> = found
                .iter()
                .filter(|result| !others.contains(result))
                .map(Value::to_string)
                .collect();
            format!("{} results, of which only here:\n  {}", found.len(), only.join("\n  "))
        }
        (Answer::Found(found), _) => {
            let all: Vec<String> = found.iter().map(Value::to_string).collect();
            format!("{} results:\n  {}", found.len(), all.join("\n  "))
        }
        (Answer::Refused(text), _) => format!("refused: {text}"),
        (Answer::Failed(text), _) => format!("failed: {text}"),
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn build_peer() -> Result<PathBuf> {
    go_build(&root().join("tests/differential/gatekeeper"), "gatekeeper", &[])
}

/// Builds the Go program in `folder` as `target/differential/<name>`.
fn go_build(folder: &Path, name: &str, flags: &[&str]) -> Result<PathBuf> {
    let program = std::path::absolute(root().join("target/differential").join(name))?;
    let status = Command::new("go")
        .arg("build")
        .args(flags)
        .arg("-o")
        .arg(&program)
        .arg(".")
        .current_dir(folder)
        .status()
        .context("run go: the original's packages are built with it")?;
    ensure!(status.success(), "go did not build {}", folder.display());
    Ok(program)
}

/// The modgate that answers.
fn binary(given: Option<&Path>) -> Result<PathBuf> {
    let binary = match given {
        Some(binary) => binary.to_owned(),
        None => modgate_testkit::program::built()?.to_owned(),
    };
    fs::canonicalize(binary).context("find modgate")
}
