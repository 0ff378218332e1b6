//! Serving: bind, load, answer, stop.

mod follow;
mod traffic;

use std::{error::Error, io, net::SocketAddr, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use axum::Router;
use modgate_cluster::{
    AuditConfig, ClusterConfig, ClusterError, Controllers, Events, Identity, LeaseTimes,
    Operations, Rotation, ServingCertificate, Settings, Shared, VapConfig, VapSettings, connect,
};
use modgate_engine::EngineConfig;
use modgate_export::{AdmissionQueue, ExportConfig, Exporter};
use modgate_policies::{
    DEFAULT_CACHE_TTL, FileWatch, POLL_INTERVAL, PolicyFiles, PolicyHandle, PolicyStore, Providers,
    ProvidersConfig, Refresh, Standing,
};
use modgate_telemetry::metrics::Metrics;
use modgate_traffic::{RecordConfig, RecordError, RemoteError};
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

use self::traffic::Following;
pub use self::traffic::ShadowConfig;
use crate::{
    listen::{Listener, Transport},
    tls::{CertificateError, CertificateSource, Certificates, LoopbackCheck, TlsConfig},
    ui::{LOOPBACK_ONLY, Origin, Ui, routes},
    webhook::{
        AdmissionEvents, App, Bodies, Evaluators, GatekeeperConfig, Readiness, RequestLimits,
        Routes, demoted, processors, router,
    },
};

/// Where the policies of a server come from.
#[derive(Debug, Clone)]
pub enum PolicyOrigin {
    /// Files, which the server follows.
    Files(PolicyFiles),
    /// A cluster, which the server follows, and into which it writes statuses.
    Cluster(ClusterConfig),
}

impl PolicyOrigin {
    /// Whether policies come from a cluster.
    pub fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }
}

impl From<PolicyFiles> for PolicyOrigin {
    fn from(files: PolicyFiles) -> Self {
        Self::Files(files)
    }
}

/// Configuration of a server: its policies, its addresses and its limits.
#[derive(Debug, Clone)]
pub struct ServeConfig {
    /// Where policies come from.
    pub policies: PolicyOrigin,
    /// Name of the Pod in which this process runs, if any.
    pub pod: Option<Str>,
    /// The operations assigned to this process (`--operation`).
    pub operations: Operations,
    /// Whether the process stays unready while policies that existed at start do not load (RD-2).
    pub waits_for_broken_policies: bool,
    /// Whether the cluster's own policies are evaluated, too. Policies of files always are, as
    /// [`EngineConfig::admission_policies`] sets.
    pub admission_policies: bool,
    /// Which templates and constraints become ValidatingAdmissionPolicies.
    pub vap: VapConfig,
    /// Exports of violations.
    pub export: ExportConfig,
    /// Where requests and answers are recorded, if anywhere.
    pub record: Option<RecordConfig>,
    /// The second decision about requests, if there is one.
    pub shadow: Option<ShadowConfig>,
    /// How the cluster is audited.
    pub audit: AuditConfig,
    /// The OpenTelemetry collector, if any.
    pub otlp: Option<modgate_telemetry::otlp::OtlpConfig>,
    /// Settings of the engine.
    pub engine: EngineConfig,
    /// The serving certificate.
    pub certificate: CertificateSource,
    /// Requirements for TLS connections to the webhooks.
    pub tls: TlsConfig,
    /// Whether `/healthz` checks the certificate that the webhooks' listener presents (HE-1).
    pub tls_health_check: bool,
    /// Where to listen.
    pub addresses: Addresses,
    /// Bounds on requests.
    pub limits: RequestLimits,
    /// Settings of Gatekeeper's webhooks.
    pub gatekeeper: GatekeeperConfig,
    /// How many requests are evaluated at the same time.
    pub evaluators: usize,
    /// How long modgate caches an answer of a provider for Rego; `None` disables external data.
    pub external_data: Option<Duration>,
    /// Interval between checks of policy and certificate files.
    pub poll: Duration,
    /// How long the server still accepts requests after a signal to stop, until all clients have
    /// noticed (SV-6).
    pub shutdown_delay: Duration,
    /// How long open requests may continue after that.
    pub grace: Duration,
    /// Duration and renewal of the Lease.
    pub lease: LeaseTimes,
}

