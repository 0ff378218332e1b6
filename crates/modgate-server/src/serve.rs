//! Serving: bind, load, answer, stop.

mod follow;

use std::{error::Error, io, net::SocketAddr, sync::Arc, time::Duration};

use axum::Router;
use modgate_cluster::{
    AuditConfig, ClusterConfig, ClusterError, Controllers, Events, Identity, LeaseTimes,
    Operations, Rotation, ServingCertificate, Settings, Shared, VapConfig, VapSettings, connect,
};
use modgate_engine::EngineConfig;
use modgate_export::{AdmissionQueue, ExportConfig, Exporter};
use modgate_policies::{
    DEFAULT_CACHE_TTL, FileWatch, POLL_INTERVAL, PolicyFiles, PolicyHandle, PolicyStore, Providers,
    ProvidersConfig,
};
use modgate_telemetry::metrics::Metrics;
use modgate_value::{Str, diag::Diagnostic};
use rustls::client::ResolvesClientCert;
use tokio::{
    net::{TcpListener, TcpSocket},
    runtime::{Builder, Handle, Runtime},
    signal,
    sync::{mpsc, watch},
    task::JoinSet,
    time::sleep,
};
use tokio_rustls::TlsAcceptor;

use crate::{
    listen::{Listener, Transport},
    tls::{CertificateError, CertificateSource, Certificates, LoopbackCheck, TlsConfig},
    webhook::{
        AdmissionEvents, App, Bodies, Evaluators, GatekeeperConfig, Readiness, RequestLimits,
        Routes, demoted, processors, router,
    },
};

/// What to serve, and where.
#[derive(Debug, Clone)]
pub struct ServeConfig {
    /// Where policies come from, unless it is a cluster.
    pub files: PolicyFiles,
    /// The cluster policies come from, instead of from files.
    pub cluster: Option<ClusterConfig>,
    /// The Pod this process is, if it is one.
    pub pod: Option<Str>,
    /// What of all there is to do is done here.
    pub operations: Operations,
    /// Whether the process is not ready for as long as policies that were there at start do not
    /// load (RD-2).
    pub waits_for_broken_policies: bool,
    /// What becomes ValidatingAdmissionPolicies.
    pub vap: VapConfig,
    /// Where violations go.
    pub export: ExportConfig,
    /// How the cluster is audited.
    pub audit: AuditConfig,
    /// Where metrics and traces are sent.
    pub otlp: Option<modgate_telemetry::otlp::OtlpConfig>,
    /// Settings of the engine.
    pub engine: EngineConfig,
    /// The serving certificate.
    pub certificate: CertificateSource,
    /// What connections to the webhooks must be like.
    pub tls: TlsConfig,
    /// Whether `/healthz` looks at what the webhooks' listener shows (HE-1).
    pub tls_health_check: bool,
    /// Where to listen.
    pub addresses: Addresses,
    /// Bounds on requests.
    pub limits: RequestLimits,
    /// What Gatekeeper's webhooks are told.
    pub gatekeeper: GatekeeperConfig,
    /// How many requests are evaluated at the same time.
    pub evaluators: usize,
    /// How long Rego is given an answer of a provider again; `None` leaves external data out.
    pub external_data: Option<Duration>,
    /// How often files are looked at.
    pub poll: Duration,
    /// How long requests are taken as before after a signal to stop: until everybody who sends
    /// them knows (SV-6).
    pub shutdown_delay: Duration,
    /// How long requests may go on after that.
    pub grace: Duration,
    /// How long leadership among several processes lasts.
    pub lease: LeaseTimes,
}

impl ServeConfig {
    /// What the HTTPS address serves. In a cluster the dry-run API, which has no authentication, is served
    /// only where an address of its own asks for it.
    pub fn main_routes(&self) -> Routes {
        match self.cluster.is_some() && self.addresses.dry_run.is_none() {
            true => Routes::AllButDryRun,
            false => Routes::All,
        }
    }

    /// The defaults for policies from these files.
    pub fn new(files: PolicyFiles, certificate: CertificateSource) -> Self {
        Self {
            files,
            cluster: None,
            pod: None,
            operations: Operations::default(),
            waits_for_broken_policies: false,
            vap: VapConfig::default(),
            export: ExportConfig::default(),
            audit: AuditConfig::default(),
            otlp: None,
            certificate,
            tls: TlsConfig::default(),
            tls_health_check: false,
            engine: EngineConfig::default(),
            addresses: Addresses::default(),
            limits: RequestLimits::default(),
            gatekeeper: GatekeeperConfig::default(),
            evaluators: processors(),
            external_data: Some(DEFAULT_CACHE_TTL),
            poll: POLL_INTERVAL,
            shutdown_delay: Duration::ZERO,
            grace: Duration::from_secs(10),
            lease: LeaseTimes::default(),
        }
    }

