//! Arguments that verbs share, and those of `serve`, `review`, `explain` and `select`.

mod audit;
mod audit_command;
mod certificates;
mod compat;
mod export;
mod gatekeeper;
mod listen;
mod logging;
mod operations;
mod output;
mod program;
mod record;
mod shadow;
mod telemetry;
mod vap;

use std::{collections::BTreeSet, env, path::PathBuf};

use clap::ValueEnum;
use modgate_engine::{
    EngineConfig, MissingReference, NodeReferences, NodeView,
    api::{
        kinds,
        meta::{GroupVersionKind, Operation},
    },
    gatekeeper::ExemptNamespaces,
};
use modgate_report::Format;
use modgate_value::{Value, near};

pub(crate) use self::{
    audit::AuditArgs,
    audit_command::{AuditCommandArgs, AuditOutput, EXAMPLES as AUDIT_EXAMPLES, Grouping},
    certificates::{CertificateArgs, ReplicaArgs},
    compat::CompatArgs,
    export::ExportArgs,
    gatekeeper::GatekeeperArgs,
    listen::ListenArgs,
    logging::LogArgs,
    operations::OperationArgs,
    output::{Output, OutputFormat, OutputParser},
    program::Program,
    record::RecordArgs,
    shadow::ShadowArgs,
    telemetry::TelemetryArgs,
    vap::VapArgs,
};
pub(crate) use modgate_gator::flags::{FailOn, ReportArgs};

/// Where policies come from, and what they may assume.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct PolicyArgs {
    /// File, folder or quoted pattern with policies; repeat for more, `-` for standard input.
    #[arg(short = 'f', long = "filename", value_name = "PATH", required = true)]
    pub(crate) policies: Vec<PathBuf>,
    /// File or folder with Namespaces, Nodes and other objects that policies refer to, such as
    /// `data.inventory`; repeat for more.
    #[arg(long, value_name = "PATH")]
    pub(crate) objects: Vec<PathBuf>,
    /// Treat warnings about policies as errors; docs/warnings.md lists them.
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
}

