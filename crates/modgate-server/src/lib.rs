//! Serving webhooks: TLS, HTTP, admission, and the process around them.
//!
//! [`Server`] binds listeners, evaluates requests with the policies in force and stops gracefully;
//! [`router`] is what a listener serves. Read these two first.
//!
//! What this crate deliberately does not do: decide. Every decision comes from
//! [`modgate_engine::Snapshot`]. Which policies are in force is the business of [`modgate_policies`];
//! [`modgate_cluster`] follows them in a cluster.
//!
//! ```
//! use modgate_policies::PolicyFiles;
//! use modgate_server::{CertificateSource, Routes, ServeConfig};
//!
//! let files = PolicyFiles { policies: vec!["policies".into()], objects: Vec::new() };
//! let certificate = CertificateSource::SelfSigned { names: vec!["localhost".to_owned()] };
//! assert_eq!(ServeConfig::new(files, certificate).main_routes(), Routes::All);
//! ```
//!
//! # One request
//!
//! `listen` (TLS, HTTP) → `webhook::admission` (decode, wait for a permit) → the engine →
//! `webhook::record` (log, count) → response. A failure of ours becomes an ordinary answer: KubeMod's
//! webhooks let the request through with a warning, the others answer HTTP 500, which leaves it to
//! the API server's `failurePolicy`.
//!
//! # Limits
//!
//! Of connections in `listen`, of bodies in `webhook::body`, of waiting requests in
//! `webhook::schedule`, of answers in `webhook::bounds`; `docs/limits.md` lists them. Evaluation is
//! bounded by the engine's budgets.

mod listen;
mod serve;
mod tls;
mod webhook;

pub use serve::{Addresses, ServeConfig, ServeError, Server, Stopped, runtime, stop_signals};
pub use tls::{
    CertificateError, CertificateSource, Certificates, ClientAuth, MinVersion, TlsConfig,
    TlsVersion, UnknownVersion,
};
pub use webhook::{
    AdmissionEvents, App, Bodies, Evaluators, GatekeeperConfig, LateRejections, OnFailure,
    Readiness, RequestLimits, Routes, router,
};
