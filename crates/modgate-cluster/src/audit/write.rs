//! Results of audits in the statuses of constraints (AU-30 to AU-33).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use modgate_audit::Report;
use modgate_http::Backoff;
use modgate_value::Value;
use tokio::{
    task::{JoinHandle, spawn},
    time::sleep,
};

use super::{
    super::{context::Context, kinds::Kind, state::OfKind},
    LOGGER,
};

/// Writes under way at once.
const CONCURRENCY: usize = 8;
/// How often one is tried, and how long after the first failure again (AU-31).
const ATTEMPTS: u32 = 5;
const BACKOFF: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(8)];

/// The audit's part of a constraint's status.
pub(super) struct Status {
    resource: ApiResource,
    name: String,
    body: serde_json::Value,
}

/// The statuses of all constraints there are, those not in force included: nothing was found by them.
pub(super) fn statuses<'a>(
    constraints: impl Iterator<Item = (&'a Kind, &'a Arc<OfKind>)>,
    served: &BTreeMap<Kind, ApiResource>,
    report: &Report,
) -> Vec<Status> {
    let mut statuses = Vec::new();
    for (kind, objects) in constraints {
        let Some(resource) = served.get(kind) else { continue };
        for key in objects.keys() {
            let found = report.of_constraint(&kind.kind, &key.name);
            let body = match found {
                Some(found) => found.status(&report.audit),
                None => [
                    ("auditTimestamp", Value::from(report.audit.clone())),
                    ("totalViolations", 0.into()),
                ]
                .into_iter()
                .collect(),
            };
            statuses.push(Status {
                resource: resource.clone(),
                name: key.name.to_string(),
                body: patch(&body),
            });
        }
    }
    statuses
}

/// A merge patch that sets these members of the status, and removes `violations` where there are
/// none.
fn patch(status: &Value) -> serde_json::Value {
    let mut body = serde_json::to_value(status).unwrap_or_default();
    if let Some(members) = body.as_object_mut() {
        members.entry("violations").or_insert(serde_json::Value::Null);
    }
    serde_json::json!({ "status": body })
}

/// Writes under way.
#[derive(Default)]
pub(super) struct Writing(Option<JoinHandle<()>>);

impl Writing {
    /// Writes these, and stops with what is still to be written of an audit before (AU-31).
    pub(super) fn start(&mut self, context: Context, statuses: Vec<Status>) {
        self.stop();
        self.0 = Some(spawn(async move {
            let writes = statuses.into_iter().map(|status| write(&context, status));
            stream::iter(writes).buffer_unordered(CONCURRENCY).collect::<()>().await;
        }));
    }

    pub(super) fn stop(&mut self) {
        if let Some(writing) = self.0.take() {
            writing.abort();
        }
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Writes one status. Every attempt has all of it, so that none loses anything.
async fn write(context: &Context, status: Status) {
    let Status { resource, name, body } = &status;
    let api: Api<DynamicObject> = Api::all_with(context.client.clone(), resource);
    let parameters = PatchParams::default();
    let patch = Patch::Merge(body);
    let once = || async { api.patch_status(name, &parameters, &patch).await.map(drop) };
    persist(context, &format!("status of {} {name}", resource.kind), once).await;
}

/// Tries to write something until it is written or gone, there were too many attempts, or this
/// process does not lead any more.
pub(super) async fn persist<F>(context: &Context, what: &str, mut once: impl FnMut() -> F)
where
    F: Future<Output = Result<(), kube::Error>>,
{
    let mut backoff = Backoff::new(BACKOFF);
    for attempt in 1..=ATTEMPTS {
        if !context.leads() {
            return;
        }
        let error = match once().await {
            Ok(()) => return,
            // It, or its namespace, is gone meanwhile.
            Err(kube::Error::Api(status)) if status.code == 404 => return,
            Err(error) => error,
        };
        tracing::warn!(target: LOGGER, process = "audit", what, attempt, %error, "cannot be written");
        // Permissions rarely change within seconds, and a namespace that is being deleted stays closed.
        if matches!(&error, kube::Error::Api(status) if status.code == 403) {
            return;
        }
        // Several that failed together are not tried again together.
        let jitter = name_hash(what) % 1000;
        sleep(backoff.pause().mul_f64(1.0 + jitter as f64 / 1000.0)).await;
    }
}

fn name_hash(name: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hash = DefaultHasher::new();
    name.hash(&mut hash);
    hash.finish()
}
