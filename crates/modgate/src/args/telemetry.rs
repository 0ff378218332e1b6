//! Where metrics and traces go beside `/metrics` (spec `gatekeeper-validation`, 9.5).

use std::time::Duration;

use anyhow::{Result, bail};
use modgate_gator::flags::GoBool as _;
use modgate_server::ServeConfig;
use modgate_telemetry::otlp::OtlpConfig;
use modgate_value::gotime;

/// Where metrics and traces are sent.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Metrics and traces")]
pub(crate) struct TelemetryArgs {
    /// `prometheus` or `opentelemetry`; repeat for both. Prometheus metrics are served whenever an
    /// address is configured.
    #[arg(long, value_name = "BACKEND", value_parser = backend)]
    metrics_backend: Vec<String>,
    /// URL of an OpenTelemetry collector that takes OTLP over HTTP, such as
    /// `http://collector:4318`. Traces are sent there; metrics as well with
    /// `--metrics-backend=opentelemetry`.
    #[arg(long, value_name = "URL", default_value = "")]
    otlp_endpoint: String,
    /// Interval between exports of metrics.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = interval)]
    otlp_metric_interval: Duration,
    /// Without effect: nothing is sent to Stackdriver.
    #[arg(long, value_name = "DURATION", hide = true)]
    stackdriver_metric_interval: Option<String>,
    /// Without effect: nothing is sent to Stackdriver.
    #[arg(long, go_bool = None, hide = true)]
    stackdriver_only_when_available: Option<bool>,
    /// Without effect: modgate has no profiles of Go. `modgate bench --top` and `/metrics` show the cost
    /// of policies.
    #[arg(long, go_bool = None, hide = true)]
    enable_pprof: Option<bool>,
    /// Without effect, as `--enable-pprof`.
    #[arg(long, value_name = "PORT", hide = true)]
    pprof_port: Option<u16>,
}

fn backend(text: &str) -> Result<String, String> {
    match text.to_ascii_lowercase().as_str() {
        known @ ("prometheus" | "opentelemetry") => Ok(known.to_owned()),
        "stackdriver" => {
            Err("nothing is sent to Stackdriver: use `opentelemetry` and a collector \
                              that exports to it"
                .to_owned())
        }
        _ => Err("expected `prometheus` or `opentelemetry`".to_owned()),
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    let duration = gotime::Duration::parse(text)?;
    u64::try_from(duration.0)
        .ok()
        .filter(|nanoseconds| *nanoseconds > 0)
        .map(Duration::from_nanos)
        .ok_or_else(|| "must be positive".to_owned())
}

impl TelemetryArgs {
    /// Sets the metrics and traces to send, and their collector.
    pub(crate) fn apply(&self, config: &mut ServeConfig) -> Result<()> {
        let sends_metrics = self.metrics_backend.iter().any(|backend| backend == "opentelemetry");
        if self.otlp_endpoint.is_empty() {
            if sends_metrics {
                bail!(
                    "`--metrics-backend=opentelemetry` needs `--otlp-endpoint`, a collector's URL"
                );
            }
            return Ok(());
        }
        config.otlp = Some(OtlpConfig {
            endpoint: self.otlp_endpoint.clone(),
            metrics: sends_metrics.then_some(self.otlp_metric_interval),
        });
        Ok(())
    }

    /// The notes about flags without effect.
    pub(crate) fn notes(&self) -> Vec<&'static str> {
        let mut notes = Vec::new();
        if self.enable_pprof == Some(true) || self.pprof_port.is_some() {
            notes.push(
                "--enable-pprof does nothing: `modgate bench --top` and /metrics show the cost of \
                 policies",
            );
        }
        if self.stackdriver_metric_interval.is_some()
            || self.stackdriver_only_when_available.is_some()
        {
            notes.push("flags of Stackdriver do nothing: nothing is sent there");
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backends_and_intervals() {
        assert_eq!(backend("OpenTelemetry").as_deref(), Ok("opentelemetry"));
        let refused = backend("stackdriver").unwrap_err();
        assert!(refused.starts_with("nothing is sent to Stackdriver"), "{refused}");
        assert!(backend("statsd").is_err());
        assert_eq!(interval("1m30s"), Ok(Duration::from_secs(90)));
        assert!(interval("0s").is_err() && interval("-1s").is_err() && interval("x").is_err());
    }
}
