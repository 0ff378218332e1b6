//! Starts records and the shadow, whose candidate policies follow their files.

use std::{path::PathBuf, sync::Arc, time::Duration};

use modgate_policies::{PolicyFiles, PolicyStore, Refresh};
use modgate_telemetry::metrics::{Metrics, ShadowMetrics};
use modgate_traffic::{Candidates, Place, Recorder, Remote, Shadow, Target, Traffic};

use super::{PolicyOrigin, Report, ServeConfig, ServeError, follow};

/// The logger of the shadow.
const LOGGER: &str = "shadow";

/// The second decision about requests: by candidate policies or another webhook.
#[derive(Debug, Clone)]
pub enum ShadowConfig {
    /// Candidate policies: in place of the policies of files, in addition to those of a cluster.
    Policies(Vec<PathBuf>),
    /// Another webhook.
    Webhook {
        /// Where requests go.
        targets: Vec<Target>,
        /// The PEM file of the authorities that vouch for it; `None` for those of the system.
        authorities: Option<PathBuf>,
        /// Time for one answer.
        time: Duration,
    },
}

/// Candidate policies, and what follows their files.
pub(super) struct Following {
    reader: follow::Reader,
    store: PolicyStore,
    candidates: Arc<Candidates>,
    shadow: Arc<Shadow>,
    metrics: ShadowMetrics,
}

/// Starts what the configuration turns on.
pub(super) fn start(
    config: &ServeConfig,
    metrics: &Metrics,
    report: &Report,
) -> Result<(Traffic, Option<Following>), ServeError> {
    let recorder = match &config.record {
        Some(to) => Some(Arc::new(Recorder::start(to.clone(), metrics.record().clone())?)),
        None => None,
    };
    let (shadow, candidates) = start_shadow(config, metrics, recorder.clone(), report)?;
    Ok((Traffic { recorder, shadow }, candidates))
}

/// Starts the shadow, if there is to be one.
fn start_shadow(
    config: &ServeConfig,
    metrics: &Metrics,
    recorder: Option<Arc<Recorder>>,
    report: &Report,
) -> Result<(Option<Arc<Shadow>>, Option<Following>), ServeError> {
    let metrics = metrics.shadow().clone();
    let policies = match &config.shadow {
        None => return Ok((None, None)),
        Some(ShadowConfig::Webhook { targets, authorities, time }) => {
            let remote = Remote::new(targets.clone(), authorities.clone(), *time)?;
            let shadow = Arc::new(Shadow::of_webhook(remote, metrics, recorder)?);
            return Ok((Some(shadow), None));
        }
        Some(ShadowConfig::Policies(policies)) => policies.clone(),
    };
    let (objects, place) = match &config.policies {
        PolicyOrigin::Files(files) => (files.objects.clone(), Place::Instead),
        PolicyOrigin::Cluster(_) => (Vec::new(), Place::Added),
    };
    let files = PolicyFiles { policies, objects };
    let mut store = PolicyStore::new(files, config.engine.clone());
    let refresh = store.refresh();
    refresh.findings.iter().for_each(|finding| report(finding));
    let candidates = Arc::new(Candidates::new(place, &store));
    let shadow = Shadow::of_policies(Arc::clone(&candidates), metrics.clone(), recorder)?;
    let shadow = Arc::new(shadow);
    let reader = follow::Reader::start()?;
    let following = Following { reader, store, candidates, shadow: Arc::clone(&shadow), metrics };
    announce(&following.metrics, &following.store);
    Ok((Some(shadow), Some(following)))
}

impl Following {
    /// Follows the files until the process ends.
    pub(super) async fn run(self, interval: Duration, report: Report) {
        let Self { reader, store, candidates, shadow, metrics } = self;
        let loaded = move |store: &PolicyStore, _: &Refresh| {
            candidates.replace(store);
            shadow.begin();
            announce(&metrics, store);
        };
        follow::follow(reader, store, loaded, interval, report).await;
    }
}

fn announce(metrics: &ShadowMetrics, store: &PolicyStore) {
    let policies = store.policies().snapshot.policies().count();
    metrics.candidates(policies, store.broken());
    tracing::info!(target: LOGGER, policies, broken = store.broken(), "candidate policies loaded");
}
