//! `modgate migrate`: checks and converts an installation of the originals.

use std::{
    env, fs,
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, anyhow, ensure};
use clap::{Parser, ValueEnum};
use modgate_cluster::remote::{Place, Remote, RemoteError, Resource};
use modgate_migrate::{
    Carried, Chart, Difference, Fate, InstalledObject, Left, Lost, OwnPolicy, RESOURCES, Remark,
    Report, Subject, Unset,
};
use modgate_report::Format;
use modgate_ui::Page;
use modgate_value::{Object, Str, Value, yaml};

use crate::{
    args::{EngineArgs, Output, OutputFormat, OutputParser, PathArgs, ServeArgs},
    exit::Exit,
    inputs::manifests,
    outputs::{Outputs, print_json},
    terminal::{Terminal, Tone, printable},
};

/// Arguments of `modgate migrate`.
#[derive(Debug, clap::Args)]
pub(crate) struct MigrateArgs {
    /// Check the installation and report. `migrate` has no other mode, and changes nothing.
    #[arg(long, required = true)]
    check: bool,
    /// Files and folders with all objects of the installation, `-` for standard input. Without any, the
    /// cluster is read.
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Kubeconfig of the cluster [default: the one kubectl uses]
    #[arg(long, value_name = "FILE", conflicts_with = "paths")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME", conflicts_with = "paths")]
    context: Option<String>,
    /// Write values for modgate's chart that keep the settings of the installation.
    #[arg(long, value_name = "FILE")]
    write_values: Option<PathBuf>,
    /// Values that modgate's chart will be installed with: report each setting that they would change.
    #[arg(long, value_name = "FILE")]
    values: Option<PathBuf>,
    /// Values that Gatekeeper's chart was installed with: keep these as well. The cluster takes
    /// precedence over them.
    #[arg(long, value_name = "FILE")]
    gatekeeper_values: Option<PathBuf>,
    /// Treat warnings about policies as errors; docs/warnings.md lists them.
    #[arg(long)]
    strict: bool,
    /// Output format, and the file to write it to; repeat for more.
    #[arg(
        short,
        long,
        value_name = "FORMAT[=FILE]",
        default_value = "text",
        value_parser = OutputParser::<MigrateOutput>::new()
    )]
    output: Vec<Output<MigrateOutput>>,
    #[command(flatten)]
    engine: EngineArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MigrateOutput {
    /// For people.
    Text,
    /// A JSON object.
    Json,
    /// A YAML document.
    Yaml,
    /// One HTML file for a browser: policies, differences and steps. It loads nothing.
    Html,
}

/// None: what a migration changes is no finding about a file.
impl OutputFormat for MigrateOutput {
    fn report(self) -> Option<Format> {
        None
    }
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  # Check the cluster that kubectl uses
  modgate migrate --check

  # Check another cluster
  modgate migrate --check --kubeconfig staging.yaml --context admin

  # Check manifests and policies of a folder
  modgate migrate --check manifests/ policies/

  # Write values that keep failure policies, time-outs, selectors, replicas, resources and flags
  modgate migrate --check --write-values modgate-values.yaml

  # Keep also the values of Gatekeeper's Helm release
  modgate migrate --check --gatekeeper-values values.yaml --write-values modgate-values.yaml

  # Check that edited values still keep them
  modgate migrate --check --values modgate-values.yaml

