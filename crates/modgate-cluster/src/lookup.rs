//! Looking up objects while a request is decided.

mod access;
mod bounds;

use std::{
    sync::mpsc,
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::{
    Api, Client,
    api::{ApiResource, Patch, PatchParams, PostParams},
};
use modgate_engine::{
    HostError,
    admissionpolicy::{Access, Action},
    api::templates,
    modrule::PodBinding,
};
use modgate_http::Chain;
use modgate_policies::{ClusterLookup, NotBound, may_block};
use modgate_value::Value;
use tokio::{runtime::Handle, task::block_in_place};

use self::bounds::Bounds;
use super::{kinds, object::Stored};

/// How much longer the answer is waited for; its own error is the better one.
const GRACE: Duration = Duration::from_millis(250);

/// Asks the API server for objects that no watch has reported: most often a Namespace that was made a
/// moment before the request.
#[derive(Clone)]
pub struct ApiLookup {
    client: Client,
    runtime: Handle,
    /// How long a request waits for an object.
    timeout: Duration,
    bounds: Bounds,
}

impl ApiLookup {
    /// Looks up on `runtime`; a request waits for at most `timeout`.
    pub fn new(client: Client, runtime: Handle, timeout: Duration) -> Self {
        Self { client, runtime, timeout, bounds: Bounds::default() }
    }

    fn ask(&self, resource: ApiResource, name: &str) -> Result<Option<Value>, HostError> {
        let api: Api<Stored> = Api::all_with(self.client.clone(), &resource);
        let asked = name.to_owned();
        let (plural, kind) = (&resource.plural, &resource.kind);
        let stored = self.answer(async move { api.get_opt(&asked).await }).map_err(|error| {
            HostError::Unread(format!("cannot get {plural} \"{name}\": {error}"))
        })?;
        stored
            .map(|stored| stored.of_kind(&resource).object)
            .transpose()
            .map_err(|error| HostError::Unread(format!("{kind} {name} cannot be read: {error}")))
    }

    /// The answer to a request, or why there is none in time.
    fn answer<T: Send + 'static>(
        &self,
        request: impl Future<Output = kube::Result<T>> + Send + 'static,
    ) -> Result<T, String> {
        let (reply, answer) = mpsc::sync_channel(1);
        let timeout = self.timeout;
        self.runtime.spawn(async move {
            let answered = match tokio::time::timeout(timeout, request).await {
                Ok(answered) => answered.map_err(|error| error.to_string()),
                Err(_) => Err("no answer of the API server in time".to_owned()),
            };
            // Sending fails if the evaluation gave up.
            let _ = reply.send(answered);
        });
        let wait = || {
            let answered = answer.recv_timeout(timeout + GRACE);
            answered.unwrap_or_else(|_| Err("no answer in time".to_owned()))
        };
        if may_block() { block_in_place(wait) } else { wait() }
    }
}

impl ClusterLookup for ApiLookup {
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
            let message = format!("cannot get {kind} \"{name}\": too many objects are being read");
            return Err(HostError::Unread(message));
        };
        let found = self.ask(resource, name);
        if is_remembered && matches!(found, Ok(None)) {
            self.bounds.remember(kind, name, Instant::now());
        }
        found
    }

    fn access(&self, action: &Action<'_>) -> Result<Access, HostError> {
        let unread =
            |error| HostError::Unread(format!("cannot create a SubjectAccessReview: {error}"));
        let Some(_question) = self.bounds.ask() else {
            return Err(unread("too many objects are being read".to_owned()));
        };
        let api: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let review = access::review(action);
        let answer = self.answer(async move { api.create(&PostParams::default(), &review).await });
        answer.and_then(access::access).map_err(unread)
    }

    fn bind<'a>(&'a self, binding: &'a PodBinding) -> BoxFuture<'a, Result<(), NotBound>> {
        Box::pin(self.name_node(binding))
    }
}

