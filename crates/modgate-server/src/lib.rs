//! Serving webhooks: TLS, HTTP, admission, and the process around them.
//!
//! [`Server`] binds listeners, evaluates requests with the policies in force and stops gracefully;
//! [`router`] is what a listener serves. Read these two first.
//!
//! This crate does not decide requests: [`modgate_engine::Snapshot`] does. [`modgate_policies`]
//! holds the policies in force, and [`modgate_cluster`] follows those of a cluster.
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
//! `listen` (TLS, HTTP) → `webhook::admission` (decode, wait for a slot) → the engine →
//! `webhook::record` (log, count) → response. If modgate itself fails, the webhook answers HTTP 500,
//! so that the API server applies its `failurePolicy`; `--internal-errors` changes that.
//!
//! # The live page
//!
//! `ui` serves what people look at: `decisions` keeps the last decisions, and `ui/openapi.json` describes
//! the API.
//!
//! # Limits
//!
//! `listen` bounds connections, `webhook::body` bodies, `webhook::schedule` waiting requests,
//! `webhook::bounds` answers, and the engine's budgets each evaluation. `docs/limits.md` lists all
//! limits.

mod cut;
mod decisions;
mod listen;
mod serve;
mod tls;
mod ui;
mod webhook;

pub use decisions::Decisions;
pub use serve::{
    Addresses, PolicyOrigin, ServeConfig, ServeError, Server, ShadowConfig, Stopped, runtime,
    stop_signals,
};
pub use tls::{
    CertificateError, CertificateSource, Certificates, ClientAuth, MinVersion, TlsConfig,
    TlsVersion, UnknownVersion,
};
pub use webhook::{
    AdmissionEvents, App, Bodies, Evaluators, GatekeeperConfig, LateRejections, OnFailure,
    Readiness, RequestLimits, Routes, router,
};
