//! The one who exports: what the Connection of the moment leads to.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use modgate_audit::{Sink, Violation};
use modgate_value::Value;
use tokio::{runtime::Handle, sync::watch};

use super::{ConnectionError, Driver, ExportConfig, LOGGER, Line, Published, Source, message};
use crate::telemetry::metrics::ExportMetrics;

/// Exports what audits and the webhook find, to where the Connection says.
pub struct Exporter {
    config: ExportConfig,
    runtime: Handle,
    connected: Mutex<Option<Connected>>,
    published: Arc<watch::Sender<Published>>,
    metrics: ExportMetrics,
}

struct Connected {
    /// `spec` of the Connection.
    spec: Value,
    driver: Driver,
}

impl Exporter {
    /// Without a Connection yet: what is told until there is one is an error in its status.
    pub fn new(config: ExportConfig, metrics: ExportMetrics, runtime: Handle) -> Self {
        let published = Arc::new(watch::channel(Published::default()).0);
        Self { config, runtime, connected: Mutex::default(), published, metrics }
    }

    /// What is exported.
    pub fn config(&self) -> &ExportConfig {
        &self.config
    }

    /// How it goes.
    pub fn published(&self) -> watch::Receiver<Published> {
        self.published.subscribe()
    }

    /// Uses a Connection, or none. One that says the same as before goes on undisturbed, and one
    /// that cannot be used leaves the last in place.
    ///
    /// # Errors
    ///
    /// When it is not the one that counts, or says something that cannot be.
    pub fn connect(&self, connection: Option<&Value>) -> Result<(), ConnectionError> {
        let Some(connection) = connection else {
            self.connected().take();
            return Ok(());
        };
        let spec = connection.get("spec").cloned().unwrap_or_default();
        let name = connection.path(&["metadata", "name"]).and_then(Value::as_str);
        let is_ours = name == Some(self.config.connection.as_str());
        if is_ours && self.connected().as_ref().is_some_and(|connected| connected.spec == spec) {
            return Ok(());
        }
        let mut driver = Driver::connect(connection, &self.config, &self.runtime)?;
        if let Driver::Dapr(dapr) = &mut driver {
            let (published, metrics) = (Arc::clone(&self.published), self.metrics.clone());
            let told = move |source, sent: Result<(), String>| {
                note(&published, &metrics, source, 1, sent);
            };
            let name = &self.config.connection;
            dapr.start(Arc::new(told))
                .map_err(|reason| ConnectionError::Config { name: name.clone(), reason })?;
        }
        tracing::info!(target: LOGGER, name = %self.config.connection, "connection in use");
        *self.connected() = Some(Connected { spec, driver });
        Ok(())
    }

    /// Exports violations by requests.
    pub(super) fn requests(&self, lines: Vec<Line>) {
        let count = u64::try_from(lines.len()).unwrap_or(u64::MAX);
        let mut connected = self.connected();
        let done = match connected.as_mut().map(|connected| &mut connected.driver) {
            None => Err(self.not_connected()),
            Some(Driver::Disk { requests, .. }) => {
                let records: Vec<&str> = lines.iter().map(|line| line.json.as_str()).collect();
                requests.write(&records)
            }
            Some(Driver::Dapr(dapr)) => {
                let outbox = dapr.outbox();
                drop(connected);
                let Some(outbox) = outbox else { return };
                // What comes of each is told when it is known.
                for line in lines {
                    if let Err(reason) = outbox.send(Source::Webhook, line.json, false) {
                        self.note(Source::Webhook, 1, Err(reason));
                    }
                }
                return;
            }
        };
        drop(connected);
        self.note(Source::Webhook, count, done);
    }

    /// Completes files that are old enough, or with `all` every one.
    pub(super) fn tidy(&self, all: bool) {
        if let Some(Connected { driver: Driver::Disk { requests, .. }, .. }) =
            self.connected().as_mut()
        {
            if all {
                requests.close();
            } else {
                requests.tidy();
            }
        }
    }

    fn audit(
        &self,
        on_disk: impl FnOnce(&mut super::disk::Disk) -> Result<(), super::disk::DiskError>,
        sent: impl FnOnce() -> (String, bool),
    ) {
        let mut connected = self.connected();
        let done = match connected.as_mut().map(|connected| &mut connected.driver) {
            None => Err(self.not_connected()),
            Some(Driver::Disk { audits, .. }) => on_disk(audits).map_err(|error| error.to_string()),
            Some(Driver::Dapr(dapr)) => {
                let outbox = dapr.outbox();
                drop(connected);
                let Some(outbox) = outbox else { return };
                let (json, is_frame) = sent();
                if let Err(reason) = outbox.send(Source::Audit, json, is_frame) {
                    self.note(Source::Audit, 1, Err(reason));
                }
                return;
            }
        };
        drop(connected);
        self.note(Source::Audit, 1, done);
    }

    fn note(&self, source: Source, count: u64, done: Result<(), String>) {
        note(&self.published, &self.metrics, source, count, done);
    }

    fn not_connected(&self) -> String {
        format!("connection is not initialized, name: {}", self.config.connection)
    }

    fn connected(&self) -> MutexGuard<'_, Option<Connected>> {
        self.connected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says how it went; the metrics are about requests only, as Gatekeeper's are.
fn note(
    published: &watch::Sender<Published>,
    metrics: &ExportMetrics,
    source: Source,
    count: u64,
    done: Result<(), String>,
) {
    match done {
        Ok(()) => {
            if source == Source::Webhook {
                metrics.published(count);
            }
            published.send_if_modified(|published| {
                let before = published.clone();
                published.succeeded(source);
                *published != before
            });
        }
        Err(reason) => {
            if source == Source::Webhook {
                metrics.failed(count);
            }
            let is_new = published.send_if_modified(|published| {
                let before = published.clone();
                published.failed(source, &reason);
                *published != before
            });
            if is_new {
                tracing::warn!(target: LOGGER, %reason, ?source, "not exported");
            }
        }
    }
}

impl Sink for Exporter {
    fn wants_violations(&self) -> bool {
        self.config.audit
    }

    fn started(&self, audit: &str) {
        if !self.config.audit {
            return;
        }
        self.published.send_modify(|published| published.started(Source::Audit));
        let frame = || (message::frame(audit, message::STARTED), true);
        self.audit(|disk| disk.start(audit), frame);
    }

    fn violation(&self, audit: &str, violation: &Violation) {
        if !self.config.audit {
            return;
        }
        let line = message::of_audit(audit, violation);
        let json = line.json.clone();
        self.audit(|disk| disk.write(&line), || (json, false));
    }

    fn finished(&self, audit: &str) {
        if !self.config.audit {
            return;
        }
        let frame = || (message::frame(audit, message::COMPLETED), true);
        self.audit(|disk| disk.finish(audit), frame);
    }
}

impl std::fmt::Debug for Exporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exporter").field("config", &self.config).finish_non_exhaustive()
    }
}
