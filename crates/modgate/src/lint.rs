//! `modgate lint`: what gets past policies, each finding with the objects that prove it.

mod open;
mod page;
mod units;

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use modgate_engine::{Code, EngineConfig, api::secrets};
use modgate_gator::flags::CheckArgs;
use modgate_gator::progress::Progress;
use modgate_prove::lint::{Bypass, Change, Options, PolicyFindings, Request, lint};
use modgate_report::{Finding, Format, Level, Object, Place, Report, Rule, RuleKind};
use modgate_value::{Value, yaml};

use self::units::{Changing, Unit, Units};
use crate::{
    args::{EngineArgs, Output, OutputFormat, OutputParser, PathArgs},
    exit::Exit,
    outputs::Outputs,
    terminal::{Terminal, Tone, one_line, printable},
};

/// Defaults of arguments.
const BUDGET: usize = 4000;
const SEED: u64 = 1;
const NAMESPACE: &str = "default";

/// Arguments of `modgate lint`.
#[derive(Debug, clap::Args)]
pub(crate) struct LintArgs {
    /// Files and folders with policies. lint first tries the objects of their test suites and
    /// other objects in them.
    #[arg(value_name = "POLICY", required_unless_present = "filename")]
    policies: Vec<PathBuf>,
    /// The same, under the name of other commands; repeat for more.
    #[arg(short, long, value_name = "PATH")]
    filename: Vec<PathBuf>,
    /// File or folder with further objects or AdmissionReviews to start from; repeat for more.
    #[arg(long, value_name = "PATH")]
    object: Vec<PathBuf>,
    /// Most decisions for each policy.
    #[arg(long, value_name = "N", default_value_t = BUDGET)]
    budget: usize,
    /// Seed of the invented objects.
    #[arg(long, value_name = "N", default_value_t = SEED)]
    seed: u64,
    /// Folder for the two requests of each finding, as AdmissionReviews.
    #[arg(long, value_name = "DIR")]
    write_witness: Option<PathBuf>,
    /// Namespace of policies that name none.
    #[arg(short, long, default_value = NAMESPACE, value_parser = crate::args::namespace)]
    namespace: String,
    /// Output format, and the file to write it to; repeat for more.
    #[arg(
        short,
        long,
        value_name = "FORMAT[=FILE]",
        default_value = "text",
        value_parser = OutputParser::<LintOutput>::new()
    )]
    output: Vec<Output<LintOutput>>,
    #[command(flatten)]
    checks: CheckArgs,
    #[command(flatten)]
    engine: EngineArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LintOutput {
    /// Findings with the two requests that prove each, for people.
    Text,
    /// A JSON document.
    Json,
    /// The same document in YAML.
    Yaml,
    /// A JSON object for each finding, one per line.
    Jsonl,
    /// Annotations of GitHub Actions.
    Github,
    /// A Code Quality report of GitLab.
    Gitlab,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
    /// JUnit XML, for build servers.
    Junit,
    /// Markdown, for job summaries and comments.
    Markdown,
    /// One page for a browser, with the objects of each finding side by side.
    Html,
}

impl OutputFormat for LintOutput {
    fn report(self) -> Option<Format> {
        match self {
            Self::Text | Self::Html => None,
            Self::Json => Some(Format::Json),
            Self::Yaml => Some(Format::Yaml),
            Self::Jsonl => Some(Format::Jsonl),
            Self::Github => Some(Format::Github),
            Self::Gitlab => Some(Format::Gitlab),
            Self::Sarif => Some(Format::Sarif),
            Self::Junit => Some(Format::Junit),
            Self::Markdown => Some(Format::Markdown),
        }
    }
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  # Find objects that get past these policies
  modgate lint policies/

  # The same, starting from the objects of a folder, with the proofs as files
  modgate lint policies/ --object manifests/ --write-witness proofs/

  # For code scanning, and as a page
  modgate lint -o sarif=lint.sarif -o html=lint.html policies/

Exit codes:
  0  nothing was found
  1  an object gets past a policy
  2  arguments, files or policies are not valid";

/// A finding and the policies that it is of.
struct Reported<'u> {
    unit: &'u Unit,
    bypass: Bypass,
    /// Further constraints of the template with the same finding.
    others: Vec<String>,
}

