//! External data: the providers in force, and how the engine asks them
//! (spec `gatekeeper-mutation…`, section 6).
//!
//! The engine is synchronous and queries providers through two traits. A [`ProviderSession`] implements
//! both for one review, and a [`ProviderHost`] puts it into a host. A query becomes a task on the
//! runtime. The evaluation waits for its answer until the nearer of two deadlines: that of the review
//! and that of the Provider.
//!
//! ```
//! use modgate_policies::{Providers, ProvidersConfig};
//!
//! let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! let providers = Providers::new(ProvidersConfig::default(), runtime.handle().clone());
//! assert_eq!(providers.len(), 0);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Limits
//!
//! An answer has at most [`MAX_ANSWER_BYTES`]; at most [`MAX_CALLS`] calls are under way, and what
//! comes on top is refused; the response cache holds at most [`MAX_CACHE_BYTES`].

mod cache;
mod call;
mod host;
mod session;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Weak},
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwap;
use modgate_engine::provider::CompiledProvider;
use modgate_value::Str;
use rustls::client::ResolvesClientCert;
use tokio::{runtime::Handle, sync::Semaphore, time::Instant};

pub use self::{
    cache::MAX_CACHE_BYTES, call::MAX_ANSWER_BYTES, host::ProviderHost, session::ProviderSession,
};
use self::{cache::ResponseCache, call::Endpoint};

/// Logger of everything about providers.
const LOGGER: &str = "providers";

/// Calls that may be under way at the same time.
pub const MAX_CALLS: usize = 256;

/// Default lifetime of cached answers (`--external-data-provider-response-cache-ttl`).
pub const DEFAULT_CACHE_TTL: Duration = Duration::from_secs(3 * 60);

/// Settings of all providers.
#[derive(Debug, Clone)]
pub struct ProvidersConfig {
    /// How long modgate caches an answer for Rego; zero turns the cache off.
    pub cache_ttl: Duration,
    /// The client certificate for providers. Without one, modgate sends no request to any provider.
    pub identity: Option<Arc<dyn ResolvesClientCert>>,
}

impl Default for ProvidersConfig {
    fn default() -> Self {
        Self { cache_ttl: DEFAULT_CACHE_TTL, identity: None }
    }
}

/// The providers in force and what they answered lately.
pub struct Providers {
    endpoints: ArcSwap<BTreeMap<Str, Arc<Endpoint>>>,
    cache: Option<ResponseCache>,
    identity: Option<Arc<dyn ResolvesClientCert>>,
    calls: Arc<Semaphore>,
    runtime: Handle,
}

impl Providers {
    /// No provider yet; calls run on `runtime`.
    pub fn new(config: ProvidersConfig, runtime: Handle) -> Arc<Self> {
        let ProvidersConfig { cache_ttl, identity } = config;
        let providers = Arc::new(Self {
            endpoints: ArcSwap::default(),
            cache: (!cache_ttl.is_zero()).then(|| ResponseCache::new(cache_ttl)),
            identity,
            calls: Arc::new(Semaphore::new(MAX_CALLS)),
            runtime,
        });
        if !cache_ttl.is_zero() {
            providers.runtime.spawn(sweep(Arc::downgrade(&providers), cache_ttl));
        }
        providers
    }

    /// Makes these the providers from now on.
    ///
    /// One whose URL, timeout and bundle are as before keeps its connections and cached answers;
    /// everything about the others is dropped (`fix-provider-cache-flush`).
    pub fn replace<'p>(&self, providers: impl IntoIterator<Item = &'p Arc<CompiledProvider>>) {
        let before = self.endpoints.load_full();
        let endpoints: BTreeMap<Str, Arc<Endpoint>> = providers
            .into_iter()
            .map(|provider| {
                let kept = before.get(provider.name());
                let kept = kept.filter(|endpoint| *endpoint.provider == **provider);
                let endpoint = kept.cloned().unwrap_or_else(|| {
                    Arc::new(Endpoint::new(Arc::clone(provider), self.identity.clone()))
                });
                (provider.name().clone(), endpoint)
            })
            .collect();
        let endpoints = Arc::new(endpoints);
        self.endpoints.store(Arc::clone(&endpoints));
        let Some(cache) = &self.cache else { return };
        for (name, endpoint) in before.iter() {
            if !endpoints.get(name).is_some_and(|new| Arc::ptr_eq(new, endpoint)) {
                cache.forget(name);
            }
        }
    }

    /// How many providers there are.
    pub fn len(&self) -> usize {
        self.endpoints.load().len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The session of one review; it waits for nothing after `deadline`.
    pub fn asking(self: &Arc<Self>, deadline: Instant) -> ProviderSession<'static> {
        ProviderSession::new(Arc::clone(self), deadline)
    }

    fn endpoint(&self, name: &str) -> Option<Arc<Endpoint>> {
        self.endpoints.load().get(name).cloned()
    }

    /// Caches an answer of `endpoint`, unless the endpoint has been replaced since the request.
    fn remember(&self, endpoint: &Arc<Endpoint>, answer: &modgate_engine::mutation::Answer) {
        let Some(cache) = &self.cache else { return };
        let name = endpoint.provider.name();
        let in_force = || {
            self.endpoints.load().get(name).is_some_and(|current| Arc::ptr_eq(current, endpoint))
        };
        cache.remember(name, &answer.items, now(), in_force);
    }
}

impl fmt::Debug for Providers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Providers").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// Removes what is too old to be used, for as long as there are providers.
async fn sweep(providers: Weak<Providers>, interval: Duration) {
    loop {
        tokio::time::sleep(interval).await;
        let Some(providers) = providers.upgrade() else { return };
        if let Some(cache) = &providers.cache {
            cache.sweep(now());
        }
    }
}

/// The time since 1970.
fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
