//! Policies from a cluster, kept current by watching it.
//!
//! [`Watches`] follow one kind each and send what they see to one [`Ingest`], which makes the next
//! [`World`](crate::World) of it. Which kinds there are is itself watched: a kind is followed as soon
//! as the API server serves its CRD, whether that was there before, comes from another
//! installation or was made by [`definitions`] for the constraints of a template.
//!
//! # Guarantees
//!
//! - No world is published before every policy present at start was taken in; until then the
//!   process is not ready, however long it takes.
//! - A policy that does not load is reported and stops nothing.
//! - A watch that fails is tried again for ever, with what was last seen in force meanwhile.
//!
//! # Limits
//!
//! Nothing is written to the cluster but the CRDs of constraints. Synced inventory, status and
//! events are not there yet.

mod context;
mod definitions;
pub(crate) mod events;
mod ingest;
mod kinds;
mod live;
mod object;
mod reports;
mod state;
mod watches;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};

use kube::{
    Client, Config,
    api::ApiResource,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use modgate_engine::EngineConfig;
use modgate_value::{Str, diag::Diagnostic};
use tokio::{
    runtime::Handle,
    sync::{mpsc, watch},
    task::JoinSet,
};

pub(crate) use self::context::Identity;
use self::{
    context::Context,
    definitions::Definitions,
    ingest::Ingest,
    kinds::{Definition, Kind},
    live::Live,
    object::{Key, Stored},
    reports::Reports,
    state::State,
    watches::{Event, Seen, Watches},
};
use crate::{
    operations::{Operation, Operations},
    policies::{self, Current, Objects},
    telemetry::metrics::Metrics,
};

/// Logger of everything between us and the API server.
pub(crate) const LOGGER: &str = "cluster";

/// Which cluster to take policies from, and as whom.
#[derive(Debug, Clone, Default)]
pub struct ClusterConfig {
    /// The file that names the cluster; without one it is the cluster this process runs in, and
    /// never one that merely happens to be in somebody's home.
    pub kubeconfig: Option<PathBuf>,
    /// The context of that file, if not its current one.
    pub context: Option<String>,
}

/// Why there is no cluster to take policies from.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The kubeconfig cannot be used.
    #[error("cannot use the kubeconfig `{}`: {reason}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// This process does not run in a cluster.
    #[error(
        "no policies to serve: neither `--policies` nor `--kubeconfig` is given, and this process \
         is not in a cluster: {reason}"
    )]
    Nowhere {
        /// What is missing.
        reason: String,
    },
    /// What the configuration says cannot be done, such as an unreadable key.
    #[error("cannot make a client of the cluster: {reason}")]
    Client {
        /// What is wrong.
        reason: String,
    },
}

/// The client; nothing is sent yet.
pub(crate) async fn connect(config: &ClusterConfig) -> Result<Client, ClusterError> {
    let found = match &config.kubeconfig {
        Some(path) => {
            let unusable = |error| ClusterError::Kubeconfig {
                path: path.clone(),
                reason: match error {
                    KubeconfigError::ReadConfig(error, _) => error.to_string(),
                    error => error.to_string(),
                },
            };
            let context = config.context.clone();
            let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
            let file = Kubeconfig::read_from(path).map_err(unusable)?;
            Config::from_custom_kubeconfig(file, &options).await.map_err(unusable)?
        }
        None => Config::incluster()
            .map_err(|error| ClusterError::Nowhere { reason: error.to_string() })?,
    };
    tracing::info!(target: LOGGER, server = %found.cluster_url, "policies come from a cluster");
    Client::try_from(found).map_err(|error| ClusterError::Client { reason: error.to_string() })
}

/// Follows a cluster and publishes its policies.
pub(crate) struct Controllers {
    client: Client,
    watches: Watches,
    events: mpsc::Receiver<Event>,
    ingest: Ingest,
    known: KnownKinds,
    wanted: watch::Sender<Definitions>,
    state: watch::Sender<Option<Arc<State>>>,
    operations: Operations,
    identity: Identity,
    current: Arc<Current>,
    metrics: Arc<Metrics>,
    report: Arc<dyn Fn(&Diagnostic) + Send + Sync>,
}

/// Which CRDs and objects have been seen.
#[derive(Debug, Default)]
struct KnownKinds {
    definitions: BTreeMap<String, Definition>,
    /// Kinds whose objects were all seen at least once.
    listed: BTreeSet<Kind>,
    /// Whether everything that was there at start has been taken in.
    complete: bool,
}

impl KnownKinds {
    /// Whether everything there is has been listed.
    fn is_complete(&mut self) -> bool {
        self.complete = self.complete || {
            let core = [kinds::definitions(), kinds::namespaces(), kinds::nodes()];
            let is_listed = |resource| self.listed.contains(&Kind::of(resource));
            core.iter().all(is_listed)
                && self.definitions.values().all(|definition| match definition {
                    Definition::Foreign | Definition::Refused => true,
                    Definition::Pending => false,
                    Definition::Served(resource) => is_listed(resource),
                })
        };
        self.complete
    }

    /// Kinds of policies that the API server serves.
    fn served(&self) -> BTreeMap<Kind, ApiResource> {
        let served = self.definitions.values().filter_map(|definition| match definition {
            Definition::Served(resource) => Some((Kind::of(resource), resource.clone())),
            Definition::Foreign | Definition::Pending | Definition::Refused => None,
        });
        served.collect()
    }
}

/// Events taken in together.
const BATCH: usize = 256;

