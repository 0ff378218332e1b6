//! Logs: text for people, JSON with KubeMod's keys for machines.

pub(crate) mod bulk;

use std::{
    fmt::{self, Write as _},
    fs::OpenOptions,
    io::{self, IsTerminal as _},
    panic::{self, PanicHookInfo},
    path::PathBuf,
    str::FromStr,
    sync::{Arc, Mutex, PoisonError},
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
    field::MakeExt as _,
    filter::{FilterFn, LevelFilter, Targets, filter_fn},
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::{Writer, debug_fn},
        time::{FormatTime as _, SystemTime},
    },
    layer::SubscriberExt as _,
    registry::LookupSpan,
    util::SubscriberInitExt as _,
};

use self::bulk::{BulkLog, Destination};
pub(crate) use super::limited::FIELD_BYTES;
use super::limited::{limited, text_field};

/// The logger of what is wrong with policies.
const LOGGER: &str = "policies";

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

/// The settings of logging.
#[derive(Debug, Clone)]
pub struct LogConfig {
    /// How lines look.
    pub format: LogFormat,
    /// Level, or levels by logger: `info`, `warn,dragnet-webhook=debug`. Gatekeeper's `DEBUG`,
    /// which is text, `INFO`, and `WARNING` and `ERROR`, which are the same.
    pub filter: String,
    /// The key of the level in JSON lines.
    pub level_key: String,
    /// How levels are written in JSON lines.
    pub level_encoder: LevelEncoder,
    /// How times are written in JSON lines.
    pub time_encoding: TimeEncoding,
    /// Lines are added to this file rather than to standard error.
    pub file: Option<PathBuf>,
    /// Whether `NO_COLOR` asks for plain text.
    pub no_color: bool,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            format: LogFormat::Auto,
            filter: "info".to_owned(),
            level_key: "level".to_owned(),
            level_encoder: LevelEncoder::Lower,
            time_encoding: TimeEncoding::Rfc3339,
            file: None,
            no_color: false,
        }
    }
}

/// How levels are written (`--log-level-encoder`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LevelEncoder {
    /// `info`
    #[default]
    Lower,
    /// `INFO`
    Capital,
    /// `info` in the colour of a terminal.
    Color,
    /// `INFO` in the colour of a terminal.
    CapitalColor,
}

impl LevelEncoder {
    fn write(self, level: Level, out: &mut String) {
        let (lower, capital, color) = match level {
            Level::ERROR => ("error", "ERROR", 31),
            Level::WARN => ("warn", "WARN", 33),
            Level::INFO => ("info", "INFO", 34),
            Level::DEBUG => ("debug", "DEBUG", 35),
            Level::TRACE => ("trace", "TRACE", 35),
        };
        let text = match self {
            Self::Lower | Self::Color => lower,
            Self::Capital | Self::CapitalColor => capital,
        };
        if matches!(self, Self::Color | Self::CapitalColor) {
            let colored = format!("\u{1b}[{color}m{text}\u{1b}[0m");
            write_string(&colored, out, Escape::Minimal);
        } else {
            write_string(text, out, Escape::Minimal);
        }
    }
}

/// How times are written in JSON lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimeEncoding {
    /// As text, in UTC, with microseconds.
    #[default]
    Rfc3339,
    /// As a number of seconds since 1970, with a fraction: Gatekeeper's way.
    Epoch,
}

/// Why logging could not be set up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// Not a [`LogFormat`].
    #[error("unknown log format `{found}`, expected `auto`, `text` or `json`")]
    Format {
        /// The given value.
        found: String,
    },
    /// Not a filter.
    #[error("`{filter}` is not a log filter: {cause}")]
    Filter {
        /// The given value.
        filter: String,
        /// Its error.
        cause: String,
    },
    /// The log file cannot be written to.
    #[error("cannot write logs to `{path}`: {reason}")]
    File {
        /// The file.
        path: String,
        /// The system's message.
        reason: String,
    },
    /// The process logs already.
    #[error("logging is already set up")]
    Twice,
}

