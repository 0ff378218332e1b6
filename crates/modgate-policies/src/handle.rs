//! The policies in force.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

use crate::{providers::Providers, set::PolicySet};

/// The policies that requests are evaluated with; none until they were read for the first time.
#[derive(Debug, Default)]
pub struct PolicyHandle {
    policies: ArcSwapOption<PolicySet>,
    /// Why this process is not ready although there are policies.
    not_ready: ArcSwapOption<String>,
    changed: Notify,
    providers: Option<Arc<Providers>>,
}

impl PolicyHandle {
    /// No policies yet; external data comes from `providers`, which follow it.
    pub fn with_providers(providers: Arc<Providers>) -> Self {
        Self { providers: Some(providers), ..Self::default() }
    }

    /// The newest policies.
    pub fn load(&self) -> Option<Arc<PolicySet>> {
        self.policies.load_full()
    }

    /// Sets why this process is not ready although there are policies; `None` if it is.
    pub fn set_not_ready(&self, reason: Option<String>) {
        self.not_ready.store(reason.map(Arc::new));
    }

    /// Why this process is not ready.
    pub fn not_ready(&self) -> Option<String> {
        if self.policies.load().is_none() {
            return Some("policies not loaded yet".to_owned());
        }
        self.not_ready.load_full().map(|reason| String::clone(&reason))
    }

    /// Where external data comes from; `None` when that is off.
    pub fn providers(&self) -> Option<&Arc<Providers>> {
        self.providers.as_ref()
    }

    /// Evaluates all later requests with these policies.
    pub fn store(&self, policies: Arc<PolicySet>) {
        // A policy that is in force finds the providers it asks.
        if let Some(providers) = &self.providers {
            providers.replace(policies.snapshot.providers().values());
        }
        self.policies.store(Some(policies));
        self.changed.notify_waiters();
    }

    /// Waits for policies that satisfy `is_so`; `None` if there are none before the deadline.
    pub async fn wait_for(
        &self,
        deadline: Instant,
        is_so: impl Fn(&PolicySet) -> bool,
    ) -> Option<Arc<PolicySet>> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // From here on no change is missed.
            changed.as_mut().enable();
            let found = self.load().filter(|policies| is_so(policies));
            if found.is_some() {
                return found;
            }
            timeout_at(deadline, changed).await.ok()?;
        }
    }
}
