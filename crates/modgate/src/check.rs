//! `modgate check`: what a `modgate.yaml` configures, so that a pipeline is one command.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::{Parser, ValueEnum};
use modgate_gator::verify;
use modgate_policies::{manifest, paths};
use modgate_report::is_address;
use modgate_value::{
    Value,
    diag::{Diagnostic, Severity, Source, Span},
    near, yaml,
};

use crate::{
    args::{FailOn, ReviewArgs, ReviewOutput, namespace},
    exit::Exit,
    gator, review,
    terminal::Terminal,
};

/// The name of the configuration.
const FILE: &str = "modgate.yaml";

/// The longest configuration that is read.
const MAX_BYTES: u64 = 1 << 20;

pub(crate) const EXAMPLES: &str = "\
The configuration is the first modgate.yaml in this folder or one above it. Paths in it are relative to
its folder. Every member is optional, but objects or suites are needed:

  policies: [policies/]           # as -f of review
  references: [cluster/]          # as --objects of review
  objects: [k8s/, 'apps/**/*.yaml']
  kustomize: [overlays/production]
  exclude: [tests]
  namespace: default
  exemptNamespaces: [kube-*]      # as --exempt-namespace of review
  modruleExemptNamespaces: [kube-system]
  outputs: [text, sarif=modgate.sarif]
  failOn: warn                    # deny, warn, dryrun or none
  maxWarnings: 0
  helpBase: 'https://docs.example.com/warnings.html#'
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
  1  at least one violation is as severe, there are more warnings than maxWarnings, or a test failed
  2  the configuration, files, policies or objects are not valid";

/// Arguments of `modgate check`.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// Configuration file [default: modgate.yaml, found upwards]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Treat warnings about policies and suites as errors, whatever the configuration says.
    #[arg(long)]
    strict: bool,
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