/// Sends this process's logs to standard error or a file, and returns the format in use, never
/// [`LogFormat::Auto`].
///
/// # Errors
///
/// When the filter is malformed, the file cannot be opened, or logging was set up before.
pub fn init_logs(config: &LogConfig) -> Result<LogFormat, LogError> {
    let wanted = Wanted::of(&config.filter)?;
    let terminal = config.file.is_none() && io::stderr().is_terminal();
    let format = match config.format {
        LogFormat::Auto if terminal || wanted.console => LogFormat::Text,
        LogFormat::Auto => LogFormat::Json,
        chosen => chosen,
    };
    let to = match &config.file {
        None => Destination::StandardError,
        Some(path) => {
            let file = OpenOptions::new().create(true).append(true).open(path);
            let file = file.map_err(|error| LogError::File {
                path: path.display().to_string(),
                reason: error.to_string(),
            })?;
            Destination::File(Mutex::new(file))
        }
    };
    let to = Arc::new(to);
    let layer = tracing_subscriber::fmt::layer().with_writer(Arc::clone(&to));
    let registry = tracing_subscriber::registry().with(wanted.levels).with(without_answers());
    let done = if format == LogFormat::Json {
        let done = registry.with(layer.event_format(JsonLine::of(config))).try_init();
        if done.is_ok() {
            BulkLog::new(JsonLine::of(config), to).use_it();
        }
        done
    } else {
        let fields = debug_fn(text_field).delimited(" ");
        registry.with(layer.with_ansi(terminal && !config.no_color).fmt_fields(fields)).try_init()
    };
    done.map_err(|_| LogError::Twice)?;
    panic::set_hook(Box::new(log_panic));
    if let Some(unknown) = wanted.unknown {
        tracing::warn!(
            target: "serve",
            "--log-level: there is no level `{unknown}`, `info` is used; the levels are: debug, error, info, off, \
             trace, warn"
        );
    }
    Ok(format)
}

/// The filter of `--log-level`.
#[derive(Debug)]
struct Wanted {
    levels: Targets,
    /// Whether lines are for people, where nothing else is said.
    console: bool,
    /// A word that is no level.
    unknown: Option<String>,
}

impl Wanted {
    fn of(filter: &str) -> Result<Self, LogError> {
        let at = |level: Level| Targets::new().with_default(level);
        let plain = |levels| Self { levels, console: false, unknown: None };
        Ok(match filter {
            "DEBUG" => Self { console: true, ..plain(at(Level::DEBUG)) },
            "WARNING" | "ERROR" => plain(at(Level::WARN)),
            // A logger alone would mean everything of it and nothing of any other.
            word if !word.contains(['=', ',']) && word.parse::<LevelFilter>().is_err() => {
                Self { unknown: Some(word.to_owned()), ..plain(at(Level::INFO)) }
            }
            levels => plain(levels.parse().map_err(|cause| LogError::Filter {
                filter: filter.to_owned(),
                cause: format!("{cause}"),
            })?),
        })
    }
}

/// Leaves out lines of the Kubernetes client that quote whole answers, which may be Secrets. What was wrong with an
/// answer is logged by who asked.
fn without_answers() -> FilterFn {
    filter_fn(|line| line.target() != "kube_client::client" || *line.level() == Level::ERROR)
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
    let help = finding.help.as_deref().filter(|help| !help.is_empty());
    let code = finding.code;
    let message = &finding.message;
    match finding.severity {
        Severity::Error => {
            tracing::error!(target: LOGGER, file, line, column, code, help, "{message}");
        }
        Severity::Warning => {
            tracing::warn!(target: LOGGER, file, line, column, code, help, "{message}");
        }
        Severity::Note => {
            tracing::info!(target: LOGGER, file, line, column, code, help, "{message}");
        }
    }
}

/// Fields that hold JSON already.
const JSON_FIELDS: [&str; 5] = [
    "constraint_annotations",
    "constraint_enforcement_actions",
    "details",
    "execution_stats",
    "resource_labels",
];

/// A field whose members become fields of the line, for those whose names are not known before.
const MEMBERS: &str = "members";