/// A finding as it is shown.
struct Shown {
    code: Code,
    /// The policy.
    name: String,
    message: String,
    place: Place,
    about: Object,
    field: String,
    /// The messages of the denial.
    denials: Vec<String>,
    /// Objects, each with what it is.
    parts: Vec<(String, Value)>,
    /// Further files of the proof, each with the end of its name.
    files: Vec<(&'static str, Value)>,
}

/// Runs the verb.
pub(crate) fn run(args: &LintArgs, terminal: &Terminal) -> Result<Exit> {
    let config = args.engine.config(&args.namespace);
    let terminal = &terminal.recording(args.checks.quiet);
    let mut outputs = Outputs::new(&args.output, terminal)?;
    let policies = PathArgs {
        subjects: args.policies.iter().chain(&args.filename).cloned().collect(),
        exclude: args.checks.exclude.clone(),
        ..PathArgs::default()
    };
    let strict = args.checks.strict;
    let Some(units) = Units::read(&policies, &args.object, &config, strict, terminal)? else {
        let mut report = modgate_review::findings::report(&terminal.heard());
        report.complete = false;
        write(&mut outputs, &page::Contents::unread(args, report))?;
        outputs.finish()?;
        return Ok(Exit::BadInput);
    };
    let results = tried(&units, args);
    let mut untried = results.iter().filter(|found| found.offences == 0).count();
    let mut notes = notes(&units, &results, args.budget);
    let (changes, unchanged) =
        units.changing.tried(Options { budget: args.budget, seed: args.seed });
    untried += unchanged.len();
    notes.extend(
        unchanged.iter().map(|name| {
            format!("no object was found that {name} changes; give one with `--object`")
        }),
    );
    for note in &notes {
        terminal.note(format_args!("note: {note}"));
    }
    let reported = reported(&units, results, &config);
    let mut shown: Vec<Shown> = reported.iter().map(Reported::shown).collect();
    shown.extend(changes.iter().map(|change| of_change(change, &units.changing)));
    if let Some(folder) = &args.write_witness {
        for each in &shown {
            write_witness(folder, each)?;
        }
    }
    let policies = units.units.len() + units.changing.len();
    for sink in outputs.iter_mut().filter(|sink| sink.format == LintOutput::Text) {
        let plain = sink.terminal.again();
        text(sink, &shown, policies, untried, &plain)?;
    }
    let report = report(&shown, modgate_review::findings::report(&terminal.heard()));
    let contents = page::Contents {
        args,
        report,
        shown: &shown,
        sources: &units.sources,
        policies,
        untried,
        notes,
    };
    write(&mut outputs, &contents)?;
    outputs.finish()?;
    Ok(if shown.is_empty() { Exit::Success } else { Exit::Denied })
}

/// Writes everything but the text.
fn write(outputs: &mut Outputs<LintOutput>, contents: &page::Contents<'_>) -> Result<()> {
    outputs.report(&contents.report)?;
    for sink in outputs.iter_mut().filter(|sink| sink.format == LintOutput::Html) {
        sink.write_all(contents.page().html().as_bytes())?;
    }
    Ok(())
}

/// The policies about which the result says less than it seems to.
fn notes(units: &Units, results: &[PolicyFindings], budget: usize) -> Vec<String> {
    let note = |(unit, found): (&Unit, &PolicyFindings)| match found {
        PolicyFindings { offences: 0, .. } => {
            Some(format!("no object was found that {} denies; give one with `--object`", unit.name))
        }
        PolicyFindings { exhausted: true, .. } => Some(format!(
            "{} used up its budget of {budget} decisions; `--budget` sets it",
            unit.name
        )),
        _ => None,
    };
    units.units.iter().zip(results).filter_map(note).collect()
}

/// The findings that authors do not accept, those of several constraints of a template together.
fn reported<'u>(
    units: &'u Units,
    results: Vec<PolicyFindings>,
    config: &EngineConfig,
) -> Vec<Reported<'u>> {
    let mut reported: Vec<Reported<'_>> = Vec::new();
    for (unit, found) in units.units.iter().zip(results) {
        for bypass in found.bypasses {
            if unit.allows(bypass.code) || open::leaves_open(unit, &bypass, config) {
                continue;
            }
            let same = reported.iter_mut().find(|other| {
                other.bypass.code == bypass.code
                    && other.unit.owner(bypass.code) == unit.owner(bypass.code)
            });
            match same {
                Some(other) => other.others.push(unit.name.clone()),
                None => reported.push(Reported { unit, bypass, others: Vec::new() }),
            }
        }
    }
    reported
}