const MEMBERS: [(&str, Kind); 16] = [
    ("policies", Kind::Texts),
    ("references", Kind::Texts),
    ("objects", Kind::Texts),
    ("kustomize", Kind::Texts),
    ("exclude", Kind::Texts),
    ("namespace", Kind::Text),
    ("exemptNamespaces", Kind::Texts),
    ("modruleExemptNamespaces", Kind::Texts),
    ("outputs", Kind::Texts),
    ("failOn", Kind::Text),
    ("maxWarnings", Kind::Count),
    ("helpBase", Kind::Text),
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
    let Some(mut config) = Config::read(&file, terminal)? else { return Ok(Exit::BadInput) };
    if args.strict {
        config.0.retain(|(name, _)| *name != "strict");
        config.0.push(("strict", vec!["true".to_owned()]));
    }
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
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let (config, problems) = Self::parse(&source, folder.unwrap_or(Path::new(".")));
        problems.iter().for_each(|problem| terminal.diagnostic(problem));
        Ok(problems.is_empty().then_some(config))
    }

    /// Paths are relative to `folder`.
    fn parse(source: &Source, folder: &Path) -> (Self, Vec<Diagnostic>) {
        let mut config = Self::default();
        let mut problems = Vec::new();
        let document = match yaml::manifest(&source.text).next() {
            Some(Ok(document)) => document,
            Some(Err(error)) => {
                problems.push(manifest::not_yaml(&error, source));
                return (config, problems);
            }
            None => return (config, problems),
        };
        problems.extend(manifest::repeated(&document.positions, source).map(|mut problem| {
            problem.severity = Severity::Error;
            problem
        }));
        let Some(members) = document.value.as_object() else {
            let problem = Diagnostic::error("a configuration is an object");
            problems.push(problem.at(source.clone(), line_at(&source.text, 0)));
            return (config, problems);
        };
        for (name, value) in members {
            let offset = document.positions.nearest_key(&format!("/{name}")).offset;
            let span = line_at(&source.text, offset);
            let Some((known, kind)) = MEMBERS.iter().find(|(known, _)| known == name) else {
                let known = MEMBERS.map(|(known, _)| known);
                let help = near::did_you_mean_or(name, &known, "the members are");
                let problem = Diagnostic::error(format!("unknown member `{name}`")).help(help);
                problems.push(problem.at(source.clone(), span));
                continue;
            };
            let mut wrong = |what: &str, help: Option<&str>| {
                let at = document.positions.nearest(&format!("/{name}")).offset;
                let problem = Diagnostic::error(format!("`{name}` is {what}"));
                let problem = Diagnostic { help: help.map(str::to_owned), ..problem };
                problems.push(problem.at(source.clone(), line_at(&source.text, at)));
            };
            match (texts(value, *kind), kind) {
                (Some(texts), _) => {
                    for (index, text) in texts.iter().enumerate() {
                        let Some((message, help)) = wrong_value(name, text, folder) else {
                            continue;
                        };
                        let place = document.positions.nearest(&format!("/{name}/{index}"));
                        let span = value_at(&source.text, place.offset, text);
                        let problem = Diagnostic::error(format!("`{name}`: {message}"));
                        let problem = Diagnostic { help, ..problem };
                        problems.push(problem.at(source.clone(), span));
                    }
                    config.0.push((*known, texts));
                }
                (None, Kind::Texts) => wrong("a list of texts", None),
                (None, Kind::Text) => wrong("a text", None),
                (None, Kind::Count) => wrong("a number from 0", None),
                (None, Kind::Switch) => {
                    let is_quoted = value.as_str().is_some_and(|text| {
                        ["true", "false", "yes", "no", "on", "off"].contains(&text)
                    });
                    wrong("true or false", is_quoted.then_some("write it without quotes"));
                }
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
            ("exemptNamespaces", "--exempt-namespace"),
            ("modruleExemptNamespaces", "--modrule-exempt-namespace"),
            ("outputs", "--output"),
            ("failOn", "--fail-on"),
            ("maxWarnings", "--max-warnings"),
            ("helpBase", "--help-base"),
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
        line.extend(self.get("helpBase").iter().map(|text| format!("--help-base={text}")));
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

/// Why no command takes a text as a value of a member, and the advice.
fn wrong_value(name: &str, text: &str, folder: &Path) -> Option<(String, Option<String>)> {
    let unknown = |text: &str, known: &[String]| {
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let help = near::did_you_mean_or(text, &known, "the values are");
        (!known.contains(&text)).then(|| (format!("there is no value `{text}`"), Some(help)))
    };
    match name {
        "failOn" => unknown(text, &names_of::<FailOn>()),
        "outputs" | "suiteOutputs" => {
            let format = text.split_once('=').map_or(text, |(format, _)| format);
            let known = match name {
                "outputs" => names_of::<ReviewOutput>(),
                _ => verify::formats().map(str::to_owned).collect(),
            };
            unknown(format, &known)
        }
        "namespace" => namespace(text).err().map(|reason| (reason, None)),
        "helpBase" if !is_address(text) => {
            Some((format!("`{text}` is not an address"), Some("start it with https://".to_owned())))
        }
        "policies" | "references" | "objects" | "kustomize" | "suites" => {
            let path = text.strip_suffix("/...").unwrap_or(text);
            let is_plain = path != "-" && !path.contains(['*', '?', '[']) && !path.contains("://");
            let file = folder.join(path);
            if !is_plain || file.exists() {
                return None;
            }
            let beside = format!("`{}/", folder.display());
            let help = paths::did_you_mean(&file).map(|help| help.replacen(&beside, "`", 1));
            Some((format!("there is no file or folder `{path}`"), help))
        }
        _ => None,
    }
}

/// The values of an enumeration as flags have them.
fn names_of<F: ValueEnum>() -> Vec<String> {
    let values = F::value_variants().iter().filter_map(F::to_possible_value);
    values.map(|value| value.get_name().to_owned()).collect()
}

/// The place of a value, as far as it stands there as written.
fn value_at(text: &str, offset: usize, value: &str) -> Span {
    let line = line_at(text, offset);
    let rest = text.get(line.start..line.end).unwrap_or_default();
    match rest.find(value) {
        Some(at) if !value.is_empty() => Span::new(line.start + at, line.start + at + value.len()),
        _ => line,
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
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let (config, problems) = Config::parse(&Source::new("modgate.yaml", text), folder);
        let shown = |it: &Diagnostic| match &it.help {
            Some(help) => format!("{it}; {help}"),
            None => it.to_string(),
        };
        (config, problems.iter().map(shown).collect())
    }

    #[test]
    fn command_lines() {
        let (config, problems) = parse(
            "policies: src\nobjects: [tests, src]\noutputs: [text, sarif=x]\nmaxWarnings: 0\nstrict: true\n\
             suites: [tests/...]\nrequireTests: false\n",
        );
        assert_eq!(problems, Vec::<String>::new());
        let words = |line: Option<Vec<OsString>>| -> String {
            let words = line.expect("a line").into_iter();
            words.map(|word| word.into_string().expect("text")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            words(config.review(true)),
            "modgate review --filename=src --output=text --output=sarif=x --max-warnings=0 --strict \
             --quiet -- tests src"
        );
        assert_eq!(words(config.verify()), "modgate verify --strict -- tests/...");
        ReviewLine::of(config.review(false).expect("a line")).expect("it parses");
        assert!(parse("policies: src\n").0.review(false).is_none());
    }

    #[test]
    fn mistakes() {
        for (text, expected) in [
            (
                "polices: [a]\n",
                "modgate.yaml:1:1: unknown member `polices`; did you mean `policies`?",
            ),
            ("objects: [1]\n", "modgate.yaml:1:10: `objects` is a list of texts"),
            ("strict: maybe\n", "modgate.yaml:1:9: `strict` is true or false"),
            ("\nmaxWarnings: -1\n", "modgate.yaml:2:14: `maxWarnings` is a number from 0"),
            ("failOn: [a]\n", "modgate.yaml:1:9: `failOn` is a text"),
            (
                "policies: [src, tets]\n",
                "modgate.yaml:1:17: `policies`: there is no file or folder `tets`; did you mean `tests`?",
            ),
            (
                "suites:\n- srcs/...\n",
                "modgate.yaml:2:3: `suites`: there is no file or folder `srcs`; did you mean `src`?",
            ),
            (
                "objects: tests/alll\n",
                "modgate.yaml:1:10: `objects`: there is no file or folder `tests/alll`; did you mean `tests/all`?",
            ),
            (
                "failOn: denny\n",
                "modgate.yaml:1:9: `failOn`: there is no value `denny`; did you mean `deny`?",
            ),
            (
                "outputs: [text, sarf=x]\n",
                "modgate.yaml:1:17: `outputs`: there is no value `sarf`; did you mean `sarif`?",
            ),
            (
                "suiteOutputs: junt\n",
                "modgate.yaml:1:15: `suiteOutputs`: there is no value `junt`; did you mean `junit`?",
            ),
            (
                "namespace: Shop\n",
                "modgate.yaml:1:12: `namespace`: a Namespace has a name of lower-case letters, digits and `-`",
            ),
            ("- a\n", "modgate.yaml:1:1: a configuration is an object"),
        ] {
            assert_eq!(parse(text).1, [expected], "{text}");
        }
        assert!(!parse("a: [\n").1.is_empty());
    }
}