/// One event as one JSON object.
#[derive(Debug, Default)]
pub(crate) struct JsonLine {
    level_key: Option<String>,
    level_encoder: LevelEncoder,
    time_encoding: TimeEncoding,
}

impl JsonLine {
    fn of(config: &LogConfig) -> Self {
        let LogConfig { level_key, level_encoder, time_encoding, .. } = config.clone();
        Self { level_key: Some(level_key), level_encoder, time_encoding }
    }

    /// Writes the members in front of the fields.
    pub(crate) fn start(&self, level: Level, logger: &str, line: &mut String) -> fmt::Result {
        line.push('{');
        write_string(self.level_key.as_deref().unwrap_or("level"), line, Escape::Minimal);
        line.push(':');
        self.level_encoder.write(level, line);
        line.push_str(",\"ts\":");
        self.write_time(line)?;
        line.push_str(",\"logger\":");
        write_string(logger, line, Escape::Minimal);
        Ok(())
    }

    fn write_time(&self, line: &mut String) -> fmt::Result {
        match self.time_encoding {
            TimeEncoding::Rfc3339 => {
                line.push('"');
                SystemTime.format_time(&mut Writer::new(line))?;
                line.push('"');
                Ok(())
            }
            TimeEncoding::Epoch => {
                let now = std::time::SystemTime::now();
                let since = now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
                write!(line, "{}.{:06}", since.as_secs(), since.subsec_micros())
            }
        }
    }
}

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
        self.start(*metadata.level(), metadata.target(), &mut line)?;
        let mut fields = JsonFields { line: &mut line };
        event.record(&mut fields);
        line.push('}');
        writeln!(writer, "{line}")
    }
}

/// The key of a field in a line.
pub(crate) fn put_key(line: &mut String, name: &str) {
    line.push(',');
    write_string(if name == "message" { "msg" } else { name }, line, Escape::Minimal);
    line.push(':');
}

/// A field that holds a text.
pub(crate) fn put_text(line: &mut String, name: &str, value: &str) {
    // JSON that is cut is JSON no more, and shown as the text it is.
    let whole = value.len() <= FIELD_BYTES;
    if whole && JSON_FIELDS.contains(&name) {
        put_key(line, name);
        line.push_str(value);
        return;
    }
    if whole && name == MEMBERS {
        let members = value.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        if let Some(members) = members.filter(|members| !members.is_empty()) {
            line.push(',');
            line.push_str(members);
        }
        return;
    }
    put_key(line, name);
    if whole {
        write_string(value, line, Escape::Minimal);
    } else {
        write_string(&limited(value), line, Escape::Minimal);
    }
}

struct JsonFields<'a> {
    line: &'a mut String,
}

impl JsonFields<'_> {
    fn literal(&mut self, field: &Field, value: impl fmt::Display) {
        put_key(self.line, field.name());
        let _ = write!(self.line, "{value}");
    }
}

impl Visit for JsonFields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let value = limited(format_args!("{value:?}"));
        if value.len() > FIELD_BYTES {
            // It says already how much was left out.
            put_key(self.line, field.name());
            write_string(&value, self.line, Escape::Minimal);
        } else {
            put_text(self.line, field.name(), &value);
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        put_text(self.line, field.name(), value);
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
        // JSON has no infinities; the text form is better than a line that parsers refuse.
        if value.is_finite() {
            self.literal(field, value);
        } else {
            self.record_str(field, &value.to_string());
        }
    }
}

/// The JSON lines logged by `run` on this thread, all levels: for tests.
pub fn capture(run: impl FnOnce()) -> String {
    capture_as(JsonLine::default(), run)
}

