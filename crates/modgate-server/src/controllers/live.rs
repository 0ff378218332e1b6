//! Objects asked for while a request is decided.

use std::{sync::mpsc, time::Duration};

use futures_util::future::BoxFuture;
use kube::{
    Api, Client,
    api::{ApiResource, Patch, PatchParams},
};
use modgate_engine::{HostError, api::templates, modrule::PodBinding};
use modgate_value::Value;
use tokio::{runtime::Handle, task::block_in_place};

use super::{kinds, object::Stored};
use crate::{
    policies::{Lookup, Unbound},
    providers::may_block,
    telemetry::Chain,
};

/// How long a request waits for an object. Webhooks have 10 s in all, or 3 s where they are
/// configured as Gatekeeper's.
const PATIENCE: Duration = Duration::from_secs(1);
/// How much longer the answer is waited for; its own error is the better one.
const GRACE: Duration = Duration::from_millis(250);

/// The cluster, for what its watches have not told of: a Namespace that was made a moment before the
/// request, most often.
#[derive(Clone)]
pub(crate) struct Live {
    client: Client,
    runtime: Handle,
}

impl Live {
    pub(crate) fn new(client: Client, runtime: Handle) -> Self {
        Self { client, runtime }
    }

    fn ask(&self, resource: ApiResource, name: &str) -> Result<Option<Value>, HostError> {
        let api: Api<Stored> = Api::all_with(self.client.clone(), &resource);
        let (reply, answer) = mpsc::sync_channel(1);
        let asked = name.to_owned();
        self.runtime.spawn(async move {
            let answered = match tokio::time::timeout(PATIENCE, api.get_opt(&asked)).await {
                Ok(answered) => answered.map_err(|error| error.to_string()),
                Err(_) => Err("no answer of the API server in time".to_owned()),
            };
            // Nobody is left to hear it if the request gave up.
            let _ = reply.send(answered);
        });
        let (plural, kind) = (&resource.plural, &resource.kind);
        let stored = answer
            .recv_timeout(PATIENCE + GRACE)
            .unwrap_or_else(|_| Err("no answer in time".to_owned()))
            .map_err(|error| HostError(format!("cannot get {plural} \"{name}\": {error}")))?;
        stored
            .map(|stored| stored.of_kind(&resource).object)
            .transpose()
            .map_err(|error| HostError(format!("{kind} {name} cannot be read: {error}")))
    }
}

impl Lookup for Live {
    fn get(&self, kind: &str, name: &str) -> Result<Option<Value>, HostError> {
        let resource = match kind {
            "Namespace" => kinds::namespaces(),
            "Node" => kinds::nodes(),
            "CustomResourceDefinition" => kinds::definitions(),
            templates::KIND => kinds::templates(),
            _ => return Ok(None),
        };
        // Also `namespaces/a/../b` would be a path.
        if name.is_empty() || name.contains(['/', '?', '#', '%']) || name.starts_with('.') {
            return Ok(None);
        }
        if may_block() {
            block_in_place(|| self.ask(resource, name))
        } else {
            self.ask(resource, name)
        }
    }

    fn bind<'a>(&'a self, binding: &'a PodBinding) -> BoxFuture<'a, Result<(), Unbound>> {
        Box::pin(self.name_node(binding))
    }
}

impl Live {
    async fn name_node(&self, binding: &PodBinding) -> Result<(), Unbound> {
        let resource = kinds::pods();
        let api: Api<Stored> =
            Api::namespaced_with(self.client.clone(), &binding.namespace, &resource);
        let unread = |cause: String| Unbound { reason: "failed to obtain pod", cause };
        let pod =
            api.get(&binding.name).await.map_err(|error| unread(Chain(&error).to_string()))?;
        let pod = pod.of_kind(&resource).object.map_err(unread)?;
        let Some(named) = binding.update(&pod) else { return Ok(()) };
        let annotations = named.path(&["metadata", "annotations"]).cloned().unwrap_or_default();
        let metadata: Value = [("annotations", annotations)].into_iter().collect();
        let patch: Value = [("metadata", metadata)].into_iter().collect();
        // The reason is KubeMod's for this, too.
        let unnamed = |error: kube::Error| {
            let what = "failed to inject annotation ref.kubemod.io/nodename into pod";
            unread(format!("{what}: {}", Chain(&error)))
        };
        api.patch(&binding.name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .map(drop)
            .map_err(unnamed)
    }
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").finish_non_exhaustive()
    }
}
