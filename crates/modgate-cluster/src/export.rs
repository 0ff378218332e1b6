//! Connections: which of them the exporter uses, and what is told of it in their statuses (7.6).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use modgate_export::{Exporter, connection_error};
use modgate_value::Value;
use tokio::time::sleep;

use super::{
    context::Context,
    kinds::{CONNECTION, Kind},
    object::Key,
    reports::Report,
};

/// What our reports go by.
const CONTROLLER: &str = "export";

/// How often a status may change for no other reason than that something was exported.
const PAUSE: Duration = Duration::from_secs(5);

/// Follows Connections for as long as the process lives.
pub(crate) async fn run(mut context: Context, exporter: Arc<Exporter>) {
    let mut published = exporter.published();
    if context.loaded().await.is_none() {
        return;
    }
    loop {
        let Some(state) = context.state.borrow_and_update().clone() else { return };
        let (group, kind) = CONNECTION;
        let id = Kind { group: group.to_owned(), kind: kind.to_owned() };
        let mut reports: BTreeMap<(Kind, Key), Report> = BTreeMap::new();
        let mut is_there = false;
        for (key, loaded) in state.of_kind(group, kind) {
            let mut members: BTreeMap<&'static str, Value> = BTreeMap::new();
            let counts = key.name == exporter.config().connection;
            is_there |= counts;
            let connecting = Arc::clone(&exporter);
            let object = loaded.object.clone();
            // Looks at folders.
            let connect = move || connecting.connect(Some(&object));
            match tokio::task::spawn_blocking(connect).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    let error = connection_error("UpsertConnection", &error.to_string());
                    members.insert("connectionErrors", [error].into_iter().collect());
                }
                Err(_) => return,
            }
            let statuses = published.borrow_and_update().to_value();
            if counts && statuses.as_array().is_some_and(|list| !list.is_empty()) {
                members.insert("publishStatuses", statuses);
            }
            reports.insert((id.clone(), key.clone()), Report { members, ..Report::default() });
        }
        if !is_there {
            // Never an error.
            let _ = exporter.connect(None);
        }
        context.reports.replace(CONTROLLER, reports);
        tokio::select! {
            changed = context.state.changed() => if changed.is_err() { return },
            changed = published.changed() => {
                if changed.is_err() {
                    return;
                }
                tokio::select! {
                    () = sleep(PAUSE) => {}
                    changed = context.state.changed() => if changed.is_err() { return },
                }
            }
        }
    }
}