    /// What is to be done in the cluster.
    fn of_cluster(&self) -> Settings {
        let installation = &self.engine.installation;
        Settings {
            identity: Identity { namespace: installation.namespace.clone(), pod: self.pod.clone() },
            operations: self.operations.clone(),
            engine: self.engine.clone(),
            waits_for_broken_policies: self.waits_for_broken_policies,
            vap: VapSettings {
                config: self.vap.clone(),
                failure_policy: self.engine.templates.failure_policy,
                exempt: installation.exempt.clone(),
            },
            audit: self.audit.clone(),
            lookup_timeout: self.limits.object,
        }
    }
}

/// Where to listen: everything over HTTPS, and parts of it over plain HTTP as well where asked.
#[derive(Debug, Clone, Default)]
pub struct Addresses {
    /// HTTPS, all routes; empty for none.
    pub webhooks: String,
    /// Plain HTTP for `/healthz` and `/readyz`.
    pub health: Option<String>,
    /// Plain HTTP for `/metrics`.
    pub metrics: Option<String>,
    /// Plain HTTP for `/v1/dryrun`.
    pub dry_run: Option<String>,
}

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address is not one, or taken.
    #[error("cannot listen on `{address}`")]
    Bind {
        /// The address as given.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// There is no certificate to serve.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// There is no cluster to take policies from.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// Nothing can be sent to the collector.
    #[error(transparent)]
    Otlp(#[from] modgate_telemetry::otlp::OtlpError),
    /// The runtime or its signal handlers could not be set up.
    #[error("cannot start")]
    Start(#[from] io::Error),
}

/// How serving came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Asked to, and every open request was answered or ran out of its grace.
    Gracefully,
    /// Asked twice.
    AtOnce,
    /// Policies could no longer be followed.
    Broken,
}

/// The runtime of everything but webhooks: probes, metrics, the Lease, watches, and accepting
/// connections. [`Server`] makes another one to serve webhooks on, where policies are evaluated, so
/// that nothing here waits for an evaluation.
///
/// # Errors
///
/// When the operating system refuses threads.
pub fn runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(2).thread_name("modgate-edge").enable_all().build()
}

/// The runtime webhooks are served on. It ends when dropped, also within another runtime.
struct Workers(Option<Runtime>);

