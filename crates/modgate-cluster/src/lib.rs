//! Policies from a cluster, kept current by watching it, and everything that modgate writes to one.
//!
//! [`Controllers`] starts a [watch](watches) per kind. All watches send their events to one
//! [`Ingest`](ingest::Ingest), which makes the next [`PolicySet`](modgate_policies::PolicySet). The
//! kinds are watched too: a kind is followed as soon as the API server serves its CRD, whether that
//! was there before, comes from another installation, or was written by [`definitions`] for a template.
//!
//! The other controllers follow the loaded [`State`](state::State) and write: CRDs of constraints,
//! statuses, generated admission policies, audit results, certificates, Events. Only the process that
//! holds the [Lease](lease) writes what one process must write.
//!
//! [`remote`] is the client of the command line. It makes one blocking call after another:
//!
//! ```
//! # use std::{fs, io::{self, Read as _, Write as _}, net::TcpListener, thread};
//! use modgate_cluster::remote::{Place, Remote, Resource};
//!
//! # let listener = TcpListener::bind("127.0.0.1:0")?;
//! # let server = listener.local_addr()?;
//! # let answer = thread::spawn(move || -> io::Result<()> {
//! #     let (mut stream, _) = listener.accept()?;
//! #     let _ = stream.read(&mut [0; 4096])?;
//! #     let list = r#"{"apiVersion": "api.kubemod.io/v1beta1", "kind": "ModRuleList", "metadata": {},
//! #         "items": [{"metadata": {"namespace": "shop", "name": "no-latest"}}]}"#;
//! #     let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length";
//! #     write!(stream, "{head}: {}\r\n\r\n{list}", list.len())
//! # });
//! # let kubeconfig = std::env::temp_dir().join(format!("modgate-cluster-{}", std::process::id()));
//! # fs::write(&kubeconfig, format!("
//! # apiVersion: v1
//! # kind: Config
//! # current-context: here
//! # contexts: [{{name: here, context: {{cluster: here, user: me}}}}]
//! # clusters: [{{name: here, cluster: {{server: 'http://{server}'}}}}]
//! # users: [{{name: me, user: {{}}}}]
//! # "))?;
//! // `Place::find` gives the files that kubectl would read.
//! let place = Place { files: vec![kubeconfig.clone()], context: None };
//! let remote = Remote::connect(&place)?;
//! let modrules = Resource::of_cluster("api.kubemod.io", "v1beta1", "modrules");
//! let names: Vec<String> = remote
//!     .list(&modrules)?
//!     .iter()
//!     .filter_map(|rule| Some(rule.path(&["metadata", "name"])?.as_str()?.to_owned()))
//!     .collect();
//! assert_eq!(names, ["no-latest"]);
//! # answer.join().expect("no panic")?;
//! # fs::remove_file(&kubeconfig)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Guarantees
//!
//! - No policy set is published before it contains every policy present at start; until then the
//!   process is not ready, however long that takes.
//! - A policy that does not load is reported and stops nothing.
//! - A failed watch is retried forever. Meanwhile the policies seen last stay in force.
//! - The inventory of a kind is never emptied to be filled again: its objects stay until all of their
//!   replacements have been seen.
//! - A policy that reads fields of synced objects which modgate does not keep comes into force once it has
//!   these fields, or after a bounded wait.

mod audit;
pub mod authority;
mod bounded;
mod broken;
mod certificates;
mod connect;
mod context;
mod controllers;
mod crd_info;
mod definitions;
pub mod events;
mod export;
mod identity;
mod ingest;
mod kinds;
mod lease;
mod lifecycle_log;
mod listing;
pub mod live;
mod load_events;
mod lookup;
mod object;
mod operations;
mod reconcile;
pub mod remote;
pub mod reports;
mod request_metrics;
mod retry;
mod served_kinds;
mod state;
mod status;
mod storage_migration;
mod sync;
mod sync_metrics;
mod vap;
mod watches;

pub use self::{
    audit::{AuditConfig, PolicyReportConfig, PolicyReportFormat},
    certificates::{ClusterCertificates, Rotation, RotationTimes, ServingCertificate},
    connect::{ClusterConfig, ClusterError, connect},
    controllers::{Controllers, Settings, Shared},
    events::Events,
    identity::Identity,
    lease::{Elector, LeaseTimes},
    lookup::ApiLookup,
    operations::{Operation, Operations, UnknownOperation},
    vap::{Settings as VapSettings, VapConfig},
};

/// The logger of everything between this process and the API server.
const LOGGER: &str = "cluster";

/// The field manager of everything this process writes.
const FIELD_MANAGER: &str = "modgate";
