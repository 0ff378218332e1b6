//! The command line.

mod audit;
mod audit_command;
mod certificates;
mod compat;
mod export;
mod gatekeeper;
mod go;
mod listen;
mod logging;
mod operations;
mod telemetry;
#[cfg(test)]
mod tests;
mod vap;

use std::{env, path::PathBuf};

use clap::{Parser, Subcommand, ValueEnum};
use modgate_engine::{
    EngineConfig, MissingReference, NodeReferences, NodeView, api::meta::Operation,
};

pub(crate) use self::{
    audit::AuditArgs,
    audit_command::{AuditCommandArgs, AuditOutput, FailOn, Grouping},
    certificates::{CertificateArgs, ReplicaArgs},
    compat::CompatArgs,
    export::ExportArgs,
    gatekeeper::GatekeeperArgs,
    go::{Program, parsed},
    listen::ListenArgs,
    logging::LogArgs,
    operations::OperationArgs,
    telemetry::TelemetryArgs,
    vap::VapArgs,
};
use crate::{compare, exit, lint, migrate, plan, render::RenderVerb};

/// Kubernetes admission policies, KubeMod's and Gatekeeper's, on the command line and as webhooks.
#[derive(Debug, Parser)]
#[command(name = "modgate", version, max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Answer admission webhooks with the policies of a cluster, or of files without one.
    #[command(after_help = SERVE_EXAMPLES, args_override_self = true)]
    Serve(Box<ServeArgs>),
    /// Say what policies do to objects.
    #[command(after_help = review_examples())]
    Review(ReviewArgs),
    /// Say why each policy did or did not apply to objects.
    #[command(after_help = explain_examples())]
    Explain(ExplainArgs),
    /// Say what would run for objects, in which order, from mutators to constraints.
    #[command(after_help = plan::examples())]
    Plan(plan::PlanArgs),
    /// Say what policies find in the objects of files or of a cluster.
    #[command(after_help = audit_command::EXAMPLES)]
    Audit(AuditCommandArgs),
    /// Compare two sets of policies over recorded, given or invented requests.
    #[command(after_help = compare::EXAMPLES)]
    Compare(Box<compare::CompareArgs>),
    /// Look for objects that get past policies.
    #[command(after_help = lint::EXAMPLES)]
    Lint(Box<lint::LintArgs>),
    /// Evaluate a `select` expression.
    #[command(after_help = SELECT_EXAMPLES)]
    Select(SelectArgs),
    /// Print the cluster objects that templates and constraints stand for.
    #[command(subcommand)]
    Render(RenderVerb),
    /// Say what becomes of an installation of KubeMod or Gatekeeper, and how to switch.
    #[command(after_help = migrate::EXAMPLES)]
    Migrate(migrate::MigrateArgs),
    #[command(flatten)]
    Gator(modgate_gator::Verb),
    /// Print the version.
    Version,
    /// Print what every metric says, as Markdown.
    #[command(hide = true)]
    Metrics,
    /// Print a completion script for a shell.
    #[command(after_help = modgate_gator::COMPLETION_HELP)]
    Completion {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

const SERVE_EXAMPLES: &str = "\
Examples:
  # Policies from a folder on https://localhost:9443, with a certificate made at start
  modgate serve --policies examples/quickstart

  # In a cluster, with its policies: the certificate is kept in a Secret, probes and metrics over
  # plain HTTP
  modgate serve --health-addr :9090 --prometheus-port 8888

  # The same from outside of it, without changing anything there
  modgate serve --kubeconfig ~/.kube/config --disable-cert-rotation --cert-dir certs

Exit codes:
  0  it was told to stop, and every open request was answered
  1  it was told twice to stop
  2  arguments, files or policies are not valid, the server could not start, or could not go on";

fn review_examples() -> String {
    format!(
        "\
Examples:
  # What would these policies do to this object?
  modgate review -f policies/ deployment.yaml

  # Objects of a live cluster, changes only
  kubectl get deploy -A -o yaml | modgate review -f policies/ -o diff -

  # To look at in a browser
  modgate review -f policies/ -o html manifests/ > review.html

  # The patched objects, ready to apply
  modgate review -f policies/ -o yaml app.yaml | kubectl apply -f -

{}",
        exit::TABLE
    )
}

fn explain_examples() -> String {
    format!(
        "\
Examples:
  # Why does no rule match?
  modgate explain -f policies/ deployment.yaml

  # One rule only, for a deletion
  modgate explain -f policies/ --rule protect-data --operation DELETE volume.yaml

{}",
        exit::TABLE
    )
}

const SELECT_EXAMPLES: &str = "\
Examples:
  # Which containers have no limits, and which keys would `#0` stand for?
  modgate select '$.spec.template.spec.containers[? isUndefined(@.resources.limits)].name' \\
    -f deployment.yaml

  # Does it parse?
  modgate select '$.spec.replicas >'";

/// Where policies come from, and what they may assume.
#[derive(Debug, clap::Args)]
pub(crate) struct PolicyArgs {
    /// File or folder with policies; repeat for more, `-` for standard input.
    #[arg(short = 'f', long = "filename", value_name = "PATH", required = true)]
    pub(crate) policies: Vec<PathBuf>,
    /// File or folder with Namespaces and Nodes for synthetic references, and with all that
    /// constraints see as `data.inventory`; repeat for more.
    #[arg(long, value_name = "PATH")]
    pub(crate) objects: Vec<PathBuf>,
    /// Treat warnings about policies as errors; docs/warnings.md lists them.
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
}

/// Settings of the engine.
#[derive(Debug, clap::Args)]
pub(crate) struct EngineArgs {
    /// Namespace whose ModRules may act cluster-wide; repeat for more
    /// [default: kubemod-system, modgate-system]
    #[arg(long, value_name = "NAMESPACE")]
    cluster_modrules_namespace: Vec<String>,
    /// What ModRules do about an object whose Namespace or Node does not exist or cannot be read.
    #[arg(long, value_name = "POLICY", default_value = "empty")]
    missing_reference: MissingReferenceArg,
    /// How much of a Pod's Node the ModRules of one namespace see.
    #[arg(long, value_name = "PART", default_value = "summary")]
    namespaced_node_reference: NodeViewArg,
    /// How much of a Pod's Node the ModRules see that may act cluster-wide.
    #[arg(long, value_name = "PART", default_value = "full")]
    cluster_node_reference: NodeViewArg,
    /// Resource, such as `pods`, that ModRules are asked about where they share a webhook with
    /// Gatekeeper's mutators, `*` for all; repeat for more [default: those of KubeMod's webhook]
    #[arg(long, value_name = "RESOURCE")]
    modrule_resource: Vec<String>,
    /// Patch what workloads expand to with ModRules, too. Gatekeeper's verdicts know nothing of
    /// them.
    #[arg(long)]
    expand_modrules: bool,
    /// Namespace that modgate runs in, whose objects are left alone
    /// [default: POD_NAMESPACE, else gatekeeper-system]
    #[arg(long, value_name = "NAMESPACE")]
    installation_namespace: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum MissingReferenceArg {
    /// What does not exist is empty, with a warning, and every rule runs. What cannot be read leaves
    /// the rules that look at it undecided: Reject rules deny, patches are dropped.
    Empty,
    /// Admit the object without asking any rule, as KubeMod does.
    Allow,
    /// Deny the object.
    Deny,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum NodeViewArg {
    /// Its name, labels and capacity.
    Summary,
    /// All of it, as in KubeMod.
    Full,
}

impl From<NodeViewArg> for NodeView {
    fn from(arg: NodeViewArg) -> Self {
        match arg {
            NodeViewArg::Summary => Self::Summary,
            NodeViewArg::Full => Self::Full,
        }
    }
}

impl EngineArgs {
    /// The engine's configuration; policies without a namespace are taken to live in `namespace`.
    pub(crate) fn config(&self, namespace: &str) -> EngineConfig {
        let mut config = EngineConfig { default_namespace: namespace.into(), ..Default::default() };
        if !self.cluster_modrules_namespace.is_empty() {
            config.cluster_rules_namespaces =
                self.cluster_modrules_namespace.iter().map(|name| name.as_str().into()).collect();
        }
        if !self.modrule_resource.is_empty() {
            let resources = self.modrule_resource.iter().map(|name| name.as_str().into());
            config.modrule_resources = Some(resources.collect());
        }
        config.expand_modrules = self.expand_modrules;
        let pod_namespace = || env::var("POD_NAMESPACE").ok().filter(|name| !name.is_empty());
        if let Some(name) = self.installation_namespace.clone().or_else(pod_namespace) {
            config.installation.namespace = name.into();
        }
        config.node_references = NodeReferences {
            namespaced: self.namespaced_node_reference.into(),
            cluster: self.cluster_node_reference.into(),
        };
        config.missing_reference = match self.missing_reference {
            MissingReferenceArg::Empty => MissingReference::Empty,
            MissingReferenceArg::Allow => MissingReference::Allow,
            MissingReferenceArg::Deny => MissingReference::Deny,
        };
        config
    }
}

/// What to look at.
#[derive(Debug, clap::Args)]
pub(crate) struct SubjectArgs {
    /// Objects or AdmissionReviews: files, folders, or `-` for standard input.
    #[arg(value_name = "OBJECT", required = true)]
    pub(crate) subjects: Vec<PathBuf>,
    /// What is done to objects; AdmissionReviews say so themselves.
    #[arg(long, default_value = "CREATE", ignore_case = true, value_parser = operation)]
    pub(crate) operation: Operation,
    /// Namespace of objects and policies that name none.
    #[arg(short, long, default_value = "default")]
    pub(crate) namespace: String,
}

pub(crate) fn operation(text: &str) -> Result<Operation, String> {
    text.to_ascii_uppercase()
        .parse()
        .map_err(|error: modgate_engine::api::meta::UnknownOperation| error.to_string())
}

/// Arguments of `modgate review`.
#[derive(Debug, clap::Args)]
pub(crate) struct ReviewArgs {
    #[command(flatten)]
    pub(crate) policies: PolicyArgs,
    #[command(flatten)]
    pub(crate) subjects: SubjectArgs,
    /// What to print for each object.
    #[arg(short, long, default_value = "text")]
    pub(crate) output: ReviewOutput,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReviewOutput {
    /// The decision, its warnings and the changes, for people.
    Text,
    /// Everything in a JSON list: decision, warnings, patch and final object.
    Json,
    /// The final objects as YAML documents; denied ones are left out.
    Yaml,
    /// The JSON Patches, one per line.
    Patch,
    /// A unified diff of the objects as YAML.
    Diff,
    /// One HTML file for a browser: decisions, changes side by side, explanations. It loads nothing.
    Html,
}

/// Arguments of `modgate explain`.
#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(crate) policies: PolicyArgs,
    #[command(flatten)]
    pub(crate) subjects: SubjectArgs,
    /// Only rules of this name, or `namespace/name`; repeat for more.
    #[arg(long, value_name = "NAME")]
    pub(crate) rule: Vec<String>,
    /// Also list rules that are no candidates for the object.
    #[arg(long)]
    pub(crate) all: bool,
    /// How to print it.
    #[arg(short, long, default_value = "text")]
    pub(crate) output: TextOrJson,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TextOrJson {
    /// For people.
    Text,
    /// A JSON list.
    Json,
}

/// Arguments of `modgate select`.
#[derive(Debug, clap::Args)]
pub(crate) struct SelectArgs {
    /// The expression, as in `match[].select` or `patch[].select`.
    #[arg(value_name = "EXPR", allow_hyphen_values = true)]
    pub(crate) expression: String,
    /// File or folder with objects, or `-` for standard input; without it the expression is only
    /// checked.
    #[arg(short = 'f', long = "filename", value_name = "OBJECT")]
    pub(crate) objects: Vec<PathBuf>,
    /// How to print the results.
    #[arg(short, long, default_value = "text")]
    pub(crate) output: TextOrJson,
}

/// Arguments of `modgate serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// File or folder with policies, followed as they change; repeat for more. Namespaces and Nodes
    /// in it serve synthetic references. Without it, policies come from a cluster.
    #[arg(long, value_name = "PATH")]
    pub(crate) policies: Vec<PathBuf>,
    /// File or folder with further Namespaces and Nodes, and with all that constraints see as
    /// `data.inventory`; repeat for more.
    #[arg(long, value_name = "PATH", requires = "policies")]
    pub(crate) objects: Vec<PathBuf>,
    /// Namespace of policies that name none.
    #[arg(short, long, default_value = "default")]
    pub(crate) namespace: String,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    #[command(flatten)]
    pub(crate) operations: OperationArgs,
    #[command(flatten)]
    pub(crate) gatekeeper: GatekeeperArgs,
    #[command(flatten)]
    pub(crate) audit: AuditArgs,
    #[command(flatten)]
    pub(crate) vap: VapArgs,
    #[command(flatten)]
    pub(crate) export: ExportArgs,
    #[command(flatten)]
    pub(crate) listen: ListenArgs,
    #[command(flatten)]
    pub(crate) certificate: CertificateArgs,
    #[command(flatten)]
    pub(crate) replicas: ReplicaArgs,
    #[command(flatten)]
    pub(crate) logs: LogArgs,
    #[command(flatten)]
    pub(crate) telemetry: TelemetryArgs,
    #[command(flatten)]
    pub(crate) compat: CompatArgs,
}

/// Which cluster policies come from.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ClusterArgs {
    /// File that names the cluster, if it is not the one this process runs in.
    #[arg(long, value_name = "FILE", conflicts_with = "policies")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of that file, if not its current one.
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    pub(crate) context: Option<String>,
}