fn capture_as(lines_are: JsonLine, run: impl FnOnce()) -> String {
    let lines = Lines::default();
    let writer = lines.clone();
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(move || writer.clone())
        .event_format(lines_are);
    let registry = tracing_subscriber::registry().with(without_answers()).with(layer);
    tracing::subscriber::with_default(registry, run);
    String::from_utf8_lossy(&lines.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
}

/// Log lines in memory.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
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
    fn levels_that_are_asked_for() {
        for (filter, expected, console, unknown) in [
            ("info", Level::INFO, false, None),
            ("INFO", Level::INFO, false, None),
            ("DEBUG", Level::DEBUG, true, None),
            ("debug", Level::DEBUG, false, None),
            ("WARNING", Level::WARN, false, None),
            ("ERROR", Level::WARN, false, None),
            ("error", Level::ERROR, false, None),
            ("nonsense", Level::INFO, false, Some("nonsense")),
            ("warn,dragnet-webhook=debug", Level::WARN, false, None),
        ] {
            let wanted = Wanted::of(filter).expect(filter);
            assert!(wanted.levels.would_enable("webhook", &expected), "{filter}");
            let above = [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE];
            let next = above.into_iter().find(|level| *level > expected).expect("more verbose");
            assert!(!wanted.levels.would_enable("webhook", &next), "{filter}");
            assert_eq!((wanted.console, wanted.unknown.as_deref()), (console, unknown), "{filter}");
        }
        assert!(matches!(Wanted::of("a=b"), Err(LogError::Filter { .. })));
    }

    #[test]
    fn gatekeepers_ways_to_write_levels_and_times() {
        let event = || tracing::warn!(target: "webhook", "careful");
        for (level_encoder, expected) in [
            (LevelEncoder::Lower, "warn"),
            (LevelEncoder::Capital, "WARN"),
            (LevelEncoder::Color, "\u{1b}[33mwarn\u{1b}[0m"),
            (LevelEncoder::CapitalColor, "\u{1b}[33mWARN\u{1b}[0m"),
        ] {
            let config = LogConfig {
                level_key: "severity".to_owned(),
                level_encoder,
                time_encoding: TimeEncoding::Epoch,
                ..LogConfig::default()
            };
            let text = capture_as(JsonLine::of(&config), event);
            let line = Value::from_json(text.as_bytes()).expect("one JSON object");
            assert_eq!(line.get("severity").and_then(Value::as_str), Some(expected), "{text}");
            assert_eq!(line.get("level"), None, "{text}");
            let seconds = line.get("ts").and_then(Value::as_number).map(|number| number.as_f64());
            assert!(seconds.is_some_and(|seconds| seconds > 1.6e9), "{text}");
        }
    }

    #[test]
    fn fields_that_are_json_already() {
        let text = capture(|| {
            tracing::info!(details = r#"{"a":1}"#, members = r#"{"iteration_0":"x"}"#, "m");
            tracing::info!(members = "{}", "n");
        });
        let mut lines = text.lines().map(|line| Value::from_json(line.as_bytes()).expect(line));
        let line = lines.next().expect("a line");
        assert_eq!(line.path(&["details", "a"]), Some(&Value::from(1)));
        assert_eq!(line.get("iteration_0"), Some(&Value::from("x")));
        assert_eq!(line.get("members"), None);
        assert!(lines.next().is_some());
    }

    #[test]
    fn long_fields_are_cut_and_lines_stay_json() {
        let long = "x".repeat(FIELD_BYTES + 1);
        let text = capture(|| {
            tracing::info!(name = %long, details = format!("[\"{long}\"]"), members = format!("{{\"{long}\":1}}"), long, "{long}");
        });
        let line = Value::from_json(text.as_bytes()).expect("one JSON object");
        for field in ["name", "details", "members", "long", "msg"] {
            let value = line.get(field).and_then(Value::as_str).expect(field);
            assert!(value.ends_with(" more bytes") && value.len() < FIELD_BYTES + 50, "{field}");
        }
    }

    #[test]
    fn a_line_of_text_stays_one_line() {
        let lines = Lines::default();
        let writer = lines.clone();
        let layer = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .fmt_fields(debug_fn(text_field).delimited(" "));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::info!(uid = %"a\nb", name = "c\u{1b}[2J", n = 3, "message\r{}", "\nforged");
        });
        let text = String::from_utf8(lines.0.lock().expect("lines").clone()).expect("text");
        let expected = r#"message\r\nforged uid=a\nb name="c\u{1b}[2J" n=3"#;
        assert!(text.trim_end().ends_with(expected), "{text}");
        assert_eq!(text.matches('\n').count(), 1, "{text}");
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
