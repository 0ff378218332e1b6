//! The certificate of the webhooks, in a Secret that all replicas share, and the authorities that
//! webhook configurations trust (spec `gatekeeper-validation`, 9.2).
//!
//! Every replica follows the Secret and the configurations through the API, so that nothing waits
//! for a mounted file. Every replica may write either: the Secret for exactly the version it read,
//! so that the second one to renew it is refused and takes what the first one made; the
//! configurations only where they differ, and not before the leader has had its chance.
//!
//! # Guarantees
//!
//! - What is served is trusted first: see [`contents`].
//! - Of configurations nothing but `caBundle` is written, whatever a user has changed about them.
//! - The process is not ready before it serves a certificate that every configuration there is
//!   trusts.
//!
//! # Permissions
//!
//! On this Secret of the installation's namespace `list`, `watch` and `patch`, and `create` where it
//! is not installed empty; on the named webhook configurations `list`, `watch` and `patch`. All of
//! them but `create` may be limited to the names.
//!
//! # Limits
//!
//! A Secret that is emptied while no process runs is filled with a new authority at once; a replica
//! that starts in the moment in which it is emptied may do so too.

mod bundles;
mod contents;

use std::{
    collections::BTreeMap,
    fmt::Debug,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Error, Resource,
    api::{ApiResource, ObjectMeta, Patch, PatchParams, PostParams},
    runtime::watcher,
};
use modgate_http::{Backoff, Chain};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::sleep,
};

use self::contents::{Contents, Reading, Rules};
use super::{
    FIELD_MANAGER, LOGGER,
    context::Context,
    kinds,
    lease::Leadership,
    object::Stored,
    operations::{Operation, Operations},
    watches::{Change, watched},
};

/// The Secret, in the namespace of the installation.
const SECRET: &str = "gatekeeper-webhook-server-cert";
/// Says of a Secret that cert-manager looks after it.
const CERT_MANAGER: &str = "cert-manager.io/certificate-name";
/// KubeMod's configurations, of which there is one of each kind with a name of its own.
const KUBEMOD: [&str; 2] =
    ["kubemod-validating-webhook-configuration", "kubemod-mutating-webhook-configuration"];
/// KubeMod's service, which its configurations name.
const KUBEMOD_SERVICE: &str = "kubemod-webhook-service.kubemod-system.svc";

/// How long those who do not lead leave a configuration to the leader.
const LEADERS_CHANCE: Duration = Duration::from_secs(2);
/// How long to wait after a write failed, at first and at most.
const BACKOFF: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(30)];
/// Events that may wait.
const BACKLOG: usize = 64;

/// A serving certificate that a cluster holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterCertificates {
    /// The service in front of the webhooks, which the certificate is for.
    pub service: String,
    /// Further DNS names and IP addresses, besides KubeMod's service.
    pub names: Vec<String>,
    /// The ValidatingWebhookConfiguration of Gatekeeper's webhooks.
    pub validating: String,
    /// The MutatingWebhookConfiguration of Gatekeeper's webhooks.
    pub mutating: String,
    /// Further ValidatingWebhookConfigurations that lead here.
    pub additional_validating: Vec<String>,
    /// Further MutatingWebhookConfigurations that lead here.
    pub additional_mutating: Vec<String>,
    /// When certificates are renewed.
    pub times: RotationTimes,
}

impl Default for ClusterCertificates {
    fn default() -> Self {
        Self {
            service: "gatekeeper-webhook-service".to_owned(),
            names: Vec::new(),
            validating: "gatekeeper-validating-webhook-configuration".to_owned(),
            mutating: "gatekeeper-mutating-webhook-configuration".to_owned(),
            additional_validating: Vec::new(),
            additional_mutating: Vec::new(),
            times: RotationTimes::default(),
        }
    }
}

