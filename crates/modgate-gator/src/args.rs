//! Arguments of the verbs, and those that several verbs share.

use clap::Args;

use crate::flags::{CheckArgs, GoBool as _, HelpBase, ReportArgs};

/// OCI images to read.
#[derive(Debug, Args)]
pub(crate) struct ImageArgs {
    /// OCI artifact to read: `registry/repository[:tag|@digest]`; repeat for more.
    #[arg(short, long = "image", value_name = "IMAGE", allow_hyphen_values = true)]
    pub(crate) images: Vec<String>,
    /// Pull images over HTTP, without TLS.
    #[arg(long, go_bool = Some(false), hide_possible_values = true, hide_default_value = true)]
    pub(crate) plain_http: bool,
    /// Folder for pulled images [default: the system's temporary folder]
    #[arg(short = 'd', long, value_name = "PATH", allow_hyphen_values = true)]
    pub(crate) tempdir: Option<String>,
}

/// Settings of templates written in CEL.
#[derive(Debug, Args)]
pub(crate) struct CelArgs {
    /// Evaluate templates written in CEL.
    #[arg(long, go_bool = Some(true), hide_possible_values = true)]
    pub(crate) enable_k8s_native_validation: bool,
    /// Failure policy for CEL templates that do not set `failurePolicy`: `Fail` or `Ignore`.
    #[arg(long, value_name = "POLICY", default_value = "Fail", allow_hyphen_values = true)]
    pub(crate) default_k8s_native_validation_failure_policy: String,
}

/// Arguments of `test`.
#[derive(Debug, Args)]
pub struct TestArgs {
    /// File, folder or quoted pattern to read; repeat for more, `-` for standard input.
    #[arg(short, long = "filename", value_name = "PATH", allow_hyphen_values = true)]
    pub(crate) filenames: Vec<String>,
    #[command(flatten)]
    pub(crate) images: ImageArgs,
    /// Output format, and the file to write it to; repeat for more: `text`, `json`, `yaml`, `jsonl`,
    /// `github`, `gitlab`, `sarif`, `junit` or `markdown`.
    #[arg(
        short,
        long,
        value_name = "FORMAT[=FILE]",
        default_value = "text",
        allow_hyphen_values = true
    )]
    pub(crate) output: Vec<String>,
    /// Files and folders to leave out, by name or pattern; repeat for more.
    #[arg(long, value_name = "GLOB")]
    pub(crate) exclude: Vec<String>,
    /// Treat warnings about policies as errors; docs/warnings.md lists them.
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    /// Add the trace of each evaluation.
    #[arg(short, long, go_bool = Some(false), hide_possible_values = true, hide_default_value = true)]
    pub(crate) trace: bool,
    /// Add the time of each evaluation.
    #[arg(long, go_bool = Some(false), hide_possible_values = true, hide_default_value = true)]
    pub(crate) stats: bool,
    /// Print only results that deny; the exit code does not change.
    #[arg(long, go_bool = Some(false), hide_possible_values = true, hide_default_value = true)]
    pub(crate) deny_only: bool,
    /// Print the output of `print` in policies.
    #[arg(short, long, go_bool = Some(false), hide_possible_values = true, hide_default_value = true)]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) cel: CelArgs,
    #[arg(hide = true)]
    pub(crate) rest: Vec<String>,
}

