//! Settings of logs and Events (spec `gatekeeper-validation`, 6.4, 6.5, 9.5, 9.8 and 9.9;
//! `kubemod`, 7.8).

use std::path::PathBuf;

use clap::ValueEnum;
use modgate_gator::flags::GoBool as _;
use modgate_server::GatekeeperConfig;
use modgate_telemetry::{LevelEncoder, LogConfig, LogFormat, TimeEncoding};
use modgate_value::near;

use super::compat::CompatArgs;
use crate::terminal::no_color;

/// The content of logs, and where they are written.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Logs and Events")]
pub(crate) struct LogArgs {
    /// Level, or levels by logger, such as `info` or `warn,dragnet-webhook=debug`. Gatekeeper's
    /// `DEBUG` is text for people; its `WARNING` and `ERROR` are the same.
    #[arg(long, value_name = "FILTER", default_value = "info")]
    log_level: String,
    /// `text`, `json`, or `auto`: text on a terminal and JSON elsewhere.
    #[arg(long, value_name = "FORMAT", default_value = "auto")]
    log_format: LogFormat,
    /// Key of the level in JSON lines.
    #[arg(long, value_name = "KEY", default_value = "level")]
    log_level_key: String,
    /// Format of the level in JSON lines.
    #[arg(long, value_name = "ENCODER", default_value = "lower")]
    log_level_encoder: Encoder,
    /// Format of the time `ts` in JSON lines.
    #[arg(long, value_name = "ENCODING", default_value = "rfc3339")]
    log_time_encoding: Time,
    /// Append log lines to this file instead of standard error.
    #[arg(long, value_name = "FILE")]
    log_file: Option<PathBuf>,
    /// Log the time of each constraint for each request.
    #[arg(long, go_bool = Some(false))]
    log_stats_admission: bool,
    /// Emit a Kubernetes Event for each violation of a request.
    #[arg(long, go_bool = Some(false))]
    emit_admission_events: bool,
    /// Create those Events in the namespace of the object instead of that of the installation.
    #[arg(long, go_bool = Some(false))]
    admission_events_involved_namespace: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Encoder {
    /// info
    Lower,
    /// INFO
    Capital,
    /// info, coloured
    Color,
    /// INFO, coloured
    #[value(name = "capitalcolor")]
    CapitalColor,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Time {
    /// Text in UTC
    Rfc3339,
    /// Seconds since 1970, as Gatekeeper writes them
    Epoch,
}

/// The levels by all of their names.
const LEVELS: [&str; 8] = ["debug", "error", "fatal", "info", "off", "trace", "warn", "warning"];

impl LogArgs {
    /// Refuses levels that are misspelt: what is wanted would not be logged. Notes about levels that
    /// are like none.
    pub(crate) fn check(&self) -> anyhow::Result<Vec<String>> {
        let mut notes = Vec::new();
        for directive in self.log_level.split(',') {
            let level = directive.rsplit('=').next().unwrap_or_default().trim();
            let lower = level.to_lowercase();
            // A directive without a level is the name of a logger.
            let is_logger = !directive.contains('=') && self.log_level.contains(',');
            let is_number = level.parse::<u8>().is_ok_and(|level| level <= 5);
            if level.is_empty() || is_logger || is_number || LEVELS.contains(&lower.as_str()) {
                continue;
            }
            let problem = format!("--log-level: there is no level `{level}`");
            match near::did_you_mean(&lower, LEVELS) {
                Some(help) => anyhow::bail!("{problem}; {help}"),
                // The log begins with it.
                None if self.log_level == directive && !directive.contains('=') => {}
                None => notes.push(format!("{problem}; the levels are: {}", LEVELS.join(", "))),
            }
        }
        Ok(notes)
    }

    /// The content of logs; KubeMod has a flag of its own for more.
    pub(crate) fn config(&self, compat: &CompatArgs) -> LogConfig {
        let is_plain = self.log_level == "info";
        LogConfig {
            format: self.log_format,
            filter: if compat.logs_debug() && is_plain { "debug" } else { &self.log_level }
                .to_owned(),
            level_key: self.log_level_key.clone(),
            level_encoder: match self.log_level_encoder {
                Encoder::Lower => LevelEncoder::Lower,
                Encoder::Capital => LevelEncoder::Capital,
                Encoder::Color => LevelEncoder::Color,
                Encoder::CapitalColor => LevelEncoder::CapitalColor,
            },
            time_encoding: match self.log_time_encoding {
                Time::Rfc3339 => TimeEncoding::Rfc3339,
                Time::Epoch => TimeEncoding::Epoch,
            },
            file: self.log_file.clone(),
            no_color: no_color(),
        }
    }

    /// Sets the log lines that the webhooks write beside their answers.
    pub(crate) fn apply(&self, config: &mut GatekeeperConfig) {
        config.log_stats = self.log_stats_admission;
        config.events.emit = self.emit_admission_events;
        config.events.in_object_namespace = self.admission_events_involved_namespace;
    }
}
