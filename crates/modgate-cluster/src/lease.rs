//! Which of several processes writes what must be written by one: a Lease of `coordination.k8s.io`.
//!
//! # Guarantees
//!
//! - A process that leads has renewed the Lease within [`LeaseTimes::deadline`] by its own monotonic
//!   clock; others take it over only after they have watched it stay the same for its whole
//!   [`LeaseTimes::duration`], which is longer. Clocks of different machines are never compared.
//! - A process that receives a signal to stop stops leading at once and gives the Lease back, so that the next
//!   one need not wait.
//!
//! # Permissions
//!
//! On Leases of the installation's namespace `get`, `create` and `update`; all but `create` may be
//! limited to the name.
//!
//! # Limits
//!
//! A write that is under way when the term ends may still arrive during the time between deadline
//! and duration, which is what that time is for.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use arc_swap::ArcSwapOption;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::Timestamp,
};
use kube::{
    Api, Client, Error,
    api::{ObjectMeta, PostParams},
};
use modgate_http::Chain;
use rustls::crypto::ring;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use super::{LOGGER, identity::Identity};
use crate::operations::Operations;

/// The Lease, in the namespace of the installation, of processes that do everything. Others share one
/// with those that do the same, so that their leader can do the work that only one of them may do.
const NAME: &str = "modgate";

/// How long leadership lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTimes {
    /// How long the Lease must have stayed the same before another process takes it; whole seconds.
    pub duration: Duration,
    /// How long a process leads without having renewed the Lease; shorter than the duration.
    pub deadline: Duration,
    /// How often the Lease is renewed, or looked at by those who wait for it.
    pub retry: Duration,
}

impl Default for LeaseTimes {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(15),
            deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

/// Whether this process leads, and until when at most.
///
/// The time also passes while the process does not run, as in a process that was stopped and
/// continued.
#[derive(Debug, Clone)]
pub(crate) struct Leadership {
    leads: watch::Sender<bool>,
    until: Arc<ArcSwapOption<Instant>>,
}

impl Leadership {
    /// Not leading yet.
    pub(crate) fn new() -> Self {
        Self { leads: watch::channel(false).0, until: Arc::default() }
    }

    /// Changes when leadership comes and goes.
    pub(crate) fn subscribe(&self) -> watch::Receiver<bool> {
        self.leads.subscribe()
    }

    /// Whether this process leads now.
    pub(crate) fn lasts(&self) -> bool {
        self.until.load().as_ref().is_some_and(|until| Instant::now() < **until)
    }

    pub(super) fn lead_until(&self, until: Instant) {
        self.until.store(Some(Arc::new(until)));
        self.leads.send_if_modified(|leads| !std::mem::replace(leads, true));
    }

    /// Returns whether it led until now.
    pub(super) fn end(&self) -> bool {
        self.until.store(None);
        self.leads.send_if_modified(|leads| std::mem::replace(leads, false))
    }

    fn remaining(&self) -> Option<Duration> {
        let until = self.until.load();
        until.as_ref().map(|until| until.saturating_duration_since(Instant::now()))
    }
}

/// Takes part in the election.
pub struct Elector {
    api: Api<Lease>,
    name: String,
    holder: String,
    namespace: String,
    /// Whether there is a Pod, so that its namespace exists.
    has_pod: bool,
    times: LeaseTimes,
    leadership: Leadership,
    /// The Lease as this process wrote it last.
    ours: Option<Lease>,
    /// Another process's, by its version, and since when it has been like that.
    theirs: Option<(String, Instant)>,
    /// The holder that was logged last.
    known: Option<String>,
}

/// How a try to get or keep the Lease went.
enum LeaseState {
    Held(Box<Lease>),
    HeldBy(String),
    /// There is no namespace to hold a Lease in, and therefore no other installation in it.
    Alone,
}

impl Elector {
    pub(crate) fn new(
        client: Client,
        identity: &Identity,
        operations: &Operations,
        times: LeaseTimes,
        leadership: Leadership,
    ) -> Self {
        let namespace = identity.namespace.to_string();
        Self {
            api: Api::namespaced(client, &namespace),
            name: lease_name(operations),
            holder: identity.pod.as_ref().map_or_else(name_of_process, ToString::to_string),
            namespace,
            has_pod: identity.pod.is_some(),
            times,
            leadership,
            ours: None,
            theirs: None,
            known: None,
        }
    }

    /// Takes part until the process is to stop, and gives the Lease back then.
    pub async fn run(mut self, mut stopping: watch::Receiver<bool>) {
        loop {
            let pause = tokio::select! {
                biased;
                _ = stopping.wait_for(|stopping| *stopping) => break,
                pause = self.round() => pause,
            };
            tokio::select! {
                biased;
                _ = stopping.wait_for(|stopping| *stopping) => break,
                () = sleep(pause) => {}
            }
        }
        if self.leadership.end() {
            self.release().await;
        }
    }

