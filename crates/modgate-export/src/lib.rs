//! Violations on their way out of the cluster (spec `gatekeeper-validation`, 7.6): to files, or to
//! the topic of a Dapr sidecar.
//!
//! A [`Connection`](Driver::connect) in the namespace of the installation selects the driver; a
//! [`Exporter`] is the [`Sink`] that audits write to, and takes what the webhook [queues](AdmissionQueue).
//! [`ViolationsFile`] is the sink that needs no Connection:
//!
//! ```
//! use std::{fs, sync::Arc};
//! use modgate_audit::{ObjectRef, PolicyRef, Sink as _, Violation};
//! use modgate_export::{ViolationsFile, ViolationsFileConfig};
//! use modgate_value::yaml;
//!
//! let constraint = yaml::value("
//! apiVersion: constraints.gatekeeper.sh/v1beta1
//! kind: RequiredLabels
//! metadata: {name: owner}
//! ")?;
//! let pod = yaml::value("{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}}")?;
//! let violation = Violation {
//!     policy: Arc::new(PolicyRef::of_policy(&constraint)),
//!     subject: Arc::new(ObjectRef::of_object(&pod)),
//!     action: "deny".into(),
//!     actions: Vec::new(),
//!     message: "add the label `owner`".into(),
//!     details: yaml::value("{missing: [owner]}")?,
//!     ordinal: 0,
//! };
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("violations.jsonl");
//! let file = ViolationsFile::new(ViolationsFileConfig { path: path.clone(), max_bytes: 1 << 20 });
//! file.started("nightly");
//! file.violation("nightly", &violation);
//! file.finished("nightly");
//!
//! let text = fs::read_to_string(&path)?;
//! let lines: Vec<&str> = text.lines().collect();
//! assert!(lines[0].contains(r#""message":"add the label `owner`""#));
//! assert!(lines[1].contains(r#""violations":1"#));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Guarantees
//!
//! - Every line has a `violationId` that is the same for the same audit, constraint and object
//!   ([`Violation::id`]), or for the same request.
//! - On disk each violation stands once, even if the process died during an audit, and the audit began
//!   again under its name. Unfinished files of other audits stay as they are.
//! - Over HTTP each violation is sent until the sidecar takes it, hence at least once, for as long as
//!   [`dapr`] allows. Violations that are given up are counted; the next audit exports those that still
//!   exist.
//! - An audit is reported as completed only if all of its violations were exported.
//! - The webhook never waits: violations that do not fit into its bounded queue are dropped and counted.
//!
//! # Limits
//!
//! Neither messages nor details of violations by Secrets are exported, as both may quote the object.

mod dapr;
mod disk;
mod file;
mod message;
mod publish;
mod queue;
mod spool;
mod status;

use modgate_audit::Violation;
use modgate_value::Value;

use self::{dapr::Dapr, disk::Disk, spool::Spool};
pub use self::{
    file::{ViolationsFile, ViolationsFileConfig},
    publish::Exporter,
    queue::AdmissionQueue,
    status::{PublishState, Published, Source, error as connection_error},
};

/// Logger of exports.
const LOGGER: &str = "export";

/// The kinds of exported lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportConfig {
    /// Whether audits export (`--enable-violation-export`).
    pub audit: bool,
    /// Whether the webhook does (`--enable-admission-violation-export`).
    pub admission: bool,
    /// The Connection that counts (`--audit-connection`).
    pub connection: String,
    /// The topic, or folder, that is written to (`--audit-channel`).
    pub channel: String,
    /// Where the Dapr sidecar listens.
    pub sidecar: String,
}

impl ExportConfig {
    /// Whether anything is exported.
    pub fn is_on(&self) -> bool {
        self.audit || self.admission
    }
}

impl Default for ExportConfig {
    fn default() -> Self {
        Self {
            audit: false,
            admission: false,
            connection: "audit-connection".to_owned(),
            channel: "audit-channel".to_owned(),
            sidecar: dapr::SIDECAR.to_owned(),
        }
    }
}

/// Why a Connection is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// It is not the one that counts (XP-1).
    #[error(
        "error unsupported connection name {name}. Connection name should align with flag \
         --audit-connection set or defaulted to '{expected}'"
    )]
    Name {
        /// Its name.
        name: String,
        /// The one that counts.
        expected: String,
    },
    /// There is no such driver.
    #[error("driver {0} is not supported")]
    Driver(String),
    /// Its configuration is not what the driver needs.
    #[error("error creating connection {name}: {reason}")]
    Config {
        /// Its name.
        name: String,
        /// The error.
        reason: String,
    },
}

/// The kind of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// Of the violation; the line stands, or is sent, once under it.
    pub(crate) id: u128,
    /// JSON, without a line break.
    pub(crate) json: String,
}

/// A violation as it is exported, in JSON without a line break. In an audit without a name the same
/// violation has the same `violationId` each time.
pub fn violation_line(audit: &str, violation: &Violation) -> String {
    message::of_audit(audit, violation).json
}

/// Where a Connection leads.
#[derive(Debug)]
pub(crate) enum Driver {
    Disk { audits: Box<Disk>, requests: Spool },
    Dapr(Box<Dapr>),
}

impl Driver {
    /// The driver that a Connection asks for.
    pub(crate) fn connect(
        connection: &Value,
        config: &ExportConfig,
    ) -> Result<Self, ConnectionError> {
        let text = |path: &[&str]| {
            connection.path(path).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let name = text(&["metadata", "name"]);
        if name != config.connection {
            return Err(ConnectionError::Name { name, expected: config.connection.clone() });
        }
        let failed = |reason| ConnectionError::Config { name: name.clone(), reason };
        let settings = connection.path(&["spec", "config"]).cloned().unwrap_or_default();
        match text(&["spec", "driver"]).as_str() {
            "disk" => {
                let settings = disk::DiskConfig::of(&settings).map_err(failed)?;
                let folder = settings.path.join(&config.channel);
                disk::segment("topic", &config.channel).map_err(failed)?;
                let requests = Spool::new(folder.clone());
                let audits = Box::new(Disk::new(folder, settings.max_audit_results));
                Ok(Self::Disk { audits, requests })
            }
            "dapr" => {
                let dapr = Dapr::of(&settings, config).map_err(failed)?;
                Ok(Self::Dapr(Box::new(dapr)))
            }
            other => Err(ConnectionError::Driver(other.to_owned())),
        }
    }
}
