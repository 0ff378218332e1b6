//! The edge of modgate: everything that is asynchronous or talks to the outside.
//!
//! [`PolicyStore`] keeps policies current from files and publishes a [`World`] for each change;
//! [`Server`] binds listeners, serves the webhooks on the world of the moment and stops gracefully.
//! Read those two first. [`manifest`] is how files are read, also by the command line.
//!
//! What this crate deliberately does not do: decide. Every decision comes from
//! [`modgate_engine::Snapshot`], which knows nothing of sockets, files or clocks.
//!
//! ```
//! use modgate_engine::EngineConfig;
//! use modgate_server::{PolicyFiles, PolicyStore};
//!
//! let files = PolicyFiles { policies: vec!["no/such/folder".into()], objects: Vec::new() };
//! let mut store = PolicyStore::new(files, EngineConfig::default());
//! let findings = store.refresh().findings;
//! assert!(findings.iter().any(|found| found.message.starts_with("cannot read `no/such/folder`")));
//! assert_eq!(store.world().snapshot.policies().count(), 0);
//! ```
//!
//! # One request
//!
//! `listen` (TLS, HTTP) → `webhook::admission` (decode, take a turn) → the engine →
//! `webhook::record` (log, count) → response. A failure of ours becomes an ordinary answer: KubeMod's
//! webhooks let the request through with a warning, the others answer HTTP 500, which leaves it to
//! the API server's `failurePolicy`.
//!
//! # Limits
//!
//! Of connections in `listen`, of bodies in `webhook::body`, of turns in `webhook::schedule`, of answers
//! in `webhook::bounds`, of logs in `telemetry::limited`; `docs/limits.md` lists them. Evaluation is
//! bounded by the engine's budgets.

mod backoff;
pub mod client;
mod controllers;
pub mod export;
mod files;
mod listen;
pub mod manifest;
mod operations;
mod policies;
mod providers;
pub mod remote;
mod serve;
pub mod telemetry;
mod tls;
mod webhook;

pub use controllers::events::Events;
pub use controllers::{
    AuditConfig, ClusterCertificates, ClusterConfig, ClusterError, LeaseTimes, PolicyReportConfig,
    PolicyReportFormat, RotationTimes, VapConfig,
};
pub use files::POLL_INTERVAL;
pub use operations::{Operation, Operations, UnknownOperation};
pub use policies::{Current, Objects, PolicyFiles, PolicyStore, Refresh, World};
pub use providers::{
    Asking, DEFAULT_CACHE_TTL, MAX_ANSWER_BYTES, MAX_CACHE_BYTES, MAX_CALLS, Providers,
    ProvidersConfig, WithProviders,
};
pub use serve::{Addresses, ServeConfig, ServeError, Server, Stopped, runtime, stop_signals};
pub use tls::{
    CertificateError, CertificateSource, Certificates, ClientAuth, MinVersion, TlsConfig,
    TlsVersion, UnknownVersion,
};
pub use webhook::{
    AdmissionEvents, App, Bodies, Evaluators, GatekeeperConfig, LateRejections, OnFailure,
    Readiness, RequestLimits, Routes, router,
};