    /// Tries once; returns how long to wait before the next try.
    async fn round(&mut self) -> Duration {
        let started = Instant::now();
        // A request that hangs must not outlive the term.
        let limit = self.leadership.remaining().unwrap_or(self.times.deadline);
        let outcome = timeout(limit, self.attempt()).await;
        match outcome {
            Ok(Ok(LeaseState::Held(lease))) => {
                self.ours = Some(*lease);
                self.theirs = None;
                self.leads(started + self.times.deadline);
            }
            Ok(Ok(LeaseState::Alone)) => self.leads(started + self.times.deadline),
            Ok(Ok(LeaseState::HeldBy(holder))) => {
                self.ours = None;
                self.lost("another process has taken the Lease");
                if self.known.as_ref() != Some(&holder) {
                    tracing::info!(target: LOGGER, %holder, "another process leads");
                    self.known = Some(holder);
                }
            }
            Ok(Err(error)) => {
                self.ours = None;
                tracing::warn!(target: LOGGER, error = %Chain(&error), lease = %self.name,
                    namespace = %self.namespace, "Lease neither held nor renewed, trying again"
                );
            }
            Err(_) => {
                self.ours = None;
                tracing::warn!(target: LOGGER, lease = %self.name, namespace = %self.namespace,
                    "no answer about the Lease in time, trying again"
                );
            }
        }
        match self.leadership.remaining() {
            Some(Duration::ZERO) => {
                self.lost("the Lease could not be renewed in time");
                self.times.retry
            }
            // Not later than the term ends.
            Some(remaining) => self.times.retry.min(remaining),
            // Other processes look more often, so that they take over at once what is given back.
            None => self.times.retry / 2,
        }
    }

    fn leads(&mut self, until: Instant) {
        if !self.leadership.lasts() {
            tracing::info!(target: LOGGER, holder = %self.holder, "this process leads");
            self.known = Some(self.holder.clone());
        }
        self.leadership.lead_until(until);
    }

    fn lost(&self, why: &str) {
        if self.leadership.end() {
            tracing::warn!(target: LOGGER, holder = %self.holder, why, "this process no longer leads");
        }
    }

    async fn attempt(&mut self) -> Result<LeaseState, Error> {
        let found = match self.ours.take() {
            Some(ours) => Some(ours),
            None => self.api.get_opt(&self.name).await?,
        };
        let Some(mut lease) = found else {
            let made = Lease {
                metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
                spec: Some(self.spec(None)),
            };
            return match self.api.create(&PostParams::default(), &made).await {
                Ok(lease) => Ok(LeaseState::Held(Box::new(lease))),
                Err(Error::Api(status)) if status.code == 404 && !self.has_pod => {
                    Ok(LeaseState::Alone)
                }
                Err(error) => Err(error),
            };
        };
        if let Some(holder) = self.other_holder(&lease) {
            return Ok(LeaseState::HeldBy(holder));
        }
        lease.spec = Some(self.spec(lease.spec));
        // With the version that was seen: the second writer is refused.
        self.api
            .replace(&self.name, &PostParams::default(), &lease)
            .await
            .map(Box::new)
            .map(LeaseState::Held)
    }

    /// The holder of the Lease, if it is another process whose time is not up.
    fn other_holder(&mut self, lease: &Lease) -> Option<String> {
        let spec = lease.spec.as_ref()?;
        let holder = spec.holder_identity.as_ref().filter(|holder| !holder.is_empty())?;
        if *holder == self.holder {
            return None;
        }
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        let since = match &self.theirs {
            Some((seen, since)) if *seen == version => *since,
            _ => {
                let now = Instant::now();
                self.theirs = Some((version, now));
                now
            }
        };
        // What its holder relies on, which may have other settings.
        let seconds = spec.lease_duration_seconds.unwrap_or_default();
        let duration = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        (since.elapsed() < duration).then(|| holder.clone())
    }

    fn spec(&self, before: Option<LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(Timestamp::try_from(SystemTime::now()).unwrap_or_default());
        let before = before.unwrap_or_default();
        let is_new = before.holder_identity.as_ref() != Some(&self.holder);
        let transitions = before.lease_transitions.unwrap_or_default();
        LeaseSpec {
            acquire_time: if is_new { Some(now.clone()) } else { before.acquire_time },
            holder_identity: Some(self.holder.clone()),
            lease_duration_seconds: i32::try_from(self.times.duration.as_secs().max(1)).ok(),
            lease_transitions: Some(if is_new { transitions + 1 } else { transitions }),
            renew_time: Some(now),
            ..LeaseSpec::default()
        }
    }

