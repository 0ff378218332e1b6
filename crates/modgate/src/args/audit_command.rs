//! Arguments of `modgate audit`.

use std::path::PathBuf;

use clap::ValueEnum;

use super::PolicyArgs;

/// Arguments of `modgate audit`.
#[derive(Debug, clap::Args)]
pub(crate) struct AuditCommandArgs {
    #[command(flatten)]
    pub(crate) policies: PolicyArgs,
    /// Objects to audit: files, folders, or `-` for standard input. All of them are seen as
    /// `data.inventory`. Without any, all objects of a cluster are audited.
    #[arg(value_name = "OBJECT")]
    pub(crate) subjects: Vec<PathBuf>,
    /// File that names the cluster [default: as kubectl finds it]
    #[arg(long, value_name = "FILE", conflicts_with = "subjects")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of that file, if not its current one.
    #[arg(long, value_name = "NAME", conflicts_with = "subjects")]
    pub(crate) context: Option<String>,
    /// Namespace of policies that name none.
    #[arg(short, long, default_value = "default")]
    pub(crate) namespace: String,
    /// How to print what was found.
    #[arg(short, long, default_value = "text")]
    pub(crate) output: AuditOutput,
    /// What stands together.
    #[arg(long, default_value = "constraint")]
    pub(crate) by: Grouping,
    /// Violations shown of each group [default: 20 in text, else all]
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    /// The mildest violations that make the exit code 1.
    #[arg(long, value_name = "ACTION", default_value = "deny")]
    pub(crate) fail_on: FailOn,
    /// Also audit what Gatekeeper's mutators would still change.
    #[arg(long)]
    pub(crate) mutators: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuditOutput {
    /// For people.
    Text,
    /// Everything, in JSON.
    Json,
    /// A JSON object on a line for each violation, as audits in a cluster export them.
    Jsonl,
    /// Everything, in YAML.
    Yaml,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
    /// JUnit XML: a test for each violation, and one for each group without any.
    Junit,
    /// One HTML file for a browser: overview, violations, objects, policies. It loads nothing.
    Html,
}

/// What stands together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Grouping {
    /// The violations of a policy.
    Constraint,
    /// The violations in a namespace.
    Namespace,
}

/// Violations by what they lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum FailOn {
    /// Policies that deny, ModRules that reject.
    Deny,
    /// Those, policies that warn, and what ModRules and mutators would change.
    Warn,
    /// All violations.
    Dryrun,
    /// None.
    None,
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  # What do these policies find in these files?
  modgate audit -f policies/ manifests/

  # The cluster that kubectl talks to, by namespace
  modgate audit -f policies/ --by namespace

  # Another cluster
  modgate audit -f policies/ --kubeconfig staging.yaml --context admin

  # To look at in a browser
  modgate audit -f policies/ -o html manifests/ > audit.html

  # For code scanning
  modgate audit -f policies/ -o sarif manifests/ > audit.sarif

Exit codes:
  0  nothing is as bad as --fail-on says
  1  at least one violation is
  2  arguments, files, policies or objects are not valid, or an object could not be judged";