impl Workers {
    fn start(evaluators: &Evaluators) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(evaluators.workers())
            .thread_name("modgate-webhook")
            .thread_stack_size(STACK_BYTES)
            .enable_all()
            .build()?;
        evaluators.watch(runtime.handle().clone())?;
        Ok(Self(Some(runtime)))
    }

    fn handle(&self) -> Handle {
        self.0.as_ref().map_or_else(Handle::current, |runtime| runtime.handle().clone())
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Stacks of threads that evaluate; only what was used of one takes memory.
const STACK_BYTES: usize = 8 << 20;

/// Bound listeners, with policies loaded.
pub struct Server {
    address: Option<SocketAddr>,
    listeners: Vec<Listener>,
    certificates: Arc<Certificates>,
    app: Arc<App>,
    store: PolicyStore,
    cluster: Option<Controllers>,
    rotation: Option<Rotation>,
    report: Report,
    config: ServeConfig,
    workers: Workers,
}

type Report = Arc<dyn Fn(&Diagnostic) + Send + Sync>;

impl Server {
    /// Binds every address, then reads all policies of files; those of a cluster are read once the
    /// server [runs](Self::run_until), which is not ready until then.
    ///
    /// `report` is called for everything that is wrong with a policy, now and when policies change.
    ///
    /// # Errors
    ///
    /// When an address cannot be bound, there is no certificate, or nothing says where the cluster
    /// is. Bad policies are reported, not errors.
    pub async fn start(
        config: ServeConfig,
        report: impl Fn(&Diagnostic) + Send + Sync + 'static,
    ) -> Result<Self, ServeError> {
        let certificates = Certificates::load(&config.certificate)?;
        let tls = TlsAcceptor::from(Arc::new(certificates.server_config(&config.tls)?));
        let recorded = Arc::new(Metrics::new());
        let (events, event_queue) = Events::channel(recorded.events().clone());
        let exporter = config.export.is_on().then(|| {
            let metrics = recorded.export().clone();
            Arc::new(Exporter::new(config.export.clone(), metrics))
        });
        let queue = match exporter.as_ref().filter(|_| config.export.admission) {
            Some(to) => Some(AdmissionQueue::start(Arc::clone(to), recorded.export().clone())?),
            None => None,
        };
        let app = Arc::new(App {
            current: Arc::new(match config.external_data {
                Some(cache_ttl) => {
                    let identity: Arc<dyn ResolvesClientCert> = certificates.clone();
                    let config = ProvidersConfig { cache_ttl, identity: Some(identity) };
                    PolicyHandle::with_providers(Providers::new(config, Handle::current()))
                }
                None => PolicyHandle::default(),
            }),
            metrics: Arc::clone(&recorded),
            evaluators: Evaluators::new(config.evaluators),
            bodies: Bodies::new(config.limits.all_bodies_bytes, recorded.bodies().clone()),
            limits: config.limits.clone(),
            gatekeeper: GatekeeperConfig {
                events: AdmissionEvents {
                    to: Some(events.clone()),
                    ..config.gatekeeper.events.clone()
                },
                export: queue,
                ..config.gatekeeper.clone()
            },
            operations: config.operations.clone(),
            readiness: Readiness::default(),
        });
        if let Some(otlp) = &config.otlp {
            modgate_telemetry::otlp::start(otlp, &app.metrics)?;
        }
        let workers = Workers::start(&app.evaluators)?;
        let (listeners, address) = listen_on(&config, &app, tls, &workers).await?;
        if let (true, Some(address)) = (config.tls_health_check, address) {
            let check = LoopbackCheck::new(address, Arc::clone(&certificates));
            app.readiness.check_loopback(check);
        }

        let report: Report = Arc::new(report);
        let mut store = PolicyStore::new(config.files.clone(), config.engine.clone());
        let cluster = match &config.cluster {
            Some(cluster) => {
                let client = connect(cluster, &app.metrics).await?;
                let shared = Shared {
                    current: Arc::clone(&app.current),
                    metrics: Arc::clone(&app.metrics),
                    report: Arc::clone(&report),
                    events,
                    event_queue,
                    exporter,
                };
                Some(Controllers::new(client, config.of_cluster(), shared))
            }
            None => {
                let refresh = store.refresh();
                refresh.findings.iter().for_each(|finding| report(finding));
                app.current.store(Arc::clone(store.policies()));
                follow::announce(&store, &app.metrics, &refresh);
                None
            }
        };
        let rotation = match (&cluster, &config.certificate) {
            (Some(cluster), CertificateSource::Cluster(secret)) => {
                let serving =
                    Serving { certificates: Arc::clone(&certificates), app: Arc::clone(&app) };
                Some(cluster.rotation(secret, Arc::new(serving)))
            }
            _ => None,
        };
        Ok(Self {
            address,
            listeners,
            certificates,
            app,
            store,
            cluster,
            rotation,
            report,
            config,
            workers,
        })
    }

    /// The HTTPS address, if there is one, with the port the system chose if the configured one was
    /// 0.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// What the HTTPS listener serves, without a listener.
    pub fn router(&self) -> Router {
        router(Arc::clone(&self.app), Routes::All)
    }

    /// Whether policies come from a cluster.
    pub fn follows_cluster(&self) -> bool {
        self.cluster.is_some()
    }

    /// The policies of files as loaded; none if policies come from a cluster.
    pub fn store(&self) -> &PolicyStore {
        &self.store
    }

    /// Serves until something is received, such as one of the [`stop_signals`]. From then on the
    /// process is not ready and does not lead, answers as before for the delay, then finishes what
    /// is open. What is received meanwhile ends that at once.
    pub async fn run_until(self, mut asked: mpsc::Receiver<()>) -> Stopped {
        let delay = self.config.shutdown_delay;
        let app = Arc::clone(&self.app);
        let (announce, stopping) = watch::channel(false);
        let (close, closing) = watch::channel(false);
        let (mut serving, mut following, _workers) = self.serve(&stopping, &closing);
        let broken = tokio::select! {
            _ = asked.recv() => false,
            Some(ended) = following.join_next() => {
                let error = ended.err().map(|error| error.to_string());
                tracing::error!(target: "serve", error, "policies are no longer followed: ending, to be started again");
                true
            }
        };
        tracing::info!(target: "serve", delay_seconds = delay.as_secs(),
            "stopping: not ready any more, requests are answered until the delay is over"
        );
        app.readiness.stop();
        announce.send_replace(true);
        let again = async {
            if asked.recv().await.is_none() {
                // Nobody is left to ask again.
                std::future::pending::<()>().await;
            }
        };
        let finished = async {
            sleep(delay).await;
            tracing::info!(target: "serve", "no new connections, open requests are finished");
            close.send_replace(true);
            while serving.join_next().await.is_some() {}
            if let Some(queue) = app.gatekeeper.export.clone() {
                let _ = tokio::task::spawn_blocking(move || queue.close()).await;
            }
        };
        tokio::select! {
            () = finished => if broken { Stopped::Broken } else { Stopped::Gracefully },
            () = again => Stopped::AtOnce,
        }
    }

    /// Starts everything. The first set is empty once every listener has closed and everything held
    /// for the time of serving was given back; what is in the second never ends, unless it breaks.
    fn serve(
        self,
        stopping: &watch::Receiver<bool>,
        closing: &watch::Receiver<bool>,
    ) -> (JoinSet<()>, JoinSet<()>, Workers) {
        let Self {
            listeners,
            certificates,
            app,
            store,
            cluster,
            rotation,
            report,
            config,
            workers,
            ..
        } = self;
        let (mut serving, mut following) = (JoinSet::new(), JoinSet::new());
        tokio::spawn(certificates.follow(FileWatch::every(config.poll)));
        let current = Arc::clone(&app.current);
        let statuses = cluster.as_ref().map(Controllers::reports);
        tokio::spawn(async move { demoted::announce(&current, statuses.as_ref()).await });
        match cluster {
            Some(cluster) => {
                serving.spawn(cluster.elector(config.lease).run(stopping.clone()));
                if let Some(rotation) = rotation {
                    following.spawn(rotation.run());
                }
                following.spawn(cluster.run());
            }
            None => {
                let (current, metrics) = (Arc::clone(&app.current), Arc::clone(&app.metrics));
                following.spawn(follow::follow(store, current, metrics, config.poll, report));
            }
        }
        for listener in listeners {
            serving.spawn(listener.run(closing.clone(), config.grace));
        }
        (serving, following, workers)
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("config", &self.config).finish_non_exhaustive()
    }
}

/// What the rotation of certificates sees of this process.
struct Serving {
    certificates: Arc<Certificates>,
    app: Arc<App>,
}

impl ServingCertificate for Serving {
    fn serve(&self, chain: &[u8], key: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(self.certificates.serve(chain, key)?)
    }

    fn set_reachable(&self, reachable: Result<(), String>) {
        self.app.readiness.set_reachable(reachable);
    }
}

/// Binds every address of the configuration; returns the listeners, and the HTTPS address if there is
/// one.
async fn listen_on(
    config: &ServeConfig,
    app: &Arc<App>,
    tls: TlsAcceptor,
    workers: &Workers,
) -> Result<(Vec<Listener>, Option<SocketAddr>), ServeError> {
    let Addresses { webhooks, health, metrics, dry_run } = config.addresses.clone();
    let plain = [(health, Routes::Health), (metrics, Routes::Metrics), (dry_run, Routes::DryRun)];
    let mut listeners = Vec::new();
    let mut address = None;
    if !webhooks.is_empty() {
        let listener = Listener {
            socket: bind(&webhooks).await?,
            transport: Transport::Tls(tls),
            routes: router(Arc::clone(app), config.main_routes()),
            runtime: workers.handle(),
        };
        address = listener.local_addr().ok();
        listeners.push(listener);
    }
    for (address, routes) in plain {
        let Some(address) = address else { continue };
        let evaluates = routes == Routes::DryRun;
        listeners.push(Listener {
            socket: bind(&address).await?,
            transport: Transport::Plain,
            routes: router(Arc::clone(app), routes),
            runtime: if evaluates { workers.handle() } else { Handle::current() },
        });
    }
    Ok((listeners, address))
}

/// `:9443` means every address, as in Go.
async fn bind(address: &str) -> Result<TcpListener, ServeError> {
    let error = |source| ServeError::Bind { address: address.to_owned(), source };
    if let Some(Ok(port)) = address.strip_prefix(':').map(str::parse::<u16>) {
        let any = SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, port));
        return match listen(any) {
            Ok(listener) => Ok(listener),
            // A machine without IPv6.
            Err(_) => listen((std::net::Ipv4Addr::UNSPECIFIED, port).into()).map_err(error),
        };
    }
    let mut last = io::Error::new(io::ErrorKind::InvalidInput, "could not resolve to any address");
    for address in tokio::net::lookup_host(address).await.map_err(error)? {
        match listen(address) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(error(last))
}

/// Connections that wait to be accepted; the system may allow fewer. One that finds no place is made
/// only when its client tries again, a second later.
const BACKLOG: u32 = 4096;

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// SIGTERM and SIGINT, as they come; from now on they do not end the process by themselves.
///
/// # Errors
///
/// When the operating system refuses handlers.
#[cfg(unix)]
pub fn stop_signals() -> io::Result<mpsc::Receiver<()>> {
    use signal::unix::{SignalKind, signal};

    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (sender, receiver) = mpsc::channel(2);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if sender.send(()).await.is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}

/// Ctrl-C, as it comes; from now on it does not end the process by itself.
///
/// # Errors
///
/// None here; the type is that of other systems.
#[cfg(not(unix))]
pub fn stop_signals() -> io::Result<mpsc::Receiver<()>> {
    let (sender, receiver) = mpsc::channel(2);
    tokio::spawn(async move {
        while signal::ctrl_c().await.is_ok() && sender.send(()).await.is_ok() {}
    });
    Ok(receiver)
}