impl Controllers {
    /// Nothing is watched yet.
    pub(crate) fn new(
        client: Client,
        engine: EngineConfig,
        identity: Identity,
        operations: Operations,
        current: Arc<Current>,
        metrics: Arc<Metrics>,
        report: Arc<dyn Fn(&Diagnostic) + Send + Sync>,
    ) -> Self {
        let (watches, events) = Watches::new(client.clone());
        let objects = Objects::of_cluster(Arc::new(Live::new(client.clone(), Handle::current())));
        Self {
            watches,
            events,
            // The namespace whose Config counts.
            ingest: Ingest::new(engine, identity.namespace.clone(), objects),
            known: KnownKinds::default(),
            wanted: watch::channel(Definitions::default()).0,
            state: watch::channel(None).0,
            operations,
            identity,
            client,
            current,
            metrics,
            report,
        }
    }

    /// Follows the cluster until dropped.
    pub(crate) async fn run(mut self) {
        let controllers = self.start_controllers();
        for resource in [kinds::definitions(), kinds::namespaces(), kinds::nodes()] {
            self.watches.start(&resource);
        }
        let mut events = Vec::new();
        while self.events.recv_many(&mut events, BATCH).await > 0 {
            let findings: Vec<_> = events.drain(..).flat_map(|event| self.take(event)).collect();
            findings.iter().for_each(|finding| (self.report)(finding));
            if !self.known.is_complete() {
                continue;
            }
            let Some(next) = self.next_world().await else { break };
            self = next;
        }
        drop(controllers);
    }

    /// Everything that writes to the cluster; dropping the set stops it.
    fn start_controllers(&self) -> JoinSet<()> {
        // Alone until a Lease says otherwise.
        let (_, leader) = watch::channel(true);
        let context = Context {
            client: self.client.clone(),
            identity: self.identity.clone(),
            operations: self.operations.clone(),
            leader,
            state: self.state.subscribe(),
            reports: Reports::default(),
        };
        let mut controllers = JoinSet::new();
        if context.operations.has(Operation::Generate) {
            controllers.spawn(definitions::write(context, self.wanted.subscribe()));
        }
        controllers
    }

    fn take(&mut self, event: Event) -> Vec<Diagnostic> {
        if !self.watches.is_current(&event) {
            return Vec::new();
        }
        let Event { kind, seen, .. } = event;
        let is_first = matches!(seen, Seen::All(_)) && self.known.listed.insert(kind.clone());
        if is_first {
            let Kind { group, kind } = &kind;
            tracing::debug!(target: LOGGER, %group, %kind, "all objects seen");
        }
        if kind == Kind::of(&kinds::definitions()) {
            self.take_definitions(seen);
            return Vec::new();
        }
        self.ingest.take(&kind, seen)
    }

    fn take_definitions(&mut self, seen: Seen) {
        match seen {
            Seen::All(all) => {
                let present: BTreeSet<Str> = all.iter().map(|stored| stored.key().name).collect();
                let gone: Vec<String> = self
                    .known
                    .definitions
                    .keys()
                    .filter(|name| !present.contains(name.as_str()))
                    .cloned()
                    .collect();
                gone.iter().for_each(|name| self.without_definition(name));
                all.into_iter().for_each(|stored| self.with_definition(stored));
            }
            Seen::Applied(stored) => self.with_definition(stored),
            Seen::Deleted(stored) => self.without_definition(&stored.key().name),
        }
    }

    fn with_definition(&mut self, stored: Stored) {
        let Key { name, .. } = stored.key();
        let definition = match &stored.object {
            Ok(object) => Definition::of(object),
            // None of ours is nested that deeply.
            Err(_) => Definition::Foreign,
        };
        if definition == Definition::Foreign {
            return;
        }
        if let Definition::Served(resource) = &definition {
            self.watches.start(resource);
        }
        self.known.definitions.insert(name.to_string(), definition);
    }

    /// Objects without a CRD do not exist.
    fn without_definition(&mut self, name: &str) {
        if let Some(Definition::Served(resource)) = self.known.definitions.remove(name) {
            let kind = Kind::of(&resource);
            self.watches.stop(&kind);
            self.known.listed.remove(&kind);
            self.ingest.forget(&kind);
        }
        self.wanted.send_if_modified(|wanted| wanted.gone(name));
    }

    /// Compiles what was taken in, off the threads that answer requests, and publishes it. `None`
    /// if that went wrong, which it does only when the process ends.
    async fn next_world(mut self) -> Option<Self> {
        let applied = tokio::task::spawn_blocking(move || {
            let findings = self.ingest.apply();
            (self, findings)
        });
        let findings;
        (self, findings) = match applied.await {
            Ok(applied) => applied,
            Err(error) => {
                tracing::error!(target: LOGGER, %error, "the cluster is no longer followed");
                return None;
            }
        };
        let is_first = self.current.load().is_none();
        if findings.is_none() && !is_first {
            return Some(self);
        }
        let findings = findings.unwrap_or_default();
        findings.iter().for_each(|finding| (self.report)(finding));
        let world = self.ingest.world();
        self.current.store(Arc::clone(world));
        let broken = self.ingest.broken();
        policies::announce_snapshot(
            &world.snapshot,
            broken,
            broken.len(),
            &self.metrics,
            &findings,
        );
        let state = Arc::new(State {
            world: Arc::clone(world),
            policies: self.ingest.policies().clone(),
            served: Arc::new(self.known.served()),
        });
        self.wanted.send_if_modified(|wanted| wanted.want(&state));
        self.state.send_replace(Some(state));
        Some(self)
    }
}

impl std::fmt::Debug for Controllers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controllers").field("known", &self.known).finish_non_exhaustive()
    }
}