/// Arguments of `verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Suite file, folder, quoted pattern, or `FOLDER/...` for all suites below it; repeat for more.
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<String>,
    /// Run only the tests and cases whose names match: a pattern, or `test//case`.
    #[arg(
        short,
        long,
        value_name = "FILTER",
        default_value = "",
        allow_hyphen_values = true,
        hide_default_value = true
    )]
    pub(crate) run: String,
    /// Output format, and the file to write it to; repeat for more: `text`, `json`, `junit`, `yaml`,
    /// `jsonl`, `github`, `gitlab`, `sarif`, `markdown` or `html`; with `--coverage` also `lcov`.
    #[arg(
        short,
        long,
        value_name = "FORMAT[=FILE]",
        default_value = "text",
        allow_hyphen_values = true
    )]
    pub(crate) output: Vec<String>,
    /// Files and folders to leave out, by name or pattern; repeat for more.
    #[arg(long, value_name = "GLOB")]
    pub(crate) exclude: Vec<String>,
    /// Treat warnings about suites and policies as errors; docs/warnings.md lists them.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Print results and errors only: no warnings, no totals.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) help_base: HelpBase,
    /// Skip the remaining suites after the first one that fails.
    #[arg(long)]
    pub(crate) fail_fast: bool,
    /// Fail if there is no test.
    #[arg(long)]
    pub(crate) require_tests: bool,
    /// Run the suites again whenever a file below their paths changes.
    #[arg(long)]
    pub(crate) watch: bool,
    /// Measure which expressions, branches, match clauses and messages of the policies the cases
    /// reach.
    #[arg(long)]
    pub(crate) coverage: bool,
    /// Fail if the cases reach less than this part of the policies, in percent; implies `--coverage`.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(crate) coverage_min: Option<f64>,
    /// Change policies in small ways, and list the changes that no case notices.
    #[arg(long)]
    pub(crate) mutants: bool,
    /// Fail if the cases notice less than this part of the changes, in percent; implies `--mutants`.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(crate) mutants_min: Option<f64>,
    /// Most changes that `--mutants` tries for each policy.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) budget: usize,
    /// Seed of the choice of changes if there are more.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Print every test and case, and the output of `print` in policies.
    #[arg(short, long, go_bool = Some(false), hide_possible_values = true, hide_default_value = true)]
    pub(crate) verbose: bool,
    /// Add the trace of each evaluation.
    #[arg(short, long, go_bool = Some(false), hide_possible_values = true, hide_default_value = true)]
    pub(crate) trace: bool,
    #[command(flatten)]
    pub(crate) cel: CelArgs,
}

impl VerifyArgs {
    /// Whether coverage is reported.
    pub(crate) fn measures_coverage(&self) -> bool {
        self.coverage || self.coverage_min.is_some()
    }

    /// Whether changes of policies are tried.
    pub(crate) fn tries_mutants(&self) -> bool {
        self.mutants || self.mutants_min.is_some()
    }
}

/// A part of a whole, from 0 to 100.
fn percent(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "expected a number from 0 to 100".to_owned())?;
    match (0.0..=100.0).contains(&number) {
        true => Ok(number),
        false => Err("expected a number from 0 to 100".to_owned()),
    }
}

/// Arguments of `expand`.
#[derive(Debug, Args)]
pub struct ExpandArgs {
    /// File or folder to read, `-n` as in gator; repeat for more. `-f` is the format.
    #[arg(short = 'n', long = "filename", value_name = "PATH", allow_hyphen_values = true)]
    pub(crate) filenames: Vec<String>,
    #[command(flatten)]
    pub(crate) images: ImageArgs,
    /// Output format: `yaml` or `json` [default: yaml]
    #[arg(short, long, value_name = "FORMAT", allow_hyphen_values = true)]
    pub(crate) format: Option<String>,
    /// Write objects to this file instead of standard output.
    #[arg(short, long, value_name = "PATH", allow_hyphen_values = true)]
    pub(crate) outputfile: Option<String>,
    #[command(flatten)]
    pub(crate) checks: CheckArgs,
    #[arg(hide = true)]
    pub(crate) rest: Vec<String>,
}

/// Arguments of `sync test`.
#[derive(Debug, Args)]
pub struct SyncTestArgs {
    /// File or folder to read, `-n` as in gator; repeat for more.
    #[arg(short = 'n', long = "filename", value_name = "PATH", allow_hyphen_values = true)]
    pub(crate) filenames: Vec<String>,
    #[command(flatten)]
    pub(crate) images: ImageArgs,
    /// Assume that the cluster has every kind that is synced.
    #[arg(short, long, go_bool = Some(false), hide_possible_values = true, hide_default_value = true)]
    pub(crate) force_omit_gvk_manifest: bool,
    #[command(flatten)]
    pub(crate) checks: CheckArgs,
    #[arg(hide = true)]
    pub(crate) rest: Vec<String>,
}