impl ServeConfig {
    /// The routes of the HTTPS address. The dry-run API has no authentication, so in a cluster only
    /// its own address serves it.
    pub fn main_routes(&self) -> Routes {
        match self.policies.is_cluster() && self.addresses.dry_run.is_none() {
            true => Routes::AllButDryRun,
            false => Routes::All,
        }
    }

    /// The default configuration for these policies.
    pub fn new(policies: impl Into<PolicyOrigin>, certificate: CertificateSource) -> Self {
        Self {
            policies: policies.into(),
            pod: None,
            operations: Operations::default(),
            waits_for_broken_policies: false,
            admission_policies: false,
            vap: VapConfig::default(),
            export: ExportConfig::default(),
            record: None,
            shadow: None,
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

    /// The settings for the controllers of the cluster.
    pub(crate) fn of_cluster(&self) -> Settings {
        let installation = &self.engine.installation;
        Settings {
            identity: Identity { namespace: installation.namespace.clone(), pod: self.pod.clone() },
            operations: self.operations.clone(),
            engine: self.engine.clone(),
            waits_for_broken_policies: self.waits_for_broken_policies,
            admission_policies: self.admission_policies,
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

/// Addresses to listen on: HTTPS for all routes, plain HTTP for some of them.
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
    /// The live page: plain HTTP on the loopback interface, otherwise HTTPS.
    pub ui: Option<String>,
}

/// An error that prevents serving.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address is not valid, or another process uses it.
    #[error("cannot listen on `{address}`")]
    Bind {
        /// The address as given.
        address: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Others would reach the live page, and there is no cluster that knows them.
    #[error("{LOOPBACK_ONLY}")]
    OpenUi,
    /// No certificate could be loaded.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The cluster's configuration could not be read.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// Requests cannot be recorded.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The shadow cannot be called.
    #[error(transparent)]
    Shadow(#[from] RemoteError),
    /// The exporter for the collector could not be created.
    #[error(transparent)]
    Otlp(#[from] modgate_telemetry::otlp::OtlpError),
    /// The runtime or its signal handlers could not be set up.
    #[error("cannot start")]
    Start(#[from] io::Error),
}

/// How serving ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// After one signal: every open request was answered, or its grace period ended.
    Gracefully,
    /// After a second signal.
    AtOnce,
    /// modgate could no longer follow policies.
    Broken,
}

/// The runtime for everything but webhooks: probes, metrics, the Lease, watches, and accepting
/// connections. [`Server`] creates a second one for webhooks and evaluations, so that nothing on
/// this one waits for an evaluation.
///
/// # Errors
///
/// If the operating system refuses to create threads.
pub fn runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(2).thread_name("modgate-edge").enable_all().build()
}

/// The runtimes for webhooks, and for the live page. Dropping them shuts them down, even inside another runtime.
struct Workers {
    webhooks: Option<Runtime>,
    ui: Option<Runtime>,
}

impl Workers {
    fn start(evaluators: &Evaluators, has_ui: bool) -> io::Result<Self> {
        let evaluating = |name, workers| {
            Builder::new_multi_thread()
                .worker_threads(workers)
                .thread_name(name)
                .thread_stack_size(STACK_BYTES)
                .enable_all()
                .build()
        };
        let webhooks = evaluating("modgate-webhook", evaluators.workers())?;
        evaluators.watch(webhooks.handle().clone())?;
        let ui = has_ui.then(|| evaluating("modgate-ui", UI_WORKERS)).transpose()?;
        Ok(Self { webhooks: Some(webhooks), ui })
    }

    fn handle(&self) -> Handle {
        handle(self.webhooks.as_ref())
    }

    fn ui(&self) -> Handle {
        handle(self.ui.as_ref())
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for runtime in [self.webhooks.take(), self.ui.take()].into_iter().flatten() {
            runtime.shutdown_background();
        }
    }
}

fn handle(runtime: Option<&Runtime>) -> Handle {
    runtime.map_or_else(Handle::current, |runtime| runtime.handle().clone())
}

/// Threads of the live page: one evaluates, the other answers.
const UI_WORKERS: usize = 2;

/// Stack size of threads that evaluate; only the used pages take memory.
const STACK_BYTES: usize = 8 << 20;

/// Bound listeners, with policies loaded.
pub struct Server {
    address: Option<SocketAddr>,
    listeners: Vec<Listener>,
    certificates: Arc<Certificates>,
    app: Arc<App>,
    policies: Policies,
    /// The policies of files, for the live page.
    standings: Standings,
    candidates: Option<Following>,
    report: Report,
    config: ServeConfig,
    workers: Workers,
}

/// The policies of a server, with what follows them.
enum Policies {
    Files(Box<PolicyStore>, follow::Reader),
    Cluster(Box<Controllers>, Option<Box<Rotation>>),
}

type Standings = Arc<ArcSwap<Vec<Standing>>>;

type Report = Arc<dyn Fn(&Diagnostic) + Send + Sync>;

impl Server {
    /// Binds every address, then reads all policy files. Policies of a cluster are read once the
    /// server [runs](Self::run_until); until then it is not ready.
    ///
    /// `report` receives each problem with a policy, now and whenever policies change.
    ///
    /// # Errors
    ///
    /// If an address cannot be bound, the certificate cannot be loaded, or the cluster's
    /// configuration cannot be read. Broken policies go to `report`; they are not errors.
    pub async fn start(
        config: ServeConfig,
        report: impl Fn(&Diagnostic) + Send + Sync + 'static,
    ) -> Result<Self, ServeError> {
        let certificates = Certificates::load(&config.certificate)?;
        let tls = TlsAcceptor::from(Arc::new(certificates.server_config(&config.tls)?));
        let recorded = Arc::new(Metrics::new());
        let served = Arc::clone(&certificates);
        recorded.report_certificate(move || served.not_after());
        let (events, event_queue) = Events::channel(recorded.events().clone());
        let exporter = config.export.is_on().then(|| {
            let metrics = recorded.export().clone();
            Arc::new(Exporter::new(config.export.clone(), metrics))
        });
        let queue = match exporter.as_ref().filter(|_| config.export.admission) {
            Some(to) => Some(AdmissionQueue::start(Arc::clone(to), recorded.export().clone())?),
            None => None,
        };
        let report: Report = Arc::new(report);
        let (traffic, candidates) = traffic::start(&config, &recorded, &report)?;
        let app = Arc::new(App {
            current: Arc::new(no_policies_yet(&config, &certificates)),
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
            traffic,
            decisions: config.addresses.ui.is_some().then(Arc::default),
        });
        if let Some(otlp) = &config.otlp {
            modgate_telemetry::otlp::start(otlp, &app.metrics)?;
        }
        let workers = Workers::start(&app.evaluators, config.addresses.ui.is_some())?;
        let (mut listeners, address) = listen_on(&config, &app, tls, &workers).await?;
        if let (true, Some(address)) = (config.tls_health_check, address) {
            let check = LoopbackCheck::new(address, Arc::clone(&certificates));
            app.readiness.check_loopback(check);
        }

        let policies = match &config.policies {
            PolicyOrigin::Cluster(cluster) => {
                let client = connect(cluster, &app.metrics).await?;
                let shared = Shared {
                    current: Arc::clone(&app.current),
                    metrics: Arc::clone(&app.metrics),
                    report: Arc::clone(&report),
                    events,
                    event_queue,
                    exporter,
                };
                let controllers = Controllers::new(client, config.of_cluster(), shared);
                let rotation = match &config.certificate {
                    CertificateSource::Cluster(secret) => {
                        let certificates = Arc::clone(&certificates);
                        let serving = Serving { certificates, app: Arc::clone(&app) };
                        Some(Box::new(controllers.rotation(secret, Arc::new(serving))))
                    }
                    _ => None,
                };
                Policies::Cluster(Box::new(controllers), rotation)
            }
            PolicyOrigin::Files(files) => {
                let store = PolicyStore::new(files.clone(), config.engine.clone());
                let (store, reader) = follow::begin(store, &app.metrics, &*report).await?;
                app.current.store(Arc::clone(store.policies()));
                Policies::Files(Box::new(store), reader)
            }
        };
        let mut standings = Standings::default();
        if let Some(at) = &config.addresses.ui {
            let origin = origin_of(&policies, &mut standings);
            let ui =
                Ui::new(Arc::clone(&app), origin, Arc::clone(&certificates), config.pod.clone());
            listeners.push(ui_listener(at, ui, &certificates, &config, workers.ui()).await?);
        }
        Ok(Self {
            address,
            listeners,
            certificates,
            app,
            policies,
            standings,
            candidates,
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

    /// The service of the HTTPS listener, without a listener.
    pub fn router(&self) -> Router {
        router(Arc::clone(&self.app), Routes::All)
    }

    /// The policies of files as loaded; `None` if policies come from a cluster.
    pub fn store(&self) -> Option<&PolicyStore> {
        match &self.policies {
            Policies::Files(store, _) => Some(store),
            Policies::Cluster(..) => None,
        }
    }

    /// Serves until a stop signal arrives (see [`stop_signals`]). The process is then unready and
    /// gives up the Lease. It still answers for `shutdown_delay`, then finishes open requests. A
    /// second signal ends it at once.
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
                // All senders are gone, so no second signal can arrive.
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
            let app = Arc::clone(&app);
            let _ = tokio::task::spawn_blocking(move || app.traffic.close()).await;
        };
        tokio::select! {
            () = finished => if broken { Stopped::Broken } else { Stopped::Gracefully },
            () = again => Stopped::AtOnce,
        }
    }

    /// Starts all tasks. Tasks of the first set end once every listener has closed and has released
    /// its resources. A task of the second set ends only if it fails.
    fn serve(
        self,
        stopping: &watch::Receiver<bool>,
        closing: &watch::Receiver<bool>,
    ) -> (JoinSet<()>, JoinSet<()>, Workers) {
        let Self {
            listeners,
            certificates,
            app,
            policies,
            standings,
            candidates,
            report,
            config,
            workers,
            ..
        } = self;
        let (mut serving, mut following) = (JoinSet::new(), JoinSet::new());
        tokio::spawn(certificates.follow(FileWatch::every(config.poll)));
        let current = Arc::clone(&app.current);
        let statuses = match &policies {
            Policies::Cluster(controllers, _) => Some(controllers.reports()),
            Policies::Files(..) => None,
        };
        tokio::spawn(async move { demoted::announce(&current, statuses.as_ref()).await });
        if let Some(candidates) = candidates {
            tokio::spawn(candidates.run(config.poll, Arc::clone(&report)));
        }
        match policies {
            Policies::Cluster(cluster, rotation) => {
                serving.spawn(cluster.elector(config.lease).run(stopping.clone()));
                if let Some(rotation) = rotation {
                    following.spawn(rotation.run());
                }
                following.spawn(cluster.run());
            }
            Policies::Files(store, reader) => {
                let (current, metrics) = (Arc::clone(&app.current), Arc::clone(&app.metrics));
                let has_ui = config.addresses.ui.is_some();
                let loaded = move |store: &PolicyStore, refresh: &Refresh| {
                    current.store(Arc::clone(store.policies()));
                    if has_ui {
                        standings.store(Arc::new(store.standings()));
                    }
                    follow::announce(store, &metrics, refresh);
                };
                following.spawn(follow::follow(reader, *store, loaded, config.poll, report));
            }
        }
        for listener in listeners {
            serving.spawn(listener.run(closing.clone(), config.grace));
        }
        (serving, following, workers)
    }
}

/// The policies in force before any is loaded; with providers if external data is on.
fn no_policies_yet(config: &ServeConfig, certificates: &Arc<Certificates>) -> PolicyHandle {
    let Some(cache_ttl) = config.external_data else { return PolicyHandle::default() };
    let identity: Arc<dyn ResolvesClientCert> = certificates.clone();
    let config = ProvidersConfig { cache_ttl, identity: Some(identity) };
    PolicyHandle::with_providers(Providers::new(config, Handle::current()))
}

/// Where the live page gets policies from; those of files go to `standings` first.
fn origin_of(policies: &Policies, standings: &mut Standings) -> Origin {
    match policies {
        Policies::Cluster(controllers, _) => Origin::Cluster(Box::new(controllers.live())),
        Policies::Files(store, _) => {
            *standings = Arc::new(ArcSwap::from_pointee(store.standings()));
            Origin::Files(Arc::clone(standings))
        }
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("config", &self.config).finish_non_exhaustive()
    }
}

/// This process, as the rotation of certificates sees it.
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

/// Binds every configured address. Returns the listeners, and the HTTPS address if any.
async fn listen_on(
    config: &ServeConfig,
    app: &Arc<App>,
    tls: TlsAcceptor,
    workers: &Workers,
) -> Result<(Vec<Listener>, Option<SocketAddr>), ServeError> {
    let Addresses { webhooks, health, metrics, dry_run, .. } = config.addresses.clone();
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

/// The listener of the live page. Others than this machine reach it over TLS, and only where a cluster knows
/// its users.
async fn ui_listener(
    address: &str,
    ui: Ui,
    certificates: &Arc<Certificates>,
    config: &ServeConfig,
    runtime: Handle,
) -> Result<Listener, ServeError> {
    let socket = bind(address).await?;
    let is_local = socket.local_addr().is_ok_and(|address| address.ip().is_loopback());
    let transport = if is_local {
        Transport::Plain
    } else if config.policies.is_cluster() {
        // Browsers have no client certificates; tokens say who asks.
        let tls = TlsConfig { clients: None, ..config.tls.clone() };
        Transport::Tls(TlsAcceptor::from(Arc::new(certificates.server_config(&tls)?)))
    } else {
        return Err(ServeError::OpenUi);
    };
    Ok(Listener { socket, transport, routes: routes(ui), runtime })
}

/// `:9443` means every address, as in Go.
async fn bind(address: &str) -> Result<TcpListener, ServeError> {
    let error = |source| ServeError::Bind { address: address.to_owned(), source };
    if let Some(Ok(port)) = address.strip_prefix(':').map(str::parse::<u16>) {
        let any = SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, port));
        return match listen(any) {
            Ok(listener) => Ok(listener),
            // The machine has no IPv6.
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

/// Length of the accept queue; the system may allow less. If the queue is full, the client retries
/// a second later.
const BACKLOG: u32 = 4096;

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// A channel that receives SIGTERM and SIGINT. They no longer end the process by themselves.
///
/// # Errors
///
/// If the operating system refuses signal handlers.
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

/// A channel that receives Ctrl-C. It no longer ends the process by itself.
///
/// # Errors
///
/// Never; the type matches that of Unix.
#[cfg(not(unix))]
pub fn stop_signals() -> io::Result<mpsc::Receiver<()>> {
    let (sender, receiver) = mpsc::channel(2);
    tokio::spawn(async move {
        while signal::ctrl_c().await.is_ok() && sender.send(()).await.is_ok() {}
    });
    Ok(receiver)
}