/// Settings of the engine.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct EngineArgs {
    /// Namespace whose ModRules may act cluster-wide; repeat for more
    /// [default: kubemod-system, modgate-system]
    #[arg(long, value_name = "NAMESPACE", value_parser = namespace)]
    cluster_modrules_namespace: Vec<String>,
    /// Decision of ModRules for objects with a Namespace or Node that does not exist or cannot be read.
    #[arg(long, value_name = "POLICY", default_value = "empty")]
    missing_reference: MissingReferenceArg,
    /// Part of a Pod's Node that the ModRules of one namespace see.
    #[arg(long, value_name = "PART", default_value = "summary")]
    namespaced_node_reference: NodeViewArg,
    /// Part of a Pod's Node that cluster-wide ModRules see.
    #[arg(long, value_name = "PART", default_value = "full")]
    cluster_node_reference: NodeViewArg,
    /// Resource, such as `pods`, that ModRules apply to where they share a webhook with Gatekeeper's
    /// mutators, `*` for all; repeat for more [default: those of KubeMod's webhook]
    #[arg(long, value_name = "RESOURCE", value_parser = resource)]
    modrule_resource: Vec<String>,
    /// Apply ModRules also to the resultants of ExpansionTemplates. Gatekeeper does not know
    /// ModRules, so its results differ.
    #[arg(long)]
    expand_modrules: bool,
    /// Namespace of modgate itself: requests for its objects reach no policy. Only a Config in this
    /// namespace counts [default: POD_NAMESPACE, else gatekeeper-system]
    #[arg(long, value_name = "NAMESPACE", value_parser = namespace)]
    installation_namespace: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum MissingReferenceArg {
    /// Evaluate every rule. A missing object is empty, with a warning. If it cannot be read, the Reject
    /// rules that use it deny, and their patches are dropped.
    Empty,
    /// Admit the object without evaluating rules, as KubeMod does.
    Allow,
    /// Deny the object.
    Deny,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum NodeViewArg {
    /// Name, labels and capacity.
    Summary,
    /// The whole Node, as in KubeMod.
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

/// Where objects are read.
#[derive(Debug, Clone, Default)]
pub(crate) struct PathArgs {
    pub(crate) subjects: Vec<PathBuf>,
    pub(crate) kustomize: Vec<PathBuf>,
    pub(crate) exclude: Vec<String>,
}

impl PathArgs {
    /// Files and folders alone.
    pub(crate) fn of(paths: &[PathBuf]) -> Self {
        Self { subjects: paths.to_vec(), ..Self::default() }
    }

    /// The paths as the user gave them.
    pub(crate) fn named(&self) -> Vec<PathBuf> {
        self.subjects.iter().chain(&self.kustomize).cloned().collect()
    }
}

/// The objects to evaluate.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SubjectArgs {
    /// Objects or AdmissionReviews: files, folders, quoted patterns such as 'k8s/**/*.yaml', or `-` for
    /// standard input. Policies see all of the objects, as in a cluster: in `data.inventory`, and as
    /// parameters, Namespaces and Nodes.
    #[arg(value_name = "OBJECT", required_unless_present = "kustomize")]
    subjects: Vec<PathBuf>,
    /// Folder with a kustomization: evaluate the output of `kustomize build`; repeat for more.
    #[arg(short, long, value_name = "DIR")]
    kustomize: Vec<PathBuf>,
    /// Files and folders to leave out, by name or pattern; repeat for more.
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// Operation of the request; an AdmissionReview has its own. The object of an UPDATE is also the
    /// old object.
    #[arg(long, default_value = "CREATE", ignore_case = true, value_parser = operation)]
    pub(crate) operation: Operation,
    /// Namespace of objects and policies that name none.
    #[arg(short, long, default_value = "default", value_parser = namespace)]
    pub(crate) namespace: String,
    /// User who makes the request; an AdmissionReview has its own. Without it, requests have no user.
    #[arg(long = "as", value_name = "USER")]
    user: Option<String>,
    /// Group of that user; repeat for more.
    #[arg(long = "as-group", value_name = "GROUP", requires = "user")]
    groups: Vec<String>,
    /// Namespace that may carry the label `admission.gatekeeper.sh/ignore`, as a name, `prefix*` or
    /// `*suffix`; repeat for more. Others with the label are denied.
    #[arg(long, value_name = "PATTERN")]
    exempt_namespace: Vec<String>,
    /// The same for the label `admission.kubemod.io/ignore`
    /// [default: kube-system, kubemod-system, modgate-system]
    #[arg(long, value_name = "PATTERN")]
    modrule_exempt_namespace: Vec<String>,
    /// Evaluate objects of Kubernetes' own kinds as an API server of 1.36 stores them: with its defaults,
    /// without unknown fields, and with quantities in its form. The same for custom resources,
    /// if the input has their CustomResourceDefinition.
    #[arg(long)]
    pub(crate) defaulting: bool,
}

impl SubjectArgs {
    /// Where they are read.
    pub(crate) fn paths(&self) -> PathArgs {
        let Self { subjects, kustomize, exclude, .. } = self.clone();
        PathArgs { subjects, kustomize, exclude }
    }

    /// The engine's configuration for requests about them.
    pub(crate) fn config(&self, engine: &EngineArgs) -> EngineConfig {
        let mut config = engine.config(&self.namespace);
        let patterns = self.exempt_namespace.iter().map(String::as_str);
        config.installation.exempt = ExemptNamespaces::of_patterns(patterns);
        if !self.modrule_exempt_namespace.is_empty() {
            let patterns = self.modrule_exempt_namespace.iter().map(String::as_str);
            config.installation.modrule_exempt = ExemptNamespaces::of_patterns(patterns);
        }
        config
    }

    /// The `userInfo` of requests; none where the user is not known.
    pub(crate) fn user_info(&self) -> Option<Value> {
        let user = self.user.clone()?;
        let groups: Value = self.groups.iter().map(|group| Value::from(group.as_str())).collect();
        Some([("username", Value::from(user)), ("groups", groups)].into_iter().collect())
    }
}

/// A name that a Namespace can have.
pub(crate) fn namespace(text: &str) -> Result<String, String> {
    let is_end = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit();
    let is_name = (1..=63).contains(&text.len())
        && text.chars().all(|it| is_end(it) || it == '-')
        && text.starts_with(is_end)
        && text.ends_with(is_end);
    match is_name {
        true => Ok(text.to_owned()),
        false => Err("a Namespace has a name of lower-case letters, digits and `-`".to_owned()),
    }
}

/// The plural name of a resource, `*` for all. Those of custom resources are unknown.
fn resource(text: &str) -> Result<String, String> {
    let plural = |kind: &str| {
        let kind = GroupVersionKind { kind: kind.into(), ..GroupVersionKind::default() };
        kind.plural().to_string()
    };
    let known: BTreeSet<String> = kinds::all().map(plural).collect();
    let name = text.split('/').next().unwrap_or_default();
    if name == "*" || known.contains(name) {
        return Ok(text.to_owned());
    }
    // `pod` and `Pod` are no resources, and what looks like `pods` is probably misspelt.
    match near::did_you_mean(&name.to_lowercase(), known.iter().map(String::as_str)) {
        Some(help) => Err(format!("no resource is called `{name}`; {help}")),
        None => Ok(text.to_owned()),
    }
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
    /// Output format, and the file to write it to; repeat for more.
    #[arg(
        short,
        long,
        value_name = "FORMAT[=FILE]",
        default_value = "text",
        value_parser = OutputParser::<ReviewOutput>::new()
    )]
    pub(crate) output: Vec<Output<ReviewOutput>>,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReviewOutput {
    /// Decision, warnings and changes of each object, for people.
    Text,
    /// A JSON list: decision, warnings, patch and final object.
    Json,
    /// The final objects as YAML documents, without denied ones.
    Yaml,
    /// The JSON Patches, one per line.
    Patch,
    /// A unified diff of the objects as YAML.
    Diff,
    /// One HTML file for a browser: decisions, changes side by side, explanations. It loads nothing.
    Html,
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
}

