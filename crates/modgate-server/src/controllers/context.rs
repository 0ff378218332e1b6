//! What every controller is given.

use std::sync::Arc;

use kube::Client;
use modgate_value::Str;
use tokio::sync::watch;

use super::{events::Events, lease::Leadership, reports::Reports, state::State};
use crate::operations::Operations;

/// Who this process is in the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The namespace it is installed in.
    pub(crate) namespace: Str,
    /// Its Pod; none outside of a cluster, where nothing is reported per Pod.
    pub(crate) pod: Option<Str>,
}

/// What a controller needs to do its work: the cluster, what is loaded, and whether to write.
///
/// A controller is a task that lives as long as its process. It follows [`Context::state`], brings
/// the cluster in line with it, tries again later what failed, and never holds up the next state.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) identity: Identity,
    pub(crate) operations: Operations,
    /// Tells when this process begins and ceases to write what must be written by one process
    /// only; [`Context::leads`] says whether it may now.
    pub(crate) leadership: Leadership,
    /// What is loaded; none before everything present at start is.
    pub(crate) state: watch::Receiver<Option<Arc<State>>>,
    /// What is to be shown in statuses beside what came of loading.
    pub(crate) reports: Reports,
    /// What users are told of objects.
    pub(crate) events: Events,
}

impl Context {
    /// What is loaded, once it is; `None` when the process ends.
    pub(crate) async fn loaded(&mut self) -> Option<Arc<State>> {
        self.state.wait_for(Option::is_some).await.ok()?.clone()
    }

    /// Whether to write what must be written by one process only. To be asked before each write.
    pub(crate) fn leads(&self) -> bool {
        self.leadership.lasts()
    }
}
