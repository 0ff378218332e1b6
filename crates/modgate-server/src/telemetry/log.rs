//! Logs: text for people, JSON with KubeMod's keys for machines.

use std::{
    fmt::{self, Write as _},
    io::IsTerminal as _,
    panic::{self, PanicHookInfo},
    str::FromStr,
};

use modgate_value::{
    diag::{Diagnostic, Location, Severity},
    json::{Escape, write_string},
};
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    filter::Targets,
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::Writer,
        time::{FormatTime as _, SystemTime},
    },
    layer::SubscriberExt as _,
    registry::LookupSpan,
    util::SubscriberInitExt as _,
};

use crate::policies::LOGGER;

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// [`LogFormat::Text`] on a terminal, [`LogFormat::Json`] elsewhere.
    #[default]
    Auto,
    /// For people; coloured on a terminal unless `NO_COLOR` is set.
    Text,
    /// One JSON object per line with KubeMod's keys: `level`, `ts`, `logger`, `msg` (spec 7.8).
    Json,
}

impl LogFormat {
    const ALL: [Self; 3] = [Self::Auto, Self::Text, Self::Json];
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Text => "text",
            Self::Json => "json",
        })
    }
}

impl FromStr for LogFormat {
    type Err = LogError;

    fn from_str(text: &str) -> Result<Self, LogError> {
        Self::ALL
            .into_iter()
            .find(|format| format.to_string() == text)
            .ok_or_else(|| LogError::Format { found: text.to_owned() })
    }
}

/// What is logged and how.
#[derive(Debug, Clone)]
pub struct LogConfig {
    /// How lines look.
    pub format: LogFormat,
    /// Level, or levels by logger: `info`, `warn,dragnet-webhook=debug`.
    pub filter: String,
    /// Whether `NO_COLOR` asks for plain text.
    pub no_color: bool,
}

/// Why logging could not be set up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// Not a [`LogFormat`].
    #[error("unknown log format `{found}`, expected `auto`, `text` or `json`")]
    Format {
        /// What was given.
        found: String,
    },
    /// Not a filter.
    #[error("`{filter}` is not a log filter: {cause}")]
    Filter {
        /// What was given.
        filter: String,
        /// What is wrong with it.
        cause: String,
    },
    /// The process logs already.
    #[error("logging is already set up")]
    Twice,
}

/// Sends this process's logs to standard error, and returns the format in use, never
/// [`LogFormat::Auto`].
///
/// # Errors
///
/// When the filter is malformed or logging was set up before.
pub fn init_logs(config: &LogConfig) -> Result<LogFormat, LogError> {
    let filter: Targets = config.filter.parse().map_err(|cause| LogError::Filter {
        filter: config.filter.clone(),
        cause: format!("{cause}"),
    })?;
    let terminal = std::io::stderr().is_terminal();
    let format = match config.format {
        LogFormat::Auto if terminal => LogFormat::Text,
        LogFormat::Auto => LogFormat::Json,
        chosen => chosen,
    };
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let registry = tracing_subscriber::registry().with(filter);
    let done = if format == LogFormat::Json {
        registry.with(layer.event_format(JsonLine)).try_init()
    } else {
        registry.with(layer.with_ansi(terminal && !config.no_color)).try_init()
    };
    done.map_err(|_| LogError::Twice)?;
    panic::set_hook(Box::new(log_panic));
    Ok(format)
}

/// A panic is a fault of modgate, and its message may quote the object under review: where it
/// happened is an error, what it says is for debugging.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let location = panic.location().map(ToString::to_string).unwrap_or_default();
    tracing::error!(target: "panic", location, "modgate panicked, please report this");
    if let Some(message) = panic.payload_as_str() {
        tracing::debug!(target: "panic", location, "{message}");
    }
}

