//! Following policy files while they change.

use std::{
    collections::BTreeSet,
    io,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use modgate_engine::ServedPolicies;
use modgate_policies::{FileWatch, PolicyStore, Refresh};
use modgate_telemetry::metrics::Metrics;
use modgate_value::diag::Diagnostic;
use tokio::sync::oneshot;

use super::STACK_BYTES;

/// The logger of policy files.
const LOGGER: &str = "policies";

/// The thread that reads policy files and compiles policies: reading blocks, and a slow disk must not delay reviews.
///
/// It is always the same one. The C library's allocator keeps the memory that a thread has freed for this thread, so
/// that replaced policies would leave theirs behind in several places.
pub(super) struct Reader(mpsc::Sender<Job>);

type Job = Box<dyn FnOnce() + Send>;

impl Reader {
    /// Starts the thread. It ends with the reader.
    pub(super) fn start() -> io::Result<Self> {
        let (sender, jobs) = mpsc::channel::<Job>();
        let thread = thread::Builder::new().name("modgate-policies".to_owned());
        thread.stack_size(STACK_BYTES).spawn(move || jobs.into_iter().for_each(|job| job()))?;
        Ok(Self(sender))
    }

    /// Looks at the files of a store; `None` if the thread has ended.
    pub(super) async fn refresh(&self, mut store: PolicyStore) -> Option<(PolicyStore, Refresh)> {
        let (done, looked) = oneshot::channel();
        let job = move || {
            let refresh = store.refresh();
            // The server no longer waits for the result when the process ends.
            let _ = done.send((store, refresh));
        };
        self.0.send(Box::new(job)).ok()?;
        looked.await.ok()
    }
}

/// Reads the policies for the first time; what reads them again.
pub(super) async fn begin(
    store: PolicyStore,
    metrics: &Metrics,
    report: &(dyn Fn(&Diagnostic) + Send + Sync),
) -> io::Result<(PolicyStore, Reader)> {
    let reader = Reader::start()?;
    let read = reader.refresh(store).await;
    let (store, refresh) = read.ok_or_else(|| io::Error::other("a thread has ended"))?;
    refresh.findings.iter().for_each(report);
    announce(&store, metrics, &refresh);
    Ok((store, reader))
}

/// Follows the files until the process ends. `loaded` receives the store after each change.
pub(super) async fn follow(
    reader: Reader,
    mut store: PolicyStore,
    loaded: impl Fn(&PolicyStore, &Refresh),
    interval: Duration,
    report: Arc<dyn Fn(&Diagnostic) + Send + Sync>,
) {
    let mut watch = FileWatch::every(interval);
    let mut unlistable = BTreeSet::new();
    loop {
        watch.tick().await;
        let Some((next, refresh)) = reader.refresh(store).await else {
            tracing::error!(target: LOGGER, "policy files are no longer followed");
            return;
        };
        store = next;
        if !refresh.changed {
            // A folder that cannot be listed changes nothing. Log it once, not every second.
            for finding in refresh.findings {
                if unlistable.insert(finding.to_string()) {
                    report(&finding);
                }
            }
            continue;
        }
        unlistable.clear();
        refresh.findings.iter().for_each(|finding| report(finding));
        loaded(&store, &refresh);
    }
}

/// Counts and logs a reload.
pub(super) fn announce(store: &PolicyStore, metrics: &Metrics, refresh: &Refresh) {
    metrics.compiled(&refresh.compiled);
    let snapshot = &store.policies().snapshot;
    let broken = store.broken_policies();
    metrics.policies_loaded(snapshot, broken, store.broken(), &refresh.findings);
    if snapshot.policies().next().is_none() {
        tracing::warn!(target: LOGGER, "there is no policy in the files: every request is allowed");
    }
    let is_left = |is_modgates: bool| match snapshot.config().admission_policies {
        ServedPolicies::Off => true,
        ServedPolicies::Marked => !is_modgates,
        ServedPolicies::All => false,
    };
    let bindings = snapshot.cluster_policies().bindings();
    let mut left = bindings.filter(|(.., is_modgates)| is_left(*is_modgates));
    if let Some((kind, binding, policy, _)) = left.next() {
        tracing::warn!(target: LOGGER, kind = kind.as_str(), %binding, %policy, more = left.count(),
            "the webhooks do not evaluate this binding: add `.modgate.sh` to its `policyName`, or set \
             `--admission-policies=all`"
        );
    }
}
