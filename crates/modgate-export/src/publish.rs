//! The one who exports: what the Connection of the moment leads to.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use modgate_audit::{Sink, Violation};
use modgate_engine::api::meta::ObjectExt as _;
use modgate_telemetry::metrics::ExportMetrics;
use modgate_value::Value;
use tokio::sync::watch;

use super::{
    ConnectionError, Driver, ExportConfig, LOGGER, Line, Published, Source,
    dapr::{Dapr, Delivery, OnResult},
    disk::{Disk, DiskError},
    message,
};

/// Exports what audits and the webhook find, to where the Connection says.
pub struct Exporter {
    config: ExportConfig,
    connected: Mutex<Option<Connected>>,
    published: Arc<watch::Sender<Published>>,
    metrics: ExportMetrics,
    /// Whether the audit under way is not to be exported any more.
    abandoned: AtomicBool,
}

struct Connected {
    /// `spec` of the Connection.
    spec: Value,
    driver: Driver,
}

impl Exporter {
    /// Without a Connection yet: an export until there is one is an error in its status.
    pub fn new(config: ExportConfig, metrics: ExportMetrics) -> Self {
        let published = Arc::new(watch::channel(Published::default()).0);
        let (connected, abandoned) = (Mutex::default(), AtomicBool::new(false));
        Self { config, connected, published, metrics, abandoned }
    }

    /// The lines to export.
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
        let name = connection.metadata("name");
        let is_ours = name == Some(self.config.connection.as_str());
        if is_ours && self.connected().as_ref().is_some_and(|connected| connected.spec == spec) {
            return Ok(());
        }
        let mut driver = Driver::connect(connection, &self.config)?;
        if let Driver::Dapr(dapr) = &mut driver {
            let name = &self.config.connection;
            dapr.start(self.on_result())
                .map_err(|reason| ConnectionError::Config { name: name.clone(), reason })?;
        }
        tracing::info!(target: LOGGER, name = %self.config.connection, "connection in use");
        *self.connected() = Some(Connected { spec, driver });
        Ok(())
    }

    fn on_result(&self) -> OnResult {
        let (published, metrics) = (Arc::clone(&self.published), self.metrics.clone());
        Arc::new(move |source, sent| note(&published, &metrics, source, 1, sent))
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
                let requests = dapr.requests();
                drop(connected);
                let Some(requests) = requests else { return };
                // The result of each is reported when it is known.
                for line in lines {
                    if let Err(reason) = requests.send(line.json) {
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

    /// The result of a write to disk, or the way to a sidecar.
    fn audit(
        &self,
        on_disk: impl FnOnce(&mut Disk) -> Result<(), DiskError>,
        on_dapr: impl FnOnce(&mut Dapr) -> Result<Delivery, String>,
    ) -> Result<Option<Delivery>, String> {
        match self.connected().as_mut().map(|connected| &mut connected.driver) {
            None => Err(self.not_connected()),
            Some(Driver::Disk { audits, .. }) => {
                on_disk(audits).map(|()| None).map_err(|error| error.to_string())
            }
            Some(Driver::Dapr(dapr)) => on_dapr(dapr).map(Some),
        }
    }

    /// Whether audits are exported.
    pub fn exports_audits(&self) -> bool {
        self.config.audit
    }

    /// Ends the export of the audit under way, as if it had been interrupted.
    pub fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
        if let Some(Connected { driver: Driver::Dapr(dapr), .. }) = self.connected().as_ref() {
            dapr.abandon();
        }
    }

    fn is_wanted(&self) -> bool {
        self.config.audit && !self.abandoned.load(Ordering::Relaxed)
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

/// Reports the result; the metrics count requests only, as Gatekeeper's do.
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
        self.abandoned.store(false, Ordering::Relaxed);
        self.published.send_modify(|published| published.started(Source::Audit));
        let way = self.audit(|disk| disk.start(audit), Dapr::begin);
        let frame = message::frame(audit, message::STARTED);
        let done = way.and_then(|way| way.map_or(Ok(()), |delivery| delivery.start(frame)));
        self.note(Source::Audit, 1, done);
    }

    fn violation(&self, audit: &str, violation: &Violation) {
        if !self.is_wanted() {
            return;
        }
        let line = message::of_audit(audit, violation);
        match self.audit(|disk| disk.write(&line), |dapr| dapr.delivery()) {
            // The result is reported when it is known.
            Ok(Some(delivery)) => delivery.send(line.json),
            done => self.note(Source::Audit, 1, done.map(drop)),
        }
    }

    fn finished(&self, audit: &str) {
        if !self.is_wanted() {
            return;
        }
        let way = self.audit(|disk| disk.finish(audit), |dapr| dapr.delivery());
        let frame = message::frame(audit, message::COMPLETED);
        let done = way.and_then(|way| match way.map(|delivery| delivery.finish(audit, frame)) {
            None | Some(Ok(())) => Ok(()),
            Some(Err((unpublished, reason))) => {
                self.metrics.unpublished(unpublished);
                Err(reason)
            }
        });
        if self.is_wanted() {
            self.note(Source::Audit, 1, done);
        }
    }
}

impl std::fmt::Debug for Exporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exporter").field("config", &self.config).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        dapr::tests::{Does, SHORT, Sidecar, dapr},
        message::tests::violation,
    };
    use modgate_telemetry::metrics::Metrics;

    #[test]
    fn failed_exports_are_reported() {
        let metrics = Metrics::new();
        let config = ExportConfig { audit: true, ..ExportConfig::default() };
        let exporter = Exporter::new(config, metrics.export().clone());
        let sidecar = Sidecar::start(|_| Does::Nothing);
        let mut driver = dapr(&sidecar.url, SHORT);
        driver.start(exporter.on_result()).expect("started");
        *exporter.connected() =
            Some(Connected { spec: Value::default(), driver: Driver::Dapr(Box::new(driver)) });
        let violation = violation(
            r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "uid": "u"}}"#,
        );
        let audit = || {
            exporter.started("a");
            (0..1_000).for_each(|_| exporter.violation("a", &violation));
        };
        audit();
        exporter.finished("a");
        let status = exporter.published().borrow().to_value().to_json();
        for expected in [
            "violations were not published: 1000 of 1000 of the audit a; the next one publishes",
            "error publishing message to dapr: no answer before the deadline",
        ] {
            assert!(status.contains(expected), "{status}");
        }
        let unpublished = || {
            let text = metrics.encode();
            let line = text.lines().find(|line| line.starts_with("modgate_audit_export_unpub"));
            line.map(str::to_owned)
        };
        let expected = "modgate_audit_export_unpublished_total 1000";
        assert_eq!(unpublished().as_deref(), Some(expected));
        // What is interrupted is nothing to count.
        audit();
        exporter.abandon();
        exporter.finished("a");
        assert_eq!(unpublished().as_deref(), Some(expected));
    }
}