/// When certificates are renewed (CR-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RotationTimes {
    /// How often certificates are looked at, besides whenever the Secret changes.
    pub look: Duration,
    /// A certificate with less time than this is renewed.
    pub renew_before: Duration,
    /// How long API servers have to notice that a webhook configuration trusts a new authority.
    pub settle: Duration,
    /// How long replicas have to serve a new certificate before the old authority is no longer
    /// trusted.
    pub retire: Duration,
}

impl Default for RotationTimes {
    fn default() -> Self {
        const HOUR: Duration = Duration::from_secs(60 * 60);
        Self {
            look: 12 * HOUR,
            renew_before: 90 * 24 * HOUR,
            settle: Duration::from_secs(60),
            retire: 24 * HOUR,
        }
    }
}

/// An object of the cluster, as its watch reports it.
#[derive(Debug)]
enum Observed<T> {
    /// The watch has not reported it yet.
    Unseen,
    /// It does not exist.
    Absent,
    Present(T),
}

impl<T> Observed<T> {
    fn of(object: Option<T>) -> Self {
        object.map_or(Self::Absent, Self::Present)
    }
}

impl Observed<Stored> {
    /// Whether a configuration trusts an authority, as one that is absent or unreadable does; `None` before
    /// the watch has reported it.
    fn trusts(&self, authority: &crate::authority::Certificate) -> Option<bool> {
        match self {
            Self::Unseen => None,
            Self::Absent => Some(true),
            Self::Present(stored) => {
                let object = stored.object.as_ref();
                Some(object.map_or(true, |object| bundles::all_trust(object, authority)))
            }
        }
    }
}

/// A webhook configuration that leads here.
struct Configuration {
    api: Api<Stored>,
    resource: ApiResource,
    name: String,
    seen: Observed<Stored>,
    /// Since when its bundles are others than they should be.
    wrong: Option<Instant>,
    /// Whether the last attempt to read or to write it was forbidden.
    forbidden: bool,
    backoff: Backoff,
}

impl Configuration {
    /// Why it does not trust the certificate, or is not known to.
    fn reason(&self, otherwise: &str) -> String {
        let Self { resource, name, .. } = self;
        let kind = &resource.kind;
        match self.forbidden {
            true => format!("{kind} `{name}` {otherwise}: {}", permission(resource, name)),
            false => format!("{kind} `{name}` {otherwise} yet"),
        }
    }
}

/// The missing permission where the API server forbids a request for a configuration.
fn permission(resource: &ApiResource, name: &str) -> String {
    let plural = &resource.plural;
    format!(
        "the ClusterRole must allow `list`, `watch` and `patch` on `{plural}` with the resourceName \
         `{name}`, as the chart's `certificates.additionalConfigurations` makes it do"
    )
}

enum Seen {
    Secret(Option<Secret>),
    Configuration(usize, Option<Stored>),
    /// A configuration may not be read.
    Forbidden(usize),
}

