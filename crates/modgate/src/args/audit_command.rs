//! Arguments of `modgate audit`.

use std::path::PathBuf;

use clap::ValueEnum;
use modgate_report::Format;

use super::{Output, OutputFormat, OutputParser, PathArgs, PolicyArgs, ReportArgs};

/// Arguments of `modgate audit`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct AuditCommandArgs {
    #[command(flatten)]
    pub(crate) policies: PolicyArgs,
    /// Objects to audit: files, folders, quoted patterns such as 'k8s/**/*.yaml', or `-` for standard
    /// input. Policies see all of them, as in a cluster: in `data.inventory`, and as parameters, Namespaces
    /// and Nodes.
    #[arg(value_name = "OBJECT")]
    pub(crate) subjects: Vec<PathBuf>,
    /// Folder with a kustomization: audit the output of `kustomize build`; repeat for more.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) kustomize: Vec<PathBuf>,
    /// Files and folders to leave out, by name or pattern; repeat for more.
    #[arg(long, value_name = "GLOB")]
    pub(crate) exclude: Vec<String>,
    /// Audit the objects of the cluster that kubectl uses.
    #[arg(long, conflicts_with_all = ["subjects", "kustomize"])]
    pub(crate) cluster: bool,
    /// Kubeconfig of the cluster to audit [default: the one kubectl uses]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["subjects", "kustomize"])]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the cluster to audit [default: the current one]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["subjects", "kustomize"])]
    pub(crate) context: Option<String>,
    /// Contexts of several clusters to audit at once, separated by commas: a table with a column for the
    /// context, and totals.
    #[arg(long, value_name = "NAMES", value_delimiter = ',',
        conflicts_with_all = ["subjects", "kustomize", "context"])]
    pub(crate) contexts: Vec<String>,
    /// Namespace of objects and policies that name none.
    #[arg(short, long, default_value = "default", value_parser = crate::args::namespace)]
    pub(crate) namespace: String,
    /// Output format, and the file to write it to; repeat for more.
    #[arg(
        short,
        long,
        value_name = "FORMAT[=FILE]",
        default_value = "text",
        value_parser = OutputParser::<AuditOutput>::new()
    )]
    pub(crate) output: Vec<Output<AuditOutput>>,
    /// Group results by policy or by namespace.
    #[arg(long, default_value = "constraint")]
    pub(crate) by: Grouping,
    /// Violations to show for each group [default: 20 in text, else all]
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    /// Audit objects of Kubernetes' own kinds as an API server of 1.36 stores them: with its defaults,
    /// without unknown fields, and with quantities in its form. The same for custom resources,
    /// if the input has their CustomResourceDefinition. Objects of a cluster have their defaults
    /// already.
    #[arg(long, conflicts_with_all = ["cluster", "kubeconfig", "context", "contexts"])]
    pub(crate) defaulting: bool,
    /// Also report objects that Gatekeeper's mutators would change.
    #[arg(long)]
    pub(crate) mutators: bool,
    /// Output of an earlier audit with `-o json`: text, json, jsonl, yaml and html say which violations are
    /// new since then, and all but jsonl which are fixed. The exit code stays that of all violations.
    #[arg(long, value_name = "FILE", conflicts_with = "contexts")]
    pub(crate) baseline: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

impl AuditCommandArgs {
    /// Where objects are read.
    pub(crate) fn paths(&self) -> PathArgs {
        PathArgs {
            subjects: self.subjects.clone(),
            kustomize: self.kustomize.clone(),
            exclude: self.exclude.clone(),
        }
    }

    /// Whether files are audited, not a cluster.
    pub(crate) fn is_of_files(&self) -> bool {
        !self.subjects.is_empty() || !self.kustomize.is_empty()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuditOutput {
    /// Violations for people.
    Text,
    /// A JSON document with all results.
    Json,
    /// A JSON object for each violation, one per line, as audits in a cluster export them.
    Jsonl,
    /// The JSON document in YAML.
    Yaml,
    /// Annotations of GitHub Actions.
    Github,
    /// A Code Quality report of GitLab.
    Gitlab,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
    /// JUnit XML: a test for each violation, and one for each policy without any.
    Junit,
    /// Markdown, for job summaries and comments.
    Markdown,
    /// One HTML file for a browser: overview, violations, objects, policies. It loads nothing.
    Html,
}

impl OutputFormat for AuditOutput {
    fn report(self) -> Option<Format> {
        match self {
            Self::Text | Self::Json | Self::Jsonl | Self::Yaml | Self::Html => None,
            Self::Github => Some(Format::Github),
            Self::Gitlab => Some(Format::Gitlab),
            Self::Sarif => Some(Format::Sarif),
            Self::Junit => Some(Format::Junit),
            Self::Markdown => Some(Format::Markdown),
        }
    }
}

/// How violations are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Grouping {
    /// By policy.
    Constraint,
    /// By namespace of the object.
    Namespace,
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  # Audit manifests
  modgate audit -f policies/ manifests/

  # Audit the cluster that kubectl uses, grouped by namespace
  modgate audit -f policies/ --cluster --by namespace

  # Audit another cluster
  modgate audit -f policies/ --kubeconfig staging.yaml --context admin

  # Audit several clusters at once, with totals
  modgate audit -f policies/ --contexts staging,prod-eu,prod-us

  # Write a page for a browser
  modgate audit -f policies/ -o html=audit.html manifests/

  # Show what is new and what is fixed since an earlier audit
  modgate audit -f policies/ -o json=before.json manifests/
  modgate audit -f policies/ --baseline before.json manifests/

  # Write SARIF for code scanning, and text for the log
  modgate audit -f policies/ -o sarif=audit.sarif -o text manifests/

Exit codes:
  0  no violation is as severe as --fail-on
  1  at least one violation is as severe, or there are more warnings than --max-warnings
  2  arguments, files, policies or objects are not valid, or an object could not be evaluated";
