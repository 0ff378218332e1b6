//! The installation in a cluster: its Pods, and a token for its live page.

use anyhow::{Context as _, Result, bail};
use modgate_cluster::remote::{Place, Remote, Resource};

use super::{
    ConnectionArgs, Wanted,
    api::{items, text},
};

/// The label of its Pods.
const PODS: &str = "app.kubernetes.io/name=modgate";
/// How long a token of the ServiceAccount holds.
const TOKEN_SECONDS: u32 = 3_600;
/// The Lease of processes that do everything.
const LEASE: &str = "modgate";

/// A Pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pod {
    pub(super) name: String,
    ready: bool,
}

/// The Pods of an installation, and which of them leads.
pub(super) struct Installation {
    remote: Remote,
    pods: Vec<Pod>,
    leader: String,
}

impl Installation {
    pub(super) fn find(args: &ConnectionArgs) -> Result<Self> {
        let env = |name: &str| std::env::var(name).ok();
        let place = Place::find(args.kubeconfig.as_deref(), args.context.as_deref(), &env);
        let remote = Remote::connect(&place)?;
        let namespace = &args.modgate_namespace;
        let pods = Resource { namespaced: true, ..Resource::of_cluster("", "v1", "pods") };
        let listed = remote.labelled(&pods, namespace, PODS);
        let listed =
            listed.with_context(|| format!("cannot list Pods of namespace {namespace}"))?;
        let pods: Vec<_> = listed
            .iter()
            .map(|pod| {
                let conditions = items(pod, &["status", "conditions"]);
                let mut ready = conditions
                    .filter(|it| text(it, &["type"]) == "Ready" && text(it, &["status"]) == "True");
                let name = text(pod, &["metadata", "name"]).to_owned();
                Pod { name, ready: ready.next().is_some() }
            })
            .collect();
        if pods.is_empty() {
            bail!(
                "there is no Pod of modgate in namespace {namespace}; give its namespace with --modgate-namespace"
            );
        }
        let leases = Resource {
            namespaced: true,
            ..Resource::of_cluster("coordination.k8s.io", "v1", "leases")
        };
        // Without it, another Pod answers, and has no audits to show.
        let lease = remote.get(&leases, namespace, LEASE).ok().flatten();
        let holder = lease.map(|lease| text(&lease, &["spec", "holderIdentity"]).to_owned());
        Ok(Self { remote, pods, leader: holder.unwrap_or_default() })
    }

    /// The Pods that are wanted: ready ones, unless there is none.
    pub(super) fn pods(&self, wanted: Wanted) -> Vec<Pod> {
        let mut pods: Vec<_> = self.pods.iter().filter(|pod| pod.ready).cloned().collect();
        if pods.is_empty() {
            pods.clone_from(&self.pods);
        }
        if wanted == Wanted::Leader {
            pods.sort_by_key(|pod| pod.name != self.leader);
            pods.truncate(1);
        }
        pods
    }

    /// The token for the page: given, the user's own, or one of the ServiceAccount.
    pub(super) fn token(&self, args: &ConnectionArgs) -> Result<String> {
        if let Some(token) = &args.token {
            return Ok(token.clone());
        }
        if let Some(token) = self.remote.token()? {
            return Ok(token);
        }
        let (namespace, account) = (&args.modgate_namespace, &args.service_account);
        let token = self.remote.request_token(namespace, account, TOKEN_SECONDS);
        token.with_context(|| {
            format!(
                "the kubeconfig has no token, and ServiceAccount {namespace}/{account} gives none; create it \
                 (chart value `ui.enabled`), or give --token"
            )
        })
    }
}
