//! The command line: every verb with its arguments and help.

mod go;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

pub(crate) use self::go::parsed;
use crate::{
    args::{
        AUDIT_EXAMPLES, AuditCommandArgs, ExplainArgs, ReviewArgs, SelectArgs, ServeArgs,
        TextOrJson,
    },
    check, compare, convert, exit, fmt, init, lint, live, migrate, plan, playground, probe,
    render::RenderVerb,
    terminal::Color,
};

/// Enforce and test Kubernetes admission policies: Gatekeeper constraints and mutators, KubeMod
/// ModRules.
#[derive(Debug, Parser)]
#[command(name = "modgate", version, max_term_width = 100)]
pub(crate) struct Args {
    /// When to color the output.
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub(crate) color: Color,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Serve admission webhooks with the policies of a cluster or of files.
    #[command(after_help = SERVE_EXAMPLES, args_override_self = true)]
    Serve(Box<ServeArgs>),
    /// Run the checks that `modgate.yaml` configures.
    #[command(after_help = check::EXAMPLES)]
    Check(check::CheckArgs),
    /// Evaluate policies against objects: decision, warnings and patch.
    #[command(after_help = review_examples())]
    Review(ReviewArgs),
    /// Explain, policy by policy, why an object matched, failed or was skipped.
    #[command(after_help = explain_examples())]
    Explain(ExplainArgs),
    /// List the mutators, ModRules and constraints that would run, in order.
    #[command(after_help = plan::EXAMPLES)]
    Plan(plan::PlanArgs),
    /// Serve the playground: policies and objects in a browser, evaluated there.
    #[command(after_help = playground::EXAMPLES)]
    Playground(playground::PlaygroundArgs),
    /// Explain why a running modgate denied a request, or would deny an object.
    #[command(after_help = live::WHY_EXAMPLES)]
    Why(live::WhyArgs),
    /// Open the live page of a running modgate in a browser.
    #[command(after_help = live::UI_EXAMPLES)]
    Ui(live::UiArgs),
    /// Show the state of a running modgate: replicas, certificate, policies, audit.
    #[command(after_help = live::STATUS_EXAMPLES)]
    Status(live::StatusArgs),
    /// Send a review to webhooks until they answer, as the chart's `helm test` does.
    #[command(after_help = probe::EXAMPLES)]
    Probe(probe::ProbeArgs),
    /// Scan manifests or a cluster and report violations.
    #[command(after_help = AUDIT_EXAMPLES)]
    Audit(AuditCommandArgs),
    /// Compare two sets of policies over recorded, given or invented requests.
    #[command(after_help = compare::EXAMPLES)]
    Compare(Box<compare::CompareArgs>),
    /// Find objects that get past policies.
    #[command(after_help = lint::EXAMPLES)]
    Lint(Box<lint::LintArgs>),
    /// Evaluate a `select` expression of a ModRule.
    #[command(after_help = SELECT_EXAMPLES)]
    Select(SelectArgs),
    /// Render the CRDs and ValidatingAdmissionPolicies of templates and constraints.
    #[command(subcommand)]
    Render(RenderVerb),
    /// Convert ValidatingAdmissionPolicies to ConstraintTemplates and constraints, or back, and compare
    /// their decisions.
    #[command(after_help = convert::EXAMPLES)]
    Convert(convert::ConvertArgs),
    /// Check an installation of KubeMod or Gatekeeper and print the steps to migrate it.
    #[command(after_help = migrate::EXAMPLES)]
    Migrate(migrate::MigrateArgs),
    #[command(flatten)]
    Gator(modgate_gator::Verb),
    /// Write a new policy or test suite with comments.
    #[command(after_help = init::EXAMPLES)]
    Init(init::InitArgs),
    /// Format YAML files.
    #[command(after_help = fmt::EXAMPLES)]
    Fmt(fmt::FmtArgs),
    /// Print the version.
    Version {
        /// Output format.
        #[arg(short, long, default_value = "text")]
        output: TextOrJson,
    },
    /// Print the description of every metric as Markdown.
    #[command(hide = true)]
    Metrics,
    /// Print a completion script for a shell, or the manual pages.
    #[command(after_help = COMPLETION_EXAMPLES)]
    Completion {
        /// The shell, or `man` for the manual pages.
        #[arg(value_name = "SHELL")]
        target: CompletionTarget,
        /// Folder to write the manual pages to.
        #[arg(value_name = "DIR", default_value = ".")]
        folder: PathBuf,
    },
}

/// The output of `completion`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompletionTarget {
    Bash,
    Elvish,
    Fish,
    #[value(name = "powershell")]
    PowerShell,
    Zsh,
    /// Manual pages, one for each verb.
    Man,
}

const COMPLETION_EXAMPLES: &str = "\
Examples:
  # Load completions into the current shell
  source <(modgate completion bash)

  # Install completions for zsh
  modgate completion zsh > \"${fpath[1]}/_modgate\"

  # Write the manual pages
  modgate completion man ~/.local/share/man/man1";

const SERVE_EXAMPLES: &str = "\
Examples:
  # Serve policies of a folder on https://localhost:9443, with a certificate generated at start
  modgate serve --policies examples/quickstart

  # Serve the policies of the cluster it runs in, with probes and metrics over plain HTTP
  modgate serve --health-addr :9090 --prometheus-port 8888

  # Serve the policies of a cluster from outside, without changing anything there
  modgate serve --kubeconfig ~/.kube/config --disable-cert-rotation --cert-dir certs

Exit codes:
  0  the server stopped after a signal, and answered every open request
  1  the server stopped at once after a second signal
  2  arguments, files or policies are not valid, or the server failed";

fn review_examples() -> String {
    format!(
        "\
Examples:
  # Evaluate policies against a manifest
  modgate review -f policies/ deployment.yaml

  # Annotate a pull request on GitHub, and write SARIF for code scanning
  modgate review -f policies/ -o github -o sarif=review.sarif manifests/

  # Evaluate the output of a chart or a kustomization
  helm template shop | modgate review -f policies/ -
  modgate review -f policies/ -k overlays/production

  # Print the changes that policies make to the objects of a cluster
  kubectl get deploy -A -o yaml | modgate review -f policies/ -o diff -

  # Write a page for a browser
  modgate review -f policies/ -o html=review.html manifests/

  # Apply the patched objects
  modgate review -f policies/ -o yaml app.yaml | kubectl apply -f -

{}",
        exit::TABLE
    )
}

fn explain_examples() -> String {
    format!(
        "\
Examples:
  # Explain every policy whose match block selects the object
  modgate explain -f policies/ deployment.yaml

  # Explain one policy, for a deletion
  modgate explain -f policies/ --rule protect-data --operation DELETE volume.yaml

  # Explain what the code of a warning means
  modgate explain never-matches

{}",
        exit::TABLE
    )
}

const SELECT_EXAMPLES: &str = "\
Examples:
  # List the containers without limits, with the captured keys
  modgate select '$.spec.template.spec.containers[? isUndefined(@.resources.limits)].name' \\
    -f deployment.yaml

  # Check the syntax only
  modgate select '$.spec.replicas >'";