/// Logs a finding about a policy file.
pub fn log_finding(finding: &Diagnostic) {
    let file = finding.source.as_ref().map(|source| &*source.name).unwrap_or_default();
    let Location { line, column } = finding.location().unwrap_or(Location { line: 0, column: 0 });
    let help = finding.help.as_deref().unwrap_or_default();
    let message = &finding.message;
    match finding.severity {
        Severity::Error => {
            tracing::error!(target: LOGGER, file, line, column, help, "{message}");
        }
        Severity::Warning => {
            tracing::warn!(target: LOGGER, file, line, column, help, "{message}");
        }
        Severity::Note => {
            tracing::info!(target: LOGGER, file, line, column, help, "{message}");
        }
    }
}

/// Members that hold JSON already.
const JSON_MEMBERS: [&str; 2] = ["details", "constraint_enforcement_actions"];

/// One event as one JSON object.
struct JsonLine;

impl<S, N> FormatEvent<S, N> for JsonLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        let mut line = String::with_capacity(256);
        let level = match *metadata.level() {
            Level::ERROR => "error",
            Level::WARN => "warn",
            Level::INFO => "info",
            Level::DEBUG => "debug",
            Level::TRACE => "trace",
        };
        write!(line, "{{\"level\":\"{level}\",\"ts\":\"")?;
        SystemTime.format_time(&mut Writer::new(&mut line))?;
        line.push_str("\",\"logger\":");
        write_string(metadata.target(), &mut line, Escape::Minimal);
        let mut fields = JsonFields { line: &mut line };
        event.record(&mut fields);
        line.push('}');
        writeln!(writer, "{line}")
    }
}

struct JsonFields<'a> {
    line: &'a mut String,
}

impl JsonFields<'_> {
    fn key(&mut self, field: &Field) {
        let key = if field.name() == "message" { "msg" } else { field.name() };
        self.line.push(',');
        write_string(key, self.line, Escape::Minimal);
        self.line.push(':');
    }

    fn literal(&mut self, field: &Field, value: impl fmt::Display) {
        self.key(field);
        let _ = write!(self.line, "{value}");
    }
}

impl Visit for JsonFields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if JSON_MEMBERS.contains(&field.name()) {
            return self.literal(field, value);
        }
        self.key(field);
        write_string(value, self.line, Escape::Minimal);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.literal(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.literal(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.literal(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has no infinities; the text form is better than a line nobody can parse.
        if value.is_finite() {
            self.literal(field, value);
        } else {
            self.record_str(field, &value.to_string());
        }
    }
}

/// The JSON lines logged by `run`, all levels.
#[cfg(test)]
pub(crate) fn capture(run: impl FnOnce()) -> String {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("lines").write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let lines = Lines::default();
    let writer = lines.clone();
    let layer =
        tracing_subscriber::fmt::layer().with_writer(move || writer.clone()).event_format(JsonLine);
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), run);
    let bytes = lines.0.lock().expect("lines").clone();
    String::from_utf8(bytes).expect("text")
}

#[cfg(test)]
mod tests {
    use modgate_value::Value;

    use super::*;

    #[test]
    fn formats_round_trip() {
        for format in LogFormat::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        assert!("xml".parse::<LogFormat>().is_err());
    }

    #[test]
    fn json_lines_carry_kubemods_keys() {
        let text = capture(|| {
            tracing::info!(
                target: "dragnet-webhook",
                count = 3,
                "request uid" = "u\"1",
                rejections = %"a,b",
                "Rejected"
            );
        });
        let line = Value::from_json(text.as_bytes()).expect("one JSON object");
        assert_eq!(line.get("level"), Some(&Value::from("info")));
        assert_eq!(line.get("logger"), Some(&Value::from("dragnet-webhook")));
        assert_eq!(line.get("msg"), Some(&Value::from("Rejected")));
        assert_eq!(line.get("request uid"), Some(&Value::from("u\"1")));
        assert_eq!(line.get("count"), Some(&Value::from(3)));
        assert_eq!(line.get("rejections"), Some(&Value::from("a,b")));
        assert!(line.get("ts").is_some());
    }
}
