//! Connections: the one that the exporter uses, and its state in their statuses (7.6).

use std::{
    collections::BTreeMap,
    future::pending,
    sync::Arc,
    time::{Duration, Instant},
};

use modgate_export::{Exporter, Published, connection_error};
use modgate_value::Value;
use tokio::{sync::watch, task::spawn_blocking, time::sleep};

use super::{
    context::Context,
    kinds::{CONNECTION, Kind},
    object::Key,
    reconcile::Reconcile,
    reports::Report,
    state::State,
};

/// The key of our reports.
const CONTROLLER: &str = "export";

/// How often a status may change for no other reason than that something was exported.
const PAUSE: Duration = Duration::from_secs(5);

/// Connects the exporter, and reports the state of Connections.
pub(crate) struct Connections {
    context: Context,
    exporter: Arc<Exporter>,
    published: watch::Receiver<Published>,
}

impl Connections {
    pub(crate) fn new(context: Context, exporter: Arc<Exporter>) -> Self {
        let published = exporter.published();
        Self { context, exporter, published }
    }
}

impl Reconcile for Connections {
    type Desired = BTreeMap<Key, Value>;

    fn desired(&mut self, state: &Arc<State>) -> BTreeMap<Key, Value> {
        let (group, kind) = CONNECTION;
        let connections = state.of_kind(group, kind);
        connections.map(|(key, loaded)| (key.clone(), loaded.object.clone())).collect()
    }

    async fn apply(&mut self, connections: BTreeMap<Key, Value>) -> Option<Instant> {
        let (group, kind) = CONNECTION;
        let id = Kind { group: group.to_owned(), kind: kind.to_owned() };
        let mut reports: BTreeMap<(Kind, Key), Report> = BTreeMap::new();
        let mut is_there = false;
        for (key, object) in connections {
            let mut members: BTreeMap<&'static str, Value> = BTreeMap::new();
            let counts = key.name == self.exporter.config().connection;
            is_there |= counts;
            let exporter = Arc::clone(&self.exporter);
            // Looks at folders.
            match spawn_blocking(move || exporter.connect(Some(&object))).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    let error = connection_error("UpsertConnection", &error.to_string());
                    members.insert("connectionErrors", [error].into_iter().collect());
                }
                // The process ends.
                Err(_) => return None,
            }
            let statuses = self.published.borrow_and_update().to_value();
            if counts && statuses.as_array().is_some_and(|list| !list.is_empty()) {
                members.insert("publishStatuses", statuses);
            }
            reports.insert((id.clone(), key), Report { members, ..Report::default() });
        }
        if !is_there {
            // Never an error.
            let _ = self.exporter.connect(None);
        }
        self.context.reports.replace(CONTROLLER, reports);
        None
    }

    async fn changed(&mut self) {
        if self.published.changed().await.is_err() {
            pending().await
        }
        sleep(PAUSE).await;
    }
}
