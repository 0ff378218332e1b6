//! Brings reports to the cluster, and removes those that have nothing to say any more.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::{StreamExt as _, stream};
use kube::{
    Api, Error,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams},
};
use tokio::task::{JoinHandle, spawn};

use super::{
    super::{super::context::Context, LOGGER, write::persist},
    HASH, LABELS, NAME, PolicyReport, PolicyReportFormat,
};

/// Writes under way at once.
const CONCURRENCY: usize = 4;
/// Reports asked for at once.
const PAGE: u32 = 500;
/// The field manager.
const MANAGER: &str = "modgate";

/// Writes under way.
#[derive(Default)]
pub(in super::super) struct Reporting {
    task: Option<JoinHandle<()>>,
    once: Arc<Once>,
}

/// Actions and log lines that happen once.
#[derive(Default)]
struct Once {
    /// There are no such kinds.
    absent: AtomicBool,
    /// Reports of another format were searched for.
    cleaned: AtomicBool,
}

/// Namespace and name of a report, and what its hash is.
type Present = BTreeMap<(String, String), String>;

impl Reporting {
    /// Writes these, and stops with what is still to be written of an audit before: it is part of
    /// these.
    pub(in super::super) fn start(
        &mut self,
        context: Context,
        format: PolicyReportFormat,
        reports: Vec<PolicyReport>,
    ) {
        self.stop();
        let once = Arc::clone(&self.once);
        self.task = Some(spawn(async move {
            if let Err(error) = bring(&context, format, reports, &once).await {
                tracing::warn!(target: LOGGER, process = "audit", %error,
                    "policy reports cannot be listed, and are as the audit before left them");
            }
        }));
    }

    pub(in super::super) fn stop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}

impl Drop for Reporting {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Makes the reports of the cluster what they should be.
async fn bring(
    context: &Context,
    format: PolicyReportFormat,
    reports: Vec<PolicyReport>,
    once: &Once,
) -> Result<(), Error> {
    if !once.cleaned.load(Ordering::Relaxed) {
        for other in PolicyReportFormat::ALL.into_iter().filter(|other| *other != format) {
            settle(context, &other.namespaced(), Vec::new()).await?;
            settle(context, &other.of_cluster(), Vec::new()).await?;
        }
        once.cleaned.store(true, Ordering::Relaxed);
    }
    let is_of_cluster = |report: &PolicyReport| report.namespace.is_empty();
    let (of_cluster, namespaced) = reports.into_iter().partition(is_of_cluster);
    let mut is_absent = false;
    for (resource, reports) in
        [(format.of_cluster(), of_cluster), (format.namespaced(), namespaced)]
    {
        if settle(context, &resource, reports).await? == Settled::Absent {
            is_absent = true;
            if !once.absent.load(Ordering::Relaxed) {
                tracing::warn!(target: LOGGER, process = "audit", kind = %resource.kind,
                    api_version = %resource.api_version,
                    "there are no policy reports: the API server does not serve their kind; they are \
                     written once it does");
            }
        }
    }
    once.absent.store(is_absent, Ordering::Relaxed);
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
enum Settled {
    Done,
    /// There is no such kind.
    Absent,
}

/// Writes the reports of one kind that are not there as they should be, and removes ours that should
/// not be there.
async fn settle(
    context: &Context,
    resource: &ApiResource,
    reports: Vec<PolicyReport>,
) -> Result<Settled, Error> {
    let Some(mut present) = list(context, resource).await? else { return Ok(Settled::Absent) };
    let mut wanted = Vec::new();
    for report in reports {
        let key = (report.namespace.to_string(), NAME.to_owned());
        if present.remove(&key).as_deref() != Some(report.hash.as_str()) {
            wanted.push(report);
        }
    }
    let writes = wanted.into_iter().map(|report| async move {
        let api = api(context, resource, &report.namespace);
        let parameters = PatchParams::apply(MANAGER).force();
        let patch = Patch::Apply(&report.body);
        let once = || async { api.patch(NAME, &parameters, &patch).await.map(drop) };
        persist(context, &what(resource, &report.namespace), once).await;
    });
    stream::iter(writes).buffer_unordered(CONCURRENCY).collect::<()>().await;
    let removals = present.into_keys().map(|(namespace, name)| async move {
        let api = api(context, resource, &namespace);
        let parameters = DeleteParams::default();
        let once = || async { api.delete(&name, &parameters).await.map(drop) };
        persist(context, &what(resource, &namespace), once).await;
    });
    stream::iter(removals).buffer_unordered(CONCURRENCY).collect::<()>().await;
    Ok(Settled::Done)
}

fn api(context: &Context, resource: &ApiResource, namespace: &str) -> Api<DynamicObject> {
    match namespace {
        "" => Api::all_with(context.client.clone(), resource),
        namespace => Api::namespaced_with(context.client.clone(), namespace, resource),
    }
}

fn what(resource: &ApiResource, namespace: &str) -> String {
    let kind = &resource.kind;
    match namespace {
        "" => kind.clone(),
        namespace => format!("{kind} of namespace {namespace}"),
    }
}

/// Our reports of one kind; `None` if there is no such kind.
async fn list(context: &Context, resource: &ApiResource) -> Result<Option<Present>, Error> {
    let api: Api<DynamicObject> = Api::all_with(context.client.clone(), resource);
    let labels = LABELS.map(|(key, value)| format!("{key}={value}")).join(",");
    let mut parameters = ListParams::default().labels(&labels).limit(PAGE);
    let mut present = Present::new();
    loop {
        let page = match api.list_metadata(&parameters).await {
            Ok(page) => page,
            Err(Error::Api(status)) if status.code == 404 => return Ok(None),
            Err(error) => return Err(error),
        };
        for object in page.items {
            let hash = object.metadata.annotations.and_then(|mut all| all.remove(HASH));
            let key = (
                object.metadata.namespace.unwrap_or_default(),
                object.metadata.name.unwrap_or_default(),
            );
            present.insert(key, hash.unwrap_or_default());
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters.continue_token = Some(token),
            None => return Ok(Some(present)),
        }
    }
}
