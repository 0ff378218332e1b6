//! Flags as Go programs read them, and those that all verbs of modgate share.

use std::ffi::OsStr;

use clap::{
    Arg, ArgAction, Args, Command, ValueEnum,
    builder::{PossibleValue, TypedValueParser},
};
use modgate_report::{Level, Report};

/// Violations by severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum FailOn {
    /// Policies that deny, ModRules that reject.
    Deny,
    /// Those, policies that warn, and stored objects that an audit of ModRules or mutators would change.
    Warn,
    /// All violations.
    Dryrun,
    /// No violation.
    None,
}

/// When a command fails, and how much it prints.
#[derive(Debug, Clone, Args)]
pub struct ReportArgs {
    /// Exit with code 1 for violations of this severity or worse.
    #[arg(long, value_name = "ACTION", default_value = "deny")]
    pub fail_on: FailOn,
    /// Exit with code 1 if there are more warnings than this: violations of constraints that warn, and
    /// warnings about policies.
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    pub max_warnings: Option<usize>,
    /// Print violations and errors only: no warnings about policies, no notes, no summary.
    #[arg(short, long)]
    pub quiet: bool,
    /// Where reports send readers for help.
    #[command(flatten)]
    pub help_base: HelpBase,
}

/// Where reports send readers for help.
#[derive(Debug, Clone, Default, Args)]
pub struct HelpBase {
    /// Start of the addresses of pages about codes of warnings, which SARIF and JSON then contain: the
    /// code is appended, as in `https://docs.example.com/warnings.html#`.
    #[arg(long, value_name = "URL", value_parser = address)]
    help_base: Option<String>,
}

impl HelpBase {
    /// Gives the rules of a report their addresses.
    pub fn show_in(&self, report: &mut Report) {
        self.help_base.as_deref().unwrap_or_default().clone_into(&mut report.help_base);
    }
}

fn address(text: &str) -> Result<String, String> {
    match modgate_report::is_address(text) {
        true => Ok(text.to_owned()),
        false => Err("it is an address that starts with https:// or http://".to_owned()),
    }
}

fn count(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "it is a whole number from 0".to_owned())
}

/// How verbs without reports read files and policies.
#[derive(Debug, Clone, Args)]
pub struct CheckArgs {
    /// Files and folders to leave out, by name or pattern; repeat for more.
    #[arg(long, value_name = "GLOB")]
    pub exclude: Vec<String>,
    /// Treat warnings about policies as errors; docs/warnings.md lists them.
    #[arg(long)]
    pub strict: bool,
    /// Print results and errors only: no warnings about policies, no notes.
    #[arg(short, long)]
    pub quiet: bool,
}

impl ReportArgs {
    /// Whether findings are bad or many enough to fail.
    pub fn fails(&self, report: &Report) -> bool {
        let threshold = match self.fail_on {
            FailOn::Deny => Some(Level::Error),
            FailOn::Warn => Some(Level::Warning),
            FailOn::Dryrun => Some(Level::Note),
            FailOn::None => None,
        };
        // Findings about policies are no violations: `--strict` makes them errors.
        let violations = report.findings.iter().filter(|finding| !finding.action.is_empty());
        let worst = violations.map(|finding| finding.level).max();
        threshold.is_some_and(|threshold| worst.is_some_and(|worst| worst >= threshold))
            || self.excess(report).is_some()
    }

    /// The message about more warnings than `--max-warnings` allows.
    pub fn excess(&self, report: &Report) -> Option<String> {
        let (warnings, most) = (report.count(Level::Warning), self.max_warnings?);
        let plural = if warnings == 1 { "" } else { "s" };
        (warnings > most)
            .then(|| format!("{warnings} warning{plural}, and --max-warnings allows {most}"))
    }
}

/// Boolean flags as Go's `flag` package has them: `--flag`, or `--flag=VALUE` in any spelling of Go's.
///
/// In scope, it lets an argument be declared with `#[arg(long, go_bool = Some(false))]`.
pub trait GoBool {
    /// The argument as such a flag, with its default.
    #[must_use]
    fn go_bool(self, default: Option<bool>) -> Self;
}

impl GoBool for Arg {
    fn go_bool(self, default: Option<bool>) -> Self {
        let arg = self
            .value_name("BOOL")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .value_parser(Parser)
            .action(ArgAction::Set)
            .required(false);
        match default {
            Some(true) => arg.default_value("true"),
            Some(false) => arg.default_value("false"),
            None => arg,
        }
    }
}

/// `strconv.ParseBool`
fn parse(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("strconv.ParseBool: parsing {text:?}: invalid syntax")),
    }
}

/// [`parse`], with the spellings that help shows.
#[derive(Clone)]
struct Parser;

impl TypedValueParser for Parser {
    type Value = bool;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<bool, clap::Error> {
        parse.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(["true", "false"].into_iter().map(PossibleValue::new)))
    }
}