/// Tries to get past every policy, on all cores.
fn tried(units: &Units, args: &LintArgs) -> Vec<PolicyFindings> {
    let progress = Progress::new(Some(units.units.len()), "policies");
    let next = AtomicUsize::new(0);
    let results = Mutex::new(vec![PolicyFindings::default(); units.units.len()]);
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(unit) = units.units.get(index) else { return };
            let options = Options { budget: args.budget, seed: args.seed };
            let found = lint(&unit.subject(), options);
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(result) = results.get_mut(index) {
                *result = found;
            }
            drop(results);
            progress.show(1);
        }
    };
    thread::scope(|scope| {
        for _ in 1..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
        work();
    });
    progress.clear();
    results.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// The way around a policy, in a few words.
fn words(code: Code) -> &'static str {
    match code {
        Code::BypassInitContainers => {
            "the policy admits in an init container what it denies in a container"
        }
        Code::BypassEphemeralContainers => {
            "the policy admits in an ephemeral container what it denies in a container"
        }
        Code::BypassListElement => "the policy admits the offence in another element of the list",
        Code::BypassEmptyValue => "the policy admits an empty value where it denies a missing one",
        Code::NotIdempotent => "a second run changes the object again",
        Code::OrderDependent => "the result depends on which of two policies runs first",
        Code::Defeated => "another policy undoes everything that the policy changes",
        Code::BypassDuplicate => "the policy admits the offence if its element is there twice",
        Code::BypassNull => "the policy admits null where it denies a missing member",
        Code::BypassNumber => "the policy admits the same number in another type",
        Code::BypassSubresource => "the policy admits by a subresource what it denies at creation",
        Code::BypassDelete => {
            "the policy admits the deletion of what it protects from updates, and names deletions"
        }
        Code::BypassUpdate => "the policy admits by an update what it denies at creation",
        Code::BypassGenerateName => {
            "the policy admits the object if the API server generates its name"
        }
        Code::BypassNamespace => {
            "the policy admits the object in another namespace that it matches"
        }
        Code::BypassPodTemplate => {
            "the policy admits the same Pods of another kind that it matches"
        }
        Code::BypassImageName => "the policy admits another name of the same image",
        Code::BypassImageDigest => "the policy admits the image with a digest behind its tag",
        Code::BypassCase => "the policy admits the capability in other case, which runtimes ignore",
        Code::BypassAll => "the policy admits `ALL`, which has the capability that it denies",
        Code::BypassQuantity => "the policy admits the same quantity in another format",
        Code::BypassPrefix => {
            "the policy admits an image whose name only begins like an allowed one"
        }
        _ => "the policy admits what it denies in another form",
    }
}

/// `Pod shop/web` of a request.
fn object_of(request: &Request) -> Object {
    let text = |path: &[&str]| {
        request.subject().path(path).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let (group, version) = modgate_engine::api::meta::split_api_version(
        request.subject().get("apiVersion").and_then(Value::as_str).unwrap_or_default(),
    );
    Object {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: text(&["kind"]),
        namespace: text(&["metadata", "namespace"]),
        name: text(&["metadata", "name"]),
        generate_name: text(&["metadata", "generateName"]),
    }
}

impl Shown {
    /// The name of the file with a request of the proof.
    fn file(&self, what: &str) -> String {
        let plain =
            |character: char| if character.is_ascii_alphanumeric() { character } else { '-' };
        let policy: String = self.name.to_lowercase().chars().map(plain).collect();
        format!("{policy}-{}-{what}.yaml", self.code)
    }
}

impl Reported<'_> {
    fn message(&self) -> String {
        let place = match self.bypass.place.as_str() {
            "" => String::new(),
            place => format!(" ({place})"),
        };
        let others = match self.others.as_slice() {
            [] => String::new(),
            others => format!("; likewise {}", others.join(", ")),
        };
        format!("{}: {}{place}{others}", self.unit.name, words(self.bypass.code))
    }

    fn shown(&self) -> Shown {
        let requests = [("denied", &self.bypass.denied), ("admitted", &self.bypass.witness)];
        let part = |(what, request): &(&str, &Request)| {
            let resource = match request.sub_resource {
                "" => String::new(),
                name => format!(" of the subresource {name}"),
            };
            let what = format!("{what}, {}{resource}", request.operation());
            (what, secrets::shown(request.subject(), false))
        };
        Shown {
            code: self.bypass.code,
            name: self.unit.name.clone(),
            message: self.message(),
            place: self.place(),
            about: object_of(&self.bypass.witness),
            field: self.bypass.place.clone(),
            denials: self.bypass.messages.clone(),
            parts: requests.iter().map(part).collect(),
            files: requests.map(|(what, request)| (what, request.document())).to_vec(),
        }
    }

    fn place(&self) -> Place {
        let (file, line, column) = self.unit.owner(self.bypass.code);
        Place::at(file.as_str(), *line, *column)
    }
}

