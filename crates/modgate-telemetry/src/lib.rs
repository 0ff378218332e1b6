//! Telemetry of modgate: logs on standard error, metrics on `/metrics`, traces by OTLP.
//!
//! [`init_logs`] sets up logs; [`metrics::Metrics`] holds every metric of the process, and hands out
//! handles to the parts that report; [`otlp::start`] sends metrics and traces to a collector.
//!
//! ```
//! use modgate_telemetry::metrics::Metrics;
//!
//! let metrics = Metrics::new();
//! metrics.watches().watched(3);
//! assert!(metrics.encode().contains("gatekeeper_watch_manager_watched_gvk 3"));
//! ```
//!
//! # Limits
//!
//! A field of a log line has at most 4 KiB. Spans that wait to be sent are bounded; more are dropped.

mod limited;
mod log;
pub mod metrics;
pub mod otlp;
mod otlp_json;
mod spans;

pub use log::{
    LevelEncoder, LogConfig, LogError, LogFormat, TimeEncoding, bulk::BulkLog, capture, init_logs,
    log_finding,
};
