//! `modgate check`: what a `modgate.yaml` configures, so that a pipeline is one command.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Parser;
use modgate_value::{
    Value,
    diag::{Diagnostic, Source, Span},
    near, yaml,
};

use crate::{args::ReviewArgs, exit::Exit, gator, review, terminal::Terminal};

/// The name of the configuration.
const FILE: &str = "modgate.yaml";

/// The longest configuration that is read.
const MAX_BYTES: u64 = 1 << 20;

pub(crate) const EXAMPLES: &str = "\
The configuration is the first modgate.yaml in this folder or one above it. Paths in it are relative to
its folder. Every member is optional, except that there is something to check:

  policies: [policies/]           # as -f of review
  references: [cluster/]          # as --objects of review
  objects: [k8s/, 'apps/**/*.yaml']
  kustomize: [overlays/production]
  exclude: [tests]
  namespace: default
  outputs: [text, sarif=modgate.sarif]
  failOn: warn                    # deny, warn, dryrun or none
  maxWarnings: 0
  strict: true
  suites: [policies/...]          # as the paths of verify
  suiteOutputs: [text, junit=verify.xml]
  requireTests: true

Examples:
  # Check everything that is configured
  modgate check

  # Use another configuration
  modgate check --config ci/modgate.yaml

Exit codes:
  0  no violation is as severe as failOn, and every test passed
  1  at least one violation is, there are more warnings than maxWarnings, or a test failed
  2  the configuration, files, policies or objects are not valid";

/// Arguments of `modgate check`.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// Configuration file [default: modgate.yaml, found upwards]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print violations and errors only.
    #[arg(short, long)]
    quiet: bool,
}

/// The command line of a review.
#[derive(Debug, Parser)]
#[command(name = "modgate review")]
struct ReviewLine {
    #[command(flatten)]
    args: ReviewArgs,
}

impl ReviewLine {
    /// Parses `modgate review ...`.
    fn of(line: Vec<OsString>) -> Result<Self, clap::Error> {
        Self::try_parse_from(line.into_iter().skip(1))
    }
}

/// A member of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Texts,
    Text,
    Count,
    Switch,
}

const MEMBERS: [(&str, Kind); 13] = [
    ("policies", Kind::Texts),
    ("references", Kind::Texts),
    ("objects", Kind::Texts),
    ("kustomize", Kind::Texts),
    ("exclude", Kind::Texts),
    ("namespace", Kind::Text),
    ("outputs", Kind::Texts),
    ("failOn", Kind::Text),
    ("maxWarnings", Kind::Count),
    ("strict", Kind::Switch),
    ("suites", Kind::Texts),
    ("suiteOutputs", Kind::Texts),
    ("requireTests", Kind::Switch),
];

/// Runs the verb.
pub(crate) fn run(args: &CheckArgs, terminal: &Terminal) -> Result<Exit> {
    let file = match &args.config {
        Some(file) => file.clone(),
        None => found_upwards()?,
    };
    let Some(config) = Config::read(&file, terminal)? else { return Ok(Exit::BadInput) };
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder {
        env::set_current_dir(folder)
            .with_context(|| format!("cannot enter `{}`", folder.display()))?;
    }
    let mut exit = Exit::Success;
    let mut checked = false;
    if let Some(line) = config.review(args.quiet) {
        checked = true;
        let line = ReviewLine::of(line).map_err(|error| anyhow!("{}: {error}", file.display()))?;
        exit = exit.max(review::run(&line.args, terminal)?);
    }
    if let Some(line) = config.verify() {
        checked = true;
        exit = exit.max(match gator::run_line(&line) {
            0 => Exit::Success,
            1 => Exit::Denied,
            _ => Exit::BadInput,
        });
    }
    if !checked {
        bail!("`{}` names neither `policies` with `objects` nor `suites`", file.display());
    }
    Ok(exit)
}