  # Print only the commands of the migration
  modgate migrate --check -o json | jq -r '.steps[] | \"# \" + .title, .commands[]?'

Exit codes:
  0  everything is enforced as before, or with the listed differences
  1  a policy or a flag is refused, or less would be enforced than before; with --strict also if a
     policy probably does not do what its author wants
  2  arguments, files or objects are not valid, or the cluster cannot be read";

/// The comment above written values.
const VALUES: &str = "\
# Written by `modgate migrate --check`: what the installation has and modgate's chart has not by default.
";

/// Values of the chart, which must be a mapping.
fn read_values(file: &Path) -> Result<Value> {
    let text = fs::read_to_string(file);
    let text = text.with_context(|| format!("cannot read `{}`", file.display()))?;
    let values = yaml::value(&text).map_err(|error| anyhow!("`{}`: {error}", file.display()))?;
    ensure!(
        values.is_null() || values.as_object().is_some(),
        "`{}` holds no values",
        file.display()
    );
    Ok(values)
}

/// The group of the cluster's own policies.
const REGISTRATION: &str = "admissionregistration.k8s.io";

/// Namespace of ModRules in files that name none.
const NAMESPACE: &str = "default";

/// Runs the verb.
pub(crate) fn run(args: &MigrateArgs, terminal: &Terminal) -> Result<Exit> {
    let mut incomplete = false;
    let mut outputs = Outputs::new(&args.output, terminal)?;
    let objects = match args.paths.is_empty() {
        true => {
            let env = |name: &str| env::var(name).ok();
            let (file, context) = (args.kubeconfig.as_deref(), args.context.as_deref());
            of_cluster(&Place::find(file, context, &env))?
        }
        false => of_files(&args.paths, terminal, &mut incomplete)?,
    };
    let config = args.engine.config(NAMESPACE);
    let values = args.values.as_deref().map(read_values).transpose()?;
    let file = args.write_values.as_ref().or(args.values.as_ref());
    let file = file.map(|it| it.display().to_string());
    let gatekeeper = args.gatekeeper_values.as_deref().map(read_values).transpose()?;
    let chart =
        Chart { gatekeeper: gatekeeper.as_ref(), values: values.as_ref(), file: file.as_deref() };
    let report = modgate_migrate::check(&objects, &config, &accepts, chart);
    if let Some(file) = &args.write_values {
        let text = format!("{VALUES}{}", yaml::write(&report.values));
        fs::write(file, text).with_context(|| format!("cannot write `{}`", file.display()))?;
    }
    for out in outputs.iter_mut() {
        match out.format {
            MigrateOutput::Text => {
                let terminal = &out.terminal.again();
                Printer { out, terminal }.report(&report)?;
            }
            MigrateOutput::Json => print_json(out, &value(&report)?)?,
            MigrateOutput::Yaml => write!(out, "{}", yaml::write(&value(&report)?))?,
            MigrateOutput::Html => {
                let page = Page::new("migrate", env!("CARGO_PKG_VERSION"), value(&report)?);
                out.write_all(page.html().as_bytes())?;
            }
        }
    }
    outputs.finish()?;
    let has_errors = report.needs_attention() || (args.strict && !report.warnings.is_empty());
    Ok(match (incomplete, has_errors) {
        (true, _) => Exit::BadInput,
        (false, true) => Exit::Denied,
        (false, false) => Exit::Success,
    })
}

/// Whether `modgate serve` takes a flag, and what it says of one that does nothing.
fn accepts(flag: &str) -> Result<Option<String>, String> {
    let refused = |error: clap::Error| {
        let text = error.to_string();
        let line = text.lines().next().unwrap_or_default();
        line.strip_prefix("error: ").unwrap_or(line).to_owned()
    };
    let line = ServeLine::try_parse_from(["modgate serve", flag]).map_err(refused)?;
    line.args.compat.check().map_err(|error| error.to_string())?;
    let notes = line.args.compat.notes();
    Ok((!notes.is_empty()).then(|| notes.join("; ")))
}

/// The command line of a server.
#[derive(Debug, Parser)]
#[command(name = "modgate serve")]
struct ServeLine {
    #[command(flatten)]
    args: ServeArgs,
}

fn value(report: &Report) -> Result<Value> {
    Ok(Value::from_json(&serde_json::to_vec(report)?)?)
}

fn of_files(
    paths: &[PathBuf],
    terminal: &Terminal,
    incomplete: &mut bool,
) -> Result<Vec<InstalledObject>> {
    let found = manifests(&PathArgs::of(paths), terminal, incomplete)?.into_iter();
    let mut all: Vec<InstalledObject> = found
        .map(|(manifest, _)| InstalledObject {
            origin: manifest.origin,
            object: manifest.object,
            positions: Some(manifest.positions),
        })
        .collect();
    if all.is_empty() && !*incomplete {
        let paths: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
        terminal.error(&format!("there is no object in `{}`", paths.join("`, `")));
        *incomplete = true;
    }
    all.iter_mut().for_each(|found| found.object = in_namespace(&found.object));
    Ok(all)
}

/// ModRules without a namespace live in the default one.
fn in_namespace(object: &Value) -> Value {
    let is_rule = object.get("kind").and_then(Value::as_str) == Some("ModRule");
    if !is_rule || object.path(&["metadata", "namespace"]).is_some() {
        return object.clone();
    }
    let members = |value: Option<&Value>| value.and_then(Value::as_object).cloned();
    let mut metadata = members(object.get("metadata")).unwrap_or_default();
    metadata.insert("namespace", NAMESPACE.into());
    let mut object = members(Some(object)).unwrap_or_default();
    object.insert("metadata", metadata.into());
    object.into()
}

fn of_cluster(place: &Place) -> Result<Vec<InstalledObject>> {
    let remote = Remote::connect(place)?;
    let origin = Str::from(remote.server());
    let found = |object: Value| InstalledObject { origin: origin.clone(), object, positions: None };
    let mut all = Vec::new();
    for group in modgate_migrate::GROUPS {
        let resources = remote.resources(group).with_context(|| format!("`{group}`"))?;
        for resource in resources {
            all.extend(list(&remote, &resource)?.into_iter().map(found));
        }
    }
    let own = remote.resources(REGISTRATION).with_context(|| format!("`{REGISTRATION}`"))?;
    for resource in own.into_iter().filter(|it| RESOURCES.contains(&it.plural.as_str())) {
        all.extend(list(&remote, &resource)?.into_iter().map(found));
    }
    for (group, plural) in [
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
        ("apps", "deployments"),
    ] {
        let resource = Resource::of_cluster(group, "v1", plural);
        all.extend(list(&remote, &resource)?.into_iter().map(found));
    }
    for part in modgate_migrate::parts(&all) {
        let resource = Resource::of_cluster(part.group, "v1", part.plural);
        let asked = remote.get(&resource, &part.namespace, part.name);
        let there = asked.with_context(|| format!("{} `{}`", part.plural, part.name))?;
        all.extend(there.map(found));
    }
    Ok(all)
}

fn list(remote: &Remote, resource: &Resource) -> Result<Vec<Value>> {
    let what = || format!("cannot list {}", resource.plural);
    remote.list(resource).or_else(gone).with_context(what)
}

/// A kind that was removed since it was seen has no objects.
fn gone(error: RemoteError) -> Result<Vec<Value>, RemoteError> {
    if error.is_not_found() { Ok(Vec::new()) } else { Err(error) }
}

struct Printer<'a, W> {
    out: &'a mut W,
    terminal: &'a Terminal,
}