/// The process that serves webhooks, as the [`Rotation`] of its certificate needs it.
pub trait ServingCertificate: Send + Sync {
    /// Serves this certificate with its key, PEM texts, from now on.
    ///
    /// # Errors
    ///
    /// When they are no certificate and its key; the one before stays.
    fn serve(
        &self,
        chain: &[u8],
        key: &[u8],
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>>;

    /// Sets whether the API server can reach the webhooks, or why not.
    fn set_reachable(&self, reachable: Result<(), String>);
}

/// Keeps the serving certificate of a Secret, and the authorities in webhook configurations.
pub struct Rotation {
    secrets: Api<Secret>,
    namespace: String,
    configurations: Vec<Configuration>,
    rules: Rules,
    leadership: Leadership,
    leader: watch::Receiver<bool>,
    serving: Arc<dyn ServingCertificate>,
    secret: Observed<Secret>,
    /// The certificates that are served.
    served: Option<Contents>,
    /// Since when every configuration has been seen to trust this authority first.
    trusted: Option<(Vec<u8>, Instant)>,
    /// Of writing the Secret.
    backoff: Backoff,
    /// Whether webhooks are served, so that they must be reachable.
    is_webhook: bool,
    /// Why it is not ready, as it was last logged.
    reported: Option<String>,
    logged_cert_manager: bool,
}

impl Rotation {
    pub(crate) fn new(
        context: &Context,
        config: &ClusterCertificates,
        serving: Arc<dyn ServingCertificate>,
    ) -> Self {
        let Context { client, identity, operations, leadership, .. } = context;
        let namespace = identity.namespace.to_string();
        let service = format!("{}.{namespace}.svc", config.service);
        let mut names = vec![service, KUBEMOD_SERVICE.to_owned()];
        for name in &config.names {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        let configurations = configurations(operations, config).map(|(kind, name)| {
            let resource = kinds::webhook_configurations(kind);
            Configuration {
                api: Api::all_with(client.clone(), &resource),
                resource,
                name,
                seen: Observed::Unseen,
                wrong: None,
                forbidden: false,
                backoff: Backoff::new(BACKOFF),
            }
        });
        let is_webhook =
            operations.has(Operation::Webhook) || operations.has(Operation::MutationWebhook);
        let mut rotation = Self {
            configurations: configurations.collect(),
            secrets: Api::namespaced(client.clone(), &namespace),
            namespace,
            rules: Rules { names, times: config.times },
            leader: leadership.subscribe(),
            leadership: leadership.clone(),
            serving,
            secret: Observed::Unseen,
            served: None,
            trusted: None,
            backoff: Backoff::new(BACKOFF),
            is_webhook,
            reported: None,
            logged_cert_manager: false,
        };
        rotation.set_reachable();
        rotation
    }

    /// Keeps them until dropped.
    pub async fn run(mut self) {
        let (events, mut seen) = mpsc::channel(BACKLOG);
        let mut watches = JoinSet::new();
        let (secrets, name) = (self.secrets.clone(), SECRET.to_owned());
        watches.spawn(follow(secrets, name, Seen::Secret, || None, events.clone()));
        for (index, configuration) in self.configurations.iter().enumerate() {
            let Configuration { api, name, .. } = configuration;
            let seen = move |stored| Seen::Configuration(index, stored);
            let forbidden = move || Some(Seen::Forbidden(index));
            watches.spawn(follow(api.clone(), name.clone(), seen, forbidden, events.clone()));
        }
        loop {
            let pause = self.reconcile().await;
            self.set_reachable();
            tokio::select! {
                event = seen.recv() => {
                    let Some(event) = event else { return };
                    self.take(event);
                    while let Ok(event) = seen.try_recv() {
                        self.take(event);
                    }
                }
                () = sleep(pause) => {}
                changed = self.leader.changed() => if changed.is_err() { return },
            }
        }
    }

    fn take(&mut self, event: Seen) {
        match event {
            Seen::Secret(secret) => self.secret = Observed::of(secret),
            Seen::Configuration(index, stored) => {
                if let Some(configuration) = self.configurations.get_mut(index) {
                    configuration.seen = Observed::of(stored);
                    configuration.forbidden = false;
                }
            }
            Seen::Forbidden(index) => {
                if let Some(configuration) = self.configurations.get_mut(index) {
                    configuration.forbidden = true;
                }
            }
        }
    }

    /// Brings everything in line; returns how long that lasts at most.
    async fn reconcile(&mut self) -> Duration {
        let secret = match &self.secret {
            Observed::Unseen => return Duration::MAX,
            Observed::Absent => None,
            Observed::Present(secret) => Some(secret.clone()),
        };
        let now = SystemTime::now();
        let data = secret.as_ref().and_then(|secret| secret.data.as_ref());
        let contents = data.map(Contents::of).unwrap_or_default();
        let reading = self.serve(&contents, now);
        let pause = match self.renew(secret.as_ref(), &contents, now).await {
            Ok(Renewal::Written(secret)) => {
                self.backoff = Backoff::new(BACKOFF);
                self.secret = Observed::Present(*secret);
                return Duration::ZERO;
            }
            Ok(Renewal::Rests(pause)) => {
                self.backoff = Backoff::new(BACKOFF);
                pause.min(self.rules.times.look)
            }
            Err(reason) => {
                let namespace = &self.namespace;
                tracing::error!(target: LOGGER, %namespace, secret = SECRET, %reason,
                    "certificate neither made nor renewed, trying again"
                );
                self.backoff.pause()
            }
        };
        // What is not served is not to be trusted instead of what is.
        let authorities = match &reading {
            Reading { leaf: Some(_), authorities } => authorities,
            Reading { leaf: None, .. } => return pause,
        };
        let mut rest = pause;
        for index in 0..self.configurations.len() {
            rest = rest.min(self.inject(index, authorities, now).await);
        }
        rest
    }

    /// Serves what the Secret holds, if it can be served.
    fn serve(&mut self, contents: &Contents, now: SystemTime) -> Reading {
        let mut reading = Reading::of(contents, now);
        let is_same = self.served.as_ref().is_some_and(|served| {
            served.tls_crt == contents.tls_crt && served.tls_key == contents.tls_key
        });
        let Some(leaf) = &reading.leaf else { return reading };
        if !is_same {
            if let Err(error) = self.serving.serve(&contents.tls_crt, &contents.tls_key) {
                tracing::error!(target: LOGGER, secret = SECRET, error = %Chain(&*error),
                    "the certificate of the Secret cannot be served"
                );
                reading.leaf = None;
                return reading;
            }
            let (serial, authority) = (&leaf.certificate.serial, &leaf.authority.serial);
            tracing::info!(target: LOGGER, secret = SECRET, %serial, %authority,
                days = (leaf.certificate.not_after - seconds(now)) / (24 * 60 * 60),
                "certificate of the Secret is served"
            );
        }
        self.served = Some(contents.clone());
        reading
    }

    /// Writes the Secret where it should be another.
    async fn renew(
        &mut self,
        secret: Option<&Secret>,
        contents: &Contents,
        now: SystemTime,
    ) -> Result<Renewal, String> {
        let annotations = secret.and_then(|secret| secret.metadata.annotations.as_ref());
        if annotations.is_some_and(|annotations| annotations.contains_key(CERT_MANAGER)) {
            if !std::mem::replace(&mut self.logged_cert_manager, true) {
                tracing::info!(target: LOGGER, secret = SECRET,
                    "cert-manager looks after the Secret, which is served and not written"
                );
            }
            return Ok(Renewal::Rests(Duration::MAX));
        }
        let trusted_for = self.first_trusted_for(contents, now);
        let before = self.served.as_ref().filter(|before| *before != contents);
        // A key that is not the certificate's is found out when it is served only.
        let spoilt = Contents { tls_crt: Vec::new(), tls_key: Vec::new(), ..contents.clone() };
        let is_served = self.served.as_ref().is_some_and(|served| served == contents);
        let usable = if is_served { contents } else { &spoilt };
        let next = self
            .rules
            .next(usable, before, now, trusted_for)
            .map_err(|error| format!("no certificate for {:?}: {error}", self.rules.names))?;
        let Some(wanted) = next.write else {
            return Ok(Renewal::Rests(next.again.unwrap_or(Duration::MAX)));
        };
        let written = match secret {
            None => {
                let made = Secret {
                    metadata: ObjectMeta { name: Some(SECRET.to_owned()), ..ObjectMeta::default() },
                    data: Some(wanted.into_data()),
                    ..Secret::default()
                };
                let params = PostParams {
                    field_manager: Some(FIELD_MANAGER.to_owned()),
                    ..PostParams::default()
                };
                self.secrets.create(&params, &made).await
            }
            Some(secret) => {
                let body = json!({
                    "metadata": { "resourceVersion": secret.metadata.resource_version },
                    "data": wanted.into_data(),
                });
                let params = PatchParams {
                    field_manager: Some(FIELD_MANAGER.to_owned()),
                    ..PatchParams::default()
                };
                self.secrets.patch(SECRET, &params, &Patch::Merge(body)).await
            }
        };
        match written {
            Ok(secret) => {
                tracing::info!(target: LOGGER, secret = SECRET, "certificate made or renewed");
                Ok(Renewal::Written(Box::new(secret)))
            }
            // Another replica was faster; its certificate is on its way here.
            Err(Error::Api(status)) if status.code == 409 => Ok(Renewal::Rests(BACKOFF[1])),
            Err(error) => Err(Chain(&error).to_string()),
        }
    }

    /// For how long every configuration has been seen to trust the first authority of the Secret.
    fn first_trusted_for(&mut self, contents: &Contents, now: SystemTime) -> Option<Duration> {
        let Reading { authorities, .. } = Reading::of(contents, now);
        let first = authorities.first().filter(|first| {
            let mut configurations = self.configurations.iter();
            configurations.all(|configuration| configuration.seen.trusts(first) == Some(true))
        });
        self.trusted = first.map(|first| match self.trusted.take() {
            Some((known, since)) if *known == *first.der => (known, since),
            _ => (first.der.to_vec(), Instant::now()),
        });
        self.trusted.as_ref().map(|(_, since)| since.elapsed())
    }

    /// Gives a configuration the authorities; returns how long that lasts at most.
    async fn inject(
        &mut self,
        index: usize,
        authorities: &[crate::authority::Certificate],
        now: SystemTime,
    ) -> Duration {
        let leads = self.leadership.lasts();
        let Some(configuration) = self.configurations.get_mut(index) else { return Duration::MAX };
        let Configuration { api, name, seen, wrong, resource, forbidden, backoff } = configuration;
        let Observed::Present(stored) = &*seen else { return Duration::MAX };
        let Ok(object) = &stored.object else { return Duration::MAX };
        let keep_kubemods = KUBEMOD.contains(&name.as_str());
        let missing = bundles::missing(object, authorities, keep_kubemods, seconds(now));
        if missing.is_empty() {
            *wrong = None;
            return Duration::MAX;
        }
        let since = wrong.get_or_insert_with(Instant::now).elapsed();
        if !leads && since < LEADERS_CHANCE {
            return LEADERS_CHANCE - since;
        }
        let params =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let body = bundles::patch(stored, &missing);
        let kind = &resource.kind;
        match api.patch(name, &params, &Patch::Strategic(body)).await {
            Ok(stored) => {
                let webhooks = missing.len();
                tracing::info!(target: LOGGER, kind, name, webhooks, "authorities written");
                *seen = Observed::Present(stored);
                *wrong = None;
                *forbidden = false;
                *backoff = Backoff::new(BACKOFF);
                Duration::ZERO
            }
            // It has changed or is gone; its watch will report that.
            Err(Error::Api(status)) if matches!(status.code, 404 | 409) => BACKOFF[1],
            Err(error) => {
                *forbidden = is_forbidden(&error);
                let help = forbidden.then(|| permission(resource, name)).unwrap_or_default();
                tracing::error!(target: LOGGER, kind, name, error = %Chain(&error), help,
                    "authorities not written, trying again"
                );
                backoff.pause()
            }
        }
    }

    /// Sets for the probes whether the API server can reach the webhooks, and logs that once.
    fn set_reachable(&mut self) {
        if !self.is_webhook {
            return;
        }
        let reachable = self.reachable();
        let reported = reachable.as_ref().err().cloned();
        if reported != self.reported {
            match &reported {
                Some(reason) => tracing::info!(target: LOGGER, reason, "webhooks not ready"),
                None => tracing::info!(target: LOGGER, "the certificate is served and trusted"),
            }
            self.reported = reported;
        }
        self.serving.set_reachable(reachable);
    }

    fn reachable(&self) -> Result<(), String> {
        let Some(served) = &self.served else {
            return Err(format!("no certificate in Secret `{}/{SECRET}` yet", self.namespace));
        };
        let Some(leaf) = Reading::of(served, SystemTime::now()).leaf else {
            return Err(format!(
                "the certificate of Secret `{}/{SECRET}` has expired",
                self.namespace
            ));
        };
        for configuration in &self.configurations {
            match configuration.seen.trusts(&leaf.authority) {
                Some(true) => {}
                Some(false) => return Err(configuration.reason("does not trust the certificate")),
                None => return Err(configuration.reason("not read")),
            }
        }
        Ok(())
    }
}

/// How the Secret was brought in line.
enum Renewal {
    Written(Box<Secret>),
    /// Nothing is to be done for so long.
    Rests(Duration),
}

fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// The configurations that lead to what this process serves, by kind and name, each once (CR-2).
fn configurations<'a>(
    operations: &Operations,
    config: &'a ClusterCertificates,
) -> impl Iterator<Item = (&'static str, String)> + use<'a> {
    const VALIDATING: &str = "ValidatingWebhookConfiguration";
    const MUTATING: &str = "MutatingWebhookConfiguration";
    let (validates, mutates) =
        (operations.has(Operation::Webhook), operations.has(Operation::MutationWebhook));
    let [kubemod_validating, kubemod_mutating] = KUBEMOD;
    let own = |applies: bool, kind, name: &str| applies.then(|| ((kind, name.to_owned()), ()));
    let mut all: BTreeMap<(&'static str, String), ()> = BTreeMap::new();
    all.extend(own(validates, VALIDATING, &config.validating));
    all.extend(own(mutates, MUTATING, &config.mutating));
    all.extend(own(validates, VALIDATING, kubemod_validating));
    all.extend(own(mutates, MUTATING, kubemod_mutating));
    for (kind, names) in
        [(VALIDATING, &config.additional_validating), (MUTATING, &config.additional_mutating)]
    {
        all.extend(names.iter().map(|name| ((kind, name.clone()), ())));
    }
    all.into_keys()
}

fn is_forbidden(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 403)
}

/// Sends what a watch of one object sees, and that it may not be seen, until the receiver is dropped.
async fn follow<K>(
    api: Api<K>,
    name: String,
    seen: impl Fn(Option<K>) -> Seen,
    forbidden: impl Fn() -> Option<Seen>,
    events: mpsc::Sender<Seen>,
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut changes = watched(api, only, |object| object);
    while let Some(change) = changes.next().await {
        let seen = match change {
            Change::All(mut all) => Some(seen(all.pop())),
            Change::Applied(object) => Some(seen(Some(object))),
            Change::Deleted(_) => Some(seen(None)),
            Change::Failed(
                watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error),
            ) if is_forbidden(&error) => forbidden(),
            Change::Failed(_) => None,
        };
        if let Some(seen) = seen
            && events.send(seen).await.is_err()
        {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_configurations_are_written() {
        let config = ClusterCertificates {
            additional_validating: vec![
                "extra".to_owned(),
                "gatekeeper-validating-webhook-configuration".to_owned(),
            ],
            ..ClusterCertificates::default()
        };
        let names = |operations: &[Operation]| -> Vec<String> {
            let operations = operations.iter().copied().collect();
            configurations(&operations, &config).map(|(_, name)| name).collect()
        };
        let gatekeepers = "gatekeeper-validating-webhook-configuration";
        assert_eq!(
            names(&[]),
            [
                "gatekeeper-mutating-webhook-configuration",
                "kubemod-mutating-webhook-configuration",
                "extra",
                gatekeepers,
                "kubemod-validating-webhook-configuration",
            ]
        );
        let kubemods = "kubemod-validating-webhook-configuration";
        assert_eq!(names(&[Operation::Webhook]), ["extra", gatekeepers, kubemods]);
        assert_eq!(names(&[Operation::Audit]), ["extra", gatekeepers]);
    }
}