/// The configuration of this folder, or of the nearest one above it.
fn found_upwards() -> Result<PathBuf> {
    let here = env::current_dir().context("cannot find the current folder")?;
    let found = here.ancestors().map(|folder| folder.join(FILE)).find(|file| file.is_file());
    let found = found.with_context(|| {
        format!(
            "there is no {FILE} in `{}` or above it; `modgate check --help` has one",
            here.display()
        )
    })?;
    // A name without folders is shown as people type it.
    Ok(if found.parent() == Some(&here) { PathBuf::from(FILE) } else { found })
}

/// The members of a configuration, as flags take them.
#[derive(Debug, Default)]
struct Config(Vec<(&'static str, Vec<String>)>);

impl Config {
    /// Reads a configuration; `None` after telling what is wrong with it.
    fn read(file: &Path, terminal: &Terminal) -> Result<Option<Self>> {
        let cannot = || format!("cannot read `{}`", file.display());
        let size = fs::metadata(file).with_context(cannot)?.len();
        anyhow::ensure!(size <= MAX_BYTES, "`{}` is larger than 1 MiB", file.display());
        let text = fs::read_to_string(file).with_context(cannot)?;
        let source = Source::new(file.display().to_string(), text);
        let (config, problems) = Self::parse(&source);
        problems.iter().for_each(|problem| terminal.diagnostic(problem));
        Ok(problems.is_empty().then_some(config))
    }

    fn parse(source: &Source) -> (Self, Vec<Diagnostic>) {
        let mut config = Self::default();
        let mut problems = Vec::new();
        let document = match yaml::documents_strict(&source.text).next() {
            Some(Ok(document)) => document,
            Some(Err(error)) => {
                let offset = error.position.map_or(0, |position| position.offset);
                let problem = Diagnostic::error(error.message.as_str());
                problems.push(problem.at(source.clone(), line_at(&source.text, offset)));
                return (config, problems);
            }
            None => return (config, problems),
        };
        let Some(members) = document.value.as_object() else {
            let problem = Diagnostic::error("a configuration is an object");
            problems.push(problem.at(source.clone(), line_at(&source.text, 0)));
            return (config, problems);
        };
        for (name, value) in members {
            let offset = document.positions.nearest_key(&format!("/{name}")).offset;
            let span = line_at(&source.text, offset);
            let mut problem = |message: String, help: Option<String>| {
                let mut problem = Diagnostic::error(message).at(source.clone(), span);
                problem.help = help;
                problems.push(problem);
            };
            let Some((known, kind)) = MEMBERS.iter().find(|(known, _)| known == name) else {
                let known = MEMBERS.map(|(known, _)| known);
                let help = near::did_you_mean_or(name, &known, "the members are");
                problem(format!("unknown member `{name}`"), Some(help));
                continue;
            };
            match (texts(value, *kind), kind) {
                (Some(texts), _) => config.0.push((*known, texts)),
                (None, Kind::Texts) => problem(format!("`{name}` is a list of texts"), None),
                (None, Kind::Text) => problem(format!("`{name}` is a text"), None),
                (None, Kind::Count) => problem(format!("`{name}` is a number from 0"), None),
                (None, Kind::Switch) => problem(format!("`{name}` is true or false"), None),
            }
        }
        (config, problems)
    }

    fn get(&self, name: &str) -> &[String] {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map(|(_, texts)| texts.as_slice()).unwrap_or_default()
    }

    /// The command line of the review; `None` if there is nothing to review.
    fn review(&self, quiet: bool) -> Option<Vec<OsString>> {
        let has = |name: &str| !self.get(name).is_empty();
        if !has("policies") || !(has("objects") || has("kustomize")) {
            return None;
        }
        let mut line = vec!["modgate".to_owned(), "review".to_owned()];
        for (name, flag) in [
            ("policies", "--filename"),
            ("references", "--objects"),
            ("kustomize", "--kustomize"),
            ("exclude", "--exclude"),
            ("namespace", "--namespace"),
            ("outputs", "--output"),
            ("failOn", "--fail-on"),
            ("maxWarnings", "--max-warnings"),
        ] {
            line.extend(self.get(name).iter().map(|text| format!("{flag}={text}")));
        }
        if has("strict") {
            line.push("--strict".to_owned());
        }
        if quiet {
            line.push("--quiet".to_owned());
        }
        line.push("--".to_owned());
        line.extend(self.get("objects").iter().cloned());
        Some(line.into_iter().map(OsString::from).collect())
    }

    /// The command line of the suites; `None` if there are none.
    fn verify(&self) -> Option<Vec<OsString>> {
        let suites = self.get("suites");
        if suites.is_empty() {
            return None;
        }
        let mut line = vec!["modgate".to_owned(), "verify".to_owned()];
        line.extend(self.get("suiteOutputs").iter().map(|text| format!("--output={text}")));
        for (name, flag) in [("strict", "--strict"), ("requireTests", "--require-tests")] {
            if !self.get(name).is_empty() {
                line.push(flag.to_owned());
            }
        }
        line.push("--".to_owned());
        line.extend(suites.iter().cloned());
        Some(line.into_iter().map(OsString::from).collect())
    }
}

/// The texts of a member; a switch that is off has none.
fn texts(value: &Value, kind: Kind) -> Option<Vec<String>> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match kind {
        Kind::Texts => match value.as_array() {
            Some(list) => list.iter().map(text).collect(),
            None => Some(vec![text(value)?]),
        },
        Kind::Text => Some(vec![text(value)?]),
        Kind::Count => {
            let count = value.as_i64().filter(|count| *count >= 0)?;
            Some(vec![count.to_string()])
        }
        Kind::Switch => Some(if value.as_bool()? { vec!["true".to_owned()] } else { Vec::new() }),
    }
}

/// The rest of the line from an offset.
fn line_at(text: &str, offset: usize) -> Span {
    let rest = text.get(offset..).unwrap_or_default();
    Span::new(offset, offset + rest.find('\n').unwrap_or(rest.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> (Config, Vec<String>) {
        let (config, problems) = Config::parse(&Source::new("modgate.yaml", text));
        let shown = |it: &Diagnostic| match &it.help {
            Some(help) => format!("{it}; {help}"),
            None => it.to_string(),
        };
        (config, problems.iter().map(shown).collect())
    }

    #[test]
    fn command_lines() {
        let (config, problems) = parse(
            "policies: p\nobjects: [a, b]\noutputs: [text, sarif=x]\nmaxWarnings: 0\nstrict: true\n\
             suites: [s/...]\nrequireTests: false\n",
        );
        assert_eq!(problems, Vec::<String>::new());
        let words = |line: Option<Vec<OsString>>| -> String {
            let words = line.expect("a line").into_iter();
            words.map(|word| word.into_string().expect("text")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            words(config.review(true)),
            "modgate review --filename=p --output=text --output=sarif=x --max-warnings=0 --strict \
             --quiet -- a b"
        );
        assert_eq!(words(config.verify()), "modgate verify --strict -- s/...");
        ReviewLine::of(config.review(false).expect("a line")).expect("it parses");
        assert!(parse("policies: p\n").0.review(false).is_none());
    }

    #[test]
    fn mistakes() {
        for (text, expected) in [
            (
                "polices: [a]\n",
                "modgate.yaml:1:1: unknown member `polices`; did you mean `policies`?",
            ),
            ("objects: [1]\n", "modgate.yaml:1:1: `objects` is a list of texts"),
            ("strict: maybe\n", "modgate.yaml:1:1: `strict` is true or false"),
            ("\nmaxWarnings: -1\n", "modgate.yaml:2:1: `maxWarnings` is a number from 0"),
            ("failOn: [a]\n", "modgate.yaml:1:1: `failOn` is a text"),
            ("- a\n", "modgate.yaml:1:1: a configuration is an object"),
        ] {
            assert_eq!(parse(text).1, [expected], "{text}");
        }
        assert!(!parse("a: [\n").1.is_empty());
    }
}