impl<W: Write> Printer<'_, W> {
    fn report(&mut self, report: &Report) -> Result<()> {
        if report.originals.is_empty() {
            writeln!(self.out, "neither KubeMod nor Gatekeeper is installed here")?;
        }
        for installed in &report.originals {
            let images: Vec<&str> = installed.images.iter().map(String::as_str).collect();
            let images = match images.is_empty() {
                true => "no Deployment is there".to_owned(),
                false => images.join(", "),
            };
            let name = self.terminal.paint(Tone::Heading, installed.program);
            writeln!(self.out, "{name}: {}", printable(&images))?;
        }
        self.switched(&report.switched)?;
        self.unchanged(&report.unchanged)?;
        self.differences(&report.differs)?;
        self.remarks("does not run", Tone::Bad, &report.refused)?;
        self.remarks("runs, but probably not as intended", Tone::Notice, &report.warnings)?;
        self.admission_policies(&report.admission_policies)?;
        self.flags(report)?;
        self.carried(&report.carried)?;
        self.lost(&report.lost)?;
        self.left(&report.left)?;
        self.unset(&report.unset)?;
        self.values(&report.values, &report.unset)?;
        self.steps(report)
    }

    fn admission_policies(&mut self, policies: &[OwnPolicy]) -> Result<()> {
        if policies.is_empty() {
            return Ok(());
        }
        self.heading("the cluster's own policies (see docs/admission-policies.md)")?;
        for OwnPolicy { object, place, sentence, .. } in policies {
            self.object(object, "", place)?;
            writeln!(self.out, "    {}", printable(sentence))?;
        }
        Ok(())
    }

    fn heading(&mut self, text: &str) -> Result<()> {
        Ok(writeln!(self.out, "\n{}", self.terminal.paint(Tone::Heading, text))?)
    }

    fn switched(&mut self, subjects: &[Subject]) -> Result<()> {
        if subjects.is_empty() {
            return Ok(());
        }
        self.heading("is modgate's already")?;
        for subject in subjects {
            self.object(subject, "", &subject.place)?;
        }
        Ok(())
    }

    /// Counted by kind: these are most, and there is nothing to say of each.
    fn unchanged(&mut self, subjects: &[Subject]) -> Result<()> {
        self.heading(&format!("runs unchanged: {}", subjects.len()))?;
        let mut kinds: Vec<(&str, usize)> = Vec::new();
        for subject in subjects {
            match kinds.iter_mut().find(|(kind, _)| *kind == subject.kind) {
                Some((_, count)) => *count += 1,
                None => kinds.push((&subject.kind, 1)),
            }
        }
        kinds.sort_unstable();
        for (kind, count) in kinds {
            writeln!(self.out, "  {count:>5} {}", printable(kind))?;
        }
        Ok(())
    }

    fn differences(&mut self, differences: &[Difference]) -> Result<()> {
        if differences.is_empty() {
            return Ok(());
        }
        self.heading("runs, and differs (see docs/compatibility.md)")?;
        for Difference { object, decision, field, place, sentence } in differences {
            self.object(object, field, place)?;
            let decision = self.terminal.paint(Tone::Notice, decision);
            writeln!(self.out, "    {decision}: {}", printable(sentence))?;
        }
        Ok(())
    }

    fn remarks(&mut self, heading: &str, tone: Tone, remarks: &[Remark]) -> Result<()> {
        if remarks.is_empty() {
            return Ok(());
        }
        self.heading(heading)?;
        for Remark { object, field, place, sentence } in remarks {
            self.object(object, field, place)?;
            let sentence = printable(sentence).replace('\n', "\n    ");
            writeln!(self.out, "    {}", self.terminal.paint(tone, sentence))?;
        }
        Ok(())
    }

    fn object(&mut self, object: &Subject, field: &str, place: &str) -> Result<()> {
        let field = if field.is_empty() { String::new() } else { format!(" {field}") };
        let place = self.terminal.paint(Tone::Faint, format!("({})", printable(place)));
        Ok(writeln!(self.out, "  {}{} {place}", printable(&object.to_string()), printable(&field))?)
    }

    fn flags(&mut self, report: &Report) -> Result<()> {
        if report.flags.is_empty() {
            return Ok(());
        }
        self.heading("flags of the Deployments, for `modgate serve`")?;
        for flag in &report.flags {
            let (tone, fate) = match &flag.fate {
                Fate::Same => (Tone::Good, "means the same".to_owned()),
                Fate::Chart => (Tone::Faint, "from the chart, leave it out".to_owned()),
                Fate::Differs { decision, sentence } => {
                    (Tone::Notice, format!("{decision}: {sentence}"))
                }
                Fate::Nothing { sentence } => (Tone::Faint, sentence.clone()),
                Fate::Refused { sentence } => (Tone::Bad, format!("refused: {sentence}")),
            };
            writeln!(
                self.out,
                "  {} {}: {}",
                printable(&flag.object.name),
                printable(&flag.flag),
                self.terminal.paint(tone, printable(&fate))
            )?;
        }
        Ok(())
    }

    fn carried(&mut self, carried: &[Carried]) -> Result<()> {
        if carried.is_empty() {
            return Ok(());
        }
        self.heading("is not the chart's default, and is carried over")?;
        for Carried { object, field, place, value, is, default } in carried {
            self.object(object, field, place)?;
            let (is, default) = (short(is), short(default));
            writeln!(
                self.out,
                "    {value}: {} (default: {})",
                printable(&is),
                printable(&default)
            )?;
        }
        Ok(())
    }

    fn lost(&mut self, lost: &[Lost]) -> Result<()> {
        if lost.is_empty() {
            return Ok(());
        }
        self.heading("would change, and no value keeps it")?;
        for Lost { object, field, place, sentence, weakens } in lost {
            self.object(object, field, place)?;
            let tone = if *weakens { Tone::Bad } else { Tone::Notice };
            writeln!(self.out, "    {}", self.terminal.paint(tone, printable(sentence)))?;
        }
        Ok(())
    }

    fn left(&mut self, left: &[Left]) -> Result<()> {
        if left.is_empty() {
            return Ok(());
        }
        self.heading("values of Gatekeeper's chart that are not carried over")?;
        for Left { value, sentence } in left {
            writeln!(self.out, "  {}: {}", printable(value), printable(sentence))?;
        }
        Ok(())
    }

    fn unset(&mut self, unset: &[Unset]) -> Result<()> {
        if unset.is_empty() {
            return Ok(());
        }
        self.heading("would change with the values that you gave")?;
        for Unset { value, is, given, weakens } in unset {
            let tone = if *weakens { Tone::Bad } else { Tone::Notice };
            let weaker = if *weakens { ", which enforces less" } else { "" };
            let line = format!("{value}: {} would become {}{weaker}", short(is), short(given));
            writeln!(self.out, "  {}", self.terminal.paint(tone, printable(&line)))?;
        }
        Ok(())
    }

    fn values(&mut self, values: &Value, unset: &[Unset]) -> Result<()> {
        if values.as_object().is_none_or(Object::is_empty) {
            return Ok(());
        }
        self.heading(match unset {
            [] => "the same as values of the chart, which the steps below set",
            _ => "the same as values of the chart: add them to the values that you gave, before the steps below",
        })?;
        for line in yaml::write(values).lines() {
            writeln!(self.out, "  {}", printable(line))?;
        }
        Ok(())
    }

    fn steps(&mut self, report: &Report) -> Result<()> {
        if report.steps.is_empty() {
            return Ok(());
        }
        self.heading("how to switch (see docs/migration.md)")?;
        for (index, step) in report.steps.iter().enumerate() {
            writeln!(self.out, "  {}. {}", index + 1, step.title)?;
            let why = self.terminal.paint(Tone::Faint, printable(&step.why));
            writeln!(self.out, "     {why}")?;
            for command in &step.commands {
                writeln!(self.out, "       {}", printable(command))?;
            }
        }
        Ok(())
    }
}

/// A value on one line.
fn short(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_json(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_asked_of_the_parser() {
        assert_eq!(accepts("--log-denies"), Ok(None));
        let nothing = "--enable-mutation does nothing: mutation is --operation=mutation-webhook";
        assert_eq!(accepts("--enable-mutation"), Ok(Some(nothing.to_owned())));
        assert_eq!(accepts("--enable-remote-cluster").map_err(|it| it.is_empty()), Err(false));
        assert_eq!(
            accepts("--no-such-flag").map_err(|it| it.contains("--no-such-flag")),
            Err(true)
        );
    }

    #[test]
    fn rules_without_a_namespace() {
        let object = yaml::value("{kind: ModRule, metadata: {name: a}}").expect("YAML");
        let expected = r#"{"kind":"ModRule","metadata":{"name":"a","namespace":"default"}}"#;
        assert_eq!(in_namespace(&object).to_json(), expected);
    }
}
