//! Which policies are in force, and what they see: files, the policies made of them, external data.
//!
//! [`PolicyStore`] reads policies and objects from files and makes a [`PolicySet`] of them;
//! [`PolicyHandle`] holds the set that requests are evaluated with. Read those two first. [`Objects`]
//! is the [`Host`](modgate_engine::Host) of an evaluation: Namespaces, Nodes, time and randomness of
//! this machine; [`Providers`] adds external data. [`manifest`] reads files, also for the command line.
//!
//! What this crate deliberately does not do: serve, or know a Kubernetes client. A cluster is a
//! [`ClusterLookup`] to it.
//!
//! ```
//! use modgate_engine::EngineConfig;
//! use modgate_policies::{PolicyFiles, PolicyStore};
//!
//! let files = PolicyFiles { policies: vec!["no/such/folder".into()], objects: Vec::new() };
//! let mut store = PolicyStore::new(files, EngineConfig::default());
//! let findings = store.refresh().findings;
//! assert!(findings.iter().any(|found| found.message.starts_with("cannot read `no/such/folder`")));
//! assert_eq!(store.policies().snapshot.policies().count(), 0);
//! ```
//!
//! # Limits
//!
//! Calls to providers, their answers and the response cache are bounded ([`MAX_CALLS`],
//! [`MAX_ANSWER_BYTES`], [`MAX_CACHE_BYTES`]); so are lookups of host names.

mod blocking;
mod check;
mod files;
mod handle;
pub mod manifest;
mod near_path;
mod params;
pub mod paths;
mod providers;
mod set;
mod store;
mod system;
mod types;

pub use modgate_review::{findings, notes, place, references, run};

pub use self::{
    blocking::{Permit, may_block},
    check::check,
    files::{FileWatch, Fingerprint, POLL_INTERVAL},
    handle::PolicyHandle,
    params::WatchedParams,
    providers::{
        DEFAULT_CACHE_TTL, MAX_ANSWER_BYTES, MAX_CACHE_BYTES, MAX_CALLS, ProviderHost,
        ProviderSession, Providers, ProvidersConfig,
    },
    set::{ClusterLookup, NotBound, Objects, PolicySet, YieldingHost},
    store::{PolicyFiles, PolicyStore, Refresh, Standing},
    types::WatchedTypes,
};
