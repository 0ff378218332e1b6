//! Objects asked for while a request is decided.

mod bounds;

use std::{
    sync::mpsc,
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use kube::{
    Api, Client,
    api::{ApiResource, Patch, PatchParams},
};
use modgate_engine::{HostError, api::templates, modrule::PodBinding};
use modgate_value::Value;
use tokio::{runtime::Handle, task::block_in_place};

use self::bounds::Bounds;
use super::{kinds, object::Stored};
use crate::{
    policies::{Lookup, Unbound},
    providers::may_block,
    telemetry::Chain,
};

/// How much longer the answer is waited for; its own error is the better one.
const GRACE: Duration = Duration::from_millis(250);

/// The cluster, for what its watches have not told of: a Namespace that was made a moment before the
/// request, most often.
#[derive(Clone)]
pub(crate) struct Live {
    client: Client,
    runtime: Handle,
    /// How long a request waits for an object.
    patience: Duration,
    bounds: Bounds,
}

impl Live {
    pub(crate) fn new(client: Client, runtime: Handle, patience: Duration) -> Self {
        Self { client, runtime, patience, bounds: Bounds::default() }
    }

    fn ask(&self, resource: ApiResource, name: &str) -> Result<Option<Value>, HostError> {
        let api: Api<Stored> = Api::all_with(self.client.clone(), &resource);
        let (reply, answer) = mpsc::sync_channel(1);
        let (asked, patience) = (name.to_owned(), self.patience);
        self.runtime.spawn(async move {
            let answered = match tokio::time::timeout(patience, api.get_opt(&asked)).await {
                Ok(answered) => answered.map_err(|error| error.to_string()),
                Err(_) => Err("no answer of the API server in time".to_owned()),
            };
            // Nobody is left to hear it if the request gave up.
            let _ = reply.send(answered);
        });
        let (plural, kind) = (&resource.plural, &resource.kind);
        let stored = answer
            .recv_timeout(patience + GRACE)
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
        if !is_name(name) {
            return Ok(None);
        }
        // Templates and their CRDs may come at any moment, and no watch says so first.
        let is_remembered = matches!(kind, "Namespace" | "Node");
        if is_remembered && self.bounds.is_unknown(kind, name, Instant::now()) {
            return Ok(None);
        }
        let Some(_question) = self.bounds.ask() else {
            let message = format!("cannot get {kind} \"{name}\": too many objects are asked for");
            return Err(HostError(message));
        };
        let found = if may_block() {
            block_in_place(|| self.ask(resource, name))
        } else {
            self.ask(resource, name)
        };
        if is_remembered && matches!(found, Ok(None)) {
            self.bounds.remember(kind, name, Instant::now());
        }
        found
    }

    fn bind<'a>(&'a self, binding: &'a PodBinding) -> BoxFuture<'a, Result<(), Unbound>> {
        Box::pin(self.name_node(binding))
    }
}

impl Live {
    async fn name_node(&self, binding: &PodBinding) -> Result<(), Unbound> {
        let unread = |cause: String| Unbound { reason: "failed to obtain pod", cause };
        if !is_name(&binding.namespace) || !is_name(&binding.name) {
            return Err(unread("its namespace or name is that of no object".to_owned()));
        }
        let resource = kinds::pods();
        let api: Api<Stored> =
            Api::namespaced_with(self.client.clone(), &binding.namespace, &resource);
        let pod =
            api.get(&binding.name).await.map_err(|error| unread(Chain(&error).to_string()))?;
        let pod = pod.of_kind(&resource).object.map_err(unread)?;
        let Some(named) = binding.update(&pod) else { return Ok(()) };
        let patch = annotations_patch(&pod, &named);
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

/// Whether a text may stand in a path as the name of an object: `namespaces/a/../b` would be another.
fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains(['/', '?', '#', '%']) && !text.starts_with('.')
}

/// A merge patch with the annotations that `after` has and `before` has not: whatever else changes
/// meanwhile stays.
fn annotations_patch(before: &Value, after: &Value) -> Value {
    let of = |pod: &Value| {
        let annotations = pod.path(&["metadata", "annotations"]).and_then(Value::as_object);
        annotations.cloned().unwrap_or_default()
    };
    let before = of(before);
    let after = of(after);
    let new = after.iter().filter(|(name, text)| before.get(name) != Some(text)).cloned();
    let annotations: Value = new.collect();
    let metadata: Value = [("annotations", annotations)].into_iter().collect();
    [("metadata", metadata)].into_iter().collect()
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::controllers::context::scripted;

    fn binding(namespace: &str, name: &str) -> PodBinding {
        PodBinding { namespace: namespace.into(), name: name.into(), node: "node-7".into() }
    }

    /// What is asked of a cluster whose one Pod wants the name of its node.
    async fn asked(binding: PodBinding) -> (Vec<String>, Result<(), Unbound>) {
        const POD: &str = r#"{"metadata": {"name": "p", "namespace": "n", "annotations":
            {"ref.kubemod.io/inject-node-ref": "true", "other": "as it was read"}}}"#;
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        let client = scripted::client(move |method, path, body| {
            log.lock().expect("no panic").push(format!("{method} {path} {body}"));
            (200, POD.to_owned())
        });
        let live = Live::new(client, Handle::current(), Duration::from_secs(60));
        let named = live.name_node(&binding).await;
        let asked = asked.lock().expect("no panic").clone();
        (asked, named)
    }

    /// Forged requests name what does not exist: the API server is asked once.
    #[tokio::test(flavor = "multi_thread")]
    async fn unknown_names_are_asked_for_once() {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        let client = scripted::client(move |_, path, _| {
            log.lock().expect("no panic").push(path.to_owned());
            let missing =
                r#"{"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}"#;
            (404, missing.to_owned())
        });
        let live = Live::new(client, Handle::current(), Duration::from_secs(60));
        for kind in ["Namespace", "Node", "Namespace", "Node", templates::KIND, templates::KIND] {
            assert_eq!(live.get(kind, "nowhere").map_err(|error| error.to_string()), Ok(None));
        }
        let asked = asked.lock().expect("no panic").clone();
        assert_eq!(asked.len(), 4, "{asked:?}");
    }

    #[tokio::test]
    async fn only_the_name_of_the_node_is_written() {
        let (asked, named) = asked(binding("n", "p")).await;
        assert!(named.is_ok());
        assert_eq!(
            asked,
            [
                "GET /api/v1/namespaces/n/pods/p ",
                r#"PATCH /api/v1/namespaces/n/pods/p? {"metadata":{"annotations":{"ref.kubemod.io/nodename":"node-7"}}}"#,
            ]
        );
    }

    #[tokio::test]
    async fn a_binding_reaches_no_other_path() {
        for (namespace, name) in [("n", "../secrets/s"), ("n/../m", "p"), ("n", "p?dryRun=All")] {
            let (asked, named) = asked(binding(namespace, name)).await;
            assert_eq!(asked, [""; 0], "{namespace} {name}");
            assert_eq!(named.expect_err("no Pod").reason, "failed to obtain pod");
        }
    }
}