/// The finding about mutators or Patch rules.
fn of_change(change: &Change, all: &Changing) -> Shown {
    let (name, other) = (all.name(change.policy), change.other.map(|index| all.name(index)));
    let [first, second] = &change.results;
    let names = match (&other, change.code) {
        (None, _) => ["after one run".to_owned(), "after two runs".to_owned()],
        (Some(other), Code::OrderDependent) => {
            [format!("{name}, then {other}"), format!("{other}, then {name}")]
        }
        (Some(other), _) => [format!("{name} alone"), format!("with {other}")],
    };
    let message = match (&other, second.is_null()) {
        (None, _) => format!("{name}: a second run changes the object again"),
        (Some(other), true) => {
            format!(
                "{name}: {other} undoes what it changes, and the other way round, without an end"
            )
        }
        (Some(other), false) if change.code == Code::OrderDependent => {
            format!("{name}: the result depends on whether it runs before {other}")
        }
        (Some(other), false) => format!("{name}: {other} undoes everything that it changes"),
    };
    let [of_first, of_second] = names;
    let results = [(of_first, first), (of_second, second)].into_iter();
    let results = results.filter(|(_, result)| !result.is_null());
    let parts = std::iter::once(("object".to_owned(), change.request.subject())).chain(results);
    let (file, line, column) = all.place(change.policy);
    Shown {
        code: change.code,
        name,
        message,
        place: Place::at(file, line, column),
        about: object_of(&change.request),
        field: String::new(),
        denials: Vec::new(),
        parts: parts.map(|(what, object)| (what, secrets::shown(object, false))).collect(),
        files: vec![("object", change.request.document())],
    }
}

/// Adds the findings to what was printed about the policies.
fn report(shown: &[Shown], mut report: Report) -> Report {
    report.fails_from = Level::Warning;
    for each in shown {
        let rule = Rule {
            title: words(each.code).to_owned(),
            description: each.code.explanation().trim().to_owned(),
            level: Level::Warning,
            ..Rule::new(each.code.as_str(), RuleKind::Code)
        };
        let rule = report.rule(rule);
        let mut finding = Finding::new(rule, Level::Warning, each.message.clone())
            .at(each.place.clone())
            .about(each.about.clone());
        finding.field = each.field.clone();
        report.findings.push(finding);
    }
    report
}

fn text(
    out: &mut impl io::Write,
    shown: &[Shown],
    policies: usize,
    untried: usize,
    terminal: &Terminal,
) -> Result<()> {
    for each in shown {
        let code = terminal.paint(Tone::Bad, each.code);
        writeln!(out, "{code}: {}", printable(&each.message))?;
        let place = terminal.paint(Tone::Faint, one_line(&each.place.to_string()));
        writeln!(out, "  {place}")?;
        for message in &each.denials {
            writeln!(out, "  denied: {}", printable(message).replace('\n', " "))?;
        }
        for (what, object) in &each.parts {
            writeln!(out, "  {}:", printable(what))?;
            for line in yaml::write(object).lines() {
                writeln!(out, "    {}", terminal.paint(Tone::Faint, printable(line)))?;
            }
        }
        writeln!(out)?;
    }
    let findings = match shown.len() {
        0 if untried == policies => String::new(),
        0 => "nothing gets past them".to_owned(),
        1 => "1 finding".to_owned(),
        count => format!("{count} findings"),
    };
    // Of a policy that denied nothing, nothing is known.
    let untried = if untried == 0 { String::new() } else { format!("{untried} not examined") };
    let results: Vec<_> = [findings, untried].into_iter().filter(|text| !text.is_empty()).collect();
    let policies =
        if policies == 1 { "1 policy".to_owned() } else { format!("{policies} policies") };
    Ok(writeln!(out, "{policies}: {}", results.join(", "))?)
}

/// Writes the requests of a finding.
fn write_witness(folder: &Path, each: &Shown) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    for (what, document) in &each.files {
        let path = folder.join(each.file(what));
        fs::write(&path, yaml::write(document))
            .with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    Ok(())
}
