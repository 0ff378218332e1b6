//! `modgate compare`: what changes between two sets of policies, over recorded or invented requests.

mod report;
mod requests;
mod source;

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    thread,
};

use anyhow::{Result, ensure};
use clap::ValueEnum;
use modgate_engine::api::meta::Operation;
use modgate_gator::progress::Progress;
use modgate_policies::{PolicyFiles, PolicySet, PolicyStore, manifest};
use modgate_prove::{
    Side,
    compare::{Comparison, Item, compare},
    difference::Class,
};
use modgate_report::Format;
use modgate_value::yaml;

use self::{requests::Requests, source::Checkout};
use crate::{
    args::{EngineArgs, Output, OutputFormat, OutputParser},
    exit::{Exit, is_closed},
    inputs,
    outputs::{Outputs, print_findings, print_json},
    terminal::Terminal,
};

/// Requests handed to a thread at once.
const BATCH: usize = 32;
/// Objects that are invented where none are given.
const GENERATED: usize = 1000;

/// Arguments of `modgate compare`.
#[derive(Debug, clap::Args)]
pub(crate) struct CompareArgs {
    /// The present policies: a file, a folder, an archive (.tar, .tar.gz), `REVISION:PATH` of the git
    /// repository here, `oci://REFERENCE` of a registry, or `cluster:` or `cluster:CONTEXT` for those of a cluster.
    #[arg(value_name = "OLD")]
    old: PathBuf,
    /// The new policies, in the same forms.
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// Requests: files and folders with AdmissionReviews, objects, or events of audit logs, in YAML,
    /// JSON or JSON lines; `-` for standard input. Without any, objects are invented.
    #[arg(value_name = "REQUEST")]
    requests: Vec<PathBuf>,
    /// Also invent this many objects, of kinds and with texts that the policies mention
    /// [default: 1000 without REQUEST, else 0]
    #[arg(long, value_name = "N")]
    generate: Option<usize>,
    /// Seed of the invented objects.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Operation of requests for objects; AdmissionReviews and events have their own.
    #[arg(long, default_value = "CREATE", ignore_case = true, value_parser = crate::args::operation)]
    operation: Operation,
    /// Namespace of objects and policies that name none.
    #[arg(short, long, default_value = "default", value_parser = crate::args::namespace)]
    namespace: String,
    /// File or folder with Namespaces, Nodes and other objects that policies refer to, such as
    /// `data.inventory`; repeat for more.
    #[arg(long, value_name = "PATH")]
    objects: Vec<PathBuf>,
    /// Also decide the objects of the cluster that kubectl uses. Policies see its Namespaces, Nodes and
    /// synced objects.
    #[arg(long)]
    cluster: bool,
    /// Kubeconfig of the cluster [default: as kubectl finds it]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Differences that make the exit code 1; repeat for more.
    #[arg(long, value_name = "CLASS")]
    fail_on: Vec<FailOn>,
    /// Treat warnings about policies as errors; docs/warnings.md lists them.
    #[arg(long)]
    strict: bool,
    /// Output format, and the file to write it to; repeat for more.
    #[arg(
        short,
        long,
        value_name = "FORMAT[=FILE]",
        default_value = "text",
        value_parser = OutputParser::<CompareOutput>::new()
    )]
    output: Vec<Output<CompareOutput>>,
    #[command(flatten)]
    engine: EngineArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FailOn {
    /// The new policies deny what the old ones allow.
    AllowToDeny,
    /// The new policies allow what the old ones deny.
    DenyToAllow,
    /// Other messages.
    Messages,
    /// Other patches.
    Patches,
    /// All of them.
    Any,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CompareOutput {
    /// For people.
    Text,
    /// The whole result as JSON.
    Json,
    /// The whole result as YAML.
    Yaml,
    /// For a comment on a pull request.
    Markdown,
    /// One HTML file for a browser: differences by policy, with examples. It loads nothing.
    Html,
}

/// None: differences are no findings about a file.
impl OutputFormat for CompareOutput {
    fn report(self) -> Option<Format> {
        None
    }
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  # Compare the policies of a branch with those of this folder, over these objects
  modgate compare main:policies policies/ manifests/

  # Compare over a week of requests to the API server
  modgate compare policies/ candidate/ audit-*.log

  # Compare the policies of the cluster with others, over its objects
  modgate compare cluster: policies/ --cluster

  # Fail if the new version of a library allows what the old one denies
  modgate compare library-1.2/ library-1.3/ --generate 10000 --fail-on deny-to-allow

Exit codes:
  0  no difference is one of --fail-on
  1  at least one difference is one of --fail-on
  2  arguments, files, policies or requests are not valid";

/// Runs the verb. Where there is no result, machines get the errors in place of one.
pub(crate) fn run(args: &CompareArgs, terminal: &Terminal) -> Result<Exit> {
    let terminal = &terminal.recording(false);
    let mut outputs = Outputs::new(&args.output, terminal)?;
    let done = match compared(args, &mut outputs, terminal) {
        Err(error) if !is_closed(&error) => {
            terminal.error(&format!("{error:#}"));
            None
        }
        done => done?,
    };
    let Some(exit) = done else {
        for sink in outputs.iter_mut() {
            match sink.format {
                CompareOutput::Json => print_findings(sink, terminal, Format::Json)?,
                CompareOutput::Yaml => print_findings(sink, terminal, Format::Yaml)?,
                _ => {}
            }
        }
        outputs.finish()?;
        return Ok(Exit::BadInput);
    };
    outputs.finish()?;
    Ok(exit)
}

/// Compares and prints the result; `None` where there is none.
fn compared(
    args: &CompareArgs,
    outputs: &mut Outputs<CompareOutput>,
    terminal: &Terminal,
) -> Result<Option<Exit>> {
    let all = args.requests.iter().chain(&args.objects).chain([&args.old, &args.new]);
    let from_stdin = all.filter(|path| manifest::is_stdin(path)).count();
    ensure!(
        from_stdin <= 1,
        "standard input can be read once, but `-` is given {from_stdin} times"
    );
    let checkouts =
        [Checkout::of(&args.old, args, terminal)?, Checkout::of(&args.new, args, terminal)?];
    let mut policy_sets = Vec::new();
    for (checkout, given) in checkouts.iter().zip([&args.old, &args.new]) {
        let Some(policy_set) = read_policies(checkout, given, args, terminal)? else {
            return Ok(None);
        };
        policy_sets.push(policy_set);
    }
    let mut requests = Requests::open(args, &checkouts, terminal)?;
    if args.cluster {
        requests.add_cluster(&mut policy_sets)?;
    }
    for policy_set in &mut policy_sets {
        requests.namespaces().for_each(|namespace| {
            policy_set.objects.references_mut().take(namespace);
        });
    }
    let [old, new] = policy_sets.as_slice() else { return Ok(None) };
    let comparison = decide(old, new, &mut requests);
    if comparison.requests == 0 {
        terminal.error("there is no request to compare the policies with");
        return Ok(None);
    }
    let report = report::Report { args, comparison: &comparison, requests: &requests };
    for out in outputs.iter_mut() {
        match out.format {
            CompareOutput::Text => {
                let terminal = out.terminal.again();
                report.text(out, &terminal)?;
            }
            CompareOutput::Json => print_json(out, &report.value())?,
            CompareOutput::Yaml => write!(out, "{}", yaml::write(&report.value()))?,
            CompareOutput::Markdown => report.markdown(out)?,
            CompareOutput::Html => out.write_all(report.page().html().as_bytes())?,
        }
    }
    Ok(Some(match args.fail_on.iter().any(|class| class.is_in(&comparison)) {
        _ if requests.incomplete => Exit::BadInput,
        true => Exit::Denied,
        false => Exit::Success,
    }))
}

fn decide(old: &PolicySet, new: &PolicySet, requests: &mut Requests<'_>) -> Comparison {
    let [old, new] = [old, new].map(|policy_set| Side {
        snapshot: &policy_set.snapshot,
        host: &policy_set.objects,
        inventory: &policy_set.inventory,
    });
    let progress = Progress::new(requests.total(), "requests");
    let mut next = || -> Vec<Item> { requests.by_ref().take(BATCH).collect() };
    let done = |count| progress.show(count);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let comparison = compare(old, new, &mut next, &done, threads);
    progress.clear();
    comparison
}

impl FailOn {
    fn is_in(self, comparison: &Comparison) -> bool {
        let class = match self {
            Self::AllowToDeny => Class::AllowToDeny,
            Self::DenyToAllow => Class::DenyToAllow,
            Self::Messages => Class::Messages,
            Self::Patches => Class::Patches,
            Self::Any => return comparison.same < comparison.requests,
        };
        comparison.count(class) > 0
    }
}

fn read_policies(
    checkout: &Checkout,
    given: &Path,
    args: &CompareArgs,
    terminal: &Terminal,
) -> Result<Option<PolicySet>> {
    let files =
        PolicyFiles { policies: vec![checkout.path().to_owned()], objects: args.objects.clone() };
    let mut store = PolicyStore::new(files, args.engine.config(&args.namespace));
    let findings = store.refresh().findings;
    if !inputs::are_good(findings, args.strict, terminal) {
        return Ok(None);
    }
    let mut policy_set = PolicySet::clone(store.policies());
    policy_set.objects.count_processor_time();
    Ok(inputs::are_policies(&policy_set, &[given.to_owned()], terminal).then_some(policy_set))
}