impl ApiLookup {
    /// Writes only what the Pod and the Node as they are now bear out: what reaches the webhook is not
    /// known to come from the API server.
    async fn name_node(&self, binding: &PodBinding) -> Result<(), NotBound> {
        let unread = |cause: String| NotBound { reason: "failed to obtain pod", cause };
        if ![&binding.namespace, &binding.name, &binding.node].into_iter().all(|name| is_name(name))
        {
            return Err(unread("the binding has a name that no object can have".to_owned()));
        }
        let resource = kinds::pods();
        let api: Api<Stored> =
            Api::namespaced_with(self.client.clone(), &binding.namespace, &resource);
        let pod =
            api.get(&binding.name).await.map_err(|error| unread(Chain(&error).to_string()))?;
        let pod = pod.of_kind(&resource).object.map_err(unread)?;
        let named = binding.update(&pod).map_err(|error| unread(error.to_string()))?;
        let Some(named) = named else { return Ok(()) };
        let nodes: Api<Stored> = Api::all_with(self.client.clone(), &kinds::nodes());
        match nodes.get_opt(&binding.node).await {
            Ok(Some(_)) => {}
            Ok(None) => return Err(unread(format!("there is no node {}", binding.node))),
            Err(error) => return Err(unread(Chain(&error).to_string())),
        }
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

/// Whether a text is the name of some object, a DNS subdomain: `namespaces/a/../b` would lead elsewhere.
fn is_name(text: &str) -> bool {
    const MAX: usize = 253;
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    !text.is_empty() && text.len() <= MAX && text.chars().all(is_part) && !text.starts_with('.')
}

/// A merge patch with the annotations that `after` has and `before` has not: whatever else changes
/// meanwhile stays. The uid keeps it from another Pod of that name.
fn annotations_patch(before_pod: &Value, after_pod: &Value) -> Value {
    let of = |pod: &Value| {
        let annotations = pod.path(&["metadata", "annotations"]).and_then(Value::as_object);
        annotations.cloned().unwrap_or_default()
    };
    let (before, after) = (of(before_pod), of(after_pod));
    let new = after.iter().filter(|(name, text)| before.get(name) != Some(text)).cloned();
    let annotations: Value = new.collect();
    let uid = before_pod.path(&["metadata", "uid"]).cloned();
    let metadata = [("annotations", annotations)].into_iter();
    let metadata: Value = metadata.chain(uid.map(|uid| ("uid", uid))).collect();
    [("metadata", metadata)].into_iter().collect()
}

impl std::fmt::Debug for ApiLookup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiLookup").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::context::scripted;

    fn binding(namespace: &str, name: &str) -> PodBinding {
        let (namespace, name) = (namespace.into(), name.into());
        PodBinding { namespace, name, node: "node-7".into(), uid: None }
    }

    /// A Pod that wants the name of its node.
    fn pod(spec: &str) -> String {
        format!(
            r#"{{"metadata": {{"name": "p", "namespace": "n", "uid": "u-p", "annotations":
            {{"ref.kubemod.io/inject-node-ref": "true", "other": "as it was read"}}}},
            "spec": {spec}}}"#
        )
    }

    /// A cluster of one Node and this Pod, and the requests that it receives.
    fn cluster(pod: String) -> (ApiLookup, Arc<Mutex<Vec<String>>>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        let client = scripted::client(move |method, path, body| {
            log.lock().expect("no panic").push(format!("{method} {path} {body}"));
            match path.split_once("/nodes/") {
                None => (200, pod.clone()),
                Some((_, "node-7")) => (200, r#"{"metadata": {"name": "node-7"}}"#.to_owned()),
                Some(_) => {
                    let status = r#"{"kind": "Status", "code": 404, "reason": "NotFound",
                        "status": "Failure", "message": "nodes not found"}"#;
                    (404, status.to_owned())
                }
            }
        });
        (ApiLookup::new(client, Handle::current(), Duration::from_secs(60)), asked)
    }

    /// The requests that a binding causes.
    async fn asked(binding: PodBinding, pod: String) -> (Vec<String>, Result<(), NotBound>) {
        let (live, log) = cluster(pod);
        let named = live.name_node(&binding).await;
        let asked = log.lock().expect("no panic").clone();
        (asked, named)
    }

    /// Forged requests name what does not exist: the API server receives one request for each.
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
        let live = ApiLookup::new(client, Handle::current(), Duration::from_secs(60));
        for kind in ["Namespace", "Node", "Namespace", "Node", templates::KIND, templates::KIND] {
            assert_eq!(live.get(kind, "nowhere").map_err(|error| error.to_string()), Ok(None));
        }
        let asked = asked.lock().expect("no panic").clone();
        assert_eq!(asked.len(), 4, "{asked:?}");
    }

    #[tokio::test]
    async fn only_the_name_of_the_node_is_written() {
        for spec in ["{}", r#"{"nodeName": "node-7"}"#] {
            let (asked, named) = asked(binding("n", "p"), pod(spec)).await;
            assert!(named.is_ok());
            assert_eq!(
                asked,
                [
                    "GET /api/v1/namespaces/n/pods/p ",
                    "GET /api/v1/nodes/node-7 ",
                    r#"PATCH /api/v1/namespaces/n/pods/p? {"metadata":{"annotations":{"ref.kubemod.io/nodename":"node-7"},"uid":"u-p"}}"#,
                ]
            );
        }
    }

    /// Every client that reaches the webhook may send a binding.
    #[tokio::test]
    async fn what_the_cluster_does_not_bear_out_is_not_written() {
        let of_node = |node: &str| PodBinding { node: node.into(), ..binding("n", "p") };
        let of_uid = |uid: &str| PodBinding { uid: Some(uid.into()), ..binding("n", "p") };
        for (binding, spec, cause) in [
            (of_node("node-8"), "{}", Some("there is no node node-8")),
            (of_node("whatever the attacker likes"), "{}", Some("a name that no object can have")),
            (of_node("../namespaces/n"), "{}", Some("a name that no object can have")),
            (binding("n", "p"), r#"{"nodeName": "node-1"}"#, Some("bound to another node")),
            (of_uid("u-other"), "{}", Some("another pod of that name")),
            (of_uid("u-p"), "{}", None),
        ] {
            let (asked, named) = asked(binding.clone(), pod(spec)).await;
            let wrote = asked.iter().any(|line| line.starts_with("PATCH"));
            assert_eq!(wrote, cause.is_none(), "{binding:?} {asked:?}");
            match (named, cause) {
                (Err(unbound), Some(cause)) => {
                    assert_eq!(unbound.reason, "failed to obtain pod");
                    assert!(unbound.cause.contains(cause), "{}", unbound.cause);
                }
                (named, cause) => assert!(named.is_ok() && cause.is_none(), "{binding:?}"),
            }
        }
    }

    #[tokio::test]
    async fn a_binding_reaches_no_other_path() {
        for (namespace, name) in [("n", "../secrets/s"), ("n/../m", "p"), ("n", "p?dryRun=All")] {
            let (asked, named) = asked(binding(namespace, name), pod("{}")).await;
            assert_eq!(asked, [""; 0], "{namespace} {name}");
            assert_eq!(named.expect_err("no Pod").reason, "failed to obtain pod");
        }
    }
}
