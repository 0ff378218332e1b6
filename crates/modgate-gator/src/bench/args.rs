//! The flags of `bench`, and their checked form.

use std::time::Duration;

use crate::flags::{CheckArgs, GoBool as _};
use clap::Args;
use modgate_value::{gotime, near};

use crate::{
    VerbFailure,
    args::ImageArgs,
    finding::{self, Output},
};

/// Arguments of `bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// File or folder with templates, constraints and objects; repeat for more.
    #[arg(short, long = "filename", value_name = "PATH", allow_hyphen_values = true)]
    pub(crate) filenames: Vec<String>,
    #[command(flatten)]
    pub(crate) images: ImageArgs,
    /// Engine: `rego`, `cel` or `all` [default: all; cel as `gator`]
    #[arg(short, long, value_name = "ENGINE", allow_hyphen_values = true)]
    engine: Option<String>,
    #[command(flatten)]
    pub(crate) checks: CheckArgs,
    /// Number of reviews of each object; use 1000 or more for a meaningful P99.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1000, allow_hyphen_values = true)]
    iterations: i64,
    /// Number of unmeasured reviews before that.
    #[arg(long, value_name = "N", default_value_t = 10, allow_hyphen_values = true)]
    warmup: i64,
    /// Number of concurrent reviews.
    #[arg(short, long, value_name = "N", default_value_t = 1, allow_hyphen_values = true)]
    concurrency: i64,
    /// Output format, and the file to write it to; repeat for more: `table`, `json`, `yaml` or `html`.
    #[arg(
        short,
        long,
        value_name = "FORMAT[=FILE]",
        default_value = "table",
        allow_hyphen_values = true
    )]
    output: Vec<String>,
    /// Add the time of each kind of constraint in the first iteration.
    #[arg(long, go_bool = Some(false), hide_possible_values = true, hide_default_value = true)]
    pub(crate) stats: bool,
    /// Add the memory that evaluations used.
    #[arg(long, go_bool = Some(false), hide_possible_values = true, hide_default_value = true)]
    pub(crate) memory: bool,
    /// Add the N constraints with the highest cost: evaluations, time, steps and bytes.
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
    /// Write the results to this file, as a baseline for later runs.
    #[arg(long, value_name = "PATH", allow_hyphen_values = true)]
    pub(crate) save: Option<String>,
    /// Compare with the results in this file, and exit with code 1 for a regression.
    #[arg(long, value_name = "PATH", allow_hyphen_values = true)]
    pub(crate) compare: Option<String>,
    /// Tolerated change for the worse, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0, allow_hyphen_values = true)]
    threshold: f64,
    /// Tolerated increase of a latency, whatever its percentage.
    #[arg(long, value_name = "DURATION", default_value = "0s", allow_hyphen_values = true)]
    min_threshold: String,
    #[arg(hide = true)]
    pub(crate) rest: Vec<String>,
}

/// The evaluator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Engine {
    Rego,
    Cel,
}

impl Engine {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rego => "rego",
            Self::Cel => "cel",
        }
    }

    /// Its name in the entries of a template's `code`.
    pub(super) fn in_templates(self) -> &'static str {
        match self {
            Self::Rego => "Rego",
            Self::Cel => "K8sNativeValidation",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Engines {
    One(Engine),
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Table,
    Json,
    Yaml,
    Html,
}

impl Format {
    fn parse(text: &str) -> Option<Self> {
        Some(match text.to_ascii_lowercase().as_str() {
            "" | "table" => Self::Table,
            "json" => Self::Json,
            "yaml" => Self::Yaml,
            "html" => Self::Html,
            _ => return None,
        })
    }
}

/// The flags, checked.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Settings {
    pub(super) engines: Engines,
    /// The formats, each with its file, or without one for standard output.
    pub(super) outputs: Vec<(Format, Option<String>)>,
    pub(super) iterations: u32,
    pub(super) warmup: u32,
    pub(super) concurrency: u32,
    pub(super) threshold: f64,
    pub(super) min_threshold: Duration,
}

impl BenchArgs {
    /// In the original's order.
    pub(super) fn check(&self, is_gator: bool) -> Result<Settings, VerbFailure> {
        let usual = if is_gator { "cel" } else { "all" };
        let engine = self.engine.as_deref().unwrap_or(usual);
        let engines = match engine.to_ascii_lowercase().as_str() {
            "rego" => Engines::One(Engine::Rego),
            "cel" => Engines::One(Engine::Cel),
            "all" => Engines::All,
            _ => {
                let text = format!("invalid engine {engine:?} (valid: rego, cel, all)");
                let near = near::did_you_mean(engine, ["rego", "cel", "all"]);
                return Err(VerbFailure::plain(match (is_gator, near) {
                    (true, _) => format!("invalid engine: {text}"),
                    (false, Some(help)) => format!("{text}; {help}"),
                    (false, None) => text,
                }));
            }
        };
        let outputs = self.outputs(is_gator)?;
        if self.filenames.is_empty() && self.images.images.is_empty() {
            let text = "at least one --filename or --image must be specified";
            return Err(VerbFailure::plain(text));
        }
        let min_threshold = gotime::Duration::parse(&self.min_threshold)
            .map_err(|error| VerbFailure::error(format!("--min-threshold: {error}")))?;
        let refused = [
            (self.iterations <= 0, "iterations must be positive"),
            (self.warmup < 0, "warmup must be non-negative"),
            (self.threshold < 0.0, "threshold must be non-negative"),
            (min_threshold.0 < 0, "min-threshold must be non-negative"),
            (self.concurrency < 1, "concurrency must be at least 1"),
        ];
        if let Some((_, text)) = refused.iter().find(|(refused, _)| *refused) {
            return Err(VerbFailure::plain(*text));
        }
        let count = |number: i64| {
            u32::try_from(number).map_err(|_| VerbFailure::plain(format!("{number} is too many")))
        };
        Ok(Settings {
            engines,
            outputs,
            iterations: count(self.iterations)?,
            warmup: count(self.warmup)?,
            concurrency: count(self.concurrency)?,
            threshold: self.threshold,
            min_threshold: Duration::from_nanos(min_threshold.0.unsigned_abs()),
        })
    }

    /// The original knows one output, the last one, and no files.
    fn outputs(&self, is_gator: bool) -> Result<Vec<(Format, Option<String>)>, VerbFailure> {
        let parsed = |format: &str| {
            Format::parse(format).ok_or_else(|| {
                VerbFailure::plain(match is_gator {
                    true => format!(
                        "invalid output format: invalid output format: {format:?} (valid: table, json, yaml)"
                    ),
                    false => {
                        let formats = ["table", "json", "yaml", "html"];
                        let valid = formats.join(", ");
                        let text = format!("invalid output format {format:?} (valid: {valid})");
                        match near::did_you_mean(format, formats) {
                            Some(help) => format!("{text}; {help}"),
                            None => text,
                        }
                    }
                })
            })
        };
        if is_gator {
            let format = self.output.last().map_or("", String::as_str);
            return Ok(vec![(parsed(format)?, None)]);
        }
        let outputs = finding::split(&self.output)?.into_iter();
        outputs
            .map(|Output { format, file }| Ok((parsed(format)?, file.map(str::to_owned))))
            .collect()
    }
}