impl OutputFormat for ReviewOutput {
    fn report(self) -> Option<Format> {
        match self {
            Self::Text | Self::Json | Self::Yaml | Self::Patch | Self::Diff | Self::Html => None,
            Self::Jsonl => Some(Format::Jsonl),
            Self::Github => Some(Format::Github),
            Self::Gitlab => Some(Format::Gitlab),
            Self::Sarif => Some(Format::Sarif),
            Self::Junit => Some(Format::Junit),
            Self::Markdown => Some(Format::Markdown),
        }
    }
}

/// Arguments of `modgate explain`.
#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(crate) policies: PolicyArgs,
    #[command(flatten)]
    pub(crate) subjects: SubjectArgs,
    /// Explain only policies of this name, `namespace/name` or `Kind/name`; repeat for more.
    #[arg(long, value_name = "NAME")]
    pub(crate) rule: Vec<String>,
    /// Also explain policies that are satisfied, do not match, or do not apply to the object.
    #[arg(long)]
    pub(crate) all: bool,
    /// Print the address of the playground with these policies and objects instead; `modgate playground`
    /// serves it.
    #[arg(long)]
    pub(crate) playground: bool,
    /// Output format.
    #[arg(short, long, default_value = "text")]
    pub(crate) output: TextOrJson,
    /// Print results and errors only: no warnings about policies, no notes.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TextOrJson {
    /// Text for people.
    Text,
    /// JSON.
    Json,
}

/// Arguments of `modgate select`.
#[derive(Debug, clap::Args)]
pub(crate) struct SelectArgs {
    /// Expression, as in `match[].select` or `patch[].select`.
    #[arg(value_name = "EXPR", allow_hyphen_values = true)]
    pub(crate) expression: String,
    /// File or folder with objects, or `-` for standard input. Without it, only the syntax is
    /// checked.
    #[arg(short = 'f', long = "filename", value_name = "OBJECT")]
    pub(crate) objects: Vec<PathBuf>,
    /// Treat warnings about the expression as errors; docs/warnings.md lists them.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Output format.
    #[arg(short, long, default_value = "text")]
    pub(crate) output: TextOrJson,
}

/// Arguments of `modgate serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// File or folder with policies, reloaded when it changes; repeat for more. Without it, policies
    /// come from the cluster.
    #[arg(long, value_name = "PATH")]
    pub(crate) policies: Vec<PathBuf>,
    /// File or folder with Namespaces, Nodes and other objects that policies refer to, such as
    /// `data.inventory`; repeat for more.
    #[arg(long, value_name = "PATH", requires = "policies")]
    pub(crate) objects: Vec<PathBuf>,
    /// Treat warnings about policies of files as errors: do not start with them.
    #[arg(long, requires = "policies")]
    pub(crate) strict: bool,
    /// Namespace of policies that name none.
    #[arg(short, long, default_value = "default", value_parser = namespace)]
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
    pub(crate) record: RecordArgs,
    #[command(flatten)]
    pub(crate) shadow: ShadowArgs,
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

/// The cluster that policies come from.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ClusterArgs {
    /// Kubeconfig of the cluster [default: the cluster that modgate runs in]
    #[arg(long, value_name = "FILE", conflicts_with = "policies")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    pub(crate) context: Option<String>,
}