    async fn release(&self) {
        let releasing = async {
            // As it is now: a renewal may have been under way.
            let Some(mut lease) = self.api.get_opt(&self.name).await? else { return Ok(()) };
            match &mut lease.spec {
                Some(spec) if spec.holder_identity.as_ref() == Some(&self.holder) => {
                    spec.holder_identity = None;
                }
                _ => return Ok(()),
            }
            self.api.replace(&self.name, &PostParams::default(), &lease).await.map(drop)
        };
        match timeout(self.times.retry, releasing).await {
            Ok(Ok(())) => {
                tracing::info!(target: LOGGER, holder = %self.holder, "Lease given back");
            }
            Ok(Err(error)) => {
                tracing::warn!(target: LOGGER, error = %Chain(&error), "Lease not given back");
            }
            Err(_) => tracing::warn!(target: LOGGER, "Lease not given back in time"),
        }
    }
}

/// The name of this machine, and something that no other process on it has.
fn name_of_process() -> String {
    let read = std::fs::read_to_string("/proc/sys/kernel/hostname");
    let host = read.unwrap_or_else(|_| std::env::var("HOSTNAME").unwrap_or_default());
    let mut random = [0; 8];
    // Without randomness two processes of one machine still differ by their ids.
    if ring::default_provider().secure_random.fill(&mut random).is_err() {
        random = u64::from(std::process::id()).to_be_bytes();
    }
    format!("{}_{:016x}", host.trim(), u64::from_be_bytes(random))
}

pub(crate) fn lease_name(operations: &Operations) -> String {
    if *operations == Operations::default() {
        return NAME.to_owned();
    }
    format!("{NAME}-{}", operations.names().collect::<Vec<_>>().join("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elector() -> Elector {
        let config = kube::Config::new("http://127.0.0.1:1".parse().expect("URL"));
        let client = Client::try_from(config).expect("client");
        let identity = Identity { namespace: "here".into(), pod: Some("us".into()) };
        let (operations, times) = (Operations::default(), LeaseTimes::default());
        Elector::new(client, &identity, &operations, times, Leadership::new())
    }

    #[test]
    fn processes_that_do_the_same_share_a_lease() {
        use crate::operations::Operation::{Audit, Status};
        assert_eq!(lease_name(&Operations::default()), "modgate");
        assert_eq!(lease_name(&[Status, Audit].into_iter().collect()), "modgate-audit.status");
    }

    fn lease(holder: Option<&str>, version: &str, seconds: i32) -> Lease {
        Lease {
            metadata: ObjectMeta {
                resource_version: Some(version.to_owned()),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: holder.map(str::to_owned),
                lease_duration_seconds: Some(seconds),
                lease_transitions: Some(4),
                ..LeaseSpec::default()
            }),
        }
    }

    #[tokio::test]
    async fn a_lease_is_taken_when_it_is_free_ours_or_has_stood_still_for_its_time() {
        let mut elector = elector();
        for (holder, seconds, expected) in [
            (None, 15, None),
            (Some(""), 15, None),
            (Some("us"), 15, None),
            (Some("them"), 15, Some("them")),
            // Has stood still for at least no time at all.
            (Some("them"), 0, None),
        ] {
            let found = elector.other_holder(&lease(holder, "1", seconds));
            assert_eq!(found.as_deref(), expected, "{holder:?} {seconds}");
        }
        let long_ago = Instant::now().checked_sub(Duration::from_secs(16)).expect("uptime");
        elector.theirs = Some(("1".to_owned(), long_ago));
        assert_eq!(elector.other_holder(&lease(Some("them"), "1", 15)), None);
        // Renewed meanwhile: the time begins again.
        let renewed = elector.other_holder(&lease(Some("them"), "2", 15));
        assert_eq!(renewed.as_deref(), Some("them"));
    }

    #[tokio::test]
    async fn transitions_count_changes_of_the_holder() {
        let elector = elector();
        let taken = elector.spec(lease(Some("them"), "1", 15).spec);
        assert_eq!(taken.lease_transitions, Some(5));
        assert_eq!(taken.holder_identity.as_deref(), Some("us"));
        assert_eq!(taken.acquire_time, taken.renew_time);
        let renewed = elector.spec(Some(taken.clone()));
        assert_eq!(renewed.lease_transitions, Some(5));
        assert_eq!(renewed.acquire_time, taken.acquire_time);
    }

    #[test]
    fn leadership_ends_by_itself() {
        let leadership = Leadership::new();
        assert!(!leadership.lasts());
        let leads = leadership.subscribe();
        leadership.lead_until(Instant::now() + Duration::from_secs(60));
        assert!(leadership.lasts() && *leads.borrow());
        leadership.lead_until(Instant::now());
        assert!(!leadership.lasts(), "whatever the channel says");
        assert!(leadership.end() && !*leads.borrow());
        assert!(!leadership.end());
    }

    #[test]
    fn processes_have_different_names() {
        assert_ne!(name_of_process(), name_of_process());
    }
}
